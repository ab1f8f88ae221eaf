/* /v1/input: standard input for a command, over WebSocket.
 *
 * The first message is ours, {"type":"hello","path":P}: an action whose `stdin` is P reads what the
 * client sends.  Binary messages are its bytes, {"type":"end"} is the end of file.  All of it
 * belongs to the connection: the client keeps that until the command has ended, and whatever reads
 * afterwards finds the end of file.
 *
 * P is a named pipe.  The hand holds both of its ends: while it has the reading one, what was
 * written is not lost before the shell opens it. */
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "hand/routes.h"
#include "hand/v1/v1.h"
#include "net/websocket.h"

enum { MESSAGE_MAX = 1 << 20 };
#define SEND_SECONDS 30.0
#define GONE_SECONDS (4 * TN_BEAT_SECONDS) /* not even a ping for so long */
enum { CLOSE_NORMAL = 1000, CLOSE_FAILED = 1011 };

struct input {
    char *path;
    int in, out; /* both ends; in is -1 after the end of file */
    struct tn_ws ws;
};

/* --- the pipe ------------------------------------------------------------------------------ */

/* In a directory that the user can read but not write: what is opened here is what was made. */
static int make_pipe(struct input *i, const struct tn_hand *hand, struct tn_error *err)
{
    static unsigned long count;
    const struct tn_user *user = &hand->user.account;

    i->path = tn_asprintf("%s/input-%lu", tn_state_outputs(hand->state),
                          __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED));
    if (mkfifo(i->path, 0600) < 0 ||
        (hand->user.switch_user && lchown(i->path, user->uid, user->gid) < 0))
        return tn_fail_errno(err, errno, "%s", i->path);
    i->out = open(i->path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    i->in = open(i->path, O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    return i->out < 0 || i->in < 0 ? tn_fail_errno(err, errno, "%s", i->path) : 0;
}

static void end_pipe(struct input *i)
{
    tn_close(TN_TAKE_FD(i->in));
    tn_close(TN_TAKE_FD(i->out));
    if (i->path)
        unlink(i->path);
    free(i->path);
}

/* --- the client ---------------------------------------------------------------------------- */

/* Waits for room in the pipe; false when the client has gone meanwhile. */
static bool wait_for_room(struct input *i)
{
    for (;;) {
        struct pollfd fds[] = {{.fd = i->in, .events = POLLOUT},
                               {.fd = i->ws.fd, .events = POLLRDHUP}};
        int n = poll(fds, 2, tn_poll_ms(tn_deadline_in(TN_BEAT_SECONDS)));
        if ((n < 0 && errno != EINTR) || fds[1].revents)
            return false;
        if (n > 0)
            return true;
        if (tn_ws_send(&i->ws, TN_WS_PING, "", 0, tn_deadline_in(SEND_SECONDS)) < 0)
            return false;
    }
}

static bool pass_on(struct input *i, const struct tn_buf *bytes)
{
    for (size_t at = 0; at < bytes->len && i->in >= 0;) {
        ssize_t n = write(i->in, bytes->data + at, bytes->len - at);
        if (n > 0)
            at += (size_t)n;
        else if (n < 0 && errno != EAGAIN && errno != EINTR)
            return false;
        else if (!wait_for_room(i))
            return false;
    }
    return true;
}

static bool is_end(const struct tn_buf *text)
{
    tn_autojson struct tn_json *message = NULL;

    return tn_json_parse(tn_buf_str(text), text->len, &message, NULL) == 0 &&
           strcmp(tn_json_get_str(message, "type", ""), "end") == 0;
}

static int say_hello(struct input *i)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(8192);
    struct tn_jw w = tn_jw(&json);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "type", "hello");
    tn_jw_kstr(&w, "path", i->path);
    tn_jw_object_end(&w);
    return tn_ws_send(&i->ws, TN_WS_TEXT, tn_buf_str(&json), json.len,
                      tn_deadline_in(SEND_SECONDS));
}

/* Until the client is gone: also after the end of file, since the shell may have yet to open the
 * pipe. */
static void serve(struct input *i)
{
    tn_autobuf struct tn_buf message = TN_BUF_INIT(MESSAGE_MAX);

    if (say_hello(i) < 0)
        return;
    for (;;) {
        struct pollfd client = {.fd = i->ws.fd, .events = POLLIN};
        if (!tn_ws_buffered(&i->ws) &&
            poll(&client, 1, tn_poll_ms(tn_deadline_in(GONE_SECONDS))) <= 0)
            return;
        tn_buf_reset(&message);
        int kind = tn_ws_recv(&i->ws, &message, tn_now(), NULL);
        if (kind < 0 || kind == TN_WS_CLOSE)
            return;
        if (kind == TN_WS_BINARY && !pass_on(i, &message))
            return;
        if (kind == TN_WS_TEXT && !is_end(&message)) {
            tn_ws_close(&i->ws, CLOSE_FAILED, "a text message must be {\"type\":\"end\"}");
            return;
        }
        if (kind == TN_WS_TEXT)
            tn_close(TN_TAKE_FD(i->in));
    }
}

static void get_input(struct tn_http_exchange *x, void *ctx)
{
    struct input i = {.in = -1, .out = -1};
    struct tn_error err;

    if (make_pipe(&i, ctx, &err) < 0) {
        tn_http_reply_detail(x, 503, err.text);
    } else if (tn_ws_accept(x, &i.ws, MESSAGE_MAX) == 0) {
        serve(&i);
        tn_ws_close(&i.ws, CLOSE_NORMAL, NULL);
        tn_ws_done(&i.ws);
    }
    end_pipe(&i);
}

const struct tn_route tn_routes_input[] = {
    {"GET", "/v1/input", get_input, "WebSocket: standard input for a command", 0},
    {0},
};
