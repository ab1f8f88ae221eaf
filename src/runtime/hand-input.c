#include "runtime/hand-input.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/websocket.h"
#include "runtime/hand-address.h"

enum { MESSAGE_MAX = 64 << 10 };
#define BEAT_SECONDS 15.0

struct tn_hand_input {
    char *path;
    int fd, stop; /* stop: eventfd, readable once the command has ended */
    struct tn_ws ws;
    bool open;
};

/* --- the connection ------------------------------------------------------------------------ */

static int take_hello(struct tn_hand_input *in, int64_t deadline, struct tn_error *err)
{
    tn_autobuf struct tn_buf message = TN_BUF_INIT(MESSAGE_MAX);
    tn_autojson struct tn_json *json = NULL;

    if (tn_ws_recv(&in->ws, &message, deadline, err) != TN_WS_TEXT ||
        tn_json_parse(tn_buf_str(&message), message.len, &json, NULL) < 0)
        return tn_fail(err, TN_E_PEER, "the hand did not say where it takes standard input");
    in->path = tn_strdup_or_null(tn_json_get_str(json, "path", NULL));
    return in->path ? 0 : tn_fail(err, TN_E_PEER, "the hand named no path for standard input");
}

static int connect_input(struct tn_hand_input *in, const struct tn_hand_address *at,
                         int64_t deadline, struct tn_error *err)
{
    tn_autobuf struct tn_buf path = TN_BUF_INIT(8192),
                             headers = TN_BUF_INIT(2 * TN_HAND_HEADERS_MAX);
    tn_autohandplace struct tn_hand_place place;

    if (tn_hand_place(at->address, &place, err) < 0)
        return -1;
    tn_buf_printf(&path, "%s/v1/input", place.base);
    tn_buf_puts(&headers, place.headers);
    if (at->key)
        tn_buf_printf(&headers, "X-Session-API-Key: %s\r\n", at->key);
    in->fd = tn_hand_dial(at->address, deadline, err);
    if (in->fd < 0 || tn_ws_connect(&in->ws, in->fd, place.host, tn_buf_str(&path),
                                    tn_buf_str(&headers), MESSAGE_MAX, deadline, err) < 0)
        return -1;
    in->open = true;
    return take_hello(in, deadline, err);
}

struct tn_hand_input *tn_hand_input_open(const struct tn_hand_address *at, int64_t deadline,
                                         struct tn_error *err)
{
    struct tn_hand_input *in = tn_calloc(1, sizeof *in);

    in->fd = -1;
    in->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (in->stop < 0)
        tn_fail_errno(err, errno, "standard input");
    else if (connect_input(in, at, deadline, err) == 0)
        return in;
    tn_error_context(err, "standard input");
    tn_hand_input_close(in);
    return NULL;
}

void tn_hand_input_close(struct tn_hand_input *in)
{
    if (!in)
        return;
    if (in->open)
        tn_ws_done(&in->ws);
    tn_close(in->fd);
    tn_close(in->stop);
    free(in->path);
    free(in);
}

const char *tn_hand_input_path(const struct tn_hand_input *in)
{
    return in->path;
}

/* A message that waits for room, because the command does not read, ends too. */
void tn_hand_input_stop(struct tn_hand_input *in)
{
    eventfd_write(in->stop, 1);
    shutdown(in->fd, SHUT_RDWR);
}

/* --- feeding ------------------------------------------------------------------------------- */

static bool stopped(const struct tn_hand_input *in)
{
    struct pollfd stop = {.fd = in->stop, .events = POLLIN};

    return poll(&stop, 1, 0) > 0;
}

/* The next of what is read; *fd is -1 after its end. */
static int pass_on(struct tn_hand_input *in, int *fd, struct tn_error *err)
{
    static const char end[] = "{\"type\":\"end\"}";
    char bytes[32 << 10];
    ssize_t n = read(*fd, bytes, sizeof bytes);

    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return 0;
    if (n < 0)
        return tn_fail_errno(err, errno, "standard input");
    if (n == 0)
        *fd = -1;
    int sent = n ? tn_ws_send(&in->ws, TN_WS_BINARY, bytes, (size_t)n, TN_NEVER)
                 : tn_ws_send(&in->ws, TN_WS_TEXT, end, sizeof end - 1, TN_NEVER);
    return sent < 0 ? tn_fail(err, TN_E_PEER, "standard input: the hand is gone") : 0;
}

static int hear(struct tn_hand_input *in, struct tn_error *err)
{
    tn_autobuf struct tn_buf message = TN_BUF_INIT(MESSAGE_MAX);
    int kind = tn_ws_recv(&in->ws, &message, tn_now(), NULL);

    return kind < 0 || kind == TN_WS_CLOSE
               ? tn_fail(err, TN_E_PEER, "standard input: the hand closed the connection")
               : 0;
}

static int feed(struct tn_hand_input *in, int fd, struct tn_error *err)
{
    for (;;) {
        struct pollfd fds[] = {{.fd = in->stop, .events = POLLIN},
                               {.fd = in->fd, .events = POLLIN},
                               {.fd = fd, .events = POLLIN}};
        int n = poll(fds, 3, tn_poll_ms(tn_deadline_in(BEAT_SECONDS)));
        if (n < 0 && errno != EINTR)
            return tn_fail_errno(err, errno, "standard input");
        if (n == 0 && tn_ws_send(&in->ws, TN_WS_PING, "", 0, TN_NEVER) < 0)
            return tn_fail(err, TN_E_PEER, "standard input: the hand is gone");
        if (n <= 0)
            continue;
        if (fds[0].revents)
            return 0;
        if ((fds[1].revents && hear(in, err) < 0) || (fds[2].revents && pass_on(in, &fd, err) < 0))
            return -1;
    }
}

int tn_hand_input_feed(struct tn_hand_input *in, int fd, struct tn_error *err)
{
    int status = feed(in, fd, err);

    return status < 0 && stopped(in) ? 0 : status;
}
