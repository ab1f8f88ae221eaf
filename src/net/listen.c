#include "net/listen.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>

#include "base/clock.h"
#include "net/pair.h"
#include "net/socket-file.h"

enum { BACKLOG = 1024 };

/* A socket address of any family, with its length. */
struct endpoint {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_un un;
    } addr;
    socklen_t len;
};

/* --- parsing ------------------------------------------------------------------------------- */

/* A decimal number of n digits up to max, or -1. */
static long number(const char *s, size_t n, long max)
{
    long v = 0;

    if (n == 0 || n > 9)
        return -1;
    for (size_t i = 0; i < n; i++) {
        if (s[i] < '0' || s[i] > '9')
            return -1;
        v = v * 10 + (s[i] - '0');
    }
    return v <= max ? v : -1;
}

static int parse_unix(const char *path, struct tn_listen_address *out, struct tn_error *err)
{
    size_t n = strlen(path);

    if (n == 0 || n >= sizeof out->path)
        return tn_fail(err, TN_E_INVALID, "unix socket path must have 1 to %zu bytes, this has %zu",
                       sizeof out->path - 1, n);
    memcpy(out->path, path, n + 1);
    out->kind = TN_LISTEN_UNIX;
    return 0;
}

static int parse_fd(const char *text, struct tn_listen_address *out, struct tn_error *err)
{
    long fd = number(text, strlen(text), 1 << 20);

    if (fd < 0)
        return tn_fail(err, TN_E_INVALID, "fd:%s is not a descriptor number", text);
    out->kind = TN_LISTEN_FD;
    out->fd = (int)fd;
    return 0;
}

static int parse_pair(const char *text, struct tn_listen_address *out, struct tn_error *err)
{
    size_t n = strcspn(text, ":");
    long fd = number(text, n, 1 << 20);
    char *end = NULL;

    errno = 0;
    out->inode = text[n] ? strtoull(text + n + 1, &end, 10) : 0;
    if (fd < 0 || errno || (text[n] && (*end || out->inode == 0)))
        return tn_fail(err, TN_E_INVALID, "pair:%s is not a descriptor number and an inode", text);
    out->kind = TN_LISTEN_PAIR;
    out->fd = (int)fd;
    return 0;
}

/* Fills e from a numeric host; false when host is none. */
static bool endpoint_of(const char *host, int port, struct endpoint *e)
{
    memset(e, 0, sizeof *e);
    if (inet_pton(AF_INET, host, &e->addr.v4.sin_addr) == 1) {
        e->addr.v4.sin_family = AF_INET;
        e->addr.v4.sin_port = htons((uint16_t)port);
        e->len = sizeof e->addr.v4;
        return true;
    }
    if (inet_pton(AF_INET6, host, &e->addr.v6.sin6_addr) == 1) {
        e->addr.v6.sin6_family = AF_INET6;
        e->addr.v6.sin6_port = htons((uint16_t)port);
        e->len = sizeof e->addr.v6;
        return true;
    }
    return false;
}

static bool is_loopback(const struct endpoint *e)
{
    if (e->addr.any.sa_family == AF_INET)
        return ntohl(e->addr.v4.sin_addr.s_addr) >> 24 == 127;
    return IN6_IS_ADDR_LOOPBACK(&e->addr.v6.sin6_addr);
}

/* Splits "HOST:PORT", "[V6]:PORT" or "PORT"; the host is a piece of text, perhaps empty. */
static int split_host_port(const char *text, const char **host, size_t *host_len, long *port)
{
    const char *colon = strrchr(text, ':');
    const char *digits = colon ? colon + 1 : text;

    *host = text;
    *host_len = colon ? (size_t)(colon - text) : 0;
    if (text[0] == '[') {
        if (!colon || colon < text + 2 || colon[-1] != ']')
            return -1;
        *host = text + 1;
        *host_len -= 2;
    } else if (colon && memchr(text, ':', *host_len)) {
        return -1; /* a bare v6 address: where would its port begin? */
    }
    *port = number(digits, strlen(digits), 65535);
    return *port < 0 || (colon && *host_len == 0) ? -1 : 0;
}

int tn_listen_parse(const char *text, struct tn_listen_address *out, struct tn_error *err)
{
    const char *host;
    size_t host_len;
    long port;
    struct endpoint e;

    memset(out, 0, sizeof *out);
    out->fd = -1;
    if (strncmp(text, "unix:", 5) == 0)
        return parse_unix(text + 5, out, err);
    if (strncmp(text, "fd:", 3) == 0)
        return parse_fd(text + 3, out, err);
    if (strncmp(text, "pair:", 5) == 0)
        return parse_pair(text + 5, out, err);
    if (split_host_port(text, &host, &host_len, &port) < 0 || host_len >= sizeof out->host)
        return tn_fail(err, TN_E_INVALID,
                       "address %s: expected PORT, HOST:PORT, [V6]:PORT, unix:PATH, fd:N or pair:N",
                       text);

    out->kind = TN_LISTEN_TCP;
    out->port = (int)port;
    if (host_len == 0)
        snprintf(out->host, sizeof out->host, "0.0.0.0");
    else if (host_len == 9 && memcmp(host, "localhost", 9) == 0)
        snprintf(out->host, sizeof out->host, "127.0.0.1");
    else
        memcpy(out->host, host, host_len);
    if (!endpoint_of(out->host, out->port, &e))
        return tn_fail(err, TN_E_INVALID,
                       "address %s: the host must be a numeric address or localhost", text);
    out->loopback = is_loopback(&e);
    return 0;
}

