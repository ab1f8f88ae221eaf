/* One end of an MCP conversation, over any transport: numbers its requests, matches the answers,
 * hands over what the other side asks.
 *
 * The transport feeds what comes in and sends what goes out.  Calls block, with a deadline, in the
 * threads of their callers; any number at once. */
#ifndef TN_MCP_PEER_H
#define TN_MCP_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include "mcp/rpc.h"

struct tn_mcp_peer;

struct tn_mcp_peer_ops {
    /* Sends one message, a line of JSON without its newline: 0, or -1 with err.  Any thread; must
     * not block in the thread that feeds (deadline 0).  route: that of the call, or NULL. */
    int (*send)(void *ctx, void *route, const char *text, size_t n, int64_t deadline,
                struct tn_error *err);
    /* The other side asks or tells something, in the thread that feeds: must not block for long.  A
     * request (any but ping, which is answered here) is answered with tn_mcp_answer, by whom and
     * whenever. */
    void (*request)(void *ctx, struct tn_mcp_peer *peer, const struct tn_rpc *message);
    void (*notification)(void *ctx, struct tn_mcp_peer *peer, const struct tn_rpc *message);
    /* It answers what nobody waits for: tn_mcp_ask, or too late.  In the same thread; may be NULL.
     */
    void (*answer)(void *ctx, struct tn_mcp_peer *peer, const struct tn_rpc *message);
};

struct tn_mcp_peer *tn_mcp_peer_new(const struct tn_mcp_peer_ops *ops, void *ctx);
/* No call may be under way: tn_mcp_peer_lost ends them. */
void tn_mcp_peer_free(struct tn_mcp_peer *peer);

/* One message came in.  -1 with err for what is no message (the conversation goes on). */
int tn_mcp_peer_feed(struct tn_mcp_peer *peer, const char *text, size_t n, struct tn_error *err);
/* The same, read already; it may be taken out of *m, which stays the caller's to end. */
void tn_mcp_peer_take(struct tn_mcp_peer *peer, struct tn_rpc *m);
/* The other side is gone: calls under way and to come fail with TN_E_PEER and this reason. */
void tn_mcp_peer_lost(struct tn_mcp_peer *peer, const char *why);

/* Progress of one call, in the thread that feeds. */
typedef void (*tn_mcp_progress_fn)(void *ctx, const struct tn_json *params);

struct tn_mcp_call {
    const char *method;
    const char *params; /* ready JSON object, or "" */
    int64_t deadline;
    double patience; /* progress moves the deadline to so many seconds from then; 0: it does not */
    tn_mcp_progress_fn progress; /* NULL: none asked for; else params' _meta gets a token of ours */
    void *progress_ctx;
    void *route; /* handed to send, for a transport with several ways */
    /* A descriptor that becomes readable when the caller gives up; -1: none. */
    int cancel;
};

/* Asks and waits.  0 with the answer (a result or an error: the caller's to end); -1 with err:
 * TN_E_TIMEOUT at the deadline, TN_E_GONE when cancelled (the other side is told of both),
 * TN_E_PEER when it is gone. */
int tn_mcp_call(struct tn_mcp_peer *peer, const struct tn_mcp_call *call, struct tn_rpc *answer,
                struct tn_error *err);
int tn_mcp_notify(struct tn_mcp_peer *peer, const char *method, const char *params,
                  struct tn_error *err);
/* Asks something whose answer is not waited for: ops->answer gets it when it comes.  Never blocks.
 * The number of the request, by which it can be cancelled; or -1 with err. */
int64_t tn_mcp_ask(struct tn_mcp_peer *peer, const char *method, const char *params,
                   struct tn_error *err);
/* Answers a request of the other side: with a result (ready JSON object, "" for {}), or with an
 * error when code is not 0 (text is then its message).  Never blocks. */
int tn_mcp_answer(struct tn_mcp_peer *peer, const struct tn_json *id, int64_t code,
                  const char *text, struct tn_error *err);
/* What went wrong in an answer, as one sentence in err, which is TN_E_PEER: returns -1. */
int tn_mcp_fail_answer(const struct tn_rpc *answer, struct tn_error *err);

/* --- the client's first words --------------------------------------------------------------- */

/* Those with a handshake, newest first, ended by NULL. */
extern const char *const tn_mcp_versions[];
bool tn_mcp_version_known(const char *version);

struct tn_mcp_hello {
    const char *name, *version; /* of this client */
    const char *capabilities;   /* ready JSON object */
};

/* initialize and notifications/initialized.  0 with the server's answer in *server (a result); an
 * error answer, or a version we do not speak, is -1. */
int tn_mcp_initialize(struct tn_mcp_peer *peer, const struct tn_mcp_hello *hello, int64_t deadline,
                      struct tn_rpc *server, struct tn_error *err);

#endif
