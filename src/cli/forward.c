#include "cli/forward.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/thread.h"
#include "net/listen.h"
#include "net/pump.h"

#define DIAL_SECONDS 10.0

enum { MAX_CONNECTIONS = 256 };

/* --- what is wanted ------------------------------------------------------------------------ */

static bool read_port(const char *text, size_t n, int least, int *port)
{
    char *end;
    tn_autofree char *copy = tn_strndup(text, n);
    long value = strtol(copy, &end, 10);

    *port = (int)value;
    return n > 0 && n < 6 && !*end && *copy >= '0' && *copy <= '9' && value >= least &&
           value <= 65535;
}

int forward_parse(const char *text, struct forward *out, struct tn_error *err)
{
    const char *last = strrchr(text, ':');
    const char *inside = last ? last + 1 : text;

    *out = (struct forward){.host = "127.0.0.1"};
    if (!read_port(inside, strlen(inside), 1, &out->inside))
        return tn_fail(err, TN_E_INVALID,
                       "%s: expected PORT, LOCAL:PORT or HOST:LOCAL:PORT, with ports up to 65535",
                       text);
    if (!last) {
        out->local = out->inside;
        return 0;
    }
    const char *before = memrchr(text, ':', (size_t)(last - text));
    const char *local = before ? before + 1 : text;
    if (!read_port(local, (size_t)(last - local), 0, &out->local) ||
        (before && (size_t)(before - text) >= sizeof out->host))
        return tn_fail(err, TN_E_INVALID, "%s: expected LOCAL:PORT or HOST:LOCAL:PORT", text);
    if (before)
        snprintf(out->host, sizeof out->host, "%.*s", (int)(before - text), text);
    return 0;
}

/* --- carrying ------------------------------------------------------------------------------ */

struct connection {
    struct connection *next;
    struct carrier *carrier;
    int client, inside, port;
    pthread_t thread;
    bool over; /* its thread has nothing more to do but to end */
};

struct carrier {
    struct cli *cli;
    struct tn_sandbox *sb;
    pthread_mutex_t dialling; /* the handle serves one thread at a time */
    pthread_mutex_t lock;     /* of what follows */
    pthread_cond_t changed;
    struct connection *connections;
    int count;
    bool closing;
};

static int dial(struct connection *c, struct tn_error *err)
{
    struct carrier *carrier = c->carrier;

    pthread_mutex_lock(&carrier->dialling);
    int fd = tn_sandbox_dial(carrier->sb, c->port, tn_deadline_in(DIAL_SECONDS), err);
    pthread_mutex_unlock(&carrier->dialling);

    pthread_mutex_lock(&carrier->lock);
    c->inside = fd;
    bool closing = carrier->closing;
    pthread_mutex_unlock(&carrier->lock);
    return closing ? -1 : fd;
}

static void end(struct connection *c)
{
    struct carrier *carrier = c->carrier;

    pthread_mutex_lock(&carrier->lock);
    tn_close(TN_TAKE_FD(c->inside));
    tn_close(TN_TAKE_FD(c->client));
    c->over = true;
    pthread_cond_broadcast(&carrier->changed);
    pthread_mutex_unlock(&carrier->lock);
}

/* Their threads are joined: what libraries keep for a thread is given up at its very end, and a
 * process that ended before would leave it behind.  With the lock. */
static void bury(struct carrier *carrier)
{
    for (struct connection **at = &carrier->connections, *c; (c = *at);) {
        if (!c->over) {
            at = &c->next;
            continue;
        }
        *at = c->next;
        pthread_join(c->thread, NULL);
        free(c);
        carrier->count--;
    }
}

static void *serve(void *arg)
{
    struct connection *c = arg;
    struct tn_error err = {0};
    int inside = dial(c, &err);

    if (inside >= 0)
        tn_pump(c->client, inside, NULL, NULL);
    else if (err.code)
        cli_note(c->carrier->cli, "%s", err.text);
    end(c);
    return NULL;
}

