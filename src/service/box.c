/* Boxes in memory: references, the table of all, looking and waiting. */
#include "service/box.h"

#include <search.h>

#include "base/log.h"
#include "base/thread.h"
#include "runtime/registry.h"
#include "service/audit.h"
#include "service/box-internal.h"
#include "service/clock.h"
#include "service/tcp-ports.h"
#include "service/timing.h"
#include "service/watch.h"

double wall_clock(void)
{
    return service_time();
}

void replace(char **text, const char *value)
{
    char *copy = tn_strdup_or_null(value);

    free(*text);
    *text = copy;
}

/* --- one -------------------------------------------------------------------------------------- */

struct box *box_new(struct tn_service *s)
{
    struct box *b = tn_calloc(1, sizeof *b);

    b->s = s;
    b->all = s->boxes;
    atomic_init(&b->refs, 1);
    tn_spec_init(&b->spec);
    pthread_mutex_init(&b->lock, NULL);
    pthread_mutex_init(&b->row, NULL);
    tn_cond_init(&b->changed);
    b->order = 1; /* what it was made for, or what the last service was at */
    b->last_action = -1;
    b->usage = TN_USAGE_UNKNOWN;
    b->disk_counted = b->disk_seen = -1;
    b->pidfd = b->cancel = -1;
    return b;
}

struct box *box_ref(struct box *b)
{
    atomic_fetch_add(&b->refs, 1);
    return b;
}

void box_release(struct box *b)
{
    if (!b || atomic_fetch_sub(&b->refs, 1) > 1)
        return;
    char *const texts[] = {b->tenant,    b->key_id,           b->session, b->name,
                           b->template,  b->runtime,          b->parent,  b->snapshot,
                           b->directory, b->reason,           b->notice,  b->address,
                           b->isolation, b->last_action_text, b->reported};
    for (size_t i = 0; i < TN_COUNT(texts); i++)
        free(texts[i]);
    if (b->secret)
        explicit_bzero(b->secret, strlen(b->secret));
    free(b->secret);
    free(b->samples);
    tn_spec_done(&b->spec);
    tn_json_free(b->metadata);
    tn_close(b->pidfd);
    pthread_mutex_destroy(&b->lock);
    pthread_mutex_destroy(&b->row);
    pthread_cond_destroy(&b->changed);
    free(b);
}

const char *box_id(const struct box *b)
{
    return b->names.id;
}

const char *box_tenant(const struct box *b)
{
    return b->tenant;
}

static const struct tn_backend *backend_of(const struct box *b)
{
    return tn_backend_find(tn_runtime_host(b->s->rt)->config, b->runtime, NULL);
}

bool box_is_judged_there(const struct box *b)
{
    const struct tn_backend *backend = backend_of(b);

    return backend && backend->judges;
}

bool box_tells_disk(const struct box *b)
{
    const struct tn_backend *backend = backend_of(b);

    return !backend || (backend->usage && !backend->diskless);
}

bool box_freezes(const struct box *b)
{
    const struct tn_backend *backend = backend_of(b);

    return !backend || backend->abilities & TN_CAN_PAUSE || !(backend->abilities & TN_CAN_STOP);
}

struct tn_service *box_service(const struct box *b)
{
    return b->s;
}

const char *box_directory(const struct box *b)
{
    return b->directory;
}

/* --- the table -------------------------------------------------------------------------------- */

static int compare_ids(const void *a, const void *b)
{
    return strcmp(((const struct box_names *)a)->id, ((const struct box_names *)b)->id);
}

static int compare_sessions(const void *a, const void *b)
{
    const struct box_names *x = a, *y = b;
    int order = strcmp(x->session, y->session);

    return order ? order : strcmp(x->tenant, y->tenant);
}

