#include "unit.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "net/http-client.h"
#include "net/listen.h"

/* --- a server that follows a script -------------------------------------------------------- */

enum { CONNECTIONS = 4, STEPS = 4 };

/* Per connection: an answer to each request in turn; after the last one it closes.  The empty
 * answer reads the request and says nothing. */
struct script {
    const char *answers[CONNECTIONS][STEPS + 1];
    bool silent_end; /* wait for the client to close instead of closing */
};

struct fake {
    const struct script *script;
    int listener;
    char address[32];
    pthread_t thread;
    struct tn_buf requests;
    int connections;
    sem_t closed; /* posted when a connection has been closed */
};

/* Reads one request with its body; false at the end of the stream. */
static bool take_request(int fd, struct tn_buf *in, struct tn_buf *log)
{
    for (;;) {
        const char *end = strstr(tn_buf_str(in), "\r\n\r\n");
        if (end) {
            const char *length = strcasestr(tn_buf_str(in), "content-length:");
            size_t n = (size_t)(end - in->data) + 4;
            const char *chunked = strcasestr(tn_buf_str(in), "transfer-encoding: chunked");
            const char *last =
                memmem(end + 2, in->len - (size_t)(end + 2 - in->data), "\r\n0\r\n\r\n", 7);
            if (length && length < end)
                n += strtoul(length + 15, NULL, 10);
            else if (chunked && chunked < end)
                n = last ? (size_t)(last - in->data) + 7 : SIZE_MAX;
            if (in->len >= n) {
                tn_buf_add(log, in->data, n);
                tn_buf_eat(in, n);
                return true;
            }
        }
        char *to = tn_buf_reserve(in, 65536);
        ssize_t got = recv(fd, to, 65536, 0);
        if (got <= 0)
            return false;
        tn_buf_grew(in, (size_t)got);
    }
}

static void serve(struct fake *f, int fd, const char *const *answers)
{
    tn_autobuf struct tn_buf in = TN_BUF_INIT(64 << 20);
    char rest[4096];

    for (; *answers && take_request(fd, &in, &f->requests); answers++)
        send(fd, *answers, strlen(*answers), MSG_NOSIGNAL);
    if (f->script->silent_end)
        while (recv(fd, rest, sizeof rest, 0) > 0)
            ;
    close(fd);
    sem_post(&f->closed);
}

static void *run_script(void *arg)
{
    struct fake *f = arg;

    for (; f->connections < CONNECTIONS && f->script->answers[f->connections][0];
         f->connections++) {
        int fd = accept(f->listener, NULL, NULL);
        if (fd < 0)
            break;
        serve(f, fd, f->script->answers[f->connections]);
    }
    return NULL;
}

static void start(struct fake *f, const struct script *script)
{
    struct tn_listen_address a;
    struct tn_error err;
    struct sockaddr_in addr;
    socklen_t len = sizeof addr;

    *f = (struct fake){.script = script};
    tn_buf_init(&f->requests, 64 << 20);
    sem_init(&f->closed, 0, 0);
    assert_int_equal(tn_listen_parse("127.0.0.1:0", &a, &err), 0);
    f->listener = tn_listen_open(&a, &err);
    assert_int_equal(fcntl(f->listener, F_SETFL, 0), 0);
    getsockname(f->listener, (struct sockaddr *)&addr, &len);
    snprintf(f->address, sizeof f->address, "127.0.0.1:%d", ntohs(addr.sin_port));
    assert_int_equal(pthread_create(&f->thread, NULL, run_script, f), 0);
}

/* Ends the script; returns how many connections were served. */
static int stop(struct fake *f)
{
    shutdown(f->listener, SHUT_RDWR);
    pthread_join(f->thread, NULL);
    close(f->listener);
    tn_buf_done(&f->requests);
    return f->connections;
}

static int call(struct tn_http_client *c, const char *method, const char *extra, struct tn_buf *out,
                struct tn_error *err)
{
    struct tn_http_call request = {
        .method = method, .target = "/t", .extra_headers = extra, .deadline = tn_deadline_in(5)};

    tn_buf_reset(out);
    return tn_http_client_call(c, &request, out, err);
}

#define OK_HI "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"

/* --- tests --------------------------------------------------------------------------------- */

