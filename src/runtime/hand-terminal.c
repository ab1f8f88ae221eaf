#include "runtime/hand-terminal.h"

#include "base/clock.h"
#include "base/json.h"
#include "net/url.h"
#include "net/websocket.h"
#include "runtime/hand-address.h"
#include "runtime/hand-sessions.h"

enum { MESSAGE_MAX = 1 << 20 };

/* Beyond any offset: the line that the cursor is in, and what comes. */
#define FROM_THIS_LINE_ON ((uint64_t)INT64_MAX)

struct tn_hand_terminal {
    char *address, *key, *session;
    int fd;
    struct tn_ws ws;
    bool open;
    uint64_t offset; /* of the next byte */
    int exit_code;
};

/* --- the session --------------------------------------------------------------------------- */

/* One that is there already is fine. */
static int ensure_session(const struct tn_hand_terminal *t, const char *shell, int64_t deadline,
                          struct tn_error *err)
{
    const struct tn_hand_address at = {.address = t->address, .key = t->key};
    struct tn_error why = {0};

    if (strcmp(t->session, "main") == 0) /* is always there */
        return 0;
    if (tn_hand_session_make(&at, t->session, shell, NULL, deadline, &why) == 0 ||
        why.code == TN_E_CONFLICT)
        return 0;
    if (err)
        *err = why;
    return -1;
}

/* --- the connection ------------------------------------------------------------------------ */

static void disconnect(struct tn_hand_terminal *t)
{
    if (t->open)
        tn_ws_done(&t->ws);
    t->open = false;
    tn_close(TN_TAKE_FD(t->fd));
}

static int connect_terminal(struct tn_hand_terminal *t, int64_t deadline, struct tn_error *err)
{
    tn_autobuf struct tn_buf path = TN_BUF_INIT(8192),
                             headers = TN_BUF_INIT(2 * TN_HAND_HEADERS_MAX);
    tn_autohandplace struct tn_hand_place place;

    disconnect(t);
    if (tn_hand_place(t->address, &place, err) < 0)
        return -1;
    tn_buf_printf(&path, "%s/v1/sessions/", place.base);
    tn_url_encode(&path, t->session, "");
    tn_buf_printf(&path, "/terminal?offset=%llu", (unsigned long long)t->offset);
    tn_buf_puts(&headers, place.headers);
    if (t->key)
        tn_buf_printf(&headers, "X-Session-API-Key: %s\r\n", t->key);
    t->fd = tn_hand_dial(t->address, deadline, err);
    if (t->fd < 0)
        return tn_error_context(err, "the hand");
    if (tn_ws_connect(&t->ws, t->fd, place.host, tn_buf_str(&path), tn_buf_str(&headers),
                      MESSAGE_MAX, deadline, err) < 0) {
        disconnect(t);
        return tn_error_context(err, "terminal of session %s", t->session);
    }
    t->open = true;
    return 0;
}

struct tn_hand_terminal *tn_hand_terminal_open(const char *address, const char *key,
                                               const char *session, const char *shell, bool history,
                                               int64_t deadline, struct tn_error *err)
{
    struct tn_hand_terminal *t = tn_calloc(1, sizeof *t);

    *t = (struct tn_hand_terminal){
        .address = tn_strdup(address),
        .key = tn_strdup_or_null(key),
        .session = tn_strdup(session),
        .fd = -1,
        .offset = history ? 0 : FROM_THIS_LINE_ON,
        .exit_code = -1,
    };
    if (ensure_session(t, shell, deadline, err) == 0 && connect_terminal(t, deadline, err) == 0)
        return t;
    tn_hand_terminal_close(t);
    return NULL;
}

void tn_hand_terminal_close(struct tn_hand_terminal *t)
{
    if (!t)
        return;
    if (t->open)
        tn_ws_close(&t->ws, 1000, NULL);
    disconnect(t);
    free(t->address);
    free(t->key);
    free(t->session);
    free(t);
}

