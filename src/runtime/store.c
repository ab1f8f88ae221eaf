#include "runtime/store.h"

#include <stdatomic.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/nearest.h"
#include "runtime/owner.h"

#define MIN_PREFIX 3

struct tn_store {
    struct tn_db *db;
    atomic_bool claims; /* somebody has found a warm one */
};

/* The columns of a record, texts first; the order of SELECT and of the parameters of INSERT. */
#define COLUMNS                                                                           \
    "id, name, runtime, spec, key, address, ref, pool, parent, reason, isolation, boot, " \
    "status, owner_pid, owner_start, created, used, lease"
/* By a clock that nobody sets.  What was used before the machine was started counts from then; of
 * what a process of an older version has used there is only the wall clock. */
#define IDLE                                                  \
    "CASE WHEN used_boot = boot_id() THEN uptime() - used_up" \
    " WHEN used_boot IS NOT NULL THEN uptime()"               \
    " ELSE max(0, (julianday('now') - 2440587.5) * 86400 - used) END"
#define SELECTED COLUMNS ", " IDLE

static const size_t text_columns[] = {
    offsetof(struct tn_record, id),        offsetof(struct tn_record, name),
    offsetof(struct tn_record, runtime),   offsetof(struct tn_record, spec),
    offsetof(struct tn_record, key),       offsetof(struct tn_record, address),
    offsetof(struct tn_record, ref),       offsetof(struct tn_record, pool),
    offsetof(struct tn_record, parent),    offsetof(struct tn_record, reason),
    offsetof(struct tn_record, isolation), offsetof(struct tn_record, boot),
};

enum number_column {
    STATUS = TN_COUNT(text_columns),
    OWNER_PID,
    OWNER_START,
    CREATED,
    USED,
    LEASE,
    IDLE_SECONDS
};

static char **text_at(const struct tn_record *r, size_t column)
{
    return (char **)((char *)r + text_columns[column]);
}

void tn_record_done(struct tn_record *r)
{
    for (size_t i = 0; i < TN_COUNT(text_columns); i++)
        free(*text_at(r, i));
    memset(r, 0, sizeof *r);
}

