/* Archives: the form of records, names, and files that change while they are sent. */
#include "scratch.h"

#include "base/clock.h"
#include "hand/file/zip-archive.h"
#include "hand/file/zip-format.h"
#include "hand/file/zip-name.h"
#include "hand/file/zip-write.h"

/* --- records ------------------------------------------------------------------------------- */

static void lengths_agree(void **state)
{
    static const uint64_t sizes[] = {0, 1, 0xfffffffe, 0xffffffff, 0x100000000, UINT64_C(1) << 40};
    struct zip_entry e = {.name = "some/name", .name_len = 9};

    for (size_t i = 0; i < TN_COUNT(sizes); i++)
        for (size_t k = 0; k < TN_COUNT(sizes); k++) {
            tn_autobuf struct tn_buf out = TN_BUF_INIT(1000);
            e.size = e.sent = sizes[i];
            e.offset = sizes[k];
            zip_put_local(&out, &e);
            assert_int_equal(out.len, zip_local_length(&e));
            tn_buf_reset(&out);
            zip_put_descriptor(&out, &e);
            assert_int_equal(out.len, zip_descriptor_length(&e));
            tn_buf_reset(&out);
            zip_put_central(&out, &e);
            assert_int_equal(out.len, zip_central_length(&e));
            tn_buf_reset(&out);
            size_t end = zip_end_length(3, sizes[i], sizes[k]);
            zip_put_end(&out, &(struct zip_end){.wide = end > zip_end_length(0, 0, 0)});
            assert_int_equal(out.len, end);
        }
    assert_int_equal(zip_end_length(0xfffe, 0, 0), 22);
    assert_true(zip_end_length(0xffff, 0, 0) > 22);
}

/* --- names --------------------------------------------------------------------------------- */

static void takes_plain_names(void **state)
{
    static const struct {
        const char *bytes, *name;
        bool utf8, is_dir;
    } rows[] = {
        {"a", "a", false, false},
        {"a/b.c", "a/b.c", false, false},
        {"a/", "a", true, true},
        {".hidden/..b/c..", ".hidden/..b/c..", false, false},
        {"gr\xc3\xbcn", "gr\xc3\xbcn", true, false},
        {"gr\xc3\xbcn", "gr\xc3\xbcn", false, false},
        {"gr\x81n", "gr\xc3\xbcn", false, false}, /* code page 437 */
        {"ab:c", "ab:c", false, false},
        {"with space", "with space", false, false},
    };
    tn_autobuf struct tn_buf out = TN_BUF_INIT(8192);
    struct tn_error err;

    for (size_t i = 0; i < TN_COUNT(rows); i++) {
        bool is_dir;
        int r = zip_name(rows[i].bytes, strlen(rows[i].bytes), rows[i].utf8, &out, &is_dir, &err);
        assert_int_equal(r, 0);
        assert_string_equal(tn_buf_str(&out), rows[i].name);
        assert_int_equal(is_dir, rows[i].is_dir);
    }
}

static void refuses_other_names(void **state)
{
    static const struct {
        const char *bytes;
        size_t n;
        bool utf8;
    } rows[] = {
        {"", 0, false},
        {"/", 1, false},
        {"/etc/passwd", 11, false},
        {"../x", 4, false},
        {"a/../../x", 9, false},
        {"a/..", 4, false},
        {"..", 2, false},
        {".", 1, false},
        {"./a", 3, false},
        {"a//b", 4, false},
        {"a/./b", 5, false},
        {"a\\b", 3, false},
        {"..\\x", 4, false},
        {"C:x", 3, false},
        {"c:/x", 4, false},
        {"a\0b", 3, false},
        {"a\nb", 3, false},
        {"a\x7f", 2, false},
        {"\x1b[31m", 5, false},
        {"a\xff", 2, true},
        {"\xc2\x85", 2, true},
        {"\xed\xa0\x80", 3, true},
        {"a//", 3, false},
    };
    tn_autobuf struct tn_buf out = TN_BUF_INIT(8192);
    char long_name[5000];
    struct tn_error err;
    bool is_dir;

    for (size_t i = 0; i < TN_COUNT(rows); i++)
        if (zip_name(rows[i].bytes, rows[i].n, rows[i].utf8, &out, &is_dir, &err) == 0)
            fail_msg("row %zu was taken", i);
    memset(long_name, 'x', sizeof long_name);
    assert_int_equal(zip_name(long_name, 256, false, &out, &is_dir, &err), -1);
    assert_int_equal(zip_name(long_name, 255, false, &out, &is_dir, &err), 0);
    for (size_t i = 1; i < sizeof long_name; i += 2)
        long_name[i] = '/';
    assert_int_equal(zip_name(long_name, 2 * ZIP_NAME_DEPTH + 1, false, &out, &is_dir, &err), 0);
    assert_int_equal(zip_name(long_name, 2 * ZIP_NAME_DEPTH + 3, false, &out, &is_dir, &err), -1);
    assert_int_equal(zip_name(long_name, 4999, false, &out, &is_dir, &err), -1);
}

