/* Programs of the toolbox: execute, code-run, and what others of its calls run. */
#include "service/daytona/daytona.h"

static const char shell[] = "/bin/bash", plain_shell[] = "/bin/sh";

const char *daytona_shell(struct tn_hand_files *f)
{
    tn_autoentry struct tn_entry e = {0};

    return tn_hand_files_stat(f, shell, true, &e, tn_deadline_in(DAYTONA_SECONDS), NULL) == 0
               ? shell
               : plain_shell;
}

/* --- specs ----------------------------------------------------------------------------------- */

void daytona_spec(const struct daytona_call *c, struct tn_process_spec *spec,
                  const char *const *args)
{
    for (; *args; args++)
        surface_add_arg(&spec->args, *args);
    spec->cwd = tn_strdup(c->home);
}

int daytona_read_spec(const struct daytona_call *c, const struct tn_json *body,
                      struct tn_process_spec *spec, struct tn_error *err)
{
    const struct tn_json *envs = tn_json_get(body, "envs");
    const char *cwd = tn_json_get_str(body, "cwd", NULL);
    double seconds = tn_json_double(tn_json_get(body, "timeout"), 0);

    if (!(seconds >= 0 && seconds <= 1e8))
        return tn_fail(err, TN_E_INVALID, "timeout: expected seconds");
    tn_json_free(TN_TAKE_PTR(spec->env));
    if (surface_process_env(c->x, c->home, envs, &spec->env, err))
        return -1;
    free(spec->cwd);
    spec->cwd = surface_path(c->home, cwd);
    spec->seconds = seconds;
    return 0;
}

/* --- running --------------------------------------------------------------------------------- */

int daytona_start(struct daytona_call *c, const struct tn_process_spec *spec,
                  struct process_started *out, struct tn_error *err)
{
    const struct process_how how = {
        .request = request_id(c->x), .purse = purse_of(c->x), .watch = tn_http_fd(c->x)};

    return process_start(c->b, caller_of(c->x), spec, &how, out, err);
}

void daytona_done_end(struct daytona_done *d)
{
    tn_buf_done(&d->both);
    tn_buf_done(&d->out);
    tn_buf_done(&d->err);
}

int64_t daytona_exit_code(const struct tn_process_status *status)
{
    return status->exit_code.set ? status->exit_code.value : 128 + status->signal.value;
}

/* What is too much for an answer is read and left out, so that the program can go on. */
static int keep(const struct tn_process_piece *piece, void *ctx)
{
    struct daytona_done *d = ctx;

    switch (piece->kind) {
    case TN_PROCESS_OUT:
    case TN_PROCESS_ERR:
        if (d->marked)
            tn_buf_add(&d->both, piece->kind == TN_PROCESS_OUT ? "\1\1\1" : "\2\2\2", 3);
        tn_buf_add(&d->both, piece->bytes, piece->n);
        if (d->apart)
            tn_buf_add(piece->kind == TN_PROCESS_OUT ? &d->out : &d->err, piece->bytes, piece->n);
        break;
    case TN_PROCESS_END:
        d->exit_code = daytona_exit_code(piece->status);
        d->late = piece->status->late;
        break;
    case TN_PROCESS_LOST:
    case TN_PROCESS_BEAT:
        break;
    }
    return 0;
}

static int gather(struct daytona_call *c, const char *which, bool now, struct daytona_done *out,
                  struct tn_error *err)
{
    struct tn_process_follow f = {.now = now};

    if (process_follow(c->b, which, &f, keep, out, tn_http_fd(c->x), TN_NEVER, err))
        return -1;
    if (tn_buf_poor(&out->both))
        return tn_fail(err, TN_E_BUSY, "There is no memory for the output just now; try again");
    return tn_buf_ok(&out->both) ? 0
                                 : tn_fail(err, TN_E_TOO_LARGE, "The output is more than %d MiB",
                                           DAYTONA_ANSWER_MAX >> 20);
}

int daytona_await(struct daytona_call *c, const char *which, struct daytona_done *out,
                  struct tn_error *err)
{
    return gather(c, which, false, out, err);
}

