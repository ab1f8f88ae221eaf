/* The rules of a shell action: what is refused, what is sent, when the wait ends. */
#include <poll.h>

#include "hand/shell/keys.h"
#include "hand/shell/session-internal.h"
#include "hand/shell/split.h"
#include "hand/shell/texts.h"

#define CEILING_SECONDS 86400.0 /* even a blocking action without a timeout ends */
#define FIRST_SAMPLE (10 * TN_MILLI)
#define LAST_SAMPLE (80 * TN_MILLI)
/* When the report alone is sent after a command: one that ends at once does without. */
#define REPORT_NS (2 * TN_MILLI)
#define INTERRUPT_NS (20 * TN_MILLI)
#define HANDOVER_NS (1000 * TN_MILLI)
#define INTERRUPT_TRIES 5 /* a loop of short programs on a slow machine is mostly between two */
/* How long a poll waits to hear whether the report before it has arrived. */
#define SETTLE_NS (1000 * TN_MILLI)

static struct text stripped(const char *at, size_t len)
{
    while (len && session_is_space(at[len - 1]))
        len--;
    while (len && session_is_space(*at)) {
        at++;
        len--;
    }
    return (struct text){at, len};
}

/* --- waiting -------------------------------------------------------------------------------- */

/* No program has the terminal, and still no report: perhaps it cannot come.  If the shell is just
 * busy, it reads this later and the report is one too many, which does not matter. */
static void rescue(struct tn_session *s)
{
    tn_autobuf struct tn_buf lines = TN_BUF_INIT(4096);
    const struct tn_dialect *dialect = tn_shell_dialect(s->shell);
    struct tn_line line = session_line(s);

    if (s->rescued || !dialect->rescue || tn_shell_foreground(s->shell) != tn_shell_pid(s->shell))
        return;
    s->rescued = true;
    tn_buf_puts(&lines, dialect->rescue);
    dialect->put_report(&lines, &line);
    tn_shell_send(s->shell, lines.data, lines.len, tn_now(), NULL);
}

static void sample(struct tn_session *s)
{
    if (!s->have_base)
        s->have_base = tn_shell_times(s->shell, &s->base_user, &s->base_system) == 0;
    int64_t peak = tn_shell_peak_memory(s->shell);
    if (peak > s->peak_memory)
        s->peak_memory = peak;
}

/* Waits for what happens next, listening to the shell itself: the lock is free meanwhile.  False
 * when it was the client that left. */
static bool wait_until(struct tn_session *s, int64_t until, int client)
{
    if (!s->active) { /* an unfinished command: nothing to listen to */
        struct timespec t = tn_timespec(until);
        pthread_cond_timedwait(&s->changed, &s->lock, &t);
        return true;
    }
    struct tn_shell *shell = s->shell;
    pthread_mutex_unlock(&s->lock);
    bool here = tn_shell_listen(shell, until, client);
    pthread_mutex_lock(&s->lock);
    return here;
}

/* The other side has closed the socket, or at least will send nothing more. */
static bool is_closed(int client)
{
    struct pollfd fd = {.fd = client, .events = POLLRDHUP};
    return poll(&fd, 1, 0) > 0 && fd.revents;
}

