#include "cli/command.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/thread.h"
#include "runtime/hand-input.h"
#include "runtime/hand-output.h"
#include "runtime/sandbox-report.h"

/* A command that is done by then needs one request; the output of others is followed. */
#define FIRST_SECONDS 0.2
#define REMARK "The sandbox reports: "
/* How long the hand waits each time for a shell that is busy with its start-up files; it gives one
 * up by itself after a while. */
#define STARTING_SECONDS 1.0
/* To ask for the status of one that has ended. */
#define LAST_SECONDS 10.0
#define CONTROL_SECONDS 5.0

#define OUTPUT_MAX (64u << 20) /* with --json */

void put_quoted(struct tn_buf *out, const char *word)
{
    tn_buf_putc(out, '\'');
    for (const char *c = word; *c; c++)
        if (*c == '\'')
            tn_buf_puts(out, "'\\''");
        else
            tn_buf_putc(out, *c);
    tn_buf_putc(out, '\'');
}

void put_words(struct tn_buf *out, const struct tn_str_list *words, bool once)
{
    if (words->count == 1) {
        bool exits = once && strstr(words->items[0], "exit");
        tn_buf_printf(out, exits ? "(\n%s\n)" : "%s", words->items[0]);
        return;
    }
    for (size_t i = 0; i < words->count; i++) {
        tn_buf_puts(out, i ? " " : "");
        put_quoted(out, words->items[i]);
    }
}

int command_prepare(struct command *c, struct tn_error *err)
{
    const char *address, *key;

    if (tn_sandbox_address(c->sb, &address, &key, cli_start_deadline(c->cli), err) < 0)
        return -1;
    c->address = tn_strdup(address);
    c->key = tn_strdup(key);
    c->at = (struct tn_hand_address){.address = c->address, .key = c->key};
    tn_sandbox_use(c->sb);
    return 0;
}

void command_done(struct command *c)
{
    free(TN_TAKE_PTR(c->address));
    free(TN_TAKE_PTR(c->key));
}

/* --- output -------------------------------------------------------------------------------- */

/* A terminal gets what the command's terminal got.  Anything else gets what the command wrote: the
 * carriage return that a terminal puts before each line break is taken away again. */
struct sink {
    bool raw;
    bool carriage_return; /* came last, and is held back */
    bool closed;          /* nobody reads any more */
    struct tn_buf *to;    /* instead of standard output */
};

static void sink_write(struct sink *s, const char *bytes, size_t n)
{
    if (n == 0 || s->closed)
        return;
    if (s->to)
        tn_buf_add(s->to, bytes, n);
    else if (tn_fs_write(STDOUT_FILENO, bytes, n, NULL) < 0)
        s->closed = true;
}

static int sink_take(const void *bytes, size_t n, void *ctx)
{
    struct sink *s = ctx;
    const char *at = bytes, *end = at + n;

    if (s->raw) {
        sink_write(s, at, n);
        return s->closed;
    }
    if (s->carriage_return && *at != '\n')
        sink_write(s, "\r", 1);
    s->carriage_return = false;
    while (at < end) {
        const char *cr = memchr(at, '\r', (size_t)(end - at));
        if (!cr) {
            sink_write(s, at, (size_t)(end - at));
            break;
        }
        bool drop = cr + 1 < end ? cr[1] == '\n' : true;
        sink_write(s, at, (size_t)(cr - at) + (drop ? 0 : 1));
        s->carriage_return = cr + 1 == end;
        at = cr + 1;
    }
    return s->closed;
}

static void sink_end(struct sink *s)
{
    if (s->carriage_return)
        sink_write(s, "\r", 1);
    s->carriage_return = false;
}

/* --- input --------------------------------------------------------------------------------- */

#define NO_INPUT "/dev/null"

/* Passes on what this program reads, on a thread of its own. */
struct feeder {
    struct command *c;
    struct tn_hand_input *in; /* NULL: there is none */
    pthread_t thread;
    int status; /* of the thread, once it is joined */
    struct tn_error why;
};

/* It is the null device, as is one that was closed (tn_fs_fill_standard). */
static bool has_no_input(void)
{
    struct stat st;

    return fstat(STDIN_FILENO, &st) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3);
}

static void *feed(void *ctx)
{
    struct feeder *f = ctx;

    f->status = tn_hand_input_feed(f->in, STDIN_FILENO, &f->why);
    if (f->status < 0)
        command_kill(f->c);
    return NULL;
}

/* *path: what the command reads inside, on the heap; NULL for its terminal. */
static int feeder_start(struct feeder *f, char **path, struct tn_error *err)
{
    *path = NULL;
    if (isatty(STDIN_FILENO) && !f->c->read_terminal)
        return 0;
    f->c->cli->terminal_taken = isatty(STDIN_FILENO);
    if (has_no_input()) {
        *path = tn_strdup(NO_INPUT);
        return 0;
    }
    f->in = tn_hand_input_open(&f->c->at, cli_start_deadline(f->c->cli), err);
    if (!f->in)
        return -1;
    int error = tn_thread_start(&f->thread, feed, f);
    if (error) {
        tn_hand_input_close(TN_TAKE_PTR(f->in));
        return tn_fail_errno(err, error, "no thread for standard input");
    }
    *path = tn_strdup(tn_hand_input_path(f->in));
    return 0;
}

