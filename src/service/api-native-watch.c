/* GET /v1/watch: all sandboxes of a tenant, and every change of them, as server-sent events. */
#include <inttypes.h>

#include "base/clock.h"
#include "net/sse.h"
#include "service/api-native.h"
#include "service/watch.h"

/* Of ids that are told at a time. */
enum { IDS_MAX = 4 << 20 };

struct watch {
    struct tn_http_exchange *x;
    struct tn_service *s;
    const char *tenant;
    uint64_t now;          /* the number of the last change that was told */
    struct tn_buf changed; /* ids, each with its NUL */
    bool all;
    int failed;
};

/* Numbers of changes are never given twice, also by a service that comes later. */
static void put_id(const struct watch *w, char out[24])
{
    snprintf(out, 24, "%" PRIu64, w->now);
}

static void tell_box(struct watch *w, struct box *b)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(4 << 20);
    struct tn_jw jw = tn_jw(&json);
    char id[24];

    native_put_box(&jw, b, 0);
    put_id(w, id);
    if (tn_buf_ok(&json))
        w->failed = tn_sse_send(w->x, "sandbox", id, json.data, json.len);
}

static void tell(struct watch *w, const char *event, const char *box)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(4096);
    struct tn_jw jw = tn_jw(&json);
    char id[24];

    tn_jw_object(&jw);
    if (box)
        tn_jw_kstr(&jw, "id", box);
    tn_jw_object_end(&jw);
    put_id(w, id);
    w->failed = tn_sse_send(w->x, event, id, json.data, json.len);
}

static int note_id(struct box *b, void *ctx)
{
    struct watch *w = ctx;

    return tn_buf_add(&w->changed, box_id(b), strlen(box_id(b)) + 1);
}

static void tell_changes(struct watch *w)
{
    const char *end = tn_buf_str(&w->changed) + w->changed.len;

    for (const char *id = tn_buf_str(&w->changed); id < end && !w->failed; id += strlen(id) + 1) {
        autobox struct box *b = box_find(w->s, w->tenant, id, NULL);
        if (b)
            tell_box(w, b);
        else
            tell(w, "gone", id);
    }
}

/* What the client has is void: everything from the start. */
static void tell_all(struct watch *w)
{
    const struct box_filter all = {.tenant = w->tenant};

    tn_buf_reset(&w->changed);
    box_each(w->s, &all, note_id, w, NULL);
    tell(w, "reset", NULL);
    tell_changes(w);
    if (!w->failed)
        tell(w, "ready", NULL);
}

static void note(const char *box, void *ctx)
{
    struct watch *w = ctx;

    if (!box || tn_buf_add(&w->changed, box, strlen(box) + 1))
        w->all = true;
}

static void follow(struct watch *w)
{
    while (!w->failed && !tn_http_peer_gone(w->x)) {
        int64_t beat = tn_deadline_in(NATIVE_BEAT_SECONDS);
        w->all = false;
        tn_buf_reset(&w->changed);
        uint64_t now =
            watchers_wait(w->s->watchers, w->tenant, w->now, tn_http_fd(w->x), beat, note, w);
        if (now) {
            w->now = now;
            if (w->all)
                tell_all(w);
            else
                tell_changes(w);
        } else if (tn_now() < beat) {
            break; /* the client has hung up, or the service stops */
        } else {
            w->failed = tn_sse_beat(w->x);
        }
    }
}

static void get_watch(struct tn_http_exchange *x, void *ctx)
{
    struct tn_service *s = ctx;
    const char *last = tn_http_header(x, "Last-Event-ID");

    if (!caller_may(x, SCOPE_READ))
        return;
    struct watch w = {.x = x,
                      .s = s,
                      .tenant = native_tenant(caller_of(x)),
                      .now = watchers_now(s->watchers),
                      .changed = TN_BUF_INIT(IDS_MAX)};
    if (tn_sse_start(x))
        return;
    if (last)
        w.now = strtoull(last, NULL, 10); /* one that was never given means that all has changed */
    else
        tell_all(&w);
    follow(&w);
    tn_buf_done(&w.changed);
    tn_http_end(x);
}

const struct tn_route routes_native_watch[] = {
    {"GET", "/v1/watch", get_watch, "every change of every sandbox, as server-sent events", 0},
    {0},
};
