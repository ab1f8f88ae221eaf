/* One running program of somebody else's that answers JSON-RPC, one object per line on its standard
 * input and output, one call at a time; and several of the same, for several threads.
 *
 * Whatever goes wrong with a program - it ends, says nonsense, says too much, is too slow - breaks
 * it for good: the call fails with a message that names the program and its last words, and it is
 * dropped for another. */
#ifndef TN_MCP_PROGRAM_H
#define TN_MCP_PROGRAM_H

#include "base/json.h"

/* The longest line in either direction. */
#define TN_RPC_PROGRAM_LINE_MAX ((size_t)32 << 20)

struct tn_rpc_program;

/* Starts it; it ends when this process does.  env ends with NULL; NULL: our own environment. */
struct tn_rpc_program *tn_rpc_program_start(const char *path, const char *const *env,
                                            int64_t deadline, struct tn_error *err);
/* Closes its input, and kills it when it does not end then. */
void tn_rpc_program_stop(struct tn_rpc_program *p);
/* It has ended, or cannot be used any more. */
bool tn_rpc_program_broken(struct tn_rpc_program *p);

/* What it says about its progress in the middle of a call. */
typedef void (*tn_rpc_progress_fn)(const char *text, void *ctx);

/* Calls a method with params (an object as JSON text, without a "timeout": that is added).
 * progress may be NULL.  0 with the result, or -1 with err: the program's own error, or that it
 * broke. */
int tn_rpc_program_call(struct tn_rpc_program *p, const char *method, const struct tn_buf *params,
                        tn_rpc_progress_fn progress, void *ctx, int64_t deadline,
                        struct tn_json **result, struct tn_error *err);

/* --- several of the same ---------------------------------------------------------------- */

/* Calls from several threads get a program each, started when needed and kept for the next call.
 */
struct tn_rpc_pool;

struct tn_rpc_pool_options {
    const char *path;
    const char *const *env; /* as in tn_rpc_program_start; must live as long as the pool */
    /* Called with each fresh program before it is used; -1 with err: it is none. */
    int (*introduce)(void *ctx, struct tn_rpc_program *p, int64_t deadline, struct tn_error *err);
    void *ctx;
};

struct tn_rpc_pool *tn_rpc_pool_new(const struct tn_rpc_pool_options *options);
/* With no call under way.  NULL is fine. */
void tn_rpc_pool_free(struct tn_rpc_pool *pool);

/* Starts a program that waits for the first call; or takes this one, which was started already and
 * not introduced yet.  -1 with err when it cannot be used. */
int tn_rpc_pool_prepare(struct tn_rpc_pool *pool, struct tn_rpc_program *spare, int64_t deadline,
                        struct tn_error *err);
/* As tn_rpc_program_call. */
int tn_rpc_pool_call(struct tn_rpc_pool *pool, const char *method, const struct tn_buf *params,
                     tn_rpc_progress_fn progress, void *ctx, int64_t deadline,
                     struct tn_json **result, struct tn_error *err);

#endif
