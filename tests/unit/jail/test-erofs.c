#include <dirent.h>
#include <linux/limits.h>
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
#include "jail/erofs.h"
#include "jail/whiteout.h"

static struct tn_error err;
static struct tn_tree_count count;

static int set_up(void **state)
{
    err = (struct tn_error){0};
    return scratch_open(state) || mkdirat(scratch, "from", 0755);
}

static int open_dir(int dir, const char *name)
{
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    assert_true(fd >= 0);
    return fd;
}

static int write_until(int64_t deadline)
{
    tn_autofd int from = open_dir(scratch, "from");
    tn_autofd int image = openat(scratch, "image", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(image >= 0);
    return tn_erofs_write(from, image, deadline, &count, &err);
}

/* A descriptor of the root of what was written; ends the test where nobody can mount it. */
static int write_and_mount(void)
{
    tn_autofd int here = open_dir(scratch, "from");

    if (write_until(tn_deadline_in(60)) < 0)
        fail_msg("%s", err.text);
    if (!tn_erofs_works(here)) {
        print_message("skipped: this user cannot mount EROFS images, or this kernel\n");
        skip();
    }
    tn_autofd int image = openat(scratch, "image", O_PATH | O_CLOEXEC);
    tn_autofd int mount = tn_erofs_mount(image, &err);
    if (mount < 0)
        fail_msg("%s", err.text);
    return open_dir(mount, ".");
}

/* --- comparing ------------------------------------------------------------------------------ */

static int skip_dots(const struct dirent *e)
{
    return strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* "name=value" for each, in order; those of an upper directory alone are left out. */
static void list_xattrs(int fd, struct tn_buf *out)
{
    static char names[XATTR_LIST_MAX], value[XATTR_SIZE_MAX];
    char *sorted[256];
    size_t n = 0;
    ssize_t length = flistxattr(fd, names, sizeof names);

    assert_true(length >= 0);
    for (char *name = names; name < names + length; name += strlen(name) + 1)
        if (!strstr(name, ".overlay.origin"))
            sorted[n++] = name;
    qsort(sorted, n, sizeof *sorted, by_text);
    for (size_t i = 0; i < n; i++) {
        ssize_t size = fgetxattr(fd, sorted[i], value, sizeof value);
        assert_true(size >= 0);
        tn_buf_printf(out, "%s=", sorted[i]);
        tn_buf_add(out, value, (size_t)size);
        tn_buf_putc(out, '\n');
    }
    assert_true(tn_buf_ok(out));
}

static void compare_xattrs(int a, int b)
{
    tn_autobuf struct tn_buf left = TN_BUF_INIT(1 << 20), right = TN_BUF_INIT(1 << 20);

    list_xattrs(a, &left);
    list_xattrs(b, &right);
    assert_int_equal(left.len, right.len);
    assert_memory_equal(tn_buf_str(&left), tn_buf_str(&right), left.len);
}

static void compare_content(int a, int b)
{
    static char left[1 << 16], right[1 << 16];
    ssize_t n;

    do {
        n = read(a, left, sizeof left);
        assert_true(n >= 0);
        ssize_t m = 0;
        for (ssize_t more = 1; m < n && more > 0; m += more)
            more = read(b, right + m, (size_t)(n - m));
        assert_int_equal(m, n);
        assert_memory_equal(left, right, (size_t)n);
    } while (n > 0);
    assert_int_equal(read(b, right, 1), 0);
}

static void compare_stat(const struct stat *a, const struct stat *b)
{
    assert_int_equal(a->st_mode, b->st_mode);
    assert_int_equal(a->st_uid, b->st_uid);
    assert_int_equal(a->st_gid, b->st_gid);
    assert_int_equal(a->st_mtim.tv_sec, b->st_mtim.tv_sec);
    assert_int_equal(a->st_mtim.tv_nsec, b->st_mtim.tv_nsec);
    assert_int_equal(a->st_nlink, b->st_nlink);
    assert_int_equal(a->st_rdev, b->st_rdev);
    if (!S_ISDIR(a->st_mode))
        assert_int_equal(a->st_size, b->st_size);
}

static void compare_trees(int a, int b);

static void compare_entries(int a, int b, const char *name)
{
    char left[PATH_MAX], right[PATH_MAX];
    struct stat first, second;

    assert_int_equal(fstatat(a, name, &first, AT_SYMLINK_NOFOLLOW), 0);
    if (fstatat(b, name, &second, AT_SYMLINK_NOFOLLOW) < 0)
        fail_msg("%s is missing", name);
    compare_stat(&first, &second);
    if (S_ISLNK(first.st_mode)) {
        ssize_t n = readlinkat(a, name, left, sizeof left);
        assert_int_equal(readlinkat(b, name, right, sizeof right), n);
        assert_memory_equal(left, right, (size_t)n);
    } else if (S_ISDIR(first.st_mode)) {
        tn_autofd int x = open_dir(a, name), y = open_dir(b, name);
        compare_trees(x, y);
    } else if (S_ISREG(first.st_mode)) {
        tn_autofd int x = openat(a, name, O_RDONLY | O_CLOEXEC);
        tn_autofd int y = openat(b, name, O_RDONLY | O_CLOEXEC);
        compare_xattrs(x, y);
        compare_content(x, y);
    }
}

static void compare_trees(int a, int b)
{
    struct dirent **left, **right;
    int n = scandirat(a, ".", &left, skip_dots, by_name);
    int m = scandirat(b, ".", &right, skip_dots, by_name);

    assert_int_equal(n, m);
    compare_xattrs(a, b);
    for (int i = 0; i < n; i++) {
        assert_string_equal(left[i]->d_name, right[i]->d_name);
        assert_int_equal(left[i]->d_type, right[i]->d_type);
        compare_entries(a, b, left[i]->d_name);
        free(left[i]);
        free(right[i]);
    }
    free(left);
    free(right);
}

/* Writes what is in "from", and compares the two. */
static void check(void)
{
    struct stat first, second;
    tn_autofd int root = write_and_mount();
    tn_autofd int from = open_dir(scratch, "from");

    assert_int_equal(fstat(from, &first), 0);
    assert_int_equal(fstat(root, &second), 0);
    compare_stat(&first, &second);
    compare_trees(from, root);
}

/* --- making --------------------------------------------------------------------------------- */

static void set_time(const char *path, time_t when, long nanoseconds)
{
    struct timespec times[2] = {{.tv_sec = when}, {.tv_sec = when, .tv_nsec = nanoseconds}};
    assert_int_equal(utimensat(scratch, path, times, AT_SYMLINK_NOFOLLOW), 0);
}

static void put_bytes(const char *path, size_t n)
{
    tn_autofree char *bytes = tn_malloc(n + 1);
    tn_autofd int fd = openat(scratch, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

    for (size_t i = 0; i < n; i++)
        bytes[i] = (char)((i + n) * 2654435761u >> 13);
    assert_int_equal(tn_fs_write(fd, bytes, n, NULL), 0);
}

static void set_xattr(const char *path, const char *name, const void *value, size_t n)
{
    tn_autofree char *whole = tn_asprintf("%s/%s", scratch_path, path);

    if (lsetxattr(whole, name, value, n, 0) < 0)
        fail_msg("%s: %s: %s", path, name, strerror(errno));
}

static void test_empty(void **state)
{
    check();
    assert_int_equal(count.files, 0);
}

static void test_modes_owners_and_times(void **state)
{
    static const mode_t modes[] = {0400, 0644, 0755, 0777, 04711, 02755, 01777, 07777};
    char path[32];

    for (size_t i = 0; i < TN_COUNT(modes); i++) {
        snprintf(path, sizeof path, "from/f%zu", i);
        put_file(scratch, path, path);
        set_mode(path, modes[i]);
        if (geteuid() == 0)
            set_owner(path, (uid_t)(i * 65537));
        set_mode(path, modes[i]);
        set_time(path, (time_t)i * 1000000000 - 1000, 999999999 - (long)i);
        snprintf(path, sizeof path, "from/d%zu", i);
        mkdirat(scratch, path, 0755);
        set_mode(path, modes[i] | 0500);
        set_time(path, (time_t)i, 1);
    }
    if (geteuid() == 0)
        set_mode("from/f0", 0);
    set_time("from", 99, 123456789);
    check();
    assert_int_equal(count.files, 2 * TN_COUNT(modes));
}

/* Around where content no longer fits beside its inode, and around blocks and buffers. */
static void test_sizes(void **state)
{
    static const size_t sizes[] = {0,     1,      31,     32,     63,      64,
                                   1000,  4031,   4032,   4033,   4095,    4096,
                                   4097,  8191,   8192,   8193,   65535,   65536,
                                   65537, 100000, 131072, 131073, 1 << 20, (3 << 20) + 17};
    char path[64];

    for (size_t i = 0; i < TN_COUNT(sizes); i++) {
        snprintf(path, sizeof path, "from/%zu", sizes[i]);
        put_bytes(path, sizes[i]);
    }
    for (size_t i = 0; i < 300; i++) { /* pieces end everywhere */
        snprintf(path, sizeof path, "from/more-%zu", i);
        put_bytes(path, i * 37 % 4300);
    }
    check();
    assert_true(count.bytes >= 4 << 20);
}

static void test_names(void **state)
{
    char path[300] = "from/";

    for (int c = 1; c < 256; c++) {
        if (c == '/' || c == '.')
            continue;
        char name[] = {'f', 'r', 'o', 'm', '/', (char)c, '\0'};
        put_file(scratch, name, "x");
    }
    for (size_t n = 1; n <= 255; n++) {
        memset(path + 5, 'n', n);
        path[5 + n] = '\0';
        put_file(scratch, path, "x");
    }
    put_file(scratch, "from/...", "x");
    put_file(scratch, "from/..x", "x");
    put_file(scratch, "from/.-", "x");
    mkdirat(scratch, "from/--", 0755);
    put_file(scratch, "from/--/!", "x");
    check();
}

/* Few files, because creating one takes its time. */
static void test_many_entries(void **state)
{
    char path[64], first[64];

    mkdirat(scratch, "from/many", 0755);
    for (int i = 0; i < 10000; i++) {
        snprintf(path, sizeof path, "from/many/%*d", i % 40 + 1, i);
        snprintf(first, sizeof first, "from/many/%*d", i % 40 + 1, i % 40);
        if (i < 40)
            put_file(scratch, path, path);
        else
            assert_int_equal(linkat(scratch, first, scratch, path, 0), 0);
    }
    check();
    assert_int_equal(count.files, 10001);
    tn_autofd int root = write_and_mount();
    struct stat st;
    assert_int_equal(fstatat(root, "many/none", &st, 0), -1);
    assert_int_equal(errno, ENOENT);
}

static void test_links(void **state)
{
    char target[PATH_MAX];
    struct stat one, two;

    mkdirat(scratch, "from/deep", 0755);
    put_file(scratch, "from/one", "shared");
    for (int i = 0; i < 100; i++) {
        snprintf(target, sizeof target, "from/deep/%d", i);
        assert_int_equal(linkat(scratch, "from/one", scratch, target, 0), 0);
    }
    for (size_t n = 1; n < PATH_MAX; n += 91) {
        char path[32];
        memset(target, 't', n);
        target[n] = '\0';
        snprintf(path, sizeof path, "from/soft%zu", n);
        put_link(target, path);
    }
    put_link("soft", "from/soft"); /* a circle */
    mknodat(scratch, "from/pipe", S_IFIFO | 0600, 0);
    assert_int_equal(linkat(scratch, "from/pipe", scratch, "from/pipe-too", 0), 0);
    check();
    tn_autofd int root = write_and_mount();
    assert_int_equal(fstatat(root, "one", &one, 0), 0);
    assert_int_equal(fstatat(root, "deep/77", &two, 0), 0);
    assert_int_equal(one.st_ino, two.st_ino);
    assert_int_equal(one.st_nlink, 101);
}

static void test_other_kinds(void **state)
{
    struct stat st;

    mknodat(scratch, "from/fifo", S_IFIFO | 0620, 0);
    mknodat(scratch, "from/socket", S_IFSOCK | 0600, 0);
    assert_int_equal(tn_whiteout_make(scratch, "from/gone", &err), 0);
    assert_int_equal(linkat(scratch, "from/gone", scratch, "from/gone-too", 0), 0);
    check();
    assert_int_equal(mknodat(scratch, "from/null", S_IFCHR | 0666, makedev(1, 3)), 0);
    tn_autofd int root = write_and_mount();
    assert_int_equal(fstatat(root, "null", &st, 0), -1); /* as with tn_tree_copy */
    assert_int_equal(fstatat(root, "gone-too", &st, 0), 0);
    assert_true(S_ISCHR(st.st_mode) && st.st_rdev == makedev(0, 0));
}

static void test_attributes(void **state)
{
    static const unsigned char acl[] =
        "\2\0\0\0\1\0\6\0\377\377\377\377\2\0\4\0\322\4\0\0\4\0\4\0\377\377\377\377"
        "\20\0\4\0\377\377\377\377\40\0\4\0\377\377\377\377";
    char value[4096], name[64], seen[8];

    if (geteuid() != 0) {
        print_message("skipped: only root can set all kinds of attributes\n");
        skip();
    }
    put_file(scratch, "from/f", "content");
    put_file(scratch, "from/small", "");
    mkdirat(scratch, "from/d", 0755);
    set_xattr("from/f", "user.empty", "", 0);
    set_xattr("from/f", "user.one", "1", 1);
    set_xattr("from/f", "user.four", "1234", 4);
    set_xattr("from/f", "security.x", "label", 5);
    set_xattr("from/f", "trusted.x", "t", 1);
    set_xattr("from/f", "system.posix_acl_access", acl, sizeof acl - 1);
    set_xattr("from/d", "system.posix_acl_default", acl, sizeof acl - 1);
    set_xattr("from/d", "trusted.overlay.opaque", "y", 1);
    set_xattr("from/d", "trusted.overlay.origin", "x", 1);
    set_xattr("from", "user.of.the.root", "r", 1);
    memset(value, 'v', sizeof value);
    for (int i = 0; i < 30; i++) {
        snprintf(name, sizeof name, "user.%d", i);
        set_xattr("from/small", name, value, (size_t)i * 3);
    }
    check();
    tn_autofd int root = write_and_mount();
    tn_autofd int dir = open_dir(root, "d");
    assert_int_equal(fgetxattr(dir, "trusted.overlay.opaque", seen, sizeof seen), 1);
    assert_true(fgetxattr(dir, "trusted.overlay.origin", seen, sizeof seen) < 0);
}

/* Attributes that do not fit into a block with their inode; where the file system has them. */
static void test_large_attributes(void **state)
{
    char path[64];
    static char value[3000];

    snprintf(path, sizeof path, "%s/from/f", scratch_path);
    put_file(scratch, "from/f", "content");
    memset(value, 'v', sizeof value);
    if (setxattr(path, "user.large", value, sizeof value, 0) < 0) {
        print_message("skipped: no large attributes here: %s\n", strerror(errno));
        skip();
    }
    for (size_t i = 0; i < 20; i++) {
        char name[32];
        snprintf(name, sizeof name, "from/f%zu", i);
        put_bytes(name, i * 200);
        set_xattr(name, "user.large", value, 3000 - i * 17);
    }
    check();
}

static void test_small_holes(void **state)
{
    tn_autofd int fd = openat(scratch, "from/sparse", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    struct stat st;

    assert_int_equal(pwrite(fd, "begin", 5, 70000), 5);
    assert_int_equal(pwrite(fd, "end", 3, 500000), 3);
    assert_int_equal(ftruncate(fd, 1 << 20), 0);
    check();
    assert_int_equal(fstatat(scratch, "image", &st, 0), 0);
    assert_true(st.st_blocks * 512 < 512 << 10);
}

static void test_not_worth_it(void **state)
{
    tn_autofd int sparse = openat(scratch, "from/sparse", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

    assert_int_equal(ftruncate(sparse, INT64_C(1) << 40), 0);
    assert_int_equal(write_until(tn_deadline_in(60)), -1);
    assert_int_equal(err.code, TN_E_UNSUPPORTED);
    assert_int_equal(ftruncate(sparse, 0), 0);
    for (int i = 0; i < 5; i++) {
        char path[32];
        snprintf(path, sizeof path, "from/large%d", i);
        put_bytes(path, 14 << 20);
    }
    assert_int_equal(write_until(tn_deadline_in(60)), -1);
    assert_int_equal(err.code, TN_E_UNSUPPORTED);
}

/* Far beyond PATH_MAX and the limit of open files. */
static void test_deep(void **state)
{
    const int depth = 1500;
    int at = open_dir(scratch, "from");

    for (int i = 0; i < depth; i++) {
        assert_int_equal(mkdirat(at, "dddddddd", 0755), 0);
        int next = open_dir(at, "dddddddd");
        close(at);
        at = next;
    }
    put_file(at, "one", "at the bottom");
    assert_int_equal(linkat(at, "one", at, "two", 0), 0);
    close(at);
    at = write_and_mount();
    for (int i = 0; i < depth; i++) {
        int next = open_dir(at, "dddddddd");
        close(at);
        at = next;
    }
    assert_file(at, "one", "at the bottom");
    assert_file(at, "two", "at the bottom");
    close(at);
}

/* Trees of all shapes; the same ones each time. */
static void test_any_tree(void **state)
{
    uint32_t seed = 1;
    char path[1024] = "from";

    for (int i = 0; i < 1000; i++) {
        char name[1400];
        seed = seed * 1664525 + 1013904223;
        uint32_t r = seed >> 8;
        if (r % 11 == 0 || strlen(path) > 900) {
            char *slash = strrchr(path, '/');
            if (slash)
                *slash = '\0';
            continue;
        }
        snprintf(name, sizeof name, "%s/%0*x", path, (int)(r % 60 + 1), i);
        if (r % 7 == 0) {
            assert_int_equal(mkdirat(scratch, name, 0755), 0);
            snprintf(path, sizeof path, "%s", name);
        } else if (r % 7 == 1) {
            put_link(name, name);
        } else {
            put_bytes(name, r % 5 ? r % 300 : r % 20000);
        }
    }
    check();
}

static void test_deadline(void **state)
{
    put_file(scratch, "from/f", "x");
    assert_int_equal(write_until(1), -1);
    assert_int_equal(err.code, TN_E_TIMEOUT);
}

/* Nothing of a probe is left, wherever it is made. */
static void test_works_leaves_nothing(void **state)
{
    tn_autofd int from = open_dir(scratch, "from");
    struct dirent **names;

    tn_erofs_works(from);
    assert_int_equal(scandirat(from, ".", &names, skip_dots, by_name), 0);
    free(names);
    tn_autofd int proc = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_false(tn_erofs_works(proc));
}

static void test_no_image(void **state)
{
    put_file(scratch, "junk", "this is no image");
    tn_autofd int junk = openat(scratch, "junk", O_RDONLY | O_CLOEXEC);
    assert_int_equal(tn_erofs_mount(junk, &err), -1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, scratch_close)
    const struct CMUnitTest tests[] = {
        TEST(test_empty),
        TEST(test_modes_owners_and_times),
        TEST(test_sizes),
        TEST(test_names),
        TEST(test_many_entries),
        TEST(test_links),
        TEST(test_other_kinds),
        TEST(test_attributes),
        TEST(test_large_attributes),
        TEST(test_small_holes),
        TEST(test_not_worth_it),
        TEST(test_deep),
        TEST(test_any_tree),
        TEST(test_deadline),
        TEST(test_works_leaves_nothing),
        TEST(test_no_image),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
