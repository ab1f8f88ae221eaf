/* JSON-RPC 2.0 as MCP uses it: one message, read and written. */
#ifndef TN_MCP_RPC_H
#define TN_MCP_RPC_H

#include "base/json.h"

enum tn_rpc_kind {
    TN_RPC_REQUEST,
    TN_RPC_NOTIFICATION,
    TN_RPC_RESULT,
    TN_RPC_ERROR,
};

/* The codes of the protocol that we give ourselves. */
enum {
    TN_RPC_PARSE_ERROR = -32700,
    TN_RPC_INVALID_REQUEST = -32600,
    TN_RPC_METHOD_NOT_FOUND = -32601,
    TN_RPC_INVALID_PARAMS = -32602,
    TN_RPC_INTERNAL_ERROR = -32603,
    TN_RPC_NOT_FOUND = -32002, /* a resource */
};

struct tn_rpc {
    enum tn_rpc_kind kind;
    struct tn_json *tree; /* owned; the rest points into it */
    const char *method;   /* requests and notifications */
    struct tn_json *id;   /* a string or a number; NULL for notifications */
    struct tn_json *params, *result;
    int64_t code; /* of an error */
    const char *message;
    struct tn_json *data;
};

/* Reads one message (not a batch) into uninitialised memory.  -1: TN_E_INVALID for what is not
 * JSON, TN_E_UNPROCESSABLE for JSON that is no message; nothing to free then. */
int tn_rpc_parse(const char *text, size_t n, struct tn_rpc *m, struct tn_error *err);
/* The same of a tree, which is the message's from now on, also on failure. */
int tn_rpc_from_json(struct tn_json *tree, struct tn_rpc *m, struct tn_error *err);
void tn_rpc_done(struct tn_rpc *m);
#define tn_autorpc TN_CLEANUP(tn_rpc_done)

/* Appends a message in one line, without the newline.  params and result: ready JSON, "" for none
 * (a result is then {}). */
void tn_rpc_put_request(struct tn_buf *out, int64_t id, const char *method, const char *params);
void tn_rpc_put_notification(struct tn_buf *out, const char *method, const char *params);
void tn_rpc_put_result(struct tn_buf *out, const struct tn_json *id, const char *result);
/* id NULL: null, for what could not be read.  data: ready JSON, or NULL. */
void tn_rpc_put_error(struct tn_buf *out, const struct tn_json *id, int64_t code,
                      const char *message, const char *data);

#endif