int daytona_so_far(struct daytona_call *c, const char *which, struct daytona_done *out,
                   struct tn_error *err)
{
    return gather(c, which, true, out, err);
}

/* Runs it to its end and forgets it: only commands of sessions are asked for later. */
static int run(struct daytona_call *c, const struct tn_process_spec *spec, const char *input,
               struct daytona_done *out, struct tn_error *err)
{
    int64_t soon = tn_deadline_in(DAYTONA_SECONDS);
    struct process_started started;

    if (daytona_start(c, spec, &started, err))
        return -1;
    if (input) { /* one that did not want all of it has ended, or will say why */
        process_input(c->b, started.id, 0, input, strlen(input), NULL, soon, NULL);
        process_close_input(c->b, started.id, soon, NULL);
    }
    int failed = daytona_await(c, started.id, out, err);
    if (!failed)
        process_remove(c->b, started.id, soon, NULL);
    return failed;
}

int daytona_run(struct daytona_call *c, const char *const *args, const char *input,
                struct daytona_done *out)
{
    /* What they say is looked at, hence the language; nobody is there to be asked. */
    static const char variables[] = "{\"LC_ALL\":\"C.UTF-8\",\"GIT_TERMINAL_PROMPT\":\"0\"}";
    tn_autoprocess struct tn_process_spec spec = {.input = input != NULL};
    tn_autojson struct tn_json *envs = NULL;
    struct tn_error err = {0};

    daytona_spec(c, &spec, args);
    if (tn_json_parse(variables, sizeof variables - 1, &envs, &err) == 0 &&
        surface_process_env(c->x, c->home, envs, &spec.env, &err) == 0 &&
        run(c, &spec, input, out, &err) == 0)
        return 0;
    reply_error(c->x, &err);
    return -1;
}

/* --- calls ----------------------------------------------------------------------------------- */

static void answer(struct daytona_call *c, const struct tn_process_spec *spec, bool charts)
{
    tn_autobuf struct tn_buf json = ANSWER_BUF(c->x, 2 * DAYTONA_ANSWER_MAX);
    autodone struct daytona_done done = DAYTONA_DONE(c->x);
    struct tn_jw w = tn_jw(&json);
    struct tn_error err = {0};

    if (run(c, spec, NULL, &done, &err)) {
        reply_error(c->x, &err);
        return;
    }
    if (done.late) {
        daytona_fail(c->x, 408, NULL, "command execution timeout: %g seconds are over",
                     spec->seconds);
        return;
    }
    tn_jw_object(&w);
    tn_jw_kint(&w, "exitCode", done.exit_code);
    tn_jw_key(&w, "result");
    tn_jw_strn(&w, tn_buf_str(&done.both), done.both.len);
    if (charts) {
        tn_jw_key(&w, "artifacts");
        tn_jw_raw(&w, "{\"charts\":[]}", 13);
    }
    tn_jw_object_end(&w);
    tn_http_reply_json(c->x, 200, &json);
}

/* Clients of 0.24 write variables into the command line: sh -c "export NAME=$(...); ...".  Read by
 * a shell before that one, a value would end at its first space: what is between the quotes, on the
 * heap; NULL: the command is another one. */
static char *unwrap(const char *command)
{
    static const char begin[] = "sh -c \"";
    const char *inner = command + sizeof begin - 1;
    size_t n = strlen(command);

    if (strncmp(command, begin, sizeof begin - 1) != 0 || strncmp(inner, "export ", 7) != 0 ||
        strcspn(inner, "\"\\") != n - sizeof begin || command[n - 1] != '"')
        return NULL;
    return tn_strndup(inner, n - sizeof begin);
}

static void execute(struct daytona_call *c)
{
    tn_autoprocess struct tn_process_spec spec = {0};
    tn_autojson struct tn_json *body = NULL;
    struct tn_error err = {0};

    if (surface_body(c->x, DAYTONA_BODY_MAX, &body))
        return;
    const char *command = tn_json_get_str(body, "command", NULL);
    if (!command || !*command) {
        daytona_fail(c->x, 400, NULL, "command: expected a command line");
        return;
    }
    tn_autofiles struct tn_hand_files *f = daytona_files(c);
    if (!f)
        return;
    tn_autofree char *inner = unwrap(command);
    daytona_spec(c, &spec,
                 (const char *const[]){daytona_shell(f), "-c", inner ? inner : command, NULL});
    if (daytona_read_spec(c, body, &spec, &err))
        reply_error(c->x, &err);
    else
        answer(c, &spec, false);
}

