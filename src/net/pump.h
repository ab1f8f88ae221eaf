/* Carrying bytes between two connected sockets. */
#ifndef TN_NET_PUMP_H
#define TN_NET_PUMP_H

#include <stdint.h>

#include "base/buf.h"

/* Carries bytes both ways until both have ended, or nothing has moved for a day (for an hour when
 * one way has ended).  Bytes of a or b that were read already are given, or NULL.  Each side can
 * end its half first.  Both sockets stay the caller's.  Returns how many bytes were carried. */
uint64_t tn_pump(int a, int b, const struct tn_buf *from_a, const struct tn_buf *from_b);

#endif
