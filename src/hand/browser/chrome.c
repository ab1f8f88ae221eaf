#include "hand/browser/chrome.h"

#include <inttypes.h>

#include "base/log.h"
#include "base/thread.h"
#include "hand/browser/download.h"
#include "hand/browser/process.h"

/* How often its memory is looked at. */
#define WATCH_SECONDS 2.0

/* --- waiting -------------------------------------------------------------------------------- */

void chrome_lock(struct tn_chrome *c)
{
    pthread_mutex_lock(&c->lock);
}

void chrome_unlock(struct tn_chrome *c)
{
    pthread_mutex_unlock(&c->lock);
}

static bool wait_patiently(struct tn_chrome *c, int64_t deadline)
{
    struct timespec until = tn_timespec(deadline);

    if (c->ended)
        return false;
    if (deadline == TN_NEVER)
        pthread_cond_wait(&c->changed, &c->lock);
    else if (pthread_cond_timedwait(&c->changed, &c->lock, &until) == ETIMEDOUT)
        return false;
    return !c->ended;
}

bool chrome_wait(struct tn_chrome *c, int64_t deadline)
{
    return !c->hurried && wait_patiently(c, deadline);
}

void chrome_changed(struct tn_chrome *c)
{
    pthread_cond_broadcast(&c->changed);
    for (struct chrome_viewer *v = c->viewers; v; v = v->next)
        v->changed(v);
}

void chrome_hurry(struct tn_chrome *c, bool hurried)
{
    chrome_lock(c);
    c->hurried = hurried;
    pthread_cond_broadcast(&c->changed);
    chrome_unlock(c);
    tn_cdp_hurry(c->cdp, hurried);
}

/* --- its end -------------------------------------------------------------------------------- */

static void connection_ended(void *ctx)
{
    struct tn_chrome *c = ctx;

    chrome_lock(c);
    c->ended = true;
    chrome_changed(c);
    chrome_unlock(c);
}

void chrome_end(struct tn_chrome *c, double grace)
{
    chrome_lock(c);
    c->ended = true;
    chrome_changed(c);
    chrome_unlock(c);
    tn_cdp_break(c->cdp);
    tn_helper_end(c->helper, grace);
}

bool chrome_answers(struct tn_chrome *c, int64_t deadline)
{
    return tn_cdp_call(c->cdp, NULL, "Browser.getVersion", NULL, deadline, NULL, NULL) == 0;
}

void chrome_give_up(struct tn_chrome *c, const char *why)
{
    chrome_lock(c);
    if (!c->why && !c->ended)
        c->why = tn_strdup(why);
    chrome_unlock(c);
    chrome_end(c, 0);
}

void chrome_obituary(struct tn_chrome *c, struct tn_buf *out)
{
    chrome_lock(c);
    tn_autofree char *why = tn_strdup_or_null(c->why);
    chrome_unlock(c);
    tn_buf_puts(out, "The browser ");
    if (why) {
        tn_buf_puts(out, why);
    } else {
        /* End of file comes a moment before the end of the process. */
        tn_helper_wait(c->helper, tn_deadline_in(0.5), NULL);
        tn_helper_obituary(c->helper, out);
    }
}

/* --- its memory ----------------------------------------------------------------------------- */

static void *watch_memory(void *arg)
{
    struct tn_chrome *c = arg;

    chrome_lock(c);
    while (!c->ended) {
        int64_t next = tn_deadline_in(WATCH_SECONDS);
        while (!c->ended && tn_now() < next)
            wait_patiently(c, next);
        if (c->ended)
            break;
        chrome_unlock(c);
        int64_t used = tn_helper_memory(c->helper);
        chrome_lock(c);
        if (used <= c->memory_max)
            continue;
        chrome_unlock(c);
        tn_autofree char *why =
            tn_asprintf("was ended: it used %" PRId64 " MB, more than its limit of %" PRId64
                        " MB (TENDON_BROWSER_MEMORY)",
                        used >> 20, c->memory_max >> 20);
        chrome_give_up(c, why);
        return NULL;
    }
    chrome_unlock(c);
    return NULL;
}

/* --- life ----------------------------------------------------------------------------------- */

struct tn_chrome *chrome_ref(struct tn_chrome *c)
{
    __atomic_add_fetch(&c->refs, 1, __ATOMIC_RELAXED);
    return c;
}

