#include "service/proxy.h"

#include "base/clock.h"
#include "base/log.h"
#include "net/http-forward.h"
#include "net/http-kept.h"
#include "net/url.h"
#include "runtime/hand-address.h"
#include "service/caller.h"
#include "service/metrics.h"
#include "service/preview-lines.h"
#include "service/preview-page.h"
#include "service/timing.h"

#define READY_SECONDS 60.0   /* for the box to be there: a paused one may be woken */
#define DIAL_SECONDS 10.0    /* to reach its hand, or a port of it */
#define HAND_SECONDS 86400.0 /* for a hand to answer: it has deadlines of its own */
#define PORT_SECONDS 600.0   /* for a server inside to answer */
enum { EXTRA_MAX = 32 << 10 };

/* What runs in a sandbox shall never run as the page of the service, whose address it shares: an
 * origin of its own that is nobody's, without storage, cookies or workers. */
#define CONFINED                                                                        \
    "sandbox allow-downloads allow-forms allow-modals allow-pointer-lock allow-popups " \
    "allow-presentation allow-scripts"

/* One request on its way; first what the filters see. */
struct journey {
    struct passage passage;
    struct tn_http_exchange *x;
    struct box *b;
    char *address, *key; /* of the hand */
    char *name;          /* of its connections */
    struct tn_buf extra; /* header lines of ours */
};

static void journey_done(struct journey *j)
{
    free(j->address);
    if (j->key)
        explicit_bzero(j->key, strlen(j->key));
    free(j->key);
    free(j->name);
    if (j->extra.data)
        explicit_bzero(j->extra.data, j->extra.len);
    tn_buf_done(&j->extra);
}
#define autojourney TN_CLEANUP(journey_done)

/* --- connections --------------------------------------------------------------------------- */

static struct tn_http_kept *kept_of(const struct journey *j)
{
    return box_service(j->b)->kept;
}

static int take_kept(const struct journey *j, bool fresh, bool *kept)
{
    int fd = fresh ? -1 : tn_http_kept_take(kept_of(j), j->name);

    *kept = fd >= 0;
    return fd;
}

static void keep(void *ctx, int fd)
{
    const struct journey *j = ctx;

    tn_http_kept_give(kept_of(j), j->name, fd);
}

/* Whatever is wrong behind us is a bad gateway to the client. */
static int behind_us(struct tn_error *err)
{
    if (err->code != TN_E_TIMEOUT)
        err->code = TN_E_PEER;
    return -1;
}

static bool is_behind_us(const struct tn_error *err)
{
    return err->code == TN_E_PEER || err->code == TN_E_TIMEOUT;
}

static int connect_hand(void *ctx, bool fresh, bool *kept, struct tn_error *err)
{
    const struct journey *j = ctx;
    int fd = take_kept(j, fresh, kept);

    if (fd < 0)
        fd = tn_hand_dial(j->address, tn_deadline_in(DIAL_SECONDS), err);
    return fd < 0 ? behind_us(err) : fd;
}

static int connect_port(void *ctx, bool fresh, bool *kept, struct tn_error *err)
{
    const struct journey *j = ctx;
    int fd = take_kept(j, fresh, kept);

    if (fd < 0)
        fd = box_dial(j->b, j->address, j->key, j->passage.port, tn_deadline_in(DIAL_SECONDS), err);
    return fd < 0 ? behind_us(err) : fd;
}

/* --- the way there ------------------------------------------------------------------------- */

/* 0, or -1 with err when it was not answered. */
static int go(struct journey *j, struct tn_http_forward *to, struct tn_error *err)
{
    struct tn_service *s = box_service(j->b);

    tn_buf_printf(&j->extra, "X-Request-Id: %s\r\n", request_id(j->x));
    if (!tn_buf_ok(&j->extra))
        return tn_fail(err, TN_E_HEADERS_TOO_LARGE, "the request's head is too large");
    to->extra = tn_buf_str(&j->extra);
    to->keep = keep;
    to->ctx = j;
    box_enter_use(j->b);
    timing_enter(TIMING_BACKEND);
    int r = tn_http_forward(j->x, to, err);
    timing_leave();
    box_leave_use(j->b);
    metric_add(s->metrics, METRIC_PROXIED_BYTES, NULL, to->carried);
    if (r < 0 && (err->code == TN_E_GONE || tn_http_peer_gone(j->x))) {
        tn_http_abort(j->x); /* nobody waits for an answer */
        return 0;
    }
    return r;
}

