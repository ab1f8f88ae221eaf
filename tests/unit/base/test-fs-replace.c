#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mount.h>
#include <sys/xattr.h>

#include <cmocka.h>

#include "base/account.h"
#include "base/fs.h"
#include "scratch.h"

static int put_text(int fd, void *ctx, struct tn_error *err)
{
    return tn_fs_write(fd, ctx, strlen(ctx), err);
}

static int replace(const char *path, const char *text, const struct tn_fs_replace *how,
                   struct tn_error *err)
{
    return tn_fs_replace(scratch, path, how, put_text, (void *)(uintptr_t)text, err);
}

static const struct tn_fs_replace plain = {.mode = 0644}, synced = {.mode = 0644, .sync = true},
                                  bending = {.mode = 0644, .in_place = true};

static void assert_replaced(const char *path, const char *text)
{
    struct tn_error err;
    if (replace(path, text, &plain, &err) < 0)
        fail_msg("%s", err.text);
    assert_file(scratch, path, text);
}

/* Nothing of ours is left in the directory. */
static void assert_no_temp(const char *path)
{
    int fd = openat(scratch, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fdopendir(fd);
    struct dirent *entry;
    assert_non_null(dir);
    while ((entry = readdir(dir)))
        if (strncmp(entry->d_name, TN_FS_TEMP_PREFIX, strlen(TN_FS_TEMP_PREFIX)) == 0)
            fail_msg("%s is left", entry->d_name);
    closedir(dir);
}

static struct stat stat_of(const char *path)
{
    struct stat st;
    assert_int_equal(fstatat(scratch, path, &st, AT_SYMLINK_NOFOLLOW), 0);
    return st;
}

static void test_new_and_old(void **state)
{
    mkdirat(scratch, "d", 0755);
    assert_replaced("f", "first");
    assert_replaced("f", "second, longer");
    assert_replaced("f", "");
    assert_replaced("d/f", "deeper");
    assert_replaced("./d//f", "again");
    assert_int_equal(replace("f", "synced", &synced, NULL), 0);
    assert_file(scratch, "f", "synced");
    assert_int_equal(replace("new", "synced", &synced, NULL), 0);
    assert_no_temp(".");
    assert_no_temp("d");
}

static void test_mode_of_a_new_file(void **state)
{
    struct tn_fs_replace how = {.mode = 0666};
    assert_int_equal(replace("f", "x", &how, NULL), 0);
    assert_int_equal(stat_of("f").st_mode & 07777, 0644);
    how.mode = 0700;
    assert_int_equal(replace("g", "x", &how, NULL), 0);
    assert_int_equal(stat_of("g").st_mode & 07777, 0700);
}

static void test_mode_and_inode(void **state)
{
    static const mode_t modes[] = {0600, 0644, 0755, 0777, 04755, 0640};
    put_file(scratch, "f", "old");
    for (size_t i = 0; i < TN_COUNT(modes); i++) {
        assert_int_equal(fchmodat(scratch, "f", modes[i], 0), 0);
        ino_t before = stat_of("f").st_ino;
        assert_replaced("f", "new");
        assert_int_equal(stat_of("f").st_mode & 07777, modes[i]);
        assert_int_not_equal(stat_of("f").st_ino, before);
    }
}

static void test_owner_is_kept(void **state)
{
    if (geteuid() != 0)
        skip();
    put_file(scratch, "f", "old");
    assert_int_equal(fchownat(scratch, "f", 12345, 23456, 0), 0);
    assert_int_equal(fchmodat(scratch, "f", 06750, 0), 0);
    assert_replaced("f", "new");
    struct stat st = stat_of("f");
    assert_int_equal(st.st_uid, 12345);
    assert_int_equal(st.st_gid, 23456);
    assert_int_equal(st.st_mode & 07777, 06750);
}

static void test_extended_attributes_are_kept(void **state)
{
    char value[16] = "";
    put_file(scratch, "f", "old");
    tn_autofree char *path = tn_asprintf("%s/f", scratch_path);
    if (setxattr(path, "user.tendon", "hello", 5, 0) < 0)
        skip();
    assert_int_equal(setxattr(path, "user.empty", "", 0, 0), 0);
    assert_replaced("f", "new");
    assert_int_equal(getxattr(path, "user.tendon", value, sizeof value), 5);
    assert_string_equal(value, "hello");
    assert_int_equal(getxattr(path, "user.empty", value, sizeof value), 0);
}

static void test_links_stay(void **state)
{
    mkdirat(scratch, "d", 0755);
    put_file(scratch, "d/target", "old");
    put_link("d/target", "link");
    put_link("link", "chain");
    put_link("../d/target", "d/up");
    assert_replaced("chain", "one");
    assert_file(scratch, "d/target", "one");
    assert_replaced("d/up", "two");
    assert_file(scratch, "d/target", "two");
    assert_true(S_ISLNK(stat_of("link").st_mode));
    assert_true(S_ISLNK(stat_of("chain").st_mode));
    assert_true(S_ISREG(stat_of("d/target").st_mode));
    put_link("d/made", "dangling");
    assert_replaced("dangling", "three");
    assert_file(scratch, "d/made", "three");
    assert_no_temp(".");
    assert_no_temp("d");
}

static void test_links_do_not_lead_out(void **state)
{
    static const char *const bad[] = {"absolute", "up", "chain", "dir/f", "../f", "/tmp/f"};
    put_link("/etc/hostname", "absolute");
    put_link("../tn-escaped", "up");
    put_link("up", "chain");
    put_link("/tmp", "dir");
    for (size_t i = 0; i < TN_COUNT(bad); i++) {
        struct tn_error err = {0};
        assert_int_equal(replace(bad[i], "x", &plain, &err), -1);
        assert_int_equal(err.code, TN_E_DENIED);
    }
    assert_int_equal(access("/tmp/tn-escaped", F_OK), -1);
}

static void test_anywhere(void **state)
{
    tn_autofree char *target = tn_asprintf("%s/target", scratch_path);
    tn_autofree char *link = tn_asprintf("%s/link", scratch_path);
    put_file(scratch, "target", "old");
    assert_int_equal(symlink(target, link), 0);
    assert_int_equal(tn_fs_replace(TN_FS_ANYWHERE, link, &plain, put_text, (char[]){"new"}, NULL),
                     0);
    assert_file(scratch, "target", "new");
    assert_true(S_ISLNK(stat_of("link").st_mode));
}

static void test_what_is_no_file(void **state)
{
    struct tn_error err = {0};
    mkdirat(scratch, "d", 0755);
    mkfifoat(scratch, "fifo", 0600);
    put_link("loop", "loop");
    static const char *const dirs[] = {"d", "d/", ".", "..", "d/.", ""};
    for (size_t i = 0; i < TN_COUNT(dirs); i++) {
        assert_int_equal(replace(dirs[i], "x", &bending, &err), -1);
        assert_int_equal(err.sys, EISDIR);
    }
    assert_int_equal(replace("fifo", "x", &bending, &err), -1); /* and does not wait for a reader */
    assert_int_equal(err.code, TN_E_INVALID);
    assert_int_equal(replace("loop", "x", &plain, &err), -1);
    assert_int_equal(err.sys, ELOOP);
    assert_int_equal(replace("no/dir", "x", &plain, &err), -1);
    assert_int_equal(err.code, TN_E_NOT_FOUND);
}

static int write_half_and_fail(int fd, void *ctx, struct tn_error *err)
{
    assert_int_equal(write(fd, "half", 4), 4);
    return tn_fail(err, TN_E_PEER, "the rest never came");
}

static void test_failing_writer_changes_nothing(void **state)
{
    struct tn_error err = {0};
    put_file(scratch, "f", "old");
    ino_t before = stat_of("f").st_ino;
    assert_int_equal(tn_fs_replace(scratch, "f", &bending, write_half_and_fail, NULL, &err), -1);
    assert_int_equal(err.code, TN_E_PEER);
    assert_file(scratch, "f", "old");
    assert_int_equal(stat_of("f").st_ino, before);
    assert_int_equal(tn_fs_replace(scratch, "new", &plain, write_half_and_fail, NULL, &err), -1);
    assert_false(exists(scratch, "new"));
    assert_int_equal(tn_fs_replace(scratch, "new", &plain, write_half_and_fail, NULL, NULL), -1);
    assert_no_temp(".");
}

/* --- the journal --------------------------------------------------------------------------- */

struct journal_log {
    char path[4096];
    int announced, withdrawn;
    bool refuse;
};

static int announce(void *ctx, const char *path, struct tn_error *err)
{
    struct journal_log *log = ctx;
    assert_int_equal(strncmp(path, scratch_path, strlen(scratch_path)), 0);
    assert_non_null(strstr(path, "/" TN_FS_TEMP_PREFIX));
    assert_int_equal(access(path, F_OK), -1); /* not before it is told */
    snprintf(log->path, sizeof log->path, "%s", path);
    log->announced++;
    return log->refuse ? tn_fail(err, TN_E_BUSY, "journal full") : 0;
}

static void withdraw(void *ctx, const char *path)
{
    struct journal_log *log = ctx;
    assert_string_equal(path, log->path);
    assert_int_equal(access(path, F_OK), -1);
    log->withdrawn++;
}

static void test_journal(void **state)
{
    struct journal_log log = {.announced = 0};
    struct tn_fs_journal journal = {.announce = announce, .withdraw = withdraw, .ctx = &log};
    struct tn_fs_replace how = {.mode = 0644, .journal = &journal};
    struct tn_error err = {0};
    mkdirat(scratch, "d", 0755);
    put_file(scratch, "d/f", "old");
    assert_int_equal(replace("d/f", "new", &how, NULL), 0);
    assert_file(scratch, "d/f", "new");
    assert_int_equal(log.announced, 1);
    assert_int_equal(log.withdrawn, 1);
    /* when the journal cannot take it, nothing appears */
    log.refuse = true;
    assert_int_equal(replace("d/f", "newer", &how, &err), -1);
    assert_int_equal(err.code, TN_E_BUSY);
    assert_file(scratch, "d/f", "new");
    assert_int_equal(log.announced, 2);
    assert_int_equal(log.withdrawn, 1);
    assert_no_temp("d");
}

/* Filesystems that know no nameless files: the temporary file has a name from the start. */
static int without_nameless_files(void)
{
    struct journal_log log = {.announced = 0};
    struct tn_fs_journal journal = {.announce = announce, .withdraw = withdraw, .ctx = &log};
    struct tn_fs_replace how = {.mode = 0666, .journal = &journal};
    struct tn_error err;
    forbid(SYS_openat, O_TMPFILE & ~O_DIRECTORY, EOPNOTSUPP);
    if (replace("f", "new", &how, &err) < 0 || replace("g", "made", &how, &err) < 0)
        return 1;
    if (log.announced != 2 || log.withdrawn != 2)
        return 2;
    if (tn_fs_replace(scratch, "f", &how, write_half_and_fail, NULL, &err) == 0)
        return 3;
    return log.announced == 3 && log.withdrawn == 3 ? 0 : 4;
}

static void test_without_nameless_files(void **state)
{
    put_file(scratch, "f", "old");
    set_mode("f", 0751);
    assert_int_equal(in_process(without_nameless_files), 0);
    assert_file(scratch, "f", "new");
    assert_file(scratch, "g", "made");
    assert_int_equal(stat_of("f").st_mode & 07777, 0751);
    assert_int_equal(stat_of("g").st_mode & 07777, 0644);
    assert_no_temp(".");
}

/* --- when replacing is not possible -------------------------------------------------------- */

static int replace_as(uid_t uid, const char *path, const struct tn_fs_replace *how,
                      struct tn_error *err)
{
    struct tn_act_as as;
    assert_int_equal(tn_act_as_begin(&as, uid, uid, NULL, 0, NULL), 0);
    int result = replace(path, "new", how, err);
    tn_act_as_end(&as);
    return result;
}

static void test_protected_files_stay(void **state)
{
    if (geteuid() != 0)
        skip();
    struct tn_error err = {0};
    set_mode(".", 0777); /* the directory would allow it */
    put_file(scratch, "theirs", "old");
    put_file(scratch, "mine", "old");
    set_owner("mine", 12345);
    set_mode("mine", 0444);
    assert_int_equal(replace_as(12345, "theirs", &bending, &err), -1);
    assert_int_equal(err.code, TN_E_DENIED);
    assert_int_equal(replace_as(12345, "mine", &bending, &err), -1);
    assert_int_equal(err.code, TN_E_DENIED);
    assert_file(scratch, "theirs", "old");
    assert_file(scratch, "mine", "old");
    assert_no_temp(".");
}

static void test_in_place_keeps_a_foreign_owner(void **state)
{
    if (geteuid() != 0)
        skip();
    struct tn_error err = {0};
    set_mode(".", 0777);
    put_file(scratch, "f", "old and longer than the new one");
    set_mode("f", 0666);
    ino_t before = stat_of("f").st_ino;
    assert_int_equal(replace_as(12345, "f", &plain, &err), -1);
    assert_int_equal(err.code, TN_E_DENIED);
    assert_non_null(strstr(err.text, "owner cannot be kept"));
    assert_file(scratch, "f", "old and longer than the new one");
    assert_int_equal(replace_as(12345, "f", &bending, &err), 0);
    assert_file(scratch, "f", "new");
    assert_int_equal(stat_of("f").st_ino, before);
    assert_int_equal(stat_of("f").st_uid, 0);
    assert_no_temp(".");
}

static void test_in_place_in_a_closed_directory(void **state)
{
    if (geteuid() != 0)
        skip();
    struct tn_error err = {0};
    set_mode(".", 0755);
    put_file(scratch, "f", "old and longer");
    set_owner("f", 12345);
    assert_int_equal(replace_as(12345, "f", &plain, &err), -1);
    assert_int_equal(err.code, TN_E_DENIED);
    assert_int_equal(replace_as(12345, "f", &bending, &err), 0);
    assert_file(scratch, "f", "new");
    assert_int_equal(replace_as(12345, "other", &bending, &err), -1);
    assert_false(exists(scratch, "other"));
}

/* As container engines do with /etc/hosts: the file itself is a mount. */
static int replace_a_mount(void)
{
    struct journal_log log = {.announced = 0};
    struct tn_fs_journal journal = {.announce = announce, .withdraw = withdraw, .ctx = &log};
    struct tn_fs_replace how = {.mode = 0644, .in_place = true, .journal = &journal};
    struct tn_error err = {0};
    tn_autofree char *from = tn_asprintf("%s/real", scratch_path);
    tn_autofree char *to = tn_asprintf("%s/mounted", scratch_path);
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount(from, to, NULL, MS_BIND, NULL) < 0)
        return 77;
    scratch = open(scratch_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (replace("mounted", "new", &plain, &err) == 0)
        return 1;
    if (replace("mounted", "new", &how, &err) < 0)
        return 2;
    return log.announced == 1 && log.withdrawn == 1 ? 0 : 3;
}

static void test_in_place_over_a_mount(void **state)
{
    put_file(scratch, "real", "old and longer");
    put_file(scratch, "mounted", "");
    int result = in_process(replace_a_mount);
    if (result == 77)
        skip();
    assert_int_equal(result, 0);
    assert_file(scratch, "real", "new");
    assert_file(scratch, "mounted", "");
    assert_no_temp(".");
}

/* A program that runs cannot be written to, but it can be replaced. */
static void test_running_program(void **state)
{
    int from = open("/bin/cat", O_RDONLY | O_CLOEXEC);
    int to = openat(scratch, "cat", O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
    assert_true(tn_fs_copy(from, to, UINT64_MAX, NULL) > 0);
    close(from);
    close(to);
    int ends[2], status;
    tn_autofree char *path = tn_asprintf("%s/cat", scratch_path);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    int started[2];
    assert_int_equal(pipe2(started, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[0], 0);
        execl(path, "cat", NULL);
        _exit(1);
    }
    close(started[1]);
    char byte;
    assert_int_equal(read(started[0], &byte, 1), 0); /* exec has closed the other copy */
    assert_replaced("cat", "new");
    assert_int_equal(stat_of("cat").st_mode & 07777, 0755);
    close(ends[1]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    close(ends[0]);
    close(started[0]);
}

/* --- many at once -------------------------------------------------------------------------- */

static atomic_bool reading;

static void *read_all_the_time(void *ctx)
{
    int *bad = ctx;
    while (atomic_load(&reading)) {
        char text[9000];
        int fd = openat(scratch, "f", O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text);
        tn_close(fd);
        *bad += n != 8000;
        for (ssize_t i = 1; i < n; i++)
            *bad += text[i] != text[0];
    }
    return NULL;
}

static void test_readers_see_all_or_nothing(void **state)
{
    char text[8001];
    int bad = 0;
    pthread_t thread;
    memset(text, 'a', 8000);
    text[8000] = '\0';
    put_file(scratch, "f", text);
    atomic_store(&reading, true);
    assert_int_equal(pthread_create(&thread, NULL, read_all_the_time, &bad), 0);
    for (int i = 0; i < 300; i++) {
        memset(text, 'a' + i % 26, 8000);
        assert_int_equal(replace("f", text, &plain, NULL), 0);
    }
    atomic_store(&reading, false);
    pthread_join(thread, NULL);
    assert_int_equal(bad, 0);
    assert_no_temp(".");
}

#define FS_TEST(name) cmocka_unit_test_setup_teardown(name, scratch_open, scratch_close)

int main(void)
{
    umask(022);
    const struct CMUnitTest tests[] = {
        FS_TEST(test_new_and_old),
        FS_TEST(test_mode_of_a_new_file),
        FS_TEST(test_mode_and_inode),
        FS_TEST(test_owner_is_kept),
        FS_TEST(test_extended_attributes_are_kept),
        FS_TEST(test_links_stay),
        FS_TEST(test_links_do_not_lead_out),
        FS_TEST(test_anywhere),
        FS_TEST(test_what_is_no_file),
        FS_TEST(test_failing_writer_changes_nothing),
        FS_TEST(test_journal),
        FS_TEST(test_without_nameless_files),
        FS_TEST(test_protected_files_stay),
        FS_TEST(test_in_place_keeps_a_foreign_owner),
        FS_TEST(test_in_place_in_a_closed_directory),
        FS_TEST(test_in_place_over_a_mount),
        FS_TEST(test_running_program),
        FS_TEST(test_readers_see_all_or_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