static void drop_all(struct tn_chrome *c)
{
    while (c->page_count)
        page_close(c, c->pages[0]);
    while (c->session_count)
        chrome_drop_session(c, c->sessions[0].id);
    for (size_t i = 0; i < c->download_count; i++) {
        free(c->downloads[i].guid);
        free(c->downloads[i].name);
    }
}

void chrome_unref(struct tn_chrome *c)
{
    if (!c || __atomic_sub_fetch(&c->refs, 1, __ATOMIC_ACQ_REL))
        return;
    chrome_end(c, 0);
    if (c->watching)
        pthread_join(c->watcher, NULL);
    tn_cdp_free(c->cdp);
    drop_all(c);
    tn_helper_free(c->helper);
    free(c->pages);
    free(c->sessions);
    free(c->downloads);
    free(c->why);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

/* Everything that is set for the browser as a whole. */
static int set_up(struct tn_chrome *c, int64_t deadline, struct tn_error *err)
{
    tn_autofree char *directory = download_directory(c->hand);
    tn_autobuf struct tn_buf downloads = TN_BUF_INIT(16 << 10);
    struct tn_jw w = tn_jw(&downloads);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "behavior", "allowAndName");
    tn_jw_kstr(&w, "downloadPath", directory);
    tn_jw_kbool(&w, "eventsEnabled", true);
    tn_jw_object_end(&w);
    struct tn_cdp_command commands[] = {
        {.method = "Browser.setDownloadBehavior", .params_json = tn_buf_str(&downloads)},
        {.method = "Target.setAutoAttach", .params_json = CHROME_AUTO_ATTACH},
    };
    int r = tn_cdp_call_all(c->cdp, commands, TN_COUNT(commands), deadline, err);
    tn_cdp_commands_done(commands, TN_COUNT(commands));
    return r;
}

static int await_first_page(struct tn_chrome *c, int64_t deadline, struct tn_error *err)
{
    bool known = false;

    chrome_lock(c);
    do {
        known = c->page_count && c->pages[0]->known;
    } while (!known && chrome_wait(c, deadline));
    chrome_unlock(c);
    return known ? 0 : tn_fail(err, TN_E_TIMEOUT, "the browser shows no page");
}

static struct tn_chrome *launch(struct tn_hand *hand, const char *program, bool sandbox,
                                int64_t deadline, struct tn_error *err)
{
    tn_autofree char *profile = tn_state_private(hand->state, "browser", hand->user.account.uid,
                                                 hand->user.account.gid, err);
    struct tn_helper *helper =
        profile ? browser_launch(hand, program, profile, sandbox, err) : NULL;
    struct tn_chrome *c = NULL;

    if (!helper)
        return NULL;
    c = tn_calloc(1, sizeof *c);
    *c = (struct tn_chrome){
        .refs = 1,
        .hand = hand,
        .helper = helper,
        .sandboxed = sandbox,
        .memory_max = browser_memory_limit(),
    };
    pthread_mutex_init(&c->lock, NULL);
    tn_cond_init(&c->changed);
    chrome_lock(c);
    c->cdp = tn_cdp_new(helper, chrome_events, connection_ended, c, err);
    chrome_unlock(c);
    if (!c->cdp) {
        tn_helper_free(helper);
        free(c);
        return NULL;
    }
    if (set_up(c, deadline, err) < 0 || await_first_page(c, deadline, err) < 0) {
        tn_autobuf struct tn_buf words = TN_BUF_INIT(512);
        chrome_obituary(c, &words);
        if (err->code == TN_E_PEER)
            tn_fail(err, TN_E_PEER, "%s", tn_buf_str(&words));
        chrome_unref(c);
        return NULL;
    }
    c->watching = c->memory_max > 0 && tn_thread_start(&c->watcher, watch_memory, c) == 0;
    return c;
}

struct tn_chrome *chrome_start(struct tn_hand *hand, int64_t deadline, struct tn_error *err)
{
    tn_autofree char *program = browser_find(err);
    bool sandbox = browser_sandbox_possible(hand);
    struct tn_error reason;

    if (!program || download_prepare(hand, err) < 0)
        return NULL;
    struct tn_chrome *c = launch(hand, program, sandbox, deadline, &reason);
    if (!c && sandbox && reason.code == TN_E_PEER) {
        tn_log(TN_LOG_WARN, "the browser does not start with its own sandbox, now without",
               tn_log_str("why", reason.text));
        c = launch(hand, program, false, deadline, &reason);
    }
    if (!c && err)
        *err = reason;
    return c;
}
