#include "service/tls.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/key-file.h"
#include "base/thread.h"
#include "net/address.h"
#include "net/tls-lib.h"
#include "service/listen.h"

enum {
    RECORD = 16 * 1024,   /* the most that TLS carries in one piece */
    RESOURCE_PAUSE = 100, /* ms before accept is tried again when descriptors ran out */
    SHAKING_MAX = 512,    /* handshakes at a time: over it the oldest goes */
};
/* Of TLS 1.2: who learns the private key one day does not read what was recorded before.  All
 * of 1.3 are so. */
#define SUITES_1_2 "ECDHE+AESGCM:ECDHE+CHACHA20"
#define HANDSHAKE_SECONDS 10.0
#define FLUSH_SECONDS 10.0 /* for a client to take the last bytes */
#define LINGER_SECONDS 1.0 /* and to close, so that nothing is reset under them */

struct listener {
    struct listener *next;
    struct tls *tls;
    struct tn_http_server *http;
    pthread_t thread;
    int fd;
};

struct tls {
    const struct tn_tls_lib *lib;
    SSL_CTX *ctx;
    int stop; /* eventfd, readable for ever once nobody is let in any more */
    struct listener *listeners;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    struct client *clients;
    int count, shaking; /* all of them, and those that the server does not have yet */
};

struct client {
    struct client *next, **at;
    struct tls *tls;
    struct tn_http_server *http;
    SSL *ssl;
    int fd;
    bool shaking, dropped; /* under the lock */
    char peer[TN_ADDRESS_TEXT];
};

/* --- setting up ---------------------------------------------------------------------------- */

/* What OpenSSL complained about last. */
static int fail(const struct tls *t, struct tn_error *err, const char *what, const char *path)
{
    char text[256];
    unsigned long code = t->lib->ERR_get_error();

    t->lib->ERR_error_string_n(code, text, sizeof text);
    t->lib->ERR_clear_error();
    return tn_fail(err, TN_E_INVALID, "%s %s: %s", what, path, text);
}

/* Nobody is asked for a password. */
static int no_password(char *buf, int size, int writing, void *ctx)
{
    return -1;
}

/* As text: what is used is the file that was looked at. */
static int use_key(struct tls *t, const char *path, struct tn_error *err)
{
    const struct tn_tls_lib *lib = t->lib;
    tn_autokeyfile struct tn_buf text = TN_KEY_FILE_INIT;

    if (tn_key_file_read(path, TN_KEY_FILE_READABLE, &text, err) < 0)
        return tn_error_context(err, "private key");
    BIO *in = lib->BIO_new_mem_buf(tn_buf_str(&text), (int)text.len);
    EVP_PKEY *key = in ? lib->PEM_read_bio_PrivateKey(in, NULL, no_password, NULL) : NULL;
    bool used = key && lib->SSL_CTX_use_PrivateKey(t->ctx, key) == 1 &&
                lib->SSL_CTX_check_private_key(t->ctx) == 1;
    lib->EVP_PKEY_free(key);
    lib->BIO_free(in);
    return used ? 0 : fail(t, err, "private key", path);
}

/* HTTP/2 where the client knows it; which of the two it then speaks, the server sees. */
static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                           const unsigned char *in, unsigned in_len, void *ctx)
{
    static const struct {
        const char *name;
        unsigned char len;
    } ours[] = {{"h2", 2}, {"http/1.1", 8}};

    for (size_t i = 0; i < TN_COUNT(ours); i++)
        for (unsigned at = 0; at < in_len && in[at] < in_len - at; at += 1u + in[at])
            if (in[at] == ours[i].len && memcmp(in + at + 1, ours[i].name, in[at]) == 0) {
                *out = in + at + 1;
                *out_len = in[at];
                return SSL_TLSEXT_ERR_OK;
            }
    return SSL_TLSEXT_ERR_NOACK;
}

static int set_up(struct tls *t, const char *cert, const char *key, struct tn_error *err)
{
    const struct tn_tls_lib *lib = t->lib;

    t->ctx = lib->SSL_CTX_new(lib->TLS_server_method());
    if (!t->ctx)
        return fail(t, err, "TLS", "cannot be set up");
    lib->SSL_CTX_ctrl(t->ctx, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_2_VERSION, NULL);
    if (lib->SSL_CTX_set_cipher_list(t->ctx, SUITES_1_2) != 1)
        return fail(t, err, "TLS", "has no such suites here: " SUITES_1_2);
    lib->SSL_CTX_ctrl(t->ctx, SSL_CTRL_MODE,
                      SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                          SSL_MODE_RELEASE_BUFFERS,
                      NULL);
    lib->SSL_CTX_set_alpn_select_cb(t->ctx, choose_protocol, NULL);
    /* HTTP says itself where a message ends: a client that just hangs up did nothing wrong. */
    lib->SSL_CTX_set_options(t->ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                         SSL_OP_IGNORE_UNEXPECTED_EOF);
    if (lib->SSL_CTX_use_certificate_chain_file(t->ctx, cert) != 1)
        return fail(t, err, "certificate", cert);
    return use_key(t, key, err);
}

