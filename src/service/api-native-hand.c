/* The hand's own API through the service: files, terminals, everything.
 *
 * Rows are open because pages cannot send a header with a WebSocket: they send a ticket instead,
 * and who asks is found out here. */
#include "net/url.h"
#include "service/api-native.h"
#include "service/proxy.h"
#include "service/ticket.h"

enum { TARGET_MAX = 16 << 10 };
#define WS_PROTOCOL "tendon"

/* What may be read with the scope read; everything else takes the scope use. */
static const char *const readable[] = {"/alive",       "/server_info",          "/v1/routes",
                                       "/v1/files/",   "/v1/browser/pages",     "/v1/plugins",
                                       "/v1/commands", "/v1/browser/screenshot"};

/* --- who asks -------------------------------------------------------------------------------- */

/* The ticket among the protocols that a page offers: "tendon, ticket.XXXX". */
static bool offered_ticket(const struct tn_http_exchange *x, char out[TICKET_MAX])
{
    static const char prefix[] = "ticket.";
    const char *at = tn_http_header(x, "Sec-WebSocket-Protocol");

    while (at && *at) {
        at += strspn(at, ", \t");
        size_t n = strcspn(at, ", \t");
        if (n > sizeof prefix - 1 && n - (sizeof prefix - 1) < TICKET_MAX &&
            strncmp(at, prefix, sizeof prefix - 1) == 0) {
            memcpy(out, at + sizeof prefix - 1, n - (sizeof prefix - 1));
            out[n - (sizeof prefix - 1)] = '\0';
            return true;
        }
        at += n;
    }
    return false;
}

bool native_enter(struct tn_http_exchange *x, struct tn_service *s)
{
    char ticket[TICKET_MAX];
    struct tn_error err = {0};
    struct caller who;

    if (!offered_ticket(x, ticket))
        return caller_present(x);
    if (ticket_check(s, ticket, "ws", tn_http_param(x, "id"), &who, &err)) {
        reply_unauthorized(x, err.text);
        return false;
    }
    tn_http_set_header(x, "Sec-WebSocket-Protocol", WS_PROTOCOL);
    return caller_enter(x, &who);
}

/* --- where to -------------------------------------------------------------------------------- */

/* The raw rest of the target behind so many segments of its path, query included. */
static const char *behind(const char *target, int segments)
{
    const char *at = *target == '/' ? target : strstr(target, "://");

    if (at && at != target)
        at = strpbrk(at + 3, "/?");
    while (at && segments-- > 0 && *at == '/')
        at += 1 + strcspn(at + 1, "/?");
    return at ? at : "";
}

static bool may_be_read(const struct tn_http_exchange *x, const char *target)
{
    if (strcmp(tn_http_method(x), "GET") != 0 && strcmp(tn_http_method(x), "HEAD") != 0)
        return false;
    for (size_t i = 0; i < TN_COUNT(readable); i++) {
        size_t n = strlen(readable[i]);
        if (strncmp(target, readable[i], n) == 0 &&
            (readable[i][n - 1] == '/' || strchr("/?", target[n])))
            return true;
    }
    return false;
}

/* prefix takes the place of so many segments; suffix comes before the query. */
static void pass(struct tn_http_exchange *x, struct tn_service *s, int segments, const char *prefix,
                 const char *suffix)
{
    tn_autobuf struct tn_buf target = TN_BUF_INIT(TARGET_MAX);
    const char *rest = behind(tn_http_target(x), segments);
    size_t path = strcspn(rest, "?");

    tn_buf_puts(&target, prefix);
    tn_buf_add(&target, rest, path);
    tn_buf_puts(&target, suffix);
    tn_buf_puts(&target, rest + path);
    if (!native_enter(x, s))
        return;
    autobox struct box *b =
        native_box(x, s, may_be_read(x, tn_buf_str(&target)) ? SCOPE_READ : SCOPE_USE);
    if (b && tn_buf_ok(&target))
        proxy_to_hand(x, b, tn_buf_str(&target));
    else if (b)
        native_refuse(x, TN_E_URI_TOO_LONG, "the path is too long");
}

/* --- routes ---------------------------------------------------------------------------------- */