static enum tn_shell_end wait_for_end(struct tn_session *s, const struct tn_shell_request *q,
                                      int64_t hard)
{
    int64_t soft_ns = (int64_t)(s->options.no_change_seconds * 1e9);
    int64_t begun = tn_now(), interval = FIRST_SAMPLE, next_sample = begun + interval;
    int64_t next_report = begun + REPORT_NS;
    int client = q->client; /* -1 once it is known to be gone */

    for (;;) {
        if (!s->active && !s->collecting)
            return TN_END_COMPLETED;
        if (q->client >= 0 && s->turns->next && (client < 0 || is_closed(client)))
            return TN_END_ABANDONED;
        int64_t now = tn_now();
        int64_t quiet_since = s->last_change > begun ? s->last_change : begun;
        int64_t soft = q->blocking ? TN_NEVER : quiet_since + soft_ns;
        if (now >= soft)
            return TN_END_NO_CHANGE;
        if (now >= hard)
            return TN_END_TIMEOUT;
        if (now >= next_sample && s->active && !s->exited) {
            sample(s);
            if (interval > FIRST_SAMPLE)
                rescue(s);
            interval = interval < LAST_SAMPLE ? interval * 2 : interval;
            next_sample = tn_now() + interval;
        }
        if (now >= next_report && s->active && s->report_due) {
            session_send_report(s);
            next_report = now + FIRST_SAMPLE;
        }
        int64_t until = soft < hard ? soft : hard;
        if (s->active && next_sample < until)
            until = next_sample;
        if (s->active && s->report_due && next_report < until)
            until = next_report;
        if (!wait_until(s, until, client))
            client = -1;
    }
}

static enum tn_shell_end attend(struct tn_session *s, const struct tn_shell_request *q,
                                int64_t hard)
{
    struct tn_shell *shell = s->active ? s->shell : NULL; /* stays while we have the turn */

    if (!shell)
        return wait_for_end(s, q, hard);
    pthread_mutex_unlock(&s->lock);
    tn_shell_attend(shell);
    pthread_mutex_lock(&s->lock);
    enum tn_shell_end end = wait_for_end(s, q, hard);
    if (s->active && s->report_due)
        session_send_report(s); /* nobody waits any more to do it later */
    tn_shell_leave(shell);
    return end;
}

/* --- the action ----------------------------------------------------------------------------- */

static enum tn_split_state split_state(const char *text, size_t len)
{
    struct tn_split split;
    tn_split(text, len, &split);
    enum tn_split_state state = split.state;
    tn_split_done(&split);
    return state;
}

static bool several_commands(struct text text, struct tn_shell_result *r)
{
    struct tn_split split;
    tn_split(text.at, text.len, &split);
    bool several = split.count > 1 && !split.beyond;
    if (several) {
        tn_split_format_error(text.at, &split, &r->content);
        r->end = TN_END_MULTIPLE;
    }
    tn_split_done(&split);
    return several;
}

enum collected { COLLECT_MORE, COLLECT_RUN, COLLECT_CANCELLED, COLLECT_TOO_MUCH };

/* Input for an unfinished command: another line of it, or the keys that end or drop it. */
static enum collected collect(struct tn_session *s, const struct tn_shell_request *q,
                              struct text text)
{
    char key = tn_key_is_control(text.at, text.len) ? (char)(text.at[2] | 0x20) : '\0';

    if (key == 'c')
        return COLLECT_CANCELLED;
    if (key == 'd')
        return COLLECT_RUN;
    tn_buf_putc(&s->pending, '\n');
    tn_buf_add(&s->pending, q->command, q->command_len);
    if (!tn_buf_ok(&s->pending))
        return COLLECT_TOO_MUCH;
    return split_state(tn_buf_str(&s->pending), s->pending.len) == TN_SPLIT_INCOMPLETE
               ? COLLECT_MORE
               : COLLECT_RUN;
}

/* Types without the lock: a full terminal must not stop others. */
static int type_keys(struct tn_session *s, const char *keys, size_t n, int64_t deadline,
                     struct tn_error *err)
{
    struct tn_shell *shell = s->shell;

    pthread_mutex_unlock(&s->lock);
    int r = tn_shell_type(shell, keys, n, deadline, err);
    pthread_mutex_lock(&s->lock);
    return r;
}

/* An interrupt typed while the shell hands the terminal to a program, or between two programs of a
 * loop, reaches neither, as on any terminal: it is to be typed again when another program has the
 * terminal a moment later.  `before` had it when it was typed. */
