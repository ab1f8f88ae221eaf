#include "service/preview-lines.h"

#include <strings.h>

#include "net/cookie.h"
#include "net/http-parse.h"

static bool is_one_of(const char *name, const char *const *list)
{
    for (; *list; list++)
        if (strcasecmp(name, *list) == 0)
            return true;
    return false;
}

static bool starts_with(const char *text, const char *start)
{
    return strncasecmp(text, start, strlen(start)) == 0;
}

/* --- towards the sandbox ------------------------------------------------------------------- */

bool carries_our_key(const char *name, const char *value)
{
    if (strcasecmp(name, "Authorization") == 0 && starts_with(value, "Bearer"))
        value += 6 + strspn(value + 6, " \t");
    else if (strcasecmp(name, "X-API-Key") != 0)
        return false;
    return starts_with(value, "tnk_") || starts_with(value, "tnt_") || /* key.h, login.h */
           starts_with(value, "e2b_");
}

/* A browser adds __Host- and __Secure- to say how a cookie was set. */
static bool is_our_cookie(const char *name, size_t n, void *ctx)
{
    static const char *const starts[] = {OUR_COOKIES, "__Host-" OUR_COOKIES,
                                         "__Secure-" OUR_COOKIES};

    for (size_t i = 0; i < TN_COUNT(starts); i++)
        if (n >= strlen(starts[i]) && starts_with(name, starts[i]))
            return true;
    return false;
}

static enum tn_http_verdict changed_or_dropped(const struct tn_buf *changed)
{
    return changed->len ? TN_HTTP_CHANGE : TN_HTTP_DROP;
}

/* On a shared address the browser sends whatever anybody else there has set, on any port of that
 * host: only those of this sandbox go on. */
static enum tn_http_verdict pass_cookies(const struct passage *p, const char *value,
                                         struct tn_buf *changed)
{
    if (p->prefix)
        tn_cookies_below(value, APP_COOKIES, changed);
    else
        tn_cookies_without(value, is_our_cookie, NULL, changed);
    return changed_or_dropped(changed);
}

/* Nobody but us tells the sandbox who asks. */
static bool is_forwarding(const char *name)
{
    static const char *const names[] = {"forwarded", "x-real-ip", "x-request-id", NULL};

    return starts_with(name, "x-forwarded-") || is_one_of(name, names);
}

/* A server inside may want a key of its own in any of these lines: only ours are taken away. */
static bool opens_a_sandbox(const struct passage *p, const char *name, const char *value)
{
    static const char *const names[] = {"authorization", "x-api-key", "x-session-api-key", NULL};

    if (!is_one_of(name, names))
        return false;
    if (strcasecmp(name, "X-Session-API-Key") == 0 && carries_our_key("X-API-Key", value))
        return true;
    if (starts_with(value, "Bearer"))
        value += 6 + strspn(value + 6, " \t");
    return p->is_session_key && p->is_session_key(value, p->ctx);
}

/* The address of a page that was opened with a ticket or a token. */
static bool shows_ours(const char *url)
{
    return strstr(url, TICKET_QUERY "=") || strstr(url, DAYTONA_QUERY "=");
}

enum tn_http_verdict passage_request(const char *name, const char *value, struct tn_buf *changed,
                                     void *ctx)
{
    static const char *const tokens[] = {"X-Daytona-Preview-Token", "E2b-Traffic-Access-Token",
                                         "X-Runloop-Tunnel-Authorization", NULL};

    if (strcasecmp(name, "Cookie") == 0)
        return pass_cookies(ctx, value, changed);
    if (is_one_of(name, tokens))
        return TN_HTTP_DROP;
    if (is_forwarding(name) || carries_our_key(name, value) || opens_a_sandbox(ctx, name, value) ||
        (strcasecmp(name, "Referer") == 0 && shows_ours(value)))
        return TN_HTTP_DROP;
    return TN_HTTP_PASS;
}

enum tn_http_verdict hand_request(const char *name, const char *value, struct tn_buf *changed,
                                  void *ctx)
{
    static const char *const hidden[] = {
        "authorization", "cookie", "origin", "referer", "x-api-key", "x-session-api-key", NULL};
    bool ticket =
        strcasecmp(name, "Sec-WebSocket-Protocol") == 0 && strstr(value, "ticket.") != NULL;

    /* Before a hand in a cluster there is an API server that would act as others for us. */
    return ticket || is_forwarding(name) || is_one_of(name, hidden) ||
                   starts_with(name, "impersonate-")
               ? TN_HTTP_DROP
               : TN_HTTP_PASS;
}

/* --- towards the client -------------------------------------------------------------------- */

/* What these say holds for a whole origin, or for all that its name covers. */
static const char *const of_site[] = {"clear-site-data", "set-cookie2", "x-request-id", NULL};
static const char *const of_origin[] = {"service-worker-allowed",
                                        "strict-transport-security",
                                        "alt-svc",
                                        "nel",
                                        "report-to",
                                        "reporting-endpoints",
                                        "public-key-pins",
                                        "public-key-pins-report-only",
                                        "origin-agent-cluster",
                                        "accept-ch",
                                        "critical-ch",
                                        "use-as-dictionary",
                                        "set-login",
                                        "secure-session-registration",
                                        "sec-session-registration",
                                        "activate-storage-access",
                                        NULL};

