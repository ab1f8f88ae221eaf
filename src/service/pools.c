/* Which pools there are. */
#include "service/pools.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"

#define TARGET_MOST 10000
#define BURST_MOST 64
#define SPEC_MOST (1u << 20)

static void info_done(struct pool_info *i)
{
    free(i->name);
    free(i->template);
    free(i->problem);
    tn_spec_done(&i->spec);
    *i = (struct pool_info){0};
}

static void pool_free(struct pool *x)
{
    info_done(&x->info);
    free(x->runtime);
    free(x);
}

void pool_info_done(struct pool_info *p)
{
    info_done(p);
}

/* --- reading rows -------------------------------------------------------------------------- */

struct rows {
    struct pool *first, **end;
};

static int read_spec(const char *text, struct tn_spec *spec)
{
    tn_autojson struct tn_json *json = NULL;

    tn_spec_init(spec);
    return tn_json_parse(text, strlen(text), &json, NULL) || tn_spec_from_json(json, spec, NULL);
}

static int read_row(const struct tn_db_row *row, void *ctx)
{
    struct rows *rows = ctx;
    struct pool *x = tn_calloc(1, sizeof *x);

    x->runtime = tn_strdup(tn_db_text(row, 0));
    snprintf(x->digest, sizeof x->digest, "%s", tn_db_text(row, 1));
    x->info.name = tn_strdup(tn_db_text(row, 2));
    x->info.template = tn_strdup_or_null(tn_db_text(row, 3));
    x->info.target = tn_db_int(row, 5);
    x->info.minimum = tn_db_int(row, 6);
    x->info.burst = tn_db_int(row, 7);
    x->info.configured = tn_db_int(row, 8);
    /* One that cannot be read can still be drained. */
    x->gone = read_spec(tn_db_text(row, 4), &x->info.spec) || tn_db_int(row, 9);
    x->listed = true;
    x->look = true;
    *rows->end = x;
    rows->end = &x->next;
    return 0;
}

/* Takes it out of the list; NULL: not in it. */
static struct pool *take(struct pool **list, const char *runtime, const char *digest)
{
    while (*list &&
           (strcmp((*list)->runtime, runtime) != 0 || strcmp((*list)->digest, digest) != 0))
        list = &(*list)->next;
    struct pool *found = *list;
    if (found)
        *list = found->next;
    return found;
}

/* The pool stays (somebody may be at work for it), what it should be is new. */
static struct pool *renew(struct pool *old, struct pool *row)
{
    struct pool_info was = old->info;

    old->info = row->info;
    row->info = was;
    old->info.claimed = was.claimed;
    old->info.missed = was.missed;
    old->gone = row->gone;
    old->listed = old->look = true;
    old->not_before = 0;
    old->backoff = 0;
    pool_free(row);
    return old;
}

static void merge(struct pools *p, struct pool *rows)
{
    struct pool *old = p->first, **end = &p->first, *x;

    while ((x = rows)) {
        rows = x->next;
        struct pool *known = take(&old, x->runtime, x->digest);
        *end = known ? renew(known, x) : x;
        end = &(*end)->next;
    }
    *end = NULL;
    while ((x = old)) {
        old = x->next;
        x->gone = true;
        x->listed = false;
        x->next = NULL;
        if (x->workers || x->pins) {
            *end = x;
            end = &x->next;
        } else {
            pool_free(x);
        }
    }
}

int pools_reload(struct pools *p, struct tn_error *err)
{
    struct rows rows = {0};

    rows.end = &rows.first;
    int n = tn_db_each(p->s->db, read_row, &rows, err,
                       "SELECT runtime, digest, name, template, spec, target, minimum, burst,"
                       " configured, gone FROM pool ORDER BY gone, name",
                       "");
    if (n >= 0) {
        pthread_mutex_lock(&p->lock);
        merge(p, rows.first);
        pthread_cond_broadcast(&p->changed);
        pthread_mutex_unlock(&p->lock);
        return 0;
    }
    for (struct pool *x = rows.first, *next; x; x = next) {
        next = x->next;
        pool_free(x);
    }
    return -1;
}

/* --- writing rows -------------------------------------------------------------------------- */

static int check_wish(const struct pool_info *wish, struct tn_error *err)
{
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t n = wish->name ? strlen(wish->name) : 0;

    if (n == 0 || n > 64 || strspn(wish->name, allowed) != n)
        return tn_fail(err, TN_E_INVALID,
                       "the name of a pool has 1 to 64 letters, digits, '.', '_' and '-'");
    if (wish->target < 0 || wish->target > TARGET_MOST)
        return tn_fail(err, TN_E_INVALID, "target: expected 0 to %d, found %lld", TARGET_MOST,
                       (long long)wish->target);
    if (wish->minimum < 0 || wish->minimum > wish->target)
        return tn_fail(err, TN_E_INVALID, "minimum: expected 0 to target (%lld), found %lld",
                       (long long)wish->target, (long long)wish->minimum);
    if (wish->burst < 0 || wish->burst > BURST_MOST)
        return tn_fail(err, TN_E_INVALID, "burst: expected 0 to %d, found %lld", BURST_MOST,
                       (long long)wish->burst);
    return 0;
}

