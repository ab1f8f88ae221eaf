/* Pages as a whole: going somewhere, tabs, scrolling. */
#include <inttypes.h>

#include "hand/browser/act.h"
#include "hand/browser/wait.h"
#include "net/url.h"

enum { URL_MAX = 2 << 20 };
#define GOTO_SECONDS 100.0
#define RESPITE_NS (100 * TN_MILLI)

int act_noop(struct act *a)
{
    int64_t until = act_within(a, tn_json_double(a->values[0], 0) / 1000);

    chrome_lock(a->chrome);
    while (!a->page->closed && !a->page->crashed && chrome_wait(a->chrome, until))
        ;
    chrome_unlock(a->chrome);
    return 0;
}

int act_scroll(struct act *a)
{
    struct tn_error err;

    if (input_wheel(a->page, tn_json_double(a->values[0], 0), tn_json_double(a->values[1], 0),
                    act_within(a, ACT_SLACK_SECONDS), &err) < 0)
        return act_fail_from(a, &err);
    return 0;
}

/* --- pages that do not answer --------------------------------------------------------------- */

static bool answers(const struct act *a, double seconds)
{
    struct tn_error err;

    return tn_cdp_call(a->chrome->cdp, a->page->session, "Runtime.evaluate",
                       "{\"expression\":\"0\"}", act_within(a, seconds), NULL, &err) == 0 ||
           err.code != TN_E_TIMEOUT;
}

/* Nobody waits any more: that there was no answer says nothing. */
static bool is_late(struct act *a)
{
    chrome_lock(a->chrome);
    bool late = a->chrome->hurried || tn_now() >= a->deadline;
    chrome_unlock(a->chrome);
    return late;
}

/* Ends the script at work, which also a busy process hears.  True when the page answers then, and
 * still does a moment later: a timer may have started it again. */
static bool end_script(struct act *a)
{
    int64_t moment = tn_now() + RESPITE_NS;

    tn_cdp_post(a->chrome->cdp, a->page->session, "Runtime.terminateExecution", NULL, NULL, NULL);
    if (!answers(a, ACT_SLACK_SECONDS))
        return false;
    chrome_lock(a->chrome);
    while (!a->page->closed && !a->page->crashed && chrome_wait(a->chrome, moment))
        ;
    chrome_unlock(a->chrome);
    return answers(a, ACT_SLACK_SECONDS);
}

static void close_tab(struct tn_chrome *c, const struct tn_page *page)
{
    tn_autofree char *params = tn_asprintf("{\"targetId\":\"%s\"}", page->target);
    tn_cdp_post(c->cdp, NULL, "Target.closeTarget", params, NULL, NULL);
}

/* Before a navigation.  The next document of a site lives in the same process, which has no time
 * for it as long as a script runs there: a page whose scripts do not end even so gives its place to
 * a new one, in a process of its own.  -1: failed. */
static int make_way(struct act *a, int64_t until)
{
    struct tn_error err;

    if (answers(a, ACT_SLACK_SECONDS) || is_late(a) || end_script(a) || is_late(a))
        return 0;
    struct tn_page *fresh = act_open_tab(a->chrome, until, &err);
    if (!fresh)
        return act_fail_from(a, &err);
    close_tab(a->chrome, a->page);
    chrome_lock(a->chrome);
    while (!a->page->closed && chrome_wait(a->chrome, until))
        ;
    chrome_unlock(a->chrome);
    tn_page_unref(a->page);
    a->page = fresh;
    return 0;
}

/* --- navigation ----------------------------------------------------------------------------- */

static int navigation_timeout(struct act *a, const char *url, double seconds)
{
    return act_fail(a,
                    "TimeoutError: %s: Timeout %dms exceeded.\nCall log:\n"
                    "  - navigating to \"%s\", waiting until \"load\"",
                    a->operation, (int)(seconds * 1000), url);
}

static double seconds_left(const struct act *a)
{
    double left = a->deadline == TN_NEVER ? GOTO_SECONDS : (double)(a->deadline - tn_now()) / 1e9;
    return left < GOTO_SECONDS ? left : GOTO_SECONDS;
}

