#include "runtime/mcp/dial.h"

#include <pthread.h>
#include <sys/socket.h>

#include "base/thread.h"
#include "net/url.h"
#include "runtime/hand-address.h"

#define CONNECT_SECONDS 30.0
#define GRACE_SECONDS 1.0 /* for the dialling to say itself that it took too long */

/* A connection in use. */
struct connection {
    int fd;
    struct connection *next;
};

struct mcp_dial {
    char *address;
    struct tn_buf headers;  /* "Name: value\r\n" each */
    pthread_mutex_t lock;   /* of what follows */
    pthread_cond_t changed; /* stopped, or a dialling is over */
    struct connection *open;
    bool stopped;
    int users; /* the owner, and threads that dial */
};

/* A connection that is being made, by a thread of its own: nothing else could be interrupted. Owned
 * by that thread once nobody waits for it any more. */
struct dialling {
    struct mcp_dial *d;
    int64_t deadline;
    bool done, left; /* under the lock of d */
    int fd;
    struct tn_error err;
};

struct mcp_dial *mcp_dial_new(const char *address)
{
    struct mcp_dial *d = tn_calloc(1, sizeof *d);

    d->address = tn_strdup(address);
    d->users = 1;
    tn_buf_init(&d->headers, TN_WEB_HEADERS_MAX);
    pthread_mutex_init(&d->lock, NULL);
    tn_cond_init(&d->changed);
    return d;
}

static void unref(struct mcp_dial *d)
{
    pthread_mutex_lock(&d->lock);
    bool last = --d->users == 0;
    pthread_mutex_unlock(&d->lock);
    if (!last)
        return;
    tn_buf_done(&d->headers);
    pthread_cond_destroy(&d->changed);
    pthread_mutex_destroy(&d->lock);
    free(d->address);
    free(d);
}

void mcp_dial_free(struct mcp_dial *d)
{
    if (!d)
        return;
    if (d->headers.data)
        explicit_bzero(d->headers.data, d->headers.len);
    unref(d);
}

void mcp_dial_header(struct mcp_dial *d, const char *name, const char *value)
{
    tn_buf_printf(&d->headers, "%s: %s\r\n", name, value);
}

void mcp_dial_stop(struct mcp_dial *d)
{
    pthread_mutex_lock(&d->lock);
    d->stopped = true;
    pthread_cond_broadcast(&d->changed);
    for (struct connection *c = d->open; c; c = c->next)
        shutdown(c->fd, SHUT_RDWR);
    pthread_mutex_unlock(&d->lock);
}

/* --- connections ---------------------------------------------------------------------------- */

static void *dial(void *arg)
{
    struct dialling *g = arg;
    struct mcp_dial *d = g->d;

    g->fd = tn_hand_dial(d->address, g->deadline, &g->err);
    pthread_mutex_lock(&d->lock);
    g->done = true;
    bool left = g->left;
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
    if (left) {
        tn_close(g->fd);
        free(g);
    }
    unref(d);
    return NULL;
}

/* Dials, until the deadline or until everything is to stop. */
static int dial_or_stop(struct mcp_dial *d, int64_t deadline, struct tn_error *err)
{
    struct dialling *g = tn_calloc(1, sizeof *g);
    struct timespec until = tn_timespec(deadline + (int64_t)(GRACE_SECONDS * TN_SECOND));
    pthread_t thread;
    int late = 0;

    *g = (struct dialling){.d = d, .deadline = deadline, .fd = -1};
    pthread_mutex_lock(&d->lock);
    d->users++;
    int failed = tn_thread_start(&thread, dial, g);
    d->users -= failed != 0;
    while (!failed && !g->done && !d->stopped && !late)
        late = pthread_cond_timedwait(&d->changed, &d->lock, &until);
    bool done = g->done;
    g->left = !done;
    pthread_mutex_unlock(&d->lock);
    if (failed) {
        free(g);
        return tn_fail_errno(err, failed, "thread");
    }
    pthread_detach(thread);
    if (!done && late)
        return tn_fail(err, TN_E_TIMEOUT, "no connection in time");
    if (!done)
        return tn_fail(err, TN_E_GONE, "the connection was closed");
    int fd = g->fd;
    if (fd < 0 && err)
        *err = g->err;
    free(g);
    return fd;
}