struct tls *tls_new(const char *cert, const char *key, struct tn_error *err)
{
    const struct tn_tls_lib *lib = tn_tls_lib(err);

    if (!lib)
        return NULL;
    struct tls *t = tn_calloc(1, sizeof *t);
    t->lib = lib;
    t->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&t->lock, NULL);
    tn_cond_init(&t->changed);
    int result = t->stop < 0 ? tn_fail_errno(err, errno, "TLS") : set_up(t, cert, key, err);
    if (result == 0)
        return t;
    tls_free(t);
    return NULL;
}

void tls_free(struct tls *t)
{
    if (!t)
        return;
    if (t->ctx)
        t->lib->SSL_CTX_free(t->ctx);
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->lock);
    tn_close(t->stop);
    free(t);
}

/* --- the handshake ------------------------------------------------------------------------- */

/* What OpenSSL waits for after that result: poll events, or 0 when it is over. */
static short wanted(const struct client *c, int result)
{
    switch (c->tls->lib->SSL_get_error(c->ssl, result)) {
    case SSL_ERROR_WANT_READ:
        return POLLIN;
    case SSL_ERROR_WANT_WRITE:
        return POLLOUT;
    default:
        return 0;
    }
}

static int shake_hands(struct client *c)
{
    const struct tn_tls_lib *lib = c->tls->lib;
    int64_t deadline = tn_deadline_in(HANDSHAKE_SECONDS);

    c->ssl = lib->SSL_new(c->tls->ctx);
    if (!c->ssl || lib->SSL_set_fd(c->ssl, c->fd) != 1)
        return -1;
    for (;;) {
        lib->ERR_clear_error();
        int result = lib->SSL_accept(c->ssl);
        struct pollfd p = {.fd = c->fd, .events = result == 1 ? 0 : wanted(c, result)};
        if (result == 1)
            return 0;
        if (!p.events || poll(&p, 1, tn_poll_ms(deadline)) == 0)
            return -1;
    }
}

/* One end for us, the other one is the server's; -1 when it does not want it. */
static int open_inner(const struct client *c)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return -1;
    if (tn_http_server_adopt_as(c->http, pair[1], c->peer, NULL) < 0) {
        close(pair[0]);
        return -1;
    }
    return pair[0];
}

/* --- carrying bytes ------------------------------------------------------------------------ */

/* One direction. */
struct flow {
    char bytes[RECORD];
    size_t at, end; /* what is still to be delivered */
    bool ended;     /* nothing more comes */
    bool told;      /* and the other side knows */
};

struct pump {
    const struct client *c;
    const struct tn_tls_lib *lib;
    int inner;
    struct flow in, out; /* from the client, to the client */
    short outer_events, inner_events;
    bool moved;  /* something, so that more may move */
    bool broken; /* nothing more gets to the client */
};

static void read_client(struct pump *p)
{
    struct flow *f = &p->in;

    if (f->ended || f->at < f->end)
        return;
    p->lib->ERR_clear_error();
    int n = p->lib->SSL_read(p->c->ssl, f->bytes, sizeof f->bytes);
    if (n > 0) {
        f->at = 0;
        f->end = (size_t)n;
        p->moved = true;
        return;
    }
    short events = wanted(p->c, n);
    p->outer_events |= events;
    f->ended = !events;
    p->broken |= !events && p->lib->SSL_get_error(p->c->ssl, n) != SSL_ERROR_ZERO_RETURN;
}

static void write_server(struct pump *p)
{
    struct flow *f = &p->in;

    if (f->at < f->end) {
        ssize_t n = send(p->inner, f->bytes + f->at, f->end - f->at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0) {
            f->at += (size_t)n;
            p->moved = true;
        } else if (errno == EAGAIN || errno == EINTR) {
            p->inner_events |= POLLOUT;
        } else { /* it reads no more, but may still answer */
            f->at = f->end;
            f->ended = f->told = true;
        }
    }
    if (f->ended && f->at == f->end && !f->told) {
        shutdown(p->inner, SHUT_WR);
        f->told = true;
    }
}

