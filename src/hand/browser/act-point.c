/* Pointing at elements, and what is done with the mouse alone. */
#include "hand/browser/act.h"

/* For the mouse to be seen at an element, and for a press to be told. */
#define MET_SECONDS 1.0
#define PRESSED_SECONDS 0.3

/* --- pointing ------------------------------------------------------------------------------- */

/* A handle on the element that holds the frame. */
static char *owner_object(struct act *a, const struct tn_frame_info *parent, int64_t node,
                          struct tn_error *err)
{
    tn_autojson struct tn_json *result = NULL;
    tn_autofree char *params = tn_asprintf("{\"backendNodeId\":%lld,\"executionContextId\":%lld}",
                                           (long long)node, (long long)parent->context);

    if (tn_cdp_call(a->chrome->cdp, parent->session, "DOM.resolveNode", params,
                    act_within(a, ACT_SLACK_SECONDS), &result, err) < 0)
        return NULL;
    return tn_strdup(tn_json_get_str(tn_json_get(result, "object"), "objectId", ""));
}

/* From the window of a frame to that of its parent; nothing may be in front of the frame. */
static int step_out(struct act *a, const struct tn_frame_list *frames, size_t frame,
                    struct input_point *at)
{
    const struct tn_frame_info *f = &frames->frames[frame], *parent = &frames->frames[f->parent];
    tn_autobuf struct tn_buf params = TN_BUF_INIT(8192);
    tn_autojson struct tn_json *result = NULL, *value = NULL;
    struct tn_error err;
    tn_autofree char *object = owner_object(a, parent, f->owner_backend_node, &err);
    char arguments[128];

    if (!object)
        return act_fail_from(a, &err);
    snprintf(arguments, sizeof arguments, "[{\"value\":%.3f},{\"value\":%.3f}]", at->x, at->y);
    act_put_call(&params, "function (x, y) { return tendonPage.through(this, x, y); }", object, 0,
                 arguments, true);
    if (tn_cdp_call(a->chrome->cdp, parent->session, "Runtime.callFunctionOn", tn_buf_str(&params),
                    act_within(a, ACT_SLACK_SECONDS), &result, &err) < 0 ||
        tn_cdp_function_value(result, &value, &err) < 0)
        return act_fail_from(a, &err);
    if (tn_json_has(value, "why"))
        return act_fail_timeout(a, tn_json_get_str(value, "why", ""));
    at->x = tn_json_double(tn_json_get(value, "x"), 0);
    at->y = tn_json_double(tn_json_get(value, "y"), 0);
    return 0;
}

/* From the window of frame `f` to that of its session, and on to that of the page. */
static int step_all_out(struct act *a, const struct tn_frame_list *frames, size_t f,
                        struct input_point inside, struct input_place *place)
{
    bool rooted = false;

    place->session = frames->frames[f].session;
    place->page = inside;
    for (;; f = frames->frames[f].parent) {
        if (frames->frames[f].root && !rooted) {
            place->at = place->page;
            rooted = true;
        }
        if (!frames->frames[f].parent_id)
            return 0;
        if (step_out(a, frames, f, &place->page) < 0)
            return -1;
    }
}

/* Scrolling a frame of another process scrolls those around it a moment later: the place counts
 * when it is the same a frame later. */
static int settle(struct act *a, const struct act_element *e, struct input_point inside,
                  struct input_place *place)
{
    const struct tn_frame_info *top = &e->frames.frames[0];
    struct input_point before;

    if (step_all_out(a, &e->frames, e->frame, inside, place) < 0)
        return -1;
    for (int i = 0; e->frame && i < ACT_ATTEMPTS; i++) {
        before = place->page;
        tn_cdp_function(a->chrome->cdp, top->session, top->context, "() => tendonPage.frame()",
                        NULL, act_within(a, ACT_SLACK_SECONDS), NULL, NULL);
        if (step_all_out(a, &e->frames, e->frame, inside, place) < 0)
            return -1;
        if (place->page.x == before.x && place->page.y == before.y)
            return 0;
    }
    return e->frame ? act_fail_timeout(a, "element is not stable") : 0;
}

/* Where the element is, once it is ready; our script tells of the mouse under number `aim`. */
static int locate(struct act *a, const char *bid, bool enabled, int64_t aim, struct act_element *e,
                  struct input_place *place)
{
    tn_autojson struct tn_json *answer = NULL;
    tn_autofree char *need =
        tn_asprintf("{\"enabled\":%s,\"aim\":%lld}", enabled ? "true" : "false", (long long)aim);

    if (act_ask_element(a, e, bid, "point", need, &answer) < 0)
        return -1;
    struct input_point inside = {tn_json_double(tn_json_get(answer, "x"), 0),
                                 tn_json_double(tn_json_get(answer, "y"), 0)};
    return settle(a, e, inside, place);
}

int act_point(struct act *a, const char *bid, struct input_point *at)
{
    act_autoelement struct act_element e = {0};
    struct input_place place;

    if (locate(a, bid, false, 0, &e, &place) < 0)
        return -1;
    *at = place.page;
    return 0;
}

/* --- leading the mouse to an element ---------------------------------------------------------- */

/* An element that the mouse is to meet. */
struct target {
    struct act_element element;
    struct input_place place;
    bool reached; /* as far as anybody can tell */
};

static void target_done(struct target *t)
{
    act_element_done(&t->element);
}
#define autotarget TN_CLEANUP(target_done)

