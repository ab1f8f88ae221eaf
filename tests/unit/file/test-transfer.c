/* Uploads, downloads and listings behind their plain functions. */
#include "scratch.h"

#include "base/clock.h"
#include "hand/file/download.h"
#include "hand/file/list.h"
#include "hand/file/upload.h"

/* --- where the bytes of an upload come from
 * ------------------------------------------------------- */

struct bytes {
    const char *s;
    size_t n;
    size_t fail_after; /* 0: never */
};

static ssize_t source(void *ctx, void *to, size_t n, struct tn_error *err)
{
    struct bytes *b = ctx;

    if (n > b->n)
        n = b->n;
    if (n > 7)
        n = 7; /* in small pieces */
    if (b->fail_after && b->fail_after < 7)
        return tn_fail(err, TN_E_PEER, "the client is gone");
    if (b->fail_after)
        b->fail_after -= 7;
    if (n > 0)
        memcpy(to, b->s, n);
    b->s += n;
    b->n -= n;
    return (ssize_t)n;
}

static int upload(const struct scratch *s, const char *destination, const char *filename,
                  struct bytes bytes, struct tn_error *err)
{
    tn_autofree char *path = in_scratch(s, destination);
    struct tn_upload u = {.destination = path, .filename = filename, .user = scratch_self()};
    return tn_upload(&u, source, &bytes, err);
}

static struct bytes text(const char *s)
{
    return (struct bytes){.s = s, .n = strlen(s)};
}

/* A journal that remembers what is announced. */
static char announced[3][256];

static int announce(void *ctx, const char *path, struct tn_error *err)
{
    for (size_t i = 0; i < TN_COUNT(announced); i++)
        if (!announced[i][0]) {
            snprintf(announced[i], sizeof announced[i], "%s", path);
            return 0;
        }
    return tn_fail(err, TN_E_BUSY, "full");
}

static void withdraw(void *ctx, const char *path)
{
    struct stat st;

    assert_int_equal(lstat(path, &st), -1); /* gone, or renamed */
    for (size_t i = 0; i < TN_COUNT(announced); i++)
        if (strcmp(announced[i], path) == 0)
            announced[i][0] = '\0';
}

static const struct tn_fs_journal journal = {.announce = announce, .withdraw = withdraw};

/* --- upload -------------------------------------------------------------------------------- */

static void stores_a_file(void **state)
{
    struct scratch *s = *state;
    struct tn_error err;
    tn_autofree char *file = in_scratch(s, "x/y/a.txt");

    assert_int_equal(upload(s, "x/y", "a.txt", text("some contents"), &err), 0);
    assert_file(s, "x/y/a.txt", "some contents");
    assert_int_equal(stat_file(s, "x/y/a.txt").st_mode & 07777, 0644);
    chmod(file, 0751);
    assert_int_equal(upload(s, "x/y", "a.txt", text("other"), &err), 0);
    assert_file(s, "x/y/a.txt", "other");
    assert_int_equal(stat_file(s, "x/y/a.txt").st_mode & 07777, 0751);
    assert_int_equal(upload(s, "", "empty", text(""), &err), 0);
    assert_file(s, "empty", "");
}

static void keeps_to_the_last_part_of_the_name(void **state)
{
    struct scratch *s = *state;
    struct tn_error err;

    assert_int_equal(upload(s, "d", "../../evil", text("x"), &err), 0);
    assert_file(s, "d/evil", "x");
    assert_int_equal(upload(s, "d", "/etc/passwd", text("x"), &err), 0);
    assert_file(s, "d/passwd", "x");
    static const char *const bad[] = {"", ".", "..", "a/", "a/..", "/"};
    for (size_t i = 0; i < TN_COUNT(bad); i++) {
        assert_int_equal(upload(s, "d", bad[i], text("x"), &err), -1);
        assert_int_equal(err.code, TN_E_INVALID);
    }
}

