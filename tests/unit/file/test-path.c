/* Paths from peers, and where transfers may go. */
#include "scratch.h"

static void assert_normal(const char *path, const char *want)
{
    tn_autofree char *got = tn_path_normal(tn_slice(path), NULL);
    assert_string_equal(got, want);
}

static void normalises(void **state)
{
    assert_normal("/a/b", "/a/b");
    assert_normal("//a///b/./c/", "/a/b/c");
    assert_normal("/", "/");
    assert_normal("///", "/");
    assert_normal("", ".");
    assert_normal("./x", "x");
    assert_normal("/a/../b", "/a/../b");
    assert_normal("..", "..");
    assert_normal("/./.", "/");
    assert_normal("a.b/.c/...", "a.b/.c/...");
}

static void resolves(void **state)
{
    static const struct {
        const char *path, *cwd, *want;
    } rows[] = {
        {"x", "/w", "/w/x"},     {"/x", "/w", "/x"},        {"", "/w", "/w"},
        {"./x/", "/w/", "/w/x"}, {"../x", "/w", "/w/../x"}, {"x", "/", "/x"},
    };

    for (size_t i = 0; i < TN_COUNT(rows); i++) {
        tn_autofree char *got = tn_path_resolve(tn_slice(rows[i].path), rows[i].cwd, NULL);
        assert_string_equal(got, rows[i].want);
    }
}

static void refuses(void **state)
{
    struct tn_error err;
    tn_autofree char *huge = tn_malloc(5001);

    memset(huge, 'x', 5000);
    huge[5000] = '\0';
    assert_null(tn_path_resolve(tn_slicen("a\0b", 3), "/", &err));
    assert_int_equal(err.code, TN_E_INVALID);
    assert_null(tn_path_normal(tn_slice(huge), &err));
    assert_int_equal(err.sys, ENAMETOOLONG);
}

static void words_errors_like_python(void **state)
{
    tn_autofree char *got = tn_file_os_error(ENOENT, "/x");
    assert_string_equal(got, "[Errno 2] No such file or directory: '/x'");
}

/* --- destinations -------------------------------------------------------------------------- */

static int open_destination(const struct scratch *s, const char *name, struct tn_error *err)
{
    tn_autofree char *path = in_scratch(s, name);
    return tn_file_open_destination(path, scratch_nobody(), err);
}

static void makes_destinations_for_the_user(void **state)
{
    needs_root();
    struct scratch *s = *state;
    struct tn_error err;
    tn_autofd int fd = open_destination(s, "a//b/./c/", &err);

    assert_true(fd >= 0);
    assert_int_equal(stat_file(s, "a").st_uid, 4242);
    assert_int_equal(stat_file(s, "a/b").st_uid, 4242);
    assert_int_equal(stat_file(s, "a/b/c").st_gid, 4242);
    tn_autofd int again = open_destination(s, "a/b/../b/c", &err);
    struct stat st, st2;
    fstat(fd, &st);
    fstat(again, &st2);
    assert_int_equal(st.st_ino, st2.st_ino);
    put_text(s, "file", "");
    assert_int_equal(open_destination(s, "file/x", &err), -1);
    assert_int_equal(err.sys, ENOTDIR);
}

static void follows_only_links_it_may_trust(void **state)
{
    needs_root();
    struct scratch *s = *state;
    struct tn_error err;
    tn_autofree char *link = in_scratch(s, "link");
    tn_autofree char *roots = in_scratch(s, "roots");
    tn_autofree char *users = in_scratch(s, "users");

    mkdir(roots, 0755);
    mkdir(users, 0755);
    assert_int_equal(chown(users, 4242, 4242), 0);

    /* root's link may go anywhere */
    assert_int_equal(symlink("users", link), 0);
    tn_autofd int a = open_destination(s, "link/new", &err);
    assert_true(a >= 0);
    assert_int_equal(stat_file(s, "users/new").st_uid, 4242);

    /* the user's link to what is his */
    assert_int_equal(lchown(link, 4242, 4242), 0);
    tn_autofd int b = open_destination(s, "link/newer", &err);
    assert_true(b >= 0);

    /* the user's link to what is not */
    unlink(link);
    assert_int_equal(symlink(roots, link), 0);
    assert_int_equal(lchown(link, 4242, 4242), 0);
    assert_int_equal(open_destination(s, "link/x", &err), -1);
    assert_int_equal(err.code, TN_E_DENIED);
    assert_int_equal(open_destination(s, "link", &err), -1);

    /* nor through a link of root's that leads over his */
    tn_autofree char *second = in_scratch(s, "second");
    assert_int_equal(symlink(link, second), 0);
    assert_int_equal(open_destination(s, "second", &err), -1);
    assert_int_equal(err.code, TN_E_DENIED);

    /* loops end */
    unlink(link);
    assert_int_equal(symlink("link", link), 0);
    assert_int_equal(open_destination(s, "link", &err), -1);
    assert_int_equal(err.sys, ELOOP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(normalises),
        cmocka_unit_test(resolves),
        cmocka_unit_test(refuses),
        cmocka_unit_test(words_errors_like_python),
        SCRATCH_TEST(makes_destinations_for_the_user),
        SCRATCH_TEST(follows_only_links_it_may_trust),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