static void read_server(struct pump *p)
{
    struct flow *f = &p->out;

    if (f->ended || f->at < f->end)
        return;
    ssize_t n = recv(p->inner, f->bytes, sizeof f->bytes, MSG_DONTWAIT);
    if (n > 0) {
        f->at = 0;
        f->end = (size_t)n;
        p->moved = true;
    } else if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        p->inner_events |= POLLIN;
    } else {
        f->ended = true;
    }
}

static void write_client(struct pump *p)
{
    struct flow *f = &p->out;

    if (f->at == f->end)
        return;
    p->lib->ERR_clear_error();
    int n = p->lib->SSL_write(p->c->ssl, f->bytes + f->at, (int)(f->end - f->at));
    if (n > 0) {
        f->at += (size_t)n;
        p->moved = true;
        return;
    }
    short events = wanted(p->c, n);
    p->outer_events |= events;
    p->broken |= !events;
}

static void move(struct pump *p)
{
    p->outer_events = p->inner_events = 0;
    p->moved = false;
    read_client(p);
    write_server(p);
    read_server(p);
    write_client(p);
}

/* Until the server has closed and the client has everything, or is gone.  True: it is still there.
 */
static bool carry(struct pump *p)
{
    int64_t deadline = TN_NEVER; /* for the next bytes to go, once the server has hung up */
    bool hung_up = false;

    for (;;) {
        move(p);
        if (p->broken)
            return false;
        if (p->out.ended && p->out.at == p->out.end)
            return true;
        if (p->moved) {
            deadline = TN_NEVER;
            continue;
        }
        hung_up |= p->out.ended;
        if (hung_up && deadline == TN_NEVER)
            deadline = tn_deadline_in(FLUSH_SECONDS);
        /* A server that gave up on a client that reads nothing is noticed without being read. */
        struct pollfd fds[] = {
            {.fd = p->c->fd, .events = p->outer_events},
            {.fd = hung_up && !p->inner_events ? -1 : p->inner, .events = p->inner_events},
        };
        if (poll(fds, 2, tn_poll_ms(deadline)) == 0 || fds[0].revents & (POLLERR | POLLHUP))
            return false;
        hung_up |= (fds[1].revents & POLLHUP) != 0;
    }
}

/* Says goodbye, and reads away what comes meanwhile. */
static void part(const struct client *c)
{
    int64_t deadline = tn_deadline_in(LINGER_SECONDS);
    struct pollfd p = {.fd = c->fd, .events = POLLIN};
    char scrap[4096];

    c->tls->lib->ERR_clear_error();
    c->tls->lib->SSL_shutdown(c->ssl);
    shutdown(c->fd, SHUT_WR);
    while (poll(&p, 1, tn_poll_ms(deadline)) > 0 && recv(c->fd, scrap, sizeof scrap, 0) > 0)
        ;
}

/* --- clients ------------------------------------------------------------------------------- */

/* The handshake that has taken longest goes.  Under the lock. */
static void drop_handshake(struct tls *t)
{
    struct client *oldest = NULL;

    for (struct client *c = t->clients; c; c = c->next)
        if (c->shaking && !c->dropped)
            oldest = c;
    if (oldest) {
        oldest->dropped = true;
        shutdown(oldest->fd, SHUT_RDWR);
    }
}

/* False: there are too many, though the server lets no more be than it has places for. */
static bool enlist(struct client *c)
{
    struct tls *t = c->tls;

    pthread_mutex_lock(&t->lock);
    if (t->shaking >= SHAKING_MAX)
        drop_handshake(t);
    if (t->count >= SERVICE_CONNECTIONS + SERVICE_STRANGERS + 2 * SHAKING_MAX) {
        pthread_mutex_unlock(&t->lock);
        return false;
    }
    c->next = t->clients;
    c->at = &t->clients;
    if (c->next)
        c->next->at = &c->next;
    t->clients = c;
    t->count++;
    t->shaking++;
    c->shaking = true;
    pthread_mutex_unlock(&t->lock);
    return true;
}

static void no_longer_shaking(struct client *c)
{
    struct tls *t = c->tls;

    pthread_mutex_lock(&t->lock);
    c->shaking = false;
    t->shaking--;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
}

