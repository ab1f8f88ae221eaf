#include "hand/vscode/door.h"

#include <arpa/inet.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/secret.h"
#include "net/cookie.h"
#include "net/http-forward.h"
#include "net/listen.h"
#include "net/url.h"

/* Not "tendon-...": those are of the service, which keeps them from sandboxes. */
#define COOKIE "editor-of-tendon"
#define START_SECONDS 60.0  /* for the editor, at the first visit */
#define ANSWER_SECONDS 60.0 /* for its answer to begin */
#define CLOSE_SECONDS 3.0

enum { LOCATION_MAX = 16 << 10 };

struct door {
    struct tn_http_server *server;
    struct editor *editor;
    char *token, *base, *folder;
    int port;
};

/* --- who may enter ------------------------------------------------------------------------- */

static bool is_token(const char *value, void *ctx)
{
    const struct door *d = ctx;

    return tn_same_secret(value, d->token);
}

static bool has_cookie(struct door *d, const struct tn_http_exchange *x)
{
    return tn_cookie_any(x, COOKIE, is_token, d);
}

/* A page of another site (or of another port) in the visitor's browser, which sends our cookie
 * along.  A proxy in front may have put its own name into Host. */
static bool comes_from_elsewhere(const struct tn_http_exchange *x)
{
    const char *origin = tn_http_header(x, "Origin"), *host = tn_http_header(x, "Host");
    const char *forwarded = tn_http_header(x, "X-Forwarded-Host");
    const char *site = origin ? strstr(origin, "://") : NULL;

    if (!origin)
        return false;
    return !site || !((host && strcasecmp(site + 3, host) == 0) ||
                      (forwarded && strcasecmp(site + 3, forwarded) == 0));
}

/* What changes something, or lasts; all else an outsider can send, but not read the answer. */
static bool needs_own_origin(const struct tn_http_exchange *x)
{
    const char *method = tn_http_method(x);

    return tn_http_header(x, "Upgrade") ||
           (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0 &&
            strcmp(method, "OPTIONS") != 0);
}

static void say(struct tn_http_exchange *x, int status, const char *text)
{
    tn_http_set_header(x, "Cache-Control", "no-store");
    tn_http_reply(x, status, "text/plain; charset=utf-8", text, strlen(text));
}

/* --- letting in ---------------------------------------------------------------------------- */

/* The query as it came, without the token. */
static void put_query(const struct door *d, struct tn_http_exchange *x, struct tn_buf *out)
{
    const char *question = strchr(tn_http_target(x), '?');
    const char *between = "?";

    for (const char *at = question ? question + 1 : ""; *at;) {
        size_t n = strcspn(at, "&");
        if (n && strncmp(at, "tkn=", 4) != 0) {
            tn_buf_puts(out, between);
            tn_buf_add(out, at, n);
            between = "&";
        }
        at += n + (at[n] == '&');
    }
    if (!tn_http_query(x, "folder") && !tn_http_query(x, "workspace")) {
        tn_buf_printf(out, "%sfolder=", between);
        tn_url_encode(out, d->folder, "/");
    }
}

static void let_in(const struct door *d, struct tn_http_exchange *x)
{
    tn_autobuf struct tn_buf location = TN_BUF_INIT(LOCATION_MAX);
    const char *scheme = tn_http_header(x, "X-Forwarded-Proto");
    tn_autofree char *cookie =
        tn_asprintf(COOKIE "=%s; Path=%s/; HttpOnly; SameSite=Lax%s", d->token, d->base,
                    scheme && strcasecmp(scheme, "https") == 0 ? "; Secure" : "");

    tn_buf_printf(&location, "%s/", d->base);
    put_query(d, x, &location);
    if (!tn_buf_ok(&location)) {
        say(x, 414, "The address is too long.\n");
        return;
    }
    tn_http_set_header(x, "Location", tn_buf_str(&location));
    tn_http_set_header(x, "Set-Cookie", cookie);
    tn_http_set_header(x, "Referrer-Policy", "no-referrer");
    say(x, 302, "");
}

/* A timeout here is the editor's: browsers would repeat the request after a 408. */
static void refuse(struct tn_http_exchange *x, struct tn_error *err)
{
    tn_autofree char *text = tn_asprintf("The editor cannot be shown: %s\n", err->text);
    say(x, err->code == TN_E_TIMEOUT ? 504 : tn_code_row(err->code)->http_status, text);
}

