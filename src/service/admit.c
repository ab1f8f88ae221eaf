/* Limits: what a key may have, what the disk has left, how many may run. */
#include "service/admit.h"

#include <math.h>
#include <sys/statvfs.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "service/metrics.h"
#include "service/room.h"

#define MIB (1024.0 * 1024)
#define BYTES_PER_INODE (16.0 * 1024)

/* A pause that takes longer goes on by itself, while the next oldest is tried. */
#define PATIENCE_SECONDS 5.0
/* Where a stop has to do it takes longer, and all of its processes: so long for all of them, and
 * when that is over PATIENCE_SECONDS each. */
#define PATIENCE_STOP 30.0
#define PATIENCE_ENDLESS (-1.0) /* where there is no next one: a pause has its own deadline */

/* --- what a key may have ------------------------------------------------------------------- */

/* So much is left of something, and so much of it is kept. */
static int keep_reserve(const char *what, const char *setting, const char *text, double left,
                        struct tn_error *err)
{
    uint64_t reserve = 0;

    if (!text)
        return 0;
    if (tn_size_parse(text, &reserve, err))
        return tn_error_context(err, "service.%s", setting);
    if (left < 0 || left >= (double)reserve)
        return 0;
    return tn_fail(err, TN_E_BUSY,
                   "%s: %.0f MiB are left and service.%s keeps %.0f MiB; delete sandboxes or make "
                   "room on it",
                   what, left / MIB, setting, (double)reserve / MIB);
}

/* Without a free inode no byte is of use; a file has BYTES_PER_INODE on the average. */
static double disk_left(const struct tn_service *s, bool *by_inodes)
{
    struct statvfs disk;

    *by_inodes = false;
    if (statvfs(tn_runtime_host(s->rt)->state, &disk))
        return -1;
    double bytes = (double)disk.f_bavail * (double)disk.f_frsize;
    double files = disk.f_files ? (double)disk.f_favail * BYTES_PER_INODE : INFINITY;
    *by_inodes = files < bytes;
    return fmin(bytes, files);
}

double admit_disk_left(const struct tn_service *s)
{
    bool by_inodes;

    return disk_left(s, &by_inodes);
}

/* What the kernel could give without taking it from anybody; -1: it does not say. */
static double memory_left(void)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(64 << 10);
    const char *line;

    if (tn_fs_read(TN_FS_ANYWHERE, "/proc/meminfo", &text, NULL) < 0 ||
        !(line = strstr(tn_buf_str(&text), "MemAvailable:")))
        return -1;
    return strtod(line + strlen("MemAvailable:"), NULL) * 1024;
}

/* Under the lock of the room: what is left once all copies are made. */
static int keep_reserves(const struct tn_service *s, double copies, struct tn_error *err)
{
    const struct tn_service_options *o = s->options;
    bool by_inodes;
    double left = disk_left(s, &by_inodes);
    const char *what = by_inodes ? "the disk of the sandboxes has few inodes left (each counts as "
                                   "16 KiB)"
                                 : "the disk of the sandboxes is nearly full";

    if (left >= 0)
        left = fmax(0, left - copies);
    return keep_reserve(what, "disk_reserve", o->disk_reserve, left, err) ||
                   keep_reserve("the memory of the machine is nearly used up", "memory_reserve",
                                o->memory_reserve, memory_left(), err)
               ? -1
               : 0;
}

int admit_copy(const struct tn_service *s, double bytes, struct tn_error *err)
{
    struct room *r = queue_room(s->queue);

    pthread_mutex_lock(&r->lock);
    int result = keep_reserves(s, r->copies + bytes, err);
    if (!result)
        r->copies += bytes;
    pthread_mutex_unlock(&r->lock);
    return result;
}

void admit_copied(const struct tn_service *s, double bytes)
{
    struct room *r = queue_room(s->queue);

    pthread_mutex_lock(&r->lock);
    r->copies -= bytes;
    pthread_mutex_unlock(&r->lock);
}

int admit_reserve(const struct tn_service *s, struct tn_error *err)
{
    return admit_copy(s, 0, err);
}

/* What sandboxes of a key may have together. */
struct sum {
    const char *limit, *of, *unit;
    double scale, most, used, wanted;
};

