/* The actions browse and browse_interactive: calls in, an observation out. */
#include <ctype.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/account.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/utc.h"
#include "hand/browser/act.h"
#include "hand/browser/browser.h"
#include "hand/browser/download.h"
#include "hand/browser/view.h"
#include "hand/browser/wait.h"

enum { CONTENT_MAX = 64 << 20, ERROR_MAX = 1 << 20 };
#define STEP_SECONDS 120.0
/* What is left for looking at the page when the action has used up its time. */
#define LOOK_SECONDS 0.6
#define PING_SECONDS 0.4

struct step {
    struct browser *browser;
    struct tn_hand *hand;
    const struct tn_action *action;
    bool interactive;
    char *calls;      /* what was asked for, as the observation repeats it */
    const char *url;  /* browse: the page asked for; else "" */
    int64_t deadline; /* of the calls */
    struct tn_chrome *chrome;
    uint64_t began;
    struct tn_buf error; /* what went wrong with the calls, or empty */
};

/* --- the calls ------------------------------------------------------------------------------ */

static int run_calls(struct step *s, const struct tn_browser_call *calls, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (act_call(s->chrome, &calls[i], s->deadline, &s->error) < 0)
            return -1;
        if (i + 1 == count)
            break;
        struct tn_error err;
        tn_autopage struct tn_page *page = act_page(s->chrome, s->deadline, &err);
        if (page)
            wait_arrived(page, s->began, s->deadline);
    }
    return 0;
}

static void run_program(struct step *s)
{
    tn_autoprogram struct tn_browser_program program = {0};
    const char *text = s->action->browse_interactive.browser_actions;
    struct tn_error err;

    if (tn_browser_parse(text, strlen(text), &program, &err) < 0)
        tn_buf_puts(&s->error, err.text);
    else
        run_calls(s, program.calls, program.count);
}

static void run_goto(struct step *s)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(ERROR_MAX);
    tn_autojson struct tn_json *url = NULL;
    struct tn_jw w = tn_jw(&json);

    tn_jw_str(&w, s->url);
    if (tn_json_parse(tn_buf_str(&json), json.len, &url, NULL) < 0)
        return;
    const struct tn_browser_call call = {.function = TN_DO_GOTO, .arguments = {url}};
    run_calls(s, &call, 1);
}

/* --- the picture on disk -------------------------------------------------------------------- */

/* .browser_screenshots/screenshot_20260102_030405_123456.png, or NULL when it cannot be written. */
static char *save_screenshot(struct step *s, const struct tn_buf *png)
{
    const struct tn_agent_user *user = &s->hand->user;
    tn_autofree char *directory =
        tn_asprintf("%s/.browser_screenshots", s->hand->options.working_dir);
    tn_autoact struct tn_act_as as = {0};
    struct timespec now;
    struct tm utc;

    if (!png->len || tn_act_as_begin(&as, user->account.uid, user->account.gid, user->groups,
                                     user->group_count, NULL) < 0)
        return NULL;
    clock_gettime(CLOCK_REALTIME, &now);
    tn_utc(now.tv_sec, &utc);
    mkdir(directory, 0755);
    tn_autofree char *path = tn_asprintf("%s/screenshot_%04d%02d%02d_%02d%02d%02d_%06ld.png",
                                         directory, utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
                                         utc.tm_hour, utc.tm_min, utc.tm_sec, now.tv_nsec / 1000);
    tn_autofd int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0 || tn_fs_write(fd, png->data, png->len, NULL) < 0) {
        tn_log(TN_LOG_WARN, "a screenshot is not saved", tn_log_str("path", path),
               tn_log_str("why", tn_strerror(errno)));
        return NULL;
    }
    return TN_TAKE_PTR(path);
}

/* --- the observation ------------------------------------------------------------------------ */

static void set(char **to, char *text)
{
    free(*to);
    *to = text;
}

static void init_observation(struct step *s, struct tn_observation *o)
{
    tn_observation_init(o, TN_OBSERVATION_BROWSE);
    set(&o->browse.trigger_by_action, tn_strdup(tn_action_name(s->action->type)));
    set(&o->browse.url, tn_strdup(s->url));
    set(&o->browse.last_browser_action, tn_strdup(s->calls));
    set(&o->browse.last_browser_action_error, tn_strdup(tn_buf_str(&s->error)));
    o->browse.error = s->error.len > 0;
}

