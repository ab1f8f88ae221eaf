/* Executions: commands in devboxes, their output whole and as it comes, input, logs. */
#include <signal.h>

#include "base/utf8.h"
#include "net/sse.h"
#include "service/runloop/runloop.h"

enum {
    OUTPUT_MAX = 1 << 20, /* of each stream in one answer: the last bytes */
    EVENT_MAX = 256 << 10,
    WHICH_MAX = TN_PROCESS_TAG_MAX + 8,
    SHELL_MAX = 64,
    LOG_PROCESSES = 64,
    LOG_MAX = 8 << 20,
};
#define DRAIN_SECONDS 5.0
#define SYNC_SECONDS 3600.0
#define BEAT_SECONDS 10.0

/* --- starting -------------------------------------------------------------------------------- */

/* A shell whose state is kept: what one command leaves behind of its directory, variables and
 * functions is there for the next.  The command stands in the script as it is, so that whoever
 * judges it can read it.  Programs that it leaves in the background have the lock open, too: it is
 * given up, not just closed. */
static char *in_shell(const char *name, const char *command)
{
    return tn_asprintf(
        "__shell=\"${TMPDIR:-/tmp}/.shell-%s\"\n"
        "command -v flock >/dev/null && exec 9>>\"$__shell.lock\" && flock 9\n"
        "[ -f \"$__shell\" ] && . \"$__shell\" 2>/dev/null\n"
        "trap '{ declare -p | grep -Ev \"^declare -[a-zA-Z]*r|^declare -[^ ]+ "
        "(BASH|FUNCNAME|PIPESTATUS|_|__shell)\"; declare -f; printf \"cd %%q\\n\" \"$PWD\"; } "
        ">\"$__shell\" 9>&-; flock -u 9 2>/dev/null || :' EXIT\n"
        "%s\n",
        name, command);
}

static bool is_name(const char *text, size_t max)
{
    size_t n = strlen(text);

    return n > 0 && n <= max &&
           strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == n;
}

int runloop_start(struct tn_http_exchange *x, struct box *b, const struct runloop_command *c,
                  struct process_started *out, struct tn_error *err)
{
    static const char *const shell[] = {"/bin/bash", "-l", "-c"};
    tn_autofree char *kept = c->shell ? in_shell(c->shell, c->text) : NULL;
    tn_autoprocess struct tn_process_spec spec = {0};
    const struct process_how how = {.idempotency = c->idempotency,
                                    .request = request_id(x),
                                    .purse = purse_of(x),
                                    .watch = tn_http_fd(x)};
    autoview struct box_view v;

    box_look(b, &v);
    const char *home = tn_json_get_str(v.spec.env, "HOME", v.spec.workspace);
    for (size_t i = 0; i < TN_COUNT(shell); i++)
        surface_add_arg(&spec.args, shell[i]);
    surface_add_arg(&spec.args, kept ? kept : c->text);
    spec.cwd = tn_strdup_or_null(home);
    spec.tag = tn_strdup_or_null(c->tag);
    spec.input = c->input || c->pty;
    spec.pty = c->pty;
    spec.columns = c->columns;
    spec.rows = c->rows;
    return surface_process_env(x, home, NULL, &spec.env, err) ||
                   process_start(b, caller_of(x), &spec, &how, out, err)
               ? -1
               : 0;
}

char *runloop_script(const struct tn_json *commands)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(2 * RUNLOOP_BODY_MAX);

    tn_buf_puts(&text, "set -e\n");
    for (size_t i = 0; i < tn_json_count(commands); i++)
        tn_buf_printf(&text, "%s\n",
                      tn_json_str(tn_json_at(commands, i), NULL)
                          ? tn_json_str(tn_json_at(commands, i), NULL)
                          : "false");
    return tn_buf_take(&text);
}

int64_t runloop_exit_status(const struct tn_process_status *status)
{
    return status->exit_code.set ? status->exit_code.value : 128 + status->signal.value;
}

/* --- one as clients see it ------------------------------------------------------------------- */

/* Answers with why it failed, which may be that the devbox was suspended or shut down meanwhile. */
static void reply_failed(struct tn_http_exchange *x, struct box *b, const struct tn_error *err)
{
    struct tn_error ended = {0};

    reply_error(x, runloop_is_up(b, &ended) ? err : &ended);
}

