/* The table of an external backend: each function is one call. */
#include "runtime/external/backend.h"

#include "base/base64.h"
#include "base/clock.h"
#include "mcp/program.h"
#include "net/listen.h"
#include "runtime/external/wire.h"

/* For calls that have no deadline of their own. */
#define CALL_SECONDS 30.0
/* How long one call for more of a log may wait for it. */
#define LOG_SECONDS 5.0

/* Everything a call needs, made in one place. */
struct call {
    struct tn_buf params;
    struct tn_jw w;
    struct tn_json *result;
};

static void call_done(struct call *c)
{
    tn_buf_done(&c->params);
    tn_json_free(c->result);
}
#define autocall TN_CLEANUP(call_done)

/* Begins the parameters; the caller adds members before `run`. */
static void begin(struct call *c, const struct tn_subject *subject)
{
    *c = (struct call){.params = TN_BUF_INIT(TN_RPC_PROGRAM_LINE_MAX)};
    c->w = tn_jw(&c->params);
    tn_jw_object(&c->w);
    if (subject)
        wire_subject(&c->w, "subject", subject);
}

static int run(struct call *c, void *engine, const char *method, int64_t deadline,
               struct tn_error *err)
{
    tn_jw_object_end(&c->w);
    return engine_call(engine, method, &c->params, deadline, &c->result, err);
}

static int nonsense(void *engine, const char *method, struct tn_error *err)
{
    return tn_fail(err, TN_E_PEER, "%s: its answer to %s makes no sense",
                   engine_external(engine)->name, method);
}

static void close_engine(void *engine)
{
    engine_close(engine);
}

/* --- life ---------------------------------------------------------------------------------- */

static int run_for_place(struct call *c, void *engine, const char *method, struct tn_place *place,
                         int64_t deadline, struct tn_error *err)
{
    if (run(c, engine, method, deadline, err) < 0)
        return -1;
    if (wire_place(c->result, place, err) == 0)
        return 0;
    return tn_error_context(err, "%s: %s", engine_external(engine)->name, method);
}

static int create(void *engine, const struct tn_subject *subject, struct tn_place *place,
                  int64_t deadline, struct tn_error *err)
{
    autocall struct call c;

    begin(&c, subject);
    return run_for_place(&c, engine, "create", place, deadline, err);
}

static int inspect(void *engine, const struct tn_subject *subject, struct tn_place *place,
                   int64_t deadline, struct tn_error *err)
{
    autocall struct call c;

    begin(&c, subject);
    return run_for_place(&c, engine, "inspect", place, deadline, err);
}

static int drive(void *engine, const struct tn_subject *subject, enum tn_goal goal,
                 struct tn_place *place, int64_t deadline, struct tn_error *err)
{
    autocall struct call c;

    begin(&c, subject);
    tn_jw_kstr(&c.w, "goal", tn_goal_words[goal]);
    return run_for_place(&c, engine, "drive", place, deadline, err);
}

static int list(void *engine, tn_found_fn found, void *ctx, int64_t deadline, struct tn_error *err)
{
    autocall struct call c;

    begin(&c, NULL);
    if (run(&c, engine, "list", deadline, err) < 0)
        return -1;
    const struct tn_json *ids = tn_json_get(c.result, "ids");
    if (tn_json_type(ids) != TN_JSON_ARRAY)
        return nonsense(engine, "list", err);
    for (size_t i = 0; i < tn_json_count(ids); i++) {
        const char *id = tn_json_str(tn_json_at(ids, i), NULL);
        int r = id ? found(id, ctx) : nonsense(engine, "list", err);
        if (r)
            return r;
    }
    return 0;
}

/* --- use ----------------------------------------------------------------------------------- */

static void write_bytes(struct call *c, const char *key, const void *bytes, size_t n)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(TN_RPC_PROGRAM_LINE_MAX);

    tn_base64_encode(&text, bytes, n);
    if (!tn_buf_ok(&text))
        c->params.failed = true; /* the call says that it is too large */
    else
        tn_jw_kstr(&c->w, key, tn_buf_str(&text));
}

static int read_bytes(void *engine, const char *method, const struct tn_json *value,
                      struct tn_buf *out, struct tn_error *err)
{
    size_t n = 0;
    const char *text = tn_json_str(value, &n);

    if (!text)
        return nonsense(engine, method, err);
    if (tn_base64_decode(out, text, n, err) == 0)
        return 0;
    return tn_error_context(err, "%s: %s", engine_external(engine)->name, method);
}

static int put(void *engine, const struct tn_subject *subject, const char *path, const void *bytes,
               size_t n, mode_t mode, int64_t deadline, struct tn_error *err)
{
    autocall struct call c;
    char text[8];

    snprintf(text, sizeof text, "%04o", (unsigned)mode & 07777);
    begin(&c, subject);
    tn_jw_kstr(&c.w, "path", path);
    tn_jw_kstr(&c.w, "mode", text);
    write_bytes(&c, "data", bytes, n);
    return run(&c, engine, "put", deadline, err);
}

static int exec(void *engine, const struct tn_subject *subject, const char *const *argv,
                struct tn_buf *out, int *status, int64_t deadline, struct tn_error *err)
{
    autocall struct call c;

    begin(&c, subject);
    tn_jw_key(&c.w, "argv");
    tn_jw_array(&c.w);
    for (; *argv; argv++)
        tn_jw_str(&c.w, *argv);
    tn_jw_array_end(&c.w);
    if (run(&c, engine, "exec", deadline, err) < 0 ||
        read_bytes(engine, "exec", tn_json_get(c.result, "output"), out, err) < 0)
        return -1;
    int64_t code = tn_json_int(tn_json_get(c.result, "status"), -1);
    if (code < 0 || code > 255)
        return nonsense(engine, "exec", err);
    *status = (int)code;
    return 0;
}