/* With a host of its own it keeps its cookies to itself; elsewhere they get another name, and no
 * path but its own. */
static enum tn_http_verdict pass_set_cookie(const struct passage *p, const char *value,
                                            struct tn_buf *changed)
{
    static const char *const domain[] = {"domain", NULL};
    static const char *const scope[] = {"domain", "path", "partitioned", NULL};
    struct tn_set_cookie c;

    if (!tn_set_cookie_parse(value, &c) || is_our_cookie(c.name, c.name_len, NULL))
        return TN_HTTP_DROP;
    if (p->prefix)
        tn_buf_puts(changed, APP_COOKIES);
    tn_buf_add(changed, c.name, c.name_len);
    tn_buf_putc(changed, '=');
    tn_buf_add(changed, c.value, c.value_len);
    if (p->prefix) {
        bool own = c.path && c.path_len && *c.path == '/';
        tn_buf_printf(changed, "; Path=%s%.*s", p->prefix, own ? (int)c.path_len : 1,
                      own ? c.path : "/");
    }
    tn_set_cookie_rest(&c, p->prefix ? scope : domain, changed);
    return TN_HTTP_CHANGE;
}

/* "localhost:8080", "127.0.0.1:8080", ...: how a server inside calls itself. */
static bool is_inside(const struct passage *p, const char *host, size_t n)
{
    static const char *const names[] = {"localhost", "127.0.0.1", "0.0.0.0", "[::1]", "[::]"};
    char text[32];

    for (size_t i = 0; i < TN_COUNT(names); i++) {
        snprintf(text, sizeof text, "%s:%d", names[i], p->port);
        if (tn_http_same(host, n, text) || (p->port == 80 && tn_http_same(host, n, names[i])))
            return true;
    }
    return p->host && tn_http_same(host, n, p->host);
}

/* What follows the host of a URL that leads back to the sandbox; NULL: it leads elsewhere. */
static const char *own_path(const struct passage *p, const char *url)
{
    static const char *const schemes[] = {"http://", "https://", "//"};

    for (size_t i = 0; i < TN_COUNT(schemes); i++) {
        size_t scheme = strlen(schemes[i]);
        if (!starts_with(url, schemes[i]))
            continue;
        size_t n = strcspn(url + scheme, "/?#\\");
        return is_inside(p, url + scheme, n) ? url + scheme + n : NULL;
    }
    return *url == '/' ? url : NULL;
}

/* Redirects to itself stay on the address by which the client sees it. */
static enum tn_http_verdict pass_location(const struct passage *p, const char *value,
                                          struct tn_buf *changed)
{
    const char *prefix = p->prefix ? p->prefix : "";
    const char *path = own_path(p, value);
    size_t n = strlen(prefix);

    if (!path)
        return TN_HTTP_PASS;
    bool below = strncmp(path, prefix, n) == 0 && (!n || path[n] == '/');
    if (path == value && below)
        return TN_HTTP_PASS;
    /* Two slashes at its start would name a host. */
    tn_buf_printf(changed, "%s/%s", below ? "" : prefix, path + strspn(path, "/\\"));
    return TN_HTTP_CHANGE;
}

enum tn_http_verdict passage_answer(const char *name, const char *value, struct tn_buf *changed,
                                    void *ctx)
{
    const struct passage *p = ctx;

    if (is_one_of(name, of_site) || (p->prefix && is_one_of(name, of_origin)))
        return TN_HTTP_DROP;
    if (strcasecmp(name, "Set-Cookie") == 0)
        return pass_set_cookie(p, value, changed);
    if (strcasecmp(name, "Location") == 0)
        return pass_location(p, value, changed);
    return TN_HTTP_PASS;
}

enum tn_http_verdict hand_answer(const char *name, const char *value, struct tn_buf *changed,
                                 void *ctx)
{
    static const char *const elsewhere[] = {"location", "refresh", "set-cookie", "www-authenticate",
                                            NULL};

    return is_one_of(name, of_site) || is_one_of(name, of_origin) || is_one_of(name, elsewhere)
               ? TN_HTTP_DROP
               : TN_HTTP_PASS;
}

/* --- targets ------------------------------------------------------------------------------- */

/* Names are taken literally, so that what is found is also what is removed. */
static bool is_named(const char *pair, size_t n, const char *name)
{
    size_t length = strlen(name);

    return n > length && pair[length] == '=' && strncmp(pair, name, length) == 0;
}

bool target_value(const char *target, const char *name, char *out, size_t size)
{
    size_t skip = strlen(name) + 1;

    for (const char *at = target + strcspn(target, "?"); *at;) {
        size_t n = strcspn(++at, "&");
        if (is_named(at, n, name) && n - skip < size) {
            memcpy(out, at + skip, n - skip);
            out[n - skip] = '\0';
            return true;
        }
        at += n;
    }
    return false;
}

void target_without_ticket(const char *target, struct tn_buf *out)
{
    char between = '?';
    size_t path = strcspn(target, "?");

    tn_buf_add(out, target, path);
    for (const char *at = target + path; *at;) {
        size_t n = strcspn(++at, "&");
        if (!is_named(at, n, TICKET_QUERY) && !is_named(at, n, DAYTONA_QUERY)) {
            tn_buf_putc(out, between);
            tn_buf_add(out, at, n);
            between = '&';
        }
        at += n;
    }
}