struct put {
    const struct pool_info *wish;
    struct tn_pool_name pool;
    const char *spec;
};

static int take_truth(const struct tn_db_row *row, void *ctx)
{
    *(bool *)ctx = tn_db_int(row, 0);
    return 0;
}

static int is_configured(struct tn_db *db, const char *name, bool *yes, struct tn_error *err)
{
    *yes = false;
    return tn_db_each(db, take_truth, yes, err,
                      "SELECT configured FROM pool WHERE name = ? AND gone = 0", "t", name);
}

static int fail_configured(const char *name, struct tn_error *err)
{
    return tn_fail(err, TN_E_CONFLICT, "pool %s is [pool.%s] of the configuration: change it there",
                   name, name);
}

/* What it was before goes; the row of its kind becomes its own, unless that is somebody else's. */
static int put_row(struct tn_db *db, void *ctx, struct tn_error *err)
{
    const struct put *put = ctx;
    const struct pool_info *wish = put->wish;
    bool configured;

    if (is_configured(db, wish->name, &configured, err) < 0)
        return -1;
    if (configured && !wish->configured)
        return fail_configured(wish->name, err);
    if (tn_db_run(db, err,
                  "UPDATE pool SET gone = 1 WHERE name = ?1 AND gone = 0"
                  " AND NOT (runtime = ?2 AND digest = ?3)",
                  "ttt", wish->name, put->pool.runtime, put->pool.digest) < 0)
        return -1;
    int changed = tn_db_run(
        db, err,
        "INSERT INTO pool (runtime, digest, name, template, spec, target, minimum, burst,"
        " configured, gone) VALUES (?,?,?,?,?,?,?,?,?,0) ON CONFLICT (runtime, digest) DO UPDATE"
        " SET name = excluded.name, template = excluded.template, spec = excluded.spec,"
        " target = excluded.target, minimum = excluded.minimum, burst = excluded.burst,"
        " configured = excluded.configured, gone = 0"
        " WHERE gone = 1 OR name = excluded.name",
        "tttttiiii", put->pool.runtime, put->pool.digest, wish->name, wish->template, put->spec,
        wish->target, wish->minimum, wish->burst, (int64_t)wish->configured);
    if (changed == 0)
        return tn_fail(err, TN_E_CONFLICT,
                       "another pool keeps sandboxes of exactly this kind: change that one");
    return changed < 0 ? -1 : 0;
}

/* The spec names its backend, so that another default later on changes nothing, and outlives the
 * service. */
static int put_pool(struct tn_service *s, const struct pool_info *wish, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(SPEC_MOST);
    struct tn_jw w = tn_jw(&text);
    struct put put = {.wish = wish};
    struct tn_spec spec;

    if (check_wish(wish, err) || tn_pool_name(s->rt, &wish->spec, &put.pool, err) ||
        tn_spec_copy(&wish->spec, &spec, err))
        return -1;
    free(spec.runtime);
    spec.runtime = tn_strdup(put.pool.runtime);
    spec.keep = true;
    spec.lease = (struct tn_opt_double){0};
    tn_jw_object(&w);
    tn_spec_to_json(&spec, &w);
    tn_jw_object_end(&w);
    tn_spec_done(&spec);
    if (!tn_buf_ok(&text))
        return tn_fail(err, TN_E_TOO_LARGE, "the spec is larger than %u MiB", SPEC_MOST >> 20);
    put.spec = tn_buf_str(&text);
    return tn_db_atomically(s->db, put_row, &put, err);
}

static struct pools *pools_of(struct tn_service *s, struct tn_error *err)
{
    if (s->steward)
        return steward_pools(s->steward);
    tn_fail(err, TN_E_BUSY, "the service is starting: try again");
    return NULL;
}

int pool_set(struct tn_service *s, const struct pool_info *wish, struct tn_error *err)
{
    struct pools *p = pools_of(s, err);

    if (!p)
        return -1;
    if (tn_sandbox_check(s->rt, &wish->spec, err))
        return -1;
    pthread_mutex_lock(&p->rows);
    int result = put_pool(s, wish, err) || pools_reload(p, err) ? -1 : 0;
    pthread_mutex_unlock(&p->rows);
    return result;
}

static int remove_pool(struct tn_service *s, const char *name, struct tn_error *err)
{
    bool configured;
    int changed;

    if (is_configured(s->db, name, &configured, err) < 0)
        return -1;
    if (configured)
        return fail_configured(name, err);
    changed =
        tn_db_run(s->db, err, "UPDATE pool SET gone = 1 WHERE name = ? AND gone = 0", "t", name);
    return changed == 0  ? tn_fail(err, TN_E_NOT_FOUND, "there is no pool '%.64s'", name)
           : changed < 0 ? -1
                         : 0;
}

