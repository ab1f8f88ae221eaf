/* Values of secrets in what a server answers: overwritten, also where they come in two reads. */
#ifndef TN_GATE_MASK_H
#define TN_GATE_MASK_H

#include "base/buf.h"

struct needle {
    const char *bytes;
    size_t size;
};

enum { MASK_HELD = 64 << 10 }; /* the most that a mask holds; a needle is shorter */

/* The end of what has come, as long as it may be the beginning of a value. */
struct mask {
    struct tn_buf seen, shown; /* the same bytes: as they came, and with stars */
};
#define MASK_INIT                                                               \
    {                                                                           \
        .seen = TN_BUF_INIT(2 * MASK_HELD), .shown = TN_BUF_INIT(2 * MASK_HELD) \
    }
void mask_done(struct mask *m);

/* Appends to out what is known of the bytes so far, at most MASK_HELD at a time: as many as have
 * come, but for those that may begin a value.  Without memory for that, out is failed. */
void mask_push(struct mask *m, const struct needle *needles, size_t count, const char *bytes,
               size_t n, struct tn_buf *out);
/* Nothing follows: appends what is held. */
void mask_flush(struct mask *m, struct tn_buf *out);

#endif
