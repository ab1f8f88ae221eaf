/* POST /v1/sandboxes/{id}/actions. */
#include "event/action-body.h"
#include "runtime/hand-answer.h"
#include "service/api-native.h"
#include "service/proxy.h"

/* Why a hand would not take this body; false: it is an action. */
static bool is_malformed(const struct tn_http_exchange *x, const struct tn_buf *body,
                         struct tn_error *err)
{
    tn_autoheld struct tn_held held = {.purse = purse_of(x)};
    tn_autojson struct tn_json *tree = NULL;
    struct tn_action action;

    enum tn_body fault = tn_action_body_read(tn_buf_str(body), body->len, held.purse, &held.bytes,
                                             &tree, &action, err);
    if (fault == TN_BODY_SOUND)
        tn_action_done(&action);
    else if (fault == TN_BODY_NOT_JSON)
        tn_error_context(err, "The body is not JSON");
    if (fault != TN_BODY_COSTLY)
        err->code = fault == TN_BODY_NOT_JSON ? TN_E_INVALID : TN_E_UNPROCESSABLE;
    return fault != TN_BODY_SOUND;
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

/* Prefer: respond-async (RFC 7240). */
static bool prefers_async(const struct tn_http_exchange *x)
{
    const char *prefer = tn_http_header(x, "Prefer");

    return prefer && strstr(prefer, "respond-async");
}

static void post_action(struct tn_http_exchange *x, void *ctx)
{
    autobox struct box *b = native_box(x, ctx, SCOPE_USE);
    tn_autobuf struct tn_buf body = TN_BUF_INIT(ACTION_MAX), out = TN_BUF_INIT(OBSERVATION_MAX);
    struct tn_error err = {0};
    struct act_news news = {0};

    if (!b)
        return;
    if (read_whole(x, &body))
        return;
    out.purse = purse_of(x);
    const struct act_how how = {.idempotency = tn_http_header(x, "Idempotency-Key"),
                                .request = request_id(x),
                                .async = prefers_async(x),
                                .watch = tn_http_fd(x)};
    int status = act(b, caller_of(x), tn_buf_str(&body), body.len, &how, &news, &out, &err);
    if (news.again)
        tn_http_set_header(x, "Idempotency-Replayed", "true");
    if (status == ACT_WAITS)
        native_reply_pending(x, b, news.pending);
    else if (status == 200)
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
