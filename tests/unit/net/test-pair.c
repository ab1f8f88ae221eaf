#include "unit.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "net/http-client.h"
#include "net/http-server.h"
#include "net/listen.h"
#include "net/pair.h"

#define SOON tn_deadline_in(20)

static void open_pair(int ends[2])
{
    struct tn_error err = {0};

    assert_int_equal(tn_pair_open(ends, &err), 0);
}

static void test_a_connection_goes_through(void **state)
{
    int ends[2];
    char text[8] = "";

    open_pair(ends);
    int client = net_pair_dial(ends[0], SOON, NULL);
    assert_true(client >= 0);
    assert_true(fcntl(client, F_GETFD) & FD_CLOEXEC);
    int server = net_pair_take(ends[1]);
    assert_true(server >= 0);
    assert_true(fcntl(server, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(write(client, "hello", 5), 5);
    assert_int_equal(read(server, text, sizeof text), 5);
    assert_string_equal(text, "hello");
    assert_int_equal(net_pair_take(ends[1]), -1);
    assert_int_equal(errno, EAGAIN);
    close(client);
    close(server);
    close(ends[0]);
    close(ends[1]);
}

static void test_connections_wait_until_they_are_taken(void **state)
{
    int ends[2], clients[5];

    open_pair(ends);
    for (int i = 0; i < 5; i++) {
        char c = (char)('a' + i);
        clients[i] = net_pair_dial(ends[0], SOON, NULL);
        assert_int_equal(write(clients[i], &c, 1), 1);
    }
    for (int i = 0; i < 5; i++) {
        char c = 0;
        int server = net_pair_take(ends[1]);
        assert_int_equal(read(server, &c, 1), 1);
        assert_int_equal(c, 'a' + i);
        close(server);
        close(clients[i]);
    }
    close(ends[0]);
    close(ends[1]);
}

static void test_nobody_there(void **state)
{
    struct tn_error err = {0};
    int ends[2];

    open_pair(ends);
    int waiting = net_pair_dial(ends[0], SOON, NULL);
    close(ends[1]); /* with a connection that nobody took */
    char c;
    assert_int_equal(read(waiting, &c, 1), 0);
    assert_int_equal(net_pair_dial(ends[0], SOON, &err), -1);
    assert_int_equal(err.sys, ECONNREFUSED);
    close(waiting);
    close(ends[0]);

    open_pair(ends);
    close(ends[0]);
    assert_int_equal(net_pair_take(ends[1]), -1);
    assert_int_equal(errno, EPIPE);
    close(ends[1]);
}

static void test_a_server_that_takes_nothing(void **state)
{
    struct tn_error err = {0};
    int ends[2], fd, count = 0, clients[4096];

    open_pair(ends);
    while (count < 4096 && (fd = net_pair_dial(ends[0], tn_now() + 20 * TN_MILLI, &err)) >= 0)
        clients[count++] = fd;
    assert_true(count > 0 && count < 4096);
    assert_int_equal(err.code, TN_E_TIMEOUT);
    while (count > 0)
        close(clients[--count]);
    close(ends[0]);
    close(ends[1]);
}

static void test_a_message_without_a_descriptor_is_nothing(void **state)
{
    int ends[2];

    open_pair(ends);
    assert_int_equal(write(ends[0], "x", 1), 1);
    assert_int_equal(net_pair_take(ends[1]), -1);
    assert_int_equal(errno, EPROTO);
    close(ends[0]);
    close(ends[1]);
}

/* The address names this very socket: neither a later one of the same number nor another kind. */
static void test_the_address_is_good_for_one_socket(void **state)
{
    struct tn_error err = {0};
    int ends[2], others[2];

    open_pair(ends);
    tn_autofree char *address = tn_pair_address(ends[0], NULL);
    int fd = tn_dial(address, SOON, &err);
    assert_true(fd >= 0);
    close(fd);
    open_pair(others);
    assert_int_equal(dup2(others[0], ends[0]), ends[0]);
    assert_int_equal(tn_dial(address, SOON, &err), -1);
    assert_int_equal(err.code, TN_E_PEER);
    int file = open("/dev/null", O_RDWR);
    dup2(file, ends[0]);
    assert_int_equal(tn_dial(address, SOON, &err), -1);
    close(ends[0]);
    assert_int_equal(tn_dial(address, SOON, &err), -1);
    close(file);
    close(ends[1]);
    close(others[0]);
    close(others[1]);
}

static void get_hello(struct tn_http_exchange *x, void *ctx)
{
    tn_http_reply(x, 200, "text/plain", "hello", 5);
}

static const struct tn_route routes[] = {
    {"GET", "/hello", get_hello, "says hello", 0},
    {0},
};

static void test_a_server_behind_a_pair(void **state)
{
    const struct tn_route *const tables[] = {routes, NULL};
    struct tn_http_options options = {.routes = tables};
    struct tn_listen_address where;
    struct tn_error err = {0};
    char text[32];
    int ends[2];

    open_pair(ends);
    struct tn_http_server *server = tn_http_server_new(&options);
    snprintf(text, sizeof text, "pair:%d", ends[1]);
    assert_int_equal(tn_listen_parse(text, &where, &err), 0);
    assert_int_equal(tn_listen_open(&where, &err), ends[1]);
    assert_int_equal(tn_http_server_listen(server, ends[1], &err), 0);
    tn_autofree char *address = tn_pair_address(ends[0], NULL);
    for (int i = 0; i < 3; i++) {
        tn_autobuf struct tn_buf body = TN_BUF_INIT(100);
        struct tn_http_client *client = tn_http_client_new(address, &err);
        struct tn_http_call call = {.target = "/hello", .deadline = SOON};
        assert_int_equal(tn_http_client_call(client, &call, &body, &err), 200);
        assert_string_equal(tn_buf_str(&body), "hello");
        tn_buf_reset(&body);
        assert_int_equal(tn_http_client_call(client, &call, &body, &err), 200);
        tn_http_client_free(client);
    }
    close(ends[0]); /* the server notices, and neither spins nor ends */
    assert_int_equal(tn_http_server_stop(server, 5), 0);
    tn_http_server_free(server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_connection_goes_through),
        cmocka_unit_test(test_connections_wait_until_they_are_taken),
        cmocka_unit_test(test_nobody_there),
        cmocka_unit_test(test_a_server_that_takes_nothing),
        cmocka_unit_test(test_a_message_without_a_descriptor_is_nothing),
        cmocka_unit_test(test_the_address_is_good_for_one_socket),
        cmocka_unit_test(test_a_server_behind_a_pair),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
