/* /v1/browser: looking at the browser from outside. */
#include "base/base64.h"
#include "hand/browser/act.h"
#include "hand/browser/browser.h"

enum { PICTURE_MAX = 64 << 20, LIST_MAX = 16 << 20 };
#define PICTURE_SECONDS 20.0
#define TRY_SECONDS 2.0

struct tn_chrome *browser_for_route(struct tn_http_exchange *x, struct tn_hand *hand)
{
    struct tn_chrome *c = NULL;

    if (tn_plugin_enabled(hand, &tn_plugin_browser))
        c = browser_running(tn_plugin_state(hand, &tn_plugin_browser));
    if (!c)
        tn_http_reply_detail(x, 409, "the browser is not running: an action starts it");
    return c;
}

/* --- pictures ------------------------------------------------------------------------------- */

static const struct {
    const char *format, *type;
} formats[] = {
    {"png", "image/png"},
    {"jpeg", "image/jpeg"},
    {"webp", "image/webp"},
};

static int take_picture(struct tn_chrome *c, const char *format, struct tn_buf *out,
                        struct tn_error *err)
{
    tn_autojson struct tn_json *result = NULL;
    tn_autofree char *params = tn_asprintf("{\"format\":\"%s\"}", format);
    int64_t until = tn_deadline_in(PICTURE_SECONDS);
    size_t len = 0;
    int r;

    do { /* a page between two documents has nothing to show, and may never say so */
        int64_t soon = tn_deadline_in(TRY_SECONDS);
        tn_autopage struct tn_page *page = act_page(c, until, err);
        if (!page)
            return -1;
        r = tn_cdp_call(c->cdp, page->session, "Page.captureScreenshot", params,
                        soon < until ? soon : until, &result, err);
    } while (r < 0 && (err->code == TN_E_GONE || err->code == TN_E_TIMEOUT) && tn_now() < until);
    const char *data = tn_json_str(tn_json_get(result, "data"), &len);
    return r < 0 ? -1 : tn_base64_decode(out, data ? data : "", len, err);
}

static void get_screenshot(struct tn_http_exchange *x, void *ctx)
{
    const char *asked = tn_http_query(x, "format");
    tn_autobuf struct tn_buf picture = TN_BUF_INIT(PICTURE_MAX);
    struct tn_error err;
    size_t i = 0;

    while (i < TN_COUNT(formats) && asked && strcmp(asked, formats[i].format) != 0)
        i++;
    if (i == TN_COUNT(formats)) {
        tn_http_reply_detail(x, 400, "format must be png, jpeg or webp");
        return;
    }
    struct tn_chrome *c = browser_for_route(x, ctx);
    if (!c)
        return;
    if (take_picture(c, formats[i].format, &picture, &err) < 0) {
        tn_http_reply_error(x, &err);
    } else {
        tn_http_set_header(x, "Cache-Control", "no-store");
        tn_http_reply(x, 200, formats[i].type, picture.data, picture.len);
    }
    chrome_unref(c);
}

/* --- pages ---------------------------------------------------------------------------------- */

static void write_pages(struct tn_chrome *c, struct tn_jw *w)
{
    chrome_lock(c);
    const struct tn_page *active = page_active(c);
    for (size_t i = 0; i < c->page_count; i++) {
        const struct tn_page *page = c->pages[i];
        const struct chrome_frame *f = frame_main(page);
        tn_jw_object(w);
        tn_jw_kstr(w, "id", page->target);
        tn_jw_kstr(w, "url", f ? f->url : "");
        tn_jw_kstr(w, "title", page->title);
        tn_jw_kbool(w, "active", page == active);
        tn_jw_kbool(w, "crashed", page->crashed);
        tn_jw_object_end(w);
    }
    chrome_unlock(c);
}

static void get_pages(struct tn_http_exchange *x, void *ctx)
{
    struct tn_hand *hand = ctx;
    tn_autobuf struct tn_buf json = TN_BUF_INIT(LIST_MAX);
    struct tn_jw w = tn_jw(&json);
    struct tn_chrome *c = tn_plugin_enabled(hand, &tn_plugin_browser)
                              ? browser_running(tn_plugin_state(hand, &tn_plugin_browser))
                              : NULL;

    tn_jw_object(&w);
    tn_jw_kbool(&w, "running", c != NULL);
    tn_jw_key(&w, "pages");
    tn_jw_array(&w);
    if (c)
        write_pages(c, &w);
    tn_jw_array_end(&w);
    tn_jw_object_end(&w);
    chrome_unref(c);
    tn_http_reply_json(x, 200, &json);
}

const struct tn_route browser_routes[] = {
    {"GET", "/v1/browser/screenshot", get_screenshot, "A picture of the active page", 0},
    {"GET", "/v1/browser/pages", get_pages, "The open pages", 0},
    {"GET", "/v1/browser/live", browser_live, "WebSocket: the active page, live", 0},
    {0},
};
