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
    tn_session_unref(s);
    tn_http_reply_json(x, 200, &json);
}

/* An id is the session's name, a dash and a number. */
static struct tn_output *find_output(struct tn_hand *hand, const char *id)
{
    const char *dash = id ? strrchr(id, '-') : NULL;

    if (!dash)
        return NULL;
    tn_autofree char *name = tn_strndup(id, (size_t)(dash - id));
    struct tn_session *s = tn_sessions_get(hand->sessions, name, NULL);
    struct tn_output *o = s ? tn_session_output(s, id) : NULL;
    tn_session_unref(s);
    return o;
}

/* --- what is there now --------------------------------------------------------------------- */

static void set_number(struct tn_http_exchange *x, const char *name, uint64_t value)
{
    char text[32];

    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    tn_http_set_header(x, name, text);
}

static void send_bytes(struct tn_http_exchange *x, struct tn_output *o, uint64_t offset)
{
    struct tn_output_state state = tn_output_state(o);
    tn_autofree char *piece = tn_malloc(PIECE);

    set_number(x, "X-Output-First", state.first);
    set_number(x, "X-Output-Size", state.size);
    tn_http_set_header(x, "X-Output-Finished", state.finished ? "true" : "false");
    if (offset < state.first) {
        tn_http_reply_detail(x, 410, "output before X-Output-First is discarded");
        return;
    }
    uint64_t end = state.size > offset ? state.size : offset;
    if (tn_http_start(x, 200, "application/octet-stream", (int64_t)(end - offset)) < 0)
        return;
    while (offset < end) {
        size_t want = end - offset < PIECE ? (size_t)(end - offset) : PIECE;
        ssize_t n = tn_output_read(o, offset, piece, want, NULL);
        if (n <= 0 || tn_http_write(x, piece, (size_t)n) < 0) {
            tn_http_abort(x);
            return;
        }
        offset += (uint64_t)n;
    }
    tn_http_end(x);
}

/* --- and what comes ------------------------------------------------------------------------ */

/* Its id is the offset to resume from. */
static int send_event(struct tn_http_exchange *x, const char *event, uint64_t offset,
                      const char *bytes, size_t n)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(PIECE * 2), data = TN_BUF_INIT(PIECE * 2);
    struct tn_jw w = tn_jw(&json);
    char id[32];

    snprintf(id, sizeof id, "%llu", (unsigned long long)(offset + n));
    tn_jw_object(&w);
    tn_jw_kint(&w, "offset", (int64_t)offset);
    if (n) {
        tn_base64_encode(&data, bytes, n);
        tn_jw_kstr(&w, "data", tn_buf_str(&data));
    }
    tn_jw_object_end(&w);
    return tn_sse_send(x, event, id, tn_buf_str(&json), json.len);
}

/* What can be read at *offset now.  -1 when the stream is over. */
static int follow_once(struct tn_http_exchange *x, struct tn_output *o, uint64_t *offset,
                       char *piece)
{
    struct tn_output_state state = tn_output_state(o);

    if (*offset < state.first) {
        *offset = state.first;
        return send_event(x, "gap", *offset, NULL, 0);
    }
    if (*offset >= state.size) {
        if (state.finished) {
            send_event(x, "end", *offset, NULL, 0);
            tn_http_end(x);
            return -1;
        }
        return tn_output_wait(o, *offset, tn_deadline_in(TN_BEAT_SECONDS)) ? 0 : tn_sse_beat(x);
    }
    struct tn_error err = {0};
    ssize_t n = tn_output_read(o, *offset, piece, PIECE, &err);
    if (n < 0 && err.code == TN_E_GONE)
        return 0; /* just now: the next look sees the gap */
    if (n <= 0) { /* somebody cut the file */
        tn_http_abort(x);
        return -1;
    }
    int r = send_event(x, "output", *offset, piece, (size_t)n);
    *offset += (uint64_t)n;
    return r;
}

static void follow(struct tn_http_exchange *x, struct tn_output *o, uint64_t offset)
{
    tn_autofree char *piece = tn_malloc(PIECE);

    if (tn_sse_start(x) < 0)
        return;
    while (follow_once(x, o, &offset, piece) == 0)
        ;
}

static void get_output(struct tn_http_exchange *x, void *ctx)
{
    const char *last = tn_http_header(x, "Last-Event-ID");
    int64_t offset = tn_v1_query_number(x, "offset", 0);
    int following = offset < 0 ? -1 : tn_v1_query_flag(x, "follow");

    if (following < 0)
        return;
    /* A browser that reconnects asks for the same URL again: what it has got counts. */
    if (following && last && !tn_v1_number(last, 10, INT64_MAX, &offset)) {
        tn_http_reply_detail(x, 422, "Last-Event-ID must be the id of an event of this stream");
        return;
    }
    struct tn_output *o = find_output(ctx, tn_http_param(x, "id"));
    if (!o)
        tn_http_reply_detail(x, 404, "no such command, or its output is no longer kept");
    else if (following)
        follow(x, o, (uint64_t)offset);
    else
        send_bytes(x, o, (uint64_t)offset);
    tn_output_unref(o);
}

const struct tn_route tn_routes_output[] = {
    {"GET", "/v1/sessions/{name}/commands", list_commands, "the latest commands of a session", 0},
    {"GET", "/v1/commands/{id}/output", get_output,
     "bytes from ?offset=, or with ?follow=1 as events", 0},
    {0},
};