/* After the command.  -1 when it did not get all that it was to read. */
static int feeder_end(struct feeder *f, struct tn_error *err)
{
    if (!f->in)
        return 0;
    tn_hand_input_stop(f->in);
    pthread_join(f->thread, NULL);
    tn_hand_input_close(TN_TAKE_PTR(f->in));
    if (f->status < 0 && err)
        *err = f->why;
    return f->status;
}

/* --- the actions --------------------------------------------------------------------------- */

struct run {
    struct command *c;
    struct sink sink;
    uint64_t offset, lost;
    int64_t deadline;
    struct feeder feeder;
    char *input_path;                  /* what the command reads; NULL: its terminal */
    struct tn_observation observation; /* the last one */
    char *remarks; /* of all of them: what the sandbox adds about its limits, once; or NULL */
};

static void keep_remark(struct run *r)
{
    tn_autofree char *remark = tn_report_of(&r->observation);
    tn_autofree char *before = TN_TAKE_PTR(r->remarks);

    r->remarks = before && remark ? tn_asprintf("%s; %s", before, remark)
                                  : tn_strdup_or_null(remark ? remark : before);
}

/* text "" asks what became of the command.  again: the shell was not given it the first time, and
 * whoever had to confirm it has. */
static int act(struct run *r, const char *text, bool again, double timeout, struct tn_error *err)
{
    tn_autoaction struct tn_action action;

    tn_action_init_run(&action, text, timeout);
    action.run.session = tn_strdup(r->c->session);
    action.run.blocking = true;
    action.run.script = true;
    action.run.input_path = tn_strdup_or_null(*text ? r->input_path : NULL);
    tn_observation_done(&r->observation);
    tn_observation_init(&r->observation, TN_OBSERVATION_NULL);
    int status = (again ? tn_sandbox_execute_own : tn_sandbox_execute)(r->c->sb, &action,
                                                                       &r->observation, err);
    if (r->deadline != TN_NEVER)
        r->deadline += tn_sandbox_held_up(r->c->sb);
    if (status == 0 && r->observation.type == TN_OBSERVATION_RUN)
        keep_remark(r);
    return status;
}

static bool still_running(const struct tn_observation *o)
{
    const struct tn_run_metadata *m = &o->run.metadata;

    return o->type == TN_OBSERVATION_RUN && m->command_id && m->exit_code < 0 && m->end &&
           (strcmp(m->end, "hard_timeout") == 0 || strcmp(m->end, "no_change_timeout") == 0);
}

static int too_late(struct command *c, struct tn_error *err)
{
    command_kill(c);
    return tn_fail(err, TN_E_TIMEOUT, "not done after %g s: killed (see --timeout)", c->timeout);
}

static int not_ready(const struct command *c, struct tn_error *err)
{
    return tn_fail(err, TN_E_TIMEOUT,
                   "the shell was not ready after %g s: nothing has been run (see --timeout)",
                   c->timeout);
}

/* Gives the command to the shell, as soon as that has read its start-up files: the hand is ready
 * when its main shell is, or takes too long; and another shell may have yet to begin. */
static int begin(struct run *r, struct tn_error *err)
{
    const struct command *c = r->c;
    int64_t start = cli_start_deadline(c->cli);
    double limit = c->timeout > 0 && c->timeout < FIRST_SECONDS ? c->timeout : FIRST_SECONDS;

    if (!tn_sandbox_client(c->sb, r->deadline < start ? r->deadline : start, err))
        return tn_now() < r->deadline ? -1 : not_ready(c, err);
    if (feeder_start(&r->feeder, &r->input_path, err) < 0)
        return -1;
    int status = act(r, c->text, false, limit, err);
    while (status == 0 && tn_observation_is_starting(&r->observation)) {
        double left = (double)(r->deadline - tn_now()) / 1e9;
        if (left <= 0)
            return not_ready(c, err);
        status = act(r, c->text, true, left < STARTING_SECONDS ? left : STARTING_SECONDS, err);
    }
    return status;
}

/* Shows the output until the command has ended, then asks for the end. */
static int follow(struct run *r, struct tn_error *err)
{
    struct command *c = r->c;
    tn_autofree char *id = tn_strdup(r->observation.run.metadata.command_id);
    struct tn_error why = {0};

    int status = tn_hand_output(c->at.address, c->at.key, id, true, &r->offset, &r->lost, sink_take,
                                &r->sink, r->deadline, &why);
    if (r->sink.closed) {
        command_kill(c);
        return tn_fail_errno(err, EPIPE, "standard output");
    }
    if (status < 0 && why.code == TN_E_TIMEOUT)
        return too_late(c, err);
    /* Also when the stream broke: the sandbox may have a reason to tell. */
    if (act(r, "", false, LAST_SECONDS, err) < 0)
        return -1;
    if (status < 0 && still_running(&r->observation)) {
        *err = why;
        return -1;
    }
    return 0;
}

