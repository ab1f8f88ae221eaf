/* What the browser tells about its pages.  All of this runs in the reader thread: nothing waits. */
#include "base/log.h"
#include "hand/browser/chrome.h"
#include "hand/browser/download.h"
#include "hand/embedded.h"

enum { SCRIPT_MAX = 1 << 20 };

char *page_script(void)
{
    return tn_embedded_text("src/hand/browser/page.js.gz");
}

static void set_text(char **to, const char *text)
{
    char *copy = tn_strdup(text);
    free(*to);
    *to = copy;
}

static const char *text_of(const struct tn_json *params, const char *key)
{
    return tn_json_get_str(params, key, "");
}

/* --- new pages and frames ------------------------------------------------------------------- */

struct asked {
    struct tn_chrome *chrome;
    char *session;
};

static void add_frames(struct tn_page *page, const struct tn_json *tree, const char *session)
{
    const struct tn_json *frame = tn_json_get(tree, "frame");
    const struct tn_json *children = tn_json_get(tree, "childFrames");
    const char *parent = tn_json_get_str(frame, "parentId", NULL);
    struct chrome_frame *f = frame_add(page, text_of(frame, "id"), parent, session);
    const char *url = text_of(frame, "url");

    /* A frame that moved to another process may have arrived before we listened there. */
    if (*url && strcmp(url, "about:blank") != 0 && strcmp(f->loader, text_of(frame, "loaderId")))
        f->asked = f->moving = false;
    set_text(&f->url, url);
    set_text(&f->loader, text_of(frame, "loaderId"));
    for (size_t i = 0; i < tn_json_count(children); i++)
        add_frames(page, tn_json_at(children, i), session);
}

static void frames_told(void *ctx, const struct tn_json *result, const struct tn_error *err)
{
    struct asked *asked = ctx;
    struct tn_chrome *c = asked->chrome;

    chrome_lock(c);
    struct tn_page *page = page_by_session(c, asked->session);
    if (page && result)
        add_frames(page, tn_json_get(result, "frameTree"), asked->session);
    if (page && strcmp(page->session, asked->session) == 0)
        page->known = true;
    chrome_changed(c);
    chrome_unlock(c);
    free(asked->session);
    free(asked);
}

static void post_script(struct tn_chrome *c, const char *session)
{
    tn_autobuf struct tn_buf params = TN_BUF_INIT(SCRIPT_MAX);
    tn_autofree char *script = page_script();
    struct tn_jw w = tn_jw(&params);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "source", script);
    tn_jw_kstr(&w, "worldName", CHROME_WORLD);
    tn_jw_kbool(&w, "runImmediately", true);
    tn_jw_object_end(&w);
    tn_cdp_post(c->cdp, session, "Page.addScriptToEvaluateOnNewDocument", tn_buf_str(&params), NULL,
                NULL);
}

struct first_command {
    const char *method, *params;
    bool page_only;
};

static const struct first_command before_script[] = {
    {"Page.enable", NULL, false},
    {"Page.setLifecycleEventsEnabled", "{\"enabled\":true}", false},
    {"Runtime.enable", NULL, false},
    {"Runtime.addBinding",
     "{\"name\":\"" CHROME_BINDING "\",\"executionContextName\":\"" CHROME_WORLD "\"}", false},
};

static const struct first_command after_script[] = {
    {"Network.enable", "{\"maxTotalBufferSize\":0,\"maxResourceBufferSize\":0}", false},
    {"Page.setInterceptFileChooserDialog", "{\"enabled\":true}", false},
    {"Emulation.setFocusEmulationEnabled", "{\"enabled\":true}", false},
    {"Emulation.setDeviceMetricsOverride",
     "{\"width\":1280,\"height\":720,\"deviceScaleFactor\":1,\"mobile\":false}", true},
    {"Target.setAutoAttach", CHROME_AUTO_ATTACH, false},
    {"Runtime.runIfWaitingForDebugger", NULL, false},
};