/* --- listening ----------------------------------------------------------------------------- */

/* A path that is too long for the kernel is reached through its directory: *dir, to be closed after
 * use, else -1. */
static int unix_endpoint(const char *path, struct endpoint *e, int *dir)
{
    const char *slash = strrchr(path, '/');

    *e = (struct endpoint){.addr.un.sun_family = AF_UNIX, .len = sizeof e->addr.un};
    *dir = -1;
    if (strlen(path) < sizeof e->addr.un.sun_path) {
        memcpy(e->addr.un.sun_path, path, strlen(path));
        return 0;
    }
    if (!slash || strlen(slash) > 64) {
        errno = ENAMETOOLONG;
        return -1;
    }
    tn_autofree char *parent = tn_strndup(path, (size_t)(slash - path) + 1);
    *dir = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
    snprintf(e->addr.un.sun_path, sizeof e->addr.un.sun_path, "/proc/self/fd/%d%s", *dir, slash);
    return *dir < 0 ? -1 : 0;
}

static int new_socket(int family, int flags)
{
    return socket(family, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
}

/* Removes a socket file nobody listens on any more.  Refuses to touch anything else. */
static int clear_stale(const char *path, const struct endpoint *e, struct tn_error *err)
{
    struct stat st;

    if (lstat(path, &st) < 0)
        return errno == ENOENT ? 0 : tn_fail_errno(err, errno, "unix socket %s", path);
    if (!S_ISSOCK(st.st_mode))
        return tn_fail(err, TN_E_CONFLICT, "%s exists and is not a socket", path);
    tn_autofd int probe = new_socket(AF_UNIX, SOCK_NONBLOCK);
    if (probe < 0)
        return tn_fail_errno(err, errno, "unix socket %s", path);
    if (connect(probe, &e->addr.any, e->len) == 0 || errno != ECONNREFUSED)
        return tn_fail(err, TN_E_CONFLICT, "unix socket %s is in use", path);
    if (unlink(path) < 0 && errno != ENOENT)
        return tn_fail_errno(err, errno, "remove stale unix socket %s", path);
    return 0;
}

static int fail_listen(struct tn_error *err, const char *what)
{
    if (errno == EADDRINUSE)
        return tn_fail(err, TN_E_CONFLICT, "listen on %s: address already in use", what);
    return tn_fail_errno(err, errno, "listen on %s", what);
}

static int open_unix(const char *path, struct tn_error *err)
{
    struct endpoint e;
    tn_autofd int dir = -1;

    if (unix_endpoint(path, &e, &dir) < 0)
        return fail_listen(err, path);
    if (clear_stale(path, &e, err) < 0)
        return -1;
    tn_autofd int fd = new_socket(AF_UNIX, SOCK_NONBLOCK);
    /* Between bind and chmod nobody can connect: the socket does not listen yet. */
    if (fd < 0 || bind(fd, &e.addr.any, e.len) < 0)
        return fail_listen(err, path);
    if (chmod(path, 0600) < 0 || listen(fd, BACKLOG) < 0) {
        fail_listen(err, path);
        unlink(path);
        return -1;
    }
    return TN_TAKE_FD(fd);
}

static int open_tcp(const struct tn_listen_address *a, struct tn_error *err)
{
    static const int on = 1, off = 0;
    bool all = strcmp(a->host, "::") == 0;
    struct endpoint e;

    if (!endpoint_of(a->host, a->port, &e))
        return tn_fail(err, TN_E_INVALID, "%s is not a numeric address", a->host);
    tn_autofd int fd = new_socket(e.addr.any.sa_family, SOCK_NONBLOCK);
    if (fd < 0 && all && errno == EAFNOSUPPORT && endpoint_of("0.0.0.0", a->port, &e))
        fd = new_socket(AF_INET, SOCK_NONBLOCK);
    else if (all && fd >= 0) /* of both families, whatever the machine's habit */
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 ||
        bind(fd, &e.addr.any, e.len) < 0 || listen(fd, BACKLOG) < 0) {
        char what[sizeof a->host + 16];
        snprintf(what, sizeof what, "%s port %d", a->host, a->port);
        return fail_listen(err, what);
    }
    return TN_TAKE_FD(fd);
}

static int open_inherited(int fd, struct tn_error *err)
{
    int listening = 0;
    socklen_t len = sizeof listening;

    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &len) < 0)
        return tn_fail_errno(err, errno, "fd:%d", fd);
    if (!listening)
        return tn_fail(err, TN_E_INVALID, "fd:%d is not a listening socket", fd);
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
        return tn_fail_errno(err, errno, "fd:%d", fd);
    return fd;
}

