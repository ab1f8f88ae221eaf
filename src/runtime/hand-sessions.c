#include "runtime/hand-sessions.h"

#include "net/url.h"

enum { TARGET_MAX = 4096, BODY_MAX = 64 << 10 };

static int tell(const struct tn_hand_address *at, const char *method, const char *name,
                const char *what, const struct tn_buf *body, int64_t deadline, struct tn_error *err)
{
    tn_autobuf struct tn_buf target = TN_BUF_INIT(TARGET_MAX), answer = TN_BUF_INIT(BODY_MAX);

    tn_buf_puts(&target, "/v1/sessions/");
    tn_url_encode(&target, name, "");
    tn_buf_puts(&target, what);
    return tn_hand_ask(at, method, tn_buf_str(&target), body, &answer, deadline, err);
}

int tn_hand_session_make(const struct tn_hand_address *at, const char *name, const char *shell,
                         const char *cwd, int64_t deadline, struct tn_error *err)
{
    tn_autobuf struct tn_buf body = TN_BUF_INIT(BODY_MAX), answer = TN_BUF_INIT(BODY_MAX);
    struct tn_jw w = tn_jw(&body);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "name", name);
    if (shell)
        tn_jw_kstr(&w, "shell", shell);
    if (cwd)
        tn_jw_kstr(&w, "cwd", cwd);
    tn_jw_object_end(&w);
    return tn_hand_ask(at, "POST", "/v1/sessions", &body, &answer, deadline, err);
}

int tn_hand_session_signal(const struct tn_hand_address *at, const char *name, const char *number,
                           int64_t deadline, struct tn_error *err)
{
    tn_autobuf struct tn_buf body = TN_BUF_INIT(BODY_MAX);
    struct tn_jw w = tn_jw(&body);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "signal", number);
    tn_jw_object_end(&w);
    return tell(at, "POST", name, "/signal", &body, deadline, err);
}

int tn_hand_session_kill(const struct tn_hand_address *at, const char *name, int64_t deadline,
                         struct tn_error *err)
{
    struct tn_buf nothing = TN_BUF_INIT(0);

    return tell(at, "POST", name, "/kill", &nothing, deadline, err);
}

int tn_hand_session_remove(const struct tn_hand_address *at, const char *name, int64_t deadline,
                           struct tn_error *err)
{
    struct tn_buf nothing = TN_BUF_INIT(0);

    return tell(at, "DELETE", name, "", &nothing, deadline, err);
}

int tn_hand_session_get(const struct tn_hand_address *at, const char *name, struct tn_json **out,
                        int64_t deadline, struct tn_error *err)
{
    tn_autobuf struct tn_buf target = TN_BUF_INIT(TARGET_MAX), answer = TN_BUF_INIT(BODY_MAX);
    struct tn_buf nothing = TN_BUF_INIT(0);

    tn_buf_puts(&target, "/v1/sessions/");
    tn_url_encode(&target, name, "");
    if (tn_hand_ask(at, "GET", tn_buf_str(&target), &nothing, &answer, deadline, err) < 0)
        return -1;
    return tn_json_parse(tn_buf_str(&answer), answer.len, out, err);
}