static double wall_clock(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void read_record(const struct tn_db_row *row, struct tn_record *r)
{
    memset(r, 0, sizeof *r);
    for (size_t i = 0; i < TN_COUNT(text_columns); i++)
        *text_at(r, i) = tn_strdup_or_null(tn_db_text(row, (int)i));
    r->status = (enum tn_status)tn_db_int(row, STATUS);
    r->owner.pid = (pid_t)tn_db_int(row, OWNER_PID);
    r->owner.start = (uint64_t)tn_db_int(row, OWNER_START);
    r->created = tn_db_double(row, CREATED);
    r->used = tn_db_double(row, USED);
    r->lease = tn_db_double(row, LEASE);
    r->idle = tn_db_double(row, IDLE_SECONDS);
}

/* --- opening ------------------------------------------------------------------------------- */

/* In a user namespace root of the machine may have no number, and reads as this one. */
static bool is_trusted(uid_t owner)
{
    static const uid_t overflow = 65534;
    tn_autobuf struct tn_buf map = TN_BUF_INIT(4096);

    if (owner == 0 || owner == geteuid())
        return true;
    return owner == overflow && tn_fs_read(TN_FS_ANYWHERE, "/proc/self/uid_map", &map, NULL) == 0 &&
           !strstr(tn_buf_str(&map), " 4294967295\n");
}

/* Who can rename a directory above puts another one into its place. */
static int check_parents(const char *path, struct tn_error *err)
{
    tn_autofree char *parent = tn_strdup(path);
    struct stat st;

    for (char *slash; (slash = strrchr(parent, '/'));) {
        slash[slash == parent] = '\0';
        if (stat(parent, &st) < 0)
            return tn_fail_errno(err, errno, "state directory %s: %s", path, parent);
        if (!is_trusted(st.st_uid) || ((st.st_mode & S_IWOTH) && !(st.st_mode & S_ISVTX)))
            return tn_fail(
                err, TN_E_DENIED,
                "state directory %s: others can replace it, because %s is user %u's with "
                "mode %04o: expected one of root's or yours that others cannot write to",
                path, parent, (unsigned)st.st_uid, (unsigned)st.st_mode & 07777);
        if (slash == parent)
            break;
    }
    return 0;
}

int tn_state_open(const char *directory, struct tn_error *err)
{
    tn_autofd int dir = tn_fs_mkdirs(TN_FS_ANYWHERE, directory, 0700, NULL, NULL, err);
    struct stat st;

    if (dir < 0)
        return tn_error_context(err, "state directory");
    if (fstat(dir, &st) < 0)
        return tn_fail_errno(err, errno, "state directory %s", directory);
    if (st.st_uid != geteuid())
        return tn_fail(err, TN_E_DENIED,
                       "state directory %s: it belongs to user %u, and you are user %u: use one of "
                       "your own (--state or TENDON_STATE), or chown it",
                       directory, (unsigned)st.st_uid, (unsigned)geteuid());
    if (st.st_mode & (S_IWGRP | S_IWOTH))
        return tn_fail(
            err, TN_E_DENIED,
            "state directory %s: others can write to it (mode %04o): chmod 700 it after a "
            "look at what is in it",
            directory, (unsigned)st.st_mode & 07777);
    tn_autofree char *real = realpath(directory, NULL);
    if (!real)
        return tn_fail_errno(err, errno, "state directory %s", directory);
    if (check_parents(real, err) < 0 || check_parents(directory, err) < 0)
        return -1;
    return TN_TAKE_FD(dir);
}

struct tn_store *tn_store_open(const char *directory, struct tn_error *err)
{
    tn_autofd int dir = tn_state_open(directory, err);
    tn_autofree char *path = tn_asprintf("%s/tendon.db", directory);

    if (dir < 0)
        return NULL;
    struct tn_db *db = tn_db_open(path, err);
    if (!db)
        return NULL;
    struct tn_store *s = tn_calloc(1, sizeof *s);
    s->db = db;
    return s;
}

void tn_store_close(struct tn_store *s)
{
    if (!s)
        return;
    tn_db_close(s->db);
    free(s);
}

struct tn_db *tn_store_db(struct tn_store *s)
{
    return s->db;
}

/* --- sandboxes ----------------------------------------------------------------------------- */

int tn_store_add(struct tn_store *s, const struct tn_record *r, struct tn_error *err)
{
    /* One statement, so that two who fill a pool cannot both have its last place. */
    int added = tn_db_run(s->db, err,
                          "INSERT INTO sandbox (" COLUMNS ", used_up, used_boot)"
                          " SELECT ?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18,"
                          " uptime() - ?20, boot_id() WHERE ?19 = 0 OR"
                          " (SELECT count(*) FROM sandbox WHERE runtime = ?3 AND pool = ?8) < ?19",
                          "ttttttttttttiiidddid", r->id, r->name, r->runtime, r->spec, r->key,
                          r->address, r->ref, r->pool, r->parent, r->reason, r->isolation, r->boot,
                          (int64_t)r->status, (int64_t)r->owner.pid, (int64_t)r->owner.start,
                          r->created, r->used, r->lease, r->pool_max, r->idle);

    if (added > 0)
        return 0;
    if (added == 0)
        return tn_fail(err, TN_E_CONFLICT, "its pool is full");
    if (err && err->code == TN_E_CONFLICT && r->name)
        return tn_fail(err, TN_E_CONFLICT, "there is a sandbox named '%s' already", r->name);
    return -1;
}

static int take_record(const struct tn_db_row *row, void *ctx)
{
    struct tn_record *out = ctx;

    if (!out->id)
        read_record(row, out);
    return 0;
}

static int find_exact(struct tn_store *s, const char *which, struct tn_record *out,
                      struct tn_error *err)
{
    *out = (struct tn_record){0};
    return tn_db_each(s->db, take_record, out, err,
                      "SELECT " SELECTED
                      " FROM sandbox WHERE id = ?1 OR name = ?1 ORDER BY id <> ?1",
                      "t", which);
}

static int find_prefix(struct tn_store *s, const char *which, struct tn_record *out,
                       struct tn_error *err)
{
    if (strlen(which) < MIN_PREFIX)
        return 0;
    int found =
        tn_db_each(s->db, take_record, out, err,
                   "SELECT " SELECTED
                   " FROM sandbox WHERE id >= ?1 AND substr(id, 1, length(?1)) = ?1 LIMIT 2",
                   "t", which);

    if (found > 1) {
        tn_record_done(out);
        return tn_fail(err, TN_E_CONFLICT, "several sandboxes begin with '%s': give more of the id",
                       which);
    }
    return found;
}

/* The nearest name, which outlives the record that it came from. */
struct suggestion {
    struct tn_nearest near;
    char *best;
};

static int offer_name(const struct tn_record *r, void *ctx)
{
    struct suggestion *hint = ctx;
    const char *before = hint->near.best;

    if (r->name)
        tn_nearest_offer(&hint->near, r->name);
    if (hint->near.best != before) {
        free(hint->best);
        hint->near.best = hint->best = tn_strdup(hint->near.best);
    }
    return 0;
}

static int no_such_sandbox(struct tn_store *s, const char *which, struct tn_error *err)
{
    struct suggestion hint = {.near = tn_nearest(which)};

    tn_store_each(s, TN_STORE_CLAIMED, offer_name, &hint, NULL);
    tn_autofree char *best = hint.best;
    if (best)
        return tn_fail(err, TN_E_NOT_FOUND, "there is no sandbox '%s': did you mean '%s'?", which,
                       best);
    return tn_fail(err, TN_E_NOT_FOUND, "there is no sandbox '%s' (tendon ls shows what there is)",
                   which);
}

int tn_store_find(struct tn_store *s, const char *which, struct tn_record *out,
                  struct tn_error *err)
{
    int found = find_exact(s, which, out, err);

    if (!found)
        found = find_prefix(s, which, out, err);
    if (!found)
        return no_such_sandbox(s, which, err);
    return found < 0 ? -1 : 0;
}

static const char *const part_queries[] = {
    [TN_STORE_CLAIMED] = "SELECT " SELECTED " FROM sandbox WHERE pool IS NULL ORDER BY created, id",
    [TN_STORE_ALL] = "SELECT " SELECTED " FROM sandbox ORDER BY created, id",
    [TN_STORE_BOUND] = "SELECT " SELECTED " FROM sandbox WHERE owner_pid > 0 OR lease > 0",
    [TN_STORE_WARM] =
        "SELECT " SELECTED " FROM sandbox WHERE pool IS NOT NULL ORDER BY created, id",
};

struct records {
    struct tn_record *all;
    size_t count;
};

static int collect(const struct tn_db_row *row, void *ctx)
{
    struct records *r = ctx;

    if ((r->count & (r->count - 1)) == 0) /* a power of two: full */
        r->all = tn_realloc(r->all, (r->count ? r->count * 2 : 1) * sizeof *r->all);
    read_record(row, &r->all[r->count++]);
    return 0;
}

int tn_store_each(struct tn_store *s, enum tn_store_part part, tn_record_fn fn, void *ctx,
                  struct tn_error *err)
{
    struct records records = {0};
    int result = tn_db_each(s->db, collect, &records, err, part_queries[part], "") < 0 ? -1 : 0;

    for (size_t i = 0; i < records.count; i++) {
        if (!result)
            result = fn(&records.all[i], ctx);
        tn_record_done(&records.all[i]);
    }
    free(records.all);
    return result;
}

/* What changed a row, or none: 0; -1. */
static int done(int changes)
{
    return changes < 0 ? -1 : 0;
}

int tn_store_place(struct tn_store *s, const char *id, const struct tn_place *place,
                   struct tn_error *err)
{
    return done(tn_db_run(s->db, err,
                          "UPDATE sandbox SET status = ?2, address = ?3, reason = ?4,"
                          " ref = coalesce(?5, ref), isolation = coalesce(?6, isolation),"
                          " key = coalesce(?7, key) WHERE id = ?1",
                          "tittttt", id, (int64_t)place->status, place->address, place->reason,
                          place->ref, place->isolation, place->key));
}

int tn_store_spec(struct tn_store *s, const char *id, const char *spec, struct tn_error *err)
{
    return done(
        tn_db_run(s->db, err, "UPDATE sandbox SET spec = ?2 WHERE id = ?1", "tt", id, spec));
}

int tn_store_own(struct tn_store *s, const char *id, struct tn_owner owner, struct tn_error *err)
{
    return done(tn_db_run(s->db, err,
                          "UPDATE sandbox SET owner_pid = ?2, owner_start = ?3, boot = boot_id()"
                          " WHERE id = ?1",
                          "tii", id, (int64_t)owner.pid, (int64_t)owner.start));
}

int tn_store_disown(struct tn_store *s, const char *id, struct tn_error *err)
{
    return done(tn_db_run(s->db, err,
                          "UPDATE sandbox SET name = NULL, owner_pid = ?2, owner_start = 0,"
                          " boot = boot_id() WHERE id = ?1",
                          "ti", id, (int64_t)tn_owner_self().pid));
}

int tn_store_ref(struct tn_store *s, const char *id, const char *ref, struct tn_error *err)
{
    return done(tn_db_run(s->db, err, "UPDATE sandbox SET ref = ?2 WHERE id = ?1", "tt", id, ref));
}

int tn_store_touch(struct tn_store *s, const char *id, struct tn_error *err)
{
    return done(tn_db_run(s->db, err,
                          "UPDATE sandbox SET used = ?2, used_up = uptime(), used_boot = boot_id()"
                          " WHERE id = ?1",
                          "td", id, wall_clock()));
}

static int count_row(const struct tn_db_row *row, void *ctx)
{
    return 0;
}

int tn_store_is_served(struct tn_store *s, const char *runtime, const char *digest,
                       struct tn_error *err)
{
    return tn_db_each(s->db, count_row, NULL, err,
                      "SELECT 1 FROM pool WHERE runtime = ?1 AND digest = ?2 LIMIT 1", "tt",
                      runtime, digest);
}

struct claim {
    const char *digest;
    const struct tn_record *as;
    struct tn_record *out;
    int found;
};

/* A statement with RETURNING takes twice as long as these. */
static int claim_one(struct tn_db *db, void *ctx, struct tn_error *err)
{
    struct claim *c = ctx;
    const struct tn_record *as = c->as;
    struct tn_owner self = tn_owner_self();

    c->found = tn_db_each(db, take_record, c->out, err,
                          "SELECT " SELECTED " FROM sandbox"
                          " WHERE runtime = ?1 AND pool = ?2 AND status = ?3"
                          " AND (owner_pid = 0 OR (owner_pid = ?4 AND owner_start = ?5))"
                          " AND (lease = 0 OR lease > (" IDLE ")) ORDER BY created LIMIT 1",
                          "ttiii", as->runtime, c->digest, (int64_t)TN_STATUS_RUNNING,
                          (int64_t)self.pid, (int64_t)self.start);
    if (c->found <= 0)
        return c->found;
    if (tn_db_run(db, err,
                  "UPDATE sandbox SET pool = NULL, spec = ?2, boot = ?3, owner_pid = ?4,"
                  " owner_start = ?5, created = ?6, used = ?6, lease = ?7, used_up = uptime(),"
                  " used_boot = boot_id() WHERE id = ?1",
                  "tttiidd", c->out->id, as->spec, as->boot, (int64_t)as->owner.pid,
                  (int64_t)as->owner.start, as->created, as->lease) < 0)
        return -1;
    /* On its own: there is seldom one before or after, and its index is a page of the log more. */
    if (!as->name && !c->out->name)
        return 0;
    return done(tn_db_run(db, err, "UPDATE sandbox SET name = ?2 WHERE id = ?1", "tt", c->out->id,
                          as->name));
}

static void replace(char **to, const char *value)
{
    free(*to);
    *to = tn_strdup_or_null(value);
}

int tn_store_claim(struct tn_store *s, const char *digest, const struct tn_record *as,
                   struct tn_record *out, struct tn_error *err)
{
    struct claim claim = {.digest = digest, .as = as, .out = out};

    *out = (struct tn_record){0};
    /* Most processes never meet a warm one: to look costs them less than to claim. */
    if (!atomic_load(&s->claims)) {
        int any = tn_db_each(s->db, count_row, NULL, err,
                             "SELECT 1 FROM sandbox WHERE runtime = ?1 AND pool = ?2 LIMIT 1", "tt",
                             as->runtime, digest);
        if (any <= 0)
            return any;
        atomic_store(&s->claims, true);
    }
    if (tn_db_atomically(s->db, claim_one, &claim, err)) {
        tn_record_done(out);
        return -1;
    }
    if (claim.found == 0)
        return 0;
    replace(&out->pool, NULL);
    replace(&out->name, as->name);
    replace(&out->spec, as->spec);
    replace(&out->boot, as->boot);
    out->owner = as->owner;
    out->created = out->used = as->created;
    out->lease = as->lease;
    out->idle = 0;
    return 1;
}

static int take_counts(const struct tn_db_row *row, void *ctx)
{
    int *counts = ctx;

    counts[0] = (int)tn_db_int(row, 0);
    counts[1] = (int)tn_db_int(row, 1);
    return 0;
}

int tn_store_warm_count(struct tn_store *s, const char *runtime, const char *digest, int *ready,
                        struct tn_error *err)
{
    int counts[2] = {0};

    if (tn_db_each(s->db, take_counts, counts, err,
                   "SELECT count(*), coalesce(sum(status = ?3), 0) FROM sandbox"
                   " WHERE runtime = ?1 AND pool = ?2",
                   "tti", runtime, digest, (int64_t)TN_STATUS_RUNNING) < 0)
        return -1;
    if (ready)
        *ready = counts[1];
    return counts[0];
}

int tn_store_unpool(struct tn_store *s, const char *id, struct tn_owner owner, struct tn_error *err)
{
    return tn_db_run(s->db, err,
                     "UPDATE sandbox SET pool = NULL, owner_pid = ?2, owner_start = ?3,"
                     " boot = boot_id() WHERE id = ?1 AND pool IS NOT NULL",
                     "tii", id, (int64_t)owner.pid, (int64_t)owner.start);
}

int tn_store_remove(struct tn_store *s, const char *id, struct tn_error *err)
{
    /* Snapshots first: a row without its sandbox would never be found again. */
    if (tn_db_run(s->db, err, "DELETE FROM snapshot WHERE sandbox = ?", "t", id) < 0)
        return -1;
    return done(tn_db_run(s->db, err, "DELETE FROM sandbox WHERE id = ?", "t", id));
}

/* --- snapshots ----------------------------------------------------------------------------- */

int tn_store_snapshot_add(struct tn_store *s, const char *sandbox, const char *name,
                          struct tn_error *err)
{
    if (tn_db_run(s->db, err, "INSERT INTO snapshot (sandbox, name, created) VALUES (?,?,?)", "ttd",
                  sandbox, name, wall_clock()) >= 0)
        return 0;
    if (err && err->code == TN_E_CONFLICT)
        return tn_fail(err, TN_E_CONFLICT, "there is a snapshot named '%s' already", name);
    return -1;
}

int tn_store_snapshot_remove(struct tn_store *s, const char *sandbox, const char *name,
                             struct tn_error *err)
{
    int changed = tn_db_run(s->db, err, "DELETE FROM snapshot WHERE sandbox = ? AND name = ?", "tt",
                            sandbox, name);

    if (changed == 0)
        return tn_fail(err, TN_E_NOT_FOUND, "there is no snapshot named '%s'", name);
    return done(changed);
}

struct teller {
    tn_snapshot_fn fn;
    void *ctx;
    int stopped;
};

static int tell_snapshot(const struct tn_db_row *row, void *ctx)
{
    struct teller *t = ctx;
    struct tn_snapshot snapshot = {.sandbox = (char *)tn_db_text(row, 0),
                                   .name = (char *)tn_db_text(row, 1),
                                   .created = tn_db_double(row, 2)};

    return t->stopped = t->fn(&snapshot, t->ctx);
}

int tn_store_snapshots(struct tn_store *s, const char *sandbox, tn_snapshot_fn fn, void *ctx,
                       struct tn_error *err)
{
    struct teller t = {.fn = fn, .ctx = ctx};
    int result =
        tn_db_each(s->db, tell_snapshot, &t, err,
                   "SELECT sandbox, name, created FROM snapshot WHERE sandbox = ? ORDER BY created",
                   "t", sandbox);

    return result < 0 ? -1 : t.stopped;
}
