/* POST /v1/sandboxes/{id}/actions. */
#include "event/action.h"
#include "runtime/hand-answer.h"
#include "service/api-native.h"
#include "service/proxy.h"

/* Why a hand would not take this body; false: it is an action. */
static bool is_malformed(const struct tn_http_exchange *x, const struct tn_buf *body,
                         struct tn_error *err)
{
    tn_autojson struct tn_json *tree = NULL;
    struct tn_action action;

    if (hold_json(x, body, &tree, err)) {
        if (err->code == TN_E_BUSY)
            return true;
        tn_error_context(err, "The body is not JSON");
        err->code = TN_E_INVALID;
        return true;
    }
    err->code = TN_E_UNPROCESSABLE;
    const struct tn_json *event = tn_json_get(tree, "action");
    if (tn_json_type(event) != TN_JSON_OBJECT) {
        tn_fail(err, TN_E_UNPROCESSABLE, "the body: expected {\"action\": {...}}");
        return true;
    }
    if (tn_action_from_json(event, &action, err)) {
        err->code = TN_E_UNPROCESSABLE;
        return true;
    }
    tn_action_done(&action);
    return false;
}

/* The hand's refusal in our words: its status says less than the body does. */
static void refuse(struct tn_http_exchange *x, int status, const struct tn_buf *body,
                   const struct tn_buf *answer)
{
    struct tn_error err = {0};

    if (is_malformed(x, body, &err)) {
        reply_error(x, &err);
        return;
    }
    tn_hand_refused_text(status, tn_buf_str(answer), answer->len, &err);
    reply_status(x, status, tn_code_row(err.code)->name, err.text);
}

static void post_action(struct tn_http_exchange *x, void *ctx)
{
    autobox struct box *b = native_box(x, ctx, SCOPE_USE);
    tn_autobuf struct tn_buf body = TN_BUF_INIT(ACTION_MAX), out = TN_BUF_INIT(OBSERVATION_MAX);
    struct tn_error err = {0};
    bool again = false;

    if (!b)
        return;
    if (read_whole(x, &body))
        return;
    out.purse = purse_of(x);
    int status = act(b, caller_of(x), tn_buf_str(&body), body.len,
                     tn_http_header(x, "Idempotency-Key"), request_id(x), &again, &out, &err);
    if (again)
        tn_http_set_header(x, "Idempotency-Replayed", "true");
    if (status == 200)
        tn_http_reply_json(x, 200, &out);
    else if (status >= 0)
        refuse(x, status, &body, &out);
    else
        reply_error(x, &err);
}

const struct tn_route routes_native_actions[] = {
    {"POST", "/v1/sandboxes/{id}/actions", post_action, "carries out an action", 0},
    /* The same where clients of a hand look for it: it is journaled however it comes. */
    {"POST", "/v1/sandboxes/{id}/hand/execute_action", post_action, "carries out an action", 0},
    {0},
};