/* The client owns the descriptor, which is known here as long as it is open. */
static struct tn_http_client *connect_to(struct mcp_dial *d, struct connection *c, int64_t deadline,
                                         struct tn_error *err)
{
    int64_t limit = tn_deadline_in(CONNECT_SECONDS);

    c->fd = dial_or_stop(d, limit < deadline ? limit : deadline, err);
    if (c->fd < 0)
        return NULL;
    pthread_mutex_lock(&d->lock);
    c->next = d->open;
    d->open = c;
    if (d->stopped)
        shutdown(c->fd, SHUT_RDWR);
    pthread_mutex_unlock(&d->lock);
    return tn_http_client_from_fd(c->fd);
}

static void disconnect(struct mcp_dial *d, struct connection *c, struct tn_http_client *http)
{
    pthread_mutex_lock(&d->lock);
    for (struct connection **at = &d->open; *at; at = &(*at)->next)
        if (*at == c) {
            *at = c->next;
            break;
        }
    pthread_mutex_unlock(&d->lock);
    tn_http_client_free(http);
}

/* --- the call ------------------------------------------------------------------------------- */

static void take_headers(const struct tn_http_client *http, struct tn_web_answer *answer)
{
    static const char *const names[] = {"content-type", "location", "mcp-session-id"};

    for (size_t i = 0; i < TN_COUNT(names); i++) {
        const char *value = tn_http_client_answer(http, names[i]);
        if (value)
            tn_buf_printf(&answer->headers, "%s: %s\n", names[i], value);
    }
}

static int take_body(struct tn_http_client *http, const struct tn_web_call *call,
                     struct tn_web_answer *answer, struct tn_error *err)
{
    bool sink = call->sink && answer->status >= 200 && answer->status < 300;
    char piece[16 << 10];
    ssize_t n;

    while ((n = tn_http_client_read(http, piece, sizeof piece, call->deadline, err)) > 0) {
        if (sink && call->sink(piece, (size_t)n, call->sink_ctx) != 0) {
            answer->stopped = true;
            return 0;
        }
        if (!sink && tn_buf_add(&answer->body, piece, (size_t)n) < 0)
            return tn_fail(err, TN_E_TOO_LARGE, "the answer has more than %zu bytes",
                           answer->body.max);
    }
    return n < 0 ? -1 : 0;
}

static int transfer(struct mcp_dial *d, struct tn_http_client *http, const struct tn_web_call *call,
                    struct tn_web_answer *answer, struct tn_error *err)
{
    tn_autobuf struct tn_buf headers = TN_BUF_INIT(2 * TN_WEB_HEADERS_MAX);
    tn_autohandplace struct tn_hand_place place;

    if (tn_hand_place(d->address, &place, err) < 0)
        return -1;
    /* The hand chooses targets, and whoever stands before it takes us for who may see others. */
    if (place.far && tn_url_climbs(call->target))
        return tn_fail(err, TN_E_DENIED, "the server wants to be asked outside of its own path");
    tn_autofree char *target = tn_asprintf("%s%s", place.base, call->target);
    if (place.far)
        tn_buf_printf(&headers, "Host: %s\r\n%s", place.host, place.headers);
    tn_buf_puts(&headers, tn_buf_str(&d->headers));
    for (const char *const *h = call->headers; h && *h; h++)
        tn_buf_printf(&headers, "%s\r\n", *h);
    const struct tn_http_call request = {
        .method = call->method,
        .target = target,
        .type = call->body ? call->type : NULL,
        .body = call->body,
        .body_len = call->body_len,
        .extra_headers = tn_buf_str(&headers),
        .deadline = call->deadline,
    };
    int status = tn_http_client_open(http, &request, err);
    if (headers.data)
        explicit_bzero(headers.data, headers.len);
    if (status < 0)
        return -1;
    answer->status = status;
    take_headers(http, answer);
    if (call->begun && status >= 200 && status < 300)
        call->begun(call->sink_ctx);
    return take_body(http, call, answer, err);
}

int mcp_dial_call(struct mcp_dial *d, const struct tn_web_call *call, struct tn_web_answer *answer,
                  struct tn_error *err)
{
    struct connection c;

    tn_buf_reset(&answer->body);
    tn_buf_reset(&answer->headers);
    answer->status = 0;
    answer->stopped = false;
    struct tn_http_client *http = connect_to(d, &c, call->deadline, err);
    if (!http)
        return -1;
    int result = transfer(d, http, call, answer, err);
    disconnect(d, &c, http);
    return result;
}
