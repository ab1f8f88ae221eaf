/* process.Process of envd: programs, their output as it comes, input, signals. */
#include <signal.h>

#include "base/base64.h"
#include "service/e2b/e2b.h"
#include "service/process.h"

enum { EVENT_MAX = 64 << 10, WHICH_MAX = 160, INPUT_MAX = 8 << 20 };

/* --- events ---------------------------------------------------------------------------------- */

struct stream {
    struct e2b_call *c;
    bool pty, over;
};

static int send_start(struct e2b_call *c, int64_t pid)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(EVENT_MAX);

    tn_buf_printf(&json, "{\"event\":{\"start\":{\"pid\":%lld}}}", (long long)pid);
    return e2b_stream_send(c, &json);
}

static int send_data(struct stream *s, const char *key, const void *bytes, size_t n)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(EVENT_MAX);

    tn_buf_printf(&json, "{\"event\":{\"data\":{\"%s\":\"", key);
    tn_base64_encode(&json, bytes, n);
    tn_buf_puts(&json, "\"}}}");
    return e2b_stream_send(s->c, &json);
}

static const char *signal_text(int64_t number)
{
    const char *text = sigdescr_np((int)number);

    return text ? text : "unknown signal";
}

/* "exit status 1", or "signal: killed". */
static int send_end_event(struct e2b_call *c, const struct tn_process_status *status)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(EVENT_MAX);
    struct tn_jw w = tn_jw(&json);
    bool exited = status->exit_code.set;
    char text[64];

    if (exited)
        snprintf(text, sizeof text, "exit status %lld", (long long)status->exit_code.value);
    else
        snprintf(text, sizeof text, "signal: %s", signal_text(status->signal.value));
    if (!exited && text[8] >= 'A' && text[8] <= 'Z')
        text[8] |= 0x20;
    tn_jw_object(&w);
    tn_jw_key(&w, "event");
    tn_jw_object(&w);
    tn_jw_key(&w, "end");
    tn_jw_object(&w);
    tn_jw_kint(&w, "exitCode", exited ? status->exit_code.value : -1);
    tn_jw_kbool(&w, "exited", exited);
    tn_jw_kstr(&w, "status", text);
    if (!exited || status->exit_code.value)
        tn_jw_kstr(&w, "error", text);
    for (int i = 0; i < 3; i++)
        tn_jw_object_end(&w);
    return e2b_stream_send(c, &json);
}

/* Its time was over: clients learn that from the end of the stream. */
static int end(struct stream *s, const struct tn_process_status *status)
{
    const struct tn_error late = {.code = TN_E_TIMEOUT,
                                  .text = "the time for this command is over"};

    s->over = true;
    if (!status->late && send_end_event(s->c, status) < 0)
        return 1;
    return e2b_stream_end(s->c, status->late ? &late : NULL) < 0;
}

static int pass_on(const struct tn_process_piece *piece, void *ctx)
{
    static const char beat[] = "{\"event\":{\"keepalive\":{}}}";
    struct stream *s = ctx;
    tn_autobuf struct tn_buf json = TN_BUF_INIT(EVENT_MAX);

    switch (piece->kind) {
    case TN_PROCESS_OUT:
        return send_data(s, s->pty ? "pty" : "stdout", piece->bytes, piece->n) < 0;
    case TN_PROCESS_ERR:
        return send_data(s, "stderr", piece->bytes, piece->n) < 0;
    case TN_PROCESS_LOST: /* there is no word for it: what comes next follows */
        return 0;
    case TN_PROCESS_BEAT:
        tn_buf_puts(&json, beat);
        return e2b_stream_send(s->c, &json) < 0;
    case TN_PROCESS_END:
        return end(s, piece->status);
    }
    return 0;
}

/* Until it ends or nobody listens; the process goes on without them. */
static void follow(struct e2b_call *c, const char *which, int64_t pid, bool pty,
                   struct tn_process_place from)
{
    struct stream s = {.c = c, .pty = pty};
    struct tn_process_follow f = {.at = from, .beat = e2b_stream_beat(c)};
    struct tn_error err = {0};

