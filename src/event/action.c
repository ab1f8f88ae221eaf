#include "event/action.h"

#include "base/nearest.h"
#include "base/py-literal.h"
#include "event/kinds.h"

/* A message is about as long as the longest argument; those come from a peer. */
#define MESSAGE_MAX ((size_t)1 << 30)
enum { PLUGIN_NAME_MAX = 120 };

static const struct tn_field top_rows[] = {
    TN_OPT_DOUBLE("timeout", struct tn_action, timeout,
                  .flags = TN_FIELD_NULLABLE | TN_FIELD_SPARSE, .max = 1e15,
                  .help = "seconds until the hard timeout"),
};
static const struct tn_fields top = TN_FIELDS(top_rows);

static const struct tn_field message_rows[] = {
    TN_STRING("message", struct tn_action, message, .flags = TN_FIELD_LAX | TN_FIELD_SPARSE,
              .help = "for the user"),
};
static const struct tn_fields message_field = TN_FIELDS(message_rows);

/* Any action can be held back until a user agrees.  The protocol gives some types this argument;
 * the others take it too, and write it only when it says something. */
static const struct tn_field confirmation_rows[] = {
    TN_WORD("confirmation_state", struct tn_action, confirmation_state, tn_confirmations,
            .fallback = "confirmed", .alias = "is_confirmed"),
};
static const struct tn_fields confirmation_field = TN_FIELDS(confirmation_rows);

static bool has_own_confirmation(const struct tn_action_kind *kind)
{
    return tn_fields_find(&kind->args, confirmation_rows[0].name) != NULL;
}

const char *tn_action_name(enum tn_action_type type)
{
    return tn_action_kinds[type].name;
}

const char *tn_action_arg(const struct tn_action *a, const char *name, size_t *len)
{
    const struct tn_field *row = tn_fields_find(&tn_action_kinds[a->type].args, name);
    const char *member = row ? (const char *)a + row->offset : NULL;

    if (!row || (row->type != TN_FIELD_STRING && row->type != TN_FIELD_TEXT))
        return NULL;
    if (row->type == TN_FIELD_TEXT) {
        const struct tn_text *text = (const void *)member;
        *len = text->len;
        return text->data;
    }
    const char *text = *(char *const *)(const void *)member;
    *len = text ? strlen(text) : 0;
    return text;
}

bool tn_action_runnable(enum tn_action_type type)
{
    return type <= TN_ACTION_PLUGIN;
}

bool tn_action_judged(enum tn_action_type type)
{
    return tn_action_runnable(type) || type == TN_ACTION_NETWORK;
}

bool tn_action_hidden(const struct tn_action *a)
{
    return a->type == TN_ACTION_RUN && a->run.hidden;
}

/* The name of a plugin, a dot, and whatever the plugin calls its action. */
static bool is_plugin_name(const char *name)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    size_t plugin = strspn(name, letters);
    size_t action = name[plugin] == '.' ? strspn(name + plugin + 1, letters) : 0;

    return plugin && action && !name[plugin + 1 + action] && plugin + action < PLUGIN_NAME_MAX;
}

int tn_action_type_from_name(const char *name, enum tn_action_type *type, struct tn_error *err)
{
    struct tn_nearest near = tn_nearest(name);

    for (size_t i = 0; i < TN_ACTION_TYPE_COUNT; i++) {
        if (strcmp(name, tn_action_kinds[i].name) == 0) {
            *type = (enum tn_action_type)i;
            return 0;
        }
        tn_nearest_offer(&near, tn_action_kinds[i].name);
    }
    if (is_plugin_name(name)) {
        *type = TN_ACTION_PLUGIN;
        return 0;
    }
    if (near.best)
        return tn_fail(err, TN_E_UNSUPPORTED, "unknown action type '%.60s'; did you mean '%s'?",
                       name, near.best);
    return tn_fail(err, TN_E_UNSUPPORTED, "unknown action type '%.60s'", name);
}

void tn_action_init(struct tn_action *a, enum tn_action_type type)
{
    memset(a, 0, sizeof *a);
    a->type = type;
    a->security_risk = TN_RISK_UNKNOWN;
    a->confirmation_state = TN_CONFIRMED;
    tn_event_init(&a->event);
    tn_fields_defaults(&tn_action_kinds[type].args, a);
}

