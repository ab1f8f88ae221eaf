/* Heads on their way to a server: what is sent is one head that reads the same, but for its values.
 */
#include <stdint.h>
#include <stdlib.h>

#include "gate/rewrite.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char text[] =
    "{\"authority\":{\"certificate\":\"c\",\"key\":\"k\"},\"secrets\":[{\"placeholder\":\"tnsecret\","
    "\"value\":\"VALUE\",\"hosts\":[\"api.test\"],\"headers\":[\"authorization\"]}]}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct tn_http_limits limits = {.target = 8192, .fields = 16384};
    static struct vault v;
    struct tn_http_head head, again;
    struct tn_http_scan scan = {0};
    tn_autobuf struct tn_buf out = TN_BUF_INIT(1 << 20), encoded = TN_BUF_INIT(1 << 20);
    const char *bytes = (const char *)data;

    if (!v.tree && vault_parse(text, sizeof text - 1, &v, NULL) < 0)
        abort();
    ssize_t n = tn_http_scan(&scan, bytes, size, &limits, NULL);
    if (n <= 0 || tn_http_parse_request(bytes, (size_t)n, &limits, &head, NULL) < 0)
        return 0;
    if (rewrite_head(&head, bytes, &v, "api.test", 443, &out, &encoded) < 0)
        abort();
    if (head.field_count == TN_HTTP_MAX_FIELDS)
        return 0;
    static const struct tn_http_limits wide = {.target = 8192, .fields = 1 << 20};
    if (tn_http_parse_request(out.data, out.len, &wide, &again, NULL) < 0 ||
        again.length != head.length || again.chunked != head.chunked ||
        again.upgrade != head.upgrade || again.close != head.close || again.minor != head.minor ||
        again.target.len != head.target.len || again.method.len != head.method.len)
        abort();
    return 0;
}
