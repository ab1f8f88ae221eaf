/* Reading the transcript: marks, changes, clearing, sizes and limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "hand/shell/transcript.h"

enum { TEXT_MAX = 16 << 20, WINDOW = 4 << 20 };

static struct tn_transcript *fresh(int columns, int rows)
{
    return tn_transcript_new(columns, rows, 10988, WINDOW);
}

static void feed(struct tn_transcript *t, const char *text)
{
    tn_transcript_feed(t, text, strlen(text));
}

/* Compares and frees. */
static void expect(struct tn_buf *got, const char *want)
{
    assert_string_equal(tn_buf_str(got), want);
    tn_buf_done(got);
}

static void expect_take(struct tn_transcript *t, const char *want)
{
    struct tn_buf got = TN_BUF_INIT(TEXT_MAX);
    assert_int_equal(tn_transcript_take(t, &got), 0);
    expect(&got, want);
}

static void expect_peek(struct tn_transcript *t, const char *want)
{
    struct tn_buf got = TN_BUF_INIT(TEXT_MAX);
    assert_int_equal(tn_transcript_peek(t, &got), 0);
    expect(&got, want);
}

/* --- marks --------------------------------------------------------------------------------- */

static void test_take_gives_what_is_new(void **state)
{
    struct tn_transcript *t = fresh(80, 24);

    expect_take(t, "");
    assert_false(tn_transcript_mid_line(t));
    feed(t, "one\r\n");
    expect_peek(t, "one");
    expect_take(t, "one");
    assert_false(tn_transcript_mid_line(t));
    expect_take(t, "");
    feed(t, "two\r\nthr");
    expect_take(t, "two\nthr");
    assert_true(tn_transcript_mid_line(t));
    feed(t, "ee");
    expect_take(t, "ee");
    assert_true(tn_transcript_mid_line(t));
    feed(t, "\r\nfour\r\n");
    expect_take(t, "\nfour");
    feed(t, "\r\n\r\nfive");
    expect_take(t, "\n\nfive");
    tn_transcript_free(t);
}

/* A prompt with a blank behind it, then the answer on the same line. */
static void test_mark_stands_at_the_cursor(void **state)
{
    struct tn_transcript *t = fresh(80, 24);

    feed(t, "name? ");
    expect_take(t, "name?");
    assert_true(tn_transcript_mid_line(t));
    feed(t, "bob\r\nhello bob\r\n");
    expect_take(t, "bob\nhello bob");
    feed(t, "age?\t");
    expect_take(t, "age?");
    feed(t, "7\r\n");
    expect_take(t, "7");
    tn_transcript_free(t);
}

static void test_changed_lines_are_given_again(void **state)
{
    struct tn_transcript *t = fresh(20, 6);

    feed(t, "start\r\n10%");
    expect_take(t, "start\n10%");
    feed(t, "\r20%");
    expect_take(t, "20%");
    feed(t, "\r\e[K100% done\r\n");
    expect_take(t, "100% done");
    assert_false(tn_transcript_mid_line(t));

    /* two lines up */
    feed(t, "\e[2A\e[2Kagain\r\n");
    expect_take(t, "again\n100% done");

    /* a wrapped line is given from its start */
    feed(t, "\e[2J\e[H1234567890123456789012345");
    expect_take(t, "1234567890123456789012345");
    feed(t, "\bX");
    expect_take(t, "123456789012345678901234X");

    /* two lines become one */
    feed(t, "\e[2J\e[2;1Hsecond\e[1;1H12345678901234567890");
    expect_take(t, "12345678901234567890\nsecond");
    feed(t, "s");
    expect_take(t, "12345678901234567890second");
    tn_transcript_free(t);
}

static void test_redrawn_lines_are_not(void **state)
{
    struct tn_transcript *t = fresh(80, 24);

    feed(t, "waiting");
    expect_take(t, "waiting");
    uint64_t changes = tn_transcript_changes(t);
    feed(t, "\r\e[Kwaiting");
    feed(t, "\rwaiting\e[K");
    feed(t, "\r\e[2Kwaiting   ");
    assert_int_equal(tn_transcript_changes(t), changes);
    expect_take(t, "");
    feed(t, "\r\e[Kwaiting.");
    assert_true(tn_transcript_changes(t) > changes);
    expect_take(t, "waiting.");
    tn_transcript_free(t);
}