void tn_action_init_run(struct tn_action *a, const char *command, double seconds)
{
    tn_action_init(a, TN_ACTION_RUN);
    a->run.command = tn_strdup(command);
    a->timeout = (struct tn_opt_double){.set = true, .value = seconds};
}

void tn_action_done(struct tn_action *a)
{
    tn_fields_done(&tn_action_kinds[a->type].args, a);
    tn_fields_done(&message_field, a);
    if (a->type == TN_ACTION_PLUGIN) {
        free(a->plugin.name);
        tn_json_free(a->plugin.args);
    }
    tn_event_done(&a->event);
}

/* --- decoding -------------------------------------------------------------------------- */

static bool has_affixes(const char *s, size_t n, const char *prefix, const char *suffix)
{
    size_t before = strlen(prefix), after = strlen(suffix);
    return n >= before + after && memcmp(s, prefix, before) == 0 &&
           memcmp(s + n - after, suffix, after) == 0;
}

/* Long ago an edit travelled as Python code with its arguments inside: they win over those beside
 * it.  Code of any other form is ignored, as if it were not there. */
static int merge_translated_code(struct tn_action *a, const struct tn_json *args,
                                 struct tn_error *err)
{
    static const char prefix[] = "print(file_editor(**", suffix[] = "))";
    const struct tn_fields *fields = &tn_action_kinds[a->type].args;
    const struct tn_field *command = tn_fields_find(fields, "command");
    tn_autojson struct tn_json *inner = NULL;
    size_t n;
    const char *code = tn_json_str(tn_json_get(args, "translated_ipython_code"), &n);

    if (!code || !has_affixes(code, n, prefix, suffix))
        return 0;
    if (tn_py_literal(code + strlen(prefix), n - strlen(prefix) - strlen(suffix), &inner, NULL) <
            0 ||
        tn_json_type(inner) != TN_JSON_OBJECT)
        return 0;
    if (tn_fields_from_json(fields, a, inner, err) < 0)
        return -1;
    /* A view is a `read` today, which has no command. */
    if (command && strcmp(tn_json_get_str(inner, "command", ""), "view") == 0) {
        const struct tn_fields only_command = {.rows = command, .count = 1};
        tn_fields_done(&only_command, a);
        tn_fields_defaults(&only_command, a);
    }
    return 0;
}

/* Into an object: what a plugin gets, without what the host reads. */
static int put_plugin_arg(const char *key, struct tn_json *value, void *ctx)
{
    struct tn_jw *w = ctx;
    const struct tn_field *confirmation = &confirmation_rows[0];

    if (tn_fields_find(&tn_action_kinds[TN_ACTION_PLUGIN].args, key) ||
        strcmp(key, confirmation->name) == 0 || strcmp(key, confirmation->alias) == 0)
        return 0;
    tn_jw_key(w, key);
    tn_jw_tree(w, value);
    return 0;
}

static int keep_plugin_call(struct tn_action *a, const char *name, const struct tn_json *args,
                            struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(MESSAGE_MAX);
    struct tn_jw w = tn_jw(&text);

    a->plugin.name = tn_strdup(name);
    tn_jw_object(&w);
    tn_json_each(args, put_plugin_arg, &w);
    tn_jw_object_end(&w);
    return tn_json_parse(tn_buf_str(&text), text.len, &a->plugin.args, err);
}

static int read_args(struct tn_action *a, const struct tn_json *json, struct tn_error *err)
{
    const struct tn_action_kind *kind = &tn_action_kinds[a->type];
    struct tn_json *args = tn_json_get(json, "args");

    /* What an action does not have is ignored; this one is a mistake with a meaning, and the whole
     * file instead of the lines that were asked for is no answer to it. */
    if (a->type == TN_ACTION_EDIT && tn_json_type(tn_json_get(args, "view_range")) == TN_JSON_ARRAY)
        return tn_fail(err, TN_E_INVALID,
                       "action edit: args: view_range is for viewing: send the action read with "
                       "impl_source oh_aci");
    if (args && (tn_fields_from_json(&kind->args, a, args, err) < 0 ||
                 tn_fields_from_json(&confirmation_field, a, args, err) < 0 ||
                 merge_translated_code(a, args, err) < 0))
        return tn_error_context(err, "action %s: args", kind->name);
    if (tn_fields_check(&kind->args, a, err) < 0 || (kind->check && kind->check(a, err) < 0))
        return tn_error_context(err, "action %s: args", kind->name);
    if (tn_fields_from_json(&top, a, json, err) < 0)
        return tn_error_context(err, "action %s", kind->name);
    return 0;
}

