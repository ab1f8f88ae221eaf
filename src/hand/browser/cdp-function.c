/* Calling JavaScript functions over the protocol. */
#include "hand/browser/cdp.h"

enum { PARAMS_MAX = 64 << 20 };

/* [1, "x"] as the protocol wants it: [{"value": 1}, {"value": "x"}]. */
static void put_arguments(struct tn_jw *w, const char *arguments_json)
{
    tn_autojson struct tn_json *list = NULL;

    tn_jw_array(w);
    if (arguments_json)
        tn_json_parse(arguments_json, strlen(arguments_json), &list, NULL);
    for (size_t i = 0; i < tn_json_count(list); i++) {
        tn_jw_object(w);
        tn_jw_key(w, "value");
        tn_jw_tree(w, tn_json_at(list, i));
        tn_jw_object_end(w);
    }
    tn_jw_array_end(w);
}

void tn_cdp_put_function(struct tn_buf *out, int64_t context, const char *function,
                         const char *arguments_json)
{
    struct tn_jw w = tn_jw(out);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "functionDeclaration", function);
    tn_jw_kint(&w, "executionContextId", context);
    tn_jw_key(&w, "arguments");
    put_arguments(&w, arguments_json);
    tn_jw_kbool(&w, "returnByValue", true);
    tn_jw_kbool(&w, "awaitPromise", true);
    tn_jw_kbool(&w, "userGesture", true);
    tn_jw_object_end(&w);
}

int tn_cdp_function_value(const struct tn_json *result, struct tn_json **value,
                          struct tn_error *err)
{
    const struct tn_json *details = tn_json_get(result, "exceptionDetails");
    const struct tn_json *object = tn_json_get(result, "result");

    if (value)
        *value = NULL;
    if (details) {
        const struct tn_json *exception = tn_json_get(details, "exception");
        const char *text = tn_json_get_str(
            exception, "description",
            tn_json_get_str(exception, "value", tn_json_get_str(details, "text", "?")));
        return tn_fail(err, TN_E_INVALID, "%s", text);
    }
    if (value)
        *value = tn_json_ref(tn_json_get(object, "value"));
    return 0;
}

int tn_cdp_function(struct tn_cdp *c, const char *session, int64_t context, const char *function,
                    const char *arguments_json, int64_t deadline, struct tn_json **value,
                    struct tn_error *err)
{
    tn_autobuf struct tn_buf params = TN_BUF_INIT(PARAMS_MAX);
    tn_autojson struct tn_json *result = NULL;

    tn_cdp_put_function(&params, context, function, arguments_json);
    if (tn_cdp_call(c, session, "Runtime.callFunctionOn", tn_buf_str(&params), deadline, &result,
                    err) < 0)
        return -1;
    return tn_cdp_function_value(result, value, err);
}
