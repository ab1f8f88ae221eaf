/* What is reported of a shell action: output, status, measurements, and the sentences around them.
 */
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/json.h"
#include "hand/shell/session-internal.h"
#include "hand/shell/texts.h"

const char *tn_shell_end_name(enum tn_shell_end end)
{
    static const char *const names[] = {
        [TN_END_COMPLETED] = "completed",       [TN_END_NO_CHANGE] = "no_change_timeout",
        [TN_END_TIMEOUT] = "hard_timeout",      [TN_END_REJECTED] = "rejected",
        [TN_END_NOTHING] = "nothing_running",   [TN_END_MULTIPLE] = "multiple_commands",
        [TN_END_SHELL_EXITED] = "shell_exited", [TN_END_FAILED] = "failed",
        [TN_END_STARTING] = "starting",         [TN_END_ABANDONED] = "abandoned",
    };
    return names[end];
}

void tn_shell_result_init(struct tn_shell_result *r)
{
    *r = (struct tn_shell_result){
        .exit_code = -1,
        .background_pid = -1,
        .user_time = -1,
        .system_time = -1,
        .peak_memory = -1,
    };
    tn_buf_init(&r->content, WINDOW_BYTES + (1 << 20));
    tn_buf_init(&r->prefix, 256);
    tn_buf_init(&r->suffix, 2 << 20);
}

void tn_shell_result_done(struct tn_shell_result *r)
{
    free(r->command);
    tn_buf_done(&r->content);
    tn_buf_done(&r->prefix);
    tn_buf_done(&r->suffix);
    free(r->cwd);
    free(r->python);
    free(r->command_id);
    free(r->output_path);
}

bool session_is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static size_t count_lines(const struct tn_buf *b)
{
    size_t lines = b->len > 0;
    for (const char *p = b->data, *end = b->data + b->len; p && p < end; p++) {
        p = memchr(p, '\n', (size_t)(end - p));
        if (!p)
            break;
        lines++;
    }
    return lines;
}

/* Output since the last report.  echo: input that the terminal showed again at the start of it. */
static void take_content(struct tn_session *s, struct tn_shell_result *r, struct text echo)
{
    bool mid_line = tn_transcript_mid_line(s->transcript);

    tn_transcript_take(s->transcript, &r->content);
    s->taken_changes = s->seen_changes = tn_transcript_changes(s->transcript);
    if (echo.len && r->content.len >= echo.len && memcmp(r->content.data, echo.at, echo.len) == 0 &&
        (r->content.len == echo.len || r->content.data[echo.len] == '\n')) {
        tn_buf_eat(&r->content, echo.len);
        mid_line = true;
    }
    if (mid_line && r->content.len && r->content.data[0] == '\n')
        tn_buf_eat(&r->content, 1);
    while (r->content.len && session_is_space(r->content.data[r->content.len - 1]))
        tn_buf_cut(&r->content, r->content.len - 1);
}

static char *find_python(const char *path)
{
    char file[4096];
    struct stat st;

    while (path && *path) {
        const char *end = strchrnul(path, ':');
        int n = snprintf(file, sizeof file, "%.*s/python", (int)(end - path), path);
        if (n > 0 && (size_t)n < sizeof file && stat(file, &st) == 0 && S_ISREG(st.st_mode) &&
            (st.st_mode & 0111))
            return tn_strdup(file);
        path = *end ? end + 1 : end;
    }
    return tn_strdup("");
}

/* Without the dust of subtraction. */
static double milliseconds(double seconds)
{
    return (double)(int64_t)(seconds * 1000 + 0.5) / 1000;
}

static void fill_measurements(struct tn_session *s, struct tn_shell_result *r)
{
    struct tn_output *o = s->sent ? current_output(s) : NULL;
    double user, system;

    r->duration = (double)((s->active ? tn_now() : s->ended) - s->started) / 1e9;
    if (!s->exited && s->have_base && tn_shell_times(s->shell, &user, &system) == 0) {
        r->user_time = milliseconds(user - s->base_user);
        r->system_time = milliseconds(system - s->base_system);
    } else if (r->duration < 0.01) {
        r->user_time = r->system_time = 0; /* below the clock's resolution */
    }
    r->peak_memory = s->peak_memory;
    if (o) {
        struct tn_output_state state = tn_output_state(o);
        r->output_bytes = state.size;
        r->output_dropped = state.first;
        r->command_id = tn_strdup(tn_output_id(o));
        r->output_path = tn_strdup_or_null(tn_output_path(o));
    }
}

static void start_delivery(struct tn_session *s, struct tn_shell_result *r)
{
    r->delivery = ++s->deliveries;
    s->before_delivery.running = s->running;
    s->before_delivery.reported = s->reported;
}

