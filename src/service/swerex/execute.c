/* Programs that a SWE-ReX client runs beside its shells: processes of the sandbox. */
#include <signal.h>

#include "base/clock.h"
#include "service/process.h"
#include "service/surface.h"
#include "service/swerex/swerex.h"

#define LONGEST_SECONDS 3600.0
#define GRACE_SECONDS 10.0

struct said {
    struct tn_buf out, err;
    int64_t exit_code;
    bool killed;
};

static void said_done(struct said *s)
{
    tn_buf_done(&s->out);
    tn_buf_done(&s->err);
}
#define autosaid TN_CLEANUP(said_done)

static int keep(const struct tn_process_piece *piece, void *ctx)
{
    struct said *s = ctx;

    switch (piece->kind) {
    case TN_PROCESS_OUT:
        return tn_buf_add(&s->out, piece->bytes, piece->n) ? 1 : 0;
    case TN_PROCESS_ERR:
        return tn_buf_add(&s->err, piece->bytes, piece->n) ? 1 : 0;
    case TN_PROCESS_END:
        /* As Python's subprocess tells it. */
        s->exit_code = piece->status->exit_code.set ? piece->status->exit_code.value
                                                    : -piece->status->signal.value;
        s->killed = piece->status->signal.set && piece->status->signal.value == SIGKILL;
        return 0;
    case TN_PROCESS_LOST:
    case TN_PROCESS_BEAT:
        return 0;
    }
    return 0;
}

/* A text is for a shell if it says so, else the name of a program; a list are words. */
static int read_words(const struct tn_json *body, struct tn_str_list *args, struct tn_error *err)
{
    const struct tn_json *command = tn_json_get(body, "command");
    const char *text = tn_json_str(command, NULL);

    if (tn_json_bool(tn_json_get(body, "merge_output_streams"), false)) {
        surface_add_arg(args, "/bin/sh");
        surface_add_arg(args, "-c");
        surface_add_arg(args, "exec \"$@\" 2>&1");
        surface_add_arg(args, "sh");
    }
    if (tn_json_bool(tn_json_get(body, "shell"), false)) {
        surface_add_arg(args, "/bin/sh");
        surface_add_arg(args, "-c");
    }
    if (text)
        surface_add_arg(args, text);
    for (size_t i = 0; i < tn_json_count(command); i++) {
        const char *word = tn_json_str(tn_json_at(command, i), NULL);

        if (!word)
            return tn_fail(err, TN_E_INVALID, "command: expected a text, or a list of texts");
        surface_add_arg(args, word);
    }
    return text || tn_json_count(command)
               ? 0
               : tn_fail(err, TN_E_INVALID, "command: expected a command");
}

static int start(struct tn_http_exchange *x, struct box *b, const struct tn_json *body,
                 double seconds, struct process_started *started, struct tn_error *err)
{
    tn_autoprocess struct tn_process_spec spec = {.seconds = seconds};
    const struct process_how how = {.idempotency = tn_http_header(x, "X-Request-ID"),
                                    .request = request_id(x),
                                    .purse = purse_of(x),
                                    .watch = tn_http_fd(x)};

    spec.cwd = tn_strdup_or_null(tn_json_get_str(body, "cwd", NULL));
    if (read_words(body, &spec.args, err) ||
        surface_process_env(x, NULL, tn_json_get(body, "env"), &spec.env, err))
        return -1;
    if (process_start(b, caller_of(x), &spec, &how, started, err) == 0)
        return 0;
    if (err->code == TN_E_INVALID) /* there is no such program or directory */
        err->code = TN_E_NOT_FOUND;
    return -1;
}

static void reply(struct tn_http_exchange *x, const struct said *s)
{
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, REX_ANSWER_MAX);
    struct tn_jw w = tn_jw(&json);

    tn_jw_object(&w);
    tn_jw_key(&w, "stdout");
    tn_jw_strn(&w, tn_buf_str(&s->out), s->out.len);
    tn_jw_key(&w, "stderr");
    tn_jw_strn(&w, tn_buf_str(&s->err), s->err.len);
    tn_jw_kint(&w, "exit_code", s->exit_code);
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 200, &json);
}

static void post_execute(struct tn_http_exchange *x, void *ctx)
{
    autosaid struct said s = {.out = ANSWER_BUF(x, REX_TEXT_MAX),
                              .err = ANSWER_BUF(x, REX_TEXT_MAX)};
    struct tn_process_follow f = {0};
    tn_autojson struct tn_json *body = NULL;
    struct process_started started;
    struct tn_error err = {0};

    autobox struct box *b = native_box(x, ctx, SCOPE_USE);
    if (!b || surface_body(x, REX_BODY_MAX, &body))
        return;
    double limit = tn_json_double(tn_json_get(body, "timeout"), 0),
           seconds = limit > 0 && limit < LONGEST_SECONDS ? limit : LONGEST_SECONDS;
    int64_t began = tn_now();
    if (start(x, b, body, seconds, &started, &err)) {
        rex_raise_error(x, &err);
        return;
    }
    int r = process_follow(b, started.id, &f, keep, &s, tn_http_fd(x),
                           tn_deadline_in(seconds + GRACE_SECONDS), &err);
    process_remove(b, started.id, tn_deadline_in(REX_SECONDS), NULL);
    if (r < 0)
        rex_raise_error(x, &err);
    else if (r > 0)
        rex_raise(x, REX_EXCEPTION, "The command said more than %d MB", REX_TEXT_MAX >> 20);
    else if (s.killed && (double)(tn_now() - began) / 1e9 >= seconds)
        rex_raise(x, REX_TIMEOUT, "Timeout (%gs) exceeded while running command", seconds);
    else if (tn_json_bool(tn_json_get(body, "check"), false) && s.exit_code != 0)
        rex_raise_exit(x, body, s.exit_code, tn_buf_str(s.err.len ? &s.err : &s.out));
    else
        reply(x, &s);
}

const struct tn_route routes_swerex_execute[] = {
    {"POST", "/swerex/{id}/execute", post_execute, "SWE-ReX: runs a program", 0},
    {0},
};