/* --- sending ------------------------------------------------------------------------------- */

/* Collects the archive in a file; on the first bytes it lets something happen to the files. */
struct collector {
    const struct scratch *scratch;
    int fd;
    uint64_t n;
    void (*meanwhile)(const struct scratch *s);
    uint64_t stop_after;
};

static int collect(void *ctx, const void *bytes, size_t n, struct tn_error *err)
{
    struct collector *c = ctx;

    if (c->n == 0 && c->meanwhile)
        c->meanwhile(c->scratch);
    c->n += n;
    if (c->stop_after && c->n > c->stop_after)
        return tn_fail(err, TN_E_PEER, "the client is gone");
    return tn_fs_write(c->fd, bytes, n, err);
}

/* Name and contents of every entry, as text. */
static char *listing(int fd)
{
    struct tn_error err;
    struct zip_archive *z = zip_archive_open(fd, &err);
    struct tn_buf out = TN_BUF_INIT(1u << 20);
    struct zip_item item;
    char chunk[1000];
    ssize_t n = 0;
    int r;

    assert_non_null(z);
    while ((r = zip_archive_next(z, &item, &err)) > 0) {
        tn_buf_printf(&out, "%s=", item.name);
        while ((n = zip_archive_read(z, chunk, sizeof chunk, &err)) > 0)
            tn_buf_add(&out, chunk, (size_t)n);
        assert_int_equal(n, 0);
        tn_buf_putc(&out, ';');
    }
    assert_int_equal(r, 0);
    zip_archive_close(z);
    return tn_buf_take(&out);
}

