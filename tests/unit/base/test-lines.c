#include "base/lines.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka.h comes last */
#include <cmocka.h>

enum { MAX = 5 };

/* What comes of the bytes when they come in pieces of that size. */
static void check(const char *bytes, size_t piece, const char *expected)
{
    tn_autobuf struct tn_buf story = TN_BUF_INIT(1 << 16);
    struct tn_lines l;
    const char *text;

    tn_lines_init(&l, MAX);
    for (size_t at = 0, n = strlen(bytes); at < n; at += piece) {
        tn_lines_add(&l, bytes + at, n - at < piece ? n - at : piece);
        for (ssize_t length; (length = tn_lines_next(&l, &text)) != TN_LINES_NONE;) {
            assert_true(length == TN_LINES_TOO_LONG || strlen(text) == (size_t)length);
            tn_buf_printf(&story, "[%s]", length == TN_LINES_TOO_LONG ? "!" : text);
        }
        assert_int_equal(tn_lines_next(&l, &text), TN_LINES_NONE);
    }
    assert_string_equal(tn_buf_str(&story), expected);
    tn_lines_done(&l);
}

static void test_lines(void **state)
{
    static const struct {
        const char *bytes, *expected;
    } rows[] = {
        {"", ""},
        {"abc", ""},
        {"abc\n", "[abc]"},
        {"a\nb\n\nc", "[a][b][]"},
        {"a\r\n\r\n\rb\n", "[a][][\rb]"},
        {"12345\n", "[12345]"},
        {"123456\n", "[!]"},
        {"123456", "[!]"},
        {"a\n123456789\nb\n", "[a][!][b]"},
        {"1234567\n7654321\nx\n", "[!][!][x]"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (size_t piece = 1; piece < 20; piece++)
            check(rows[i].bytes, piece, rows[i].expected);
}

/* Many short lines at once, and one of the largest size. */
static void test_much(void **state)
{
    static char many[TN_LINES_PIECE];
    struct tn_lines l;
    const char *text;
    size_t count = 0;

    tn_lines_init(&l, 8 * TN_LINES_PIECE);
    memset(many, '\n', sizeof many);
    tn_lines_add(&l, many, sizeof many);
    while (tn_lines_next(&l, &text) == 0)
        count++;
    assert_int_equal(count, sizeof many);
    memset(many, 'x', sizeof many);
    for (int i = 0; i < 8; i++) {
        tn_lines_add(&l, many, sizeof many);
        assert_int_equal(tn_lines_next(&l, &text), TN_LINES_NONE);
    }
    tn_lines_add(&l, "\n", 1);
    assert_int_equal(tn_lines_next(&l, &text), 8 * sizeof many);
    assert_int_equal(tn_lines_next(&l, &text), TN_LINES_NONE);
    assert_true(l.in.cap < sizeof many * 8); /* which is not kept */
    tn_lines_done(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_much),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
