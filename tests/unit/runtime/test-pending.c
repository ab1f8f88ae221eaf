/* Actions that wait for their confirmation: kept, found, claimed once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fs.h"
#include "runtime/pending.h"

static char directory[] = "/tmp/tendon-pending-XXXXXX";

static int set_up(void **state)
{
    return mkdtemp(directory) ? 0 : -1;
}

static int tear_down(void **state)
{
    tn_autofd int tmp = open("/tmp", O_DIRECTORY | O_CLOEXEC);

    return tn_fs_remove_tree(tmp, strrchr(directory, '/') + 1, 0, NULL);
}

static int save(int64_t id, const char *key, const char *body, double until, struct tn_error *err)
{
    const struct tn_pending p = {.id = id,
                                 .asked = 1,
                                 .until = until,
                                 .key = (char *)(uintptr_t)key,
                                 .keyed = true,
                                 .rights = 5,
                                 .body = (char *)(uintptr_t)body,
                                 .len = strlen(body)};

    return tn_pending_save(directory, &p, err);
}

#define BODY "{\"action\": {\"action\": \"run\", \"args\": {\"command\": \"echo \\n1\"}}}\n"

static void test_it_is_kept_as_it_was(void **state)
{
    struct tn_pending p;

    assert_int_equal(save(7, "k7", BODY, 2e9, NULL), 0);
    assert_int_equal(tn_pending_load(directory, 7, &p, NULL), 0);
    assert_string_equal(p.body, BODY);
    assert_int_equal(p.len, strlen(BODY));
    assert_string_equal(p.key, "k7");
    assert_true(p.keyed && p.rights == 5 && p.asked == 1 && p.until == 2e9);
    assert_string_equal(p.action.run.command, "echo \n1");
    tn_pending_done(&p);
    tn_autofree char *path = tn_asprintf("%s/pending/7.json", directory);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
}

static void test_it_is_claimed_once(void **state)
{
    struct tn_error err = {0};
    struct tn_pending p;

    assert_int_equal(save(8, "k8", BODY, 2e9, NULL), 0);
    assert_int_equal(tn_pending_find(directory, "k8", &p), 0);
    assert_int_equal(p.id, 8);
    tn_pending_done(&p);
    assert_int_equal(tn_pending_find(directory, "none", &p), -1);
    assert_true(tn_pending_claim(directory, 8));
    assert_false(tn_pending_claim(directory, 8));
    assert_int_equal(tn_pending_load(directory, 8, &p, &err), -1);
    assert_int_equal(err.code, TN_E_NOT_FOUND);
    assert_int_equal(tn_pending_take(directory, 8, NULL, NULL, &p, &err), -1);
    assert_int_equal(err.code, TN_E_NOT_FOUND); /* no journal tells of it */
}

static int refuse_first(const struct tn_pending *p, void *ctx, struct tn_error *err)
{
    int *times = ctx;

    assert_string_equal(p->key, "k17");
    return (*times)++ ? 0 : tn_fail(err, TN_E_DENIED, "not this one");
}

/* Nothing is claimed that was not checked, and what is refused still waits. */
static void test_what_is_claimed_was_checked(void **state)
{
    struct tn_error err = {0};
    struct tn_pending p;
    int times = 0;

    assert_int_equal(tn_pending_take(directory, 17, refuse_first, &times, &p, &err), -1);
    assert_int_equal(err.code, TN_E_NOT_FOUND);
    assert_int_equal(times, 0);
    assert_int_equal(save(17, "k17", BODY, 2e9, NULL), 0);
    assert_int_equal(tn_pending_take(directory, 17, refuse_first, &times, &p, &err), -1);
    assert_int_equal(err.code, TN_E_DENIED);
    assert_int_equal(tn_pending_take(directory, 17, refuse_first, &times, &p, &err), 0);
    assert_int_equal(times, 2);
    tn_pending_done(&p);
}

static int count(struct tn_pending *p, void *ctx)
{
    int64_t *last = ctx;

    assert_true(p->id > *last);
    *last = p->id;
    return 0;
}

static void put(const char *name, const char *text)
{
    tn_autofree char *path = tn_asprintf("%s/pending/%s", directory, name);
    tn_autofd int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
}

