/* One connection of HTTP/2: carries between nghttp2, which has the frames, and the connections of
 * HTTP/1.1 that its streams have become. */
#include "net/http2.h"

#include <poll.h>
#include <sys/socket.h>

#include "net/http-internal.h"
#include "net/http2-stream.h"

enum {
    STREAMS_MAX = 256, /* at once, of a connection; each counts as a connection of the server */
    RESETS_MAX = STREAMS_MAX + 100, /* that a client may take back at once, and more a second: */
    RESETS_RATE = 20,
    LINGER_SECONDS = 3,
    POLLED_MAX = 2 * STREAMS_MAX, /* some may be ending */
};

struct http2 {
    struct http_conn *conn;
    const struct http2_lib *lib;
    nghttp2_session *session;
    struct http2_stream *streams;
    int begun; /* streams that the server has */
    bool deaf; /* nothing more is read from the client */
    bool leaving;
    const uint8_t *out; /* of nghttp2's, not sent yet */
    size_t out_len;
    int64_t moved;  /* when the client last took something, or had nothing to take */
    int64_t active; /* when there was last something to do */
    double resets;  /* that were not forgotten yet */
    int64_t reset_at;
};

/* --- what nghttp2 tells -------------------------------------------------------------------- */

static struct http2_stream *stream_of(const struct http2 *h, int32_t id)
{
    return h->lib->nghttp2_session_get_stream_user_data(h->session, id);
}

static bool is_request(const nghttp2_frame *frame)
{
    return frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST;
}

static int begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *ctx)
{
    struct http2 *h = ctx;
    const struct http_settings *settings = http_settings_of(h->conn->server);

    if (!is_request(frame))
        return 0;
    struct http2_stream *s =
        http2_stream_new(&h->streams, h->lib, session, frame->hd.stream_id,
                         settings->options.max_header_bytes + settings->options.max_target_bytes);
    if (!s)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    h->lib->nghttp2_session_set_stream_user_data(session, s->id, s);
    return 0;
}

static int take_field(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                      size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                      void *ctx)
{
    struct http2_stream *s = stream_of(ctx, frame->hd.stream_id);

    if (s && is_request(frame))
        http2_stream_field(s, (const char *)name, name_len, (const char *)value, value_len);
    return 0;
}

/* The server gets a connection for it. */
static int begin_stream(struct http2 *h, struct http2_stream *s)
{
    int pair[2], status = http2_stream_head(s);

    if (status)
        return http2_stream_refuse(s, status);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return http2_stream_refuse(s, 503);
    if (http_adopt_stream(h->conn, pair[1]) < 0) {
        close(pair[0]);
        return http2_stream_refuse(s, 503);
    }
    s->fd = pair[0];
    h->begun++;
    http_conn_enter(h->conn, HTTP_FLOWING);
    return 0;
}

static int frame_came(nghttp2_session *session, const nghttp2_frame *frame, void *ctx)
{
    struct http2 *h = ctx;
    struct http2_stream *s = stream_of(h, frame->hd.stream_id);

    if (!s || (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA))
        return 0;
    s->ended |= (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    if (is_request(frame) && begin_stream(h, s) != 0)
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    http2_stream_send(s);
    return 0;
}

static int data_came(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes,
                     size_t n, void *ctx)
{
    struct http2 *h = ctx;
    struct http2_stream *s = stream_of(h, id);

    if (!s || s->fd < 0)
        h->lib->nghttp2_session_consume(session, id, n);
    else if (http2_stream_body(s, bytes, n) < 0)
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    return 0;
}

/* A client that takes back what it asks for, again and again, costs more than one that waits. */
static bool resets_too_much(struct http2 *h)
{
    int64_t now = tn_now();
    double forgotten = (double)(now - h->reset_at) * RESETS_RATE / TN_SECOND;

    h->resets = h->resets > forgotten ? h->resets - forgotten + 1 : 1;
    h->reset_at = now;
    return h->resets > RESETS_MAX;
}

/* Who has its answer need not send the rest of the request.  It is told so after a while: there are
 * clients that lose the answer when they are told before they have read it. */
static int frame_went(nghttp2_session *session, const nghttp2_frame *frame, void *ctx)
{
    struct http2 *h = ctx;
    struct http2_stream *s = stream_of(h, frame->hd.stream_id);

    if (!s || !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM) ||
        (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA))
        return 0;
    s->finished = true;
    if (!s->ended) {
        http2_stream_discard(s);
        s->linger = tn_now() + LINGER_SECONDS * TN_SECOND;
    }
    return 0;
}