static void test_untake(void **state)
{
    struct tn_transcript *t = fresh(80, 24);

    feed(t, "one\r\n");
    expect_take(t, "one");
    feed(t, "two\r\n");
    expect_take(t, "two");
    tn_transcript_untake(t);
    expect_peek(t, "two");
    tn_transcript_untake(t); /* once per take */
    expect_peek(t, "two");
    feed(t, "three");
    expect_take(t, "two\nthree");
    feed(t, "\r\e[Kfour\r\n\e[3A\e[2Kzero\r\n");
    tn_transcript_untake(t);
    expect_take(t, "zero\ntwo\nfour");

    /* nothing to undo after a clear */
    tn_transcript_clear(t);
    tn_transcript_untake(t);
    feed(t, "x");
    expect_take(t, "x");
    tn_transcript_free(t);
}

static void test_alternate_screen_has_its_own_mark(void **state)
{
    struct tn_transcript *t = fresh(80, 24);

    feed(t, "one\r\n");
    expect_take(t, "one");
    feed(t, "two\r\n\e[?1049h\e[Heditor\r\n~");
    expect_take(t, "editor\n~");
    feed(t, "\e[HEDITOR");
    expect_take(t, "EDITOR\n~");
    tn_transcript_untake(t);
    expect_peek(t, "EDITOR\n~");
    feed(t, "\e[?1049lthree");
    tn_transcript_untake(t); /* that text is gone */
    expect_take(t, "two\nthree");
    tn_transcript_free(t);
}

static void test_failed_buffer_keeps_the_mark(void **state)
{
    struct tn_transcript *t = fresh(80, 24);
    struct tn_buf small = TN_BUF_INIT(8);

    tn_buf_puts(&small, "abc");
    feed(t, "0123456789");
    assert_int_equal(tn_transcript_take(t, &small), -1);
    expect(&small, "abc");
    expect_take(t, "0123456789");
    tn_transcript_free(t);
}

static void test_take_appends(void **state)
{
    struct tn_transcript *t = fresh(80, 24);
    struct tn_buf out = TN_BUF_INIT(100);

    tn_buf_puts(&out, "before ");
    feed(t, "after");
    assert_int_equal(tn_transcript_take(t, &out), 0);
    expect(&out, "before after");
    tn_transcript_free(t);
}

/* --- changes, clear, resize ---------------------------------------------------------------- */

static void test_changes_count_visible_text_only(void **state)
{
    static const char *const silent[] = {"\r",    "\n",       "\r\n", "   ",  "\t",
                                         "\e[1m", "\e]0;t\a", "\e[H", "\e[K", "\e[5;5H  \e[J",
                                         "\a",    "\e[?25l",  "\xe2"};
    static const char *const loud[] = {"x", "\r\e[2Ky", "\b\e[K", "é", "\e[?1049h", "\e[?1049l"};
    struct tn_transcript *t = fresh(80, 24);

    for (size_t i = 0; i < TN_COUNT(silent); i++) {
        feed(t, silent[i]);
        assert_int_equal(tn_transcript_changes(t), 0);
    }
    tn_transcript_clear(t);
    for (size_t i = 0; i < TN_COUNT(loud); i++) {
        uint64_t before = tn_transcript_changes(t);
        feed(t, loud[i]);
        assert_true(tn_transcript_changes(t) > before);
    }
    uint64_t before = tn_transcript_changes(t);
    tn_transcript_clear(t);
    assert_true(tn_transcript_changes(t) >= before);
    tn_transcript_free(t);
}

static void test_clear_forgets_sequences_and_modes(void **state)
{
    static const char *const left[] = {"\e",          "\e[",
                                       "\e[12;",      "\e]0;title",
                                       "\ePdata",     "\e_x",
                                       "\xe4\xb8",    "\e(",
                                       "\e(0",        "\e)0\x0e",
                                       "\e[4h",       "\e[?7l",
                                       "\e[?6h",      "\e[3;4r",
                                       "\e[?1049hx",  "\e[3g",
                                       "\e[9;9H",     "\e7",
                                       "\e[?47h",     "\e[?1",
                                       "\e[38;5",     "text\r\n",
                                       "\ekx",        "\e[!",
                                       "a\e[3;3H\e7", "\e[3;3H\e[?1049h\e[?1049l"};
    struct tn_transcript *t = fresh(20, 6);

    for (size_t i = 0; i < TN_COUNT(left); i++) {
        feed(t, left[i]);
        tn_transcript_clear(t);
        feed(t, "\e[?1049lab\rc\tqqqqqqqqqqqqqqq\e8\r\n");
        expect_take(t, "cb      qqqqqqqqqqqqqqq");
        assert_int_equal(tn_transcript_dropped(t), 0);
        tn_transcript_clear(t);
    }
    tn_transcript_free(t);
}