static bool is_ours(const char *name, size_t n, void *ctx)
{
    return n == strlen(COOKIE) && strncmp(name, COOKIE, n) == 0;
}

static enum tn_http_verdict hide_cookie(const char *name, const char *value, struct tn_buf *changed,
                                        void *ctx)
{
    if (strcasecmp(name, "Cookie") != 0)
        return TN_HTTP_PASS;
    tn_cookies_without(value, is_ours, NULL, changed);
    return changed->len ? TN_HTTP_CHANGE : TN_HTTP_DROP;
}

/* The connection that there is already. */
static int hand_over(void *ctx, bool fresh, bool *kept, struct tn_error *err)
{
    return TN_TAKE_FD(*(int *)ctx);
}

static void pass_on(struct door *d, struct tn_http_exchange *x)
{
    const char *target = tn_http_target(x);
    bool knows_base = false;
    struct tn_error err = {0};
    tn_autofd int fd = editor_connect(d->editor, &knows_base, tn_deadline_in(START_SECONDS), &err);

    if (fd < 0) {
        refuse(x, &err);
        return;
    }
    struct tn_http_forward to = {
        .target = knows_base ? target : target + strlen(d->base),
        .seconds = ANSWER_SECONDS,
        .on_request = hide_cookie,
        .connect = hand_over,
        .ctx = &fd,
    };
    if (tn_http_forward(x, &to, &err) == 0 || tn_http_peer_gone(x))
        return;
    editor_explain(d->editor, &err);
    refuse(x, &err);
}

static void visit(struct tn_http_exchange *x, void *ctx)
{
    struct door *d = ctx;
    const char *given = tn_http_query(x, "tkn"), *target = tn_http_target(x);
    size_t n = strlen(d->base);

    if (given && tn_same_secret(given, d->token))
        let_in(d, x);
    else if (strncmp(target, d->base, n) != 0 || target[n] != '/' || !has_cookie(d, x))
        say(x, 403, "Forbidden: this address needs the token of the editor (tkn=...).\n");
    else if (needs_own_origin(x) && comes_from_elsewhere(x))
        say(x, 403, "Forbidden: this request comes from a page of another site.\n");
    else
        pass_on(d, x);
}

static const struct tn_route routes[] = {
    {"GET", "/{path...}", visit, "", TN_ROUTE_OPEN},
    {"POST", "/{path...}", visit, "", TN_ROUTE_OPEN},
    {"PUT", "/{path...}", visit, "", TN_ROUTE_OPEN},
    {"PATCH", "/{path...}", visit, "", TN_ROUTE_OPEN},
    {"DELETE", "/{path...}", visit, "", TN_ROUTE_OPEN},
    {"OPTIONS", "/{path...}", visit, "", TN_ROUTE_OPEN},
    {0},
};
static const struct tn_route *const tables[] = {routes, NULL};

/* --- opening and closing ------------------------------------------------------------------- */

static int bound_port(int fd)
{
    struct sockaddr_in at = {0};
    socklen_t n = sizeof at;

    return getsockname(fd, (struct sockaddr *)&at, &n) == 0 ? ntohs(at.sin_port) : 0;
}

static void free_door(struct door *d)
{
    tn_http_server_free(d->server);
    free(d->token);
    free(d->base);
    free(d->folder);
    free(d);
}

struct door *door_open(const struct door_options *o, struct tn_error *err)
{
    struct tn_listen_address at = {.kind = TN_LISTEN_TCP, .port = o->port};

    snprintf(at.host, sizeof at.host, "%s", o->host);
    int fd = tn_listen_open(&at, err);
    if (fd < 0)
        return NULL;
    struct door *d = tn_calloc(1, sizeof *d);
    *d = (struct door){
        .editor = o->editor,
        .token = tn_strdup(o->token),
        .base = tn_strdup(o->base),
        .folder = tn_strdup(o->folder),
        .port = bound_port(fd),
    };
    d->server = tn_http_server_new(&(struct tn_http_options){.routes = tables, .ctx = d});
    if (tn_http_server_listen(d->server, fd, err) == 0)
        return d;
    free_door(d);
    return NULL;
}

int door_port(const struct door *d)
{
    return d->port;
}

bool door_close(struct door *d)
{
    if (tn_http_server_stop(d->server, CLOSE_SECONDS) != 0) {
        tn_log(TN_LOG_WARN, "a visit of the editor has not ended");
        return false;
    }
    free_door(d);
    return true;
}
