#include "runtime/store.h"

#include <pthread.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/nearest.h"

/* How long a statement waits for another process that writes. */
#define BUSY_MS 10000

#define MIN_PREFIX 3

struct tn_store {
    sqlite3 *db;
    pthread_mutex_t lock; /* of the connection */
};

/* A change of the schema is a new entry at the end; user_version counts those applied. */
static const char *const migrations[] = {
    "CREATE TABLE sandbox ("
    "  id TEXT PRIMARY KEY, name TEXT UNIQUE, runtime TEXT NOT NULL, spec TEXT NOT NULL,"
    "  key TEXT NOT NULL, address TEXT, ref TEXT, pool TEXT, parent TEXT, reason TEXT,"
    "  isolation TEXT, boot TEXT, status INTEGER NOT NULL, owner_pid INTEGER NOT NULL,"
    "  owner_start INTEGER NOT NULL, created REAL NOT NULL, used REAL NOT NULL,"
    "  lease REAL NOT NULL) WITHOUT ROWID;"
    "CREATE INDEX sandbox_pool ON sandbox (runtime, pool, created) WHERE pool IS NOT NULL;"
    "CREATE INDEX sandbox_bound ON sandbox (id) WHERE owner_pid > 0 OR lease > 0;"
    "CREATE TABLE snapshot ("
    "  sandbox TEXT NOT NULL, name TEXT NOT NULL, created REAL NOT NULL,"
    "  PRIMARY KEY (sandbox, name)) WITHOUT ROWID;",
};

/* The columns of a record, texts first; the order of SELECT and of the parameters of INSERT. */
#define COLUMNS                                                                           \
    "id, name, runtime, spec, key, address, ref, pool, parent, reason, isolation, boot, " \
    "status, owner_pid, owner_start, created, used, lease"

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
    LEASE
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

/* --- statements --------------------------------------------------------------------------------
 */

static int fail(struct tn_store *s, struct tn_error *err, const char *what)
{
    int result = sqlite3_extended_errcode(s->db);
    enum tn_code code = TN_E_IO;

    if (result == SQLITE_CONSTRAINT_UNIQUE || result == SQLITE_CONSTRAINT_PRIMARYKEY)
        code = TN_E_CONFLICT;
    else if ((result & 255) == SQLITE_BUSY)
        code = TN_E_BUSY;
    else if ((result & 255) == SQLITE_PERM || (result & 255) == SQLITE_READONLY)
        code = TN_E_DENIED;
    return tn_fail(err, code, "the store: %s: %s", what, sqlite3_errmsg(s->db));
}

static void guard_statement(sqlite3_stmt **st)
{
    sqlite3_finalize(*st);
}
#define autostatement TN_CLEANUP(guard_statement)

static void guard_lock(pthread_mutex_t **lock)
{
    pthread_mutex_unlock(*lock);
}
#define LOCK(s)                                                                           \
    TN_CLEANUP(guard_lock) pthread_mutex_t *locked_ __attribute__((unused)) = &(s)->lock; \
    pthread_mutex_lock(locked_)

/* Parameters in the order of the statement: "t" text or NULL, "i" int64_t, "d" double. */
static sqlite3_stmt *prepare(struct tn_store *s, struct tn_error *err, const char *sql,
                             const char *types, ...)
{
    sqlite3_stmt *st = NULL;
    va_list ap;

    if (sqlite3_prepare_v2(s->db, sql, -1, &st, NULL) != SQLITE_OK) {
        fail(s, err, "prepare");
        return NULL;
    }
    va_start(ap, types);
    for (int i = 0; types[i]; i++) {
        if (types[i] == 't')
            sqlite3_bind_text(st, i + 1, va_arg(ap, const char *), -1, SQLITE_TRANSIENT);
        else if (types[i] == 'i')
            sqlite3_bind_int64(st, i + 1, va_arg(ap, int64_t));
        else
            sqlite3_bind_double(st, i + 1, va_arg(ap, double));
    }
    va_end(ap);
    return st;
}

/* Runs a statement that answers nothing; takes it. */
static int finish(struct tn_store *s, sqlite3_stmt *given, const char *what, struct tn_error *err)
{
    autostatement sqlite3_stmt *st = given;

    if (!st)
        return -1;
    return sqlite3_step(st) == SQLITE_DONE ? 0 : fail(s, err, what);
}

static int exec(struct tn_store *s, const char *sql, struct tn_error *err)
{
    return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : fail(s, err, sql);
}