struct output {
    struct tn_buf out, err;
    bool cut_out, cut_err;
};

static void output_done(struct output *o)
{
    tn_buf_done(&o->out);
    tn_buf_done(&o->err);
}
#define autooutput TN_CLEANUP(output_done)

static int keep_piece(const struct tn_process_piece *piece, void *ctx)
{
    struct output *o = ctx;
    bool out = piece->stream == TN_PROCESS_OUT;

    switch (piece->kind) {
    case TN_PROCESS_OUT:
    case TN_PROCESS_ERR:
        if (tn_buf_add(out ? &o->out : &o->err, piece->bytes, piece->n) == 0)
            return 0;
        *(out ? &o->cut_out : &o->cut_err) = true; /* it says more than is told at once */
        return 1;
    case TN_PROCESS_LOST:
        *(out ? &o->cut_out : &o->cut_err) = true;
        return 0;
    case TN_PROCESS_BEAT:
    case TN_PROCESS_END:
        return 0;
    }
    return 0;
}

/* The last bytes of both streams; of one that has ended all that it said. */
static int read_output(struct tn_http_exchange *x, struct box *b,
                       const struct tn_process_status *status, struct output *o,
                       struct tn_error *err)
{
    const struct tn_process_log *out = &status->out, *e = &status->err;
    struct tn_process_follow f = {
        .at = {.out = out->end > OUTPUT_MAX ? out->end - OUTPUT_MAX : 0,
               .err = e->end > OUTPUT_MAX ? e->end - OUTPUT_MAX : 0},
        .now = status->running,
    };

    *o = (struct output){.out = {.max = 2 * OUTPUT_MAX, .purse = purse_of(x)},
                         .err = {.max = 2 * OUTPUT_MAX, .purse = purse_of(x)},
                         .cut_out = f.at.out > 0,
                         .cut_err = f.at.err > 0};
    int r = process_follow(b, status->id, &f, keep_piece, o, tn_http_fd(x),
                           tn_deadline_in(DRAIN_SECONDS), err);
    return r < 0 && err->code != TN_E_TIMEOUT ? -1 : 0;
}

/* The last lines, all of them for n 0. */
static void put_lines(struct tn_jw *w, const char *key, const struct tn_buf *text, int64_t n,
                      bool *cut)
{
    const char *whole = tn_buf_str(text);
    size_t from = 0, at = text->len && whole[text->len - 1] == '\n' ? text->len - 1 : text->len;

    for (; n > 0 && at > 0 && !from; at--)
        if (whole[at - 1] == '\n' && --n == 0)
            from = at;
    *cut |= from > 0;
    tn_jw_key(w, key);
    tn_jw_strn(w, whole + from, text->len - from);
}

static int64_t last_n(struct tn_http_exchange *x, const struct tn_json *body)
{
    const char *query = tn_http_query(x, "last_n"),
               *given = query ? query : tn_json_get_str(body, "last_n", "");
    long long n = strtoll(given, NULL, 10);

    return n > 0 ? n : 0;
}

/* Answers with how it is. */
static void reply_execution(struct tn_http_exchange *x, struct box *b,
                            const struct tn_process_status *status, int64_t lines, bool sync)
{
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, RUNLOOP_ANSWER_MAX);
    struct tn_jw w = tn_jw(&json);
    autooutput struct output o = {0};
    struct tn_error err = {0};

    if (read_output(x, b, status, &o, &err)) {
        reply_failed(x, b, &err);
        return;
    }
    tn_jw_object(&w);
    tn_jw_kstr(&w, "devbox_id", box_id(b));
    if (!sync) {
        tn_jw_kstr(&w, "execution_id", status->id);
        tn_jw_kstr(&w, "status", status->running ? "running" : "completed");
    }
    if (!status->running)
        tn_jw_kint(&w, "exit_status", runloop_exit_status(status));
    put_lines(&w, "stdout", &o.out, lines, &o.cut_out);
    put_lines(&w, "stderr", &o.err, lines, &o.cut_err);
    if (!sync) {
        tn_jw_kbool(&w, "stdout_truncated", o.cut_out);
        tn_jw_kbool(&w, "stderr_truncated", o.cut_err);
    }
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 200, &json);
}

