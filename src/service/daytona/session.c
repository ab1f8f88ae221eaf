/* Sessions: commands that find the directory and the variables that the one before left.
 *
 * Each command is a process of its own, so that it is judged and journaled as any other, with the
 * session's name as its tag; its id is the command's.  What one leaves to the next is a file in
 * the sandbox, which the shell reads first and writes last. */
#include <strings.h>

#include "service/daytona/daytona.h"

#define SESSIONS "/tmp/.daytona-sessions"
#define TAG "session:"
enum {
    NAME_MAX_BYTES = 100,
    SCRIPT_MAX = DAYTONA_BODY_MAX + 4096,
    PREAMBLE_LINES = 2,
    MOST_PROCESSES = 256
};

bool daytona_is_name(const char *text)
{
    size_t n = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");

    return n > 0 && n <= NAME_MAX_BYTES && !text[n] && *text != '.';
}

/* --- which one ------------------------------------------------------------------------------- */

static int no_session(struct daytona_call *c)
{
    return daytona_fail(c->x, 404, NULL, "session %.100s not found", c->words[0]);
}

/* Whether there is a session of that name; -1: there is none, answered. */
static int find_session(struct daytona_call *c, struct tn_hand_files *f)
{
    tn_autofree char *dir = tn_asprintf(SESSIONS "/%s", c->words[0]);
    tn_autoentry struct tn_entry e = {0};

    if (!daytona_is_name(c->words[0]) ||
        tn_hand_files_stat(f, dir, false, &e, tn_deadline_in(DAYTONA_SECONDS), NULL) ||
        e.type != TN_ENTRY_DIRECTORY)
        return no_session(c);
    return 0;
}

static bool is_of(const struct tn_process_status *s, const char *session)
{
    const char *tag = s->spec.tag;

    return tag && strncmp(tag, TAG, sizeof TAG - 1) == 0 &&
           strcmp(tag + sizeof TAG - 1, session) == 0;
}

static bool is_process_id(const char *text)
{
    return *text == 'p' && strlen(text) == TN_PROCESS_ID_SIZE - 1 &&
           strspn(text + 1, "0123456789abcdef") == TN_PROCESS_ID_SIZE - 2;
}

/* The command that the path names; -1: answered. */
static int find_command(struct daytona_call *c, struct tn_process_status *out)
{
    struct tn_error err = {0};

    if (!is_process_id(c->words[1]))
        return daytona_fail(c->x, 404, NULL, "command %.100s not found", c->words[1]);
    if (process_look(c->b, c->words[1], out, tn_deadline_in(DAYTONA_SECONDS), &err)) {
        reply_error(c->x, &err);
        return -1;
    }
    if (is_of(out, c->words[0]))
        return 0;
    tn_process_status_done(out);
    *out = (struct tn_process_status){0};
    return daytona_fail(c->x, 404, NULL, "command %.100s not found", c->words[1]);
}

/* --- as objects ------------------------------------------------------------------------------ */

/* What the client has written of the script. */
static const char *command_of(const struct tn_process_status *s)
{
    const char *text = s->spec.args.count == 3 ? s->spec.args.items[2] : "";

    for (int i = 0; i < PREAMBLE_LINES && text; i++) {
        text = strchr(text, '\n');
        text = text ? text + 1 : NULL;
    }
    return text ? text : "";
}

static void put_command(struct tn_jw *w, const struct tn_process_status *s)
{
    tn_jw_object(w);
    tn_jw_kstr(w, "id", s->id);
    tn_jw_kstr(w, "command", command_of(s));
    if (!s->running)
        tn_jw_kint(w, "exitCode", daytona_exit_code(s));
    tn_jw_object_end(w);
}

struct listing {
    struct daytona_call *c;
    struct tn_jw *w;
    const char *session;
};

static int list_command(const struct tn_process_status *s, void *ctx)
{
    struct listing *l = ctx;

    if (is_of(s, l->session))
        put_command(l->w, s);
    return 0;
}

static int put_session(struct daytona_call *c, struct tn_jw *w, const char *name,
                       struct tn_error *err)
{
    struct listing l = {.c = c, .w = w, .session = name};

