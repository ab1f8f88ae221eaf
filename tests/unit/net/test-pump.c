/* Pumps between sockets: small pieces, bulk through the kernel, ends of either side. */
#include "net/pump.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "net/splice.h"
#include "unit.h"

struct link {
    int left, right; /* the outer ends */
    int inner[2];    /* what is pumped between */
    uint64_t carried;
    pthread_t thread;
};

static void *pump(void *arg)
{
    struct link *l = arg;
    struct tn_buf early = {.data = (char *)"early ", .len = 6, .cap = 6, .max = 6};

    l->carried = tn_pump(l->inner[0], l->inner[1], &early, NULL);
    return NULL;
}

static void link_open(struct link *l)
{
    int a[2], b[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, a), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, b), 0);
    *l = (struct link){.left = a[0], .right = b[0], .inner = {a[1], b[1]}};
    assert_int_equal(pthread_create(&l->thread, NULL, pump, l), 0);
}

/* Waits for the pump's own end. */
static void link_close(struct link *l)
{
    close(l->left);
    close(l->right);
    pthread_join(l->thread, NULL);
    close(l->inner[0]);
    close(l->inner[1]);
}

static size_t read_all(int fd, char *to, size_t size)
{
    size_t n = 0;
    ssize_t got;

    while (n < size && (got = recv(fd, to + n, size - n, 0)) > 0)
        n += (size_t)got;
    return n;
}

static void test_both_ways_and_half_closed(void **state)
{
    struct link l;
    char text[32] = "";

    link_open(&l);
    assert_int_equal(send(l.left, "hello", 5, 0), 5);
    assert_int_equal(read_all(l.right, text, 11), 11);
    assert_string_equal(text, "early hello");
    shutdown(l.left, SHUT_WR);
    assert_int_equal(recv(l.right, text, 1, 0), 0); /* the end comes through */
    assert_int_equal(send(l.right, "answer", 6, 0), 6);
    assert_int_equal(read_all(l.left, text, 6), 6);
    link_close(&l);
    assert_int_equal(l.carried, 17);
}

enum { TOTAL = 8 << 20 };

static void *send_bulk(void *arg)
{
    char block[64 << 10];

    for (size_t i = 0; i < TOTAL / sizeof block; i++) {
        memset(block, 'a' + (int)(i % 26), sizeof block);
        if (send(*(int *)arg, block, sizeof block, MSG_NOSIGNAL) != (ssize_t)sizeof block)
            break;
    }
    shutdown(*(int *)arg, SHUT_WR);
    return NULL;
}

static void test_bulk_arrives_whole_and_in_order(void **state)
{
    char *got = malloc(TOTAL);
    pthread_t sender;
    struct link l;

    link_open(&l);
    assert_int_equal(pthread_create(&sender, NULL, send_bulk, &l.left), 0);
    assert_int_equal(read_all(l.right, got, 6), 6);
    assert_int_equal(read_all(l.right, got, TOTAL), TOTAL);
    for (size_t i = 0; i < TOTAL; i += 4096)
        assert_int_equal(got[i], 'a' + (i >> 16) % 26);
    pthread_join(sender, NULL);
    link_close(&l);
    assert_int_equal(l.carried, TOTAL + 6);
    free(got);
}

static void connect_pair(int pair[2])
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(listener, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&a, &n), 0);
    pair[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(pair[0], (struct sockaddr *)&a, sizeof a), 0);
    pair[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(pair[1] >= 0);
    close(listener);
}

static int option_of(int fd, int level, int name)
{
    int value = -1;
    socklen_t n = sizeof value;

    assert_int_equal(getsockopt(fd, level, name, &value, &n), 0);
    return value;
}

/* A machine that is gone is noticed; one that only does not read for a while is waited for. */
static void test_who_is_there_may_pause(void **state)
{
    int a[2], b[2];
    char text[16];

    connect_pair(a);
    connect_pair(b);
    struct link l = {.left = a[0], .right = b[0], .inner = {a[1], b[1]}};
    assert_int_equal(pthread_create(&l.thread, NULL, pump, &l), 0);
    assert_int_equal(read_all(l.right, text, 6), 6); /* it is at work */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(option_of(l.inner[i], SOL_SOCKET, SO_KEEPALIVE), 1);
        assert_int_equal(option_of(l.inner[i], IPPROTO_TCP, TCP_USER_TIMEOUT), 0);
    }
    link_close(&l);
}

/* Nobody takes it: the pump ends, and no signal ends the process. */
static void test_a_taker_that_leaves_in_the_middle(void **state)
{
    pthread_t sender;
    struct link l;
    char some[6 + (2 << 20)];

    link_open(&l);
    assert_int_equal(pthread_create(&sender, NULL, send_bulk, &l.left), 0);
    assert_int_equal(read_all(l.right, some, sizeof some), sizeof some);
    shutdown(l.right, SHUT_RDWR);
    pthread_join(l.thread, NULL);
    close(l.inner[0]);
    close(l.inner[1]);
    pthread_join(sender, NULL);
    close(l.left);
    close(l.right);
}

static void test_carry_tells_what_was_left(void **state)
{
    int from[2], to[2];
    char text[16];
    struct net_carry c = {.unread = 10, .unsent = 10};

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, from), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, to), 0);
    c.from = from[0];
    c.to = to[0];
    c.in = c.out = (struct net_wait){.each = TN_NEVER, .deadline = tn_deadline_in(60)};
    assert_int_equal(send(from[1], "0123456789more", 14, 0), 14);
    assert_int_equal(net_carry(&c), 0);
    assert_int_equal(c.unsent, 0);
    assert_int_equal(read_all(to[1], text, 10), 10);
    assert_memory_equal(text, "0123456789", 10);

    c.unread = c.unsent = 10; /* of which four come */
    close(from[1]);
    assert_int_equal(net_carry(&c), -1);
    assert_int_equal(c.unsent, 6);
    assert_int_equal(errno, ENODATA);

    assert_int_equal(send(to[1], "no", 2, 0), 2); /* the taker of a request speaks first */
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, from), 0);
    c.from = from[0];
    c.ask = true;
    assert_int_equal(net_carry(&c), 1);
    close(from[0]);
    close(from[1]);
    close(to[0]);
    close(to[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_ways_and_half_closed),
        cmocka_unit_test(test_bulk_arrives_whole_and_in_order),
        cmocka_unit_test(test_who_is_there_may_pause),
        cmocka_unit_test(test_a_taker_that_leaves_in_the_middle),
        cmocka_unit_test(test_carry_tells_what_was_left),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
