/* Ports of sandboxes for browsers: who may come in, by which address. */
#include <strings.h>

#include "base/clock.h"
#include "net/cookie.h"
#include "net/http-parse.h"
#include "service/caller.h"
#include "service/daytona/daytona.h"
#include "service/e2b/e2b.h"
#include "service/preview-host.h"
#include "service/preview-lines.h"
#include "service/preview-page.h"
#include "service/proxy.h"
#include "service/ticket.h"

#define LINK_SECONDS 60.0   /* a link can be opened so long */
#define VISIT_SECONDS 43200 /* and a visit can last so long */
#define BY_LINK "visit"     /* what cookies are for: the visit of who had a link, */
#define BY_TOKEN "token"    /* or a token of Daytona's, which is for the key of the sandbox */
enum { TARGET_MAX = 16 << 10 };

/* Somebody at the door of a port. */
struct visitor {
    struct tn_service *s;
    struct tn_http_exchange *x;
    int port;
    char id[11];
    char *origin;         /* "http://8080-ID.localhost:7171"; NULL: by a path */
    char *prefix;         /* "/preview/ID/8080"; NULL: by a host */
    char *cookie;         /* name of ours */
    struct tn_buf target; /* to ask the server inside for: nothing of ours is in it */
};

static void visitor_done(struct visitor *v)
{
    free(v->origin);
    free(v->prefix);
    free(v->cookie);
    tn_buf_done(&v->target);
}
#define autovisitor TN_CLEANUP(visitor_done)

/* --- addresses ----------------------------------------------------------------------------- */

static bool is_secure(const struct tn_service *s)
{
    return strncmp(s->url, "https:", 6) == 0;
}

char *preview_url(const struct tn_service *s, const char *id, int port)
{
    const char *domain = s->options->preview_domain;

    if (!preview_reaches(s->url, domain))
        return tn_asprintf("%s/preview/%s/%d/", s->url, id, port);
    tn_autofree char *origin = preview_origin(s->url, domain, id, port);
    return tn_asprintf("%s/", origin);
}

/* What tickets are for. */
static void purpose_of(const char *what, int port, char out[32])
{
    snprintf(out, 32, "%s:%d", what, port);
}

char *preview_link(const struct tn_service *s, const struct caller *who, const char *id, int port,
                   const char *rest, struct tn_error *err)
{
    tn_autofree char *url = preview_url(s, id, port);
    char ticket[TICKET_MAX], purpose[32];

    rest = rest ? rest + (*rest == '/') : "";
    size_t visible = strcspn(rest, "#");
    purpose_of("port", port, purpose);
    if (ticket_make(s, who, purpose, id, LINK_SECONDS, ticket, err) < 0)
        return NULL;
    return tn_asprintf("%s%.*s%s" TICKET_QUERY "=%s%s", url, (int)visible, rest,
                       memchr(rest, '?', visible) ? "&" : "?", ticket, rest + visible);
}

/* --- who comes in -------------------------------------------------------------------------- */

/* A page elsewhere makes the visitor's browser ask, with our cookie: what changes something, or
 * lasts, must come from this sandbox itself.  By a path the front has looked at the origin. */
static bool comes_from_elsewhere(const struct visitor *v)
{
    const char *origin = tn_http_header(v->x, "Origin"), *method = tn_http_method(v->x);
    const char *site = origin ? strstr(origin, "://") : NULL;
    bool harmless =
        strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0 || strcmp(method, "OPTIONS") == 0;
    char id[11];
    int port;

    if (!v->origin || !origin || (harmless && !tn_http_header(v->x, "Upgrade")))
        return false;
    return !site || !preview_parse_host(site + 3, v->s->options->preview_domain, &port, id) ||
           strcmp(id, v->id) != 0;
}

/* On the shared address no page of a sandbox has our origin, so who has it and wants something as a
 * part of a page (a script, a worker) would make it run as the page of the service. */
static bool becomes_part_of_us(const struct visitor *v)
{
    const char *site = tn_http_header(v->x, "Sec-Fetch-Site");
    const char *mode = tn_http_header(v->x, "Sec-Fetch-Mode");

    return v->prefix &&
           (tn_http_header(v->x, "Service-Worker") ||
            (site && strcmp(site, "same-origin") == 0 && !(mode && strcmp(mode, "navigate") == 0)));
}

struct cookie_check {
    struct visitor *v;
    struct caller *who;
    bool by_token;
};

static bool is_for(const struct cookie_check *c, const char *value, const char *what)
{
    char purpose[32];

    purpose_of(what, c->v->port, purpose);
    return ticket_check(c->v->s, value, purpose, c->v->id, c->who, NULL) == 0;
}

static bool is_visit(const char *value, void *ctx)
{
    struct cookie_check *c = ctx;

    c->by_token = is_for(c, value, BY_TOKEN);
    return c->by_token || is_for(c, value, BY_LINK);
}

