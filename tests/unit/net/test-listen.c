#include "unit.h"

#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "net/listen.h"

static const struct {
    const char *text;
    bool good;
    enum tn_listen_kind kind;
    const char *host; /* or path */
    int port;         /* or descriptor */
    bool loopback;
} rows[] = {
    {"8000", true, TN_LISTEN_TCP, "0.0.0.0", 8000, false},
    {"0", true, TN_LISTEN_TCP, "0.0.0.0", 0, false},
    {"127.0.0.1:80", true, TN_LISTEN_TCP, "127.0.0.1", 80, true},
    {"127.9.9.9:80", true, TN_LISTEN_TCP, "127.9.9.9", 80, true},
    {"128.0.0.1:80", true, TN_LISTEN_TCP, "128.0.0.1", 80, false},
    {"localhost:65535", true, TN_LISTEN_TCP, "127.0.0.1", 65535, true},
    {"[::1]:80", true, TN_LISTEN_TCP, "::1", 80, true},
    {"[::]:80", true, TN_LISTEN_TCP, "::", 80, false},
    {"[127.0.0.1]:80", true, TN_LISTEN_TCP, "127.0.0.1", 80, true},
    {"unix:/run/x", true, TN_LISTEN_UNIX, "/run/x", 0, false},
    {"unix:rel:ative", true, TN_LISTEN_UNIX, "rel:ative", 0, false},
    {"fd:3", true, TN_LISTEN_FD, "", 3, false},
    {"pair:3", true, TN_LISTEN_PAIR, "", 3, false},
    {"pair:3:12345", true, TN_LISTEN_PAIR, "", 3, false},
    {"pair:", false, 0, NULL, 0, false},
    {"pair:x", false, 0, NULL, 0, false},
    {"pair:3:", false, 0, NULL, 0, false},
    {"pair:3:0", false, 0, NULL, 0, false},
    {"pair:3:x", false, 0, NULL, 0, false},
    {"", false, 0, NULL, 0, false},
    {":80", false, 0, NULL, 0, false},
    {"host:80", false, 0, NULL, 0, false},
    {"127.0.0.1:", false, 0, NULL, 0, false},
    {"127.0.0.1:65536", false, 0, NULL, 0, false},
    {"127.0.0.1:-1", false, 0, NULL, 0, false},
    {"127.0.0.1:80x", false, 0, NULL, 0, false},
    {"127.0.0.1", false, 0, NULL, 0, false},
    {"127.1:80", false, 0, NULL, 0, false},
    {"::1:80", false, 0, NULL, 0, false},
    {"[::1]80", false, 0, NULL, 0, false},
    {"[::1]", false, 0, NULL, 0, false},
    {"[]:80", false, 0, NULL, 0, false},
    {"[:80", false, 0, NULL, 0, false},
    {"[::1:80", false, 0, NULL, 0, false},
    {"99999999999999999999", false, 0, NULL, 0, false},
    {"unix:", false, 0, NULL, 0, false},
    {"fd:", false, 0, NULL, 0, false},
    {"fd:-1", false, 0, NULL, 0, false},
    {"fd:x", false, 0, NULL, 0, false},
    {"0123456789012345678901234567890123456789012345678901234567890123456789:80", false, 0, NULL, 0,
     false},
};

static void test_parse(void **state)
{
    for (size_t i = 0; i < TN_COUNT(rows); i++) {
        struct tn_listen_address a;
        struct tn_error err;
        int r = tn_listen_parse(rows[i].text, &a, &err);
        if ((r == 0) != rows[i].good)
            fail_msg("%s", rows[i].text);
        if (r < 0) {
            assert_int_equal(err.code, TN_E_INVALID);
            continue;
        }
        assert_int_equal(a.kind, rows[i].kind);
        assert_string_equal(a.kind == TN_LISTEN_UNIX ? a.path : a.host, rows[i].host);
        bool is_fd = a.kind == TN_LISTEN_FD || a.kind == TN_LISTEN_PAIR;
        assert_int_equal(is_fd ? a.fd : a.port, rows[i].port);
        assert_int_equal(a.loopback, rows[i].loopback);
    }
}

static int listen_on(const char *text, struct tn_error *err)
{
    struct tn_listen_address a;

    assert_int_equal(tn_listen_parse(text, &a, err), 0);
    return tn_listen_open(&a, err);
}

static bool is_cloexec(int fd)
{
    return fcntl(fd, F_GETFD) & FD_CLOEXEC;
}