/* The descriptor, when it is the pair that was meant. */
static int check_pair(const struct tn_listen_address *a, struct tn_error *err)
{
    struct stat st;

    if (!net_is_pair(a->fd) || fstat(a->fd, &st) < 0 || (a->inode && st.st_ino != a->inode))
        return tn_fail(err, TN_E_PEER,
                       "descriptor %d of this process is not the socket pair that is meant: only "
                       "the process that made it can use it",
                       a->fd);
    return a->fd;
}

static int open_pair(const struct tn_listen_address *a, struct tn_error *err)
{
    int fd = check_pair(a, err);

    if (fd >= 0 && fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
        return tn_fail_errno(err, errno, "pair:%d", fd);
    return fd;
}

int tn_listen_open(const struct tn_listen_address *a, struct tn_error *err)
{
    switch (a->kind) {
    case TN_LISTEN_UNIX:
        return open_unix(a->path, err);
    case TN_LISTEN_FD:
        return open_inherited(a->fd, err);
    case TN_LISTEN_TCP:
        return open_tcp(a, err);
    case TN_LISTEN_PAIR:
        return open_pair(a, err);
    }
    return tn_fail(err, TN_E_INVALID, "unknown kind of address");
}

/* --- dialing ------------------------------------------------------------------------------- */

/* A unix listener with a full backlog makes connect wait; there is nothing to poll for, but the
 * socket's send timeout bounds it. */
static int connect_unix(int fd, const struct endpoint *e, int64_t deadline)
{
    struct timeval t = {0};
    int r;

    do {
        int ms = tn_poll_ms(deadline);
        if (ms >= 0)
            t = (struct timeval){.tv_sec = ms / 1000, .tv_usec = ms ? ms % 1000 * 1000 : 1};
        if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t) < 0)
            return -1;
        r = connect(fd, &e->addr.any, e->len);
    } while (r < 0 && errno == EINTR);
    if (r < 0) {
        if (errno == EAGAIN)
            errno = ETIMEDOUT;
        return -1;
    }
    t = (struct timeval){0};
    return setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t);
}

/* fd does not block. */
static int connect_tcp(int fd, const struct endpoint *e, int64_t deadline)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};

    while (connect(fd, &e->addr.any, e->len) < 0 && errno != EISCONN) {
        if (errno != EINPROGRESS && errno != EALREADY && errno != EINTR)
            return -1;
        int r = poll(&p, 1, tn_poll_ms(deadline));
        if (r == 0)
            errno = ETIMEDOUT;
        if (r == 0 || (r < 0 && errno != EINTR))
            return -1;
    }
    return 0;
}

/* Where nobody listens on a port that the kernel also gives to those who dial, a socket may be
 * given that very port and is then connected with itself.  As long as it is open, whoever was about
 * to listen there cannot: it is closed without the minute that a port rests after a connection. */
static bool is_own_peer(int fd)
{
    struct endpoint here = {.len = sizeof here.addr}, there = {.len = sizeof there.addr};
    const struct linger at_once = {.l_onoff = 1};

    if (getsockname(fd, &here.addr.any, &here.len) < 0 ||
        getpeername(fd, &there.addr.any, &there.len) < 0 || here.len != there.len ||
        memcmp(&here.addr, &there.addr, here.len) != 0)
        return false;
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    errno = ECONNREFUSED;
    return true;
}

static int dial_one(const struct endpoint *e, int64_t deadline)
{
    bool local = e->addr.any.sa_family == AF_UNIX;
    tn_autofd int fd = new_socket(e->addr.any.sa_family, local ? 0 : SOCK_NONBLOCK);
    int on = 1;

    if (fd < 0)
        return -1;
    if (local)
        return connect_unix(fd, e, deadline) < 0 ? -1 : TN_TAKE_FD(fd);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    int flags = fcntl(fd, F_GETFL);
    if (connect_tcp(fd, e, deadline) < 0 || is_own_peer(fd) || flags < 0 ||
        fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) < 0)
        return -1;
    return TN_TAKE_FD(fd);
}

int tn_dial(const char *address, int64_t deadline, struct tn_error *err)
{
    struct tn_listen_address a;
    struct endpoint e;
    tn_autofd int file = -1;

    if (tn_listen_parse(address, &a, err) < 0)
        return -1;
    if (a.kind == TN_LISTEN_FD)
        return tn_fail(err, TN_E_INVALID, "cannot connect to %s", address);
    if (a.kind == TN_LISTEN_PAIR)
        return check_pair(&a, err) < 0 ? -1 : net_pair_dial(a.fd, deadline, err);
    if (a.kind == TN_LISTEN_UNIX) {
        file = net_socket_file(a.path, err);
        if (file < 0)
            return -1;
        e = (struct endpoint){.addr.un = net_socket_file_address(file), .len = sizeof e.addr.un};
    } else {
        endpoint_of(a.host, a.port, &e);
    }
    int fd = dial_one(&e, deadline);
    int why = errno;
    if (fd < 0 && strncmp(address, "localhost:", 10) == 0) {
        endpoint_of("::1", a.port, &e);
        fd = dial_one(&e, deadline);
    }
    return fd < 0 ? tn_fail_errno(err, why, "connect to %s", address) : fd;
}
