/* Actions that wait for their confirmation: /v1/pending, /v1/sandboxes/{id}/pending. */
#include "runtime/pending.h"
#include "service/api-native.h"
#include "service/confirm.h"
#include "service/proxy.h"

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
        tn_jw_object(l->w);
        confirm_put(l->box, p, l->w);
        tn_jw_object_end(l->w);
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

static void put_answer(struct tn_http_exchange *x, const char *answer,
                       const struct tn_buf *observation)
{
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, OBSERVATION_MAX + 1024);
    struct tn_jw w = tn_jw(&json);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "answer", answer);
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
                   const struct confirm_answer *a)
{
    tn_autobuf struct tn_buf out = {.max = OBSERVATION_MAX, .purse = purse_of(x)};
    struct tn_error err = {0};

    int status = confirm_answer(b, p, a, request_id(x), &out, &err);
    if (status == 200 && a->rule && add_rule(x, b, p, &err))
        status = -1;
    if (status == 200)
        put_answer(x, a->answer, &out);
    else if (status < 0)
        reply_error(x, &err);
    else
        reply_status(x, status, NULL, tn_buf_str(&out));
}

/* Whoever waits for it hears that it is over; who answered has heard why. */
static void drop(struct tn_http_exchange *x, struct box *b, const struct tn_pending *p)
{
    tn_autobuf struct tn_buf out = {.max = OBSERVATION_MAX, .purse = purse_of(x)};

    confirm_unnoted(b, p, &out);
}

static void post_answer(struct tn_http_exchange *x, void *ctx)
{
    static const struct tn_fields *const tables[] = {&confirm_answer_fields, NULL};
    autobox struct box *b = native_box(x, ctx, SCOPE_MANAGE);
    tn_autojson struct tn_json *body = NULL;
    struct confirm_answer a = {0};
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
    tn_fields_defaults(&confirm_answer_fields, &a);
    if (tn_fields_from_json(&confirm_answer_fields, &a, body, &err)) {
        reply_error(x, &err);
    } else if (confirm_take(b, caller_of(x), id, &a, &p, &err)) {
        if (!native_audit(x, ctx, "action.answer", box_id(b), &err))
            reply_error(x, &err);
    } else {
        const char *what = confirm_says_yes(&a) ? "action.confirm" : "action.reject";
        if (native_audit(x, ctx, what, box_id(b), NULL))
            drop(x, b, &p);
        else
            answer(x, b, &p, &a);
        tn_pending_done(&p);
    }
    tn_fields_done(&confirm_answer_fields, &a);
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
    tn_jw_object(&w);
    confirm_put(b, &p, &w);
    tn_jw_object_end(&w);
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
