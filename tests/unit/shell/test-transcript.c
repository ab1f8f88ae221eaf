/* What the transcript makes of bytes: the cases of transcript.test, each fed whole, byte by byte,
 * cut in two at every place, and after something else was cleared. */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/buf.h"
#include "hand/shell/transcript.h"

enum { TEXT_MAX = 16 << 20 };

static struct tn_transcript *fresh(int columns, int rows)
{
    return tn_transcript_new(columns, rows, 10988, 4 << 20);
}

struct table_case {
    int columns, rows;
    int line; /* in the file, of its first input line */
    int expected_lines;
    int failures;
    struct tn_buf input, text;
};

static void unescape(const char *s, const char *end, struct tn_buf *out)
{
    static const char names[] = "ernt0bavf\\_";
    static const char values[] = "\x1b\r\n\t\0\b\a\v\f\\ ";

    while (s < end) {
        if (*s != '\\') {
            tn_buf_putc(out, *s++);
            continue;
        }
        assert_true(end - s >= 2);
        if (s[1] == 'x') {
            assert_true(end - s >= 4 && isxdigit((unsigned char)s[2]) &&
                        isxdigit((unsigned char)s[3]));
            char digits[3] = {s[2], s[3], '\0'};
            tn_buf_putc(out, (char)strtol(digits, NULL, 16));
            s += 4;
        } else {
            const char *name = memchr(names, s[1], sizeof names - 1);
            assert_non_null(name);
            tn_buf_putc(out, values[name - names]);
            s += 2;
        }
    }
}

/* One case may fail in many ways; the first one is shown. */
static void compare(struct table_case *c, const struct tn_buf *got, const char *how, size_t at)
{
    if (strcmp(tn_buf_str(got), tn_buf_str(&c->text)) == 0 || c->failures++ > 0)
        return;
    print_error("transcript.test:%d: %s %zu\n--- expected\n%s\n--- got\n%s\n---\n", c->line, how,
                at, tn_buf_str(&c->text), tn_buf_str(got));
}

static void check_whole(struct table_case *c)
{
    tn_autobuf struct tn_buf got = TN_BUF_INIT(TEXT_MAX);
    struct tn_transcript *t = fresh(c->columns, c->rows);
    tn_transcript_feed(t, c->input.data, c->input.len);
    tn_transcript_take(t, &got);
    compare(c, &got, "fed whole", 0);
    tn_transcript_free(t);
}

static void check_bytewise(struct table_case *c)
{
    tn_autobuf struct tn_buf got = TN_BUF_INIT(TEXT_MAX);
    struct tn_transcript *t = fresh(c->columns, c->rows);
    for (size_t i = 0; i < c->input.len; i++)
        tn_transcript_feed(t, c->input.data + i, 1);
    tn_transcript_take(t, &got);
    compare(c, &got, "fed byte by byte", 0);
    tn_transcript_free(t);
}

/* Fed in two pieces, with a reader between them: the whole text must be the same, what is read in
 * the end must be the end of it, and what is not read again must be what was read first. */
static void check_split(struct table_case *c, size_t at)
{
    tn_autobuf struct tn_buf first = TN_BUF_INIT(TEXT_MAX);
    tn_autobuf struct tn_buf second = TN_BUF_INIT(TEXT_MAX);
    tn_autobuf struct tn_buf whole = TN_BUF_INIT(TEXT_MAX);
    struct tn_transcript *unread = fresh(c->columns, c->rows);
    struct tn_transcript *t = fresh(c->columns, c->rows);

    tn_transcript_feed(unread, c->input.data, at);
    tn_transcript_feed(unread, c->input.data + at, c->input.len - at);
    tn_transcript_peek(unread, &whole);
    compare(c, &whole, "split at", at);

    tn_transcript_feed(t, c->input.data, at);
    tn_transcript_take(t, &first);
    tn_transcript_feed(t, c->input.data + at, c->input.len - at);
    tn_transcript_take(t, &second);
    size_t kept = whole.len >= second.len ? whole.len - second.len : 0;
    bool is_end = strcmp(tn_buf_str(&whole) + kept, tn_buf_str(&second)) == 0;
    tn_buf_cut(&whole, kept);
    while (whole.len > 0 && strchr(" \n", whole.data[whole.len - 1]))
        tn_buf_cut(&whole, whole.len - 1);
    if (!is_end || !strstr(tn_buf_str(&first), tn_buf_str(&whole))) {
        c->failures++;
        print_error("transcript.test:%d: split at %zu\n--- read first\n%s\n--- then\n%s\n---\n",
                    c->line, at, tn_buf_str(&first), tn_buf_str(&second));
    }
    tn_transcript_free(unread);
    tn_transcript_free(t);
}

/* A case in a transcript that has seen another one before. */
static void check_after_clear(struct table_case *c)
{
    tn_autobuf struct tn_buf got = TN_BUF_INIT(TEXT_MAX);
    struct tn_transcript *t = fresh(c->columns, c->rows);
    for (size_t at = 0; at <= c->input.len; at++) {
        tn_transcript_feed(t, c->input.data, at);
        tn_transcript_clear(t);
        tn_transcript_feed(t, c->input.data, c->input.len);
        tn_buf_reset(&got);
        tn_transcript_take(t, &got);
        compare(c, &got, "after clear at", at);
        tn_transcript_clear(t);
    }
    tn_transcript_free(t);
}

static void run_case(struct table_case *c, int *count, int *failed)
{
    if (c->input.len > 0) {
        check_whole(c);
        check_bytewise(c);
        for (size_t at = 0; at <= c->input.len; at++)
            check_split(c, at);
        check_after_clear(c);
        ++*count;
        *failed += c->failures > 0;
    }
    c->failures = 0;
    tn_buf_reset(&c->input);
    tn_buf_reset(&c->text);
    c->expected_lines = 0;
}

static void test_table(void **state)
{
    tn_autofile FILE *f = fopen(*state, "r");
    tn_autofree char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    int number = 0, count = 0, failed = 0;
    struct table_case c = {.columns = 20, .rows = 6};

    assert_non_null(f);
    tn_buf_init(&c.input, TEXT_MAX);
    tn_buf_init(&c.text, TEXT_MAX);
    while ((n = getline(&line, &cap, f)) > 0) {
        number++;
        if (line[n - 1] == '\n')
            n--;
        const char *start = line + (n > 1 ? 2 : n), *end = line + n;
        if (n > 0 && line[0] == '>') {
            if (c.input.len == 0)
                c.line = number;
            unescape(start, end, &c.input);
        } else if (n > 0 && line[0] == '<') {
            if (c.expected_lines++ > 0)
                tn_buf_putc(&c.text, '\n');
            unescape(start, end, &c.text);
        } else {
            run_case(&c, &count, &failed);
            if (n > 0 && line[0] == '@')
                assert_int_equal(sscanf(line, "@ %d %d", &c.columns, &c.rows), 2);
        }
    }
    run_case(&c, &count, &failed);
    tn_buf_done(&c.input);
    tn_buf_done(&c.text);
    assert_int_equal(failed, 0);
    assert_true(count >= 150);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(test_table, argv[1])};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