/* --- execute --------------------------------------------------------------------------------- */

static int read_command(struct tn_http_exchange *x, const struct tn_json *body,
                        struct runloop_command *c, struct tn_error *err)
{
    c->text = tn_json_get_str(body, "command", NULL);
    c->shell = tn_json_get_str(body, "shell_name", NULL);
    c->tag = tn_json_get_str(body, "command_id", NULL);
    c->input = tn_json_bool(tn_json_get(body, "attach_stdin"), false);
    c->idempotency = c->tag ? c->tag : runloop_idempotency(x);
    if (!c->text || !*c->text)
        return tn_fail(err, TN_E_INVALID, "command: expected a command");
    if (c->shell && !is_name(c->shell, SHELL_MAX))
        return tn_fail(err, TN_E_INVALID, "shell_name: expected letters, digits, '.', '_' and '-'");
    if (c->tag && !is_name(c->tag, TN_PROCESS_TAG_MAX))
        return tn_fail(err, TN_E_INVALID, "command_id: expected a UUID");
    return 0;
}

/* Starts what the body says and waits so long for its end. */
static void execute(struct tn_http_exchange *x, struct tn_service *s, double most, bool sync)
{
    autobox struct box *b = runloop_running(x, s);
    tn_autojson struct tn_json *body = NULL;
    tn_autostatus struct tn_process_status status = {0};
    struct process_started started;
    struct runloop_command c = {0};
    struct tn_error err = {0};

    if (!b || surface_body(x, RUNLOOP_BODY_MAX, &body))
        return;
    double wanted = tn_json_double(tn_json_get(body, "optimistic_timeout"), most);
    int64_t deadline = tn_deadline_in(wanted >= 0 && wanted < most ? wanted : most);
    int failed = read_command(x, body, &c, &err) || runloop_start(x, b, &c, &started, &err);
    if (!failed && most > 0 && process_wait(b, started.id, &status, tn_http_fd(x), deadline, &err))
        failed = sync || err.code != TN_E_TIMEOUT;
    if (!failed && !*status.id)
        failed = process_look(b, started.id, &status, tn_deadline_in(RUNLOOP_SECONDS), &err);
    if (failed)
        reply_failed(x, b, &err);
    else
        reply_execution(x, b, &status, last_n(x, body), sync);
}

static void post_execute(struct tn_http_exchange *x, void *ctx)
{
    execute(x, ctx, RUNLOOP_POLL_SECONDS, false);
}

static void post_async(struct tn_http_exchange *x, void *ctx)
{
    execute(x, ctx, 0, false);
}

static void post_sync(struct tn_http_exchange *x, void *ctx)
{
    execute(x, ctx, SYNC_SECONDS, true);
}

/* --- those that exist ------------------------------------------------------------------------ */

/* The devbox and, in `which`, the execution of the path: by its id, or by the client's own. */
static struct box *find(struct tn_http_exchange *x, struct tn_service *s, char which[WHICH_MAX])
{
    const char *id = tn_http_param(x, "execution");
    struct box *b = runloop_running(x, s);
    size_t n = strlen(id);

    if (b && !is_name(id, TN_PROCESS_TAG_MAX)) {
        native_refuse(x, TN_E_NOT_FOUND, "execution %.60s not found", id);
        box_release(TN_TAKE_PTR(b));
    }
    bool ours =
        n == TN_PROCESS_ID_SIZE - 1 && id[0] == 'p' && strspn(id + 1, "0123456789abcdef") == n - 1;
    snprintf(which, WHICH_MAX, "%s%.*s", ours ? "" : "tag:", TN_PROCESS_TAG_MAX, id);
    return b;
}

static void get_execution(struct tn_http_exchange *x, void *ctx)
{
    tn_autostatus struct tn_process_status status = {0};
    struct tn_error err = {0};
    char which[WHICH_MAX];

    autobox struct box *b = find(x, ctx, which);
    if (!b)
        return;
    if (process_look(b, which, &status, tn_deadline_in(RUNLOOP_SECONDS), &err))
        reply_failed(x, b, &err);
    else
        reply_execution(x, b, &status, last_n(x, NULL), false);
}

