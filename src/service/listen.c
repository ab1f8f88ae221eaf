#include "service/listen.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/log.h"
#include "net/listen.h"
#include "net/socket-io.h"
#include "service/tls.h"

/* What the program before left: "lock=7" and "127.0.0.1:7171=5", one a line.  Descriptors are
 * checked before they are used: a variable is only a claim. */
#define INHERITED "TENDON_SERVICE_INHERITED"

struct door {
    struct tn_listen_address address;
    const char *text;
    int fd;
    bool tls;
};

struct doors {
    struct door *list;
    size_t count;
    struct tls *tls; /* NULL: none */
    bool handed_over;
};

/* --- what may be listened on --------------------------------------------------------------- */

/* Where a socket listens. */
union place {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_storage room;
};

static union place place_of(int fd)
{
    union place at = {0};
    socklen_t len = sizeof at;

    if (getsockname(fd, &at.any, &len) < 0)
        at.any.sa_family = AF_UNSPEC;
    return at;
}

/* Whether whoever connects is on this machine. */
static bool is_local(int fd)
{
    union place at = place_of(fd);

    if (at.any.sa_family == AF_INET)
        return ntohl(at.v4.sin_addr.s_addr) >> 24 == 127;
    if (at.any.sa_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&at.v6.sin6_addr);
    return at.any.sa_family == AF_UNIX;
}

static int refuse_beyond(const char *text, struct tn_error *err)
{
    return tn_fail(
        err, TN_E_DENIED,
        "listen: %s can be reached from other machines, and keys would cross the network "
        "in the clear; give --tls-cert and --tls-key, or --insecure when something in "
        "front of it encrypts, or listen on 127.0.0.1",
        text);
}

/* An inherited descriptor is asked when it is opened. */
static int check_address(const struct tn_service_options *o, const char *text,
                         struct tn_listen_address *a, struct tn_error *err)
{
    if (tn_listen_parse(text, a, err) < 0)
        return -1;
    if (a->kind == TN_LISTEN_PAIR)
        return tn_fail(err, TN_E_INVALID, "listen: %s: expected HOST:PORT, unix:PATH or fd:N",
                       text);
    if (a->kind == TN_LISTEN_TCP && !a->loopback && !o->tls_cert && !o->insecure)
        return refuse_beyond(text, err);
    return 0;
}

int doors_check(const struct tn_service_options *o, struct tn_error *err)
{
    struct tn_listen_address a;

    if (!o->listen.count)
        return tn_fail(err, TN_E_INVALID, "listen: no address");
    for (size_t i = 0; i < o->listen.count; i++)
        if (check_address(o, o->listen.items[i], &a, err) < 0)
            return -1;
    if (!o->tls_cert != !o->tls_key)
        return tn_fail(err, TN_E_INVALID, "TLS needs both tls_cert and tls_key");
    if (!o->tls_cert)
        return 0;
    struct tls *tls = tls_new(o->tls_cert, o->tls_key, err);
    tls_free(tls);
    return tls ? 0 : -1;
}

/* --- from the program before --------------------------------------------------------------- */

/* The descriptor that the variable gives for `name`, or -1. */
static int inherited(const char *name)
{
    const char *list = getenv(INHERITED);
    size_t n = strlen(name);

    for (const char *p = list; p && *p; p += strcspn(p, "\n"), p += *p == '\n') {
        if (strncmp(p, name, n) != 0 || p[n] != '=')
            continue;
        int fd = (int)strtol(p + n + 1, NULL, 10);
        if (fd > 2 && fcntl(fd, F_SETFD, FD_CLOEXEC) == 0)
            return fd;
    }
    return -1;
}

int doors_inherited_lock(void)
{
    return inherited("lock");
}

void doors_hand_over(struct doors *d, int lock)
{
    tn_autobuf struct tn_buf list = TN_BUF_INIT(64 * 1024);

    if (lock >= 0 && fcntl(lock, F_SETFD, 0) == 0)
        tn_buf_printf(&list, "lock=%d", lock);
    for (size_t i = 0; i < d->count; i++)
        if (fcntl(d->list[i].fd, F_SETFD, 0) == 0)
            tn_buf_printf(&list, "%s%s=%d", list.len ? "\n" : "", d->list[i].text, d->list[i].fd);
    setenv(INHERITED, tn_buf_str(&list), 1);
    d->handed_over = true;
}

/* Those of the program before that nobody asked for. */
static void close_strays(const struct doors *d)
{
    const char *list = getenv(INHERITED);

    for (const char *p = list; p && *p; p += strcspn(p, "\n"), p += *p == '\n') {
        const char *equals = memrchr(p, '=', strcspn(p, "\n"));
        int fd = equals ? (int)strtol(equals + 1, NULL, 10) : -1;
        bool used = fd <= 2 || strncmp(p, "lock=", 5) == 0;
        for (size_t i = 0; i < d->count; i++)
            used |= d->list[i].fd == fd;
        if (!used)
            close(fd);
    }
    unsetenv(INHERITED);
}

/* --- opening ------------------------------------------------------------------------------- */

