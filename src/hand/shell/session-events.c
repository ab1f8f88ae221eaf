/* What the shell tells a session, on the thread of whoever listens to it. */
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/account.h"
#include "hand/shell/session-internal.h"

static void put_on_tape(struct tn_session *s, const char *bytes, size_t n)
{
    const char *newline = memrchr(bytes, '\n', n);

    if (newline)
        s->tape_line = s->tape_end + (uint64_t)(newline + 1 - bytes);
    for (size_t done = 0; done < n;) {
        size_t at = s->tape_end % TAPE_SIZE;
        size_t room = TAPE_SIZE - at < n - done ? TAPE_SIZE - at : n - done;
        memcpy(s->tape + at, bytes + done, room);
        s->tape_end += room;
        done += room;
    }
}

/* People see all of it, but not the echo of a key that nobody pressed. */
static void tape(struct tn_session *s, const char *bytes, size_t n)
{
    const char *echo = s->hush ? memmem(bytes, n, "^C", 2) : NULL;

    if (echo) {
        s->hush = false;
        put_on_tape(s, bytes, (size_t)(echo - bytes));
        n -= (size_t)(echo + 2 - bytes);
        bytes = echo + 2;
    }
    put_on_tape(s, bytes, n);
    pthread_cond_broadcast(&s->changed);
}

/* It may not be met any more when the command ends. */
static void look_at_process_limit(struct tn_session *s, const char *bytes, size_t n)
{
    uid_t uid = s->options.switch_user ? s->options.uid : geteuid();

    if (!s->process_limit_met && tn_process_limit_is_mentioned(bytes, n))
        s->process_limit_met = tn_process_limit_now(&s->process_limit, uid);
}

static void on_output(void *ctx, const char *bytes, size_t n)
{
    struct tn_session *s = ctx;

    pthread_mutex_lock(&s->lock);
    tn_transcript_feed(s->transcript, bytes, n);
    uint64_t changes = tn_transcript_changes(s->transcript);
    if (changes != s->seen_changes) {
        s->seen_changes = changes;
        s->last_change = tn_now();
    }
    if (s->active && !s->interactive && !s->starting && s->output_count)
        tn_output_append(current_output(s), bytes, n);
    look_at_process_limit(s, bytes, n);
    if (s->tape)
        tape(s, bytes, n);
    pthread_mutex_unlock(&s->lock);
}

void session_set_text(char **to, const char *text)
{
    if (*to && strcmp(*to, text) == 0)
        return;
    free(*to);
    *to = tn_strdup(text);
}

/* $PWD is what a shell calls its directory, but it is only a variable: believed when it names the
 * directory the process is really in. */
static void set_cwd(struct tn_session *s, const char *claimed)
{
    const struct tn_session_options *o = &s->options;
    char link[64], real[4096];
    struct stat a, b;
    tn_autoact struct tn_act_as as_user = {0};

    if (s->cwd && strcmp(s->cwd, claimed) == 0)
        return;
    /* Root in a container may lack the capability to look at other users' processes; they
     * themselves may. */
    if (o->switch_user &&
        tn_act_as_begin(&as_user, o->uid, o->gid, o->groups, o->group_count, NULL) < 0)
        return;
    snprintf(link, sizeof link, "/proc/%d/cwd", (int)tn_shell_pid(s->shell));
    if (claimed[0] == '/' && stat(claimed, &a) == 0 && stat(link, &b) == 0 &&
        a.st_dev == b.st_dev && a.st_ino == b.st_ino) {
        session_set_text(&s->cwd, claimed);
        return;
    }
    ssize_t n = readlink(link, real, sizeof real - 1);
    if (n > 0) {
        real[n] = '\0';
        session_set_text(&s->cwd, real);
    }
}

static void line_ended(struct tn_session *s)
{
    s->active = s->report_due = s->evaluated = false;
    s->ended = tn_now();
    if (s->interactive) {
        s->interactive = s->prompt_waiting = false;
        s->tape_line = s->tape_end; /* nobody is to take it for one that waits */
    } else if (s->output_count && !s->starting) {
        tn_output_finish(current_output(s));
    }
}

static bool is_stop(int status)
{
    return status == 128 + SIGSTOP || status == 128 + SIGTSTP || status == 128 + SIGTTIN ||
           status == 128 + SIGTTOU;
}

/* The end of the active line.  A shell that has jobs tells about them before it reads another line:
 * that belongs to the output of this one. */
static void on_report(struct tn_session *s, const struct tn_record *r)
{
    if (!s->interactive && !s->evaluated)
        s->status = r->status;
    s->background_pid = r->background_pid;
    s->errexit = r->errexit;
    s->jobs = s->jobs || s->interactive || r->background_pid != -1 || is_stop(r->status);
    if (r->kind == TN_RECORD_EVALUATED && s->jobs) {
        s->evaluated = true;
        if (s->report_due)
            session_send_report(s);
        return;
    }
    set_cwd(s, r->cwd);
    session_set_text(&s->path, r->path);
    tn_shell_calm_terminal(s->shell);
    line_ended(s);
}

static void on_record(void *ctx, const struct tn_record *r)
{
    struct tn_session *s = ctx;

    pthread_mutex_lock(&s->lock);
    if (!s->shell) { /* given up: nobody waits for it any more */
    } else if (r->kind == TN_RECORD_INTERACTIVE) {
        s->prompt_waiting = r->status == 0;
        s->prompt_running = r->status != 0;
    } else if (r->kind == TN_RECORD_SNAPSHOT) {
        const char *start = tn_shell_dialect(s->shell)->snapshot_start;
        s->snapshot_got = r->seq;
        if (strncmp(r->environment, start, strlen(start)) == 0) { /* nothing a trap printed */
            session_set_text(&s->environment, r->environment);
            session_set_text(&s->functions, r->functions);
        }
    } else if (r->seq == s->seq && s->active) {
        on_report(s, r);
    }
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

/* The moment to learn the exported environment, which costs more than a short command itself. */
static void on_idle(void *ctx)
{
    struct tn_session *s = ctx;
    tn_autobuf struct tn_buf line = TN_BUF_INIT(1024);

    pthread_mutex_lock(&s->lock);
    if (s->shell && !s->active && !s->exited && s->snapshot_seq != s->seq) {
        session_put_snapshot(s, &line);
        tn_shell_send(s->shell, line.data, line.len, tn_now(), NULL);
    }
    session_offer_prompt(s); /* a person's Ctrl-C or Ctrl-D ends it */
    pthread_mutex_unlock(&s->lock);
}

static void on_exited(void *ctx, int wait_status)
{
    struct tn_session *s = ctx;

    pthread_mutex_lock(&s->lock);
    s->exited = true;
    s->wait_status = wait_status;
    s->wakes++; /* terminals look at it */
    s->status = WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
    if (s->active)
        line_ended(s);
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

struct tn_shell_events session_events(struct tn_session *s)
{
    return (struct tn_shell_events){on_output, on_record, on_idle, on_exited, s};
}
