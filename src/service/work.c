/* Orders, and the workers that carry them out: at most one thread for each box, whoever asked. */
#include "base/error-hide.h"
#include "base/log.h"
#include "base/thread.h"
#include "runtime/sandbox-report.h"
#include "service/box-internal.h"
#include "service/metrics.h"
#include "service/steward.h"
#include "service/timing.h"

/* --- what happens to a box -------------------------------------------------------------------- */

static void note_change(const struct box *b, enum box_state before)
{
    if (b->state == before)
        return;
    tn_log(b->state == BOX_ERROR ? TN_LOG_WARN : TN_LOG_INFO, "sandbox",
           tn_log_str("sandbox", b->names.id), tn_log_str("state", box_state_words[b->state]),
           tn_log_str("before", box_state_words[before]),
           tn_log_str("reason", b->reason ? b->reason : ""));
}

/* Under its lock: whether what somebody ordered was brought about. */
static void note_goal(struct box *b)
{
    if (b->state == b->goal)
        b->done[b->state] = b->settled = b->order;
}

/* Under its lock.  What is not so any more is told again when it is.  Its tenant reads it. */
static void set_reason(struct box *b, const char *reason)
{
    tn_autofree char *told = tn_hide_paths(reason);
    reason = told ? told : reason;
    tn_autofree char *still = tn_report_shared(b->reported, reason);

    replace(&b->reported, still);
    replace(&b->reason, reason);
}

void box_happened(struct box *b, enum life_event event, enum box_cause cause, const char *reason)
{
    enum box_state before = b->state;

    b->state = life_table[before][event].to;
    if (b->state != BOX_STOPPED)
        b->stopped = 0;
    else if (before != BOX_STOPPED)
        b->stopped = wall_clock();
    b->unstarted = false;
    b->cause = b->state == BOX_ERROR ? cause : CAUSE_NONE;
    /* Where nobody has ordered anything that is not done yet, what is seen is how it is to be. */
    if (b->settled == b->order && b->goal != BOX_GONE)
        b->goal = b->state;
    note_goal(b);
    if (b->state != BOX_RUNNING && b->state != BOX_PAUSED)
        replace(&b->address, NULL);
    set_reason(b, reason);
    b->dirty = true;
    box_bump(b);
    note_change(b, before);
}

/* --- workers ---------------------------------------------------------------------------------- */

static int64_t deadline_of(struct box *b, enum life_work work)
{
    double seconds = life_works[work].seconds;

    if (seconds > 0)
        return tn_deadline_in(seconds);
    return b->start_began + (int64_t)(b->s->options->start_seconds * 1e9);
}

/* Under its lock: the state that the work means. */
static void begin(struct box *b, enum life_work work)
{
    enum box_state during = life_works[work].during;

    if (work == WORK_START && (!b->start_began || b->state != BOX_STARTING))
        b->start_began = tn_now();
    if (during == BOX_GONE || during == b->state)
        return;
    enum box_state before = b->state;
    b->state = during;
    b->cause = CAUSE_NONE;
    set_reason(b, NULL);
    b->dirty = true;
    box_bump(b);
    note_change(b, before);
}

/* Under its lock: orders up to that one could not be carried out. */
static void give_up(struct box *b, uint64_t order, const struct tn_error *why)
{
    b->failed = b->settled = order;
    b->failure = *why;
    /* A deletion is tried again at the next occasion. */
    if (order == b->order && b->goal != BOX_GONE) {
        b->goal = b->state;
        b->asleep = b->asleep && b->goal == BOX_STOPPED;
    }
    b->dirty = true;
    box_bump(b);
}

