/* Control groups, on directories that look like theirs: what the kernel does with the files is for
 * the tests of the launcher to see. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/fs.h"
#include "jail/cgroup.h"

static char *top;

static char *in_top(const char *path)
{
    return tn_asprintf("%s/%s", top, path);
}

static void make_directory(const char *path)
{
    tn_autofree char *copy = tn_asprintf("%s/", path);

    for (char *slash = strchr(copy, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        tn_autofree char *full = in_top(copy);
        mkdir(full, 0755);
        *slash = '/';
    }
}

static void make_file(const char *path, const char *text)
{
    const char *slash = strrchr(path, '/');
    tn_autofree char *folder = tn_strndup(path, (size_t)(slash - path));
    tn_autofree char *full = in_top(path);

    make_directory(folder);
    tn_autofd int fd = open(full, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

static void assert_file(const char *path, const char *text)
{
    tn_autobuf struct tn_buf found = TN_BUF_INIT(4096);
    tn_autofree char *full = in_top(path);

    assert_int_equal(tn_fs_read(TN_FS_ANYWHERE, full, &found, NULL), 0);
    assert_string_equal(tn_buf_str(&found), text);
}

static void parse(struct tn_cgroups *c, const char *mountinfo, const char *own)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(1 << 16);

    for (const char *at = mountinfo; *at; at++) {
        if (*at == '@')
            tn_buf_puts(&text, top);
        else
            tn_buf_putc(&text, *at);
    }
    assert_int_equal(tn_cgroups_parse(c, tn_buf_str(&text), own, NULL), 0);
}

static int set_up(void **state)
{
    char name[] = "/tmp/tendon-test-XXXXXX";

    top = tn_strdup(mkdtemp(name));
    return 0;
}

static int tear_down(void **state)
{
    tn_autofd int tmp = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    tn_fs_remove_tree(tmp, top + strlen("/tmp/"), 0, NULL);
    free(top);
    return 0;
}

/* --- finding ------------------------------------------------------------------------------- */

static void test_unified_only(void **state)
{
    tn_autocgroups struct tn_cgroups c;

    make_file("cg/cgroup.procs", "");
    make_file("cg/cgroup.controllers", "cpuset cpu io memory pids\n");
    parse(&c, "30 23 0:26 / @/cg rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n", "0::/\n");
    tn_autofree char *expected = in_top("cg");
    assert_string_equal(c.base[TN_CGROUP_UNIFIED], expected);
    assert_null(c.base[TN_CGROUP_MEMORY]);
    assert_true(tn_cgroups_can_limit(&c, TN_CGROUP_MEMORY));
    assert_true(tn_cgroups_can_limit(&c, TN_CGROUP_PIDS));
    assert_true(tn_cgroups_can_limit(&c, TN_CGROUP_CPU));
    assert_null(c.why);
}

/* "cpuset" is not "cpu"; two controllers may share a mount; spaces are written \040. */
static void test_hybrid(void **state)
{
    tn_autocgroups struct tn_cgroups c;

    make_file("a b/cgroup.procs", "");
    make_file("mem/cgroup.procs", "");
    make_file("set/cgroup.procs", "");
    make_file("uni/cgroup.procs", "");
    make_file("uni/cgroup.controllers", "hugetlb\n");
    parse(&c,
          "1 1 0:1 / / rw - ext4 /dev/vda rw\n"
          "2 1 0:2 / @/set rw - cgroup cgroup rw,cpuset\n"
          "3 1 0:3 / @/a\\040b rw - cgroup cgroup rw,cpu,cpuacct\n"
          "4 1 0:4 / @/mem rw shared:1 master:2 - cgroup cgroup rw,memory\n"
          "5 1 0:5 / @/none rw - cgroup cgroup rw,pids\n"
          "6 1 0:6 / @/uni rw - cgroup2 cgroup2 rw\n",
          "4:memory:/some/where\n3:cpu,cpuacct:/\n0::/\n");
    tn_autofree char *cpu = in_top("a b"), *memory = in_top("mem"), *unified = in_top("uni");
    assert_string_equal(c.base[TN_CGROUP_CPU], cpu);
    assert_string_equal(c.base[TN_CGROUP_MEMORY], memory);
    assert_string_equal(c.base[TN_CGROUP_UNIFIED], unified);
    assert_null(c.base[TN_CGROUP_PIDS]); /* its mount point does not exist */
    assert_false(tn_cgroups_can_limit(&c, TN_CGROUP_PIDS));
    assert_false(c.controls[TN_CGROUP_MEMORY]);
}

