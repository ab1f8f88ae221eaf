#include "tests/unit/web/script-server.h"
#include "web/web.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/eventfd.h>
/* cmocka.h comes last */
#include <cmocka.h>

#define OK "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

static struct script_server server;
static struct tn_error err;

static struct tn_web *start(const struct script_step *steps)
{
    script_start(&server, steps);
    struct tn_web_options o = {.base = "http://engine/base", .socket = server.path};
    struct tn_web *web = tn_web_new(&o, &err);
    assert_non_null(web);
    return web;
}

static void stop(struct tn_web *web)
{
    tn_web_free(web);
    script_stop(&server);
}

static struct tn_web_call get(const char *target)
{
    return (struct tn_web_call){.target = target, .deadline = tn_deadline_in(20)};
}

/* --- requests ----------------------------------------------------------------------------- */

static void test_get(void **state)
{
    const struct script_step steps[] = {
        {"HTTP/1.1 201 Made\r\nX-Colour: red \r\nContent-Length: 5\r\n\r\nhello", SCRIPT_KEEP},
        {0}};
    struct tn_web *web = start(steps);
    const char *const headers[] = {"X-One: 1", "X-Empty:", NULL};
    struct tn_web_call call = get("/a?b=c");
    tn_autoanswer struct tn_web_answer answer = TN_WEB_ANSWER_INIT(100);

    assert_int_equal(tn_web_header(web, "X-Key", "old", &err), 0);
    assert_int_equal(tn_web_header(web, "x-key", "secret", &err), 0);
    call.headers = headers;
    assert_int_equal(tn_web_call(web, &call, &answer, &err), 0);
    assert_int_equal(answer.status, 201);
    assert_string_equal(tn_buf_str(&answer.body), "hello");
    tn_autofree char *colour = tn_web_answer_header(&answer, "x-colour");
    assert_string_equal(colour, "red");
    assert_null(tn_web_answer_header(&answer, "x-colou"));
    stop(web);
    assert_ptr_equal(strstr(server.asked, "GET /base/a?b=c HTTP/1.1\r\n"), server.asked);
    assert_non_null(strstr(server.asked, "\r\nx-key: secret\r\n"));
    assert_null(strstr(server.asked, "old"));
    assert_non_null(strstr(server.asked, "\r\nX-One: 1\r\n"));
    assert_non_null(strstr(server.asked, "\r\nX-Empty:\r\n"));
    assert_null(strcasestr(server.asked, "Content-Type"));
    assert_null(strcasestr(server.asked, "Expect"));
}

static void test_bodies(void **state)
{
    const struct script_step steps[] = {
        {OK, SCRIPT_KEEP}, {OK, SCRIPT_KEEP}, {OK, SCRIPT_KEEP}, {OK, SCRIPT_KEEP}, {0}};
    static const struct {
        const char *method, *body, *type, *expected;
    } cases[] = {
        {NULL, "{}", "application/json", "POST /base/x HTTP/1.1"},
        {"PUT", "{}", "application/json", "PUT /base/x HTTP/1.1"},
        {"POST", NULL, NULL, "POST /base/x HTTP/1.1"},
        {"DELETE", NULL, NULL, "DELETE /base/x HTTP/1.1"},
    };
    struct tn_web *web = start(steps);
    tn_autoanswer struct tn_web_answer answer = TN_WEB_ANSWER_INIT(100);

    for (size_t i = 0; i < TN_COUNT(cases); i++) {
        size_t before = server.asked_len;
        struct tn_web_call call = get("/x");
        call.method = cases[i].method;
        call.body = cases[i].body;
        call.body_len = cases[i].body ? strlen(cases[i].body) : 0;
        call.type = cases[i].type;
        assert_int_equal(tn_web_call(web, &call, &answer, &err), 0);
        assert_ptr_equal(strstr(server.asked + before, cases[i].expected), server.asked + before);
        if (cases[i].body) {
            assert_non_null(strstr(server.asked + before, "Content-Type: application/json\r\n"));
            assert_non_null(strstr(server.asked + before, "\r\n\r\n{}"));
        }
    }
    stop(web);
    assert_int_equal(server.connections, 1);
}