static int stream_closed(nghttp2_session *session, int32_t id, uint32_t code, void *ctx)
{
    struct http2 *h = ctx;
    struct http2_stream *s = stream_of(h, id);

    if (!s)
        return 0;
    h->lib->nghttp2_session_consume_connection(session, s->body.len);
    h->begun -= s->fd >= 0;
    bool taken_back = !s->finished;
    http2_stream_free(s);
    if (h->begun == 0)
        http_conn_enter(h->conn, HTTP_WAITING);
    if (taken_back && resets_too_much(h))
        h->lib->nghttp2_session_terminate_session(session, NGHTTP2_ENHANCE_YOUR_CALM);
    return 0;
}

static int open_session(struct http2 *h)
{
    static const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, STREAMS_MAX},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, HTTP2_STREAM_WINDOW},
    };
    const struct http2_lib *lib = h->lib;
    nghttp2_session_callbacks *callbacks = NULL;
    nghttp2_option *option = NULL;

    int why = lib->nghttp2_session_callbacks_new(&callbacks);
    if (why == 0)
        why = lib->nghttp2_option_new(&option);
    if (why == 0) {
        lib->nghttp2_option_set_no_auto_window_update(option, 1);
        lib->nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, begin_headers);
        lib->nghttp2_session_callbacks_set_on_header_callback(callbacks, take_field);
        lib->nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, frame_came);
        lib->nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, frame_went);
        lib->nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, data_came);
        lib->nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, stream_closed);
        why = lib->nghttp2_session_server_new2(&h->session, callbacks, h, option);
    }
    lib->nghttp2_option_del(option);
    lib->nghttp2_session_callbacks_del(callbacks);
    if (why == 0)
        why = lib->nghttp2_submit_settings(h->session, NGHTTP2_FLAG_NONE, settings,
                                           TN_COUNT(settings));
    if (why == 0)
        why = lib->nghttp2_session_set_local_window_size(h->session, NGHTTP2_FLAG_NONE, 0,
                                                         HTTP2_WINDOW);
    return why;
}

/* --- the loop ------------------------------------------------------------------------------ */

/* -1: the client is gone. */
static int send_client(struct http2 *h)
{
    for (;;) {
        if (h->out_len == 0) {
            ssize_t n = h->lib->nghttp2_session_mem_send(h->session, &h->out);
            if (n <= 0)
                return (int)n;
            h->out_len = (size_t)n;
        }
        ssize_t sent = send(h->conn->fd, h->out, h->out_len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0)
            return errno == EAGAIN || errno == EINTR ? 0 : -1;
        h->out += sent;
        h->out_len -= (size_t)sent;
        h->moved = tn_now();
    }
}

/* No stream begins any more; those that are there go on. */
static void leave(struct http2 *h)
{
    if (!h->leaving)
        h->lib->nghttp2_submit_goaway(h->session, NGHTTP2_FLAG_NONE,
                                      h->lib->nghttp2_session_get_last_proc_stream_id(h->session),
                                      NGHTTP2_NO_ERROR, NULL, 0);
    h->leaving = true;
}

/* -1: the connection is over. */
static int give(struct http2 *h, const char *bytes, size_t n)
{
    h->active = tn_now();
    return h->lib->nghttp2_session_mem_recv(h->session, (const uint8_t *)bytes, n) < 0 ? -1 : 0;
}

static int receive_client(struct http2 *h)
{
    char bytes[HTTP2_PIECE];
    ssize_t got = recv(h->conn->fd, bytes, sizeof bytes, MSG_DONTWAIT);

    if (got > 0)
        return give(h, bytes, (size_t)got);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    /* A server that stops has shut it, and answers what it was asked. */
    h->deaf = true;
    leave(h);
    return http_stopping(h->conn->server) ? 0 : -1;
}

