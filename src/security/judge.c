#include "security/judge.h"

#include <pthread.h>

#include "base/clock.h"
#include "base/nearest.h"
#include "base/thread.h"
#include "security/program.h"

/* All that are built in. */
static const struct tn_analyzer *const built_in[] = {
    &tn_analyzer_llm,
    &tn_analyzer_invariant,
    &tn_analyzer_grayswan,
    &tn_analyzer_policy,
};

bool tn_analyzer_is_slow(const void *self)
{
    (void)self;
    return true;
}

/* So many failures in a row, and it is not asked for so long. */
enum { BREAKER_FAILURES = 3 };
#define BREAKER_PAUSE (30 * TN_SECOND)

/* One analyzer that is asked. */
struct member {
    const struct tn_analyzer *analyzer;
    void *self;
    bool slow;
    pthread_mutex_t lock; /* of what follows */
    unsigned failures;    /* in a row */
    int64_t again;        /* not asked before this time, once these were too many */
    char last[256];       /* why it failed last */
};

struct tn_judge {
    struct member *members;
    size_t count;
    struct tn_thresholds thresholds;
    double confirm_seconds;
};

/* --- making one ------------------------------------------------------------------------------- */

static const struct tn_analyzer *find(const char *name)
{
    for (size_t i = 0; i < TN_COUNT(built_in); i++)
        if (strcmp(built_in[i]->name, name) == 0)
            return built_in[i];
    return NULL;
}

const char *tn_judge_about(const char *name)
{
    const struct tn_analyzer *analyzer = find(name);

    return analyzer ? analyzer->about : "a program of the operator's";
}

/* The nearest of the names of programs, which do not live long. */
struct near_program {
    struct tn_nearest near;
    char best[64];
};

static void offer_program(const char *name, void *ctx)
{
    struct near_program *n = ctx;

    tn_nearest_offer(&n->near, name);
    if (n->near.best == name) {
        snprintf(n->best, sizeof n->best, "%s", name);
        n->near.best = n->best;
    }
}

static int unknown_name(const struct tn_security_settings *s, const char *name,
                        struct tn_error *err)
{
    struct near_program n = {.near = tn_nearest(name)};

    for (size_t i = 0; i < TN_COUNT(built_in); i++)
        tn_nearest_offer(&n.near, built_in[i]->name);
    security_program_each(s, offer_program, &n);
    const char *best = n.near.best;
    return tn_fail(err, TN_E_INVALID,
                   "there is no analyzer '%.40s', and no program tendon-analyzer-%.40s%s%s%s", name,
                   name, best ? "; did you mean " : "", best ? best : "", best ? "?" : "");
}

int tn_judge_check_name(const struct tn_security_settings *s, const char *name,
                        struct tn_error *err)
{
    if (find(name))
        return 0;
    tn_autofree char *path = security_program_find(s, name);
    return path ? 0 : unknown_name(s, name, err);
}

static void put_member(struct tn_judge *j, const struct tn_analyzer *analyzer, void *self)
{
    j->members = tn_realloc(j->members, (j->count + 1) * sizeof *j->members);
    struct member *m = &j->members[j->count++];
    *m = (struct member){
        .analyzer = analyzer, .self = self, .slow = analyzer->slow && analyzer->slow(self)};
    pthread_mutex_init(&m->lock, NULL);
}

static bool is_member(const struct tn_judge *j, const char *name)
{
    for (size_t i = 0; i < j->count; i++)
        if (strcmp(j->members[i].analyzer->name, name) == 0)
            return true;
    return false;
}

int tn_judge_add(struct tn_judge *j, const struct tn_analyzer *analyzer,
                 const struct tn_security_settings *s, struct tn_error *err)
{
    if (is_member(j, analyzer->name))
        return 0;
    void *self = analyzer->open(s, err);
    if (!self)
        return tn_error_context(err, "analyzer %s", analyzer->name);
    put_member(j, analyzer, self);
    return 0;
}

static int add_program(struct tn_judge *j, const char *name, const struct tn_security_settings *s,
                       struct tn_error *err)
{
    tn_autofree char *path = security_program_find(s, name);
    const struct tn_analyzer *table;

