#include "runtime/hand-answer.h"

#include "runtime/hand-address.h"

static enum tn_code code_of_status(int status)
{
    for (int code = TN_OK + 1; code < TN_CODE_COUNT; code++)
        if (tn_code_row((enum tn_code)code)->http_status == status)
            return (enum tn_code)code;
    return TN_E_PEER;
}

int tn_hand_refused(int status, const struct tn_json *answer, struct tn_error *err)
{
    const char *detail = tn_json_get_str(answer, "detail", NULL);

    return tn_fail(err, code_of_status(status), "the hand answered %d%s%s", status,
                   detail ? ": " : "", detail ? detail : "");
}

int tn_hand_refused_text(int status, const char *body, size_t n, struct tn_error *err)
{
    tn_autojson struct tn_json *answer = NULL;

    if (tn_json_parse(body, n, &answer, NULL) < 0)
        return tn_hand_refused(status, NULL, err);
    const char *detail = tn_json_get_str(answer, "detail", NULL);
    return detail ? tn_fail(err, code_of_status(status), "%s", detail)
                  : tn_hand_refused(status, NULL, err);
}

int tn_hand_ask(const struct tn_hand_address *at, const char *method, const char *target,
                const struct tn_buf *body, struct tn_buf *answer, int64_t deadline,
                struct tn_error *err)
{
    struct tn_http_client *http = tn_hand_http(at->address, at->key, err);
    struct tn_http_call call = {
        .method = method,
        .target = target,
        .type = body->len ? "application/json" : NULL,
        .body = tn_buf_str(body),
        .body_len = body->len,
        .deadline = deadline,
    };

    if (!http)
        return -1;
    int status = tn_http_client_call(http, &call, answer, err);
    tn_http_client_free(http);
    if (status < 0)
        return tn_error_context(err, "the hand");
    if (status >= 300)
        return tn_hand_refused_text(status, tn_buf_str(answer), answer->len, err);
    return 0;
}