    tn_jw_object(w);
    tn_jw_kstr(w, "sessionId", name);
    tn_jw_key(w, "commands");
    tn_jw_array(w);
    int failed = process_list(c->b, list_command, &l, tn_deadline_in(DAYTONA_SECONDS), err);
    tn_jw_array_end(w);
    tn_jw_object_end(w);
    return failed;
}

/* --- sessions -------------------------------------------------------------------------------- */

static void post_session(struct daytona_call *c)
{
    tn_autojson struct tn_json *body = NULL;
    tn_autoentry struct tn_entry e = {0};
    int64_t soon = tn_deadline_in(DAYTONA_SECONDS);
    struct tn_error err = {0};

    if (surface_body(c->x, DAYTONA_BODY_MAX, &body))
        return;
    const char *name = tn_json_get_str(body, "sessionId", "");
    if (!daytona_is_name(name)) {
        daytona_fail(c->x, 400, NULL, "sessionId: expected letters, digits, '.', '_' and '-'");
        return;
    }
    tn_autofiles struct tn_hand_files *f = daytona_files(c);
    if (!f)
        return;
    tn_autofree char *dir = tn_asprintf(SESSIONS "/%s", name);
    tn_autofree char *state = tn_asprintf("%s/state", dir);
    if (tn_hand_files_stat(f, dir, false, &e, soon, NULL) == 0)
        daytona_fail(c->x, 409, "CONFLICT", "session %s exists already", name);
    else if (tn_hand_files_mkdir(f, dir, 0700, soon, &err) ||
             tn_hand_files_put(f, state, "", 0, soon, &err))
        reply_error(c->x, &err);
    else
        tn_http_reply(c->x, 201, NULL, NULL, 0);
}

static int list_session(const struct tn_entry *e, void *ctx, struct tn_error *err)
{
    struct listing *l = ctx;

    return e->type == TN_ENTRY_DIRECTORY && daytona_is_name(e->name)
               ? put_session(l->c, l->w, e->name, err)
               : 0;
}

static void get_sessions(struct daytona_call *c)
{
    tn_autobuf struct tn_buf json = ANSWER_BUF(c->x, DAYTONA_ANSWER_MAX);
    struct tn_jw w = tn_jw(&json);
    struct listing l = {.c = c, .w = &w};
    struct tn_error err = {0};

    tn_autofiles struct tn_hand_files *f = daytona_files(c);
    if (!f)
        return;
    tn_jw_array(&w);
    if (tn_hand_files_list(f, SESSIONS, list_session, &l, tn_deadline_in(DAYTONA_SECONDS), &err) &&
        err.code != TN_E_NOT_FOUND) {
        reply_error(c->x, &err);
        return;
    }
    tn_jw_array_end(&w);
    tn_http_reply_json(c->x, 200, &json);
}

static void get_session(struct daytona_call *c)
{
    tn_autobuf struct tn_buf json = ANSWER_BUF(c->x, DAYTONA_ANSWER_MAX);
    struct tn_jw w = tn_jw(&json);
    struct tn_error err = {0};

    tn_autofiles struct tn_hand_files *f = daytona_files(c);
    if (!f || find_session(c, f))
        return;
    if (put_session(c, &w, c->words[0], &err))
        reply_error(c->x, &err);
    else
        tn_http_reply_json(c->x, 200, &json);
}

/* With all that runs in it. */
static void delete_session(struct daytona_call *c)
{
    int64_t soon = tn_deadline_in(DAYTONA_SECONDS);
    struct tn_error err = {0};

    tn_autofiles struct tn_hand_files *f = daytona_files(c);
    if (!f || find_session(c, f))
        return;
    tn_autofree char *dir = tn_asprintf(SESSIONS "/%s", c->words[0]);
    tn_autofree char *which = tn_asprintf("tag:" TAG "%s", c->words[0]);
    for (int i = 0; i < MOST_PROCESSES && process_remove(c->b, which, soon, &err) == 0; i++)
        ;
    if ((err.code != TN_E_NOT_FOUND && err.code != TN_OK) ||
        tn_hand_files_remove(f, dir, true, soon, &err))
        reply_error(c->x, &err);
    else
        tn_http_reply(c->x, 204, NULL, NULL, 0);
}

