#include "runtime/hand-watch.h"

#include "base/clock.h"
#include "net/sse-read.h"
#include "net/url.h"
#include "runtime/hand-address.h"

enum { TARGET_MAX = 64 << 10, EVENT_MAX = 64 << 10, ANSWER_MAX = 16 << 20, PIECE = 16 << 10 };
/* A hand says every 15 seconds that it is there. */
#define QUIET_SECONDS 60.0

struct listener {
    tn_watch_fn fn;
    void *ctx;
};

static int tell(const struct tn_json *event, const char *name, const struct listener *l)
{
    return l->fn(name, tn_json_get_str(event, "path", ""), l->ctx);
}

static int take(const char *name, const char *data, size_t n, void *ctx)
{
    tn_autojson struct tn_json *event = NULL;

    if (tn_json_parse(data, n, &event, NULL) < 0)
        return 0;
    return tell(event, name, ctx);
}

/* Pieces come at least with every sign of life. */
static int listen_to(struct tn_http_client *http, struct listener *l, struct tn_error *err)
{
    struct tn_sse_reader reader;
    tn_autofree char *piece = tn_malloc(PIECE);
    int result = 0;

    tn_sse_reader_init(&reader, EVENT_MAX);
    while (!result) {
        ssize_t n = tn_http_client_read(http, piece, PIECE, tn_deadline_in(QUIET_SECONDS), err);
        if (n <= 0) {
            result = n < 0 ? -1 : 0;
            break;
        }
        result = tn_sse_read(&reader, piece, (size_t)n, take, l, err);
        if (!result)
            result = l->fn(NULL, NULL, l->ctx);
    }
    tn_sse_reader_done(&reader);
    return result;
}

static int put_target(struct tn_buf *out, const char *route, const char *path, bool recursive,
                      struct tn_error *err)
{
    tn_buf_printf(out, "%s?path=", route);
    tn_url_encode(out, path, "/");
    tn_buf_puts(out, recursive ? "&recursive=1" : "");
    return tn_buf_ok(out) ? 0 : tn_fail(err, TN_E_URI_TOO_LONG, "the path is too long");
}

int tn_hand_watch(const struct tn_hand_address *at, const char *path, bool recursive,
                  tn_watch_fn fn, void *ctx, int watch, struct tn_error *err)
{
    tn_autobuf struct tn_buf target = TN_BUF_INIT(TARGET_MAX);
    struct listener l = {.fn = fn, .ctx = ctx};
    char detail[1024];

    if (put_target(&target, "/v1/files/watch", path, recursive, err))
        return -1;
    struct tn_http_client *http = tn_hand_http(at->address, at->key, err);
    if (!http)
        return -1;
    tn_http_client_cancel_by(http, watch);
    const struct tn_http_call call = {.target = tn_buf_str(&target),
                                      .deadline = tn_deadline_in(QUIET_SECONDS)};
    int result = tn_http_client_open(http, &call, err);
    if (result >= 300) {
        ssize_t n = tn_http_client_read(http, detail, sizeof detail, call.deadline, NULL);
        result = tn_hand_refused_text(result, detail, n > 0 ? (size_t)n : 0, err);
    } else if (result > 0) {
        result = listen_to(http, &l, err);
    }
    tn_http_client_free(http);
    return result;
}

/* --- watchers that are asked ----------------------------------------------------------------- */

static int ask(const struct tn_hand_address *at, const char *method, const char *target,
               struct tn_json **out, int64_t deadline, struct tn_error *err)
{
    tn_autobuf struct tn_buf answer = TN_BUF_INIT(ANSWER_MAX);
    const struct tn_buf nothing = TN_BUF_INIT(1);

    if (tn_hand_ask(at, method, target, &nothing, &answer, deadline, err))
        return -1;
    if (!out || tn_json_parse(tn_buf_str(&answer), answer.len, out, err) == 0)
        return 0;
    return tn_error_context(err, "the answer of the hand");
}

int tn_hand_watcher_begin(const struct tn_hand_address *at, const char *path, bool recursive,
                          char id[TN_WATCHER_ID], int64_t deadline, struct tn_error *err)
{
    tn_autobuf struct tn_buf target = TN_BUF_INIT(TARGET_MAX);
    tn_autojson struct tn_json *answer = NULL;

    if (put_target(&target, "/v1/files/watchers", path, recursive, err) ||
        ask(at, "POST", tn_buf_str(&target), &answer, deadline, err))
        return -1;
    const char *given = tn_json_get_str(answer, "id", "");
    if (!*given || strlen(given) >= TN_WATCHER_ID)
        return tn_fail(err, TN_E_PEER, "the hand gave its watcher no name");
    snprintf(id, TN_WATCHER_ID, "%s", given);
    return 0;
}

/* Names come from clients: they are no part of a path before they were looked at. */
static int watcher_target(char out[64 + TN_WATCHER_ID], const char *id, struct tn_error *err)
{
    size_t n = strspn(id, "0123456789abcdef");

    if (!n || id[n] || n >= TN_WATCHER_ID)
        return tn_fail(err, TN_E_NOT_FOUND, "there is no such watcher");
    snprintf(out, 64 + TN_WATCHER_ID, "/v1/files/watchers/%s", id);
    return 0;
}

int tn_hand_watcher_ask(const struct tn_hand_address *at, const char *id, tn_watch_fn fn, void *ctx,
                        int64_t deadline, struct tn_error *err)
{
    tn_autojson struct tn_json *answer = NULL;
    struct listener l = {.fn = fn, .ctx = ctx};
    char target[64 + TN_WATCHER_ID];

    if (watcher_target(target, id, err) || ask(at, "GET", target, &answer, deadline, err))
        return -1;
    const struct tn_json *events = tn_json_get(answer, "events");
    int result = 0;
    for (size_t i = 0; i < tn_json_count(events) && !result; i++) {
        const struct tn_json *event = tn_json_at(events, i);
        result = tell(event, tn_json_get_str(event, "event", ""), &l);
    }
    return result;
}

int tn_hand_watcher_end(const struct tn_hand_address *at, const char *id, int64_t deadline,
                        struct tn_error *err)
{
    char target[64 + TN_WATCHER_ID];

    return watcher_target(target, id, err) || ask(at, "DELETE", target, NULL, deadline, err) ? -1
                                                                                             : 0;
}
