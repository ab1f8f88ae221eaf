/* `grayswan`: the Cygnal monitor of Gray Swan, which is shown the latest events and the action. */
#include "base/clock.h"
#include "security/endpoint.h"
#include "security/trace.h"

enum { EVENTS = 20 };

/* Scores up to these are low, and medium. */
#define LOW_UP_TO 0.3
#define MEDIUM_UP_TO 0.7

struct grayswan {
    struct security_endpoint *endpoint;
    char *policy_id;
    double seconds;
};

static void grayswan_close(void *self)
{
    struct grayswan *g = self;

    security_endpoint_free(g->endpoint);
    free(g->policy_id);
    free(g);
}

static void *grayswan_open(const struct tn_security_settings *s, struct tn_error *err)
{
    const char *key = getenv("GRAYSWAN_API_KEY");

    if (!key || !*key) {
        tn_fail(err, TN_E_INVALID, "its key is expected in GRAYSWAN_API_KEY of the environment");
        return NULL;
    }
    struct grayswan *g = tn_calloc(1, sizeof *g);
    g->policy_id = tn_strdup(s->grayswan.policy_id);
    g->seconds = s->grayswan.seconds;
    g->endpoint = security_endpoint_new(s->grayswan.endpoint, key, err);
    if (g->endpoint && !security_endpoint_header(g->endpoint, "x-grayswan-api-key", key, err))
        return g;
    grayswan_close(g);
    return NULL;
}

static int put_question(const struct grayswan *g, const struct tn_case *c, struct tn_buf *out,
                        struct tn_error *err)
{
    tn_autojson struct tn_json *tree = security_action_tree(c->action, err);
    struct tn_jw w = tn_jw(out);
    struct security_trace trace = {.form = SECURITY_TRACE_OPENAI, .w = &w};

    if (!tree)
        return -1;
    tn_jw_object(&w);
    tn_jw_key(&w, "messages");
    tn_jw_array(&w);
    security_trace_history(&trace, c->history, EVENTS);
    security_trace_event(&trace, tree);
    tn_jw_array_end(&w);
    tn_jw_kstr(&w, "policy_id", g->policy_id);
    tn_jw_object_end(&w);
    return 0;
}

/* A member of the answer: below output.data, as OpenHands expects it, or at its top. */
static const struct tn_json *member(const struct tn_json *answer, const char *key)
{
    const struct tn_json *data = tn_json_get(tn_json_get(answer, "output"), "data");
    const struct tn_json *found = tn_json_get(data, key);

    return found ? found : tn_json_get(answer, key);
}

/* Its score must be there and be one. */
static int read_answer(const struct tn_json *answer, struct tn_verdict *out, struct tn_error *err)
{
    const struct tn_json *ipi = member(answer, "ipi");
    double score = tn_json_double(member(answer, "violation"), -1);
    char text[64];

    if (!(score >= 0 && score <= 1))
        return tn_fail(err, TN_E_PEER, "its answer has no score from 0 to 1");
    if (ipi && tn_json_type(ipi) != TN_JSON_BOOL)
        return tn_fail(err, TN_E_PEER, "its answer does not say whether there was an injection");
    if (tn_json_bool(ipi, false))
        tn_verdict_add(out, "grayswan", "ipi", "", TN_RISK_HIGH, "indirect prompt injection");
    snprintf(text, sizeof text, "violation score %.2f", score);
    if (score > LOW_UP_TO)
        tn_verdict_add(out, "grayswan", "violation", "",
                       score > MEDIUM_UP_TO ? TN_RISK_HIGH : TN_RISK_MEDIUM, text);
    return 0;
}

static int grayswan_judge(void *self, const struct tn_case *c, int64_t deadline,
                          struct tn_verdict *out, struct tn_error *err)
{
    struct grayswan *g = self;
    tn_autobuf struct tn_buf body = TN_BUF_INIT(4 * SECURITY_SHOWN_MAX);
    tn_autojson struct tn_json *answer = NULL;
    int64_t own = tn_deadline_in(g->seconds);
    int status;

    if (put_question(g, c, &body, err))
        return -1;
    if (security_ask(g->endpoint,
                     &(struct security_request){
                         .target = "", .body = &body, .deadline = own < deadline ? own : deadline},
                     &status, &answer, err))
        return -1;
    return read_answer(answer, out, err);
}

const struct tn_analyzer tn_analyzer_grayswan = {
    .name = "grayswan",
    .about = "the Cygnal monitor of Gray Swan",
    .slow = tn_analyzer_is_slow,
    .history = EVENTS,
    .open = grayswan_open,
    .close = grayswan_close,
    .judge = grayswan_judge,
};
