/* The answer side of an exchange: heads, whole replies, streams, upgrades. */
#include <sys/socket.h>

#include "base/json.h"
#include "base/utc.h"
#include "net/http-internal.h"
#include "net/splice.h"

#define QUIET_SECONDS 86400.0 /* a giver may be so slow, as long as the taker stays */

static const struct {
    int status;
    const char *reason;
} reasons[] = {
    {100, "Continue"},
    {101, "Switching Protocols"},
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {206, "Partial Content"},
    {301, "Moved Permanently"},
    {302, "Found"},
    {303, "See Other"},
    {304, "Not Modified"},
    {307, "Temporary Redirect"},
    {308, "Permanent Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {406, "Not Acceptable"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {411, "Length Required"},
    {412, "Precondition Failed"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {416, "Range Not Satisfiable"},
    {417, "Expectation Failed"},
    {421, "Misdirected Request"},
    {422, "Unprocessable Content"},
    {425, "Too Early"},
    {426, "Upgrade Required"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
    {507, "Insufficient Storage"},
};

const char *tn_http_reason(int status)
{
    for (size_t i = 0; i < TN_COUNT(reasons); i++)
        if (reasons[i].status == status)
            return reasons[i].reason;
    return "Status";
}

/* --- building a head ----------------------------------------------------------------------- */

static void put_number(struct tn_buf *out, int64_t v)
{
    char digits[20];
    size_t at = sizeof digits;

    do
        digits[--at] = (char)('0' + v % 10);
    while ((v /= 10) > 0);
    tn_buf_add(out, digits + at, sizeof digits - at);
}

#define PUT(out, literal) tn_buf_add(out, literal, sizeof(literal) - 1)

/* The Date line, made anew once a second. */
static void put_date(struct http_conn *c)
{
    static const char days[] = "SunMonTueWedThuFriSat";
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    struct timespec now;
    struct tm tm;

    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    if (now.tv_sec != c->date_second) {
        tn_utc(now.tv_sec, &tm);
        c->date_second = now.tv_sec;
        snprintf(c->date, sizeof c->date, "%.3s, %02d %.3s %04d %02d:%02d:%02d GMT",
                 days + 3 * tm.tm_wday, tm.tm_mday, months + 3 * tm.tm_mon, tm.tm_year + 1900,
                 tm.tm_hour, tm.tm_min, tm.tm_sec);
    }
    PUT(&c->out, "Date: ");
    tn_buf_puts(&c->out, c->date);
    PUT(&c->out, "\r\n");
}

/* Who does not say who it is comes again: nobody keeps one of the places of strangers for long. */
bool http_conn_is_old_stranger(struct http_conn *c)
{
    return http_conn_is_strange(c) && tn_now() - c->since > STRANGER_SECONDS * TN_SECOND;
}

/* Whether the connection can serve another request after this one.  Asked when the head is built,
 * because the client should be told there.  With a whole reply nobody reads the body any more; with
 * a stream we trust that the handler will. */
static bool can_keep(struct tn_http_exchange *x)
{
    if (x->close || x->body_error || http_stopping(x->conn->server) ||
        http_conn_is_old_stranger(x->conn))
        return false;
    if (x->body_done)
        return true;
    if (x->owes_continue)
        return false;
    if (x->answer == HTTP_STREAMING || http_body_skip(x, true))
        return true;
    return !x->body_error && !x->head.chunked && x->body_left <= HTTP_SKIP_BYTES;
}

static bool has_no_body(int status)
{
    return status == 204 || status == 304;
}

static void put_framing(struct tn_http_exchange *x, int status, int64_t length)
{
    struct tn_buf *out = &x->conn->out;

    x->chunked = false;
    if (has_no_body(status))
        return;
    if (length >= 0) {
        PUT(out, "Content-Length: ");
        put_number(out, length);
        PUT(out, "\r\n");
    } else if (x->head.minor == 1) {
        PUT(out, "Transfer-Encoding: chunked\r\n");
        x->chunked = true;
    } else {
        x->close = true;
    }
}

/* Builds the whole head in conn->out.  0, or -1 when it would not fit. */
static int build_head(struct tn_http_exchange *x, int status, const char *type, int64_t length)
{
    const struct tn_http_options *options = &http_settings_of(x->conn->server)->options;
    struct tn_buf *out = &x->conn->out;

    if (status < 200 || status > 999)
        status = 500; /* perhaps somebody else's status, passed on unseen */
    x->status = status;
    x->close = !can_keep(x);
    if (options->head)
        options->head(x, options->ctx);
    tn_buf_reset(out);
    PUT(out, "HTTP/1.1 ");
    put_number(out, status);
    PUT(out, " ");
    tn_buf_puts(out, tn_http_reason(status));
    PUT(out, "\r\n");
    if (!x->has_date)
        put_date(x->conn);
    if (type && tn_http_is_value(type, strlen(type))) {
        PUT(out, "Content-Type: ");
        tn_buf_puts(out, type);
        PUT(out, "\r\n");
    }
    put_framing(x, status, length);
    if (x->close)
        PUT(out, "Connection: close\r\n");
    else if (x->head.minor == 0)
        PUT(out, "Connection: keep-alive\r\n");
    tn_buf_add(out, x->fields.data, x->fields.len);
    PUT(out, "\r\n");
    return tn_buf_ok(out) ? 0 : -1;
}

/* --- header lines of the handler ----------------------------------------------------------- */

void tn_http_set_header(struct tn_http_exchange *x, const char *name, const char *value)
{
    size_t name_len = strlen(name), value_len = strlen(value);

    if (!tn_http_is_token(name, name_len) || !tn_http_is_value(value, value_len))
        return;
    if (tn_http_same(name, name_len, "connection")) {
        x->close |= tn_http_list_has(value, value_len, "close");
        return;
    }
    if (tn_http_same(name, name_len, "content-length") ||
        tn_http_same(name, name_len, "transfer-encoding"))
        return;
    x->has_date |= tn_http_same(name, name_len, "date");
    size_t before = x->fields.len;
    tn_buf_add(&x->fields, name, name_len);
    PUT(&x->fields, ": ");
    tn_buf_add(&x->fields, value, value_len);
    if (PUT(&x->fields, "\r\n") < 0)
        tn_buf_cut(&x->fields, before);
}

bool tn_http_sets_header(const struct tn_http_exchange *x, const char *name)
{
    size_t n = strlen(name);

    for (const char *line = tn_buf_str(&x->fields); *line; line += strspn(line, "\r\n")) {
        if (strncasecmp(line, name, n) == 0 && line[n] == ':')
            return true;
        line += strcspn(line, "\r\n");
    }
    return false;
}

/* --- sending ------------------------------------------------------------------------------- */

static int send_pieces(struct tn_http_exchange *x, struct iovec *pieces, int count)
{
    struct net_wait wait = {.each = http_settings_of(x->conn->server)->write_wait,
                            .deadline = TN_NEVER};

    if (x->broken)
        return -1;
    if (net_send(x->conn->fd, pieces, count, &wait) == 0)
        return 0;
    x->broken = x->close = true;
    return -1;
}

static struct iovec piece(const void *bytes, size_t n)
{
    return (struct iovec){.iov_base = (void *)bytes, .iov_len = n};
}

int tn_http_reply(struct tn_http_exchange *x, int status, const char *type, const void *body,
                  size_t n)
{
    if (x->answer != HTTP_NONE)
        return -1;
    x->answer = HTTP_ANSWERED;
    if (build_head(x, status, type, (int64_t)n) < 0) {
        x->broken = x->close = true;
        return -1;
    }
    bool bare = x->head_only || has_no_body(x->status);
    struct iovec pieces[] = {piece(x->conn->out.data, x->conn->out.len), piece(body, bare ? 0 : n)};
    return send_pieces(x, pieces, 2);
}

int tn_http_reply_json(struct tn_http_exchange *x, int status, const struct tn_buf *json)
{
    if (tn_buf_poor(json)) {
        tn_http_set_header(x, "Retry-After", "1");
        return tn_http_reply_detail(x, 503, "There is no memory for the answer just now");
    }
    if (!tn_buf_ok(json))
        return tn_http_reply_detail(x, 500, "The answer is too large");
    return tn_http_reply(x, status, "application/json", json->data, json->len);
}

int tn_http_reply_detail(struct tn_http_exchange *x, int status, const char *detail)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(64 * 1024);
    struct tn_jw w = tn_jw(&json);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "detail", detail);
    tn_jw_object_end(&w);
    return tn_http_reply(x, status, "application/json", json.data, tn_buf_ok(&json) ? json.len : 0);
}

int tn_http_reply_error(struct tn_http_exchange *x, const struct tn_error *err)
{
    return tn_http_reply_detail(x, tn_code_row(err->code)->http_status, err->text);
}

/* --- streams ------------------------------------------------------------------------------- */

int tn_http_start(struct tn_http_exchange *x, int status, const char *type, int64_t length)
{
    if (x->answer != HTTP_NONE)
        return -1;
    x->answer = HTTP_STREAMING;
    x->counted = length >= 0;
    x->write_left = length;
    if (build_head(x, status, type, length) < 0) {
        x->broken = x->close = true;
        return -1;
    }
    x->head_only |= has_no_body(x->status);
    if (x->body_done)
        http_conn_enter(x->conn, HTTP_FLOWING);
    struct iovec head = piece(x->conn->out.data, x->conn->out.len);
    return send_pieces(x, &head, 1);
}

/* Whether n more bytes may go out now.  More than announced would be read as the next answer. */
static bool may_write(struct tn_http_exchange *x, int64_t n)
{
    if (x->answer != HTTP_STREAMING || x->broken)
        return false;
    if (n < 0 || (x->counted && n > x->write_left)) {
        tn_http_abort(x);
        return false;
    }
    return true;
}

static struct iovec chunk_head(char line[24], int64_t n)
{
    return piece(line, (size_t)snprintf(line, 24, "%llx\r\n", (unsigned long long)n));
}

int tn_http_write(struct tn_http_exchange *x, const void *bytes, size_t n)
{
    char line[24];

    if (n > INT64_MAX || !may_write(x, (int64_t)n))
        return -1;
    if (n == 0 || x->head_only)
        return 0;
    if (!x->chunked) {
        x->write_left -= (int64_t)n;
        struct iovec body = piece(bytes, n);
        return send_pieces(x, &body, 1);
    }
    struct iovec pieces[] = {chunk_head(line, (int64_t)n), piece(bytes, n), piece("\r\n", 2)};
    return send_pieces(x, pieces, 3);
}

int tn_http_write_file(struct tn_http_exchange *x, int fd, int64_t offset, int64_t n)
{
    struct net_wait wait = {.each = http_settings_of(x->conn->server)->write_wait,
                            .deadline = TN_NEVER};
    char line[24];

    if (!may_write(x, n))
        return -1;
    if (n == 0 || x->head_only)
        return 0;
    if (x->chunked) {
        struct iovec head = chunk_head(line, n);
        if (send_pieces(x, &head, 1) < 0)
            return -1;
    } else {
        x->write_left -= n;
    }
    if (net_send_file(x->conn->fd, fd, offset, n, &wait) < 0) {
        tn_http_abort(x);
        return -1;
    }
    struct iovec tail = piece("\r\n", x->chunked ? 2 : 0);
    return send_pieces(x, &tail, 1);
}

int http_write_socket(struct tn_http_exchange *x, int from, int64_t *left)
{
    struct net_carry c = {
        .from = from,
        .to = x->conn->fd,
        .in = {.each = TN_NEVER, .deadline = tn_deadline_in(QUIET_SECONDS)},
        .out = {.each = http_settings_of(x->conn->server)->write_wait, .deadline = TN_NEVER},
        .unread = *left,
        .unsent = *left,
    };

    if (!x->counted || x->head_only || !may_write(x, *left))
        return -1;
    int r = net_carry(&c);
    x->write_left -= *left - c.unsent;
    *left = c.unsent;
    return r;
}

int tn_http_end(struct tn_http_exchange *x)
{
    return tn_http_end_with(x, "");
}

int tn_http_end_with(struct tn_http_exchange *x, const char *trailers)
{
    if (!may_write(x, 0))
        return -1;
    if (x->counted && !x->head_only && x->write_left != 0) {
        tn_http_abort(x);
        return -1;
    }
    x->answer = HTTP_ANSWERED;
    if (!x->chunked || x->head_only)
        return send_pieces(x, NULL, 0);
    struct iovec last[] = {piece("0\r\n", 3),
                           piece(trailers, tn_http_is_lines(trailers) ? strlen(trailers) : 0),
                           piece("\r\n", 2)};
    return send_pieces(x, last, 3);
}

void tn_http_abort(struct tn_http_exchange *x)
{
    /* A client that reads until the connection closes would take a quiet close for the end: reset
     * it. */
    if (x->answer == HTTP_STREAMING && !x->chunked && !x->broken) {
        struct linger reset = {.l_onoff = 1};
        setsockopt(x->conn->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    }
    x->broken = x->close = true;
}

/* --- upgrades ------------------------------------------------------------------------------ */

int tn_http_upgrade(struct tn_http_exchange *x, const char *protocol, struct tn_buf *early)
{
    struct http_conn *c = x->conn;
    const char *wanted = tn_http_header(x, "upgrade");

    if (x->answer != HTTP_NONE)
        return -1;
    if (!x->head.upgrade || !wanted || x->head.minor == 0 ||
        !tn_http_list_has(wanted, strlen(wanted), protocol)) {
        char text[128];
        snprintf(text, sizeof text, "This needs a connection upgrade to %s", protocol);
        tn_http_reply_detail(x, 400, text);
        return -1;
    }
    if (!x->body_done && !http_body_skip(x, false)) {
        tn_http_reply_detail(x, 400, "The request body must end before an upgrade");
        return -1;
    }
    x->answer = HTTP_UPGRADED;
    http_conn_enter(x->conn, HTTP_FLOWING);
    x->status = 101;
    x->close = true;
    tn_buf_reset(&c->out);
    PUT(&c->out, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ");
    tn_buf_puts(&c->out, protocol);
    PUT(&c->out, "\r\n");
    tn_buf_add(&c->out, x->fields.data, x->fields.len);
    PUT(&c->out, "\r\n");
    if (!tn_buf_ok(&c->out) || tn_buf_add(early, c->in + c->in_at, c->in_end - c->in_at) < 0) {
        x->broken = true;
        return -1;
    }
    c->in_at = c->in_end;
    net_recv_timeout(c->fd, 0);
    struct iovec head = piece(c->out.data, c->out.len);
    return send_pieces(x, &head, 1) < 0 ? -1 : c->fd;
}
