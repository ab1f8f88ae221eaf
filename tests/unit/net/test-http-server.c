/* What is easier seen from inside the process than over the wire: see tests/net for the rest. */
#include "unit.h"

#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "net/http-client.h"
#include "net/http-server.h"
#include "net/listen.h"
#include "net/sse.h"

static sem_t entered, leave;

static void hello(struct tn_http_exchange *x, void *ctx)
{
    *(int *)ctx += 1;
    tn_http_reply(x, 200, "text/plain", "hello", 5);
}

/* Ignores everything until it is told to leave. */
static void stubborn(struct tn_http_exchange *x, void *ctx)
{
    sem_post(&entered);
    while (sem_wait(&leave) < 0)
        ;
    tn_http_reply(x, 200, "text/plain", "done", 4);
}

/* Everything said after the answer must be harmless. */
static void talkative(struct tn_http_exchange *x, void *ctx)
{
    assert_int_equal(tn_http_write(x, "x", 1), -1);
    assert_int_equal(tn_http_end(x), -1);
    assert_int_equal(tn_http_reply(x, 200, "text/plain", "once", 4), 0);
    assert_int_equal(tn_http_reply(x, 200, "text/plain", "twice", 5), -1);
    assert_int_equal(tn_http_reply_detail(x, 500, "thrice"), -1);
    assert_int_equal(tn_http_start(x, 200, NULL, -1), -1);
    assert_int_equal(tn_http_write(x, "x", 1), -1);
    assert_int_equal(tn_http_upgrade(x, "echo", NULL), -1);
    tn_http_set_header(x, "X-Late", "1");
}

/* Writes until the client is gone, and then some more. */
static void endless(struct tn_http_exchange *x, void *ctx)
{
    if (tn_sse_start(x) < 0)
        return;
    sem_post(&entered);
    while (tn_sse_send(x, "tick", NULL, "data", 4) == 0)
        ;
    assert_int_equal(tn_sse_beat(x), -1);
    assert_true(tn_http_peer_gone(x));
    sem_post(&entered);
}

static void huge_header(struct tn_http_exchange *x, void *ctx)
{
    tn_autofree char *value = tn_malloc(20001);

    memset(value, 'v', 20000);
    value[20000] = '\0';
    for (int i = 0; i < 3; i++)
        tn_http_set_header(x, "X-Big", value); /* the third does not fit and is left out */
    tn_http_reply(x, 200, NULL, NULL, 0);
}

static const struct tn_route routes[] = {
    {"GET", "/hello", hello, NULL, 0},
    {"GET", "/stubborn", stubborn, NULL, 0},
    {"GET", "/talkative", talkative, NULL, 0},
    {"GET", "/endless", endless, NULL, 0},
    {"GET", "/huge-header", huge_header, NULL, 0},
    {0},
};
static const struct tn_route *const tables[] = {routes, NULL};

static struct tn_http_server *new_server(int *counter)
{
    struct tn_http_options options = {.routes = tables, .ctx = counter, .write_seconds = 1};

    return tn_http_server_new(&options);
}

static int adopt(struct tn_http_server *s)
{
    int fds[2];
    struct tn_error err;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    assert_int_equal(tn_http_server_adopt(s, fds[0], &err), 0);
    return fds[1];
}

static int get(struct tn_http_client *c, const char *target, struct tn_buf *out)
{
    struct tn_http_call call = {.target = target, .deadline = tn_deadline_in(5)};

    tn_buf_reset(out);
    return tn_http_client_call(c, &call, out, NULL);
}

static int open_descriptors(void)
{
    DIR *d = opendir("/proc/self/fd");
    int n = 0;

    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

/* --- tests --------------------------------------------------------------------------------- */

static void test_socket_pair(void **state)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(1000);
    int counter = 0;
    struct tn_http_server *s = new_server(&counter);
    struct tn_http_client *c = tn_http_client_from_fd(adopt(s));

    for (int i = 0; i < 10; i++) {
        assert_int_equal(get(c, "/hello", &out), 200);
        assert_string_equal(tn_buf_str(&out), "hello");
    }
    assert_int_equal(get(c, "/talkative", &out), 200);
    assert_string_equal(tn_buf_str(&out), "once");
    assert_null(tn_http_client_answer(c, "x-late"));
    assert_int_equal(get(c, "/huge-header", &out), 200);
    assert_int_equal(strlen(tn_http_client_answer(c, "x-big")), 20000);
    assert_int_equal(get(c, "/hello", &out), 200);
    assert_int_equal(tn_http_server_stop(s, 5), 0);
    assert_int_equal(counter, 11);
    tn_http_client_free(c);
    tn_http_server_free(s);
    tn_http_server_free(NULL);
}

static void test_stop_reports_who_is_left(void **state)
{
    static const char request[] = "GET /stubborn HTTP/1.1\r\nHost: x\r\n\r\n";
    int counter = 0;
    struct tn_http_server *s = new_server(&counter);
    int fd = adopt(s);

    assert_int_equal(send(fd, request, sizeof request - 1, 0), sizeof request - 1);
    while (sem_wait(&entered) < 0)
        ;
    int64_t start = tn_now();
    assert_int_equal(tn_http_server_stop(s, 0.1), 1);
    int64_t took = tn_now() - start;
    assert_true(took >= 100 * TN_MILLI && took < 3 * TN_SECOND);
    sem_post(&leave);
    assert_int_equal(tn_http_server_stop(s, 5), 0);
    close(fd);
    tn_http_server_free(s);
}

