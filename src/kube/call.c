/* Calls: what is sent again and when, and what the server's refusals mean. */
#include "base/again.h"
#include "kube/kube-impl.h"

enum {
    ANSWER_MAX = 256 << 20,
    FAULT_TRIES = 5, /* of a 500: an admission hook that is down, a store that changes its leader */
    LINE_MAX_BYTES = 400,
};
#define QUIET_SECONDS 70.0 /* a server ends every request but a watch after 60 */

/* --- refusals --------------------------------------------------------------------------------- */

char *kube_line(const char *text)
{
    char *line = tn_strndup(text, LINE_MAX_BYTES);
    size_t n = strlen(line);

    for (char *p = line; *p; p++)
        if ((unsigned char)*p < ' ' || (unsigned char)*p >= 0x7f)
            *p = ' ';
    while (n > 0 && line[n - 1] == ' ')
        line[--n] = '\0';
    return line;
}

/* The rest follows from the class. */
static const struct {
    int status;
    enum tn_code code;
} codes[] = {
    {400, TN_E_INVALID},   {401, TN_E_DENIED},  {403, TN_E_DENIED},   {404, TN_E_NOT_FOUND},
    {405, TN_E_METHOD},    {406, TN_E_INVALID}, {409, TN_E_CONFLICT}, {410, TN_E_GONE},
    {413, TN_E_TOO_LARGE}, {415, TN_E_INVALID}, {422, TN_E_INVALID},  {429, TN_E_BUSY},
    {503, TN_E_BUSY},      {504, TN_E_TIMEOUT},
};

static enum tn_code code_of(int status, const char *message)
{
    if (status == 403 && strstr(message, "exceeded quota"))
        return TN_E_QUOTA;
    for (size_t i = 0; i < TN_COUNT(codes); i++)
        if (codes[i].status == status)
            return codes[i].code;
    return status >= 400 && status < 500 ? TN_E_INVALID : TN_E_PEER;
}

int kube_refused(int status, const struct tn_json *object, double *after, struct tn_error *err)
{
    const char *message = tn_json_get_str(object, "message", "");
    const char *reason = tn_json_get_str(object, "reason", "");
    tn_autofree char *line = kube_line(*message ? message : reason);

    if (after)
        *after =
            tn_json_double(tn_json_get(tn_json_get(object, "details"), "retryAfterSeconds"), 0);
    if (*line && status != 401)
        return tn_fail(err, code_of(status, message), "%s", line);
    return tn_fail(err, code_of(status, message), "the API server answered %d%s%s", status,
                   *line ? ": " : "", line);
}

int kube_answer_refused(const struct tn_web_answer *answer, double *after, struct tn_error *err)
{
    tn_autojson struct tn_json *object = NULL;
    double seconds = 0;

    /* Proxies and aggregated servers answer with text. */
    if (tn_json_parse(tn_buf_str(&answer->body), answer->body.len, &object, NULL) < 0 &&
        answer->body.len) {
        tn_autofree char *line = kube_line(tn_buf_str(&answer->body));
        tn_fail(err, code_of(answer->status, line), "the API server answered %d: %s",
                answer->status, line);
    } else {
        kube_refused(answer->status, object, &seconds, err);
    }
    if (after)
        *after = tn_web_retry_after(answer) > 0 ? tn_web_retry_after(answer) : seconds;
    return -1;
}

/* --- sending ---------------------------------------------------------------------------------- */

int kube_send(struct kube *k, struct tn_web_call *web, struct tn_web_answer *answer,
              int64_t deadline, struct tn_error *err)
{
    struct kube_seat *seat = kube_seat(k, NULL, deadline, err), *other = NULL;

    if (!seat)
        return -1;
    web->deadline = deadline;
    int r = tn_web_call(seat->web, web, answer, err);
    if (r == 0 && answer->status == 401)
        other = kube_seat(k, seat, deadline, NULL);
    if (other && other != seat)
        r = tn_web_call(other->web, web, answer, err);
    if (other)
        kube_seat_give(k, other);
    kube_seat_give(k, seat);
    return r;
}

/* status 0: there was no answer. */
static bool may_repeat(int status, int tries, const struct tn_error *why)
{
    switch (status) {
    case 0:
        return why->code == TN_E_PEER || why->code == TN_E_TIMEOUT;
    case 429:
    case 502:
    case 503:
    case 504:
        return true;
    case 500:
        return tries < FAULT_TRIES;
    default:
        return false;
    }
}

static int fail_as(struct tn_error *err, const struct tn_error *why)
{
    if (err)
        *err = *why;
    return -1;
}

/* Until there is a good answer. */
static int send_again(struct kube *k, const struct kube_call *call, struct tn_web_answer *answer,
                      int64_t deadline, struct tn_error *err)
{
    struct tn_web_call web = {.method = call->method,
                              .target = call->target,
                              .type = call->type ? call->type : "application/json",
                              .body = call->body,
                              .body_len = call->body ? strlen(call->body) : 0,
                              .idle = QUIET_SECONDS,
                              .cancel = call->cancel};
    struct tn_error why = {0}, over = {0};
    int ms = 0;

    for (int tries = 1;; tries++) {
        double after = 0;
        int status = kube_send(k, &web, answer, deadline, &why) < 0 ? 0 : answer->status;
        if (status >= 200 && status < 300)
            return 0;
        if (status)
            kube_answer_refused(answer, &after, &why);
        if (status == 401)
            tn_error_context(&why, "%s of %s is not accepted (expired, or not known there)",
                             k->first->user, k->first->source);
        if (call->hurried || !may_repeat(status, tries, &why))
            return fail_as(err, &why);
        if (tn_back_off(&ms, after, call->cancel, deadline, &over) < 0)
            return fail_as(err, over.code == TN_E_GONE ? &over : &why);
    }
}

int kube_call(struct kube *k, const struct kube_call *call, struct tn_json **answer,
              int64_t deadline, struct tn_error *err)
{
    tn_autoanswer struct tn_web_answer got = TN_WEB_ANSWER_INIT(ANSWER_MAX);

    if (answer)
        *answer = NULL;
    if (send_again(k, call, &got, deadline, err) < 0)
        return -1;
    if (!answer)
        return 0;
    if (tn_json_parse(tn_buf_str(&got.body), got.body.len, answer, NULL) == 0 &&
        tn_json_type(*answer) == TN_JSON_OBJECT)
        return 0;
    tn_json_free(TN_TAKE_PTR(*answer));
    return tn_fail(err, TN_E_PEER, "%s: the answer to %.*s is no object", k->first->server,
                   (int)strcspn(call->target, "?"), call->target);
}

int kube_stream(struct kube *k, const char *target, tn_web_sink_fn sink, void *ctx, int cancel,
                int64_t deadline, struct tn_error *err)
{
    struct tn_web_call web = {.target = target, .sink = sink, .sink_ctx = ctx, .cancel = cancel};
    tn_autoanswer struct tn_web_answer got = TN_WEB_ANSWER_INIT(64 << 10);

    if (kube_send(k, &web, &got, deadline, err) < 0)
        return -1;
    return got.status >= 200 && got.status < 300 ? 0 : kube_answer_refused(&got, NULL, err);
}
