/* A build context as a tar that is written while it is sent: the Dockerfile, and the files of a
 * directory.  No part of it is held in memory or on disk. */
#ifndef TN_IMAGE_CONTEXT_H
#define TN_IMAGE_CONTEXT_H

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct tn_context;

/* directory may be NULL: the Dockerfile alone; what of it is sent says walk.h.  NULL with err. */
struct tn_context *tn_context_new(const char *dockerfile, const char *directory,
                                  struct tn_error *err);
void tn_context_free(struct tn_context *c);
static inline void tn_guard_context(struct tn_context **c)
{
    tn_context_free(*c);
}
#define tn_autocontext TN_CLEANUP(tn_guard_context)

/* The next bytes, 0 at the end, -1: as web/web.h wants it.  ctx is a struct tn_context. */
ssize_t tn_context_read(void *to, size_t n, void *ctx, struct tn_error *err);
/* From the beginning again. */
int tn_context_rewind(struct tn_context *c, struct tn_error *err);

/* The same as multipart text: gzip, then base64, as the remote builder wants it.  Takes over
 * nothing; source is read through. */
struct tn_packed;
struct tn_packed *tn_packed_new(struct tn_context *source);
void tn_packed_free(struct tn_packed *p);
ssize_t tn_packed_read(void *to, size_t n, void *ctx, struct tn_error *err);

#endif