/* There is nothing to look at: what went wrong is all there is to tell. */
static void observe_failure(struct step *s, struct tn_observation *o)
{
    init_observation(s, o);
    tn_observation_set_content(o, tn_buf_str(&s->error));
}

static void fill_pages(struct tn_chrome *c, struct tn_browse_observation *b)
{
    chrome_lock(c);
    const struct tn_page *active = page_active(c);
    b->open_pages_urls.items = tn_calloc(c->page_count, sizeof(char *));
    for (size_t i = 0; i < c->page_count; i++) {
        const struct chrome_frame *f = frame_main(c->pages[i]);
        b->open_pages_urls.items[b->open_pages_urls.count++] = tn_strdup(f ? f->url : "");
        if (c->pages[i] == active)
            b->active_page_index = (int64_t)i;
    }
    chrome_unlock(c);
}

static void put_content(struct step *s, const struct tn_view_facts *facts,
                        const struct tn_view *view, struct tn_observation *o)
{
    tn_autobuf struct tn_buf content = TN_BUF_INIT(CONTENT_MAX);
    tn_autofree char *news = browser_news(s->browser);

    if (news)
        tn_buf_printf(&content, "[This is a new browser. %s.]\n", news);
    if (s->interactive)
        tn_view_put_interactive(&content, facts, view);
    else
        tn_view_put_browse(&content, facts, view);
    tn_observation_take_content(o, &content);
}

static void fill_view(struct step *s, struct tn_page *page, struct tn_view *view,
                      struct tn_observation *o)
{
    struct tn_browse_observation *b = &o->browse;

    init_observation(s, o);
    set(&b->url, tn_page_url(page));
    set(&b->screenshot_path, save_screenshot(s, &view->png));
    const struct tn_view_facts facts = {
        .url = b->url,
        .error = b->last_browser_action_error,
        .screenshot_path = b->screenshot_path,
    };
    put_content(s, &facts, view, o);
    set(&b->screenshot, TN_TAKE_PTR(view->screenshot));
    set(&b->set_of_marks, TN_TAKE_PTR(view->set_of_marks));
    set(&b->focused_element_bid, TN_TAKE_PTR(view->focused));
    b->axtree_object = TN_TAKE_PTR(view->axtree_object);
    b->extra_element_properties = TN_TAKE_PTR(view->extra_element_properties);
    fill_pages(s->chrome, b);
}

/* A dead browser explains whatever else went wrong. */
static void explain_death(struct step *s)
{
    struct tn_chrome *c = s->chrome;

    chrome_lock(c);
    bool ended = c->ended;
    chrome_unlock(c);
    if (!ended)
        return;
    tn_buf_reset(&s->error);
    chrome_obituary(c, &s->error);
    tn_buf_puts(&s->error, ". The next action gets a new one.");
    chrome_unref(browser_running(s->browser)); /* buries it */
    free(browser_news(s->browser));            /* told just now */
}

/* Whether there was anybody to look at, when that took all the time there was. */
static bool still_there(struct step *s, struct tn_error *err)
{
    if (tn_now() < s->deadline || chrome_answers(s->chrome, tn_deadline_in(PING_SECONDS)))
        return true;
    tn_fail(err, TN_E_TIMEOUT, "Browser environment took too long to respond.");
    return false;
}

static void look(struct step *s, struct tn_observation *o)
{
    bool objects = s->interactive ? s->action->browse_interactive.return_axtree
                                  : s->action->browse.return_axtree;
    const struct tn_view_options options = {
        .tree = s->interactive,
        .text = !s->interactive,
        .objects = objects,
        .pictures = true,
    };
    int64_t until = s->deadline + (int64_t)(LOOK_SECONDS * 1e9);
    struct tn_view view = {0};
    struct tn_error err = {0};
    tn_autopage struct tn_page *page = act_page(s->chrome, until, &err);

    if (page && tn_view_take(s->chrome->cdp, page, &options, until, &view, &err) == 0 &&
        still_there(s, &err)) {
        fill_view(s, page, &view, o);
    } else {
        if (!s->error.len)
            tn_buf_puts(&s->error, err.text);
        explain_death(s);
        observe_failure(s, o);
    }
    tn_view_done(&view);
}

/* --- downloads ------------------------------------------------------------------------------ */

