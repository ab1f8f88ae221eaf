#include "hand/python/live.h"

#include "base/clock.h"
#include "base/thread.h"
#include "hand/v1/v1.h"

enum { WAIT_MAX = 30 };

void lives_init(struct lives *l)
{
    pthread_mutex_init(&l->lock, NULL);
    tn_cond_init(&l->changed);
}

static void forget(struct live *c)
{
    tn_buf_done(&c->text);
    *c = (struct live){0};
}

void lives_done(struct lives *l)
{
    for (size_t i = 0; i < LIVE_CELLS; i++)
        forget(&l->cells[i]);
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
}

/* These with the lock. */

static struct live *find(struct lives *l, const char *id)
{
    for (size_t i = 0; i < LIVE_CELLS; i++)
        if (strcmp(l->cells[i].id, id) == 0)
            return &l->cells[i];
    return NULL;
}

static struct live *find_or_make(struct lives *l, const char *id)
{
    struct live *c = find(l, id);

    if (!c) {
        c = &l->cells[0];
        for (size_t i = 1; i < LIVE_CELLS && *c->id; i++)
            if (!*l->cells[i].id || l->cells[i].asked < c->asked)
                c = &l->cells[i];
        forget(c);
        snprintf(c->id, sizeof c->id, "%s", id);
        tn_buf_init(&c->text, LIVE_MAX);
    }
    c->asked = tn_now();
    return c;
}

/* --- the cell -------------------------------------------------------------------------------- */

bool lives_wanted(struct lives *l, const char *id)
{
    pthread_mutex_lock(&l->lock);
    bool wanted = id && *id && find(l, id);
    pthread_mutex_unlock(&l->lock);
    return wanted;
}

void lives_add(struct lives *l, const char *id, const char *text, size_t n)
{
    pthread_mutex_lock(&l->lock);
    struct live *c = find(l, id);
    if (c && n <= LIVE_MAX - c->text.len)
        tn_buf_add(&c->text, text, n);
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
}

void lives_end(struct lives *l, const char *id)
{
    pthread_mutex_lock(&l->lock);
    struct live *c = id && *id ? find(l, id) : NULL;
    if (c)
        c->ended = true;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
}

void lives_wake(struct lives *l)
{
    pthread_mutex_lock(&l->lock);
    for (size_t i = 0; i < LIVE_CELLS; i++)
        l->cells[i].ended = *l->cells[i].id;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
}

/* --- who follows ----------------------------------------------------------------------------- */

/* With the lock: takes what there is from the offset on.  True: the cell has ended, and that was
 * all. */
static bool take(struct lives *l, const char *id, uint64_t offset, int64_t deadline,
                 struct tn_buf *out)
{
    struct timespec until = tn_timespec(deadline);
    struct live *c = find_or_make(l, id);

    while (c && !c->ended && c->first + c->text.len <= offset &&
           pthread_cond_timedwait(&l->changed, &l->lock, &until) == 0)
        c = find(l, id); /* it may have had to make room */
    if (!c)
        return true;
    size_t read = offset > c->first ? (size_t)(offset - c->first) : 0;
    tn_buf_eat(&c->text, read < c->text.len ? read : c->text.len);
    c->first = offset > c->first ? offset : c->first;
    tn_buf_add(out, tn_buf_str(&c->text), c->text.len);
    bool all = c->ended && c->text.len == 0;
    if (all)
        forget(c);
    return all;
}

void lives_answer(struct lives *l, struct tn_http_exchange *x)
{
    const char *id = tn_http_param(x, "id");
    int64_t offset = tn_v1_query_number(x, "offset", 0);
    int64_t wait = offset < 0 ? -1 : tn_v1_query_number(x, "wait", 0);
    tn_autobuf struct tn_buf out = TN_BUF_INIT(LIVE_MAX);

    if (wait < 0)
        return;
    if (!id || !*id || strlen(id) >= LIVE_ID_SIZE) {
        tn_http_reply_detail(x, 422, "expected the X-Request-Id of an action, of at most 64 bytes");
        return;
    }
    pthread_mutex_lock(&l->lock);
    bool ended = take(l, id, (uint64_t)offset,
                      tn_deadline_in((double)(wait < WAIT_MAX ? wait : WAIT_MAX)), &out);
    pthread_mutex_unlock(&l->lock);
    tn_http_set_header(x, "X-Output-Finished", ended ? "true" : "false");
    tn_http_reply(x, 200, "text/plain; charset=utf-8", tn_buf_str(&out), out.len);
}
