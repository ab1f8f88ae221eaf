/* The read and write actions. */
#include "scratch.h"

#include "base/base64.h"
#include "hand/file/read.h"
#include "hand/file/write.h"

static const struct tn_file_user *acting;

/* The answer's text with "!" before it when it is an error; the caller frees it. */
static char *read_slice(const struct scratch *s, const char *path, int64_t start, int64_t end)
{
    tn_autofileanswer struct tn_file_answer a = TN_FILE_ANSWER_INIT(8u << 20);
    struct tn_read_request q = {.path = tn_slice(path), .cwd = s->dir, .start = start, .end = end};

    tn_file_read(acting ? acting : scratch_self(), &q, &a);
    return tn_asprintf("%s%s", a.failed ? "!" : "", tn_buf_str(&a.text));
}

static void assert_read(const struct scratch *s, const char *path, const char *want)
{
    tn_autofree char *got = read_slice(s, path, 0, -1);
    assert_string_equal(got, want);
}

static char *write_range(const struct scratch *s, const char *path, const char *content,
                         int64_t start, int64_t end)
{
    tn_autofileanswer struct tn_file_answer a = TN_FILE_ANSWER_INIT(1u << 20);
    struct tn_write_request q = {.path = tn_slice(path),
                                 .cwd = s->dir,
                                 .content = tn_slice(content),
                                 .start = start,
                                 .end = end};

    tn_file_write(acting ? acting : scratch_self(), &q, &a);
    return tn_asprintf("%s%s", a.failed ? "!" : "", tn_buf_str(&a.text));
}

static void assert_write(const struct scratch *s, const char *path, const char *content,
                         int64_t start, int64_t end, const char *want)
{
    tn_autofree char *got = write_range(s, path, content, start, end);
    assert_string_equal(got, "");
    assert_file(s, path, want);
}

/* --- read ---------------------------------------------------------------------------------- */

static void reads_relative_and_absolute(void **state)
{
    struct scratch *s = *state;
    tn_autofree char *absolute = in_scratch(s, "sub//./a.txt");
    tn_autofileanswer struct tn_file_answer a = TN_FILE_ANSWER_INIT(100);
    struct tn_read_request q = {.path = tn_slice("./sub/a.txt"), .cwd = s->dir, .end = -1};
    tn_autofree char *want = in_scratch(s, "sub/a.txt");

    put_text(s, "sub/a.txt", "one\ntwo");
    tn_file_read(scratch_self(), &q, &a);
    assert_string_equal(a.path, want);
    assert_string_equal(tn_buf_str(&a.text), "one\ntwo");
    assert_read(s, absolute, "one\ntwo");
}

static void slices_lines(void **state)
{
    struct scratch *s = *state;
    static const struct {
        int64_t start, end;
        const char *want;
    } rows[] = {
        {0, -1, "0\n1\n2\n3\n"},  {2, -1, "2\n3\n"},       {9, -1, ""},
        {-5, -1, "0\n1\n2\n3\n"}, {1, 3, "1\n2\n"},        {3, 4, "2\n3\n"},
        {9, 9, "2\n3\n"},         {0, 0, "0\n"},           {2, 1, "2\n"},
        {0, -7, "0\n"},           {0, 99, "0\n1\n2\n3\n"},
    };

    put_text(s, "a", "0\n1\n2\n3\n");
    for (size_t i = 0; i < TN_COUNT(rows); i++) {
        tn_autofree char *got = read_slice(s, "a", rows[i].start, rows[i].end);
        if (strcmp(got, rows[i].want) != 0)
            fail_msg("[%d:%d] is %s", (int)rows[i].start, (int)rows[i].end, got);
    }
    put_text(s, "empty", "");
    assert_read(s, "empty", "");
    tn_autofree char *got = read_slice(s, "empty", 0, 5);
    assert_string_equal(got, "");
}

static void reads_universal_newlines(void **state)
{
    struct scratch *s = *state;

    put_text(s, "a", "one\r\ntwo\rthree\n\r\n\rend");
    assert_read(s, "a", "one\ntwo\nthree\n\n\nend");
    tn_autofree char *got = read_slice(s, "a", 1, 3);
    assert_string_equal(got, "two\nthree\n");
}

/* Line endings and characters that a chunk of the stream cuts in two. */
static void reads_across_chunks(void **state)
{
    struct scratch *s = *state;

    for (size_t pad = 65533; pad <= 65537; pad++) {
        tn_autobuf struct tn_buf text = TN_BUF_INIT(1u << 20), want = TN_BUF_INIT(1u << 20);
        for (size_t i = 0; i < pad; i++)
            tn_buf_putc(&text, 'x');
        tn_buf_add(&want, text.data, text.len);
        tn_buf_puts(&text, "\r\n\xe4\xb8\xad\r\nlast");
        tn_buf_puts(&want, "\n\xe4\xb8\xad\nlast");
        put_text(s, "a", tn_buf_str(&text));
        assert_read(s, "a", tn_buf_str(&want));
        tn_autofree char *got = read_slice(s, "a", 1, 2);
        assert_string_equal(got, "\xe4\xb8\xad\n");
    }
}

