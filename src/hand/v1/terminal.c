/* /v1/sessions/{name}/terminal: a person's terminal over WebSocket.
 *
 * Binary messages are terminal bytes in both directions.  Text messages are JSON: from us
 * {"type":"hello", "offset":N} first and after a gap, {"type":"error","detail":...}, and
 * {"type":"end","exit_code":N} last; from the client {"type":"resize","columns":C,"rows":R}.  A
 * client counts the bytes it got and comes back with ?offset= to miss nothing.
 *
 * Two threads: one shows, the connection's own listens.  Both write to the socket (the listener
 * answers pings), so both lock around it, but neither waits for the client with the lock held: a
 * client that reads slowly can still interrupt what floods it. */
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "hand/routes.h"
#include "hand/shell/vt-queries.h"
#include "hand/v1/v1.h"
#include "net/websocket.h"

enum {
    PIECE = 8 << 10,
    TYPE_PIECE = 512, /* the session is not held longer than one of these takes */
    MESSAGE_MAX = 1 << 20,
    SIDE_MAX = 4096,
};
#define SEND_SECONDS 30.0
#define GONE_SECONDS (4 * TN_BEAT_SECONDS) /* not even a pong for so long */
enum { CLOSE_NORMAL = 1000, CLOSE_FAILED = 1011 };

struct terminal {
    struct tn_session *session;
    struct tn_ws ws;
    pthread_mutex_t sending;
    uint64_t offset; /* of the next byte to show */
    uint64_t past;   /* before this one it is shown what was, and must not answer */
    int over;        /* eventfd: nothing more will be shown */
    bool left;       /* atomic: the client has gone */
};

/* --- from the session to the client -------------------------------------------------------- */

static int say(struct terminal *t, enum tn_ws_kind kind, const void *bytes, size_t n)
{
    struct pollfd room = {.fd = t->ws.fd, .events = POLLOUT};

    if (poll(&room, 1, tn_poll_ms(tn_deadline_in(SEND_SECONDS))) <= 0)
        return -1;
    pthread_mutex_lock(&t->sending);
    int r = tn_ws_send(&t->ws, kind, bytes, n, tn_deadline_in(SEND_SECONDS));
    pthread_mutex_unlock(&t->sending);
    return r;
}

static int say_hello(struct terminal *t)
{
    char text[96];
    int n = snprintf(text, sizeof text, "{\"type\":\"hello\",\"offset\":%llu}",
                     (unsigned long long)t->offset);
    return say(t, TN_WS_TEXT, text, (size_t)n);
}

/* What the terminal wrote by the deadline, after a hello when something before it is lost. */
static ssize_t show_some(struct terminal *t, char *piece, uint64_t wakes, int64_t deadline)
{
    uint64_t next = t->offset;
    size_t n = tn_session_tape(t->session, &next, piece, PIECE, wakes, deadline);
    bool gap = next - n != t->offset;

    t->offset = next - n;
    if (t->offset < t->past) {
        size_t old = t->past - t->offset < n ? (size_t)(t->past - t->offset) : n;
        size_t settled = vt_mute_queries(piece, old, t->offset + old == t->past);
        n = settled < old ? settled : n;
        next = t->offset + n;
    }
    if ((gap && say_hello(t) < 0) || (n && say(t, TN_WS_BINARY, piece, n) < 0))
        return -1;
    t->offset = next;
    return (ssize_t)n;
}

/* True once there was a shell and is none. */
static bool shell_ended(struct terminal *t, bool *seen, int *exit_code)
{
    struct tn_session_state state;

    tn_session_inspect(t->session, &state);
    *seen |= state.pid != 0;
    *exit_code = state.exit_code;
    return *seen && state.pid == 0;
}

static void say_end(struct terminal *t, int exit_code)
{
    char text[64];
    int n = snprintf(text, sizeof text, "{\"type\":\"end\",\"exit_code\":%d}", exit_code);

    if (say(t, TN_WS_TEXT, text, (size_t)n) < 0)
        return;
    pthread_mutex_lock(&t->sending);
    tn_ws_close(&t->ws, CLOSE_NORMAL, "the shell has ended");
    pthread_mutex_unlock(&t->sending);
}

static void show_all(struct terminal *t)
{
    tn_autofree char *piece = tn_malloc(PIECE);
    int64_t beat = tn_deadline_in(TN_BEAT_SECONDS);
    bool seen = false;
    int exit_code;

    /* to where the tape has something */
    tn_session_tape(t->session, &t->offset, piece, 0, 0, tn_now());
    if (say_hello(t) < 0)
        return;
    for (;;) {
        uint64_t wakes = tn_session_wakes(t->session);
        if (__atomic_load_n(&t->left, __ATOMIC_ACQUIRE))
            return;
        bool ended = shell_ended(t, &seen, &exit_code);
        ssize_t n = show_some(t, piece, wakes, ended ? tn_now() : beat);
        if (n < 0)
            return;
        if (n == 0 && ended) {
            say_end(t, exit_code);
            return;
        }
        if (tn_now() >= beat) {
            if (say(t, TN_WS_PING, "", 0) < 0)
                return;
            beat = tn_deadline_in(TN_BEAT_SECONDS);
        }
    }
}

