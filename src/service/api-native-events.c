/* The events of a sandbox: pages, a stream of server-sent events, a WebSocket.
 *
 * All of them read the journal, from any id on: an event has one id for ever, so a client that goes
 * on behind the last one it has gets each exactly once. */
#include <poll.h>

#include "base/clock.h"
#include "event/event.h"
#include "event/journal.h"
#include "net/sse.h"
#include "net/websocket.h"
#include "service/api-native.h"

enum {
    USUAL_PAGE = 100,
    LARGEST_PAGE = 1000,
    PAGE_BYTES = 8 << 20,   /* after which a page ends */
    PAGE_LOOK = 20000,      /* events that a page looks at, wanted or not */
    MESSAGE_MAX = 64 << 10, /* of what a client says, which nobody listens to */
};
#define SEND_SECONDS 30.0
#define SILENCE_SECONDS 60.0 /* then a client of a WebSocket is given up */

struct feed {
    struct tn_http_exchange *x;
    struct tn_journal_reader *reader;
    const char *kinds; /* with commas; NULL: all */
};

static bool listed(const char *list, const char *word)
{
    for (size_t n = strlen(word); word && *list; list += strcspn(list, ","), list += *list == ',')
        if (strcspn(list, ",") == n && strncmp(list, word, n) == 0)
            return true;
    return false;
}

/* kinds are "action", "observation", or names of some of them ("run", "error"). */
static bool wanted(const struct feed *f, const struct tn_journal_event *event)
{
    tn_autojson struct tn_json *tree = NULL;

    if (!f->kinds)
        return true;
    if (tn_json_parse(event->json, event->len, &tree, NULL))
        return false;
    const char *kind = tn_event_kind(tree) == TN_EVENT_ACTION ? "action" : "observation";
    return listed(f->kinds, kind) || listed(f->kinds, tn_json_get_str(tree, kind, ""));
}

/* --- pages ----------------------------------------------------------------------------------- */

static void put_page(struct feed *f, int64_t from, int64_t limit)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(PAGE_BYTES + TN_EVENT_MAX);
    struct tn_jw w = tn_jw(&json);
    struct tn_journal_event event;
    struct tn_error err = {0};
    int found = 1;

    tn_jw_object(&w);
    tn_jw_key(&w, "events");
    tn_jw_array(&w);
    for (int64_t seen = 0, put = 0; put < limit && seen < PAGE_LOOK && json.len < PAGE_BYTES;) {
        found = tn_journal_next(f->reader, &event, &err);
        if (found != 1)
            break;
        seen++;
        from = event.id + 1;
        if (!wanted(f, &event))
            continue;
        put++;
        tn_jw_raw(&w, event.json, event.len);
    }
    if (found < 0) {
        reply_error(f->x, &err);
        return;
    }
    tn_jw_array_end(&w);
    tn_jw_kint(&w, "next", from);
    tn_jw_kbool(&w, "more", found == 1);
    tn_jw_object_end(&w);
    tn_http_reply_json(f->x, 200, &json);
}

/* --- streams --------------------------------------------------------------------------------- */

enum next { NEXT_EVENT, NEXT_BEAT, NEXT_WORD, NEXT_GONE };

/* A client that has something to say, or is gone. */
static bool readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, 0) > 0;
}

/* Waits for the next event that is wanted, for the time of the next sign of life, or for the
 * client. */
static enum next next_of(struct feed *f, int fd, int64_t beat, struct tn_journal_event *event)
{
    struct tn_error err;

    for (;;) {
        int found = tn_journal_next(f->reader, event, &err);
        if (found < 0)
            return NEXT_GONE;
        if (found == 1 && wanted(f, event))
            return NEXT_EVENT;
        if (readable(fd))
            return NEXT_WORD;
        if (found == 1)
            continue;
        if (tn_now() >= beat)
            return NEXT_BEAT;
        if (tn_journal_wait(f->reader, fd, beat, &err) && err.code != TN_E_TIMEOUT)
            return NEXT_GONE;
    }
}

static void stream(struct feed *f)
{
    struct tn_journal_event event;
    int64_t beat = tn_deadline_in(NATIVE_BEAT_SECONDS);
    char id[24];

    if (tn_sse_start(f->x))
        return;
    for (int failed = 0; !failed;) {
        switch (next_of(f, tn_http_fd(f->x), beat, &event)) {
        case NEXT_EVENT:
            snprintf(id, sizeof id, "%lld", (long long)event.id);
            failed = tn_sse_send(f->x, NULL, id, event.json, event.len);
            break;
        case NEXT_BEAT:
            failed = tn_sse_beat(f->x);
            beat = tn_deadline_in(NATIVE_BEAT_SECONDS);
            break;
        case NEXT_GONE:
            tn_sse_send(f->x, "end", NULL, "{\"reason\":\"the sandbox is gone\"}", 32);
            failed = 1;
            break;
        case NEXT_WORD: /* it hung up, the service stops, or it does not know what a stream is */
            failed = 1;
            break;
        }
    }
    tn_http_end(f->x);
}