static void test_resize(void **state)
{
    struct tn_transcript *t = fresh(10, 4);

    feed(t, "1\r\n2\r\n3\r\n4\r\n5 abcdefghij");
    expect_take(t, "1\n2\n3\n4\n5 abcdefghij");
    tn_transcript_resize(t, 20, 2);
    feed(t, "k\e[99Atop");
    expect_peek(t, "5 atopefghijk");
    feed(t, "\e[2J\e[Hx");
    tn_transcript_resize(t, 0, -5);
    feed(t, "\r\nabc");
    tn_transcript_resize(t, 1 << 30, 1 << 30);
    feed(t, "d\r\ne");
    tn_transcript_untake(t);
    expect_take(t, "1\n2\n3\n4\nx\nabcd\ne");
    tn_transcript_free(t);
}

/* --- limits -------------------------------------------------------------------------------- */

static void feed_lines(struct tn_transcript *t, int from, int to)
{
    char line[32];
    for (int i = from; i <= to; i++) {
        snprintf(line, sizeof line, "Line %d\r\n", i);
        feed(t, line);
    }
}

static void expect_lines(struct tn_transcript *t, int from, int to)
{
    struct tn_buf want = TN_BUF_INIT(TEXT_MAX);
    for (int i = from; i <= to; i++)
        tn_buf_printf(&want, "%sLine %d", i > from ? "\n" : "", i);
    expect_take(t, tn_buf_str(&want));
    tn_buf_done(&want);
}

static void test_window_of_rows(void **state)
{
    struct tn_transcript *t = fresh(1000, 1000);

    feed_lines(t, 1, 5000);
    assert_int_equal(tn_transcript_dropped(t), 0);
    assert_int_equal(tn_transcript_rows(t), 5000);
    expect_lines(t, 1, 5000);
    tn_transcript_untake(t);
    feed_lines(t, 5001, 50000);
    assert_int_equal(tn_transcript_rows(t), 10988);
    assert_int_equal(tn_transcript_dropped(t), 50000 - 10988);
    expect_lines(t, 50000 - 10988 + 1, 50000);
    assert_false(tn_transcript_mid_line(t));

    tn_transcript_clear(t);
    assert_int_equal(tn_transcript_dropped(t), 0);
    assert_int_equal(tn_transcript_rows(t), 0);
    expect_take(t, "");
    tn_transcript_free(t);
}

/* What was not read yet and falls out of the window is lost; the rest follows from a line's start.
 */
static void test_mark_falls_out_of_the_window(void **state)
{
    struct tn_transcript *t = tn_transcript_new(80, 4, 10, WINDOW);

    feed(t, "abc");
    expect_take(t, "abc");
    feed(t, "\r\n");
    feed_lines(t, 1, 100);
    assert_false(tn_transcript_mid_line(t));
    expect_lines(t, 91, 100);
    tn_transcript_free(t);
}

static void test_wrapped_rows_count(void **state)
{
    struct tn_transcript *t = tn_transcript_new(10, 2, 4, WINDOW);

    feed(t, "1111111111222222222233333333334444444444555555555566\r\n");
    assert_int_equal(tn_transcript_rows(t), 4);
    assert_int_equal(tn_transcript_dropped(t), 2);
    expect_take(t, "33333333334444444444555555555566");
    tn_transcript_free(t);
}

static void test_window_of_bytes(void **state)
{
    struct tn_transcript *t = tn_transcript_new(80, 4, 10000, 1000);
    tn_autobuf struct tn_buf got = TN_BUF_INIT(TEXT_MAX);
    size_t text = 0;

    feed_lines(t, 1000, 1999);
    assert_int_equal(tn_transcript_take(t, &got), 0);
    for (size_t i = 0; i < got.len; i++)
        text += got.data[i] != '\n';
    assert_in_range(text, 900, 1000);
    assert_int_equal(tn_transcript_dropped(t) + tn_transcript_rows(t), 1000);
    assert_string_equal(got.data + got.len - 9, "Line 1999");
    tn_transcript_free(t);
}

/* Lines of all lengths around a small ring: what is left is the end of what was fed, and most of
 * what the limit allows. */
