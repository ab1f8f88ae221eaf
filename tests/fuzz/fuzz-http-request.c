/* Request heads, targets and chunked bodies.  The first byte says where the input is cut in two;
 * what the parsers say must not depend on it. */
#include <assert.h>
#include <stdint.h>

#include "base/buf.h"
#include "net/http-parse.h"
#include "net/http-route.h"
#include "net/url.h"

static const struct tn_http_limits limits = {.target = 200, .fields = 1000};

static void nothing(struct tn_http_exchange *x, void *ctx)
{
}

static const struct tn_route rows[] = {
    {"GET", "/a/{b}/c", nothing, NULL, 0},
    {"GET", "/a/{b}", nothing, NULL, 0},
    {"POST", "/a/{rest...}", nothing, NULL, 0},
    {0},
};
static const struct tn_route *const tables[] = {rows, NULL};

static ssize_t scan_in_two(const char *bytes, size_t n, size_t cut)
{
    struct tn_http_scan scan = {0};
    struct tn_error err;
    ssize_t head = tn_http_scan(&scan, bytes, cut, &limits, &err);

    return head ? head : tn_http_scan(&scan, bytes, n, &limits, &err);
}

static void use_slice(const char *bytes, size_t n, struct tn_http_slice s)
{
    assert(s.at <= n && s.len <= n - s.at);
    assert(memchr(bytes + s.at, '\n', s.len) == NULL && memchr(bytes + s.at, '\0', s.len) == NULL);
}

static void use_target(const char *target, size_t n)
{
    struct tn_http_slice path = tn_http_target_path(target, n);
    struct http_routes *routes = http_routes_new(tables);
    tn_autofree char *plain = tn_malloc(n + 1);
    tn_autofree char *pairs = tn_malloc(TN_URL_PAIRS_MAX(n));
    struct http_match match;

    assert(path.len > 0);
    assert(tn_url_decode(target + path.at, path.len, plain, false) >= 0);
    assert(tn_url_pairs(target, n, pairs) <= TN_URL_PAIRS_MAX(n));
    http_routes_match(routes, "GET", target + path.at, path.len, &match);
    for (int i = 0; i < match.count; i++)
        assert(tn_url_decode(match.captures[i].text, match.captures[i].len, plain, false) >= 0);
    http_routes_free(routes);
}

static void use_head(const char *bytes, size_t n)
{
    struct tn_http_head head;
    struct tn_error err;

    if (tn_http_parse_response(bytes, n, &head, &err) == 0)
        assert(head.status >= 100 && head.status <= 999);
    if (tn_http_parse_request(bytes, n, &limits, &head, &err) < 0)
        return;
    assert(!head.chunked || head.length < 0);
    assert(head.minor == 0 || head.host);
    use_slice(bytes, n, head.method);
    use_slice(bytes, n, head.target);
    for (unsigned i = 0; i < head.field_count; i++) {
        use_slice(bytes, n, head.fields[i].name);
        use_slice(bytes, n, head.fields[i].value);
    }
    use_target(bytes + head.target.at, head.target.len);
}

/* Bytes consumed, or -1; the data goes to out. */
static ssize_t unchunk(const char *bytes, size_t n, size_t step, struct tn_buf *out)
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
        assert(used <= (ssize_t)piece && c.left >= 0);
        if (used < 0)
            return -1;
        at += (size_t)used;
    }
    return (ssize_t)at;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > 100000)
        return 0;
    size_t n = size - 1, cut = n * data[0] / 255;
    /* Copies of the exact size, so that a read behind the end is seen. */
    tn_autofree char *bytes = tn_malloc(n);
    memcpy(bytes, data + 1, n);

    ssize_t head = scan_in_two(bytes, n, n);
    assert((head > 0) == (scan_in_two(bytes, n, cut) > 0));
    assert(head <= (ssize_t)n);
    if (head > 0)
        use_head(bytes, (size_t)head);

    tn_autobuf struct tn_buf whole = TN_BUF_INIT(100000), stepped = TN_BUF_INIT(100000);
    const char *body = head > 0 ? bytes + head : bytes;
    size_t body_len = head > 0 ? n - (size_t)head : n;
    ssize_t used = unchunk(body, body_len, body_len + 1, &whole);
    assert(used == unchunk(body, body_len, (size_t)data[0] % 7 + 1, &stepped));
    assert(whole.len == stepped.len);
    return 0;
}