static void post_first(struct tn_chrome *c, const char *session, bool is_page,
                       const struct first_command *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (is_page || !list[i].page_only)
            tn_cdp_post(c->cdp, session, list[i].method, list[i].params, NULL, NULL);
    }
}

static void introduce(struct tn_chrome *c, const char *session, bool is_page)
{
    struct asked *asked = tn_calloc(1, sizeof *asked);

    *asked = (struct asked){.chrome = c, .session = tn_strdup(session)};
    post_first(c, session, is_page, before_script, TN_COUNT(before_script));
    tn_cdp_post(c->cdp, session, "Page.getFrameTree", NULL, frames_told, asked);
    post_script(c, session);
    post_first(c, session, is_page, after_script, TN_COUNT(after_script));
}

static void attached(void *ctx, const char *parent, const struct tn_json *params)
{
    struct tn_chrome *c = ctx;
    const struct tn_json *info = tn_json_get(params, "targetInfo");
    const char *session = text_of(params, "sessionId"), *target = text_of(info, "targetId");
    bool is_page = strcmp(text_of(info, "type"), "page") == 0;

    chrome_lock(c);
    struct tn_page *page = page_by_session(c, parent);
    bool another = is_page && page_by_target(c, target); /* a viewer's session */
    if (another) {
        chrome_unlock(c);
        return;
    }
    if (is_page) {
        page_add(c, target, session, text_of(info, "url"));
    } else if (page) {
        struct chrome_frame *f = frame_find(page, target);
        chrome_add_session(c, session, page);
        if (f) {
            frame_remove_children(page, target);
            frame_set_session(f, session);
        }
    }
    chrome_changed(c);
    chrome_unlock(c);
    if (is_page || page)
        introduce(c, session, is_page);
    else
        tn_cdp_post(c->cdp, session, "Runtime.runIfWaitingForDebugger", NULL, NULL, NULL);
}

static void detached(void *ctx, const char *parent, const struct tn_json *params)
{
    struct tn_chrome *c = ctx;
    const char *session = text_of(params, "sessionId");

    chrome_lock(c);
    struct tn_page *page = page_by_session(c, session);
    if (page && strcmp(page->session, session) == 0)
        page_close(c, page);
    else if (page)
        request_remove_of(page, session, NULL, NULL);
    chrome_drop_session(c, session);
    chrome_changed(c);
    chrome_unlock(c);
    tn_cdp_forget_session(c->cdp, session, "Target closed");
}

static void crashed(void *ctx, const char *session, const struct tn_json *params)
{
    struct tn_chrome *c = ctx;

    chrome_lock(c);
    struct tn_page *page = page_by_session(c, session);
    if (page && strcmp(page->session, session) == 0)
        page->crashed = true;
    chrome_changed(c);
    chrome_unlock(c);
    tn_cdp_forget_session(c->cdp, session, "Page crashed");
}

/* --- events of one page --------------------------------------------------------------------- */

typedef void (*page_event_fn)(struct tn_page *page, const char *session,
                              const struct tn_json *params);

/* Finds the page and holds the lock around the handler. */
static void with_page(struct tn_chrome *c, const char *session, const struct tn_json *params,
                      page_event_fn handle)
{
    chrome_lock(c);
    struct tn_page *page = page_by_session(c, session);
    if (page) {
        c->counter++;
        handle(page, session, params);
        chrome_changed(c);
    }
    chrome_unlock(c);
}

