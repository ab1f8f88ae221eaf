#include "hand/browser/wait.h"

/* Longest waits, in seconds.  A link that the page only announced may come to nothing. */
#define ASKED_SECONDS 0.3
#define MOVE_SECONDS 5.0
#define READY_SECONDS 3.0
#define NETWORK_SECONDS 2.0
#define QUIET_SECONDS 0.5
#define LOAD_SECONDS 10.0
/* How long nothing may change before a document that did change counts as quiet. */
#define STILL_MS 40

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

uint64_t wait_moment(struct tn_chrome *c)
{
    chrome_lock(c);
    uint64_t moment = c->counter;
    chrome_unlock(c);
    return moment;
}

/* --- predicates, with the lock -------------------------------------------------------------- */

static bool is_over(const struct tn_page *page)
{
    return page->closed || page->crashed || page->chrome->ended;
}

static bool is_unknown(const struct tn_page *page, uint64_t moment)
{
    return !page->known;
}

static bool any_asked(const struct tn_page *page, uint64_t moment)
{
    for (size_t i = 0; i < page->frame_count; i++) {
        if (page->frames[i]->asked && !page->frames[i]->moving)
            return true;
    }
    return false;
}

static bool any_moving(const struct tn_page *page, uint64_t moment)
{
    for (size_t i = 0; i < page->frame_count; i++) {
        if (page->frames[i]->moving)
            return true;
    }
    return false;
}

static bool any_unready(const struct tn_page *page, uint64_t moment)
{
    for (size_t i = 0; i < page->frame_count; i++) {
        const struct chrome_frame *f = page->frames[i];
        if (!f->ready && f->loader[0] && f->commits)
            return true;
    }
    return false;
}

static bool any_request(const struct tn_page *page, uint64_t moment)
{
    for (size_t i = 0; i < page->request_count; i++) {
        if (page->requests[i].number > moment)
            return true;
    }
    return false;
}

/* --- after an action ------------------------------------------------------------------------ */

typedef bool (*holds_fn)(const struct tn_page *page, uint64_t moment);

static const struct {
    holds_fn holds;
    double seconds;
} stages[] = {
    {is_unknown, READY_SECONDS},  {any_asked, ASKED_SECONDS},     {any_moving, MOVE_SECONDS},
    {any_unready, READY_SECONDS}, {any_request, NETWORK_SECONDS},
};

/* True when it had to wait at all. */
static bool pass_stages(struct tn_page *page, uint64_t moment, int64_t deadline)
{
    bool waited = false;

    chrome_lock(page->chrome);
    for (size_t i = 0; i < TN_COUNT(stages); i++) {
        int64_t until = earlier(deadline, tn_deadline_in(stages[i].seconds));
        while (!is_over(page) && stages[i].holds(page, moment)) {
            waited = true;
            if (!chrome_wait(page->chrome, until))
                break;
        }
    }
    chrome_unlock(page->chrome);
    return waited;
}

/* The main frame's session and context; false when scripts cannot run there. */
static bool main_context(struct tn_page *page, char **session, int64_t *context)
{
    chrome_lock(page->chrome);
    const struct chrome_frame *f = is_over(page) ? NULL : frame_main(page);
    bool usable = f && f->context && !f->still;
    if (usable) {
        *session = tn_strdup(f->session);
        *context = f->context;
    }
    chrome_unlock(page->chrome);
    return usable;
}

static void quiet(struct tn_page *page, int64_t deadline)
{
    tn_autofree char *session = NULL, *arguments = NULL;
    int64_t context = 0;

    if (!main_context(page, &session, &context))
        return;
    arguments = tn_asprintf("[%d,%d]", STILL_MS, (int)(QUIET_SECONDS * 1000));
    tn_cdp_function(page->chrome->cdp, session, context,
                    "(still, ms) => tendonPage.quiet(still, ms)", arguments,
                    earlier(deadline, tn_deadline_in(2 * QUIET_SECONDS)), NULL, NULL);
}

void wait_arrived(struct tn_page *page, uint64_t moment, int64_t deadline)
{
    pass_stages(page, moment, deadline);
}

/* The browser's own process has told of everything that pages asked of it before: navigations,
 * files. */
static void hear_browser(struct tn_chrome *c, int64_t deadline)
{
    struct tn_json *answer = NULL;

    if (tn_cdp_call(c->cdp, NULL, "Browser.getVersion", NULL,
                    earlier(deadline, tn_deadline_in(READY_SECONDS)), &answer, NULL) == 0)
        tn_json_free(answer);
}

void wait_settled(struct tn_page *page, uint64_t moment, int64_t deadline)
{
    hear_browser(page->chrome, deadline);
    pass_stages(page, moment, deadline);
    moment = wait_moment(page->chrome);
    quiet(page, deadline);
    /* What the last changes have set off. */
    if (pass_stages(page, moment, deadline))
        quiet(page, deadline);
}

/* --- navigations ---------------------------------------------------------------------------- */

static int unloaded(const struct tn_page *page, struct tn_error *err)
{
    if (page->chrome->ended)
        return tn_fail(err, TN_E_PEER, "the browser is gone");
    if (page->crashed)
        return tn_fail(err, TN_E_GONE, "Page crashed");
    if (page->closed)
        return tn_fail(err, TN_E_GONE, "Target closed");
    return tn_fail(err, TN_E_TIMEOUT, "timeout");
}

int64_t wait_commits(struct tn_page *page)
{
    chrome_lock(page->chrome);
    const struct chrome_frame *f = frame_main(page);
    int64_t commits = f ? f->commits : 0;
    chrome_unlock(page->chrome);
    return commits;
}

/* With the lock. */
static int await_load(struct tn_page *page, int64_t commits, int64_t deadline, struct tn_error *err)
{
    int64_t until = deadline;
    bool ready = false;

    while (!is_over(page)) {
        const struct chrome_frame *f = frame_main(page);
        bool there = f && f->commits > commits && !f->moving;
        if (there && f->loaded)
            return 0;
        if (f && f->commits > commits && f->ready && !ready) {
            ready = true;
            until = earlier(deadline, tn_deadline_in(LOAD_SECONDS));
        }
        if (!chrome_wait(page->chrome, until) && !is_over(page))
            return ready && until < deadline ? 0 : unloaded(page, err);
    }
    return unloaded(page, err);
}

int wait_loaded(struct tn_page *page, int64_t commits, int64_t deadline, struct tn_error *err)
{
    chrome_lock(page->chrome);
    int r = await_load(page, commits, deadline, err);
    chrome_unlock(page->chrome);
    return r;
}
