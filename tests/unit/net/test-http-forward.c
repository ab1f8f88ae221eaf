/* A proxy in memory: what servers that keep, close and lie do to it. */
#include "net/http-forward.h"

#include <pthread.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "net/http-kept.h"
#include "unit.h"

/* A server behind the proxy, whose every connection plays a script: what it reads up to an empty
 * line it answers with the next line of the script; NULL closes. */
struct server {
    const char *const *answers; /* of one connection after the other; "" closes without a word */
    size_t next;
    int dials;
    char seen[8192]; /* all heads, one after the other */
    pthread_mutex_t lock;
};

static struct server *play; /* of the running test */
static struct tn_http_kept *kept;
static const char *extra_lines;

static void *serve(void *arg)
{
    int fd = (int)(intptr_t)arg;
    char head[4096];

    for (;;) {
        size_t n = 0;
        ssize_t got = 1;
        while (n < sizeof head - 1 && got > 0 && !memmem(head, n, "\r\n\r\n", 4)) {
            got = recv(fd, head + n, sizeof head - 1 - n, 0);
            n += got > 0 ? (size_t)got : 0;
        }
        if (got <= 0)
            break;
        head[n] = '\0';
        pthread_mutex_lock(&play->lock);
        const char *answer = play->answers[play->next++];
        size_t at = strlen(play->seen);
        snprintf(play->seen + at, sizeof play->seen - at, "%s", head);
        pthread_mutex_unlock(&play->lock);
        if (send(fd, answer, strlen(answer), MSG_NOSIGNAL) < 0 || !*answer ||
            strstr(answer, "Connection: close"))
            break;
    }
    close(fd);
    return NULL;
}

static int dial(void *ctx, bool fresh, bool *used, struct tn_error *err)
{
    int fd = fresh ? -1 : tn_http_kept_take(kept, "it"), ends[2];
    pthread_t thread;

    *used = fd >= 0;
    if (fd >= 0)
        return fd;
    play->dials++;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    assert_int_equal(pthread_create(&thread, NULL, serve, (void *)(intptr_t)ends[1]), 0);
    pthread_detach(thread);
    return ends[0];
}

static void give_back(void *ctx, int fd)
{
    tn_http_kept_give(kept, "it", fd);
}

static enum tn_http_verdict filter(const char *name, const char *value, struct tn_buf *changed,
                                   void *ctx)
{
    if (strcmp(name, "Hidden") == 0)
        return TN_HTTP_DROP;
    if (strcmp(name, "Changed") != 0)
        return TN_HTTP_PASS;
    tn_buf_printf(changed, "not %s", value);
    return TN_HTTP_CHANGE;
}

static void handle(struct tn_http_exchange *x, void *ctx)
{
    struct tn_http_forward to = {
        .target = tn_http_target(x),
        .extra = extra_lines,
        .upgrade = "websocket",
        .seconds = 5,
        .on_request = filter,
        .on_answer = filter,
        .connect = dial,
        .keep = give_back,
    };
    struct tn_error err = {0};

    if (tn_http_forward(x, &to, &err) < 0)
        tn_http_reply_error(x, &err);
}

static const struct tn_route routes[] = {
    {"GET", "/{path...}", handle, NULL, 0},
    {"POST", "/{path...}", handle, NULL, 0},
    {0},
};
static const struct tn_route *const tables[] = {routes, NULL};

struct fixture {
    struct tn_http_server *http;
    struct server server;
    int client;
};

static void begin(struct fixture *f, const char *const *answers)
{
    int ends[2];

    *f = (struct fixture){.server = {.answers = answers, .lock = PTHREAD_MUTEX_INITIALIZER}};
    play = &f->server;
    kept = tn_http_kept_new(2, 4, 30);
    f->http = tn_http_server_new(&(struct tn_http_options){.routes = tables});
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    assert_int_equal(tn_http_server_adopt(f->http, ends[1], NULL), 0);
    f->client = ends[0];
}

static void end(struct fixture *f)
{
    close(f->client);
    assert_int_equal(tn_http_server_stop(f->http, 20), 0);
    tn_http_server_free(f->http);
    tn_http_kept_free(kept);
}