#define PAGE_EVENT(name)                                                             \
    static void name##_page(struct tn_page *, const char *, const struct tn_json *); \
    static void name(void *ctx, const char *session, const struct tn_json *params)   \
    {                                                                                \
        with_page(ctx, session, params, name##_page);                                \
    }                                                                                \
    static void name##_page(struct tn_page *page, const char *session, const struct tn_json *params)

PAGE_EVENT(frame_attached)
{
    frame_add(page, text_of(params, "frameId"), text_of(params, "parentFrameId"), session);
}

/* "swap" means that it lives on in another process, that is session. */
PAGE_EVENT(frame_detached)
{
    struct chrome_frame *f = frame_find(page, text_of(params, "frameId"));

    if (f && strcmp(text_of(params, "reason"), "swap") != 0)
        frame_remove(page, f->id);
}

static void new_document(struct chrome_frame *f, const char *loader)
{
    if (strcmp(f->loader, loader) == 0)
        return;
    set_text(&f->loader, loader);
    f->ready = f->loaded = f->given_up = false;
}

static void arrived(struct chrome_frame *f)
{
    f->asked = f->moving = f->given_up = false;
    f->commits++;
}

PAGE_EVENT(frame_navigated)
{
    const struct tn_json *frame = tn_json_get(params, "frame");
    const char *id = text_of(frame, "id"), *fragment = text_of(frame, "urlFragment");
    struct chrome_frame *f = frame_add(page, id, tn_json_get_str(frame, "parentId", NULL), session);

    frame_remove_children(page, id);
    if (!f->parent) {
        set_text(&page->title, "");
        page->linked = page->answered = (struct chrome_promise){0};
    }
    free(f->url);
    f->url = tn_asprintf("%s%s", text_of(frame, "url"), fragment);
    new_document(f, text_of(frame, "loaderId"));
    request_remove_of(page, NULL, id, f->loader);
    arrived(f);
}

PAGE_EVENT(within_document)
{
    struct chrome_frame *f = frame_find(page, text_of(params, "frameId"));

    if (!f)
        return;
    set_text(&f->url, text_of(params, "url"));
    arrived(f);
}

PAGE_EVENT(navigation_asked)
{
    struct chrome_frame *f = frame_find(page, text_of(params, "frameId"));

    if (f && strcmp(text_of(params, "disposition"), "currentTab") == 0) {
        f->asked = true;
        f->given_up = false;
    }
}

PAGE_EVENT(navigation_started)
{
    struct chrome_frame *f = frame_find(page, text_of(params, "frameId"));

    if (f) {
        f->moving = true;
        f->given_up = false;
    }
}

PAGE_EVENT(stopped_loading)
{
    struct chrome_frame *f = frame_find(page, text_of(params, "frameId"));

    if (f)
        f->asked = f->moving = false;
}

PAGE_EVENT(life_cycle)
{
    struct chrome_frame *f = frame_find(page, text_of(params, "frameId"));
    const char *name = text_of(params, "name"), *loader = text_of(params, "loaderId");

    if (!f)
        return;
    if (strcmp(name, "init") == 0)
        new_document(f, loader);
    if (strcmp(f->loader, loader) != 0)
        return;
    f->loaded = f->loaded || strcmp(name, "load") == 0;
    f->ready = f->ready || f->loaded || strcmp(name, "DOMContentLoaded") == 0;
}

/* --- execution contexts --------------------------------------------------------------------- */

PAGE_EVENT(context_created)
{
    const struct tn_json *context = tn_json_get(params, "context");
    const struct tn_json *aux = tn_json_get(context, "auxData");
    struct chrome_frame *f = frame_find(page, text_of(aux, "frameId"));

    if (f && strcmp(text_of(context, "name"), CHROME_WORLD) == 0 &&
        strcmp(f->session, session) == 0) {
        f->context = tn_json_int(tn_json_get(context, "id"), 0);
        f->still = false;
    }
}

PAGE_EVENT(context_destroyed)
{
    int64_t id = tn_json_int(tn_json_get(params, "executionContextId"), 0);

    for (size_t i = 0; i < page->frame_count; i++) {
        if (page->frames[i]->context == id && strcmp(page->frames[i]->session, session) == 0)
            page->frames[i]->context = 0;
    }
}

PAGE_EVENT(contexts_cleared)
{
    for (size_t i = 0; i < page->frame_count; i++) {
        if (strcmp(page->frames[i]->session, session) == 0)
            page->frames[i]->context = 0;
    }
}

static void promise(struct tn_page *page, struct chrome_promise *p)
{
    p->count++;
    p->number = page->chrome->counter;
}

/* One of them has begun, or come to nothing. */
static void keep_promise(struct chrome_promise *p)
{
    p->count -= p->count > 0;
}

/* "NAME:NUMBER" about the element that is being aimed at. */
static bool is_told(const struct tn_page *page, const char *what, const char *name)
{
    size_t n = strlen(name);

    return strncmp(what, name, n) == 0 && what[n] == ':' &&
           strtoll(what + n + 1, NULL, 10) == page->aim.number;
}

/* What our script tells (page.js). */
PAGE_EVENT(binding_called)
{
    int64_t context = tn_json_int(tn_json_get(params, "executionContextId"), 0);
    const char *what = text_of(params, "payload");

    if (strcmp(what, "active") == 0)
        page->active = page->chrome->counter;
    if (strncmp(what, "title:", 6) == 0)
        set_text(&page->title, what + 6);
    if (strcmp(what, "download") == 0)
        promise(page, &page->linked);
    if (strcmp(what, "no download") == 0)
        keep_promise(&page->linked);
    page->aim.met = page->aim.met || is_told(page, what, "met");
    page->aim.pressed = page->aim.pressed || is_told(page, what, "pressed");
    for (size_t i = 0; strcmp(what, "still") == 0 && i < page->frame_count; i++) {
        struct chrome_frame *f = page->frames[i];
        f->still = f->still || (f->context == context && strcmp(f->session, session) == 0);
    }
}

/* --- the network ---------------------------------------------------------------------------- */

/* Kinds of request that a page waits for; others may take as long as they like. */
static const char *const awaited_kinds[] = {"Document", "Stylesheet", "Script", "XHR",
                                            "Fetch",    "Font",       "Image"};

PAGE_EVENT(request_sent)
{
    const char *kind = text_of(params, "type");
    struct chrome_request request = {
        .id = (char *)text_of(params, "requestId"),
        .session = (char *)session,
        .frame = (char *)text_of(params, "frameId"),
        .loader = (char *)text_of(params, "loaderId"),
        .number = page->chrome->counter,
    };

    if (!frame_find(page, request.frame))
        return; /* it has been removed, and nobody will tell how this ends */
    /* A worker's script is asked for here but arrives in a session that we do not look into. */
    if (strcmp(kind, "Document") != 0 && !strchr(request.id, '.'))
        return;
    for (size_t i = 0; i < TN_COUNT(awaited_kinds); i++) {
        if (strcmp(kind, awaited_kinds[i]) == 0) {
            request_remove(page, request.id); /* redirected: the same again */
            request_add(page, &request);
            return;
        }
    }
}

/* Answers 204 and 205 leave a page as it is. */
PAGE_EVENT(request_answered)
{
    struct chrome_request *r = request_find(page, text_of(params, "requestId"));
    int64_t status = tn_json_int(tn_json_get(tn_json_get(params, "response"), "status"), 0);

    if (r && strcmp(text_of(params, "type"), "Document") == 0)
        r->answered = status >= 200 && status < 300 && status != 204 && status != 205;
}

PAGE_EVENT(request_over)
{
    request_remove(page, text_of(params, "requestId"));
}

/* The browser lets go of a document that is to be saved before it tells of the download. */
PAGE_EVENT(request_failed)
{
    const struct chrome_request *r = request_find(page, text_of(params, "requestId"));

    if (r && r->answered && tn_json_bool(tn_json_get(params, "canceled"), false))
        promise(page, &page->answered);
    request_over_page(page, session, params);
}

/* --- the rest ------------------------------------------------------------------------------- */

/* Nobody is there to answer: leaving is allowed, everything else dismissed. */
static void dialog_opened(void *ctx, const char *session, const struct tn_json *params)
{
    struct tn_chrome *c = ctx;
    bool leave = strcmp(text_of(params, "type"), "beforeunload") == 0;

    tn_log(TN_LOG_INFO, "a page's dialog is answered", tn_log_str("type", text_of(params, "type")),
           tn_log_str("message", text_of(params, "message")));
    tn_cdp_post(c->cdp, session, "Page.handleJavaScriptDialog",
                leave ? "{\"accept\":true}" : "{\"accept\":false}", NULL, NULL);
}

PAGE_EVENT(chooser_opened)
{
    page->chooser_node = tn_json_int(tn_json_get(params, "backendNodeId"), 0);
    page->chooser_multiple = strcmp(text_of(params, "mode"), "selectMultiple") == 0;
    free(page->chooser_session);
    page->chooser_session = tn_strdup(session);
}

PAGE_EVENT(drag_intercepted)
{
    tn_json_free(page->drag);
    page->drag = tn_json_ref(tn_json_get(params, "data"));
}

static void screencast_frame(void *ctx, const char *session, const struct tn_json *params)
{
    struct tn_chrome *c = ctx;
    size_t len = 0;
    const char *data = tn_json_str(tn_json_get(params, "data"), &len);

    chrome_lock(c);
    for (struct chrome_viewer *v = c->viewers; v && data; v = v->next) {
        if (v->session && strcmp(v->session, session) == 0)
            v->picture(v, data, len, tn_json_int(tn_json_get(params, "sessionId"), 0));
    }
    chrome_unlock(c);
}

static void download_begins(void *ctx, const char *session, const struct tn_json *params)
{
    struct tn_chrome *c = ctx;

    chrome_lock(c);
    download_began(c, params);
    /* The navigation that led to it comes to nothing. */
    for (size_t i = 0; i < c->page_count; i++) {
        struct chrome_frame *f = frame_find(c->pages[i], text_of(params, "frameId"));
        if (!f)
            continue;
        f->asked = f->moving = false;
        keep_promise(c->pages[i]->answered.count ? &c->pages[i]->answered : &c->pages[i]->linked);
    }
    chrome_changed(c);
    chrome_unlock(c);
}

static void download_goes_on(void *ctx, const char *session, const struct tn_json *params)
{
    struct tn_chrome *c = ctx;

    chrome_lock(c);
    download_progressed(c, params);
    chrome_changed(c);
    chrome_unlock(c);
}

const struct tn_cdp_event chrome_events[] = {
    {"Target.attachedToTarget", attached},
    {"Target.detachedFromTarget", detached},
    {"Inspector.targetCrashed", crashed},
    {"Page.frameAttached", frame_attached},
    {"Page.frameDetached", frame_detached},
    {"Page.frameNavigated", frame_navigated},
    {"Page.navigatedWithinDocument", within_document},
    {"Page.frameRequestedNavigation", navigation_asked},
    {"Page.frameStartedNavigating", navigation_started},
    {"Page.frameStartedLoading", navigation_started},
    {"Page.frameStoppedLoading", stopped_loading},
    {"Page.lifecycleEvent", life_cycle},
    {"Page.javascriptDialogOpening", dialog_opened},
    {"Page.fileChooserOpened", chooser_opened},
    {"Page.screencastFrame", screencast_frame},
    {"Runtime.executionContextCreated", context_created},
    {"Runtime.executionContextDestroyed", context_destroyed},
    {"Runtime.executionContextsCleared", contexts_cleared},
    {"Runtime.bindingCalled", binding_called},
    {"Network.requestWillBeSent", request_sent},
    {"Network.loadingFinished", request_over},
    {"Network.responseReceived", request_answered},
    {"Network.loadingFailed", request_failed},
    {"Input.dragIntercepted", drag_intercepted},
    {"Browser.downloadWillBegin", download_begins},
    {"Browser.downloadProgress", download_goes_on},
    {0},
};
