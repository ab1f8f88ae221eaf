/* The command splitter against the table in split.test (named on the command line), its limits, and
 * the text that refuses several commands. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "hand/shell/split.h"

static const char *table_path;

static const char *const state_names[] = {
    [TN_SPLIT_COMPLETE] = "complete",
    [TN_SPLIT_INCOMPLETE] = "incomplete",
    [TN_SPLIT_UNSURE] = "unsure",
};

/* --- the table --------------------------------------------------------------------------- */

struct test_case {
    char title[128];
    bool escapes; /* %0D is a byte */
    struct tn_buf input;
    char expected[128];
};

static void add_input_line(struct test_case *c, const char *line, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned byte;
        if (c->escapes && line[i] == '%' && sscanf(line + i + 1, "%2x", &byte) == 1) {
            tn_buf_putc(&c->input, (char)byte);
            i += 2;
        } else {
            tn_buf_putc(&c->input, line[i]);
        }
    }
}

/* Reads the next case; false at the end of the table. */
static bool next_case(FILE *f, struct test_case *c)
{
    char *line = NULL;
    size_t cap = 0, lines = 0;
    ssize_t len;
    bool in_case = false, whole = false;
    tn_buf_reset(&c->input);
    while (!whole && (len = getline(&line, &cap, f)) > 0) {
        line[--len] = 0;
        if (strncmp(line, "====", 4) == 0) {
            assert_false(in_case);
            in_case = true;
            c->escapes = line[4] == '%';
            snprintf(c->title, sizeof(c->title), "%s", line + 5);
        } else if (in_case && strncmp(line, "---- ", 5) == 0) {
            snprintf(c->expected, sizeof(c->expected), "%s", line + 5);
            whole = true;
        } else if (in_case) {
            if (lines++)
                tn_buf_putc(&c->input, '\n');
            add_input_line(c, line, (size_t)len);
        }
    }
    free(line);
    assert_true(tn_buf_ok(&c->input));
    assert_true(whole || !in_case);
    return whole;
}

static bool is_space(char c)
{
    return c && strchr(" \t\r\n", c);
}

static size_t count_newlines(const char *s, size_t start, size_t end)
{
    size_t n = 0;
    for (size_t i = start; i < end; i++)
        n += s[i] == '\n';
    return n;
}

/* Says what a span is in the table's terms: "3" or "3-5", with a "?" when it does not start and end
 * where lines do, not counting blanks. */
static void describe_span(const struct tn_buf *text, const struct tn_span *span, struct tn_buf *out)
{
    const char *s = text->data;
    size_t start = span->start, end = span->start + span->len;
    size_t first = 1 + count_newlines(s, 0, start);
    size_t last = first + count_newlines(s, start, end);
    bool trimmed = span->len > 0 && !is_space(s[start]) && !is_space(s[end - 1]);
    while (start > 0 && s[start - 1] != '\n' && is_space(s[start - 1]))
        start--;
    while (end < text->len && s[end] != '\n' && is_space(s[end]))
        end++;
    bool at_lines = (start == 0 || s[start - 1] == '\n') && (end == text->len || s[end] == '\n');
    tn_buf_printf(out, "%s%zu", out->len ? " " : "", first);
    if (last > first)
        tn_buf_printf(out, "-%zu", last);
    if (!trimmed || !at_lines)
        tn_buf_puts(out, "?");
}

static void describe(const struct tn_buf *text, const struct tn_split *split, struct tn_buf *out)
{
    bool one = split->count == 1;
    const struct tn_span *first = &split->commands[0];
    if (split->state != TN_SPLIT_COMPLETE) {
        bool whole = one && first->start == 0 && first->len == text->len;
        tn_buf_printf(out, "%s%s", state_names[split->state], whole ? "" : " in pieces");
    } else if (one && first->start == 0 && first->len == 0) {
        tn_buf_puts(out, "blank");
    } else {
        for (size_t i = 0; i < split->count; i++)
            describe_span(text, &split->commands[i], out);
    }
}

