/* After a start of the service: how every box really is, and going on with what was under way. */
#include "base/log.h"
#include "base/thread.h"
#include "service/box-internal.h"
#include "service/steward.h"

#define MAX_THREADS 4

/* For a sandbox of ours that has no box. */
#define STRAY_SECONDS 30.0

/* Looks at one of which nothing is known yet, unless somebody is at it. */
static void get_to_know(struct box *b)
{
    pthread_mutex_lock(&b->lock);
    bool ours = !b->known && !b->working;
    if (ours)
        b->working = true;
    pthread_mutex_unlock(&b->lock);
    if (!ours)
        return;
    box_look_at_sandbox(b);
    pthread_mutex_lock(&b->lock);
    b->known = true;
    b->working = false;
    pthread_cond_broadcast(&b->changed);
    atomic_fetch_sub(&b->all->unknown, 1);
    if (b->goal != b->state)
        box_work(b);
    pthread_mutex_unlock(&b->lock);
    box_tell(b);
    steward_nudge(b->s->steward, b);
}

int box_await_known(struct box *b, int64_t deadline, struct tn_error *err)
{
    int64_t until = deadline > b->all->known_by ? deadline : b->all->known_by;
    int result = 0;

    pthread_mutex_lock(&b->lock);
    while (!result && !b->known) {
        if (b->working || !b->all->begun || tn_now() >= until) {
            result = box_sleep(b, until, err);
            continue;
        }
        pthread_mutex_unlock(&b->lock);
        get_to_know(b);
        pthread_mutex_lock(&b->lock);
    }
    pthread_mutex_unlock(&b->lock);
    return result;
}

int boxes_unknown(struct boxes *all)
{
    return atomic_load(&all->unknown);
}

/* --- sandboxes without a box ------------------------------------------------------------------ */

struct strays {
    char (*ids)[11];
    size_t count;
};

static int take_id(const struct tn_db_row *row, void *ctx)
{
    struct strays *s = ctx;

    s->ids = tn_realloc(s->ids, (s->count + 1) * sizeof *s->ids);
    snprintf(s->ids[s->count++], sizeof *s->ids, "%s", tn_db_text(row, 0));
    return 0;
}

/* A box is written before its sandbox and removed after it, so there are none unless somebody else
 * changed the rows. */
static void remove_strays(struct boxes *all)
{
    struct strays found = {0};

    tn_db_each(all->s->db, take_id, &found, NULL,
               "SELECT id FROM sandbox WHERE pool IS NULL AND id NOT IN (SELECT id FROM box)"
               " AND json_extract(spec, '$.labels.\"" BOX_LABEL "\"') IS NOT NULL",
               "");
    for (size_t i = 0; i < found.count && !all->closing; i++) {
        struct tn_error why = {0};
        tn_autosandbox struct tn_sandbox *sb = tn_sandbox_attach(all->s->rt, found.ids[i], &why);
        int failed = !sb || tn_sandbox_drive(sb, TN_GOAL_GONE, tn_deadline_in(STRAY_SECONDS), &why);
        tn_log(failed ? TN_LOG_WARN : TN_LOG_INFO, "a sandbox without a box",
               tn_log_str("sandbox", found.ids[i]),
               tn_log_str("result", failed ? why.text : "removed"));
    }
    free(found.ids);
}

/* --- all at once ------------------------------------------------------------------------------ */

static void leave(struct boxes *all)
{
    pthread_mutex_lock(&all->work_lock);
    all->workers--;
    pthread_cond_broadcast(&all->work_done);
    pthread_mutex_unlock(&all->work_lock);
}

static void *recover(void *arg)
{
    struct boxes *all = arg;
    size_t i;

    while (!all->closing && (i = atomic_fetch_add(&all->next, 1)) < all->found_count)
        get_to_know(all->found[i]);
    leave(all);
    return NULL;
}

static void *recover_and_clear(void *arg)
{
    struct boxes *all = arg;

    remove_strays(all);
    return recover(all);
}

static void start_thread(struct boxes *all, void *(*run)(void *))
{
    pthread_t thread;

    pthread_mutex_lock(&all->work_lock);
    all->workers++;
    pthread_mutex_unlock(&all->work_lock);
    if (!tn_thread_start(&thread, run, all))
        pthread_detach(thread);
    else
        run(all);
}

void boxes_begin(struct boxes *all)
{
    size_t count;
    struct box **list = boxes_after(all, &(struct box_filter){0}, &count);

    ends_open(all);
    all->begun = true;
    all->found = tn_malloc(count * sizeof *all->found);
    for (size_t i = 0; i < count; i++) {
        struct box *b = list[i];
        pthread_mutex_lock(&b->lock);
        if (!b->known)
            all->found[all->found_count++] = box_ref(b);
        else if (b->goal != b->state)
            box_work(b);
        pthread_mutex_unlock(&b->lock);
        box_release(b);
    }
    free(list);
    start_thread(all, recover_and_clear);
    for (size_t i = 1; i < MAX_THREADS && i < all->found_count; i++)
        start_thread(all, recover);
}
