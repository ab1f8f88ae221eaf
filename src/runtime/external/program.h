/* One running program that answers JSON-RPC, one call at a time.
 *
 * Whatever goes wrong with it - it ends, says nonsense, says too much, is too slow - breaks it for
 * good: the call fails with a message that names the program and its last words, and the caller
 * drops it and starts another. */
#ifndef TN_RUNTIME_EXTERNAL_PROGRAM_H
#define TN_RUNTIME_EXTERNAL_PROGRAM_H

#include "base/json.h"
#include "runtime/backend.h"

/* The longest line in either direction. */
#define PROGRAM_LINE_MAX ((size_t)32 << 20)

struct program;

/* Starts it; it ends when this process does. */
struct program *program_start(const char *path, int64_t deadline, struct tn_error *err);
/* Closes its input, and kills it when it does not end then. */
void program_stop(struct program *p);
/* It has ended, or cannot be used any more. */
bool program_broken(struct program *p);

/* Calls a method with params (an object as JSON text, without a "timeout": that is added).  What it
 * says meanwhile about its progress goes to progress, which may be NULL.  0 with the result, or -1
 * with err: the program's own error, or that it broke. */
int program_call(struct program *p, const char *method, const struct tn_buf *params,
                 tn_progress_fn progress, void *ctx, int64_t deadline, struct tn_json **result,
                 struct tn_error *err);

#endif
