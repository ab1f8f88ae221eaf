#include "hand/browser/browser.h"

#include "base/log.h"
#include "base/thread.h"
#include "hand/browser/download.h"
#include "hand/browser/process.h"

#define START_SECONDS 60.0
#define END_SECONDS 2.0
/* A browser that says nothing for so long has hung. */
#define ANSWER_SECONDS 5.0

/* --- the one that runs ---------------------------------------------------------------------- */

/* With the lock: takes a dead browser out, to be buried by the caller. */
static struct tn_chrome *take_dead(struct browser *b)
{
    if (!b->chrome)
        return NULL;
    chrome_lock(b->chrome);
    bool ended = b->chrome->ended;
    chrome_unlock(b->chrome);
    return ended ? TN_TAKE_PTR(b->chrome) : NULL;
}

static void bury(struct browser *b, struct tn_chrome *dead)
{
    tn_autobuf struct tn_buf words = TN_BUF_INIT(8192);

    if (!dead)
        return;
    chrome_obituary(dead, &words);
    tn_log(TN_LOG_WARN, "the browser is gone", tn_log_str("how", tn_buf_str(&words)));
    pthread_mutex_lock(&b->lock);
    tn_backoff_bad(&b->backoff);
    free(b->news);
    b->news = tn_buf_take(&words);
    pthread_mutex_unlock(&b->lock);
    chrome_unref(dead);
}

struct tn_chrome *browser_running(struct browser *b)
{
    pthread_mutex_lock(&b->lock);
    struct tn_chrome *dead = take_dead(b);
    struct tn_chrome *c = b->chrome ? chrome_ref(b->chrome) : NULL;
    pthread_mutex_unlock(&b->lock);
    bury(b, dead);
    return c;
}

/* Starts one; only one thread is here at a time. */
static struct tn_chrome *start(struct browser *b, int64_t deadline, struct tn_error *err)
{
    int64_t until = tn_deadline_in(START_SECONDS);

    pthread_mutex_lock(&b->lock);
    struct tn_backoff backoff = b->backoff;
    pthread_mutex_unlock(&b->lock);
    if (tn_backoff_wait(&backoff, b->hand->ending, deadline, err) < 0)
        return NULL;
    struct tn_chrome *c = chrome_start(b->hand, until < deadline ? until : deadline, err);
    pthread_mutex_lock(&b->lock);
    if (c) {
        tn_backoff_good(&b->backoff);
        b->starts++;
        b->held = (struct browser_held){0}; /* the one before was told to press, not this one */
        b->chrome = chrome_ref(c);
    } else if (err->code != TN_E_NOT_FOUND) { /* to look again costs nothing */
        tn_backoff_bad(&b->backoff);
    }
    pthread_mutex_unlock(&b->lock);
    return c;
}

/* Waits, with the lock, while *flag holds; then sets it. */
static int take_flag(struct browser *b, bool *flag, int64_t deadline, struct tn_error *err)
{
    struct timespec until = tn_timespec(deadline);

    while (*flag) {
        if (pthread_cond_timedwait(&b->changed, &b->lock, &until) == ETIMEDOUT && *flag)
            return tn_fail(err, TN_E_TIMEOUT, "Browser environment took too long to respond.");
    }
    *flag = true;
    return 0;
}

static void drop_flag(struct browser *b, bool *flag)
{
    pthread_mutex_lock(&b->lock);
    *flag = false;
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->lock);
}

struct tn_chrome *browser_use(struct browser *b, int64_t deadline, struct tn_error *err)
{
    pthread_mutex_lock(&b->lock);
    int r = take_flag(b, &b->starting, deadline, err);
    pthread_mutex_unlock(&b->lock);
    if (r < 0)
        return NULL;
    struct tn_chrome *c = browser_running(b);
    if (c && !chrome_answers(c, tn_deadline_in(ANSWER_SECONDS))) {
        chrome_give_up(c, "was ended: it did not answer any more");
        chrome_unref(c);
        c = browser_running(b); /* buries it */
    }
    if (!c)
        c = start(b, deadline, err);
    drop_flag(b, &b->starting);
    return c;
}

char *browser_news(struct browser *b)
{
    pthread_mutex_lock(&b->lock);
    char *news = TN_TAKE_PTR(b->news);
    pthread_mutex_unlock(&b->lock);
    return news;
}

int browser_begin(struct browser *b, int64_t deadline, struct tn_error *err)
{
    pthread_mutex_lock(&b->lock);
    int r = take_flag(b, &b->busy, deadline, err);
    pthread_mutex_unlock(&b->lock);
    return r;
}

