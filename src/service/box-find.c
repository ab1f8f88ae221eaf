/* Finding boxes, and counting what they use. */
#include "base/secret.h"
#include "service/box-internal.h"

/* The same words whether it is not there or somebody else's. */
static struct box *shown_to(const char *tenant, struct box *found, const char *what,
                            const char *name, struct tn_error *err)
{
    if (found && (!tenant || !strcmp(found->tenant, tenant)))
        return found;
    box_release(found);
    tn_fail(err, TN_E_NOT_FOUND, "there is no %s '%s'", what, name);
    return NULL;
}

struct box *box_find(struct tn_service *s, const char *tenant, const char *id, struct tn_error *err)
{
    return shown_to(tenant, boxes_find(s->boxes, id), "sandbox", id, err);
}

/* For the administrator a session is that of whoever was first. */
static int is_session(struct box *b, void *ctx)
{
    *(struct box **)ctx = box_ref(b);
    return 1;
}

struct box *box_find_session(struct tn_service *s, const char *tenant, const char *session,
                             struct tn_error *err)
{
    struct box *found = NULL;

    if (tenant)
        found = boxes_find_session(s->boxes, tenant, session);
    else
        box_each(s, &(struct box_filter){.session = session}, is_session, &found, NULL);
    return shown_to(tenant, found, "session", session, err);
}

/* --- many ------------------------------------------------------------------------------------- */

static bool equal(const char *wanted, const char *value)
{
    return !wanted || (value && !strcmp(wanted, value));
}

static bool fits(struct box *b, const struct box_filter *f)
{
    if (!equal(f->tenant, b->tenant) || !equal(f->template, b->template) ||
        !equal(f->runtime, b->runtime) || !equal(f->session, b->session))
        return false;
    if (f->states)
        box_await_known(b, 0, NULL);
    pthread_mutex_lock(&b->lock);
    bool yes = !b->gone && (!f->states || f->states & 1u << b->state) && equal(f->name, b->name);
    pthread_mutex_unlock(&b->lock);
    return yes;
}

int box_each(struct tn_service *s, const struct box_filter *f, box_fn fn, void *ctx, bool *more)
{
    size_t count, told = 0;
    struct box **list = boxes_after(s->boxes, f, &count);
    bool beyond = false;
    int result = 0;

    for (size_t i = 0; i < count; i++) {
        if (!result && !beyond && fits(list[i], f)) {
            if (f->limit && told == f->limit)
                beyond = true;
            else
                result = fn(list[i], ctx);
            told++;
        }
        box_release(list[i]);
    }
    free(list);
    if (more)
        *more = beyond;
    return result;
}

static int count_one(struct box *b, void *ctx)
{
    ++*(int *)ctx;
    return 0;
}

int box_count(struct tn_service *s, const char *tenant, unsigned states)
{
    struct box_filter f = {.tenant = tenant, .states = states};
    int count = 0;

    box_each(s, &f, count_one, &count, NULL);
    return count;
}

bool box_has_session_key(struct tn_service *s, const char *text)
{
    size_t count;
    struct box **list = boxes_after(s->boxes, &(struct box_filter){0}, &count);
    bool found = false;

    for (size_t i = 0; i < count; i++) {
        pthread_mutex_lock(&list[i]->lock);
        found |= list[i]->secret && tn_same_secret(text, list[i]->secret);
        pthread_mutex_unlock(&list[i]->lock);
        box_release(list[i]);
    }
    free(list);
    return found;
}

/* --- quotas ----------------------------------------------------------------------------------- */

bool box_counts_as_running(const struct box *b)
{
    return b->state == BOX_RUNNING || b->state == BOX_STARTING || b->goal == BOX_RUNNING ||
           b->rollbacks > 0;
}

static void add(int64_t *sum, int64_t more)
{
    if (__builtin_add_overflow(*sum, more, sum))
        *sum = INT64_MAX;
}

/* Under its lock: a paused one does nothing, but its memory is not anybody else's. */
static int64_t held_memory(const struct box *b)
{
    if (b->state != BOX_PAUSED)
        return 0;
    return b->usage.memory >= 0 && (!b->memory || b->usage.memory < b->memory) ? b->usage.memory
                                                                               : b->memory;
}

/* Under its lock. */
static int64_t held_claims(const struct box *b)
{
    int64_t bytes;

    return __builtin_mul_overflow(b->claim, 1 + b->snapshots, &bytes) ? INT64_MAX : bytes;
}

int64_t box_disk_taken(struct tn_service *s, const char *tenant)
{
    struct quota_use used;

    boxes_use(s->boxes, tenant, NULL, &used);
    return used.disk;
}

void boxes_use(struct boxes *all, const char *tenant, const struct box *but, struct quota_use *out)
{
    size_t count;
    struct box **list = boxes_after(all, &(struct box_filter){0}, &count);

    *out = (struct quota_use){0};
    for (size_t i = 0; i < count; i++) {
        struct box *b = list[i];
        pthread_mutex_lock(&b->lock);
        out->everybody += b != but && !b->gone && box_counts_as_running(b);
        bool ours = b != but && !b->gone && !strcmp(b->tenant, tenant);
        if (ours) {
            out->sandboxes++;
            add(&out->disk, b->disk);
            add(&out->disk, held_claims(b));
        }
        if (ours && box_counts_as_running(b)) {
            out->running++;
            add(&out->memory, b->memory);
            add(&out->pids, b->pids);
            out->cpus += b->cpus;
        } else if (ours) {
            add(&out->memory, held_memory(b));
        }
        pthread_mutex_unlock(&b->lock);
        box_release(b);
    }
    free(list);
}