struct letters {
    int left;
    bool broken;
};

static ssize_t give_letters(void *to, size_t n, void *ctx, struct tn_error *error)
{
    struct letters *l = ctx;

    if (l->broken && l->left == 0)
        return tn_fail(error, TN_E_IO, "the source ran dry");
    size_t give = (size_t)l->left < n ? (size_t)l->left : n;
    memset(to, 'x', give);
    l->left -= (int)give;
    return (ssize_t)give;
}

static void test_sources(void **state)
{
    const struct script_step steps[] = {{OK, SCRIPT_KEEP}, {OK, SCRIPT_KEEP}, {0}};
    struct tn_web *web = start(steps);
    struct letters letters = {.left = 20};
    struct tn_web_call call = get("/up");
    tn_autoanswer struct tn_web_answer answer = TN_WEB_ANSWER_INIT(100);

    call.method = "PUT";
    call.source = give_letters;
    call.source_ctx = &letters;
    call.source_len = 20;
    assert_int_equal(tn_web_call(web, &call, &answer, &err), 0);
    assert_non_null(strstr(server.asked, "Content-Length: 20\r\n"));
    assert_non_null(strstr(server.asked, "\r\n\r\nxxxxxxxxxxxxxxxxxxxx"));

    letters.left = 20;
    call.source_len = -1;
    assert_int_equal(tn_web_call(web, &call, &answer, &err), 0);
    assert_non_null(strstr(server.asked, "Transfer-Encoding: chunked\r\n"));

    letters = (struct letters){.left = 5, .broken = true};
    assert_int_equal(tn_web_call(web, &call, &answer, &err), -1);
    assert_int_equal(err.code, TN_E_IO);
    assert_non_null(strstr(err.text, "the source ran dry"));
    stop(web);
}

/* --- answers ------------------------------------------------------------------------------ */

static int keep(const void *bytes, size_t n, void *ctx)
{
    return tn_buf_add(ctx, bytes, n);
}

static int enough(const void *bytes, size_t n, void *ctx)
{
    return 1;
}

static void test_sinks(void **state)
{
    const struct script_step steps[] = {
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
         SCRIPT_KEEP},
        {"HTTP/1.1 404 No\r\nContent-Length: 7\r\n\r\nmissing", SCRIPT_KEEP},
        {"HTTP/1.1 200 OK\r\n\r\nno end", SCRIPT_STALL},
        {0}};
    struct tn_web *web = start(steps);
    tn_autobuf struct tn_buf got = TN_BUF_INIT(100);
    tn_autoanswer struct tn_web_answer answer = TN_WEB_ANSWER_INIT(100);
    struct tn_web_call call = get("/");

    call.sink = keep;
    call.sink_ctx = &got;
    assert_int_equal(tn_web_call(web, &call, &answer, &err), 0);
    assert_string_equal(tn_buf_str(&got), "abcde");
    assert_int_equal(answer.body.len, 0);

    assert_int_equal(tn_web_call(web, &call, &answer, &err), 0);
    assert_int_equal(answer.status, 404);
    assert_string_equal(tn_buf_str(&got), "abcde");
    assert_string_equal(tn_buf_str(&answer.body), "missing");
    assert_int_equal(tn_web_refused(&answer, NULL, &err), -1);
    assert_int_equal(err.code, TN_E_NOT_FOUND);
    assert_string_equal(err.text, "missing (HTTP 404)");

    call.sink = enough;
    assert_int_equal(tn_web_call(web, &call, &answer, &err), 0);
    assert_true(answer.stopped);
    assert_int_equal(answer.status, 200);
    stop(web);
}

static void test_too_large(void **state)
{
    const struct script_step steps[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n01234567890", SCRIPT_KEEP},
        {OK, SCRIPT_KEEP},
        {0}};
    struct tn_web *web = start(steps);
    tn_autoanswer struct tn_web_answer answer = TN_WEB_ANSWER_INIT(10);
    struct tn_web_call call = get("/");

    assert_int_equal(tn_web_call(web, &call, &answer, &err), -1);
    assert_int_equal(err.code, TN_E_TOO_LARGE);
    assert_int_equal(tn_web_call(web, &call, &answer, &err), 0);
    stop(web);
}

