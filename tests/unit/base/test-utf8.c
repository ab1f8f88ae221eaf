#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/guard.h"
#include "base/utf8.h"

static void test_every_code_point_there_and_back(void **state)
{
    for (uint32_t cp = 0; cp <= 0x10ffff; cp++) {
        char bytes[4];
        uint32_t back;
        if (cp == 0xd800)
            cp = 0xe000;
        size_t n = tn_utf8_encode(cp, bytes);
        if (tn_utf8_decode(bytes, n, &back) != n || back != cp || !tn_utf8_valid(bytes, n))
            fail_msg("U+%04X", cp);
        if (n > 1 && tn_utf8_decode(bytes, n - 1, &back) != 0)
            fail_msg("U+%04X cut short", cp);
    }
}

static void test_refuses(void **state)
{
    static const char *const bad[] = {
        "\x80",
        "\xbf",
        "\xc0\x80",
        "\xc1\xbf",
        "\xc3",
        "\xc3x",
        "\xe0\x80\x80",
        "\xe0\x9f\xbf",
        "\xe2\x98",
        "\xe2x\x83",
        "\xed\xa0\x80",
        "\xed\xbf\xbf",
        "\xf0\x80\x80\x80",
        "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80",
        "\xf5\x80\x80\x80",
        "\xf8\x88\x80\x80\x80",
        "\xfe",
        "\xff",
    };
    for (size_t i = 0; i < TN_COUNT(bad); i++) {
        uint32_t cp;
        assert_int_equal(tn_utf8_decode(bad[i], strlen(bad[i]), &cp), 0);
        assert_false(tn_utf8_valid(bad[i], strlen(bad[i])));
    }
}

static void test_valid_finds_one_bad_byte_anywhere(void **state)
{
    char text[40];
    for (size_t at = 0; at < sizeof text; at++) {
        memset(text, 'a', sizeof text);
        assert_true(tn_utf8_valid(text, sizeof text));
        text[at] = (char)0xff;
        assert_false(tn_utf8_valid(text, sizeof text));
        assert_int_equal(tn_utf8_length(text, sizeof text), sizeof text);
    }
    assert_true(tn_utf8_valid("", 0));
}

static void test_length_and_offset(void **state)
{
    static const char text[] = "a\xc3\xa9\xe2\x98\x83\xf0\x9f\x98\x80z\xffplain ascii text";
    size_t n = sizeof text - 1;
    assert_int_equal(tn_utf8_length(text, n), 22);
    assert_int_equal(tn_utf8_length(text, 0), 0);
    static const size_t offsets[] = {0, 1, 3, 6, 10, 11, 12, 13};
    for (size_t i = 0; i < TN_COUNT(offsets); i++)
        assert_int_equal(tn_utf8_offset(text, n, i), offsets[i]);
    assert_int_equal(tn_utf8_offset(text, n, 22), n);
    assert_int_equal(tn_utf8_offset(text, n, 1000), n);
}

static void test_width(void **state)
{
    static const struct {
        uint32_t cp;
        int width;
    } rows[] = {
        {0, 0},        {'\n', 0},    {0x1b, 0},    {' ', 1},     {'a', 1},     {0x7f, 0},
        {0x9b, 0},     {0xa0, 1},    {0xad, 1},    {0xe9, 1},    {0x2ff, 1},   {0x300, 0},
        {0x301, 0},    {0x36f, 0},   {0x370, 1},   {0x5d0, 1},   {0x5b0, 0},   {0x10ff, 1},
        {0x1100, 2},   {0x115f, 2},  {0x1160, 0},  {0x200b, 0},  {0x200d, 0},  {0x2013, 1},
        {0x2503, 1},   {0x2588, 1},  {0x231a, 2},  {0x2603, 1},  {0x2705, 2},  {0x3000, 2},
        {0x303f, 1},   {0x3042, 2},  {0x4e2d, 2},  {0xac00, 2},  {0xd7a3, 2},  {0xfe0f, 0},
        {0xfeff, 0},   {0xff01, 2},  {0xff61, 1},  {0xffe5, 2},  {0xfffd, 1},  {0x1f1e6, 1},
        {0x1f600, 2},  {0x1f680, 2}, {0x1f9d1, 2}, {0x20000, 2}, {0x3fffd, 2}, {0xe0100, 0},
        {0x10ffff, 1},
    };
    for (size_t i = 0; i < TN_COUNT(rows); i++)
        if (tn_utf8_width(rows[i].cp) != rows[i].width)
            fail_msg("U+%04X: %d", rows[i].cp, tn_utf8_width(rows[i].cp));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_code_point_there_and_back),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_valid_finds_one_bad_byte_anywhere),
        cmocka_unit_test(test_length_and_offset),
        cmocka_unit_test(test_width),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
