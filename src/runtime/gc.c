/* Reclaiming what nobody owns any more. */
#include <dirent.h>
#include <fcntl.h>

#include "base/clock.h"
#include "base/fs.h"
#include "runtime/owner.h"
#include "runtime/registry.h"
#include "runtime/runtime.h"

/* One that does not answer keeps gc from no other. */
#define BACKEND_SECONDS 30.0

struct sweep {
    struct tn_runtime *rt;
    bool force;
    tn_gc_fn tell;
    void *ctx;
    int64_t deadline;
    int count;
    struct tn_error first; /* what resisted first */
};

static const char spent[] = "its lease has run out";

/* Why the sandbox of that record may go; NULL when it may not. */
static const char *verdict(const struct tn_record *r)
{
    if (r->owner.pid && !tn_owner_lives(r->owner, r->boot))
        return r->status == TN_STATUS_STARTING ? "its start was interrupted" : "its owner is gone";
    if (r->lease > 0 && r->idle > r->lease)
        return spent;
    return NULL;
}

static void reclaimed(struct sweep *s, const char *id, const char *why)
{
    s->count++;
    if (s->tell)
        s->tell(id, why, s->ctx);
}

static void resisted(struct sweep *s, const struct tn_error *why)
{
    if (!s->first.code)
        s->first = *why;
}

static int reclaim_row(const struct tn_record *found, void *ctx)
{
    struct sweep *s = ctx;
    struct tn_error why = {0};
    const char *reason = verdict(found);
    tn_autofd int lock = -1;
    struct tn_record now = {0};

    if (!reason)
        return 0;
    /* Whoever holds the lock is busy with it, most likely with the same thing. */
    lock = tn_sandbox_lock(s->rt->state, found->id, 0, NULL);
    if (lock < 0 || tn_store_find(s->rt->store, found->id, &now, NULL))
        return 0;
    reason = verdict(&now);
    tn_autofd int unused = reason == spent ? tn_sandbox_use_none(s->rt->state, found->id) : -1;
    if (reason == spent && unused < 0) { /* from now on at the latest */
        tn_store_touch(s->rt->store, found->id, NULL);
        reason = NULL;
    }
    if (!reason) {
        tn_record_done(&now);
        return 0;
    }
    tn_autosandbox struct tn_sandbox *sb = tn_sandbox_from_record(s->rt, &now, &why);
    if (sb && !tn_sandbox_erase(sb, s->deadline, &why))
        reclaimed(s, found->id, reason);
    else if (s->force && !tn_sandbox_abandon(s->rt, found, NULL))
        reclaimed(s, found->id, "forgotten: its runtime cannot be asked and may still have it");
    else
        resisted(s, &why);
    return 0;
}

int tn_runtime_sweep(struct tn_runtime *rt, tn_gc_fn tell, void *ctx, int64_t deadline,
                     struct tn_error *err)
{
    struct sweep s = {.rt = rt, .tell = tell, .ctx = ctx, .deadline = deadline};

    if (tn_store_each(rt->store, TN_STORE_BOUND, reclaim_row, &s, err))
        return -1;
    if (s.first.code) {
        if (err)
            *err = s.first;
        return -1;
    }
    return s.count;
}

/* --- things without a row ------------------------------------------------------------------ */

static bool is_id(const char *name)
{
    return strlen(name) == 10 &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789") == strlen(name);
}

/* A row may be added at this very moment: under the lock there is none, or it is there. */
static bool has_row(struct tn_runtime *rt, const char *id)
{
    struct tn_record r = {0};
    struct tn_error why = {0};
    bool found = !tn_store_find(rt->store, id, &r, &why) || why.code != TN_E_NOT_FOUND;

    tn_record_done(&r);
    return found;
}

struct stray {
    struct sweep *sweep;
    const struct tn_backend *backend;
    void *engine;
};

static int reclaim_stray(const char *id, void *ctx)
{
    const struct stray *x = ctx;
    struct tn_runtime *rt = x->sweep->rt;
    tn_autofree char *directory = tn_asprintf("%s/sandbox/%s", rt->state, id);
    tn_autofd int lock = is_id(id) ? tn_sandbox_lock(rt->state, id, 0, NULL) : -1;
    tn_autoplace struct tn_place place = {0};
    struct tn_error why = {0};
    struct tn_spec spec;

    if (lock < 0 || has_row(rt, id))
        return 0;
    tn_spec_init(&spec);
    struct tn_subject subject = {.id = id, .key = "", .spec = &spec, .directory = directory};
    if (x->backend->drive(x->engine, &subject, TN_GOAL_GONE, &place, x->sweep->deadline, &why))
        resisted(x->sweep, &why);
    else
        reclaimed(x->sweep, id, "nobody knows it");
    tn_spec_done(&spec);
    return 0;
}

/* Built in, or a program of somebody else's. */
static void sweep_backend(const char *name, const char *summary, void *ctx)
{
    struct sweep *s = ctx;
    struct stray x = {.sweep = s};
    int64_t soon = tn_deadline_in(BACKEND_SECONDS);
    struct tn_error why = {0};

    /* An engine that is not there holds nothing. */
    if (tn_runtime_engine(s->rt, name, &x.backend, &x.engine, NULL))
        return;
    soon = soon < s->deadline ? soon : s->deadline;
    if ((x.backend->list && x.backend->list(x.engine, reclaim_stray, &x, soon, &why)) ||
        (x.backend->tidy && x.backend->tidy(x.engine, soon, &why))) {
        tn_error_context(&why, "%s", name);
        resisted(s, &why);
    }
}

/* Directories whose sandbox has no row and no backend any more. */
static void sweep_directories(struct sweep *s)
{
    tn_autofree char *path = tn_asprintf("%s/sandbox", s->rt->state);
    DIR *dir = opendir(path);
    struct tn_error why = {0};

    for (struct dirent *e; dir && (e = readdir(dir));) {
        if (!is_id(e->d_name))
            continue;
        tn_autofd int lock = tn_sandbox_lock(s->rt->state, e->d_name, 0, NULL);
        if (lock < 0 || has_row(s->rt, e->d_name))
            continue;
        if (tn_fs_remove_tree(dirfd(dir), e->d_name, 0, &why))
            resisted(s, &why);
        else
            reclaimed(s, e->d_name, "its directory was left");
    }
    if (dir)
        closedir(dir);
}

int tn_runtime_gc(struct tn_runtime *rt, bool force, tn_gc_fn tell, void *ctx, int64_t deadline,
                  struct tn_error *err)
{
    struct sweep s = {.rt = rt, .force = force, .tell = tell, .ctx = ctx, .deadline = deadline};

    if (tn_store_each(rt->store, TN_STORE_BOUND, reclaim_row, &s, err))
        return -1;
    tn_backend_each(rt->host.config, sweep_backend, &s);
    sweep_directories(&s);
    if (s.first.code) {
        if (err)
            *err = s.first;
        return -1;
    }
    return s.count;
}
