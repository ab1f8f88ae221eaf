/* New boxes: the row and what it was asked for with in one transaction, then the rest. */
#include "runtime/owner.h"
#include "service/blobs.h"
#include "service/bounds.h"
#include "service/box-internal.h"
#include "service/metrics.h"
#include "service/steward.h"
#include "service/volume.h"

/* How long a request waits for a warm one to say that it lives. */
#define WARM_SECONDS 2.0

/* How long an idempotency key is remembered, and how often old ones are looked for. */
#define REMEMBERED_SECONDS 86400.0
#define PURGE_SECONDS 600.0

#define MAX_FACTOR 1024.0

/* A box that is about to be. */
struct birth {
    struct box *b;
    const struct caller *who;
    const struct box_wish *wish;
    struct tn_spec spec; /* of its sandbox */
    bool warm;           /* it was claimed from a pool */
    bool cold;           /* it is not to be: enough were lost */
    bool found;          /* the idempotency key was used before, for this box: */
    char first[11];
    char *digest;
};

static double or_default(double own, double usual)
{
    return own < 0 ? usual : own;
}

/* Time to live: the wish, or what the service says as far as the key may have it. */
static double time_to_live(const struct tn_service *s, const struct caller *who,
                           const struct box_wish *wish)
{
    double most = who->limits.max_seconds;
    double ttl = or_default(wish->ttl, s->options->ttl_seconds);

    return wish->ttl < 0 && most > 0 && (ttl <= 0 || ttl > most) ? most : ttl;
}

static int check_times(const struct tn_service *s, const struct caller *who,
                       const struct box_wish *wish, struct tn_error *err)
{
    const struct tn_service_options *o = s->options;

    return bounds_time(who, "idle_pause", wish->idle_pause, o->idle_pause_seconds,
                       "idle_pause_seconds", err) ||
                   bounds_time(who, "idle_stop", wish->idle_stop, o->idle_stop_seconds,
                               "idle_stop_seconds", err) ||
                   bounds_time(who, "ttl", wish->ttl, o->ttl_seconds, "ttl_seconds", err)
               ? -1
               : 0;
}

/* How far the wishes of the caller go. */
typedef int (*bounds_fn)(struct tn_service *s, const struct caller *who, const char *template,
                         double factor, struct tn_spec *spec, struct tn_error *err);

static int fill_in(struct box *b, const struct caller *who, const struct box_wish *wish,
                   bounds_fn bounds, struct tn_error *err)
{
    const struct tn_backend *backend = spec_backend(b->s, &wish->spec, err);
    double factor = wish->resource_factor;
    char key[33];

    if (!backend)
        return -1;
    if (!(factor >= 0 && factor <= MAX_FACTOR))
        return tn_fail(err, TN_E_INVALID, "resource_factor is from 0 to %g", MAX_FACTOR);
    factor = factor > 0 ? factor : 1;
    if (check_times(b->s, who, wish, err) || tn_spec_copy(&wish->spec, &b->spec, err) ||
        bounds(b->s, who, wish->template, factor, &b->spec, err) || tn_new_key(key, err))
        return -1;
    b->secret = tn_strdup(key);
    explicit_bzero(key, sizeof key);
    b->names.tenant = b->tenant = tn_strdup(who->tenant);
    b->key_id = tn_strdup(who->key_id);
    b->names.session = b->session = tn_strdup_or_null(wish->session);
    b->name = tn_strdup_or_null(wish->name);
    b->template = tn_strdup_or_null(wish->template);
    b->runtime = tn_strdup(backend->name);
    b->metadata = wish->metadata ? tn_json_copy(wish->metadata) : NULL;
    b->resource_factor = factor;
    b->idle_pause = wish->idle_pause;
    b->idle_stop = wish->idle_stop;
    b->created = b->used = wall_clock();
    double ttl = time_to_live(b->s, who, wish);
    b->expires = ttl > 0 ? b->created + ttl : 0;
    b->timeout = wish->timeout > 0 ? b->created + wish->timeout : 0;
    b->timeout_how = wish->timeout_how;
    b->state = BOX_STARTING;
    b->goal = BOX_RUNNING;
    b->known = true;
    b->version = 1;
    b->start_began = tn_now();
    b->asker = who->limits;
    b->asked = true;
    return measure(b, err);
}