static bool interrupt_was_lost(struct tn_session *s, pid_t before, bool handed_over,
                               int64_t deadline)
{
    int64_t until = tn_now() + (handed_over ? INTERRUPT_NS : HANDOVER_NS);

    if (deadline < until)
        until = deadline;
    do {
        if (session_wait_line(s, tn_now() + INTERRUPT_NS))
            return false;
        if (!handed_over && !tn_shell_has_terminal(s->shell))
            return true;
    } while (tn_now() < until);
    return tn_shell_foreground(s->shell) != before;
}

/* What a shell that has thrown away its lines is to tell once more. */
static void ask_again(struct tn_session *s)
{
    tn_autobuf struct tn_buf line = TN_BUF_INIT(4096);
    struct tn_line again = session_line(s);

    tn_shell_dialect(s->shell)->put_report(&line, &again);
    tn_shell_send(s->shell, tn_buf_str(&line), line.len, tn_now(), NULL);
}

static int type_interrupt(struct tn_session *s, const char *key, int64_t deadline,
                          struct tn_error *err)
{
    bool lost = true;

    tn_shell_let_flow(s->shell); /* a program may have stopped the output */
    for (int i = 0; lost && i < INTERRUPT_TRIES; i++) {
        pid_t before = tn_shell_foreground(s->shell);
        bool handed_over = !tn_shell_has_terminal(s->shell);
        if (type_keys(s, key, 1, deadline, err) < 0)
            return -1;
        if (i == 0 && tn_shell_dialect(s->shell)->forgetful)
            ask_again(s);
        lost = interrupt_was_lost(s, before, handed_over, deadline);
    }
    return 0;
}

static int send_input(struct tn_session *s, const struct tn_shell_request *q, struct text text,
                      int64_t hard, struct tn_error *err)
{
    tn_autobuf struct tn_buf keys = TN_BUF_INIT(4 << 20);
    int64_t deadline = tn_deadline_in(5);
    size_t key_len = 0;
    const char *key = q->literal ? NULL : tn_key_bytes(text.at, text.len, &key_len);

    if (hard < deadline)
        deadline = hard;
    if (key && *key == '\003')
        return type_interrupt(s, key, deadline, err);
    if (key)
        return type_keys(s, key, key_len, deadline, err);
    tn_buf_add(&keys, q->command, q->command_len);
    tn_buf_putc(&keys, '\n');
    return type_keys(s, tn_buf_str(&keys), keys.len, deadline, err);
}

/* The reader of the report before may turn out to be gone; then there is something to tell. */
static void wait_for_delivery(struct tn_session *s, int64_t hard)
{
    int64_t until = tn_now() + SETTLE_NS;
    struct timespec t = tn_timespec(hard < until ? hard : until);

    while (s->unsettled && pthread_cond_timedwait(&s->changed, &s->lock, &t) == 0)
        ;
}

/* True when the text is refused, with the report filled in. */
static bool refused(struct tn_session *s, const struct tn_shell_request *q, struct text text,
                    struct tn_shell_result *r)
{
    if (!s->running && text.len == 0) {
        session_report_plain(r, TN_END_NOTHING, TN_TEXT_NO_LOGS);
        return true;
    }
    if (!s->running && q->is_input) {
        session_report_plain(r, TN_END_NOTHING, TN_TEXT_NO_INPUT);
        return true;
    }
    if (memchr(text.at, '\0', text.len)) {
        session_report_plain(r, TN_END_FAILED, "ERROR: A command cannot contain a NUL byte.");
        return true;
    }
    if (q->input_path && q->input_path[0] != '/') {
        session_report_plain(r, TN_END_FAILED, "ERROR: stdin must be an absolute path.");
        return true;
    }
    if (!q->is_input && !q->script && several_commands(text, r))
        return true;
    if (s->running && (s->active || s->collecting) && !q->is_input && text.len) {
        session_report_continued(s, r, text);
        return true;
    }
    return false;
}