/* --- commands -------------------------------------------------------------------------------- */

/* The first two lines are ours: command_of skips them. */
static void write_script(struct tn_buf *out, const char *session, bool bash, const char *command)
{
    const char *saves = bash ? "declare -p; declare -f; set +o" : "export -p";
    tn_autofree char *state = tn_asprintf(SESSIONS "/%s/state", session);

    tn_buf_printf(out, ". %s 2>/dev/null; cd -- \"$PWD\" 2>/dev/null\n", state);
    tn_buf_printf(out, "trap '{ %s; } >%s.$$ 2>/dev/null && mv -f %s.$$ %s' EXIT\n", saves, state,
                  state, state);
    tn_buf_puts(out, command);
}

static void answer_done(struct daytona_call *c, const char *id, const struct daytona_done *done)
{
    tn_autobuf struct tn_buf json = ANSWER_BUF(c->x, 3 * DAYTONA_ANSWER_MAX);
    struct tn_jw w = tn_jw(&json);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "cmdId", id);
    if (done) {
        tn_jw_kint(&w, "exitCode", done->exit_code);
        daytona_put_done(&w, done);
    }
    tn_jw_object_end(&w);
    tn_http_reply_json(c->x, done ? 200 : 202, &json);
}

void daytona_put_done(struct tn_jw *w, const struct daytona_done *done)
{
    tn_jw_key(w, "output");
    tn_jw_strn(w, tn_buf_str(&done->both), done->both.len);
    if (!done->apart)
        return;
    tn_jw_key(w, "stdout");
    tn_jw_strn(w, tn_buf_str(&done->out), done->out.len);
    tn_jw_key(w, "stderr");
    tn_jw_strn(w, tn_buf_str(&done->err), done->err.len);
}

/* As that generation of clients wants it. */
static void choose_shape(const struct daytona_call *c, struct daytona_done *done)
{
    int version = daytona_version(c->x);

    done->apart = version >= DAYTONA_JSON;
    done->marked = version >= DAYTONA_MUXED && !done->apart;
}

static void post_exec(struct daytona_call *c)
{
    tn_autobuf struct tn_buf script = ANSWER_BUF(c->x, SCRIPT_MAX);
    autodone struct daytona_done done = DAYTONA_DONE(c->x);
    tn_autoprocess struct tn_process_spec spec = {0};
    tn_autojson struct tn_json *body = NULL;
    struct process_started started;
    struct tn_error err = {0};

    if (surface_body(c->x, DAYTONA_BODY_MAX, &body))
        return;
    const char *command = tn_json_get_str(body, "command", NULL);
    bool async = tn_json_bool(tn_json_get(body, "runAsync"), false) ||
                 tn_json_bool(tn_json_get(body, "async"), false);
    if (!command || !*command) {
        daytona_fail(c->x, 400, NULL, "command: expected a command line");
        return;
    }
    tn_autofiles struct tn_hand_files *f = daytona_files(c);
    if (!f || find_session(c, f))
        return;
    const char *shell = daytona_shell(f);
    write_script(&script, c->words[0], strstr(shell, "bash") != NULL, command);
    daytona_spec(c, &spec, (const char *const[]){shell, "-c", tn_buf_str(&script), NULL});
    spec.tag = tn_asprintf(TAG "%s", c->words[0]);
    spec.input = async; /* who waits for the end cannot type */
    choose_shape(c, &done);
    if (!tn_buf_ok(&script))
        daytona_fail(c->x, 413, NULL, "command: too long");
    else if (daytona_read_spec(c, NULL, &spec, &err) || daytona_start(c, &spec, &started, &err) ||
             (!async && daytona_await(c, started.id, &done, &err)))
        reply_error(c->x, &err);
    else
        answer_done(c, started.id, async ? NULL : &done);
}

