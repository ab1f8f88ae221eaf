/* The build context that a client has sent, a gzip'ed tar in a file, as it goes to an engine.
 *
 * Who let the client build has read the Dockerfile.  So that the engine builds by no other one, it
 * gets only entries of which every reader knows where they end, and after all of them the
 * Dockerfile as it was read: what comes last under a name is what counts, also where that name was
 * a link. */
#ifndef TN_IMAGE_UPLOAD_H
#define TN_IMAGE_UPLOAD_H

#include "base/buf.h"
#include "base/error.h"

struct tn_upload;

/* Reads it through for its Dockerfile, which out gets (its maximum is the limit).  TN_E_INVALID: it
 * has none, or has entries that could be read in two ways.  TN_E_TOO_LARGE: it has more than
 * 16 GiB, or takes longer than the deadline. */
int tn_upload_dockerfile(int fd, struct tn_buf *out, int64_t deadline, struct tn_error *err);

/* From the beginning of the file; fd is borrowed.  NULL with err. */
struct tn_upload *tn_upload_new(int fd, const char *dockerfile, struct tn_error *err);
void tn_upload_free(struct tn_upload *u);
/* The next bytes, not compressed; a tn_web_source_fn, ctx is a struct tn_upload. */
ssize_t tn_upload_read(void *to, size_t n, void *ctx, struct tn_error *err);

#endif