static void test_statuses(void **state)
{
    static const struct {
        int status;
        enum tn_code code;
    } cases[] = {{400, TN_E_INVALID},   {401, TN_E_DENIED},   {403, TN_E_DENIED},
                 {404, TN_E_NOT_FOUND}, {409, TN_E_CONFLICT}, {418, TN_E_INVALID},
                 {429, TN_E_QUOTA},     {500, TN_E_PEER},     {502, TN_E_PEER},
                 {503, TN_E_BUSY},      {504, TN_E_TIMEOUT}};

    for (size_t i = 0; i < TN_COUNT(cases); i++) {
        struct tn_web_answer answer = {.status = cases[i].status};
        assert_int_equal(tn_web_refused(&answer, "why", &err), -1);
        assert_int_equal(err.code, cases[i].code);
    }
}

/* --- again -------------------------------------------------------------------------------- */

static void test_when_to_come_again(void **state)
{
    static const struct {
        const char *headers;
        double seconds;
    } rows[] = {{"", 0},
                {"retry-after: 7\n", 7},
                {"retry-after: 0\n", 1},
                {"retry-after: 0.2\n", 1},
                {"retry-after: -3\n", 0},
                {"retry-after: nan\n", 0},
                {"retry-after: Wed, 21 Oct 2026 07:28:00 GMT\n", 0}};

    for (size_t i = 0; i < TN_COUNT(rows); i++) {
        tn_autoanswer struct tn_web_answer answer = TN_WEB_ANSWER_INIT(100);
        tn_buf_puts(&answer.headers, rows[i].headers);
        assert_true(tn_web_retry_after(&answer) == rows[i].seconds);
    }
}

/* With a cancel that is readable: -1 and TN_E_GONE is one that would have been waited for. */
static void test_how_often(void **state)
{
    static const struct {
        int status;
        const char *headers;
        struct tn_web_again again;
        bool waits;
    } rows[] = {
        {429, "", {0}, true},
        {429, "", {.tries = 7}, false},
        {503, "retry-after: 1\n", {.tries = 7}, true},
        {503, "retry-after: 1\n", {.refused = 500 * TN_SECOND}, true},
        {503, "retry-after: 1\nx-should-retry: False\n", {0}, false},
        {429, "retry-after: 1\nx-should-retry: true\n", {.tries = 7}, true},
        {429, "retry-after: 1\n", {.refused = 28 * TN_SECOND}, true},
        {429, "retry-after: 2\n", {.refused = 29 * TN_SECOND}, false},
        {429, "retry-after: 120\n", {0}, true},
        {429, "retry-after: 1\n", {.refused = 120 * TN_SECOND, .patience = 120}, false},
        {429, "retry-after: 60\n", {.refused = TN_SECOND, .patience = 30}, false},
        {429, "retry-after: 86400\n", {0}, false},
        {429, "retry-after: inf\n", {0}, false},
        {0, NULL, {.tries = 6}, true},
        {0, NULL, {.tries = 7}, false},
    };
    int cancel = eventfd(1, EFD_CLOEXEC);

    for (size_t i = 0; i < TN_COUNT(rows); i++) {
        tn_autoanswer struct tn_web_answer answer = TN_WEB_ANSWER_INIT(100);
        struct tn_web_again again = rows[i].again;
        tn_buf_puts(&answer.headers, rows[i].headers ? rows[i].headers : "");
        answer.status = rows[i].status;
        err = (struct tn_error){.code = TN_E_PEER};
        assert_int_equal(
            tn_web_again(&again, rows[i].headers ? &answer : NULL, cancel, TN_NEVER, &err), -1);
        assert_int_equal(err.code, rows[i].waits ? TN_E_GONE : TN_E_PEER);
    }
    close(cancel);
}

/* --- time --------------------------------------------------------------------------------- */