/* What is not ours is passed over on the way down to what is delegated. */
static void test_delegated(void **state)
{
    tn_autocgroups struct tn_cgroups c;

    make_directory("cg/user.slice"); /* nothing to write to */
    make_file("cg/user.slice/mine/cgroup.procs", "");
    make_file("cg/user.slice/mine/cgroup.controllers", "memory\n");
    make_file("cg/user.slice/mine/app/cgroup.procs", "");
    parse(&c, "30 23 0:26 / @/cg rw - cgroup2 cgroup2 rw\n", "0::/user.slice/mine/app\n");
    tn_autofree char *expected = in_top("cg/user.slice/mine");
    assert_string_equal(c.base[TN_CGROUP_UNIFIED], expected);
    assert_true(c.controls[TN_CGROUP_MEMORY]);
    assert_false(c.controls[TN_CGROUP_PIDS]);
}

static void test_nothing(void **state)
{
    tn_autocgroups struct tn_cgroups c, d, e;

    parse(&c, "1 1 0:1 / / rw - ext4 /dev/vda rw\n", "0::/\n");
    assert_non_null(strstr(c.why, "mounted"));
    parse(&d, "30 23 0:26 / @/cg rw - cgroup2 cgroup2 rw\n", "0::/user.slice\n");
    assert_non_null(strstr(d.why, "delegated"));
    parse(&e, "cgroup\n - cgroup\n1 2 cgroup - cgroup2\n - \n1 2 3 4 5 6 - cgroup2", "::\n:\n");
    assert_non_null(e.why);
}

/* --- limits -------------------------------------------------------------------------------- */

static void one_unified(struct tn_cgroups *c)
{
    make_file("cg/cgroup.procs", "");
    make_file("cg/cgroup.controllers", "cpu memory pids\n");
    make_file("cg/cgroup.subtree_control", "");
    make_file("cg/tendon/box/memory.max", "");
    make_file("cg/tendon/box/memory.swap.max", "");
    make_file("cg/tendon/box/pids.max", "");
    make_file("cg/tendon/box/cpu.max", "");
    parse(c, "30 23 0:26 / @/cg rw - cgroup2 cgroup2 rw\n", "0::/\n");
}

static void test_limits_v2(void **state)
{
    const struct tn_cgroup_limits limits = {.memory = 67108864, .pids = 20, .cpus = 0.25};
    tn_autocgroups struct tn_cgroups c;
    struct tn_error err;

    one_unified(&c);
    assert_int_equal(tn_cgroup_make(&c, "box", &limits, &err), 0);
    assert_file("cg/tendon/box/memory.max", "67108864");
    assert_file("cg/tendon/box/memory.swap.max", "0");
    assert_file("cg/tendon/box/pids.max", "20");
    assert_file("cg/tendon/box/cpu.max", "25000 100000");
}

static void test_limits_v1(void **state)
{
    const struct tn_cgroup_limits limits = {.memory = 4096, .pids = 7, .cpus = 0.000001};
    tn_autocgroups struct tn_cgroups c;
    struct tn_error err;

    make_file("m/cgroup.procs", "");
    make_file("p/cgroup.procs", "");
    make_file("c/cgroup.procs", "");
    make_file("m/tendon/box/memory.limit_in_bytes", "");
    make_file("p/tendon/box/pids.max", "");
    make_file("c/tendon/box/cpu.cfs_quota_us", "");
    parse(&c,
          "1 1 0:1 / @/m rw - cgroup x rw,memory\n2 1 0:2 / @/p rw - cgroup x rw,pids\n"
          "3 1 0:3 / @/c rw - cgroup x rw,cpu\n",
          "");
    assert_int_equal(tn_cgroup_make(&c, "box", &limits, &err), 0);
    assert_file("m/tendon/box/memory.limit_in_bytes", "4096");
    assert_file("p/tendon/box/pids.max", "7");
    assert_file("c/tendon/box/cpu.cfs_quota_us", "1000"); /* the least the kernel takes */
}

static void test_limit_that_cannot_be(void **state)
{
    const struct tn_cgroup_limits memory = {.memory = 4096}, pids = {.pids = 5};
    tn_autocgroups struct tn_cgroups c;
    struct tn_error err;

    make_file("cg/cgroup.procs", "");
    make_file("cg/cgroup.controllers", "memory\n");
    make_directory("cg/tendon");
    parse(&c, "30 23 0:26 / @/cg rw - cgroup2 cgroup2 rw\n", "0::/\n");
    /* The controller is there, but not handed down: the file does not exist. */
    assert_int_equal(tn_cgroup_make(&c, "box", &memory, &err), -1);
    assert_non_null(strstr(err.text, "limit on memory cannot be enforced"));
    assert_int_equal(tn_cgroup_make(&c, "box", &pids, &err), -1);
    assert_non_null(strstr(err.text, "limit on pids cannot be enforced"));
    assert_int_equal(err.code, TN_E_UNSUPPORTED);
    tn_autofree char *left = in_top("cg/tendon/box");
    assert_int_equal(access(left, F_OK), -1);
}

/* --- joining ------------------------------------------------------------------------------- */