static char *pack(const struct scratch *s, const char *name,
                  void (*meanwhile)(const struct scratch *s))
{
    struct tn_error err;
    tn_autofree char *path = in_scratch(s, name);
    tn_autofree char *to = in_scratch(s, "out.zip");
    struct tn_zip_plan *plan = tn_zip_plan_new(path, s->dir, tn_deadline_in(10), &err);
    tn_autofd int fd = open(to, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    struct collector c = {.scratch = s, .fd = fd, .meanwhile = meanwhile};

    assert_non_null(plan);
    assert_int_equal(tn_zip_plan_send(plan, collect, &c, &err), 0);
    assert_int_equal(c.n, tn_zip_plan_length(plan));
    tn_zip_plan_free(plan);
    return listing(fd);
}

static void packs_and_unpacks(void **state)
{
    struct scratch *s = *state;

    put_text(s, "d/.hidden/deep/file", "contents");
    tn_autofree char *got = pack(s, "d", NULL);
    assert_string_equal(got, ".hidden/deep/file=contents;");
    tn_autofree char *one = pack(s, "d/.hidden/deep/file", NULL);
    assert_string_equal(one, "file=contents;");
    tn_autofree char *empty = in_scratch(s, "empty");
    mkdir(empty, 0755);
    tn_autofree char *nothing = pack(s, "empty", NULL);
    assert_string_equal(nothing, "");
}

static void shrink(const struct scratch *s)
{
    put_text(s, "d/file", "short");
}

static void grow(const struct scratch *s)
{
    put_text(s, "d/file", "twelve bytes and more");
}

static void take_away(const struct scratch *s)
{
    tn_autofree char *path = in_scratch(s, "d/file");
    unlink(path);
}

static void become_a_pipe(const struct scratch *s)
{
    tn_autofree char *path = in_scratch(s, "d/file");
    unlink(path);
    mkfifo(path, 0600);
}

static void copes_with_files_that_change(void **state)
{
    struct scratch *s = *state;
    tn_autofree char *dir = in_scratch(s, "d");
    tn_autofree char *to = in_scratch(s, "out.zip");
    static const struct {
        void (*meanwhile)(const struct scratch *s);
        const char *want;
    } rows[] = {{shrink, "file=short;"},
                {grow, "file=twelve bytes;"},
                {take_away, ""},
                {become_a_pipe, ""}};

    for (size_t i = 0; i < TN_COUNT(rows); i++) {
        struct tn_error err;
        take_away(s);
        put_text(s, "d/file", "0123456789ab");
        struct tn_zip_plan *plan = tn_zip_plan_new(dir, s->dir, tn_deadline_in(10), &err);
        assert_non_null(plan);
        rows[i].meanwhile(s);
        tn_autofd int fd = open(to, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        struct collector c = {.scratch = s, .fd = fd};
        assert_int_equal(tn_zip_plan_send(plan, collect, &c, &err), 0);
        assert_int_equal(c.n, tn_zip_plan_length(plan));
        tn_zip_plan_free(plan);
        tn_autofree char *got = listing(fd);
        assert_string_equal(got, rows[i].want);
    }
}

/* Changed in place between its header and its contents: the checksum is that of what was sent. */
static void has_the_checksum_of_what_it_sent(void **state)
{
    struct scratch *s = *state;

    put_text(s, "d/file", "0123456789ab");
    tn_autofree char *got = pack(s, "d", grow);
    assert_string_equal(got, "file=twelve bytes;");
}

static void stops_when_the_client_does(void **state)
{
    struct scratch *s = *state;
    struct tn_error err;
    tn_autofree char *dir = in_scratch(s, "d");
    char text[100000] = "";
    tn_autofd int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    struct collector c = {.scratch = s, .fd = fd, .stop_after = 70000};

    put_file(s, "d/a", text, sizeof text);
    put_file(s, "d/b", text, sizeof text);
    struct tn_zip_plan *plan = tn_zip_plan_new(dir, s->dir, tn_deadline_in(10), &err);
    assert_int_equal(tn_zip_plan_send(plan, collect, &c, &err), -1);
    assert_int_equal(err.code, TN_E_PEER);
    assert_true(c.n < 140000);
    tn_zip_plan_free(plan);
}

static void follows_links_to_files_only(void **state)
{
    struct scratch *s = *state;
    tn_autofree char *link = in_scratch(s, "d/link");
    tn_autofree char *dir_link = in_scratch(s, "d/dir");
    tn_autofree char *dangling = in_scratch(s, "d/none");
    tn_autofree char *pipe = in_scratch(s, "d/pipe");
    tn_autofree char *kernel = in_scratch(s, "d/kernel");

    put_text(s, "elsewhere/x", "contents");
    put_text(s, "d/sub/.keep", "");
    assert_int_equal(symlink("../elsewhere/x", link), 0);
    assert_int_equal(symlink("../elsewhere", dir_link), 0);
    assert_int_equal(symlink("nowhere", dangling), 0);
    assert_int_equal(symlink("/proc/kcore", kernel), 0);
    assert_int_equal(mkfifo(pipe, 0600), 0);
    tn_autofree char *got = pack(s, "d", NULL);
    assert_non_null(strstr(got, "link=contents;"));
    assert_non_null(strstr(got, "sub/.keep=;"));
    assert_int_equal(strlen(got), strlen("link=contents;sub/.keep=;"));
}

static void refuses_what_it_cannot_plan(void **state)
{
    struct scratch *s = *state;
    struct tn_error err;
    tn_autofree char *missing = in_scratch(s, "none");
    tn_autofree char *deep = tn_strdup(s->dir);

    assert_null(tn_zip_plan_new(missing, s->dir, tn_deadline_in(10), &err));
    assert_int_equal(err.code, TN_E_NOT_FOUND);
    for (int i = 0; i < 300; i++) {
        char *longer = tn_asprintf("%s/d", deep);
        free(deep);
        deep = longer;
        mkdir(deep, 0755);
    }
    assert_null(tn_zip_plan_new(s->dir, s->dir, tn_deadline_in(10), &err));
    assert_non_null(strstr(err.text, "256 directories deep"));
    for (int i = 0; i < 300; i++) {
        char name[16];
        snprintf(name, sizeof name, "f/%d", i);
        put_text(s, name, "");
    }
    tn_autofree char *many = in_scratch(s, "f");
    assert_null(tn_zip_plan_new(many, s->dir, 1, &err));
    assert_int_equal(err.code, TN_E_TIMEOUT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lengths_agree),
        cmocka_unit_test(takes_plain_names),
        cmocka_unit_test(refuses_other_names),
        SCRATCH_TEST(packs_and_unpacks),
        SCRATCH_TEST(copes_with_files_that_change),
        SCRATCH_TEST(has_the_checksum_of_what_it_sent),
        SCRATCH_TEST(stops_when_the_client_does),
        SCRATCH_TEST(follows_links_to_files_only),
        SCRATCH_TEST(refuses_what_it_cannot_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