/* Puts the action's text where it belongs; -1 when that failed. */
static int dispatch(struct tn_session *s, const struct tn_shell_request *q, struct text text,
                    int64_t hard, struct tn_error *err)
{
    int64_t deadline = tn_deadline_in(30);
    if (hard < deadline)
        deadline = hard;

    if (text.len == 0)
        return 0;
    if (!q->is_input) {
        const struct script whole = {text.at, text.len, q->input_path};
        if (q->script || q->input_path || split_state(text.at, text.len) != TN_SPLIT_INCOMPLETE)
            return session_send_command(s, &whole, deadline, err);
        /* An open quote or here-document waits for its other lines, as it would at a prompt. */
        tn_buf_reset(&s->pending);
        if (tn_buf_add(&s->pending, text.at, text.len) < 0)
            return session_refuse_length(err);
        s->collecting = true;
        s->sent = false;
        s->reported = false;
        s->started = tn_now();
        return 0;
    }
    if (!s->collecting)
        return s->active ? send_input(s, q, text, hard, err) : 0;
    enum collected next = collect(s, q, text);
    if (next == COLLECT_MORE)
        return 0;
    s->collecting = false;
    if (next == COLLECT_RUN)
        return session_send_command(
            s, &(struct script){.text = tn_buf_str(&s->pending), .len = s->pending.len}, deadline,
            err);
    if (next == COLLECT_TOO_MUCH)
        return session_refuse_length(err);
    s->status = 130;
    s->ended = tn_now();
    return 0;
}

static void run_in_turn(struct tn_session *s, const struct tn_shell_request *q, struct text text,
                        int64_t hard, struct tn_shell_result *r)
{
    struct tn_error err = {0};

    int64_t soon = tn_deadline_in(2);
    if (s->interactive && !session_end_prompt(s, hard < soon ? hard : soon) && text.len &&
        !q->is_input) {
        session_report_busy(r, text);
        return;
    }
    if (!s->running && text.len == 0)
        wait_for_delivery(s, hard);
    if (refused(s, q, text, r))
        return;
    if (dispatch(s, q, text, hard, &err) < 0) {
        /* A command may be sent again as it is; what was collected line by line may not. */
        bool again = s->starting && err.code == TN_E_TIMEOUT && !q->is_input;
        session_report_plain(r, again ? TN_END_STARTING : TN_END_FAILED, "ERROR: ");
        tn_buf_puts(&r->content, err.text);
        s->running = false;
        return;
    }
    enum tn_shell_end end = attend(s, q, hard);
    struct text echo = q->is_input ? text : (struct text){0};
    bool key = q->is_input && !q->literal && tn_key_is_control(text.at, text.len);
    if (end == TN_END_ABANDONED) {
        session_report_plain(r, end,
                             "ERROR: The connection was closed while the command was running.");
        s->running = true;
    } else if (end == TN_END_COMPLETED)
        session_report_completed(s, r, key ? text : echo, key);
    else
        session_report_running(s, r, end, q->timeout > 0 ? q->timeout : CEILING_SECONDS,
                               key ? (struct text){0} : echo);
}

void tn_session_run(struct tn_session *s, const struct tn_shell_request *q,
                    struct tn_shell_result *r)
{
    int64_t hard = tn_deadline_in(q->timeout > 0 ? q->timeout : CEILING_SECONDS);
    struct turn me;

    struct text text = stripped(q->command, q->command_len);
    pthread_mutex_lock(&s->lock);
    if (session_take_turn(s, &me, hard))
        run_in_turn(s, q, text, hard, r);
    else
        session_report_busy(r, text);
    r->command = tn_strndup(text.at, r->end == TN_END_NOTHING ? 0 : text.len);
    if (q->client >= 0 && r->delivery)
        s->unsettled = r->delivery;
    session_leave_turn(s, &me);
    session_offer_prompt(s);
    pthread_mutex_unlock(&s->lock);
}
