/* What the works of the table do to the sandbox of a box. */
#include <sys/eventfd.h>

#include "runtime/owner.h"
#include "service/asks.h"
#include "service/bounds.h"
#include "service/box-internal.h"
#include "service/key.h"
#include "service/metrics.h"
#include "service/proxy.h"

/* What a look at a sandbox may take. */
#define LOOK_SECONDS 5.0

/* For clearing away what a failed start left. */
#define CLEAR_SECONDS 15.0

static struct tn_sandbox *attach(struct tn_service *s, const char *id, struct tn_error *err)
{
    struct tn_sandbox *sb = tn_sandbox_attach(s->rt, id, err);

    /* A sandbox of somebody else may have that for a name. */
    if (!sb || !strcmp(tn_sandbox_record(sb)->id, id))
        return sb;
    tn_sandbox_free(sb);
    tn_fail(err, TN_E_NOT_FOUND, "sandbox %s is not there any more", id);
    return NULL;
}

struct tn_sandbox *box_attach(struct box *b, struct tn_error *err)
{
    return attach(b->s, b->names.id, err);
}

/* --- how it is -------------------------------------------------------------------------------- */

static const enum box_cause blamed[] = {
    [TN_BLAME_NONE] = CAUSE_NONE,
    [TN_BLAME_IMAGE] = CAUSE_IMAGE,
    [TN_BLAME_MEMORY] = CAUSE_MEMORY,
};

enum box_cause cause_of(const struct tn_error *err, enum tn_blame blame)
{
    if (err->sys == ENOMEM)
        return CAUSE_MEMORY;
    if (err->sys == ENOSPC || err->sys == EDQUOT)
        return CAUSE_QUOTA;
    switch ((int)err->code) {
    case TN_E_TIMEOUT:
    case TN_E_BUSY: /* somebody else held its lock all the time */
        return CAUSE_TIMEOUT;
    case TN_E_QUOTA:
        return CAUSE_QUOTA;
    default:
        return blame ? blamed[blame] : CAUSE_ENGINE;
    }
}

static const enum life_event seen[] = {
    [TN_STATUS_STARTING] = EVENT_ENDED,    [TN_STATUS_RUNNING] = EVENT_RUNNING,
    [TN_STATUS_PAUSED] = EVENT_PAUSED,     [TN_STATUS_STOPPED] = EVENT_STOPPED,
    [TN_STATUS_SUSPENDED] = EVENT_STOPPED, [TN_STATUS_ERROR] = EVENT_ENDED,
    [TN_STATUS_MISSING] = EVENT_MISSING,
};

static bool same(const char *a, const char *b)
{
    return a && b ? !strcmp(a, b) : a == b;
}

/* Under its lock: where and how its sandbox is.  True when that is news. */
static bool take_over(struct box *b, const struct tn_record *r)
{
    bool lives = r->status == TN_STATUS_RUNNING || r->status == TN_STATUS_PAUSED;
    bool news = (lives && !same(b->address, r->address)) || !same(b->isolation, r->isolation) ||
                !same(b->secret, r->key);

    if (lives)
        replace(&b->address, r->address);
    replace(&b->isolation, r->isolation);
    replace(&b->secret, r->key);
    return news;
}

/* Under its lock, only when it says something new: that one is stopped whose start has failed does
 * not, and must not take the reason of that away. */
static void saw(struct box *b, enum life_event event, const char *reason, enum tn_blame blame,
                bool news)
{
    enum box_cause cause = event == EVENT_UNREACHABLE ? CAUSE_ENGINE
                           : blame                    ? blamed[blame]
                                                      : CAUSE_ENDED;
    enum box_state next = life_table[b->state][event].to;

    if (b->unstarted && event == EVENT_STOPPED)
        return;
    if (next == BOX_MISSING && !reason)
        reason = "its sandbox was removed by somebody else";
    if (next == b->state && same(reason, b->reason) && !news)
        return;
    box_happened(b, event, cause, reason);
}

/* One that has ended may be on its way out by somebody else's hand: then it is looked at again when
 * they are done. */
static int inspect(struct box *b, struct tn_sandbox *sb, struct tn_error *err)
{
    int64_t deadline = tn_deadline_in(LOOK_SECONDS);

    if (tn_sandbox_inspect(sb, NULL, deadline, err))
        return -1;
    if (tn_sandbox_record(sb)->status != TN_STATUS_ERROR)
        return 0;
    tn_close(tn_sandbox_lock(tn_runtime_host(b->s->rt)->state, b->names.id, deadline, NULL));
    return tn_sandbox_inspect(sb, NULL, deadline, err);
}

