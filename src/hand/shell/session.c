#include "hand/shell/session.h"

#include <signal.h>

#include "base/child.h"
#include "base/proc.h"
#include "base/thread.h"
#include "hand/shell/session-internal.h"

/* How long a signal waits for somebody to hear it. */
#define LISTEN_NS (20 * TN_MILLI)

/* --- life ----------------------------------------------------------------------------------- */

struct tn_session *tn_shell_session_new(const struct tn_session_options *options)
{
    struct tn_session *s = tn_calloc(1, sizeof *s);

    s->refs = 1;
    s->options = *options;
    s->options.name = tn_strdup(options->name);
    s->options.program = tn_strdup(options->program);
    s->options.cwd = tn_strdup(options->cwd);
    s->options.setup = tn_strdup_or_null(options->setup);
    pthread_mutex_init(&s->lock, NULL);
    tn_cond_init(&s->changed);
    s->cwd = tn_strdup(options->cwd);
    s->background_pid = -1;
    s->transcript = tn_transcript_new(SCREEN_COLUMNS, SCREEN_ROWS, WINDOW_ROWS, WINDOW_BYTES);
    tn_transcript_drop_by(s->transcript, WINDOW_BATCH, PROMPT_ROWS);
    tn_buf_init(&s->pending, 1 << 20);
    tn_process_limit_init(&s->process_limit);
    s->last_change = s->ended = s->made = tn_now();
    return s;
}

struct tn_session *tn_session_ref(struct tn_session *s)
{
    __atomic_add_fetch(&s->refs, 1, __ATOMIC_RELAXED);
    return s;
}

