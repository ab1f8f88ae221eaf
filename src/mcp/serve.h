/* The server's end of MCP: clients, their requests, and the three transports they come by.
 *
 * The owner gives a table of functions; everything about sessions, versions, streams, resuming,
 * cancelling and keep-alive is looked after here.  A request runs in a thread of its own and may
 * block.  Clients of the revisions with a handshake (2024-11-05 to 2025-11-25) and of the one
 * without (2026-07-28, streamable HTTP only) are served alike: for the owner each request of the
 * latter comes from a client of its own. */
#ifndef TN_MCP_SERVE_H
#define TN_MCP_SERVE_H

#include "mcp/rpc.h"
#include "net/http-server.h"

struct tn_mcp_server;
struct tn_mcp_client;  /* one client of ours, over whatever transport */
struct tn_mcp_request; /* a request of a client under way */

struct tn_mcp_server_ops {
    const char *name, *version, *title;
    /* Capabilities as a ready JSON object, and instructions or NULL, at the time a client says
     * hello. */
    void (*describe)(void *ctx, struct tn_buf *capabilities, struct tn_buf *instructions);
    /* A client has said hello / is gone (no request of it is under way).  May be NULL. */
    void *(*client_open)(void *ctx, struct tn_mcp_client *client);
    void (*client_close)(void *ctx, void *state);
    /* Carries out any request but initialize and ping.  0 with the result (a JSON object) appended
     * to result, or -1 with the error set by tn_mcp_refuse. */
    int (*request)(void *ctx, void *state, struct tn_mcp_request *request, struct tn_buf *result);
    /* Any notification but initialized and cancelled.  May be NULL. */
    void (*notification)(void *ctx, void *state, const struct tn_rpc *message);
    /* A tool whose schema wants arguments repeated in headers, the caller's to end; NULL for all
     * others.  May block as a request may; may be NULL. */
    struct tn_json *(*tool)(void *ctx, const char *name);
};

struct tn_mcp_server *tn_mcp_server_new(const struct tn_mcp_server_ops *ops, void *ctx);
/* Ends every stream and cancels every request; waits for them until the deadline.  0, or how many
 * are left: then it must not be freed. */
int tn_mcp_server_stop(struct tn_mcp_server *server, int64_t deadline);
void tn_mcp_server_free(struct tn_mcp_server *server);

/* --- a request under way -------------------------------------------------------------------- */

const struct tn_rpc *tn_mcp_request_message(const struct tn_mcp_request *request);
struct tn_mcp_client *tn_mcp_request_client(const struct tn_mcp_request *request);
/* Readable once the client has cancelled it, or is gone. */
int tn_mcp_request_cancel_fd(const struct tn_mcp_request *request);
/* A further owner, who may outlive the function that carries it out. */
struct tn_mcp_request *tn_mcp_request_ref(struct tn_mcp_request *request);
void tn_mcp_request_unref(struct tn_mcp_request *request);
/* Progress, if the client asked for it; message may be NULL.  total < 0: unknown. */
void tn_mcp_progress(struct tn_mcp_request *request, double progress, double total,
                     const char *message);
bool tn_mcp_wants_progress(const struct tn_mcp_request *request);
/* The same as somebody else reported it: params of a progress notification, with another token. */
void tn_mcp_progress_forward(struct tn_mcp_request *request, const struct tn_json *params);
/* The result that will be given is not the last word: it asks something first (input_required).
 * Only for a client that takes no requests. */
void tn_mcp_request_asks(struct tn_mcp_request *request);
/* A notification that belongs to this request. */
void tn_mcp_request_notify(struct tn_mcp_request *request, const char *method, const char *params);
int tn_mcp_refuse(struct tn_mcp_request *request, int64_t code, const char *fmt, ...)
    TN_PRINTF(3, 4); /* returns -1 */
/* With the data of an error (JSON); returns -1. */
int tn_mcp_refuse_with(struct tn_mcp_request *request, int64_t code, const char *message,
                       const struct tn_json *data);

/* --- to a client ---------------------------------------------------------------------------- */

/* A further owner; NULL when the client is gone.  To be released with no lock held that
 * client_close takes. */
struct tn_mcp_client *tn_mcp_client_ref(struct tn_mcp_client *client);
void tn_mcp_client_unref(struct tn_mcp_client *client);

void tn_mcp_client_notify(struct tn_mcp_client *client, const char *method, const char *params);
/* To all of them: list-changed and such. */
void tn_mcp_server_notify(struct tn_mcp_server *server, const char *method, const char *params);
/* A request to the client (sampling, elicitation, roots), on the stream of `during` when not NULL.
 * 0 with the answer, or -1 with err. */
int tn_mcp_client_call(struct tn_mcp_client *client, struct tn_mcp_request *during,
                       const char *method, const char *params, int64_t deadline,
                       struct tn_rpc *answer, struct tn_error *err);
/* What it said in initialize (params), or an object with the same members; of a client without a
 * session also logLevel, when it gave one. */
const struct tn_json *tn_mcp_client_hello(const struct tn_mcp_client *client);
/* Whether the client can be asked that ("sampling", "elicitation", "roots") in the middle of a
 * request. */
bool tn_mcp_client_can(const struct tn_mcp_client *client, const char *capability);
/* Whether it takes no requests: each request of its own says all, and answers in rounds. */
bool tn_mcp_client_is_modern(const struct tn_mcp_client *client);

/* --- transports ----------------------------------------------------------------------------- */

/* Streamable HTTP: the three methods of the one endpoint.  Handlers answer the exchange. */
void tn_mcp_http_post(struct tn_mcp_server *server, struct tn_http_exchange *x);
void tn_mcp_http_get(struct tn_mcp_server *server, struct tn_http_exchange *x);
void tn_mcp_http_delete(struct tn_mcp_server *server, struct tn_http_exchange *x);
/* HTTP+SSE: the stream, which tells the client to post to "messages/" beside it, and the post. */
void tn_mcp_sse_get(struct tn_mcp_server *server, struct tn_http_exchange *x);
void tn_mcp_sse_post(struct tn_mcp_server *server, struct tn_http_exchange *x);
/* One client on two descriptors, a message per line; returns when it has gone: when its input has
 * ended and every request is answered, or when it does not read any more. */
void tn_mcp_stdio(struct tn_mcp_server *server, int in, int out);

#endif