int pool_remove(struct tn_service *s, const char *name, struct tn_error *err)
{
    struct pools *p = pools_of(s, err);

    if (!p)
        return -1;
    pthread_mutex_lock(&p->rows);
    int result = remove_pool(s, name, err) || pools_reload(p, err) ? -1 : 0;
    pthread_mutex_unlock(&p->rows);
    return result;
}

void pools_forget(struct pools *p, const char *runtime, const char *digest)
{
    pthread_mutex_lock(&p->rows);
    if (tn_db_run(p->s->db, NULL, "DELETE FROM pool WHERE runtime = ? AND digest = ? AND gone = 1",
                  "tt", runtime, digest) > 0)
        pools_reload(p, NULL);
    pthread_mutex_unlock(&p->rows);
}

/* --- asking -------------------------------------------------------------------------------- */

static size_t copy_all(struct pools *p, struct pool_info **out)
{
    size_t n = 0;

    pthread_mutex_lock(&p->lock);
    for (struct pool *x = p->first; x; x = x->next)
        n += !x->gone;
    *out = tn_calloc(n, sizeof **out);
    n = 0;
    for (struct pool *x = p->first; x; x = x->next) {
        struct pool_info *to = &(*out)[n];
        if (x->gone || tn_spec_copy(&x->info.spec, &to->spec, NULL))
            continue;
        struct tn_spec spec = to->spec;
        *to = x->info;
        to->spec = spec;
        to->name = tn_strdup(x->info.name);
        to->template = tn_strdup_or_null(x->info.template);
        to->problem = tn_strdup_or_null(x->info.problem);
        n++;
    }
    pthread_mutex_unlock(&p->lock);
    return n;
}

static int count(struct tn_service *s, struct pool_info *i, struct tn_error *err)
{
    struct tn_pool_name pool;
    int all, ready;

    if (tn_pool_name(s->rt, &i->spec, &pool, err))
        return -1;
    all = tn_store_warm_count(tn_runtime_store(s->rt), pool.runtime, pool.digest, &ready, err);
    if (all < 0)
        return -1;
    i->ready = ready;
    i->making = all - ready;
    return 0;
}

int pool_each(struct tn_service *s, pool_fn fn, void *ctx, struct tn_error *err)
{
    struct pools *p = pools_of(s, err);
    struct pool_info *all;
    int result = 0;

    if (!p)
        return -1;
    size_t n = copy_all(p, &all);
    for (size_t i = 0; i < n; i++) {
        if (result == 0)
            result = count(s, &all[i], err);
        if (result == 0)
            result = fn(&all[i], ctx);
        info_done(&all[i]);
    }
    free(all);
    return result;
}

/* --- beginning and end --------------------------------------------------------------------- */

struct configured {
    struct tn_service *s;
    struct tn_error *err;
};

static int put_configured(const char *name, const struct tn_config_pool *section, void *ctx)
{
    struct configured *c = ctx;
    struct pool_info wish = {
        .name = tn_strdup(name),
        .template = tn_strdup_or_null(section->template),
        .target = section->target,
        .minimum = section->minimum,
        .burst = section->burst,
        .configured = true,
    };

    tn_spec_init(&wish.spec);
    int result =
        tn_config_spec(tn_runtime_host(c->s->rt)->config, wish.template, &wish.spec, c->err) ||
                put_pool(c->s, &wish, c->err)
            ? tn_error_context(c->err, "[pool.%.60s]", name)
            : 0;
    info_done(&wish);
    return result;
}

/* What the configuration does not have any more is gone. */
static int read_configuration(struct tn_service *s, struct tn_error *err)
{
    struct configured c = {.s = s, .err = err};

    if (tn_db_run(s->db, err, "UPDATE pool SET gone = 1 WHERE configured = 1", "") < 0)
        return -1;
    return tn_config_pools(tn_runtime_host(s->rt)->config, put_configured, &c, err);
}

struct pools *pools_new(struct tn_service *s, struct tn_error *err)
{
    struct pools *p = tn_calloc(1, sizeof *p);

    p->s = s;
    pthread_mutex_init(&p->rows, NULL);
    pthread_mutex_init(&p->lock, NULL);
    tn_cond_init(&p->changed);
    if (!tn_pool_disown(s->rt, err) && !read_configuration(s, err) && !pools_reload(p, err) &&
        !pools_begin(p, err))
        return p;
    pools_free(p);
    return NULL;
}

void pools_free(struct pools *p)
{
    if (!p)
        return;
    for (struct pool *x = p->first, *next; x; x = next) {
        next = x->next;
        pool_free(x);
    }
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    pthread_mutex_destroy(&p->rows);
    free(p);
}
