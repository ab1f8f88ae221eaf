#include "runtime/hand-output.h"

#include "base/base64.h"
#include "base/clock.h"
#include "base/json.h"
#include "net/sse-read.h"
#include "net/url.h"
#include "runtime/hand-address.h"
#include "runtime/hand-answer.h"

#define SILENCE (45 * TN_SECOND) /* it shows a sign of life every 15 seconds */

enum {
    PIECE = 64 << 10,
    EVENT_MAX = 256 << 10, /* the hand sends 32 KB at a time */
    DETAIL_MAX = 64 << 10,
    ATTEMPTS = 3,
};

/* Results beside 0 and -1 that stay inside. */
enum { STOPPED = 1, ENDED, BROKEN };

struct follower {
    struct tn_http_client *http;
    const char *id;
    uint64_t *offset, *lost;
    tn_output_fn fn;
    void *ctx;
    int stopped; /* what fn said */
    int64_t deadline;
    struct tn_sse_reader reader;
    struct tn_buf decoded;
    struct tn_error *err; /* of an event that makes no sense */
};

static int64_t patience(const struct follower *f)
{
    int64_t silent = tn_now() + SILENCE;

    return silent < f->deadline ? silent : f->deadline;
}

static int hand_over(struct follower *f, const void *bytes, size_t n)
{
    *f->offset += n;
    f->stopped = n ? f->fn(bytes, n, f->ctx) : 0;
    return f->stopped ? STOPPED : 0;
}

/* --- the stream of events ------------------------------------------------------------------ */

/* What came before the offset of an event is lost. */
static void skip_to(struct follower *f, int64_t offset)
{
    if (offset < 0 || (uint64_t)offset <= *f->offset)
        return;
    if (f->lost)
        *f->lost += (uint64_t)offset - *f->offset;
    *f->offset = (uint64_t)offset;
}

static int take_event(const char *event, const char *data, size_t n, void *ctx)
{
    struct follower *f = ctx;
    tn_autojson struct tn_json *json = NULL;

    if (strcmp(event, "end") == 0)
        return ENDED;
    if (tn_json_parse(data, n, &json, f->err) < 0)
        return tn_error_context(f->err, "output of %s", f->id);
    const char *text = tn_json_get_str(json, "data", "");
    skip_to(f, tn_json_int(tn_json_get(json, "offset"), -1));
    tn_buf_reset(&f->decoded);
    if (tn_base64_decode(&f->decoded, text, strlen(text), f->err) < 0)
        return tn_error_context(f->err, "output of %s", f->id);
    return hand_over(f, tn_buf_str(&f->decoded), f->decoded.len);
}

static int read_events(struct follower *f, struct tn_error *err)
{
    tn_autofree char *piece = tn_malloc(PIECE);

    tn_sse_reader_reset(&f->reader);
    f->err = err;
    for (;;) {
        ssize_t n = tn_http_client_read(f->http, piece, PIECE, patience(f), err);
        if (n < 0 && err->code == TN_E_TIMEOUT && tn_now() < f->deadline)
            return tn_fail(err, TN_E_PEER, "the hand has been silent for %d s",
                           (int)(SILENCE / TN_SECOND));
        if (n < 0 && err->code == TN_E_TIMEOUT)
            return -1;
        if (n <= 0)
            return BROKEN;
        int r = tn_sse_read(&f->reader, piece, (size_t)n, take_event, f, err);
        if (r)
            return r;
    }
}

/* --- what there is now --------------------------------------------------------------------- */

static int read_bytes(struct follower *f, struct tn_error *err)
{
    tn_autofree char *piece = tn_malloc(PIECE);

    for (;;) {
        ssize_t n = tn_http_client_read(f->http, piece, PIECE, patience(f), err);
        if (n < 0 && err->code == TN_E_TIMEOUT)
            return -1;
        if (n < 0)
            return BROKEN;
        if (n == 0)
            return ENDED;
        int r = hand_over(f, piece, (size_t)n);
        if (r)
            return r;
    }
}

/* Bytes before X-Output-First are gone: go on there. */
static bool skip_lost(struct follower *f)
{
    const char *text = tn_http_client_answer(f->http, "X-Output-First");
    uint64_t first = text ? strtoull(text, NULL, 10) : 0;

    if (first <= *f->offset)
        return false;
    if (f->lost)
        *f->lost += first - *f->offset;
    *f->offset = first;
    return true;
}

static int refused(struct follower *f, int status, struct tn_error *err)
{
    tn_autobuf struct tn_buf body = TN_BUF_INIT(DETAIL_MAX);
    char piece[1024];

    for (ssize_t n; (n = tn_http_client_read(f->http, piece, sizeof piece, patience(f), NULL)) > 0;)
        if (tn_buf_add(&body, piece, (size_t)n) < 0)
            break;
    if (status == 410 && skip_lost(f))
        return BROKEN;
    return tn_hand_refused_text(status, tn_buf_str(&body), body.len, err);
}

static int attempt(struct follower *f, bool follow, struct tn_error *err)
{
    tn_autobuf struct tn_buf target = TN_BUF_INIT(4096);

    tn_buf_puts(&target, "/v1/commands/");
    tn_url_encode(&target, f->id, "");
    tn_buf_printf(&target, "/output?offset=%llu%s", (unsigned long long)*f->offset,
                  follow ? "&follow=1" : "");
    struct tn_http_call call = {.target = tn_buf_str(&target), .deadline = patience(f)};
    int status = tn_http_client_open(f->http, &call, err);
    if (status < 0)
        return err->code == TN_E_PEER ? BROKEN : -1;
    if (status != 200)
        return refused(f, status, err);
    return follow ? read_events(f, err) : read_bytes(f, err);
}

int tn_hand_output(const char *address, const char *key, const char *command_id, bool follow,
                   uint64_t *offset, uint64_t *lost, tn_output_fn fn, void *ctx, int64_t deadline,
                   struct tn_error *err)
{
    struct tn_error why = {.code = TN_E_PEER, .text = "the connection to the hand breaks"};
    struct follower f = {
        .http = tn_hand_http(address, key, err),
        .id = command_id,
        .offset = offset,
        .lost = lost,
        .fn = fn,
        .ctx = ctx,
        .deadline = deadline,
        .decoded = TN_BUF_INIT(EVENT_MAX),
    };
    int r = BROKEN;

    if (!f.http)
        return -1;
    tn_sse_reader_init(&f.reader, EVENT_MAX);
    for (int tries = 0; tries < ATTEMPTS && r == BROKEN; tries++) {
        uint64_t before = *offset;
        r = attempt(&f, follow, &why);
        if (*offset != before)
            tries = 0;
    }
    tn_http_client_free(f.http);
    tn_sse_reader_done(&f.reader);
    tn_buf_done(&f.decoded);
    if (r == STOPPED)
        return f.stopped;
    if (r == ENDED)
        return 0;
    if (err)
        *err = why;
    return -1;
}
