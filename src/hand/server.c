#include <strings.h>

#include "base/log.h"
#include "base/sha256.h"
#include "hand/routes.h"

/* Takes the same time wherever the first difference is. */
static bool same_key(const char *given, const char *key)
{
    size_t given_len = strlen(given), key_len = strlen(key);
    unsigned char difference = given_len != key_len;

    for (size_t i = 0; i < key_len; i++)
        difference |= (unsigned char)(key[i] ^ given[given_len ? i % given_len : 0]);
    return difference == 0;
}

/* Where only the digest is known, digests are compared. */
static bool fits(const struct tn_hand_options *o, const char *given)
{
    char digest[2 * TN_SHA256_BYTES + 1];
    struct tn_sha256 hash;

    if (!o->key_digest)
        return same_key(given, o->key);
    tn_sha256_init(&hash);
    tn_sha256_add(&hash, given, strlen(given));
    tn_sha256_end_hex(&hash, digest);
    return same_key(digest, o->key_digest);
}

/* A page of another site, in a browser on this machine: its Origin is not the Host it talks to. */
static bool comes_from_elsewhere(const struct tn_http_exchange *x)
{
    const char *origin = tn_http_header(x, "Origin"), *host = tn_http_header(x, "Host");
    const char *site = origin ? strstr(origin, "://") : NULL;

    return origin && (!site || !host || strcasecmp(site + 3, host) != 0);
}

static bool gate(struct tn_http_exchange *x, void *ctx)
{
    struct tn_hand *hand = ctx;
    const struct tn_hand_options *o = &hand->options;
    const char *given = tn_http_header(x, "X-Session-API-Key");

    if (!tn_hand_has_key(o)) {
        if (!comes_from_elsewhere(x))
            return true;
        tn_http_reply_detail(x, 403, "Requests of web pages from elsewhere need a key");
        return false;
    }
    if (given && fits(o, given))
        return true;
    tn_http_reply_detail(x, 403, "Invalid API Key");
    return false;
}

static void log_request(const struct tn_http_exchange *x, int status, int64_t nanoseconds,
                        void *ctx)
{
    tn_log(TN_LOG_DEBUG, "request", tn_log_str("method", tn_http_method(x)),
           tn_log_str("path", tn_http_path(x)), tn_log_int("status", status),
           tn_log_double("seconds", (double)nanoseconds / 1e9),
           tn_log_str("peer", tn_http_peer(x)));
}

void tn_reply_invalid(struct tn_http_exchange *x, const char *where, const char *why)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(8192);
    tn_autofree char *errors = tn_asprintf("[{'loc': (%s), 'msg': '%s'}]", where, why);
    struct tn_jw w = tn_jw(&json);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "detail", "Invalid request parameters");
    tn_jw_kstr(&w, "errors", errors);
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 422, &json);
}

const struct tn_route *const tn_route_tables[] = {
    tn_routes_openhands,
    tn_routes_transfer,
    tn_routes_index,
    tn_routes_sessions,
    tn_routes_output,
    tn_routes_terminal,
    tn_routes_files,
    tn_routes_content,
    tn_routes_watch,
    tn_routes_tunnel,
    NULL,
};

struct tn_http_server *tn_hand_server(struct tn_hand *hand)
{
    struct tn_http_options options = {
        .routes = tn_route_tables,
        .gate = gate,
        .log = tn_log_enabled(TN_LOG_DEBUG) ? log_request : NULL,
        .ctx = hand,
    };
    return tn_http_server_new(&options);
}