/* Segments: v1, sandboxes, ID, hand. */
static void any_hand(struct tn_http_exchange *x, void *ctx)
{
    pass(x, ctx, 4, "", "");
}

static void any_content(struct tn_http_exchange *x, void *ctx)
{
    pass(x, ctx, 4, "/v1/files/content", "");
}

/* For browsers: the key is in no address, but a ticket for this one file, good once.  Who can send
 * a key does. */
static void get_download(struct tn_http_exchange *x, void *ctx)
{
    struct tn_service *s = ctx;
    const char *path = tn_http_query(x, "path"), *ticket = tn_http_query(x, "ticket");
    tn_autobuf struct tn_buf target = TN_BUF_INIT(TARGET_MAX);
    tn_autobuf struct tn_buf name = TN_BUF_INIT(TARGET_MAX);
    struct tn_error err = {0};
    struct caller who;

    tn_http_set_header(x, "Cache-Control", "no-store");
    if (ticket &&
        ticket_use_once(s, ticket, tn_http_param(x, "id"), path ? path : "", &who, &err)) {
        reply_unauthorized(x, err.text);
        return;
    }
    if (ticket ? !caller_enter(x, &who) : !caller_present(x))
        return;
    autobox struct box *b = native_box(x, s, SCOPE_READ);
    if (b && !path)
        native_refuse(x, TN_E_UNPROCESSABLE, "path: expected, to say which file");
    if (!b || !path)
        return;
    const char *slash = strrchr(path, '/');
    tn_buf_puts(&target, "/v1/files/content?path=");
    tn_url_encode(&target, path, "/");
    tn_buf_puts(&name, "attachment; filename*=UTF-8''");
    tn_url_encode(&name, slash ? slash + 1 : path, "");
    if (!tn_buf_ok(&target) || !tn_buf_ok(&name)) {
        native_refuse(x, TN_E_URI_TOO_LONG, "the path is too long");
        return;
    }
    tn_http_set_header(x, "Content-Disposition", tn_buf_str(&name));
    proxy_to_hand(x, b, tn_buf_str(&target));
}

static void any_files(struct tn_http_exchange *x, void *ctx)
{
    pass(x, ctx, 4, "/v1/files", "");
}

static void any_terminals(struct tn_http_exchange *x, void *ctx)
{
    pass(x, ctx, 4, "/v1/sessions", "");
}

static void get_terminal(struct tn_http_exchange *x, void *ctx)
{
    pass(x, ctx, 4, "/v1/sessions", "/terminal");
}

#define BOX "/v1/sandboxes/{id}"
const struct tn_route routes_native_hand[] = {
    {"GET", BOX "/files", any_content, "the bytes of the file ?path=", TN_ROUTE_OPEN},
    {"PUT", BOX "/files", any_content, "makes the body the file ?path=", TN_ROUTE_OPEN},
    {"GET", BOX "/download", get_download,
     "the file ?path= for a browser, with ?ticket=", TN_ROUTE_OPEN},
    {"DELETE", BOX "/files", any_files, "removes ?path=", TN_ROUTE_OPEN},
    {"GET", BOX "/files/{what}", any_files, "list, stat or watch of ?path=", TN_ROUTE_OPEN},
    {"POST", BOX "/files/{what}", any_files, "directory, move or symlink", TN_ROUTE_OPEN},
    {"GET", BOX "/terminals", any_terminals, "its shell sessions", TN_ROUTE_OPEN},
    {"POST", BOX "/terminals", any_terminals, "a new shell session", TN_ROUTE_OPEN},
    {"GET", BOX "/terminals/{name}", get_terminal, "a terminal, over WebSocket", TN_ROUTE_OPEN},
    {"DELETE", BOX "/terminals/{name}", any_terminals, "ends a shell session", TN_ROUTE_OPEN},
    {"GET", BOX "/hand/{path...}", any_hand, "the hand's own API", TN_ROUTE_OPEN},
    {"POST", BOX "/hand/{path...}", any_hand, "the hand's own API", TN_ROUTE_OPEN},
    {"PUT", BOX "/hand/{path...}", any_hand, "the hand's own API", TN_ROUTE_OPEN},
    {"DELETE", BOX "/hand/{path...}", any_hand, "the hand's own API", TN_ROUTE_OPEN},
    {0},
};