/* All of it, of a command that has ended. */
static int fetch(struct run *r, struct tn_error *err)
{
    const struct tn_run_metadata *m = &r->observation.run.metadata;

    if (m->output_bytes.set && m->output_bytes.value <= (int64_t)r->offset)
        return 0;
    int status = tn_hand_output(r->c->at.address, r->c->at.key, m->command_id, false, &r->offset,
                                &r->lost, sink_take, &r->sink, tn_deadline_in(-1), err);
    return r->sink.closed ? tn_fail_errno(err, EPIPE, "standard output") : status;
}

static void put_json(const struct run *r, const struct tn_buf *output, struct tn_buf *out)
{
    const struct tn_run_metadata *m = &r->observation.run.metadata;
    struct tn_jw w = tn_jw(out);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "sandbox", tn_sandbox_record(r->c->sb)->id);
    tn_jw_kint(&w, "exit_code", m->exit_code);
    tn_jw_key(&w, "output");
    tn_jw_strn(&w, tn_buf_str(output), output->len);
    if (r->lost || !tn_buf_ok(output))
        tn_jw_kbool(&w, "incomplete", true);
    if (m->duration.set)
        tn_jw_kdouble(&w, "duration", m->duration.value);
    if (m->signal)
        tn_jw_kstr(&w, "signal", m->signal);
    if (r->remarks) {
        tn_autofree char *note = tn_asprintf(REMARK "%s", r->remarks);
        tn_jw_kstr(&w, "note", note);
    }
    tn_jw_object_end(&w);
}

/* The exit status that fits the observation, or -1 with err. */
static int conclude(struct run *r, const struct tn_buf *output, struct tn_error *err)
{
    const struct tn_observation *o = &r->observation;
    const char *content = o->content.data ? o->content.data : "";

    if (o->type == TN_OBSERVATION_ERROR)
        return tn_fail(err, TN_E_PEER, "%s", content);
    if (o->type == TN_OBSERVATION_USER_REJECTED)
        return tn_fail(err, TN_E_DENIED, "%s", content);
    if (o->type != TN_OBSERVATION_RUN || !o->run.metadata.command_id) /* it says why */
        return tn_fail(err, TN_E_UNSUPPORTED, "%s", content);
    if (r->lost)
        cli_note(r->c->cli, "%llu bytes of output were dropped: they came too fast",
                 (unsigned long long)r->lost);
    if (r->remarks)
        cli_note(r->c->cli, REMARK "%s", r->remarks);
    if (r->c->cli->json) {
        tn_autobuf struct tn_buf json = TN_BUF_INIT(8 * (size_t)OUTPUT_MAX);
        put_json(r, output, &json);
        if (cli_print(&json, err) < 0)
            return -1;
    }
    return (int)o->run.metadata.exit_code & 255;
}

static int run(struct run *r, struct tn_error *err)
{
    struct command *c = r->c;

    r->deadline = c->timeout > 0 ? tn_deadline_in(c->timeout) : TN_NEVER;
    __atomic_store_n(&c->running, true, __ATOMIC_RELEASE);
    int status = begin(r, err);
    if (status == 0 && still_running(&r->observation))
        status = follow(r, err);
    if (status == 0 && r->observation.type == TN_OBSERVATION_RUN &&
        r->observation.run.metadata.command_id)
        status = fetch(r, err);
    sink_end(&r->sink);
    if (feeder_end(&r->feeder, err) < 0)
        status = -1;
    __atomic_store_n(&c->running, false, __ATOMIC_RELEASE);
    return status;
}

int command_run(struct command *c, struct tn_error *err)
{
    tn_autobuf struct tn_buf output = TN_BUF_INIT(OUTPUT_MAX);
    struct run r = {
        .c = c,
        .feeder = {.c = c},
        .sink = {.raw = isatty(STDOUT_FILENO) && !c->cli->json,
                 .to = c->cli->json ? &output : NULL},
    };

    tn_observation_init(&r.observation, TN_OBSERVATION_NULL);
    int status = run(&r, err);
    if (status == 0)
        status = conclude(&r, &output, err);
    tn_observation_done(&r.observation);
    free(r.remarks);
    free(r.input_path);
    if (c->remove_session)
        tn_hand_session_remove(&c->at, c->session, tn_deadline_in(CONTROL_SECONDS), NULL);
    return status;
}

/* --- from outside -------------------------------------------------------------------------- */

bool command_interrupt(struct command *c)
{
    if (!__atomic_load_n(&c->running, __ATOMIC_ACQUIRE))
        return false;
    return tn_hand_session_signal(&c->at, c->session, "INT", tn_deadline_in(CONTROL_SECONDS),
                                  NULL) == 0;
}

void command_kill(struct command *c)
{
    int64_t deadline = tn_deadline_in(CONTROL_SECONDS);

    if (!c->at.address)
        return;
    tn_sandbox_touch(c->sb); /* this process may be about to end */
    if (c->remove_session)
        tn_hand_session_remove(&c->at, c->session, deadline, NULL);
    else
        tn_hand_session_kill(&c->at, c->session, deadline, NULL);
}