    if (!path)
        return unknown_name(s, name, err);
    if (is_member(j, name))
        return 0;
    void *self = security_program_new(s, name, path, &table);
    put_member(j, table, self);
    return 0;
}

static int add_named(struct tn_judge *j, const char *name, const struct tn_security_settings *s,
                     struct tn_error *err)
{
    const struct tn_analyzer *analyzer = find(name);

    return analyzer ? tn_judge_add(j, analyzer, s, err) : add_program(j, name, s, err);
}

struct tn_judge *tn_judge_new(const struct tn_security_settings *s, struct tn_error *err)
{
    const char *openhands = s->confirmation_mode ? s->security_analyzer : NULL;
    struct tn_judge *j = tn_calloc(1, sizeof *j);
    int failed = 0;

    j->thresholds = tn_security_thresholds(s);
    j->confirm_seconds = s->confirm_seconds;
    for (size_t i = 0; !failed && i < s->analyzers.count; i++)
        failed = add_named(j, s->analyzers.items[i], s, err);
    if (!failed && openhands && *openhands)
        failed = add_named(j, openhands, s, err);
    if (!failed)
        return j;
    tn_judge_free(j);
    return NULL;
}

void tn_judge_free(struct tn_judge *j)
{
    if (!j)
        return;
    for (size_t i = 0; i < j->count; i++) {
        j->members[i].analyzer->close(j->members[i].self);
        pthread_mutex_destroy(&j->members[i].lock);
    }
    free(j->members);
    free(j);
}

size_t tn_judge_history(const struct tn_judge *j)
{
    size_t most = 0;

    for (size_t i = 0; i < j->count; i++)
        if (j->members[i].analyzer->history > most)
            most = j->members[i].analyzer->history;
    return most;
}

const struct tn_thresholds *tn_judge_thresholds(const struct tn_judge *j)
{
    return &j->thresholds;
}

double tn_judge_confirm_seconds(const struct tn_judge *j)
{
    return j->confirm_seconds;
}

/* --- the breaker ------------------------------------------------------------------------------ */

/* Whether it is asked; when not, err says since when.  After the pause it is asked once, and the
 * others go on without it until it has answered. */
static bool may_ask(struct member *m, struct tn_error *err)
{
    int64_t now = tn_now();

    pthread_mutex_lock(&m->lock);
    bool may = m->failures < BREAKER_FAILURES || now >= m->again;
    if (may && m->failures >= BREAKER_FAILURES)
        m->again = now + BREAKER_PAUSE;
    if (!may)
        tn_fail(err, TN_E_BUSY, "failed %u times in a row and is asked again in %lld s: %s",
                m->failures, (long long)((m->again - now) / TN_SECOND + 1), m->last);
    pthread_mutex_unlock(&m->lock);
    return may;
}

/* An action that no analyzer could judge says nothing about the next one; nor does one that takes a
 * part of this process too long. */
static bool is_about_action(const struct member *m, enum tn_code code)
{
    return code == TN_E_TOO_LARGE || code == TN_E_INVALID || code == TN_E_UNPROCESSABLE ||
           (code == TN_E_TIMEOUT && !m->slow);
}

static void note_result(struct member *m, int result, const struct tn_error *err)
{
    pthread_mutex_lock(&m->lock);
    if (result == 0) {
        m->failures = 0;
    } else if (!is_about_action(m, err->code)) {
        m->failures++;
        m->again = tn_now() + BREAKER_PAUSE;
        snprintf(m->last, sizeof m->last, "%.*s", (int)sizeof m->last - 1, err->text);
    }
    pthread_mutex_unlock(&m->lock);
}

/* --- asking ----------------------------------------------------------------------------------- */

/* One question to one analyzer. */
struct question {
    struct member *member;
    const struct tn_case *of;
    int64_t deadline;
    struct tn_verdict verdict;
    bool failed;
    pthread_t thread;
    bool started;
};

