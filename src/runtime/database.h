/* The database behind the store, for whoever keeps rows of its own in it: statements, no SQL types.
 *
 * One connection, used by any number of threads; a statement is compiled once and kept.  A
 * statement or transaction waits at most ten seconds for other processes that write (TN_E_BUSY),
 * after those of other threads that wait so already. */
#ifndef TN_RUNTIME_DATABASE_H
#define TN_RUNTIME_DATABASE_H

#include <stdint.h>

#include "base/error.h"

struct tn_db;
struct tn_db_row;

/* The file is made (0600) when missing, and brought up to the newest schema (database-schema.c);
 * several processes that do so at once wait for each other. */
struct tn_db *tn_db_open(const char *path, struct tn_error *err);
void tn_db_close(struct tn_db *db);

/* Statements may call uptime(), seconds since the machine was started, and boot_id(), which start
 * that was: together a clock that nobody sets.
 *
 * Parameters follow the statement in its order, one letter each in `types`: 't' const char * (NULL
 * is null), 'i' int64_t, 'd' double.  sql is a string constant: its address names the compiled
 * statement. */

/* Runs a statement that answers nothing.  How many rows it changed, or -1 (TN_E_CONFLICT: a value
 * that must be unique is taken). */
int tn_db_run(struct tn_db *db, struct tn_error *err, const char *sql, const char *types, ...);

/* Calls fn for every row, under the connection's lock: fn must not use the database.  Non-zero from
 * fn stops and is returned; else how many rows there were, or -1. */
typedef int (*tn_db_row_fn)(const struct tn_db_row *row, void *ctx);
int tn_db_each(struct tn_db *db, tn_db_row_fn fn, void *ctx, struct tn_error *err, const char *sql,
               const char *types, ...);

/* Columns of a row, from 0; texts live until fn returns. */
const char *tn_db_text(const struct tn_db_row *row, int column); /* NULL for null */
int64_t tn_db_int(const struct tn_db_row *row, int column);
double tn_db_double(const struct tn_db_row *row, int column);

/* What fn does happens whole or not at all; the functions above inside it belong to it, and so does
 * this one.  Non-zero from fn undoes everything it did and is returned.  What several threads ask
 * for at the same time becomes one transaction with a part for each: fn may be called in another of
 * those threads, while this one waits. */
typedef int (*tn_db_step_fn)(struct tn_db *db, void *ctx, struct tn_error *err);
int tn_db_atomically(struct tn_db *db, tn_db_step_fn fn, void *ctx, struct tn_error *err);

/* Nanoseconds that this thread has spent in databases so far. */
int64_t tn_db_spent(void);

/* Changes whenever another process has written something; for caches. */
int64_t tn_db_version(struct tn_db *db);

#endif
