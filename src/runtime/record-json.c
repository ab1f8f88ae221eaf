#include "runtime/record-json.h"

#include "runtime/hand-address.h"

/* A member that is JSON text in the store. */
static void put_raw(struct tn_jw *w, const char *key, const char *json)
{
    tn_jw_key(w, key);
    if (json)
        tn_jw_raw(w, json, strlen(json));
    else
        tn_jw_null(w);
}

void tn_record_put(const struct tn_record *r, struct tn_jw *w)
{
    tn_jw_kstr(w, "id", r->id);
    tn_jw_kstr(w, "name", r->name);
    tn_jw_kstr(w, "runtime", r->runtime);
    tn_jw_kstr(w, "status", tn_status_words[r->status]);
    tn_jw_kstr(w, "reason", r->reason);
    tn_jw_kdouble(w, "created", r->created);
    tn_jw_kdouble(w, "used", r->used);
    tn_jw_kdouble(w, "lease", r->lease);
    tn_jw_kstr(w, "parent", r->parent);
    tn_jw_key(w, "owner");
    if (r->owner.pid)
        tn_jw_int(w, r->owner.pid);
    else
        tn_jw_null(w);
    put_raw(w, "isolation", r->isolation);
}

static void put_amount(struct tn_jw *w, const char *key, int64_t value)
{
    if (value < 0)
        tn_jw_knull(w, key);
    else
        tn_jw_kint(w, key, value);
}

void tn_usage_put(const struct tn_usage *u, struct tn_jw *w)
{
    put_amount(w, "memory", u->memory);
    put_amount(w, "memory_peak", u->memory_peak);
    put_amount(w, "disk", u->disk);
    if (u->cpu_seconds < 0)
        tn_jw_knull(w, "cpu_seconds");
    else
        tn_jw_kdouble(w, "cpu_seconds", u->cpu_seconds);
    put_amount(w, "processes", u->processes);
    if (u->cpus > 0)
        tn_jw_kdouble(w, "cpus", u->cpus);
}

static int put_snapshot(const struct tn_snapshot *s, void *ctx)
{
    tn_jw_object(ctx);
    tn_jw_kstr(ctx, "name", s->name);
    tn_jw_kdouble(ctx, "created", s->created);
    tn_jw_object_end(ctx);
    return 0;
}

void tn_sandbox_put_json(struct tn_runtime *rt, struct tn_sandbox *sb, struct tn_jw *w)
{
    const struct tn_record *r = tn_sandbox_record(sb);
    struct tn_usage usage;

    tn_record_put(r, w);
    tn_jw_kstr(w, "directory", tn_sandbox_directory(sb));
    tn_jw_key(w, "address");
    tn_jw_strn(w, r->address, r->address ? tn_hand_address_shown(r->address) : 0);
    put_raw(w, "ref", r->ref);
    tn_jw_key(w, "usage");
    tn_jw_object(w);
    tn_sandbox_usage_whole(sb, &usage, tn_deadline_in(TN_USAGE_SECONDS), NULL);
    tn_usage_put(&usage, w);
    tn_jw_object_end(w);
    tn_jw_key(w, "spec");
    tn_jw_object(w);
    tn_fields_show(&tn_spec_fields, tn_sandbox_spec(sb), w);
    tn_jw_object_end(w);
    tn_jw_key(w, "snapshots");
    tn_jw_array(w);
    tn_store_snapshots(tn_runtime_store(rt), r->id, put_snapshot, w, NULL);
    tn_jw_array_end(w);
}