/* With the lock: its document is still there. */
static bool is_there(const struct tn_page *page, const struct target *t)
{
    const struct tn_frame_info *f = &t->element.frames.frames[t->element.frame];
    const struct chrome_frame *now = page->closed || page->crashed ? NULL : frame_find(page, f->id);

    return now && now->context == f->context && strcmp(now->session, f->session) == 0;
}

/* Until our script has told it (`told` is in page->aim), or its document is gone. */
static bool await_told(struct act *a, const struct target *t, const bool *told, double seconds)
{
    int64_t until = act_within(a, seconds);

    chrome_lock(a->chrome);
    while (!*told && is_there(a->page, t) && chrome_wait(a->chrome, until))
        ;
    bool answer = *told;
    chrome_unlock(a->chrome);
    return answer;
}

static bool is_gone(struct act *a, const struct target *t)
{
    chrome_lock(a->chrome);
    bool gone = !is_there(a->page, t);
    chrome_unlock(a->chrome);
    return gone;
}

/* Frames of other processes: which of them is where the browser learns late on a busy machine. */
static bool has_foreign_frames(const struct tn_frame_list *frames)
{
    for (size_t i = 1; i < frames->count; i++) {
        if (strcmp(frames->frames[i].session, frames->frames[0].session) != 0)
            return true;
    }
    return false;
}

static int64_t new_aim(struct tn_page *page)
{
    chrome_lock(page->chrome);
    int64_t number = page->aim.number + 1;
    page->aim = (struct chrome_aim){.number = number};
    chrome_unlock(page->chrome);
    return number;
}

/* Finds the element; where that is in doubt, moves the mouse there and sees whether it arrives.
 * -1: failed. */
static int lead(struct act *a, const char *bid, bool enabled, struct target *t)
{
    struct tn_error err;

    if (locate(a, bid, enabled, new_aim(a->page), &t->element, &t->place) < 0)
        return -1;
    t->reached = !has_foreign_frames(&t->element.frames);
    if (t->reached)
        return 0;
    if (input_approach(a->page, &t->place, act_within(a, ACT_SLACK_SECONDS), &err) == 0)
        t->reached = await_told(a, t, &a->page->aim.met, MET_SECONDS);
    else if (err.code != TN_E_GONE)
        return act_fail_from(a, &err);
    return 0;
}

/* True when the button was pressed in the element's document, as far as anybody can tell. */
static bool was_pressed(struct act *a, const struct target *t)
{
    return await_told(a, t, &a->page->aim.pressed, PRESSED_SECONDS) || !is_gone(a, t);
}

static int unreached(struct act *a)
{
    chrome_lock(a->chrome);
    bool closed = a->page->closed;
    chrome_unlock(a->chrome);
    return closed ? act_fail(a, "Error: %s: Target closed", a->operation)
                  : act_fail_timeout(a, "the mouse does not reach the element");
}

int act_press_mouse(struct act *a, const char *bid, enum input_button button, int clicks,
                    int modifiers)
{
    struct tn_error err;

    for (int i = 0; i < ACT_ATTEMPTS; i++) {
        autotarget struct target t = {0};
        if (lead(a, bid, true, &t) < 0)
            return -1;
        if (!t.reached)
            continue;
        if (input_click(a->page, &t.place, button, clicks, modifiers,
                        act_within(a, ACT_SLACK_SECONDS), &err) < 0 &&
            err.code != TN_E_GONE) /* the click may have closed its page */
            return act_fail_from(a, &err);
        if (was_pressed(a, &t))
            return 0;
    }
    return unreached(a);
}

int act_move_mouse(struct act *a, const char *bid)
{
    struct tn_error err;

    for (int i = 0; i < ACT_ATTEMPTS; i++) {
        autotarget struct target t = {0};
        if (lead(a, bid, false, &t) < 0)
            return -1;
        if (!t.reached)
            continue;
        if (input_approach(a->page, &t.place, act_within(a, ACT_SLACK_SECONDS), &err) == 0)
            return 0;
        if (err.code != TN_E_GONE)
            return act_fail_from(a, &err);
    }
    return unreached(a);
}

int act_reach(struct act *a, const char *bid, struct input_point *at)
{
    struct tn_error err;

    for (int i = 0; i < ACT_ATTEMPTS; i++) {
        autotarget struct target t = {0};
        if (locate(a, bid, false, new_aim(a->page), &t.element, &t.place) < 0)
            return -1;
        *at = t.place.page;
        const struct input_place place = {a->page->session, *at, *at};
        if (input_approach(a->page, &place, act_within(a, ACT_SLACK_SECONDS), &err) < 0)
            return act_fail_from(a, &err);
        if (!has_foreign_frames(&t.element.frames) ||
            await_told(a, &t, &a->page->aim.met, MET_SECONDS))
            return 0;
    }
    return unreached(a);
}

/* --- the mouse ------------------------------------------------------------------------------ */

static int modifiers_of(const struct tn_json *list)
{
    int bits = 0;

    for (size_t i = 0; i < tn_json_count(list); i++) {
        const char *name = tn_json_str(tn_json_at(list, i), NULL);
        bits |= name ? input_modifier(name) : 0;
    }
    return bits;
}

static int click(struct act *a, int clicks)
{
    return act_press_mouse(a, act_text(a, 0), input_button_from(act_text(a, 1)), clicks,
                           modifiers_of(a->values[2]));
}

int act_click(struct act *a)
{
    return click(a, 1);
}

int act_dblclick(struct act *a)
{
    return click(a, 2);
}

int act_hover(struct act *a)
{
    return act_move_mouse(a, act_text(a, 0));
}
