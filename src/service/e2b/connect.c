/* Connect, as far as clients of E2B speak it: JSON, one answer or a stream of envelopes. */
#include <stdarg.h>
#include <strings.h>

#include "net/frame.h"
#include "service/e2b/e2b.h"

enum { MESSAGE_MAX = 8 << 20, STREAM_MESSAGE_MAX = 1 << 20 };
/* Flags of an envelope. */
enum { COMPRESSED = 1, END = 2 };
static const char stream_type[] = "application/connect+json";

/* The first row of a status is what an error of ours becomes. */
static const struct {
    const char *code;
    int status;
} codes[] = {
    {"invalid_argument", 400}, {"unauthenticated", 401},    {"permission_denied", 403},
    {"not_found", 404},        {"deadline_exceeded", 408},  {"failed_precondition", 409},
    {"not_found", 410},        {"resource_exhausted", 413}, {"invalid_argument", 415},
    {"invalid_argument", 422}, {"resource_exhausted", 429}, {"unimplemented", 501},
    {"unavailable", 502},      {"unavailable", 503},        {"deadline_exceeded", 504},
    {"already_exists", 409},   {"internal", 500},
};

static const char *code_of(int status)
{
    for (size_t i = 0; i < TN_COUNT(codes); i++)
        if (codes[i].status == status)
            return codes[i].code;
    return "internal";
}

/* How a unary call tells that code. */
static int status_of(const char *code)
{
    for (size_t i = 0; i < TN_COUNT(codes); i++)
        if (strcmp(codes[i].code, code) == 0)
            return codes[i].status;
    return 500;
}

static void put_error(struct tn_buf *out, const char *code, const char *message)
{
    struct tn_jw w = tn_jw(out);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "code", code);
    tn_jw_kstr(&w, "message", message);
    tn_jw_object_end(&w);
}

static int send_envelope(struct tn_http_exchange *x, char flags, const struct tn_buf *json)
{
    tn_autobuf struct tn_buf frame = TN_BUF_INIT(json->len + TN_FRAME_HEAD);
    unsigned char head[TN_FRAME_HEAD];

    tn_frame_head(head, flags, (uint32_t)json->len);
    tn_buf_add(&frame, head, sizeof head);
    tn_buf_add(&frame, tn_buf_str(json), json->len);
    return tn_http_write(x, tn_buf_str(&frame), frame.len);
}

static int send_end(struct tn_http_exchange *x, const char *code, const char *message)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(16 << 10);

    if (code) {
        tn_buf_puts(&json, "{\"error\":");
        put_error(&json, code, message);
        tn_buf_puts(&json, "}");
    } else {
        tn_buf_puts(&json, "{}");
    }
    return send_envelope(x, END, &json) < 0 || tn_http_end(x) < 0 ? -1 : 0;
}

static int reply_code(struct tn_http_exchange *x, int status, const char *code, const char *detail)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(16 << 10);

    put_error(&json, code, detail);
    return tn_http_reply_json(x, status, &json);
}

static int reply_unary(struct tn_http_exchange *x, int status, const char *code, const char *detail)
{
    const char *word = code_of(status);

    return reply_code(x, status_of(word), word, detail);
}

/* Clients read no body of a stream that begins with an error: it begins well and ends with it. */
static int reply_stream(struct tn_http_exchange *x, int status, const char *code,
                        const char *detail)
{
    if (tn_http_start(x, 200, stream_type, -1))
        return -1;
    return send_end(x, code_of(status), detail);
}

int e2b_fail(struct e2b_call *c, const char *code, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (surface_reply(c->x) != reply_stream)
        reply_code(c->x, status_of(code), code, text);
    else if (tn_http_start(c->x, 200, stream_type, -1) == 0)
        send_end(c->x, code, text);
    return -1;
}

void e2b_answer(struct e2b_call *c, const struct tn_buf *json)
{
    if (tn_buf_ok(json))
        tn_http_reply_json(c->x, 200, json);
    else
        e2b_fail(c, "resource_exhausted", "the answer is too large");
}

/* --- streams --------------------------------------------------------------------------------- */

int e2b_stream_start(struct e2b_call *c)
{
    tn_http_set_header(c->x, "Cache-Control", "no-store");
    return tn_http_start(c->x, 200, stream_type, -1);
}

int e2b_stream_send(struct e2b_call *c, const struct tn_buf *json)
{
    return send_envelope(c->x, 0, json);
}