static void test_what_is_sent(void **state)
{
    static const struct script script = {.answers = {{OK_HI, OK_HI, OK_HI}}};
    tn_autobuf struct tn_buf out = TN_BUF_INIT(100);
    struct fake f;
    struct tn_error err;

    start(&f, &script);
    struct tn_http_client *c = tn_http_client_new(f.address, &err);
    tn_http_client_header(c, "X-Key", "secret");
    tn_http_client_header(c, "X-Evil", "a\r\nb: c");
    tn_http_client_header(c, "X Evil", "a");
    struct tn_http_call post = {.method = "POST",
                                .target = "/p?q",
                                .type = "a/b",
                                .body = "body",
                                .body_len = 4,
                                .extra_headers = "A: b\r\n",
                                .deadline = tn_deadline_in(5)};
    assert_int_equal(tn_http_client_call(c, &post, &out, &err), 200);
    assert_string_equal(tn_buf_str(&out), "hi");
    assert_int_equal(call(c, NULL, NULL, &out, &err), 200);
    assert_int_equal(call(c, "POST", "Host: other\r\n", &out, &err), 200);
    tn_http_client_free(c);
    pthread_join(f.thread, NULL);

    char want[500];
    snprintf(
        want, sizeof want,
        "POST /p?q HTTP/1.1\r\nHost: %s\r\nContent-Type: a/b\r\nContent-Length: 4\r\nX-Key: secret\r\n"
        "A: b\r\n\r\nbody"
        "GET /t HTTP/1.1\r\nHost: %s\r\nX-Key: secret\r\n\r\n"
        "POST /t HTTP/1.1\r\nContent-Length: 0\r\nX-Key: secret\r\nHost: other\r\n\r\n",
        f.address, f.address);
    assert_string_equal(tn_buf_str(&f.requests), want);
    assert_int_equal(f.connections, 1);
    close(f.listener);
    tn_buf_done(&f.requests);
}