static int open_door(struct door *door, const struct tn_service_options *o, struct tn_error *err)
{
    if (check_address(o, door->text, &door->address, err) < 0)
        return -1;
    int fd = inherited(door->text);
    struct tn_listen_address given = {.kind = TN_LISTEN_FD, .fd = fd};
    door->fd = tn_listen_open(fd >= 0 ? &given : &door->address, err);
    if (door->fd < 0)
        return -1;
    if (!o->tls_cert && !o->insecure && !is_local(door->fd)) {
        close(door->fd);
        return refuse_beyond(door->text, err);
    }
    door->tls = o->tls_cert && place_of(door->fd).any.sa_family != AF_UNIX;
    return 0;
}

struct doors *doors_open(const struct tn_service_options *o, struct tn_error *err)
{
    struct doors *d = tn_calloc(1, sizeof *d);

    d->list = tn_calloc(o->listen.count, sizeof *d->list);
    if (o->tls_cert && !(d->tls = tls_new(o->tls_cert, o->tls_key, err))) {
        doors_close(d, 0);
        return NULL;
    }
    for (size_t i = 0; i < o->listen.count; i++) {
        d->list[i] = (struct door){.text = o->listen.items[i], .fd = -1};
        if (open_door(&d->list[i], o, err) < 0) {
            doors_close(d, 0);
            return NULL;
        }
        d->count++;
    }
    close_strays(d);
    return d;
}

int doors_serve(struct doors *d, struct tn_http_server *http, struct tn_error *err)
{
    for (size_t i = 0; i < d->count; i++) {
        const struct door *door = &d->list[i];
        int fd = fcntl(door->fd, F_DUPFD_CLOEXEC, 3);
        if (fd < 0)
            return tn_fail_errno(err, errno, "listen on %s", door->text);
        net_keep_alive(fd);
        if ((door->tls ? tls_listen(d->tls, fd, http, err) : tn_http_server_listen(http, fd, err)) <
            0)
            return tn_error_context(err, "listen on %s", door->text);
        tn_log(TN_LOG_INFO, "listening", tn_log_str("address", door->text),
               tn_log_bool("tls", door->tls));
    }
    return 0;
}

bool doors_tls(const struct doors *d)
{
    return d->tls != NULL;
}

/* "127.0.0.1:7171" of a socket, also of one that listens everywhere.  False: no port. */
static bool put_place(int fd, struct tn_buf *out)
{
    union place at = place_of(fd);
    char host[INET6_ADDRSTRLEN] = "127.0.0.1";

    if (at.any.sa_family == AF_INET) {
        if (at.v4.sin_addr.s_addr != htonl(INADDR_ANY))
            inet_ntop(AF_INET, &at.v4.sin_addr, host, sizeof host);
        tn_buf_printf(out, "%s:%d", host, ntohs(at.v4.sin_port));
        return true;
    }
    if (at.any.sa_family != AF_INET6)
        return false;
    bool all = IN6_IS_ADDR_UNSPECIFIED(&at.v6.sin6_addr); /* there may be no ::1 */
    if (!all)
        inet_ntop(AF_INET6, &at.v6.sin6_addr, host, sizeof host);
    tn_buf_printf(out, all ? "%s:%d" : "[%s]:%d", host, ntohs(at.v6.sin6_port));
    return true;
}

char *doors_url(const struct doors *d)
{
    tn_autobuf struct tn_buf url = TN_BUF_INIT(256);

    tn_buf_puts(&url, d->tls ? "https://" : "http://");
    for (size_t i = 0; i < d->count; i++)
        if (put_place(d->list[i].fd, &url))
            return tn_buf_take(&url);
    tn_buf_puts(&url, "localhost");
    return tn_buf_take(&url);
}

int doors_listen(const struct doors *d, int *port, bool named, struct tn_error *err)
{
    struct tn_listen_address at = {.kind = TN_LISTEN_TCP, .port = *port};
    union place place = {0};
    size_t i = 0;

    while (i < d->count && (place = place_of(d->list[i].fd)).any.sa_family != AF_INET &&
           place.any.sa_family != AF_INET6)
        i++;
    if (i == d->count)
        return tn_fail(err, TN_E_INVALID, "TCP ports: the service itself has no address with one");
    if (!named && !is_local(d->list[i].fd))
        return tn_fail(err, TN_E_INVALID,
                       "TCP ports: beyond this machine only those of service.tcp_ports are opened, "
                       "and it names none");
    bool v4 = place.any.sa_family == AF_INET;
    inet_ntop(place.any.sa_family,
              v4 ? (const void *)&place.v4.sin_addr : (const void *)&place.v6.sin6_addr, at.host,
              sizeof at.host);
    int fd = tn_listen_open(&at, err);
    if (fd >= 0) {
        place = place_of(fd);
        *port = ntohs(place.any.sa_family == AF_INET ? place.v4.sin_port : place.v6.sin6_port);
    }
    return fd;
}

/* --- closing ------------------------------------------------------------------------------- */

void doors_shut(struct doors *d, int64_t deadline)
{
    if (d->tls)
        tls_shut(d->tls, deadline);
}

void doors_close(struct doors *d, int64_t deadline)
{
    if (!d)
        return;
    if (d->tls && tls_wait(d->tls, deadline) == 0)
        tls_free(d->tls);
    for (size_t i = 0; i < d->count; i++) {
        const struct door *door = &d->list[i];
        if (door->address.kind == TN_LISTEN_UNIX && !d->handed_over)
            unlink(door->address.path);
        if (!d->handed_over)
            close(door->fd);
    }
    free(d->list);
    free(d);
}