static void take(struct carrier *carrier, int listener, int port)
{
    tn_autofd int client = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

    if (client < 0)
        return;
    struct connection *c = tn_calloc(1, sizeof *c);
    *c = (struct connection){.carrier = carrier, .client = client, .inside = -1, .port = port};
    pthread_mutex_lock(&carrier->lock);
    bury(carrier);
    if (carrier->count < MAX_CONNECTIONS && tn_thread_start(&c->thread, serve, c) == 0) {
        TN_TAKE_FD(client);
        c->next = carrier->connections;
        carrier->connections = TN_TAKE_PTR(c);
        carrier->count++;
    }
    pthread_mutex_unlock(&carrier->lock);
    free(c);
}

/* Ends what is carried, and waits for it: a thread may still use the sandbox. */
static void carrier_done(struct carrier *carrier)
{
    pthread_mutex_lock(&carrier->lock);
    carrier->closing = true;
    for (struct connection *c = carrier->connections; c; c = c->next) {
        if (c->client >= 0)
            shutdown(c->client, SHUT_RDWR);
        if (c->inside >= 0)
            shutdown(c->inside, SHUT_RDWR);
    }
    for (bury(carrier); carrier->count > 0; bury(carrier))
        pthread_cond_wait(&carrier->changed, &carrier->lock);
    pthread_mutex_unlock(&carrier->lock);
    pthread_cond_destroy(&carrier->changed);
    pthread_mutex_destroy(&carrier->lock);
    pthread_mutex_destroy(&carrier->dialling);
}

/* --- listening ----------------------------------------------------------------------------- */

static int listen_on(struct forward *f, struct tn_error *err)
{
    tn_autofree char *text = tn_asprintf(
        strchr(f->host, ':') && *f->host != '[' ? "[%s]:%d" : "%s:%d", f->host, f->local);
    struct tn_listen_address address;
    struct sockaddr_storage bound;
    socklen_t n = sizeof bound;

    if (tn_listen_parse(text, &address, err) < 0)
        return -1;
    int fd = tn_listen_open(&address, err);
    if (fd < 0 || getsockname(fd, (struct sockaddr *)&bound, &n) < 0)
        return fd;
    f->local = ntohs(bound.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&bound)->sin6_port
                                                 : ((struct sockaddr_in *)&bound)->sin_port);
    return fd;
}

static int open_signals(sigset_t *before, struct tn_error *err)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &set, before);
    int fd = signalfd(-1, &set, SFD_CLOEXEC);
    return fd < 0 ? tn_fail_errno(err, errno, "signalfd") : fd;
}

static int listen_for(struct carrier *carrier, struct pollfd *p, const struct forward *list,
                      size_t count)
{
    struct signalfd_siginfo info;

    for (;;) {
        if (poll(p, count + 1, -1) < 0)
            continue;
        if (p[count].revents && read(p[count].fd, &info, sizeof info) == sizeof info)
            return 0;
        for (size_t i = 0; i < count; i++)
            if (p[i].revents)
                take(carrier, p[i].fd, list[i].inside);
    }
}

int forward_all(struct cli *cli, struct tn_sandbox *sb, struct forward *list, size_t count,
                void (*ready)(const struct forward *f, void *ctx), void *ctx, struct tn_error *err)
{
    struct carrier carrier = {.cli = cli,
                              .sb = sb,
                              .dialling = PTHREAD_MUTEX_INITIALIZER,
                              .lock = PTHREAD_MUTEX_INITIALIZER,
                              .changed = PTHREAD_COND_INITIALIZER};
    tn_autofree struct pollfd *p = tn_calloc(count + 1, sizeof *p);
    sigset_t before;
    size_t open = 0;
    int status = 0;

    for (; open < count && status == 0; open++) {
        p[open] = (struct pollfd){.fd = listen_on(&list[open], err), .events = POLLIN};
        status = p[open].fd < 0 ? -1 : 0;
    }
    if (status == 0) {
        tn_autofd int signals = open_signals(&before, err);
        p[count] = (struct pollfd){.fd = signals, .events = POLLIN};
        for (size_t i = 0; i < count && signals >= 0; i++)
            ready(&list[i], ctx);
        fflush(stdout);
        status = signals < 0 ? -1 : listen_for(&carrier, p, list, count);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    for (size_t i = 0; i < open; i++)
        tn_close(p[i].fd);
    carrier_done(&carrier);
    return status;
}
