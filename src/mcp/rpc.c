#include "mcp/rpc.h"

#include <math.h>

static const char *const id_kinds = "a string or a number";

static bool is_id(const struct tn_json *id)
{
    enum tn_json_type type = tn_json_type(id);
    return type == TN_JSON_STRING || type == TN_JSON_INT ||
           (type == TN_JSON_DOUBLE && isfinite(tn_json_double(id, 0)));
}

static bool is_params(const struct tn_json *params)
{
    enum tn_json_type type = tn_json_type(params);
    return type == TN_JSON_OBJECT || type == TN_JSON_ARRAY;
}

static int read_call(struct tn_rpc *m, struct tn_error *err)
{
    m->method = tn_json_str(tn_json_get(m->tree, "method"), NULL);
    if (!m->method)
        return tn_fail(err, TN_E_UNPROCESSABLE, "JSON-RPC: method: expected a string");
    m->params = tn_json_get(m->tree, "params");
    if (m->params && !is_params(m->params))
        return tn_fail(err, TN_E_UNPROCESSABLE, "JSON-RPC: params: expected an object, found %s",
                       tn_json_type_name(m->params));
    m->kind = tn_json_has(m->tree, "id") ? TN_RPC_REQUEST : TN_RPC_NOTIFICATION;
    if (m->kind == TN_RPC_REQUEST && !is_id(m->id))
        return tn_fail(err, TN_E_UNPROCESSABLE, "JSON-RPC: id of a request: expected %s", id_kinds);
    return 0;
}

static int read_answer(struct tn_rpc *m, struct tn_error *err)
{
    const struct tn_json *error = tn_json_get(m->tree, "error");

    m->result = tn_json_get(m->tree, "result");
    m->kind = error ? TN_RPC_ERROR : TN_RPC_RESULT;
    if (error && m->result)
        return tn_fail(err, TN_E_UNPROCESSABLE, "JSON-RPC: an answer with a result and an error");
    if (!error && !tn_json_has(m->tree, "result"))
        return tn_fail(err, TN_E_UNPROCESSABLE, "JSON-RPC: neither a method nor a result");
    /* Only an error may be about something whose id could not be read. */
    if (m->id ? !is_id(m->id) : !error)
        return tn_fail(err, TN_E_UNPROCESSABLE, "JSON-RPC: id of an answer: expected %s", id_kinds);
    if (!error)
        return 0;
    m->code = tn_json_int(tn_json_get(error, "code"), TN_RPC_INTERNAL_ERROR);
    m->message = tn_json_get_str(error, "message", "no reason given");
    m->data = tn_json_get(error, "data");
    return 0;
}

int tn_rpc_from_json(struct tn_json *tree, struct tn_rpc *m, struct tn_error *err)
{
    *m = (struct tn_rpc){.tree = tree};
    int result = -1;
    if (tn_json_type(tree) != TN_JSON_OBJECT) {
        tn_fail(err, TN_E_UNPROCESSABLE, "JSON-RPC: expected an object, found %s",
                tn_json_type_name(tree));
    } else if (strcmp(tn_json_get_str(tree, "jsonrpc", ""), "2.0") != 0) {
        tn_fail(err, TN_E_UNPROCESSABLE, "JSON-RPC: jsonrpc: expected \"2.0\"");
    } else {
        m->id = tn_json_get(tree, "id");
        result = tn_json_has(tree, "method") ? read_call(m, err) : read_answer(m, err);
    }
    if (result < 0)
        tn_rpc_done(m);
    return result;
}

int tn_rpc_parse(const char *text, size_t n, struct tn_rpc *m, struct tn_error *err)
{
    struct tn_json *tree;

    if (tn_json_parse(text, n, &tree, err) < 0)
        return -1;
    return tn_rpc_from_json(tree, m, err);
}

void tn_rpc_done(struct tn_rpc *m)
{
    tn_json_free(m->tree);
    *m = (struct tn_rpc){0};
}

/* --- writing -------------------------------------------------------------------------------- */

static struct tn_jw begin(struct tn_buf *out)
{
    struct tn_jw w = tn_jw(out);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "jsonrpc", "2.0");
    return w;
}

static void put_raw(struct tn_jw *w, const char *key, const char *json)
{
    tn_jw_key(w, key);
    tn_jw_raw(w, json, strlen(json));
}

static void put_call(struct tn_jw *w, const char *method, const char *params)
{
    tn_jw_kstr(w, "method", method);
    if (params && *params)
        put_raw(w, "params", params);
    tn_jw_object_end(w);
}

void tn_rpc_put_request(struct tn_buf *out, int64_t id, const char *method, const char *params)
{
    struct tn_jw w = begin(out);

    tn_jw_kint(&w, "id", id);
    put_call(&w, method, params);
}

void tn_rpc_put_notification(struct tn_buf *out, const char *method, const char *params)
{
    struct tn_jw w = begin(out);

    put_call(&w, method, params);
}

void tn_rpc_put_result(struct tn_buf *out, const struct tn_json *id, const char *result)
{
    struct tn_jw w = begin(out);

    tn_jw_key(&w, "id");
    tn_jw_tree(&w, id);
    put_raw(&w, "result", result && *result ? result : "{}");
    tn_jw_object_end(&w);
}

void tn_rpc_put_error(struct tn_buf *out, const struct tn_json *id, int64_t code,
                      const char *message, const char *data)
{
    struct tn_jw w = begin(out);

    tn_jw_key(&w, "id");
    tn_jw_tree(&w, id);
    tn_jw_key(&w, "error");
    tn_jw_object(&w);
    tn_jw_kint(&w, "code", code);
    tn_jw_kstr(&w, "message", message);
    if (data && *data)
        put_raw(&w, "data", data);
    tn_jw_object_end(&w);
    tn_jw_object_end(&w);
}
