#include "runtime/setup/shell.h"

#include "base/base64.h"
#include "runtime/backend.h"

/* A command that does not end is sent this, so that the shell is free again. */
#define INTERRUPT "C-c"
#define INTERRUPT_SECONDS 5.0

/* In the suffix of an answer: the shell was busy. */
#define NOT_EXECUTED " is NOT executed."

int setup_execute(const struct setup_executor *x, const struct tn_action *action,
                  struct tn_observation *observation, struct tn_error *err)
{
    pthread_mutex_lock(x->lock);
    int result = x->execute(x->ctx, action, observation, err);
    pthread_mutex_unlock(x->lock);
    return result;
}

void setup_put_quoted(struct tn_buf *out, const char *text)
{
    tn_buf_putc(out, '\'');
    for (;;) {
        size_t n = strcspn(text, "'");
        tn_buf_add(out, text, n);
        if (!text[n])
            break;
        tn_buf_puts(out, "'\\''");
        text += n + 1;
    }
    tn_buf_putc(out, '\'');
}

static int put_assignment(const char *key, struct tn_json *value, void *ctx)
{
    tn_buf_printf(ctx, " %s=", key);
    setup_put_quoted(ctx, tn_json_str(value, NULL));
    return 0;
}

void setup_put_assignments(struct tn_buf *out, const struct tn_json *env)
{
    tn_json_each(env, put_assignment, out);
}

/* --- running ------------------------------------------------------------------------------ */

static void make_action(struct tn_action *action, const char *text, double timeout)
{
    tn_action_init_run(action, text, timeout);
    action->run.hidden = true;
    action->run.blocking = true;
}

static void interrupt(const struct setup_executor *x)
{
    tn_autoaction struct tn_action action;
    tn_autoobservation struct tn_observation observation;

    make_action(&action, INTERRUPT, INTERRUPT_SECONDS);
    action.run.is_input = true;
    tn_observation_init(&observation, TN_OBSERVATION_NULL);
    setup_execute(x, &action, &observation, NULL);
}

int setup_run(const struct setup_executor *x, const struct setup_command *command,
              struct tn_buf *out, struct tn_error *err)
{
    tn_autoaction struct tn_action action;
    tn_autoobservation struct tn_observation o;

    make_action(&action, command->text, command->timeout);
    action.run.is_static = command->cwd != NULL;
    action.run.cwd = tn_strdup_or_null(command->cwd);
    tn_observation_init(&o, TN_OBSERVATION_NULL);
    if (setup_execute(x, &action, &o, err) < 0)
        return -1;
    if (o.type != TN_OBSERVATION_RUN)
        return tn_fail(err, TN_E_PEER, "expected the result of a command, got %s: %.200s",
                       tn_observation_name(o.type), o.content.data ? o.content.data : "");
    if (out && o.content.len && tn_buf_add(out, o.content.data, o.content.len) < 0)
        return tn_output_fits(out, err);
    if (o.run.metadata.exit_code >= 0)
        return (int)(o.run.metadata.exit_code & 0xff);
    /* A suffix is about a command that was started, or says that this one was not; its text repeats
     * the command, which may hold secrets. */
    const char *suffix = o.run.metadata.suffix ? o.run.metadata.suffix : "";
    if (strstr(suffix, NOT_EXECUTED))
        return tn_fail(err, TN_E_CONFLICT, "the shell is busy with another command");
    if (!*suffix)
        return tn_fail(err, TN_E_CONFLICT, "the shell did not run the command: %.200s",
                       o.content.data ? o.content.data : "");
    if (!command->cwd)
        interrupt(x);
    return tn_fail(err, TN_E_TIMEOUT, "not done after %g s", command->timeout);
}

/* Terminals add white space. */
static void squeeze(struct tn_buf *text)
{
    size_t to = 0;

    for (size_t from = 0; from < text->len; from++)
        if (!strchr(" \r\n\t", text->data[from]))
            text->data[to++] = text->data[from];
    tn_buf_cut(text, to);
}

int setup_run_bytes(const struct setup_executor *x, const struct setup_command *command,
                    struct tn_buf *out, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(out->max / 3 * 4 + 4096);
    int status = setup_run(x, command, &text, err);

    if (status != 0)
        return status;
    squeeze(&text);
    if (tn_base64_decode(out, tn_buf_str(&text), text.len, err) < 0)
        return tn_error_context(err, "what the sandbox sent");
    return 0;
}
