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
    int level; /* the lowest it wants to hear, or MCP_LEVELS */
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
    pthread_mutex_t listening; /* who tells a server what we want to hear is the only one */
};

struct mcp_set *mcp_set_take(struct mcp_proxy *p);
void mcp_set_release(struct mcp_proxy *p, struct mcp_set *set);

extern const struct tn_mcp_server_ops mcp_server_ops;
extern const struct mcp_backend_ops mcp_relay_ops;

/* 0 (debug) to 7 (emergency), or -1. */
enum { MCP_LEVELS = 8 };
int mcp_level(const char *name);
/* Tells every server the lowest level that any client wants. */
void mcp_send_level(struct mcp_proxy *p, struct mcp_backend *b);
/* With the lock held. */
bool mcp_subscribed(const struct mcp_listener *l, const char *uri);
/* Tells a server without sessions what all clients want to hear of. */
int mcp_relisten(struct mcp_proxy *p, struct mcp_backend *b, struct tn_error *err);

/* What a server may ask of a client. */
struct mcp_question {
    const char *method;
    const char *capability; /* of a client that can be asked */
    const char *otherwise;  /* what is answered when nobody can; NULL: an error */
};
const struct mcp_question *mcp_question_find(const char *method); /* or NULL */

/* Writes params again, with another value for one member (NULL: none), and without what of their
 * _meta concerns the conversation that they come from. */
void mcp_copy_params(struct tn_buf *out, const struct tn_json *params, const char *member,
                     const char *value);
/* Passes a request on.  What a server without sessions asks first is asked here of a client that
 * has one, in rounds; others get the question as their result.  As mcp_backend_call. */
int mcp_call_in_rounds(struct mcp_backend *b, const char *params, struct tn_mcp_request *request,
                       struct tn_rpc *answer, struct tn_error *err);

#endif
