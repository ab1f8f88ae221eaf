/* The connections of a server: each a thread, whose stack and state lie in one mapping that goes
 * back to the system when the connection ends. */
#ifndef TN_NET_HTTP_POOL_H
#define TN_NET_HTTP_POOL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct http_conn;
struct tn_http_server;

struct http_conns {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a connection ended */
    int max, max_strangers;
    size_t stack_bytes;
    atomic_bool closed; /* nothing new is taken */
    int count;          /* of threads; the rest are connections that were not dismissed */
    int dismissed, strangers;
    struct http_conn *live;
    struct http_conn *dead; /* ended, their threads not joined yet */
    struct http_conn *spare;
    int spare_count;
};

/* max_strangers 0: no difference is made between connections. */
void http_conns_init(struct http_conns *p, int max, int max_strangers, size_t stack_bytes);
void http_conns_done(struct http_conns *p); /* when nothing is left */

/* Serves the connected fd in a thread of its own; owns fd on success.  TN_E_BUSY when the pool is
 * full or closed.  parent: as http_conn says, or NULL. */
int http_conns_start(struct http_conns *p, struct tn_http_server *s, int fd, const char *peer,
                     struct http_conn *parent, struct tn_error *err);
/* As tn_http_know says. */
bool http_conns_know(struct http_conns *p, struct http_conn *c, const char *owner);
void http_conns_close(struct http_conns *p);
/* Shuts down all connections in the given direction (as shutdown(2)) and waits for their threads to
 * be gone; returns how many are left at the deadline. */
int http_conns_shut(struct http_conns *p, int how, int64_t deadline);

/* Shuts the reading side of all connections but those in one of these phases (bits of enum
 * http_phase), and waits likewise. */
int http_conns_drain(struct http_conns *p, unsigned spared, int64_t deadline);

/* Stack sizes times this: sanitizers make frames larger. */
extern const size_t http_stack_factor;

#endif