/* True when files have arrived: then they are the observation. */
static bool observe_download(struct step *s, struct tn_observation *o)
{
    struct tn_str_list paths = {0};
    struct tn_error err = {0};
    tn_autobuf struct tn_buf content = TN_BUF_INIT(CONTENT_MAX);

    /* Also one that began after the step before was over, of which nobody was told. */
    bool news = download_news(s->chrome);
    if (!s->interactive || (!s->error.len && !news))
        return false;
    if (download_collect(s->chrome, s->deadline, &s->browser->files, &paths, &err) < 0)
        tn_log(TN_LOG_WARN, "a download is not copied", tn_log_str("why", err.text));
    if (!paths.count)
        return false;
    tn_buf_printf(&content,
                  "Execution of the previous action %s resulted in a file download. The downloaded "
                  "file is saved at location: ",
                  s->calls);
    for (size_t i = 0; i < paths.count; i++)
        tn_buf_printf(&content, "%s%s", i ? ", " : "", paths.items[i]);
    tn_observation_init(o, TN_OBSERVATION_DOWNLOAD);
    set(&o->file_path, tn_strdup(paths.items[0]));
    tn_observation_take_content(o, &content);
    for (size_t i = 0; i < paths.count; i++)
        free(paths.items[i]);
    free(paths.items);
    return true;
}

/* --- a step --------------------------------------------------------------------------------- */

/* Questions of an evaluation harness, which this hand never runs. */
static const struct {
    const char *call, *answer;
} evaluation[] = {
    {"GET_EVAL_GOAL", "There is no goal: this browser does not run an evaluation."},
    {"GET_EVAL_REWARDS", "[]"},
};

static bool answer_evaluation(struct step *s, struct tn_observation *o)
{
    for (size_t i = 0; i < TN_COUNT(evaluation); i++) {
        if (strcmp(s->calls, evaluation[i].call) == 0) {
            init_observation(s, o);
            tn_observation_set_content(o, evaluation[i].answer);
            return true;
        }
    }
    return false;
}

static void act_and_look(struct step *s, struct tn_observation *o)
{
    struct tn_error err;

    s->began = wait_moment(s->chrome);
    if (s->interactive)
        run_program(s);
    else
        run_goto(s);
    tn_autopage struct tn_page *page = act_page(s->chrome, s->deadline, &err);
    if (page)
        wait_settled(page, s->began, s->deadline);
    if (!observe_download(s, o))
        look(s, o);
}

static void do_step(struct step *s, struct tn_observation *o)
{
    struct tn_error err = {0};

    if (answer_evaluation(s, o))
        return;
    s->chrome = browser_use(s->browser, s->deadline, &err);
    if (s->chrome) {
        act_and_look(s, o);
        chrome_unref(s->chrome);
    } else if (err.code == TN_E_NOT_FOUND) {
        tn_observation_init_error(o, s->action, "%s %s: %s", tn_plugin_browser.not_asked, err.text,
                                  tn_plugin_browser.install);
    } else {
        tn_buf_printf(&s->error, "The browser did not start: %s", err.text);
        observe_failure(s, o);
    }
}

static bool has_scheme(const char *url)
{
    size_t n = strcspn(url, ":/?#");
    return n > 1 && url[n] == ':' && isalpha((unsigned char)url[0]);
}

void browser_browse(struct tn_hand *hand, const struct tn_action *a, struct tn_observation *o,
                    struct tn_delivery *delivery)
{
    bool interactive = a->type == TN_ACTION_BROWSE_INTERACTIVE;
    const char *asked = interactive ? "" : a->browse.url;
    /* Hosts have always got a path below the server's directory for what is no URL. */
    tn_autofree char *url = interactive || has_scheme(asked)
                                ? tn_strdup(asked)
                                : tn_asprintf("%s%s", hand->options.working_dir, asked);
    tn_autofree char *calls = interactive ? tn_strdup(a->browse_interactive.browser_actions)
                                          : tn_asprintf("goto(\"%s\")", url);
    struct step s = {
        .browser = tn_plugin_state(hand, &tn_plugin_browser),
        .hand = hand,
        .action = a,
        .interactive = interactive,
        .calls = calls,
        .url = url,
        .deadline = tn_deadline_in(a->timeout.set && a->timeout.value > 0 ? a->timeout.value
                                                                          : STEP_SECONDS),
    };
    struct tn_error err;

    tn_buf_init(&s.error, ERROR_MAX);
    if (browser_begin(s.browser, s.deadline, &err) == 0) {
        do_step(&s, o);
        browser_finish(s.browser);
    } else {
        tn_buf_puts(&s.error, err.text);
        observe_failure(&s, o);
    }
    tn_buf_done(&s.error);
}
