/* The functions of the action language, done on the active page. */
#ifndef TN_HAND_BROWSER_ACT_H
#define TN_HAND_BROWSER_ACT_H

#include "hand/browser/chrome.h"
#include "hand/browser/input.h"
#include "hand/browser/lang.h"

struct act {
    struct tn_chrome *chrome;
    int64_t deadline;
    struct tn_page *page;    /* the active one when the call began, or in its place; a reference */
    const char *operation;   /* "Locator.click" */
    struct tn_json **values; /* the call's arguments */
    struct tn_buf *error;    /* what a Python caller would see: "TimeoutError: ..." */
};

/* Carries out one call: 0, or -1 with the whole error text in *error. */
int act_call(struct tn_chrome *chrome, const struct tn_browser_call *call, int64_t deadline,
             struct tn_buf *error);

/* The active page, a new one when none is left; the caller unrefs it.  NULL with err. */
struct tn_page *act_page(struct tn_chrome *c, int64_t deadline, struct tn_error *err);
/* Opens a tab and waits until it is known. */
struct tn_page *act_open_tab(struct tn_chrome *c, int64_t deadline, struct tn_error *err);

/* --- shared by the act files ---------------------------------------------------------------- */

/* How long an element may take to become ready, and the browser to take our word for it. */
#define ACT_MS 500
#define ACT_SLACK_SECONDS 2.0
/* How often to look again at a page that keeps replacing its document under our hands. */
enum { ACT_ATTEMPTS = 5 };

int act_fail(struct act *a, const char *fmt, ...) TN_PRINTF(2, 3);
/* "Error: Locator.click: <text>", or the timeout of an operation. */
int act_fail_from(struct act *a, const struct tn_error *err);
int act_fail_timeout(struct act *a, const char *why);
/* The call's deadline, but at most so many seconds from now. */
int64_t act_within(const struct act *a, double seconds);
const char *act_text(const struct act *a, size_t i);

typedef int (*act_fn)(struct act *a);

/* act-element.c */

/* An element that has been found: its frame in the list, and its id. */
struct act_element {
    struct tn_frame_list frames;
    size_t frame;
    const char *bid;
};
void act_element_done(struct act_element *e);
#define act_autoelement TN_CLEANUP(act_element_done)

/* Finds the frame that should have the element.  -1: failed. */
int act_find(struct act *a, const char *bid, struct act_element *e);
/* Calls tendonPage.METHOD(bid, argument, ms) in its frame until it answers something other than
 * that the page has moved on; argument is JSON, or NULL for none.  -1: failed, also when the
 * element is missing or was not ready in time. */
int act_ask(struct act *a, const char *bid, const char *method, const char *argument_json,
            struct tn_json **answer);
/* The same, and tells which element that was; it is the caller's in either case. */
int act_ask_element(struct act *a, struct act_element *e, const char *bid, const char *method,
                    const char *argument_json, struct tn_json **answer);
/* Appends the params of Runtime.callFunctionOn: on the object, or in the context when that is NULL;
 * arguments is a JSON array of {"value":...}. */
void act_put_call(struct tn_buf *out, const char *function, const char *object, int64_t context,
                  const char *arguments, bool by_value);

int act_drag_and_drop(struct act *a);
int act_upload_file(struct act *a);

/* act-point.c */

/* Where to point at the element once it is ready, in the page's window.  -1: failed. */
int act_point(struct act *a, const char *bid, struct input_point *at);
/* Clicks on the element once it is ready.  A document that is replaced before the button is pressed
 * is looked at again.  -1: failed. */
int act_press_mouse(struct act *a, const char *bid, enum input_button button, int clicks,
                    int modifiers);
/* Moves the mouse onto the element once it is ready.  -1: failed. */
int act_move_mouse(struct act *a, const char *bid);
/* The same by events of the page, as those that follow in a drag have to be; tells where it is in
 * the page's window.  -1: failed. */
int act_reach(struct act *a, const char *bid, struct input_point *at);

int act_click(struct act *a);
int act_dblclick(struct act *a);
int act_hover(struct act *a);

/* act-form.c */
int act_fill(struct act *a);
int act_clear(struct act *a);
int act_select_option(struct act *a);
int act_focus(struct act *a);
int act_press(struct act *a);

/* act-page.c */
int act_noop(struct act *a);
int act_scroll(struct act *a);
int act_goto(struct act *a);
int act_go_back(struct act *a);
int act_go_forward(struct act *a);
int act_new_tab(struct act *a);
int act_tab_close(struct act *a);
int act_tab_focus(struct act *a);

#endif
