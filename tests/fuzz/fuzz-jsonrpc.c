/* Messages: what is read can be answered, and the answer is read back as one to that message. */
#include <assert.h>
#include <stdint.h>

#include "mcp/rpc.h"

static void read_back(const struct tn_buf *text, enum tn_rpc_kind kind, const struct tn_json *id)
{
    tn_autobuf struct tn_buf a = TN_BUF_INIT(1 << 20), b = TN_BUF_INIT(1 << 20);
    struct tn_jw wa = tn_jw(&a), wb = tn_jw(&b);
    struct tn_rpc m;

    assert(!memchr(tn_buf_str(text), '\n', text->len));
    assert(tn_rpc_parse(tn_buf_str(text), text->len, &m, NULL) == 0);
    assert(m.kind == kind);
    tn_jw_tree(&wa, id);
    tn_jw_tree(&wb, m.id);
    assert(strcmp(tn_buf_str(&a), tn_buf_str(&b)) == 0);
    tn_rpc_done(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tn_autobuf struct tn_buf answer = TN_BUF_INIT(1 << 20);
    struct tn_error err;
    struct tn_rpc m;

    if (tn_rpc_parse((const char *)data, size, &m, &err) < 0) {
        assert(err.code == TN_E_INVALID || err.code == TN_E_UNPROCESSABLE ||
               err.code == TN_E_TOO_LARGE);
        return 0;
    }
    if (m.kind == TN_RPC_REQUEST) {
        tn_rpc_put_result(&answer, m.id, "");
        read_back(&answer, TN_RPC_RESULT, m.id);
        tn_buf_reset(&answer);
        tn_rpc_put_error(&answer, m.id, TN_RPC_METHOD_NOT_FOUND, m.method, NULL);
        read_back(&answer, TN_RPC_ERROR, m.id);
    }
    if (m.kind == TN_RPC_NOTIFICATION) {
        tn_rpc_put_notification(&answer, m.method, "");
        read_back(&answer, TN_RPC_NOTIFICATION, NULL);
    }
    tn_rpc_done(&m);
    return 0;
}
