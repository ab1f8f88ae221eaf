/* /v1/sessions/{name}/terminal: a person's terminal over WebSocket.
 *
 * Binary messages are terminal bytes in both directions.  Text messages are JSON: from us {"type":"hello",
 * "offset":N} first and after a gap, from the client {"type":"resize","columns":C,"rows":R}.  A client counts the
 * bytes it got and comes back with ?offset= to miss nothing. */
#include <poll.h>
#include <pthread.h>

#include "base/clock.h"
#include "base/thread.h"
#include "hand/routes.h"
#include "hand/v1/v1.h"
#include "net/websocket.h"

enum { PIECE = 16 << 10, MESSAGE_MAX = 1 << 20, SIDE_MAX = 4096 };

struct terminal {
    struct tn_session *session;
    struct tn_ws ws;
    pthread_mutex_t sending; /* both threads write to the socket */
    uint64_t offset;
    bool closed; /* atomic */
};

static int say_offset(struct terminal *t, uint64_t offset)
{
    char text[96];
    int n = snprintf(text, sizeof text, "{\"type\":\"hello\",\"offset\":%llu}", (unsigned long long)offset);
    return tn_ws_send(&t->ws, TN_WS_TEXT, text, (size_t)n, tn_deadline_in(TN_BEAT_SECONDS));
}

/* From the session to the client; a quiet terminal sends pings. */
static void *show(void *arg)
{
    struct terminal *t = arg;
    char piece[PIECE];
    uint64_t told = UINT64_MAX;

    while (!__atomic_load_n(&t->closed, __ATOMIC_ACQUIRE)) {
        uint64_t next = t->offset;
        size_t n = tn_session_tape(t->session, &next, piece, sizeof piece, tn_deadline_in(TN_BEAT_SECONDS));
        uint64_t start = next - n;
        pthread_mutex_lock(&t->sending);
        int r = start != told ? say_offset(t, start) : 0;
        if (r == 0)
            r = tn_ws_send(&t->ws, n ? TN_WS_BINARY : TN_WS_PING, piece, n, tn_deadline_in(TN_BEAT_SECONDS));
        pthread_mutex_unlock(&t->sending);
        if (r < 0)
            break;
        t->offset = told = next;
    }
    return NULL;
}

static void obey(struct terminal *t, const struct tn_buf *text)
{
    tn_autojson struct tn_json *message = NULL;

    if (tn_json_parse(tn_buf_str(text), text->len, &message, NULL) < 0 ||
        strcmp(tn_json_get_str(message, "type", ""), "resize") != 0)
        return;
    int64_t columns = tn_json_int(tn_json_get(message, "columns"), 0);
    int64_t rows = tn_json_int(tn_json_get(message, "rows"), 0);
    if (columns > 0 && columns <= SIDE_MAX && rows > 0 && rows <= SIDE_MAX)
        tn_session_resize(t->session, (int)columns, (int)rows);
}

/* From the client to the session, until either is gone. */
static void listen_to_client(struct terminal *t)
{
    tn_autobuf struct tn_buf message = TN_BUF_INIT(MESSAGE_MAX);

    for (;;) {
        struct pollfd fd = {.fd = t->ws.fd, .events = POLLIN};
        if (!tn_ws_buffered(&t->ws) && poll(&fd, 1, tn_poll_ms(tn_deadline_in(4 * TN_BEAT_SECONDS))) <= 0)
            return; /* not even a pong: gone */
        pthread_mutex_lock(&t->sending);
        tn_buf_reset(&message);
        int kind = tn_ws_recv(&t->ws, &message, tn_deadline_in(1), NULL);
        pthread_mutex_unlock(&t->sending);
        if (kind < 0 || kind == TN_WS_CLOSE)
            return;
        if (kind == TN_WS_BINARY)
            tn_session_type(t->session, tn_buf_str(&message), message.len, NULL);
        else if (kind == TN_WS_TEXT)
            obey(t, &message);
    }
}

static void get_terminal(struct tn_http_exchange *x, void *ctx)
{
    struct terminal t = {.sending = PTHREAD_MUTEX_INITIALIZER};
    struct tn_error err;
    pthread_t shower;

    int64_t offset = tn_v1_query_number(x, "offset", 0);
    if (offset < 0)
        return;
    t.offset = (uint64_t)offset;
    t.session = tn_v1_session(x, ctx);
    if (!t.session)
        return;
    if (tn_session_attach(t.session, &err) < 0) {
        tn_http_reply_error(x, &err);
        tn_session_unref(t.session);
        return;
    }
    if (tn_ws_accept(x, &t.ws, MESSAGE_MAX) == 0) {
        if (tn_thread_start(&shower, show, &t) == 0) {
            listen_to_client(&t);
            __atomic_store_n(&t.closed, true, __ATOMIC_RELEASE);
            tn_session_wake(t.session);
            pthread_join(shower, NULL);
        }
        tn_ws_close(&t.ws, 1000, "");
        tn_ws_done(&t.ws);
    }
    tn_session_detach(t.session);
    tn_session_unref(t.session);
}

const struct tn_route tn_routes_terminal[] = {
    {"GET", "/v1/sessions/{name}/terminal", get_terminal, "WebSocket: the session's terminal", 0},
    {0},
};
