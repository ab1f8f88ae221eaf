/* What an agent sees of a page: accessibility tree as text, page text, pictures, properties. */
#ifndef TN_HAND_BROWSER_VIEW_H
#define TN_HAND_BROWSER_VIEW_H

#include "base/buf.h"
#include "base/json.h"
#include "hand/browser/cdp.h"
#include "hand/browser/page.h"

struct tn_view_options {
    bool tree;    /* the accessibility tree as text */
    bool text;    /* the page's text */
    bool objects; /* axtree_object and extra_element_properties */
    bool pictures;
};

/* Strings are never NULL after tn_view_take; what was not asked for is empty. */
struct tn_view {
    char *tree;
    char *tree_error; /* why there is no tree or no text, or NULL */
    char *text;
    char *focused;      /* bid of the focused element, or "" */
    bool loading;       /* not all of the page has come */
    struct tn_buf png;  /* the picture as a file */
    char *screenshot;   /* the same as a data URL */
    char *set_of_marks; /* data URL: with boxes and bids drawn on it */
    struct tn_json *axtree_object, *extra_element_properties; /* NULL stands for {} */
};

/* Looks at the page.  A page that is loading may not be drawn yet: its picture is not waited for
 * long, and left out.  What cannot be had by the deadline (a script keeps a frame busy, a frame
 * went away five times) is left out and tree_error tells why; -1 with err only when the page or the
 * browser is gone.  *out is to be freed with tn_view_done in either case. */
int tn_view_take(struct tn_cdp *cdp, struct tn_page *page, const struct tn_view_options *options,
                 int64_t deadline, struct tn_view *out, struct tn_error *err);
void tn_view_done(struct tn_view *v);

/* --- the text given to the agent ----------------------------------------------------------- */

struct tn_view_facts {
    const char *url;
    const char *error;           /* of the last action, or NULL or "" */
    const char *screenshot_path; /* NULL: not saved */
};

/* Content of the observation of browse_interactive (tree) and of browse (text). */
void tn_view_put_interactive(struct tn_buf *out, const struct tn_view_facts *facts,
                             const struct tn_view *view);
void tn_view_put_browse(struct tn_buf *out, const struct tn_view_facts *facts,
                        const struct tn_view *view);

#endif
