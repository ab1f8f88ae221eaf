#include "hand/actions.h"

#include <limits.h>
#include <signal.h>

#include "base/clock.h"
#include "event/process-spec.h"
#include "hand/file-actions.h"
#include "hand/plugin.h"
#include "hand/process/process.h"

/* A process that has no timeout must run by then. */
#define START_SECONDS 10.0

/* --- run -------------------------------------------------------------------------------------- */

static const char *signal_name(int exit_code, char *name, size_t size)
{
    const char *abbrev =
        exit_code > 128 && exit_code < 128 + NSIG ? sigabbrev_np(exit_code - 128) : NULL;
    if (!abbrev)
        return NULL;
    snprintf(name, size, "SIG%s", abbrev);
    return name;
}

static void set_opt(struct tn_opt_double *to, double value)
{
    *to = (struct tn_opt_double){.set = value >= 0, .value = value};
}

/* Asked for each time: a sandbox that waited for its user gets its name late. */
static char *host_name(void)
{
    char name[HOST_NAME_MAX + 1] = "";

    gethostname(name, sizeof name - 1);
    name[strcspn(name, ".")] = '\0';
    return tn_strdup(name);
}

static void fill_metadata(struct tn_hand *hand, struct tn_run_metadata *m,
                          struct tn_shell_result *r)
{
    bool finished = r->end == TN_END_COMPLETED || r->end == TN_END_SHELL_EXITED;
    char name[32];

    m->exit_code = r->exit_code;
    m->pid = r->background_pid;
    if (finished) {
        m->username = tn_strdup(hand->user.account.name);
        m->hostname = host_name();
        m->working_dir = TN_TAKE_PTR(r->cwd);
        m->py_interpreter_path = TN_TAKE_PTR(r->python);
        m->signal = tn_strdup_or_null(signal_name(r->exit_code, name, sizeof name));
    }
    free(m->prefix);
    free(m->suffix);
    m->prefix = tn_buf_take(&r->prefix);
    m->suffix = tn_buf_take(&r->suffix);
    m->end = tn_strdup(tn_shell_end_name(r->end));
    if (!r->command_id)
        return;
    set_opt(&m->duration, r->duration);
    set_opt(&m->user_time, r->user_time);
    set_opt(&m->system_time, r->system_time);
    m->peak_memory = (struct tn_opt_int){.set = r->peak_memory >= 0, .value = r->peak_memory};
    m->output_bytes = (struct tn_opt_int){.set = true, .value = (int64_t)r->output_bytes};
    m->command_id = TN_TAKE_PTR(r->command_id);
    if (r->output_path) {
        m->output_size = (struct tn_opt_int){
            .set = true, .value = (int64_t)(r->output_bytes - r->output_dropped)};
        m->output_path = TN_TAKE_PTR(r->output_path);
    }
    if (r->output_dropped)
        m->output_dropped = (struct tn_opt_int){.set = true, .value = (int64_t)r->output_dropped};
}

static struct tn_session *session_for(struct tn_hand *hand, const struct tn_run_action *run,
                                      struct tn_error *err)
{
    if (run->is_static)
        return tn_sessions_temporary(hand->sessions, run->cwd);
    return tn_sessions_ensure(hand->sessions, run->session ? run->session : TN_MAIN_SESSION, err);
}

/* --- a process of its own --------------------------------------------------------------------- */

