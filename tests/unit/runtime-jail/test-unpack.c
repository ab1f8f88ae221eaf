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
#include "runtime/jail/unpack.h"
#include "tar-maker.h"

static struct tn_buf tar;
static struct tn_error err;

static int set_up(void **state)
{
    tn_buf_init(&tar, 16u << 20);
    err = (struct tn_error){0};
    return scratch_open(state) || mkdirat(scratch, "root", 0755) || mkdirat(scratch, "out", 0755);
}

static int tear_down(void **state)
{
    tn_buf_done(&tar);
    return scratch_close(state);
}

static int unpack_limited(bool layer, uint64_t bytes, uint64_t entries)
{
    struct made_source source;
    tn_autofd int root = openat(scratch, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    made_init(&source, &tar);
    jail_autotar struct jail_tar *t = jail_tar_new(&source.source, NULL, &err);
    if (!t)
        return -1;
    struct jail_unpack how = {.root = root,
                              .layer = layer,
                              .bytes = bytes,
                              .entries = entries,
                              .deadline = tn_deadline_in(10)};
    return jail_unpack(t, &how, &err);
}

static int unpack(bool layer)
{
    tar_end(&tar);
    return unpack_limited(layer, 1 << 20, 1000);
}

static void test_ordinary(void **state)
{
    struct stat st, other;

    tar_add(&tar, (struct made_entry){.name = "./", .type = '5', .mode = 0755});
    tar_add(&tar, (struct made_entry){.name = "./usr/", .type = '5', .mode = 0755});
    tar_add(&tar, (struct made_entry){.name = "usr/shut/", .type = '5', .mode = 0111});
    tar_text(&tar, "usr/shut/file", "inside");
    tar_text(&tar, "not/announced/file", "hello");
    tar_add(&tar, (struct made_entry){.name = "bin", .type = '2', .link = "usr"});
    tar_text(&tar, "bin/tool", "through a link");
    tar_add(&tar, (struct made_entry){.name = "hard", .type = '1', .link = "./usr/tool"});
    tar_text(&tar, "/absolute", "kept inside");
    tar_add(&tar, (struct made_entry){.name = "suid", .mode = 04755});
    assert_int_equal(unpack(false), 0);
    assert_file(scratch, "root/not/announced/file", "hello");
    assert_file(scratch, "root/usr/tool", "through a link");
    assert_file(scratch, "root/absolute", "kept inside");
    assert_int_equal(fstatat(scratch, "root/hard", &st, 0), 0);
    assert_int_equal(fstatat(scratch, "root/usr/tool", &other, 0), 0);
    assert_int_equal(st.st_ino, other.st_ino);
    assert_int_equal(st.st_mtime, 1000000000);
    assert_int_equal(fstatat(scratch, "root/usr/shut", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0111);
    assert_int_equal(st.st_mtime, 1000000000);
    assert_int_equal(fstatat(scratch, "root/suid", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 04755);
}

static void test_later_entries_replace(void **state)
{
    struct stat st;

    tar_text(&tar, "a", "old");
    tar_text(&tar, "a", "new");
    tar_text(&tar, "d/inner", "x");
    tar_text(&tar, "d", "a file now");
    tar_add(&tar, (struct made_entry){.name = "e", .type = '5', .mode = 0700});
    tar_add(&tar, (struct made_entry){.name = "e", .type = '5', .mode = 0750});
    assert_int_equal(unpack(false), 0);
    assert_file(scratch, "root/a", "new");
    assert_file(scratch, "root/d", "a file now");
    assert_int_equal(fstatat(scratch, "root/e", &st, 0), 0);
    assert_int_equal(st.st_mode & 0777, 0750);
}

static void test_owners(void **state)
{
    struct stat st;

    tar_add(&tar, (struct made_entry){.name = "f", .uid = 123, .gid = 456});
    assert_int_equal(unpack(false), 0);
    assert_int_equal(fstatat(scratch, "root/f", &st, 0), 0);
    assert_int_equal(st.st_uid, geteuid() == 0 ? 123 : geteuid());
}

/* Nothing of it may appear in out/, whatever unpack says about the archive. */
static void test_no_way_out(void **state)
{
    tn_autofree char *out = tn_asprintf("%s/out", scratch_path);
    tn_autofree char *victim = tn_asprintf("%s/out/victim", scratch_path);
    const struct {
        struct made_entry first;
        const char *then;
    } cases[] = {
        {{.name = "../out/evil"}, NULL},
        {{.name = "x/../../out/evil"}, NULL},
        {{.name = out, .type = '5'}, NULL},
        {{.name = "way", .type = '2', .link = out}, "way/evil"},
        {{.name = "way", .type = '2', .link = "../out"}, "way/evil"},
        {{.name = "way", .type = '2', .link = "../../../../../../../"}, "way/tmp/evil-tendon"},
        {{.name = "way", .type = '2', .link = victim}, "way"},
        {{.name = "way", .type = '1', .link = "../out/victim"}, "way"},
        {{.name = "way", .type = '1', .link = victim}, "way"},
    };

    put_file(scratch, "out/victim", "untouched");
    for (size_t i = 0; i < TN_COUNT(cases); i++) {
        tn_buf_reset(&tar);
        tar_add(&tar, cases[i].first);
        if (cases[i].then)
            tar_text(&tar, cases[i].then, "overwritten");
        unpack(false);
        assert_false(exists(scratch, "out/evil"));
        assert_file(scratch, "out/victim", "untouched");
        assert_int_not_equal(access("/tmp/evil-tendon", F_OK), 0);
    }
}

static void test_dots_are_refused(void **state)
{
    tar_text(&tar, "a/../../x", "");
    assert_int_equal(unpack(false), -1);
    assert_int_equal(err.code, TN_E_INVALID);
    assert_non_null(strstr(err.text, "leads out"));
}

static void test_a_link_is_not_written_through(void **state)
{
    tar_text(&tar, "target", "first");
    tar_add(&tar, (struct made_entry){.name = "link", .type = '2', .link = "target"});
    tar_text(&tar, "link", "second");
    assert_int_equal(unpack(false), 0);
    assert_file(scratch, "root/target", "first");
    assert_file(scratch, "root/link", "second");
}

static void test_devices_are_left_out(void **state)
{
    tar_add(&tar, (struct made_entry){.name = "null", .type = '3'});
    tar_add(&tar, (struct made_entry){.name = "sda", .type = '4'});
    assert_int_equal(unpack(false), 0);
    assert_false(exists(scratch, "root/null"));
    assert_false(exists(scratch, "root/sda"));
}

/* What a name of an archive can be. */
static const struct made_entry kinds[] = {
    {.type = '0', .content = "evil", .length = 4},
    {.type = '5', .mode = 0755},
    {.type = '6'},                         /* a FIFO: to open it is to wait */
    {.type = '1', .link = "base"},         /* another name of a file, ... */
    {.type = '1', .link = "pipe"},         /* ... of a FIFO ... */
    {.type = '1', .link = "dangling"},     /* ... and of a link */
    {.type = '2', .link = "pipe"},         /* links to one, ... */
    {.type = '2', .link = "base"},         /* ... to a file, ... */
    {.type = '2', .link = "sub"},          /* ... to a directory, ... */
    {.type = '2', .link = "../../../out"}, /* ... out of it, ... */
    {.type = '2', .link = "x"},            /* ... and to itself */
    {.type = '3'},
    {.type = '4'},
};

static void add_kind(const char *name, size_t kind)
{
    struct made_entry entry = kinds[kind];

    entry.name = name;
    tar_add(&tar, entry);
}

static void clear_root(void)
{
    assert_int_equal(tn_fs_remove_tree(scratch, "root", 0, &err), 0);
    assert_int_equal(mkdirat(scratch, "root", 0755), 0);
    err = (struct tn_error){0};
}

/* Each kind after each other under one name, and then below it: no order of them makes it wait,
 * write through a name, or reach anything else. */
static void test_every_kind_at_every_place(void **state)
{
    static const char *const places[] = {"x", "x/y", "sub/x"};
    const size_t n = TN_COUNT(kinds), last = 3; /* a file, a directory, a FIFO */

    alarm(120); /* the end of a test that waits for ever */
    put_file(scratch, "out/victim", "untouched");
    for (size_t i = 0; i < n * n * last * TN_COUNT(places); i++) {
        clear_root();
        tn_buf_reset(&tar);
        tar_text(&tar, "base", "kept");
        tar_add(&tar, (struct made_entry){.name = "pipe", .type = '6'});
        tar_add(&tar, (struct made_entry){.name = "sub", .type = '5', .mode = 0755});
        tar_add(&tar, (struct made_entry){.name = "dangling", .type = '2', .link = "../out/evil"});
        add_kind("x", i % n);
        add_kind("x", i / n % n);
        add_kind(places[i / n / n / last], i / n / n % last);
        if (unpack(i % 2) < 0)
            assert_true(err.text[0]);
        assert_file(scratch, "root/base", "kept");
        assert_file(scratch, "out/victim", "untouched");
        assert_int_equal(unlinkat(scratch, "out/evil", 0), -1);
        assert_int_equal(unlinkat(scratch, "out/y", 0), -1);
    }
    alarm(0);
}

static void test_limits(void **state)
{
    static const char much[4000];

    tar_add(&tar, (struct made_entry){.name = "f", .content = much, .length = sizeof much});
    tar_end(&tar);
    assert_int_equal(unpack_limited(false, 3999, 10), -1);
    assert_int_equal(err.code, TN_E_TOO_LARGE);
    tn_buf_reset(&tar);
    for (int i = 0; i < 4; i++)
        tar_text(&tar, "f", "");
    tar_end(&tar);
    assert_int_equal(unpack_limited(false, 100, 3), -1);
    assert_int_equal(err.code, TN_E_TOO_LARGE);
}

static void test_whiteouts(void **state)
{
    tn_autofree char *dir = tn_asprintf("%s/root/dir", scratch_path);
    struct stat st;
    char value;

    tar_text(&tar, "gone", "of this layer");
    tar_text(&tar, ".wh.gone", "");
    tar_text(&tar, "dir/.wh..wh..opq", "");
    tar_text(&tar, "dir/kept", "x");
    tar_text(&tar, "dir/.wh..wh.plnk", "");
    assert_int_equal(unpack(true), 0);
    assert_int_equal(fstatat(scratch, "root/gone", &st, AT_SYMLINK_NOFOLLOW), 0);
    assert_true(S_ISCHR(st.st_mode) && st.st_rdev == makedev(0, 0));
    assert_int_equal(getxattr(dir, "user.overlay.opaque", &value, 1), 1);
    assert_int_equal(value, 'y');
    assert_file(scratch, "root/dir/kept", "x");
    assert_false(exists(scratch, "root/dir/.wh..wh.plnk"));
}

static void test_whiteout_names(void **state)
{
    static const char *const bad[] = {".wh.", ".wh..", ".wh..."};

    for (size_t i = 0; i < TN_COUNT(bad); i++) {
        tn_buf_reset(&tar);
        tar_text(&tar, bad[i], "");
        assert_int_equal(unpack(true), -1);
    }
    tn_buf_reset(&tar);
    tar_text(&tar, ".wh.name", "in a root it is a file");
    assert_int_equal(unpack(false), 0);
    assert_file(scratch, "root/.wh.name", "in a root it is a file");
}

static void test_garbage(void **state)
{
    tn_buf_puts(&tar, "this is no archive at all");
    assert_int_equal(unpack_limited(false, 1000, 1000), -1);
    tn_buf_reset(&tar);
    assert_int_equal(unpack_limited(false, 1000, 1000), -1);
    tn_buf_reset(&tar);
    tar_text(&tar, "cut", "in the middle of its content, which is longer than a block");
    tar.len = 530;
    assert_int_equal(unpack_limited(false, 1000, 1000), -1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_ordinary),
        TEST(test_later_entries_replace),
        TEST(test_owners),
        TEST(test_no_way_out),
        TEST(test_dots_are_refused),
        TEST(test_a_link_is_not_written_through),
        TEST(test_devices_are_left_out),
        TEST(test_every_kind_at_every_place),
        TEST(test_limits),
        TEST(test_whiteouts),
        TEST(test_whiteout_names),
        TEST(test_garbage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
