#include "runtime/external/external.h"

#include <pthread.h>

#include "base/clock.h"
#include "base/program-search.h"
#include "mcp/program.h"
#include "runtime/external/backend.h"
#include "runtime/external/wire.h"

#define PREFIX "tendon-runtime-"
#define DESCRIBE_SECONDS 10.0

/* --- slots: open and doctor are not told which backend they belong to ---------------------- */

#define SLOTS(X) \
    X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)

#define MAX_EXTERNALS 16
static struct external *externals[MAX_EXTERNALS];
static size_t count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int open_external(struct external *x, const struct tn_host *host, void **engine,
                         struct tn_error *err)
{
    struct engine *e = NULL;
    int r = engine_open(x, host, &e, err);

    *engine = e;
    return r;
}

static int doctor_external(struct external *x, const struct tn_host *host, tn_symptom_fn fn,
                           void *ctx, struct tn_error *err)
{
    struct tn_error why = {0};
    struct engine *e = NULL;
    bool good = engine_open(x, host, &e, &why) == 0;

    engine_close(e);
    fn(
        &(struct tn_symptom){
            .what = x->path, .good = good, .needed = true, .detail = good ? x->summary : why.text},
        ctx);
    return 0;
}

#define FUNCTIONS(n)                                                                     \
    static int open_##n(const struct tn_host *host, void **engine, struct tn_error *err) \
    {                                                                                    \
        return open_external(externals[n], host, engine, err);                           \
    }                                                                                    \
    static int doctor_##n(const struct tn_host *host, tn_symptom_fn fn, void *ctx,       \
                          struct tn_error *err)                                          \
    {                                                                                    \
        return doctor_external(externals[n], host, fn, ctx, err);                        \
    }
SLOTS(FUNCTIONS)

static const struct {
    int (*open)(const struct tn_host *host, void **engine, struct tn_error *err);
    int (*doctor)(const struct tn_host *host, tn_symptom_fn fn, void *ctx, struct tn_error *err);
} slots[] = {
#define SLOT(n) {open_##n, doctor_##n},
    SLOTS(SLOT)};
_Static_assert(TN_COUNT(slots) == MAX_EXTERNALS, "one slot for each");

/* --- finding ------------------------------------------------------------------------------- */

static void external_free(struct external *x)
{
    tn_rpc_program_stop(x->spare);
    tn_json_free(x->methods);
    free(x->name);
    free(x->path);
    free(x->summary);
    free(x);
}

/* Starts the program and asks it what it can do. */
static int describe(struct external *x, struct tn_error *err)
{
    int64_t deadline = tn_deadline_in(DESCRIBE_SECONDS);
    tn_autobuf struct tn_buf none = TN_BUF_INIT(16);
    tn_autojson struct tn_json *result = NULL;

    tn_buf_puts(&none, "{}");
    x->spare = tn_rpc_program_start(x->path, NULL, deadline, err);
    if (!x->spare ||
        tn_rpc_program_call(x->spare, "describe", &none, NULL, NULL, deadline, &result, err) < 0)
        return -1;
    if (tn_json_int(tn_json_get(result, "protocol"), 0) != 1)
        return tn_fail(err, TN_E_UNSUPPORTED,
                       "it speaks another protocol than version 1 (docs/runtime-plugins.md)");
    x->summary = tn_strdup(tn_json_get_str(result, "summary", x->path));
    x->methods = tn_json_ref(tn_json_get(result, "methods"));
    x->table.abilities = wire_abilities(tn_json_get(result, "abilities"));
    external_fill_table(x);
    return 0;
}

static struct external *load(const char *name, char *path, struct tn_error *err)
{
    struct external *x = tn_calloc(1, sizeof *x);

    x->name = tn_strdup(name);
    x->path = path;
    if (describe(x, err) == 0)
        return x;
    external_free(x);
    tn_error_context(err, "runtime %s", name);
    return NULL;
}

static const struct tn_backend *find(const struct tn_config *config, const char *name,
                                     struct tn_error *err)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(externals[i]->name, name) == 0)
            return &externals[i]->table;
    char *path = tn_program_search(&config->tendon.runtime_path, PREFIX, name);
    if (!path) {
        tn_fail(err, TN_E_NOT_FOUND, "there is no program " PREFIX "%.60s", name);
        return NULL;
    }
    if (count == MAX_EXTERNALS) {
        free(path);
        tn_fail(err, TN_E_TOO_LARGE, "more than %d runtimes that are programs", MAX_EXTERNALS);
        return NULL;
    }
    struct external *x = load(name, path, err);
    if (!x)
        return NULL;
    x->table.open = slots[count].open;
    x->table.doctor = slots[count].doctor;
    externals[count++] = x;
    return &x->table;
}

const struct tn_backend *tn_external_find(const struct tn_config *config, const char *name,
                                          struct tn_error *err)
{
    pthread_mutex_lock(&lock);
    const struct tn_backend *found = find(config, name, err);
    pthread_mutex_unlock(&lock);
    return found;
}

void tn_external_each(const struct tn_config *config, tn_backend_name_fn fn, void *ctx)
{
    tn_program_each(&config->tendon.runtime_path, PREFIX, fn, ctx);
}