static void read_record(sqlite3_stmt *st, struct tn_record *r)
{
    for (size_t i = 0; i < TN_COUNT(text_columns); i++)
        *text_at(r, i) = tn_strdup_or_null((const char *)sqlite3_column_text(st, (int)i));
    r->status = (enum tn_status)sqlite3_column_int(st, STATUS);
    r->owner.pid = (pid_t)sqlite3_column_int64(st, OWNER_PID);
    r->owner.start = (uint64_t)sqlite3_column_int64(st, OWNER_START);
    r->created = sqlite3_column_double(st, CREATED);
    r->used = sqlite3_column_double(st, USED);
    r->lease = sqlite3_column_double(st, LEASE);
}

/* --- opening -----------------------------------------------------------------------------------
 */

static int migrate(struct tn_store *s, struct tn_error *err)
{
    autostatement sqlite3_stmt *st = prepare(s, err, "PRAGMA user_version", "");
    int64_t version;

    if (!st)
        return -1;
    if (sqlite3_step(st) != SQLITE_ROW)
        return fail(s, err, "version");
    version = sqlite3_column_int64(st, 0);
    sqlite3_reset(st);
    if (version == (int64_t)TN_COUNT(migrations))
        return 0;
    if (version > (int64_t)TN_COUNT(migrations))
        return tn_fail(err, TN_E_UNSUPPORTED,
                       "the store was written by a newer tendon (version %lld, this one knows %zu)",
                       (long long)version, TN_COUNT(migrations));

    /* Somebody else may be doing the same: look again once we are the only writer. */
    if (exec(s, "BEGIN IMMEDIATE", err))
        return -1;
    if (sqlite3_step(st) != SQLITE_ROW)
        return fail(s, err, "version");
    version = sqlite3_column_int64(st, 0);
    sqlite3_reset(st);
    for (; version < (int64_t)TN_COUNT(migrations); version++)
        if (exec(s, migrations[version], err))
            return -1;

    char set[64];
    snprintf(set, sizeof set, "PRAGMA user_version = %zu", TN_COUNT(migrations));
    return exec(s, set, err) || exec(s, "COMMIT", err) ? -1 : 0;
}