static void refuses_by_the_specification(void **state)
{
    struct scratch *s = *state;
    struct tn_error err;
    struct bytes b = text("x");
    struct tn_upload relative = {
        .destination = "relative", .filename = "a", .user = scratch_self()};
    struct tn_upload plain = {
        .destination = s->dir, .filename = "a.txt", .recursive = true, .user = scratch_self()};

    assert_int_equal(tn_upload(&relative, source, &b, &err), -1);
    assert_string_equal(err.text, "Destination must be an absolute path");
    assert_int_equal(tn_code_row(err.code)->http_status, 400);
    assert_int_equal(tn_upload(&plain, source, &b, &err), -1);
    assert_string_equal(err.text, "Recursive uploads must be zip files");
    assert_int_equal(tn_code_row(err.code)->http_status, 400);
}

static void replaces_a_link_not_its_target(void **state)
{
    struct scratch *s = *state;
    struct tn_error err;
    tn_autofree char *link = in_scratch(s, "link");

    put_text(s, "target", "stays");
    assert_int_equal(symlink("target", link), 0);
    assert_int_equal(upload(s, "", "link", text("new"), &err), 0);
    assert_file(s, "target", "stays");
    assert_file(s, "link", "new");
    assert_true(S_ISREG(stat_file(s, "link").st_mode));
    put_text(s, "dir/x", "");
    assert_int_equal(upload(s, "", "dir", text("new"), &err), -1);
    assert_int_equal(err.code, TN_E_CONFLICT);
}

/* Number of names in the directory, temporary ones included. */
static int count_name(const char *name, void *ctx)
{
    ++*(int *)ctx;
    return 0;
}

static int names_in(const char *dir)
{
    int count = 0;
    assert_int_equal(tn_file_list(tn_slice(dir), "/", tn_deadline_in(10), count_name, &count, NULL),
                     0);
    return count;
}

static void leaves_nothing_of_a_broken_upload(void **state)
{
    struct scratch *s = *state;
    struct tn_error err;
    struct bytes b = {.s = "some longer contents", .n = 20, .fail_after = 10};

    put_text(s, "a", "old");
    assert_int_equal(upload(s, "", "a", b, &err), -1);
    assert_int_equal(err.code, TN_E_PEER);
    assert_file(s, "a", "old");
    assert_int_equal(upload(s, "", "b.zip", b, &err), -1);
    assert_int_equal(err.code, TN_E_PEER);
    assert_int_equal(upload(s, "", "b.zip", text("not an archive"), &err), -1);
    assert_int_equal(err.code, TN_E_INVALID);
    assert_int_equal(names_in(s->dir), 1);
}

/* One stored entry "d/f" with "hello" and mode 0755. */
static const char archive[] =
    "PK\3\4\n\0\0\0\0\0\0\0!\0\x86\xa6\x10\x36\5\0\0\0\5\0\0\0\3\0\0\0d/fhello"
    "PK\1\2\x14\3\n\0\0\0\0\0\0\0!\0\x86\xa6\x10\x36\5\0\0\0\5\0\0\0\3\0\0\0\0\0\0\0\0\0\0\0"
    "\xed\x81\0\0\0\0d/f"
    "PK\5\6\0\0\0\0\1\0\1\0\x31\0\0\0\x26\0\0\0\0";

static void unpacks_an_archive(void **state)
{
    struct scratch *s = *state;
    struct tn_error err = {0};
    struct bytes b = {.s = archive, .n = sizeof archive};
    struct tn_file_user user = *scratch_self();

    if (upload(s, "to", "a.zip", b, &err))
        fail_msg("%s", err.text);
    assert_file(s, "to/d/f", "hello");
    assert_int_equal(stat_file(s, "to/d/f").st_mode & 07777, 0755);
    assert_int_equal(names_in(s->dir), 1);
    tn_autofree char *to = in_scratch(s, "to");
    assert_int_equal(names_in(to), 1);
    user.journal = &journal;
    struct tn_upload u = {.destination = to, .filename = "a.zip", .recursive = true, .user = &user};
    assert_int_equal(tn_upload(&u, source, &b, &err), 0);
    u = (struct tn_upload){.destination = to, .filename = "plain", .user = &user};
    assert_int_equal(tn_upload(&u, source, &b, &err), 0);
    for (size_t i = 0; i < TN_COUNT(announced); i++)
        assert_string_equal(announced[i], "");
    announced[0][0] = announced[1][0] = announced[2][0] = 'x'; /* the journal is full */
    b = text("x");
    assert_int_equal(tn_upload(&u, source, &b, &err), -1);
    assert_int_equal(err.code, TN_E_BUSY);
    memset(announced, 0, sizeof announced);
}

