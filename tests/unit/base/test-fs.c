#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mount.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include <cmocka.h>

#include "base/account.h"
#include "base/clock.h"
#include "base/fs.h"
#include "scratch.h"

/* --- opening beneath a root ---------------------------------------------------------------- */

static int open_beneath(const char *path, struct tn_error *err)
{
    return tn_fs_open(scratch, path, O_RDONLY, 0, err);
}

static void test_open_beneath(void **state)
{
    static const char *const good[] = {"f",     "d/f",  "./f",  "d/../f",    "d//f",
                                       "d/./f", "link", "d/up", "dirlink/f", ""};
    mkdirat(scratch, "d", 0755);
    put_file(scratch, "f", "1");
    put_file(scratch, "d/f", "2");
    put_link("f", "link");
    put_link("../f", "d/up");
    put_link("d", "dirlink");
    for (size_t i = 0; i < TN_COUNT(good); i++) {
        int fd = open_beneath(good[i], NULL);
        assert_true(fd >= 0);
        assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
        close(fd);
    }
    int made = tn_fs_open(scratch, "new", O_WRONLY | O_CREAT | O_EXCL, 0640, NULL);
    assert_true(made >= 0);
    close(made);
}

static void test_open_does_not_escape(void **state)
{
    static const char *const bad[] = {"..",        "../x",      "/etc/passwd", "/",
                                      "d/../../x", "absolute",  "up",          "dir/passwd",
                                      "chain",     "d/up2/etc", "self/fd",     "dotdot/tmp"};
    mkdirat(scratch, "d", 0755);
    put_link("/etc/passwd", "absolute");
    put_link("../../etc/passwd", "up");
    put_link("/etc", "dir");
    put_link("up", "chain");
    put_link("../..", "d/up2");
    put_link("/proc/self", "self");
    put_link("..", "dotdot");
    for (size_t i = 0; i < TN_COUNT(bad); i++) {
        struct tn_error err = {0};
        assert_int_equal(open_beneath(bad[i], &err), -1);
        assert_int_equal(err.code, TN_E_DENIED);
        assert_non_null(strstr(err.text, "leads outside its root"));
    }
    /* creation follows the same rule */
    put_link("../made-outside", "creating");
    assert_int_equal(tn_fs_open(scratch, "creating", O_WRONLY | O_CREAT, 0600, NULL), -1);
    assert_false(exists(scratch, "../made-outside"));
}

static void test_open_refuses_links_of_proc(void **state)
{
    struct tn_error err;
    int proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(tn_fs_open(proc, "self/root/etc/passwd", O_RDONLY, 0, &err), -1);
    assert_int_equal(tn_fs_open(proc, "self/cwd", O_RDONLY, 0, &err), -1);
    assert_int_equal(tn_fs_open(TN_FS_ANYWHERE, "/proc/self/root/etc/passwd", O_RDONLY, 0, &err),
                     -1);
    close(proc);
}

static int open_shared(const char *path, int flags, struct tn_error *err)
{
    return tn_fs_open_shared(scratch_path, path, flags, 0600, err);
}