/* Under its lock, after a work that failed. */
static void failed(struct box *b, enum life_work work, uint64_t order, const struct tn_error *why)
{
    tn_log(TN_LOG_WARN, "sandbox", tn_log_str("sandbox", b->names.id),
           tn_log_str("failed", life_works[work].name), tn_log_str("error", why->text));
    if (work == WORK_START) {
        /* Whatever was wanted of it, it is not there. */
        order = b->order;
        b->start_began = 0;
        metric_add(b->s->metrics, METRIC_STARTS, "failed", 1);
    }
    if (life_works[work].failure == EVENT_RUNNING) {
        pthread_mutex_unlock(&b->lock);
        box_look_at_sandbox(b);
        pthread_mutex_lock(&b->lock);
    } else {
        box_happened(b, b->lost ? EVENT_MISSING : life_works[work].failure, cause_of(why, b->blame),
                     why->text);
        b->unstarted = work == WORK_START;
    }
    give_up(b, order, why);
}

/* Under its lock, which it gives back for the work itself.  False: it cannot go on for now. */
static bool do_work(struct box *b, enum life_work work)
{
    uint64_t order = b->order;
    enum life_event event = EVENT_FAILED;
    struct tn_error why = {0};

    begin(b, work);
    b->doing = work;
    if (work != WORK_START)
        box_leave_line(b);
    int64_t deadline = deadline_of(b, work);
    pthread_mutex_unlock(&b->lock);
    box_tell(b);
    int result = work_functions[work](b, deadline, &event, &why);
    pthread_mutex_lock(&b->lock);
    b->doing = WORK_NONE;
    if (result == 0) {
        if (event == EVENT_REMOVED)
            b->gone = true;
        box_happened(b, event, CAUSE_NONE, NULL);
        return true;
    }
    /* A start that a deletion, or the end of the service, has cut short has not failed. */
    if (work == WORK_START && (b->goal == BOX_GONE || b->all->closing))
        return true;
    failed(b, work, order, &why);
    return work != WORK_REMOVE || b->order != order;
}

/* Under its lock: one step.  False when there is nothing (more) to do. */
static bool step(struct box *b)
{
    if (b->gone || b->all->closing)
        return false;
    if (b->look && b->state != BOX_STARTING) {
        b->look = false;
        pthread_mutex_unlock(&b->lock);
        box_look_at_sandbox(b);
        pthread_mutex_lock(&b->lock);
        return true;
    }
    if (b->ask) {
        b->ask = false;
        pthread_mutex_unlock(&b->lock);
        box_ask_hand(b);
        pthread_mutex_lock(&b->lock);
        return true;
    }
    enum life_work work = life_next(b->state, b->goal);
    if (work != WORK_NONE)
        return do_work(b, work);
    if (b->goal != b->state) {
        /* Something came in between after which the table has no way there. */
        struct tn_error why;
        tn_fail(&why, TN_E_CONFLICT, "sandbox %s is %s by now", b->names.id,
                box_state_words[b->state]);
        give_up(b, b->order, &why);
    }
    note_goal(b);
    return false;
}

static void leave_work(struct boxes *all)
{
    pthread_mutex_lock(&all->work_lock);
    all->workers--;
    pthread_cond_broadcast(&all->work_done);
    pthread_mutex_unlock(&all->work_lock);
}

/* Until there is nothing left to do for it; takes the reference.  Its worker's place is the
 * caller's to leave: with the last one all boxes may be freed. */
static void work_on(struct box *b)
{
    bool more = true;

    while (more) {
        pthread_mutex_lock(&b->lock);
        more = step(b);
        if (!more) {
            box_leave_line(b);
            b->working = false;
            pthread_cond_broadcast(&b->changed);
        }
        pthread_mutex_unlock(&b->lock);
        box_tell(b);
        steward_nudge(b->s->steward, b);
    }
    box_release(b);
}

/* The first of those that got no thread, or that one (NULL: any); NULL: there is none. */
static struct box *take_unserved(struct boxes *all, const struct box *wanted)
{
    struct box **at = &all->unserved;

    pthread_mutex_lock(&all->work_lock);
    while (wanted && *at && *at != wanted)
        at = &(*at)->next_unserved;
    struct box *b = *at;
    if (b)
        *at = TN_TAKE_PTR(b->next_unserved);
    pthread_mutex_unlock(&all->work_lock);
    return b;
}

