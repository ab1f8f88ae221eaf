/* What becomes of an action, in the order in which OpenHands decides it. */
#include "runtime/setup/session-impl.h"

/* The ones that no hand executes; true when there is an answer. */
static bool answer_by_host(struct tn_session *s, const struct tn_action *action,
                           struct tn_observation *o)
{
    if (action->type != TN_ACTION_TASK_TRACKING)
        return !tn_action_runnable(action->type) && tn_observation_init_by_host(o, action);
    session_track_tasks(s, action, o);
    return true;
}

/* Every action that is executed has a deadline; true when it cannot be executed at all. */
static bool refuse_unfit(const struct tn_session *s, struct tn_action *action,
                         struct tn_observation *o)
{
    if (tn_observation_init_by_host(o, action))
        return true;
    if (action->timeout.set)
        return false;
    if (action->type == TN_ACTION_RUN && action->run.blocking) {
        tn_observation_init_bad_action(o, action, "that blocks needs a timeout.");
        return true;
    }
    action->timeout = (struct tn_opt_double){.set = true, .value = s->config->sandbox.timeout};
    return false;
}

/* The sandbox did not answer; whoever waits is told so in any case. */
static void answer_failure(struct tn_session *s, const struct tn_action *action,
                           struct tn_error *err, struct tn_observation *o)
{
    bool gone = tn_error_class_is(tn_error_class_of(err->code), "AgentRuntimeDisconnectedError");

    session_hide_tokens(s, err);
    tn_observation_init_error(o, action, "%s: %s", tn_error_class_of(err->code)->name, err->text);
    tn_session_tell(s, gone ? TN_RUNTIME_ERROR_RUNTIME_DISCONNECTED : TN_RUNTIME_ERROR, "error",
                    err->text);
}

static int execute(struct tn_session *s, const struct tn_action *action, struct tn_observation *o,
                   struct tn_error *err)
{
    struct tn_error why = {0};

    session_refresh_tokens(s, action);
    if (setup_execute(&s->judged, action, o, &why) == 0) {
        if (o->type == TN_OBSERVATION_RUN && tn_action_hidden(action))
            o->run.hidden = true;
        return 0;
    }
    answer_failure(s, action, &why, o);
    if (err)
        *err = why;
    return -1;
}

int tn_session_run_action(struct tn_session *s, struct tn_action *action, struct tn_observation *o,
                          struct tn_error *err)
{
    int result = 0;

    if (!answer_by_host(s, action, o) && !tn_observation_init_unconfirmed(o, action) &&
        !refuse_unfit(s, action, o))
        result = execute(s, action, o, err);
    if (action->event.id.set)
        o->event.cause = action->event.id;
    if (action->event.tool_call_metadata && !o->event.tool_call_metadata)
        o->event.tool_call_metadata = tn_json_ref(action->event.tool_call_metadata);
    return result;
}