static void test_open_shared(void **state)
{
    struct tn_error err = {0};
    mkdirat(scratch, "d", 0755);
    int fd = open_shared("d/f", O_WRONLY | O_CREAT, &err);
    assert_true(fd >= 0 && fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(tn_fs_write(fd, "one", 3, &err), 0);
    close(fd);
    fd = open_shared("d/f", O_WRONLY | O_CREAT | O_APPEND, &err);
    assert_int_equal(tn_fs_write(fd, "two", 3, &err), 0);
    close(fd);
    assert_file(scratch, "d/f", "onetwo");
    fd = open_shared("d/f", O_RDONLY, &err);
    assert_true(fd >= 0 && !(fcntl(fd, F_GETFL) & O_NONBLOCK));
    close(fd);
    assert_int_equal(open_shared("none", O_RDONLY, &err), -1);
    assert_int_equal(err.code, TN_E_NOT_FOUND);
}

/* Neither opened, nor waited for, nor written through. */
static void test_open_shared_refuses(void **state)
{
    static const struct {
        const char *path, *text;
    } bad[] = {
        {"fifo", "found a FIFO"},          {"d", "found a directory"},
        {"link", "found a symbolic link"}, {"dangling", "found a symbolic link"},
        {"device", "found a device"},      {"dirlink/f", "dirlink/f"},
        {"../f", "leads outside"},         {"/etc/passwd", "leads outside"},
    };
    static const int ways[] = {O_RDONLY, O_WRONLY | O_CREAT, O_RDWR | O_CREAT | O_TRUNC};

    mkdirat(scratch, "d", 0755);
    put_file(scratch, "d/f", "kept");
    put_link("d/f", "link");
    put_link("d", "dirlink");
    put_link("made-elsewhere", "dangling");
    assert_int_equal(mkfifoat(scratch, "fifo", 0600), 0);
    bool devices = mknodat(scratch, "device", S_IFCHR | 0600, makedev(1, 3)) == 0;
    for (size_t i = 0; i < TN_COUNT(bad); i++)
        for (size_t k = 0; k < TN_COUNT(ways); k++) {
            struct tn_error err = {0};
            if (!devices && strcmp(bad[i].path, "device") == 0)
                continue;
            assert_int_equal(open_shared(bad[i].path, ways[k], &err), -1);
            assert_non_null(strstr(err.text, bad[i].text));
        }
    assert_file(scratch, "d/f", "kept");
    assert_false(exists(scratch, "made-elsewhere"));
}

static void test_open_anywhere(void **state)
{
    tn_autofree char *path = tn_asprintf("%s/link", scratch_path);
    put_link("/etc/passwd", "link");
    int fd = tn_fs_open(TN_FS_ANYWHERE, path, O_RDONLY, 0, NULL);
    assert_true(fd >= 0);
    close(fd);
    struct tn_error err;
    assert_int_equal(tn_fs_open(TN_FS_ANYWHERE, "/no/such/file", O_RDONLY, 0, &err), -1);
    assert_int_equal(err.code, TN_E_NOT_FOUND);
    assert_string_equal(err.text, "/no/such/file: No such file or directory");
}

static atomic_bool racing;

/* Swaps a directory and a link to the outside, over and over. */
static void *swap(void *ctx)
{
    while (atomic_load(&racing))
        syscall(SYS_renameat2, scratch, "middle", scratch, "evil", 2 /* RENAME_EXCHANGE */);
    return NULL;
}

static void test_open_wins_the_race(void **state)
{
    pthread_t thread;
    struct stat outside, st;
    int inside = 0, denied = 0;

    assert_int_equal(stat("/etc/passwd", &outside), 0);
    mkdirat(scratch, "middle", 0755);
    put_file(scratch, "middle/passwd", "ours");
    put_link("/etc", "evil");
    atomic_store(&racing, true);
    assert_int_equal(pthread_create(&thread, NULL, swap, NULL), 0);
    int64_t deadline = tn_deadline_in(20);
    for (int i = 0; (i < 2000 || !inside || !denied) && tn_now() < deadline; i++) {
        int fd = open_beneath("middle/passwd", NULL);
        denied += fd < 0;
        if (fd < 0)
            continue;
        assert_int_equal(fstat(fd, &st), 0);
        close(fd);
        assert_false(st.st_ino == outside.st_ino && st.st_dev == outside.st_dev);
        inside++;
    }
    atomic_store(&racing, false);
    pthread_join(thread, NULL);
    assert_true(inside > 0 && denied > 0);
}

static int check_without_openat2(void)
{
    struct tn_error err = {0};
    if (open_beneath("f", &err) >= 0 || err.code != TN_E_UNSUPPORTED ||
        !strstr(err.text, "openat2"))
        return 1;
    int fd = tn_fs_open(TN_FS_ANYWHERE, "/etc/passwd", O_RDONLY, 0, &err);
    if (fd < 0)
        return 2;
    close(fd);
    tn_autofd int itself = tn_fs_open(scratch, ".", O_PATH | O_DIRECTORY, 0, &err);
    if (itself < 0 || open_beneath("..", &err) >= 0 || open_beneath("./f", &err) >= 0)
        return 6;
    tn_autofd int made = tn_fs_mkdirs(scratch, "x/y", 0755, NULL, NULL, &err);
    if (made >= 0 || err.code != TN_E_UNSUPPORTED)
        return 3;
    if (symlinkat("/etc", scratch, "tree/etc") < 0)
        return 9;
    if (tn_fs_remove_tree(scratch, "tree", 0, &err) < 0 || exists(scratch, "tree"))
        return 4;
    return access("/etc/passwd", F_OK) == 0 ? 0 : 5;
}

static int without_openat2(void)
{
    forbid(SYS_openat2, 0, ENOSYS);
    return check_without_openat2();
}

static int with_openat2_filtered(void)
{
    forbid(SYS_openat2, 0, EPERM);
    return check_without_openat2();
}

static void test_kernels_without_openat2(void **state)
{
    put_file(scratch, "f", "x");
    for (int i = 0; i < 2; i++) {
        mkdirat(scratch, "tree", 0755);
        mkdirat(scratch, "tree/d", 0755);
        put_file(scratch, "tree/d/f", "x");
        assert_int_equal(in_process(i ? with_openat2_filtered : without_openat2), 0);
    }
}

/* --- directories --------------------------------------------------------------------------- */

static int note_made(int fd, const char *path, void *ctx, struct tn_error *err)
{
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    assert_true(S_ISDIR(st.st_mode));
    if (geteuid() == 0)
        assert_int_equal(fchownat(fd, "", 12345, 12345, AT_EMPTY_PATH), 0);
    return tn_buf_printf(ctx, "%s;", path);
}

static void assert_mkdirs(const char *path, const char *made)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(1000);
    struct tn_error err;
    int fd = tn_fs_mkdirs(scratch, path, 0755, note_made, &out, &err);
    if (fd < 0)
        fail_msg("%s", err.text);
    assert_string_equal(tn_buf_str(&out), made);
    struct stat one, two;
    assert_int_equal(fstat(fd, &one), 0);
    assert_int_equal(fstatat(scratch, path[0] ? path : ".", &two, 0), 0);
    assert_int_equal(one.st_ino, two.st_ino);
    close(fd);
}

