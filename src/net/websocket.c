/* Messages over frames: fragments, control frames between them, closing. */
#include "net/websocket.h"

#include <sys/random.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "net/socket-io.h"
#include "net/websocket-frame.h"

enum {
    READ_BYTES = 4096,
    CONTROL_SECONDS = 2, /* for answers we owe: pongs and closes */
    MASK_BYTES = 16 * 1024,
};

void tn_ws_done(struct tn_ws *ws)
{
    tn_buf_done(&ws->in);
    tn_buf_done(&ws->message);
}

bool tn_ws_buffered(const struct tn_ws *ws)
{
    struct tn_ws_frame f;

    return tn_ws_parse((const unsigned char *)tn_buf_str(&ws->in), ws->in.len, !ws->client,
                       ws->max_message, &f) != 0;
}

/* --- sending ------------------------------------------------------------------------------- */

static int send_masked(struct tn_ws *ws, struct iovec *header, const unsigned char mask[4],
                       const char *bytes, size_t n, const struct net_wait *wait)
{
    tn_autofree char *block = malloc(n < MASK_BYTES ? n + 1 : MASK_BYTES);

    if (!block)
        return -1;
    do {
        size_t part =
            n < MASK_BYTES ? n : MASK_BYTES; /* a multiple of 4, so the mask stays in step */
        if (part)
            memcpy(block, bytes, part);
        ws_mask(block, part, mask);
        struct iovec pieces[] = {*header, {.iov_base = block, .iov_len = part}};
        if (net_send(ws->fd, pieces, 2, wait) < 0)
            return -1;
        header->iov_len = 0;
        bytes += part;
        n -= part;
    } while (n > 0);
    return 0;
}

int tn_ws_send(struct tn_ws *ws, enum tn_ws_kind kind, const void *bytes, size_t n,
               int64_t deadline)
{
    struct net_wait wait = {.each = TN_NEVER, .deadline = deadline};
    unsigned char mask[4], head[WS_HEADER_MAX];

    if (ws->close_sent || (kind >= TN_WS_CLOSE && n > WS_CONTROL_MAX))
        return -1;
    if (ws->client && getrandom(mask, sizeof mask, 0) != sizeof mask)
        return -1;
    struct iovec header = {
        .iov_base = head, .iov_len = ws_frame_header(head, (int)kind, n, ws->client ? mask : NULL)};
    int r;
    if (ws->client) {
        r = send_masked(ws, &header, mask, bytes, n, &wait);
    } else {
        struct iovec pieces[] = {header, {.iov_base = (void *)bytes, .iov_len = n}};
        r = net_send(ws->fd, pieces, 2, &wait);
    }
    /* A frame cut in the middle cannot be followed by another. */
    if (r < 0 || kind == TN_WS_CLOSE)
        ws->close_sent = true;
    return r;
}

int tn_ws_close(struct tn_ws *ws, int code, const char *reason)
{
    char payload[WS_CONTROL_MAX];
    size_t n = reason ? strlen(reason) : 0;

    if (n > sizeof payload - 2)
        n = sizeof payload - 2;
    while (n > 0 && !tn_utf8_valid(reason, n))
        n--; /* cut between characters */
    payload[0] = (char)(code >> 8);
    payload[1] = (char)code;
    if (n)
        memcpy(payload + 2, reason, n);
    return tn_ws_send(ws, TN_WS_CLOSE, payload, code ? n + 2 : 0, tn_deadline_in(CONTROL_SECONDS));
}

/* --- receiving ----------------------------------------------------------------------------- */

static int broken(struct tn_ws *ws, int code, const char *why, struct tn_error *err)
{
    tn_ws_close(ws, code, why);
    return tn_fail(err, code == WS_CODE_TOO_LARGE ? TN_E_TOO_LARGE : TN_E_PEER, "WebSocket: %s",
                   why);
}

/* Makes the next whole frame lie at the front of ws->in: 1, 0 when the deadline passed, -1 with
 * err. */
static int next_frame(struct tn_ws *ws, struct tn_ws_frame *f, int64_t deadline,
                      struct tn_error *err)
{
    struct net_wait wait = {.each = TN_NEVER, .deadline = deadline};