static int open_database(struct tn_store *s, const char *path, struct tn_error *err)
{
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    int persist = 1;

    if (sqlite3_open_v2(path, &s->db, flags, NULL) != SQLITE_OK)
        return s->db ? fail(s, err, path) : tn_fail(err, TN_E_IO, "the store: no memory");
    sqlite3_busy_timeout(s->db, BUSY_MS);
    /* The log outlives the process: the last one to leave does not wait for the disk. */
    sqlite3_db_config(s->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    sqlite3_file_control(s->db, "main", SQLITE_FCNTL_PERSIST_WAL, &persist);
    /* Rows must survive a killed process; after a power cut no sandbox of this machine lives. */
    return exec(s, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL", err) ||
           migrate(s, err);
}

struct tn_store *tn_store_open(const char *directory, struct tn_error *err)
{
    tn_autofd int dir = tn_fs_mkdirs(TN_FS_ANYWHERE, directory, 0700, NULL, NULL, err);
    tn_autofree char *path = tn_asprintf("%s/tendon.db", directory);
    mode_t before;

    if (dir < 0) {
        tn_error_context(err, "state directory");
        return NULL;
    }
    struct tn_store *s = tn_calloc(1, sizeof *s);
    pthread_mutex_init(&s->lock, NULL);
    before = umask(0077); /* keys are in there */
    int failed = open_database(s, path, err);
    umask(before);
    if (failed) {
        tn_store_close(s);
        return NULL;
    }
    return s;
}

void tn_store_close(struct tn_store *s)
{
    if (!s)
        return;
    sqlite3_close(s->db);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

/* --- sandboxes ---------------------------------------------------------------------------------
 */

int tn_store_add(struct tn_store *s, const struct tn_record *r, struct tn_error *err)
{
    LOCK(s);
    sqlite3_stmt *st = prepare(
        s, err, "INSERT INTO sandbox (" COLUMNS ") VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
        "ttttttttttttiiiddd", r->id, r->name, r->runtime, r->spec, r->key, r->address, r->ref,
        r->pool, r->parent, r->reason, r->isolation, r->boot, (int64_t)r->status,
        (int64_t)r->owner.pid, (int64_t)r->owner.start, r->created, r->used, r->lease);
    if (!finish(s, st, "add", err))
        return 0;
    if (err && err->code == TN_E_CONFLICT && r->name)
        return tn_fail(err, TN_E_CONFLICT, "there is a sandbox named '%s' already", r->name);
    return -1;
}

/* 1 with the record, 0 for none, -1. */
static int first(struct tn_store *s, sqlite3_stmt *st, struct tn_record *out, struct tn_error *err)
{
    int step = sqlite3_step(st);

    if (step == SQLITE_DONE)
        return 0;
    if (step != SQLITE_ROW)
        return fail(s, err, "read");
    memset(out, 0, sizeof *out);
    read_record(st, out);
    return 1;
}

static int find_exact(struct tn_store *s, const char *which, struct tn_record *out,
                      struct tn_error *err)
{
    autostatement sqlite3_stmt *st = prepare(
        s, err, "SELECT " COLUMNS " FROM sandbox WHERE id = ?1 OR name = ?1 ORDER BY id <> ?1", "t",
        which);

    return st ? first(s, st, out, err) : -1;
}

static int find_prefix(struct tn_store *s, const char *which, struct tn_record *out,
                       struct tn_error *err)
{
    if (strlen(which) < MIN_PREFIX)
        return 0;
    autostatement sqlite3_stmt *st = prepare(
        s, err,
        "SELECT " COLUMNS " FROM sandbox WHERE id >= ?1 AND substr(id, 1, length(?1)) = ?1 LIMIT 2",
        "t", which);
    int found = st ? first(s, st, out, err) : -1;

    if (found == 1 && sqlite3_step(st) == SQLITE_ROW) {
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
    int found;
    {
        LOCK(s);
        found = find_exact(s, which, out, err);
        if (!found)
            found = find_prefix(s, which, out, err);
    }
    if (!found)
        return no_such_sandbox(s, which, err);
    return found < 0 ? -1 : 0;
}

static const char *const part_queries[] = {
    [TN_STORE_CLAIMED] = "SELECT " COLUMNS " FROM sandbox WHERE pool IS NULL ORDER BY created, id",
    [TN_STORE_ALL] = "SELECT " COLUMNS " FROM sandbox ORDER BY created, id",
    [TN_STORE_BOUND] = "SELECT " COLUMNS " FROM sandbox WHERE owner_pid > 0 OR lease > 0",
};

int tn_store_each(struct tn_store *s, enum tn_store_part part, tn_record_fn fn, void *ctx,
                  struct tn_error *err)
{
    struct tn_record *all = NULL;
    size_t count = 0;
    int result = 0;
    {
        LOCK(s);
        autostatement sqlite3_stmt *st = prepare(s, err, part_queries[part], "");
        int step = st ? SQLITE_ROW : SQLITE_ERROR;

        while (step == SQLITE_ROW && (step = sqlite3_step(st)) == SQLITE_ROW) {
            if ((count & (count - 1)) == 0) /* a power of two: full */
                all = tn_realloc(all, (count ? count * 2 : 1) * sizeof *all);
            memset(&all[count], 0, sizeof *all);
            read_record(st, &all[count++]);
        }
        if (step != SQLITE_DONE)
            result = st ? fail(s, err, "list") : -1;
    }
    for (size_t i = 0; i < count; i++) {
        if (!result)
            result = fn(&all[i], ctx);
        tn_record_done(&all[i]);
    }
    free(all);
    return result;
}

int tn_store_place(struct tn_store *s, const char *id, const struct tn_place *place,
                   struct tn_error *err)
{
    LOCK(s);
    return finish(s,
                  prepare(s, err,
                          "UPDATE sandbox SET status = ?2, address = ?3, reason = ?4,"
                          " ref = coalesce(?5, ref), isolation = coalesce(?6, isolation)"
                          " WHERE id = ?1",
                          "tittt"
                          "t",
                          id, (int64_t)place->status, place->address, place->reason, place->ref,
                          place->isolation),
                  "note", err);
}

int tn_store_own(struct tn_store *s, const char *id, struct tn_owner owner, struct tn_error *err)
{
    LOCK(s);
    return finish(s,
                  prepare(s, err,
                          "UPDATE sandbox SET owner_pid = ?2, owner_start = ?3 WHERE id = ?1",
                          "tii", id, (int64_t)owner.pid, (int64_t)owner.start),
                  "own", err);
}

int tn_store_touch(struct tn_store *s, const char *id, struct tn_error *err)
{
    LOCK(s);
    return finish(
        s, prepare(s, err, "UPDATE sandbox SET used = ?2 WHERE id = ?1", "td", id, wall_clock()),
        "touch", err);
}

int tn_store_claim(struct tn_store *s, const char *digest, const struct tn_record *as,
                   struct tn_record *out, struct tn_error *err)
{
    LOCK(s);
    autostatement sqlite3_stmt *st = prepare(
        s, err,
        "UPDATE sandbox SET pool = NULL, name = ?3, spec = ?4, boot = ?5, owner_pid = ?6,"
        " owner_start = ?7, created = ?8, used = ?8, lease = ?9 WHERE id ="
        " (SELECT id FROM sandbox WHERE runtime = ?1 AND pool = ?2 AND status = ?10"
        "  AND (owner_pid = 0 OR (owner_pid = ?6 AND owner_start = ?7))"
        "  AND (lease = 0 OR used + lease > ?8)"
        "  ORDER BY created LIMIT 1) RETURNING " COLUMNS,
        "tttttiiddi", as->runtime, digest, as->name, as->spec, as->boot, (int64_t)as->owner.pid,
        (int64_t)as->owner.start, as->created, as->lease, (int64_t)TN_STATUS_RUNNING);
    int found = st ? first(s, st, out, err) : -1;

    /* The row is changed once the statement has come to its end. */
    if (found == 1 && sqlite3_step(st) != SQLITE_DONE) {
        tn_record_done(out);
        return fail(s, err, "claim");
    }
    return found;
}

int tn_store_warm_count(struct tn_store *s, const char *runtime, const char *digest,
                        struct tn_error *err)
{
    LOCK(s);
    autostatement sqlite3_stmt *st =
        prepare(s, err, "SELECT count(*) FROM sandbox WHERE runtime = ? AND pool = ?", "tt",
                runtime, digest);

    if (!st)
        return -1;
    return sqlite3_step(st) == SQLITE_ROW ? sqlite3_column_int(st, 0) : fail(s, err, "count");
}

int tn_store_remove(struct tn_store *s, const char *id, struct tn_error *err)
{
    LOCK(s);
    /* Snapshots first: a row without its sandbox would never be found again. */
    if (finish(s, prepare(s, err, "DELETE FROM snapshot WHERE sandbox = ?", "t", id), "remove",
               err))
        return -1;
    return finish(s, prepare(s, err, "DELETE FROM sandbox WHERE id = ?", "t", id), "remove", err);
}

/* --- snapshots ---------------------------------------------------------------------------------
 */

int tn_store_snapshot_add(struct tn_store *s, const char *sandbox, const char *name,
                          struct tn_error *err)
{
    LOCK(s);
    if (!finish(s,
                prepare(s, err, "INSERT INTO snapshot (sandbox, name, created) VALUES (?,?,?)",
                        "ttd", sandbox, name, wall_clock()),
                "snapshot", err))
        return 0;
    if (err && err->code == TN_E_CONFLICT)
        return tn_fail(err, TN_E_CONFLICT, "there is a snapshot named '%s' already", name);
    return -1;
}

int tn_store_snapshot_remove(struct tn_store *s, const char *sandbox, const char *name,
                             struct tn_error *err)
{
    LOCK(s);
    if (finish(s,
               prepare(s, err, "DELETE FROM snapshot WHERE sandbox = ? AND name = ?", "tt", sandbox,
                       name),
               "snapshot", err))
        return -1;
    return sqlite3_changes(s->db)
               ? 0
               : tn_fail(err, TN_E_NOT_FOUND, "there is no snapshot named '%s'", name);
}

int tn_store_snapshots(struct tn_store *s, const char *sandbox, tn_snapshot_fn fn, void *ctx,
                       struct tn_error *err)
{
    LOCK(s);
    autostatement sqlite3_stmt *st = prepare(
        s, err, "SELECT sandbox, name, created FROM snapshot WHERE sandbox = ? ORDER BY created",
        "t", sandbox);
    int step = SQLITE_DONE, result = 0;

    while (st && !result && (step = sqlite3_step(st)) == SQLITE_ROW) {
        struct tn_snapshot snapshot = {.sandbox = (char *)sqlite3_column_text(st, 0),
                                       .name = (char *)sqlite3_column_text(st, 1),
                                       .created = sqlite3_column_double(st, 2)};
        result = fn(&snapshot, ctx);
    }
    if (!st)
        return -1;
    return result || step == SQLITE_DONE ? result : fail(s, err, "snapshots");
}
