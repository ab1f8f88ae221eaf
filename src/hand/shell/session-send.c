/* What goes to the shell: lines, and commands with all that begins with them. */
#include <sys/stat.h>

#include "hand/shell/session-internal.h"

#define BREATH_NS (TN_MILLI / 10)

/* --- lines ---------------------------------------------------------------------------------- */

/* Sends ready script text for a new active line, without holding the lock: a stopped shell must not
 * stop others. */
int session_send_line(struct tn_session *s, const struct tn_buf *text, int64_t deadline,
                      struct tn_error *err)
{
    struct tn_shell *shell = s->shell;

    s->active = true;
    pthread_mutex_unlock(&s->lock);
    int r = tn_buf_ok(text) ? tn_shell_send(shell, text->data, text->len, deadline, err)
                            : tn_fail(err, TN_E_TOO_LARGE, "the command is too long");
    pthread_mutex_lock(&s->lock);
    return r;
}

void session_put_snapshot(struct tn_session *s, struct tn_buf *line)
{
    struct tn_line question = session_line(s);

    s->snapshot_seq = s->seq;
    tn_shell_dialect(s->shell)->put_snapshot(line, &question);
}

void session_send_report(struct tn_session *s)
{
    tn_autobuf struct tn_buf line = TN_BUF_INIT(4096);
    struct tn_line report = session_line(s);

    tn_shell_dialect(s->shell)->put_report(&line, &report);
    if (tn_shell_send(s->shell, line.data, line.len, tn_now(), NULL) == 0)
        s->report_due = false;
}

bool session_wait_line(struct tn_session *s, int64_t deadline)
{
    struct timespec until = tn_timespec(deadline);
    while (s->active) {
        if (pthread_cond_timedwait(&s->changed, &s->lock, &until) == ETIMEDOUT)
            break;
    }
    return !s->active;
}

/* --- commands ------------------------------------------------------------------------------- */

static void remember_output(struct tn_session *s)
{
    char id[96];
    struct tn_output_options options = {
        .directory = s->options.output_directory,
        .group = s->options.gid,
        .cap = UINT64_C(64) << 20,
    };

    if (s->output_count == OUTPUTS_KEPT) {
        tn_output_unref(s->outputs[0]);
        memmove(s->outputs, s->outputs + 1, (OUTPUTS_KEPT - 1) * sizeof s->outputs[0]);
        s->output_count--;
    }
    snprintf(id, sizeof id, "%s-%llu", s->options.name, (unsigned long long)++s->commands);
    s->outputs[s->output_count++] = tn_output_new(id, &options);
}

/* Forgets the reported text; what came since (background jobs, the end of a command nobody asked
 * about) stays and precedes the new output. */
static void clear_transcript(struct tn_session *s)
{
    tn_autobuf struct tn_buf leftover = TN_BUF_INIT(WINDOW_BYTES + (1 << 20));

    if (s->seen_changes != s->taken_changes)
        tn_transcript_peek(s->transcript, &leftover);
    tn_transcript_clear(s->transcript);
    for (size_t at = 0; at < leftover.len;) {
        const char *line = leftover.data + at;
        const char *end = memchr(line, '\n', leftover.len - at);
        size_t len = end ? (size_t)(end - line) : leftover.len - at;
        tn_transcript_feed(s->transcript, line, len);
        tn_transcript_feed(s->transcript, "\r\n", 2);
        at += len + 1;
    }
    s->seen_changes = tn_transcript_changes(s->transcript);
    s->taken_changes = leftover.len ? 0 : s->seen_changes;
}

int session_refuse_length(struct tn_error *err)
{
    return tn_fail(err, TN_E_TOO_LARGE, "the command is too long; write it to a file and run that");
}

static bool is_pipe(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISFIFO(st.st_mode);
}

/* Sends it to the shell there is; -1 when that does not take it. */
static int send_to_shell(struct tn_session *s, const struct script *script, int64_t deadline,
                         struct tn_error *err)
{
    tn_autobuf struct tn_buf lines = TN_BUF_INIT(16 << 20);

    if (session_ensure_shell(s, deadline, err) < 0)
        return -1;
    /* The environment has not been asked for since the last line: now, unless this follows within a
     * breath. */
    if (s->snapshot_seq != s->seq && tn_now() - s->ended > BREATH_NS)
        session_put_snapshot(s, &lines);
    s->seq++;
    struct tn_line line = session_line(s);
    line.previous = s->errexit ? 0 : s->status; /* a failing line would end such a shell */
    line.text = script->text;
    line.len = script->len;
    line.input_path = script->input_path;
    line.input_is_pipe = script->input_path && is_pipe(script->input_path);
    line.input_was_pipe = s->input_was_pipe;
    s->input_was_pipe = line.input_is_pipe;
    tn_shell_dialect(s->shell)->put_run(&lines, &line);
    if (s->jobs)
        tn_shell_dialect(s->shell)->put_report(&lines, &line);
    if (!tn_buf_ok(&lines))
        return session_refuse_length(err);
    s->started = s->last_change = tn_now();
    s->report_due = !s->jobs;
    return session_send_line(s, &lines, deadline, err);
}

/* The same, with a new shell if the one there was dead before it could read the line. */
static int send_somehow(struct tn_session *s, const struct script *script, int64_t deadline,
                        struct tn_error *err)
{
    if (send_to_shell(s, script, deadline, err) == 0)
        return 0;
    if (!s->shell || s->starting || err->code == TN_E_TOO_LARGE)
        return -1;
    /* One that is alive may have read half of it: nothing after that can be trusted. */
    bool was_dead = err->code == TN_E_PEER;
    tn_shell_kill(s->shell);
    session_wait_line(s, tn_deadline_in(2));
    if (!was_dead || !s->exited)
        return -1;
    remember_output(s); /* the first one ended with its shell */
    return send_to_shell(s, script, deadline, err);
}

int session_send_command(struct tn_session *s, const struct script *script, int64_t deadline,
                         struct tn_error *err)
{
    if (session_ensure_shell(s, deadline, err) < 0)
        return -1;
    clear_transcript(s);
    remember_output(s);
    s->sent = true;
    s->rescued = false;
    s->have_base = false;
    s->peak_memory = -1;
    s->reported = false;
    int r = send_somehow(s, script, deadline, err);
    if (r < 0)
        tn_output_finish(current_output(s)); /* whoever follows it hears that nothing will come */
    return r;
}
