/* A program in a container, over a WebSocket: each message begins with its channel. */
#include <poll.h>

#include "kube/kube-impl.h"
#include "net/url.h"
#include "net/websocket.h"

enum { CHANNEL_IN, CHANNEL_OUT, CHANNEL_COMPLAINTS, CHANNEL_STATUS, CHANNEL_CLOSE = 255 };
enum { PIECE = 32 << 10, MESSAGE_MAX = 1 << 20, TARGET_MAX = 256 << 10 };
#define HELD_SECONDS 60.0
#define WITH_CLOSE "v5.channel.k8s.io" /* since 1.30: standard input can be ended */

/* --- what comes ------------------------------------------------------------------------------- */

/* A Status: whether it ended, and how; else why it did not begin. */
static int read_status(const char *text, size_t n, int *status, struct tn_error *err)
{
    tn_autojson struct tn_json *object = NULL;

    if (tn_json_parse(text, n, &object, NULL) < 0)
        return tn_fail(err, TN_E_PEER, "exec: its end makes no sense");
    if (strcmp(tn_json_get_str(object, "status", ""), "Success") == 0) {
        *status = 0;
        return 1;
    }
    const struct tn_json *causes = tn_json_get(tn_json_get(object, "details"), "causes");
    for (size_t i = 0; i < tn_json_count(causes); i++) {
        const struct tn_json *cause = tn_json_at(causes, i);
        const char *code = tn_json_get_str(cause, "message", "");
        if (strcmp(tn_json_get_str(cause, "reason", ""), "ExitCode") == 0 && *code &&
            strlen(code) < 6 && strspn(code, "0123456789") == strlen(code)) {
            *status = (int)strtol(code, NULL, 10);
            return 1;
        }
    }
    kube_refused((int)tn_json_int(tn_json_get(object, "code"), 500), object, NULL, err);
    return tn_error_context(err, "exec");
}

int kube_exec_message(const struct kube_exec *e, const char *bytes, size_t n, int *status,
                      struct tn_error *err)
{
    if (n < 2)
        return 0; /* each channel says so once that it is there */
    switch ((unsigned char)bytes[0]) {
    case CHANNEL_OUT:
    case CHANNEL_COMPLAINTS:
        if (e->out && e->out(bytes + 1, n - 1, e->ctx))
            return tn_fail(err, TN_E_TOO_LARGE, "exec: nobody wants more of its output");
        return 0;
    case CHANNEL_STATUS:
        return read_status(bytes + 1, n - 1, status, err);
    default:
        return 0;
    }
}

/* The next message, by the deadline: 0 also when there was none. */
static int take(struct tn_ws *ws, const struct kube_exec *e, int *status, int64_t deadline,
                struct tn_error *err)
{
    tn_autobuf struct tn_buf message = TN_BUF_INIT(MESSAGE_MAX);
    int kind = tn_ws_recv(ws, &message, deadline, err);

    if (kind < 0)
        return tn_error_context(err, "exec");
    if (kind == TN_WS_CLOSE)
        return tn_fail(err, TN_E_PEER, "exec: the connection ended before the program");
    if (kind != TN_WS_BINARY && kind != TN_WS_TEXT)
        return 0;
    return kube_exec_message(e, tn_buf_str(&message), message.len, status, err);
}

/* --- what goes -------------------------------------------------------------------------------- */

static int send_piece(struct tn_ws *ws, unsigned char channel, const void *bytes, size_t n,
                      int64_t deadline, struct tn_error *err)
{
    char message[PIECE + 1];

    message[0] = (char)channel;
    memcpy(message + 1, bytes, n);
    if (tn_ws_send(ws, TN_WS_BINARY, message, n + 1, deadline) == 0)
        return 0;
    return tn_fail(err, tn_now() >= deadline ? TN_E_TIMEOUT : TN_E_PEER,
                   "exec: the connection takes no more");
}

/* Until there is something to take. */
static int wait_held(const struct tn_ws *ws, int held, struct tn_error *err)
{
    struct pollfd p[] = {{.fd = ws->fd, .events = POLLIN}, {.fd = held, .events = POLLRDHUP}};

    if (tn_ws_buffered(ws) || poll(p, TN_COUNT(p), tn_poll_ms(tn_deadline_in(HELD_SECONDS))) < 0)
        return 0;
    if (p[1].revents)
        return tn_fail(err, TN_E_GONE, "exec: nobody wants more of it");
    return p[0].revents ? 0 : tn_fail(err, TN_E_TIMEOUT, "exec: nothing has come for a minute");
}

/* Sends the input and takes what comes, until the end. */
static int converse(struct tn_ws *ws, const struct kube_exec *e, int *status, int64_t deadline,
                    struct tn_error *err)
{
    const char *at = e->input;
    int r = 0;