static void explains_why_not(void **state)
{
    struct scratch *s = *state;
    const char *d = s->dir;
    tn_autofree char *missing =
        tn_asprintf("!File not found: %s/no/such. Your current working directory is %s.", d, d);
    tn_autofree char *dir = tn_asprintf("!Path is a directory: %s/sub. You can only read files", d);
    tn_autofree char *latin = tn_asprintf("!File could not be decoded as utf-8: %s/latin.", d);
    tn_autofree char *cut = tn_asprintf("!File could not be decoded as utf-8: %s/cut.", d);

    put_text(s, "sub/a", "");
    put_text(s, "latin", "a long line with one caf\xe9\n");
    put_text(s, "cut", "ends in the middle of \xe4\xb8");
    put_file(s, "binary", "a\0b", 3);
    assert_read(s, "no/such", missing);
    assert_read(s, "sub", dir);
    assert_read(s, "latin", latin);
    assert_read(s, "cut", cut);
    assert_read(s, "binary", "!ERROR_BINARY_FILE");
    put_text(s, "code.pyc", "x");
    assert_read(s, "code.pyc", "!ERROR_BINARY_FILE");
    tn_autofileanswer struct tn_file_answer a = TN_FILE_ANSWER_INIT(100);
    struct tn_read_request q = {.path = tn_slicen("a\0b", 3), .cwd = d};
    tn_file_read(scratch_self(), &q, &a);
    assert_string_equal(tn_buf_str(&a.text), "embedded null byte in a path");
}

static void gives_images_as_data_urls(void **state)
{
    struct scratch *s = *state;
    tn_autobuf struct tn_buf bytes = TN_BUF_INIT(1u << 20), want = TN_BUF_INIT(1u << 20);
    tn_autofree char *absolute = in_scratch(s, "big.JPEG");

    put_file(s, "p.png", "\x89PNG\0", 5);
    assert_read(s, "p.png", "data:image/png;base64,iVBORwA=");
    put_text(s, "v.webm", "");
    assert_read(s, "v.webm", "data:video/webm;base64,");
    put_text(s, "d.pdf", "%PDF");
    assert_read(s, "d.pdf", "data:application/pdf;base64,JVBERg==");
    for (int i = 0; i < 200001; i++)
        tn_buf_putc(&bytes, (char)(i * 7));
    put_file(s, "big.JPEG", bytes.data, bytes.len);
    tn_buf_puts(&want, "data:image/jpeg;base64,");
    tn_base64_encode(&want, bytes.data, bytes.len);
    assert_read(s, absolute, tn_buf_str(&want));
}

static void limits_what_it_reads(void **state)
{
    struct scratch *s = *state;
    tn_autofileanswer struct tn_file_answer a = TN_FILE_ANSWER_INIT(300);
    struct tn_read_request q = {.path = tn_slice("a"), .cwd = s->dir, .end = -1};
    char text[1000];

    memset(text, '\n', sizeof text);
    put_file(s, "a", text, sizeof text);
    tn_file_read(scratch_self(), &q, &a);
    assert_true(a.failed);
    assert_memory_equal(tn_buf_str(&a.text), "File is too large", 17);
    tn_autofree char *slice = read_slice(s, "a", 997, -1);
    assert_string_equal(slice, "\n\n\n");
}

static void reads_with_the_rights_of_the_user(void **state)
{
    needs_root();
    struct scratch *s = *state;
    tn_autofree char *path = in_scratch(s, "secret");
    tn_autofree char *want = tn_asprintf("![Errno 13] Permission denied: '%s'", path);
    tn_autofree char *pipe = in_scratch(s, "pipe");

    put_text(s, "secret", "x");
    chmod(path, 0600);
    acting = scratch_nobody();
    assert_read(s, "secret", want);
    acting = NULL;
    assert_read(s, "secret", "x");
    assert_int_equal(mkfifo(pipe, 0600), 0);
    tn_autofree char *got = read_slice(s, "pipe", 0, -1);
    assert_memory_equal(got, "!Not a regular file", 19);
}

/* --- write --------------------------------------------------------------------------------- */

static void writes_new_files(void **state)
{
    struct scratch *s = *state;

    assert_write(s, "a", "a", 0, -1, "a\n");
    assert_write(s, "b", "", 0, -1, "\n");
    assert_write(s, "c", "a\n", 0, -1, "a\n\n");
    assert_write(s, "x/y/z", "1\n2", 0, -1, "1\n2\n");
    assert_write(s, "new", "r", 3, 5, "r\n");
    assert_int_equal(stat_file(s, "x/y/z").st_mode & 07777, 0664);
    assert_int_equal(stat_file(s, "x/y").st_mode & 07777, 0755);
}

