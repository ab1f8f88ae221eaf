/* Whether it is there, and how it fails. */
#include "service/swerex/swerex.h"

#include <stdarg.h>

enum { MESSAGE_MAX = 1 << 20 };

static void raise_text(struct tn_http_exchange *x, const char *class, const char *message)
{
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, REX_ANSWER_MAX);
    struct tn_jw w = tn_jw(&json);

    tn_jw_object(&w);
    tn_jw_key(&w, "swerexception");
    tn_jw_object(&w);
    tn_jw_kstr(&w, "message", message);
    tn_jw_kstr(&w, "class_path", class);
    tn_jw_kstr(&w, "traceback", "");
    tn_jw_key(&w, "extra_info");
    tn_jw_object(&w);
    if (strcmp(class, REX_SYNTAX) == 0) {
        tn_jw_kstr(&w, "bash_stdout", "");
        tn_jw_kstr(&w, "bash_stderr", message);
    }
    tn_jw_object_end(&w);
    tn_jw_object_end(&w);
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 511, &json);
}

void rex_raise(struct tn_http_exchange *x, const char *class, const char *fmt, ...)
{
    tn_autobuf struct tn_buf message = ANSWER_BUF(x, REX_ANSWER_MAX);
    va_list args;

    va_start(args, fmt);
    tn_buf_vprintf(&message, fmt, args);
    va_end(args);
    raise_text(x, class, tn_buf_str(&message));
}

void rex_raise_error(struct tn_http_exchange *x, const struct tn_error *err)
{
    static const struct {
        enum tn_code code;
        const char *class;
    } classes[] = {
        {TN_E_NOT_FOUND, "builtins.FileNotFoundError"},
        {TN_E_DENIED, "builtins.PermissionError"},
        {TN_E_INVALID, REX_VALUE},
        {TN_E_TIMEOUT, REX_TIMEOUT},
    };

    for (size_t i = 0; i < TN_COUNT(classes); i++)
        if (classes[i].code == err->code) {
            raise_text(x, classes[i].class, err->text);
            return;
        }
    raise_text(x, REX_EXCEPTION, err->text);
}

void rex_raise_exit(struct tn_http_exchange *x, const struct tn_json *body, int64_t code,
                    const char *output)
{
    tn_autobuf struct tn_buf command = TN_BUF_INIT(MESSAGE_MAX);
    const struct tn_json *given = tn_json_get(body, "command");
    const char *more = tn_json_get_str(body, "error_msg", "");
    struct tn_jw w = tn_jw(&command);

    tn_jw_tree(&w, given);
    rex_raise(x, REX_EXIT_CODE,
              "%s%sCommand %s failed with exit code %lld. Here is the output:\n%s", more,
              *more ? ": " : "", tn_buf_str(&command), (long long)code, output);
}

void rex_reply_nothing(struct tn_http_exchange *x)
{
    tn_http_reply(x, 200, "application/json", "{}", 2);
}

static void get_alive(struct tn_http_exchange *x, void *ctx)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(4096);
    struct tn_jw w = tn_jw(&json);
    autoview struct box_view v = {0};

    autobox struct box *b = native_box(x, ctx, SCOPE_READ);
    if (!b)
        return;
    box_look(b, &v);
    /* One that rests is woken by the next request. */
    bool alive = v.state == BOX_RUNNING || v.state == BOX_PAUSED || v.asleep;
    tn_jw_object(&w);
    tn_jw_kbool(&w, "is_alive", alive);
    tn_jw_kstr(&w, "message", alive ? "" : v.reason ? v.reason : box_state_words[v.state]);
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 200, &json);
}

const struct tn_route routes_swerex[] = {
    {"GET", "/swerex/{id}/is_alive", get_alive, "SWE-ReX: whether it can be used", 0},
    {0},
};
