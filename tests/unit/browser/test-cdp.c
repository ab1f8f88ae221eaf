/* Commands to a browser that does not take them: whoever posted one is told, once. */
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include "base/clock.h"
#include "hand/browser/cdp.h"
#include "hand/helper.h"
#include "unit.h"

static const struct tn_cdp_event no_events[] = {{0}};

static void ended(void *ctx)
{
}

struct told {
    int times;
    int code;
};

static void note(void *ctx, const struct tn_json *result, const struct tn_error *err)
{
    struct told *told = ctx;
    told->times++;
    told->code = err ? (int)err->code : -1;
}

/* More than a pipe holds: the writer stays in it. */
static void *write_much(void *arg)
{
    enum { MUCH = 1 << 20 };
    tn_autofree char *params = tn_malloc(MUCH + 3);
    memset(params, 'x', MUCH + 2);
    params[0] = params[MUCH + 1] = '"';
    params[MUCH + 2] = '\0';
    tn_cdp_call(arg, NULL, "Much", params, tn_deadline_in(30), NULL, NULL);
    return NULL;
}

static void wait_until_full(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    int64_t deadline = tn_deadline_in(20);
    while (poll(&p, 1, 0) > 0 && tn_now() < deadline)
        sched_yield();
    assert_int_equal(poll(&p, 1, 0), 0);
}

static struct tn_helper *start_sleeper(struct tn_hand *hand)
{
    static const char *const argv[] = {"sleep", "60", NULL};
    static const char *const env[] = {"PATH=/usr/bin:/bin", NULL};
    const struct tn_helper_spec spec = {.name = "a browser", .argv = argv, .env = env, .out = 1};
    hand->options.working_dir = (char *)"/";
    struct tn_error err = {0};
    struct tn_helper *helper = tn_helper_start(hand, &spec, &err);
    if (!helper)
        fail_msg("%s", err.text);
    return helper;
}

static void test_who_does_not_get_the_pipe_is_told(void **state)
{
    struct tn_hand hand = {0};
    struct tn_helper *helper = start_sleeper(&hand);
    struct tn_cdp *c = tn_cdp_new(helper, no_events, ended, NULL, NULL);
    struct told told = {0}, later = {0};
    pthread_t writer;

    assert_non_null(c);
    assert_int_equal(pthread_create(&writer, NULL, write_much, c), 0);
    wait_until_full(tn_helper_to(helper));
    tn_cdp_hurry(c, true);
    tn_cdp_post(c, NULL, "Nothing", NULL, note, &told);
    assert_int_equal(told.times, 1);
    assert_int_equal(told.code, TN_E_TIMEOUT);

    tn_helper_end(helper, 0);
    pthread_join(writer, NULL);
    tn_cdp_post(c, NULL, "Nothing", NULL, note, &later);
    assert_int_equal(later.times, 1);
    tn_cdp_free(c);
    tn_helper_free(helper);
    assert_int_equal(told.times, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_does_not_get_the_pipe_is_told),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
