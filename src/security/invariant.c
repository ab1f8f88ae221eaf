/* `invariant`: client of an Invariant server, which checks the action against a policy in its own
 * language, with what happened before.
 *
 * The server has a session for us, and in it a monitor of the policy.  Both are made when first
 * needed, and made again when it does not know them any more: it was started anew. */
#include <pthread.h>

#include "base/again.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/thread.h"
#include "net/url.h"
#include "security/endpoint.h"
#include "security/trace.h"

enum { EVENTS = 100, POLICY_MAX = 256 << 10 };

/* A server that has only just been started is tried again, so often. */
enum { TRIES = 5, TRY_AGAIN_MS = 1000 };

struct invariant {
    struct security_endpoint *endpoint;
    char *policy; /* NULL: the server's template */
    double seconds;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t made;
    bool making; /* a thread is about to make a monitor */
    char *check; /* target of a check, with monitor and session; NULL: none yet */
};

/* --- session and monitor ---------------------------------------------------------------------- */

static int ask(struct invariant *v, const char *target, const struct tn_buf *body, int64_t deadline,
               int *status, struct tn_json **answer, struct tn_error *err)
{
    return security_ask(
        v->endpoint,
        &(struct security_request){.target = target, .body = body, .deadline = deadline}, status,
        answer, err);
}

/* A string member of the answer, fit for a target; NULL with err. */
static char *id_of(const struct tn_json *answer, const char *key, struct tn_error *err)
{
    const struct tn_json *v = tn_json_get(answer, key);
    tn_autobuf struct tn_buf out = TN_BUF_INIT(512);

    if (tn_json_type(v) == TN_JSON_INT)
        tn_buf_printf(&out, "%lld", (long long)tn_json_int(v, 0));
    else if (tn_json_str(v, NULL))
        tn_url_encode(&out, tn_json_str(v, NULL), "");
    if (tn_buf_ok(&out) && out.len)
        return tn_buf_take(&out);
    tn_fail(err, TN_E_PEER, "its answer has no %s", key);
    return NULL;
}

static char *new_session(struct invariant *v, int64_t deadline, struct tn_error *err)
{
    tn_autojson struct tn_json *answer = NULL;
    struct tn_error why = {0};
    int status, result = -1;

    for (int i = 0; i < TRIES && result; i++) {
        result = ask(v, "/session/new", NULL, deadline, &status, &answer, &why);
        if (result && (why.sys != ECONNREFUSED || !tn_look_again_in(TRY_AGAIN_MS, deadline)))
            break;
    }
    if (result == 0)
        return id_of(answer, "id", err);
    if (err)
        *err = why;
    return NULL;
}

/* The policy, or the template of the server. */
static char *find_policy(struct invariant *v, int64_t deadline, struct tn_error *err)
{
    tn_autojson struct tn_json *answer = NULL;
    int status;

    if (v->policy)
        return tn_strdup(v->policy);
    if (ask(v, "/policy/template", NULL, deadline, &status, &answer, err))
        return NULL;
    if (tn_json_str(answer, NULL))
        return tn_strdup(tn_json_str(answer, NULL));
    tn_fail(err, TN_E_PEER, "its template of a policy is no text");
    return NULL;
}

/* The target of checks, on the heap. */
static char *new_monitor(struct invariant *v, int64_t deadline, struct tn_error *err)
{
    tn_autobuf struct tn_buf body = TN_BUF_INIT(2 * POLICY_MAX);
    tn_autojson struct tn_json *answer = NULL;
    struct tn_jw w = tn_jw(&body);
    int status;

    tn_autofree char *session = new_session(v, deadline, err);
    tn_autofree char *policy = session ? find_policy(v, deadline, err) : NULL;
    if (!policy)
        return NULL;
    tn_autofree char *target = tn_asprintf("/monitor/new?session_id=%s", session);
    tn_jw_object(&w);
    tn_jw_kstr(&w, "rule", policy);
    tn_jw_object_end(&w);
    if (ask(v, target, &body, deadline, &status, &answer, err)) {
        tn_error_context(err, "the policy");
        return NULL;
    }
    tn_autofree char *monitor = id_of(answer, "monitor_id", err);
    return monitor ? tn_asprintf("/monitor/%s/check?session_id=%s", monitor, session) : NULL;
}

/* The target of checks; with `stale`, another one than that.  One thread makes it, and the others
 * wait no longer than they may. */
static char *find_monitor(struct invariant *v, const char *stale, int64_t deadline,
                          struct tn_error *err)
{
    struct timespec until = tn_timespec(deadline);
    char *made = NULL;
    int late = 0;

    pthread_mutex_lock(&v->lock);
    while (v->making && late == 0)
        late = pthread_cond_timedwait(&v->made, &v->lock, &until);
    if (v->making) {
        pthread_mutex_unlock(&v->lock);
        tn_fail(err, TN_E_TIMEOUT, "its session was not made in time");
        return NULL;
    }
    if (!v->check || (stale && strcmp(v->check, stale) == 0)) {
        v->making = true;
        pthread_mutex_unlock(&v->lock);
        made = new_monitor(v, deadline, err);
        pthread_mutex_lock(&v->lock);
        free(v->check);
        v->check = made;
        v->making = false;
        pthread_cond_broadcast(&v->made);
    }
    char *found = tn_strdup_or_null(v->check);
    pthread_mutex_unlock(&v->lock);
    return found;
}

