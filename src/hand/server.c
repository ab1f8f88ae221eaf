#include <assert.h>
#include <strings.h>

#include "base/log.h"
#include "base/secret.h"
#include "event/action-body.h"
#include "hand/plugin.h"
#include "hand/routes.h"
#include "net/proof.h"

enum { REQUEST_ID_MAX = 64, STRANGERS_MAX = 64 };

/* Where only the digest is known, digests are compared. */
static bool fits(const struct tn_hand_options *o, const char *given)
{
    char digest[TN_PROOF_DIGITS + 1];

    if (!o->key_digest)
        return tn_same_secret(given, o->key);
    tn_proof_digest(given, digest);
    return tn_same_secret(digest, o->key_digest);
}

/* An address or localhost, with or without a port: a name that no name server of others decides. */
static bool is_address(const char *host)
{
    size_t n = host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");
    static const char local[] = "localhost";
    size_t tail = sizeof local - 1;

    if (n >= tail && strncasecmp(host + n - tail, local, tail) == 0)
        return n == tail || host[n - tail - 1] == '.';
    return host[0] == '[' || strspn(host, "0123456789.") == n;
}

/* A page of another site, in a browser on this machine: its Origin is not the Host it talks to, or
 * both are a name that was made to mean this machine.  No page gets to a unix socket by a name. */
static bool comes_from_elsewhere(const struct tn_http_exchange *x)
{
    const char *origin = tn_http_header(x, "Origin"), *host = tn_http_header(x, "Host");
    const char *site = origin ? strstr(origin, "://") : NULL;

    if (!origin || (site && host && strcasecmp(site + 3, host) == 0 &&
                    (is_address(host) || strcmp(tn_http_peer(x), "unix") == 0)))
        return false;
    return true;
}

static bool is_mcp(const char *path)
{
    static const char *const starts[] = {"/mcp", "/sse", "/messages"};

    for (size_t i = 0; i < TN_COUNT(starts); i++) {
        size_t n = strlen(starts[i]);
        if (strncmp(path, starts[i], n) == 0 && (path[n] == '/' || path[n] == '\0'))
            return true;
    }
    return false;
}

/* MCP clients know only the other header. */
static const char *given_key(const struct tn_http_exchange *x)
{
    const char *key = tn_http_header(x, "X-Session-API-Key");
    const char *bearer = tn_http_header(x, "Authorization");

    if (!key && bearer && strncasecmp(bearer, "Bearer ", 7) == 0 && is_mcp(tn_http_path(x)))
        key = bearer + 7;
    return key;
}

static bool allow(struct tn_http_exchange *x, void *ctx)
{
    struct tn_hand *hand = ctx;
    const struct tn_hand_options *o = &hand->options;
    const char *given = given_key(x);

    if (!tn_hand_has_key(o)) {
        if (!comes_from_elsewhere(x))
            return true;
        tn_http_reply_detail(x, 403, "Requests of web pages from elsewhere need a key");
        return false;
    }
    if (!given || !fits(o, given)) {
        tn_http_reply_detail(x, 403, "Invalid API Key");
        return false;
    }
    if (tn_http_know(x, NULL))
        return true;
    tn_http_reply_detail(x, 503, "Too many connections");
    return false;
}

static void log_request(const struct tn_http_exchange *x, int status, int64_t nanoseconds,
                        void *ctx)
{
    const char *id = tn_http_header(x, "X-Request-Id"); /* of the service in front of us */

    tn_log(TN_LOG_DEBUG, "request", tn_log_str("method", tn_http_method(x)),
           tn_log_str("path", tn_http_path(x)), tn_log_int("status", status),
           tn_log_double("seconds", (double)nanoseconds / 1e9), tn_log_str("peer", tn_http_peer(x)),
           tn_log_str("request_id", id && strlen(id) <= REQUEST_ID_MAX ? id : ""));
}

void tn_reply_invalid(struct tn_http_exchange *x, const char *where, const char *why)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(8192);

    tn_put_invalid_request(&json, where, why);
    tn_http_reply_json(x, 422, &json);
}

static const struct tn_route *const own_tables[] = {
    tn_routes_openhands, tn_routes_transfer,  tn_routes_index, tn_routes_sessions,
    tn_routes_output,    tn_routes_terminal,  tn_routes_input, tn_routes_files,
    tn_routes_links,     tn_routes_content,   tn_routes_watch, tn_routes_tunnel,
    tn_routes_plugins,   tn_routes_processes,
};

enum { PLUGIN_TABLES_MAX = 16 };
const struct tn_route *tn_route_tables[TN_COUNT(own_tables) + PLUGIN_TABLES_MAX + 1];

static void collect_tables(void)
{
    size_t n = TN_COUNT(own_tables);

    memcpy(tn_route_tables, own_tables, sizeof own_tables);
    for (const struct tn_plugin *const *p = tn_plugins; *p; p++) {
        assert(n < TN_COUNT(tn_route_tables) - 1);
        if ((*p)->routes)
            tn_route_tables[n++] = (*p)->routes;
    }
}

struct tn_http_server *tn_hand_server(struct tn_hand *hand)
{
    struct tn_http_options options = {
        .routes = tn_route_tables,
        .allow = allow,
        .log = tn_log_enabled(TN_LOG_DEBUG) ? log_request : NULL,
        .ctx = hand,
        /* Anybody inside can connect: who has the key gets in all the same. */
        .max_strangers = tn_hand_has_key(&hand->options) ? STRANGERS_MAX : 0,
    };

    collect_tables();
    return tn_http_server_new(&options);
}
