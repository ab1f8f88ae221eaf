#include "hand/shell/session.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/account.h"
#include "base/child.h"
#include "base/fs.h"
#include "base/thread.h"
#include "hand/shell/session-internal.h"

#define START_SECONDS 60.0
enum { START_TEXT_MAX = 32 << 10 };

/* --- what the shell tells us (on its thread) -----------------------------------------------------
 */

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
    if (s->tape) {
        for (size_t done = 0; done < n;) {
            size_t at = s->tape_end % TAPE_SIZE;
            size_t room = TAPE_SIZE - at < n - done ? TAPE_SIZE - at : n - done;
            memcpy(s->tape + at, bytes + done, room);
            s->tape_end += room;
            done += room;
        }
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
}

static void set_text(char **to, const char *text)
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
        set_text(&s->cwd, claimed);
        return;
    }
    ssize_t n = readlink(link, real, sizeof real - 1);
    if (n > 0) {
        real[n] = '\0';
        set_text(&s->cwd, real);
    }
}

static void line_ended(struct tn_session *s)
{
    s->active = s->report_due = s->evaluated = false;
    s->ended = tn_now();
    if (s->interactive) {
        s->interactive = s->prompt_waiting = false;
    } else if (s->output_count && !s->starting) {
        tn_output_finish(current_output(s));
    }
}

void session_send_report(struct tn_session *s)
{
    tn_autobuf struct tn_buf line = TN_BUF_INIT(4096);
    struct tn_line report = session_line(s);

    tn_shell_dialect(s->shell)->put_report(&line, &report);
    if (tn_shell_send(s->shell, line.data, line.len, tn_now(), NULL) == 0)
        s->report_due = false;
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
    set_text(&s->path, r->path);
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
        if (strncmp(r->environment, start, strlen(start)) == 0) /* nothing a trap printed */
            set_text(&s->environment, r->environment);
    } else if (r->seq == s->seq && s->active) {
        on_report(s, r);
    }
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

void session_put_snapshot(struct tn_session *s, struct tn_buf *line)
{
    struct tn_line question = session_line(s);

    s->snapshot_seq = s->seq;
    tn_shell_dialect(s->shell)->put_snapshot(line, &question);
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

/* --- starting a shell ----------------------------------------------------------------------------
 */

bool session_wait_line(struct tn_session *s, int64_t deadline)
{
    struct timespec until = tn_timespec(deadline);
    while (s->active) {
        if (pthread_cond_timedwait(&s->changed, &s->lock, &until) == ETIMEDOUT)
            break;
    }
    return !s->active;
}

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

/* The script that brings a new shell to where the last one was. */
static void put_restore(struct tn_session *s, struct tn_buf *script)
{
    if (s->environment && !s->forget) {
        tn_buf_puts(script, s->environment);
        tn_buf_putc(script, '\n');
    }
    if (s->options.setup)
        tn_buf_puts(script, s->options.setup);
    if (s->cwd) {
        tn_buf_puts(script, "\ncd -- ");
        tn_shell_dialect(s->shell)->put_word(script, s->cwd, strlen(s->cwd));
        tn_buf_putc(script, '\n');
    }
}

/* A long script goes by way of a file: what is sent must fit into the socket, because the shell
 * does not read it before its start-up files are done. */
static int put_into_file(struct tn_session *s, struct tn_buf *script, struct tn_error *err)
{
    const struct tn_session_options *o = &s->options;
    tn_autofree char *path =
        tn_asprintf("%s/%s.%llu.start", o->output_directory, o->name, (unsigned long long)s->seq);
    tn_autofd int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0640);

    if (fd < 0 || (o->switch_user && fchown(fd, (uid_t)-1, o->gid) < 0))
        return tn_fail_errno(err, errno, "%s", path);
    if (tn_fs_write(fd, tn_buf_str(script), script->len, err) < 0)
        return -1;
    tn_buf_reset(script);
    tn_buf_puts(script, ". ");
    tn_shell_dialect(s->shell)->put_word(script, path, strlen(path));
    s->start_file = TN_TAKE_PTR(path);
    return 0;
}

static void remove_start_file(struct tn_session *s)
{
    if (s->start_file)
        unlink(s->start_file);
    free(TN_TAKE_PTR(s->start_file));
}

/* Sends the first line. */
static int begin_set_up(struct tn_session *s, struct tn_error *err)
{
    tn_autobuf struct tn_buf lines = TN_BUF_INIT(16 << 20), script = TN_BUF_INIT(8 << 20);
    const struct tn_dialect *dialect = tn_shell_dialect(s->shell);

    put_restore(s, &script);
    s->seq++;
    if (script.len > START_TEXT_MAX && put_into_file(s, &script, err) < 0)
        return -1;
    tn_buf_puts(&lines, dialect->setup);
    struct tn_line line = session_line(s);
    line.text = tn_buf_str(&script);
    line.len = script.len;
    dialect->put_run(&lines, &line);
    dialect->put_report(&lines, &line);
    s->starting = true;
    s->start_by = tn_deadline_in(START_SECONDS);
    s->status_before = s->status;
    return session_send_line(s, &lines, s->start_by, err);
}