/* The cpu group is there only with a limit; any other that is missing must not be passed over. */
static void test_join(void **state)
{
    tn_autocgroups struct tn_cgroups c;
    struct tn_error err;

    make_file("m/cgroup.procs", "");
    make_file("p/cgroup.procs", "");
    make_file("c/cgroup.procs", "");
    make_file("m/tendon/box/cgroup.procs", "");
    make_file("p/tendon/box/cgroup.procs", "");
    make_file("m/tendon/half/cgroup.procs", "");
    parse(&c,
          "1 1 0:1 / @/m rw - cgroup x rw,memory\n2 1 0:2 / @/p rw - cgroup x rw,pids\n"
          "3 1 0:3 / @/c rw - cgroup x rw,cpu\n",
          "");
    assert_int_equal(tn_cgroup_join(&c, "box", 42, false, &err), 0);
    assert_file("m/tendon/box/cgroup.procs", "42");
    assert_file("p/tendon/box/cgroup.procs", "42");
    assert_int_equal(tn_cgroup_join(&c, "half", 42, false, &err), -1);
    assert_int_equal(err.sys, ENOENT);
    assert_int_equal(tn_cgroup_join(&c, "other", 42, false, &err), -1);
    assert_int_equal(err.sys, ENOENT);
}

static void test_join_v2(void **state)
{
    tn_autocgroups struct tn_cgroups c;
    struct tn_error err;

    one_unified(&c);
    make_file("cg/tendon/box/cgroup.procs", "");
    assert_int_equal(tn_cgroup_join(&c, "box", 42, true, &err), 0);
    assert_file("cg/tendon/box/cgroup.procs", "42");
    assert_int_equal(tn_cgroup_join(&c, "other", 42, true, &err), -1);
    assert_int_equal(err.sys, ENOENT);
    assert_int_equal(tn_cgroup_join(&c, "other", 42, false, &err), 0); /* it is in there already */
    assert_false(tn_cgroup_holds("box", getpid()));
}

/* --- numbers ------------------------------------------------------------------------------- */

static void test_numbers(void **state)
{
    tn_autocgroups struct tn_cgroups c;
    struct tn_cgroup_usage usage;
    struct tn_cgroup_events events;

    one_unified(&c);
    make_file("cg/tendon/box/memory.current", "12345\n");
    make_file("cg/tendon/box/pids.current", "3\n");
    make_file("cg/tendon/box/cpu.stat", "user_usec 7\nusage_usec 1500000\n");
    make_file("cg/tendon/box/memory.events", "low 0\noom 5\noom_kill 2\noom_group_kill 0\n");
    make_file("cg/tendon/box/pids.events", "max 4\n");
    make_file("cg/tendon/box/cgroup.events", "populated 1\nfrozen 1\n");
    tn_cgroup_usage(&c, "box", &usage);
    assert_int_equal(usage.memory, 12345);
    assert_int_equal(usage.memory_peak, -1); /* an older kernel */
    assert_int_equal(usage.processes, 3);
    assert_true(usage.cpu_seconds == 1.5);
    tn_cgroup_events(&c, "box", &events);
    assert_int_equal(events.oom_kills, 2);
    assert_int_equal(events.pids_hits, 4);
    assert_true(tn_cgroup_is_frozen(&c, "box"));
    tn_cgroup_usage(&c, "other", &usage);
    assert_int_equal(usage.memory, -1);
    tn_cgroup_events(&c, "other", &events);
    assert_int_equal(events.oom_kills, 0);
    assert_false(tn_cgroup_is_frozen(&c, "other"));
}

static int collect(const char *id, void *ctx)
{
    tn_buf_printf(ctx, "%s ", id);
    return 0;
}

static void test_list(void **state)
{
    tn_autocgroups struct tn_cgroups c;
    tn_autobuf struct tn_buf found = TN_BUF_INIT(1000);

    make_file("m/cgroup.procs", "");
    make_file("p/cgroup.procs", "");
    make_directory("m/tendon/one");
    make_directory("p/tendon/one");
    make_directory("p/tendon/two");
    make_file("p/tendon/cgroup.procs", "");
    parse(&c, "1 1 0:1 / @/m rw - cgroup x rw,memory\n2 1 0:2 / @/p rw - cgroup x rw,pids\n", "");
    assert_int_equal(tn_cgroups_list(&c, collect, &found), 0);
    assert_string_equal(tn_buf_str(&found), "one two ");
    assert_int_equal(tn_cgroup_remove(&c, "one", 0, NULL), 0);
    assert_int_equal(tn_cgroup_remove(&c, "one", 0, NULL), 0); /* gone is gone */
    tn_buf_reset(&found);
    tn_cgroups_list(&c, collect, &found);
    assert_string_equal(tn_buf_str(&found), "two ");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_unified_only),
        TEST(test_hybrid),
        TEST(test_delegated),
        TEST(test_nothing),
        TEST(test_limits_v2),
        TEST(test_limits_v1),
        TEST(test_limit_that_cannot_be),
        TEST(test_join),
        TEST(test_join_v2),
        TEST(test_numbers),
        TEST(test_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