static void test_table(void **state)
{
    tn_autofile FILE *f = fopen(table_path, "r");
    assert_non_null(f);
    struct test_case c = {.input = TN_BUF_INIT(1 << 16)};
    size_t cases = 0, failures = 0;
    while (next_case(f, &c)) {
        cases++;
        /* An exact copy, so that a read past the end is seen. */
        tn_autofree char *copy = tn_malloc(c.input.len);
        memcpy(copy, tn_buf_str(&c.input), c.input.len);
        struct tn_split split;
        assert_int_equal(tn_split(copy, c.input.len, &split), 0);
        tn_autobuf struct tn_buf found = TN_BUF_INIT(1 << 12);
        describe(&c.input, &split, &found);
        if (strcmp(tn_buf_str(&found), c.expected) != 0) {
            failures++;
            print_error("%s: expected %s, found %s\n", c.title, c.expected, tn_buf_str(&found));
        }
        tn_split_done(&split);
    }
    tn_buf_done(&c.input);
    assert_int_equal(failures, 0);
    assert_true(cases >= 150);
}

/* --- what a table cannot show ------------------------------------------------------------ */

static void expect(const char *text, enum tn_split_state state, size_t count)
{
    struct tn_split split;
    assert_int_equal(tn_split(text, strlen(text), &split), 0);
    if (split.state != state)
        print_error("%.40s...: expected %s, found %s\n", text, state_names[state],
                    state_names[split.state]);
    assert_int_equal(split.state, state);
    assert_int_equal(split.count, count);
    tn_split_done(&split);
}

/* The text `open` n times, then `middle`, then `close` n times. */
static char *nested(const char *open, size_t n, const char *middle, const char *close)
{
    struct tn_buf b = TN_BUF_INIT(8 << 20);
    for (size_t i = 0; i < n; i++)
        tn_buf_puts(&b, open);
    tn_buf_puts(&b, middle);
    for (size_t i = 0; i < n; i++)
        tn_buf_puts(&b, close);
    assert_true(tn_buf_ok(&b));
    return tn_buf_take(&b);
}

/* Blanks at the end of a command that mean something: an escaped one, and the empty line that
 * closes a here-document. */
static void test_meaningful_blanks_stay(void **state)
{
    const char *text = "echo a\\ \ncat <<''\nb\n\n\nls\\\t";
    struct tn_split split;
    assert_int_equal(tn_split(text, strlen(text), &split), 0);
    assert_int_equal(split.count, 3);
    assert_memory_equal(text + split.commands[0].start, "echo a\\ ", split.commands[0].len);
    assert_int_equal(split.commands[0].len, 8);
    assert_memory_equal(text + split.commands[1].start, "cat <<''\nb\n", split.commands[1].len);
    assert_int_equal(split.commands[1].len, 11);
    assert_memory_equal(text + split.commands[2].start, "ls\\\t", split.commands[2].len);
    assert_int_equal(split.commands[2].len, 4);
    tn_split_done(&split);
}

static void test_empty(void **state)
{
    struct tn_split split;
    assert_int_equal(tn_split("", 0, &split), 0);
    assert_int_equal(split.state, TN_SPLIT_COMPLETE);
    assert_int_equal(split.count, 1);
    assert_int_equal(split.commands[0].len, 0);
    tn_split_done(&split);
    tn_split_done(&split);
    tn_split_done(NULL);
}

static void test_deep_nesting(void **state)
{
    static const struct {
        const char *open, *close;
    } rows[] = {
        {"$(", ")"}, {"{ ", ";}"}, {"( ", ")"}, {"if a; then ", "; fi"}, {"\"${x:-", "}\""},
    };
    for (size_t i = 0; i < TN_COUNT(rows); i++) {
        tn_autofree char *deep = nested(rows[i].open, 450, "a", rows[i].close);
        expect(deep, TN_SPLIT_COMPLETE, 1);
        tn_autofree char *deeper = nested(rows[i].open, 1001, "a", rows[i].close);
        expect(deeper, TN_SPLIT_UNSURE, 1);
    }
}

