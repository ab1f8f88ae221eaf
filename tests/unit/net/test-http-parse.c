#include "unit.h"

#include "base/buf.h"
#include "net/http-parse.h"

static const struct tn_http_limits limits = {.target = 64, .fields = 256};

#define LONG_64 "0123456789012345678901234567890123456789012345678901234567890123"

/* --- request heads ------------------------------------------------------------------------- */

/* code TN_OK: accepted.  What matters of the head is in the flags. */
enum { CLOSE = 1, KEEP = 2, UPGRADE = 4, CHUNKED = 8, EXPECT = 16, EXPECT_OTHER = 32, OLD = 64 };

static const struct {
    const char *head;
    enum tn_code code;
    unsigned flags;
    int64_t length;
} requests[] = {
    {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", TN_OK, 0, -1},
    {"GET / HTTP/1.0\r\n\r\n", TN_OK, OLD, -1},
    {"GET / HTTP/1.7\r\nHost: x\r\n\r\n", TN_OK, 0, -1},
    {"GET / HTTP/1.1\r\nhOsT:x\r\n\r\n", TN_OK, 0, -1},
    {"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", TN_OK, CLOSE, -1},
    {"GET / HTTP/1.1\r\nHost: x\r\nConnection: Keep-Alive, UPGRADE\r\n\r\n", TN_OK, KEEP | UPGRADE,
     -1},
    {"GET / HTTP/1.1\r\nHost: x\r\nConnection: a\r\nConnection:\t,, close ,\r\n\r\n", TN_OK, CLOSE,
     -1},
    {"GET / HTTP/1.1\r\nHost: x\r\nConnection: closed, xclose, clos\r\n\r\n", TN_OK, 0, -1},
    {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", TN_OK, 0, 0},
    {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0012 \r\n\r\n", TN_OK, 0, 12},
    {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 7\r\nContent-Length: 7\r\n\r\n", TN_OK, 0, 7},
    {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 922337203685477579\r\n\r\n", TN_OK, 0,
     922337203685477579},
    {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: cHunked\r\n\r\n", TN_OK, CHUNKED, -1},
    {"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-Continue\r\n\r\n", TN_OK, EXPECT, -1},
    {"POST / HTTP/1.1\r\nHost: x\r\nExpect: 200-maybe\r\n\r\n", TN_OK, EXPECT_OTHER, -1},
    {"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", TN_OK, 0, -1},
    {"GET http://h/p HTTP/1.1\r\nHost: x\r\n\r\n", TN_OK, 0, -1},
    {"GET /\xc3\xbc%20 HTTP/1.1\r\nHost: \xff\r\n\r\n", TN_OK, 0, -1},
    {"!#$%&'*+-.^_`|~09azAZ / HTTP/1.0\r\n\r\n", TN_OK, OLD, -1},
    {"GET /" LONG_64 " HTTP/1.1\r\nHost: x\r\n\r\n", TN_E_URI_TOO_LONG, 0, 0},
    {"GET /" LONG_64 LONG_64 LONG_64 " HTTP/1.1\r\nHost: x\r\n\r\n", TN_E_URI_TOO_LONG, 0, 0},
    {"GET / HTTP/1.1\r\nHost: x\r\nA: " LONG_64 LONG_64 LONG_64 LONG_64 "\r\n\r\n",
     TN_E_HEADERS_TOO_LARGE, 0, 0},
    {"GET / HTTP/1.1\r\nHost: x\r\nA: " LONG_64 LONG_64 "\r\nB: " LONG_64 LONG_64 "\r\n\r\n",
     TN_E_HEADERS_TOO_LARGE, 0, 0},
    {"GET / HTTP/3.0\r\nHost: x\r\n\r\n", TN_E_HTTP_VERSION, 0, 0},
    {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9223372036854775808\r\n\r\n", TN_E_TOO_LARGE, 0,
     0},
    {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: br\r\n\r\n", TN_E_UNSUPPORTED, 0, 0},
    {"GET / HTTP/1.1\nHost: x\n\n", TN_E_INVALID, 0, 0},
    {"GET / HTTP/1.1\r\nHost: x\r\n\n", TN_E_INVALID, 0, 0},
    {"GET / HTTP/1.1\r\nHost: x\n\r\n", TN_E_INVALID, 0, 0},
    {"\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n", TN_E_INVALID, 0, 0},
    {"GET\t/ HTTP/1.1\r\nHost: x\r\n\r\n", TN_E_INVALID, 0, 0},
    {"GET / HTTP/1.1\r\nHost\t: x\r\n\r\n", TN_E_INVALID, 0, 0},
    {"GET / HTTP/1.1\r\nHost: x\r\n\tfold\r\n\r\n", TN_E_INVALID, 0, 0},
    {"GET / HTTP/1.1\r\nHost: x\r\nA: \x7f\r\n\r\n", TN_E_INVALID, 0, 0},
    {"GET /\x7f HTTP/1.1\r\nHost: x\r\n\r\n", TN_E_INVALID, 0, 0},
    {"GET https:// HTTP/1.1\r\nHost: x\r\n\r\n", TN_E_INVALID, 0, 0},
    {"GET http://h?/x HTTP/1.1\r\nHost: x\r\n\r\n", TN_E_INVALID, 0, 0},
    {"GET  HTTP/1.1\r\nHost: x\r\n\r\n", TN_E_INVALID, 0, 0},
};

/* Scans as if the bytes came in two pieces cut at `cut`, then parses. */
static enum tn_code parse(const char *bytes, size_t n, size_t cut, struct tn_http_head *head)
{
    struct tn_http_scan scan = {0};
    struct tn_error err = {0};

    ssize_t whole = tn_http_scan(&scan, bytes, cut, &limits, &err);
    if (whole == 0)
        whole = tn_http_scan(&scan, bytes, n, &limits, &err);
    assert_int_not_equal(whole, 0);
    if (whole < 0 || tn_http_parse_request(bytes, (size_t)whole, &limits, head, &err) < 0)
        return err.code;
    assert_true((size_t)whole <= n);
    return TN_OK;
}

static void test_requests(void **state)
{
    for (size_t i = 0; i < TN_COUNT(requests); i++) {
        size_t n = strlen(requests[i].head);
        for (size_t cut = 0; cut <= n; cut++) {
            struct tn_http_head h;
            enum tn_code code = parse(requests[i].head, n, cut, &h);
            if (code != requests[i].code)
                fail_msg("%s: %s, cut at %zu", requests[i].head, tn_code_row(code)->name, cut);
            if (code != TN_OK)
                continue;
            unsigned flags = (h.close ? CLOSE : 0u) | (h.keep_alive ? KEEP : 0u) |
                             (h.upgrade ? UPGRADE : 0u) | (h.chunked ? CHUNKED : 0u) |
                             (h.expect_continue ? EXPECT : 0u) |
                             (h.expect_other ? EXPECT_OTHER : 0u) | (h.minor == 0 ? OLD : 0u);
            assert_int_equal(flags, requests[i].flags);
            assert_int_equal(h.length, requests[i].length);
        }
    }
}

static void test_slices(void **state)
{
    static const char text[] =
        "PUT /a?b HTTP/1.1\r\nHost: h\r\nX-Empty:\r\nX-Pad: \t v w \t\r\nx-pad: 2\r\n\r\nrest";
    struct tn_http_head h;

    assert_int_equal(parse(text, sizeof text - 1, 0, &h), TN_OK);
    assert_memory_equal(text + h.method.at, "PUT", h.method.len);
    assert_int_equal(h.method.len, 3);
    assert_memory_equal(text + h.target.at, "/a?b", h.target.len);
    assert_int_equal(h.target.len, 4);
    assert_int_equal(h.field_count, 4);
    const struct tn_http_slice *v = tn_http_find(&h, text, "x-pAD");
    assert_int_equal(v->len, 3);
    assert_memory_equal(text + v->at, "v w", 3);
    assert_int_equal(tn_http_find(&h, text, "X-Empty")->len, 0);
    assert_null(tn_http_find(&h, text, "X-Pa"));
    assert_null(tn_http_find(&h, text, "X-Padd"));
}

static void test_field_count(void **state)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(10000);
    const struct tn_http_limits wide = {.target = 100, .fields = 10000};

    for (int fields = 1; fields <= TN_HTTP_MAX_FIELDS + 1; fields++) {
        struct tn_http_head h;
        struct tn_error err = {0};
        tn_buf_reset(&text);
        tn_buf_puts(&text, "GET / HTTP/1.0\r\n");
        for (int i = 0; i < fields; i++)
            tn_buf_puts(&text, "a: b\r\n");
        tn_buf_puts(&text, "\r\n");
        int r = tn_http_parse_request(text.data, text.len, &wide, &h, &err);
        assert_int_equal(r, fields <= TN_HTTP_MAX_FIELDS ? 0 : -1);
        assert_int_equal(err.code, r ? TN_E_HEADERS_TOO_LARGE : TN_OK);
    }
}

/* An endless head is given up as soon as it is over the limits, not when it ends. */
static void test_scan_gives_up(void **state)
{
    struct tn_error err = {0};
    char text[1024];

    memset(text, 'a', sizeof text);
    struct tn_http_scan scan = {0};
    assert_int_equal(tn_http_scan(&scan, text, 100, &limits, &err), 0);
    assert_int_equal(tn_http_scan(&scan, text, 1024, &limits, &err), -1);
    assert_int_equal(err.code, TN_E_URI_TOO_LONG);
    memcpy(text, "a\r\n", 3);
    scan = (struct tn_http_scan){0};
    assert_int_equal(tn_http_scan(&scan, text, 200, &limits, &err), 0);
    assert_int_equal(tn_http_scan(&scan, text, 1024, &limits, &err), -1);
    assert_int_equal(err.code, TN_E_HEADERS_TOO_LARGE);
}

static void test_target_path(void **state)
{
    static const struct {
        const char *target, *path;
    } rows[] = {
        {"/", "/"},
        {"/a/b", "/a/b"},
        {"/a?x=/y", "/a"},
        {"*", "*"},
        {"http://h/a?b", "/a"},
        {"HTTPS://h:1/", "/"},
        {"http://h", ""},
        {"http://h?/a", ""},
        {"ftp://h/a", ""},
        {"", ""},
        {"a/b", ""},
        {"?/a", ""},
        {"//a", "//a"},
        {"http:///a", "/a"},
        {"http://", ""},
    };

    for (size_t i = 0; i < TN_COUNT(rows); i++) {
        struct tn_http_slice p = tn_http_target_path(rows[i].target, strlen(rows[i].target));
        assert_int_equal(p.len, strlen(rows[i].path));
        assert_memory_equal(rows[i].target + p.at, rows[i].path, p.len);
    }
}

/* --- responses ----------------------------------------------------------------------------- */

static void test_responses(void **state)
{
    static const struct {
        const char *head;
        int status; /* 0: refused */
    } rows[] = {
        {"HTTP/1.1 200 OK\r\n\r\n", 200},
        {"HTTP/1.1 204\r\n\r\n", 204},
        {"HTTP/1.0 404 \r\nA: b\r\n\r\n", 404},
        {"HTTP/1.1 999 Strange thing\r\n\r\n", 999},
        {"HTTP/1.1 20 OK\r\n\r\n", 0},
        {"HTTP/1.1 2000 OK\r\n\r\n", 0},
        {"HTTP/1.1 099 OK\r\n\r\n", 0},
        {"HTTP/1.1  200 OK\r\n\r\n", 0},
        {"HTTP/2.0 200 OK\r\n\r\n", 0},
        {"ICY 200 OK\r\n\r\n", 0},
        {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 0},
        {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 0},
        {"HTTP/1.1 200 OK\r\nbad\r\n\r\n", 0},
        {"\r\n\r\n", 0},
    };

    for (size_t i = 0; i < TN_COUNT(rows); i++) {
        struct tn_http_head h;
        struct tn_error err;
        int r = tn_http_parse_response(rows[i].head, strlen(rows[i].head), &h, &err);
        assert_int_equal(r, rows[i].status ? 0 : -1);
        if (r == 0)
            assert_int_equal(h.status, rows[i].status);
    }
}

/* --- chunks -------------------------------------------------------------------------------- */

/* Decodes a chunked body that comes in pieces of `step` bytes; -1 when it is malformed, else how
 * many bytes it used.  *ended tells whether the end was seen. */
static ssize_t unchunk(const char *bytes, size_t n, size_t step, struct tn_buf *out, bool *ended)
{
    struct tn_http_chunked c = {0};
    size_t at = 0;

    while (at < n && c.state != TN_CHUNK_END) {
        size_t piece = n - at < step ? n - at : step;
        if (c.state == TN_CHUNK_DATA && c.left > 0) {
            size_t take = (uint64_t)c.left < piece ? (size_t)c.left : piece;
            tn_buf_add(out, bytes + at, take);
            c.left -= (int64_t)take;
            at += take;
            continue;
        }
        ssize_t used = tn_http_unchunk(&c, bytes + at, piece);
        if (used < 0)
            return -1;
        at += (size_t)used;
    }
    *ended = c.state == TN_CHUNK_END;
    return (ssize_t)at;
}

static void test_chunks(void **state)
{
    static const struct {
        const char *body;
        const char *plain; /* NULL: malformed */
        const char *rest;
    } rows[] = {
        {"0\r\n\r\n", "", ""},
        {"0\r\n\r\nGET", "", "GET"},
        {"3\r\nabc\r\n0\r\n\r\n", "abc", ""},
        {"1\r\na\r\n00002\r\nbc\r\n000\r\n\r\nX", "abc", "X"},
        {"A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n", "01234567890123456789", ""},
        {"1;a=b;c\r\nx\r\n0;end\r\n\r\n", "x", ""},
        {"5\r\n\r\n\r\n0\r\n0\r\n\r\n", "\r\n\r\n0", ""},
        {"0\r\nA: b\r\nC:\t\r\n\r\nX", "", "X"},
        {"g\r\n", NULL, NULL},
        {"\r\n", NULL, NULL},
        {";x\r\n", NULL, NULL},
        {"1\rx", NULL, NULL},
        {"1\n", NULL, NULL},
        {"1 \r\n", NULL, NULL},
        {"1\r\nxy", NULL, NULL},
        {"1\r\nx\rx", NULL, NULL},
        {"0\r\n\rx", NULL, NULL},
        {"0\r\nA\n", NULL, NULL},
        {"0\r\nA\rB", NULL, NULL},
        {"1;\1\r\nx", NULL, NULL},
        {"0000000000000001\r\n", NULL, NULL},
        {"fffffffffffffffff\r\n", NULL, NULL},
        {"-1\r\n", NULL, NULL},
        {"0x1\r\n", NULL, NULL},
    };

    for (size_t i = 0; i < TN_COUNT(rows); i++) {
        size_t n = strlen(rows[i].body);
        for (size_t step = 1; step <= n; step++) {
            tn_autobuf struct tn_buf out = TN_BUF_INIT(100);
            bool ended = false;
            ssize_t used = unchunk(rows[i].body, n, step, &out, &ended);
            if ((used >= 0) != (rows[i].plain != NULL))
                fail_msg("%s in steps of %zu", rows[i].body, step);
            if (used < 0)
                continue;
            assert_true(ended);
            assert_string_equal(tn_buf_str(&out), rows[i].plain);
            assert_string_equal(rows[i].body + used, rows[i].rest);
        }
    }
}

static void test_largest_chunk(void **state)
{
    struct tn_http_chunked c = {0};

    assert_int_equal(tn_http_unchunk(&c, "fffffffffffffff\r\n", 17), 17);
    assert_int_equal(c.state, TN_CHUNK_DATA);
    assert_int_equal(c.left, INT64_C(0xfffffffffffffff));
}

/* --- characters ---------------------------------------------------------------------------- */

static void test_characters(void **state)
{
    int tokens = 0;

    for (int i = 0; i < 256; i++) {
        char c = (char)i;
        tokens += tn_http_is_token(&c, 1);
        assert_int_equal(tn_http_is_value(&c, 1), i == '\t' || (i >= ' ' && i != 127));
    }
    assert_int_equal(tokens, 10 + 26 + 26 + 15);
    assert_false(tn_http_is_token("", 0));
    assert_true(tn_http_is_value("", 0));
    assert_true(tn_http_same("AbC-1", 5, "aBc-1"));
    assert_false(tn_http_same("abc", 3, "abcd"));
    assert_false(tn_http_same("abcd", 4, "abc"));
    assert_false(tn_http_same("[", 1, "{"));
}

static void test_lines(void **state)
{
    assert_true(tn_http_is_lines(""));
    assert_true(tn_http_is_lines("A: b\r\nC:\r\n"));
    assert_false(tn_http_is_lines("A: b"));
    assert_false(tn_http_is_lines("A: b\n"));
    assert_false(tn_http_is_lines("A\r\nB: c\r\n"));
    assert_false(tn_http_is_lines("A: b\r\n\r\n"));
    assert_false(tn_http_is_lines("A b: c\r\n"));
    assert_false(tn_http_is_lines("A: b\nB: c\r\n"));
    assert_true(tn_http_lines_have("A: b\r\nKey: x\r\n", "key"));
    assert_false(tn_http_lines_have("A: key\r\nKeys: x\r\n", "key"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests),    cmocka_unit_test(test_slices),
        cmocka_unit_test(test_field_count), cmocka_unit_test(test_scan_gives_up),
        cmocka_unit_test(test_target_path), cmocka_unit_test(test_responses),
        cmocka_unit_test(test_chunks),      cmocka_unit_test(test_largest_chunk),
        cmocka_unit_test(test_characters),  cmocka_unit_test(test_lines),
    };

    return cmocka_run_group_tests_name("http-parse", tests, NULL, NULL);
}
