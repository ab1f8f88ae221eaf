/* Requests that a server without sessions answers by asking (input_required): a client with a
 * session is asked in the middle of its request, and the request is made again with the answers. */
#include "hand/mcp/proxy-internal.h"
#include "mcp/meta.h"

#define TEXT_MAX ((size_t)32 << 20)

struct asking {
    struct mcp_backend *backend;
    struct tn_mcp_request *request;
    struct tn_jw *w;
    struct tn_error *err;
};

static int ask_client(const struct asking *a, const char *method, const struct tn_json *params)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(TEXT_MAX);
    tn_autorpc struct tn_rpc answer = {0};
    struct tn_jw w = tn_jw(&text);
    const struct mcp_spec *spec = mcp_backend_spec(a->backend);

    if (params)
        tn_jw_tree(&w, params);
    if (!tn_buf_ok(&text))
        return tn_fail(a->err, TN_E_TOO_LARGE, "MCP server '%s': its question is too large",
                       spec->name);
    int result =
        tn_mcp_client_call(tn_mcp_request_client(a->request), a->request, method, tn_buf_str(&text),
                           tn_deadline_in(spec->timeout), &answer, a->err);
    if (result == 0 && answer.kind == TN_RPC_ERROR)
        result = tn_mcp_fail_answer(&answer, a->err);
    if (result < 0)
        return tn_error_context(a->err, "MCP server '%s' asked the client (%s)", spec->name,
                                method);
    tn_jw_tree(a->w, answer.result);
    return 0;
}

static int put_input(const char *key, struct tn_json *input, void *ctx)
{
    const struct asking *a = ctx;
    const char *method = tn_json_get_str(input, "method", "");
    const struct mcp_question *q = mcp_question_find(method);
    bool can = q && tn_mcp_client_can(tn_mcp_request_client(a->request), q->capability);

    tn_jw_key(a->w, key);
    if (can)
        return ask_client(a, q->method, tn_json_get(input, "params"));
    if (!q || !q->otherwise)
        return tn_fail(a->err, TN_E_UNSUPPORTED,
                       "MCP server '%s' asks for '%.60s', which this client cannot answer",
                       mcp_backend_spec(a->backend)->name, method);
    tn_jw_raw(a->w, q->otherwise, strlen(q->otherwise));
    return 0;
}

/* The answers to what a result asks, as members without braces. */
static int put_inputs(struct mcp_backend *b, struct tn_mcp_request *request,
                      const struct tn_json *result, struct tn_buf *out, struct tn_error *err)
{
    const struct tn_json *questions = tn_json_get(result, "inputRequests");
    const struct tn_json *state = tn_json_get(result, "requestState");
    tn_autobuf struct tn_buf answers = TN_BUF_INIT(TEXT_MAX), kept = TN_BUF_INIT(TEXT_MAX);
    struct tn_jw w = tn_jw(&answers), k = tn_jw(&kept);
    struct asking asking = {.backend = b, .request = request, .w = &w, .err = err};

    if (tn_json_count(questions) > TN_MCP_INPUTS_MAX)
        return tn_fail(err, TN_E_TOO_LARGE, "MCP server '%s' asks more than %d things at once",
                       mcp_backend_spec(b)->name, TN_MCP_INPUTS_MAX);
    tn_jw_object(&w);
    if (tn_json_each(questions, put_input, &asking) != 0)
        return -1;
    tn_jw_object_end(&w);
    tn_buf_printf(out, "\"inputResponses\":%s", tn_buf_str(&answers));
    if (state) {
        tn_jw_tree(&k, state);
        tn_buf_printf(out, ",\"requestState\":%s", tn_buf_str(&kept));
    }
    if (tn_buf_ok(&answers) && tn_buf_ok(&kept) && tn_buf_ok(out))
        return 0;
    return tn_fail(err, TN_E_TOO_LARGE, "MCP server '%s': what it asked needs more than %zu MB",
                   mcp_backend_spec(b)->name, TEXT_MAX >> 20);
}

int mcp_call_in_rounds(struct mcp_backend *b, const char *params, struct tn_mcp_request *request,
                       struct tn_rpc *answer, struct tn_error *err)
{
    tn_autobuf struct tn_buf inputs = TN_BUF_INIT(TEXT_MAX);
    const char *method = tn_mcp_request_message(request)->method;

    for (int rounds = 0; rounds < TN_MCP_ROUNDS_MAX; rounds++) {
        if (mcp_backend_call_again(b, method, params, tn_buf_str(&inputs), request, answer, err) <
            0)
            return -1;
        if (answer->kind == TN_RPC_ERROR || !mcp_backend_is_modern(b) ||
            !tn_mcp_is_input_required(answer->result) ||
            tn_mcp_client_is_modern(tn_mcp_request_client(request)))
            return 0;
        tn_buf_reset(&inputs);
        int result = put_inputs(b, request, answer->result, &inputs, err);
        tn_rpc_done(answer);
        *answer = (struct tn_rpc){0};
        if (result < 0)
            return -1;
    }
    return tn_fail(err, TN_E_PEER, "MCP server '%s' asks and asks, and gives no result",
                   mcp_backend_spec(b)->name);
}