int e2b_stream_end(struct e2b_call *c, const struct tn_error *err)
{
    int status = err ? tn_code_row(err->code)->http_status : 0;

    return send_end(c->x, err ? code_of(status) : NULL, err ? err->text : NULL);
}

double e2b_stream_beat(const struct e2b_call *c)
{
    const char *text = tn_http_header(c->x, "Keepalive-Ping-Interval");
    double seconds = text ? strtod(text, NULL) : 0;

    return seconds >= 1 && seconds <= 60 ? seconds : 60;
}

/* --- calls ----------------------------------------------------------------------------------- */

struct tn_json *e2b_member(const struct tn_json *v, const char *camel, const char *snake)
{
    struct tn_json *found = tn_json_get(v, camel);

    return found ? found : tn_json_get(v, snake);
}

struct incoming {
    struct e2b_call *c;
    e2b_message_fn fn;
    void *ctx;
};

static int take_message(char flags, const unsigned char *bytes, size_t n, void *ctx)
{
    const struct incoming *in = ctx;
    tn_autobuf struct tn_buf text = {.max = n, .purse = purse_of(in->c->x)};
    tn_autojson struct tn_json *message = NULL;
    struct tn_error err = {0};

    if (flags & COMPRESSED)
        return e2b_fail(in->c, "unimplemented", "compressed messages are not taken");
    tn_buf_add(&text, bytes, n);
    if (tn_json_parse(tn_buf_str(&text), text.len, &message, &err))
        return e2b_fail(in->c, "invalid_argument", "the message is no JSON: %s", err.text);
    return in->fn(message, in->ctx);
}

int e2b_read_messages(struct e2b_call *c, size_t max, e2b_message_fn fn, void *ctx)
{
    struct incoming in = {.c = c, .fn = fn, .ctx = ctx};
    struct tn_frame_reader reader;
    struct tn_error err = {0};
    char piece[8 << 10];
    int result = 0;
    ssize_t n;

    tn_frame_reader_init(&reader, max);
    reader.held.purse = purse_of(c->x);
    while (!result && (n = tn_http_read(c->x, piece, sizeof piece, &err)) != 0)
        result = n < 0 ? -1 : tn_frame_read(&reader, piece, (size_t)n, take_message, &in, &err);
    if (err.code == TN_E_PEER)
        e2b_fail(c, "resource_exhausted", "%s", err.text);
    else if (err.code)
        reply_error(c->x, &err);
    else if (!result && reader.held.len)
        result = e2b_fail(c, "invalid_argument", "the last envelope is cut short");
    tn_frame_reader_done(&reader);
    return result;
}

/* The one message of a stream's request. */
struct only {
    struct e2b_call *c;
    struct tn_json *message;
    bool there;
};

static int take_only(struct tn_json *message, void *ctx)
{
    struct only *only = ctx;

    if (only->there)
        return e2b_fail(only->c, "invalid_argument", "more than one envelope");
    only->there = true;
    only->message = message ? tn_json_ref(message) : NULL;
    return 0;
}

static int read_only(struct e2b_call *c, struct tn_json **out)
{
    struct only only = {.c = c};
    int result = e2b_read_messages(c, STREAM_MESSAGE_MAX, take_only, &only);

    *out = only.message;
    if (!result && !only.there)
        result = e2b_fail(c, "invalid_argument", "no envelope");
    return result;
}

static bool has_type(const struct tn_http_exchange *x, const char *wanted)
{
    const char *type = tn_http_header(x, "Content-Type");
    size_t n = type ? strcspn(type, "; ") : 0;

    return n == strlen(wanted) && strncasecmp(type, wanted, n) == 0;
}

void e2b_rpc(struct e2b_call *c, const struct e2b_method *methods, const char *name)
{
    tn_autojson struct tn_json *message = NULL;

    for (; methods->name && strcmp(methods->name, name) != 0; methods++)
        ;
    bool stream = methods->stream && has_type(c->x, stream_type);
    surface_speak(c->x, stream ? reply_stream : reply_unary);
    if (!methods->name) {
        e2b_fail(c, "unimplemented", "there is no method %.60s", name);
    } else if (methods->stream ? !stream : !has_type(c->x, "application/json")) {
        tn_http_reply(c->x, 415, NULL, NULL, 0);
    } else if (methods->reads) {
        methods->call(c, NULL);
    } else if (stream ? read_only(c, &message) == 0
                      : surface_body(c->x, MESSAGE_MAX, &message) == 0) {
        methods->call(c, message);
    }
}
