/* Actions that wait for their confirmation: /v1/pending, /v1/sandboxes/{id}/pending. */
#include "runtime/pending.h"
#include "service/api-native.h"
#include "service/confirm.h"
#include "service/proxy.h"

static const char *const answers[] = {"confirm", "reject", NULL};

struct answer {
    char *answer, *reason;
    bool rule;
};

static const struct tn_field answer_rows[] = {
    TN_STRING("answer", struct answer, answer, .flags = TN_FIELD_REQUIRED, .words = answers),
    TN_STRING("reason", struct answer, reason, .flags = TN_FIELD_NULLABLE),
    TN_BOOL("rule", struct answer, rule),
};
static const struct tn_fields answer_fields = TN_FIELDS(answer_rows);

/* --- lists ----------------------------------------------------------------------------------- */

struct listing {
    struct box *box;
    struct tn_jw *w;
};

/* One that nobody answered in time is refused when somebody looks. */
static int put_one(struct tn_pending *p, void *ctx)
{
    const struct listing *l = ctx;
    const char *directory = box_directory(l->box);

    if (!tn_pending_is_late(p)) {
        confirm_put(l->box, directory, p, l->w);
    } else if (tn_pending_claim(directory, p->id)) {
        tn_autobuf struct tn_buf observation = TN_BUF_INIT(1 << 20);
        act_rejected(l->box, p, NULL, &observation);
    }
    return 0;
}

static int put_box(struct box *b, void *ctx)
{
    struct listing l = {.box = b, .w = ctx};

    tn_pending_each(box_directory(b), put_one, &l);
    return 0;
}

static void begin(struct tn_jw *w)
{
    tn_jw_object(w);
    tn_jw_key(w, "pending");
    tn_jw_array(w);
}

static void end(struct tn_http_exchange *x, struct tn_jw *w, const struct tn_buf *json)
{
    tn_jw_array_end(w);
    tn_jw_object_end(w);
    tn_http_reply_json(x, 200, json);
}

static void get_pending(struct tn_http_exchange *x, void *ctx)
{
    autobox struct box *b = native_box(x, ctx, SCOPE_READ);
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, NATIVE_ANSWER_MAX);
    struct tn_jw w = tn_jw(&json);

    if (!b)
        return;
    begin(&w);
    put_box(b, &w);
    end(x, &w, &json);
}

static void get_all(struct tn_http_exchange *x, void *ctx)
{
    struct tn_service *s = ctx;
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, NATIVE_ANSWER_MAX);
    struct tn_jw w = tn_jw(&json);

    if (!caller_may(x, SCOPE_READ))
        return;
    begin(&w);
    box_each(s, &(struct box_filter){.tenant = native_tenant(caller_of(x))}, put_box, &w, NULL);
    end(x, &w, &json);
}

/* --- answers --------------------------------------------------------------------------------- */

static void put_answer(struct tn_http_exchange *x, bool confirmed, const struct tn_buf *observation)
{
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, OBSERVATION_MAX + 1024);
    struct tn_jw w = tn_jw(&json);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "answer", answers[confirmed ? 0 : 1]);
    tn_jw_key(&w, "observation");
    tn_jw_raw(&w, tn_buf_str(observation), observation->len);
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 200, &json);
}

/* What was let through is a rule from now on. */
static int add_rule(struct tn_http_exchange *x, struct box *b, const struct tn_pending *p,
                    struct tn_error *err)
{
    char rule[TN_PENDING_RULE];
    char *rules[] = {rule, NULL};
    const struct tn_rules_change change = {.allow = {.items = rules, .count = 1}};

    return tn_pending_rule(p, rule) ? box_change_rules(b, caller_of(x), &change, err) : -1;
}

static void answer(struct tn_http_exchange *x, struct box *b, const struct tn_pending *p,
                   const struct answer *a)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(OBSERVATION_MAX);
    bool confirm = strcmp(a->answer, answers[0]) == 0;
    struct tn_error err = {0};
    int status = 200;

    out.purse = purse_of(x);
    if (tn_pending_is_late(p)) {
        act_rejected(b, p, NULL, &out);
        native_refuse(x, TN_E_GONE, "nobody answered in time: action %lld was refused",
                      (long long)p->id);
        return;
    }
    if (confirm)
        status = act_confirmed(b, p, request_id(x), &out, &err);
    else
        act_rejected(b, p, a->reason ? a->reason : "", &out);
    if (status == 200 && a->rule && add_rule(x, b, p, &err))
        status = -1;
    if (status == 200)
        put_answer(x, confirm, &out);
    else if (status < 0)
        reply_error(x, &err);
    else
        reply_status(x, status, NULL, tn_buf_str(&out));
}

