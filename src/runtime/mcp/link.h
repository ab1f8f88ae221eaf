/* A conversation with one MCP server over one transport, and what the transports share. */
#ifndef TN_RUNTIME_MCP_LINK_H
#define TN_RUNTIME_MCP_LINK_H

#include <stdatomic.h>

#include "mcp/peer.h"
#include "runtime/mcp/oauth.h"

/* Whoever sends more in one message is not listened to. */
#define MCP_MESSAGE_MAX ((size_t)32 << 20)

struct mcp_link_ops;

/* One server as the configuration has it.  Owned texts. */
struct mcp_server {
    char *label; /* for people: never holds a secret */
    struct mcp_way {
        const struct mcp_link_ops *ops; /* NULL: no further way */
        char *url;
    } ways[2];          /* the second is tried where the first is not known */
    char *address;      /* dialled instead of the host of the URLs (net/listen.h), or NULL */
    char *key;          /* or NULL */
    char *session;      /* sent as X-OpenHands-ServerConversation-ID, or NULL */
    double timeout;     /* of a call in seconds; 0: only that of the action */
    size_t max_message; /* that it may send */
    char **argv, **env; /* of a program on this machine; each ends with NULL */
    /* Called before each new conversation, in the thread that connects; may change address and key.
     * Or NULL. */
    int (*before)(void *ctx, struct mcp_server *server, int64_t deadline, struct tn_error *err);
    void *ctx;
    struct mcp_oauth *oauth; /* tokens for it, where no key is given; or NULL */
    /* Who answers its questions, or NULL. */
    tn_toolbox_question_fn question;
    void *question_ctx;
};
void mcp_server_done(struct mcp_server *s);

/* The transport's own struct begins with this. */
struct mcp_link {
    const struct mcp_link_ops *ops;
    struct tn_mcp_peer *peer; /* whom it feeds */
    atomic_bool ended;        /* nothing can be asked over it any more */
    atomic_int refused;       /* the HTTP status of the last refusal, or 0 */
    bool modern; /* it speaks the revision without sessions; set before the first call */
};

/* errno values in errors of send: it was refused, and: because the server has forgotten this
 * conversation. */
#define MCP_REFUSED EBADMSG
#define MCP_FORGOTTEN ESTALE

struct mcp_link_ops {
    /* Ready for the first message; NULL with err.  The server outlives the link. */
    struct mcp_link *(*open)(const struct mcp_server *server, const char *url,
                             struct tn_mcp_peer *peer, int64_t deadline, struct tn_error *err);
    /* As struct tn_mcp_peer_ops has it: never blocks with a deadline of 0.  An error of a call that
     * certainly was not carried out has an errno of connecting, or one of those above; any other
     * TN_E_PEER leaves that open.  headers: "Name: value" for transports that have headers, NULL at
     * the end; or NULL. */
    int (*send)(struct mcp_link *l, const char *const *headers, const char *text, size_t n,
                int64_t deadline, struct tn_error *err);
    /* The server may have something to tell between calls.  wait: only when it has been told that
     * we listen, or will not let us, is there a return.  May be NULL. */
    void (*listen)(struct mcp_link *l, bool wait);
    /* It can carry the revision without sessions. */
    bool modern;
    /* Ends it in at most two seconds or so; nothing is fed afterwards. */
    void (*close)(struct mcp_link *l);
};

extern const struct mcp_link_ops mcp_over_http; /* streamable HTTP */
extern const struct mcp_link_ops mcp_over_sse;  /* HTTP+SSE of 2024-11-05 */
extern const struct mcp_link_ops mcp_over_pipes;

#endif