static void refuse_page(struct visitor *v)
{
    note_denied(v->x, "a preview was asked for by another page");
    preview_page(v->x, &(struct page){
                           .status = 403,
                           .code = tn_code_row(TN_E_DENIED)->name,
                           .title = "This request comes from another page",
                           .advice = "Open the address of the port itself.",
                       });
}

static bool has_cookie(struct visitor *v)
{
    struct caller who;
    struct cookie_check check = {.v = v, .who = &who};

    return tn_cookie_any(v->x, v->cookie, is_visit, &check);
}

static bool enter_by_cookie(struct visitor *v)
{
    struct caller who;
    struct cookie_check check = {.v = v, .who = &who};

    if (!tn_cookie_any(v->x, v->cookie, is_visit, &check)) {
        preview_unknown_caller(v->x);
        return false;
    }
    if (comes_from_elsewhere(v) || becomes_part_of_us(v)) {
        refuse_page(v);
        return false;
    }
    if (!check.by_token)
        return caller_enter(v->x, &who);
    autobox struct box *b = box_find(v->s, NULL, v->id, NULL);
    if (!b)
        preview_no_box(v->x);
    return b && surface_enter(v->x, b, who.key_id);
}

static bool has_key(const struct tn_http_exchange *x)
{
    static const char *const names[] = {"X-API-Key", "Authorization"};

    for (size_t i = 0; i < TN_COUNT(names); i++) {
        const char *value = tn_http_header(x, names[i]);
        if (value && carries_our_key(names[i], value))
            return true;
    }
    return false;
}

/* --- tickets and tokens -------------------------------------------------------------------- */

/* Whether the address is opened, not used for something else. */
static bool opens(const struct visitor *v)
{
    const char *method = tn_http_method(v->x);

    return (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0) &&
           !tn_http_header(v->x, "Upgrade");
}

/* For this port alone.  -1: answered. */
static int give_cookie(struct visitor *v, const struct caller *who, const char *what)
{
    char visit[TICKET_MAX], purpose[32];
    struct tn_error err = {0};

    purpose_of(what, v->port, purpose);
    if (ticket_make(v->s, who, purpose, v->id, VISIT_SECONDS, visit, &err) < 0) {
        reply_error(v->x, &err);
        return -1;
    }
    tn_autofree char *cookie =
        tn_asprintf("%s=%s; Path=%s/; Max-Age=%d; HttpOnly; SameSite=Lax%s", v->cookie, visit,
                    v->prefix ? v->prefix : "", VISIT_SECONDS, is_secure(v->s) ? "; Secure" : "");
    tn_http_set_header(v->x, "Set-Cookie", cookie);
    return 0;
}

/* To the address without what opened it. */
static void lead_on(struct visitor *v)
{
    tn_autofree char *location =
        tn_asprintf("%s%s", v->prefix ? v->prefix : v->origin, tn_buf_str(&v->target));

    tn_http_set_header(v->x, "Location", location);
    tn_http_set_header(v->x, "Referrer-Policy", "no-referrer");
    tn_http_set_header(v->x, "Cache-Control", "no-store");
    tn_http_reply(v->x, 303, NULL, NULL, 0);
}

/* True: it goes on to the sandbox. */
static bool enter_by_ticket(struct visitor *v, const char *ticket)
{
    char purpose[32];
    struct caller who;

    purpose_of("port", v->port, purpose);
    if (ticket_check(v->s, ticket, purpose, v->id, &who, NULL) < 0 ||
        ticket_has_ended(v->s, ticket))
        /* An old link of a visit that still lasts, perhaps. */
        return enter_by_cookie(v);
    if (!caller_enter(v->x, &who))
        return false;
    if (!opens(v))
        return true;
    if (give_cookie(v, &who, BY_LINK) == 0)
        lead_on(v);
    return false;
}

/* What a page refers to comes without the token of the page's address, but with a cookie.  The page
 * itself could read its address: a browser that shows it is led to the one without the token.
 * Frames are not, since elsewhere they have no cookies.  True: it goes on to the sandbox. */
static bool keep_token(struct visitor *v)
{
    const char *mode = tn_http_header(v->x, "Sec-Fetch-Mode");
    const char *dest = tn_http_header(v->x, "Sec-Fetch-Dest");
    char token[SURFACE_TOKEN];

    if (!opens(v) || tn_http_header(v->x, "X-Daytona-Preview-Token") ||
        !target_value(tn_http_target(v->x), DAYTONA_QUERY, token, sizeof token))
        return true;
    if (give_cookie(v, caller_of(v->x), BY_TOKEN))
        return false;
    bool shows = mode && strcmp(mode, "navigate") == 0 && dest && strcmp(dest, "document") == 0;
    if (shows)
        lead_on(v);
    return !shows;
}