void box_look_at_sandbox(struct box *b)
{
    struct tn_error why = {0};
    tn_autosandbox struct tn_sandbox *sb = NULL;

    pthread_mutex_lock(&b->lock);
    bool made = b->made, sampled = b->usage.memory >= 0;
    uint64_t order = b->order;
    pthread_mutex_unlock(&b->lock);
    if (!made)
        return; /* there is nothing to look at */
    sb = box_attach(b, &why);
    int failed = !sb || inspect(b, sb, &why);
    const struct tn_record *r = sb ? tn_sandbox_record(sb) : NULL;
    if (!failed && r->status == TN_STATUS_RUNNING) {
        ends_watch(b, sb);
        asks_follow(b->s->asks, b, sb);
    }
    if (!failed && r->status == TN_STATUS_PAUSED && !sampled)
        box_sample(b, NULL);

    pthread_mutex_lock(&b->lock);
    if (b->order != order) {
        b->look = true; /* it may have begun to be otherwise: another time */
    } else if (!failed) {
        bool news = take_over(b, r);
        saw(b, seen[r->status], r->reason, r->blame, news);
    } else {
        saw(b, why.code == TN_E_NOT_FOUND ? EVENT_MISSING : EVENT_UNREACHABLE,
            why.code == TN_E_NOT_FOUND ? NULL : why.text, TN_BLAME_NONE, false);
    }
    pthread_mutex_unlock(&b->lock);
}

/* --- starting --------------------------------------------------------------------------------- */

static bool given_up(struct box *b)
{
    pthread_mutex_lock(&b->lock);
    bool yes = b->goal == BOX_GONE;
    pthread_mutex_unlock(&b->lock);
    return yes || b->all->closing;
}

static int give_up(struct box *b, struct tn_error *err)
{
    return tn_fail(err, TN_E_GONE, "sandbox %s: its start was given up", b->names.id);
}

void box_join_line(struct box *b)
{
    if (b->place)
        return;
    b->place = queue_join(b->s->queue, b->tenant);
    box_bump(b);
}

void box_leave_line(struct box *b)
{
    if (!b->place)
        return;
    queue_leave(TN_TAKE_PTR(b->place));
    box_bump(b);
}

/* Our turn in line; the place is left when everything is done. */
static int stand_in_line(struct box *b, int64_t deadline, struct tn_error *err)
{
    int64_t began = tn_now();

    pthread_mutex_lock(&b->lock);
    box_join_line(b);
    struct place_in_line *p = b->place; /* only its worker, which is us, leaves it */
    bool late = b->goal == BOX_GONE || b->all->closing;
    pthread_mutex_unlock(&b->lock);
    bool waits = queue_position(p) > 0;
    int result = late ? give_up(b, err) : queue_wait(p, deadline, err);
    if (waits) { /* whoever watches sees that its turn has come */
        pthread_mutex_lock(&b->lock);
        box_bump(b);
        pthread_mutex_unlock(&b->lock);
    }
    metric_seconds(b->s->metrics, METRIC_QUEUE_SECONDS, (double)(tn_now() - began) / 1e9);
    return result;
}

/* What the key may have that asked for it; when nobody of now did, that which made it. */
static int make_room(struct box *b, int64_t deadline, struct tn_error *err)
{
    pthread_mutex_lock(&b->lock);
    bool known = b->asked;
    struct key_limits limits = b->asker;
    pthread_mutex_unlock(&b->lock);
    if (!known) {
        int found = box_limits(b, &limits, err);
        if (found < 0)
            return -1;
        known = found;
    }
    if (!admit_make_room(b->s, b, known ? &limits : NULL, deadline, err))
        return 0;
    if (err->code == TN_E_BUSY)
        err->code = TN_E_QUOTA; /* of the service: there is no room */
    return -1;
}

/* A start that was cut short left something under our id: complete, or to be cleared away. */
static int clear_half_made(struct box *b, bool *complete, int64_t deadline, struct tn_error *err)
{
    struct tn_error why = {0};
    tn_autosandbox struct tn_sandbox *sb = box_attach(b, &why);

    *complete = false;
    if (!sb && why.code == TN_E_NOT_FOUND)
        return 0;
    if (!sb) {
        *err = why;
        return -1;
    }
    const struct tn_record *r = tn_sandbox_record(sb);
    *complete = r->status != TN_STATUS_STARTING && !r->owner.pid;
    return *complete ? 0 : tn_sandbox_drive(sb, TN_GOAL_GONE, deadline, err);
}