/* Waits for the end of the first line. */
static int end_set_up(struct tn_session *s, int64_t deadline, struct tn_error *err)
{
    if (!session_wait_line(s, deadline < s->start_by ? deadline : s->start_by)) {
        if (tn_now() < s->start_by)
            return tn_fail(err, TN_E_TIMEOUT, "%s is still busy with its start-up files",
                           s->options.program);
        return tn_fail(
            err, TN_E_UNSUPPORTED,
            "%s did not get ready within %g seconds; do its start-up files wait for something?",
            s->options.program, START_SECONDS);
    }
    s->starting = false;
    remove_start_file(s);
    if (s->exited)
        return tn_fail(err, TN_E_INTERNAL, "%s exited with status %d while it started",
                       s->options.program, s->status);
    if (s->options.must_enter && s->status != 0)
        return tn_fail(err, TN_E_NOT_FOUND, "cannot enter the directory %s", s->options.cwd);
    s->status = s->status_before; /* `$?` of the command before */
    tn_transcript_clear(s->transcript);
    s->taken_changes = s->seen_changes = tn_transcript_changes(s->transcript);
    return 0;
}

static void drop_shell(struct tn_session *s)
{
    struct tn_shell *shell = TN_TAKE_PTR(s->shell);

    pthread_mutex_unlock(&s->lock);
    tn_shell_free(shell);
    pthread_mutex_lock(&s->lock);
    remove_start_file(s);
}

/* What a shell needs to start; the rest comes with the environment of the last one, so that what
 * was unset stays unset. */
static char **bare_environment(char *const *env)
{
    static const char *const kept[] = {"HOME",        "LOGNAME", "PATH", "SHELL",
                                       "TENDON_HAND", "TERM",    "USER"};
    char **bare = tn_calloc(TN_COUNT(kept) + 1, sizeof *bare);
    size_t n = 0;

    for (; *env; env++) {
        size_t name = strcspn(*env, "=");
        for (size_t i = 0; i < TN_COUNT(kept) && n < TN_COUNT(kept); i++) {
            if (strlen(kept[i]) == name && memcmp(kept[i], *env, name) == 0)
                bare[n++] = *env;
        }
    }
    return bare;
}

static int start_shell(struct tn_session *s, struct tn_error *err)
{
    if (s->options.closing && __atomic_load_n(s->options.closing, __ATOMIC_ACQUIRE))
        return tn_fail(err, TN_E_BUSY, "the server is stopping");
    if (s->forget) {
        set_text(&s->cwd, s->options.cwd);
        free(TN_TAKE_PTR(s->environment));
        s->forget = false;
    }

    const struct tn_session_options *o = &s->options;
    tn_autofree char **bare = s->environment ? bare_environment(o->env) : NULL;
    struct tn_shell_options options = {
        .program = o->program,
        .cwd = o->cwd,
        .env = bare ? bare : o->env,
        .uid = o->uid,
        .gid = o->gid,
        .groups = o->groups,
        .group_count = o->group_count,
        .switch_user = o->switch_user,
        .columns = SCREEN_COLUMNS,
        .rows = SCREEN_ROWS,
    };
    struct tn_shell_events events = {on_output, on_record, on_idle, on_exited, s};

    s->exited = s->jobs = false;
    s->shell = tn_shell_new(&options, &events, err);
    if (!s->shell) {
        s->exited = true;
        return -1;
    }
    return begin_set_up(s, err);
}

int session_ensure_shell(struct tn_session *s, int64_t deadline, struct tn_error *err)
{
    if (s->shell && !s->exited && !s->starting)
        return 0;
    if (s->shell && s->exited)
        drop_shell(s);
    int r = s->shell ? 0 : start_shell(s, err);
    if (r == 0)
        r = end_set_up(s, deadline, err);
    if (r < 0 && s->shell && err->code != TN_E_TIMEOUT) {
        drop_shell(s);
        s->active = s->starting = false;
    }
    return r;
}

/* --- life ----------------------------------------------------------------------------------- */

struct tn_session *tn_session_new(const struct tn_session_options *options)
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
    tn_buf_init(&s->pending, 1 << 20);
    s->last_change = s->ended = tn_now();
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
    remove_start_file(s);
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
    free(s->tape);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

int tn_session_start(struct tn_session *s, struct tn_error *err)
{
    struct turn me;

    pthread_mutex_lock(&s->lock);
    int r = session_take_turn(s, &me, tn_deadline_in(2 * START_SECONDS))
                ? session_ensure_shell(s, TN_NEVER, err)
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
    };
    snprintf(state->name, sizeof state->name, "%s", s->options.name);
    snprintf(state->program, sizeof state->program, "%s", s->options.program);
    pthread_mutex_unlock(&s->lock);
}

int tn_session_signal(struct tn_session *s, int signo, struct tn_error *err)
{
    int r = 0;

    pthread_mutex_lock(&s->lock);
    pid_t group = s->shell && !s->exited ? tn_shell_foreground(s->shell) : -1;
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