static void *work(void *arg)
{
    struct box *b = arg;
    struct boxes *all = b->all;

    while (b) {
        work_on(b);
        b = take_unserved(all, NULL); /* which has a place of its own */
        leave_work(all);
    }
    return NULL;
}

/* --- when no thread can be had ------------------------------------------------------------- */

/* Whoever asks for work may hold locks, or a turn in line that the work would wait for: it cannot
 * do it itself.  So one thread is there from the beginning, and helps whoever has none. */
static void *serve_unserved(void *arg)
{
    struct boxes *all = arg;
    struct box *b;

    pthread_mutex_lock(&all->work_lock);
    while (all->unserved || !all->closing) {
        if (!all->unserved) {
            pthread_cond_wait(&all->work_wanted, &all->work_lock);
            continue;
        }
        pthread_mutex_unlock(&all->work_lock);
        if ((b = take_unserved(all, NULL))) {
            work_on(b);
            leave_work(all);
        }
        pthread_mutex_lock(&all->work_lock);
    }
    pthread_mutex_unlock(&all->work_lock);
    return NULL;
}

int reserve_open(struct boxes *all, struct tn_error *err)
{
    int sys = tn_thread_start(&all->reserve, serve_unserved, all);

    all->reserve_running = !sys;
    return sys ? tn_fail_errno(err, sys, "a thread for the sandboxes") : 0;
}

void reserve_close(struct boxes *all)
{
    if (all->reserve_running)
        pthread_join(all->reserve, NULL);
    all->reserve_running = false;
}

/* Under its lock.  It joins the line when somebody has time for it: a turn that it had by then
 * would be nobody's. */
static void wait_for_thread(struct box *b)
{
    struct boxes *all = b->all;
    struct box **at = &all->unserved;

    box_leave_line(b);
    pthread_mutex_lock(&all->work_lock);
    while (*at)
        at = &(*at)->next_unserved;
    *at = b;
    pthread_cond_signal(&all->work_wanted);
    pthread_mutex_unlock(&all->work_lock);
}

/* --- who works ----------------------------------------------------------------------------- */

/* Under its lock: whoever calls is its worker from now on.  False: there is one, or none may be. */
static bool become_worker(struct box *b)
{
    struct boxes *all = b->all;

    if (b->working || b->gone)
        return false;
    pthread_mutex_lock(&all->work_lock);
    bool may = !all->closing;
    if (may)
        all->workers++;
    pthread_mutex_unlock(&all->work_lock);
    b->working = may;
    return may;
}

/* Under its lock: who asked first for a start is first in line, whenever its worker gets there. */
static void join_line(struct box *b)
{
    if (!b->claimed && life_next(b->state, b->goal) == WORK_START)
        box_join_line(b);
}

void box_work(struct box *b)
{
    pthread_t thread;

    if (!become_worker(b))
        return;
    join_line(b);
    if (!tn_thread_start(&thread, work, box_ref(b)))
        pthread_detach(thread);
    else
        wait_for_thread(b);
}

bool box_work_warm(struct box *b, int64_t deadline)
{
    enum life_event event = EVENT_FAILED;
    struct tn_error why = {0}; /* the worker will say it */

    pthread_mutex_lock(&b->lock);
    bool mine = b->state == BOX_STARTING && b->goal == BOX_RUNNING && become_worker(b);
    if (mine)
        b->doing = WORK_START;
    uint64_t order = b->order;
    pthread_mutex_unlock(&b->lock);
    timing_enter(TIMING_BACKEND);
    int result = mine ? work_functions[WORK_START](b, deadline, &event, &why) : -1;
    timing_leave();
    pthread_mutex_lock(&b->lock);
    if (mine) {
        b->doing = WORK_NONE;
        if (!result) {
            box_happened(b, event, CAUSE_NONE, NULL);
            b->dirty = b->order != order; /* that it runs is what its row says */
        }
        b->gone = b->lost;
        b->working = false;
        pthread_cond_broadcast(&b->changed);
    }
    bool lost = b->lost;
    if (!lost && (b->state != b->goal || b->look || b->ask))
        box_work(b);
    pthread_mutex_unlock(&b->lock);
    if (!lost) {
        box_tell(b);
        steward_nudge(b->s->steward, b);
    }
    if (mine)
        leave_work(b->all);
    return !lost;
}