static int dial(void *engine, const struct tn_subject *subject, int port, int64_t deadline,
                struct tn_error *err)
{
    autocall struct call c;

    begin(&c, subject);
    tn_jw_kint(&c.w, "port", port);
    if (run(&c, engine, "dial", deadline, err) < 0)
        return -1;
    const char *address = tn_json_get_str(c.result, "address", NULL);
    return address ? tn_dial(address, deadline, err) : nonsense(engine, "dial", err);
}

static char *url(void *engine, const struct tn_subject *subject, int port, struct tn_error *err)
{
    autocall struct call c;

    begin(&c, subject);
    tn_jw_kint(&c.w, "port", port);
    if (run(&c, engine, "url", tn_deadline_in(CALL_SECONDS), err) < 0)
        return NULL;
    const char *text = tn_json_get_str(c.result, "url", NULL);
    if (!text)
        nonsense(engine, "url", err);
    return tn_strdup_or_null(text);
}

/* What was added since the offset, which moves on; with patience it may wait for more. */
static int more_log(void *engine, const struct tn_subject *subject, int64_t *offset, double wait,
                    struct tn_buf *out, int64_t deadline, struct tn_error *err)
{
    autocall struct call c;

    begin(&c, subject);
    tn_jw_kint(&c.w, "offset", *offset);
    tn_jw_kdouble(&c.w, "wait", wait);
    if (run(&c, engine, "logs", deadline, err) < 0 ||
        read_bytes(engine, "logs", tn_json_get(c.result, "data"), out, err) < 0)
        return -1;
    int64_t next = tn_json_int(tn_json_get(c.result, "offset"), -1);
    if (next < *offset || (out->len > 0 && next == *offset))
        return nonsense(engine, "logs", err);
    *offset = next;
    return 0;
}

static int logs(void *engine, const struct tn_subject *subject, bool follow, tn_log_fn fn,
                void *ctx, int64_t deadline, struct tn_error *err)
{
    for (int64_t offset = 0;;) {
        tn_autobuf struct tn_buf out = TN_BUF_INIT(TN_RPC_PROGRAM_LINE_MAX);
        double left = deadline == TN_NEVER ? LOG_SECONDS : (double)(deadline - tn_now()) / 1e9;
        double wait = !follow ? 0 : left < LOG_SECONDS ? left : LOG_SECONDS;

        if (follow && left <= 0)
            return 0;
        if (more_log(engine, subject, &offset, wait, &out, tn_deadline_in(wait + CALL_SECONDS),
                     err) < 0)
            return -1;
        if (out.len > 0 && fn(out.data, out.len, ctx))
            return 0;
        if (out.len == 0 && !follow)
            return 0;
    }
}

static int usage(void *engine, const struct tn_subject *subject, struct tn_usage *out,
                 struct tn_error *err)
{
    autocall struct call c;

    begin(&c, subject);
    if (run(&c, engine, "usage", tn_deadline_in(CALL_SECONDS), err) < 0)
        return -1;
    wire_usage(c.result, out);
    return 0;
}

/* --- layers -------------------------------------------------------------------------------- */

static int snapshot(void *engine, const struct tn_subject *subject, const char *name,
                    int64_t deadline, struct tn_error *err)
{
    autocall struct call c;

    begin(&c, subject);
    tn_jw_kstr(&c.w, "name", name);
    return run(&c, engine, "snapshot", deadline, err);
}

static int forget(void *engine, const struct tn_subject *subject, const char *name,
                  int64_t deadline, struct tn_error *err)
{
    autocall struct call c;

    begin(&c, subject);
    tn_jw_kstr(&c.w, "name", name);
    return run(&c, engine, "forget", deadline, err);
}

static int rollback(void *engine, const struct tn_subject *subject, const char *name,
                    struct tn_place *place, int64_t deadline, struct tn_error *err)
{
    autocall struct call c;

    begin(&c, subject);
    tn_jw_kstr(&c.w, "name", name);
    return run_for_place(&c, engine, "rollback", place, deadline, err);
}

static int fork_sandbox(void *engine, const struct tn_subject *subject, const char *name,
                        const struct tn_subject *child, struct tn_place *place, int64_t deadline,
                        struct tn_error *err)
{
    autocall struct call c;

    begin(&c, subject);
    tn_jw_kstr(&c.w, "name", name);
    wire_subject(&c.w, "child", child);
    return run_for_place(&c, engine, "fork", place, deadline, err);
}

/* What callers take for granted is there even when the program lacks it, and says so. */
void external_fill_table(struct external *x)
{
    struct tn_backend *t = &x->table;

    t->name = x->name;
    t->summary = x->summary;
    t->close = close_engine;
    t->create = create;
    t->inspect = inspect;
    t->drive = drive;
    t->list = list;
    t->put = put;
    t->exec = exec;
    t->logs = logs;
    t->dial = external_has(x, "dial") ? dial : NULL;
    t->url = external_has(x, "url") ? url : NULL;
    t->usage = external_has(x, "usage") ? usage : NULL;
    if (!(t->abilities & TN_CAN_SNAPSHOT))
        return;
    t->snapshot = snapshot;
    t->forget = forget;
    t->rollback = rollback;
    t->fork = fork_sandbox;
}
