/* Frames on a stream: a byte that says what it is, four bytes of length (the highest first), and so
 * many bytes.  What a hand sends of its processes (hand/process/routes.c) and a host reads. */
#ifndef TN_NET_FRAME_H
#define TN_NET_FRAME_H

#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

enum { TN_FRAME_HEAD = 5 };

/* The head of a frame with n bytes to follow. */
void tn_frame_head(unsigned char out[TN_FRAME_HEAD], char kind, uint32_t n);
/* A number in a frame: eight bytes, the highest first. */
void tn_frame_put_number(unsigned char out[8], uint64_t value);
uint64_t tn_frame_number(const unsigned char in[8]);

struct tn_frame_reader {
    struct tn_buf held; /* the beginning of a frame that is not complete */
    size_t max;
};
/* No frame has more than max bytes after its head. */
void tn_frame_reader_init(struct tn_frame_reader *r, size_t max);
void tn_frame_reader_done(struct tn_frame_reader *r);
/* A stream begins anew. */
void tn_frame_reader_reset(struct tn_frame_reader *r);
/* Non-zero stops. */
typedef int (*tn_frame_fn)(char kind, const unsigned char *bytes, size_t n, void *ctx);
/* The next bytes of the stream, cut anywhere: calls fn for every frame that is complete now.  0,
 * what fn returned (the rest is lost then), or -1 with TN_E_PEER: a frame is too large. */
int tn_frame_read(struct tn_frame_reader *r, const void *bytes, size_t n, tn_frame_fn fn, void *ctx,
                  struct tn_error *err);

#endif