/* Wakes up everybody who waits for a box; starts too when they are to be given up. */
static void wake_all(struct boxes *all, bool give_up_starts)
{
    size_t count;
    struct box **list = boxes_after(all, &(struct box_filter){0}, &count);

    for (size_t i = 0; i < count; i++) {
        pthread_mutex_lock(&list[i]->lock);
        if (give_up_starts)
            box_give_up_start(list[i]);
        pthread_cond_broadcast(&list[i]->changed);
        pthread_mutex_unlock(&list[i]->lock);
        box_release(list[i]);
    }
    free(list);
}

void boxes_let_go(struct boxes *all)
{
    all->let_go = true;
    wake_all(all, false);
}

bool boxes_close(struct boxes *all, int64_t deadline)
{
    struct timespec until = tn_timespec(deadline);
    int late = 0;

    pthread_mutex_lock(&all->work_lock);
    all->closing = all->let_go = true;
    pthread_cond_signal(&all->work_wanted);
    pthread_mutex_unlock(&all->work_lock);
    wake_all(all, true);
    pthread_mutex_lock(&all->work_lock);
    while (all->workers && !late)
        late = pthread_cond_timedwait(&all->work_done, &all->work_lock, &until);
    bool rests = all->workers == 0;
    pthread_mutex_unlock(&all->work_lock);
    return rests;
}

/* --- orders ----------------------------------------------------------------------------------- */

/* Under the lock of births: whether one more may run. */
static int may_run(struct box *b, const struct caller *who, struct tn_error *err)
{
    static const struct key_limits unlimited;
    struct quota_use used,
        wanted = {.running = 1, .memory = b->memory, .cpus = b->cpus, .pids = b->pids};

    boxes_use(b->all, b->tenant, b, &used);
    return admit_check(b->s, who ? &who->limits : &unlimited, &used, &wanted, err) ||
                   box_may_clean(b, err)
               ? -1
               : 0;
}

/* Under its lock.  A time-out that put it to rest would do it again at once. */
static void forget_old_timeout(struct box *b)
{
    if (b->timeout == 0 || b->timeout > wall_clock())
        return;
    b->timeout = 0;
    b->dirty = true;
}

/* As place_order counts a resume; *starts: it did not run. */
static int admit_rollback(struct box *b, const struct caller *who, bool *starts,
                          struct tn_error *err)
{
    pthread_mutex_lock(&b->all->births);
    pthread_mutex_lock(&b->lock);
    *starts = !box_counts_as_running(b);
    pthread_mutex_unlock(&b->lock);
    int result = *starts ? may_run(b, who, err) : 0;
    pthread_mutex_lock(&b->lock);
    if (!result)
        b->rollbacks++;
    if (!result && *starts)
        forget_old_timeout(b);
    pthread_mutex_unlock(&b->lock);
    pthread_mutex_unlock(&b->all->births);
    return result;
}

int box_rollback_begin(struct box *b, const struct caller *who, int64_t deadline,
                       struct tn_error *err)
{
    bool starts;

    box_recount(b);
    if (box_await_known(b, deadline, err) || admit_rollback(b, who, &starts, err))
        return -1;
    if (!starts || !admit_make_room(b->s, b, &who->limits, deadline, err))
        return 0;
    box_rollback_end(b);
    return -1;
}

void box_rollback_end(struct box *b)
{
    pthread_mutex_lock(&b->lock);
    b->rollbacks--;
    pthread_mutex_unlock(&b->lock);
}