/* Reads away what the client says; -1 when it is over. */
static int listen_to(struct tn_ws *ws, int64_t *heard)
{
    tn_autobuf struct tn_buf message = TN_BUF_INIT(MESSAGE_MAX);

    do {
        int kind = tn_ws_recv(ws, &message, tn_now(), NULL);
        if (kind < 0 || kind == TN_WS_CLOSE)
            return -1;
        if (kind > 0)
            *heard = tn_now();
        tn_buf_reset(&message);
    } while (tn_ws_buffered(ws));
    return 0;
}

static void converse(struct feed *f)
{
    struct tn_ws ws;
    struct tn_journal_event event;
    int64_t heard = tn_now(), beat = tn_deadline_in(NATIVE_BEAT_SECONDS);

    if (tn_ws_accept(f->x, &ws, MESSAGE_MAX))
        return;
    for (int failed = 0; !failed;) {
        switch (next_of(f, ws.fd, beat, &event)) {
        case NEXT_EVENT:
            failed =
                tn_ws_send(&ws, TN_WS_TEXT, event.json, event.len, tn_deadline_in(SEND_SECONDS));
            break;
        case NEXT_BEAT:
            failed = tn_now() - heard > (int64_t)(SILENCE_SECONDS * 1e9) ||
                     tn_ws_send(&ws, TN_WS_PING, NULL, 0, tn_deadline_in(SEND_SECONDS));
            beat = tn_deadline_in(NATIVE_BEAT_SECONDS);
            break;
        case NEXT_GONE:
            failed = 1;
            tn_ws_close(&ws, 1000, "the sandbox is gone");
            break;
        case NEXT_WORD:
            failed = listen_to(&ws, &heard);
            break;
        }
    }
    if (tn_http_peer_gone(f->x))
        tn_ws_close(&ws, 1001, "the service stops");
    tn_ws_done(&ws);
}

/* --- which of them --------------------------------------------------------------------------- */

static int read_from(struct tn_http_exchange *x, const char *directory, int64_t *from)
{
    const char *resumed = tn_http_header(x, "Last-Event-ID");
    int64_t last = -1;
    char *end;

    if (native_query_int(x, "from", 0, INT64_MAX, from) ||
        native_query_int(x, "last", 0, INT64_MAX / 2, &last))
        return -1;
    if (last >= 0) {
        struct tn_error err = {0};
        int64_t newest = tn_journal_newest(directory, &err);
        if (newest < -1) {
            reply_error(x, &err);
            return -1;
        }
        *from = newest + 1 > last ? newest + 1 - last : 0;
    }
    if (!resumed || !*resumed)
        return 0;
    errno = 0;
    long long id = strtoll(resumed, &end, 10);
    if (errno || *end || id < -1)
        return native_refuse(x, TN_E_UNPROCESSABLE, "Last-Event-ID: expected the id of an event");
    *from = id + 1;
    return 0;
}

static void get_events(struct tn_http_exchange *x, void *ctx)
{
    autobox struct box *b = native_enter(x, ctx) ? native_box(x, ctx, SCOPE_READ) : NULL;
    const char *accept = tn_http_header(x, "Accept"), *upgrade = tn_http_header(x, "Upgrade");
    int64_t from = 0, limit = USUAL_PAGE;
    struct tn_error err = {0};

    if (!b || native_query_int(x, "limit", 1, LARGEST_PAGE, &limit) ||
        read_from(x, box_directory(b), &from))
        return;
    tn_autojournalreader struct tn_journal_reader *reader =
        tn_journal_reader_new(box_directory(b), from, &err);
    struct feed f = {.x = x, .reader = reader, .kinds = tn_http_query(x, "kinds")};
    if (!reader)
        reply_error(x, &err);
    else if (upgrade && strcasecmp(upgrade, "websocket") == 0)
        converse(&f);
    else if (accept && strstr(accept, "text/event-stream"))
        stream(&f);
    else
        put_page(&f, from, limit);
}

const struct tn_route routes_native_events[] = {
    {"GET", "/v1/sandboxes/{id}/events", get_events,
     "its events: a page, server-sent events, or a WebSocket", TN_ROUTE_OPEN},
    {0},
};
