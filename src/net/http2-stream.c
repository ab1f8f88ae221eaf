#include "net/http2-stream.h"

#include <poll.h>
#include <sys/socket.h>

enum {
    ANSWER_HEAD_MAX = 256 * 1024, /* ours: more than the server writes */
    FIELDS_OF_ANSWER = TN_HTTP_MAX_FIELDS + 1,
    TRAILERS_MAX = 16,
};

struct http2_stream *http2_stream_new(struct http2_stream **list, const struct http2_lib *lib,
                                      nghttp2_session *session, int32_t id, size_t max_head)
{
    struct http2_stream *s = calloc(1, sizeof *s);

    if (!s)
        return NULL;
    s->lib = lib;
    s->session = session;
    s->id = id;
    s->fd = -1;
    tn_buf_init(&s->fields, max_head);
    tn_buf_init(&s->cookie, max_head);
    tn_buf_init(&s->body, HTTP2_STREAM_WINDOW);
    tn_buf_init(&s->out, 2 * max_head + HTTP2_PIECE);
    tn_buf_init(&s->in, ANSWER_HEAD_MAX);
    tn_buf_init(&s->trailers, max_head);
    s->chunks.trailers = &s->trailers;
    s->next = *list;
    s->at = list;
    if (s->next)
        s->next->at = &s->next;
    *list = s;
    return s;
}

void http2_stream_free(struct http2_stream *s)
{
    *s->at = s->next;
    if (s->next)
        s->next->at = s->at;
    tn_close(s->fd);
    free(s->method);
    free(s->path);
    free(s->authority);
    tn_buf_done(&s->fields);
    tn_buf_done(&s->cookie);
    tn_buf_done(&s->body);
    tn_buf_done(&s->out);
    tn_buf_done(&s->in);
    tn_buf_done(&s->trailers);
    free(s);
}

/* --- the request --------------------------------------------------------------------------- */

static bool add_field(struct tn_buf *to, const char *name, size_t name_len, const char *value,
                      size_t value_len)
{
    tn_buf_add(to, name, name_len);
    tn_buf_puts(to, ": ");
    tn_buf_add(to, value, value_len);
    return tn_buf_puts(to, "\r\n") == 0;
}

void http2_stream_field(struct http2_stream *s, const char *name, size_t name_len,
                        const char *value, size_t value_len)
{
    const struct {
        const char *name;
        char **to;
    } pseudo[] = {{":method", &s->method}, {":path", &s->path}, {":authority", &s->authority}};

    if (name_len && *name == ':') {
        for (size_t i = 0; i < TN_COUNT(pseudo); i++)
            if (tn_http_same(name, name_len, pseudo[i].name) && !*pseudo[i].to)
                *pseudo[i].to = tn_strndup(value, value_len);
        return;
    }
    /* nghttp2 has refused fields about the connection; these would be about ours. */
    if (!tn_http_is_token(name, name_len) || !tn_http_is_value(value, value_len)) {
        s->fields.failed = true;
    } else if (tn_http_same(name, name_len, "host")) {
        if (!s->authority)
            s->authority = tn_strndup(value, value_len);
        else if (strlen(s->authority) != value_len || memcmp(s->authority, value, value_len) != 0)
            s->fields.failed = true;
    } else if (tn_http_same(name, name_len, "cookie")) {
        tn_buf_puts(&s->cookie, s->cookie.len ? "; " : "");
        tn_buf_add(&s->cookie, value, value_len);
    } else if (!tn_http_same(name, name_len, "te")) {
        s->has_length |= tn_http_same(name, name_len, "content-length");
        add_field(&s->fields, name, name_len, value, value_len);
    }
}

/* Nothing in it can end a request line or a field. */
static bool is_word(const char *text)
{
    if (!text || !*text)
        return false;
    for (; *text; text++)
        if ((unsigned char)*text <= ' ' || *text == 0x7f)
            return false;
    return true;
}

int http2_stream_head(struct http2_stream *s)
{
    if (!tn_buf_ok(&s->fields) || !tn_buf_ok(&s->cookie))
        return s->fields.len > s->fields.max / 2 || !tn_buf_ok(&s->cookie) ? 431 : 400;
    if (!is_word(s->method) || !tn_http_is_token(s->method, strlen(s->method)) ||
        !is_word(s->path) || !is_word(s->authority))
        return 400;
    s->head_only = strcmp(s->method, "HEAD") == 0;
    s->chunked = !s->ended && !s->has_length;
    tn_buf_printf(&s->out, "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n", s->method,
                  s->path, s->authority);
    tn_buf_add(&s->out, tn_buf_str(&s->fields), s->fields.len);
    if (s->cookie.len)
        add_field(&s->out, "Cookie", 6, tn_buf_str(&s->cookie), s->cookie.len);
    if (s->chunked)
        tn_buf_puts(&s->out, "Transfer-Encoding: chunked\r\n");
    tn_buf_puts(&s->out, "\r\n");
    tn_buf_done(&s->fields);
    tn_buf_done(&s->cookie);
    return tn_buf_ok(&s->out) ? 0 : 431;
}