static void say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* Everything up to the end of the connection, which it closes. */
static void hear_all(int fd, char out[1000])
{
    size_t n = 0;
    ssize_t got;

    while ((got = recv(fd, out + n, 999 - n, 0)) > 0)
        n += (size_t)got;
    out[n] = '\0';
    close(fd);
}

static void *drain(void *server)
{
    return (void *)(intptr_t)tn_http_server_drain(server, 60);
}

/* Who waits between requests is sent away at once, everybody else is served. */
static void test_drain(void **state)
{
    int counter = 0;
    struct tn_http_server *s = new_server(&counter);
    int idle = adopt(s), half = adopt(s), busy = adopt(s);
    char text[1000];
    pthread_t thread;
    void *left;

    say(idle, "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_true(recv(idle, text, sizeof text, 0) > 0);
    say(half, "GET /hello HT");
    say(busy, "GET /stubborn HTTP/1.1\r\nHost: x\r\n\r\n");
    while (sem_wait(&entered) < 0)
        ;
    assert_int_equal(pthread_create(&thread, NULL, drain, s), 0);
    hear_all(idle, text);
    assert_string_equal(text, "");
    say(half, "TP/1.1\r\nHost: x\r\n\r\n");
    hear_all(half, text);
    assert_non_null(strstr(text, "\r\nConnection: close\r\n"));
    assert_non_null(strstr(text, "hello"));
    sem_post(&leave);
    hear_all(busy, text);
    assert_non_null(strstr(text, "done"));
    assert_int_equal(pthread_join(thread, &left), 0);
    assert_int_equal((intptr_t)left, 0);
    assert_int_equal(tn_http_server_stop(s, 1), 0);
    tn_http_server_free(s);
}

static void test_nothing_is_taken_after_stop(void **state)
{
    int counter = 0, fds[2];
    struct tn_error err;
    struct tn_http_server *s = new_server(&counter);

    assert_int_equal(tn_http_server_stop(s, 1), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    assert_int_equal(tn_http_server_adopt(s, fds[0], &err), -1);
    char byte;
    assert_int_equal(recv(fds[1], &byte, 1, 0), 0); /* it was closed all the same */
    close(fds[1]);
    tn_http_server_free(s);
}

/* A client that leaves in the middle of a stream, with SIGPIPE at its deadly default. */
static void test_no_sigpipe(void **state)
{
    static const char request[] = "GET /endless HTTP/1.1\r\nHost: x\r\n\r\n";
    int counter = 0;
    struct tn_http_server *s = new_server(&counter);
    int fd = adopt(s);

    signal(SIGPIPE, SIG_DFL);
    assert_int_equal(send(fd, request, sizeof request - 1, 0), sizeof request - 1);
    while (sem_wait(&entered) < 0)
        ;
    close(fd);
    while (sem_wait(&entered) < 0)
        ;
    assert_int_equal(tn_http_server_stop(s, 5), 0);
    tn_http_server_free(s);
}

static void test_descriptors(void **state)
{
    int before = open_descriptors(), counter = 0;
    struct tn_listen_address a;
    struct tn_error err;
    struct tn_http_server *s = new_server(&counter);

    assert_int_equal(tn_listen_parse("127.0.0.1:0", &a, &err), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(tn_http_server_listen(s, tn_listen_open(&a, &err), &err), 0);
    int fds[20];
    for (size_t i = 0; i < TN_COUNT(fds); i++)
        fds[i] = adopt(s);
    assert_int_equal(tn_http_server_listen(s, -1, &err), -1);
    assert_int_equal(tn_http_server_adopt(s, -1, &err), -1);
    assert_int_equal(tn_http_server_stop(s, 5), 0);
    for (size_t i = 0; i < TN_COUNT(fds); i++)
        close(fds[i]);
    tn_http_server_free(s);
    assert_int_equal(open_descriptors(), before);
}

/* Many threads at once on few connections: mainly for the thread sanitizer. */
static void *hammer(void *arg)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(1000);
    struct tn_http_client *c = tn_http_client_new(arg, NULL);
    intptr_t good = 0;

    for (int i = 0; i < 100; i++)
        good += get(c, i % 3 ? "/huge-header" : "/none", &out) > 0;
    tn_http_client_free(c);
    return (void *)good;
}

static void test_many_threads(void **state)
{
    char path[] = "/tmp/tn-server-XXXXXX", address[64];
    struct tn_listen_address a;
    struct tn_error err;
    int counter = 0;
    struct tn_http_server *s = new_server(&counter);
    pthread_t threads[8];

    assert_non_null(mkdtemp(path));
    snprintf(address, sizeof address, "unix:%s/s", path);
    assert_int_equal(tn_listen_parse(address, &a, &err), 0);
    assert_int_equal(tn_http_server_listen(s, tn_listen_open(&a, &err), &err), 0);
    for (size_t i = 0; i < TN_COUNT(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hammer, address), 0);
    for (size_t i = 0; i < TN_COUNT(threads); i++) {
        void *good;
        pthread_join(threads[i], &good);
        assert_int_equal((intptr_t)good, 100);
    }
    assert_int_equal(tn_http_server_stop(s, 5), 0);
    tn_http_server_free(s);
    unlink(a.path);
    rmdir(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_socket_pair),  cmocka_unit_test(test_stop_reports_who_is_left),
        cmocka_unit_test(test_drain),        cmocka_unit_test(test_nothing_is_taken_after_stop),
        cmocka_unit_test(test_no_sigpipe),   cmocka_unit_test(test_descriptors),
        cmocka_unit_test(test_many_threads),
    };

    sem_init(&entered, 0, 0);
    sem_init(&leave, 0, 0);
    return cmocka_run_group_tests_name("http-server", tests, NULL, NULL);
}
