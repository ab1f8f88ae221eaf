/* Image references: [HOST[:PORT]/]PATH[:TAG][@ALGORITHM:DIGEST].
 *
 * The grammar is that of the distribution project.  The first part of a path is a host when it has
 * a dot or a colon, is "localhost" or in brackets, or has a capital letter; otherwise the reference
 * is one of docker.io, where a single name belongs to "library". */
#ifndef TN_IMAGE_REFERENCE_H
#define TN_IMAGE_REFERENCE_H

#include "base/buf.h"
#include "base/error.h"

struct tn_reference {
    char *host;   /* with its port, or NULL: none was given */
    char *path;   /* "library/debian" was given as such; "debian" stays "debian" */
    char *tag;    /* or NULL */
    char *digest; /* "sha256:...", or NULL */
};

/* -1 with err, which says what is wrong with it. */
int tn_reference_parse(const char *text, struct tn_reference *out, struct tn_error *err);
void tn_reference_done(struct tn_reference *r);
#define tn_autoreference TN_CLEANUP(tn_reference_done)

/* As it was given. */
void tn_reference_put(const struct tn_reference *r, struct tn_buf *out);
/* With everything that was left to the reader: docker.io/library/debian:latest. */
void tn_reference_put_full(const struct tn_reference *r, struct tn_buf *out);

#endif
