#include "service/confirm.h"

#include "runtime/pending.h"
#include "service/proxy.h"

static const char *const answers[] = {"confirm", "reject", NULL};

static const struct tn_field answer_rows[] = {
    TN_STRING("answer", struct confirm_answer, answer, .flags = TN_FIELD_REQUIRED,
              .words = answers),
    TN_STRING("reason", struct confirm_answer, reason, .flags = TN_FIELD_NULLABLE),
    TN_BOOL("rule", struct confirm_answer, rule),
};
const struct tn_fields confirm_answer_fields = TN_FIELDS(answer_rows);

void confirm_put(struct box *b, const struct tn_pending *p, struct tn_jw *w)
{
    autoview struct box_view v = {0};

    box_look(b, &v);
    tn_jw_kstr(w, "sandbox", box_id(b));
    tn_jw_kstr(w, "name", v.name);
    tn_jw_kstr(w, "tenant", v.tenant);
    tn_pending_put(box_directory(b), p, w);
}

bool confirm_says_yes(const struct confirm_answer *a)
{
    return strcmp(a->answer, answers[0]) == 0;
}

struct answering {
    struct box *b;
    const struct caller *who;
    const struct confirm_answer *a;
};

/* A connection that waits: whoever lets it through must be allowed such a rule. */
static int check_connection(const struct tn_pending *p, void *ctx, struct tn_error *err)
{
    const struct answering *x = ctx;
    bool yes = confirm_says_yes(x->a);
    char rule[TN_PENDING_RULE];

    bool connection = tn_pending_rule(p, rule);
    if (x->a->rule && !(yes && connection && x->who))
        return tn_fail(err, TN_E_UNPROCESSABLE,
                       "rule: only with a connection that is confirmed (the action network), and "
                       "over the API");
    return yes && connection ? box_may_reach(x->b, x->who, rule, err) : 0;
}

int confirm_take(struct box *b, const struct caller *who, int64_t id,
                 const struct confirm_answer *a, struct tn_pending *out, struct tn_error *err)
{
    struct answering x = {.b = b, .who = who, .a = a};

    if (a->reason && strlen(a->reason) > TN_PENDING_REASON_MAX)
        return tn_fail(err, TN_E_UNPROCESSABLE, "reason: expected at most %d bytes",
                       TN_PENDING_REASON_MAX);
    return tn_pending_take(box_directory(b), id, check_connection, &x, out, err);
}

int confirm_answer(struct box *b, const struct tn_pending *p, const struct confirm_answer *a,
                   const char *request, struct tn_buf *out, struct tn_error *err)
{
    if (tn_pending_is_late(p)) {
        act_rejected(b, p, NULL, out);
        return tn_fail(err, TN_E_GONE, "nobody answered in time: action %lld was refused",
                       (long long)p->id);
    }
    if (confirm_says_yes(a))
        return act_confirmed(b, p, request, out, err);
    act_rejected(b, p, a->reason ? a->reason : "", out);
    return 200;
}

void confirm_unnoted(struct box *b, const struct tn_pending *p, struct tn_buf *out)
{
    act_rejected(b, p, "The audit log cannot be written.", out);
}