static void serve_streams(struct http2 *h, const struct pollfd *fds)
{
    struct http2_stream *s = h->streams;

    for (size_t i = 0; s && i < POLLED_MAX; i++, s = s->next) {
        if (!fds[i].revents)
            continue;
        if (fds[i].revents & POLLOUT)
            http2_stream_send(s);
        if (fds[i].revents & (POLLIN | POLLHUP | POLLERR) && http2_stream_receive(s) < 0)
            h->lib->nghttp2_submit_rst_stream(h->session, NGHTTP2_FLAG_NONE, s->id,
                                              NGHTTP2_INTERNAL_ERROR);
    }
}

/* When the loop has waited long enough, whoever is to blame. */
static int64_t patience(const struct http2 *h)
{
    const struct http_settings *s = http_settings_of(h->conn->server);
    const struct tn_http_options *o = &s->options;

    if (h->out_len)
        return h->moved + s->write_wait;
    if (h->begun)
        return TN_NEVER; /* the server's deadlines are in force */
    return h->active +
           (int64_t)((http_conn_is_strange(h->conn) ? o->header_seconds : o->idle_seconds) * 1e9);
}

/* Ends the streams that have had their time: true when there were some.  *next is when the next
 * has. */
static bool end_lingering(struct http2 *h, int64_t *next)
{
    int64_t now = tn_now();
    bool some = false;

    *next = TN_NEVER;
    for (struct http2_stream *s = h->streams; s; s = s->next) {
        if (s->linger && now >= s->linger) {
            h->lib->nghttp2_submit_rst_stream(h->session, NGHTTP2_FLAG_NONE, s->id,
                                              NGHTTP2_NO_ERROR);
            s->linger = 0;
            some = true;
        } else if (s->linger && s->linger < *next) {
            *next = s->linger;
        }
    }
    return some;
}

/* One turn of the loop; -1 when the connection is over. */
static int turn(struct http2 *h)
{
    struct pollfd fds[1 + POLLED_MAX];
    nfds_t count = 1;

    if (h->out_len == 0)
        h->moved = tn_now();
    if (send_client(h) < 0)
        return -1;
    int64_t lingering;
    if (end_lingering(h, &lingering))
        return 0;
    if (h->out_len == 0 && !h->lib->nghttp2_session_want_read(h->session) &&
        !h->lib->nghttp2_session_want_write(h->session))
        return -1;
    fds[0] = (struct pollfd){h->deaf ? -1 : h->conn->fd,
                             (short)(h->out_len ? POLLIN | POLLOUT : POLLIN), 0};
    if (h->deaf && h->out_len)
        fds[0] = (struct pollfd){h->conn->fd, POLLOUT, 0};
    for (const struct http2_stream *s = h->streams; s && count <= POLLED_MAX; s = s->next) {
        short events = s->fd < 0 ? 0 : http2_stream_events(s);
        fds[count++] = (struct pollfd){events ? s->fd : -1, events, 0};
    }
    int64_t until = patience(h);
    int ready = poll(fds, count, tn_poll_ms(lingering < until ? lingering : until));
    if (ready < 0)
        return errno == EINTR ? 0 : -1;
    if (ready == 0 && tn_now() < until)
        return 0;
    if (ready == 0 && (h->out_len || h->leaving))
        return -1;
    if (ready == 0 || (h->begun == 0 && http_conn_is_old_stranger(h->conn)))
        leave(h);
    serve_streams(h, fds + 1); /* first: the client may end some of them */
    return fds[0].revents ? receive_client(h) : 0;
}

bool tn_http2_serve(struct http_conn *c)
{
    struct http2 h = {.conn = c, .lib = http2_lib(NULL), .active = tn_now()};

    if (!h.lib)
        return false;
    http_conn_enter(c, HTTP_WAITING);
    if (open_session(&h) == 0 && give(&h, c->in, c->in_end) == 0)
        while (turn(&h) == 0)
            ;
    if (h.session)
        send_client(&h); /* why it ends */
    while (h.streams)
        http2_stream_free(h.streams);
    h.lib->nghttp2_session_del(h.session);
    http_conn_leave_streams(c);
    return true;
}
