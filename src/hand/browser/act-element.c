/* Elements: finding them, waiting until they can be acted upon, dragging, files. */
#include <fcntl.h>

#include "base/account.h"
#include "hand/browser/act.h"

enum { PARAMS_MAX = 16 << 20, FRAMES_DEEP = 64 };
#define CHOOSER_SECONDS 3.0
#define DRAG_SECONDS 1.0

static int missing(struct act *a, const char *bid)
{
    return act_fail(a, "ValueError: Could not find element with bid \"%s\"", bid);
}

/* --- finding -------------------------------------------------------------------------------- */

void act_element_done(struct act_element *e)
{
    tn_frame_list_done(&e->frames);
}

void act_put_call(struct tn_buf *out, const char *function, const char *object, int64_t context,
                  const char *arguments, bool by_value)
{
    struct tn_jw w = tn_jw(out);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "functionDeclaration", function);
    if (object)
        tn_jw_kstr(&w, "objectId", object);
    else
        tn_jw_kint(&w, "executionContextId", context);
    tn_jw_key(&w, "arguments");
    tn_jw_raw(&w, arguments, strlen(arguments));
    tn_jw_kbool(&w, "returnByValue", by_value);
    tn_jw_object_end(&w);
}

/* The frame inside the element with that bid in frame `in`: its place in the list, or -1 without an
 * error when there is none. */
static ssize_t frame_of(struct act *a, const struct tn_frame_list *frames, size_t in,
                        const char *bid, struct tn_error *err)
{
    tn_autobuf struct tn_buf find = TN_BUF_INIT(4096), arguments = TN_BUF_INIT(1024);
    tn_autobuf struct tn_buf describe = TN_BUF_INIT(1024);
    tn_autojson struct tn_json *found = NULL, *node = NULL;
    const struct tn_frame_info *f = &frames->frames[in];
    struct tn_jw w = tn_jw(&arguments);

    err->code = TN_OK;
    tn_jw_array(&w);
    tn_jw_object(&w);
    tn_jw_kstr(&w, "value", bid);
    tn_jw_object_end(&w);
    tn_jw_array_end(&w);
    act_put_call(&find, "(bid) => globalThis.tendon ? tendon.find(bid) : null", NULL, f->context,
                 tn_buf_str(&arguments), false);
    if (tn_cdp_call(a->chrome->cdp, f->session, "Runtime.callFunctionOn", tn_buf_str(&find),
                    act_within(a, ACT_SLACK_SECONDS), &found, err) < 0)
        return -1;
    const char *object = tn_json_get_str(tn_json_get(found, "result"), "objectId", NULL);
    if (!object)
        return -1;
    w = tn_jw(&describe);
    tn_jw_object(&w);
    tn_jw_kstr(&w, "objectId", object);
    tn_jw_object_end(&w);
    if (tn_cdp_call(a->chrome->cdp, f->session, "DOM.describeNode", tn_buf_str(&describe),
                    act_within(a, ACT_SLACK_SECONDS), &node, err) < 0)
        return -1;
    const char *id = tn_json_get_str(tn_json_get(node, "node"), "frameId", "");
    for (size_t i = 0; i < frames->count; i++) {
        if (strcmp(frames->frames[i].id, id) == 0)
            return (ssize_t)i;
    }
    return -1;
}

/* 0, -1 failed, 1: look again, the page has moved on. */
static int find_once(struct act *a, const char *bid, struct act_element *e)
{
    size_t len = strlen(bid);
    struct tn_error err = {0};

    *e = (struct act_element){.bid = bid};
    if (tn_page_frames(a->page, act_within(a, ACT_SLACK_SECONDS), &e->frames, &err) < 0)
        return act_fail_from(a, &err);
    for (size_t at = 0, end; (end = tn_bid_frame_end(bid, at)) > at && end < len; at = end) {
        tn_autofree char *owner = tn_strndup(bid, end);
        ssize_t inner = frame_of(a, &e->frames, e->frame, owner, &err);
        if (inner < 0 && err.code == TN_E_GONE)
            return 1;
        if (inner < 0)
            return err.code ? act_fail_from(a, &err) : missing(a, bid);
        e->frame = (size_t)inner;
    }
    return 0;
}

int act_find(struct act *a, const char *bid, struct act_element *e)
{
    for (int i = 0; i < ACT_ATTEMPTS; i++) {
        int r = find_once(a, bid, e);
        if (r == 0)
            return 0;
        act_element_done(e);
        if (r < 0)
            return -1;
    }
    return missing(a, bid);
}

/* --- asking --------------------------------------------------------------------------------- */