    if (e2b_stream_start(c) || send_start(c, pid))
        return;
    int result = process_follow(c->b, which, &f, pass_on, &s, tn_http_fd(c->x), TN_NEVER, &err);
    if (s.over)
        return;
    if (tn_http_peer_gone(c->x) || result > 0)
        tn_http_abort(c->x);
    else
        e2b_stream_end(c, &err);
}

/* --- start ----------------------------------------------------------------------------------- */

static bool is_text(const struct tn_json *v)
{
    return !v || tn_json_type(v) == TN_JSON_STRING;
}

static int read_args(const struct tn_json *config, struct tn_process_spec *spec,
                     struct tn_error *err)
{
    const struct tn_json *args = tn_json_get(config, "args");
    const char *cmd = tn_json_get_str(config, "cmd", NULL);

    if (!cmd || !*cmd)
        return tn_fail(err, TN_E_INVALID, "process.cmd: expected a program");
    surface_add_arg(&spec->args, cmd);
    for (size_t i = 0; i < tn_json_count(args); i++) {
        const char *text = tn_json_str(tn_json_at(args, i), NULL);
        if (!text)
            return tn_fail(err, TN_E_INVALID, "process.args: expected strings");
        surface_add_arg(&spec->args, text);
    }
    return 0;
}

static void read_size(const struct tn_json *pty, int64_t *columns, int64_t *rows)
{
    const struct tn_json *size = tn_json_get(pty, "size");

    *columns = tn_json_int(tn_json_get(size, "cols"), 0);
    *rows = tn_json_int(tn_json_get(size, "rows"), 0);
}

/* The time that the client gives it, after which it is killed; 0: none. */
static double seconds_of(const struct e2b_call *c)
{
    const char *text = tn_http_header(c->x, "Connect-Timeout-Ms");
    double ms = text ? strtod(text, NULL) : 0;

    return ms > 0 && ms < 1e12 ? ms / 1000 : 0;
}

static int read_spec(struct e2b_call *c, const struct tn_json *message,
                     struct tn_process_spec *spec, struct tn_error *err)
{
    const struct tn_json *config = tn_json_get(message, "process");
    const struct tn_json *pty = tn_json_get(message, "pty");
    const struct tn_json *cwd = tn_json_get(config, "cwd"), *tag = tn_json_get(message, "tag");
    const struct tn_json *env = tn_json_get(config, "envs");
    const char *given = tn_json_str(cwd, NULL);
    tn_autofree char *where = e2b_path(c, given && *given ? given : c->cwd);

    if (read_args(config, spec, err))
        return -1;
    if (!is_text(cwd) || !is_text(tag))
        return tn_fail(err, TN_E_INVALID, "cwd and tag: expected strings");
    if (surface_process_env(c->x, *c->user ? NULL : c->home, env, &spec->env, err))
        return -1;
    spec->cwd = TN_TAKE_PTR(where);
    spec->user = *c->user ? tn_strdup(c->user) : NULL;
    spec->tag = tn_strdup_or_null(tn_json_str(tag, NULL));
    spec->pty = pty != NULL;
    spec->input = spec->pty || tn_json_bool(tn_json_get(message, "stdin"), true);
    read_size(pty, &spec->columns, &spec->rows);
    spec->seconds = seconds_of(c);
    return 0;
}

static void start(struct e2b_call *c, const struct tn_json *message)
{
    tn_autoprocess struct tn_process_spec spec = {0};
    const struct process_how how = {
        .request = request_id(c->x), .purse = purse_of(c->x), .watch = tn_http_fd(c->x)};
    struct process_started started;
    struct tn_error err = {0};

    if (read_spec(c, message, &spec, &err) ||
        e2b_note_gateway(c, tn_json_get(tn_json_get(message, "process"), "envs"), &err) ||
        process_start(c->b, caller_of(c->x), &spec, &how, &started, &err))
        reply_error(c->x, &err);
    else
        follow(c, started.id, started.pid, spec.pty, (struct tn_process_place){0, 0});
}

