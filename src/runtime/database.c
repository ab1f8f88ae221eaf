#include "runtime/database.h"

#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdarg.h>

#include "base/again.h"
#include "base/clock.h"
#include "base/file-lock.h"
#include "base/gather.h"
#include "runtime/database-schema.h"
#include "runtime/owner.h"

/* Pages in the log at which it is taken over into the file: by whoever writes; and by whoever
 * leaves, because the next one to come alone has to read all of it. */
enum { LOG_PAGES = 1000, LOG_PAGES_LEFT = 128 };

/* How long a statement waits for another process that writes. */
#define BUSY_MS 10000

/* A transaction is over in less than the first of these, unless the disk is waited for. */
#define BUSY_NAP_FIRST (TN_MILLI / 20)
#define BUSY_NAP_LAST (10 * TN_MILLI)

struct compiled {
    const char *sql;
    sqlite3_stmt *st;
};

struct tn_db {
    sqlite3 *db;
    pthread_mutex_t lock; /* of everything; recursive: see tn_db_atomically */
    struct compiled *statements;
    size_t count;
    int log_pages;          /* after our last change */
    int64_t busy_since;     /* when the statement at work began to wait for another process */
    struct tn_gather steps; /* who wants a transaction */
};

struct tn_db_row {
    sqlite3_stmt *st;
};

/* Of this thread: what it spent here, waiting for others included. */
static _Thread_local struct {
    int depth;
    int64_t since, spent;
    struct tn_db *inside; /* whose transaction it is at work on */
} mine;

static void count_from_here(void)
{
    if (mine.depth++ == 0)
        mine.since = tn_now();
}

static void count_to_here(void)
{
    if (--mine.depth == 0)
        mine.spent += tn_now() - mine.since;
}

static pthread_mutex_t *take_lock(struct tn_db *d)
{
    count_from_here();
    pthread_mutex_lock(&d->lock);
    return &d->lock;
}

static void guard_lock(pthread_mutex_t **lock)
{
    pthread_mutex_unlock(*lock);
    count_to_here();
}
#define LOCK(d) \
    TN_CLEANUP(guard_lock) pthread_mutex_t *locked_ __attribute__((unused)) = take_lock(d)

int64_t tn_db_spent(void)
{
    return mine.spent + (mine.depth ? tn_now() - mine.since : 0);
}

static int fail(struct tn_db *d, struct tn_error *err)
{
    int result = sqlite3_extended_errcode(d->db);
    enum tn_code code = TN_E_IO;

    if (result == SQLITE_CONSTRAINT_UNIQUE || result == SQLITE_CONSTRAINT_PRIMARYKEY)
        code = TN_E_CONFLICT;
    else if ((result & 255) == SQLITE_BUSY)
        code = TN_E_BUSY;
    else if ((result & 255) == SQLITE_PERM || (result & 255) == SQLITE_READONLY)
        code = TN_E_DENIED;
    return tn_fail(err, code, "the store: %s", sqlite3_errmsg(d->db));
}

/* --- statements ---------------------------------------------------------------------------- */

/* Compiled once; a statement that is at work further up the stack is compiled a second time. */
static sqlite3_stmt *compile(struct tn_db *d, const char *sql, struct tn_error *err)
{
    sqlite3_stmt *st = NULL;

    for (size_t i = 0; i < d->count; i++)
        if (d->statements[i].sql == sql && !sqlite3_stmt_busy(d->statements[i].st))
            return d->statements[i].st;
    if (sqlite3_prepare_v3(d->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &st, NULL) != SQLITE_OK) {
        fail(d, err);
        return NULL;
    }
    d->statements = tn_realloc(d->statements, (d->count + 1) * sizeof *d->statements);
    d->statements[d->count++] = (struct compiled){.sql = sql, .st = st};
    return st;
}

static sqlite3_stmt *bind(struct tn_db *d, const char *sql, const char *types, va_list ap,
                          struct tn_error *err)
{
    sqlite3_stmt *st = compile(d, sql, err);

