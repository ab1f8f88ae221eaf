/* The client against a hand that misbehaves as told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/clock.h"
#include "runtime/hand-client.h"

/* --- the fake hand: one connection per row of its script -------------------------------------- */

enum manner { ANSWER, HANG_UP, HALF_AN_ANSWER };

struct turn {
    enum manner manner;
    int status;
    const char *body;
};

struct fake {
    char directory[64];
    char address[128];
    int listener;
    const struct turn *turns;
    size_t count;
    pthread_t thread;
    size_t served;
    char requests[8][4096];
};

/* A whole request: headers and as much body as they announce. */
static void read_request(int fd, char *to, size_t size)
{
    size_t n = 0;

    while (n < size - 1) {
        ssize_t got = read(fd, to + n, size - 1 - n);
        if (got <= 0)
            break;
        n += (size_t)got;
        to[n] = '\0';
        const char *end = strstr(to, "\r\n\r\n");
        const char *length = strcasestr(to, "content-length:");
        size_t body = length ? strtoul(length + strlen("content-length:"), NULL, 10) : 0;
        if (end && n >= (size_t)(end + 4 - to) + body)
            break;
    }
    to[n] = '\0';
}

static void *serve(void *arg)
{
    struct fake *f = arg;

    for (size_t i = 0; i < f->count; i++) {
        const struct turn *t = &f->turns[i];
        tn_autofd int fd = accept4(f->listener, NULL, NULL, SOCK_CLOEXEC);
        char answer[2048];

        if (fd < 0)
            break;
        read_request(fd, f->requests[i], sizeof f->requests[i]);
        f->served++;
        if (t->manner == HANG_UP)
            continue;
        int n = snprintf(answer, sizeof answer,
                         "HTTP/1.1 %d Whatever\r\nContent-Type: application/json\r\n"
                         "Content-Length: %zu\r\nConnection: close\r\n\r\n%s",
                         t->status, strlen(t->body), t->body);
        if (t->manner == HALF_AN_ANSWER)
            n /= 2;
        assert_int_equal(send(fd, answer, (size_t)n, MSG_NOSIGNAL), n);
    }
    return NULL;
}

static void fake_start(struct fake *f, const struct turn *turns, size_t count)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};

    memset(f, 0, sizeof *f);
    f->turns = turns;
    f->count = count;
    snprintf(f->directory, sizeof f->directory, "/tmp/test-hand-client.XXXXXX");
    assert_non_null(mkdtemp(f->directory));
    snprintf(sun.sun_path, sizeof sun.sun_path, "%s/s", f->directory);
    snprintf(f->address, sizeof f->address, "unix:%s/s", f->directory);
    f->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(f->listener, (struct sockaddr *)&sun, sizeof sun), 0);
    assert_int_equal(listen(f->listener, 8), 0);
    assert_int_equal(pthread_create(&f->thread, NULL, serve, f), 0);
}

/* Ends it (also one that still waits for a connection) and returns how many came. */
static size_t fake_stop(struct fake *f)
{
    shutdown(f->listener, SHUT_RDWR);
    pthread_join(f->thread, NULL);
    tn_close(f->listener);
    unlink(f->address + strlen("unix:"));
    rmdir(f->directory);
    return f->served;
}

/* The value of the header in a recorded request. */
static void header_of(const char *request, const char *name, char *to, size_t size)
{
    const char *at = strcasestr(request, name);

    assert_non_null(at);
    at += strlen(name) + 1;
    at += strspn(at, " ");
    snprintf(to, size, "%.*s", (int)strcspn(at, "\r"), at);
}

/* --- actions ---------------------------------------------------------------------------------- */

#define RUN_DONE                                                                       \
    "{\"observation\":\"run\",\"content\":\"hi\",\"extras\":{\"command\":\"echo hi\"," \
    "\"metadata\":{\"exit_code\":3}},\"success\":false}"

static int execute(struct fake *f, const char *key, double timeout, struct tn_observation *o,
                   struct tn_error *err)
{
    struct tn_hand_client *h = tn_hand_client_new(f->address, key, err);
    struct tn_action a;

    assert_non_null(h);
    tn_action_init(&a, TN_ACTION_RUN);
    a.run.command = tn_strdup("echo hi");
    if (timeout > 0)
        a.timeout = (struct tn_opt_double){.set = true, .value = timeout};
    int status = tn_hand_client_execute(h, &a, o, err);
    tn_action_done(&a);
    tn_hand_client_free(h);
    return status;
}