static void settle(struct tn_session *s, uint64_t delivery)
{
    if (delivery && delivery == s->unsettled) {
        s->unsettled = 0;
        pthread_cond_broadcast(&s->changed);
    }
}

void tn_session_delivered(struct tn_session *s, uint64_t delivery)
{
    pthread_mutex_lock(&s->lock);
    settle(s, delivery);
    pthread_mutex_unlock(&s->lock);
}

void tn_session_undeliver(struct tn_session *s, uint64_t delivery)
{
    pthread_mutex_lock(&s->lock);
    settle(s, delivery);
    if (delivery && delivery == s->deliveries) {
        tn_transcript_untake(s->transcript);
        s->taken_changes = 0;
        s->running = true;
        s->reported = s->before_delivery.reported;
        s->process_limit_met = s->before_delivery.process_limit_met;
        s->deliveries++;
    }
    pthread_mutex_unlock(&s->lock);
}

/* The group is asked only when something went wrong: that takes a file. */
static void tell_process_limit(struct tn_session *s, struct tn_shell_result *r)
{
    if (!s->process_limit_met && r->exit_code != 0)
        s->process_limit_met = tn_process_limit_of_group(&s->process_limit);
    if (s->process_limit_met)
        tn_buf_printf(&r->suffix, TN_TEXT_PROCESS_LIMIT, (long long)s->process_limit_met);
    s->before_delivery.process_limit_met = s->process_limit_met;
    s->process_limit_met = 0;
    s->process_limit.looked = 0; /* words that come from now on are of something else */
}

void session_report_completed(struct tn_session *s, struct tn_shell_result *r, struct text sent,
                              bool key)
{
    size_t dropped = tn_transcript_dropped(s->transcript);

    start_delivery(s, r);
    take_content(s, r, key ? (struct text){0} : sent);
    /* The number is OpenHands': the empty line between output and prompt counts there. */
    if (dropped > 0 && !s->reported)
        tn_buf_printf(&r->prefix, TN_TEXT_TRUNCATED,
                      count_lines(&r->content) + !tn_transcript_mid_line(s->transcript));
    r->end = s->exited ? TN_END_SHELL_EXITED : TN_END_COMPLETED;
    r->exit_code = s->status;
    r->background_pid = s->background_pid;
    r->cwd = tn_strdup(s->cwd);
    r->python = find_python(s->path);
    fill_measurements(s, r);
    if (key)
        tn_buf_printf(&r->suffix, TN_TEXT_DONE_KEY, s->status, sent.at[2] & ~0x20);
    else
        tn_buf_printf(&r->suffix, TN_TEXT_DONE, s->status);
    if (s->exited && WIFSIGNALED(s->wait_status))
        tn_buf_printf(&r->suffix, TN_TEXT_SHELL_KILLED, WTERMSIG(s->wait_status));
    else if (s->exited)
        tn_buf_puts(&r->suffix, TN_TEXT_SHELL_GONE);
    tell_process_limit(s, r);
    s->running = false;
    s->reported = false;
}

void session_report_running(struct tn_session *s, struct tn_shell_result *r, enum tn_shell_end end,
                            double timeout, struct text echo)
{
    char seconds[32];

    start_delivery(s, r);
    take_content(s, r, echo);
    if (s->reported)
        tn_buf_puts(&r->prefix, TN_TEXT_CONTINUED);
    r->end = end;
    fill_measurements(s, r);
    if (end == TN_END_NO_CHANGE) {
        tn_buf_printf(&r->suffix, TN_TEXT_SOFT, (int)s->options.no_change_seconds);
    } else {
        tn_format_double(seconds, timeout);
        tn_buf_printf(&r->suffix, TN_TEXT_HARD, seconds);
    }
    tell_process_limit(s, r);
    s->running = true;
    s->reported = true;
}

void session_report_busy(struct tn_shell_result *r, struct text command)
{
    r->end = TN_END_REJECTED;
    tn_buf_puts(&r->suffix, TN_TEXT_BUSY_BEFORE);
    tn_buf_add(&r->suffix, command.at, command.len);
    tn_buf_puts(&r->suffix, TN_TEXT_BUSY_AFTER);
}

void session_report_plain(struct tn_shell_result *r, enum tn_shell_end end, const char *text)
{
    r->end = end;
    tn_buf_puts(&r->content, text);
}

void session_report_continued(struct tn_session *s, struct tn_shell_result *r, struct text command)
{
    start_delivery(s, r);
    take_content(s, r, (struct text){0});
    tn_buf_puts(&r->prefix, TN_TEXT_CONTINUED);
    fill_measurements(s, r);
    session_report_busy(r, command);
}
