/* One request to a service, as often as it takes and as often as it may be sent. */
#include "base/clock.h"
#include "net/url.h"
#include "runtime/remote/remote.h"

enum { ANSWER_MAX = 64 << 20 }; /* a list of everybody's sandboxes is the largest */

char *remote_target(const char *before, const char *id, const char *after)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(4096);

    tn_buf_puts(&out, before);
    tn_url_encode(&out, id, "");
    tn_buf_puts(&out, after);
    return tn_buf_take(&out);
}

/* --- refusals --------------------------------------------------------------------------------- */

/* A service that repeats what it was sent must not make us print it. */
static bool tells_key(const struct remote *r, const char *text)
{
    const char *key = remote_config(r)->api_key;

    return key && *key && strstr(text, key);
}

static int refused(const struct remote *r, const struct tn_web_answer *answer, struct tn_error *err)
{
    tn_autojson struct tn_json *tree = NULL;

    tn_json_parse(tn_buf_str(&answer->body), answer->body.len, &tree, NULL);
    const char *detail = tn_json_get_str(tree, "detail", NULL);
    if (!detail)
        detail = tn_json_get_str(tree, "error", "");
    if (tells_key(r, detail))
        detail = "";
    if (answer->status == 401 || (answer->status == 403 && !*detail))
        return tn_fail(err, TN_E_DENIED,
                       "%s does not accept the key (HTTP %d): see sandbox.api_key, or "
                       "SANDBOX_API_KEY",
                       r->api, answer->status);
    if (answer->status == 502 || answer->status == 504)
        return tn_fail(err, TN_E_PEER, "%s is temporarily unavailable (HTTP %d)%s%s", r->api,
                       answer->status, *detail ? ": " : "", detail);
    return tn_web_refused(answer, detail, err);
}

/* --- asking again ----------------------------------------------------------------------------- */

static bool is_passing(int status)
{
    return status == 429 || status == 502 || status == 503 || status == 504;
}

static bool may_repeat(const struct remote *r, const struct remote_call *call,
                       const struct tn_error *why, int status)
{
    if (call->hurried || !remote_config(r)->remote_runtime_enable_retries)
        return false;
    if (status == 429) /* it was not even looked at */
        return true;
    if (call->unsafe)
        return false;
    return status ? is_passing(status) : why->code == TN_E_PEER;
}

/* 0 with an answer of any status. */
static int send_once(const struct remote *r, const struct remote_call *call,
                     struct tn_web_answer *answer, int64_t deadline, struct tn_error *err)
{
    double limit = remote_config(r)->remote_runtime_api_timeout + call->patience;
    int64_t soon = tn_deadline_in(limit);
    tn_autofree char *key =
        call->idempotency ? tn_asprintf("Idempotency-Key: %s", call->idempotency) : NULL;
    const char *const headers[] = {key, NULL};
    const struct tn_web_call web = {
        .method = call->method,
        .target = call->target,
        .headers = headers,
        .type = "application/json",
        .body = call->body ? tn_buf_str(call->body) : NULL,
        .body_len = call->body ? call->body->len : 0,
        .sink = call->sink,
        .sink_ctx = call->sink_ctx,
        .once = call->unsafe,
        .cancel = call->whole ? 0 : call->cancel,
        .deadline = soon < deadline && !call->sink ? soon : deadline,
    };

    return tn_web_call(r->web, &web, answer, err);
}

int remote_ask(const struct remote *r, const struct remote_call *call, struct tn_json **answer,
               int64_t deadline, struct tn_error *err)
{
    tn_autoanswer struct tn_web_answer got = TN_WEB_ANSWER_INIT(ANSWER_MAX);
    struct tn_error why = {0};
    bool lost = false; /* one that may have been carried out was not answered */
    struct tn_web_again again = {0};

    *answer = NULL;
    for (;;) {
        int failed = send_once(r, call, &got, deadline, &why);
        if (!failed && got.status >= 200 && got.status < 300)
            break;
        if (!failed && got.status == 404 && call->ends && lost)
            return 0;
        lost = lost || failed || got.status == 502 || got.status == 504;
        if (!failed)
            refused(r, &got, &why);
        if (!may_repeat(r, call, &why, failed ? 0 : got.status) ||
            tn_web_again(&again, failed ? NULL : &got, call->cancel, deadline, &why) < 0) {
            if (err)
                *err = why;
            return -1;
        }
    }
    if (call->sink || got.body.len == 0)
        return 0;
    if (tn_json_parse(tn_buf_str(&got.body), got.body.len, answer, &why) == 0)
        return 0;
    return tn_fail(err, TN_E_PEER, "%s: its answer to %s %.*s makes no sense", r->api,
                   call->method ? call->method : "GET", (int)strcspn(call->target, "?"),
                   call->target);
}