    for (int i = 0; st && types[i]; i++) {
        if (types[i] == 't')
            sqlite3_bind_text(st, i + 1, va_arg(ap, const char *), -1, SQLITE_TRANSIENT);
        else if (types[i] == 'i')
            sqlite3_bind_int64(st, i + 1, va_arg(ap, int64_t));
        else
            sqlite3_bind_double(st, i + 1, va_arg(ap, double));
    }
    return st;
}

/* For the next use; parameters may be large or secret. */
static void put_back(sqlite3_stmt *st)
{
    sqlite3_reset(st);
    sqlite3_clear_bindings(st);
}

int tn_db_run(struct tn_db *d, struct tn_error *err, const char *sql, const char *types, ...)
{
    LOCK(d);
    va_list ap;

    va_start(ap, types);
    sqlite3_stmt *st = bind(d, sql, types, ap, err);
    va_end(ap);
    if (!st)
        return -1;
    int result = sqlite3_step(st) == SQLITE_DONE ? sqlite3_changes(d->db) : fail(d, err);
    put_back(st);
    return result;
}

int tn_db_each(struct tn_db *d, tn_db_row_fn fn, void *ctx, struct tn_error *err, const char *sql,
               const char *types, ...)
{
    LOCK(d);
    int step = SQLITE_ROW, count = 0, stopped = 0;
    va_list ap;

    va_start(ap, types);
    struct tn_db_row row = {.st = bind(d, sql, types, ap, err)};
    va_end(ap);
    if (!row.st)
        return -1;
    /* To the very end, unless it fails: what changes rows has changed them only then. */
    while ((step = sqlite3_step(row.st)) == SQLITE_ROW && !(stopped = fn(&row, ctx)))
        count++;
    if (!stopped && step != SQLITE_DONE)
        stopped = fail(d, err);
    put_back(row.st);
    return stopped ? stopped : count;
}

const char *tn_db_text(const struct tn_db_row *row, int column)
{
    return (const char *)sqlite3_column_text(row->st, column);
}

int64_t tn_db_int(const struct tn_db_row *row, int column)
{
    return sqlite3_column_int64(row->st, column);
}

double tn_db_double(const struct tn_db_row *row, int column)
{
    return sqlite3_column_double(row->st, column);
}

static int take_int(const struct tn_db_row *row, void *ctx)
{
    *(int64_t *)ctx = tn_db_int(row, 0);
    return 0;
}

int64_t tn_db_version(struct tn_db *d)
{
    int64_t version = 0;

    tn_db_each(d, take_int, &version, NULL, "PRAGMA data_version", "");
    return version;
}

/* --- whole or not at all ------------------------------------------------------------------- */

/* What one thread wants. */
struct step {
    struct tn_waiter waiter;
    tn_db_step_fn fn;
    void *ctx;
    struct tn_error *err;
    int result;
};

static struct step *step_of(struct tn_waiter *w)
{
    return (struct step *)w;
}

/* Nothing of what they did is left, whatever each of them thinks; who has failed before has its own
 * reason. */
static void fail_all(struct tn_waiter *all, const struct tn_error *why)
{
    for (struct tn_waiter *w = all; w; w = w->next) {
        struct step *step = step_of(w);
        if (!step->result && step->err)
            *step->err = *why;
        if (!step->result)
            step->result = -1;
    }
}

/* One of several: its failure is nobody else's.  -1 when all of them are undone: there are errors,
 * a full disk for one, at which SQLite ends the transaction by itself. */
static int do_among_others(struct tn_db *d, struct step *step, struct tn_error *err)
{
    if (tn_db_run(d, err, "SAVEPOINT step", "") < 0)
        return -1;
    step->result = step->fn(d, step->ctx, step->err);
    if (sqlite3_get_autocommit(d->db))
        return tn_fail(err, TN_E_IO, "the store: a change made at the same time failed");
    if (step->result && tn_db_run(d, err, "ROLLBACK TO step", "") < 0)
        return -1;
    return tn_db_run(d, err, "RELEASE step", "") < 0 ? -1 : 0;
}