/* --- a check ---------------------------------------------------------------------------------- */

static int put_question(const struct tn_case *c, struct tn_buf *out, struct tn_error *err)
{
    tn_autojson struct tn_json *tree = security_action_tree(c->action, err);
    struct tn_jw w = tn_jw(out);
    struct security_trace trace = {.form = SECURITY_TRACE_INVARIANT, .w = &w};

    if (!tree)
        return -1;
    tn_jw_object(&w);
    tn_jw_key(&w, "past_events");
    tn_jw_array(&w);
    security_trace_history(&trace, c->history, EVENTS);
    tn_jw_array_end(&w);
    tn_jw_key(&w, "pending_events");
    tn_jw_array(&w);
    security_trace_event(&trace, tree);
    tn_jw_array_end(&w);
    tn_jw_object_end(&w);
    return 0;
}

/* The word after "risk=" in a message; one that is not known, or none, is no reason to allow. */
static enum tn_risk risk_of(const char *message)
{
    const char *at = strstr(message, "risk=");
    enum tn_risk risk;

    if (!at)
        return TN_RISK_UNKNOWN;
    at += strlen("risk=");
    tn_risk_from_word(at, strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"),
                      &risk);
    return risk;
}

/* A list of messages, one for each rule that was raised. */
static int read_answer(const struct tn_json *answer, struct tn_verdict *out, struct tn_error *err)
{
    if (tn_json_type(answer) != TN_JSON_ARRAY)
        return tn_fail(err, TN_E_PEER, "its answer is no list of messages");
    for (size_t i = 0; i < tn_json_count(answer); i++) {
        const char *message = tn_json_str(tn_json_at(answer, i), NULL);
        if (!message)
            return tn_fail(err, TN_E_PEER, "a message of its answer is no text");
        tn_verdict_add(out, "invariant", "", "", risk_of(message), message);
    }
    return 0;
}

static int invariant_judge(void *self, const struct tn_case *c, int64_t deadline,
                           struct tn_verdict *out, struct tn_error *err)
{
    struct invariant *v = self;
    tn_autobuf struct tn_buf body = TN_BUF_INIT(16 * SECURITY_SHOWN_MAX);
    tn_autojson struct tn_json *answer = NULL;
    int64_t own = tn_deadline_in(v->seconds);
    int64_t until = own < deadline ? own : deadline;
    int status;

    if (put_question(c, &body, err))
        return -1;
    tn_autofree char *check = find_monitor(v, NULL, until, err);
    if (!check)
        return -1;
    int result = ask(v, check, &body, until, &status, &answer, err);
    if (result && status == 404) {
        tn_autofree char *another = find_monitor(v, check, until, err);
        result = another ? ask(v, another, &body, until, &status, &answer, err) : -1;
    }
    return result ? -1 : read_answer(answer, out, err);
}

/* --- its life --------------------------------------------------------------------------------- */

/* How long the server may take to hear that its session is not needed any more. */
#define FAREWELL_SECONDS 1.0

static void invariant_close(void *self)
{
    struct invariant *v = self;
    const char *session = v->check ? strstr(v->check, "?session_id=") : NULL;
    tn_autojson struct tn_json *answer = NULL;
    int status;

    if (session) {
        tn_autofree char *target = tn_asprintf("/session/%s", session);
        security_ask(v->endpoint,
                     &(struct security_request){.method = "DELETE",
                                                .target = target,
                                                .deadline = tn_deadline_in(FAREWELL_SECONDS)},
                     &status, &answer, NULL);
    }
    security_endpoint_free(v->endpoint);
    pthread_cond_destroy(&v->made);
    pthread_mutex_destroy(&v->lock);
    free(v->policy);
    free(v->check);
    free(v);
}

static void *invariant_open(const struct tn_security_settings *s, struct tn_error *err)
{
    const struct tn_invariant_settings *own = &s->invariant;
    tn_autobuf struct tn_buf policy = TN_BUF_INIT(POLICY_MAX);

    if (!own->endpoint || !*own->endpoint) {
        tn_fail(err, TN_E_INVALID,
                "security.invariant.endpoint: where does its server run? No container is started "
                "for it here");
        return NULL;
    }
    if (own->policy && *own->policy && tn_fs_read(TN_FS_ANYWHERE, own->policy, &policy, err)) {
        tn_error_context(err, "security.invariant.policy");
        return NULL;
    }
    struct invariant *v = tn_calloc(1, sizeof *v);
    v->seconds = own->seconds;
    v->policy = policy.len ? tn_buf_take(&policy) : NULL;
    pthread_mutex_init(&v->lock, NULL);
    tn_cond_init(&v->made);
    v->endpoint = security_endpoint_new(own->endpoint, NULL, err);
    if (v->endpoint)
        return v;
    invariant_close(v);
    tn_error_context(err, "security.invariant.endpoint");
    return NULL;
}

const struct tn_analyzer tn_analyzer_invariant = {
    .name = "invariant",
    .about = "rules in Invariant's language, checked by its server",
    .slow = tn_analyzer_is_slow,
    .history = EVENTS,
    .open = invariant_open,
    .close = invariant_close,
    .judge = invariant_judge,
};