int http2_stream_body(struct http2_stream *s, const void *bytes, size_t n)
{
    if (s->told_end) { /* the server wants no more of it */
        s->lib->nghttp2_session_consume(s->session, s->id, n);
        return 0;
    }
    return tn_buf_add(&s->body, bytes, n);
}

/* The next piece of the body, which the client may now send anew. */
static bool next_piece(struct http2_stream *s)
{
    size_t n = s->body.len < HTTP2_PIECE ? s->body.len : HTTP2_PIECE;

    tn_buf_reset(&s->out);
    if (n == 0 && (!s->ended || s->told_end))
        return false;
    if (n == 0) {
        s->told_end = true;
        if (s->chunked)
            tn_buf_puts(&s->out, "0\r\n\r\n");
        return s->chunked;
    }
    if (s->chunked)
        tn_buf_printf(&s->out, "%zx\r\n", n);
    tn_buf_add(&s->out, s->body.data, n);
    if (s->chunked)
        tn_buf_puts(&s->out, "\r\n");
    tn_buf_eat(&s->body, n);
    s->lib->nghttp2_session_consume(s->session, s->id, n);
    return tn_buf_ok(&s->out);
}

void http2_stream_discard(struct http2_stream *s)
{
    s->lib->nghttp2_session_consume(s->session, s->id, s->body.len);
    tn_buf_reset(&s->body);
    tn_buf_reset(&s->out);
    s->told_end = true;
}

