#include "hand/browser/wait.h"

/* Longest waits, in seconds.  A link that the page only announced may come to nothing. */
#define ASKED_SECONDS 0.3
#define MOVE_SECONDS 5.0
#define READY_SECONDS 3.0
#define HEAR_SECONDS 1.0 /* for an answer of a page's process */
#define NETWORK_SECONDS 2.0
#define DOWNLOAD_SECONDS 1.0 /* for one whose answer has come to be told of */
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

static bool is_asked(const struct chrome_frame *f)
{
    return f->asked && !f->moving;
}

static bool is_moving(const struct chrome_frame *f)
{
    return f->moving;
}

static bool is_unready(const struct chrome_frame *f)
{
    return !f->ready && f->loader[0] && f->commits;
}

static bool any_request(const struct tn_page *page, uint64_t moment)
{
    for (size_t i = 0; i < page->request_count; i++) {
        const struct chrome_frame *f = frame_find(page, page->requests[i].frame);
        if (page->requests[i].number > moment && !(f && f->given_up))
            return true;
    }
    return false;
}

static bool any_link(const struct tn_page *page, uint64_t moment)
{
    return page->linked.count && page->linked.number > moment;
}

static bool any_answer(const struct tn_page *page, uint64_t moment)
{
    return page->answered.count && page->answered.number > moment;
}

/* --- after an action ------------------------------------------------------------------------ */

/* One thing to wait for, of each frame or of the page. */
struct stage {
    bool (*frame_holds)(const struct chrome_frame *f);
    bool (*page_holds)(const struct tn_page *page, uint64_t moment);
    double seconds;
};

static const struct stage stages[] = {
    {.page_holds = is_unknown, .seconds = READY_SECONDS},
    {.frame_holds = is_asked, .seconds = ASKED_SECONDS},
    {.frame_holds = is_moving, .seconds = MOVE_SECONDS},
    {.frame_holds = is_unready, .seconds = READY_SECONDS},
    {.page_holds = any_request, .seconds = NETWORK_SECONDS},
    {.page_holds = any_link, .seconds = MOVE_SECONDS},
    {.page_holds = any_answer, .seconds = DOWNLOAD_SECONDS},
};

static bool holds_up(const struct stage *stage, const struct tn_page *page, uint64_t moment)
{
    if (stage->page_holds)
        return stage->page_holds(page, moment);
    for (size_t i = 0; i < page->frame_count; i++) {
        if (!page->frames[i]->given_up && stage->frame_holds(page->frames[i]))
            return true;
    }
    return false;
}

/* A frame that hangs holds up one action, not every one after it. */
static void give_up(const struct stage *stage, struct tn_page *page)
{
    for (size_t i = 0; stage->frame_holds && i < page->frame_count; i++) {
        struct chrome_frame *f = page->frames[i];
        f->given_up = f->given_up || stage->frame_holds(f);
    }
}

/* With the lock.  True when it had to wait at all. */
static bool pass_stage(const struct stage *stage, struct tn_page *page, uint64_t moment,
                       int64_t deadline)
{
    int64_t until = tn_deadline_in(stage->seconds);
    bool waited = false;

    while (!is_over(page) && holds_up(stage, page, moment)) {
        waited = true;
        if (chrome_wait(page->chrome, earlier(until, deadline)))
            continue;
        if (tn_now() >= until)
            give_up(stage, page);
        break;
    }
    return waited;
}

/* True when it had to wait at all. */
static bool pass_stages(struct tn_page *page, uint64_t moment, int64_t deadline)
{
    bool waited = false;

    chrome_lock(page->chrome);
    for (size_t i = 0; i < TN_COUNT(stages); i++)
        waited = pass_stage(&stages[i], page, moment, deadline) || waited;
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

/* The processes of the page have told of everything that scripts did before: input is acknowledged
 * by the browser's own process, and what the page made of it, a navigation for example, may still
 * be on its way to us.  A page at work says nothing for as long as that takes. */
static void hear_page(struct tn_page *page, int64_t deadline)
{
    struct tn_cdp_command *commands = NULL;
    size_t count = 0;

    chrome_lock(page->chrome);
    const struct tn_chrome *c = page->chrome;
    commands = tn_calloc(c->session_count + 1, sizeof *commands);
    for (size_t i = 0; i < c->session_count && !is_over(page); i++) {
        if (c->sessions[i].page == page)
            commands[count++] = (struct tn_cdp_command){
                .session = tn_strdup(c->sessions[i].id),
                .method = "Runtime.evaluate",
                .params_json = "{\"expression\":\"0\"}",
            };
    }
    chrome_unlock(page->chrome);
    tn_cdp_call_all(page->chrome->cdp, commands, count,
                    earlier(deadline, tn_deadline_in(HEAR_SECONDS)), NULL);
    for (size_t i = 0; i < count; i++)
        free((char *)commands[i].session);
    tn_cdp_commands_done(commands, count);
    free(commands);
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

void wait_arrived(struct tn_page *page, uint64_t moment, int64_t deadline)
{
    hear_page(page, deadline);
    hear_browser(page->chrome, deadline);
    pass_stages(page, moment, deadline);
}

void wait_settled(struct tn_page *page, uint64_t moment, int64_t deadline)
{
    hear_page(page, deadline);
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
