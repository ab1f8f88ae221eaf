/* The envelope of Connect's and gRPC's streams: a byte of flags, four of length (the first is the
 * highest), then so many bytes of message.  Pure: it knows nothing of where the bytes come from. */
#ifndef TN_NET_CONNECT_FRAME_H
#define TN_NET_CONNECT_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

enum {
    TN_FRAME_HEAD = 5,
    TN_FRAME_COMPRESSED = 1,
    TN_FRAME_END = 2, /* Connect's last one: how the stream ended */
};

struct tn_frame {
    unsigned flags;
    const char *bytes; /* into what was given */
    size_t n;
};

/* The first envelope of those n bytes: its whole length, 0 when they are too few, or -1 with err:
 * TN_E_TOO_LARGE for a message of more than max bytes (told as soon as its head is there),
 * TN_E_UNSUPPORTED for a compressed one. */
int64_t tn_frame_take(const char *bytes, size_t n, size_t max, struct tn_frame *out,
                      struct tn_error *err);

/* Appends an envelope.  -1: out is full, or the message is longer than four bytes can tell. */
int tn_frame_put(struct tn_buf *out, unsigned flags, const void *bytes, size_t n);

#endif