static void post_wait(struct tn_http_exchange *x, void *ctx)
{
    tn_autostatus struct tn_process_status status = {0};
    tn_autojson struct tn_json *body = NULL;
    struct tn_error err = {0};
    char which[WHICH_MAX];

    autobox struct box *b = find(x, ctx, which);
    if (!b || surface_body(x, RUNLOOP_BODY_MAX, &body))
        return;
    double most = RUNLOOP_POLL_SECONDS,
           wanted = tn_json_double(tn_json_get(body, "timeout_seconds"), most);
    int64_t deadline = tn_deadline_in(wanted >= 0 && wanted < most ? wanted : most);
    bool now = tn_json_lists(tn_json_get(body, "statuses"), "running");
    int failed = now ? process_look(b, which, &status, deadline, &err)
                     : process_wait(b, which, &status, tn_http_fd(x), deadline, &err);
    if (failed && err.code == TN_E_TIMEOUT)
        reply_status(x, 408, tn_code_row(TN_E_TIMEOUT)->name, "It still runs");
    else if (failed)
        reply_failed(x, b, &err);
    else
        reply_execution(x, b, &status, last_n(x, body), false);
}

static void post_kill(struct tn_http_exchange *x, void *ctx)
{
    tn_autostatus struct tn_process_status status = {0};
    tn_autojson struct tn_json *body = NULL;
    int64_t deadline = tn_deadline_in(RUNLOOP_SECONDS);
    struct tn_error err = {0};
    char which[WHICH_MAX];

    autobox struct box *b = find(x, ctx, which);
    if (!b || surface_body(x, RUNLOOP_BODY_MAX, &body))
        return;
    bool gone = process_signal(b, which, SIGKILL, deadline, &err) && err.code != TN_E_GONE;
    if (gone || process_wait(b, which, &status, tn_http_fd(x), deadline, &err))
        reply_failed(x, b, &err);
    else
        reply_execution(x, b, &status, 0, false);
}

static void post_input(struct tn_http_exchange *x, void *ctx)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(4096);
    tn_autojson struct tn_json *body = NULL;
    int64_t deadline = tn_deadline_in(RUNLOOP_SECONDS);
    struct tn_jw w = tn_jw(&json);
    struct tn_error err = {0};
    char which[WHICH_MAX];
    size_t n = 0;
    int failed = 0;

    autobox struct box *b = find(x, ctx, which);
    if (!b || surface_body(x, RUNLOOP_BODY_MAX, &body))
        return;
    const char *text = tn_json_str(tn_json_get(body, "text"), &n);
    const char *signal = tn_json_get_str(body, "signal", NULL);
    if (text)
        failed = process_input(b, which, UINT64_MAX, text, n, NULL, deadline, &err);
    else if (signal && strcmp(signal, "EOF") == 0)
        failed = process_close_input(b, which, deadline, &err);
    else if (signal && strcmp(signal, "INTERRUPT") == 0)
        failed = process_signal(b, which, SIGINT, deadline, &err);
    else
        failed = tn_fail(&err, TN_E_INVALID, "expected text, or signal: EOF or INTERRUPT");
    if (failed) {
        err.code = err.code == TN_E_GONE ? TN_E_INVALID : err.code;
        reply_failed(x, b, &err);
        return;
    }
    tn_jw_object(&w);
    tn_jw_kstr(&w, "devbox_id", box_id(b));
    tn_jw_kstr(&w, "execution_id", tn_http_param(x, "execution"));
    tn_jw_kbool(&w, "success", true);
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 200, &json);
}

/* --- streams --------------------------------------------------------------------------------- */

struct stream {
    struct tn_http_exchange *x;
    enum tn_process_piece_kind kind;
    char rest[4]; /* the beginning of a character whose end has not come yet */
    size_t left;
    bool over;
};

/* The offset of an event is where the next one begins: who comes back with it misses nothing and
 * hears nothing twice. */