static int check_sum(const struct sum *x, struct tn_error *err)
{
    if (x->most <= 0)
        return 0;
    if (x->wanted <= 0)
        return tn_fail(err, TN_E_QUOTA,
                       "sandboxes of this key need a limit on their %s, because together they may "
                       "have %.15g%s (%s): say how much this one needs",
                       x->of, x->most / x->scale, x->unit, x->limit);
    if (x->used + x->wanted <= x->most * (1 + 1e-9)) /* sums of fractions */
        return 0;
    return tn_fail(
        err, TN_E_QUOTA,
        "sandboxes of this key may have %.15g%s of %s together (%s): %.15g%s are taken and "
        "this one needs %.15g%s; stop or delete one, or ask for less",
        x->most / x->scale, x->unit, x->of, x->limit, x->used / x->scale, x->unit,
        x->wanted / x->scale, x->unit);
}

int admit_disk(const struct key_limits *limits, double used, double wanted, struct tn_error *err)
{
    const struct sum disk = {"max_disk", "disk", " MiB", MIB, (double)limits->max_disk,
                             used,       wanted};

    return check_sum(&disk, err);
}

static int check_sums(const struct key_limits *l, const struct quota_use *used,
                      const struct quota_use *wanted, struct tn_error *err)
{
    const struct sum sums[] = {
        {"max_memory", "memory", " MiB", MIB, (double)l->max_memory, (double)used->memory,
         (double)wanted->memory},
        {"max_cpus", "processors", "", 1, l->max_cpus, used->cpus, wanted->cpus},
        {"max_pids", "processes", "", 1, (double)l->max_pids, (double)used->pids,
         (double)wanted->pids},
    };

    for (size_t i = 0; i < TN_COUNT(sums); i++)
        if (check_sum(&sums[i], err))
            return -1;
    /* Of all that exist: one that runs again takes no more of it. */
    return wanted->sandboxes ? admit_disk(l, (double)used->disk, (double)wanted->disk, err) : 0;
}

int admit_check(const struct tn_service *s, const struct key_limits *limits,
                const struct quota_use *used, const struct quota_use *wanted, struct tn_error *err)
{
    if (limits->max_sandboxes > 0 && used->sandboxes + wanted->sandboxes > limits->max_sandboxes)
        return tn_fail(err, TN_E_QUOTA,
                       "this key may have %lld sandboxes (max_sandboxes) and has %lld: delete one "
                       "first",
                       (long long)limits->max_sandboxes, (long long)used->sandboxes);
    if (limits->max_running > 0 && used->running + wanted->running > limits->max_running &&
        !s->options->pause_old_sandboxes)
        return tn_fail(err, TN_E_QUOTA,
                       "%lld sandboxes of this key may run at a time (max_running) and %lld do: "
                       "pause or delete one first",
                       (long long)limits->max_running, (long long)used->running);
    if (wanted->sandboxes && limits->max_seconds > 0 &&
        (wanted->seconds <= 0 || wanted->seconds > limits->max_seconds))
        return tn_fail(err, TN_E_QUOTA,
                       "a sandbox of this key may live %g seconds (max_seconds): ask for a ttl of "
                       "at most that",
                       limits->max_seconds);
    if (check_sums(limits, used, wanted, err))
        return -1;
    const struct tn_service_options *o = s->options;
    if (wanted->sandboxes && o->max_sandboxes > 0 && used->everybody >= o->max_sandboxes &&
        used->running == 0 && o->pause_old_sandboxes && !o->pause_others)
        return tn_fail(
            err, TN_E_BUSY,
            "%lld sandboxes run already (service.max_sandboxes) and none of them is this "
            "tenant's to be paused: try again later",
            (long long)o->max_sandboxes);
    return wanted->sandboxes ? admit_reserve(s, err) : 0;
}

/* --- pausing the oldest -------------------------------------------------------------------- */

struct candidates {
    struct candidate {
        char id[11];
        bool ordered; /* it is being put to rest already, which may never end */
    } * items;
    size_t count;
    const char *except;
};