/* Sends a request and reads until the answer holds `last`. */
static const char *talk(struct fixture *f, const char *request, const char *last)
{
    static char answer[8192];
    size_t n = 0;

    assert_int_equal(send(f->client, request, strlen(request), MSG_NOSIGNAL), strlen(request));
    do {
        ssize_t got = recv(f->client, answer + n, sizeof answer - 1 - n, 0);
        assert_true(got > 0);
        n += (size_t)got;
        answer[n] = '\0';
    } while (!strstr(answer, last));
    return answer;
}

#define GET "GET /x HTTP/1.1\r\nHost: me\r\n\r\n"
#define POST "POST /x HTTP/1.1\r\nHost: me\r\nContent-Length: 2\r\n\r\nhi"
#define OK "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n"

static void test_one_connection_carries_many(void **state)
{
    static const char *const answers[] = {OK "one\n", OK "two\n", OK "tri\n"};
    struct fixture f;

    begin(&f, answers);
    talk(&f, GET, "one\n");
    talk(&f, POST, "two\n");
    talk(&f, GET, "tri\n");
    assert_int_equal(f.server.dials, 1);
    end(&f);
}

static void test_one_that_says_close_is_not_kept(void **state)
{
    static const char *const answers[] = {
        "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nto the end\n", OK "two\n"};
    struct fixture f;

    begin(&f, answers);
    const char *first = talk(&f, GET, "0\r\n\r\n");
    assert_non_null(strstr(first, "Transfer-Encoding: chunked"));
    talk(&f, GET, "two\n");
    assert_int_equal(f.server.dials, 2);
    end(&f);
}

/* More than was announced would be taken for the next answer. */
static void test_one_that_says_too_much_is_not_kept(void **state)
{
    static const char *const answers[] = {
        OK "one\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nevil\n", OK "two\n"};
    struct fixture f;

    begin(&f, answers);
    assert_null(strstr(talk(&f, GET, "one\n"), "evil"));
    talk(&f, GET, "two\n");
    assert_int_equal(f.server.dials, 2);
    end(&f);
}

/* The second request finds a connection that looks alive and dies under it. */
static void test_only_what_may_be_done_twice_is_repeated(void **state)
{
    static const char *const answers[] = {OK "one\n", "", OK "two\n", "", OK "not\n"};
    struct fixture f;

    begin(&f, answers);
    talk(&f, GET, "one\n");
    talk(&f, GET, "two\n"); /* asked twice */
    assert_int_equal(f.server.dials, 2);
    assert_non_null(strstr(talk(&f, POST, "}"), "502"));
    assert_int_equal(f.server.dials, 2);
    assert_int_equal(f.server.next, 4);
    end(&f);
}

static void test_a_key_makes_it_repeatable(void **state)
{
    static const char *const answers[] = {OK "one\n", "", OK "two\n"};
    struct fixture f;

    begin(&f, answers);
    talk(&f, GET, "one\n");
    talk(&f, "POST /x HTTP/1.1\r\nHost: me\r\nIdempotency-Key: k\r\nContent-Length: 2\r\n\r\nhi",
         "two\n");
    assert_non_null(strstr(f.server.seen, "\r\n\r\nhi"));
    end(&f);
}

static void test_lines_are_hidden_changed_and_added(void **state)
{
    static const char *const answers[] = {
        "HTTP/1.1 200 OK\r\nHidden: a\r\nChanged: b\r\nKept: c\r\n"
        "Keep-Alive: 5\r\nConnection: Extra\r\nExtra: d\r\n"
        "Content-Length: 4\r\n\r\none\n"};
    struct fixture f;

    extra_lines = "Added: yes\r\n";
    begin(&f, answers);
    const char *answer =
        talk(&f,
             "GET /x HTTP/1.1\r\nHost: me\r\nHidden: a\r\nChanged: b\r\nKept: c\r\nTE: trailers\r\n"
             "Connection: X-Gone, Host, Added\r\nConnection: Keep-Alive\r\nX-Gone: d\r\n"
             "Proxy-Authorization: e\r\nUpgrade: h2c\r\n\r\n",
             "one\n");
    assert_string_equal(f.server.seen,
                        "GET /x HTTP/1.1\r\nHost: me\r\nChanged: not b\r\nKept: c\r\n"
                        "Added: yes\r\n\r\n");
    assert_non_null(strstr(answer, "Changed: not b\r\nKept: c\r\n"));
    assert_null(strstr(answer, "Hidden"));
    assert_null(strstr(answer, "Extra"));
    assert_null(strstr(answer, "Keep-Alive"));
    end(&f);
    extra_lines = NULL;
}