static struct tn_sandbox *fork_from_parent(struct box *b, const struct tn_spec *spec,
                                           int64_t deadline, struct tn_error *err)
{
    tn_autosandbox struct tn_sandbox *parent = attach(b->s, b->parent, err);

    return parent ? tn_sandbox_fork_as(parent, b->snapshot, b->names.id, b->secret, spec, deadline,
                                       err)
                  : NULL;
}

/* A descriptor that box_give_up_start makes readable; without one a start goes on to its end. */
static int open_cancel(struct box *b)
{
    pthread_mutex_lock(&b->lock);
    b->cancel = eventfd(0, EFD_CLOEXEC);
    if (b->goal == BOX_GONE || b->all->closing)
        box_give_up_start(b);
    int fd = b->cancel;
    pthread_mutex_unlock(&b->lock);
    return fd < 0 ? 0 : fd;
}

static void close_cancel(struct box *b)
{
    pthread_mutex_lock(&b->lock);
    tn_close(TN_TAKE_FD(b->cancel));
    pthread_mutex_unlock(&b->lock);
}

void box_give_up_start(struct box *b)
{
    if (b->place)
        queue_cancel(b->place);
    if (b->cancel >= 0)
        eventfd_write(b->cancel, 1);
}

static struct tn_sandbox *make(struct box *b, int64_t deadline, struct tn_error *err)
{
    struct tn_sandbox *sb = NULL;
    struct tn_spec spec;

    if (sandbox_spec(b, &spec, err))
        return NULL;
    if (b->parent) {
        sb = fork_from_parent(b, &spec, deadline, err);
    } else {
        struct tn_sandbox_how how = {
            .id = b->names.id,
            .key = b->secret,
            .cancel = open_cancel(b),
            .anonymous = b->spec.image && !bounds_login(b->s, b->key_id, b->template, &b->spec),
            .blame = &b->blame,
        };
        sb = tn_sandbox_create_as(b->s->rt, &how, &spec, deadline, err);
        close_cancel(b);
    }
    tn_spec_done(&spec);
    return sb;
}

/* What there is already is driven, what there is not is made. */
static struct tn_sandbox *bring_up(struct box *b, int64_t deadline, struct tn_error *err)
{
    bool complete = b->made;
    tn_autosandbox struct tn_sandbox *sb = NULL;

    if (!complete && clear_half_made(b, &complete, deadline, err))
        return NULL;
    if (complete && !b->claimed && box_may_start(b, err))
        return NULL;
    sb = complete ? box_attach(b, err) : make(b, deadline, err);
    if (!sb)
        return NULL;
    if (b->claimed && tn_sandbox_take(sb, deadline, err)) {
        b->lost = err->code == TN_E_CONFLICT;
        return NULL;
    }
    /* A warm one that answers runs: that is all there is to know. */
    if (b->claimed && tn_sandbox_client(sb, deadline, NULL))
        return TN_TAKE_PTR(sb);
    if (complete && tn_sandbox_drive(sb, TN_GOAL_RUNNING, deadline, err))
        return NULL;
    return TN_TAKE_PTR(sb);
}

/* The hand does not answer: what the sandbox says about it is the better reason. */
static int explain(struct box *b, struct tn_sandbox *sb, struct tn_error *err)
{
    const struct tn_record *r = tn_sandbox_record(sb);

    if (!tn_sandbox_inspect(sb, NULL, tn_deadline_in(LOOK_SECONDS), NULL) &&
        r->status == TN_STATUS_ERROR && r->reason) {
        b->blame = r->blame;
        return tn_fail(err, TN_E_PEER, "%s", r->reason);
    }
    return -1;
}

static int start_sandbox(struct box *b, int64_t deadline, struct tn_error *err)
{
    tn_autosandbox struct tn_sandbox *sb = NULL;

    if (given_up(b))
        return give_up(b, err);
    sb = bring_up(b, deadline, err);
    if (!sb)
        return -1;
    if (!tn_sandbox_client(sb, deadline, err)) {
        explain(b, sb, err);
        if (!b->made)
            tn_sandbox_drive(sb, TN_GOAL_GONE, tn_deadline_in(CLEAR_SECONDS), NULL);
        return -1;
    }
    ends_watch(b, sb);
    asks_follow(b->s->asks, b, sb);
    pthread_mutex_lock(&b->lock);
    take_over(b, tn_sandbox_record(sb));
    b->made = true;
    b->restarts += b->started > 0;
    b->started = b->used = wall_clock();
    metric_add(b->s->metrics, METRIC_STARTS, b->claimed ? "warm" : "cold", 1);
    metric_seconds(b->s->metrics, METRIC_START_SECONDS, (double)(tn_now() - b->start_began) / 1e9);
    b->claimed = false;
    b->start_began = 0;
    pthread_mutex_unlock(&b->lock);
    return 0;
}