static void test_deadline_and_idle(void **state)
{
    const struct script_step steps[] = {{"HTTP/1.1 200 OK\r\n\r\nbegin", SCRIPT_STALL}, {0}};
    tn_autobuf struct tn_buf got = TN_BUF_INIT(100);
    tn_autoanswer struct tn_web_answer answer = TN_WEB_ANSWER_INIT(100);

    for (int idle = 0; idle < 2; idle++) {
        struct tn_web *web = start(steps);
        struct tn_web_call call = get("/secret?token=hidden");
        int64_t began = tn_now();
        call.sink = keep;
        call.sink_ctx = &got;
        call.idle = idle ? 0.05 : 0;
        if (!idle)
            call.deadline = tn_deadline_in(0.05);
        assert_int_equal(tn_web_call(web, &call, &answer, &err), -1);
        assert_int_equal(err.code, TN_E_TIMEOUT);
        assert_null(strstr(err.text, "hidden"));
        assert_non_null(strstr(err.text, "/secret"));
        assert_true(tn_now() - began < 15 * TN_SECOND);
        stop(web);
    }
}

static void test_cancel(void **state)
{
    const struct script_step steps[] = {{"HTTP/1.1 200 OK\r\n\r\n", SCRIPT_STALL}, {0}};
    struct tn_web *web = start(steps);
    tn_autoanswer struct tn_web_answer answer = TN_WEB_ANSWER_INIT(100);
    struct tn_web_call call = get("/");
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    call.cancel = ends[0];
    assert_int_equal(write(ends[1], "x", 1), 1);
    assert_int_equal(tn_web_call(web, &call, &answer, &err), -1);
    assert_int_equal(err.code, TN_E_GONE);
    assert_int_equal(err.sys, ECANCELED);
    close(ends[0]);
    close(ends[1]);
    stop(web);
}

/* --- connections -------------------------------------------------------------------------- */

/* The server closes a connection that was kept alive: the next call takes another one. */
static void test_dead_connection(void **state)
{
    const struct script_step steps[] = {{OK, SCRIPT_CLOSE}, {OK, SCRIPT_KEEP}, {0}};
    struct tn_web *web = start(steps);
    tn_autoanswer struct tn_web_answer answer = TN_WEB_ANSWER_INIT(100);
    struct tn_web_call call = get("/");

    assert_int_equal(tn_web_call(web, &call, &answer, &err), 0);
    assert_int_equal(tn_web_call(web, &call, &answer, &err), 0);
    stop(web);
    assert_int_equal(server.connections, 2);
}

/* A request that must not be sent twice goes where it cannot be: over a connection of its own,
 * which a server that closes it without an answer has read. */
static void test_once(void **state)
{
    const struct script_step steps[] = {
        {OK, SCRIPT_KEEP}, {"", SCRIPT_CLOSE}, {OK, SCRIPT_KEEP}, {0}};
    struct tn_web *web = start(steps);
    tn_autoanswer struct tn_web_answer answer = TN_WEB_ANSWER_INIT(100);
    struct tn_web_call call = get("/");

    assert_int_equal(tn_web_call(web, &call, &answer, &err), 0);
    call.method = "POST";
    call.once = true;
    assert_int_equal(tn_web_call(web, &call, &answer, &err), -1);
    assert_int_equal(err.code, TN_E_PEER);
    stop(web);
    assert_int_equal(server.connections, 2);
    assert_null(strstr(strstr(server.asked, "POST ") + 1, "POST "));
}

