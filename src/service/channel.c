#include "service/channel.h"

#include <sys/epoll.h>

#include "base/clock.h"
#include "service/caller.h"

enum { MESSAGE_MAX = 1 << 20, MARK = 3 };
#define SEND_SECONDS 30.0
#define INPUT_SECONDS 60.0
#define BEAT_SECONDS 15.0
#define SILENCE_BEATS 4 /* a client that has not even answered a ping is gone */

int channel_say(struct channel *ch, enum tn_ws_kind kind, const void *bytes, size_t n)
{
    return tn_ws_send(&ch->ws, kind, bytes, n, tn_deadline_in(SEND_SECONDS)) ? 1 : 0;
}

/* Three bytes say of which log the others are. */
static int send_marked(struct channel *ch, char mark, const void *bytes, size_t n)
{
    tn_autobuf struct tn_buf frame = TN_BUF_INIT(MESSAGE_MAX);

    for (int i = 0; i < MARK; i++)
        tn_buf_putc(&frame, mark);
    tn_buf_add(&frame, bytes, n);
    return channel_say(ch, TN_WS_BINARY, tn_buf_str(&frame), frame.len);
}

static int pass_on(const struct tn_process_piece *piece, void *ctx)
{
    struct channel *ch = ctx;

    switch (piece->kind) {
    case TN_PROCESS_OUT:
        return ch->terminal ? channel_say(ch, TN_WS_BINARY, piece->bytes, piece->n)
                            : send_marked(ch, 1, piece->bytes, piece->n);
    case TN_PROCESS_ERR:
        return send_marked(ch, 2, piece->bytes, piece->n);
    case TN_PROCESS_LOST: /* there is no word for it: what comes next follows */
        return 0;
    case TN_PROCESS_BEAT:
        return ch->quiet++ >= SILENCE_BEATS || channel_say(ch, TN_WS_PING, NULL, 0);
    case TN_PROCESS_END:
        ch->over = true;
        ch->exit_code = piece->status->exit_code.set ? piece->status->exit_code.value
                                                     : 128 + piece->status->signal.value;
        return 0;
    }
    return 0;
}

/* What the client has said: typed on a terminal, else read away.  Non-zero: it is over. */
static int hear(struct channel *ch, const char *which)
{
    tn_autobuf struct tn_buf message = ANSWER_BUF(ch->x, MESSAGE_MAX);
    struct tn_error err = {0};

    do {
        int kind = tn_ws_recv(&ch->ws, &message, tn_now(), NULL);
        if (kind < 0 || kind == TN_WS_CLOSE)
            return 1;
        ch->quiet = kind > 0 ? 0 : ch->quiet;
        if (ch->terminal && (kind == TN_WS_BINARY || kind == TN_WS_TEXT) &&
            process_input(ch->box, which, UINT64_MAX, tn_buf_str(&message), message.len, NULL,
                          tn_deadline_in(INPUT_SECONDS), &err) &&
            err.code != TN_E_GONE)
            return 1;
        tn_buf_reset(&message);
    } while (tn_ws_buffered(&ch->ws));
    return 0;
}

/* A wait ends when a socket is closed; this is readable when its client says something, too. */
static int new_ear(int fd)
{
    struct epoll_event word = {.events = EPOLLIN | EPOLLRDHUP};
    tn_autofd int ear = epoll_create1(EPOLL_CLOEXEC);

    return ear < 0 || epoll_ctl(ear, EPOLL_CTL_ADD, fd, &word) < 0 ? -1 : TN_TAKE_FD(ear);
}

void channel_converse(struct channel *ch, const char *which)
{
    struct tn_process_follow f = {.beat = BEAT_SECONDS};
    tn_autofd int ear = new_ear(ch->ws.fd);
    struct tn_error err = {0};
    int r;

    if (ear < 0)
        return;
    do {
        if (tn_ws_buffered(&ch->ws) && hear(ch, which))
            return;
        err = (struct tn_error){0};
        r = process_follow(ch->box, which, &f, pass_on, ch, ear, TN_NEVER, &err);
    } while (r < 0 && !ch->over && err.code == TN_E_TIMEOUT && !tn_http_peer_gone(ch->x) &&
             hear(ch, which) == 0);
}

int channel_open(struct channel *ch)
{
    return tn_ws_accept(ch->x, &ch->ws, MESSAGE_MAX);
}

void channel_close(struct channel *ch, int code, const char *reason)
{
    tn_ws_close(&ch->ws, code, reason);
    tn_ws_done(&ch->ws);
}