static void *show(void *arg)
{
    struct terminal *t = arg;

    show_all(t);
    eventfd_write(t->over, 1);
    return NULL;
}

/* --- from the client to the session -------------------------------------------------------- */

static void complain(struct terminal *t, const char *why)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(4096);
    struct tn_jw w = tn_jw(&json);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "type", "error");
    tn_jw_kstr(&w, "detail", why);
    tn_jw_object_end(&w);
    say(t, TN_WS_TEXT, tn_buf_str(&json), json.len);
}

static void type(struct terminal *t, const struct tn_buf *keys)
{
    struct tn_error err;

    for (size_t at = 0; at < keys->len; at += TYPE_PIECE) {
        size_t n = keys->len - at < TYPE_PIECE ? keys->len - at : TYPE_PIECE;
        if (tn_session_type(t->session, keys->data + at, n, &err) < 0) {
            complain(t, err.text);
            return;
        }
    }
}

static void obey(struct terminal *t, const struct tn_buf *text)
{
    tn_autojson struct tn_json *message = NULL;

    if (tn_json_parse(tn_buf_str(text), text->len, &message, NULL) < 0 ||
        strcmp(tn_json_get_str(message, "type", ""), "resize") != 0) {
        complain(t, "a text message must be {\"type\":\"resize\",\"columns\":C,\"rows\":R}");
        return;
    }
    int64_t columns = tn_json_int(tn_json_get(message, "columns"), 0);
    int64_t rows = tn_json_int(tn_json_get(message, "rows"), 0);
    if (columns > 0 && columns <= SIDE_MAX && rows > 0 && rows <= SIDE_MAX)
        tn_session_resize(t->session, (int)columns, (int)rows);
    else
        complain(t, "columns and rows must be numbers from 1 to 4096");
}

/* The next message, or 0 when it is not all there yet. */
static int hear(struct terminal *t, struct tn_buf *message)
{
    pthread_mutex_lock(&t->sending);
    int kind = tn_ws_recv(&t->ws, message, tn_now(), NULL);
    pthread_mutex_unlock(&t->sending);
    return kind;
}

/* Until the client is gone or nothing more can be shown to it. */
static void listen_to_client(struct terminal *t)
{
    tn_autobuf struct tn_buf message = TN_BUF_INIT(MESSAGE_MAX);

    for (;;) {
        struct pollfd fds[] = {{.fd = t->ws.fd, .events = POLLIN},
                               {.fd = t->over, .events = POLLIN}};
        if (!tn_ws_buffered(&t->ws) && poll(fds, 2, tn_poll_ms(tn_deadline_in(GONE_SECONDS))) <= 0)
            return;
        if (fds[1].revents)
            return;
        tn_buf_reset(&message);
        int kind = hear(t, &message);
        if (kind < 0 || kind == TN_WS_CLOSE)
            return;
        if (kind == TN_WS_BINARY)
            type(t, &message);
        else if (kind == TN_WS_TEXT)
            obey(t, &message);
    }
}

/* --- the connection ------------------------------------------------------------------------ */

static void serve(struct terminal *t)
{
    pthread_t shower;
    struct tn_error err;

    if (tn_session_attach(t->session, &t->offset, &t->past, &err) < 0) {
        tn_ws_close(&t->ws, CLOSE_FAILED, err.text);
        return;
    }
    if (tn_thread_start(&shower, show, t) == 0) {
        listen_to_client(t);
        __atomic_store_n(&t->left, true, __ATOMIC_RELEASE);
        tn_session_wake(t->session);
        pthread_join(shower, NULL);
        tn_ws_close(&t->ws, CLOSE_NORMAL, NULL);
    } else {
        tn_ws_close(&t->ws, CLOSE_FAILED, "no thread for the terminal");
    }
    tn_session_detach(t->session);
}

static void get_terminal(struct tn_http_exchange *x, void *ctx)
{
    struct terminal t = {.sending = PTHREAD_MUTEX_INITIALIZER};
    int64_t offset = tn_v1_query_number(x, "offset", 0);

    if (offset < 0)
        return;
    t.offset = (uint64_t)offset;
    t.session = tn_v1_session(x, ctx);
    if (!t.session)
        return;
    t.over = eventfd(0, EFD_CLOEXEC);
    if (t.over < 0) {
        tn_http_reply_detail(x, 503, tn_strerror(errno));
    } else if (tn_ws_accept(x, &t.ws, MESSAGE_MAX) == 0) {
        serve(&t);
        tn_ws_done(&t.ws);
    }
    tn_close(t.over);
    tn_session_unref(t.session);
}

const struct tn_route tn_routes_terminal[] = {
    {"GET", "/v1/sessions/{name}/terminal", get_terminal, "WebSocket: the session's terminal", 0},
    {0},
};
