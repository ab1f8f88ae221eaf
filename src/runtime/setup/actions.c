/* What becomes of an action, in the order in which OpenHands decides it. */
#include "runtime/setup/session-impl.h"

#define BAD_ACTION "AGENT_ERROR$BAD_ACTION"

static void answer_text(struct tn_observation *o, enum tn_observation_type type, const char *text)
{
    tn_observation_init(o, type);
    tn_observation_set_content(o, text);
}

static void refuse(struct tn_observation *o, const struct tn_action *action, const char *what)
{
    tn_observation_init_error(o, NULL, "Action %s %s", tn_action_name(action->type), what);
    free(o->error_id);
    o->error_id = tn_strdup(BAD_ACTION);
}

/* The ones that no hand executes; true when there is an answer. */
static bool answer_by_host(struct tn_session *s, const struct tn_action *action,
                           struct tn_observation *o)
{
    if (tn_action_runnable(action->type))
        return false;
    if (action->type == TN_ACTION_THINK)
        answer_text(o, TN_OBSERVATION_THINK, "Your thought has been logged.");
    else if (action->type == TN_ACTION_TASK_TRACKING)
        session_track_tasks(s, action, o);
    else
        answer_text(o, TN_OBSERVATION_NULL, "");
    return true;
}

/* Every action that is executed has a deadline; true when it cannot be executed at all. */
static bool refuse_unfit(const struct tn_session *s, struct tn_action *action,
                         struct tn_observation *o)
{
    if (action->type == TN_ACTION_EDIT && action->edit.impl_source == TN_EDIT_LLM) {
        refuse(o, action, "is not supported in the current runtime.");
        return true;
    }
    if (action->timeout.set)
        return false;
    if (action->type == TN_ACTION_RUN && action->run.blocking) {
        refuse(o, action, "that blocks needs a timeout.");
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
    if (setup_execute(&s->executor, action, o, &why) == 0) {
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