/* --- the transaction -------------------------------------------------------------------------- */

static int take_first(const struct tn_db_row *row, void *ctx)
{
    struct birth *birth = ctx;

    birth->digest = tn_strdup(tn_db_text(row, 0));
    snprintf(birth->first, sizeof birth->first, "%s", tn_db_text(row, 1));
    birth->found = true;
    return 0;
}

/* A warm one that fits gives the box its id and its key. */
static int take_warm(struct birth *birth, struct tn_error *err)
{
    tn_autorecord struct tn_record record = {0};
    struct box *b = birth->b;

    if (b->parent || birth->cold)
        return 0;
    int found = tn_sandbox_claim(b->s->rt, &birth->spec, &record, err);
    if (found != 1)
        return found;
    snprintf(b->names.id, sizeof b->names.id, "%s", record.id);
    replace(&b->secret, record.key);
    b->made = b->claimed = birth->warm = true;
    return 0;
}

static int be_born(struct tn_db *db, void *ctx, struct tn_error *err)
{
    struct birth *birth = ctx;
    const struct box_wish *wish = birth->wish;
    struct box *b = birth->b;
    struct tn_error why = {0};

    if (take_warm(birth, err) || (!b->names.id[0] && tn_new_id(b->names.id, err)))
        return -1;
    if (box_insert(db, b, &why)) {
        if (why.code == TN_E_CONFLICT && b->session)
            return tn_fail(err, TN_E_CONFLICT, "there is a sandbox of session '%s' already",
                           b->session);
        *err = why;
        return -1;
    }
    if (box_born_denied(b, birth->who, &birth->spec, err))
        return -1;
    b->directory = tn_asprintf("%s/sandbox/%s", tn_runtime_host(b->s->rt)->state, b->names.id);
    if (!wish->idempotency)
        return 0;
    return tn_db_run(db, err,
                     "INSERT INTO idempotency (tenant, key, digest, box, created)"
                     " VALUES (?,?,?,?,?)",
                     "ttttd", b->tenant, wish->idempotency, wish->digest ? wish->digest : "",
                     b->names.id, b->created) < 0
               ? -1
               : 0;
}

static void forget_old_keys(struct boxes *all)
{
    double now = wall_clock();

    if (now - all->purged < PURGE_SECONDS && now >= all->purged)
        return;
    all->purged = now;
    tn_db_run(all->s->db, NULL, "DELETE FROM idempotency WHERE created < ?", "d",
              now - REMEMBERED_SECONDS);
}

int box_forget_key(struct tn_service *s, const char *tenant, const char *key, const char *id,
                   struct tn_error *err)
{
    return tn_db_run(s->db, err,
                     "DELETE FROM idempotency WHERE tenant = ? AND key = ?"
                     " AND (box = ? OR box NOT IN (SELECT id FROM box))",
                     "ttt", tenant, key, id) < 0
               ? -1
               : 0;
}

/* --- from the wish to the box ----------------------------------------------------------------- */

/* The box of the first request with that idempotency key. */
static struct box *the_first(struct birth *birth, struct tn_error *err)
{
    struct tn_service *s = birth->b->s;
    const char *digest = birth->wish->digest ? birth->wish->digest : "";

    if (strcmp(birth->digest, digest) != 0) {
        tn_fail(err, TN_E_CONFLICT, "that idempotency key was used for another request");
        return NULL;
    }
    struct box *first = boxes_find(s->boxes, birth->first);
    if (!first)
        tn_fail(err, TN_E_GONE, "sandbox %s, made with that idempotency key, was deleted",
                birth->first);
    return first;
}

/* Whether that idempotency key was used before. */
static int look_up(struct birth *birth, struct tn_error *err)
{
    const struct box *b = birth->b;

    return birth->wish->idempotency &&
                   tn_db_each(b->s->db, take_first, birth, err,
                              "SELECT digest, box FROM idempotency WHERE tenant = ? AND key = ?",
                              "tt", b->tenant, birth->wish->idempotency) < 0
               ? -1
               : 0;
}

