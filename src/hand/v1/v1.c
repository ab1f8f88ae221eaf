#include "hand/v1/v1.h"

#include <strings.h>

int tn_v1_body(struct tn_http_exchange *x, struct tn_json **tree)
{
    tn_autobuf struct tn_buf body = TN_BUF_INIT(1 << 20);
    struct tn_error err = {0};

    *tree = NULL;
    if (tn_http_read_all(x, &body, &err) < 0 ||
        (body.len && tn_json_parse(tn_buf_str(&body), body.len, tree, &err) < 0)) {
        tn_http_reply_error(x, &err);
        return -1;
    }
    if (body.len && tn_json_type(*tree) != TN_JSON_OBJECT) {
        tn_json_free(TN_TAKE_PTR(*tree));
        tn_http_reply_detail(x, 422, "the body must be a JSON object");
        return -1;
    }
    return 0;
}

int64_t tn_v1_query_number(struct tn_http_exchange *x, const char *name, int64_t fallback)
{
    const char *text = tn_http_query(x, name);
    char *end;

    if (!text)
        return fallback;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (end == text || *end || errno || v < 0) {
        tn_autofree char *detail = tn_asprintf("%s must be a whole number, 0 or more", name);
        tn_http_reply_detail(x, 422, detail);
        return -1;
    }
    return v;
}

bool tn_v1_query_flag(struct tn_http_exchange *x, const char *name)
{
    static const char *const yes[] = {"true", "1", "yes", "on"};
    const char *text = tn_http_query(x, name);

    for (size_t i = 0; text && i < TN_COUNT(yes); i++) {
        if (strcasecmp(text, yes[i]) == 0)
            return true;
    }
    return false;
}

struct tn_session *tn_v1_session(struct tn_http_exchange *x, struct tn_hand *hand)
{
    struct tn_error err;
    struct tn_session *s = tn_sessions_get(hand->sessions, tn_http_param(x, "name"), &err);

    if (!s)
        tn_http_reply_error(x, &err);
    return s;
}