static int note_candidate(struct box *b, void *ctx)
{
    struct candidates *c = ctx;
    autoview struct box_view v = {0};

    if (c->except && strcmp(box_id(b), c->except) == 0)
        return 0;
    if ((c->count & (c->count - 1)) == 0) /* a power of two: full */
        c->items = tn_realloc(c->items, (c->count ? c->count * 2 : 1) * sizeof *c->items);
    box_look(b, &v);
    struct candidate *new = &c->items[c->count++];
    *new = (struct candidate){.ordered = v.goal != BOX_RUNNING};
    memcpy(new->id, v.id, sizeof new->id);
    return 0;
}

static bool pause_one(struct tn_service *s, const char *id, double patience, int64_t stops,
                      int64_t deadline)
{
    autobox struct box *b = box_find(s, NULL, id, NULL);
    struct tn_error why = {0};

    if (!b)
        return false;
    int64_t until = tn_deadline_in(patience);
    if (patience > 0 && until < stops && !box_freezes(b))
        until = stops;
    if (box_order(b, NULL, ORDER_PAUSE, until < deadline ? until : deadline, &why)) {
        tn_log(TN_LOG_WARN, "an old sandbox could not be paused", tn_log_str("sandbox", id),
               tn_log_str("why", why.text));
        return false;
    }
    metric_add(s->metrics, METRIC_KEPT, "oldest", 1);
    tn_log(TN_LOG_INFO, "the oldest sandbox was paused to make room", tn_log_str("sandbox", id));
    return true;
}

/* Oldest first, those last that somebody is pausing already, passing over those that cannot be
 * paused or take longer than `patience` seconds each; how many. */
static int pause_oldest(struct tn_service *s, const char *tenant, const char *except, size_t count,
                        double patience, int64_t deadline)
{
    struct box_filter running = {.tenant = tenant, .states = 1u << BOX_RUNNING};
    struct candidates found = {.except = except};
    int64_t stops = tn_deadline_in(PATIENCE_STOP);
    size_t paused = 0;

    box_each(s, &running, note_candidate, &found, NULL);
    for (int ordered = 0; ordered < 2; ordered++)
        for (size_t i = 0; i < found.count && paused < count && tn_now() < deadline; i++) {
            if (found.items[i].ordered == ordered)
                paused += pause_one(s, found.items[i].id, patience, stops, deadline);
        }
    free(found.items);
    return (int)paused;
}

int pause_old_sandboxes(struct tn_service *s, const char *tenant, int64_t max, int64_t deadline,
                        struct tn_error *err)
{
    if (max < 1)
        return tn_fail(err, TN_E_INVALID, "max_num_sandboxes must be greater than 0");
    int64_t excess = box_count(s, tenant, 1u << BOX_RUNNING) - max;
    if (excess <= 0)
        return 0;
    return pause_oldest(s, tenant, NULL, (size_t)excess, PATIENCE_SECONDS, deadline);
}

/* --- room for one more --------------------------------------------------------------------- */

/* Still on its way to running? */
static bool is_coming(struct tn_service *s, const struct kept_place *p, const char *tenant)
{
    autobox struct box *b = box_find(s, tenant, p->id, NULL);
    autoview struct box_view v = {0};

    if (!b)
        return false;
    box_look(b, &v);
    return v.goal == BOX_RUNNING && v.state != BOX_RUNNING && v.state != BOX_ERROR &&
           v.state != BOX_MISSING;
}

/* Places whose box has arrived, or never will. */
static void forget_settled(struct tn_service *s, struct room *r)
{
    for (size_t i = 0; i < r->count;) {
        if (tn_now() < r->kept[i].until && is_coming(s, &r->kept[i], NULL))
            i++;
        else
            r->kept[i] = r->kept[--r->count];
    }
}

/* How many others run or are about to. */
static int64_t others(struct tn_service *s, struct room *r, const char *tenant,
                      const struct box_view *me)
{
    int64_t n = box_count(s, tenant, 1u << BOX_RUNNING) - (me->state == BOX_RUNNING);

    for (size_t i = 0; i < r->count; i++)
        n += strcmp(r->kept[i].id, me->id) != 0 && (!tenant || is_coming(s, &r->kept[i], tenant));
    return n;
}

