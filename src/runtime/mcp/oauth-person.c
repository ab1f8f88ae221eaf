#include "runtime/mcp/oauth-person.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "base/base64.h"
#include "base/clock.h"
#include "base/secret.h"
#include "net/http-server.h"
#include "net/listen.h"
#include "net/url.h"

#define CALLBACK "/callback"
#define STOP_SECONDS 5.0
enum { QUERY_MAX = 16 << 10, URL_MAX = 32 << 10 };

struct mcp_doorstep {
    struct tn_http_server *server;
    int port;
    char *url;
    int came;             /* an event: the answer is here */
    pthread_mutex_t lock; /* of what follows */
    char state[64];       /* what the answer must repeat; "": nobody is expected */
    char *query;          /* of the answer */
};

static const char page[] = "<!doctype html><meta charset=utf-8><title>Tendon</title>"
                           "<p>%s You may close this page.\n";

/* --- who comes -------------------------------------------------------------------------------- */

/* The value of a member of a query, on the heap, or NULL. */
static char *query_value(const char *query, const char *name)
{
    size_t n = strlen(query);
    tn_autofree char *pairs = tn_calloc(1, TN_URL_PAIRS_MAX(n));
    size_t length = tn_url_pairs(query, n, pairs);
    char *found = NULL;

    for (const char *at = pairs; at < pairs + length && !found;) {
        const char *value = at + strlen(at) + 1;
        if (strcmp(at, name) == 0)
            found = tn_strdup(value);
        at = value + strlen(value) + 1;
    }
    return found;
}

/* True when it is the answer that is waited for; the first one counts. */
static bool accept_query(struct mcp_doorstep *d, const char *query)
{
    tn_autofree char *state = query_value(query, "state");

    pthread_mutex_lock(&d->lock);
    bool ours = state && *d->state && !d->query && tn_same_secret(state, d->state);
    if (ours)
        d->query = tn_strdup(query);
    pthread_mutex_unlock(&d->lock);
    if (ours)
        (void)!write(d->came, &(uint64_t){1}, sizeof(uint64_t));
    return ours;
}

static void receive(struct tn_http_exchange *x, void *ctx)
{
    const char *target = tn_http_target(x);
    const char *query = strchr(target, '?');
    bool ours = query && strlen(query) < QUERY_MAX && accept_query(ctx, query + 1);
    tn_autofree char *text = tn_asprintf(page, ours ? "Tendon has your answer."
                                                    : "This is not the answer that Tendon "
                                                      "waits for.");

    tn_http_set_header(x, "Cache-Control", "no-store");
    tn_http_set_header(x, "Referrer-Policy", "no-referrer");
    tn_http_reply(x, ours ? 200 : 400, "text/html; charset=utf-8", text, strlen(text));
}

static const struct tn_route routes[] = {
    {.method = "GET", .pattern = CALLBACK, .handle = receive, .flags = TN_ROUTE_OPEN}, {0}};

struct mcp_doorstep *mcp_doorstep_new(int port, struct tn_error *err)
{
    static const struct tn_route *const tables[] = {routes, NULL};
    const struct tn_listen_address at = {
        .kind = TN_LISTEN_TCP, .host = "127.0.0.1", .port = port, .fd = -1, .loopback = true};
    struct sockaddr_in bound;
    socklen_t length = sizeof bound;
    int fd = tn_listen_open(&at, err);

    if (fd < 0)
        return NULL;
    struct mcp_doorstep *d = tn_calloc(1, sizeof *d);
    pthread_mutex_init(&d->lock, NULL);
    d->came = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    getsockname(fd, (struct sockaddr *)&bound, &length);
    d->port = ntohs(bound.sin_port);
    d->url = tn_asprintf("http://127.0.0.1:%d" CALLBACK, d->port);
    d->server = tn_http_server_new(&(struct tn_http_options){.routes = tables, .ctx = d});
    if (d->came < 0) {
        tn_fail_errno(err, errno, "eventfd");
        tn_close(fd);
    } else if (tn_http_server_listen(d->server, fd, err) == 0) {
        return d;
    }
    mcp_doorstep_free(d);
    return NULL;
}

void mcp_doorstep_free(struct mcp_doorstep *d)
{
    if (!d)
        return;
    if (tn_http_server_stop(d->server, STOP_SECONDS) > 0)
        return; /* a connection that does not end keeps it */
    tn_http_server_free(d->server);
    tn_close(d->came);
    pthread_mutex_destroy(&d->lock);
    free(d->query);
    free(d->url);
    free(d);
}

int mcp_doorstep_port(const struct mcp_doorstep *d)
{
    return d->port;
}

