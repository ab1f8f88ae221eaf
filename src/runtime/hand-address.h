/* Where a hand is, for everything that talks to one.
 *
 * An address is what net/http-client.h takes ("unix:/path", "host:port", "pair:N"), or, for a hand
 * behind a service, "http://HOST[:PORT][/PATH]" or the same with https: every target follows PATH
 * there, and names, proxies and TLS are those of web/web.h. */
#ifndef TN_RUNTIME_HAND_ADDRESS_H
#define TN_RUNTIME_HAND_ADDRESS_H

#include <stdint.h>

#include "base/error.h"
#include "net/http-client.h"

enum { TN_HAND_HOST_MAX = 264 };

struct tn_hand_place {
    bool far;                    /* behind a service */
    char host[TN_HAND_HOST_MAX]; /* what the header Host says */
    const char *base;            /* the path before every target, "" for none; in the address */
};

/* Takes an address apart.  TN_E_INVALID when it is none: the text never goes into the message, it
 * may come from anywhere. */
int tn_hand_place(const char *address, struct tn_hand_place *out, struct tn_error *err);

/* A connected descriptor (CLOEXEC) by the deadline. */
int tn_hand_dial(const char *address, int64_t deadline, struct tn_error *err);

/* A client of it that sends the key (NULL: none) with every request.  Connects when first used. */
struct tn_http_client *tn_hand_http(const char *address, const char *key, struct tn_error *err);

#endif
