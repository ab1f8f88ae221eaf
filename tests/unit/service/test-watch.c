/* Being told of changes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "service/watch.h"

#define SOON tn_deadline_in(30)

/* What a watcher was told, in one line. */
struct heard {
    char text[256];
};

static void hear(const char *box, void *ctx)
{
    struct heard *h = ctx;
    size_t n = strlen(h->text);

    snprintf(h->text + n, sizeof h->text - n, "%s%s", n ? " " : "", box ? box : "everything");
}

static void each_box_is_told_once_and_in_order(void **state)
{
    struct watchers *w = watchers_new();
    uint64_t from = watchers_now(w);
    struct heard h = {0};

    watchers_tell(w, "a", "one");
    watchers_tell(w, "a", "two");
    watchers_tell(w, "b", "three");
    watchers_tell(w, "a", "one");
    uint64_t next = watchers_wait(w, NULL, from, -1, SOON, hear, &h);
    assert_string_equal(h.text, "one two three");
    assert_int_equal(next, from + 4);
    assert_int_equal(next, watchers_now(w));
    assert_int_equal(watchers_wait(w, NULL, next, -1, 0, hear, &h), 0);
    watchers_free(w);
}

static void a_tenant_hears_of_its_own(void **state)
{
    struct watchers *w = watchers_new();
    uint64_t from = watchers_now(w);
    struct heard h = {0};

    watchers_tell(w, "b", "theirs");
    assert_int_equal(watchers_wait(w, "a", from, -1, 0, hear, &h), 0);
    watchers_tell(w, "a", "ours");
    assert_int_equal(watchers_wait(w, "a", from, -1, SOON, hear, &h), from + 2);
    assert_string_equal(h.text, "ours");
    watchers_free(w);
}

static void whoever_is_too_far_behind_hears_of_everything(void **state)
{
    struct watchers *w = watchers_new();
    uint64_t from = watchers_now(w);
    struct heard h = {0};

    for (int i = 0; i < 5000; i++)
        watchers_tell(w, "a", "box");
    assert_int_equal(watchers_wait(w, "a", from, -1, SOON, hear, &h), from + 5000);
    assert_string_equal(h.text, "everything");
    /* Numbers of another service, older or (after the clock was set back) newer. */
    memset(&h, 0, sizeof h);
    watchers_wait(w, "a", 17, -1, SOON, hear, &h);
    watchers_wait(w, "a", from + 6000, -1, SOON, hear, &h);
    assert_string_equal(h.text, "everything everything");
    watchers_free(w);
}

static void a_descriptor_ends_the_wait(void **state)
{
    struct watchers *w = watchers_new();
    tn_autofd int quit = eventfd(1, EFD_CLOEXEC);
    struct heard h = {0};

    assert_int_equal(watchers_wait(w, "a", watchers_now(w), quit, SOON, hear, &h), 0);
    assert_string_equal(h.text, "");
    watchers_free(w);
}

struct waiter {
    struct watchers *w;
    uint64_t from, until; /* until: this many changes were heard of */
    pthread_t thread;
};

static void *wait_for_all(void *arg)
{
    struct waiter *me = arg;
    uint64_t at = me->from;

    while (at && at < me->until) {
        struct heard h = {0};
        at = watchers_wait(me->w, NULL, at, -1, SOON, hear, &h);
    }
    me->from = at;
    return NULL;
}

static void nobody_misses_the_last_one(void **state)
{
    struct watchers *w = watchers_new();
    struct waiter all[4];
    uint64_t from = watchers_now(w);

    for (size_t i = 0; i < TN_COUNT(all); i++) {
        all[i] = (struct waiter){.w = w, .from = from, .until = from + 2000};
        pthread_create(&all[i].thread, NULL, wait_for_all, &all[i]);
    }
    for (int i = 0; i < 2000; i++)
        watchers_tell(w, i % 2 ? "a" : "b", "box");
    for (size_t i = 0; i < TN_COUNT(all); i++) {
        pthread_join(all[i].thread, NULL);
        assert_int_equal(all[i].from, from + 2000);
    }
    watchers_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_box_is_told_once_and_in_order),
        cmocka_unit_test(a_tenant_hears_of_its_own),
        cmocka_unit_test(whoever_is_too_far_behind_hears_of_everything),
        cmocka_unit_test(a_descriptor_ends_the_wait),
        cmocka_unit_test(nobody_misses_the_last_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