static void test_answers(void **state)
{
    static const struct {
        const char *method;
        const char *answer;
        int status; /* -1: refused */
        const char *body;
    } rows[] = {
        {"GET", OK_HI, 200, "hi"},
        {"GET", "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n", 404, ""},
        {"GET",
         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;x\r\na\r\n2\r\nbc\r\n0\r\nT: u\r\n\r\n",
         200, "abc"},
        {"GET", "HTTP/1.1 200 OK\r\n\r\nuntil the end", 200, "until the end"},
        {"GET", "HTTP/1.0 200 OK\r\n\r\nuntil the end", 200, "until the end"},
        {"GET", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nA: b\r\n\r\n" OK_HI, 200, "hi"},
        {"GET", "HTTP/1.1 204 No Content\r\n\r\n", 204, ""},
        {"GET", "HTTP/1.1 304 Same\r\nContent-Length: 5\r\n\r\n", 304, ""},
        {"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", 200, ""},
        {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhi", -1, NULL},
        {"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhi", -1, NULL},
        {"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n", -1, NULL},
        {"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", -1, NULL},
        {"GET",
         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
         -1, NULL},
        {"GET", "HTTP/1.1 200 OK\r\nA: b", -1, NULL},
        {"GET", "nonsense\r\n\r\n", -1, NULL},
        {"GET", "\x15\x03\x01", -1, NULL},
    };

    for (size_t i = 0; i < TN_COUNT(rows); i++) {
        struct script script = {.answers = {{rows[i].answer}}};
        tn_autobuf struct tn_buf out = TN_BUF_INIT(100);
        struct fake f;
        struct tn_error err = {0};
        start(&f, &script);
        struct tn_http_client *c = tn_http_client_new(f.address, &err);
        int status = call(c, rows[i].method, NULL, &out, &err);
        if (status != rows[i].status)
            fail_msg("%s: %d %s", rows[i].answer, status, err.text);
        if (status > 0)
            assert_string_equal(tn_buf_str(&out), rows[i].body);
        else
            assert_int_equal(err.code, TN_E_PEER);
        tn_http_client_free(c);
        assert_int_equal(stop(&f), 1);
    }
}

static void test_answer_headers(void **state)
{
    static const struct script script = {
        .answers = {{"HTTP/1.1 200 OK\r\nX-One:  1 \r\nContent-Length: 0\r\n\r\n",
                     "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"}}};
    tn_autobuf struct tn_buf out = TN_BUF_INIT(100);
    struct fake f;
    struct tn_error err;

    start(&f, &script);
    struct tn_http_client *c = tn_http_client_new(f.address, &err);
    assert_null(tn_http_client_answer(c, "x-one"));
    assert_int_equal(call(c, "GET", NULL, &out, &err), 200);
    assert_string_equal(tn_http_client_answer(c, "x-one"), "1");
    assert_int_equal(call(c, "GET", NULL, &out, &err), 200);
    assert_null(tn_http_client_answer(c, "x-one"));
    tn_http_client_free(c);
    stop(&f);
}

/* What happens to the second request on a connection the server gives up. */
static void test_dead_connections(void **state)
{
    static const struct {
        struct script script;
        const char *method, *extra;
        int status, connections;
    } rows[] = {
        /* closed after the first answer: noticed before anything is sent, so any method goes on */
        {{{{OK_HI}, {OK_HI}}, false}, "GET", NULL, 200, 2},
        {{{{OK_HI}, {OK_HI}}, false}, "POST", NULL, 200, 2},
        {{{{"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"}, {OK_HI}}, false},
         "POST",
         NULL,
         200,
         2},
        {{{{"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n"}, {OK_HI}}, false},
         "POST",
         NULL,
         200,
         2},
        /* the second request is read and not answered */
        {{{{OK_HI, ""}, {OK_HI}}, false}, "GET", NULL, 200, 2},
        {{{{OK_HI, ""}, {OK_HI}}, false}, "DELETE", NULL, 200, 2},
        {{{{OK_HI, ""}, {OK_HI}}, false}, "POST", NULL, -1, 1},
        {{{{OK_HI, ""}, {OK_HI}}, false}, "POST", "idempotency-key: 1\r\n", 200, 2},
        /* but only once */
        {{{{OK_HI, ""}, {""}, {OK_HI}}, false}, "GET", NULL, -1, 2},
        /* an answer that began must not be asked for again */
        {{{{OK_HI, "HTTP/1.1 2"}, {OK_HI}}, false}, "GET", NULL, -1, 1},
    };

    for (size_t i = 0; i < TN_COUNT(rows); i++) {
        tn_autobuf struct tn_buf out = TN_BUF_INIT(100);
        struct fake f;
        struct tn_error err = {0};
        start(&f, &rows[i].script);
        struct tn_http_client *c = tn_http_client_new(f.address, &err);
        assert_int_equal(call(c, "GET", NULL, &out, &err), 200);
        if (!rows[i].script.answers[0][1])
            while (sem_wait(&f.closed) < 0)
                ;
        int status = call(c, rows[i].method, rows[i].extra, &out, &err);
        if (status != rows[i].status)
            fail_msg("row %zu: %d %s", i, status, err.text);
        if (status < 0)
            assert_int_equal(err.code, TN_E_PEER);
        tn_http_client_free(c);
        assert_int_equal(stop(&f), rows[i].connections);
    }
}

static void test_fresh_connection_is_not_tried_again(void **state)
{
    static const struct script script = {{{""}, {OK_HI}}, false};
    tn_autobuf struct tn_buf out = TN_BUF_INIT(100);
    struct fake f;
    struct tn_error err;

    start(&f, &script);
    struct tn_http_client *c = tn_http_client_new(f.address, &err);
    assert_int_equal(call(c, "GET", NULL, &out, &err), -1);
    assert_int_equal(err.code, TN_E_PEER);
    assert_int_equal(call(c, "GET", NULL, &out, &err), 200);
    tn_http_client_free(c);
    stop(&f);
}

static void test_deadline(void **state)
{
    static const struct script scripts[] = {
        {{{""}}, true},
        {{{"HTTP/1.1 200 OK\r\nContent-"}}, true},
        {{{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhi"}}, true},
        {{{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhi"}}, true},
    };

    for (size_t i = 0; i < TN_COUNT(scripts); i++) {
        tn_autobuf struct tn_buf out = TN_BUF_INIT(100);
        struct fake f;
        struct tn_error err;
        start(&f, &scripts[i]);
        struct tn_http_client *c = tn_http_client_new(f.address, &err);
        int64_t begin = tn_now();
        struct tn_http_call request = {.target = "/", .deadline = begin + 100 * TN_MILLI};
        assert_int_equal(tn_http_client_call(c, &request, &out, &err), -1);
        assert_int_equal(err.code, TN_E_TIMEOUT);
        assert_true(tn_now() - begin >= 100 * TN_MILLI && tn_now() - begin < 3 * TN_SECOND);
        tn_http_client_free(c);
        stop(&f);
    }
}

static void test_too_large(void **state)
{
    static const struct script script = {{{OK_HI}, {OK_HI}, {OK_HI}}, false};
    tn_autobuf struct tn_buf one = TN_BUF_INIT(1), two = TN_BUF_INIT(2);
    struct fake f;
    struct tn_error err;

    start(&f, &script);
    struct tn_http_client *c = tn_http_client_new(f.address, &err);
    assert_int_equal(call(c, "GET", NULL, &one, &err), -1);
    assert_int_equal(err.code, TN_E_TOO_LARGE);
    assert_int_equal(call(c, "GET", NULL, &two, &err), 200); /* on a new connection */
    tn_http_client_free(c);
    assert_int_equal(stop(&f), 2);
}

static void test_streaming(void **state)
{
    static const struct script script = {
        {{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
          OK_HI},
         {OK_HI}},
        false};
    struct tn_http_call get = {.target = "/", .deadline = tn_deadline_in(5)};
    struct fake f;
    struct tn_error err;
    char text[8] = "";

    start(&f, &script);
    struct tn_http_client *c = tn_http_client_new(f.address, &err);
    assert_int_equal(tn_http_client_open(c, &get, &err), 200);
    assert_int_equal(tn_http_client_read(c, text, 2, get.deadline, &err), 2);
    assert_int_equal(tn_http_client_read(c, text + 2, 6, get.deadline, &err), 1);
    assert_int_equal(tn_http_client_read(c, text + 3, 5, get.deadline, &err), 2);
    assert_string_equal(text, "abcde");
    assert_int_equal(tn_http_client_read(c, text, 8, get.deadline, &err), 0);
    assert_int_equal(tn_http_client_open(c, &get, &err), 200); /* the same connection */
    assert_int_equal(tn_http_client_read(c, text, 1, get.deadline, &err), 1);
    assert_int_equal(tn_http_client_open(c, &get, &err), 200); /* left in the middle: a new one */
    tn_http_client_free(c);
    assert_int_equal(stop(&f), 2);
}

/* An answer that comes while the request is still being sent. */
static void *refuse_early(void *arg)
{
    int fd = *(int *)arg;
    static const char answer[] =
        "HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno";
    char some[1000];

    recv(fd, some, sizeof some, 0);
    send(fd, answer, sizeof answer - 1, MSG_NOSIGNAL);
    shutdown(fd, SHUT_RD);
    return NULL;
}

static void test_early_refusal(void **state)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(100);
    tn_autofree char *body = tn_calloc(1, 8 << 20);
    struct tn_http_call put = {.method = "PUT",
                               .target = "/",
                               .body = body,
                               .body_len = 8 << 20,
                               .deadline = tn_deadline_in(5)};
    struct tn_error err;
    int fds[2];
    pthread_t thread;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    assert_int_equal(pthread_create(&thread, NULL, refuse_early, &fds[0]), 0);
    struct tn_http_client *c = tn_http_client_from_fd(fds[1]);
    assert_int_equal(tn_http_client_call(c, &put, &out, &err), 413);
    assert_string_equal(tn_buf_str(&out), "no");
    assert_int_equal(tn_http_client_call(c, &put, &out, &err), -1); /* cannot reconnect */
    assert_int_equal(err.code, TN_E_PEER);
    tn_http_client_free(c);
    pthread_join(thread, NULL);
    close(fds[0]);
}

/* A body of which a little comes at a time. */
struct drip {
    const char *text;
    size_t left, piece;
    bool fails;
};

static ssize_t drip(void *ctx, void *to, size_t n, struct tn_error *err)
{
    struct drip *d = ctx;

    if (d->fails && d->left == 0)
        return tn_fail(err, TN_E_IO, "the source is dry");
    if (n > d->piece)
        n = d->piece;
    if (n > d->left)
        n = d->left;
    memcpy(to, d->text, n);
    d->text += n;
    d->left -= n;
    return (ssize_t)n;
}

static int put_drip(struct fake *f, struct drip *d, int64_t length, struct tn_error *err)
{
    struct tn_http_client *c = tn_http_client_new(f->address, err);
    tn_autobuf struct tn_buf out = TN_BUF_INIT(4096);

    int status = tn_http_client_call(c,
                                     &(struct tn_http_call){.method = "PUT",
                                                            .target = "/x",
                                                            .source = drip,
                                                            .source_ctx = d,
                                                            .source_len = length,
                                                            .stall = 20 * TN_SECOND,
                                                            .deadline = TN_NEVER},
                                     &out, err);
    tn_http_client_free(c);
    return status;
}

static void test_streamed_requests(void **state)
{
    static const struct script once = {.answers = {{"HTTP/1.1 204 Fine\r\n\r\n"}}};
    struct tn_error err = {0};
    struct fake f;

    struct drip known = {.text = "abcdefgh", .left = 8, .piece = 3};
    start(&f, &once);
    assert_int_equal(put_drip(&f, &known, 8, &err), 204);
    assert_non_null(strstr(tn_buf_str(&f.requests), "\r\nContent-Length: 8\r\n"));
    assert_non_null(strstr(tn_buf_str(&f.requests), "\r\n\r\nabcdefgh"));
    stop(&f);

    struct drip unknown = {.text = "abcdefgh", .left = 8, .piece = 3};
    start(&f, &once);
    assert_int_equal(put_drip(&f, &unknown, -1, &err), 204);
    assert_null(strcasestr(tn_buf_str(&f.requests), "content-length"));
    assert_non_null(
        strstr(tn_buf_str(&f.requests), "\r\n\r\n3\r\nabc\r\n3\r\ndef\r\n2\r\ngh\r\n0\r\n\r\n"));
    stop(&f);

    struct drip none = {.text = "", .piece = 3};
    start(&f, &once);
    assert_int_equal(put_drip(&f, &none, 0, &err), 204);
    assert_non_null(strstr(tn_buf_str(&f.requests), "\r\nContent-Length: 0\r\n"));
    stop(&f);

    struct drip shorter = {.text = "abc", .left = 3, .piece = 3};
    start(&f, &once);
    assert_int_equal(put_drip(&f, &shorter, 8, &err), -1);
    assert_non_null(strstr(err.text, "5 bytes early"));
    stop(&f);

    struct drip dry = {.text = "abc", .left = 3, .piece = 3, .fails = true};
    start(&f, &once);
    assert_int_equal(put_drip(&f, &dry, -1, &err), -1);
    assert_string_equal(err.text, "the source is dry");
    stop(&f);
}

/* Once it is read, it cannot be sent again. */
static void test_a_stream_is_not_repeated(void **state)
{
    static const struct script hangs_up = {.answers = {{""}, {"HTTP/1.1 204 Fine\r\n\r\n"}}};
    struct drip d = {.text = "abc", .left = 3, .piece = 3};
    struct tn_error err = {0};
    struct fake f;

    start(&f, &hangs_up);
    assert_int_equal(put_drip(&f, &d, 3, &err), -1);
    assert_int_equal(err.code, TN_E_PEER);
    assert_int_equal(stop(&f), 1);
}

static ssize_t endless(void *ctx, void *to, size_t n, struct tn_error *err)
{
    memset(to, 'x', n);
    return (ssize_t)n;
}

/* Whoever sends to a peer that takes nothing hears of the end, too. */
static void test_sending_is_cancelled(void **state)
{
    tn_autofd int stop = eventfd(1, EFD_CLOEXEC);
    tn_autobuf struct tn_buf out = TN_BUF_INIT(4096);
    struct tn_error err = {0};
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    struct tn_http_client *c = tn_http_client_from_fd(pair[0]);
    tn_http_client_cancel_by(c, stop);
    const struct tn_http_call call = {.method = "PUT",
                                      .target = "/x",
                                      .source = endless,
                                      .source_len = -1,
                                      .deadline = tn_deadline_in(60)};
    assert_int_equal(tn_http_client_call(c, &call, &out, &err), -1);
    assert_int_equal(err.code, TN_E_TIMEOUT);
    assert_true(tn_now() < call.deadline);
    tn_http_client_free(c);
    close(pair[1]);
}

/* A client whose answer is being made may have sent more; only when it has gone nobody waits. */
static void test_a_socket_cancels_when_it_is_closed(void **state)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(4096);
    int pair[2], user[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, user), 0);
    assert_int_equal(write(user[1], "more", 4), 4);
    for (int gone = 0; gone < 2; gone++) {
        struct tn_error err = {0};
        if (gone)
            close(user[1]);
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        struct tn_http_client *c = tn_http_client_from_fd(pair[0]);
        tn_http_client_cancel_by(c, user[0]);
        const struct tn_http_call call = {.target = "/",
                                          .deadline = tn_deadline_in(gone ? 60 : 0.2)};
        assert_int_equal(tn_http_client_call(c, &call, &out, &err), -1);
        assert_int_equal(err.code, TN_E_TIMEOUT);
        assert_int_equal(tn_now() < call.deadline, gone);
        tn_http_client_free(c);
        close(pair[1]);
    }
    close(user[0]);
}

static void test_bad_requests(void **state)
{
    static const struct tn_http_call calls[] = {
        {.target = ""},
        {.target = "/a b"},
        {.target = "/a\r\nb"},
        {.target = "/", .method = "GE T"},
        {.target = "/", .method = "GET\r\n"},
        {.target = "/", .method = ""},
        {.target = "/", .type = "a\nb"},
        {.target = "/", .extra_headers = "A: b"},
        {.target = "/", .extra_headers = "A: b\r\n\r\nGET / HTTP/1.1\r\n"},
    };
    tn_autobuf struct tn_buf out = TN_BUF_INIT(100);
    struct tn_error err;
    struct tn_http_client *c = tn_http_client_new("127.0.0.1:1", &err);

    for (size_t i = 0; i < TN_COUNT(calls); i++) {
        assert_int_equal(tn_http_client_call(c, &calls[i], &out, &err), -1);
        assert_int_equal(err.code, TN_E_INVALID);
    }
    tn_http_client_free(c);
    tn_http_client_free(NULL);
    assert_null(tn_http_client_new("fd:3", &err));
    assert_null(tn_http_client_new("example.org:80", &err));
}

/* A target stays below the base of its server. */
static void test_targets_that_climb(void **state)
{
    static const char *const targets[] = {"/../a", "/a/%2e%2E/b", "/a/..", "/.\\..", "x", "/%zz"};
    tn_autobuf struct tn_buf out = TN_BUF_INIT(100);
    struct tn_error err;
    struct tn_http_client *c = tn_http_client_at("127.0.0.1:1", tn_dial, "h", "/base");

    for (size_t i = 0; i < TN_COUNT(targets); i++) {
        const struct tn_http_call bad = {.target = targets[i], .deadline = tn_deadline_in(5)};
        assert_int_equal(tn_http_client_call(c, &bad, &out, &err), -1);
        assert_int_equal(err.code, TN_E_DENIED);
    }
    const struct tn_http_call good = {.target = "/a..b?c=../d", .deadline = tn_deadline_in(5)};
    assert_int_equal(tn_http_client_call(c, &good, &out, &err), -1);
    assert_int_not_equal(err.code, TN_E_DENIED); /* nobody listens there */
    tn_http_client_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_sent),
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_answer_headers),
        cmocka_unit_test(test_dead_connections),
        cmocka_unit_test(test_fresh_connection_is_not_tried_again),
        cmocka_unit_test(test_deadline),
        cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_streaming),
        cmocka_unit_test(test_early_refusal),
        cmocka_unit_test(test_streamed_requests),
        cmocka_unit_test(test_a_stream_is_not_repeated),
        cmocka_unit_test(test_sending_is_cancelled),
        cmocka_unit_test(test_a_socket_cancels_when_it_is_closed),
        cmocka_unit_test(test_bad_requests),
        cmocka_unit_test(test_targets_that_climb),
    };

    return cmocka_run_group_tests_name("http-client", tests, NULL, NULL);
}
