/* /v1/browser/live: the active page for a person to watch, and to take over.
 *
 * Binary messages are JPEG pictures.  Text messages are JSON: from us {"type":"page", "id", "url",
 * "title", "width", "height"} first and whenever one of these changes, {"type":"error","detail"};
 * from the viewer {"type":"mouse"|"wheel"|"key"|"text", ...} with coordinates in the page's pixels.
 *
 * Each viewer has a session of its own with the page, so viewers do not disturb each other.  The
 * browser sends the next picture when the last one has been acknowledged, which happens when the
 * viewer has taken it: a slow one gets fewer pictures, not older ones. */
#include <poll.h>
#include <sys/eventfd.h>

#include "base/base64.h"
#include "hand/browser/act.h"
#include "hand/browser/browser.h"
#include "hand/v1/v1.h"
#include "net/websocket.h"

enum { MESSAGE_MAX = 1 << 20, PICTURE_MAX = 32 << 20, WIDTH_MAX = 4096, QUALITY = 70 };
enum { CLOSE_NORMAL = 1000, CLOSE_FAILED = 1011 };
#define SEND_SECONDS 20.0
#define ATTACH_SECONDS 2.0
#define GONE_SECONDS (4 * TN_BEAT_SECONDS)

struct live {
    struct chrome_viewer viewer; /* first: what the browser knows of us */
    struct tn_chrome *chrome;
    struct tn_ws ws;
    int wake; /* eventfd: a picture is there, or a page has changed */
    int64_t max_width;
    struct tn_page *page; /* the one that is shown, or NULL */
    char *session;
    char *shown; /* the last message about it */
    /* under the browser's lock: */
    char *data; /* the newest picture, not sent yet */
    size_t len;
    int64_t number;
};

/* --- told by the browser -------------------------------------------------------------------- */

static void note_change(struct chrome_viewer *v)
{
    eventfd_write(((struct live *)v)->wake, 1);
}

static void note_picture(struct chrome_viewer *v, const char *base64, size_t len, int64_t number)
{
    struct live *l = (struct live *)v;

    free(l->data);
    l->data = malloc(len);
    l->len = l->data ? len : 0;
    l->number = number;
    if (l->data)
        memcpy(l->data, base64, len);
    eventfd_write(l->wake, 1);
}

/* --- following the active page -------------------------------------------------------------- */

static void leave_page(struct live *l)
{
    chrome_lock(l->chrome);
    l->viewer.session = NULL;
    free(TN_TAKE_PTR(l->data));
    chrome_unlock(l->chrome);
    if (l->session) {
        tn_autofree char *params = tn_asprintf("{\"sessionId\":\"%s\"}", l->session);
        tn_cdp_post(l->chrome->cdp, NULL, "Target.detachFromTarget", params, NULL, NULL);
    }
    free(TN_TAKE_PTR(l->session));
    tn_page_unref(TN_TAKE_PTR(l->page));
}

static int enter_page(struct live *l, struct tn_page *page, struct tn_error *err)
{
    struct tn_cdp *cdp = l->chrome->cdp;
    tn_autofree char *attach = tn_asprintf("{\"targetId\":\"%s\",\"flatten\":true}", page->target);
    tn_autofree char *cast = tn_asprintf("{\"format\":\"jpeg\",\"quality\":%d,\"maxWidth\":%lld,"
                                         "\"maxHeight\":%d}",
                                         QUALITY, (long long)l->max_width, WIDTH_MAX);
    tn_autojson struct tn_json *result = NULL;

    l->page = tn_page_ref(page);
    if (tn_cdp_call(cdp, NULL, "Target.attachToTarget", attach, tn_deadline_in(ATTACH_SECONDS),
                    &result, err) < 0)
        return -1;
    l->session = tn_strdup(tn_json_get_str(result, "sessionId", ""));
    chrome_lock(l->chrome);
    l->viewer.session = l->session;
    chrome_unlock(l->chrome);
    tn_cdp_post(cdp, l->session, "Page.enable", NULL, NULL, NULL);
    tn_cdp_post(cdp, l->session, "Page.startScreencast", cast, NULL, NULL);
    return 0;
}

static int follow(struct live *l, struct tn_error *err)
{
    chrome_lock(l->chrome);
    struct tn_page *active = page_active(l->chrome);
    if (active)
        tn_page_ref(active);
    chrome_unlock(l->chrome);
    int r = 0;
    if (active && active != l->page) {
        leave_page(l);
        r = enter_page(l, active, err);
    }
    tn_page_unref(active);
    return r;
}

/* --- to the viewer -------------------------------------------------------------------------- */

static int say(struct live *l, enum tn_ws_kind kind, const void *bytes, size_t n)
{
    return tn_ws_send(&l->ws, kind, bytes, n, tn_deadline_in(SEND_SECONDS));
}

static int say_page(struct live *l)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(4 << 20);
    struct tn_jw w = tn_jw(&json);

    if (!l->page)
        return 0;
    tn_autofree char *url = tn_page_url(l->page), *title = tn_page_title(l->page);
    tn_jw_object(&w);
    tn_jw_kstr(&w, "type", "page");
    tn_jw_kstr(&w, "id", l->page->target);
    tn_jw_kstr(&w, "url", url);
    tn_jw_kstr(&w, "title", title);
    tn_jw_kint(&w, "width", CHROME_WIDTH);
    tn_jw_kint(&w, "height", CHROME_HEIGHT);
    tn_jw_object_end(&w);
    if (l->shown && strcmp(l->shown, tn_buf_str(&json)) == 0)
        return 0;
    int r = say(l, TN_WS_TEXT, tn_buf_str(&json), json.len);
    free(l->shown);
    l->shown = tn_buf_take(&json);
    return r;
}

