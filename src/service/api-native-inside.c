/* What there is of a sandbox beside its files: snapshots, usage, logs. */
#include "base/clock.h"
#include "service/admit.h"
#include "service/api-native.h"

enum { MAX_SAMPLES = 600 };
#define LAYER_SECONDS 120.0
#define LOOK_SECONDS 10.0
/* A stream of logs looks so often whether anybody still listens. */
#define SLICE_SECONDS 2.0

/* --- snapshots ------------------------------------------------------------------------------- */

static int put_snapshot(const struct tn_snapshot *snapshot, void *ctx)
{
    struct tn_jw *w = ctx;

    tn_jw_object(w);
    tn_jw_kstr(w, "name", snapshot->name);
    tn_jw_kdouble(w, "created", snapshot->created);
    tn_jw_object_end(w);
    return 0;
}

static void get_snapshots(struct tn_http_exchange *x, void *ctx)
{
    struct tn_service *s = ctx;
    autobox struct box *b = native_box(x, s, SCOPE_READ);
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, NATIVE_ANSWER_MAX);
    struct tn_jw w = tn_jw(&json);
    struct tn_error err = {0};

    if (!b)
        return;
    tn_jw_object(&w);
    tn_jw_key(&w, "snapshots");
    tn_jw_array(&w);
    if (tn_store_snapshots(tn_runtime_store(s->rt), box_id(b), put_snapshot, &w, &err)) {
        reply_error(x, &err);
        return;
    }
    tn_jw_array_end(&w);
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 200, &json);
}

struct layer {
    const char *name;
    int64_t deadline;
    bool starts; /* the sandbox, anew */
    int (*work)(struct tn_sandbox *sb, const char *name, int64_t deadline, struct tn_error *err);
};

static int work_layer(struct tn_sandbox *sb, void *ctx, struct tn_error *err)
{
    const struct layer *l = ctx;

    return l->work(sb, l->name, l->deadline, err);
}

/* One that starts the sandbox anew: by whoever asks, and within what its maker may have now. */
static int start_layer(struct box *b, const struct caller *who, struct layer *l,
                       struct tn_error *err)
{
    if (box_may_start(b, err) || box_rollback_begin(b, who, l->deadline, err))
        return -1;
    int result = box_with_sandbox(b, work_layer, l, l->deadline, err);
    box_rollback_end(b);
    return result;
}

/* 0 when it is done; -1: answered. */
static int do_layer(struct tn_http_exchange *x, struct box *b, struct layer *l, const char *what)
{
    struct tn_error err = {0};

    l->deadline = tn_deadline_in(LAYER_SECONDS);
    int failed = l->starts ? start_layer(b, caller_of(x), l, &err)
                           : box_with_sandbox(b, work_layer, l, l->deadline, &err);
    if (native_audit(x, box_service(b), what, box_id(b), failed ? &err : NULL))
        return -1;
    if (failed)
        reply_error(x, &err);
    return failed ? -1 : 0;
}

struct snapshot_wish {
    char *name;
};
static const struct tn_field snapshot_rows[] = {
    TN_STRING("name", struct snapshot_wish, name, .flags = TN_FIELD_REQUIRED,
              .help = "letters, digits, dots, dashes and underscores"),
};
static const struct tn_fields snapshot_fields = TN_FIELDS(snapshot_rows);

static void post_snapshot(struct tn_http_exchange *x, void *ctx)
{
    static const struct tn_fields *const tables[] = {&snapshot_fields, NULL};
    autobox struct box *b = native_box(x, ctx, SCOPE_MANAGE);
    tn_autojson struct tn_json *body = NULL;
    struct snapshot_wish wish = {0};
    struct tn_error err = {0};
    double bytes;

    if (!b || native_read(x, tables, &body))
        return;
    if (tn_fields_from_json(&snapshot_fields, &wish, body, &err) ||
        tn_fields_check(&snapshot_fields, &wish, &err) ||
        box_snapshot_begin(b, &caller_of(x)->limits, &bytes, &err)) {
        reply_error(x, &err);
    } else {
        struct layer l = {.name = wish.name, .work = tn_sandbox_snapshot};
        tn_autobuf struct tn_buf json = TN_BUF_INIT(4096);
        struct tn_jw w = tn_jw(&json);
        int failed = do_layer(x, b, &l, "snapshot.create");
        box_snapshot_end(b, bytes);
        if (!failed) {
            tn_jw_object(&w);
            tn_jw_kstr(&w, "name", wish.name);
            tn_jw_object_end(&w);
            tn_http_reply_json(x, 201, &json);
        }
    }
    tn_fields_done(&snapshot_fields, &wish);
}

