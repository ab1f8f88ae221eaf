/* An external backend and its running programs (mcp/program.h). */
#ifndef TN_RUNTIME_EXTERNAL_ENGINE_H
#define TN_RUNTIME_EXTERNAL_ENGINE_H

#include "base/json.h"
#include "runtime/backend.h"

struct tn_rpc_program;

/* One program on the search path. */
struct external {
    char *name, *path, *summary;
    struct tn_json *methods; /* array of names that it has beyond the required ones */
    struct tn_rpc_program
        *spare; /* started to be asked what it can do; the first engine takes it */
    struct tn_backend table;
};

bool external_has(const struct external *x, const char *method);

struct engine;

/* Opens it: the first program must agree. */
int engine_open(struct external *x, const struct tn_host *host, struct engine **out,
                struct tn_error *err);
void engine_close(struct engine *e);
const struct external *engine_external(const struct engine *e);

/* Calls a method; params as in tn_rpc_program_call.  Errors name the backend; result may be
 * NULL. */
int engine_call(struct engine *e, const char *method, const struct tn_buf *params, int64_t deadline,
                struct tn_json **result, struct tn_error *err);

#endif