void http2_stream_send(struct http2_stream *s)
{
    while (s->fd >= 0 && (s->out.len || next_piece(s))) {
        ssize_t sent = send(s->fd, s->out.data, s->out.len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (sent < 0) { /* it has answered without reading all of it */
            http2_stream_discard(s);
            return;
        }
        tn_buf_eat(&s->out, (size_t)sent);
    }
}

/* --- the answer ---------------------------------------------------------------------------- */

/* The next bytes of the server: > 0, 0 at the end, -1 with errno. */
static ssize_t fill(struct http2_stream *s)
{
    char *to = tn_buf_reserve(&s->in, HTTP2_PIECE);

    if (!to) {
        errno = ENOMEM;
        return -1;
    }
    ssize_t got = recv(s->fd, to, HTTP2_PIECE, MSG_DONTWAIT);
    if (got > 0)
        tn_buf_grew(&s->in, (size_t)got);
    return got;
}

static ssize_t wait_for_more(struct http2_stream *s)
{
    s->deferred = true;
    return NGHTTP2_ERR_DEFERRED;
}

/* The end of the connection is the end of the answer only where that was said. */
static ssize_t fill_or_wait(struct http2_stream *s)
{
    ssize_t got = fill(s);

    if (got > 0 || (got == 0 && s->left < 0 && !s->unchunk))
        return got;
    return got < 0 && (errno == EAGAIN || errno == EINTR) ? wait_for_more(s)
                                                          : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

/* How many bytes of the body lie at the front of s->in; 0 with *over at its end. */
static ssize_t at_hand(struct http2_stream *s, bool *over)
{
    if (s->unchunk) {
        ssize_t framing = tn_http_unchunk(&s->chunks, tn_buf_str(&s->in), s->in.len);
        if (framing < 0)
            return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
        tn_buf_eat(&s->in, (size_t)framing);
        *over = s->chunks.state == TN_CHUNK_END;
        if (s->chunks.state != TN_CHUNK_DATA)
            return 0;
    } else {
        *over = s->left == 0;
    }
    int64_t left = s->unchunk ? s->chunks.left : s->left;
    return left >= 0 && (uint64_t)left < s->in.len ? (ssize_t)left : (ssize_t)s->in.len;
}

/* nghttp2 copies both, and changes none of them. */
static nghttp2_nv nv(const char *name, size_t name_len, const char *value, size_t value_len)
{
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, name_len,
                        value_len, NGHTTP2_NV_FLAG_NONE};
}

/* The end of the body: of the stream, too, unless trailers follow. */
static ssize_t end_answer(struct http2_stream *s, uint32_t *flags)
{
    nghttp2_nv fields[TRAILERS_MAX];
    const char *line = tn_buf_str(&s->trailers), *end;
    size_t count = 0;

    *flags |= NGHTTP2_DATA_FLAG_EOF;
    for (; count < TRAILERS_MAX && (end = strstr(line, "\r\n")); line = end + 2) {
        const char *colon = memchr(line, ':', (size_t)(end - line));
        if (!colon)
            return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
        const char *value = colon + 1 + strspn(colon + 1, " ");
        fields[count++] = nv(line, (size_t)(colon - line), value, (size_t)(end - value));
    }
    if (count == 0)
        return 0;
    *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
    return s->lib->nghttp2_submit_trailer(s->session, s->id, fields, count) == 0
               ? 0
               : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

static ssize_t read_answer(nghttp2_session *session, int32_t id, uint8_t *to, size_t n,
                           uint32_t *flags, nghttp2_data_source *source, void *ctx)
{
    struct http2_stream *s = source->ptr;

    for (;;) {
        bool over = false;
        ssize_t have = at_hand(s, &over);
        if (over || have < 0)
            return have < 0 ? have : end_answer(s, flags);
        if (have > 0) {
            size_t take = (size_t)have < n ? (size_t)have : n;
            memcpy(to, s->in.data, take);
            tn_buf_eat(&s->in, take);
            if (s->unchunk)
                s->chunks.left -= (int64_t)take;
            else if (s->left > 0)
                s->left -= (int64_t)take;
            return (ssize_t)take;
        }
        ssize_t got = fill_or_wait(s);
        if (got == 0)
            *flags |= NGHTTP2_DATA_FLAG_EOF;
        if (got <= 0)
            return got;
    }
}

static bool about_connection(const char *name, size_t n)
{
    static const char *const names[] = {"connection", "keep-alive", "proxy-connection",
                                        "transfer-encoding", "upgrade"};

    for (size_t i = 0; i < TN_COUNT(names); i++)
        if (tn_http_same(name, n, names[i]))
            return true;
    return false;
}

/* The head at the front of s->in, of n bytes, as fields; names become lower case in place. */
static size_t answer_fields(struct http2_stream *s, const struct tn_http_head *h, char status[4],
                            nghttp2_nv out[FIELDS_OF_ANSWER])
{
    char *bytes = s->in.data;
    size_t count = 0;

    snprintf(status, 4, "%03u", (unsigned)h->status % 1000);
    out[count++] = nv(":status", 7, status, 3);
    for (unsigned i = 0; i < h->field_count; i++) {
        char *name = bytes + h->fields[i].name.at;
        size_t len = h->fields[i].name.len;
        if (about_connection(name, len))
            continue;
        for (size_t k = 0; k < len; k++)
            if (name[k] >= 'A' && name[k] <= 'Z')
                name[k] += 'a' - 'A';
        out[count++] = nv(name, len, bytes + h->fields[i].value.at, h->fields[i].value.len);
    }
    return count;
}

static int submit_final(struct http2_stream *s, const struct tn_http_head *h,
                        const nghttp2_nv *fields, size_t count)
{
    const nghttp2_data_provider body = {.source.ptr = s, .read_callback = read_answer};
    bool none = s->head_only || h->status == 204 || h->status == 304 || h->length == 0;

    s->answered = true;
    s->unchunk = h->chunked;
    s->left = h->length;
    return s->lib->nghttp2_submit_response(s->session, s->id, fields, count, none ? NULL : &body);
}

/* The next head in s->in, if it is there: 1, or 0 when it is not whole yet, or -1. */
static int take_head(struct http2_stream *s)
{
    static const struct tn_http_limits limits = {.target = 8192, .fields = ANSWER_HEAD_MAX};
    nghttp2_nv fields[FIELDS_OF_ANSWER];
    struct tn_http_head head;
    char status[4];

    ssize_t n = tn_http_scan(&s->scan, tn_buf_str(&s->in), s->in.len, &limits, NULL);
    if (n <= 0)
        return (int)n;
    if (tn_http_parse_response(s->in.data, (size_t)n, &head, NULL) < 0 || head.status == 101)
        return -1;
    size_t count = answer_fields(s, &head, status, fields);
    bool interim = head.status < 200;
    int why = interim ? s->lib->nghttp2_submit_headers(s->session, NGHTTP2_FLAG_NONE, s->id, NULL,
                                                       fields, count, NULL)
                      : submit_final(s, &head, fields, count);
    tn_buf_eat(&s->in, (size_t)n);
    s->scan = (struct tn_http_scan){0};
    return why == 0 ? 1 : -1;
}

int http2_stream_receive(struct http2_stream *s)
{
    if (s->deferred) {
        s->deferred = false;
        return s->lib->nghttp2_session_resume_data(s->session, s->id) == 0 ? 0 : -1;
    }
    while (!s->answered) {
        int taken = take_head(s);
        if (taken < 0)
            return -1;
        if (taken > 0)
            continue;
        ssize_t got = fill(s);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return 0;
        if (got <= 0)
            return -1;
    }
    return 0;
}

short http2_stream_events(const struct http2_stream *s)
{
    return (short)((!s->answered || s->deferred ? POLLIN : 0) | (s->out.len ? POLLOUT : 0));
}

int http2_stream_refuse(struct http2_stream *s, int status)
{
    char text[4];

    snprintf(text, sizeof text, "%03u", (unsigned)status % 1000);
    nghttp2_nv field = nv(":status", 7, text, 3);
    s->answered = true;
    return s->lib->nghttp2_submit_response(s->session, s->id, &field, 1, NULL);
}