static void test_many_heredocs(void **state)
{
    tn_autofree char *some = nested("<<E ", 16, "\n", "E\n");
    expect(some, TN_SPLIT_COMPLETE, 1);
    tn_autofree char *many = nested("<<E ", 17, "\n", "E\n");
    expect(many, TN_SPLIT_UNSURE, 1);
    tn_autofree char *left_over = nested("$(<<E)", 17, "\n", "E\n");
    expect(left_over, TN_SPLIT_UNSURE, 1);
}

/* About a megabyte each.  Were one of them read in quadratic time, the test would run out of its.
 */
static void test_long_texts(void **state)
{
    static const struct {
        const char *start, *repeat, *end;
        enum tn_split_state state;
    } rows[] = {
        {"", "$(", "", TN_SPLIT_UNSURE},
        {"", "${", "", TN_SPLIT_UNSURE},
        {"", "<<", "", TN_SPLIT_UNSURE},
        {"", "<<a\n", "", TN_SPLIT_INCOMPLETE},
        {"", "$(<<a)\n", "", TN_SPLIT_INCOMPLETE},
        {"", "\"\"", "", TN_SPLIT_COMPLETE},
        {"", "''", "'", TN_SPLIT_INCOMPLETE},
        {"", "``", "", TN_SPLIT_COMPLETE},
        {"", "\"'", "", TN_SPLIT_INCOMPLETE},
        {"", "((", "", TN_SPLIT_INCOMPLETE},
        {"", "((a);", "", TN_SPLIT_UNSURE},
        {"", "((a);b)\n", "", TN_SPLIT_COMPLETE},
        {"", "a=()=", "", TN_SPLIT_UNSURE},
        {"a=(", "a\n", ")", TN_SPLIT_COMPLETE},
        {"", "\\\n", "a", TN_SPLIT_COMPLETE},
        {"", "i\\\n", "a", TN_SPLIT_COMPLETE},
        {"", "a\n", "", TN_SPLIT_COMPLETE},
        {"", "#  \n", "", TN_SPLIT_COMPLETE},
        {"[[ ", "(", "", TN_SPLIT_INCOMPLETE},
        {"cat <<E\n", "E\\\n", "", TN_SPLIT_INCOMPLETE},
        /* Every line closes a here-document, is read to the end because a `)` may follow, and opens
         * the next one. */
        {"$(cat <<E\n", "E cat <<E #\\\n", ")", TN_SPLIT_UNSURE},
    };
    for (size_t i = 0; i < TN_COUNT(rows); i++) {
        size_t times = (1 << 20) / strlen(rows[i].repeat);
        tn_autofree char *middle = nested(rows[i].repeat, times, "", "");
        tn_autofree char *text = tn_asprintf("%s%s%s", rows[i].start, middle, rows[i].end);
        bool lines = rows[i].state == TN_SPLIT_COMPLETE && rows[i].start[0] == 0 &&
                     rows[i].repeat[0] != '#' && rows[i].end[0] == 0 &&
                     strchr(rows[i].repeat, '\n');
        expect(text, rows[i].state, lines ? times : 1);
    }
}

static void test_error_text(void **state)
{
    const char *text = "first # c\n# d\n\n  second \\\n  line\n";
    struct tn_split split;
    assert_int_equal(tn_split(text, strlen(text), &split), 0);
    tn_autobuf struct tn_buf out = TN_BUF_INIT(1024);
    tn_split_format_error(text, &split, &out);
    assert_string_equal(
        tn_buf_str(&out),
        "ERROR: Cannot execute multiple commands at once.\n"
        "Please run each command separately OR chain them into a single command via "
        "&& or ;\n"
        "Provided commands:\n"
        "(1) first # c\n# d\n"
        "(2) second \\\n  line");
    tn_split_done(&split);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),         cmocka_unit_test(test_meaningful_blanks_stay),
        cmocka_unit_test(test_empty),         cmocka_unit_test(test_deep_nesting),
        cmocka_unit_test(test_many_heredocs), cmocka_unit_test(test_long_texts),
        cmocka_unit_test(test_error_text),
    };
    if (argc != 2) {
        fprintf(stderr, "usage: %s TABLE\n", argv[0]);
        return 2;
    }
    table_path = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
