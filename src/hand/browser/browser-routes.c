/* /v1/browser: looking at the browser from outside. */
#include "base/base64.h"
#include "hand/browser/act.h"
#include "hand/browser/browser.h"
#include "hand/v1/v1.h"

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

/* A part of the window, in its pixels. */
struct part {
    int64_t x, y, width, height, percent, quality;
};

/* -1: answered. */
static int read_part(struct tn_http_exchange *x, struct part *out)
{
    const struct {
        const char *name;
        int64_t *value;
        int64_t least, most;
    } rows[] = {
        {"x", &out->x, 0, CHROME_WIDTH - 1},     {"y", &out->y, 0, CHROME_HEIGHT - 1},
        {"width", &out->width, 1, CHROME_WIDTH}, {"height", &out->height, 1, CHROME_HEIGHT},
        {"percent", &out->percent, 1, 100},      {"quality", &out->quality, 1, 100},
    };

    *out = (struct part){0, 0, CHROME_WIDTH, CHROME_HEIGHT, 100, 80};
    for (size_t i = 0; i < TN_COUNT(rows); i++) {
        char detail[80];
        int64_t n = tn_v1_query_number(x, rows[i].name, *rows[i].value);
        if (n < 0)
            return -1;
        snprintf(detail, sizeof detail, "%s must be from %d to %d", rows[i].name,
                 (int)rows[i].least, (int)rows[i].most);
        if (n < rows[i].least || n > rows[i].most) {
            tn_http_reply_detail(x, 400, detail);
            return -1;
        }
        *rows[i].value = n;
    }
    return 0;
}

/* The browser counts from the top of the document. */
static char *picture_wish(struct tn_chrome *c, const struct tn_page *page, const char *format,
                          const struct part *part, int64_t deadline)
{
    tn_autojson struct tn_json *metrics = NULL;
    const struct part whole = {0, 0, CHROME_WIDTH, CHROME_HEIGHT, 100, part->quality};

    if (memcmp(part, &whole, sizeof whole) == 0)
        return tn_asprintf("{\"format\":\"%s\",\"quality\":%d}", format, (int)part->quality);
    tn_cdp_call(c->cdp, page->session, "Page.getLayoutMetrics", NULL, deadline, &metrics, NULL);
    const struct tn_json *view = tn_json_get(metrics, "cssVisualViewport");
    return tn_asprintf("{\"format\":\"%s\",\"quality\":%d,\"clip\":{\"x\":%.2f,\"y\":%.2f,"
                       "\"width\":%d,\"height\":%d,\"scale\":%.2f}}",
                       format, (int)part->quality,
                       (double)part->x + tn_json_double(tn_json_get(view, "pageX"), 0),
                       (double)part->y + tn_json_double(tn_json_get(view, "pageY"), 0),
                       (int)part->width, (int)part->height, (double)part->percent / 100);
}

static int take_picture(struct tn_chrome *c, const char *format, const struct part *part,
                        struct tn_buf *out, struct tn_error *err)
{
    tn_autojson struct tn_json *result = NULL;
    int64_t until = tn_deadline_in(PICTURE_SECONDS);
    size_t len = 0;
    int r;

    do { /* a page between two documents has nothing to show, and may never say so */
        int64_t soon = tn_deadline_in(TRY_SECONDS);
        tn_autopage struct tn_page *page = act_page(c, until, err);
        if (!page)
            return -1;
        tn_autofree char *params = picture_wish(c, page, format, part, soon < until ? soon : until);
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
    struct part part;
    size_t i = 0;

    while (i < TN_COUNT(formats) && asked && strcmp(asked, formats[i].format) != 0)
        i++;
    if (i == TN_COUNT(formats)) {
        tn_http_reply_detail(x, 400, "format must be png, jpeg or webp");
        return;
    }
    struct tn_chrome *c = read_part(x, &part) < 0 ? NULL : browser_for_route(x, ctx);
    if (!c)
        return;
    if (take_picture(c, formats[i].format, &part, &picture, &err) < 0) {
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
    {"POST", "/v1/browser/input", browser_post_input, "mouse and keyboard of the active page", 0},
    {"GET", "/v1/browser/live", browser_live, "WebSocket: the active page, live", 0},
    {0},
};
