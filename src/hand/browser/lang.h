/* The action language: calls such as click("12", button="right"), as Python would read them.
 *
 * A program is a sequence of calls.  Text between calls is skipped, and so is anything that looks
 * like a call but is not one; comments start with '#'.  Nothing is ever evaluated. */
#ifndef TN_HAND_BROWSER_LANG_H
#define TN_HAND_BROWSER_LANG_H

#include "base/json.h"

enum tn_browser_function {
    TN_DO_SEND_MSG_TO_USER,
    TN_DO_REPORT_INFEASIBLE,
    TN_DO_NOOP,
    TN_DO_SCROLL,
    TN_DO_FILL,
    TN_DO_SELECT_OPTION,
    TN_DO_CLICK,
    TN_DO_DBLCLICK,
    TN_DO_HOVER,
    TN_DO_PRESS,
    TN_DO_FOCUS,
    TN_DO_CLEAR,
    TN_DO_DRAG_AND_DROP,
    TN_DO_UPLOAD_FILE,
    TN_DO_GOTO,
    TN_DO_GO_BACK,
    TN_DO_GO_FORWARD,
    TN_DO_NEW_TAB,
    TN_DO_TAB_CLOSE,
    TN_DO_TAB_FOCUS,
    TN_DO_COUNT
};

/* What a parameter takes. */
enum tn_browser_kind {
    TN_TAKES_TEXT,      /* a string */
    TN_TAKES_BID,       /* a string that names an element */
    TN_TAKES_NUMBER,    /* int or float */
    TN_TAKES_INT,       /* a whole number */
    TN_TAKES_TEXTS,     /* a string, or a list of strings */
    TN_TAKES_BUTTON,    /* "left", "middle" or "right" */
    TN_TAKES_MODIFIERS, /* a list of "Alt", "Control", "ControlOrMeta", "Meta", "Shift" */
};

enum { TN_BROWSER_PARAMETERS_MAX = 3 };

struct tn_browser_parameter {
    const char *name; /* NULL after the last */
    enum tn_browser_kind kind;
    const char *fallback; /* a literal; NULL: it must be given */
};

struct tn_browser_signature {
    const char *name;
    const char *operation; /* what a complaint about a value names: "Locator.click" */
    struct tn_browser_parameter parameters[TN_BROWSER_PARAMETERS_MAX + 1];
};

/* One row per function. */
extern const struct tn_browser_signature tn_browser_signatures[TN_DO_COUNT];

struct tn_browser_call {
    enum tn_browser_function function;
    /* One for each parameter, of its kind; defaults are filled in. */
    struct tn_json *arguments[TN_BROWSER_PARAMETERS_MAX];
    /* What calling it raises ("TypeError: click() missing ..."), or NULL.  Then arguments are not
     * to be used: the calls before it are carried out, this one fails. */
    char *error;
};

struct tn_browser_program {
    struct tn_browser_call *calls;
    size_t count; /* at least 1 */
};

/* Reads a program; -1 with the whole text of the error in err ("ValueError: Received an empty
 * action."): then nothing is to be carried out. */
int tn_browser_parse(const char *text, size_t len, struct tn_browser_program *program,
                     struct tn_error *err);
void tn_browser_program_done(struct tn_browser_program *program);
#define tn_autoprogram TN_CLEANUP(tn_browser_program_done)

/* Where the frame's part of a bid ends that starts at `from`: "aA" in "aAb12" gives 2, then 3; when
 * only the element's number (or nothing) is left, the answer is `from`. */
size_t tn_bid_frame_end(const char *bid, size_t from);

#endif