/* The answer of our script to a question about an element; TN_E_GONE: ask again. */
static int ask_once(struct act *a, const struct act_element *e, const char *method,
                    const char *argument_json, struct tn_json **answer, struct tn_error *err)
{
    const struct tn_frame_info *f = &e->frames.frames[e->frame];
    tn_autobuf struct tn_buf arguments = TN_BUF_INIT(PARAMS_MAX);
    tn_autofree char *function = tn_asprintf("(...all) => tendonPage.%s(...all)", method);
    struct tn_jw w = tn_jw(&arguments);

    tn_jw_array(&w);
    tn_jw_str(&w, e->bid);
    if (argument_json)
        tn_jw_raw(&w, argument_json, strlen(argument_json));
    tn_jw_int(&w, ACT_MS);
    tn_jw_array_end(&w);
    return tn_cdp_function(a->chrome->cdp, f->session, f->context, function, tn_buf_str(&arguments),
                           act_within(a, ACT_MS / 1000.0 + ACT_SLACK_SECONDS), answer, err);
}

/* Turns what our script complains about into the error of the call. */
static int judge(struct act *a, const char *bid, const struct tn_json *answer)
{
    const char *error = tn_json_get_str(answer, "error", NULL);
    const char *why = tn_json_get_str(answer, "why", NULL);

    if (tn_json_has(answer, "missing"))
        return missing(a, bid);
    if (error)
        return act_fail(a, "Error: %s: Error: %s", a->operation, error);
    if (why)
        return act_fail_timeout(a, why);
    return 0;
}

int act_ask_element(struct act *a, struct act_element *e, const char *bid, const char *method,
                    const char *argument_json, struct tn_json **answer)
{
    struct tn_error err;

    for (int i = 0;; i++) {
        if (act_find(a, bid, e) < 0)
            return -1;
        if (ask_once(a, e, method, argument_json, answer, &err) == 0)
            break;
        act_element_done(e);
        if (err.code != TN_E_GONE || i >= ACT_ATTEMPTS)
            return act_fail_from(a, &err);
    }
    return judge(a, bid, *answer);
}

int act_ask(struct act *a, const char *bid, const char *method, const char *argument_json,
            struct tn_json **answer)
{
    act_autoelement struct act_element e = {0};

    *answer = NULL;
    if (act_ask_element(a, &e, bid, method, argument_json, answer) == 0)
        return 0;
    tn_json_free(TN_TAKE_PTR(*answer));
    return -1;
}

/* --- dragging ------------------------------------------------------------------------------- */

static int intercept_drags(struct act *a, bool on)
{
    struct tn_error err;

    if (tn_cdp_call(a->chrome->cdp, a->page->session, "Input.setInterceptDrags",
                    on ? "{\"enabled\":true}" : "{\"enabled\":false}",
                    act_within(a, ACT_SLACK_SECONDS), NULL, &err) < 0)
        return act_fail_from(a, &err);
    return 0;
}

/* The data of a native drag, when the page has begun one; the caller frees it. */
static struct tn_json *native_drag(struct act *a, const char *bid)
{
    tn_autojson struct tn_json *begun = NULL;
    tn_autobuf struct tn_buf dropped = TN_BUF_INIT(256);
    struct act quietly = *a;
    struct tn_json *data = NULL;

    quietly.error = &dropped;
    if (act_ask(&quietly, bid, "dragging", "false", &begun) < 0 || !tn_json_bool(begun, false))
        return NULL;
    chrome_lock(a->chrome);
    while (!a->page->drag && chrome_wait(a->chrome, act_within(a, DRAG_SECONDS)))
        ;
    data = TN_TAKE_PTR(a->page->drag);
    chrome_unlock(a->chrome);
    return data;
}

static int drag_event(struct act *a, const char *type, struct input_point at,
                      const struct tn_json *data)
{
    tn_autobuf struct tn_buf params = TN_BUF_INIT(PARAMS_MAX);
    struct tn_jw w = tn_jw(&params);
    struct tn_error err;

    tn_jw_object(&w);
    tn_jw_kstr(&w, "type", type);
    tn_jw_kdouble(&w, "x", at.x);
    tn_jw_kdouble(&w, "y", at.y);
    tn_jw_key(&w, "data");
    tn_jw_tree(&w, data);
    tn_jw_object_end(&w);
    if (tn_cdp_call(a->chrome->cdp, a->page->session, "Input.dispatchDragEvent",
                    tn_buf_str(&params), act_within(a, ACT_SLACK_SECONDS), NULL, &err) < 0)
        return act_fail_from(a, &err);
    return 0;
}

/* With the button held over `from`. */
static int drag_held(struct act *a, const char *from_bid, const char *to_bid,
                     struct input_point from)
{
    static const char *const native[] = {"dragEnter", "dragOver", "drop"};
    tn_autojson struct tn_json *data = NULL;
    struct input_point nudge = {from.x + 8, from.y + 8}, to;
    struct tn_error err;

    /* A drag begins with the first few pixels. */
    if (input_move(a->page, nudge, INPUT_LEFT, 0, act_within(a, ACT_SLACK_SECONDS), &err) < 0)
        return act_fail_from(a, &err);
    data = native_drag(a, from_bid);
    if (act_point(a, to_bid, &to) < 0)
        return -1;
    for (size_t i = 0; data && i < TN_COUNT(native); i++) {
        if (drag_event(a, native[i], to, data) < 0)
            return -1;
    }
    if (!data && input_move(a->page, to, INPUT_LEFT, 0, act_within(a, ACT_SLACK_SECONDS), &err) < 0)
        return act_fail_from(a, &err);
    if (input_release_button(a->page, to, INPUT_LEFT, 1, 0, act_within(a, ACT_SLACK_SECONDS),
                             &err) < 0)
        return act_fail_from(a, &err);
    return 0;
}

