#include "security/trace.h"

#include "base/utf8.h"

/* What a tool said may be long; its beginning tells enough. */
enum { CONTENT_MAX = 8000 };

struct tn_json *security_action_tree(const struct tn_action *a, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(SECURITY_SHOWN_MAX);
    struct tn_jw w = tn_jw(&text);
    struct tn_json *tree = NULL;

    tn_action_to_json(a, &w);
    if (!tn_buf_ok(&text) || tn_json_parse(tn_buf_str(&text), text.len, &tree, NULL))
        tn_fail(err, TN_E_TOO_LARGE, "the action is too large to be shown to it");
    return tree;
}

static int put_arg(const char *key, struct tn_json *value, void *ctx)
{
    static const char *const left_out[] = {"thought", "security_risk", "confirmation_state"};
    struct tn_jw *w = ctx;

    for (size_t i = 0; i < TN_COUNT(left_out); i++)
        if (strcmp(left_out[i], key) == 0)
            return 0;
    tn_jw_key(w, key);
    tn_jw_tree(w, value);
    return 0;
}

void security_put_args(const struct tn_json *action, struct tn_jw *w)
{
    tn_jw_object(w);
    tn_json_each(tn_json_get(action, "args"), put_arg, w);
    tn_jw_object_end(w);
}

/* --- messages --------------------------------------------------------------------------------- */

static void put_content(struct tn_jw *w, const struct tn_json *content)
{
    size_t n = 0;
    const char *s = tn_json_str(content, &n);

    tn_jw_key(w, "content");
    tn_jw_strn(w, s ? s : "", tn_utf8_offset(s ? s : "", n, CONTENT_MAX));
}

static void put_message(struct security_trace *t, const char *role, const struct tn_json *content)
{
    tn_jw_object(t->w);
    tn_jw_kstr(t->w, "role", role);
    put_content(t->w, content);
    tn_jw_object_end(t->w);
}

static void put_id(struct security_trace *t, const char *key)
{
    char id[16];

    snprintf(id, sizeof id, "%d", t->calls);
    tn_jw_kstr(t->w, key, id);
}

/* Arguments are an object for one, JSON in a string for the other. */
static void put_call(struct security_trace *t, const char *name, const struct tn_json *event)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(SECURITY_SHOWN_MAX);
    struct tn_jw args = tn_jw(&text);

    security_put_args(event, &args);
    t->calls++;
    tn_jw_object(t->w);
    put_id(t, "id");
    tn_jw_kstr(t->w, "type", "function");
    tn_jw_key(t->w, "function");
    tn_jw_object(t->w);
    tn_jw_kstr(t->w, "name", name);
    tn_jw_key(t->w, "arguments");
    if (t->form == SECURITY_TRACE_OPENAI)
        tn_jw_strn(t->w, tn_buf_str(&text), text.len);
    else
        tn_jw_raw(t->w, tn_buf_str(&text), text.len);
    tn_jw_object_end(t->w);
    tn_jw_object_end(t->w);
}

static void put_action(struct security_trace *t, const char *name, const struct tn_json *event)
{
    const struct tn_json *thought = tn_json_get(tn_json_get(event, "args"), "thought");
    size_t thought_len = 0;

    tn_json_str(thought, &thought_len);
    if (t->form == SECURITY_TRACE_INVARIANT) {
        if (thought_len > 0)
            put_message(t, "assistant", thought);
        put_call(t, name, event);
        return;
    }
    tn_jw_object(t->w);
    tn_jw_kstr(t->w, "role", "assistant");
    put_content(t->w, thought);
    tn_jw_key(t->w, "tool_calls");
    tn_jw_array(t->w);
    put_call(t, name, event);
    tn_jw_array_end(t->w);
    tn_jw_object_end(t->w);
}

/* Of a tool whose call is not shown, nobody could make anything. */
static void put_result(struct security_trace *t, const struct tn_json *event)
{
    if (t->calls == 0)
        return;
    tn_jw_object(t->w);
    tn_jw_kstr(t->w, "role", "tool");
    put_content(t->w, tn_json_get(event, "content"));
    put_id(t, "tool_call_id");
    tn_jw_object_end(t->w);
}

void security_trace_event(struct security_trace *t, const struct tn_json *event)
{
    const char *action = tn_json_get_str(event, "action", NULL);
    enum tn_action_type type;

    if (tn_json_get_str(event, "observation", NULL))
        put_result(t, event);
    if (!action || tn_action_type_from_name(action, &type, NULL))
        return;
    if (type == TN_ACTION_MESSAGE) {
        bool user = strcmp(tn_json_get_str(event, "source", ""), "user") == 0;
        put_message(t, user ? "user" : "assistant",
                    tn_json_get(tn_json_get(event, "args"), "content"));
    } else if (tn_action_judged(type)) {
        put_action(t, action, event);
    }
}

void security_trace_history(struct security_trace *t, const struct tn_history *history, size_t most)
{
    size_t count = history ? history->count : 0;

    for (size_t i = count > most ? count - most : 0; i < count; i++)
        security_trace_event(t, history->events[i]);
}
