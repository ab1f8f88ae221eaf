/* The server's end of stdio. */
#include <fcntl.h>

#include "mcp/serve-internal.h"

static void refuse(struct tn_mcp_client *client, int64_t code, const char *why)
{
    tn_autobuf struct tn_buf message = TN_BUF_INIT(4096);

    tn_rpc_put_error(&message, NULL, code, why, NULL);
    client_send(client, NULL, tn_buf_str(&message), message.len, true, NULL);
}

static void take_one(struct tn_mcp_client *client, struct tn_json *tree)
{
    struct tn_rpc message;
    struct tn_error err;

    if (tn_rpc_from_json(tree, &message, &err) < 0)
        refuse(client, TN_RPC_INVALID_REQUEST, err.text);
    else
        client_take(client, &message, NULL);
}

static void take_line(void *ctx, const char *text, size_t n)
{
    struct tn_mcp_client *client = ctx;
    tn_autojson struct tn_json *tree = NULL;
    struct tn_error err;

    if (!text) {
        refuse(client, TN_RPC_INVALID_REQUEST, "the message is too long");
    } else if (tn_json_parse(text, n, &tree, &err) < 0) {
        refuse(client, TN_RPC_PARSE_ERROR, err.text);
    } else if (tn_json_type(tree) != TN_JSON_ARRAY) {
        take_one(client, TN_TAKE_PTR(tree));
    } else if (!batches_allowed(client) || tn_json_count(tree) > BATCH_MAX) {
        refuse(client, TN_RPC_INVALID_REQUEST, "expected one message, found a batch");
    } else {
        for (size_t i = 0; i < tn_json_count(tree); i++)
            take_one(client, tn_json_copy(tn_json_at(tree, i)));
    }
}

/* Who has said all may still be reading: `echo REQUEST | server` gets its answer. */
static bool owes(void *ctx)
{
    struct tn_mcp_client *client = ctx;

    pthread_mutex_lock(&client->server->lock);
    bool some = client->owed > 0;
    pthread_mutex_unlock(&client->server->lock);
    return some;
}

void tn_mcp_stdio(struct tn_mcp_server *server, int in, int out)
{
    struct tn_mcp_client *client = client_new(server, CLIENT_STDIO);
    int in_flags = fcntl(in, F_GETFL), out_flags = fcntl(out, F_GETFL);

    if (!client)
        return;
    struct tn_mcp_pipe_options options = {
        .in = in,
        .out = out,
        .line_max = MESSAGE_MAX,
        .unsent_max = UNREAD_MAX,
        .line = take_line,
        .owes = owes,
        .ctx = client,
    };
    struct tn_mcp_pipe *pipe = tn_mcp_pipe_new(&options);
    pthread_mutex_lock(&server->lock);
    client->pipe = pipe;
    pthread_mutex_unlock(&server->lock);
    tn_mcp_pipe_run(pipe, NULL);
    client_end(client);
    pthread_mutex_lock(&server->lock);
    client->pipe = NULL;
    pthread_mutex_unlock(&server->lock);
    tn_mcp_pipe_free(pipe);
    client_unref(client);
    fcntl(in, F_SETFL, in_flags); /* others may share the descriptions */
    fcntl(out, F_SETFL, out_flags);
}