/* --- those that run -------------------------------------------------------------------------- */

/* By pid, or by the client's tag.  -1: answered. */
static int which_of(struct e2b_call *c, const struct tn_json *message, char out[WHICH_MAX])
{
    const struct tn_json *process = tn_json_get(message, "process");
    int64_t pid = tn_json_int(tn_json_get(process, "pid"), 0);
    const char *tag = tn_json_get_str(process, "tag", NULL);

    if (pid > 0)
        snprintf(out, WHICH_MAX, "%lld", (long long)pid);
    else if (tag && *tag && strlen(tag) <= TN_PROCESS_TAG_MAX)
        snprintf(out, WHICH_MAX, "tag:%s", tag);
    else
        return e2b_fail(c, "invalid_argument", "process: expected pid or tag");
    return 0;
}

/* The answer to a call that has nothing to tell; one that has ended is not found any more. */
static void finish(struct e2b_call *c, int failed, struct tn_error *err)
{
    if (!failed) {
        tn_http_reply(c->x, 200, "application/json", "{}", 2);
        return;
    }
    if (err->code == TN_E_GONE)
        err->code = TN_E_NOT_FOUND;
    reply_error(c->x, err);
}

static void connect_to(struct e2b_call *c, const struct tn_json *message)
{
    tn_autostatus struct tn_process_status status = {0};
    struct tn_error err = {0};
    char which[WHICH_MAX];

    if (which_of(c, message, which))
        return;
    if (process_look(c->b, which, &status, tn_deadline_in(E2B_SECONDS), &err)) {
        reply_error(c->x, &err);
        return;
    }
    /* From here on: what is said between this look and the stream belongs to it, too. */
    follow(c, status.id, status.pid, status.spec.pty,
           (struct tn_process_place){status.out.end, status.err.end});
}

static int list_one(const struct tn_process_status *s, void *ctx)
{
    struct tn_jw *w = ctx;

    if (!s->running)
        return 0;
    tn_jw_object(w);
    tn_jw_kint(w, "pid", s->pid);
    if (s->spec.tag)
        tn_jw_kstr(w, "tag", s->spec.tag);
    tn_jw_key(w, "config");
    tn_jw_object(w);
    tn_jw_kstr(w, "cmd", s->spec.args.count ? s->spec.args.items[0] : "");
    tn_jw_key(w, "args");
    tn_jw_array(w);
    for (size_t i = 1; i < s->spec.args.count; i++)
        tn_jw_str(w, s->spec.args.items[i]);
    tn_jw_array_end(w);
    if (s->spec.env) {
        tn_jw_key(w, "envs");
        tn_jw_tree(w, s->spec.env);
    }
    if (s->spec.cwd)
        tn_jw_kstr(w, "cwd", s->spec.cwd);
    tn_jw_object_end(w);
    tn_jw_object_end(w);
    return 0;
}

static void list(struct e2b_call *c, const struct tn_json *message)
{
    tn_autobuf struct tn_buf json = ANSWER_BUF(c->x, E2B_ANSWER_MAX);
    struct tn_jw w = tn_jw(&json);
    struct tn_error err = {0};

    tn_jw_object(&w);
    tn_jw_key(&w, "processes");
    tn_jw_array(&w);
    if (process_list(c->b, list_one, &w, tn_deadline_in(E2B_SECONDS), &err)) {
        reply_error(c->x, &err);
        return;
    }
    tn_jw_array_end(&w);
    tn_jw_object_end(&w);
    e2b_answer(c, &json);
}

static void update(struct e2b_call *c, const struct tn_json *message)
{
    struct tn_error err = {0};
    char which[WHICH_MAX];
    int64_t columns, rows;

    if (which_of(c, message, which))
        return;
    read_size(tn_json_get(message, "pty"), &columns, &rows);
    int failed = tn_json_get(message, "pty") &&
                 process_resize(c->b, which, columns, rows, tn_deadline_in(E2B_SECONDS), &err);
    finish(c, failed, &err);
}

