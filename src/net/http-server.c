/* The life of a server: listening, accepting, refusing, stopping. */
#include "net/http-server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "net/http-internal.h"
#include "net/pair.h"

enum {
    ACCEPT_STACK = 64 * 1024,
    REFUSED_MAX = 32,     /* refused connections that may still read their 503 */
    REFUSED_MS = 1000,    /* and for how long */
    RESOURCE_PAUSE = 100, /* ms before accept is tried again when descriptors ran out */
};

struct listener {
    struct listener *next;
    struct tn_http_server *server;
    pthread_t thread;
    int fd;
    bool pair; /* connections are handed over, not accepted */
};

struct tn_http_server {
    struct http_settings settings;
    struct http_routes *routes;
    struct http_conns pool;
    int stop_event; /* readable for ever once stopping */
    pthread_mutex_t lock;
    struct listener *listeners;
};

/* --- settings ------------------------------------------------------------------------------ */

static double seconds_or(double given, double otherwise)
{
    return given > 0 ? given : otherwise;
}

static void fill_settings(struct http_settings *s, const struct tn_http_options *given)
{
    struct tn_http_options *o = &s->options;

    *o = *given;
    o->max_header_bytes = given->max_header_bytes ? given->max_header_bytes : 32 * 1024;
    o->max_target_bytes = given->max_target_bytes ? given->max_target_bytes : 8 * 1024;
    o->max_body_bytes = given->max_body_bytes ? given->max_body_bytes : INT64_C(16) << 30;
    o->max_connections = given->max_connections ? given->max_connections : 256;
    o->stack_bytes = given->stack_bytes ? given->stack_bytes : 128 * 1024;
    o->header_seconds = seconds_or(given->header_seconds, 10);
    o->idle_seconds = seconds_or(given->idle_seconds, 75);
    o->body_seconds = seconds_or(given->body_seconds, 30);
    o->write_seconds = seconds_or(given->write_seconds, 30);
    s->limits.target = o->max_target_bytes;
    s->limits.fields = o->max_header_bytes;
    s->header_wait = (int64_t)(o->header_seconds * 1e9);
    s->body_wait = (int64_t)(o->body_seconds * 1e9);
    s->write_wait = (int64_t)(o->write_seconds * 1e9);
}

const struct http_settings *http_settings_of(const struct tn_http_server *s)
{
    return &s->settings;
}

const struct http_routes *http_routes_of(const struct tn_http_server *s)
{
    return s->routes;
}

bool http_stopping(const struct tn_http_server *s)
{
    return atomic_load_explicit(&s->pool.closed, memory_order_relaxed);
}

struct tn_http_server *tn_http_server_new(const struct tn_http_options *options)
{
    struct tn_http_server *s = tn_calloc(1, sizeof *s);

    fill_settings(&s->settings, options);
    s->routes = http_routes_new(options->routes);
    s->stop_event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&s->lock, NULL);
    http_conns_init(&s->pool, s->settings.options.max_connections,
                    s->settings.options.max_strangers, s->settings.options.stack_bytes);
    return s;
}

/* --- connections --------------------------------------------------------------------------- */

/* Serves the connected fd, which it owns on success. */
static int start_conn(struct tn_http_server *s, int fd, const char *peer, struct http_conn *parent,
                      struct tn_error *err)
{
    const struct tn_http_options *o = &s->settings.options;
    int on = 1;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (net_recv_timeout(fd, o->max_strangers ? o->header_seconds : o->idle_seconds) < 0)
        return tn_fail_errno(err, errno, "set up a connection");
    return http_conns_start(&s->pool, s, fd, peer, parent, err);
}

static void name_peer(const struct sockaddr_storage *addr, char out[INET6_ADDRSTRLEN])
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)addr;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)addr;

    if (addr->ss_family == AF_INET)
        inet_ntop(AF_INET, &v4->sin_addr, out, INET6_ADDRSTRLEN);
    else if (addr->ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr))
        inet_ntop(AF_INET, &v6->sin6_addr.s6_addr[12], out, INET6_ADDRSTRLEN);
    else if (addr->ss_family == AF_INET6)
        inet_ntop(AF_INET6, &v6->sin6_addr, out, INET6_ADDRSTRLEN);
    else
        snprintf(out, INET6_ADDRSTRLEN, "unix");
}

