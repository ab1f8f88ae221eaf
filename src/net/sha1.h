/* SHA-1, only for the WebSocket handshake, which asks for it.  Not for anything that needs to be
 * secure. */
#ifndef TN_NET_SHA1_H
#define TN_NET_SHA1_H

#include <stddef.h>

enum { NET_SHA1_BYTES = 20 };

void net_sha1(const void *bytes, size_t n, unsigned char digest[NET_SHA1_BYTES]);

#endif