static int may_have(struct box *b, const struct caller *who, int64_t volumes, struct tn_error *err)
{
    struct quota_use used, wanted = {.sandboxes = 1,
                                     .running = 1,
                                     .memory = b->memory,
                                     .cpus = b->cpus,
                                     .pids = b->pids,
                                     .disk = b->disk ? b->disk + b->claim : 0,
                                     .seconds = b->expires ? b->expires - b->created : 0};

    boxes_use(b->all, b->tenant, NULL, &used);
    if (who->limits.max_disk > 0)
        used.disk += blobs_charge(b->s, b->tenant) + volumes;
    return admit_check(b->s, &who->limits, &used, &wanted, err);
}

/* Counting, the rows and the table are one step for everybody else. */
static int register_birth(struct birth *birth, const struct caller *who, struct tn_error *err)
{
    struct box *b = birth->b;
    struct boxes *all = b->all;
    int64_t volumes = who->limits.max_disk > 0 ? volume_charge(b->s, b->tenant) : 0;

    pthread_mutex_lock(&all->births);
    forget_old_keys(all);
    int result = look_up(birth, err);
    if (!result && !birth->found) {
        result = may_have(b, who, volumes, err) || tn_db_atomically(b->s->db, be_born, birth, err);
        if (!result)
            boxes_add(all, b);
    }
    pthread_mutex_unlock(&all->births);
    return result;
}

static bool let_live(struct box *b, bool warm)
{
    if (warm)
        return box_work_warm(b, tn_deadline_in(WARM_SECONDS));
    box_tell(b);
    pthread_mutex_lock(&b->lock);
    box_work(b);
    pthread_mutex_unlock(&b->lock);
    return true;
}

/* As if it had never been; what is left of its sandbox here is gc's. */
static int be_unborn(struct tn_db *db, void *ctx, struct tn_error *err)
{
    struct box *b = ctx;

    if (tn_db_run(db, err, "DELETE FROM idempotency WHERE box = ?", "t", b->names.id) < 0 ||
        tn_db_run(db, err, "DELETE FROM box WHERE id = ?", "t", b->names.id) < 0)
        return -1;
    return tn_store_disown(tn_runtime_store(b->s->rt), b->names.id, err);
}

/* False: it stays, and its worker finds that its sandbox is another's. */
static bool undo_birth(struct box *b)
{
    pthread_mutex_lock(&b->all->births);
    bool undone = tn_db_atomically(b->s->db, be_unborn, b, NULL) == 0;
    if (undone)
        boxes_remove(b->all, b);
    pthread_mutex_unlock(&b->all->births);
    if (undone)
        return true;
    pthread_mutex_lock(&b->lock);
    b->gone = b->lost = false;
    box_work(b);
    pthread_mutex_unlock(&b->lock);
    return false;
}

/* What can never work is the caller's mistake, and nothing is made of it. */
static int can_be(const struct box *b, const struct tn_spec *spec, struct tn_error *err)
{
    struct tn_error why = {0};

    if (!tn_sandbox_check(b->s->rt, spec, &why))
        return 0;
    return tn_fail(err, why.code == TN_E_UNSUPPORTED ? TN_E_INVALID : why.code, "%s", why.text);
}

/* Takes the box that is to be.  *lost: its warm one went to another, and there is no box; again. */
static struct box *give_birth(struct box *given, const struct caller *who,
                              const struct box_wish *wish, bool cold, bool *again, bool *lost,
                              struct tn_error *err)
{
    autobox struct box *b = given;
    struct birth birth = {.b = b, .who = who, .wish = wish, .cold = cold};
    struct box *result = NULL;

    *lost = false;
    if (sandbox_spec(b, &birth.spec, err))
        return NULL;
    if (can_be(b, &birth.spec, err)) {
        tn_spec_done(&birth.spec);
        return NULL;
    }
    if (!register_birth(&birth, who, err)) {
        if (again)
            *again = birth.found;
        result = birth.found ? the_first(&birth, err) : box_ref(b);
    }
    if (result == b) {
        if (!b->parent)
            pool_used(b->s, &birth.spec, birth.warm);
        *lost = !let_live(b, birth.warm);
    }
    if (*lost && (*lost = undo_birth(b)))
        box_release(TN_TAKE_PTR(result));
    tn_spec_done(&birth.spec);
    free(birth.digest);
    return result;
}