/* Where one of that time and id stands in the order, or would. */
static size_t place_of(const struct boxes *all, double created, const char *id)
{
    size_t low = 0, high = all->count;

    while (low < high) {
        size_t middle = (low + high) / 2;
        const struct box *m = all->order[middle];
        bool before = m->created != created ? m->created < created : strcmp(m->names.id, id) < 0;
        if (before)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void boxes_add(struct boxes *all, struct box *b)
{
    pthread_mutex_lock(&all->lock);
    if (all->count == all->room) {
        all->room = all->room ? all->room * 2 : 64;
        all->order = tn_realloc(all->order, all->room * sizeof *all->order);
    }
    size_t at = place_of(all, b->created, b->names.id);
    memmove(all->order + at + 1, all->order + at, (all->count - at) * sizeof *all->order);
    all->order[at] = box_ref(b);
    all->count++;
    tn_check_memory(tsearch(b, &all->by_id, compare_ids));
    if (b->session) {
        /* One of the same session that is just being removed makes way. */
        struct box **node = tn_check_memory(tsearch(b, &all->by_session, compare_sessions));
        *node = b;
    }
    pthread_mutex_unlock(&all->lock);
}

void boxes_remove(struct boxes *all, struct box *b)
{
    pthread_mutex_lock(&all->lock);
    size_t at = place_of(all, b->created, b->names.id);
    bool there = at < all->count && all->order[at] == b;
    if (there) {
        tdelete(b, &all->by_id, compare_ids);
        struct box *const *node = b->session ? tfind(b, &all->by_session, compare_sessions) : NULL;
        if (node && *node == b)
            tdelete(b, &all->by_session, compare_sessions);
        all->count--;
        memmove(all->order + at, all->order + at + 1, (all->count - at) * sizeof *all->order);
        size_t past = all->past_count++ % TN_COUNT(all->past);
        memcpy(all->past[past].id, b->names.id, sizeof all->past[past].id);
        snprintf(all->past[past].tenant, sizeof all->past[past].tenant, "%s", b->tenant);
        all->past[past].created = b->created;
    }
    pthread_mutex_unlock(&all->lock);
    if (there)
        box_release(b);
}

static struct box *find(struct boxes *all, void **tree, int (*compare)(const void *, const void *),
                        const struct box_names *names)
{
    pthread_mutex_lock(&all->lock);
    struct box *const *found = tfind(names, tree, compare);
    struct box *b = found ? box_ref(*found) : NULL;
    pthread_mutex_unlock(&all->lock);
    return b;
}

struct box *boxes_find(struct boxes *all, const char *id)
{
    struct box_names names = {0};

    if (strlen(id) >= sizeof names.id)
        return NULL;
    memcpy(names.id, id, strlen(id));
    return find(all, &all->by_id, compare_ids, &names);
}

struct box *boxes_find_session(struct boxes *all, const char *tenant, const char *session)
{
    const struct box_names names = {.tenant = tenant, .session = session};

    return find(all, &all->by_session, compare_sessions, &names);
}

/* When the box of that id was made, as far as the tenant (NULL: all) may know; -1: it may not. */
static double made_at(struct boxes *all, const char *tenant, const struct box_names *names)
{
    struct box *const *found = tfind(names, &all->by_id, compare_ids);

    if (found)
        return !tenant || !strcmp((*found)->tenant, tenant) ? (*found)->created : -1;
    for (size_t i = 0; i < TN_COUNT(all->past) && i < all->past_count; i++)
        if (!strcmp(all->past[i].id, names->id) &&
            (!tenant || !strcmp(all->past[i].tenant, tenant)))
            return all->past[i].created;
    return -1;
}

struct box **boxes_after(struct boxes *all, const struct box_filter *f, size_t *count)
{
    size_t from = 0, to;

    pthread_mutex_lock(&all->lock);
    to = all->count;
    if (f->after) {
        struct box_names names = {0};
        snprintf(names.id, sizeof names.id, "%s", f->after);
        double made = made_at(all, f->tenant, &names);
        double created = made < 0 && f->after_created > 0 ? f->after_created : made;
        size_t at = place_of(all, created, names.id);
        bool there = at < to && !strcmp(all->order[at]->names.id, names.id);
        if (f->newest_first)
            to = created < 0 ? to : at;
        else
            from = at + there;
    }
    *count = to - from;
    struct box **list = tn_malloc(*count * sizeof *list);
    for (size_t i = 0; i < *count; i++)
        list[i] = box_ref(all->order[f->newest_first ? to - 1 - i : from + i]);
    pthread_mutex_unlock(&all->lock);
    return list;
}

static void keep(void *node)
{
    (void)node; /* the order holds the references */
}

struct boxes *boxes_new(struct tn_service *s, struct tn_error *err)
{
    struct boxes *all = tn_calloc(1, sizeof *all);

    all->s = s;
    all->known_by = tn_deadline_in(KNOWN_SECONDS);
    all->epoll = all->epoll_end = -1;
    pthread_mutex_init(&all->lock, NULL);
    pthread_mutex_init(&all->births, NULL);
    pthread_mutex_init(&all->used_lock, NULL);
    pthread_mutex_init(&all->work_lock, NULL);
    tn_cond_init(&all->work_done);
    tn_cond_init(&all->work_wanted);
    if (!boxes_load(all, err) && !reserve_open(all, err))
        return all;
    boxes_free(all, 0);
    return NULL;
}

void boxes_free(struct boxes *all, int64_t deadline)
{
    if (!all)
        return;
    size_t count;
    struct box **list = boxes_after(all, &(struct box_filter){0}, &count);
    bool rests = boxes_close(all, deadline);
    ends_close(all);
    boxes_save_uses(all);
    for (size_t i = 0; i < count; i++) {
        box_save(list[i]);
        box_release(list[i]);
    }
    free(list);
    if (!rests)
        return; /* whoever still works needs everything; the process ends soon */
    reserve_close(all);
    for (size_t i = 0; i < all->count; i++)
        box_release(all->order[i]);
    for (size_t i = 0; i < all->found_count; i++)
        box_release(all->found[i]);
    tdestroy(all->by_id, keep);
    tdestroy(all->by_session, keep);
    free(all->order);
    free(all->found);
    pthread_mutex_destroy(&all->lock);
    pthread_mutex_destroy(&all->births);
    pthread_mutex_destroy(&all->used_lock);
    pthread_mutex_destroy(&all->work_lock);
    pthread_cond_destroy(&all->work_done);
    pthread_cond_destroy(&all->work_wanted);
    free(all);
}

/* --- looking ---------------------------------------------------------------------------------- */

static double or_options(double own, double options)
{
    return own < 0 ? options : own;
}

void box_look(struct box *b, struct box_view *out)
{
    box_await_known(b, 0, NULL);
    *out = (struct box_view){
        .box = box_ref(b),
        .tenant = b->tenant,
        .key_id = b->key_id,
        .session = b->session,
        .template = b->template,
        .runtime = b->runtime,
        .image = b->spec.image,
        .created = b->created,
        .resource_factor = b->resource_factor,
        .timeout_how = b->timeout_how,
    };
    memcpy(out->id, b->names.id, sizeof out->id);
    pthread_mutex_lock(&b->lock);
    out->name = tn_strdup_or_null(b->name);
    out->metadata = b->metadata ? tn_json_copy(b->metadata) : NULL;
    out->spec = b->spec; /* borrowed, but for its variables */
    out->spec.env = b->spec.env ? tn_json_copy(b->spec.env) : NULL;
    out->expires = b->expires;
    out->idle_pause = or_options(b->idle_pause, b->s->options->idle_pause_seconds);
    out->idle_stop = or_options(b->idle_stop, b->s->options->idle_stop_seconds);
    out->timeout = b->timeout;
    out->asleep = b->asleep && b->goal == BOX_STOPPED;
    out->state = b->state;
    out->goal = b->goal;
    out->cause = b->cause;
    out->reason = tn_strdup_or_null(b->reason ? b->reason : b->notice);
    out->session_key = tn_strdup(b->secret);
    out->isolation = tn_strdup_or_null(b->isolation);
    out->started = b->started;
    out->used = b->used;
    out->stopped = b->stopped;
    out->queue_position = b->place ? queue_position(b->place) : 0;
    out->restarts = b->restarts;
    out->usage = b->usage;
    out->last_action = b->last_action;
    out->last_action_text = tn_strdup_or_null(b->last_action_text);
    out->version = b->version;
    pthread_mutex_unlock(&b->lock);
}

void box_view_done(struct box_view *v)
{
    if (v->session_key)
        explicit_bzero(v->session_key, strlen(v->session_key));
    free(v->session_key);
    free(v->name);
    tn_json_free(v->metadata);
    tn_json_free(v->spec.env);
    free(v->reason);
    free(v->isolation);
    free(v->last_action_text);
    box_release(v->box);
    *v = (struct box_view){0};
}

/* --- waiting ---------------------------------------------------------------------------------- */

int box_sleep(struct box *b, int64_t deadline, struct tn_error *err)
{
    struct timespec until = tn_timespec(deadline);

    if (b->all->let_go)
        return tn_fail(err, TN_E_BUSY, "the service is stopping");
    if (tn_now() >= deadline)
        return tn_fail(err, TN_E_TIMEOUT, "sandbox %s is %s", b->names.id,
                       box_state_words[b->state]);
    timing_enter(b->place && queue_position(b->place) ? TIMING_QUEUE : TIMING_BACKEND);
    if (deadline == TN_NEVER)
        pthread_cond_wait(&b->changed, &b->lock);
    else
        pthread_cond_timedwait(&b->changed, &b->lock, &until);
    timing_leave();
    return 0;
}

int box_deleted(const struct box *b, struct tn_error *err)
{
    return tn_fail(err, TN_E_GONE, "sandbox %s was deleted", b->names.id);
}

int box_wait(struct box *b, unsigned states, int64_t deadline, struct tn_error *err)
{
    if (box_await_known(b, deadline, err))
        return -1;
    int result = 0;
    pthread_mutex_lock(&b->lock);
    while (!result && !(states & 1u << b->state))
        result = b->gone ? box_deleted(b, err) : box_sleep(b, deadline, err);
    if (!result && b->gone)
        result = box_deleted(b, err);
    pthread_mutex_unlock(&b->lock);
    if (!result)
        box_save(b); /* what is told is what the next service knows */
    return result;
}

int box_wait_change(struct box *b, uint64_t version, int64_t deadline, struct tn_error *err)
{
    int result = 0;

    pthread_mutex_lock(&b->lock);
    while (!result && b->version <= version)
        result = b->gone ? box_deleted(b, err) : box_sleep(b, deadline, err);
    pthread_mutex_unlock(&b->lock);
    return result;
}

/* --- telling ---------------------------------------------------------------------------------- */

void box_bump(struct box *b)
{
    b->version++;
    if (b->version >= b->ceiling)
        b->dirty = true;
    pthread_cond_broadcast(&b->changed);
}

void box_tell(struct box *b)
{
    pthread_mutex_lock(&b->lock);
    bool news = b->told != b->version;
    b->told = b->version;
    pthread_mutex_unlock(&b->lock);
    box_save(b);
    if (news)
        watchers_tell(b->s->watchers, b->tenant, b->names.id);
    if (news)
        tcp_ports_changed(b->s->tcp, b->names.id);
}

void box_audit(struct box *b, const struct caller *who, const char *what,
               const struct tn_error *err)
{
    struct audit_entry entry = {.who = who,
                                .what = what,
                                .box = b->names.id,
                                .result = tn_code_row(err ? err->code : TN_OK)->name,
                                .detail = err ? err->text : NULL};
    struct tn_error why = {0};

    if (audit_write(b->s->audit, &entry, &why))
        tn_log(TN_LOG_ERROR, "no line in the audit log", tn_log_str("what", what),
               tn_log_str("sandbox", b->names.id), tn_log_str("error", why.text));
}