static void replaces_files(void **state)
{
    struct scratch *s = *state;
    tn_autofree char *path = in_scratch(s, "a");

    put_text(s, "a", "old\r\ntext\r\n");
    chmod(path, 0751);
    assert_write(s, "a", "new", 0, -1, "new\n");
    assert_int_equal(stat_file(s, "a").st_mode & 07777, 0751);
}

static void replaces_ranges(void **state)
{
    struct scratch *s = *state;
    static const struct {
        const char *old;
        int64_t start, end;
        const char *want;
    } rows[] = {
        {"0\n1\n2\n3\n", 1, 3, "0\nX\n3\n"},
        {"0\n1\n2\n3\n", 0, 2, "X\n2\n3\n"},
        {"0\n1\n2\n3\n", 2, -1, "0\n1\nX\n"},
        {"0\n1\n2\n3\n", 1, 1, "0\nX\n1\n2\n3\n"},
        {"0\n1\n2\n3\n", 9, 9, "0\n1\n2\n3\nX\n"},
        {"0\n1\n2\n3\n", -1, -2, "0\n1\n2\nX\n2\n3\n"},
        {"0\n1", 2, 9, "0\n1\nX\n"},
        {"0\r\n1\r\n2\r\n", 1, 2, "0\r\nX\r\n2\r\n"},
        {"", 1, 5, "X\n"},
    };

    for (size_t i = 0; i < TN_COUNT(rows); i++) {
        put_text(s, "a", rows[i].old);
        assert_write(s, "a", "X", rows[i].start, rows[i].end, rows[i].want);
    }
}

static void explains_why_it_does_not_write(void **state)
{
    struct scratch *s = *state;
    tn_autofree char *dir =
        tn_asprintf("!Path is a directory: %s/sub. You can only write to files", s->dir);
    tn_autofree char *latin = tn_asprintf("!File could not be decoded as utf-8: %s/latin", s->dir);
    tn_autofree char *through = tn_asprintf("!File not found: %s/latin/x", s->dir);

    put_text(s, "sub/a", "");
    put_text(s, "latin", "caf\xe9");
    tn_autofree char *a = write_range(s, "sub", "x", 0, -1);
    assert_string_equal(a, dir);
    tn_autofree char *b = write_range(s, "latin", "x", 0, -1);
    assert_string_equal(b, latin);
    tn_autofree char *c = write_range(s, "latin", "x", 1, -1);
    assert_string_equal(c, latin);
    tn_autofree char *d = write_range(s, "latin/x", "x", 0, -1);
    assert_string_equal(d, through);
}

static void writes_with_the_rights_of_the_user(void **state)
{
    needs_root();
    struct scratch *s = *state;
    tn_autofree char *path = in_scratch(s, "ro");
    tn_autofree char *denied = tn_asprintf("![Errno 13] Permission denied: '%s'", path);
    const struct tn_file_user *nobody = scratch_nobody();

    put_text(s, "ro", "root's\n");
    put_text(s, "shared", "root's\n");
    tn_autofree char *shared = in_scratch(s, "shared");
    chmod(shared, 0666);
    acting = nobody;
    tn_autofree char *a = write_range(s, "ro", "mine", 0, -1);
    assert_string_equal(a, denied);
    assert_write(s, "shared", "ours", 0, -1, "ours\n");
    assert_int_equal(stat_file(s, "shared").st_uid, 0);
    assert_int_equal(chown(s->dir, nobody->uid, nobody->gid), 0);
    assert_write(s, "p/q", "mine", 0, -1, "mine\n");
    acting = NULL;
    assert_file(s, "ro", "root's\n");
    assert_int_equal(stat_file(s, "p").st_uid, nobody->uid);
    assert_int_equal(stat_file(s, "p/q").st_uid, nobody->uid);
    assert_int_equal(stat_file(s, "p/q").st_gid, nobody->gid);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(reads_relative_and_absolute),
        SCRATCH_TEST(slices_lines),
        SCRATCH_TEST(reads_universal_newlines),
        SCRATCH_TEST(reads_across_chunks),
        SCRATCH_TEST(explains_why_not),
        SCRATCH_TEST(gives_images_as_data_urls),
        SCRATCH_TEST(limits_what_it_reads),
        SCRATCH_TEST(reads_with_the_rights_of_the_user),
        SCRATCH_TEST(writes_new_files),
        SCRATCH_TEST(replaces_files),
        SCRATCH_TEST(replaces_ranges),
        SCRATCH_TEST(explains_why_it_does_not_write),
        SCRATCH_TEST(writes_with_the_rights_of_the_user),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