static void delete_snapshot(struct tn_http_exchange *x, void *ctx)
{
    autobox struct box *b = native_box(x, ctx, SCOPE_MANAGE);
    struct layer l = {.name = tn_http_param(x, "name"), .work = tn_sandbox_forget};

    if (!b)
        return;
    int failed = do_layer(x, b, &l, "snapshot.delete");
    box_count_snapshots(b);
    if (!failed)
        tn_http_reply(x, 204, NULL, NULL, 0);
}

static void post_rollback(struct tn_http_exchange *x, void *ctx)
{
    autobox struct box *b = native_box(x, ctx, SCOPE_MANAGE);
    struct layer l = {
        .name = tn_http_param(x, "name"), .starts = true, .work = tn_sandbox_rollback};

    if (b && native_read_nothing(x) == 0 && do_layer(x, b, &l, "snapshot.rollback") == 0)
        native_reply_box(x, 200, b);
}

/* --- usage ----------------------------------------------------------------------------------- */

static void get_usage(struct tn_http_exchange *x, void *ctx)
{
    autobox struct box *b = native_box(x, ctx, SCOPE_READ);
    tn_autofree struct box_sample *samples = tn_calloc(MAX_SAMPLES, sizeof *samples);
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, 1 << 20);
    struct tn_jw w = tn_jw(&json);
    autoview struct box_view v = {0};

    if (!b)
        return;
    size_t count = box_samples(b, samples, MAX_SAMPLES);
    if (box_sample_due(b))
        box_sample(b, NULL); /* one that does not run has none, which the answer shows */
    box_look(b, &v);
    tn_jw_object(&w);
    tn_jw_key(&w, "now");
    tn_jw_object(&w);
    native_put_usage(&w, &v.usage);
    tn_jw_object_end(&w);
    tn_jw_key(&w, "samples");
    tn_jw_array(&w);
    for (size_t i = 0; i < count; i++) {
        tn_jw_object(&w);
        tn_jw_kdouble(&w, "time", samples[i].time);
        native_put_usage(&w, &samples[i].usage);
        tn_jw_object_end(&w);
    }
    tn_jw_array_end(&w);
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 200, &json);
}

/* --- logs ------------------------------------------------------------------------------------ */

struct log_stream {
    struct tn_http_exchange *x;
    bool follow, over;
    uint64_t sent;    /* bytes that the client has */
    uint64_t skipped; /* of those, in this round */
    int64_t deadline;
};

static int send_log(const void *bytes, size_t n, void *ctx)
{
    struct log_stream *l = ctx;
    size_t known = l->sent - l->skipped < n ? (size_t)(l->sent - l->skipped) : n;

    l->skipped += known;
    if (n > known) {
        l->over = tn_http_write(l->x, (const char *)bytes + known, n - known) < 0;
        l->sent += n - known;
        l->skipped = l->sent;
    }
    return l->over;
}

static int read_logs(struct tn_sandbox *sb, void *ctx, struct tn_error *err)
{
    struct log_stream *l = ctx;

    l->skipped = 0;
    return tn_sandbox_logs(sb, l->follow, send_log, l, l->deadline, err);
}

/* A log is read again from its start in each round: it is short, and nobody else can be asked
 * whether the client is still there. */
static void get_logs(struct tn_http_exchange *x, void *ctx)
{
    autobox struct box *b = native_box(x, ctx, SCOPE_READ);
    struct log_stream l = {.x = x};

    if (!b || native_query_flag(x, "follow", &l.follow))
        return;
    tn_http_set_header(x, "Cache-Control", "no-store");
    if (tn_http_start(x, 200, "text/plain; charset=utf-8", -1))
        return;
    do {
        struct tn_error err = {0};
        l.deadline = tn_deadline_in(l.follow ? SLICE_SECONDS : LOOK_SECONDS);
        if (box_with_sandbox(b, read_logs, &l, l.deadline, &err) < 0 && err.code != TN_E_TIMEOUT)
            break;
        if (tn_now() < l.deadline && l.follow)
            box_wait_change(b, UINT64_MAX, l.deadline, NULL); /* it has ended: nothing comes */
    } while (l.follow && !l.over && !tn_http_peer_gone(x));
    tn_http_end(x);
}

#define BOX "/v1/sandboxes/{id}"
const struct tn_route routes_native_inside[] = {
    {"GET", BOX "/snapshots", get_snapshots, "its snapshots", 0},
    {"POST", BOX "/snapshots", post_snapshot, "a new snapshot of its files", 0},
    {"DELETE", BOX "/snapshots/{name}", delete_snapshot, "removes a snapshot", 0},
    {"POST", BOX "/snapshots/{name}/rollback", post_rollback, "back to a snapshot", 0},
    {"GET", BOX "/usage", get_usage, "what it uses, now and lately", 0},
    {"GET", BOX "/logs", get_logs, "what its hand printed; a stream with ?follow=1", 0},
    {0},
};
