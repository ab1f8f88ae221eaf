/* Where a hand is, for everything that talks to one.
 *
 * An address is what net/http-client.h takes ("unix:/path", "host:port", "pair:N"), or, for a hand
 * behind a service, "http://HOST[:PORT][/PATH]" or the same with https: every target follows PATH
 * there, and names, proxies and TLS are those of web/web.h.  "#Name=value&..." may follow, encoded
 * as a query: headers that whoever stands before the hand wants with every request, such as a
 * token; "Host" is what that header says where it is not HOST.  That part is for nobody's eyes.
 *
 * "kube:NAMESPACE/POD:PORT?..." (kube/kube.h) is a pod behind the API server of its cluster, which
 * is asked with the credentials of the moment; it must never come from others.
 *
 * "proven:HOST:PORT#DIGEST" is a hand in plain HTTP at an address that others may have by now:
 * every new connection asks it for a proof (net/proof.h) before anything else is sent. */
#ifndef TN_RUNTIME_HAND_ADDRESS_H
#define TN_RUNTIME_HAND_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "net/http-client.h"

enum { TN_HAND_HOST_MAX = 264, TN_HAND_PATH_MAX = 2048, TN_HAND_HEADERS_MAX = 16 << 10 };

struct tn_hand_place {
    bool far;                          /* behind a service */
    char host[TN_HAND_HOST_MAX];       /* what the header Host says */
    char base[TN_HAND_PATH_MAX];       /* the path before every target, "" for none */
    char headers[TN_HAND_HEADERS_MAX]; /* "Name: value\r\n..." to send along, "" for none */
};

/* Takes an address apart.  TN_E_INVALID when it is none: the text never goes into the message, it
 * may come from anywhere.  What it says of a pod holds now: a login may be asked for it. */
int tn_hand_place(const char *address, struct tn_hand_place *out, struct tn_error *err);

/* Wipes the headers, which may have a token in them. */
void tn_hand_place_done(struct tn_hand_place *place);
#define tn_autohandplace TN_CLEANUP(tn_hand_place_done)

/* Whether it is an address of the second kind, without headers: what others may give us. */
bool tn_hand_is_url(const char *address);

/* Its length without what is for nobody's eyes. */
size_t tn_hand_address_shown(const char *address);

/* A connected descriptor (CLOEXEC) by the deadline. */
int tn_hand_dial(const char *address, int64_t deadline, struct tn_error *err);

/* A client of it that sends the key (NULL: none) with every request.  Connects when first used. */
struct tn_http_client *tn_hand_http(const char *address, const char *key, struct tn_error *err);

#endif