static void test_unix(void **state)
{
    char dir[] = "/tmp/tn-listen-XXXXXX", path[64], address[80];
    struct tn_error err;
    struct stat st;

    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/s", dir);
    snprintf(address, sizeof address, "unix:%s", path);

    assert_int_equal(tn_dial(address, tn_deadline_in(1), &err), -1);
    assert_int_equal(err.code, TN_E_NOT_FOUND);
    int fd = listen_on(address, &err);
    assert_true(fd >= 0 && is_cloexec(fd));
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    int peer = tn_dial(address, tn_deadline_in(1), &err);
    assert_true(peer >= 0 && is_cloexec(peer));
    assert_false(fcntl(peer, F_GETFL) & O_NONBLOCK);

    assert_int_equal(listen_on(address, &err), -1);
    assert_int_equal(err.code, TN_E_CONFLICT);
    close(fd);
    close(peer);
    assert_int_equal(tn_dial(address, tn_deadline_in(1), &err), -1);
    assert_int_equal(err.code, TN_E_PEER);
    fd = listen_on(address, &err); /* nobody listens any more: replaced */
    assert_true(fd >= 0);
    close(fd);
    unlink(path);

    int file = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    close(file);
    assert_int_equal(listen_on(address, &err), -1);
    assert_int_equal(err.code, TN_E_CONFLICT);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(dir), 0);
}

static void put_link(const char *path, const char *other)
{
    assert_int_equal(symlink(other, path), 0);
}

static void put_fifo(const char *path, const char *other)
{
    assert_int_equal(mkfifo(path, 0600), 0);
}

static void put_file(const char *path, const char *other)
{
    close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
}

static void put_directory(const char *path, const char *other)
{
    assert_int_equal(mkdir(path, 0700), 0);
}

static bool was_reached(int listening)
{
    struct pollfd p = {.fd = listening, .events = POLLIN};

    return poll(&p, 1, 0) != 0;
}

/* What whoever shares the directory can put in the place of a socket: nobody is connected to. */
static void test_unix_replaced(void **state)
{
    static const struct {
        void (*put)(const char *path, const char *other);
        const char *found;
    } cases[] = {
        {put_link, "found a symbolic link"},
        {put_fifo, "found a FIFO"},
        {put_file, "found a regular file"},
        {put_directory, "found a directory"},
    };
    char dir[] = "/tmp/tn-listen-XXXXXX", path[64], other[64], address[80], decoy[80];
    struct tn_error err;

    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/s", dir);
    snprintf(other, sizeof other, "%s/other", dir);
    snprintf(address, sizeof address, "unix:%s", path);
    snprintf(decoy, sizeof decoy, "unix:%s", other);
    int fd = listen_on(decoy, &err);
    assert_true(fd >= 0);
    for (size_t i = 0; i < TN_COUNT(cases); i++) {
        cases[i].put(path, other);
        assert_int_equal(tn_dial(address, tn_deadline_in(1), &err), -1);
        assert_int_equal(err.code, TN_E_DENIED);
        assert_non_null(strstr(err.text, cases[i].found));
        assert_false(was_reached(fd));
        assert_int_equal(remove(path), 0);
    }
    /* Above it links are as good as directories. */
    char link[64], through[80];
    snprintf(link, sizeof link, "%s/link", dir);
    snprintf(through, sizeof through, "unix:%s/link/other", dir);
    put_link(link, ".");
    int peer = tn_dial(through, tn_deadline_in(1), &err);
    assert_true(peer >= 0 && was_reached(fd));
    close(peer);
    close(fd);
    unlink(link);
    unlink(other);
    assert_int_equal(rmdir(dir), 0);
}

/* The kernel takes 107 bytes of a path. */
static void test_long_unix_path(void **state)
{
    char dir[] = "/tmp/tn-listen-XXXXXX", address[512];
    struct tn_error err;

    assert_non_null(mkdtemp(dir));
    tn_autofree char *deep = tn_asprintf("%s/%0200d", dir, 0);
    assert_int_equal(mkdir(deep, 0700), 0);
    tn_autofree char *path = tn_asprintf("%s/s", deep);
    snprintf(address, sizeof address, "unix:%s", path);
    assert_int_equal(tn_dial(address, tn_deadline_in(1), &err), -1);
    assert_int_equal(err.code, TN_E_NOT_FOUND);
    int fd = listen_on(address, &err);
    int peer = tn_dial(address, tn_deadline_in(1), &err);
    assert_true(fd >= 0 && peer >= 0);
    close(fd);
    close(peer);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(deep), 0);
    assert_int_equal(rmdir(dir), 0);
}

