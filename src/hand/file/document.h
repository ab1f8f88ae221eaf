/* A text file in memory: its bytes, what they say, and how they say it. */
#ifndef TN_HAND_FILE_DOCUMENT_H
#define TN_HAND_FILE_DOCUMENT_H

#include "base/error.h"
#include "hand/file/encoding.h"
#include "hand/file/text.h"

struct document {
    enum encoding encoding;
    enum text_eol eol;
    struct tn_slice bytes; /* as on disk */
    struct tn_slice text;  /* UTF-8, line endings as on disk */
    struct tn_slice lf;    /* UTF-8, line endings all LF: what the client sees and searches */
    struct tn_buf on_disk, decoded, normal; /* what the three point into */
};

#define tn_autodocument TN_CLEANUP(document_done)

void document_init(struct document *d);
void document_done(struct document *d);

/* Takes the contents of on_disk (which the caller has filled) apart.  -1 with err when they cannot
 * be decoded. */
int document_parse(struct document *d, struct tn_error *err);
/* Makes `decoded` (which the caller has filled) the contents, to be stored in the encoding of
 * `like`.  -1 with err when that has no room for a character. */
int document_compose(struct document *d, const struct document *like, struct tn_error *err);

#endif