static void test_mkdirs(void **state)
{
    struct stat st;
    assert_mkdirs("a/b/c", "a;a/b;a/b/c;");
    assert_mkdirs("a/b/c", "");
    assert_mkdirs("a/b/d/", "a/b/d;");
    assert_mkdirs("a//e/./f/../g", "a//e;a//e/./f;a//e/./f/../g;");
    assert_mkdirs("", "");
    assert_mkdirs(".", "");
    put_link("a/b", "link");
    assert_mkdirs("link/h", "link/h;");
    assert_true(exists(scratch, "a/b/h"));
    put_link("../../a", "a/b/up"); /* up and down again, within the root */
    assert_mkdirs("a/b/up/i", "a/b/up/i;");
    assert_true(exists(scratch, "a/i"));
    assert_int_equal(fstatat(scratch, "a/b/c", &st, 0), 0);
    if (geteuid() == 0)
        assert_int_equal(st.st_uid, 12345);
    assert_int_equal(fstatat(scratch, ".", &st, 0), 0);
    assert_int_equal(st.st_uid, geteuid()); /* what was there is not reported */
}

static void test_mkdirs_does_not_escape(void **state)
{
    static const char *const bad[] = {"../tn-escaped", "/tmp/tn-escaped", "link/tn-escaped",
                                      "a/../../tn-escaped", "dangling/x"};
    put_link("/tmp", "link");
    put_link("../tn-escaped", "dangling");
    for (size_t i = 0; i < TN_COUNT(bad); i++) {
        struct tn_error err = {0};
        assert_int_equal(tn_fs_mkdirs(scratch, bad[i], 0755, NULL, NULL, &err), -1);
        assert_int_equal(err.code, TN_E_DENIED);
    }
    assert_int_equal(access("/tmp/tn-escaped", F_OK), -1);
}

static void test_mkdirs_over_a_file(void **state)
{
    struct tn_error err = {0};
    put_file(scratch, "f", "x");
    assert_int_equal(tn_fs_mkdirs(scratch, "f/x", 0755, NULL, NULL, &err), -1);
    assert_int_equal(err.sys, ENOTDIR);
    assert_int_equal(tn_fs_mkdirs(scratch, "f", 0755, NULL, NULL, &err), -1);
    put_link("nowhere", "dangling");
    assert_int_equal(tn_fs_mkdirs(scratch, "dangling", 0755, NULL, NULL, &err), -1);
}

static void test_mkdirs_anywhere(void **state)
{
    tn_autofree char *path = tn_asprintf("%s/x/y", scratch_path);
    int fd = tn_fs_mkdirs(TN_FS_ANYWHERE, path, 0700, NULL, NULL, NULL);
    assert_true(fd >= 0);
    close(fd);
    assert_true(exists(scratch, "x/y"));
}

static int refuse(int fd, const char *path, void *ctx, struct tn_error *err)
{
    return tn_fail(err, TN_E_BUSY, "not now");
}

static void test_mkdirs_stops_when_told(void **state)
{
    struct tn_error err;
    assert_int_equal(tn_fs_mkdirs(scratch, "a/b", 0755, refuse, NULL, &err), -1);
    assert_int_equal(err.code, TN_E_BUSY);
    assert_false(exists(scratch, "a/b"));
}

