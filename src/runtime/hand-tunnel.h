/* A byte stream to a port inside a sandbox, through its hand: /v1/tunnel. */
#ifndef TN_RUNTIME_HAND_TUNNEL_H
#define TN_RUNTIME_HAND_TUNNEL_H

#include <stdint.h>

#include "base/error.h"

/* A connected descriptor (CLOEXEC) whose other end is the TCP port on the sandbox's loopback
 * interface, or -1 with err: TN_E_PEER when nobody listens there.  Each side can end its half first
 * (shutdown).  address and key as for tn_hand_client_new. */
int tn_hand_tunnel(const char *address, const char *key, int port, int64_t deadline,
                   struct tn_error *err);

#endif
