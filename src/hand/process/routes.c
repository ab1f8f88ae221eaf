/* /v1/processes: what can be asked of a process.  Starting one is an action (hand/actions.c). */
#include "hand/routes.h"
#include "base/clock.h"
#include "hand/process/process.h"
#include "hand/v1/v1.h"
#include "net/frame.h"

enum {
    PIECE = 32 << 10,
    STATUS_MAX = 4 << 20,
    LIST_MAX = 64 << 20,
    INPUT_MAX = 1 << 20,
    FOLLOW_MAX = 3600,
    BEAT_MAX = 60,
    WAIT_MAX = 60,
    CELLS_MAX = 10000,
};
#define INPUT_SECONDS 5.0
#define SLICE_SECONDS 1.0 /* how soon a wait notices that its client is gone */

static struct tn_process *find(struct tn_http_exchange *x, struct tn_hand *hand)
{
    struct tn_error err = {0};
    struct tn_process *p = tn_processes_find(hand->processes, tn_http_param(x, "id"), &err);

    if (!p)
        tn_http_reply_error(x, &err);
    return p;
}

static void reply_status(struct tn_http_exchange *x, struct tn_process *p)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(STATUS_MAX);
    struct tn_jw w = tn_jw(&json);

    process_put(p, &w);
    tn_http_reply_json(x, 200, &json);
}

/* 200 with its status, or the error; lets go of the process. */
static void reply(struct tn_http_exchange *x, struct tn_process *p, int failed,
                  const struct tn_error *err)
{
    failed ? (void)tn_http_reply_error(x, err) : reply_status(x, p);
    tn_process_unref(p);
}

/* A whole number of the query, at most max; -1: answered. */
static int64_t query_up_to(struct tn_http_exchange *x, const char *name, int64_t fallback,
                           int64_t max)
{
    int64_t value = tn_v1_query_number(x, name, fallback);

    return value > max ? max : value;
}

/* --- looking ---------------------------------------------------------------------------------- */

static void put_each(struct tn_process *p, void *ctx)
{
    process_put(p, ctx);
}

static void put_without_terminal(struct tn_process *p, void *ctx)
{
    if (!process_has_terminal(p))
        process_put(p, ctx);
}

static void list_processes(struct tn_http_exchange *x, void *ctx)
{
    struct tn_hand *hand = ctx;
    tn_autobuf struct tn_buf json = TN_BUF_INIT(LIST_MAX);
    struct tn_jw w = tn_jw(&json);
    int all = tn_http_query(x, "pty") ? tn_v1_query_flag(x, "pty") : 1;

    if (all < 0)
        return;
    tn_jw_object(&w);
    tn_jw_key(&w, "processes");
    tn_jw_array(&w);
    tn_processes_each(hand->processes, all ? put_each : put_without_terminal, &w);
    tn_jw_array_end(&w);
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 200, &json);
}

static void get_process(struct tn_http_exchange *x, void *ctx)
{
    int64_t seconds = query_up_to(x, "wait", 0, WAIT_MAX);
    struct tn_process *p = seconds < 0 ? NULL : find(x, ctx);
    int64_t deadline = tn_deadline_in((double)seconds);

    if (!p)
        return;
    while (tn_now() < deadline && !tn_http_peer_gone(x)) {
        int64_t slice = tn_deadline_in(SLICE_SECONDS);
        if (process_await(p, slice < deadline ? slice : deadline))
            break;
    }
    reply(x, p, 0, NULL);
}

/* --- output ----------------------------------------------------------------------------------- */

/* Kinds of frames: docs/hand.md. */
enum { FRAME_AT = 'a', FRAME_OUT = 'o', FRAME_ERR = 'e', FRAME_BEAT = 'k', FRAME_END = 'x' };

static int send_frame(struct tn_http_exchange *x, char kind, const char *bytes, size_t n)
{
    unsigned char head[TN_FRAME_HEAD];

    tn_frame_head(head, kind, (uint32_t)n);
    return tn_http_write(x, head, sizeof head) || (n && tn_http_write(x, bytes, n)) ? -1 : 0;
}

