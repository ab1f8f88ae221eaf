/* Inside the proxy: the servers there are (proxy.c), who is asked what (route.c), and what servers
 * tell and ask by themselves (relay.c). */
#ifndef TN_HAND_MCP_PROXY_INTERNAL_H
#define TN_HAND_MCP_PROXY_INTERNAL_H

#include <pthread.h>

#include "base/clock.h"
#include "hand/mcp/proxy.h"

/* The servers at one time: never changed, only replaced. */
struct mcp_set {
    int refs; /* of the proxy's lock */
    size_t count;
    struct mcp_backend *backends[];
};

struct mcp_subscription {
    char *uri;
    char *server;
};

/* What we keep of a client. */
struct mcp_listener {
    struct mcp_listener *next;
    struct tn_mcp_client *client;
    int level; /* the lowest it wants to hear */
    struct mcp_subscription *subscriptions;
    size_t subscription_count;
};

struct mcp_proxy {
    struct tn_hand *hand;
    struct tn_mcp_server *server;
    pthread_mutex_t updating; /* one at a time */
    pthread_mutex_t lock;     /* of what follows */
    struct mcp_set *set;
    struct mcp_listener *listeners;
    int relays; /* requests of servers to clients under way */
    pthread_cond_t fewer;
};

struct mcp_set *mcp_set_take(struct mcp_proxy *p);
void mcp_set_release(struct mcp_proxy *p, struct mcp_set *set);

extern const struct tn_mcp_server_ops mcp_server_ops;
extern const struct mcp_backend_ops mcp_relay_ops;

/* 0 (debug) to 7 (emergency), or -1. */
int mcp_level(const char *name);
/* Tells every server the lowest level that any client wants. */
void mcp_send_level(struct mcp_proxy *p, struct mcp_backend *b);
/* With the lock held. */
bool mcp_subscribed(const struct mcp_listener *l, const char *uri);

#endif
