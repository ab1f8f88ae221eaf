/* Which sandboxes there are, and whose.  The store knows that they belong to this process: when it
 * dies, they go. */
#include "base/clock.h"
#include "cli/mcp/mcp.h"

#define MAKING_SECONDS 10.0 /* that the end waits for those in the making */

/* --- the list ------------------------------------------------------------------------------- */

static int reserve(struct mcp_service *s, struct tn_error *err)
{
    pthread_mutex_lock(&s->lock);
    bool ending = s->ending, room = !ending && s->count < s->limit;
    s->count += room;
    pthread_mutex_unlock(&s->lock);
    if (ending)
        return tn_fail(err, TN_E_GONE, "the server is about to end");
    if (!room)
        return tn_fail(err, TN_E_BUSY,
                       "there are %zu sandboxes already: remove one with sandbox_remove", s->limit);
    return 0;
}

static void add(struct mcp_service *s, struct mcp_client *owner, const char *id)
{
    struct box *box = tn_calloc(1, sizeof *box);

    *box = (struct box){.owner = owner, .id = tn_strdup(id)};
    pthread_mutex_lock(&s->lock);
    box->next = s->boxes;
    s->boxes = box;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static void forget(struct mcp_service *s, const char *id)
{
    struct box *gone = NULL;

    pthread_mutex_lock(&s->lock);
    for (struct box **b = &s->boxes; *b; b = &(*b)->next) {
        if (strcmp((*b)->id, id) == 0) {
            gone = *b;
            *b = gone->next;
            s->count--;
            break;
        }
    }
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    if (gone)
        free(gone->id);
    free(gone);
}

/* Clients reach what is theirs and what nobody in particular owns. */
static bool knows(struct mcp_client *c, const char *id)
{
    struct mcp_service *s = c->service;
    bool found = false;

    pthread_mutex_lock(&s->lock);
    for (struct box *b = s->boxes; b && !found; b = b->next)
        found = strcmp(b->id, id) == 0 && (!b->owner || b->owner == c);
    pthread_mutex_unlock(&s->lock);
    return found;
}

struct tn_str_list mcp_list(struct mcp_client *c)
{
    struct mcp_service *s = c->service;
    struct tn_str_list list = {0};

    pthread_mutex_lock(&s->lock);
    list.items = tn_calloc(s->count + 1, sizeof *list.items);
    for (struct box *b = s->boxes; b; b = b->next) {
        if (!b->owner || b->owner == c)
            list.items[list.count++] = tn_strdup(b->id);
    }
    pthread_mutex_unlock(&s->lock);
    return list;
}

/* --- making and removing -------------------------------------------------------------------- */

static struct tn_sandbox *make(struct mcp_service *s, struct mcp_client *owner,
                               struct tn_sandbox *parent, struct tn_error *err)
{
    struct tn_runtime *rt = cli_runtime(s->cli, err);

    if (!rt || reserve(s, err) < 0)
        return NULL;
    int64_t deadline = cli_start_deadline(s->cli);
    struct tn_sandbox *sb = parent ? tn_sandbox_fork(parent, NULL, s->spec, deadline, err)
                                   : tn_sandbox_create(rt, s->spec, deadline, err);
    if (sb) {
        add(s, owner, tn_sandbox_record(sb)->id);
        return sb;
    }
    pthread_mutex_lock(&s->lock);
    s->count--;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

struct tn_sandbox *mcp_make(struct mcp_client *c, struct tn_sandbox *parent, struct tn_error *err)
{
    return make(c->service, c->passing ? NULL : c, parent, err);
}

/* 0 as well when it is gone already. */
static int remove_box(struct mcp_service *s, const char *id, struct tn_error *err)
{
    struct tn_runtime *rt = cli_runtime(s->cli, err);
    struct tn_error why = {0};
    tn_autosandbox struct tn_sandbox *sb = rt ? tn_sandbox_attach(rt, id, &why) : NULL;

    if (!rt)
        return -1;
    if (!sb && why.code != TN_E_NOT_FOUND)
        return tn_fail(err, why.code, "%s", why.text);
    if (sb && tn_sandbox_drive(sb, TN_GOAL_GONE, cli_stop_deadline(s->cli), err) < 0)
        return -1;
    forget(s, id);
    return 0;
}

int mcp_remove(struct mcp_client *c, const char *id, struct tn_error *err)
{
    if (!knows(c, id))
        return tn_fail(err, TN_E_NOT_FOUND, "there is no sandbox '%s' of yours", id);
    if (remove_box(c->service, id, err) < 0)
        return -1;
    pthread_mutex_lock(&c->lock);
    if (c->own && strcmp(c->own, id) == 0)
        free(TN_TAKE_PTR(c->own));
    pthread_mutex_unlock(&c->lock);
    return 0;
}

/* Those of one owner, or all. */
static void remove_of(struct mcp_service *s, struct mcp_client *owner)
{
    for (;;) {
        tn_autofree char *id = NULL;

        pthread_mutex_lock(&s->lock);
        for (struct box *b = s->boxes; b && !id; b = b->next) {
            if (!owner || b->owner == owner)
                id = tn_strdup(b->id);
        }
        pthread_mutex_unlock(&s->lock);
        if (!id)
            return;
        if (remove_box(s, id, NULL) < 0)
            forget(s, id); /* the next collection finds it in the store */
    }
}

/* What takes longer to be made is left to the next collection, as after a crash. */
void mcp_remove_all(struct mcp_service *s)
{
    struct timespec until = tn_timespec(tn_deadline_in(MAKING_SECONDS));
    bool late = false;

    pthread_mutex_lock(&s->lock);
    s->ending = true;
    while (s->count && !late) {
        pthread_mutex_unlock(&s->lock);
        remove_of(s, NULL);
        pthread_mutex_lock(&s->lock);
        if (s->count && !s->boxes)
            late = pthread_cond_timedwait(&s->changed, &s->lock, &until) == ETIMEDOUT;
    }
    pthread_mutex_unlock(&s->lock);
}

/* --- clients -------------------------------------------------------------------------------- */

/* The revision without sessions: every request is a client of its own.  Others, whatever they
 * claim, get an older one. */
#define WITHOUT_SESSIONS "2026-07-28"

void *mcp_client_open(void *ctx, struct tn_mcp_client *client)
{
    struct mcp_client *c = tn_calloc(1, sizeof *c);
    const char *version = tn_json_get_str(tn_mcp_client_hello(client), "protocolVersion", "");

    c->service = ctx;
    c->passing = strcmp(version, WITHOUT_SESSIONS) == 0;
    pthread_mutex_init(&c->lock, NULL);
    return c;
}

void mcp_client_gone(struct mcp_client *c)
{
    remove_of(c->service, c);
}

void mcp_client_close(void *ctx, void *state)
{
    struct mcp_client *c = state;

    mcp_client_gone(c);
    pthread_mutex_destroy(&c->lock);
    free(c->own);
    free(c);
}

char *mcp_own_id(struct mcp_client *c)
{
    pthread_mutex_lock(&c->lock);
    char *id = tn_strdup_or_null(c->own);
    pthread_mutex_unlock(&c->lock);
    return id;
}

/* --- handles -------------------------------------------------------------------------------- */

/* With the client's lock held.  When somebody has removed it, that is told once. */
static struct tn_sandbox *attach_own(struct mcp_client *c, struct tn_runtime *rt,
                                     struct tn_error *err)
{
    struct tn_sandbox *sb = tn_sandbox_attach(rt, c->own, err);

    if (!sb && err->code == TN_E_NOT_FOUND) {
        forget(c->service, c->own);
        free(TN_TAKE_PTR(c->own));
        tn_fail(err, TN_E_NOT_FOUND,
                "your sandbox is gone, with everything in it: the next call makes a new one");
    }
    return sb;
}

struct tn_sandbox *mcp_own_sandbox(struct mcp_client *c, struct tn_error *err)
{
    struct mcp_service *s = c->service;
    struct tn_runtime *rt = cli_runtime(s->cli, err);

    if (!rt)
        return NULL;
    pthread_mutex_lock(&c->lock);
    struct tn_sandbox *sb = s->given ? tn_sandbox_attach(rt, s->given, err)
                            : c->own ? attach_own(c, rt, err)
                                     : NULL;
    pthread_mutex_unlock(&c->lock);
    return sb;
}

static struct tn_sandbox *ensure_own(struct mcp_client *c, struct tn_error *err)
{
    struct tn_runtime *rt = cli_runtime(c->service->cli, err);
    struct tn_sandbox *sb = NULL;

    if (!rt)
        return NULL;
    if (c->service->given)
        return tn_sandbox_attach(rt, c->service->given, err);
    pthread_mutex_lock(&c->lock);
    if (c->own) {
        sb = attach_own(c, rt, err);
    } else {
        sb = make(c->service, c, NULL, err);
        if (sb)
            c->own = tn_strdup(tn_sandbox_record(sb)->id);
    }
    pthread_mutex_unlock(&c->lock);
    return sb;
}

static struct tn_sandbox *find(struct mcp_client *c, const char *which, struct tn_error *err)
{
    if (!which || !*which)
        return ensure_own(c, err);
    if (!knows(c, which)) {
        tn_fail(err, TN_E_NOT_FOUND, "there is no sandbox '%s' of yours: see sandbox_list", which);
        return NULL;
    }
    return tn_sandbox_attach(cli_runtime(c->service->cli, NULL), which, err);
}

struct tn_sandbox *mcp_sandbox(struct mcp_client *c, const char *which, struct tn_error *err)
{
    struct tn_sandbox *sb = find(c, which, err);

    if (sb)
        tn_sandbox_use(sb);
    return sb;
}