struct box *box_create(struct tn_service *s, const struct caller *who, const struct box_wish *wish,
                       bool *again, struct tn_error *err)
{
    bool lost = true;

    for (int tries = 0; lost; tries++) { /* what is not warm is not lost */
        struct box *b = box_new(s);
        if (fill_in(b, who, wish, bounds_settle, err)) {
            box_release(b);
            return NULL;
        }
        b = give_birth(b, who, wish, tries >= TN_WARM_TRIES, again, &lost, err);
        if (!lost)
            return b;
    }
    return NULL;
}

/* --- forks ------------------------------------------------------------------------------------ */

static int is_named(const struct tn_snapshot *snapshot, void *ctx)
{
    return !strcmp(snapshot->name, ctx) ? 1 : 0;
}

static int can_fork(struct box *b, const char *snapshot, struct tn_error *err)
{
    const struct tn_backend *backend = spec_backend(b->s, &b->spec, err);

    if (!backend)
        return -1;
    if (!(backend->abilities & TN_CAN_SNAPSHOT))
        return tn_fail(err, TN_E_UNSUPPORTED, "%s cannot fork a sandbox", backend->name);
    pthread_mutex_lock(&b->lock);
    bool there = b->made && !b->gone && b->goal != BOX_GONE && b->state != BOX_MISSING;
    enum box_state state = b->state;
    pthread_mutex_unlock(&b->lock);
    if (!there)
        return tn_fail(err, TN_E_CONFLICT, "sandbox %s is %s: there is nothing to fork",
                       b->names.id, box_state_words[state]);
    if (!snapshot)
        return 0;
    int found = tn_store_snapshots(tn_runtime_store(b->s->rt), b->names.id, is_named,
                                   (void *)snapshot, err);
    return found > 0   ? 0
           : found < 0 ? -1
                       : tn_fail(err, TN_E_NOT_FOUND, "there is no snapshot named '%s'", snapshot);
}

static struct box *fork_box(struct box *b, const struct caller *who, const char *snapshot,
                            const struct box_wish *wish, struct tn_error *err)
{
    tn_autosandbox struct tn_sandbox *parent = box_attach(b, err);
    struct box_wish inherited = *wish;
    struct tn_str_list rules;

    if (!parent || box_hand_on_rules(b, who, tn_sandbox_spec(parent), &rules, err))
        return NULL;

    struct box *child = box_new(b->s);
    autoview struct box_view v;

    box_look(b, &v);
    inherited.spec = v.spec; /* borrowed, with what is its own */
    inherited.spec.network = tn_sandbox_spec(parent)->network;
    inherited.spec.allow = rules;
    inherited.spec.runtime = b->runtime;
    inherited.resource_factor = b->resource_factor;
    inherited.template = b->template;
    if (wish->spec.labels)
        inherited.spec.labels = wish->spec.labels;
    if (wish->spec.env)
        inherited.spec.env = wish->spec.env;
    if (wish->spec.volumes.count)
        inherited.spec.volumes = wish->spec.volumes;
    if (wish->closed)
        tn_spec_close(&inherited.spec);
    int failed = fill_in(child, who, &inherited, bounds_fork, err);
    free(rules.items);
    if (failed) {
        box_release(child);
        return NULL;
    }
    child->parent = tn_strdup(b->names.id);
    child->snapshot = tn_strdup_or_null(snapshot);
    bool lost; /* none of a pool: never */
    return give_birth(child, who, &inherited, true, NULL, &lost, err);
}

struct box *box_fork(struct box *b, const struct caller *who, const char *snapshot,
                     const struct box_wish *wish, struct tn_error *err)
{
    if (box_await_known(b, 0, err) || can_fork(b, snapshot, err))
        return NULL;
    return fork_box(b, who, snapshot, wish, err);
}
