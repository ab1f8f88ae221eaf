/* Other words and other times for a box that exists. */
#include "service/bounds.h"
#include "service/box-internal.h"
#include "service/steward.h"

#define MAX_SECONDS 1e9

static int check_time(const char *what, const double *seconds, struct tn_error *err)
{
    if (!seconds || *seconds <= MAX_SECONDS) /* false for what is no number, too */
        return 0;
    return tn_fail(err, TN_E_INVALID, "%s: at most %g seconds", what, MAX_SECONDS);
}

static double from_now(double seconds)
{
    return seconds > 0 ? wall_clock() + seconds : 0;
}

static double expiry(const struct box *b, double ttl)
{
    return from_now(ttl < 0 ? b->s->options->ttl_seconds : ttl);
}

/* What a key allows counts from the creation: asking again and again gains nothing. */
static int check(const struct box *b, const struct box_change *change, const struct caller *who,
                 struct tn_error *err)
{
    double most = who ? who->limits.max_seconds : 0;

    if (check_time("idle_pause", change->idle_pause, err) ||
        check_time("idle_stop", change->idle_stop, err) || check_time("ttl", change->ttl, err) ||
        check_time("timeout", change->timeout, err))
        return -1;
    const struct tn_service_options *o = b->s->options;
    if ((change->idle_pause && bounds_time(who, "idle_pause", *change->idle_pause,
                                           o->idle_pause_seconds, "idle_pause_seconds", err)) ||
        (change->idle_stop && bounds_time(who, "idle_stop", *change->idle_stop,
                                          o->idle_stop_seconds, "idle_stop_seconds", err)))
        return -1;
    double expires = change->ttl ? expiry(b, *change->ttl) : 0;
    if (change->ttl &&
        bounds_time(who, "ttl, counted from its creation,", expires > 0 ? expires - b->created : 0,
                    o->ttl_seconds, "ttl_seconds", err))
        return -1;
    if (change->ttl && most > 0 && (expires == 0 || expires > b->created + most))
        return tn_fail(err, TN_E_QUOTA,
                       "ttl: a sandbox of this key may live %g seconds (max_seconds), and %.0f of "
                       "them are over",
                       most, wall_clock() - b->created);
    return 0;
}

/* Under its lock. */
static int is_there(const struct box *b, struct tn_error *err)
{
    return b->gone || b->goal == BOX_GONE
               ? tn_fail(err, TN_E_GONE, "sandbox %s is being deleted", b->names.id)
               : 0;
}

/* The row first; both stay in step since b->row is held.  Whoever is told that its time is longer
 * now may rely on it: a deletion that came first, or in between, is said. */
static int apply(struct box *b, const struct box_change *change, struct tn_error *err)
{
    const char *name = change->name && *change->name ? change->name : NULL;
    tn_autofree char *metadata = change->metadata ? row_json(change->metadata) : NULL;

    if (change->metadata && !metadata)
        return tn_fail(err, TN_E_TOO_LARGE, "the metadata is too large");
    pthread_mutex_lock(&b->lock);
    int gone = is_there(b, err);
    double idle_pause = change->idle_pause ? *change->idle_pause : b->idle_pause;
    double idle_stop = change->idle_stop ? *change->idle_stop : b->idle_stop;
    double expires = change->ttl ? expiry(b, *change->ttl) : b->expires;
    double timeout = change->timeout ? from_now(*change->timeout) : b->timeout;
    pthread_mutex_unlock(&b->lock);
    if (gone)
        return -1;
    if (tn_db_run(b->s->db, err,
                  "UPDATE box SET name = CASE WHEN ?2 THEN ?3 ELSE name END,"
                  " metadata = coalesce(?4, metadata), idle_pause = ?5, idle_stop = ?6,"
                  " expires = ?7, timeout = ?8 WHERE id = ?1",
                  "tittdddd", b->names.id, (int64_t)(change->name != NULL), name, metadata,
                  idle_pause, idle_stop, expires, timeout) < 0)
        return -1;
    pthread_mutex_lock(&b->lock);
    if (change->name)
        replace(&b->name, name);
    if (change->metadata) {
        tn_json_free(b->metadata);
        b->metadata = tn_json_copy(change->metadata);
    }
    b->idle_pause = idle_pause;
    b->idle_stop = idle_stop;
    b->expires = expires;
    if (change->timeout)
        b->timeout = timeout;
    box_bump(b);
    gone = is_there(b, err);
    pthread_mutex_unlock(&b->lock);
    return gone;
}

int box_change(struct box *b, const struct caller *who, const struct box_change *change,
               struct tn_error *err)
{
    if (check(b, change, who, err))
        return -1;
    pthread_mutex_lock(&b->row);
    int result = apply(b, change, err);
    pthread_mutex_unlock(&b->row);
    if (result)
        return -1;
    box_tell(b);
    steward_nudge(b->s->steward, b);
    return 0;
}