static void observation_is_decoded(void **state)
{
    static const struct turn turns[] = {{ANSWER, 200, RUN_DONE}};
    struct fake f;
    struct tn_observation o;
    struct tn_error err = {0};
    char value[64];

    fake_start(&f, turns, TN_COUNT(turns));
    assert_int_equal(execute(&f, "the-key", 10, &o, &err), 0);
    assert_int_equal(fake_stop(&f), 1);
    assert_int_equal(o.type, TN_OBSERVATION_RUN);
    assert_int_equal(o.run.metadata.exit_code, 3);
    assert_string_equal(o.content.data, "hi");
    tn_observation_done(&o);

    assert_non_null(strstr(f.requests[0], "POST /execute_action HTTP/1.1\r\n"));
    assert_non_null(strstr(f.requests[0], "\"timeout\":10.0"));
    header_of(f.requests[0], "X-Session-API-Key", value, sizeof value);
    assert_string_equal(value, "the-key");
    header_of(f.requests[0], "Idempotency-Key", value, sizeof value);
    assert_int_equal(strlen(value), 32);
}

static void broken_connection_is_tried_again_with_the_same_key(void **state)
{
    static const struct turn turns[] = {
        {HANG_UP, 0, NULL}, {HALF_AN_ANSWER, 200, RUN_DONE}, {ANSWER, 200, RUN_DONE}};
    struct fake f;
    struct tn_observation o;
    struct tn_error err = {0};
    char first[64], other[64];

    fake_start(&f, turns, TN_COUNT(turns));
    assert_int_equal(execute(&f, NULL, 10, &o, &err), 0);
    assert_int_equal(fake_stop(&f), 3);
    tn_observation_done(&o);
    header_of(f.requests[0], "Idempotency-Key", first, sizeof first);
    for (size_t i = 1; i < 3; i++) {
        header_of(f.requests[i], "Idempotency-Key", other, sizeof other);
        assert_string_equal(first, other);
    }
}

static void hand_that_always_hangs_up_is_given_up(void **state)
{
    static const struct turn turns[8] = {{HANG_UP, 0, NULL}, {HANG_UP, 0, NULL}, {HANG_UP, 0, NULL},
                                         {HANG_UP, 0, NULL}, {HANG_UP, 0, NULL}, {HANG_UP, 0, NULL},
                                         {HANG_UP, 0, NULL}, {HANG_UP, 0, NULL}};
    struct fake f;
    struct tn_observation o;
    struct tn_error err = {0};

    fake_start(&f, turns, TN_COUNT(turns));
    assert_int_equal(execute(&f, NULL, 10, &o, &err), -1);
    assert_in_range(fake_stop(&f), 2, 6);
    assert_int_equal(err.code, TN_E_PEER);
    assert_non_null(strstr(err.text, "action run"));
}

static void refusal_carries_status_and_detail(void **state)
{
    static const struct turn turns[] = {{ANSWER, 403, "{\"detail\":\"Invalid API Key\"}"}};
    struct fake f;
    struct tn_observation o;
    struct tn_error err = {0};

    fake_start(&f, turns, TN_COUNT(turns));
    assert_int_equal(execute(&f, NULL, 10, &o, &err), -1);
    assert_int_equal(fake_stop(&f), 1);
    assert_int_equal(err.code, TN_E_DENIED);
    assert_string_equal(err.text, "action run: the hand answered 403: Invalid API Key");
}

static void answer_that_is_no_observation(void **state)
{
    static const char *const bodies[] = {"",
                                         "hello",
                                         "[]",
                                         "null",
                                         "{}",
                                         "{\"observation\":3}",
                                         "{\"observation\":\"no such thing\"}"};

    for (size_t i = 0; i < TN_COUNT(bodies); i++) {
        struct turn turns[] = {{ANSWER, 200, bodies[i]}};
        struct fake f;
        struct tn_observation o;
        struct tn_error err = {0};

        fake_start(&f, turns, TN_COUNT(turns));
        assert_int_equal(execute(&f, NULL, 10, &o, &err), -1);
        assert_int_equal(fake_stop(&f), 1);
        assert_non_null(strstr(err.text, "the answer of the hand"));
    }
}

static void nobody_there_fails_at_once(void **state)
{
    struct fake f;
    struct tn_observation o;
    struct tn_error err = {0};
    int64_t start = tn_now();

    fake_start(&f, NULL, 0);
    fake_stop(&f);
    assert_int_equal(execute(&f, NULL, 60, &o, &err), -1);
    assert_true(tn_now() - start < 30 * TN_SECOND);
}