void browser_finish(struct browser *b)
{
    pthread_mutex_lock(&b->lock);
    if (b->chrome)
        chrome_hurry(b->chrome, false);
    pthread_mutex_unlock(&b->lock);
    drop_flag(b, &b->busy);
}

/* --- the row -------------------------------------------------------------------------------- */

static void *browser_open(struct tn_hand *hand)
{
    struct browser *b = tn_calloc(1, sizeof *b);
    tn_autofree char *program = hand->options.enable_browser ? browser_find(NULL) : NULL;

    b->hand = hand;
    pthread_mutex_init(&b->lock, NULL);
    tn_cond_init(&b->changed);
    if (program && hand->options.port) /* OpenHands expects the directory from the start */
        download_prepare(hand, NULL);
    return b;
}

static void browser_stop(void *state)
{
    struct browser *b = state;

    pthread_mutex_lock(&b->lock);
    struct tn_chrome *c = TN_TAKE_PTR(b->chrome);
    pthread_mutex_unlock(&b->lock);
    if (c)
        chrome_end(c, END_SECONDS);
    chrome_unref(c);
}

static void browser_close(void *state)
{
    struct browser *b = state;

    browser_stop(b);
    free(b->news);
    pthread_cond_destroy(&b->changed);
    pthread_mutex_destroy(&b->lock);
    free(b);
}

static void browser_interrupt(void *state)
{
    struct browser *b = state;

    pthread_mutex_lock(&b->lock);
    struct tn_chrome *c = b->chrome ? chrome_ref(b->chrome) : NULL;
    pthread_mutex_unlock(&b->lock);
    if (c)
        chrome_end(c, 0);
    chrome_unref(c);
}

static void browser_cancel(void *state)
{
    struct browser *b = state;

    pthread_mutex_lock(&b->lock);
    if (b->busy && b->chrome)
        chrome_hurry(b->chrome, true);
    pthread_mutex_unlock(&b->lock);
}

static int browser_probe(void *state, struct tn_buf *found, struct tn_error *err)
{
    tn_autofree char *program = browser_find(err);
    return program ? tn_buf_puts(found, program) : -1;
}

static int browser_start(void *state, int64_t deadline, struct tn_error *err)
{
    struct tn_error why = {0};
    struct tn_chrome *c = browser_use(state, deadline, &why);

    if (!c && why.code == TN_E_NOT_FOUND)
        tn_plugin_lacks(&tn_plugin_browser, &why);
    if (!c && err)
        *err = why;
    if (!c)
        return -1;
    chrome_unref(c);
    return 0;
}

static void browser_status(void *state, struct tn_jw *w)
{
    struct browser *b = state;
    struct tn_chrome *c = browser_running(b);

    tn_jw_kbool(w, "running", c != NULL);
    tn_jw_key(w, "pids");
    tn_jw_array(w);
    if (c)
        tn_jw_int(w, tn_helper_pid(c->helper));
    tn_jw_array_end(w);
    tn_jw_kint(w, "memory", c ? tn_helper_memory(c->helper) : 0);
    pthread_mutex_lock(&b->lock);
    tn_jw_kint(w, "restarts", b->starts > 1 ? b->starts - 1 : 0);
    pthread_mutex_unlock(&b->lock);
    tn_jw_kint(w, "memory_limit", browser_memory_limit());
    if (c) {
        tn_jw_kbool(w, "sandboxed", c->sandboxed);
        chrome_lock(c);
        tn_jw_kint(w, "pages", (int64_t)c->page_count);
        chrome_unlock(c);
    }
    chrome_unref(c);
}

static const struct tn_plugin_action actions[] = {
    {TN_ACTION_BROWSE, browser_browse},
    {TN_ACTION_BROWSE_INTERACTIVE, browser_browse},
    {0},
};

const struct tn_plugin tn_plugin_browser = {
    .name = "browser",
    .help = "web pages in Chromium (browse, browse_interactive)",
    .install = "apt-get install chromium",
    .flags = TN_PLUGIN_BROWSER,
    .not_asked = "Browser functionality is not supported or disabled.",
    .open = browser_open,
    .close = browser_close,
    .interrupt = browser_interrupt,
    .cancel = browser_cancel,
    .probe = browser_probe,
    .start = browser_start,
    .stop = browser_stop,
    .status = browser_status,
    .actions = actions,
    .routes = browser_routes,
};
