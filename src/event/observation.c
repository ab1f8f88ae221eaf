#include "event/observation.h"

#include "base/error-hide.h"
#include "base/nearest.h"
#include "base/utf8.h"
#include "event/kinds.h"

#define MESSAGE_MAX ((size_t)1 << 30)
#define ERROR_MAX ((size_t)64 << 20)

static const char cut_note[] = "\n[... Observation truncated due to length ...]\n";

/* Where old hosts and journals have them. */
static const struct tn_field legacy_rows[] = {
    TN_INT("exit_code", struct tn_observation, run.metadata.exit_code, .fallback = "-1",
           .flags = TN_FIELD_TEXT_NUMBER),
    TN_INT("command_id", struct tn_observation, run.metadata.pid, .fallback = "-1",
           .flags = TN_FIELD_TEXT_NUMBER),
};
static const struct tn_fields legacy = TN_FIELDS(legacy_rows);

static const struct tn_field content_rows[] = {
    TN_TEXT("content", struct tn_observation, content, .help = "what the agent reads"),
};
static const struct tn_fields content_field = TN_FIELDS(content_rows);

const char *tn_observation_name(enum tn_observation_type type)
{
    return tn_observation_kinds[type].name;
}

int tn_observation_type_from_name(const char *name, enum tn_observation_type *type,
                                  struct tn_error *err)
{
    struct tn_nearest near = tn_nearest(name);

    for (size_t i = 0; i < TN_OBSERVATION_TYPE_COUNT; i++) {
        if (strcmp(name, tn_observation_kinds[i].name) == 0) {
            *type = (enum tn_observation_type)i;
            return 0;
        }
        tn_nearest_offer(&near, tn_observation_kinds[i].name);
    }
    if (near.best)
        return tn_fail(err, TN_E_UNSUPPORTED,
                       "unknown observation type '%.60s'; did you mean '%s'?", name, near.best);
    return tn_fail(err, TN_E_UNSUPPORTED, "unknown observation type '%.60s'", name);
}

void tn_observation_init(struct tn_observation *o, enum tn_observation_type type)
{
    memset(o, 0, sizeof *o);
    o->type = type;
    tn_event_init(&o->event);
    tn_fields_defaults(&tn_observation_kinds[type].extras, o);
}

void tn_observation_done(struct tn_observation *o)
{
    tn_fields_done(&tn_observation_kinds[o->type].extras, o);
    tn_fields_done(&content_field, o);
    tn_event_done(&o->event);
}

void tn_observation_take_content(struct tn_observation *o, struct tn_buf *content)
{
    size_t len = content->len;

    free(o->content.data);
    o->content = (struct tn_text){.data = tn_buf_take(content), .len = len};
}

void tn_observation_set_content(struct tn_observation *o, const char *text)
{
    free(o->content.data);
    o->content = (struct tn_text){.data = tn_strdup(text), .len = strlen(text)};
}

void tn_observation_init_error(struct tn_observation *o, const struct tn_action *a, const char *fmt,
                               ...)
{
    struct tn_buf text = TN_BUF_INIT(ERROR_MAX);
    va_list ap;

    if (a && tn_action_hidden(a)) {
        tn_observation_init(o, TN_OBSERVATION_RUN);
        o->run.command = tn_strdup_or_null(a->run.command);
        o->run.hidden = true;
    } else {
        tn_observation_init(o, TN_OBSERVATION_ERROR);
    }
    va_start(ap, fmt);
    tn_buf_vprintf(&text, fmt, ap);
    va_end(ap);
    tn_autofree char *told = tn_hide_paths(tn_buf_str(&text));
    if (told) {
        tn_buf_reset(&text);
        tn_buf_puts(&text, told);
    }
    tn_observation_take_content(o, &text);
}

bool tn_observation_is_starting(const struct tn_observation *o)
{
    const char *end = o->type == TN_OBSERVATION_RUN ? o->run.metadata.end : NULL;

    return end && strcmp(end, "starting") == 0;
}

