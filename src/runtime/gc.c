/* Reclaiming what nobody owns any more.  Backends are asked at the same time: one that does not
 * answer, a cloud that is down, keeps gc from no other. */
#include <dirent.h>
#include <fcntl.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/thread.h"
#include "runtime/owner.h"
#include "runtime/registry.h"
#include "runtime/runtime.h"

#define BACKEND_SECONDS 30.0 /* for a question over a network, or a listing */

struct sweep {
    struct tn_runtime *rt;
    bool force;
    tn_gc_fn tell;
    void *ctx;
    int64_t deadline;
    struct tn_record *rows; /* that may go: of each id and runtime alone */
    size_t row_count;
    char **backends; /* names */
    size_t backend_count;
    pthread_mutex_t lock; /* of the rest, and of tell */
    int count;
    struct tn_error first; /* what resisted first */
};

static void sweep_done(struct sweep *s)
{
    for (size_t i = 0; i < s->row_count; i++)
        tn_record_done(&s->rows[i]);
    for (size_t i = 0; i < s->backend_count; i++)
        free(s->backends[i]);
    free(s->rows);
    free(s->backends);
    pthread_mutex_destroy(&s->lock);
}

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
    pthread_mutex_lock(&s->lock);
    s->count++;
    if (s->tell)
        s->tell(id, why, s->ctx);
    pthread_mutex_unlock(&s->lock);
}

static void resisted(struct sweep *s, const struct tn_error *why)
{
    pthread_mutex_lock(&s->lock);
    if (!s->first.code)
        s->first = *why;
    pthread_mutex_unlock(&s->lock);
}

static int64_t soon(const struct sweep *s)
{
    int64_t deadline = tn_deadline_in(BACKEND_SECONDS);

    return deadline < s->deadline ? deadline : s->deadline;
}

static int collect_row(const struct tn_record *r, void *ctx)
{
    struct sweep *s = ctx;

    if (!verdict(r))
        return 0;
    s->rows = tn_realloc(s->rows, (s->row_count + 1) * sizeof *s->rows);
    s->rows[s->row_count++] =
        (struct tn_record){.id = tn_strdup(r->id), .runtime = tn_strdup(r->runtime)};
    return 0;
}

static void reclaim_row(size_t i, void *ctx)
{
    struct sweep *s = ctx;
    const struct tn_record *found = &s->rows[i];
    struct tn_error why = {0};
    /* Whoever holds the lock is busy with it, most likely with the same thing. */
    tn_autofd int lock = tn_sandbox_lock(s->rt->state, found->id, 0, NULL);
    tn_autorecord struct tn_record now = {0};

    if (lock < 0 || tn_store_find(s->rt->store, found->id, &now, NULL))
        return;
    const char *reason = verdict(&now);
    tn_autofd int unused = reason == spent ? tn_sandbox_use_none(s->rt->state, found->id) : -1;
    if (reason == spent && unused < 0) { /* from now on at the latest */
        tn_store_touch(s->rt->store, found->id, NULL);
        reason = NULL;
    }
    if (!reason)
        return;
    tn_autosandbox struct tn_sandbox *sb = tn_sandbox_from_record(s->rt, &now, &why);
    if (sb && !tn_sandbox_erase(sb, sb->backend->elsewhere ? soon(s) : s->deadline, &why))
        reclaimed(s, found->id, reason);
    else if (sb && sb->backend->claim && why.code == TN_E_GONE)
        return; /* it is another's: its row says so, until it is gone */
    else if (s->force && !tn_sandbox_abandon(s->rt, found, NULL))
        reclaimed(s, found->id, "forgotten: its runtime cannot be asked and may still have it");
    else
        resisted(s, &why);
}

static int sweep_rows(struct sweep *s, struct tn_error *err)
{
    pthread_mutex_init(&s->lock, NULL);
    if (tn_store_each(s->rt->store, TN_STORE_BOUND, collect_row, s, err))
        return -1;
    tn_thread_share(s->row_count, reclaim_row, s);
    return 0;
}

/* How many are gone, or -1 with what resisted. */
static int sweep_result(const struct sweep *s, struct tn_error *err)
{
    if (s->first.code && err)
        *err = s->first;
    return s->first.code ? -1 : s->count;
}

int tn_runtime_sweep(struct tn_runtime *rt, tn_gc_fn tell, void *ctx, int64_t deadline,
                     struct tn_error *err)
{
    TN_CLEANUP(sweep_done)
    struct sweep s = {.rt = rt, .tell = tell, .ctx = ctx, .deadline = deadline};

    return sweep_rows(&s, err) ? -1 : sweep_result(&s, err);
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

bool tn_sandbox_is_lost(struct tn_runtime *rt, const char *id)
{
    return is_id(id) && !has_row(rt, id);
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
    int64_t deadline = x->backend->elsewhere ? soon(x->sweep) : x->sweep->deadline;
    if (x->backend->drive(x->engine, &subject, TN_GOAL_GONE, &place, deadline, &why))
        resisted(x->sweep, &why);
    else
        reclaimed(x->sweep, id, "nobody knows it");
    tn_spec_done(&spec);
    return 0;
}

/* Built in, or a program of somebody else's. */
static void collect_backend(const char *name, const char *summary, void *ctx)
{
    struct sweep *s = ctx;

    s->backends = tn_realloc(s->backends, (s->backend_count + 1) * sizeof *s->backends);
    s->backends[s->backend_count++] = tn_strdup(name);
}

static void sweep_backend(size_t i, void *ctx)
{
    struct sweep *s = ctx;
    struct stray x = {.sweep = s};
    struct tn_error why = {0};

    /* An engine that is not there holds nothing. */
    if (tn_runtime_engine(s->rt, s->backends[i], &x.backend, &x.engine, NULL))
        return;
    if ((x.backend->list && x.backend->list(x.engine, reclaim_stray, &x, soon(s), &why)) ||
        (x.backend->tidy && x.backend->tidy(x.engine, soon(s), &why))) {
        tn_error_context(&why, "%s", s->backends[i]);
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
    TN_CLEANUP(sweep_done)
    struct sweep s = {.rt = rt, .force = force, .tell = tell, .ctx = ctx, .deadline = deadline};

    if (sweep_rows(&s, err))
        return -1;
    tn_backend_each(rt->host.config, collect_backend, &s);
    tn_thread_share(s.backend_count, sweep_backend, &s);
    sweep_directories(&s);
    return sweep_result(&s, err);
}