static void start_process(struct tn_hand *hand, const struct tn_action *a, struct tn_observation *o)
{
    int64_t deadline =
        tn_deadline_in(a->timeout.set && a->timeout.value > 0 ? a->timeout.value : START_SECONDS);
    tn_autoprocess struct tn_process_spec spec = {0};
    struct tn_process *p = NULL;
    struct tn_error err = {0};

    if (tn_action_process(a, &spec, &err) == 1)
        p = tn_processes_start(hand->processes, &spec, deadline, &err);
    if (!p) {
        tn_observation_init_not_started(o, a, &err);
        return;
    }
    tn_observation_init(o, TN_OBSERVATION_RUN);
    free(o->run.command);
    o->run.command = tn_strdup(a->run.command);
    o->run.hidden = a->run.hidden;
    o->run.metadata.exit_code = 0; /* as of a command that was put into the background */
    o->run.metadata.pid = tn_process_pid(p);
    o->run.metadata.process = tn_strdup(tn_process_id(p));
    o->run.metadata.end = tn_strdup("started");
    tn_process_unref(p);
}

/* --- a command of a session ------------------------------------------------------------------- */

static void do_run(struct tn_hand *hand, const struct tn_action *a, struct tn_observation *o,
                   struct tn_delivery *delivery)
{
    const struct tn_run_action *run = &a->run;
    struct tn_error err;

    if (run->process) {
        start_process(hand, a, o);
        return;
    }
    struct tn_session *session = session_for(hand, run, &err);
    if (!session) {
        tn_observation_init_error(o, a, "%s", err.text);
        return;
    }
    struct tn_shell_request request = {
        .command = run->command,
        .command_len = strlen(run->command),
        .is_input = run->is_input,
        .blocking = run->blocking,
        .script = run->script || run->is_static,
        .literal = run->literal,
        .input_path = run->input_path,
        .timeout = a->timeout.set ? a->timeout.value : 0,
        .client = delivery->client,
    };
    struct tn_shell_result result;
    tn_shell_result_init(&result);
    tn_session_run(session, &request, &result);

    if (result.end == TN_END_MULTIPLE && !run->hidden) {
        tn_observation_init_error(o, a, "%s", "");
    } else {
        tn_observation_init(o, TN_OBSERVATION_RUN);
        free(o->run.command);
        o->run.command = TN_TAKE_PTR(result.command);
        fill_metadata(hand, &o->run.metadata, &result);
        o->run.hidden =
            run->hidden && result.end != TN_END_NO_CHANGE && result.end != TN_END_TIMEOUT;
    }
    tn_observation_take_content(o, &result.content);
    delivery->number = result.delivery;
    delivery->session = session;
    tn_shell_result_done(&result);
}

/* --- files ------------------------------------------------------------------------------------ */

static void do_file(struct tn_hand *hand, const struct tn_action *a, struct tn_observation *o,
                    struct tn_delivery *delivery)
{
    struct tn_session *main_session = tn_sessions_get(hand->sessions, TN_MAIN_SESSION, NULL);
    tn_autofree char *cwd = tn_session_cwd(main_session);

    tn_session_unref(main_session);
    tn_file_execute(hand, cwd, a, o);
}

typedef void (*handler_fn)(struct tn_hand *hand, const struct tn_action *a,
                           struct tn_observation *o, struct tn_delivery *delivery);

static const handler_fn handlers[TN_ACTION_TYPE_COUNT] = {
    [TN_ACTION_RUN] = do_run,
    [TN_ACTION_READ] = do_file,
    [TN_ACTION_WRITE] = do_file,
    [TN_ACTION_EDIT] = do_file,
};

int tn_execute(struct tn_hand *hand, const struct tn_action *a, struct tn_observation *o,
               struct tn_delivery *delivery, struct tn_error *err)
{
    if (tn_observation_init_unconfirmed(o, a))
        return 0;
    if (!handlers[a->type])
        return tn_plugins_execute(hand, a, o, delivery, err);
    handlers[a->type](hand, a, o, delivery);
    return 0;
}

void tn_delivery_failed(struct tn_delivery *delivery)
{
    if (delivery->session)
        tn_session_undeliver(delivery->session, delivery->number);
}

void tn_delivery_done(struct tn_delivery *delivery)
{
    if (delivery->session)
        tn_session_delivered(delivery->session, delivery->number);
    tn_session_unref(TN_TAKE_PTR(delivery->session));
}
