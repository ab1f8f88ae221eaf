/* HTTP+SSE, the transport of revision 2024-11-05: one stream out, posts in. */
#include <ctype.h>

#include "mcp/serve-internal.h"
#include "net/sse.h"

/* Where to post, beside the stream.  Behind a proxy that serves us below a prefix our own path
 * leads elsewhere, and before that proxy there may be another: then it is told as seen from the
 * stream, which is right behind all of them.  What the header says is not used. */
static char *messages_of(const struct tn_http_exchange *x, const char *session)
{
    const char *path = tn_http_path(x), *slash = strrchr(path, '/');
    bool below = tn_http_header(x, "X-Forwarded-Prefix") != NULL;

    return tn_asprintf("%.*smessages/?session_id=%s", below ? 0 : (int)(slash + 1 - path), path,
                       session);
}

void tn_mcp_sse_get(struct tn_mcp_server *server, struct tn_http_exchange *x)
{
    struct tn_mcp_client *client = client_new(server, CLIENT_SSE);

    if (!client) {
        tn_http_set_header(x, "Retry-After", "1");
        tn_http_reply_detail(x, 503, "too many MCP sessions");
        return;
    }
    tn_autofree char *endpoint = messages_of(x, client->id);
    if (tn_sse_start(x) == 0 && tn_sse_send(x, "endpoint", NULL, endpoint, strlen(endpoint)) == 0)
        http_pump(client, client_main_stream(client), x, 0, false);
    client_end(client);
    client_unref(client);
}

static bool is_session_id(const char *id)
{
    size_t n = 0;

    while (isxdigit((unsigned char)id[n]))
        n++;
    return n == 32 && !id[n];
}

static void reply_text(struct tn_http_exchange *x, int status, const char *text)
{
    tn_http_reply(x, status, "text/plain; charset=utf-8", text, strlen(text));
}

/* Reads one message, or a batch where the revision has them: how many, or -1. */
static int read_messages(const struct tn_mcp_client *client, const struct tn_buf *body,
                         struct tn_rpc messages[BATCH_MAX], struct tn_error *err)
{
    tn_autojson struct tn_json *tree = NULL;

    if (tn_json_parse(tn_buf_str(body), body->len, &tree, err) < 0)
        return -1;
    if (tn_json_type(tree) == TN_JSON_ARRAY && batches_allowed(client))
        return read_batch(tree, messages, err);
    return tn_rpc_from_json(TN_TAKE_PTR(tree), &messages[0], err) < 0 ? -1 : 1;
}

static void post_message(struct tn_mcp_client *client, struct tn_http_exchange *x)
{
    tn_autobuf struct tn_buf body = TN_BUF_INIT(MESSAGE_MAX);
    tn_autofree struct tn_rpc *messages = tn_calloc(BATCH_MAX, sizeof *messages);
    struct tn_error err;
    int n;

    if (tn_http_read_all(x, &body, &err) < 0)
        reply_text(x, tn_code_row(err.code)->http_status, err.text);
    else if ((n = read_messages(client, &body, messages, &err)) < 0)
        reply_text(x, 400, "Could not parse message");
    else {
        reply_text(x, 202, "Accepted");
        for (int i = 0; i < n; i++)
            client_take(client, &messages[i], NULL);
    }
}

void tn_mcp_sse_post(struct tn_mcp_server *server, struct tn_http_exchange *x)
{
    const char *id = tn_http_query(x, "session_id");

    if (!id) {
        reply_text(x, 400, "session_id is required");
    } else if (!is_session_id(id)) {
        reply_text(x, 400, "Invalid session ID");
    } else {
        struct tn_mcp_client *client = client_find(server, CLIENT_SSE, id);
        if (client)
            post_message(client, x);
        else
            reply_text(x, 404, "Could not find session");
        client_unref(client);
    }
}