static const struct {
    const char *language;
    const char *program, *option;
} languages[] = {
    {"python", "python3", "-c"},
    {"javascript", "node", "-e"},
    {"typescript", "ts-node", "-e"},
};

static void code_run(struct daytona_call *c)
{
    tn_autoprocess struct tn_process_spec spec = {0};
    tn_autojson struct tn_json *body = NULL;
    struct tn_error err = {0};
    size_t i = 0;

    if (surface_body(c->x, DAYTONA_BODY_MAX, &body))
        return;
    const char *language = tn_json_get_str(body, "language", "python");
    const char *code = tn_json_get_str(body, "code", NULL);
    const struct tn_json *argv = tn_json_get(body, "argv");
    while (i < TN_COUNT(languages) && strcmp(language, languages[i].language) != 0)
        i++;
    if (!code || i == TN_COUNT(languages)) {
        daytona_fail(c->x, 400, NULL,
                     "code and language: expected a text, and python, javascript "
                     "or typescript");
        return;
    }
    daytona_spec(c, &spec,
                 (const char *const[]){languages[i].program, languages[i].option, code, NULL});
    for (size_t n = 0; n < tn_json_count(argv); n++)
        surface_add_arg(&spec.args, tn_json_str(tn_json_at(argv, n), NULL)
                                        ? tn_json_str(tn_json_at(argv, n), NULL)
                                        : "");
    if (daytona_read_spec(c, body, &spec, &err))
        reply_error(c->x, &err);
    else
        answer(c, &spec, true);
}

/* --- variables of all of them ----------------------------------------------------------------- */

enum { ENV_BODY_MAX = 1 << 20, UNSET_MAX = 1024 };

static bool is_list_of_texts(const struct tn_json *list)
{
    for (size_t i = 0; i < tn_json_count(list); i++)
        if (tn_json_type(tn_json_at(list, i)) != TN_JSON_STRING)
            return false;
    return tn_json_type(list) == TN_JSON_ARRAY;
}

/* A member of the body, NULL when it is absent or null. */
static const struct tn_json *given(const struct tn_json *body, const char *name)
{
    const struct tn_json *value = tn_json_get(body, name);

    return value && tn_json_type(value) != TN_JSON_NULL ? value : NULL;
}

static void change_env(struct daytona_call *c, const struct tn_json *unset,
                       const struct tn_json *set)
{
    struct tn_error err = {0};
    int failed = box_change_env(c->b, unset, set, &err);

    if (native_audit(c->x, box_service(c->b), "sandbox.change", box_id(c->b), failed ? &err : NULL))
        return;
    if (failed)
        reply_error(c->x, &err);
    else
        tn_http_reply(c->x, 200, "application/json", "{\"message\":\"Environment updated\"}", 33);
}

static void post_env(struct daytona_call *c)
{
    tn_autojson struct tn_json *body = NULL;

    if (surface_body(c->x, ENV_BODY_MAX, &body))
        return;
    const struct tn_json *set = given(body, "set"), *unset = given(body, "unset");
    if (set && tn_json_type(set) != TN_JSON_OBJECT)
        daytona_fail(c->x, 400, NULL, "set: expected an object of texts");
    else if (unset && (!is_list_of_texts(unset) || tn_json_count(unset) > UNSET_MAX))
        daytona_fail(c->x, 400, NULL, "unset: expected at most %d names", UNSET_MAX);
    else if (given(body, "unsetValuePrefix"))
        daytona_fail(c->x, 400, NULL, "unsetValuePrefix is not served here");
    else
        change_env(c, unset, set);
}

const struct daytona_row daytona_process_rows[] = {
    {"POST", "env", post_env, NULL},
    {"POST", "process/execute", execute, NULL},
    {"POST", "process/code-run", code_run, NULL},
    {0},
};
