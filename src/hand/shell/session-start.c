/* A shell for a session: started where the last one was, and set up. */
#include <fcntl.h>

#include "base/fs.h"
#include "hand/shell/session-internal.h"

enum { START_TEXT_MAX = 32 << 10 };

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

void session_remove_start_file(struct tn_session *s)
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
    session_put_snapshot(s, &lines); /* or the first command would have to wait for it */
    s->starting = true;
    s->start_by = tn_deadline_in(SESSION_START_SECONDS);
    s->status_before = s->status;
    int r = session_send_line(s, &lines, s->start_by, err);
    return r < 0 && err->sys == EPIPE ? 0 : r; /* it has ended already: end_set_up() tells how */
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
            s->options.program, SESSION_START_SECONDS);
    }
    s->starting = false;
    session_remove_start_file(s);
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
    session_remove_start_file(s);
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
        session_set_text(&s->cwd, s->options.cwd);
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
    struct tn_shell_events events = session_events(s);

    s->exited = s->jobs = false;
    s->shell = tn_shell_new(&options, &events, err);
    if (!s->shell) {
        s->exited = true;
        return -1;
    }
    return begin_set_up(s, err);
}

static void give_up(struct tn_session *s)
{
    if (s->shell)
        drop_shell(s);
    s->active = s->starting = false;
}

int session_begin_shell(struct tn_session *s, struct tn_error *err)
{
    if (s->shell && s->exited && !s->starting)
        drop_shell(s);
    if (s->shell || start_shell(s, err) == 0)
        return 0;
    give_up(s);
    return -1;
}

int session_ensure_shell(struct tn_session *s, int64_t deadline, struct tn_error *err)
{
    if (s->shell && !s->exited && !s->starting)
        return 0;
    if (session_begin_shell(s, err) < 0)
        return -1;
    int r = end_set_up(s, deadline, err);
    if (r < 0 && err->code != TN_E_TIMEOUT)
        give_up(s);
    return r;
}