static int send_end(struct tn_http_exchange *x, struct tn_process *p)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(STATUS_MAX);
    struct tn_jw w = tn_jw(&json);

    process_put(p, &w);
    return send_frame(x, FRAME_END, tn_buf_str(&json), json.len);
}

struct stream {
    struct tn_http_exchange *x;
    struct tn_process *p;
    struct process_reader reader;
    int64_t beat, deadline;
    /* a frame: its head, the offset, the bytes */
    char frame[TN_FRAME_HEAD + 8 + PIECE];
};

static int send_bytes(struct stream *s, char kind, uint64_t offset, size_t n)
{
    unsigned char *frame = (unsigned char *)s->frame;

    tn_frame_head(frame, kind, (uint32_t)(8 + n));
    tn_frame_put_number(frame + TN_FRAME_HEAD, offset);
    return tn_http_write(s->x, frame, TN_FRAME_HEAD + 8 + n);
}

/* The next frame.  0, -1 when the client is gone, 1 when there are no more. */
static int send_next(struct stream *s)
{
    int64_t beat = tn_now() + s->beat;
    size_t n = PIECE;
    uint64_t offset;

    switch (process_next(s->p, &s->reader, s->frame + TN_FRAME_HEAD + 8, &n, &offset,
                         beat < s->deadline ? beat : s->deadline)) {
    case NEWS_OUT:
        return send_bytes(s, FRAME_OUT, offset, n);
    case NEWS_ERR:
        return send_bytes(s, FRAME_ERR, offset, n);
    case NEWS_OVER:
        return send_end(s->x, s->p) ? -1 : 1;
    case NEWS_NONE:
        break;
    }
    if (tn_now() >= s->deadline)
        return 1;
    return tn_http_peer_gone(s->x) ? -1 : send_frame(s->x, FRAME_BEAT, NULL, 0);
}

static void stream(struct stream *s)
{
    unsigned char at[16];

    process_attach(s->p, &s->reader);
    tn_frame_put_number(at, s->reader.out);
    tn_frame_put_number(at + 8, s->reader.err);
    int r = send_frame(s->x, FRAME_AT, (const char *)at, sizeof at);
    while (r == 0)
        r = send_next(s);
    process_detach(s->p, &s->reader);
    r > 0 ? (void)tn_http_end(s->x) : tn_http_abort(s->x);
}

/* Where to begin: a number, or "end".  -1: answered. */
static int query_place(struct tn_http_exchange *x, const char *name, uint64_t *out)
{
    const char *text = tn_http_query(x, name);

    if (text && strcmp(text, "end") == 0) {
        *out = UINT64_MAX;
        return 0;
    }
    int64_t value = tn_v1_query_number(x, name, 0);
    *out = (uint64_t)value;
    return value < 0 ? -1 : 0;
}

static void get_output(struct tn_http_exchange *x, void *ctx)
{
    tn_autofree struct stream *s = tn_calloc(1, sizeof *s);
    int64_t follow, beat;

    if (query_place(x, "stdout", &s->reader.out) || query_place(x, "stderr", &s->reader.err) ||
        (follow = query_up_to(x, "follow", 0, FOLLOW_MAX)) < 0 ||
        (beat = query_up_to(x, "beat", (int64_t)TN_BEAT_SECONDS, BEAT_MAX)) < 0)
        return;
    s->x = x;
    s->beat = (beat ? beat : 1) * TN_SECOND;
    s->deadline = tn_deadline_in((double)follow);
    s->p = find(x, ctx);
    if (!s->p)
        return;
    if (tn_http_start(x, 200, "application/vnd.tendon.frames", -1) == 0)
        stream(s);
    tn_process_unref(s->p);
}

/* --- input and signals ------------------------------------------------------------------------ */

