#include "runtime/replay.h"

#include "base/clock.h"
#include "event/mask.h"
#include "runtime/replay-compare.h"

/* A diff that nobody reads to its end. */
#define DIFF_MAX ((size_t)64 << 20)
#define MESSAGE_MAX ((size_t)16 << 20)

const char *const tn_replay_outcome_words[] = {
    [TN_REPLAY_SAME] = "same",
    [TN_REPLAY_DIFFERENT] = "different",
    [TN_REPLAY_UNANSWERED] = "unanswered",
    [TN_REPLAY_SKIPPED] = "skipped",
    NULL,
};

/* Is the text of a hidden secret anywhere in it?  As a command it would mean something else. */
static bool has_hidden_secret(const struct tn_json *value);

static int check_member(const char *key, struct tn_json *value, void *ctx)
{
    return strstr(key, TN_SECRET_HIDDEN) || has_hidden_secret(value);
}

static bool has_hidden_secret(const struct tn_json *value)
{
    size_t n;
    const char *text = tn_json_str(value, &n);

    if (text)
        return memmem(text, n, TN_SECRET_HIDDEN, strlen(TN_SECRET_HIDDEN)) != NULL;
    for (size_t i = 0; tn_json_type(value) == TN_JSON_ARRAY && i < tn_json_count(value); i++)
        if (has_hidden_secret(tn_json_at(value, i)))
            return true;
    return tn_json_each(value, check_member, NULL);
}

/* Why it is not executed, or NULL. */
static const char *reason_to_skip(const struct tn_recorded_step *recorded,
                                  const struct tn_action *action)
{
    if (action->confirmation_state == TN_REJECTED)
        return "it was rejected";
    if (action->confirmation_state == TN_AWAITING_CONFIRMATION)
        return "it was waiting for a confirmation";
    if (has_hidden_secret(tn_json_get(recorded->action, "args")))
        return "a secret in it was hidden";
    return NULL;
}

/* The envelope belongs to the recording: the new session has its own ids. */
static void make_new(struct tn_action *action, double timeout)
{
    action->event.id.set = false;
    action->event.cause.set = false;
    action->event.start.set = false;
    free(TN_TAKE_PTR(action->event.idempotency_key));
    if (!action->timeout.set || action->timeout.value <= 0)
        action->timeout = (struct tn_opt_double){.set = true, .value = timeout};
}

static int compare(struct compare *c, const struct tn_json *recorded,
                   const struct tn_observation *replayed, struct tn_replay_step *step,
                   struct tn_buf *diff, struct tn_error *err)
{
    struct tn_observation before;
    struct tn_error why = {0};

    step->outcome = TN_REPLAY_UNANSWERED;
    if (!recorded)
        return 0;
    if (tn_observation_from_json(recorded, &before, &why)) {
        tn_buf_puts(diff, why.text);
        step->reason = tn_buf_str(diff);
        return 0;
    }
    int failed = compare_observations(c, &before, replayed, diff);
    tn_observation_done(&before);
    if (failed)
        return tn_fail(err, TN_E_TOO_LARGE, "the observations are too large to be compared");
    step->outcome = diff->len ? TN_REPLAY_DIFFERENT : TN_REPLAY_SAME;
    step->diff = tn_buf_str(diff);
    return 0;
}

static int tell(const struct tn_replay *how, const struct tn_replay_step *step,
                struct tn_replay_summary *summary)
{
    summary->outcomes[step->outcome]++;
    return how->step ? how->step(step, how->step_ctx) : 0;
}

/* Executes and compares: 0, 1 when that is enough, -1. */
static int do_step(struct compare *c, const struct tn_recorded_step *recorded,
                   const struct tn_replay *how, struct tn_action *action,
                   struct tn_replay_step *step, struct tn_replay_summary *summary,
                   struct tn_error *err)
{
    tn_autobuf struct tn_buf diff = TN_BUF_INIT(DIFF_MAX);
    struct tn_observation observation;
    int64_t start = tn_now();

    make_new(action, how->timeout);
    if (how->execute(how->execute_ctx, action, &observation, err))
        return tn_error_context(err, "action %zu (%s)", step->number, step->name);
    step->nanoseconds = tn_now() - start;
    step->replayed = &observation;
    int result = compare(c, recorded->observation, &observation, step, &diff, err)
                     ? -1
                     : tell(how, step, summary);
    tn_observation_done(&observation);
    return result;
}

static int replay_step(struct compare *c, const struct tn_recorded_step *recorded,
                       const struct tn_replay *how, struct tn_replay_step *step,
                       struct tn_replay_summary *summary, struct tn_error *err)
{
    tn_autobuf struct tn_buf message = TN_BUF_INIT(MESSAGE_MAX);
    struct tn_error why = {0};
    struct tn_action action;

    if (tn_action_from_json(recorded->action, &action, &why)) {
        step->outcome = TN_REPLAY_SKIPPED;
        step->reason = why.text;
        return tell(how, step, summary);
    }
    const char *reason = reason_to_skip(recorded, &action);
    int result;
    tn_action_put_message(&action, &message);
    step->message = tn_buf_str(&message);
    if (reason) {
        step->outcome = TN_REPLAY_SKIPPED;
        step->reason = reason;
        result = tell(how, step, summary);
    } else {
        result = do_step(c, recorded, how, &action, step, summary, err);
    }
    tn_action_done(&action);
    return result;
}

int tn_replay(const struct tn_recording *recording, const struct tn_replay *how,
              struct tn_replay_summary *summary, struct tn_error *err)
{
    struct compare *c = compare_new();
    int result = 0;

    *summary = (struct tn_replay_summary){0};
    for (size_t i = 0; i < recording->step_count && result == 0; i++) {
        const struct tn_recorded_step *recorded = &recording->steps[i];
        struct tn_replay_step step = {
            .number = i + 1,
            .count = recording->step_count,
            .id = tn_json_int(tn_json_get(recorded->action, "id"), -1),
            .name = tn_json_get_str(recorded->action, "action", ""),
            .message = "",
            .diff = "",
            .reason = "",
        };
        result = replay_step(c, recorded, how, &step, summary, err);
    }
    compare_free(c);
    return result < 0 ? -1 : 0;
}
