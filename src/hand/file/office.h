/* The text of office documents, in a simple Markdown: headings, paragraphs, tables, slides. */
#ifndef TN_HAND_FILE_OFFICE_H
#define TN_HAND_FILE_OFFICE_H

#include "base/error.h"
#include "hand/file/text.h"

/* Appends the text of a .docx, .xlsx or .pptx file whose bytes are given; stops when out is full,
 * which is no failure.  -1 with err: TN_E_UNSUPPORTED for other extensions, TN_E_INVALID for broken
 * files. */
int office_text(const char *extension, struct tn_slice bytes, struct tn_buf *out,
                struct tn_error *err);

#endif