static void *ask(void *arg)
{
    struct question *q = arg;
    struct member *m = q->member;
    struct tn_error err = {0};
    int result = -1;

    if (may_ask(m, &err)) {
        result = m->analyzer->judge(m->self, q->of, q->deadline, &q->verdict, &err);
        note_result(m, result, &err);
    }
    q->failed = result;
    if (result)
        tn_verdict_add(&q->verdict, m->analyzer->name, "", "", TN_RISK_UNKNOWN, err.text);
    return NULL;
}

/* Asks all that are slow, or all that are not; the last one in this thread. */
static void ask_all(struct tn_judge *j, bool slow, struct question *questions)
{
    struct question *last = NULL;

    for (size_t i = 0; i < j->count; i++) {
        struct question *q = &questions[i];
        if (!q->member || q->member->slow != slow)
            continue;
        if (last && slow && tn_thread_start(&last->thread, ask, last) == 0)
            last->started = true;
        else if (last)
            ask(last);
        last = q;
    }
    if (last)
        ask(last);
    for (size_t i = 0; i < j->count; i++)
        if (questions[i].started && questions[i].member->slow == slow)
            pthread_join(questions[i].thread, NULL);
}

/* The risk that decides, and its decision, of all findings so far. */
static void decide(const struct tn_thresholds *t, struct tn_verdict *v)
{
    v->risk = TN_RISK_LOW;
    v->decision = tn_thresholds_decide(t, TN_RISK_LOW);
    for (size_t i = 0; i < v->count; i++) {
        enum tn_risk risk = v->findings[i].risk;
        enum tn_decision decision = tn_thresholds_decide(t, risk);
        if (decision < v->decision || (decision == v->decision && !tn_risk_exceeds(risk, v->risk)))
            continue;
        v->risk = risk;
        v->decision = decision;
    }
}

/* Whatever is done with actions of unknown risk: that an analyzer failed, or that all that were
 * chosen are gone, never allows one. */
static void fail_closed(const struct tn_judge *j, const struct question *questions, size_t asked,
                        const struct tn_thresholds *t, struct tn_verdict *v)
{
    bool failed = j->count > 0 && asked == 0;

    for (size_t i = 0; i < j->count; i++)
        failed |= questions[i].failed;
    if (!failed || v->decision != TN_ALLOW)
        return;
    v->risk = TN_RISK_UNKNOWN;
    v->decision = t->mode == TN_CONFIRM_NEVER ? TN_BLOCK : TN_ASK;
}

static void collect(struct tn_judge *j, struct question *questions, struct tn_verdict *out)
{
    for (size_t i = 0; i < j->count; i++)
        tn_verdict_move(out, &questions[i].verdict);
}

void tn_judge_action(struct tn_judge *j, const struct tn_case *c, int64_t deadline,
                     struct tn_verdict *out)
{
    const struct tn_thresholds *t = c->thresholds ? c->thresholds : &j->thresholds;
    struct question *questions;
    size_t asked = 0;

    *out = (struct tn_verdict){.risk = TN_RISK_LOW};
    if (!tn_action_judged(c->action->type))
        return;
    questions = tn_calloc(j->count, sizeof *questions);
    for (size_t i = 0; i < j->count; i++) {
        bool chosen = tn_thresholds_has(t, j->members[i].analyzer->name);
        questions[i] = (struct question){
            .member = chosen ? &j->members[i] : NULL, .of = c, .deadline = deadline};
        asked += chosen;
    }
    ask_all(j, false, questions);
    collect(j, questions, out);
    decide(t, out);
    /* Nothing that others say changes that it is blocked: they are not told of it. */
    if (out->decision != TN_BLOCK) {
        ask_all(j, true, questions);
        collect(j, questions, out);
    }
    if (asked == 0)
        tn_verdict_add(out, "none", "", "", TN_RISK_UNKNOWN, "no analyzer judges actions here");
    else if (c->action->type == TN_ACTION_NETWORK &&
             out->count == 0) /* no rule allows it, either */
        tn_verdict_add(out, "none", "", "", TN_RISK_UNKNOWN,
                       "no analyzer says anything about this connection");
    decide(t, out);
    fail_closed(j, questions, asked, t, out);
    free(questions);
}
