/* MCP as an ability of the hand: the row, and its routes. */
#include "hand/plugin.h"
#include "base/clock.h"
#include "base/log.h"
#include "hand/hand.h"
#include "hand/mcp/gateway.h"
#include "hand/mcp/proxy.h"

#define CLOSE_SECONDS 2.0
#define GENERIC "An unexpected error occurred. Please try again later."

static struct mcp_proxy *proxy_of(struct tn_hand *hand)
{
    return tn_plugin_state(hand, &tn_plugin_mcp);
}

/* --- replacing the servers ------------------------------------------------------------------ */

static void update(struct tn_http_exchange *x, struct tn_hand *hand, const struct tn_json *entries)
{
    tn_autobuf struct tn_buf log = TN_BUF_INIT(1 << 20), json = TN_BUF_INIT(4 << 20);
    struct tn_jw w = tn_jw(&json);
    struct tn_error err;

    if (mcp_proxy_update(proxy_of(hand), entries, &log, &err) < 0) {
        tn_log(TN_LOG_WARN, "MCP servers not updated", tn_log_str("reason", err.text));
        tn_http_reply_detail(x, 500, GENERIC);
        return;
    }
    tn_jw_object(&w);
    tn_jw_kstr(&w, "detail", "MCP server updated successfully");
    tn_jw_kstr(&w, "router_error_log", tn_buf_str(&log));
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 200, &json);
}

static void post_update(struct tn_http_exchange *x, void *ctx)
{
    tn_autobuf struct tn_buf body = TN_BUF_INIT(1 << 20);
    tn_autojson struct tn_json *tree = NULL;
    struct tn_error err;

    if (tn_http_read_all(x, &body, &err) < 0 ||
        tn_json_parse(tn_buf_str(&body), body.len, &tree, &err) < 0)
        tn_http_reply_error(x, &err);
    else if (tn_json_type(tree) != TN_JSON_ARRAY)
        tn_http_reply_detail(x, 400, "Request must be a list of MCP tools to sync");
    else
        update(x, ctx, tree);
}

static void post_gateway(struct tn_http_exchange *x, void *ctx)
{
    struct tn_error err;

    if (mcp_gateway_install(&err) < 0)
        tn_http_reply_error(x, &err);
    else
        tn_http_reply(x, 204, NULL, NULL, 0);
}

/* --- the endpoints -------------------------------------------------------------------------- */

/* The server, while there is something behind it; else NULL, answered. */
static struct tn_mcp_server *mounted(struct tn_http_exchange *x, struct tn_hand *hand)
{
    struct mcp_proxy *p = proxy_of(hand);

    if (!mcp_proxy_empty(p))
        return mcp_proxy_server(p);
    tn_http_reply_detail(x, 404, "Not Found");
    return NULL;
}

static void post_mcp(struct tn_http_exchange *x, void *ctx)
{
    struct tn_mcp_server *server = mounted(x, ctx);

    if (server)
        tn_mcp_http_post(server, x);
}

static void get_mcp(struct tn_http_exchange *x, void *ctx)
{
    struct tn_mcp_server *server = mounted(x, ctx);

    if (server)
        tn_mcp_http_get(server, x);
}

static void delete_mcp(struct tn_http_exchange *x, void *ctx)
{
    struct tn_mcp_server *server = mounted(x, ctx);

    if (server)
        tn_mcp_http_delete(server, x);
}

static void get_sse(struct tn_http_exchange *x, void *ctx)
{
    struct tn_mcp_server *server = mounted(x, ctx);

    if (server)
        tn_mcp_sse_get(server, x);
}

static void post_message(struct tn_http_exchange *x, void *ctx)
{
    struct tn_mcp_server *server = mounted(x, ctx);

    if (server)
        tn_mcp_sse_post(server, x);
}

static const struct tn_route routes[] = {
    {"POST", "/update_mcp_server", post_update, "replaces the MCP servers", 0},
    {"POST", "/v1/mcp/gateway", post_gateway, "makes mcp-gateway a command in the sandbox", 0},
    {"POST", "/mcp", post_mcp, "a message to the MCP servers (streamable HTTP)", 0},
    {"GET", "/mcp", get_mcp, "what they say by themselves", 0},
    {"DELETE", "/mcp", delete_mcp, "ends an MCP session", 0},
    {"GET", "/mcp/sse", get_sse, "an MCP session over HTTP+SSE", 0},
    {"POST", "/mcp/messages/", post_message, "a message of it", 0},
    {"GET", "/sse", get_sse, "an MCP session over HTTP+SSE", 0},
    {"POST", "/messages/", post_message, "a message of it", 0},
    {0},
};

/* --- the row -------------------------------------------------------------------------------- */

static void *open_state(struct tn_hand *hand)
{
    return mcp_proxy_new(hand);
}

static void interrupt(void *state)
{
    tn_mcp_server_stop(mcp_proxy_server(state), 0);
    mcp_proxy_interrupt(state);
}

static void close_state(void *state)
{
    if (tn_mcp_server_stop(mcp_proxy_server(state), tn_deadline_in(CLOSE_SECONDS)) == 0)
        mcp_proxy_free(state);
}

/* What its servers need is their own affair. */
static int probe(void *state, struct tn_buf *found, struct tn_error *err)
{
    return tn_buf_puts(found, "built in; a host names the servers");
}

static int start(void *state, int64_t deadline, struct tn_error *err)
{
    return mcp_proxy_start(state, deadline, err);
}

static void stop(void *state)
{
    mcp_proxy_stop(state);
}

static void status(void *state, struct tn_jw *w)
{
    mcp_proxy_status(state, w);
}

const struct tn_plugin tn_plugin_mcp = {
    .name = "mcp",
    .help = "MCP servers in the sandbox, joined behind one endpoint",
    .install = "nothing is missing",
    .open = open_state,
    .close = close_state,
    .interrupt = interrupt,
    .probe = probe,
    .start = start,
    .stop = stop,
    .status = status,
    .routes = routes,
};