const char *mcp_doorstep_url(const struct mcp_doorstep *d)
{
    return d->url;
}

/* --- the visit -------------------------------------------------------------------------------- */

static void put_member(struct tn_buf *out, const char *name, const char *value)
{
    if (!value || !*value)
        return;
    tn_buf_printf(out, "&%s=", name);
    tn_url_encode(out, value, "");
}

static void put_address(const struct mcp_doorstep *d, const struct mcp_visit *v, const char *state,
                        struct tn_buf *out)
{
    const char *base = v->issuer->authorize_url;

    tn_buf_printf(out, "%s%sresponse_type=code", base, strchr(base, '?') ? "&" : "?");
    put_member(out, "client_id", v->client);
    put_member(out, "redirect_uri", d->url);
    put_member(out, "code_challenge", v->challenge);
    put_member(out, "code_challenge_method", "S256");
    put_member(out, "state", state);
    put_member(out, "scope", v->scope);
    put_member(out, "resource", v->issuer->resource);
    /* Without this some give no refresh token, whatever the scope. */
    if (v->scope && mcp_scope_has(v->scope, "offline_access"))
        put_member(out, "prompt", "consent");
}

static char *wait_for_query(struct mcp_doorstep *d, int stop, int64_t deadline,
                            struct tn_error *err)
{
    struct pollfd fds[] = {{.fd = d->came, .events = POLLIN}, {.fd = stop, .events = POLLIN}};
    int n;

    do
        n = poll(fds, 2, tn_poll_ms(deadline));
    while ((n < 0 && errno == EINTR) || (n == 0 && tn_now() < deadline));
    pthread_mutex_lock(&d->lock);
    char *query = TN_TAKE_PTR(d->query);
    *d->state = '\0';
    pthread_mutex_unlock(&d->lock);
    if (!query && n > 0)
        tn_fail(err, TN_E_GONE, "the login was given up");
    else if (!query)
        tn_fail(err, TN_E_TIMEOUT, "nobody has logged in in time");
    return query;
}

/* Who answered is who was asked (RFC 9207); compared as it is written. */
static int check_sender(const struct mcp_issuer *issuer, const char *iss, struct tn_error *err)
{
    if (iss && strcmp(iss, issuer->issuer) != 0)
        return tn_fail(err, TN_E_DENIED, "the answer to the login is from %.200s, not from %.200s",
                       iss, issuer->issuer);
    if (!iss && issuer->says_iss)
        return tn_fail(err, TN_E_DENIED, "the answer to the login does not say who it is from");
    return 0;
}

static char *take_code(const struct mcp_issuer *issuer, const char *query, struct tn_error *err)
{
    tn_autofree char *iss = query_value(query, "iss");
    tn_autofree char *error = query_value(query, "error");
    tn_autofree char *why = query_value(query, "error_description");
    char *code = query_value(query, "code");

    if (check_sender(issuer, iss, err) == 0) {
        if (code && *code && !error)
            return code;
        tn_fail(err, TN_E_DENIED, "the login was refused: %.100s%s%.200s",
                error ? error : "there is no code", why ? ": " : "", why ? why : "");
    }
    free(code);
    return NULL;
}

char *mcp_doorstep_visit(struct mcp_doorstep *d, const struct mcp_visit *v, struct tn_error *err)
{
    tn_autobuf struct tn_buf url = TN_BUF_INIT(URL_MAX), state = TN_BUF_INIT(sizeof d->state - 1);
    tn_autofree char *pasted = NULL;
    unsigned char random[24];

    if (getrandom(random, sizeof random, 0) != sizeof random) {
        tn_fail_errno(err, errno, "getrandom");
        return NULL;
    }
    tn_base64_encode_url(&state, random, sizeof random);
    put_address(d, v, tn_buf_str(&state), &url);
    if (!tn_buf_ok(&url)) {
        tn_fail(err, TN_E_TOO_LARGE, "the address of the login is too long");
        return NULL;
    }
    pthread_mutex_lock(&d->lock);
    memcpy(d->state, tn_buf_str(&state), state.len + 1);
    free(TN_TAKE_PTR(d->query));
    pthread_mutex_unlock(&d->lock);
    if (v->visit(tn_buf_str(&url), &pasted, v->stop, v->deadline, v->visit_ctx, err) < 0)
        return NULL;
    const char *mark = pasted ? strchr(pasted, '?') : NULL;
    if (pasted && (!mark || !accept_query(d, mark + 1))) {
        tn_fail(err, TN_E_INVALID, "that is not the address that the login ended with");
        return NULL;
    }
    tn_autofree char *query = wait_for_query(d, v->stop, v->deadline, err);
    return query ? take_code(v->issuer, query, err) : NULL;
}