    for (size_t left = at ? e->input_len : 0; left > 0 && r == 0;) {
        size_t n = left < PIECE ? left : PIECE;
        if (send_piece(ws, CHANNEL_IN, at, n, deadline, err) < 0)
            return -1;
        at += n;
        left -= n;
        r = take(ws, e, status, 0, err); /* whoever is full of output takes no input */
    }
    if (r == 0 && at && !e->held && strcmp(ws->protocol, WITH_CLOSE) == 0)
        r = send_piece(ws, CHANNEL_CLOSE, &(char){CHANNEL_IN}, 1, deadline, err);
    while (r == 0) {
        r = e->held ? wait_held(ws, e->held, err) : 0;
        int64_t until = e->held ? tn_deadline_in(HELD_SECONDS) : deadline;
        r = r < 0 ? r : take(ws, e, status, until, err);
        if (r == 0 && tn_now() >= until)
            r = tn_fail(err, TN_E_TIMEOUT, "exec: the program did not end in time");
    }
    return r < 0 ? -1 : 0;
}

/* --- the connection --------------------------------------------------------------------------- */

static void write_target(struct tn_buf *out, const struct kube_exec *e)
{
    tn_buf_puts(out, "/api/v1/namespaces/");
    tn_url_encode(out, e->namespace, "");
    tn_buf_puts(out, "/pods/");
    tn_url_encode(out, e->pod, "");
    tn_buf_printf(out, "/exec?stdout=true&stderr=true%s", e->input ? "&stdin=true" : "");
    if (e->container) {
        tn_buf_puts(out, "&container=");
        tn_url_encode(out, e->container, "");
    }
    for (const char *const *word = e->argv; *word; word++) {
        tn_buf_puts(out, "&command=");
        tn_url_encode(out, *word, "");
    }
}

static bool is_dropped(int held)
{
    struct pollfd p = {.fd = held, .events = POLLRDHUP};

    return held && poll(&p, 1, 0) > 0;
}

static int connect_once(struct kube *k, const char *target, int held, struct tn_ws *ws,
                        int64_t deadline, struct tn_error *err)
{
    struct kube_seat *seat = kube_seat(k, NULL, deadline, err);

    if (!seat)
        return -1;
    char *headers = tn_asprintf("%sSec-WebSocket-Protocol: " WITH_CLOSE ", v4.channel.k8s.io\r\n",
                                seat->headers);
    const char *host = strstr(k->first->server, "://") + 3;
    size_t n = strcspn(host, "/");
    tn_autofree char *called = tn_strndup(host, n), *path = tn_asprintf("%s%s", host + n, target);
    tn_autofd int fd = tn_web_dial(seat->web, deadline, err);
    int r = -1;
    if (fd >= 0 && is_dropped(held)) /* it would begin, and take the place of another's */
        tn_fail(err, TN_E_GONE, "nobody wants it any more");
    else if (fd >= 0)
        r = tn_ws_connect(ws, fd, called, path, headers, MESSAGE_MAX, deadline, err);
    kube_forget(headers);
    kube_seat_give(k, seat);
    return r < 0 ? -1 : TN_TAKE_FD(fd);
}

static int no_sink(const void *bytes, size_t n, void *ctx)
{
    return 1;
}

/* The words of a refusal are in an ordinary answer.  1: credentials were renewed meanwhile, and
 * nothing else was wrong. */
static int ask_why(struct kube *k, const char *target, const struct tn_ws *ws, int64_t deadline,
                   struct tn_error *err)
{
    struct tn_error why = {0};

    if (kube_stream(k, target, no_sink, NULL, 0, deadline, &why) == 0 || why.code == TN_E_INVALID) {
        if (ws->refused == 401)
            return 1;
        if (!strstr(why.text, "pgrade request required") && err && *why.text)
            *err = why;
    } else if (err) {
        *err = why;
    }
    return -1;
}

int kube_exec(struct kube *k, const struct kube_exec *e, int *status, int64_t deadline,
              struct tn_error *err)
{
    tn_autobuf struct tn_buf target = TN_BUF_INIT(TARGET_MAX);
    struct tn_ws ws = {0};

    write_target(&target, e);
    if (!tn_buf_ok(&target))
        return tn_fail(err, TN_E_TOO_LARGE, "exec: the command is too long");
    tn_autofd int fd = connect_once(k, tn_buf_str(&target), e->held, &ws, deadline, err);
    if (fd < 0 && ws.refused && ask_why(k, tn_buf_str(&target), &ws, deadline, err) > 0)
        fd = connect_once(k, tn_buf_str(&target), e->held, &ws, deadline, err);
    if (fd < 0)
        return tn_error_context(err, "exec");
    int r = converse(&ws, e, status, e->held ? TN_NEVER : deadline, err);
    tn_ws_close(&ws, 1000, NULL);
    tn_ws_done(&ws);
    return r;
}
