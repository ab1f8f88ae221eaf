#include "event/action-body.h"

enum tn_body tn_action_body_read(const char *body, size_t n, struct tn_purse *purse, size_t *held,
                                 struct tn_json **tree, struct tn_action *action,
                                 struct tn_error *err)
{
    struct tn_error why = {0};

    if (tn_json_parse_held(body, n, purse, held, tree, &why)) {
        if (err)
            *err = why;
        return why.code == TN_E_BUSY ? TN_BODY_COSTLY : TN_BODY_NOT_JSON;
    }
    const struct tn_json *event = tn_json_get(*tree, "action");
    if (tn_json_type(event) == TN_JSON_OBJECT)
        return tn_action_from_json(event, action, err) ? TN_BODY_WRONG : TN_BODY_SOUND;
    tn_fail(err, TN_E_UNPROCESSABLE, "the body: expected {\"action\": {...}}");
    return event ? TN_BODY_ODD : TN_BODY_EMPTY;
}

void tn_put_invalid_request(struct tn_buf *json, const char *where, const char *why)
{
    tn_autofree char *errors = tn_asprintf("[{'loc': (%s), 'msg': '%s'}]", where, why);
    struct tn_jw w = tn_jw(json);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "detail", "Invalid request parameters");
    tn_jw_kstr(&w, "errors", errors);
    tn_jw_object_end(&w);
}

void tn_put_internal_error(struct tn_buf *json, const char *why)
{
    tn_autobuf struct tn_buf detail = TN_BUF_INIT(4096);
    struct tn_jw w = tn_jw(json);

    tn_buf_printf(&detail, "Internal server error: %s", why);
    tn_jw_object(&w);
    tn_jw_kstr(&w, "detail", tn_buf_str(&detail));
    tn_jw_object_end(&w);
}

int tn_action_body_refuse(enum tn_body fault, const struct tn_error *why, struct tn_buf *json)
{
    static const char *const invalid[][2] = {
        [TN_BODY_NOT_JSON] = {"'body',", "JSON decode error"},
        [TN_BODY_EMPTY] = {"'body', 'action'", "Field required"},
        [TN_BODY_ODD] = {"'body', 'action'", "Input should be a valid dictionary"},
    };

    if ((size_t)fault < TN_COUNT(invalid)) {
        tn_put_invalid_request(json, invalid[fault][0], invalid[fault][1]);
        return 422;
    }
    tn_put_internal_error(json, why->text);
    return 500;
}
