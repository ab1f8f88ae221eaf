/* What a jail has on the disk, counted in slices: a tree of millions of files takes as many calls
 * as it needs, and in between others are served.  A walk that is under way keeps its directories
 * open, so there are only a few at a time. */
#include <fcntl.h>

#include "base/clock.h"
#include "base/fs.h"
#include "runtime/jail/jail.h"
#include "runtime/jail/layer.h"

#define SLICE_SECONDS 0.2
#define STALE_SECONDS 60.0 /* nobody has gone on with it: its sandbox may be gone */

void jail_walks_init(struct jail_walks *g)
{
    pthread_mutex_init(&g->lock, NULL);
}

void jail_walks_done(struct jail_walks *g)
{
    for (size_t i = 0; i < TN_COUNT(g->all); i++)
        tn_tree_walk_free(g->all[i].walk);
    pthread_mutex_destroy(&g->lock);
}

/* The sandbox's own, else one that nobody needs; NULL: there is none, or another thread has it. */
static struct jail_walk *take(struct jail_walks *g, const char *id)
{
    struct jail_walk *found = NULL;

    pthread_mutex_lock(&g->lock);
    for (size_t i = 0; i < TN_COUNT(g->all); i++) {
        struct jail_walk *w = &g->all[i];
        if (strcmp(w->id, id) == 0) {
            found = w->busy ? NULL : w;
            break;
        }
        if (!w->busy && (!w->walk || tn_now() > w->stale) && !found)
            found = w;
    }
    if (found) {
        found->busy = true;
        if (strcmp(found->id, id) != 0) {
            tn_tree_walk_free(TN_TAKE_PTR(found->walk));
            snprintf(found->id, sizeof found->id, "%s", id);
        }
    }
    pthread_mutex_unlock(&g->lock);
    return found;
}

static void give_back(struct jail_walks *g, struct jail_walk *w)
{
    pthread_mutex_lock(&g->lock);
    w->busy = false;
    w->stale = tn_deadline_in(STALE_SECONDS);
    if (!w->walk)
        w->id[0] = '\0';
    pthread_mutex_unlock(&g->lock);
}

static int go_on(struct jail_walk *w, int upper, int64_t deadline, struct tn_tree_count *count,
                 struct tn_error *err)
{
    if (w->walk && !tn_tree_walk_is_of(w->walk, upper)) /* rolled back, or folded */
        tn_tree_walk_free(TN_TAKE_PTR(w->walk));
    if (!w->walk && !(w->walk = tn_tree_walk_new(upper, err)))
        return -1;
    int r = tn_tree_walk_on(w->walk, deadline, count, err);
    if (r == 0 || err->code != TN_E_TIMEOUT)
        tn_tree_walk_free(TN_TAKE_PTR(w->walk));
    return r;
}

int64_t jail_measure_tree(struct jail_engine *e, const char *id, int upper, bool *partial)
{
    int64_t deadline = tn_deadline_in(SLICE_SECONDS);
    struct jail_walk *w = take(&e->walks, id);
    struct tn_tree_count count = {0};
    struct tn_error why = {0};
    int r = w ? go_on(w, upper, deadline, &count, &why)
              : tn_tree_measure(upper, deadline, &count, &why);

    if (w)
        give_back(&e->walks, w);
    *partial = r < 0;
    return r == 0 || why.code == TN_E_TIMEOUT || why.code == TN_E_IO ? (int64_t)count.bytes : -1;
}
