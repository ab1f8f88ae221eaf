/* multipart/form-data, as a stream: parts come one by one, their bytes are never held whole. */
#ifndef TN_NET_MULTIPART_H
#define TN_NET_MULTIPART_H

#include <sys/types.h>

#include "base/buf.h"
#include "base/error.h"

struct tn_multipart;

/* Where the body bytes come from: as read(2), 0 at the end, -1 with err. */
typedef ssize_t (*tn_source_fn)(void *ctx, void *to, size_t n, struct tn_error *err);

struct tn_part {
    char *name;     /* never NULL while a part is open */
    char *filename; /* as sent (slashes and all: the caller sanitises), or NULL */
    char *type;     /* content type or NULL */
};

/* content_type is the request's header.  NULL with err (415 for another type, 400 without
 * boundary). */
struct tn_multipart *tn_multipart_new(const char *content_type, tn_source_fn source, void *ctx,
                                      struct tn_error *err);
void tn_multipart_free(struct tn_multipart *m);
/* The form may have so many parts. */
void tn_multipart_allow(struct tn_multipart *m, int parts);
/* Moves to the next part (skipping what is left of this one): 1 with *part (borrowed until the next
 * call), 0 at the end, -1 with err.  Part headers are limited to 8 KiB, parts to 64 unless
 * tn_multipart_allow has said otherwise (TN_E_TOO_LARGE). */
int tn_multipart_next(struct tn_multipart *m, const struct tn_part **part, struct tn_error *err);
/* Bytes of this part: count, 0 at its end, -1 with err. */
ssize_t tn_multipart_read(struct tn_multipart *m, void *to, size_t n, struct tn_error *err);

#endif
