#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "jail/plan.h"

#define GOOD \
    "\"id\":\"abc123\",\"directory\":\"/d\",\"lowers\":[\"/l\"],\"storage\":\"/s\",\"hand\":\"/h\""

static int read_plan(struct tn_jail_plan *plan, const char *text, struct tn_error *err)
{
    tn_autojson struct tn_json *json = NULL;

    tn_jail_plan_init(plan);
    assert_int_equal(tn_json_parse(text, strlen(text), &json, err), 0);
    return tn_jail_plan_from_json(json, plan, err);
}

static void test_defaults(void **state)
{
    tn_autoplan struct tn_jail_plan plan;
    struct tn_error err;

    assert_int_equal(read_plan(&plan, "{" GOOD "}", &err), 0);
    assert_int_equal(plan.mapping, TN_JAIL_MAP_AUTO);
    assert_int_equal(plan.network, TN_JAIL_NET_NONE);
    assert_int_equal(plan.memory, 0);
    assert_int_equal(plan.owner_pid, 0);
    assert_null(plan.seed);
}

/* Everything set is read back as it was written. */
static void test_round_trip(void **state)
{
    static const char rest[] =
        ",\"etc_hidden\":[\"shadow\"],\"hostname\":\"box\",\"workspace\":\"/w\","
        "\"mapping\":\"identity\",\"network\":\"host\",\"uid\":1000,\"gid\":1001,"
        "\"memory\":67108864,\"file_size\":5,\"pids\":20,\"open_files\":30,\"cpus\":1.5,"
        "\"wall_time\":60.25,\"argv\":[\"hand\",\"--x\"],\"env\":[\"A=b c\"],\"fds\":[7,9],"
        "\"log\":\"/d/log\",\"owner_pid\":12,\"owner_start\":12345678901,\"devices\":[\"/dev/fuse\"],"
        "\"mounts\":[{\"source\":\"/a\",\"target\":\"/b\",\"read_only\":true},"
        "{\"source\":\"/c\",\"target\":\"/e\",\"overlay\":true}]}";
    tn_autoplan struct tn_jail_plan plan, again;
    tn_autobuf struct tn_buf text = TN_BUF_INIT(1 << 16), second = TN_BUF_INIT(1 << 16);
    tn_autofree char *input = tn_asprintf("{" GOOD "%s", rest);
    struct tn_error err;

    if (read_plan(&plan, input, &err) < 0)
        fail_msg("%s", err.text);
    struct tn_jw w = tn_jw(&text);
    tn_jail_plan_to_json(&plan, &w);
    if (read_plan(&again, tn_buf_str(&text), &err) < 0)
        fail_msg("%s", err.text);
    w = tn_jw(&second);
    tn_jail_plan_to_json(&again, &w);
    assert_string_equal(tn_buf_str(&text), tn_buf_str(&second));
    assert_int_equal(again.mount_count, 2);
    assert_true(again.mounts[0].read_only && !again.mounts[0].overlay);
    assert_string_equal(again.mounts[1].target, "/e");
    assert_int_equal(again.owner_start, 12345678901);
    assert_int_equal(again.fds.items[1], 9);
    assert_string_equal(again.env.items[0], "A=b c");
    assert_true(again.wall_time == 60.25);
}

static void test_nonsense(void **state)
{
    static const struct {
        const char *plan, *message;
    } cases[] = {
        {"{}", "id"},
        {"{\"id\":\"Abc\",\"directory\":\"/d\",\"lowers\":[\"/l\"],\"storage\":\"/s\",\"hand\":\"/h\"}",
         "id: expected"},
        {"{" GOOD ",\"nonsense\":1}", "unknown key nonsense"},
        {"{" GOOD ",\"hostname\":\"a b\"}", "hostname"},
        {"{" GOOD ",\"hostname\":\"\"}", "hostname"},
        {"{" GOOD ",\"workspace\":\"/a/../b\"}", "workspace: expected a path without .."},
        {"{" GOOD ",\"log\":\"log\"}", "log: expected an absolute path"},
        {"{" GOOD ",\"tmpfs_bytes\":5}", "either storage or tmpfs_bytes"},
        {"{" GOOD ",\"seed\":\"/x\"}", "seed"},
        {"{" GOOD ",\"memory\":-1}", "memory"},
        {"{" GOOD ",\"uid\":65536}", "uid"},
        {"{" GOOD ",\"mapping\":\"other\"}", "mapping"},
        {"{" GOOD ",\"fds\":[1]}", "fds"},
        {"{" GOOD ",\"devices\":[\"/etc/passwd\"]}", "devices"},
        {"{" GOOD ",\"etc_hidden\":[\"/shadow\"]}", "etc_hidden"},
        {"{" GOOD ",\"etc_hidden\":[\"a/../b\"]}", "etc_hidden"},
        {"{" GOOD ",\"env\":[\"=x\"]}", "env: item 1"},
        {"{" GOOD ",\"mounts\":{}}", "mounts: expected a list"},
        {"{" GOOD ",\"mounts\":[{\"source\":\"/a\"}]}", "mounts: item 1"},
        {"{" GOOD ",\"mounts\":[{\"source\":\"a\",\"target\":\"/b\"}]}", "mounts: source"},
        {"{" GOOD ",\"mounts\":[{\"source\":\"/a\",\"target\":\"/b\",\"x\":1}]}", "unknown key x"},
    };

    for (size_t i = 0; i < TN_COUNT(cases); i++) {
        tn_autoplan struct tn_jail_plan plan;
        struct tn_error err = {0};
        if (read_plan(&plan, cases[i].plan, &err) == 0)
            fail_msg("%s: accepted", cases[i].plan);
        if (!strstr(err.text, cases[i].message))
            fail_msg("%s: %s", cases[i].plan, err.text);
    }
}

static void test_end(void **state)
{
    char directory[] = "/tmp/tendon-test-XXXXXX";
    struct tn_jail_end end = {.signal = {.set = true, .value = 9}, .oom_kills = 3, .at = 1.5};
    struct tn_jail_end read;
    struct tn_error err;

    assert_non_null(mkdtemp(directory));
    tn_autofd int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(tn_jail_end_read(directory, &read, &err), -1);
    assert_int_equal(err.code, TN_E_NOT_FOUND);
    assert_int_equal(tn_jail_end_write(fd, &end, &err), 0);
    assert_int_equal(tn_jail_end_read(directory, &read, &err), 0);
    assert_true(!read.status.set && read.signal.set && read.signal.value == 9);
    assert_int_equal(read.oom_kills, 3);
    assert_true(read.at == 1.5);
    assert_int_equal(unlinkat(fd, "end.json", 0), 0);
    assert_int_equal(rmdir(directory), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_nonsense),
        cmocka_unit_test(test_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