static int do_steps(struct tn_db *d, struct tn_waiter *all, struct tn_error *err)
{
    for (struct tn_waiter *w = all; w; w = w->next)
        if (do_among_others(d, step_of(w), err))
            return -1;
    return 0;
}

/* The commit costs most, and the same for one change as for many. */
static void do_together(struct tn_waiter *all, void *ctx)
{
    struct tn_db *d = ctx;
    LOCK(d);
    struct step *alone = all->next ? NULL : step_of(all);
    struct tn_error why = {0};

    if (tn_db_run(d, &why, "BEGIN IMMEDIATE", "") < 0) {
        fail_all(all, &why);
        return;
    }
    mine.inside = d;
    int failed =
        alone ? (alone->result = alone->fn(d, alone->ctx, alone->err)) : do_steps(d, all, &why);
    mine.inside = NULL;
    if (!failed && tn_db_run(d, &why, "COMMIT", "") >= 0)
        return;
    fail_all(all, &why);
    if (!sqlite3_get_autocommit(d->db))
        tn_db_run(d, NULL, "ROLLBACK", "");
}

int tn_db_atomically(struct tn_db *d, tn_db_step_fn fn, void *ctx, struct tn_error *err)
{
    struct step step = {.fn = fn, .ctx = ctx, .err = err};

    if (mine.inside == d)
        return fn(d, ctx, err);
    count_from_here();
    tn_gather(&d->steps, &step.waiter, do_together, d);
    count_to_here();
    return step.result;
}

/* --- opening ------------------------------------------------------------------------------- */

/* uptime(): seconds since this machine was started, also those it slept.  boot_id(): the start that
 * they count from. */
static void tell_uptime(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    struct timespec t;

    clock_gettime(CLOCK_BOOTTIME, &t);
    sqlite3_result_double(ctx, (double)t.tv_sec + (double)t.tv_nsec / 1e9);
}

static void tell_boot_id(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    sqlite3_result_text(ctx, tn_boot_id(), -1, SQLITE_STATIC);
}

static int add_functions(struct tn_db *d, struct tn_error *err)
{
    if (sqlite3_create_function(d->db, "uptime", 0, SQLITE_UTF8, NULL, tell_uptime, NULL, NULL) ||
        sqlite3_create_function(d->db, "boot_id", 0, SQLITE_UTF8, NULL, tell_boot_id, NULL, NULL))
        return fail(d, err);
    return 0;
}

static int64_t schema_version(struct tn_db *d, struct tn_error *err)
{
    int64_t version = -1;

    return tn_db_each(d, take_int, &version, err, "PRAGMA user_version", "") < 0 ? -1 : version;
}