static void gives_new_things_to_the_user(void **state)
{
    needs_root();
    struct scratch *s = *state;
    struct tn_error err;
    tn_autofree char *to = in_scratch(s, "to");
    struct bytes b = {.s = archive, .n = sizeof archive};
    struct tn_upload u = {.destination = to, .filename = "a.zip", .user = scratch_nobody()};

    assert_int_equal(tn_upload(&u, source, &b, &err), 0);
    b = text("x");
    u.filename = "plain";
    assert_int_equal(tn_upload(&u, source, &b, &err), 0);
    assert_int_equal(stat_file(s, "to").st_uid, 4242);
    assert_int_equal(stat_file(s, "to/d").st_uid, 4242);
    assert_int_equal(stat_file(s, "to/d/f").st_gid, 4242);
    assert_int_equal(stat_file(s, "to/plain").st_uid, 4242);
}

/* --- download ------------------------------------------------------------------------------ */

static void names_the_download(void **state)
{
    static const struct {
        const char *path, *want;
    } rows[] = {
        {"/workspace", "attachment; filename=\"workspace.zip\""},
        {"/a/b.c/", "attachment; filename=\"b.c.zip\""},
        {"/a b", "attachment; filename*=utf-8''a%20b.zip"},
        {"/gr\xc3\xbcn\"\r\n", "attachment; filename*=utf-8''gr%C3%BCn%22%0D%0A.zip"},
        {"/", "attachment; filename=\".zip\""},
    };

    for (size_t i = 0; i < TN_COUNT(rows); i++) {
        tn_autobuf struct tn_buf out = TN_BUF_INIT(1000);
        tn_download_disposition(rows[i].path, &out);
        assert_string_equal(tn_buf_str(&out), rows[i].want);
    }
}

/* --- list ---------------------------------------------------------------------------------- */

static int put_name(const char *name, void *ctx)
{
    return tn_buf_printf(ctx, "%s ", name);
}

static void lists_directories_first(void **state)
{
    struct scratch *s = *state;
    tn_autobuf struct tn_buf out = TN_BUF_INIT(1000);
    tn_autofree char *dangling = in_scratch(s, "d/dangling");
    tn_autofree char *link = in_scratch(s, "d/a-link");
    struct tn_error err;

    put_text(s, "d/b.txt", "");
    put_text(s, "d/.env", "");
    put_text(s, "d/A.txt", "");
    put_text(s, "d/a.txt", "");
    put_text(s, "d/Zoo/x", "");
    put_text(s, "d/.git/x", "");
    put_text(s, "d/apple/x", "");
    assert_int_equal(symlink("nowhere", dangling), 0);
    assert_int_equal(symlink("apple", link), 0);
    assert_int_equal(tn_file_list(tn_slice("d"), s->dir, tn_deadline_in(10), put_name, &out, &err),
                     0);
    assert_string_equal(tn_buf_str(&out), ".git/ a-link/ apple/ Zoo/ .env A.txt a.txt b.txt ");
    tn_buf_reset(&out);
    assert_int_equal(
        tn_file_list((struct tn_slice){0}, s->dir, tn_deadline_in(10), put_name, &out, &err), 0);
    assert_string_equal(tn_buf_str(&out), "d/ ");
    assert_int_equal(
        tn_file_list(tn_slice("none"), s->dir, tn_deadline_in(10), put_name, &out, &err), -1);
    assert_int_equal(err.code, TN_E_NOT_FOUND);
    assert_int_equal(
        tn_file_list(tn_slice("d/b.txt"), s->dir, tn_deadline_in(10), put_name, &out, &err), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(stores_a_file),
        SCRATCH_TEST(keeps_to_the_last_part_of_the_name),
        SCRATCH_TEST(refuses_by_the_specification),
        SCRATCH_TEST(replaces_a_link_not_its_target),
        SCRATCH_TEST(leaves_nothing_of_a_broken_upload),
        SCRATCH_TEST(unpacks_an_archive),
        SCRATCH_TEST(gives_new_things_to_the_user),
        cmocka_unit_test(names_the_download),
        SCRATCH_TEST(lists_directories_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