/* What the server would read as two requests is never sent as one. */
static void test_smuggling_ends_at_the_door(void **state)
{
    static const char *const requests[] = {
        "POST /x HTTP/1.1\r\nHost: me\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST /x HTTP/1.1\r\nHost: me\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nhell",
        "POST /x HTTP/1.1\r\nHost: me\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        "POST /x HTTP/1.1\r\nHost: me\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        "POST /x HTTP/1.1\r\nHost: me\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
        "GET /x HTTP/1.1\r\nHost: me\r\nX: a\rb\r\n\r\n",
        "GET /x HTTP/1.1\r\nHost: me\nX: a\r\n\r\n",
        "GET /x HTTP/1.1\r\nHost: me\r\nHost: you\r\n\r\n",
        "GET /x y HTTP/1.1\r\nHost: me\r\n\r\n",
    };
    static const char *const answers[] = {OK "bad\n"};

    for (size_t i = 0; i < TN_COUNT(requests); i++) {
        struct fixture f;
        begin(&f, answers);
        const char *answer = talk(&f, requests[i], "}");
        assert_true(strstr(answer, "HTTP/1.1 400") || strstr(answer, "HTTP/1.1 501"));
        assert_int_equal(f.server.dials, 0);
        end(&f);
    }
}

static void test_answers_that_make_no_sense(void **state)
{
    static const char *const all[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
        "hello\r\n\r\n",
        "",
    };

    for (size_t i = 0; i < TN_COUNT(all); i++) {
        const char *const answers[] = {all[i]};
        struct fixture f;
        begin(&f, answers);
        const char *answer = talk(&f, GET, "}");
        assert_true(strstr(answer, "HTTP/1.1 502") || strstr(answer, "HTTP/1.1 400"));
        end(&f);
    }
}

static void test_an_upgrade_becomes_a_pipe(void **state)
{
    static const char *const answers[] = {
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nearly"};
    struct fixture f;

    begin(&f, answers);
    const char *answer = talk(&f,
                              "GET /x HTTP/1.1\r\nHost: me\r\nConnection: Upgrade\r\n"
                              "Upgrade: websocket\r\n\r\n",
                              "early");
    assert_non_null(strstr(answer, "HTTP/1.1 101"));
    end(&f);
}

static void test_kept_connections_are_few_and_alive(void **state)
{
    struct tn_http_kept *k = tn_http_kept_new(2, 3, 30);
    int ends[5][2];

    for (int i = 0; i < 5; i++)
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends[i]), 0);
    for (int i = 0; i < 3; i++)
        tn_http_kept_give(k, "a", ends[i][0]); /* the first is closed: two each */
    tn_http_kept_give(k, "b", ends[3][0]);
    tn_http_kept_give(k, "c", ends[4][0]); /* and three in all */
    char c;
    assert_int_equal(recv(ends[0][1], &c, 1, 0), 0);
    assert_int_equal(recv(ends[1][1], &c, 1, 0), 0);
    close(ends[3][1]);
    assert_int_equal(tn_http_kept_take(k, "b"), -1); /* it has ended meanwhile */
    assert_int_equal(tn_http_kept_take(k, "a"), ends[2][0]);
    assert_int_equal(tn_http_kept_take(k, "a"), -1);
    tn_http_kept_free(k);
    assert_int_equal(recv(ends[4][1], &c, 1, 0), 0);
    close(ends[2][0]);
    for (int i = 0; i < 5; i++)
        if (i != 3)
            close(ends[i][1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_connection_carries_many),
        cmocka_unit_test(test_one_that_says_close_is_not_kept),
        cmocka_unit_test(test_one_that_says_too_much_is_not_kept),
        cmocka_unit_test(test_only_what_may_be_done_twice_is_repeated),
        cmocka_unit_test(test_a_key_makes_it_repeatable),
        cmocka_unit_test(test_lines_are_hidden_changed_and_added),
        cmocka_unit_test(test_smuggling_ends_at_the_door),
        cmocka_unit_test(test_answers_that_make_no_sense),
        cmocka_unit_test(test_an_upgrade_becomes_a_pipe),
        cmocka_unit_test(test_kept_connections_are_few_and_alive),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