int act_drag_and_drop(struct act *a)
{
    const char *from_bid = act_text(a, 0), *to_bid = act_text(a, 1);
    tn_autojson struct tn_json *armed = NULL;
    struct input_point from;
    struct tn_error err;

    if (act_reach(a, from_bid, &from) < 0 || act_ask(a, from_bid, "dragging", "true", &armed) < 0 ||
        intercept_drags(a, true) < 0)
        return -1;
    chrome_lock(a->chrome);
    tn_json_free(TN_TAKE_PTR(a->page->drag));
    chrome_unlock(a->chrome);
    int r = input_press_button(a->page, from, INPUT_LEFT, 1, 0, act_within(a, ACT_SLACK_SECONDS),
                               &err) < 0
                ? act_fail_from(a, &err)
                : drag_held(a, from_bid, to_bid, from);
    if (r < 0) /* never leave the button held */
        input_release_button(a->page, from, INPUT_LEFT, 1, 0, act_within(a, ACT_SLACK_SECONDS),
                             NULL);
    return intercept_drags(a, false) < 0 ? -1 : r;
}

/* --- files ---------------------------------------------------------------------------------- */

/* Writes {"files":[...],"backendNodeId":N}; every file must be one the agent's user can read. */
static int put_files(struct act *a, struct tn_buf *params, int64_t node, size_t *count)
{
    const struct tn_hand *hand = a->chrome->hand;
    const struct tn_json *given = a->values[1];
    bool one = tn_json_str(given, NULL) != NULL;
    tn_autoact struct tn_act_as as = {0};
    struct tn_jw w = tn_jw(params);
    struct tn_error err;

    if (tn_act_as_begin(&as, hand->user.account.uid, hand->user.account.gid, hand->user.groups,
                        hand->user.group_count, &err) < 0)
        return act_fail_from(a, &err);
    *count = one ? 1 : tn_json_count(given);
    tn_jw_object(&w);
    tn_jw_kint(&w, "backendNodeId", node);
    tn_jw_key(&w, "files");
    tn_jw_array(&w);
    for (size_t i = 0; i < *count; i++) {
        const char *name = tn_json_str(one ? given : tn_json_at(given, i), NULL);
        tn_autofree char *path = name[0] == '/'
                                     ? tn_strdup(name)
                                     : tn_asprintf("%s/%s", hand->options.working_dir, name);
        tn_autofd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        if (fd < 0)
            return act_fail(a, "%s: [Errno %d] %s: '%s'",
                            errno == EACCES ? "PermissionError" : "FileNotFoundError", errno,
                            tn_strerror(errno), name);
        tn_jw_str(&w, path);
    }
    tn_jw_array_end(&w);
    tn_jw_object_end(&w);
    return 0;
}

/* Waits for the chooser that the click has opened; its session is the caller's to free. */
static int64_t await_chooser(struct act *a, char **session, bool *multiple)
{
    struct tn_page *page = a->page;
    int64_t until = act_within(a, CHOOSER_SECONDS);

    chrome_lock(a->chrome);
    while (!page->chooser_node && !page->closed && !page->crashed && chrome_wait(a->chrome, until))
        ;
    int64_t node = page->chooser_node;
    *session = tn_strdup_or_null(page->chooser_session);
    *multiple = page->chooser_multiple;
    chrome_unlock(a->chrome);
    return node;
}

int act_upload_file(struct act *a)
{
    tn_autobuf struct tn_buf params = TN_BUF_INIT(PARAMS_MAX);
    tn_autofree char *session = NULL;
    struct tn_error err;
    bool multiple = false;
    size_t count = 0;

    chrome_lock(a->chrome);
    a->page->chooser_node = 0;
    chrome_unlock(a->chrome);
    if (act_press_mouse(a, act_text(a, 0), INPUT_LEFT, 1, 0) < 0)
        return -1;
    int64_t node = await_chooser(a, &session, &multiple);
    if (!node)
        return act_fail(a,
                        "TimeoutError: Timeout %dms exceeded while waiting for event "
                        "\"filechooser\"",
                        (int)(CHOOSER_SECONDS * 1000));
    if (put_files(a, &params, node, &count) < 0)
        return -1;
    if (count > 1 && !multiple)
        return act_fail(a, "Error: FileChooser.set_files: Error: Non-multiple file input can only "
                           "accept single file");
    if (tn_cdp_call(a->chrome->cdp, session, "DOM.setFileInputFiles", tn_buf_str(&params),
                    act_within(a, ACT_SLACK_SECONDS), NULL, &err) < 0)
        return act_fail_from(a, &err);
    return 0;
}