static void post_input(struct tn_http_exchange *x, void *ctx)
{
    tn_autobuf struct tn_buf body = TN_BUF_INIT(INPUT_MAX), json = TN_BUF_INIT(4096);
    struct tn_jw w = tn_jw(&json);
    struct tn_error err = {0};
    struct process_food food = {0};

    if (query_place(x, "offset", &food.offset))
        return;
    if (!tn_http_query(x, "offset"))
        food.offset = UINT64_MAX;
    if (tn_http_read_all(x, &body, &err)) {
        tn_http_reply_error(x, &err);
        return;
    }
    struct tn_process *p = find(x, ctx);
    if (!p)
        return;
    food.bytes = tn_buf_str(&body);
    food.n = body.len;
    int failed = process_feed(p, &food, tn_deadline_in(INPUT_SECONDS), &err);
    tn_process_unref(p);
    if (failed) {
        tn_http_reply_error(x, &err);
        return;
    }
    tn_jw_object(&w);
    tn_jw_kint(&w, "done", (int64_t)food.done);
    tn_jw_kint(&w, "taken", (int64_t)food.taken);
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 200, &json);
}

static void delete_input(struct tn_http_exchange *x, void *ctx)
{
    struct tn_process *p = find(x, ctx);
    struct tn_error err = {0};

    if (p)
        reply(x, p, process_end_input(p, tn_deadline_in(INPUT_SECONDS), &err), &err);
}

static void post_signal(struct tn_http_exchange *x, void *ctx)
{
    tn_autojson struct tn_json *body = NULL;
    struct tn_error err = {0};

    if (tn_v1_body(x, &body))
        return;
    int number = tn_v1_signal(x, body);
    struct tn_process *p = number ? find(x, ctx) : NULL;
    if (p)
        reply(x, p, process_send_signal(p, number, &err), &err);
}

static void post_size(struct tn_http_exchange *x, void *ctx)
{
    tn_autojson struct tn_json *body = NULL;
    struct tn_error err = {0};

    if (tn_v1_body(x, &body))
        return;
    int64_t columns = tn_json_int(tn_json_get(body, "columns"), 0),
            rows = tn_json_int(tn_json_get(body, "rows"), 0);
    if (columns < 1 || rows < 1 || columns > CELLS_MAX || rows > CELLS_MAX) {
        tn_http_reply_detail(x, 422, "columns and rows must be whole numbers from 1 to 10000");
        return;
    }
    struct tn_process *p = find(x, ctx);
    if (p)
        reply(x, p, process_set_size(p, (int)columns, (int)rows, &err), &err);
}

static void delete_process(struct tn_http_exchange *x, void *ctx)
{
    struct tn_hand *hand = ctx;
    struct tn_process *p = find(x, hand);

    if (!p)
        return;
    tn_processes_remove(hand->processes, p);
    tn_process_unref(p);
    tn_http_reply(x, 204, NULL, NULL, 0);
}

static void post_environment(struct tn_http_exchange *x, void *ctx)
{
    struct tn_hand *hand = ctx;
    tn_autojson struct tn_json *body = NULL;
    struct tn_error err = {0};

    if (tn_v1_body(x, &body))
        return;
    const struct tn_json *set = tn_json_get(body, "set"), *unset = tn_json_get(body, "unset");
    if ((set && tn_json_type(set) != TN_JSON_OBJECT) ||
        (unset && tn_json_type(unset) != TN_JSON_ARRAY))
        tn_http_reply_detail(x, 422, "expected an object set and an array unset");
    else if (tn_processes_change_env(hand->processes, unset, set, &err))
        tn_http_reply_error(x, &err);
    else
        tn_http_reply(x, 204, NULL, NULL, 0);
}

#define ONE "/v1/processes/{id}"
const struct tn_route tn_routes_processes[] = {
    {"GET", "/v1/processes", list_processes,
     "all processes, the oldest first; with ?pty=no those without a terminal", 0},
    {"POST", "/v1/environment", post_environment,
     "{set, unset}: variables of processes that are started from now on", 0},
    {"GET", ONE, get_process, "one process; with ?wait=SECONDS when it has ended", 0},
    {"DELETE", ONE, delete_process, "kills and forgets it", 0},
    {"GET", ONE "/output", get_output,
     "frames from ?stdout= and ?stderr= on, with ?follow=SECONDS as they come", 0},
    {"POST", ONE "/input", post_input, "the body to its input, after ?offset= bytes", 0},
    {"DELETE", ONE "/input", delete_input, "the end of its input", 0},
    {"POST", ONE "/signal", post_signal, "{signal} to its process group", 0},
    {"POST", ONE "/size", post_size, "{columns, rows} of its terminal", 0},
    {0},
};