static int send_text(struct stream *s, const struct tn_buf *text, uint64_t end)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(EVENT_MAX);
    struct tn_jw w = tn_jw(&json);

    tn_jw_object(&w);
    tn_jw_key(&w, "output");
    tn_jw_strn(&w, tn_buf_str(text), text->len);
    tn_jw_kint(&w, "offset", (int64_t)end);
    tn_jw_object_end(&w);
    return tn_sse_send(s->x, NULL, NULL, tn_buf_str(&json), json.len);
}

static int pass_on(struct stream *s, const struct tn_process_piece *piece)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(EVENT_MAX);
    uint64_t end = piece->offset + piece->n;

    tn_buf_add(&text, s->rest, s->left);
    tn_buf_add(&text, piece->bytes, piece->n);
    s->left = tn_utf8_unfinished(tn_buf_str(&text), text.len);
    memcpy(s->rest, tn_buf_str(&text) + text.len - s->left, s->left);
    tn_buf_cut(&text, text.len - s->left);
    return text.len && send_text(s, &text, end - s->left) < 0;
}

static int take_piece(const struct tn_process_piece *piece, void *ctx)
{
    struct stream *s = ctx;
    tn_autobuf struct tn_buf text = TN_BUF_INIT(sizeof s->rest);

    if (piece->kind == s->kind)
        return pass_on(s, piece);
    if (piece->kind == TN_PROCESS_BEAT)
        return tn_sse_beat(s->x) < 0;
    if (piece->kind != TN_PROCESS_END)
        return 0;
    s->over = true;
    tn_buf_add(&text, s->rest, s->left);
    const struct tn_process_status *status = piece->status;
    uint64_t end = s->kind == TN_PROCESS_OUT ? status->out.end : status->err.end;
    return text.len && send_text(s, &text, end) < 0;
}

/* Clients raise what an event of this name says.  -1: the devbox has not ended. */
static int send_end(struct tn_http_exchange *x, struct box *b)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(4096);
    struct tn_jw w = tn_jw(&json);
    struct tn_error ended = {0};

    if (runloop_is_up(b, &ended))
        return -1;
    tn_jw_object(&w);
    tn_jw_kint(&w, "code", ended.code == TN_E_NOT_FOUND ? 404 : 400);
    tn_jw_kstr(&w, "message", ended.text);
    tn_jw_object_end(&w);
    return tn_sse_send(x, "error", NULL, tn_buf_str(&json), json.len);
}

/* Until it ends or nobody listens; the execution goes on without them. */
static void stream(struct tn_http_exchange *x, struct tn_service *service,
                   enum tn_process_piece_kind kind)
{
    tn_autostatus struct tn_process_status status = {0};
    const char *offset = tn_http_query(x, "offset");
    struct stream s = {.x = x, .kind = kind};
    struct tn_process_follow f = {.at = {UINT64_MAX, UINT64_MAX}, .beat = BEAT_SECONDS};
    struct tn_error err = {0};
    char which[WHICH_MAX];

    *(kind == TN_PROCESS_OUT ? &f.at.out : &f.at.err) = offset ? strtoull(offset, NULL, 10) : 0;
    autobox struct box *b = find(x, service, which);
    if (!b)
        return;
    if (process_look(b, which, &status, tn_deadline_in(RUNLOOP_SECONDS), &err)) {
        reply_failed(x, b, &err);
        return;
    }
    if (tn_sse_start(x))
        return;
    process_follow(b, status.id, &f, take_piece, &s, tn_http_fd(x), TN_NEVER, &err);
    if (s.over || send_end(x, b) == 0)
        tn_http_end(x);
    else
        tn_http_abort(x);
}

static void get_stdout(struct tn_http_exchange *x, void *ctx)
{
    stream(x, ctx, TN_PROCESS_OUT);
}

static void get_stderr(struct tn_http_exchange *x, void *ctx)
{
    stream(x, ctx, TN_PROCESS_ERR);
}

/* --- logs ------------------------------------------------------------------------------------ */

static void put_entry(struct tn_jw *w, const struct tn_process_status *status, const char *level)
{
    const char *tag = status->spec.tag ? status->spec.tag : "";

    tn_jw_object(w);
    tn_jw_kstr(w, "level", level);
    tn_jw_kstr(w, "source",
               strcmp(tag, "tendon:entrypoint") == 0 ? "entrypoint"
               : strncmp(tag, "tendon:", 7) == 0     ? "setup_commands"
                                                     : "exec");
    tn_jw_kstr(w, "cmd_id", status->id);
}

