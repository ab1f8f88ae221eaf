#include "hand/python/kernel.h"

#include <signal.h>

#include "base/thread.h"
#include "hand/plugin.h"
#include "hand/python/exports.h"
#include "hand/python/kernel-internal.h"

/* An answer that is late: the bridge has given the cell most of it to stop. */
#define ANSWER_SECONDS 0.9
/* When a bridge must have ended a cell, or its kernel: its own grace and a little. */
#define OWED_SECONDS 5.0
#define AGAIN_SECONDS 0.2
#define LONGEST 86400.0 /* even a cell without a limit ends */
enum { CODE_MAX = 8 << 20, REQUEST_MAX = 96 << 20 };

/* --- life ----------------------------------------------------------------------------------- */

struct kernel *kernel_new(struct kernel_place *place, const char *name)
{
    struct kernel *k = tn_calloc(1, sizeof *k);

    k->refs = 1;
    k->place = place;
    k->name = tn_strdup(name);
    pthread_mutex_init(&k->lock, NULL);
    tn_cond_init(&k->changed);
    return k;
}

struct kernel *kernel_ref(struct kernel *k)
{
    __atomic_add_fetch(&k->refs, 1, __ATOMIC_RELAXED);
    return k;
}

void kernel_unref(struct kernel *k)
{
    if (!k || __atomic_sub_fetch(&k->refs, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    bridge_free(k->bridge);
    exports_free(k->exports);
    pthread_cond_destroy(&k->changed);
    pthread_mutex_destroy(&k->lock);
    free(k->name);
    free(k->listing);
    free(k->cwd);
    free(k->died);
    free(k->lost);
    free(k->file);
    free(k->interpreter);
    free(k);
}

bool kernel_is_spare(struct kernel *k)
{
    pthread_mutex_lock(&k->lock);
    bool spare = !k->bridge && __atomic_load_n(&k->refs, __ATOMIC_ACQUIRE) == 1;
    pthread_mutex_unlock(&k->lock);
    return spare;
}

const char *kernel_name(const struct kernel *k)
{
    return k->name;
}

/* --- turns ---------------------------------------------------------------------------------- */

enum turn { TURN_MINE, TURN_GIVEN_UP, TURN_LATE };

static enum turn take_turn(struct kernel *k, struct kernel_turn *me, int64_t deadline)
{
    struct timespec until = tn_timespec(deadline);
    struct kernel_turn **end = &k->turns;

    pthread_mutex_lock(&k->lock);
    while (*end)
        end = &(*end)->next;
    *end = me;
    while (k->turns != me && !me->given_up) {
        if (pthread_cond_timedwait(&k->changed, &k->lock, &until) == ETIMEDOUT)
            break;
    }
    enum turn turn = me->given_up ? TURN_GIVEN_UP : k->turns == me ? TURN_MINE : TURN_LATE;
    pthread_mutex_unlock(&k->lock);
    return turn;
}

static void leave_turn(struct kernel *k, struct kernel_turn *me)
{
    pthread_mutex_lock(&k->lock);
    for (struct kernel_turn **t = &k->turns; *t; t = &(*t)->next) {
        if (*t == me) {
            *t = me->next;
            break;
        }
    }
    pthread_cond_broadcast(&k->changed);
    pthread_mutex_unlock(&k->lock);
}

/* --- a cell --------------------------------------------------------------------------------- */

static void put_step(struct tn_jw *w, const char *name, const char *code)
{
    tn_jw_object(w);
    tn_jw_kstr(w, "name", name);
    tn_jw_kstr(w, "code", code);
    tn_jw_object_end(w);
}

/* What a new kernel runs before its first cell. */
static void put_init(struct kernel *k, const struct kernel_cell *cell, struct tn_jw *w)
{
    struct kernel_place *p = k->place;

    tn_jw_key(w, "init");
    tn_jw_array(w);
    if (tn_plugin_enabled(p->hand, &tn_plugin_agent_skills)) {
        tn_autobuf struct tn_buf code = TN_BUF_INIT(16 << 10);
        struct tn_jw literal = tn_jw(&code);
        tn_buf_puts(&code, "__import__('sys').path.append(");
        tn_jw_str(&literal, p->directory); /* Python reads it, too */
        tn_buf_puts(&code, ")\nfrom agentskills import *\n");
        put_step(w, "the agent skills could not be loaded", tn_buf_str(&code));
    }
    if (*cell->init)
        put_step(w, "kernel_init_code failed", cell->init);
    tn_jw_array_end(w);
}

/* What the shell exports now and did not when the kernel was last told. */
static void put_exports(struct kernel *k, struct tn_session *shell, int64_t deadline,
                        struct tn_jw *w)
{
    tn_autofree char *listing = tn_session_exports(shell, deadline);

    if (!listing || (k->listing && strcmp(listing, k->listing) == 0))
        return;
    char **exports = exports_parse(listing);
    tn_jw_key(w, "env");
    tn_jw_object(w);
    exports_put_changes(k->exports, exports, w);
    tn_jw_object_end(w);
    exports_free(k->exports);
    k->exports = exports;
    free(k->listing);
    k->listing = TN_TAKE_PTR(listing);
}

static void put_request(struct kernel *k, const struct kernel_cell *cell, const char *cwd,
                        int64_t deadline, struct tn_buf *line)
{
    struct tn_jw w = tn_jw(line);
    struct tn_session *shell = kernel_shell(k);

    tn_jw_object(&w);
    tn_jw_kint(&w, "id", (int64_t)++k->requests);
    tn_jw_kstr(&w, "code", cell->code);
    if (!k->cwd || strcmp(k->cwd, cwd) != 0) {
        tn_jw_kstr(&w, "cwd", cwd);
        free(k->cwd);
        k->cwd = tn_strdup(cwd);
    }
    put_exports(k, shell, deadline, &w);
    if (k->fresh)
        put_init(k, cell, &w);
    k->fresh = false;
    double left = (double)(deadline - tn_now()) / 1e9;
    tn_jw_kdouble(&w, "timeout", left > 0 ? left : 0);
    if (cell->live)
        tn_jw_kbool(&w, "live", true);
    tn_jw_object_end(&w);
    tn_buf_putc(line, '\n');
    tn_session_unref(shell);
}

/* Passes on what the cell has printed; false: the message is something else. */
static bool is_live(struct kernel *k, const struct kernel_cell *cell, const struct tn_json *message)
{
    size_t n = 0;
    const char *text = cell->live ? tn_json_str(tn_json_get(message, "live"), &n) : NULL;

    if (!text)
        return false;
    bridge_expect(k->bridge);
    cell->live(text, n, cell->ctx);
    return true;
}

/* Takes the answer to the request; true unless time is up without one. */
static bool await_answer(struct kernel *k, const struct kernel_cell *cell, int64_t deadline,
                         struct kernel_result *r, struct tn_error *err)
{
    int64_t answer_by = deadline + (int64_t)(ANSWER_SECONDS * 1e9);

    while (bridge_receive(k->bridge, answer_by, &r->answer, err) == 0) {
        bool ours = (uint64_t)tn_json_int(tn_json_get(r->answer, "id"), 0) == k->requests;
        bool live = ours && is_live(k, cell, r->answer);
        if (ours && !live)
            return true;
        if (!live)
            kernel_note(k, r->answer);
        tn_json_free(TN_TAKE_PTR(r->answer));
        if (tn_now() > answer_by) { /* one that never stops talking */
            tn_fail(err, TN_E_TIMEOUT, "the kernel does not answer");
            return false;
        }
    }
    return false;
}

static void die(struct kernel *k, const char *why, struct kernel_result *r)
{
    r->end = KERNEL_DIED;
    r->why = tn_strdup(why);
    kernel_lose(k, r->why);
}

/* The next cell has to wait until this one has stopped, or its kernel has exited. */
static void owe(struct kernel *k)
{
    k->owed = k->requests;
    k->owed_until = tn_deadline_in(OWED_SECONDS);
}

static void time_out(struct kernel *k, struct kernel_result *r, bool stopped)
{
    r->end = KERNEL_TIMEOUT;
    if (stopped)
        return;
    owe(k);
    r->why = tn_strdup("The cell was interrupted but has not stopped yet: if it does not within "
                       "seconds, the kernel is restarted");
}

/* A kernel that has run a cell was a good one, whatever a later cell does to it. */
static void done(struct kernel *k, struct kernel_result *r, bool stopped)
{
    r->end = KERNEL_DONE;
    if (!stopped)
        owe(k);
    k->backoff = (struct tn_backoff){0};
}

static void run_cell(struct kernel *k, struct kernel_turn *me, const struct kernel_cell *cell,
                     int64_t deadline, struct kernel_result *r)
{
    tn_autobuf struct tn_buf line = TN_BUF_INIT(REQUEST_MAX);
    bool first = k->fresh;
    struct tn_error err;

    put_request(k, cell, r->cwd, deadline, &line);
    pthread_mutex_lock(&k->lock);
    me->sent = true;
    me->first = first;
    pthread_mutex_unlock(&k->lock);
    if (bridge_send(k->bridge, &line, deadline, &err) < 0) {
        die(k, err.text, r); /* half a line may have been sent */
        return;
    }
    if (!await_answer(k, cell, deadline, r, &err)) {
        if (err.code == TN_E_TIMEOUT)
            time_out(k, r, false);
        else
            die(k, k->died ? k->died : err.text, r);
        return;
    }
    const char *end = tn_json_get_str(r->answer, "end", "");
    bool stopped = tn_json_bool(tn_json_get(r->answer, "stopped"), true);
    if (strcmp(end, "died") == 0)
        die(k, tn_json_get_str(r->answer, "died", ""), r);
    else if (strcmp(end, "timeout") == 0)
        time_out(k, r, stopped);
    else
        done(k, r, stopped);
}

/* With the turn. */
static void run_in_turn(struct kernel *k, struct kernel_turn *me, const struct kernel_cell *cell,
                        int64_t deadline, struct kernel_result *r)
{
    struct tn_error err = {0};

    if (kernel_ensure(k, deadline, &err) < 0) {
        r->end = err.code == TN_E_TIMEOUT ? KERNEL_TIMEOUT : KERNEL_FAILED;
        r->why = tn_strdup(err.text);
        return;
    }
    pthread_mutex_lock(&k->lock);
    bool given_up = me->given_up; /* while the kernel was starting */
    k->cells += !given_up;
    pthread_mutex_unlock(&k->lock);
    if (given_up) {
        r->end = KERNEL_GIVEN_UP;
        return;
    }
    r->lost = TN_TAKE_PTR(k->lost);
    r->interpreter = tn_strdup(k->interpreter);
    run_cell(k, me, cell, deadline, r);
}

void kernel_run(struct kernel *k, const struct kernel_cell *cell, struct kernel_result *r)
{
    int64_t deadline = tn_deadline_in(cell->timeout < LONGEST ? cell->timeout : LONGEST);
    struct tn_session *shell = kernel_shell(k);
    struct kernel_turn me = {.request = cell->request};

    *r = (struct kernel_result){.end = KERNEL_TIMEOUT, .cwd = tn_session_cwd(shell)};
    tn_session_unref(shell);
    if (strlen(cell->code) > CODE_MAX) {
        r->end = KERNEL_FAILED;
        r->why = tn_strdup("the cell is too long: write it to a file and run that");
        return;
    }
    switch (take_turn(k, &me, deadline)) {
    case TURN_MINE:
        run_in_turn(k, &me, cell, deadline, r);
        break;
    case TURN_GIVEN_UP:
        r->end = KERNEL_GIVEN_UP;
        break;
    case TURN_LATE:
        r->why = tn_strdup("The cell was not run: others are still running");
        break;
    }
    leave_turn(k, &me);
}

void kernel_result_done(struct kernel_result *r)
{
    tn_json_free(r->answer);
    free(r->why);
    free(r->lost);
    free(r->cwd);
    free(r->interpreter);
}

/* --- from outside --------------------------------------------------------------------------- */

int kernel_start(struct kernel *k, int64_t deadline, struct tn_error *err)
{
    struct kernel_turn me = {0};
    int r = take_turn(k, &me, deadline) == TURN_MINE
                ? kernel_ensure(k, deadline, err)
                : tn_fail(err, TN_E_TIMEOUT, "cells are still running in the kernel %s", k->name);

    leave_turn(k, &me);
    return r;
}

void kernel_stop(struct kernel *k)
{
    struct kernel_turn me = {0};

    pthread_mutex_lock(&k->lock);
    k->stopped = k->bridge;
    if (k->bridge) /* whoever waits for it hears of it */
        tn_helper_signal(bridge_helper(k->bridge), SIGKILL, NULL);
    pthread_mutex_unlock(&k->lock);
    if (take_turn(k, &me, tn_deadline_in(2)) == TURN_MINE && k->bridge)
        kernel_lose(k, "was stopped");
    leave_turn(k, &me);
}

void kernel_interrupt(struct kernel *k)
{
    pthread_mutex_lock(&k->lock);
    if (k->turns && k->bridge)
        bridge_interrupt(k->bridge);
    pthread_mutex_unlock(&k->lock);
}

/* With the lock. */
static struct kernel_turn *turn_of(const struct kernel *k, const char *request)
{
    struct kernel_turn *t = k->turns;

    while (t && (!t->request || strcmp(t->request, request) != 0))
        t = t->next;
    return t;
}

/* With the lock.  The bridge interrupts the cell once, and ends a kernel whose cell goes on all the
 * same.  A bridge that does not is killed, unless it may still be setting up a new kernel: that has
 * the time of the cell, for the next cell will need it. */
static void end_turn(struct kernel *k, struct kernel_turn *t)
{
    if (!t->sent || !k->bridge)
        return;
    if (!t->owed_until)
        t->owed_until = tn_deadline_in(OWED_SECONDS);
    if (!t->first && tn_now() >= t->owed_until)
        tn_helper_signal(bridge_helper(k->bridge), SIGKILL, NULL);
    else
        bridge_give_up(k->bridge);
}

/* A signal that comes before the bridge has read the request is lost: so it is sent again. */
bool kernel_give_up(struct kernel *k, const char *request, int64_t deadline)
{
    struct kernel_turn *t;
    bool found = false;

    pthread_mutex_lock(&k->lock);
    while ((t = turn_of(k, request)) && (!found || tn_now() < deadline)) {
        int64_t again = tn_deadline_in(AGAIN_SECONDS);
        struct timespec until = tn_timespec(again < deadline ? again : deadline);
        found = t->given_up = true;
        end_turn(k, t);
        pthread_cond_broadcast(&k->changed);
        while ((t = turn_of(k, request)) &&
               pthread_cond_timedwait(&k->changed, &k->lock, &until) == 0)
            ;
    }
    pthread_mutex_unlock(&k->lock);
    return found;
}

void kernel_inspect(struct kernel *k, struct kernel_state *state)
{
    pthread_mutex_lock(&k->lock);
    *state = (struct kernel_state){
        .running = k->bridge && tn_helper_wait(bridge_helper(k->bridge), 0, NULL) < 0,
        .busy = k->turns,
        .cells = k->cells,
        .restarts = k->restarts,
        .file = tn_strdup_or_null(k->file),
        .interpreter = tn_strdup_or_null(k->interpreter),
    };
    if (state->running) {
        state->bridge = tn_helper_pid(bridge_helper(k->bridge));
        state->kernel = k->pid;
        state->memory = tn_helper_memory(bridge_helper(k->bridge));
    }
    pthread_mutex_unlock(&k->lock);
}