/* Under its lock: makes the order its newest, or joins whoever is at it already. */
static uint64_t accept(struct box *b, enum box_state goal)
{
    if (b->goal == goal && b->working)
        return b->order;
    if (goal == BOX_RUNNING)
        forget_old_timeout(b);
    b->goal = goal;
    b->dirty = true;
    if (b->doing == WORK_NONE)
        begin(b, life_next(b->state, goal));
    if (goal == BOX_GONE)
        box_give_up_start(b);
    box_bump(b);
    return ++b->order;
}

/* Under its lock: what the table says to that order.  One that sleeps is as good as paused. */
static int allowed(struct box *b, enum box_order order, struct tn_error *err)
{
    enum box_state row = life_row(b->state, b->goal);

    if (b->gone)
        return tn_fail(err, TN_E_GONE, "sandbox %s was deleted", b->names.id);
    if (order == ORDER_PAUSE && row == BOX_STOPPED && b->asleep)
        return 0;
    return life_table[row][order].refuse ? life_refuse(b->names.id, row, order, err) : 0;
}

/* Why the service itself gives an order: how it saw the box. */
struct grounds {
    const struct box_view *seen;
    bool idle; /* nobody used it */
};

/* Under its lock: whether it is still so. */
static int still_so(const struct box *b, const struct grounds *g, struct tn_error *err)
{
    if (b->expires != g->seen->expires || b->timeout != g->seen->timeout)
        return tn_fail(err, TN_E_BUSY, "sandbox %s has another time by now", b->names.id);
    return g->idle && (b->uses || b->used > g->seen->used || b->state != b->goal)
               ? tn_fail(err, TN_E_BUSY, "sandbox %s is in use", b->names.id)
               : 0;
}

/* Where a pause leads: to what its runtime can do. */
static enum box_state goal_of(const struct box *b, enum box_order order)
{
    return life_goal(order == ORDER_PAUSE && !box_freezes(b) ? ORDER_STOP : order);
}

/* Under its lock: whether a use may wake it is for whoever ordered last. */
static void note_sleep(struct box *b, enum box_order order, enum box_state goal)
{
    bool asleep = order == ORDER_PAUSE && goal == BOX_STOPPED;

    b->dirty |= b->asleep != asleep;
    b->asleep = asleep;
}

/* 0 with the number of the order, which is 0 when there is nothing to do. */
static int place_order(struct box *b, const struct caller *who, enum box_order order,
                       const struct grounds *grounds, uint64_t *number, struct tn_error *err)
{
    enum box_state goal = goal_of(b, order);
    bool counts = goal == BOX_RUNNING;

    *number = 0;
    if (counts)
        pthread_mutex_lock(&b->all->births);
    pthread_mutex_lock(&b->lock);
    int result = (grounds && still_so(b, grounds, err)) || allowed(b, order, err) ? -1 : 0;
    if (!result && counts && !box_counts_as_running(b)) {
        pthread_mutex_unlock(&b->lock);
        result = may_run(b, who, err);
        pthread_mutex_lock(&b->lock);
        if (!result)
            result = allowed(b, order, err);
    }
    if (!result && (b->state != goal || b->goal != goal || b->settled != b->order))
        *number = accept(b, goal);
    if (!result)
        note_sleep(b, order, goal);
    if (*number && counts) {
        b->asked = who;
        b->asker = who ? who->limits : (struct key_limits){0};
    }
    /* It is gone: that is what a deletion wants. */
    if (b->gone && order == ORDER_DELETE)
        result = 0;
    pthread_mutex_unlock(&b->lock);
    if (counts)
        pthread_mutex_unlock(&b->all->births);
    return result;
}

/* Waits for an order of that number to be done. */
static int await_order(struct box *b, enum box_state goal, uint64_t number, int64_t deadline,
                       struct tn_error *err)
{
    int result = 0;

    pthread_mutex_lock(&b->lock);
    while (!result && b->done[goal] < number && !b->gone) {
        if (b->failed >= number) {
            *err = b->failure;
            result = -1;
        } else if (b->order > number && b->goal != goal) {
            result =
                tn_fail(err, TN_E_CONFLICT, "another order came in between: sandbox %s is to be %s",
                        b->names.id, box_state_words[b->goal]);
        } else {
            result = box_sleep(b, deadline, err);
        }
    }
    if (!result && b->gone && goal != BOX_GONE)
        result = tn_fail(err, TN_E_GONE, "sandbox %s was deleted", b->names.id);
    pthread_mutex_unlock(&b->lock);
    if (!result)
        box_save(b); /* what is told is what the next service knows */
    return result;
}