static void send_signal(struct e2b_call *c, const struct tn_json *message)
{
    const struct tn_json *given = tn_json_get(message, "signal");
    const char *word = tn_json_str(given, NULL);
    int64_t number = tn_json_int(given, 0);
    struct tn_error err = {0};
    char which[WHICH_MAX];

    if (which_of(c, message, which))
        return;
    bool kill = word ? strcmp(word, "SIGNAL_SIGKILL") == 0 : number == SIGKILL;
    bool term = word ? strcmp(word, "SIGNAL_SIGTERM") == 0 : number == SIGTERM;
    if (!kill && !term) {
        e2b_fail(c, "invalid_argument", "signal: expected SIGNAL_SIGKILL or SIGNAL_SIGTERM");
        return;
    }
    int failed =
        process_signal(c->b, which, kill ? SIGKILL : SIGTERM, tn_deadline_in(E2B_SECONDS), &err);
    finish(c, failed, &err);
}

static void close_stdin(struct e2b_call *c, const struct tn_json *message)
{
    struct tn_error err = {0};
    char which[WHICH_MAX];

    if (which_of(c, message, which))
        return;
    int failed = process_close_input(c->b, which, tn_deadline_in(E2B_SECONDS), &err);
    finish(c, failed, &err);
}

/* --- input ----------------------------------------------------------------------------------- */

static int write_input(struct e2b_call *c, const char *which, const struct tn_json *input,
                       struct tn_error *err)
{
    tn_autobuf struct tn_buf bytes = TN_BUF_INIT(INPUT_MAX);
    const char *pty = tn_json_get_str(input, "pty", NULL);
    const char *text = pty ? pty : tn_json_get_str(input, "stdin", "");

    if (tn_base64_decode(&bytes, text, strlen(text), err) < 0)
        return tn_error_context(err, "input");
    return process_input(c->b, which, UINT64_MAX, tn_buf_str(&bytes), bytes.len, NULL,
                         tn_deadline_in(E2B_SECONDS), err);
}

static void send_input(struct e2b_call *c, const struct tn_json *message)
{
    struct tn_error err = {0};
    char which[WHICH_MAX];

    if (which_of(c, message, which))
        return;
    int failed = write_input(c, which, tn_json_get(message, "input"), &err);
    finish(c, failed, &err);
}

/* A stream of input: its first message names the process. */
struct typing {
    struct e2b_call *c;
    char which[WHICH_MAX];
};

static int take_input(struct tn_json *message, void *ctx)
{
    struct typing *t = ctx;
    const struct tn_json *data = tn_json_get(message, "data");
    struct tn_error err = {0};

    if (tn_json_get(message, "start"))
        return which_of(t->c, tn_json_get(message, "start"), t->which);
    if (!data)
        return 0;
    if (!*t->which)
        return e2b_fail(t->c, "invalid_argument", "input before start");
    if (write_input(t->c, t->which, tn_json_get(data, "input"), &err) == 0)
        return 0;
    reply_error(t->c->x, &err);
    return -1;
}

static void stream_input(struct e2b_call *c, const struct tn_json *message)
{
    struct typing t = {.c = c};
    tn_autobuf struct tn_buf nothing = TN_BUF_INIT(16);

    tn_buf_puts(&nothing, "{}");
    if (e2b_read_messages(c, 2 * INPUT_MAX, take_input, &t) == 0 && e2b_stream_start(c) == 0 &&
        e2b_stream_send(c, &nothing) == 0)
        e2b_stream_end(c, NULL);
}

const struct e2b_method e2b_process[] = {
    {.name = "Start", .call = start, .stream = true},
    {.name = "Connect", .call = connect_to, .stream = true},
    {.name = "List", .call = list},
    {.name = "Update", .call = update},
    {.name = "SendInput", .call = send_input},
    {.name = "StreamInput", .call = stream_input, .stream = true, .reads = true},
    {.name = "SendSignal", .call = send_signal},
    {.name = "CloseStdin", .call = close_stdin},
    {0},
};
