/* /v1/sessions: named shells. */
#include "base/clock.h"
#include "base/fs.h"
#include "hand/plugin.h"
#include "hand/routes.h"
#include "hand/v1/v1.h"

/* --- looking ------------------------------------------------------------------------------- */

static void write_session(struct tn_session *s, void *ctx)
{
    struct tn_jw *w = ctx;
    struct tn_session_state state;
    tn_autofree char *cwd = tn_session_cwd(s);

    tn_session_inspect(s, &state);
    tn_jw_object(w);
    tn_jw_kstr(w, "name", state.name);
    tn_jw_kstr(w, "shell", state.program);
    tn_jw_key(w, "pid");
    state.pid ? tn_jw_int(w, state.pid) : tn_jw_null(w);
    tn_jw_kbool(w, "running", state.running);
    tn_jw_kstr(w, "cwd", cwd);
    tn_jw_kint(w, "commands", (int64_t)state.commands);
    tn_jw_kint(w, "terminals", state.terminals);
    tn_jw_kdouble(w, "idle_seconds", state.idle_seconds);
    tn_jw_kdouble(w, "age_seconds", state.age_seconds);
    tn_jw_object_end(w);
}

/* Lets go of the session. */
static void reply_session(struct tn_http_exchange *x, int status, struct tn_session *s)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(64 << 10);
    struct tn_jw w = tn_jw(&json);

    write_session(s, &w);
    tn_session_unref(s);
    tn_http_reply_json(x, status, &json);
}

static void list_sessions(struct tn_http_exchange *x, void *ctx)
{
    struct tn_hand *hand = ctx;
    tn_autobuf struct tn_buf json = TN_BUF_INIT(4 << 20);
    struct tn_jw w = tn_jw(&json);

    tn_jw_object(&w);
    tn_jw_key(&w, "sessions");
    tn_jw_array(&w);
    tn_sessions_each(hand->sessions, write_session, &w);
    tn_jw_array_end(&w);
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 200, &json);
}

static void get_session(struct tn_http_exchange *x, void *ctx)
{
    struct tn_session *s = tn_v1_session(x, ctx);
    if (s)
        reply_session(x, 200, s);
}

/* --- making and ending --------------------------------------------------------------------- */

/* A shell would start elsewhere and only complain on its terminal.  -1: answered. */
static int check_cwd(struct tn_http_exchange *x, struct tn_hand *hand, const char *cwd)
{
    tn_autoact struct tn_act_as as = {0};
    tn_autofree char *inside = tn_asprintf("%s/.", cwd); /* may it be entered? */
    struct tn_error err;

    if (tn_v1_act_as_user(x, hand, &as) < 0)
        return -1;
    tn_autofd int fd = tn_fs_open(TN_FS_ANYWHERE, inside, O_PATH | O_DIRECTORY, 0, &err);
    if (fd >= 0)
        return 0;
    tn_error_context(&err, "cwd");
    tn_http_reply_detail(x, 422, err.text);
    return -1;
}

/* What could not be started is the fault of whoever chose the shell, if anybody did. */
static void reply_no_shell(struct tn_http_exchange *x, const char *shell, struct tn_error *err)
{
    if (shell)
        tn_error_context(err, "shell %s", shell);
    tn_http_reply_detail(x, shell ? 422 : 500, err->text);
}

static void create_session(struct tn_http_exchange *x, void *ctx)
{
    struct tn_hand *hand = ctx;
    tn_autojson struct tn_json *body = NULL;
    tn_autofree char *cwd = NULL;
    const char *name, *shell, *directory;
    struct tn_error err;

    if (tn_v1_body(x, &body) < 0 || tn_v1_string(x, body, "name", true, &name) < 0 ||
        tn_v1_string(x, body, "shell", false, &shell) < 0 ||
        tn_v1_string(x, body, "cwd", false, &directory) < 0)
        return;
    if (directory) {
        cwd = tn_v1_path(x, directory, "cwd");
        if (!cwd || check_cwd(x, hand, cwd) < 0)
            return;
    }
    struct tn_session *s = tn_sessions_create(hand->sessions, name, shell, cwd, &err);
    if (!s) {
        tn_http_reply_error(x, &err);
        return;
    }
    if (tn_session_start(s, TN_NEVER, &err) < 0) { /* do not keep what cannot work */
        tn_session_unref(s);
        tn_sessions_remove(hand->sessions, name, NULL);
        reply_no_shell(x, shell, &err);
        return;
    }
    reply_session(x, 201, s);
}

static void remove_session(struct tn_http_exchange *x, void *ctx)
{
    struct tn_hand *hand = ctx;
    const char *name = tn_http_param(x, "name");
    struct tn_error err;

    if (tn_sessions_remove(hand->sessions, name ? name : "", &err) < 0) {
        tn_http_reply_error(x, &err);
        return;
    }
    tn_plugins_session_gone(hand, name);
    tn_http_reply(x, 204, NULL, NULL, 0);
}

static void end_shell(struct tn_http_exchange *x, struct tn_hand *hand, bool keep)
{
    struct tn_session *s = tn_v1_session(x, hand);

    if (!s)
        return;
    tn_session_reset(s, keep);
    reply_session(x, 200, s);
}

static void reset_session(struct tn_http_exchange *x, void *ctx)
{
    end_shell(x, ctx, false);
}

static void kill_session(struct tn_http_exchange *x, void *ctx)
{
    end_shell(x, ctx, true);
}

/* --- signals ------------------------------------------------------------------------------- */

static void signal_session(struct tn_http_exchange *x, void *ctx)
{
    tn_autojson struct tn_json *body = NULL;
    struct tn_error err;

    if (tn_v1_body(x, &body) < 0)
        return;
    int signo = tn_v1_signal(x, body);
    if (!signo)
        return;
    struct tn_session *s = tn_v1_session(x, ctx);
    if (!s)
        return;
    if (tn_session_signal(s, signo, &err) == 0) {
        reply_session(x, 200, s);
        return;
    }
    tn_session_unref(s);
    tn_http_reply_error(x, &err);
}

const struct tn_route tn_routes_sessions[] = {
    {"GET", "/v1/sessions", list_sessions, "all sessions", 0},
    {"POST", "/v1/sessions", create_session, "a new session: {name, shell, cwd}", 0},
    {"GET", "/v1/sessions/{name}", get_session, "one session", 0},
    {"DELETE", "/v1/sessions/{name}", remove_session, "kills and forgets it", 0},
    {"POST", "/v1/sessions/{name}/reset", reset_session,
     "kills the shell; the next one starts afresh", 0},
    {"POST", "/v1/sessions/{name}/kill", kill_session,
     "kills the shell; the next one has its directory and environment", 0},
    {"POST", "/v1/sessions/{name}/signal", signal_session, "{signal} to the running program", 0},
    {0},
};