int tn_hand_terminal_resume(struct tn_hand_terminal *t, int64_t deadline, struct tn_error *err)
{
    return connect_terminal(t, deadline, err);
}

int tn_hand_terminal_fd(const struct tn_hand_terminal *t)
{
    return t->fd;
}

bool tn_hand_terminal_buffered(const struct tn_hand_terminal *t)
{
    return t->open && tn_ws_buffered(&t->ws);
}

int tn_hand_terminal_exit_code(const struct tn_hand_terminal *t)
{
    return t->exit_code;
}

/* --- messages ------------------------------------------------------------------------------ */

/* A text message: what it says is remembered, a complaint is passed on. */
static int take_text(struct tn_hand_terminal *t, struct tn_buf *out)
{
    tn_autojson struct tn_json *json = NULL;

    if (tn_json_parse(tn_buf_str(out), out->len, &json, NULL) < 0)
        return TN_TERMINAL_QUIET;
    const char *type = tn_json_get_str(json, "type", "");
    if (strcmp(type, "hello") == 0)
        t->offset = (uint64_t)tn_json_int(tn_json_get(json, "offset"), 0);
    if (strcmp(type, "end") == 0)
        t->exit_code = (int)tn_json_int(tn_json_get(json, "exit_code"), -1);
    if (strcmp(type, "error") != 0)
        return TN_TERMINAL_QUIET;
    tn_buf_reset(out);
    tn_buf_puts(out, tn_json_get_str(json, "detail", "?"));
    return TN_TERMINAL_NOTE;
}

/* 1000 is the end of the shell; anything else has a reason. */
static int take_close(struct tn_hand_terminal *t, const struct tn_buf *payload,
                      struct tn_error *err)
{
    const unsigned char *p = (const unsigned char *)tn_buf_str(payload);
    int code = payload->len >= 2 ? p[0] << 8 | p[1] : 1000;

    disconnect(t);
    if (code == 1000)
        return TN_TERMINAL_ENDED;
    return tn_fail(err, TN_E_UNSUPPORTED, "the hand closed the terminal of session %s: %s",
                   t->session, payload->len > 2 ? (const char *)p + 2 : "no reason given");
}

int tn_hand_terminal_next(struct tn_hand_terminal *t, struct tn_buf *out, int64_t deadline,
                          struct tn_error *err)
{
    if (!t->open)
        return TN_TERMINAL_BROKEN;
    tn_buf_reset(out);
    int kind = tn_ws_recv(&t->ws, out, deadline, NULL);
    if (kind < 0) {
        disconnect(t);
        return TN_TERMINAL_BROKEN;
    }
    if (kind == TN_WS_CLOSE)
        return take_close(t, out, err);
    if (kind == TN_WS_TEXT)
        return take_text(t, out);
    if (kind != TN_WS_BINARY)
        return TN_TERMINAL_QUIET;
    t->offset += out->len;
    return TN_TERMINAL_BYTES;
}

static int send_message(struct tn_hand_terminal *t, enum tn_ws_kind kind, const void *bytes,
                        size_t n, int64_t deadline)
{
    if (!t->open)
        return -1;
    return tn_ws_send(&t->ws, kind, bytes, n, deadline);
}

int tn_hand_terminal_type(struct tn_hand_terminal *t, const void *bytes, size_t n, int64_t deadline)
{
    return send_message(t, TN_WS_BINARY, bytes, n, deadline);
}

int tn_hand_terminal_resize(struct tn_hand_terminal *t, int columns, int rows, int64_t deadline)
{
    char text[96];
    int n = snprintf(text, sizeof text, "{\"type\":\"resize\",\"columns\":%d,\"rows\":%d}", columns,
                     rows);

    return send_message(t, TN_WS_TEXT, text, (size_t)n, deadline);
}

int tn_hand_terminal_beat(struct tn_hand_terminal *t, int64_t deadline)
{
    return send_message(t, TN_WS_PING, "", 0, deadline);
}
