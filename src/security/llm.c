/* `llm`: the rating that the agent's model put on the action. */
#include "security/analyzer.h"

static void *llm_open(const struct tn_security_settings *s, struct tn_error *err)
{
    (void)s, (void)err;
    return tn_strdup("");
}

static int llm_judge(void *self, const struct tn_case *c, int64_t deadline, struct tn_verdict *out,
                     struct tn_error *err)
{
    int64_t rating = c->action->security_risk;

    (void)self, (void)deadline, (void)err;
    if (rating == TN_RISK_MEDIUM || rating == TN_RISK_HIGH)
        tn_verdict_add(out, "llm", "", "args.security_risk", (enum tn_risk)rating,
                       "the model that asks for the action says so itself");
    else if (rating != TN_RISK_LOW)
        tn_verdict_add(out, "llm", "", "args.security_risk", TN_RISK_UNKNOWN,
                       "the model that asks for the action has not rated its risk");
    return 0;
}

const struct tn_analyzer tn_analyzer_llm = {
    .name = "llm",
    .about = "the rating that the agent's model put on the action",
    .open = llm_open,
    .close = free,
    .judge = llm_judge,
};
