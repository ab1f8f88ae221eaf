#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include <cmocka.h>

#include "../base/scratch.h"
#include "base/clock.h"
#include "jail/tree-copy.h"
#include "jail/whiteout.h"

static struct tn_error err;
static struct tn_tree_count count;

static int set_up(void **state)
{
    err = (struct tn_error){0};
    return scratch_open(state) || mkdirat(scratch, "from", 0755) || mkdirat(scratch, "to", 0755);
}

static int copy_until(int64_t deadline)
{
    tn_autofd int from = openat(scratch, "from", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    tn_autofd int to = openat(scratch, "to", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    return tn_tree_copy(from, to, deadline, &count, &err);
}

static void copy(void)
{
    if (copy_until(tn_deadline_in(60)) < 0)
        fail_msg("%s", err.text);
}

static struct stat stat_of(const char *path)
{
    struct stat st;

    assert_int_equal(fstatat(scratch, path, &st, AT_SYMLINK_NOFOLLOW), 0);
    return st;
}

static void set_time(const char *path, time_t when)
{
    struct timespec times[2] = {{.tv_sec = when}, {.tv_sec = when, .tv_nsec = 5}};
    assert_int_equal(utimensat(scratch, path, times, AT_SYMLINK_NOFOLLOW), 0);
}

static void test_modes_and_times(void **state)
{
    static const struct {
        const char *name;
        mode_t mode;
    } files[] = {{"a", 0644}, {"b", 0444}, {"c", 0777}, {"d", 04711}, {"e", 0400}};
    char path[32];

    mode_t before = umask(022);
    for (size_t i = 0; i < TN_COUNT(files); i++) {
        snprintf(path, sizeof path, "from/%s", files[i].name);
        put_file(scratch, path, files[i].name);
        set_mode(path, files[i].mode);
        set_time(path, 1000 + (time_t)i);
    }
    mkdirat(scratch, "from/dir", 0700);
    put_file(scratch, "from/dir/x", "x");
    set_mode("from/dir", 01750);
    set_time("from/dir", 77);
    set_time("from", 99);
    copy();
    umask(before);
    for (size_t i = 0; i < TN_COUNT(files); i++) {
        snprintf(path, sizeof path, "to/%s", files[i].name);
        struct stat st = stat_of(path);
        assert_int_equal(st.st_mode & 07777, files[i].mode);
        assert_int_equal(st.st_mtim.tv_sec, 1000 + i);
        assert_int_equal(st.st_mtim.tv_nsec, 5);
        assert_file(scratch, path, files[i].name);
    }
    assert_int_equal(stat_of("to/dir").st_mode & 07777, 01750);
    assert_int_equal(stat_of("to/dir").st_mtim.tv_sec, 77);
    assert_int_equal(stat_of("to").st_mtim.tv_sec, 99);
    assert_int_equal(count.files, 7);
}

static void test_owners(void **state)
{
    if (geteuid() != 0) {
        print_message("skipped: only root can give files away\n");
        skip();
    }
    put_file(scratch, "from/f", "x");
    mkdirat(scratch, "from/d", 0755);
    set_owner("from/f", 1234);
    set_owner("from/d", 2345);
    set_mode("from/f", 06755);
    put_link("nowhere", "from/l");
    assert_int_equal(fchownat(scratch, "from/l", 3456, 3456, AT_SYMLINK_NOFOLLOW), 0);
    copy();
    assert_int_equal(stat_of("to/f").st_uid, 1234);
    assert_int_equal(stat_of("to/f").st_gid, 1234);
    assert_int_equal(stat_of("to/f").st_mode & 07777, 06755);
    assert_int_equal(stat_of("to/d").st_uid, 2345);
    assert_int_equal(stat_of("to/l").st_uid, 3456);
}

static void test_links(void **state)
{
    char target[32];

    mkdirat(scratch, "from/deep", 0755);
    put_file(scratch, "from/one", "shared");
    assert_int_equal(linkat(scratch, "from/one", scratch, "from/deep/two", 0), 0);
    put_link("../../../etc/passwd", "from/soft");
    copy();
    assert_int_equal(stat_of("to/one").st_ino, stat_of("to/deep/two").st_ino);
    assert_int_equal(stat_of("to/one").st_nlink, 2);
    assert_int_not_equal(stat_of("to/one").st_ino, stat_of("from/one").st_ino);
    assert_file(scratch, "to/deep/two", "shared");
    ssize_t n = readlinkat(scratch, "to/soft", target, sizeof target);
    assert_int_equal(n, strlen("../../../etc/passwd"));
    assert_memory_equal(target, "../../../etc/passwd", n);
}

static void test_holes(void **state)
{
    tn_autofd int fd = openat(scratch, "from/sparse", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

    assert_int_equal(pwrite(fd, "begin", 5, 0), 5);
    assert_int_equal(pwrite(fd, "end", 3, 64 << 20), 3);
    assert_int_equal(ftruncate(fd, 80 << 20), 0);
    copy();
    struct stat st = stat_of("to/sparse");
    assert_int_equal(st.st_size, 80 << 20);
    assert_true(st.st_blocks * 512 < 1 << 20);
    tn_autofd int copied = openat(scratch, "to/sparse", O_RDONLY | O_CLOEXEC);
    char text[3];
    assert_int_equal(pread(copied, text, 3, 64 << 20), 3);
    assert_memory_equal(text, "end", 3);
}

static void test_large_file(void **state)
{
    const size_t size = (3 << 20) + 17;
    tn_autofree char *bytes = tn_malloc(size), *read = tn_malloc(size);
    tn_autofd int fd = openat(scratch, "from/large", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

    for (size_t i = 0; i < size; i++)
        bytes[i] = (char)(i * 2654435761u >> 13);
    assert_int_equal(tn_fs_write(fd, bytes, size, NULL), 0);
    copy();
    tn_autofd int copied = openat(scratch, "to/large", O_RDONLY | O_CLOEXEC);
    assert_int_equal(pread(copied, read, size, 0), size);
    assert_memory_equal(bytes, read, size);
    assert_true(count.bytes >= size);
}

static void test_overlay_marks(void **state)
{
    tn_autofree char *from = tn_asprintf("%s/from/dir", scratch_path);
    tn_autofree char *to = tn_asprintf("%s/to/dir", scratch_path);
    char value[8];

    mkdirat(scratch, "from/dir", 0755);
    tn_autofd int dir = openat(scratch, "from/dir", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(tn_whiteout_make(scratch, "from/gone", &err), 0);
    assert_int_equal(linkat(scratch, "from/gone", scratch, "from/gone-too", 0), 0);
    assert_int_equal(tn_opaque_set(dir, &err), 0);
    assert_int_equal(setxattr(from, "user.overlay.origin", "x", 1, 0), 0);
    assert_int_equal(setxattr(from, "user.mine", "kept", 4, 0), 0);
    copy();
    struct stat st = stat_of("to/gone-too");
    assert_true(S_ISCHR(st.st_mode) && st.st_rdev == makedev(0, 0));
    assert_true(S_ISCHR(stat_of("to/gone").st_mode));
    assert_int_equal(getxattr(to, "user.overlay.opaque", value, sizeof value), 1);
    assert_int_equal(getxattr(to, "user.mine", value, sizeof value), 4);
    assert_true(getxattr(to, "user.overlay.origin", value, sizeof value) < 0);
}

static void test_other_kinds(void **state)
{
    assert_int_equal(mknodat(scratch, "from/fifo", S_IFIFO | 0620, 0), 0);
    set_mode("from/fifo", 0620);
    assert_int_equal(mknodat(scratch, "from/socket", S_IFSOCK | 0600, 0), 0);
    copy();
    assert_true(S_ISFIFO(stat_of("to/fifo").st_mode));
    assert_int_equal(stat_of("to/fifo").st_mode & 0777, 0620);
    assert_true(S_ISSOCK(stat_of("to/socket").st_mode));
}

/* Enough for both threads, over several directories. */
static void test_many(void **state)
{
    char path[64], text[32];

    for (int i = 0; i < 2000; i++) {
        snprintf(path, sizeof path, "from/d%d", i % 7);
        mkdirat(scratch, path, 0755);
        snprintf(path, sizeof path, "from/d%d/f%d", i % 7, i);
        snprintf(text, sizeof text, "file %d", i);
        put_file(scratch, path, text);
    }
    copy();
    for (int i = 0; i < 2000; i++) {
        snprintf(path, sizeof path, "to/d%d/f%d", i % 7, i);
        snprintf(text, sizeof text, "file %d", i);
        assert_file(scratch, path, text);
    }
    assert_int_equal(count.files, 2007);
}

/* Far beyond PATH_MAX and the limit of open files. */
static void test_deep(void **state)
{
    const int depth = 3000;
    int at = openat(scratch, "from", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    for (int i = 0; i < depth; i++) {
        assert_int_equal(mkdirat(at, "dddddddd", 0755), 0);
        int next = openat(at, "dddddddd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(at);
        at = next;
    }
    put_file(at, "one", "at the bottom");
    assert_int_equal(linkat(at, "one", at, "two", 0), 0);
    close(at);
    copy();
    at = openat(scratch, "to", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < depth; i++) {
        int next = openat(at, "dddddddd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(next >= 0);
        close(at);
        at = next;
    }
    assert_file(at, "one", "at the bottom");
    assert_file(at, "two", "at the bottom");
    close(at);
}

static void test_deadline(void **state)
{
    put_file(scratch, "from/f", "x");
    assert_int_equal(copy_until(1), -1);
    assert_int_equal(err.code, TN_E_TIMEOUT);
}

static void test_measure(void **state)
{
    tn_autofd int from = openat(scratch, "from", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    mkdirat(scratch, "from/d", 0755);
    put_file(scratch, "from/d/f", "content");
    assert_int_equal(tn_tree_measure(from, tn_deadline_in(10), &count, &err), 0);
    assert_int_equal(count.files, 3);
    assert_true(count.bytes >= 3 * 4096);
}

/* Names that paths cannot reach any more, and a directory that is only a link. */
static void test_measure_what_hides(void **state)
{
    tn_autofd int from = openat(scratch, "from", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int at = openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    static const char name[] = "a-long-name-that-fills-a-path-soon-when-it-is-nested-many-times";

    assert_int_equal(symlinkat("/usr", from, "link"), 0);
    for (int depth = 0; depth < 100; depth++) {
        mkdirat(at, name, 0755);
        int next = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(at);
        at = next;
    }
    static char large[1 << 20];
    memset(large, 'x', sizeof large);
    tn_autofd int file = openat(at, "f", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(write(file, large, sizeof large), sizeof large);
    assert_int_equal(tn_tree_measure(from, tn_deadline_in(10), &count, &err), 0);
    assert_int_equal(count.files, 1 + 1 + 100 + 1);
    assert_true(count.bytes >= sizeof large);
    for (int depth = 0; depth < 200; depth++) {
        mkdirat(at, "d", 0755);
        int next = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(at);
        at = next;
    }
    close(at);
    assert_int_equal(tn_tree_measure(from, tn_deadline_in(10), &count, &err), 0);
    assert_true(count.bytes >= UINT64_C(1) << 40);
}

/* Piece by piece, each after its deadline at once; names of one inode count once. */
static void test_measure_in_pieces(void **state)
{
    tn_autofd int from = openat(scratch, "from", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    static char large[1 << 20];
    struct tn_tree_count whole;
    char name[32];
    int pieces = 0, r = -1;

    mkdirat(from, "d", 0755);
    for (int i = 0; i < 600; i++) {
        snprintf(name, sizeof name, "d/%d", i);
        close(openat(from, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    }
    memset(large, 'x', sizeof large);
    tn_autofd int file = openat(from, "large", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(write(file, large, sizeof large), sizeof large);
    assert_int_equal(linkat(from, "large", from, "again", 0), 0);
    assert_int_equal(tn_tree_measure(from, tn_deadline_in(10), &whole, &err), 0);
    assert_int_equal(whole.files, 604);
    assert_true(whole.bytes < 601 * 4096 + (3 << 20));

    struct tn_tree_walk *w = tn_tree_walk_new(from, &err);
    assert_true(tn_tree_walk_is_of(w, from));
    assert_false(tn_tree_walk_is_of(w, scratch));
    for (; r < 0; pieces++) {
        r = tn_tree_walk_on(w, tn_now() + 100000, &count, &err);
        assert_true(r == 0 || err.code == TN_E_TIMEOUT);
        /* Where it is under way it is not lost. */
        renameat(from, pieces % 2 ? "e" : "d", from, pieces % 2 ? "d" : "e");
    }
    assert_true(pieces > 2);
    assert_int_equal(count.files, whole.files);
    assert_int_equal(count.bytes, whole.bytes);
    tn_tree_walk_free(w);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, scratch_close)
    const struct CMUnitTest tests[] = {
        TEST(test_modes_and_times),
        TEST(test_owners),
        TEST(test_links),
        TEST(test_holes),
        TEST(test_large_file),
        TEST(test_overlay_marks),
        TEST(test_other_kinds),
        TEST(test_many),
        TEST(test_deep),
        TEST(test_deadline),
        TEST(test_measure),
        TEST(test_measure_what_hides),
        TEST(test_measure_in_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
