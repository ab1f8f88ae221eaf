/* Both sides of the opening handshake. */
#include <string.h>
#include <sys/random.h>

#include "base/base64.h"
#include "base/clock.h"
#include "net/http-answer.h"
#include "net/sha1.h"
#include "net/socket-io.h"
#include "net/url.h"
#include "net/websocket-frame.h"

enum { KEY_BYTES = 16, KEY_LENGTH = 24, IN_SLACK = 16 * 1024 };

static void ws_init(struct tn_ws *ws, size_t max_message)
{
    *ws = (struct tn_ws){.fd = -1, .max_message = max_message};
    tn_buf_init(&ws->in, max_message > SIZE_MAX / 2 ? max_message : max_message + IN_SLACK);
    tn_buf_init(&ws->message, max_message);
}

/* What Sec-WebSocket-Accept must be for a key. */
static void prove(const char *key, struct tn_buf *out)
{
    char text[KEY_LENGTH + 36 + 1];
    unsigned char digest[NET_SHA1_BYTES];

    int n = snprintf(text, sizeof text, "%.24s258EAFA5-E914-47DA-95CA-C5AB0DC85B11", key);
    net_sha1(text, (size_t)n, digest);
    tn_base64_encode(out, digest, sizeof digest);
}

static bool key_valid(const char *key)
{
    tn_autobuf struct tn_buf bytes = TN_BUF_INIT(64);

    return key && strlen(key) == KEY_LENGTH &&
           tn_base64_decode(&bytes, key, KEY_LENGTH, NULL) == 0 && bytes.len == KEY_BYTES;
}

int tn_ws_accept(struct tn_http_exchange *x, struct tn_ws *ws, size_t max_message)
{
    const char *version = tn_http_header(x, "sec-websocket-version");
    const char *key = tn_http_header(x, "sec-websocket-key");
    tn_autobuf struct tn_buf proof = TN_BUF_INIT(64);

    ws_init(ws, max_message);
    if (version && strcmp(version, "13") != 0) {
        tn_http_set_header(x, "Sec-WebSocket-Version", "13");
        tn_http_reply_detail(x, 426, "Only WebSocket version 13 is supported");
        return -1;
    }
    if (!version || !key_valid(key) || strcmp(tn_http_method(x), "GET") != 0) {
        tn_http_reply_detail(x, 400, "This is not a WebSocket handshake");
        return -1;
    }
    prove(key, &proof);
    tn_http_set_header(x, "Sec-WebSocket-Accept", tn_buf_str(&proof));
    ws->fd = tn_http_upgrade(x, "websocket", &ws->in);
    if (ws->fd >= 0)
        return 0;
    tn_ws_done(ws);
    return -1;
}

static int send_request(int fd, const char *host, const char *path, const char *key,
                        const char *extra_headers, int64_t deadline, struct tn_error *err)
{
    struct net_wait wait = {.each = TN_NEVER, .deadline = deadline};
    tn_autobuf struct tn_buf out = TN_BUF_INIT(64 * 1024);

    if (!tn_http_is_value(path, strlen(path)) || strchr(path, ' ') || tn_url_climbs(path) ||
        !tn_http_is_value(host, strlen(host)) ||
        (extra_headers && !tn_http_is_lines(extra_headers)))
        return tn_fail(err, TN_E_INVALID, "WebSocket: the host, path or headers cannot be sent");
    tn_buf_printf(&out,
                  "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                  "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n%s\r\n",
                  path, host, key, extra_headers ? extra_headers : "");
    if (!tn_buf_ok(&out))
        return tn_fail(err, TN_E_HEADERS_TOO_LARGE, "WebSocket: the request is too large");
    struct iovec piece = {.iov_base = out.data, .iov_len = out.len};
    if (net_send(fd, &piece, 1, &wait) < 0)
        return tn_fail_errno(err, errno, "WebSocket: send the handshake");
    return 0;
}

/* The server agreed to WebSocket, proved that it read our key, and wants nothing else. */
static bool answer_fits(const struct http_answer *a, const char *key)
{
    const char *upgrade = http_answer_field(a, "upgrade");
    const char *given = http_answer_field(a, "sec-websocket-accept");
    tn_autobuf struct tn_buf proof = TN_BUF_INIT(64);

    prove(key, &proof);
    return a->head.upgrade && upgrade && tn_http_same(upgrade, strlen(upgrade), "websocket") &&
           given && strcmp(given, tn_buf_str(&proof)) == 0 &&
           !http_answer_field(a, "sec-websocket-extensions");
}

static int read_answer(struct tn_ws *ws, struct http_answer *a, const char *key, int64_t deadline,
                       struct tn_error *err)
{
    int status = http_answer_head(a, ws->fd, false, deadline, err);

    if (status < 0)
        return tn_error_context(err, "WebSocket handshake");
    ws->refused = status != 101 ? status : 0;
    if (ws->refused)
        return tn_fail(err, status == 401 || status == 403 ? TN_E_DENIED : TN_E_PEER,
                       "WebSocket handshake: the server answered %d", status);
    const char *protocol = http_answer_field(a, "sec-websocket-protocol");
    snprintf(ws->protocol, sizeof ws->protocol, "%s", protocol ? protocol : "");
    if (!answer_fits(a, key))
        return tn_fail(err, TN_E_PEER, "WebSocket handshake: the server's answer does not fit");
    if (tn_buf_add(&ws->in, a->in.data + a->at, a->in.len - a->at) < 0)
        return tn_fail(err, TN_E_TOO_LARGE, "WebSocket handshake: too many early bytes");
    return 0;
}

int tn_ws_connect(struct tn_ws *ws, int fd, const char *host, const char *path,
                  const char *extra_headers, size_t max_message, int64_t deadline,
                  struct tn_error *err)
{
    unsigned char nonce[KEY_BYTES];
    tn_autobuf struct tn_buf key = TN_BUF_INIT(64);
    struct http_answer answer;

    ws_init(ws, max_message);
    ws->fd = fd;
    ws->client = true;
    if (getrandom(nonce, sizeof nonce, 0) != sizeof nonce)
        return tn_fail_errno(err, errno, "WebSocket: random key");
    tn_base64_encode(&key, nonce, sizeof nonce);
    http_answer_init(&answer);
    int r = send_request(fd, host, path, tn_buf_str(&key), extra_headers, deadline, err);
    if (r == 0)
        r = read_answer(ws, &answer, tn_buf_str(&key), deadline, err);
    http_answer_done(&answer);
    if (r < 0)
        tn_ws_done(ws);
    return r;
}