void tn_session_unref(struct tn_session *s)
{
    if (!s || __atomic_sub_fetch(&s->refs, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    tn_shell_free(s->shell);
    session_remove_start_file(s);
    for (size_t i = 0; i < s->output_count; i++)
        tn_output_unref(s->outputs[i]);
    tn_transcript_free(s->transcript);
    tn_buf_done(&s->pending);
    free((char *)s->options.name);
    free((char *)s->options.program);
    free((char *)s->options.cwd);
    free((char *)s->options.setup);
    free(s->cwd);
    free(s->path);
    free(s->environment);
    free(s->functions);
    free(s->tape);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

void tn_session_begin(struct tn_session *s)
{
    struct tn_error err;
    struct turn me;

    pthread_mutex_lock(&s->lock);
    if (session_take_turn(s, &me, tn_now()))
        session_begin_shell(s, &err);
    session_leave_turn(s, &me);
    pthread_mutex_unlock(&s->lock);
}

int tn_session_start(struct tn_session *s, int64_t deadline, struct tn_error *err)
{
    struct turn me;

    pthread_mutex_lock(&s->lock);
    int r = session_take_turn(s, &me, tn_deadline_in(2 * SESSION_START_SECONDS))
                ? session_ensure_shell(s, deadline, err)
                : tn_fail(err, TN_E_BUSY, "session %s is busy", s->options.name);
    session_leave_turn(s, &me);
    session_offer_prompt(s); /* somebody may have attached meanwhile */
    pthread_mutex_unlock(&s->lock);
    return r;
}

/* Asks an idle shell for its environment and waits a little for the answer. */
static void learn_environment(struct tn_session *s)
{
    tn_autobuf struct tn_buf line = TN_BUF_INIT(1024);
    struct timespec until = tn_timespec(tn_deadline_in(0.5));

    if (!s->shell || s->exited || s->active)
        return;
    if (s->snapshot_seq != s->seq) {
        session_put_snapshot(s, &line);
        if (tn_shell_send(s->shell, line.data, line.len, tn_now(), NULL) < 0)
            return;
    }
    while (s->shell && !s->exited && s->snapshot_got < s->seq) {
        if (pthread_cond_timedwait(&s->changed, &s->lock, &until) == ETIMEDOUT)
            return;
    }
}

char *tn_session_exports(struct tn_session *s, int64_t deadline)
{
    struct turn me;
    struct tn_error err;

    pthread_mutex_lock(&s->lock);
    if (deadline && !s->environment) {
        if (session_take_turn(s, &me, deadline))
            session_ensure_shell(s, deadline, &err);
        session_leave_turn(s, &me);
    }
    if (deadline)
        learn_environment(s);
    char *exports = s->environment ? tn_asprintf("%s%s", s->environment, s->functions) : NULL;
    pthread_mutex_unlock(&s->lock);
    return exports;
}

void tn_session_reset(struct tn_session *s, bool keep)
{
    pthread_mutex_lock(&s->lock);
    s->forget = !keep;
    if (keep)
        learn_environment(s);
    if (s->shell && !s->exited)
        tn_shell_kill(s->shell);
    s->collecting = false;
    tn_buf_reset(&s->pending);
    pthread_cond_broadcast(&s->changed);
    /* Its death ends whatever was running. */
    struct timespec until = tn_timespec(tn_deadline_in(2));
    while (s->shell && !s->exited) {
        if (pthread_cond_timedwait(&s->changed, &s->lock, &until) == ETIMEDOUT)
            break;
    }
    s->running = false;
    pthread_mutex_unlock(&s->lock);
}

/* --- turns ---------------------------------------------------------------------------------- */

bool session_take_turn(struct tn_session *s, struct turn *me, int64_t deadline)
{
    struct timespec until = tn_timespec(deadline);
    struct turn **end = &s->turns;

    me->next = NULL;
    while (*end)
        end = &(*end)->next;
    *end = me;
    if (s->turns != me && s->shell)
        tn_shell_nudge(s->shell); /* whose client is gone makes way */
    if (s->turns != me)
        pthread_cond_broadcast(&s->changed);
    while (s->turns != me) {
        if (pthread_cond_timedwait(&s->changed, &s->lock, &until) == ETIMEDOUT)
            return s->turns == me;
    }
    return true;
}

void session_leave_turn(struct tn_session *s, struct turn *me)
{
    for (struct turn **t = &s->turns; *t; t = &(*t)->next) {
        if (*t == me) {
            *t = me->next;
            break;
        }
    }
    if (s->turns)
        pthread_cond_broadcast(&s->changed);
}

/* --- looking -------------------------------------------------------------------------------- */

const char *tn_session_name(const struct tn_session *s)
{
    return s->options.name;
}

char *tn_session_cwd(struct tn_session *s)
{
    pthread_mutex_lock(&s->lock);
    char *cwd = tn_strdup(s->cwd);
    pthread_mutex_unlock(&s->lock);
    return cwd;
}

void tn_session_inspect(struct tn_session *s, struct tn_session_state *state)
{
    pthread_mutex_lock(&s->lock);
    *state = (struct tn_session_state){
        .pid = s->shell && !s->exited ? tn_shell_pid(s->shell) : 0,
        .exit_code = tn_exit_code(&(struct tn_exit){.status = s->wait_status}),
        .running = (s->active && !s->interactive) || s->collecting,
        .commands = s->commands,
        .terminals = s->terminals,
        .idle_seconds = s->active ? 0 : (double)(tn_now() - s->ended) / 1e9,
        .age_seconds = (double)(tn_now() - s->made) / 1e9,
    };
    snprintf(state->name, sizeof state->name, "%s", s->options.name);
    snprintf(state->program, sizeof state->program, "%s", s->options.program);
    pthread_mutex_unlock(&s->lock);
}

static bool has_ended(pid_t pid)
{
    struct tn_proc p;

    return tn_proc_get(pid, &p) == 0 && tn_proc_state(p.pid, p.start) == 'Z';
}

/* Who has the terminal, or -1.  A program that has just ended hears nothing: for a moment, the
 * shell or the next program of a loop is waited for (in a pipeline, others of the group may go on).
 */
static pid_t listening_group(struct tn_session *s)
{
    int64_t until = tn_now() + LISTEN_NS;

    for (;;) {
        pid_t group = s->shell && !s->exited ? tn_shell_foreground(s->shell) : -1;
        if (group <= 0 || !s->active || !has_ended(group) || tn_now() >= until)
            return group;
        session_wait_line(s, tn_now() + TN_MILLI);
    }
}

int tn_session_signal(struct tn_session *s, int signo, struct tn_error *err)
{
    int r = 0;

    pthread_mutex_lock(&s->lock);
    pid_t group = listening_group(s);
    if (group <= 0)
        r = tn_fail(err, TN_E_CONFLICT, "session %s has no shell running", s->options.name);
    else if (!s->active)
        r = tn_fail(err, TN_E_CONFLICT, "session %s runs no command", s->options.name);
    else if (kill(-group, signo) < 0)
        r = tn_fail_errno(err, errno, "signal %d to process group %d", signo, (int)group);
    pthread_mutex_unlock(&s->lock);
    return r;
}

struct tn_output *tn_session_output(struct tn_session *s, const char *id)
{
    struct tn_output *found = NULL;

    pthread_mutex_lock(&s->lock);
    for (size_t i = s->output_count; i-- > 0 && !found;) {
        if (!id || strcmp(tn_output_id(s->outputs[i]), id) == 0)
            found = tn_output_ref(s->outputs[i]);
    }
    pthread_mutex_unlock(&s->lock);
    return found;
}

void tn_session_each_output(struct tn_session *s, void (*fn)(struct tn_output *o, void *ctx),
                            void *ctx)
{
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < s->output_count; i++)
        fn(s->outputs[i], ctx);
    pthread_mutex_unlock(&s->lock);
}