static void keep_place(struct room *r, const char *id, int64_t until)
{
    struct kept_place place = {.until = until};
    size_t i = 0;

    memcpy(place.id, id, sizeof place.id);
    while (i < r->count && strcmp(r->kept[i].id, id) != 0)
        i++;
    if (i == r->count)
        r->kept = tn_realloc(r->kept, ++r->count * sizeof *r->kept);
    r->kept[i] = place;
}

/* Those that are about to run cannot be paused: waits until one of them has changed.  False: there
 * is none, or the deadline came first. */
static bool await_arrival(struct tn_service *s, const char *tenant, const char *me,
                          int64_t deadline)
{
    struct room *r = queue_room(s->queue);
    char id[11] = "";

    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < r->count && !id[0]; i++)
        if (strcmp(r->kept[i].id, me) != 0 && is_coming(s, &r->kept[i], tenant))
            memcpy(id, r->kept[i].id, sizeof id);
    pthread_mutex_unlock(&r->lock);

    autobox struct box *b = id[0] ? box_find(s, tenant, id, NULL) : NULL;
    autoview struct box_view v = {0};
    if (!b)
        return false;
    box_look(b, &v);
    return v.state == v.goal || !box_wait_change(b, v.version, deadline, NULL);
}

/* The oldest of its own tenant make way; those of others only where the operator says so. */
static int make_way(struct tn_service *s, const struct box *b, bool everybody, size_t count,
                    double patience, int64_t deadline)
{
    int paused = pause_oldest(s, box_tenant(b), box_id(b), count, patience, deadline);

    if (paused == 0 && everybody && s->options->pause_others)
        paused = pause_oldest(s, NULL, box_id(b), count, patience, deadline);
    return paused;
}

struct room_limit {
    int64_t max;
    const char *tenant; /* NULL: of all */
    enum tn_code code;
    const char *name;
};

/* The first limit in the way and by how many; NULL: the place is kept. */
static const struct room_limit *obstacle(struct tn_service *s, struct box *b,
                                         const struct room_limit *limits, int64_t deadline,
                                         int64_t *excess)
{
    struct room *r = queue_room(s->queue);
    autoview struct box_view me = {0};
    const struct room_limit *found = NULL;

    if (boxes_unknown(s->boxes))
        box_count(s, NULL,
                  1u << BOX_RUNNING); /* looks at them, which takes time, without the lock */
    box_look(b, &me);
    pthread_mutex_lock(&r->lock);
    forget_settled(s, r);
    for (const struct room_limit *l = limits; l->name && !found; l++) {
        *excess = others(s, r, l->tenant, &me) + 1 - l->max;
        if (l->max > 0 && *excess > 0)
            found = l;
    }
    if (!found)
        keep_place(r, me.id, deadline);
    pthread_mutex_unlock(&r->lock);
    return found;
}

int admit_make_room(struct tn_service *s, struct box *b, const struct key_limits *limits,
                    int64_t deadline, struct tn_error *err)
{
    const struct room_limit all[] = {
        {limits ? limits->max_running : 0, box_tenant(b), TN_E_QUOTA, "max_running of the key"},
        {s->options->max_sandboxes, NULL, TN_E_BUSY, "service.max_sandboxes"},
        {0},
    };
    const struct room_limit *l;
    int64_t excess;

    /* Again, because some have arrived meanwhile; then there is nothing left but to wait for
     * those that take their time. */
    bool looked = false;

    while ((l = obstacle(s, b, all, deadline, &excess))) {
        if (!s->options->pause_old_sandboxes)
            return tn_fail(err, l->code,
                           "%lld sandboxes run already (%s): pause or delete one first",
                           (long long)l->max, l->name);
        double patience = looked ? PATIENCE_ENDLESS : PATIENCE_SECONDS;
        const char *whose = s->options->pause_others ? l->tenant : box_tenant(b);
        if (make_way(s, b, !l->tenant, (size_t)excess, patience, deadline) > 0 ||
            await_arrival(s, whose, box_id(b), deadline)) {
            looked = false;
            continue;
        }
        if (looked)
            return tn_fail(err, l->code,
                           "%lld sandboxes run or start already (%s) and none%s could be paused: "
                           "try again, or delete one",
                           (long long)l->max, l->name,
                           s->options->pause_others ? " of them" : " of this tenant's");
        looked = true;
    }
    return 0;
}