bool tn_observation_init_unconfirmed(struct tn_observation *o, const struct tn_action *a)
{
    switch (a->confirmation_state) {
    case TN_CONFIRMED:
        return false;
    case TN_AWAITING_CONFIRMATION:
        tn_observation_init(o, TN_OBSERVATION_NULL);
        tn_observation_set_content(o, "");
        return true;
    case TN_REJECTED:
        tn_observation_init(o, TN_OBSERVATION_USER_REJECTED);
        tn_observation_set_content(
            o, "Action has been rejected by the user! Waiting for further user input.");
        return true;
    }
    return false;
}

void tn_observation_init_bad_action(struct tn_observation *o, const struct tn_action *a,
                                    const char *why)
{
    tn_observation_init_error(o, NULL, "Action %s %s", tn_action_name(a->type), why);
    free(o->error_id);
    o->error_id = tn_strdup("AGENT_ERROR$BAD_ACTION");
}

bool tn_observation_init_by_host(struct tn_observation *o, const struct tn_action *a)
{
    if (a->type == TN_ACTION_EDIT && a->edit.impl_source == TN_EDIT_LLM) {
        tn_observation_init_bad_action(o, a, "is not supported in the current runtime.");
        return true;
    }
    if (tn_action_runnable(a->type))
        return false;
    bool thought = a->type == TN_ACTION_THINK;
    tn_observation_init(o, thought ? TN_OBSERVATION_THINK : TN_OBSERVATION_NULL);
    tn_observation_set_content(o, thought ? "Your thought has been logged." : "");
    return true;
}

/* --- the cut --------------------------------------------------------------------------- */

static bool is_cut(const struct tn_observation *o)
{
    return o->type == TN_OBSERVATION_RUN && !o->run.hidden && o->content.len > TN_CONTENT_LIMIT;
}

/* Only the ends are looked at where the size alone tells that the text is too long. */
static bool is_too_long(const char *text, size_t len)
{
    return len > TN_CONTENT_LIMIT &&
           (len > 4 * TN_CONTENT_LIMIT || tn_utf8_length(text, len) > TN_CONTENT_LIMIT);
}

/* Where the character before `at` starts. */
static size_t step_back(const char *text, size_t at)
{
    uint32_t cp;

    for (size_t n = 1; n <= 4 && n <= at; n++)
        if (tn_utf8_decode(text + at - n, n, &cp) == n)
            return at - n;
    return at - 1;
}

void tn_put_cut(const char *text, size_t len, struct tn_buf *out)
{
    const size_t half = TN_CONTENT_LIMIT / 2;
    size_t tail = len;

    if (!is_too_long(text, len)) {
        tn_buf_add(out, text, len);
        return;
    }
    for (size_t i = 0; i < half; i++)
        tail = step_back(text, tail);
    tn_buf_add(out, text, tn_utf8_offset(text, len, half));
    tn_buf_puts(out, cut_note);
    tn_buf_add(out, text + tail, len - tail);
}

/* --- encoding -------------------------------------------------------------------------- */

/* The message of most errors and of all host answers is the content itself. */
static bool message_is_content(const struct tn_observation_kind *kind)
{
    return !kind->message && !kind->put_message;
}

void tn_observation_put_message(const struct tn_observation *o, struct tn_buf *out)
{
    const struct tn_observation_kind *kind = &tn_observation_kinds[o->type];

    if (kind->put_message)
        kind->put_message(o, out);
    else if (kind->message)
        tn_put_template(kind->message, &kind->extras, o, out);
    else
        tn_buf_add(out, o->content.data, o->content.len);
}

static void write_text(struct tn_jw *w, const char *key, const char *s, size_t n)
{
    tn_jw_key(w, key);
    tn_jw_strn(w, s ? s : "", n);
}

static void write_message(const struct tn_observation *o, struct tn_jw *w)
{
    tn_autobuf struct tn_buf message = TN_BUF_INIT(MESSAGE_MAX);

    if (message_is_content(&tn_observation_kinds[o->type])) {
        write_text(w, "message", o->content.data, o->content.len);
        return;
    }
    tn_observation_put_message(o, &message);
    write_text(w, "message", message.data, message.len);
}