/* A backlog that is full makes dialing wait, but not for ever. */
static void test_dial_deadline(void **state)
{
    char dir[] = "/tmp/tn-listen-XXXXXX", path[64], address[80];
    struct tn_error err;
    int fds[8];

    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/s", dir);
    snprintf(address, sizeof address, "unix:%s", path);
    int fd = listen_on(address, &err);
    assert_int_equal(listen(fd, 1), 0);
    size_t open_count = 0;
    int64_t start = tn_now();
    while (open_count < TN_COUNT(fds) &&
           (fds[open_count] = tn_dial(address, start + 100 * TN_MILLI, &err)) >= 0)
        open_count++;
    assert_true(open_count < TN_COUNT(fds));
    assert_int_equal(err.code, TN_E_TIMEOUT);
    assert_true(tn_now() - start >= 100 * TN_MILLI);
    while (open_count > 0)
        close(fds[--open_count]);
    close(fd);
    unlink(path);
    rmdir(dir);
}

static void test_tcp_and_inherited(void **state)
{
    struct tn_error err;
    char address[32];

    int fd = listen_on("127.0.0.1:0", &err);
    assert_true(fd >= 0 && is_cloexec(fd));
    snprintf(address, sizeof address, "fd:%d", fd);
    assert_int_equal(listen_on(address, &err), fd);
    assert_int_equal(tn_dial(address, tn_deadline_in(1), &err), -1);
    close(fd);
    assert_int_equal(listen_on(address, &err), -1);

    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    snprintf(address, sizeof address, "fd:%d", pair[0]);
    assert_int_equal(listen_on(address, &err), -1);
    assert_int_equal(err.code, TN_E_INVALID);
    close(pair[0]);
    close(pair[1]);
    assert_int_equal(tn_dial("127.0.0.1:1", tn_deadline_in(5), &err), -1);
    assert_int_equal(err.code, TN_E_PEER);
}

/* Of both families, by one socket. */
static void test_all_addresses(void **state)
{
    static const char *const hosts[] = {"127.0.0.1", "[::1]"};
    struct sockaddr_in6 at = {0};
    socklen_t n = sizeof at;
    struct tn_error err;
    char address[32];

    int fd = listen_on("[::]:0", &err);
    assert_true(fd >= 0 && getsockname(fd, (struct sockaddr *)&at, &n) == 0);
    size_t count = at.sin6_family == AF_INET6 && access("/proc/net/if_inet6", F_OK) == 0 ? 2 : 1;
    for (size_t i = 0; i < count; i++) {
        snprintf(address, sizeof address, "%s:%d", hosts[i], ntohs(at.sin6_port));
        int near = tn_dial(address, tn_deadline_in(5), &err);
        assert_true(near >= 0);
        close(near);
    }
    close(fd);
}

/* A network where whoever dials is given the one port that is dialled.  False: none here. */
static bool make_narrow_network(void)
{
    struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};

    if (unshare(geteuid() == 0 ? CLONE_NEWNET : CLONE_NEWNET | CLONE_NEWUSER) < 0)
        return false;
    tn_autofd int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    tn_autofd int range = open("/proc/sys/net/ipv4/ip_local_port_range", O_WRONLY | O_CLOEXEC);
    return ioctl(fd, SIOCSIFFLAGS, &lo) == 0 && write(range, "47174 47174", 11) == 11;
}

/* The last test: it leaves the network of this process. */
static void test_nobody_is_connected_with_itself(void **state)
{
    static const char *const addresses[] = {"127.0.0.1:47174", "[::1]:47174"};
    struct tn_error err;

    if (!make_narrow_network()) {
        print_message("skipped: a network of its own: %s\n", strerror(errno));
        return;
    }
    for (size_t i = 0; i < TN_COUNT(addresses); i++) {
        assert_int_equal(tn_dial(addresses[i], tn_deadline_in(5), &err), -1);
        assert_int_equal(err.code, TN_E_PEER);
        int fd = listen_on(addresses[i], &err);
        assert_true(fd >= 0);
        close(fd);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_unix),
        cmocka_unit_test(test_unix_replaced),
        cmocka_unit_test(test_long_unix_path),
        cmocka_unit_test(test_dial_deadline),
        cmocka_unit_test(test_tcp_and_inherited),
        cmocka_unit_test(test_all_addresses),
        cmocka_unit_test(test_nobody_is_connected_with_itself),
    };

    return cmocka_run_group_tests_name("listen", tests, NULL, NULL);
}