/* --- removing ------------------------------------------------------------------------------ */

static void assert_removed(const char *name)
{
    struct tn_error err;
    if (tn_fs_remove_tree(scratch, name, 0, &err) < 0)
        fail_msg("%s", err.text);
    assert_false(exists(scratch, name));
}

static void test_remove(void **state)
{
    mkdirat(scratch, "keep", 0755);
    put_file(scratch, "keep/f", "x");
    mkdirat(scratch, "t", 0755);
    mkdirat(scratch, "t/d", 0755);
    mkdirat(scratch, "t/d/empty", 0755);
    put_file(scratch, "t/d/f", "x");
    mkfifoat(scratch, "t/fifo", 0600);
    put_link("../keep", "t/link");
    put_link("/etc", "t/d/etc");
    put_link("nowhere", "t/dangling");
    assert_removed("t");
    assert_file(scratch, "keep/f", "x");
    put_file(scratch, "single", "x");
    assert_removed("single");
    put_link("keep", "link");
    assert_removed("link");
    assert_file(scratch, "keep/f", "x");
    assert_removed("never-was");
}

static void test_remove_takes_one_name(void **state)
{
    static const char *const bad[] = {"", ".", "..", "a/b", "/", "/tmp", "a/"};
    for (size_t i = 0; i < TN_COUNT(bad); i++) {
        struct tn_error err = {0};
        assert_int_equal(tn_fs_remove_tree(scratch, bad[i], 0, &err), -1);
        assert_int_equal(err.code, TN_E_INVALID);
    }
}

/* Far deeper than there are descriptors, or than a path can name. */
static void test_remove_deep(void **state)
{
    int fd = dup(scratch);
    for (int i = 0; i < 3000; i++) {
        assert_int_equal(mkdirat(fd, i ? "deep" : "top", 0755), 0);
        int next = openat(fd, i ? "deep" : "top", O_PATH | O_DIRECTORY | O_CLOEXEC);
        assert_true(next >= 0);
        close(fd);
        fd = next;
        put_file(fd, "f", "x");
    }
    close(fd);
    assert_removed("top");
}

static void test_remove_wide(void **state)
{
    mkdirat(scratch, "wide", 0755);
    for (int i = 0; i < 2000; i++) {
        char name[32];
        snprintf(name, sizeof name, "wide/%d", i);
        put_file(scratch, name, "");
    }
    assert_removed("wide");
}

