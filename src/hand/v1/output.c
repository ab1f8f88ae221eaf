/* /v1/commands: what commands wrote, whole, by offset. */
#include "base/base64.h"
#include "base/clock.h"
#include "hand/routes.h"
#include "hand/v1/v1.h"
#include "net/sse.h"

enum { PIECE = 32 << 10 };

static void write_output(struct tn_output *o, void *ctx)
{
    struct tn_jw *w = ctx;
    struct tn_output_state state = tn_output_state(o);

    tn_jw_object(w);
    tn_jw_kstr(w, "id", tn_output_id(o));
    tn_jw_kint(w, "size", (int64_t)state.size);
    tn_jw_kint(w, "first", (int64_t)state.first);
    tn_jw_kbool(w, "finished", state.finished);
    tn_jw_kstr(w, "path", tn_output_path(o));
    tn_jw_object_end(w);
}

static void list_commands(struct tn_http_exchange *x, void *ctx)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(1 << 20);
    struct tn_jw w = tn_jw(&json);
    struct tn_session *s = tn_v1_session(x, ctx);

    if (!s)
        return;
    tn_jw_object(&w);
    tn_jw_key(&w, "commands");
    tn_jw_array(&w);
    tn_session_each_output(s, write_output, &w);
    tn_jw_array_end(&w);
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 200, &json);
    tn_session_unref(s);
}

/* An id is the session's name, a dash and a number. */
static struct tn_output *find_output(struct tn_hand *hand, const char *id)
{
    const char *dash = strrchr(id, '-');
    if (!dash)
        return NULL;
    tn_autofree char *name = tn_strndup(id, (size_t)(dash - id));
    struct tn_session *s = tn_sessions_get(hand->sessions, name, NULL);
    struct tn_output *o = s ? tn_session_output(s, id) : NULL;
    tn_session_unref(s);
    return o;
}

static void set_number(struct tn_http_exchange *x, const char *name, uint64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    tn_http_set_header(x, name, text);
}

/* What is there now, as plain bytes. */
static void send_bytes(struct tn_http_exchange *x, struct tn_output *o, uint64_t offset)
{
    struct tn_output_state state = tn_output_state(o);
    tn_autofree char *piece = tn_malloc(PIECE);
    struct tn_error err;

    if (offset < state.first) {
        set_number(x, "X-Output-First", state.first);
        tn_http_reply_detail(x, 410, "output before X-Output-First is discarded");
        return;
    }
    uint64_t end = state.size > offset ? state.size : offset;
    set_number(x, "X-Output-First", state.first);
    set_number(x, "X-Output-Size", state.size);
    tn_http_set_header(x, "X-Output-Finished", state.finished ? "true" : "false");
    if (tn_http_start(x, 200, "application/octet-stream", (int64_t)(end - offset)) < 0)
        return;
    while (offset < end) {
        size_t want = end - offset < PIECE ? (size_t)(end - offset) : PIECE;
        ssize_t n = tn_output_read(o, offset, piece, want, &err);
        if (n <= 0 || tn_http_write(x, piece, (size_t)n) < 0) {
            tn_http_abort(x);
            return;
        }
        offset += (uint64_t)n;
    }
    tn_http_end(x);
}

static int send_event(struct tn_http_exchange *x, const char *event, uint64_t offset, uint64_t next,
                      const char *bytes, size_t n)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(PIECE * 2), data = TN_BUF_INIT(PIECE * 2);
    struct tn_jw w = tn_jw(&json);
    char id[32];

    snprintf(id, sizeof id, "%llu", (unsigned long long)next);
    tn_jw_object(&w);
    tn_jw_kint(&w, "offset", (int64_t)offset);
    if (bytes) {
        tn_base64_encode(&data, bytes, n);
        tn_jw_kstr(&w, "data", tn_buf_str(&data));
    }
    tn_jw_object_end(&w);
    return tn_sse_send(x, event, id, tn_buf_str(&json), json.len);
}

/* Everything from offset on, and then what comes: an event for each piece, its id the offset to resume from. */
static void follow(struct tn_http_exchange *x, struct tn_output *o, uint64_t offset)
{
    tn_autofree char *piece = tn_malloc(PIECE);

    if (tn_sse_start(x) < 0)
        return;
    for (;;) {
        struct tn_output_state state = tn_output_state(o);
        if (offset < state.first) {
            if (send_event(x, "gap", state.first, state.first, NULL, 0) < 0)
                return;
            offset = state.first;
        }
        ssize_t n = tn_output_read(o, offset, piece, PIECE, NULL);
        if (n > 0) {
            if (send_event(x, "output", offset, offset + (uint64_t)n, piece, (size_t)n) < 0)
                return;
            offset += (uint64_t)n;
        } else if (n == 0 && state.finished && offset >= state.size) {
            send_event(x, "end", offset, offset, NULL, 0);
            tn_http_end(x);
            return;
        } else if (!tn_output_wait(o, offset, tn_deadline_in(TN_BEAT_SECONDS)) && tn_sse_beat(x) < 0) {
            return;
        }
    }
}

static void get_output(struct tn_http_exchange *x, void *ctx)
{
    const char *last = tn_http_header(x, "Last-Event-ID");
    int64_t offset = tn_v1_query_number(x, "offset", last ? strtoll(last, NULL, 10) : 0);
    if (offset < 0)
        return;
    struct tn_output *o = find_output(ctx, tn_http_param(x, "id"));
    if (!o) {
        tn_http_reply_detail(x, 404, "no such command, or its output is no longer kept");
        return;
    }
    if (tn_v1_query_flag(x, "follow"))
        follow(x, o, (uint64_t)offset);
    else
        send_bytes(x, o, (uint64_t)offset);
    tn_output_unref(o);
}

const struct tn_route tn_routes_output[] = {
    {"GET", "/v1/sessions/{name}/commands", list_commands, "the latest commands of a session", 0},
    {"GET", "/v1/commands/{id}/output", get_output, "bytes from ?offset=, or with ?follow=1 as events", 0},
    {0},
};