/* A connection that waits: whoever lets it through must be allowed such a rule.  What is refused
 * here still waits. */
static int check_connection(struct tn_http_exchange *x, struct box *b, int64_t id,
                            const struct answer *a, struct tn_error *err)
{
    bool confirm = strcmp(a->answer, answers[0]) == 0;
    char rule[TN_PENDING_RULE];
    struct tn_pending p;

    if (tn_pending_load(box_directory(b), id, &p, NULL))
        return 0; /* said as of every other */
    bool connection = tn_pending_rule(&p, rule);
    tn_pending_done(&p);
    if (a->rule && !(confirm && connection))
        return tn_fail(err, TN_E_UNPROCESSABLE,
                       "rule: only with a connection that is confirmed (the action network)");
    return confirm && connection ? box_may_reach(b, caller_of(x), rule, err) : 0;
}

static void post_answer(struct tn_http_exchange *x, void *ctx)
{
    static const struct tn_fields *const tables[] = {&answer_fields, NULL};
    autobox struct box *b = native_box(x, ctx, SCOPE_MANAGE);
    tn_autojson struct tn_json *body = NULL;
    struct answer a = {0};
    struct tn_error err = {0};
    struct tn_pending p;
    char *rest = NULL;

    if (!b || native_read(x, tables, &body))
        return;
    const char *number = tn_http_param(x, "number");
    long long id = strtoll(number, &rest, 10);
    if (rest == number || *rest || id < 0) {
        native_refuse(x, TN_E_NOT_FOUND, "no action %.40s waits for an answer", number);
        return;
    }
    tn_fields_defaults(&answer_fields, &a);
    if (tn_fields_from_json(&answer_fields, &a, body, &err)) {
        reply_error(x, &err);
    } else if (a.reason && strlen(a.reason) > TN_PENDING_REASON_MAX) {
        native_refuse(x, TN_E_UNPROCESSABLE, "reason: expected at most %d bytes",
                      TN_PENDING_REASON_MAX);
    } else if (check_connection(x, b, id, &a, &err) ||
               tn_pending_take(box_directory(b), id, &p, &err)) {
        if (!native_audit(x, ctx, "action.answer", box_id(b), &err))
            reply_error(x, &err);
    } else {
        const char *what = strcmp(a.answer, answers[0]) ? "action.reject" : "action.confirm";
        if (!native_audit(x, ctx, what, box_id(b), NULL))
            answer(x, b, &p, &a);
        tn_pending_done(&p);
    }
    tn_fields_done(&answer_fields, &a);
}

void native_reply_pending(struct tn_http_exchange *x, struct box *b, int64_t id)
{
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, NATIVE_ANSWER_MAX);
    tn_autofree char *location =
        tn_asprintf("/v1/sandboxes/%s/pending/%lld", box_id(b), (long long)id);
    struct tn_jw w = tn_jw(&json);
    struct tn_error err = {0};
    struct tn_pending p;

    if (tn_pending_load(box_directory(b), id, &p, &err)) {
        reply_error(x, &err);
        return;
    }
    tn_jw_object(&w);
    tn_jw_key(&w, "pending");
    confirm_put(b, box_directory(b), &p, &w);
    tn_jw_object_end(&w);
    tn_pending_done(&p);
    tn_http_set_header(x, "Location", location);
    tn_http_reply_json(x, 202, &json);
}

const struct tn_route routes_native_pending[] = {
    {"GET", "/v1/pending", get_all, "actions that wait for their confirmation, of all sandboxes",
     0},
    {"GET", "/v1/sandboxes/{id}/pending", get_pending, "actions that wait for their confirmation",
     0},
    {"POST", "/v1/sandboxes/{id}/pending/{number}", post_answer, "confirms or rejects one", 0},
    {0},
};