static void put_said(struct tn_jw *w, const struct tn_process_status *status,
                     const struct tn_buf *text, const char *level)
{
    const char *at = tn_buf_str(text), *end = at + text->len;

    for (; at < end; at += strcspn(at, "\n") + 1) {
        put_entry(w, status, level);
        runloop_put_ms(w, "timestamp_ms", status->started);
        tn_jw_key(w, "message");
        tn_jw_strn(w, at, strcspn(at, "\n"));
        tn_jw_object_end(w);
    }
}

void runloop_put_log(struct tn_http_exchange *x, struct tn_jw *w, struct box *b, const char *which)
{
    tn_autostatus struct tn_process_status status = {0};
    autooutput struct output o = {0};
    struct tn_error err = {0};

    if (process_look(b, which, &status, tn_deadline_in(RUNLOOP_SECONDS), &err))
        return;
    put_entry(w, &status, "INFO");
    runloop_put_ms(w, "timestamp_ms", status.started);
    tn_jw_kstr(w, "cmd",
               status.spec.args.count ? status.spec.args.items[status.spec.args.count - 1] : "");
    tn_jw_object_end(w);
    if (read_output(x, b, &status, &o, &err) == 0) {
        put_said(w, &status, &o.out, "INFO");
        put_said(w, &status, &o.err, "ERROR");
    }
    if (status.running)
        return;
    put_entry(w, &status, "INFO");
    runloop_put_ms(w, "timestamp_ms", status.ended);
    tn_jw_kint(w, "exit_code", runloop_exit_status(&status));
    tn_jw_object_end(w);
}

struct names {
    char ids[LOG_PROCESSES][TN_PROCESS_ID_SIZE];
    size_t count;
};

static int keep_name(const struct tn_process_status *status, void *ctx)
{
    struct names *names = ctx;

    memcpy(names->ids[names->count++], status->id, TN_PROCESS_ID_SIZE);
    return names->count == LOG_PROCESSES;
}

static void get_logs(struct tn_http_exchange *x, void *ctx)
{
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, RUNLOOP_ANSWER_MAX);
    tn_autofree struct names *names = tn_calloc(1, sizeof *names);
    const char *only = tn_http_query(x, "execution_id");
    struct tn_jw w = tn_jw(&json);
    struct tn_error err = {0};

    autobox struct box *b = runloop_running(x, ctx);
    if (!b)
        return;
    if (process_list(b, keep_name, names, tn_deadline_in(RUNLOOP_SECONDS), &err) < 0) {
        reply_failed(x, b, &err);
        return;
    }
    tn_jw_object(&w);
    tn_jw_key(&w, "logs");
    tn_jw_array(&w);
    for (size_t i = 0; i < names->count && json.len < LOG_MAX; i++)
        if (!only || !*only || strcmp(only, names->ids[i]) == 0)
            runloop_put_log(x, &w, b, names->ids[i]);
    tn_jw_array_end(&w);
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 200, &json);
}

#define BOX "/v1/devboxes/{id}"
#define ONE "/v1/devboxes/{id}/executions/{execution}"
const struct tn_route routes_runloop_executions[] = {
    {"POST", BOX "/execute", post_execute, "Runloop: runs a command, waits a little", 0},
    {"POST", BOX "/execute_async", post_async, "Runloop: starts a command", 0},
    {"POST", BOX "/execute_sync", post_sync, "Runloop: runs a command", 0},
    {"GET", ONE "", get_execution, "Runloop: how it is, and what it said", 0},
    {"POST", ONE "/wait_for_status", post_wait, "Runloop: waits for its end", 0},
    {"POST", ONE "/kill", post_kill, "Runloop: kills it", 0},
    {"POST", ONE "/send_std_in", post_input, "Runloop: text for it, or a signal", 0},
    {"GET", ONE "/stream_stdout_updates", get_stdout, "Runloop: what it says, as it comes", 0},
    {"GET", ONE "/stream_stderr_updates", get_stderr, "Runloop: the same of its errors", 0},
    {"GET", BOX "/logs", get_logs, "Runloop: commands and what they said", 0},
    {0},
};