static int exec(struct tn_db *d, const char *sql, struct tn_error *err)
{
    return sqlite3_exec(d->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : fail(d, err);
}

static int apply_migrations(struct tn_db *d, void *ctx, struct tn_error *err)
{
    /* Somebody else may have done the same until we were the only writer. */
    int64_t version = schema_version(d, err);
    char set[64];

    if (version < 0)
        return -1;
    for (; tn_db_migrations[version]; version++)
        if (exec(d, tn_db_migrations[version], err))
            return -1;
    snprintf(set, sizeof set, "PRAGMA user_version = %lld", (long long)version);
    return exec(d, set, err);
}

static int migrate(struct tn_db *d, struct tn_error *err)
{
    int64_t version = schema_version(d, err), newest = 0;

    while (tn_db_migrations[newest])
        newest++;
    if (version < 0 || version == newest)
        return version < 0 ? -1 : 0;
    if (version > newest)
        return tn_fail(
            err, TN_E_UNSUPPORTED,
            "the store was written by a newer tendon (version %lld, this one knows %lld)",
            (long long)version, (long long)newest);
    return tn_db_atomically(d, apply_migrations, NULL, err);
}

static int note_log(void *ctx, sqlite3 *db, const char *name, int pages)
{
    struct tn_db *d = ctx;

    d->log_pages = pages;
    if (pages >= LOG_PAGES)
        sqlite3_wal_checkpoint_v2(db, name, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    return SQLITE_OK;
}

/* Others hold the file for a moment only, unless they are many: the longer it takes, the longer the
 * naps. */
static int wait_for_others(void *ctx, int tries)
{
    struct tn_db *d = ctx;
    int64_t now = tn_now();

    if (tries == 0)
        d->busy_since = now;
    int64_t nap = (now - d->busy_since) / 4;
    if (nap < BUSY_NAP_FIRST)
        nap = BUSY_NAP_FIRST;
    if (nap > BUSY_NAP_LAST)
        nap = BUSY_NAP_LAST;
    return tn_look_again_after(nap, d->busy_since + BUSY_MS * TN_MILLI);
}

/* Keys are in there, and SQLite gives the files beside it the same mode.  Not by a umask, which is
 * that of all threads.  One that is there already is left alone: SQLite's locks on it would be lost
 * with our descriptor. */
static int make_private(const char *path, struct tn_error *err)
{
    tn_autofd int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    return fd < 0 && errno != EEXIST ? tn_fail_errno(err, errno, "the store: %s", path) : 0;
}

static int open_file(struct tn_db *d, const char *path, struct tn_error *err)
{
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    int persist = 1;

    if (sqlite3_open_v2(path, &d->db, flags, NULL) != SQLITE_OK)
        return d->db ? tn_error_context((fail(d, err), err), "%s", path)
                     : tn_fail(err, TN_E_IO, "the store: no memory");
    sqlite3_busy_handler(d->db, wait_for_others, d);
    sqlite3_wal_hook(d->db, note_log, d);
    /* The log outlives the process: the last one to leave seldom waits for the disk. */
    sqlite3_db_config(d->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    sqlite3_file_control(d->db, "main", SQLITE_FCNTL_PERSIST_WAL, &persist);
    /* Rows must survive a killed process; after a power cut no sandbox of this machine lives. */
    return add_functions(d, err) ||
           exec(d, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL", err) ||
           migrate(d, err);
}

/* One process at a time: where the file is new, SQLite refuses all but one of those who turn the
 * log on, without waiting.  The lock is a file of its own: SQLite's locks on its own files would be
 * lost with our descriptor, and the directory may be one that others can open, and lock, too. */
static int open_in_turn(struct tn_db *d, const char *path, struct tn_error *err)
{
    tn_autofree char *beside = tn_asprintf("%s-lock", path);
    tn_autofd int fd = open(beside, O_RDONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (fd < 0)
        return tn_fail_errno(err, errno, "the store: %s", beside);
    int held = tn_file_lock(fd, tn_now() + BUSY_MS * TN_MILLI, err);
    if (held < 0)
        return tn_error_context(err, "the store: %s", beside);
    int failed = make_private(path, err) || open_file(d, path, err);
    tn_file_unlock(fd, held);
    return failed;
}

struct tn_db *tn_db_open(const char *path, struct tn_error *err)
{
    struct tn_db *d = tn_calloc(1, sizeof *d);
    pthread_mutexattr_t recursive;

    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&d->lock, &recursive);
    pthread_mutexattr_destroy(&recursive);
    tn_gather_init(&d->steps);
    if (open_in_turn(d, path, err)) {
        tn_db_close(d);
        return NULL;
    }
    return d;
}

void tn_db_close(struct tn_db *d)
{
    if (!d)
        return;
    for (size_t i = 0; i < d->count; i++)
        sqlite3_finalize(d->statements[i].st);
    free(d->statements);
    if (d->log_pages > LOG_PAGES_LEFT) {
        sqlite3_busy_timeout(d->db, 0); /* others who are there see to it later */
        sqlite3_wal_checkpoint_v2(d->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    }
    sqlite3_close(d->db);
    pthread_mutex_destroy(&d->lock);
    tn_gather_done(&d->steps);
    free(d);
}