static int say_picture(struct live *l)
{
    tn_autobuf struct tn_buf picture = TN_BUF_INIT(PICTURE_MAX);

    chrome_lock(l->chrome);
    tn_autofree char *data = TN_TAKE_PTR(l->data);
    size_t len = l->len;
    tn_autofree char *ack = tn_asprintf("{\"sessionId\":%lld}", (long long)l->number);
    chrome_unlock(l->chrome);
    if (!data)
        return 0;
    if (tn_base64_decode(&picture, data, len, NULL) == 0 &&
        say(l, TN_WS_BINARY, picture.data, picture.len) < 0)
        return -1;
    tn_cdp_post(l->chrome->cdp, l->session, "Page.screencastFrameAck", ack, NULL, NULL);
    return 0;
}

static int complain(struct live *l, const char *why)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(4096);
    struct tn_jw w = tn_jw(&json);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "type", "error");
    tn_jw_kstr(&w, "detail", why);
    tn_jw_object_end(&w);
    return say(l, TN_WS_TEXT, tn_buf_str(&json), json.len);
}

/* --- from the viewer ------------------------------------------------------------------------ */

static int obey(struct live *l, const struct tn_buf *text)
{
    tn_autojson struct tn_json *message = NULL;
    struct tn_error err = {0};

    tn_json_parse(tn_buf_str(text), text->len, &message, NULL);
    return browser_input(l->page, message, NULL, &err) < 0 ? complain(l, err.text) : 0;
}

/* The next message, if it is all there: 1, 0 when not yet, -1 when the viewer is gone. */
static int hear(struct live *l, struct tn_buf *message)
{
    tn_buf_reset(message);
    int kind = tn_ws_recv(&l->ws, message, tn_now(), NULL);
    if (kind < 0 || kind == TN_WS_CLOSE)
        return -1;
    if (kind == TN_WS_TEXT && obey(l, message) < 0)
        return -1;
    return kind != 0;
}

/* --- the connection ------------------------------------------------------------------------- */

static bool browser_gone(struct live *l)
{
    chrome_lock(l->chrome);
    bool gone = l->chrome->ended;
    chrome_unlock(l->chrome);
    return gone;
}

static void serve(struct live *l)
{
    tn_autobuf struct tn_buf message = TN_BUF_INIT(MESSAGE_MAX);
    int64_t heard = tn_now();
    struct tn_error err;

    for (;;) {
        struct pollfd fds[] = {{.fd = l->ws.fd, .events = POLLIN},
                               {.fd = l->wake, .events = POLLIN}};
        eventfd_t count;
        if (browser_gone(l)) {
            tn_ws_close(&l->ws, CLOSE_FAILED, "the browser is gone");
            return;
        }
        if (follow(l, &err) < 0) /* it has closed meanwhile: the next one will do */
            leave_page(l);
        if (say_page(l) < 0 || say_picture(l) < 0)
            return;
        int ready = tn_ws_buffered(&l->ws)
                        ? 1
                        : poll(fds, TN_COUNT(fds), tn_poll_ms(tn_deadline_in(TN_BEAT_SECONDS)));
        if (ready < 0 && errno != EINTR)
            return;
        if (fds[1].revents)
            eventfd_read(l->wake, &count);
        if (ready == 0 && say(l, TN_WS_PING, "", 0) < 0)
            return;
        if (fds[0].revents || tn_ws_buffered(&l->ws)) {
            heard = tn_now();
            if (hear(l, &message) < 0)
                return;
        }
        if (tn_now() - heard > (int64_t)(GONE_SECONDS * 1e9))
            return;
    }
}

static void unlink_viewer(struct live *l)
{
    chrome_lock(l->chrome);
    for (struct chrome_viewer **v = &l->chrome->viewers; *v; v = &(*v)->next) {
        if (*v == &l->viewer) {
            *v = l->viewer.next;
            break;
        }
    }
    chrome_unlock(l->chrome);
}

void browser_live(struct tn_http_exchange *x, void *ctx)
{
    struct live l = {.viewer = {.picture = note_picture, .changed = note_change}};

    l.max_width = tn_v1_query_number(x, "max_width", CHROME_WIDTH);
    if (l.max_width < 0)
        return;
    if (l.max_width < 16 || l.max_width > WIDTH_MAX) {
        tn_http_reply_detail(x, 400, "max_width must be from 16 to 4096");
        return;
    }
    l.chrome = browser_for_route(x, ctx);
    if (!l.chrome)
        return;
    l.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (l.wake < 0) {
        tn_http_reply_detail(x, 503, tn_strerror(errno));
    } else if (tn_ws_accept(x, &l.ws, MESSAGE_MAX) == 0) {
        chrome_lock(l.chrome);
        l.viewer.next = l.chrome->viewers;
        l.chrome->viewers = &l.viewer;
        chrome_unlock(l.chrome);
        serve(&l);
        leave_page(&l);
        unlink_viewer(&l);
        tn_ws_close(&l.ws, CLOSE_NORMAL, NULL);
        tn_ws_done(&l.ws);
    }
    free(l.shown);
    tn_close(l.wake);
    chrome_unref(l.chrome);
}
