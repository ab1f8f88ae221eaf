#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/account.h"

static char dir[] = "/tmp/tn-account-XXXXXX";
static int root = -1;

static void put(const char *path, const char *text)
{
    int fd = openat(root, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(tn_fs_write(fd, text, strlen(text), NULL), 0);
    close(fd);
}

static int make_root(void **state)
{
    if (!mkdtemp(dir))
        return -1;
    root = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    mkdirat(root, "etc", 0755);
    put("etc/passwd", "root:x:0:0:root:/root:/bin/bash\n"
                      "\n"
                      "# a comment\n"
                      "short:x:5\n"
                      "noid:x::5:::\n"
                      "letters:x:12a:5:::\n"
                      "negative:x:-1:5:::\n"
                      "huge:x:4294967295:5:::\n"
                      "larger:x:99999999999999999999:5:::\n"
                      ":x:6:6:::\n"
                      "+nis::::::\n"
                      "+:x:7:7:::\n"
                      "bare:x:8:9\n"
                      "largest:x:4294967294:4294967294::/l:/bin/l\n"
                      "ann:x:1000:1000:Ann, with: colon?:/home/ann\n"
                      "bob:x:1001:100:Bob,,,:/home/bob:/bin/zsh\n"
                      "bob:x:2002:200:Another:/home/other:/bin/false\n"
                      "twin:x:1001:300::/home/twin:/bin/sh\n"
                      "last:x:1002:1002::/home/last:/bin/dash");
    put("etc/group", "root:x:0:\n"
                     "garbage\n"
                     "users:x:100:ann,bob\n"
                     "wheel:x:10:bob\n"
                     "docker:x:999:bobby,xbob,ann,bob\n"
                     "odd:x:notanumber:bob\n"
                     "again:x:10:bob\n"
                     "empty:x:50\n"
                     "spaced:x:51:,bob,,\n");
    return 0;
}

static int drop_root(void **state)
{
    close(root);
    tn_autofd int tmp = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return tn_fs_remove_tree(tmp, strrchr(dir, '/') + 1, 0, NULL);
}

static void test_user_by_name(void **state)
{
    tn_autouser struct tn_user bob;
    assert_int_equal(tn_user_by_name(root, "bob", &bob, NULL), 0);
    assert_string_equal(bob.name, "bob");
    assert_int_equal(bob.uid, 1001);
    assert_int_equal(bob.gid, 100);
    assert_string_equal(bob.home, "/home/bob");
    assert_string_equal(bob.shell, "/bin/zsh");
}

static void test_user_without_newline_at_the_end(void **state)
{
    tn_autouser struct tn_user last;
    assert_int_equal(tn_user_by_name(root, "last", &last, NULL), 0);
    assert_string_equal(last.shell, "/bin/dash");
}

static void test_user_with_missing_fields(void **state)
{
    tn_autouser struct tn_user bare;
    assert_int_equal(tn_user_by_name(root, "bare", &bare, NULL), 0);
    assert_int_equal(bare.gid, 9);
    assert_string_equal(bare.home, "/");
    assert_string_equal(bare.shell, "/bin/sh");
}

static void test_user_by_uid(void **state)
{
    tn_autouser struct tn_user user;
    assert_int_equal(tn_user_by_uid(root, 1001, &user, NULL), 0);
    assert_string_equal(user.name, "bob"); /* the first of two */
    tn_user_done(&user);
    assert_int_equal(tn_user_by_uid(root, 4294967294u, &user, NULL), 0);
    assert_string_equal(user.name, "largest");
}

static void test_no_such_user(void **state)
{
    static const char *const names[] = {"nobody-here", "",         "short",       "noid",
                                        "letters",     "negative", "huge",        "larger",
                                        "+nis",        "+",        "# a comment", "bo"};
    for (size_t i = 0; i < TN_COUNT(names); i++) {
        struct tn_user user;
        struct tn_error err = {0};
        assert_int_equal(tn_user_by_name(root, names[i], &user, &err), -1);
        assert_int_equal(err.code, TN_E_NOT_FOUND);
        assert_null(user.name);
    }
    struct tn_user user;
    assert_int_equal(tn_user_by_uid(root, 6, &user, NULL), -1);
    assert_int_equal(tn_user_by_uid(root, 2002, &user, NULL),
                     0); /* by number the second one counts */
    tn_user_done(&user);
}

static void test_groups(void **state)
{
    gid_t gid;
    tn_autofree char *name = NULL;
    assert_int_equal(tn_group_by_name(root, "docker", &gid, NULL), 0);
    assert_int_equal(gid, 999);
    assert_int_equal(tn_group_by_name(root, "empty", &gid, NULL), 0);
    assert_int_equal(tn_group_by_name(root, "odd", &gid, NULL), -1);
    assert_int_equal(tn_group_by_name(root, "garbage", &gid, NULL), -1);
    assert_int_equal(tn_group_by_gid(root, 10, &name, NULL), 0);
    assert_string_equal(name, "wheel");
    char *none;
    assert_int_equal(tn_group_by_gid(root, 12345, &none, NULL), -1);
    assert_null(none);
}

static void test_groups_of_a_user(void **state)
{
    tn_autouser struct tn_user bob;
    tn_autofree gid_t *groups = NULL;
    size_t count;
    assert_int_equal(tn_user_by_name(root, "bob", &bob, NULL), 0);
    assert_int_equal(tn_user_groups(root, &bob, &groups, &count, NULL), 0);
    assert_int_equal(count, 4);
    static const gid_t expected[] = {100, 10, 999, 51};
    assert_memory_equal(groups, expected, sizeof expected);
}

static void test_this_system(void **state)
{
    tn_autouser struct tn_user user;
    assert_int_equal(tn_user_by_uid(TN_FS_ANYWHERE, 0, &user, NULL), 0);
    assert_string_equal(user.name, "root");
}

static void test_files_that_are_not_there(void **state)
{
    struct tn_error err;
    struct tn_user user;
    int empty = openat(root, "etc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(tn_user_by_name(empty, "bob", &user, &err), -1);
    assert_int_equal(err.code, TN_E_NOT_FOUND);
    close(empty);
}

static void test_nul_bytes_and_an_empty_file(void **state)
{
    struct tn_user user;
    put("etc/group", "");
    gid_t gid;
    assert_int_equal(tn_group_by_name(root, "root", &gid, NULL), -1);
    int fd = openat(root, "etc/passwd", O_WRONLY | O_TRUNC | O_CLOEXEC);
    assert_int_equal(tn_fs_write(fd, "a:x:1:1\0::\nb:x:2:2::/b:/b\n", 26, NULL), 0);
    close(fd);
    assert_int_equal(tn_user_by_name(root, "a", &user, NULL), -1);
    assert_int_equal(tn_user_by_name(root, "b", &user, NULL), 0);
    tn_user_done(&user);
}

/* --- acting as a user ---------------------------------------------------------------------- */

static void test_act_as(void **state)
{
    if (geteuid() != 0)
        skip();
    static const gid_t groups[] = {23456, 34567};
    struct tn_act_as as;
    struct stat st;
    tn_autofree char *mine = tn_asprintf("%s/mine", dir);
    tn_autofree char *theirs = tn_asprintf("%s/theirs", dir);
    close(open(mine, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    assert_int_equal(chmod(dir, 0777), 0);

    assert_int_equal(tn_act_as_begin(&as, 12345, 23456, groups, 2, NULL), 0);
    assert_true(as.active);
    int denied = open(mine, O_RDONLY | O_CLOEXEC);
    int denied_errno = errno;
    int made = open(theirs, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    int chowned = fchown(made, 0, 0);
    gid_t now[8];
    int now_count = getgroups(8, now);
    tn_act_as_end(&as);

    assert_int_equal(denied, -1);
    assert_int_equal(denied_errno, EACCES);
    assert_true(made >= 0);
    assert_int_equal(chowned, -1);
    assert_int_equal(fstat(made, &st), 0);
    assert_int_equal(st.st_uid, 12345);
    assert_int_equal(st.st_gid, 23456);
    assert_int_equal(now_count, 2);
    assert_memory_equal(now, groups, sizeof groups);
    close(made);

    /* and back */
    assert_false(as.active);
    int back = open(mine, O_RDONLY | O_CLOEXEC);
    assert_true(back >= 0);
    close(back);
    assert_int_equal(stat(theirs, &st), 0);
    assert_int_equal(chown(theirs, 0, 0), 0);
    assert_int_not_equal(getgroups(8, now), 2);
    tn_act_as_end(&as);
}

/* A new thread inherits what its maker acts as; one that runs already must not notice. */
static void *watch(void *ctx)
{
    pthread_barrier_t *both = ctx;
    pthread_barrier_wait(both); /* the main thread has begun */
    tn_autofree char *mine = tn_asprintf("%s/mine", dir);
    int fd = open(mine, O_RDONLY | O_CLOEXEC);
    tn_close(fd);
    pthread_barrier_wait(both);
    return fd >= 0 ? ctx : NULL;
}

static void test_act_as_is_for_one_thread(void **state)
{
    if (geteuid() != 0)
        skip();
    struct tn_act_as as;
    pthread_barrier_t both;
    pthread_t thread;
    void *could = NULL;
    pthread_barrier_init(&both, NULL, 2);
    assert_int_equal(pthread_create(&thread, NULL, watch, &both), 0);
    assert_int_equal(tn_act_as_begin(&as, 12345, 12345, NULL, 0, NULL), 0);
    pthread_barrier_wait(&both);
    pthread_barrier_wait(&both);
    tn_act_as_end(&as);
    pthread_join(thread, &could);
    assert_non_null(could);
    pthread_barrier_destroy(&both);
}

static void test_act_as_root_is_nothing(void **state)
{
    struct tn_act_as as;
    assert_int_equal(tn_act_as_begin(&as, 0, 0, NULL, 0, NULL), 0);
    assert_false(as.active);
    tn_act_as_end(&as);
    if (geteuid() != 0)
        return;
    /* neither is acting when one is not root */
    assert_int_equal(setresuid(12345, 12345, 0), 0);
    int result = tn_act_as_begin(&as, 54321, 54321, NULL, 0, NULL);
    bool active = as.active;
    assert_int_equal(setresuid(0, 0, 0), 0);
    assert_int_equal(result, 0);
    assert_false(active);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_user_by_name),
        cmocka_unit_test(test_user_without_newline_at_the_end),
        cmocka_unit_test(test_user_with_missing_fields),
        cmocka_unit_test(test_user_by_uid),
        cmocka_unit_test(test_no_such_user),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_groups_of_a_user),
        cmocka_unit_test(test_this_system),
        cmocka_unit_test(test_files_that_are_not_there),
        cmocka_unit_test(test_nul_bytes_and_an_empty_file),
        cmocka_unit_test(test_act_as),
        cmocka_unit_test(test_act_as_is_for_one_thread),
        cmocka_unit_test(test_act_as_root_is_nothing),
    };
    return cmocka_run_group_tests(tests, make_root, drop_root);
}