static void forget(struct client *c)
{
    struct tls *t = c->tls;

    if (c->ssl)
        t->lib->SSL_free(c->ssl);
    /* What the library keeps for this thread goes before anybody is told that the thread is done:
     * the process may end then. */
    t->lib->OPENSSL_thread_stop();
    pthread_mutex_lock(&t->lock);
    *c->at = c->next;
    if (c->next)
        c->next->at = c->at;
    close(c->fd);
    free(c);
    t->count--;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
}

static void *serve(void *arg)
{
    struct client *c = arg;
    struct pump p = {.c = c, .lib = c->tls->lib, .inner = -1};

    if (shake_hands(c) == 0)
        p.inner = open_inner(c);
    no_longer_shaking(c);
    if (p.inner >= 0) {
        bool there = carry(&p);
        close(p.inner);
        if (there)
            part(c);
    }
    forget(c);
    return NULL;
}

static void name_peer(const struct sockaddr_storage *addr, char out[TN_ADDRESS_TEXT])
{
    struct tn_address peer;
    uint16_t port;

    if (tn_address_from((const struct sockaddr *)addr, &peer, &port))
        tn_address_text(&peer, out);
}

static void accept_one(const struct listener *l)
{
    struct tls *t = l->tls;
    struct sockaddr_storage addr = {0};
    socklen_t len = sizeof addr;
    struct pollfd stop = {.fd = t->stop, .events = POLLIN};
    pthread_t thread;
    int on = 1;

    int fd = accept4(l->fd, (struct sockaddr *)&addr, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
        if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
            poll(&stop, 1, RESOURCE_PAUSE);
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    struct client *c = tn_calloc(1, sizeof *c);
    c->tls = t;
    c->http = l->http;
    c->fd = fd;
    name_peer(&addr, c->peer);
    if (!enlist(c)) {
        close(fd);
        free(c);
        return;
    }
    if (tn_thread_start(&thread, serve, c) == 0) {
        pthread_detach(thread);
        return;
    }
    no_longer_shaking(c);
    forget(c);
}

static void *accept_loop(void *arg)
{
    struct listener *l = arg;
    struct pollfd fds[] = {{.fd = l->fd, .events = POLLIN}, {.fd = l->tls->stop, .events = POLLIN}};

    for (;;) {
        if (poll(fds, 2, -1) < 0)
            continue;
        if (fds[1].revents)
            return NULL;
        accept_one(l);
    }
}

int tls_listen(struct tls *t, int fd, struct tn_http_server *http, struct tn_error *err)
{
    struct listener *l = tn_calloc(1, sizeof *l);

    *l = (struct listener){.next = t->listeners, .tls = t, .http = http, .fd = fd};
    int flags = fcntl(fd, F_GETFL);
    int why = flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? errno : 0;
    if (!why)
        why = tn_thread_start(&l->thread, accept_loop, l);
    if (!why) {
        t->listeners = l;
        return 0;
    }
    close(fd);
    free(l);
    return tn_fail_errno(err, why, "TLS");
}

/* --- the end ------------------------------------------------------------------------------- */

void tls_shut(struct tls *t, int64_t deadline)
{
    struct timespec until = tn_timespec(deadline), cut = tn_timespec(deadline + TN_SECOND);
    int r = 0;

    eventfd_write(t->stop, 1);
    while (t->listeners) {
        struct listener *l = t->listeners;
        t->listeners = l->next;
        pthread_join(l->thread, NULL);
        close(l->fd);
        free(l);
    }
    pthread_mutex_lock(&t->lock);
    while (t->shaking > 0 && r == 0)
        r = pthread_cond_timedwait(&t->changed, &t->lock, &until);
    for (struct client *c = t->clients; c; c = c->next)
        if (c->shaking)
            shutdown(c->fd, SHUT_RDWR);
    /* One that was through with it in that moment still hands its client to the server. */
    for (r = 0; t->shaking > 0 && r == 0;)
        r = pthread_cond_timedwait(&t->changed, &t->lock, &cut);
    pthread_mutex_unlock(&t->lock);
}

int tls_wait(struct tls *t, int64_t deadline)
{
    struct timespec until = tn_timespec(deadline), cut = tn_timespec(deadline + TN_SECOND);
    int r = 0;

    pthread_mutex_lock(&t->lock);
    while (t->count > 0 && r == 0)
        r = pthread_cond_timedwait(&t->changed, &t->lock, &until);
    for (struct client *c = t->clients; c; c = c->next)
        shutdown(c->fd, SHUT_RDWR);
    for (r = 0; t->count > 0 && r == 0;)
        r = pthread_cond_timedwait(&t->changed, &t->lock, &cut);
    int left = t->count;
    pthread_mutex_unlock(&t->lock);
    return left;
}