/* TN_E_TIMEOUT would say that what was ordered goes on, and nothing was. */
static int await_known(struct box *b, int64_t deadline, struct tn_error *err)
{
    struct tn_error why = {0};

    if (!box_await_known(b, deadline, &why))
        return 0;
    if (why.code == TN_E_TIMEOUT)
        return tn_fail(err, TN_E_BUSY,
                       "sandbox %s was not looked at yet since the service started: try again",
                       b->names.id);
    *err = why;
    return -1;
}

static int carry_out(struct box *b, const struct caller *who, enum box_order order,
                     const struct grounds *grounds, int64_t deadline, struct tn_error *err)
{
    uint64_t number;

    if (life_goal(order) == BOX_RUNNING)
        box_recount(b);
    if (await_known(b, deadline, err) || place_order(b, who, order, grounds, &number, err))
        return -1;
    if (!number) {
        box_save(b); /* who stops what sleeps has its word kept */
        return 0;
    }
    box_tell(b);
    pthread_mutex_lock(&b->lock);
    box_work(b);
    pthread_mutex_unlock(&b->lock);
    /* Whoever waits for it anyway, with no lock in its hands, need not wait for another thread. */
    if (deadline > tn_now() && take_unserved(b->all, b)) {
        work_on(b);
        leave_work(b->all);
    }
    return await_order(b, goal_of(b, order), number, deadline, err);
}

/* why NULL: it went well. */
static void audit_own(struct box *b, enum box_order order, const struct tn_error *why)
{
    static const char *const names[] = {"sandbox.pause", "sandbox.resume", "sandbox.stop",
                                        "sandbox.delete"};

    box_audit(b, NULL, names[order], why && why->code != TN_E_TIMEOUT ? why : NULL);
}

int box_order(struct box *b, const struct caller *who, enum box_order order, int64_t deadline,
              struct tn_error *err)
{
    struct tn_error why = {0};
    int result = carry_out(b, who, order, NULL, deadline, &why);

    /* Callers are the business of the surface, which knows the request. */
    if (!who)
        audit_own(b, order, result ? &why : NULL);
    if (result && err)
        *err = why;
    return result;
}

int box_rest(struct box *b, enum box_order order, const struct box_view *seen, bool idle,
             struct tn_error *err)
{
    const struct grounds grounds = {.seen = seen, .idle = idle};
    struct tn_error why = {0};
    int result = carry_out(b, NULL, order, &grounds, tn_now(), &why);

    if (!result || why.code != TN_E_BUSY)
        audit_own(b, order, result ? &why : NULL);
    if (result && err)
        *err = why;
    return result;
}

void boxes_stop_all(struct boxes *all, int64_t deadline)
{
    const unsigned states = 1u << BOX_RUNNING | 1u << BOX_PAUSED | 1u << BOX_STARTING;
    size_t count;
    struct box **list = boxes_after(all, &(struct box_filter){0}, &count);
    bool *asked = tn_calloc(count, sizeof *asked);
    struct tn_error why;

    all->let_go = false;
    /* All are asked, then all are waited for. */
    for (size_t i = 0; i < count; i++) {
        pthread_mutex_lock(&list[i]->lock);
        asked[i] = states & 1u << list[i]->state && list[i]->goal != BOX_GONE;
        pthread_mutex_unlock(&list[i]->lock);
        if (asked[i])
            carry_out(list[i], NULL, ORDER_STOP, NULL, 0, &why);
    }
    for (size_t i = 0; i < count; i++) {
        if (asked[i])
            box_order(list[i], NULL, ORDER_STOP, deadline, NULL);
        box_release(list[i]);
    }
    free(list);
    free(asked);
}
