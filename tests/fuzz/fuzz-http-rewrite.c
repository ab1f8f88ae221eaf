/* Heads on their way through a proxy.  What comes out must say the same about the message's length
 * to any reader, and nothing of ours may be in it.  The first byte chooses the address. */
#include <assert.h>
#include <stdint.h>
#include <strings.h>

#include "net/http-rewrite.h"
#include "service/preview-lines.h"

static const struct tn_http_limits limits = {.target = 1000, .fields = 1 << 20};

/* As the readers of heads leave them. */
static void terminate(char *bytes, const struct tn_http_head *head)
{
    for (unsigned i = 0; i < head->field_count; i++) {
        const struct tn_http_field *f = &head->fields[i];
        bytes[f->name.at + f->name.len] = '\0';
        bytes[f->value.at + f->value.len] = '\0';
    }
}

static void check_request(const char *bytes, size_t n, const struct tn_http_head *before,
                          bool shared)
{
    struct tn_http_scan scan = {0};
    struct tn_http_head after;
    struct tn_error err;

    assert(tn_http_scan(&scan, bytes, n, &limits, &err) == (ssize_t)n);
    if (tn_http_parse_request(bytes, n, &limits, &after, &err) < 0) {
        assert(err.code == TN_E_HEADERS_TOO_LARGE); /* ours are added to the most there can be */
        return;
    }
    assert(after.chunked == before->chunked && after.length == before->length && after.host);
    for (unsigned i = 0; i < after.field_count; i++) {
        const char *name = bytes + after.fields[i].name.at,
                   *value = bytes + after.fields[i].value.at;
        size_t name_len = after.fields[i].name.len, value_len = after.fields[i].value.len;
        if (tn_http_same(name, name_len, "x-api-key"))
            assert(value_len < 4 || strncasecmp(value, "tnk_", 4) != 0);
        assert(!tn_http_same(name, name_len, "x-session-api-key"));
        assert(!tn_http_same(name, name_len, "proxy-authorization"));
        if (tn_http_same(name, name_len, "cookie")) {
            assert(value_len < 7 || shared || strncmp(value, "tendon-", 7) != 0);
            assert(shared || !memmem(value, value_len, "; tendon-", 9));
        }
    }
}

static void use_request(char *bytes, size_t n, bool shared)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(1 << 20);
    struct tn_http_head head;
    struct tn_error err;
    struct passage passage = {.prefix = shared ? "/preview/abcdefghij/8080" : NULL, .port = 8080};
    struct tn_http_forward to = {
        .target = "/x",
        .extra = "X-Request-Id: 1\r\n",
        .on_request = passage_request,
        .ctx = &passage,
    };

    if (tn_http_parse_request(bytes, n, &limits, &head, &err) < 0)
        return;
    terminate(bytes, &head);
    bytes[head.method.at + head.method.len] = '\0';
    const struct http_request_head r = {
        .method = bytes + head.method.at, .head = &head, .bytes = bytes, .keep = shared};
    http_request_lines(&r, &to, &out);
    assert(tn_buf_ok(&out));
    check_request(out.data, out.len, &head, shared);
    tn_buf_reset(&out);
    to.on_request = hand_request;
    http_request_lines(&r, &to, &out);
    check_request(out.data, out.len, &head, true);
}

static void check_line(const char *name, const char *value, void *to)
{
    const struct passage *p = to;

    assert(tn_http_is_token(name, strlen(name)) && tn_http_is_value(value, strlen(value)));
    assert(strcasecmp(name, "clear-site-data") != 0 && strcasecmp(name, "content-length") != 0);
    if (strcasecmp(name, "set-cookie") == 0) {
        assert(!p->prefix || strncmp(value, APP_COOKIES, strlen(APP_COOKIES)) == 0);
        assert(p->prefix || strncasecmp(value, OUR_COOKIES, strlen(OUR_COOKIES)) != 0);
        assert(!p->prefix || strstr(value, "; Path=/preview/abcdefghij/8080/"));
        assert(!strcasestr(value, "; domain=") && !strcasestr(value, ";domain="));
    }
    if (strcasecmp(name, "location") == 0 && p->prefix && *value == '/' && value[1] != '/')
        assert(strncmp(value, p->prefix, strlen(p->prefix)) == 0);
    assert(!p->prefix || strcasecmp(name, "service-worker-allowed") != 0);
}

static void use_answer(char *bytes, size_t n, bool shared)
{
    struct passage passage = {.prefix = shared ? "/preview/abcdefghij/8080" : NULL,
                              .host = "127.0.0.1:7171",
                              .port = 8080};
    struct tn_http_head head;
    struct tn_error err;

    if (tn_http_parse_response(bytes, n, &head, &err) < 0)
        return;
    terminate(bytes, &head);
    http_pass_lines(&head, bytes, passage_answer, &passage, check_line, &passage);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tn_http_scan scan = {0};
    struct tn_error err;

    if (size < 1 || size > 20000)
        return 0;
    tn_autofree char *bytes = tn_malloc(size - 1), *copy = tn_malloc(size - 1);
    memcpy(bytes, data + 1, size - 1);
    ssize_t n = tn_http_scan(&scan, bytes, size - 1, &limits, &err);
    if (n <= 0)
        return 0;
    memcpy(copy, bytes, (size_t)n);
    use_request(bytes, (size_t)n, data[0] & 1);
    use_answer(copy, (size_t)n, data[0] & 1);
    return 0;
}