static void test_window_of_bytes_in_any_shape(void **state)
{
    for (size_t max = 120; max < 600; max += 7) {
        struct tn_transcript *t = tn_transcript_new(80, 1, 10000, max);
        tn_autobuf struct tn_buf all = TN_BUF_INIT(TEXT_MAX);
        tn_autobuf struct tn_buf got = TN_BUF_INIT(TEXT_MAX);
        uint32_t random = (uint32_t)max;

        for (int i = 0; i < 500; i++) {
            char line[64];
            random = random * 1664525 + 1013904223;
            int n = snprintf(line, sizeof line, "%d:%.*s", i, (int)(random >> 27),
                             "abcdefghijklmnopqrstuvwxyzABCDEFGH");
            tn_transcript_feed(t, line, (size_t)n);
            feed(t, "\r\n");
            tn_buf_printf(&all, "%s\n", line);
        }
        tn_transcript_take(t, &got);
        tn_buf_cut(&all, all.len - 1);
        assert_in_range(got.len, max - 80, max + tn_transcript_rows(t));
        assert_string_equal(got.data, all.data + all.len - got.len);
        assert_int_equal(all.data[all.len - got.len - 1], '\n');
        tn_transcript_free(t);
    }
}

/* A screen full of the longest cells there are: more than all the memory allowed. */
static void test_screen_larger_than_the_window(void **state)
{
    struct tn_transcript *t = tn_transcript_new(100, 100, 200, 10000);
    tn_autobuf struct tn_buf got = TN_BUF_INIT(TEXT_MAX);

    for (int row = 1; row <= 100; row++) {
        char move[32];
        snprintf(move, sizeof move, "\e[%d;1H", row);
        feed(t, move);
        for (int i = 0; i < 100; i++)
            feed(
                t,
                "a\xcc\x81\xcc\x81\xcc\x81\xcc\x81\xcc\x81\xcc\x81\xcc\x81\xcc\x81\xcc\x81\xcc\x81"
                "\xcc\x81\xcc\x81\xcc\x81\xcc\x81\xcc\x81\xcc\x81\xcc\x81\xcc\x81\xcc\x81\xcc\x81");
    }
    assert_int_equal(tn_transcript_take(t, &got), 0);
    assert_in_range(got.len, 3000, 10000 + 100);
    assert_true(tn_transcript_dropped(t) > 0);
    assert_true(tn_utf8_valid(got.data, got.len));
    tn_transcript_free(t);
}

/* The smallest window there can be still shows the line at the cursor. */
static void test_no_bytes_at_all(void **state)
{
    struct tn_transcript *t = tn_transcript_new(80, 4, 0, 0);

    feed(t, "one\r\ntwo\r\n1\r\n2\r\n3\r\n4\r\nlast");
    assert_true(tn_transcript_dropped(t) > 0);
    assert_true(tn_transcript_rows(t) <= 4);
    tn_autobuf struct tn_buf got = TN_BUF_INIT(TEXT_MAX);
    tn_transcript_take(t, &got);
    assert_non_null(strstr(tn_buf_str(&got), "last"));
    tn_transcript_free(t);
}

/* A forgotten end of string swallows a megabyte, not everything. */
static void test_endless_string(void **state)
{
    struct tn_transcript *t = fresh(80, 24);

    feed(t, "a\e]0;");
    for (int i = 0; i < (1 << 20) + 100; i++)
        tn_transcript_feed(t, "z", 1);
    feed(t, "\r\nend");
    tn_autobuf struct tn_buf got = TN_BUF_INIT(TEXT_MAX);
    tn_transcript_take(t, &got);
    assert_int_equal(got.data[0], 'a');
    assert_non_null(strstr(got.data, "zz\nend"));
    assert_true(got.len < 200);
    tn_transcript_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_take_gives_what_is_new),
        cmocka_unit_test(test_mark_stands_at_the_cursor),
        cmocka_unit_test(test_changed_lines_are_given_again),
        cmocka_unit_test(test_redrawn_lines_are_not),
        cmocka_unit_test(test_untake),
        cmocka_unit_test(test_alternate_screen_has_its_own_mark),
        cmocka_unit_test(test_failed_buffer_keeps_the_mark),
        cmocka_unit_test(test_take_appends),
        cmocka_unit_test(test_changes_count_visible_text_only),
        cmocka_unit_test(test_clear_forgets_sequences_and_modes),
        cmocka_unit_test(test_resize),
        cmocka_unit_test(test_window_of_rows),
        cmocka_unit_test(test_mark_falls_out_of_the_window),
        cmocka_unit_test(test_wrapped_rows_count),
        cmocka_unit_test(test_window_of_bytes),
        cmocka_unit_test(test_window_of_bytes_in_any_shape),
        cmocka_unit_test(test_screen_larger_than_the_window),
        cmocka_unit_test(test_no_bytes_at_all),
        cmocka_unit_test(test_endless_string),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