static void test_it_is_found_while_it_is_answered(void **state)
{
    tn_autofree char *path = tn_asprintf("%s/pending/9.taken", directory);
    struct tn_error err = {0};
    struct tn_pending p, same;

    assert_int_equal(save(9, "k9", BODY, 2e9, NULL), 0);
    assert_int_equal(tn_pending_take(directory, 9, NULL, NULL, &p, &err), 0);
    assert_int_equal(tn_pending_load(directory, 9, &same, &err), -1);
    assert_false(tn_pending_claim(directory, 9));
    assert_int_equal(tn_pending_find(directory, "k9", &same), 0);
    assert_true(same.taken);
    tn_pending_done(&same);
    assert_int_equal(access(path, F_OK), 0);
    tn_pending_done(&p);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(tn_pending_find(directory, "k9", &same), -1);
    put("9.taken", "{\"id\": 9}\n"); /* of a process that was killed */
    assert_int_equal(tn_pending_find(directory, "k9", &same), -1);
    assert_int_equal(access(path, F_OK), -1);
    int64_t last = -1;
    put("9.taken", "{\"id\": 9}\n");
    assert_int_equal(tn_pending_each(directory, count, &last), 0);
    assert_int_equal(access(path, F_OK), -1);
}

static void test_what_is_damaged_is_left_out(void **state)
{
    static const char *const bad[] = {"",
                                      "{}",
                                      "{}\n",
                                      "{\"id\":9}\n" BODY,
                                      "null\n" BODY,
                                      "{\"id\":1,\"asked\":1,\"until\":2,\"key\":\"x\"}\n" BODY,
                                      "{\"id\":9,\"asked\":1,\"until\":2,\"key\":\"x\"}\nno body"};
    struct tn_error err = {0};
    struct tn_pending p;
    int64_t last = -1;

    assert_int_equal(save(30, "k30", BODY, 2e9, NULL), 0);
    assert_int_equal(save(4, "k4", BODY, 2e9, NULL), 0);
    for (size_t i = 0; i < TN_COUNT(bad); i++) {
        put("9.json", bad[i]);
        assert_int_equal(tn_pending_load(directory, 9, &p, &err), -1);
    }
    put("09.json", BODY);
    put("x.json", BODY);
    put("-1.json", BODY);
    assert_int_equal(tn_pending_each(directory, count, &last), 0);
    assert_int_equal(last, 30);
}

static void test_its_time_passes(void **state)
{
    struct tn_pending p = {.until = (double)time(NULL) + 100};

    assert_false(tn_pending_is_late(&p));
    p.until -= 200;
    assert_true(tn_pending_is_late(&p));
    assert_true(tn_pending_deadline(&p) > 0);
}

static void test_there_are_only_so_many(void **state)
{
    struct tn_error err = {0};
    int64_t id = 100;

    while (save(id, "k", BODY, 2e9, &err) == 0)
        assert_true(++id < 200);
    assert_int_equal(err.code, TN_E_QUOTA);
}

static void test_the_lines_of_an_edit(void **state)
{
    tn_autobuf struct tn_buf diff = TN_BUF_INIT(1 << 10);
    tn_autoaction struct tn_action a;

    tn_action_init(&a, TN_ACTION_EDIT);
    a.edit.old_str = (struct tn_text){.data = tn_strdup("a\nb"), .len = 3};
    a.edit.new_str = (struct tn_text){.data = tn_strdup("c\n"), .len = 2};
    tn_pending_put_diff(&a, &diff);
    assert_string_equal(tn_buf_str(&diff), "-a\n-b\n+c\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_is_kept_as_it_was),
        cmocka_unit_test(test_it_is_claimed_once),
        cmocka_unit_test(test_what_is_claimed_was_checked),
        cmocka_unit_test(test_it_is_found_while_it_is_answered),
        cmocka_unit_test(test_what_is_damaged_is_left_out),
        cmocka_unit_test(test_its_time_passes),
        cmocka_unit_test(test_there_are_only_so_many),
        cmocka_unit_test(test_the_lines_of_an_edit),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