int tn_action_from_json(const struct tn_json *json, struct tn_action *a, struct tn_error *err)
{
    size_t name_len = 0;
    const char *name = tn_json_str(tn_json_get(json, "action"), &name_len);
    enum tn_action_type type;

    switch (tn_event_kind(json)) {
    case TN_EVENT_NONE:
        return tn_fail(err, TN_E_INVALID, "expected an object with the key action, found %s",
                       tn_json_type(json) == TN_JSON_OBJECT ? "one without it"
                                                            : tn_json_type_name(json));
    case TN_EVENT_OBSERVATION:
        return tn_fail(err, TN_E_INVALID, "400: Invalid action type");
    case TN_EVENT_ACTION:
        break;
    }
    if (!name)
        return tn_fail(err, TN_E_INVALID, "action: expected a string, found %s",
                       tn_json_type_name(tn_json_get(json, "action")));
    if (strlen(name) != name_len)
        return tn_fail(err, TN_E_UNSUPPORTED, "unknown action type: it holds a NUL");
    if (tn_action_type_from_name(name, &type, err) < 0)
        return -1;
    tn_action_init(a, type);
    tn_event_from_json(&a->event, json);
    tn_fields_from_json(&message_field, a, json, NULL);
    if (read_args(a, json, err) < 0 ||
        (type == TN_ACTION_PLUGIN &&
         keep_plugin_call(a, name, tn_json_get(json, "args"), err) < 0)) {
        tn_action_done(a);
        return -1;
    }
    return 0;
}

int tn_view_range(const struct tn_json *view_range, int64_t *first, int64_t *last)
{
    const struct tn_json *a = tn_json_at(view_range, 0), *b = tn_json_at(view_range, 1);

    if (!view_range)
        return 0;
    if (tn_json_type(view_range) != TN_JSON_ARRAY || tn_json_count(view_range) != 2 ||
        tn_json_type(a) != TN_JSON_INT || tn_json_type(b) != TN_JSON_INT)
        return -1;
    *first = tn_json_int(a, 0);
    *last = tn_json_int(b, 0);
    return 1;
}

/* --- encoding -------------------------------------------------------------------------- */

void tn_action_put_message(const struct tn_action *a, struct tn_buf *out)
{
    const struct tn_action_kind *kind = &tn_action_kinds[a->type];

    if (kind->put_message)
        kind->put_message(a, out);
    else
        tn_put_template(kind->message, &kind->args, a, out);
}

void tn_action_to_json(const struct tn_action *a, struct tn_jw *w)
{
    const struct tn_action_kind *kind = &tn_action_kinds[a->type];
    tn_autobuf struct tn_buf message = TN_BUF_INIT(MESSAGE_MAX);

    tn_jw_object(w);
    tn_fields_to_json(&tn_event_head, &a->event, w);
    if (!a->message)
        tn_action_put_message(a, &message);
    tn_jw_key(w, "message");
    tn_jw_str(w, a->message ? a->message : tn_buf_str(&message));
    tn_jw_kstr(w, "action", a->type == TN_ACTION_PLUGIN ? a->plugin.name : kind->name);
    tn_fields_to_json(&tn_event_tail, &a->event, w);
    tn_jw_key(w, "args");
    tn_jw_object(w);
    tn_fields_to_json(&kind->args, a, w);
    if (a->confirmation_state != TN_CONFIRMED && !has_own_confirmation(kind))
        tn_fields_to_json(&confirmation_field, a, w);
    if (a->type == TN_ACTION_PLUGIN)
        tn_json_each(a->plugin.args, put_plugin_arg, w);
    tn_jw_object_end(w);
    tn_fields_to_json(&top, a, w);
    tn_jw_object_end(w);
}