/* Below which path clients see the hand, when its own target is the end of theirs. */
static void put_prefix(struct journey *j, const char *target)
{
    const char *asked = tn_http_target(j->x);
    size_t all = strlen(asked), own = strlen(target);

    if (all > own && *asked == '/' && strcmp(asked + all - own, target) == 0)
        tn_buf_printf(&j->extra, "X-Forwarded-Prefix: %.*s\r\n", (int)(all - own), asked);
}

void proxy_to_hand(struct tn_http_exchange *x, struct box *b, const char *target)
{
    autojourney struct journey j = {.x = x, .b = b, .extra = TN_BUF_INIT(EXTRA_MAX)};
    tn_autohandplace struct tn_hand_place place;
    struct tn_error err = {0};

    tn_http_set_header(x, "Content-Security-Policy", "sandbox");
    tn_http_set_header(x, "X-Content-Type-Options", "nosniff");
    /* Who stands before a hand elsewhere has other paths, too, and takes us for who may see them. */
    if (tn_url_climbs(target)) {
        tn_fail(&err, TN_E_INVALID, "the path has a segment . or ..");
        reply_error(x, &err);
        return;
    }
    if (box_hand(b, &j.address, &j.key, tn_deadline_in(READY_SECONDS), &err) < 0 ||
        tn_hand_place(j.address, &place, &err) < 0) {
        reply_error(x, &err);
        return;
    }
    tn_autofree char *there = tn_asprintf("%s%s", place.base, target);
    struct tn_http_forward to = {
        .target = there,
        .host = place.host,
        .seconds = HAND_SECONDS,
        .on_request = hand_request,
        .on_answer = hand_answer,
        .connect = connect_hand,
    };
    j.name = tn_asprintf("%s %s", box_id(b), j.address);
    tn_buf_puts(&j.extra, place.headers);
    if (j.key)
        tn_buf_printf(&j.extra, "X-Session-API-Key: %s\r\n", j.key);
    put_prefix(&j, target);
    if (go(&j, &to, &err) == 0)
        return;
    if (err.code == TN_E_PEER)
        box_suspect(b);
    if (is_behind_us(&err))
        tn_error_context(&err, "The hand of this sandbox does not answer");
    reply_error(x, &err);
}

/* Who asks, and by which name. */
static void put_forwarded(struct journey *j)
{
    bool secure = strncmp(box_service(j->b)->url, "https:", 6) == 0;

    if (strcmp(tn_http_peer(j->x), "unix") != 0)
        tn_buf_printf(&j->extra, "X-Forwarded-For: %s\r\n", tn_http_peer(j->x));
    if (j->passage.host)
        tn_buf_printf(&j->extra, "X-Forwarded-Host: %s\r\n", j->passage.host);
    tn_buf_printf(&j->extra, "X-Forwarded-Proto: %s\r\n", secure ? "https" : "http");
    if (j->passage.prefix)
        tn_buf_printf(&j->extra, "X-Forwarded-Prefix: %s\r\n", j->passage.prefix);
}

static bool is_session_key(const char *text, void *service)
{
    return box_has_session_key(service, text);
}

void proxy_to_port(struct tn_http_exchange *x, struct box *b, int port, const char *target,
                   const char *prefix)
{
    autojourney struct journey j = {
        .passage = {.prefix = prefix,
                    .host = tn_http_header(x, "Host"),
                    .port = port,
                    .is_session_key = is_session_key,
                    .ctx = box_service(b)},
        .x = x,
        .b = b,
        .name = tn_asprintf("%s:%d", box_id(b), port),
        .extra = TN_BUF_INIT(EXTRA_MAX),
    };
    tn_autofree char *inside = tn_asprintf("localhost:%d", port);
    /* A hand of a client's own may listen there (runtime/cloud): its tunnels are bytes, too. */
    const char *wish = tn_http_header(x, "Upgrade");
    bool tunnel = wish && strcmp(wish, "tendon-tunnel") == 0;
    struct tn_http_forward to = {
        .target = target,
        .host = prefix ? inside : NULL,
        .upgrade = tunnel ? "tendon-tunnel" : "websocket",
        .seconds = PORT_SECONDS,
        .on_request = passage_request,
        .on_answer = passage_answer,
        .connect = connect_port,
    };
    struct tn_error err = {0};

    if (prefix)
        tn_http_set_header(x, "Content-Security-Policy", CONFINED);
    if (box_hand(b, &j.address, &j.key, tn_deadline_in(READY_SECONDS), &err) < 0) {
        preview_not_running(x, b, &err);
        return;
    }
    put_forwarded(&j);
    if (go(&j, &to, &err) == 0)
        return;
    if (is_behind_us(&err))
        preview_no_answer(x, port, &err);
    else
        reply_error(x, &err);
}