/* A path of this machine becomes a URL; everything else is left to the browser to judge. */
static void put_url(struct tn_buf *out, const char *url)
{
    if (url[0] == '/') {
        tn_buf_puts(out, "file://");
        tn_url_encode(out, url, "/:@!$&'()*+,;=");
    } else {
        tn_buf_puts(out, url);
    }
}

static int navigate(struct act *a, const char *url, double seconds, int64_t until)
{
    tn_autobuf struct tn_buf params = TN_BUF_INIT(2 * URL_MAX);
    tn_autojson struct tn_json *result = NULL;
    struct tn_jw w = tn_jw(&params);
    struct tn_error err;
    int64_t commits = wait_commits(a->page);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "url", url);
    tn_jw_object_end(&w);
    if (tn_cdp_call(a->chrome->cdp, a->page->session, "Page.navigate", tn_buf_str(&params), until,
                    &result, &err) < 0) {
        if (err.code == TN_E_TIMEOUT)
            return navigation_timeout(a, url, seconds);
        if (err.code == TN_E_INVALID)
            return act_fail(a, "Error: %s: Protocol error (Page.navigate): %s", a->operation,
                            strchr(err.text, ' ') ? strchr(err.text, ' ') + 1 : err.text);
        return act_fail_from(a, &err);
    }
    if (tn_json_bool(tn_json_get(result, "isDownload"), false))
        return act_fail(a, "Error: %s: Download is starting", a->operation);
    if (tn_json_has(result, "errorText"))
        return act_fail(a,
                        "Error: %s: %s at %s\nCall log:\n  - navigating to \"%s\", waiting until "
                        "\"load\"",
                        a->operation, tn_json_get_str(result, "errorText", ""), url, url);
    if (!tn_json_has(result, "loaderId")) /* another place in the same document */
        return 0;
    if (wait_loaded(a->page, commits, until, &err) == 0)
        return 0;
    return err.code == TN_E_TIMEOUT ? navigation_timeout(a, url, seconds) : act_fail_from(a, &err);
}

int act_goto(struct act *a)
{
    tn_autobuf struct tn_buf url = TN_BUF_INIT(URL_MAX);
    double seconds = seconds_left(a);
    int64_t until = tn_deadline_in(seconds);

    put_url(&url, act_text(a, 0));
    return make_way(a, until) < 0 ? -1 : navigate(a, tn_buf_str(&url), seconds, until);
}

/* To another entry of the history; when there is none nothing happens. */
static int go(struct act *a, int64_t by)
{
    tn_autojson struct tn_json *history = NULL;
    struct tn_cdp *cdp = a->chrome->cdp;
    struct tn_error err;
    double seconds = seconds_left(a);
    int64_t until = tn_deadline_in(seconds), commits = wait_commits(a->page);

    if (tn_cdp_call(cdp, a->page->session, "Page.getNavigationHistory", NULL, until, &history,
                    &err) < 0)
        return act_fail_from(a, &err);
    int64_t index = tn_json_int(tn_json_get(history, "currentIndex"), 0) + by;
    const struct tn_json *entries = tn_json_get(history, "entries");
    if (index < 0 || (size_t)index >= tn_json_count(entries))
        return 0;
    const struct tn_json *entry = tn_json_at(entries, (size_t)index);
    const char *url = tn_json_get_str(entry, "url", "");
    struct tn_page *before = a->page;
    if (make_way(a, until) < 0)
        return -1;
    if (a->page != before) /* which has no history */
        return navigate(a, url, seconds, until);
    tn_autofree char *params =
        tn_asprintf("{\"entryId\":%" PRId64 "}", tn_json_int(tn_json_get(entry, "id"), 0));
    if (tn_cdp_call(cdp, a->page->session, "Page.navigateToHistoryEntry", params, until, NULL,
                    &err) < 0)
        return act_fail_from(a, &err);
    if (wait_loaded(a->page, commits, until, &err) == 0)
        return 0;
    return err.code == TN_E_TIMEOUT ? navigation_timeout(a, url, seconds) : act_fail_from(a, &err);
}

int act_go_back(struct act *a)
{
    return go(a, -1);
}

int act_go_forward(struct act *a)
{
    return go(a, 1);
}

/* --- tabs ----------------------------------------------------------------------------------- */

