/* HTTP+SSE, the transport of revision 2024-11-05: one stream out, posts in. */
#include <ctype.h>

#include "mcp/serve-internal.h"
#include "net/sse.h"

void tn_mcp_sse_get(struct tn_mcp_server *server, struct tn_http_exchange *x, const char *messages)
{
    struct tn_mcp_client *client = client_new(server, CLIENT_SSE);

    if (!client) {
        tn_http_set_header(x, "Retry-After", "1");
        tn_http_reply_detail(x, 503, "too many MCP sessions");
        return;
    }
    tn_autofree char *endpoint = tn_asprintf("%s?session_id=%s", messages, client->id);
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

static void post_message(struct tn_mcp_client *client, struct tn_http_exchange *x)
{
    tn_autobuf struct tn_buf body = TN_BUF_INIT(MESSAGE_MAX);
    struct tn_rpc message;
    struct tn_error err;

    if (tn_http_read_all(x, &body, &err) < 0)
        reply_text(x, tn_code_row(err.code)->http_status, err.text);
    else if (tn_rpc_parse(tn_buf_str(&body), body.len, &message, &err) < 0)
        reply_text(x, 400, "Could not parse message");
    else {
        reply_text(x, 202, "Accepted");
        client_take(client, &message, NULL);
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