static void test_remove_opens_closed_directories(void **state)
{
    static const char *const dirs[] = {"t", "t/readonly", "t/closed", "t/noexec"};
    struct tn_act_as as;
    set_mode(".", 0777);
    assert_int_equal(tn_act_as_begin(&as, 12345, 12345, NULL, 0, NULL), 0);
    for (size_t i = 0; i < TN_COUNT(dirs); i++) {
        mkdirat(scratch, dirs[i], 0755);
        char file[40];
        snprintf(file, sizeof file, "%s/f", dirs[i]);
        int fd = openat(scratch, file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        tn_close(fd);
    }
    set_mode("t/readonly", 0555);
    set_mode("t/closed", 0000);
    set_mode("t/noexec", 0600);
    struct tn_error err = {0};
    int result = tn_fs_remove_tree(scratch, "t", 0, &err);
    tn_act_as_end(&as);
    if (result < 0)
        fail_msg("%s", err.text);
    assert_false(exists(scratch, "t"));
}

/* Puts some files into t and t/d, for as long as these are there. */
static void *fill_late(void *nothing)
{
    for (int i = 0; i < 40; i++) {
        char name[32];
        snprintf(name, sizeof name, "t/%s%d", i % 2 ? "d/" : "", i);
        int fd = openat(scratch, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        tn_close(fd);
    }
    return nothing;
}

static void test_remove_what_comes_late(void **state)
{
    for (int round = 0; round < 200; round++) {
        pthread_t filler;
        struct tn_error err = {0};
        mkdirat(scratch, "t", 0755);
        mkdirat(scratch, "t/d", 0755);
        assert_int_equal(pthread_create(&filler, NULL, fill_late, NULL), 0);
        int result = tn_fs_remove_tree(scratch, "t", 0, &err);
        pthread_join(filler, NULL);
        if (result < 0)
            fail_msg("round %d: %s", round, err.text);
        assert_false(exists(scratch, "t"));
    }
}

static void test_remove_reports_and_goes_on(void **state)
{
    if (geteuid() != 0)
        skip();
    struct tn_act_as as;
    struct tn_error err = {0};
    set_mode(".", 0777);
    mkdirat(scratch, "t", 0777);
    set_mode("t", 0777);
    mkdirat(scratch, "t/theirs", 0755); /* root's, with something in it */
    put_file(scratch, "t/theirs/f", "x");
    for (int i = 0; i < 50; i++) {
        char name[32];
        snprintf(name, sizeof name, "t/ours-%d", i);
        put_file(scratch, name, "");
    }
    assert_int_equal(tn_act_as_begin(&as, 12345, 12345, NULL, 0, NULL), 0);
    int result = tn_fs_remove_tree(scratch, "t", 0, &err);
    tn_act_as_end(&as);
    assert_int_equal(result, -1);
    assert_int_equal(err.code, TN_E_DENIED);
    assert_string_equal(err.text, "t/theirs/f: Permission denied");
    assert_false(exists(scratch, "t/ours-0"));
    assert_false(exists(scratch, "t/ours-49"));
    assert_true(exists(scratch, "t/theirs/f"));
}

/* In a process with mounts of its own: a directory outside is bound into the tree. */
static int remove_with_a_mount(void)
{
    struct tn_error err = {0};
    tn_autofree char *from = tn_asprintf("%s/precious", scratch_path);
    tn_autofree char *to = tn_asprintf("%s/t/mnt", scratch_path);
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount(from, to, NULL, MS_BIND, NULL) < 0)
        return 77;
    scratch =
        open(scratch_path, O_PATH | O_DIRECTORY | O_CLOEXEC); /* the old one sees no new mount */
    if (tn_fs_remove_tree(scratch, "t", 0, &err) == 0 || err.code != TN_E_CONFLICT)
        return 1;
    if (!strstr(err.text, "mounted") || !exists(scratch, "precious/f"))
        return 2;
    if (exists(scratch, "t/a") || exists(scratch, "t/z")) /* the rest is gone */
        return 3;
    if (tn_fs_remove_tree(scratch, "t", TN_FS_CROSS_MOUNTS, &err) ==
        0) /* it cannot remove the mount point */
        return 4;
    return exists(scratch, "precious/f") ? 5 : 0;
}

static void test_remove_stays_on_its_mount(void **state)
{
    mkdirat(scratch, "precious", 0755);
    put_file(scratch, "precious/f", "x");
    mkdirat(scratch, "t", 0755);
    mkdirat(scratch, "t/mnt", 0755);
    put_file(scratch, "t/a", "x");
    put_file(scratch, "t/z", "x");
    int result = in_process(remove_with_a_mount);
    if (result == 77)
        skip();
    assert_int_equal(result, 0);
}

/* --- reading, writing, copying ------------------------------------------------------------- */

static void test_read(void **state)
{
    struct tn_error err = {0};
    tn_autobuf struct tn_buf exact = TN_BUF_INIT(5), small = TN_BUF_INIT(4),
                             other = TN_BUF_INIT(100000);
    put_file(scratch, "f", "12345");
    assert_int_equal(tn_fs_read(scratch, "f", &exact, NULL), 0);
    assert_string_equal(tn_buf_str(&exact), "12345");
    assert_int_equal(tn_fs_read(scratch, "f", &small, &err), -1);
    assert_int_equal(err.code, TN_E_TOO_LARGE);
    assert_string_equal(err.text, "f: larger than 4 bytes");
    put_file(scratch, "empty", "");
    assert_int_equal(tn_fs_read(scratch, "empty", &other, NULL), 0);
    assert_string_equal(tn_buf_str(&other), "");
    assert_int_equal(tn_fs_read(scratch, "missing", &other, &err), -1);
    assert_int_equal(err.code, TN_E_NOT_FOUND);
    assert_int_equal(tn_fs_read(scratch, ".", &other, &err), -1);
    assert_int_equal(err.sys, EISDIR);
    mkfifoat(scratch, "fifo", 0600);
    assert_int_equal(tn_fs_read(scratch, "fifo", &other, &err), -1); /* and does not wait */
    assert_int_equal(err.code, TN_E_INVALID);
    assert_int_equal(tn_fs_read(TN_FS_ANYWHERE, "/proc/self/status", &other, NULL), 0);
    assert_true(other.len > 100); /* a file that says it is empty */
}

static void check_copy(int from, int to, const char *expected)
{
    assert_int_equal(tn_fs_copy(from, to, UINT64_MAX, NULL), (int64_t)strlen(expected));
}

static void test_copy(void **state)
{
    put_file(scratch, "from", "0123456789");
    int from = openat(scratch, "from", O_RDONLY | O_CLOEXEC);
    int to = openat(scratch, "to", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(tn_fs_copy(from, to, 4, NULL), 4);
    assert_file(scratch, "to", "0123");
    check_copy(from, to, "456789");
    assert_file(scratch, "to", "0123456789");
    assert_int_equal(tn_fs_copy(from, to, UINT64_MAX, NULL), 0);
    close(from);

    /* from a pipe, to a pipe, from /proc, to a file opened for appending */
    int ends[2];
    char text[100];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    from = openat(scratch, "from", O_RDONLY | O_CLOEXEC);
    check_copy(from, ends[1], "0123456789");
    assert_int_equal(read(ends[0], text, sizeof text), 10);
    assert_int_equal(write(ends[1], "piped", 5), 5);
    close(ends[1]);
    assert_int_equal(ftruncate(to, 0), 0);
    lseek(to, 0, SEEK_SET);
    check_copy(ends[0], to, "piped");
    assert_file(scratch, "to", "piped");
    close(ends[0]);
    close(to);
    to = openat(scratch, "to", O_WRONLY | O_APPEND | O_CLOEXEC);
    lseek(from, 0, SEEK_SET);
    check_copy(from, to, "0123456789");
    assert_file(scratch, "to", "piped0123456789");
    close(from);
    from = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    assert_true(tn_fs_copy(from, to, UINT64_MAX, NULL) > 100);
    close(from);
    close(to);
}

static void test_copy_large(void **state)
{
    tn_autofree char *block = tn_malloc(300000);
    for (int i = 0; i < 300000; i++)
        block[i] = (char)(i * 7 % 251);
    int from = openat(scratch, "from", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    int to = openat(scratch, "to", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(tn_fs_write(from, block, 300000, NULL), 0);
    lseek(from, 0, SEEK_SET);
    assert_int_equal(tn_fs_copy(from, to, UINT64_MAX, NULL), 300000);
    tn_autobuf struct tn_buf back = TN_BUF_INIT(300000);
    lseek(to, 0, SEEK_SET);
    assert_int_equal(tn_fs_read_fd(to, &back, NULL), 0);
    assert_int_equal(back.len, 300000);
    assert_memory_equal(back.data, block, 300000);
    close(from);
    close(to);
}

static void test_errors_of_descriptors(void **state)
{
    struct tn_error err = {0};
    tn_autobuf struct tn_buf out = TN_BUF_INIT(10);
    assert_int_equal(tn_fs_write(-1, "x", 1, &err), -1);
    assert_int_equal(err.sys, EBADF);
    assert_int_equal(tn_fs_read_fd(-1, &out, &err), -1);
    assert_int_equal(tn_fs_copy(-1, -1, 5, &err), -1);
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    assert_int_equal(tn_fs_write(full, "x", 1, &err), -1);
    assert_int_equal(err.sys, ENOSPC);
    close(full);
}

#define FS_TEST(name) cmocka_unit_test_setup_teardown(name, scratch_open, scratch_close)

int main(void)
{
    umask(022);
    const struct CMUnitTest tests[] = {
        FS_TEST(test_open_beneath),
        FS_TEST(test_open_does_not_escape),
        FS_TEST(test_open_refuses_links_of_proc),
        FS_TEST(test_open_shared),
        FS_TEST(test_open_shared_refuses),
        FS_TEST(test_open_anywhere),
        FS_TEST(test_open_wins_the_race),
        FS_TEST(test_kernels_without_openat2),
        FS_TEST(test_mkdirs),
        FS_TEST(test_mkdirs_does_not_escape),
        FS_TEST(test_mkdirs_over_a_file),
        FS_TEST(test_mkdirs_anywhere),
        FS_TEST(test_mkdirs_stops_when_told),
        FS_TEST(test_remove),
        FS_TEST(test_remove_takes_one_name),
        FS_TEST(test_remove_deep),
        FS_TEST(test_remove_wide),
        FS_TEST(test_remove_opens_closed_directories),
        FS_TEST(test_remove_what_comes_late),
        FS_TEST(test_remove_reports_and_goes_on),
        FS_TEST(test_remove_stays_on_its_mount),
        FS_TEST(test_read),
        FS_TEST(test_copy),
        FS_TEST(test_copy_large),
        FS_TEST(test_errors_of_descriptors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
