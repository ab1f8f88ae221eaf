#include "unit.h"

#include "net/url.h"

static const struct {
    const char *text;
    const char *path; /* NULL: refused */
    const char *form;
} decodings[] = {
    {"", "", ""},
    {"abc", "abc", "abc"},
    {"a%20b+c", "a b+c", "a b c"},
    {"%2F%2f", "//", "//"},
    {"%C3%BC", "\xc3\xbc", "\xc3\xbc"},
    {"%ff", "\xff", "\xff"},
    {"%25", "%", "%"},
    {"%2541", "%41", "%41"},
    {"%0a%0D", "\n\r", "\n\r"},
    {"%01", "\1", "\1"},
    {"%10", "\x10", "\x10"},
    {"%", NULL, NULL},
    {"a%", NULL, NULL},
    {"%4", NULL, NULL},
    {"%4g", NULL, NULL},
    {"%g4", NULL, NULL},
    {"%%41", NULL, NULL},
    {"% 41", NULL, NULL},
    {"%+1", NULL, NULL},
    {"%-1", NULL, NULL},
    {"%0x", NULL, NULL},
    {"%00", NULL, NULL},
    {"abc%00", NULL, NULL},
    {"%u0041", NULL, NULL},
};

static void test_decode(void **state)
{
    char out[64];

    for (size_t i = 0; i < TN_COUNT(decodings); i++) {
        size_t n = strlen(decodings[i].text);
        for (int form = 0; form < 2; form++) {
            const char *want = form ? decodings[i].form : decodings[i].path;
            ssize_t len = tn_url_decode(decodings[i].text, n, out, form);
            assert_int_equal(len, want ? (ssize_t)strlen(want) : -1);
            if (want)
                assert_string_equal(out, want);
        }
        assert_int_equal(tn_url_valid(decodings[i].text, n), decodings[i].path != NULL);
    }
}

static void test_decode_in_place_and_cut(void **state)
{
    char text[] = "a%41%42c";

    assert_int_equal(tn_url_decode(text, 8, text, false), 4);
    assert_string_equal(text, "aABc");
    /* the escape ends behind the given length */
    char out[8];
    assert_int_equal(tn_url_decode("ab%41", 4, out, false), -1);
    assert_int_equal(tn_url_decode("a\0b", 3, out, false), -1);
    assert_false(tn_url_valid("a\0b", 3));
}

static void test_encode(void **state)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(100);
    tn_autobuf struct tn_buf small = TN_BUF_INIT(4);

    assert_int_equal(tn_url_encode(&out, "aZ09-._~ /?&=+%\xc3\xbc", NULL), 0);
    assert_string_equal(tn_buf_str(&out), "aZ09-._~%20%2F%3F%26%3D%2B%25%C3%BC");
    tn_buf_reset(&out);
    assert_int_equal(tn_url_encode(&out, "/a b/c", "/"), 0);
    assert_string_equal(tn_buf_str(&out), "/a%20b/c");
    assert_int_equal(tn_url_encode(&small, "a b c", NULL), -1);
}

/* The pairs of a query, as one readable line. */
static const char *pairs_of(const char *query, char line[200])
{
    size_t n = strlen(query);
    tn_autofree char *pairs = tn_malloc(TN_URL_PAIRS_MAX(n));
    const char *end = pairs + tn_url_pairs(query, n, pairs);

    line[0] = '\0';
    for (const char *p = pairs; p < end;) {
        const char *value = p + strlen(p) + 1;
        size_t used = strlen(line);
        snprintf(line + used, 200 - used, "[%s=%s]", p, value);
        p = value + strlen(value) + 1;
    }
    return line;
}

static void test_pairs(void **state)
{
    static const struct {
        const char *query;
        const char *pairs;
    } rows[] = {
        {"", ""},
        {"a=1", "[a=1]"},
        {"a=1&b=2", "[a=1][b=2]"},
        {"a", "[a=]"},
        {"a&b&c", "[a=][b=][c=]"},
        {"a=&=b&=", "[a=][=b][=]"},
        {"&&a=1&&", "[a=1]"},
        {"a=b=c", "[a=b=c]"},
        {"a=1+2%2B3", "[a=1 2+3]"},
        {"%61%3d=%26", "[a==&]"},
        {"a=%&b=2&%=3", "[b=2]"},
        {"a;b=1", "[a;b=1]"},
    };
    char line[200];

    for (size_t i = 0; i < TN_COUNT(rows); i++)
        assert_string_equal(pairs_of(rows[i].query, line), rows[i].pairs);
}

static void test_climbs(void **state)
{
    static const char *const climbing[] = {"/..",       "/../a", "/a/..?b", "/a/./b",
                                           "/%2e%2e/a", "/.%2E", "/a%2f..", "/a\\..\\b",
                                           "/a/%2e/b",  "..",    "/a%5c.."};
    static const char *const others[] = {"/",   "",        "/a//b",  "/...", "/a..b/..c/d..",
                                         "/.a", "/a?b=..", "/a?/../"};

    for (size_t i = 0; i < TN_COUNT(climbing); i++)
        assert_true(tn_url_climbs(climbing[i]));
    for (size_t i = 0; i < TN_COUNT(others); i++)
        assert_false(tn_url_climbs(others[i]));
}

static void test_is_page(void **state)
{
    static const char *const pages[] = {"http://a", "https://a.example:8443/b?c=%20d#e",
                                        "http://[::1]:80/"};
    static const char *const others[] = {
        "",           "-o",          "file:///etc/passwd", "javascript:x",    "HTTP://a",
        "http://a b", "http://a\nb", "http://a\"b",        "https://a\x1b[m", "https://\xc3\xa9"};

    for (size_t i = 0; i < TN_COUNT(pages); i++)
        assert_true(tn_url_is_page(pages[i]));
    for (size_t i = 0; i < TN_COUNT(others); i++)
        assert_false(tn_url_is_page(others[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decode), cmocka_unit_test(test_decode_in_place_and_cut),
        cmocka_unit_test(test_encode), cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_climbs), cmocka_unit_test(test_is_page),
    };

    return cmocka_run_group_tests_name("url", tests, NULL, NULL);
}
