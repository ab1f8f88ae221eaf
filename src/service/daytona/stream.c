/* What a process says, over a WebSocket: logs of a command, and terminals, which also listen. */
#include "net/websocket.h"
#include "service/daytona/daytona.h"

enum { MESSAGE_MAX = 1 << 20, MARK = 3 };
#define SEND_SECONDS 30.0
#define BEAT_SECONDS 15.0
#define SILENCE_BEATS 4 /* a client that has not even answered a ping is gone */

struct channel {
    struct daytona_call *c;
    struct tn_ws ws;
    bool terminal, over;
    int quiet; /* beats since it was heard */
    int64_t exit_code;
};

static int say(struct channel *ch, enum tn_ws_kind kind, const void *bytes, size_t n)
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
    return say(ch, TN_WS_BINARY, tn_buf_str(&frame), frame.len);
}

static int pass_on(const struct tn_process_piece *piece, void *ctx)
{
    struct channel *ch = ctx;

    switch (piece->kind) {
    case TN_PROCESS_OUT:
        return ch->terminal ? say(ch, TN_WS_BINARY, piece->bytes, piece->n)
                            : send_marked(ch, 1, piece->bytes, piece->n);
    case TN_PROCESS_ERR:
        return send_marked(ch, 2, piece->bytes, piece->n);
    case TN_PROCESS_LOST: /* there is no word for it: what comes next follows */
        return 0;
    case TN_PROCESS_BEAT:
        return ch->quiet++ >= SILENCE_BEATS || say(ch, TN_WS_PING, NULL, 0);
    case TN_PROCESS_END:
        ch->over = true;
        ch->exit_code = daytona_exit_code(piece->status);
        return 0;
    }
    return 0;
}

/* What the client has said: typed on a terminal, else read away.  Non-zero: it is over. */
static int hear(struct channel *ch, const char *which)
{
    tn_autobuf struct tn_buf message = ANSWER_BUF(ch->c->x, MESSAGE_MAX);
    struct tn_error err = {0};

    do {
        int kind = tn_ws_recv(&ch->ws, &message, tn_now(), NULL);
        if (kind < 0 || kind == TN_WS_CLOSE)
            return 1;
        ch->quiet = kind > 0 ? 0 : ch->quiet;
        if (ch->terminal && (kind == TN_WS_BINARY || kind == TN_WS_TEXT) &&
            process_input(ch->c->b, which, UINT64_MAX, tn_buf_str(&message), message.len, NULL,
                          tn_deadline_in(DAYTONA_SECONDS), &err) &&
            err.code != TN_E_GONE)
            return 1;
        tn_buf_reset(&message);
    } while (tn_ws_buffered(&ch->ws));
    return 0;
}

/* Until it ends or nobody listens; the process goes on without them. */
static void converse(struct channel *ch, const char *which)
{
    struct tn_process_follow f = {.beat = BEAT_SECONDS};
    struct tn_error err = {0};
    int r;

    do {
        if (tn_ws_buffered(&ch->ws) && hear(ch, which))
            return;
        err = (struct tn_error){0};
        r = process_follow(ch->c->b, which, &f, pass_on, ch, ch->ws.fd, TN_NEVER, &err);
    } while (r < 0 && !ch->over && err.code == TN_E_TIMEOUT && !tn_http_peer_gone(ch->c->x) &&
             hear(ch, which) == 0);
}

void daytona_choose_protocol(struct tn_http_exchange *x)
{
    static const char known[] = "X-Daytona-Pty-Exit-Control";
    const char *offered = tn_http_header(x, "Sec-WebSocket-Protocol");
    char first[128];

    if (!offered)
        return;
    snprintf(first, sizeof first, "%.*s", (int)strcspn(offered, ", "), offered);
    tn_http_set_header(x, "Sec-WebSocket-Protocol", strstr(offered, known) ? known : first);
}

static void send_end(struct channel *ch)
{
    char text[128], reason[64];

    snprintf(text, sizeof text, "{\"type\":\"control\",\"status\":\"exited\",\"exitCode\":%lld}",
             (long long)ch->exit_code);
    snprintf(reason, sizeof reason, "{\"exitCode\":%lld}", (long long)ch->exit_code);
    say(ch, TN_WS_TEXT, text, strlen(text));
    tn_ws_close(&ch->ws, ch->exit_code ? 1011 : 1000, reason);
}

void daytona_stream(struct daytona_call *c, const char *which, bool terminal)
{
    static const char connected[] = "{\"type\":\"control\",\"status\":\"connected\"}";
    struct channel ch = {.c = c, .terminal = terminal};

    daytona_choose_protocol(c->x);
    if (tn_ws_accept(c->x, &ch.ws, MESSAGE_MAX))
        return;
    if (!terminal || say(&ch, TN_WS_TEXT, connected, sizeof connected - 1) == 0)
        converse(&ch, which);
    if (ch.over && terminal)
        send_end(&ch);
    else
        tn_ws_close(&ch.ws, ch.over ? 1000 : 1001, "");
    tn_ws_done(&ch.ws);
}