static void get_command(struct daytona_call *c)
{
    tn_autobuf struct tn_buf json = ANSWER_BUF(c->x, DAYTONA_ANSWER_MAX);
    tn_autostatus struct tn_process_status status = {0};
    struct tn_jw w = tn_jw(&json);

    if (find_command(c, &status))
        return;
    put_command(&w, &status);
    tn_http_reply_json(c->x, 200, &json);
}

static void post_input(struct daytona_call *c)
{
    tn_autostatus struct tn_process_status status = {0};
    tn_autojson struct tn_json *body = NULL;
    struct tn_error err = {0};
    size_t n = 0;

    if (surface_body(c->x, DAYTONA_BODY_MAX, &body) || find_command(c, &status))
        return;
    const char *data = tn_json_str(tn_json_get(body, "data"), &n);
    if (!data)
        daytona_fail(c->x, 400, NULL, "data: expected a text");
    else if (process_input(c->b, status.id, UINT64_MAX, data, n, NULL,
                           tn_deadline_in(DAYTONA_SECONDS), &err))
        daytona_fail(c->x, err.code == TN_E_GONE ? 410 : 500,
                     err.code == TN_E_GONE ? "COMMAND_ALREADY_COMPLETED" : NULL, "%s", err.text);
    else
        tn_http_reply(c->x, 204, NULL, NULL, 0);
}

/* --- logs ------------------------------------------------------------------------------------ */

static int write_on(const struct tn_process_piece *piece, void *ctx)
{
    struct daytona_call *c = ctx;

    return (piece->kind == TN_PROCESS_OUT || piece->kind == TN_PROCESS_ERR) &&
           tn_http_write(c->x, piece->bytes, piece->n);
}

/* As text, for clients before there was a WebSocket for it. */
static void follow_text(struct daytona_call *c, const char *which)
{
    struct tn_process_follow f = {0};

    if (tn_http_start(c->x, 200, "text/plain; charset=utf-8", -1))
        return;
    if (process_follow(c->b, which, &f, write_on, c, tn_http_fd(c->x), TN_NEVER, NULL) == 0)
        tn_http_end(c->x);
    else
        tn_http_abort(c->x);
}

static void answer_logs(struct daytona_call *c, const char *which)
{
    tn_autobuf struct tn_buf json = ANSWER_BUF(c->x, 3 * DAYTONA_ANSWER_MAX);
    autodone struct daytona_done done = DAYTONA_DONE(c->x);
    const char *accept = tn_http_header(c->x, "Accept");
    struct tn_jw w = tn_jw(&json);
    struct tn_error err = {0};

    choose_shape(c, &done);
    done.apart = done.apart && (!accept || strstr(accept, "json") || strstr(accept, "*/*"));
    if (daytona_so_far(c, which, &done, &err)) {
        reply_error(c->x, &err);
    } else if (!done.apart) {
        tn_http_reply(c->x, 200, "text/plain; charset=utf-8", tn_buf_str(&done.both),
                      done.both.len);
    } else {
        tn_jw_object(&w);
        daytona_put_done(&w, &done);
        tn_jw_object_end(&w);
        tn_http_reply_json(c->x, 200, &json);
    }
}

static void get_logs(struct daytona_call *c)
{
    tn_autostatus struct tn_process_status status = {0};
    const char *upgrade = tn_http_header(c->x, "Upgrade"), *follow = tn_http_query(c->x, "follow");

    if (find_command(c, &status))
        return;
    if (upgrade && strcasecmp(upgrade, "websocket") == 0)
        daytona_stream(c, status.id, false);
    else if (follow && strcasecmp(follow, "true") == 0)
        follow_text(c, status.id);
    else
        answer_logs(c, status.id);
}

const struct daytona_row daytona_session_rows[] = {
    {"POST", "process/session", post_session, NULL},
    {"GET", "process/session", get_sessions, NULL},
    {"GET", "process/session/*", get_session, NULL},
    {"DELETE", "process/session/*", delete_session, NULL},
    {"POST", "process/session/*/exec", post_exec, NULL},
    {"GET", "process/session/*/command/*", get_command, NULL},
    {"POST", "process/session/*/command/*/input", post_input, NULL},
    {"GET", "process/session/*/command/*/logs", get_logs, NULL},
    {0},
};