static void action_without_timeout_is_refused(void **state)
{
    struct fake f;
    struct tn_observation o;
    struct tn_error err = {0};

    fake_start(&f, NULL, 0);
    assert_int_equal(execute(&f, NULL, 0, &o, &err), -1);
    fake_stop(&f);
    assert_int_equal(err.code, TN_E_INVALID);
}

/* --- readiness -------------------------------------------------------------------------------- */

static int wait_alive(struct fake *f, int watch, double seconds, struct tn_error *err)
{
    struct tn_hand_client *h = tn_hand_client_new(f->address, NULL, err);
    int status;

    assert_non_null(h);
    status = tn_hand_client_wait(h, watch, tn_deadline_in(seconds), err);
    tn_hand_client_free(h);
    return status;
}

static void waits_while_the_hand_says_not_yet(void **state)
{
    static const struct turn turns[] = {
        {ANSWER, 503, "{}"}, {ANSWER, 503, "{}"}, {ANSWER, 200, "{}"}};
    struct fake f;
    struct tn_error err = {0};

    fake_start(&f, turns, TN_COUNT(turns));
    assert_int_equal(wait_alive(&f, -1, 30, &err), 0);
    assert_int_equal(fake_stop(&f), 3);
}

static void connections_that_break_say_nothing_about_the_hand(void **state)
{
    static const struct turn turns[] = {
        {HANG_UP, 0, ""}, {HALF_AN_ANSWER, 200, "{}"}, {ANSWER, 200, "{}"}};
    struct fake f;
    struct tn_error err = {0};

    fake_start(&f, turns, TN_COUNT(turns));
    assert_int_equal(wait_alive(&f, -1, 30, &err), 0);
    assert_int_equal(fake_stop(&f), 3);
}

static void what_always_hangs_up_is_not_waited_for(void **state)
{
    static const struct turn turns[] = {{HANG_UP, 0, ""}, {HANG_UP, 0, ""}, {HANG_UP, 0, ""}};
    struct fake f;
    struct tn_error err = {0};

    fake_start(&f, turns, TN_COUNT(turns));
    assert_int_equal(wait_alive(&f, -1, 30, &err), -1);
    assert_int_equal(fake_stop(&f), 3);
    assert_int_equal(err.code, TN_E_PEER);
}

static void something_else_is_not_waited_for(void **state)
{
    static const struct turn turns[] = {{ANSWER, 404, "{}"}};
    struct fake f;
    struct tn_error err = {0};

    fake_start(&f, turns, TN_COUNT(turns));
    assert_int_equal(wait_alive(&f, -1, 30, &err), -1);
    assert_int_equal(fake_stop(&f), 1);
    assert_non_null(strstr(err.text, "is this a hand?"));
}

static void nobody_there_is_waited_for_until_the_deadline(void **state)
{
    struct fake f;
    struct tn_error err = {0};
    int64_t start = tn_now();

    fake_start(&f, NULL, 0);
    fake_stop(&f);
    assert_int_equal(wait_alive(&f, -1, 0.2, &err), -1);
    assert_true(tn_now() - start >= TN_SECOND / 5);
    assert_non_null(strstr(err.text, "did not become ready"));
}

static void waiting_ends_with_the_watched_descriptor(void **state)
{
    struct fake f;
    struct tn_error err = {0};
    tn_autofd int ended = eventfd(1, EFD_CLOEXEC);
    int64_t start = tn_now();

    fake_start(&f, NULL, 0);
    fake_stop(&f);
    assert_int_equal(wait_alive(&f, ended, 60, &err), -1);
    assert_true(tn_now() - start < 30 * TN_SECOND);
    assert_non_null(strstr(err.text, "it has ended"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(observation_is_decoded),
        cmocka_unit_test(broken_connection_is_tried_again_with_the_same_key),
        cmocka_unit_test(hand_that_always_hangs_up_is_given_up),
        cmocka_unit_test(refusal_carries_status_and_detail),
        cmocka_unit_test(answer_that_is_no_observation),
        cmocka_unit_test(nobody_there_fails_at_once),
        cmocka_unit_test(action_without_timeout_is_refused),
        cmocka_unit_test(waits_while_the_hand_says_not_yet),
        cmocka_unit_test(connections_that_break_say_nothing_about_the_hand),
        cmocka_unit_test(what_always_hangs_up_is_not_waited_for),
        cmocka_unit_test(something_else_is_not_waited_for),
        cmocka_unit_test(nobody_there_is_waited_for_until_the_deadline),
        cmocka_unit_test(waiting_ends_with_the_watched_descriptor),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
