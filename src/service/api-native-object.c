/* A sandbox as the native API shows it. */
#include "runtime/sandbox-journal.h"
#include "service/api-native.h"
#include "service/clock.h"

static void put_known(struct tn_jw *w, const char *key, int64_t value)
{
    if (value >= 0)
        tn_jw_kint(w, key, value);
    else
        tn_jw_knull(w, key);
}

void native_put_usage(struct tn_jw *w, const struct tn_usage *usage)
{
    put_known(w, "memory", usage->memory);
    put_known(w, "memory_peak", usage->memory_peak);
    put_known(w, "disk", usage->disk);
    if (usage->cpu_seconds >= 0)
        tn_jw_kdouble(w, "cpu_seconds", usage->cpu_seconds);
    else
        tn_jw_knull(w, "cpu_seconds");
    put_known(w, "processes", usage->processes);
    if (usage->cpus > 0)
        tn_jw_kdouble(w, "cpus", usage->cpus);
}

static int put_variable(const char *name, struct tn_json *value, void *ctx)
{
    if (tn_names_secret(name))
        tn_jw_kstr(ctx, name, "***");
    else
        tn_jw_kstr(ctx, name, tn_json_str(value, NULL));
    return 0;
}

void native_put_spec(struct tn_jw *w, const struct tn_spec *spec)
{
    struct tn_spec shown = *spec; /* borrows everything */

    /* What is the service's own is no part of the wish. */
    for (size_t i = 0; i < tn_spec_fields.count; i++) {
        const struct tn_field *row = &tn_spec_fields.rows[i];
        const struct tn_fields one = {.rows = row, .count = 1};
        if (!strcmp(row->name, "keep") || !strcmp(row->name, "lease") || !strcmp(row->name, "name"))
            continue;
        if (strcmp(row->name, "env") != 0) {
            tn_fields_show(&one, &shown, w);
            continue;
        }
        tn_jw_key(w, "env");
        tn_jw_object(w);
        tn_json_each(spec->env, put_variable, w);
        tn_jw_object_end(w);
    }
}

static void put_tree(struct tn_jw *w, const char *key, const char *json)
{
    tn_jw_key(w, key);
    if (json)
        tn_jw_raw(w, json, strlen(json));
    else
        tn_jw_null(w);
}

static void put_life(struct tn_jw *w, const struct box_view *v)
{
    tn_jw_kstr(w, "state", box_state_words[v->state]);
    tn_jw_kstr(w, "goal", box_state_words[v->goal]);
    tn_jw_kbool(w, "asleep", v->asleep);
    tn_jw_kstr(w, "cause", v->cause == CAUSE_NONE ? NULL : box_cause_words[v->cause]);
    tn_jw_kstr(w, "reason", v->reason);
    put_time(w, "created", v->created);
    put_time(w, "started", v->started);
    put_time(w, "used", v->used);
    put_time(w, "expires", v->expires);
    tn_jw_kdouble(w, "idle_pause", v->idle_pause);
    tn_jw_kdouble(w, "idle_stop", v->idle_stop);
    tn_jw_kint(w, "queue_position", v->queue_position);
    tn_jw_kint(w, "restarts", v->restarts);
    tn_jw_kint(w, "version", (int64_t)v->version);
}

static void put_last_action(struct tn_jw *w, const struct box_view *v)
{
    tn_jw_key(w, "last_action");
    if (v->last_action < 0) {
        tn_jw_null(w);
        return;
    }
    tn_jw_object(w);
    tn_jw_kint(w, "id", v->last_action);
    tn_jw_kstr(w, "text", v->last_action_text ? v->last_action_text : "");
    tn_jw_object_end(w);
}

void native_put_box(struct tn_jw *w, struct box *b, unsigned flags)
{
    autoview struct box_view v;

    box_look(b, &v);
    tn_jw_object(w);
    tn_jw_kstr(w, "id", v.id);
    tn_jw_kstr(w, "name", v.name);
    tn_jw_kstr(w, "session", v.session);
    tn_jw_kstr(w, "tenant", v.tenant);
    tn_jw_kstr(w, "key", v.key_id);
    tn_jw_kstr(w, "template", v.template);
    tn_jw_kstr(w, "runtime", v.runtime);
    tn_jw_kstr(w, "image", v.image);
    put_life(w, &v);
    tn_jw_kdouble(w, "resource_factor", v.resource_factor);
    put_last_action(w, &v);
    tn_jw_key(w, "usage");
    tn_jw_object(w);
    native_put_usage(w, &v.usage);
    tn_jw_object_end(w);
    tn_jw_key(w, "metadata");
    if (v.metadata)
        tn_jw_tree(w, v.metadata);
    else
        tn_jw_raw(w, "{}", 2);
    put_tree(w, "isolation", v.isolation);
    if (flags & NATIVE_WHOLE) {
        tn_jw_key(w, "spec");
        tn_jw_object(w);
        native_put_spec(w, &v.spec);
        tn_jw_object_end(w);
    }
    if (flags & NATIVE_KEY)
        tn_jw_kstr(w, "session_key", v.session_key);
    tn_jw_object_end(w);
}

int native_reply_box(struct tn_http_exchange *x, int status, struct box *b)
{
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, NATIVE_ANSWER_MAX);
    struct tn_jw w = tn_jw(&json);

    native_put_box(
        &w, b, NATIVE_WHOLE | (caller_of(x)->scopes & (SCOPE_USE | SCOPE_ADMIN) ? NATIVE_KEY : 0));
    return tn_http_reply_json(x, status, &json);
}