static bool enter(struct visitor *v)
{
    char ticket[TICKET_MAX];

    if (has_key(v->x))
        return caller_present(v->x);
    if (target_value(tn_http_target(v->x), TICKET_QUERY, ticket, sizeof ticket))
        return enter_by_ticket(v, ticket);
    int known = daytona_visit(v->s, v->x, v->id);
    if (!known && !has_cookie(v)) /* which may do more than who is let in because it is public */
        known = e2b_visit(v->s, v->x, v->id, v->port);
    if (known > 0 && becomes_part_of_us(v)) {
        refuse_page(v);
        return false;
    }
    return known > 0 ? keep_token(v) : known == 0 && enter_by_cookie(v);
}

static void visit(struct visitor *v)
{
    if (!enter(v) || !caller_may(v->x, SCOPE_USE))
        return;
    const struct caller *who = caller_of(v->x);
    autobox struct box *b =
        box_find(v->s, who->scopes & SCOPE_ADMIN ? NULL : who->tenant, v->id, NULL);
    if (b)
        proxy_to_port(v->x, b, v->port, tn_buf_str(&v->target), v->prefix);
    else
        preview_no_box(v->x);
}

/* --- by host ------------------------------------------------------------------------------- */

/* What follows scheme and host of an absolute target, which must be the Host that was looked at;
 * NULL: it is not. */
static const char *origin_form(const struct tn_http_exchange *x)
{
    const char *target = tn_http_target(x), *host = tn_http_header(x, "Host");
    const char *at = strstr(target, "://");
    size_t n = at ? strcspn(at + 3, "/?") : 0;

    if (*target == '/' || *target == '*')
        return target;
    if (!host || !at || n != strlen(host) || strncasecmp(at + 3, host, n) != 0 || !at[3 + n])
        return NULL;
    return at + 3 + n;
}

static void refuse_target(struct tn_http_exchange *x, int status, const char *why)
{
    reply_status(x, status, tn_code_row(TN_E_INVALID)->name, why);
}

bool preview_take(struct tn_service *s, struct tn_http_exchange *x)
{
    autovisitor struct visitor v = {.s = s, .x = x, .target = TN_BUF_INIT(TARGET_MAX)};
    const char *host = tn_http_header(x, "Host");

    if (!host || !preview_parse_host(host, s->options->preview_domain, &v.port, v.id))
        return false;
    const char *target = origin_form(x);
    if (!target) {
        refuse_target(x, 400, "The request target names another host");
        return true;
    }
    v.origin = tn_asprintf("%s://%s", is_secure(s) ? "https" : "http", host);
    v.cookie = tn_asprintf("%s" OUR_COOKIES "%s-%d", is_secure(s) ? "__Host-" : "", v.id, v.port);
    if (*target == '?')
        tn_buf_putc(&v.target, '/');
    target_without_ticket(target, &v.target);
    if (tn_buf_ok(&v.target))
        visit(&v);
    else
        refuse_target(x, 414, "The request target is too long");
    return true;
}

/* --- by path ------------------------------------------------------------------------------- */

/* The raw target behind "/preview/ID/PORT". */
static const char *behind_port(const struct tn_http_exchange *x)
{
    const char *target = tn_http_target(x);
    const char *at = target + tn_http_target_path(target, strlen(target)).at;

    for (int segments = 3; segments > 0 && *at == '/'; segments--)
        at += 1 + strcspn(at + 1, "/?");
    return at;
}

static void any_preview(struct tn_http_exchange *x, void *ctx)
{
    autovisitor struct visitor v = {.s = ctx, .x = x, .target = TN_BUF_INIT(TARGET_MAX)};
    const char *id = tn_http_param(x, "id"), *port = tn_http_param(x, "port");
    const char *target = behind_port(x);

    v.port = port ? preview_port(port, strlen(port)) : 0;
    if (!id || !preview_is_id(id, strlen(id)) || !v.port) {
        refuse_target(x, 404, "The path of a preview is /preview/ID/PORT/");
        return;
    }
    snprintf(v.id, sizeof v.id, "%s", id);
    v.prefix = tn_asprintf("/preview/%s/%d", v.id, v.port);
    v.cookie =
        tn_asprintf("%s" OUR_COOKIES "%s-%d", is_secure(v.s) ? "__Secure-" : "", v.id, v.port);
    if (*target != '/') { /* what it refers to would be looked for one step too high */
        tn_autofree char *whole = tn_asprintf("%s/%s", v.prefix, target);
        tn_http_set_header(x, "Location", whole);
        tn_http_reply(x, 308, NULL, NULL, 0);
        return;
    }
    target_without_ticket(target, &v.target);
    if (tn_buf_ok(&v.target))
        visit(&v);
    else
        refuse_target(x, 414, "The request target is too long");
}

#define ANY(method, pattern)                                               \
    {                                                                      \
        method, pattern, any_preview, "a port of a sandbox", TN_ROUTE_OPEN \
    }
#define BOTH(method) \
    ANY(method, "/preview/{id}/{port}"), ANY(method, "/preview/{id}/{port}/{rest...}")
const struct tn_route routes_preview[] = {
    BOTH("GET"), BOTH("POST"), BOTH("PUT"), BOTH("PATCH"), BOTH("DELETE"), BOTH("OPTIONS"), {0},
};
