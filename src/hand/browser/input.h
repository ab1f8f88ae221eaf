/* Mouse and keyboard of a page.  All return 0, or -1 with err as tn_cdp_call does. */
#ifndef TN_HAND_BROWSER_INPUT_H
#define TN_HAND_BROWSER_INPUT_H

#include "hand/browser/chrome.h"
#include "hand/browser/input-keys.h"

struct input_point {
    double x, y;
};

/* A place in a frame.  Mouse events go to the session of its process, which needs nobody to tell
 * which frame is where: after scrolling the browser itself knows that only a moment later. */
struct input_place {
    const char *session;     /* borrowed */
    struct input_point at;   /* in the window of that session */
    struct input_point page; /* in the page's */
};

enum input_button { INPUT_NONE, INPUT_LEFT, INPUT_MIDDLE, INPUT_RIGHT };
/* "left", "middle" or "right"; INPUT_NONE for anything else. */
enum input_button input_button_from(const char *name);

/* Moves to the point; buttons that are held stay so. */
int input_move(struct tn_page *page, struct input_point at, enum input_button held, int modifiers,
               int64_t deadline, struct tn_error *err);
int input_press_button(struct tn_page *page, struct input_point at, enum input_button button,
                       int clicks, int modifiers, int64_t deadline, struct tn_error *err);
int input_release_button(struct tn_page *page, struct input_point at, enum input_button button,
                         int clicks, int modifiers, int64_t deadline, struct tn_error *err);
/* Moves there, by way of the pixel beside it: a mouse that was there already would not be seen to
 * move. */
int input_approach(struct tn_page *page, const struct input_place *place, int64_t deadline,
                   struct tn_error *err);
/* Moves there and clicks so many times. */
int input_click(struct tn_page *page, const struct input_place *place, enum input_button button,
                int clicks, int modifiers, int64_t deadline, struct tn_error *err);
/* Turns the wheel where the mouse is. */
int input_wheel(struct tn_page *page, double dx, double dy, int64_t deadline, struct tn_error *err);

/* A key by name with modifiers before it: "a", "Shift+Tab", "ControlOrMeta+a".  TN_E_UNPROCESSABLE
 * with the unknown name in err. */
int input_keys(struct tn_page *page, const char *combination, int64_t deadline,
               struct tn_error *err);
/* Down or up of one key. */
int input_key(struct tn_page *page, bool down, const struct input_key *key, int modifiers,
              int64_t deadline, struct tn_error *err);
/* Text as if pasted: in place of the selection. */
int input_text(struct tn_page *page, const char *text, size_t len, int64_t deadline,
               struct tn_error *err);

#endif
