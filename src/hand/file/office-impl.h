/* Between the files of office: the parts of a document and a walk through their XML. */
#ifndef TN_HAND_FILE_OFFICE_IMPL_H
#define TN_HAND_FILE_OFFICE_IMPL_H

#include "base/error.h"
#include "hand/file/text.h"
#include "hand/file/zip-archive.h"

/* Replaces part by the contents of one member; TN_E_NOT_FOUND when there is none. */
int office_part(struct zip_archive *z, const char *name, struct tn_buf *part, struct tn_error *err);

/* The member that relationship `id` of the part `owner` ("xl/workbook.xml") names, as its full
 * name. */
int office_related(struct zip_archive *z, const char *owner, const char *id, struct tn_buf *name,
                   struct tn_error *err);

/* One per format. */
int office_docx(struct zip_archive *z, struct tn_buf *out, struct tn_error *err);
int office_xlsx(struct zip_archive *z, struct tn_buf *out, struct tn_error *err);
int office_pptx(struct zip_archive *z, struct tn_buf *out, struct tn_error *err);

/* --- XML, as much of it as these documents use --------------------------------------------- */

enum xml_kind { XML_END, XML_OPEN, XML_CLOSE, XML_TEXT };

struct xml {
    struct tn_slice rest;
    enum xml_kind kind;
    struct tn_slice name;  /* of the element, without prefix */
    struct tn_slice attrs; /* of XML_OPEN, raw */
    struct tn_slice text;  /* of XML_TEXT, raw */
    bool verbatim;         /* text is CDATA: nothing to be decoded */
    bool close_next;       /* the element was <empty/> */
};

/* Moves on; XML_END at the end or where it is not XML any more. */
enum xml_kind xml_next(struct xml *x);
/* At an open or close event: is it this element? */
bool xml_is(const struct xml *x, const char *name);
/* Appends the text of the event, entities decoded and CR dropped. */
void xml_put_text(const struct xml *x, struct tn_buf *out);
/* Replaces value by the attribute; false when there is none.  The name is without prefix; ":id"
 * asks for one that has some prefix. */
bool xml_attr(const struct xml *x, const char *name, struct tn_buf *value);

/* Appends s as the text of a table cell: on one line, bars escaped. */
void office_put_cell(struct tn_buf *out, const struct tn_buf *s);
/* The line under the first row of a table. */
void office_put_rule(struct tn_buf *out, size_t columns);

#endif