static int adopt(struct tn_http_server *s, int fd, const char *peer, struct http_conn *parent,
                 struct tn_error *err)
{
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 ||
        fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) < 0)
        tn_fail_errno(err, errno, "adopt descriptor %d", fd);
    else if (start_conn(s, fd, peer, parent, err) == 0)
        return 0;
    tn_close(fd);
    return -1;
}

int tn_http_server_adopt_as(struct tn_http_server *s, int fd, const char *peer,
                            struct tn_error *err)
{
    return adopt(s, fd, peer, NULL, err);
}

int http_adopt_stream(struct http_conn *parent, int fd)
{
    return adopt(parent->server, fd, parent->peer, parent, NULL);
}

int tn_http_server_adopt(struct tn_http_server *s, int fd, struct tn_error *err)
{
    struct sockaddr_storage addr = {0};
    socklen_t len = sizeof addr;
    char peer[INET6_ADDRSTRLEN];

    if (getpeername(fd, (struct sockaddr *)&addr, &len) < 0) {
        tn_fail_errno(err, errno, "adopt descriptor %d", fd);
        tn_close(fd);
        return -1;
    }
    name_peer(&addr, peer);
    return tn_http_server_adopt_as(s, fd, peer, err);
}

/* --- refusing ------------------------------------------------------------------------------ */

/* A refused client gets its 503 and a moment to read it: closing with its request unread would
 * reset the connection under the answer. */
struct refused {
    struct pollfd fds[2 + REFUSED_MAX]; /* the listener, the stop event, then the refused */
    int64_t until[2 + REFUSED_MAX];
    nfds_t count;
};

static void forget(struct refused *r, nfds_t i)
{
    close(r->fds[i].fd);
    r->count--;
    r->fds[i] = r->fds[r->count];
    r->until[i] = r->until[r->count];
}