/* The page of a target once its frames are known; the caller unrefs it. */
static struct tn_page *await_page(struct tn_chrome *c, const char *target, int64_t deadline,
                                  struct tn_error *err)
{
    struct tn_page *page = NULL;

    chrome_lock(c);
    do {
        page = page_by_target(c, target);
        page = page && page->known ? tn_page_ref(page) : NULL;
    } while (!page && chrome_wait(c, deadline));
    chrome_unlock(c);
    if (!page)
        tn_fail(err, c->ended ? TN_E_PEER : TN_E_TIMEOUT, "the new tab does not show up");
    return page;
}

static void make_active(struct tn_page *page)
{
    chrome_lock(page->chrome);
    page->active = ++page->chrome->counter;
    chrome_unlock(page->chrome);
}

struct tn_page *act_open_tab(struct tn_chrome *c, int64_t deadline, struct tn_error *err)
{
    tn_autojson struct tn_json *result = NULL;

    if (tn_cdp_call(c->cdp, NULL, "Target.createTarget", "{\"url\":\"about:blank\"}", deadline,
                    &result, err) < 0)
        return NULL;
    struct tn_page *page = await_page(c, tn_json_get_str(result, "targetId", ""), deadline, err);
    if (page)
        make_active(page);
    return page;
}

static void close_crashed(struct tn_chrome *c)
{
    chrome_lock(c);
    for (size_t i = 0; i < c->page_count; i++) {
        struct tn_page *page = c->pages[i];
        if (!page->crashed || page->discarded)
            continue;
        page->discarded = true;
        close_tab(c, page);
    }
    chrome_unlock(c);
}

struct tn_page *act_page(struct tn_chrome *c, int64_t deadline, struct tn_error *err)
{
    chrome_lock(c);
    struct tn_page *page = page_active(c);
    if (page)
        tn_page_ref(page);
    chrome_unlock(c);
    if (!page)
        page = act_open_tab(c, deadline, err);
    if (page)
        close_crashed(c); /* only now: the browser ends with its last page */
    return page;
}

static int focus_page(struct act *a, struct tn_page *page)
{
    struct tn_error err;

    if (tn_cdp_call(a->chrome->cdp, page->session, "Page.bringToFront", NULL,
                    act_within(a, ACT_SLACK_SECONDS), NULL, &err) < 0)
        return act_fail_from(a, &err);
    make_active(page);
    return 0;
}

int act_new_tab(struct act *a)
{
    struct tn_error err;
    tn_autopage struct tn_page *page = act_open_tab(a->chrome, a->deadline, &err);

    return page ? focus_page(a, page) : act_fail_from(a, &err);
}

int act_tab_close(struct act *a)
{
    tn_autofree char *params = tn_asprintf("{\"targetId\":\"%s\"}", a->page->target);
    int64_t until = act_within(a, ACT_SLACK_SECONDS);
    struct tn_page *last = NULL;
    struct tn_error err;

    /* The browser ends with its last page: the next one must be there before. */
    chrome_lock(a->chrome);
    bool only = a->chrome->page_count == 1;
    chrome_unlock(a->chrome);
    tn_autopage struct tn_page *fresh = only ? act_open_tab(a->chrome, a->deadline, &err) : NULL;
    if ((only && !fresh) ||
        tn_cdp_call(a->chrome->cdp, NULL, "Target.closeTarget", params, until, NULL, &err) < 0)
        return act_fail_from(a, &err);
    chrome_lock(a->chrome);
    while (!a->page->closed && chrome_wait(a->chrome, until))
        ;
    if (a->chrome->page_count)
        last = tn_page_ref(a->chrome->pages[a->chrome->page_count - 1]);
    chrome_unlock(a->chrome);
    int r = last ? focus_page(a, last) : 0;
    tn_page_unref(last);
    return r;
}

int act_tab_focus(struct act *a)
{
    int64_t index = tn_json_int(a->values[0], 0);

    chrome_lock(a->chrome);
    int64_t count = (int64_t)a->chrome->page_count;
    index += index < 0 ? count : 0; /* as Python counts */
    bool exists = index >= 0 && index < count;
    tn_autopage struct tn_page *page = exists ? tn_page_ref(a->chrome->pages[index]) : NULL;
    chrome_unlock(a->chrome);
    return page ? focus_page(a, page) : act_fail(a, "IndexError: list index out of range");
}
