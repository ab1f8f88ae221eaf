/* In a network namespace of its own: what is sent anywhere arrives at the gate's sockets. */
#include <arpa/inet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "gate/wall.h"
#include "net/address.h"

static struct tn_wall wall;

static int make_network(void **state)
{
    struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    struct tn_error err = {0};

    if (unshare(geteuid() == 0 ? CLONE_NEWNET : CLONE_NEWNET | CLONE_NEWUSER) < 0) {
        print_message("skipped: network namespaces: %s\n", strerror(errno));
        exit(77);
    }
    tn_autofd int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (ioctl(fd, SIOCSIFFLAGS, &lo) < 0)
        return -1;
    if (tn_wall_raise(&wall, &err) == 0)
        return 0;
    print_message("skipped: %s\n", err.text);
    exit(77);
}

static int dial(const char *text, uint16_t port, int type)
{
    struct tn_address a;
    union tn_sockaddr to;

    assert_true(tn_address_parse(text, &a));
    socklen_t size = tn_address_to(&a, port, &to);
    int fd = socket(a.family, type, 0);
    assert_int_equal(connect(fd, &to.any, size), 0);
    return fd;
}

static int accept_at(int listener)
{
    struct pollfd p = {.fd = listener, .events = POLLIN};

    assert_int_equal(poll(&p, 1, 5000), 1);
    return accept(listener, NULL, NULL);
}

static void wanted_is(int fd, const char *text, uint16_t port)
{
    union tn_sockaddr name;
    socklen_t size = sizeof name;
    struct tn_address a;
    uint16_t at;
    char out[TN_ADDRESS_TEXT];

    assert_int_equal(getsockname(fd, &name.any, &size), 0);
    assert_true(tn_address_from(&name.any, &a, &at));
    assert_string_equal(tn_address_text(&a, out), text);
    assert_int_equal(at, port);
}

static void connections_arrive(void **state)
{
    static const char *const addresses[] = {"203.0.113.1", "10.1.2.3", "169.254.169.254",
                                            "192.0.0.1"};

    for (size_t i = 0; i < TN_COUNT(addresses); i++) {
        tn_autofd int client = dial(addresses[i], 443, SOCK_STREAM);
        assert_true(client >= 0);
        tn_autofd int got = accept_at(wall.fd[TN_WALL_TCP4]);
        wanted_is(got, addresses[i], 443);
    }
    if (wall.fd[TN_WALL_TCP6] < 0)
        return;
    tn_autofd int client = dial("2001:db8::1", 80, SOCK_STREAM);
    assert_true(client >= 0);
    tn_autofd int got = accept_at(wall.fd[TN_WALL_TCP6]);
    wanted_is(got, "2001:db8::1", 80);
}

static void loopback_is_its_own(void **state)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof name;
    tn_autofd int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct pollfd p = {.fd = wall.fd[TN_WALL_TCP4], .events = POLLIN};

    assert_int_equal(bind(listener, (struct sockaddr *)&name, sizeof name), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&name, &size), 0);
    tn_autofd int client = dial("127.0.0.1", ntohs(name.sin_port), SOCK_STREAM);
    assert_true(client >= 0);
    tn_autofd int got = accept_at(listener);
    assert_true(got >= 0);
    assert_int_equal(poll(&p, 1, 0), 0);
}

/* Who listens on an address of the world inside gets nothing that was meant for it. */
static void nobody_takes_its_place(void **state)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(443)};
    struct sockaddr_in gate = {.sin_family = AF_INET, .sin_port = htons(TN_WALL_PORT)};
    tn_autofd int listener = socket(AF_INET, SOCK_STREAM, 0);
    tn_autofd int rival = socket(AF_INET, SOCK_STREAM, 0);
    int yes = 1;

    inet_pton(AF_INET, "203.0.113.9", &name.sin_addr);
    assert_int_equal(bind(listener, (struct sockaddr *)&name, sizeof name), 0);
    assert_int_equal(listen(listener, 1), 0);
    tn_autofd int client = dial("203.0.113.9", 443, SOCK_STREAM);
    assert_true(client >= 0);
    tn_autofd int got = accept_at(wall.fd[TN_WALL_TCP4]);
    wanted_is(got, "203.0.113.9", 443);
    setsockopt(rival, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    setsockopt(rival, SOL_SOCKET, SO_REUSEPORT, &yes, sizeof yes);
    inet_pton(AF_INET, TN_WALL_NAMES4, &gate.sin_addr);
    assert_int_equal(bind(rival, (struct sockaddr *)&gate, sizeof gate), -1);
    gate.sin_addr.s_addr = 0;
    assert_int_equal(bind(rival, (struct sockaddr *)&gate, sizeof gate), -1);
}

static void datagrams_arrive(void **state)
{
    struct pollfd p = {.fd = wall.fd[TN_WALL_UDP4], .events = POLLIN};
    tn_autofd int client = dial("203.0.113.1", 53, SOCK_DGRAM);

    assert_int_equal(send(client, "x", 1, 0), 1);
    assert_int_equal(poll(&p, 1, 5000), 1);
}

static void nothing_else_leaves(void **state)
{
    struct sockaddr_in to = {.sin_family = AF_INET};
    tn_autofd int raw = socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);

    inet_pton(AF_INET, "203.0.113.1", &to.sin_addr);
    assert_true(raw >= 0);
    assert_int_equal(sendto(raw, "\x08\0\xf7\xff\0\0\0\0", 8, 0, (struct sockaddr *)&to, sizeof to),
                     -1);
    assert_int_equal(errno, EPERM);
}

/* As by a keeper that comes after one that was killed. */
static void raised_again(void **state)
{
    struct tn_error err = {0};

    for (int i = 0; i < 2; i++) {
        tn_wall_done(&wall);
        assert_int_equal(tn_wall_raise_again(&wall, &err), 0);
        connections_arrive(state);
        datagrams_arrive(state);
        nothing_else_leaves(state);
    }
    struct tn_wall second;
    assert_int_equal(tn_wall_raise_again(&second, &err), -1);
    assert_int_equal(err.sys, EADDRINUSE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connections_arrive),     cmocka_unit_test(loopback_is_its_own),
        cmocka_unit_test(nobody_takes_its_place), cmocka_unit_test(datagrams_arrive),
        cmocka_unit_test(nothing_else_leaves),    cmocka_unit_test(raised_again),
    };

    return cmocka_run_group_tests(tests, make_network, NULL);
}