static void test_broken_answer(void **state)
{
    const struct script_step steps[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", SCRIPT_CLOSE}, {0}};
    struct tn_web *web = start(steps);
    tn_autoanswer struct tn_web_answer answer = TN_WEB_ANSWER_INIT(100);
    struct tn_web_call call = get("/");

    assert_int_equal(tn_web_call(web, &call, &answer, &err), -1);
    assert_int_equal(err.code, TN_E_PEER);
    stop(web);
}

static void test_nobody_there(void **state)
{
    struct tn_web_options missing = {.base = "http://x", .socket = "/tmp/no/such/socket"};
    struct tn_web_options refused = {.base = "http://127.0.0.1:1"};
    struct tn_web_call call = get("/");
    tn_autoanswer struct tn_web_answer answer = TN_WEB_ANSWER_INIT(100);

    tn_autoweb struct tn_web *a = tn_web_new(&missing, &err);
    assert_int_equal(tn_web_call(a, &call, &answer, &err), -1);
    assert_int_equal(err.code, TN_E_NOT_FOUND);
    assert_int_equal(err.sys, ENOENT);
    tn_autoweb struct tn_web *b = tn_web_new(&refused, &err);
    assert_int_equal(tn_web_call(b, &call, &answer, &err), -1);
    assert_int_equal(err.code, TN_E_PEER);
    assert_int_equal(err.sys, ECONNREFUSED);
}

static void test_dial(void **state)
{
    const struct script_step steps[] = {{OK, SCRIPT_CLOSE}, {0}};
    static const char request[] = "GET /elsewhere HTTP/1.1\r\n\r\n";
    struct tn_web *web = start(steps);
    char answer[256];
    size_t got = 0;

    assert_int_equal(tn_web_header(web, "X-Key", "secret", &err), 0);
    int fd = tn_web_dial(web, tn_deadline_in(20), &err);
    assert_true(fd >= 0);
    assert_int_equal(send(fd, request, strlen(request), 0), strlen(request));
    for (ssize_t n; (n = recv(fd, answer + got, sizeof answer - got, 0)) > 0;)
        got += (size_t)n;
    assert_int_equal(got, strlen(OK));
    assert_memory_equal(answer, OK, got);
    close(fd);
    stop(web);
    assert_string_equal(server.asked, request); /* not a byte of ours */

    struct tn_web_options nobody = {.base = "http://engine", .socket = "/nowhere/at/all"};
    web = tn_web_new(&nobody, &err);
    assert_int_equal(tn_web_dial(web, tn_deadline_in(20), &err), -1);
    assert_int_equal(err.code, TN_E_NOT_FOUND);
    tn_web_free(web);
}

static void test_not_sendable(void **state)
{
    const struct script_step steps[] = {{0}};
    static const char *const bad[] = {"X: a\r\nY: b", "no colon", ": empty name", "A B: c", NULL};
    static const char *const targets[] = {"relative", "/a b", "/a\r\nX: y", "/a#b"};
    struct tn_web_options files = {.base = "file:///etc/passwd"};
    struct tn_web *web = start(steps);
    tn_autoanswer struct tn_web_answer answer = TN_WEB_ANSWER_INIT(100);

    for (size_t i = 0; bad[i]; i++) {
        const char *const headers[] = {bad[i], NULL};
        struct tn_web_call call = get("/");
        call.headers = headers;
        assert_int_equal(tn_web_call(web, &call, &answer, &err), -1);
        assert_int_equal(err.code, TN_E_INVALID);
    }
    for (size_t i = 0; i < TN_COUNT(targets); i++) {
        struct tn_web_call call = get(targets[i]);
        assert_int_equal(tn_web_call(web, &call, &answer, &err), -1);
        assert_int_equal(err.code, TN_E_INVALID);
    }
    assert_int_equal(tn_web_header(web, "X", "a\nb", &err), -1);
    assert_null(tn_web_new(&files, &err));
    stop(web);
    assert_int_equal(server.connections, 0);
}

static void *call_it(void *web)
{
    tn_autoanswer struct tn_web_answer answer = TN_WEB_ANSWER_INIT(100);
    struct tn_web_call call = get("/");

    for (int i = 0; i < 20; i++)
        if (tn_web_call(web, &call, &answer, NULL) < 0 || answer.status != 200)
            return web;
    return NULL;
}

static void test_threads(void **state)
{
    enum { THREADS = 4 };
    struct script_step steps[THREADS * 20 + 1] = {{0}};
    pthread_t threads[THREADS];

    for (size_t i = 0; i < TN_COUNT(steps) - 1; i++)
        steps[i] = (struct script_step){
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", SCRIPT_CLOSE};
    struct tn_web *web = start(steps);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, call_it, web), 0);
    for (int i = 0; i < THREADS; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    stop(web);
}

/* --- where others send us --------------------------------------------------------------------- */

static void test_reach_of_hosts(void **state)
{
    static const struct {
        const char *host;
        enum tn_web_reach reach;
    } rows[] = {
        {"localhost", TN_WEB_LOOPBACK},     {"127.1.2.3", TN_WEB_LOOPBACK},
        {"[::1]", TN_WEB_LOOPBACK},         {"::ffff:127.0.0.1", TN_WEB_LOOPBACK},
        {"10.1.2.3", TN_WEB_PRIVATE},       {"172.31.0.1", TN_WEB_PRIVATE},
        {"192.168.0.1", TN_WEB_PRIVATE},    {"100.64.0.1", TN_WEB_PRIVATE},
        {"[fd00::1]", TN_WEB_PRIVATE},      {"[64:ff9b::a00:1]", TN_WEB_PRIVATE},
        {"[2002:a00:1::]", TN_WEB_PRIVATE}, {"172.32.0.1", TN_WEB_PUBLIC},
        {"8.8.8.8", TN_WEB_PUBLIC},         {"[2001:4860::1]", TN_WEB_PUBLIC},
        {"a.example", TN_WEB_PUBLIC},       {"169.254.169.254", TN_WEB_PUBLIC},
        {"[64:ff9b:1::1]", TN_WEB_PRIVATE}, {"[64:ff9b::808:808]", TN_WEB_PUBLIC},
    };

    for (size_t i = 0; i < TN_COUNT(rows); i++)
        assert_int_equal(tn_web_reach_of(rows[i].host), rows[i].reach);
}

static void ask_near(const char *base, enum tn_web_reach reach, bool refused)
{
    const struct tn_web_options o = {.base = base, .reach = reach};
    tn_autoanswer struct tn_web_answer answer = TN_WEB_ANSWER_INIT(100);
    tn_autoweb struct tn_web *web = tn_web_new(&o, &err);
    struct tn_web_call call = get("/");

    assert_non_null(web);
    assert_int_equal(tn_web_call(web, &call, &answer, &err), -1);
    assert_int_equal(err.code == TN_E_DENIED && err.sys == EHOSTUNREACH, refused);
}

/* Nobody listens at port 1; but whether that is found out is the question. */
static void test_too_near(void **state)
{
    ask_near("http://127.0.0.1:1", TN_WEB_PUBLIC, true);
    ask_near("http://127.0.0.1:1", TN_WEB_PRIVATE, true);
    ask_near("http://localhost:1", TN_WEB_PUBLIC, true);
    ask_near("http://[::ffff:127.0.0.1]:1", TN_WEB_PUBLIC, true);
    ask_near("http://0.0.0.0:1", TN_WEB_LOOPBACK, true);
    ask_near("http://169.254.169.254:1", TN_WEB_LOOPBACK, true);
    ask_near("http://127.0.0.1:1", TN_WEB_LOOPBACK, false);
    /* The proxy is not asked to go there either. */
    setenv("http_proxy", "http://127.0.0.1:1", 1);
    ask_near("http://10.0.0.1", TN_WEB_PUBLIC, true);
    ask_near("http://[::ffff:10.0.0.1]", TN_WEB_PUBLIC, true);
    ask_near("http://127.0.0.1:1", TN_WEB_PUBLIC, true);
    unsetenv("http_proxy");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_get),
        cmocka_unit_test(test_bodies),
        cmocka_unit_test(test_sources),
        cmocka_unit_test(test_sinks),
        cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_statuses),
        cmocka_unit_test(test_when_to_come_again),
        cmocka_unit_test(test_how_often),
        cmocka_unit_test(test_deadline_and_idle),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_dead_connection),
        cmocka_unit_test(test_once),
        cmocka_unit_test(test_broken_answer),
        cmocka_unit_test(test_nobody_there),
        cmocka_unit_test(test_dial),
        cmocka_unit_test(test_not_sendable),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_reach_of_hosts),
        cmocka_unit_test(test_too_near),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