static void refuse(struct refused *r, int fd)
{
    static const char busy[] = "HTTP/1.1 503 Service Unavailable\r\n"
                               "Content-Type: application/json\r\n"
                               "Content-Length: 33\r\n"
                               "Retry-After: 1\r\n"
                               "Connection: close\r\n"
                               "\r\n"
                               "{\"detail\":\"Too many connections\"}";

    if (send(fd, busy, sizeof busy - 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ||
        shutdown(fd, SHUT_WR) < 0 || r->count == TN_COUNT(r->fds)) {
        close(fd);
        return;
    }
    r->fds[r->count] = (struct pollfd){.fd = fd, .events = POLLIN};
    r->until[r->count++] = tn_now() + REFUSED_MS * TN_MILLI;
}

/* Discards what refused clients send; lets go of those that finished or had their time. */
static void look_after_refused(struct refused *r)
{
    char scrap[4096];
    int64_t now = r->count > 2 ? tn_now() : 0;

    for (nfds_t i = r->count; i-- > 2;) {
        ssize_t got = -1;
        if (r->fds[i].revents)
            got = recv(r->fds[i].fd, scrap, sizeof scrap, MSG_DONTWAIT);
        bool ended = r->fds[i].revents && (got == 0 || (got < 0 && errno != EAGAIN));
        if (ended || now >= r->until[i])
            forget(r, i);
    }
}

/* --- accepting ----------------------------------------------------------------------------- */

static void accept_one(struct listener *l, struct refused *r)
{
    struct sockaddr_storage addr = {0};
    socklen_t len = sizeof addr;
    char peer[INET6_ADDRSTRLEN];

    int fd = l->pair ? net_pair_take(l->fd)
                     : accept4(l->fd, (struct sockaddr *)&addr, &len, SOCK_CLOEXEC);
    if (fd < 0 && l->pair && errno == EPIPE) {
        r->fds[0].fd = -1; /* nobody can hand us anything any more */
        return;
    }
    if (fd < 0) {
        /* Out of descriptors or memory, mostly: the client waits in the backlog until some come
         * free. */
        if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
            poll(&r->fds[1], 1, RESOURCE_PAUSE);
        return;
    }
    name_peer(&addr, peer);
    if (start_conn(l->server, fd, peer, NULL, NULL) < 0)
        refuse(r, fd);
}

static void *accept_loop(void *arg)
{
    struct listener *l = arg;
    struct refused r = {.count = 2};

    r.fds[0] = (struct pollfd){.fd = l->fd, .events = POLLIN};
    r.fds[1] = (struct pollfd){.fd = l->server->stop_event, .events = POLLIN};
    for (;;) {
        if (poll(r.fds, r.count, r.count > 2 ? RESOURCE_PAUSE : -1) < 0)
            continue;
        if (r.fds[1].revents)
            break;
        look_after_refused(&r);
        if (r.fds[0].revents)
            accept_one(l, &r);
    }
    while (r.count > 2)
        forget(&r, 2);
    close(l->fd);
    return NULL;
}

int tn_http_server_listen(struct tn_http_server *s, int listen_fd, struct tn_error *err)
{
    tn_autofd int fd = listen_fd;
    tn_autofree struct listener *l = tn_calloc(1, sizeof *l);
    pthread_attr_t attr;
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return tn_fail_errno(err, errno, "listen on descriptor %d", listen_fd);
    if (s->stop_event < 0)
        return tn_fail(err, TN_E_IO, "the server could not make its stop event");
    l->server = s;
    l->fd = fd;
    l->pair = net_is_pair(fd);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, ACCEPT_STACK * http_stack_factor);
    int why = pthread_create(&l->thread, &attr, accept_loop, l);
    pthread_attr_destroy(&attr);
    if (why)
        return tn_fail_errno(err, why, "start the accept thread");
    pthread_mutex_lock(&s->lock);
    l->next = s->listeners;
    s->listeners = TN_TAKE_PTR(l);
    pthread_mutex_unlock(&s->lock);
    fd = -1; /* the accept thread closes it */
    return 0;
}

/* --- stopping ------------------------------------------------------------------------------ */

static void join_listeners(struct tn_http_server *s)
{
    pthread_mutex_lock(&s->lock);
    struct listener *l = s->listeners;
    s->listeners = NULL;
    pthread_mutex_unlock(&s->lock);
    while (l) {
        struct listener *next = l->next;
        pthread_join(l->thread, NULL);
        free(l);
        l = next;
    }
}

static void stop_accepting(struct tn_http_server *s)
{
    uint64_t one = 1;

    ssize_t woken = write(s->stop_event, &one, sizeof one);
    (void)woken;
    join_listeners(s); /* before the pool closes: who was accepted is served */
    http_conns_close(&s->pool);
}

int tn_http_server_drain(struct tn_http_server *s, double seconds)
{
    const unsigned busy = 1u << HTTP_READING | 1u << HTTP_ANSWERING;
    int64_t start = tn_now(), span = (int64_t)(seconds * 1e9);

    stop_accepting(s);
    http_conns_drain(&s->pool, busy | 1u << HTTP_FRESH,
                     start + (span < TN_SECOND ? span : TN_SECOND));
    return http_conns_drain(&s->pool, busy, start + span);
}

int tn_http_server_stop(struct tn_http_server *s, double seconds)
{
    int64_t start = tn_now(), span = (int64_t)(seconds * 1e9);

    stop_accepting(s);
    /* First only the reading side, so that answers under way still reach their clients. */
    if (http_conns_shut(&s->pool, SHUT_RD, start + span / 2) == 0)
        return 0;
    return http_conns_shut(&s->pool, SHUT_RDWR, start + span);
}

void tn_http_server_free(struct tn_http_server *s)
{
    if (!s)
        return;
    http_routes_free(s->routes);
    http_conns_done(&s->pool);
    pthread_mutex_destroy(&s->lock);
    tn_close(s->stop_event);
    free(s);
}