/* What a fork copies: all that its parent has written, unless a snapshot has it already. */
static double copied_bytes(struct box *b)
{
    autobox struct box *parent =
        b->parent && !b->snapshot && !b->made ? box_find(b->s, NULL, b->parent, NULL) : NULL;

    return parent ? box_disk_known(parent) : 0;
}

/* While it stood in line others have taken of what there was. */
static int start_within_reserve(struct box *b, int64_t deadline, struct tn_error *err)
{
    double bytes = copied_bytes(b);

    if (admit_copy(b->s, bytes, err)) {
        err->code = TN_E_QUOTA;
        return -1;
    }
    int result = start_sandbox(b, deadline, err);
    admit_copied(b->s, bytes);
    return result;
}

static int start(struct box *b, int64_t deadline, enum life_event *event, struct tn_error *err)
{
    b->blame = TN_BLAME_NONE;
    /* One that was warm costs nothing: it goes past the line. */
    int result = b->claimed ? 0 : stand_in_line(b, deadline, err);

    if (!result)
        result = make_room(b, deadline, err);
    if (!result)
        result =
            b->claimed ? start_sandbox(b, deadline, err) : start_within_reserve(b, deadline, err);
    pthread_mutex_lock(&b->lock);
    box_leave_line(b);
    pthread_mutex_unlock(&b->lock);
    *event = EVENT_RUNNING;
    return result;
}

/* --- the others ------------------------------------------------------------------------------- */

static int drive(struct box *b, enum tn_goal goal, int64_t deadline, enum life_event *event,
                 struct tn_error *err)
{
    tn_autosandbox struct tn_sandbox *sb = NULL;

    b->blame = TN_BLAME_NONE;
    if (!b->made)
        return tn_fail(err, TN_E_CONFLICT, "sandbox %s was never started", b->names.id);
    sb = box_attach(b, err);
    if (!sb || tn_sandbox_drive(sb, goal, deadline, err))
        return -1;
    if (goal == TN_GOAL_RUNNING && !tn_sandbox_client(sb, deadline, err))
        return explain(b, sb, err);
    const struct tn_record *r = tn_sandbox_record(sb);
    *event = seen[r->status];
    b->blame = r->blame;
    if (*event == EVENT_ENDED || *event == EVENT_MISSING)
        return tn_fail(err, TN_E_PEER, "sandbox %s is %s%s%s", b->names.id,
                       tn_status_words[r->status], r->reason ? ": " : "",
                       r->reason ? r->reason : "");
    pthread_mutex_lock(&b->lock);
    take_over(b, r);
    b->used = wall_clock();
    pthread_mutex_unlock(&b->lock);
    return 0;
}

static int wake(struct box *b, int64_t deadline, enum life_event *event, struct tn_error *err)
{
    return make_room(b, deadline, err) || drive(b, TN_GOAL_RUNNING, deadline, event, err) ? -1 : 0;
}

static int pause_box(struct box *b, int64_t deadline, enum life_event *event, struct tn_error *err)
{
    if (drive(b, TN_GOAL_PAUSED, deadline, event, err))
        return -1;
    box_sample(b, NULL); /* what it holds counts from now on */
    return 0;
}

static int stop(struct box *b, int64_t deadline, enum life_event *event, struct tn_error *err)
{
    return drive(b, TN_GOAL_STOPPED, deadline, event, err);
}

/* The row goes last. */
static int remove_box(struct box *b, int64_t deadline, enum life_event *event, struct tn_error *err)
{
    struct tn_error why = {0};
    tn_autosandbox struct tn_sandbox *sb = box_attach(b, &why);

    pthread_mutex_lock(&b->lock);
    ends_forget(b);
    pthread_mutex_unlock(&b->lock);
    if (!sb && why.code != TN_E_NOT_FOUND) {
        *err = why;
        return -1;
    }
    if ((sb && tn_sandbox_drive(sb, TN_GOAL_GONE, deadline, err)) || box_erase_row(b, err))
        return -1;
    boxes_remove(b->all, b);
    desks_forget(b->s->desks, b->names.id);
    *event = EVENT_REMOVED;
    return 0;
}

const work_fn work_functions[LIFE_WORKS] = {
    [WORK_START] = start, [WORK_WAKE] = wake,         [WORK_PAUSE] = pause_box,
    [WORK_STOP] = stop,   [WORK_REMOVE] = remove_box,
};