    for (;;) {
        *f = (struct tn_ws_frame){0};
        int r = tn_ws_parse((const unsigned char *)tn_buf_str(&ws->in), ws->in.len, !ws->client,
                            ws->max_message, f);
        if (r == 1)
            return 1;
        if (r == -2)
            return broken(ws, WS_CODE_TOO_LARGE, "message too large", err);
        if (r < 0)
            return broken(ws, WS_CODE_PROTOCOL, "malformed frame", err);
        size_t whole = f->header + f->length;
        size_t want = whole > ws->in.len + READ_BYTES ? whole - ws->in.len : READ_BYTES;
        char *to = tn_buf_reserve(&ws->in, want);
        if (!to)
            return broken(ws, WS_CODE_TOO_LARGE, "out of memory", err);
        ssize_t got = net_recv(ws->fd, to, want, &wait);
        if (got < 0 && errno == ETIMEDOUT)
            return 0;
        if (got < 0)
            return tn_fail_errno(err, errno, "WebSocket");
        if (got == 0)
            return tn_fail(err, TN_E_PEER, "WebSocket: the peer went away without closing");
        tn_buf_grew(&ws->in, (size_t)got);
    }
}

/* The peer's close frame: checked, answered with the same code, handed to the caller. */
static int take_close(struct tn_ws *ws, const char *payload, size_t n, struct tn_buf *out,
                      struct tn_error *err)
{
    int code = n >= 2 ? (unsigned char)payload[0] << 8 | (unsigned char)payload[1] : 0;

    if (n == 1 || (n >= 2 && !ws_close_code_valid(code)))
        return broken(ws, WS_CODE_PROTOCOL, "invalid close code", err);
    if (n > 2 && !tn_utf8_valid(payload + 2, n - 2))
        return broken(ws, WS_CODE_TEXT, "close reason is not UTF-8", err);
    tn_ws_close(ws, code, NULL);
    tn_buf_reset(out);
    tn_buf_add(out, payload, n);
    return TN_WS_CLOSE;
}

/* A control frame: the kind when the caller should see it, 0 when it was dealt with, or -1. */
static int take_control(struct tn_ws *ws, int opcode, const char *payload, size_t n,
                        struct tn_buf *out, struct tn_error *err)
{
    if (opcode == TN_WS_CLOSE)
        return take_close(ws, payload, n, out, err);
    if (opcode == TN_WS_PONG) {
        tn_buf_reset(out);
        tn_buf_add(out, payload, n);
        return TN_WS_PONG;
    }
    if (!ws->close_sent &&
        tn_ws_send(ws, TN_WS_PONG, payload, n, tn_deadline_in(CONTROL_SECONDS)) < 0)
        return tn_fail(err, TN_E_PEER, "WebSocket: the peer takes no answer to its ping");
    return 0;
}

/* A data frame: the kind of a message it completes (now in out), 0 when fragments are missing, -1
 * with err. */
static int take_data(struct tn_ws *ws, const struct tn_ws_frame *f, const char *payload,
                     struct tn_buf *out, struct tn_error *err)
{
    bool continues = f->opcode == WS_CONTINUATION;

    if (continues != (ws->message_kind != 0))
        return broken(ws, WS_CODE_PROTOCOL, "fragment out of place", err);
    if (f->length > ws->max_message - ws->message.len)
        return broken(ws, WS_CODE_TOO_LARGE, "message too large", err);
    int kind = continues ? ws->message_kind : f->opcode;
    if (!f->fin) {
        ws->message_kind = kind;
        if (tn_buf_add(&ws->message, payload, f->length) < 0)
            return broken(ws, WS_CODE_TOO_LARGE, "out of memory", err);
        return 0;
    }
    tn_buf_reset(out);
    tn_buf_add(out, ws->message.data, ws->message.len);
    tn_buf_add(out, payload, f->length);
    if (!tn_buf_ok(out))
        return broken(ws, WS_CODE_TOO_LARGE, "message too large", err);
    ws->message_kind = 0;
    tn_buf_done(&ws->message);
    if (kind == TN_WS_TEXT && !tn_utf8_valid(tn_buf_str(out), out->len))
        return broken(ws, WS_CODE_TEXT, "text is not UTF-8", err);
    return kind;
}

int tn_ws_recv(struct tn_ws *ws, struct tn_buf *out, int64_t deadline, struct tn_error *err)
{
    struct tn_ws_frame f;
    int r;

    while ((r = next_frame(ws, &f, deadline, err)) > 0) {
        char *payload = ws->in.data + f.header;
        if (f.masked)
            ws_mask(payload, f.length, f.mask);
        r = f.opcode >= TN_WS_CLOSE ? take_control(ws, f.opcode, payload, f.length, out, err)
                                    : take_data(ws, &f, payload, out, err);
        tn_buf_eat(&ws->in, f.header + f.length);
        if (r != 0)
            break;
    }
    if (ws->in.len == 0 && ws->in.cap > READ_BYTES * 2)
        tn_buf_done(&ws->in);
    return r;
}