static void write_content(const struct tn_observation *o, struct tn_jw *w)
{
    tn_autobuf struct tn_buf cut = TN_BUF_INIT(4 * TN_CONTENT_LIMIT + sizeof cut_note);

    if (!is_cut(o)) {
        write_text(w, "content", o->content.data, o->content.len);
        return;
    }
    tn_put_cut(o->content.data, o->content.len, &cut);
    write_text(w, "content", cut.data, cut.len);
}

void tn_observation_to_json(const struct tn_observation *o, struct tn_jw *w)
{
    const struct tn_observation_kind *kind = &tn_observation_kinds[o->type];

    tn_jw_object(w);
    tn_fields_to_json(&tn_event_head, &o->event, w);
    write_message(o, w);
    tn_jw_kstr(w, "observation", kind->name);
    tn_fields_to_json(&tn_event_tail, &o->event, w);
    write_content(o, w);
    tn_jw_key(w, "extras");
    tn_jw_object(w);
    tn_fields_to_json(&kind->extras, o, w);
    tn_jw_object_end(w);
    if (kind->success)
        tn_jw_kbool(w, "success", kind->success(o));
    tn_jw_object_end(w);
}

/* --- decoding -------------------------------------------------------------------------- */

static int read_extras(struct tn_observation *o, const struct tn_json *json, struct tn_error *err)
{
    const struct tn_observation_kind *kind = &tn_observation_kinds[o->type];
    struct tn_json *extras = tn_json_get(json, "extras");

    if (extras &&
        (tn_fields_from_json(&kind->extras, o, extras, err) < 0 ||
         (o->type == TN_OBSERVATION_RUN && tn_fields_from_json(&legacy, o, extras, err) < 0)))
        return tn_error_context(err, "observation %s: extras", kind->name);
    if (tn_fields_check(&kind->extras, o, err) < 0)
        return tn_error_context(err, "observation %s: extras", kind->name);
    if (tn_fields_from_json(&content_field, o, json, err) < 0)
        return tn_error_context(err, "observation %s", kind->name);
    return 0;
}

static int cut_content(struct tn_observation *o, struct tn_error *err)
{
    struct tn_buf cut = TN_BUF_INIT(4 * TN_CONTENT_LIMIT + sizeof cut_note);

    if (!is_cut(o))
        return 0;
    tn_put_cut(o->content.data, o->content.len, &cut);
    if (!tn_buf_ok(&cut)) {
        tn_buf_done(&cut);
        return tn_fail(err, TN_E_TOO_LARGE, "observation run: out of memory");
    }
    tn_observation_take_content(o, &cut);
    return 0;
}

int tn_observation_from_json(const struct tn_json *json, struct tn_observation *o,
                             struct tn_error *err)
{
    const char *name = tn_json_get_str(json, "observation", NULL);
    enum tn_observation_type type;

    if (tn_event_kind(json) != TN_EVENT_OBSERVATION)
        return tn_fail(err, TN_E_INVALID, "expected an object with the key observation, found %s",
                       tn_json_type(json) == TN_JSON_OBJECT ? "one without it"
                                                            : tn_json_type_name(json));
    if (!name)
        return tn_fail(err, TN_E_INVALID, "observation: expected a string, found %s",
                       tn_json_type_name(tn_json_get(json, "observation")));
    if (tn_observation_type_from_name(name, &type, err) < 0)
        return -1;
    tn_observation_init(o, type);
    tn_event_from_json(&o->event, json);
    if (read_extras(o, json, err) < 0 || cut_content(o, err) < 0) {
        tn_observation_done(o);
        return -1;
    }
    if (type == TN_OBSERVATION_RUN_IPYTHON) /* an extra would be one too many for OpenHands */
        o->run_ipython.failed = !tn_json_bool(tn_json_get(json, "success"), true);
    return 0;
}
