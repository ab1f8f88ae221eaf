/* Accessibility trees of a page's frames, joined where the frames are. */
#ifndef TN_HAND_BROWSER_VIEW_TREE_H
#define TN_HAND_BROWSER_VIEW_TREE_H

#include "hand/browser/view-dom.h"

/* What is known of a frame; all of it is borrowed and must outlive the tree. */
struct tn_tree_source {
    const char *json; /* result of Accessibility.getFullAXTree; NULL: it could not be had */
    size_t n;
    const struct tn_dom *dom; /* of its session; NULL: there are no bids */
    size_t session;           /* number of its session, 0 for the page's own */
    size_t parent;            /* frame in which it lies; its own number for the first */
    int64_t owner;            /* backendNodeId of its <iframe> there */
};

struct tn_tree;

/* Reads them; the first is the page itself.  NULL with err when that one makes no sense; others
 * are left out then. */
struct tn_tree *tn_tree_read(const struct tn_tree_source *sources, size_t count,
                             struct tn_error *err);
void tn_tree_free(struct tn_tree *t);

/* Appends the text an agent reads, a line for each node; at most `max` bytes, then a line says that
 * there was more. */
void tn_tree_put_text(const struct tn_tree *t, struct tn_buf *out, size_t max);
/* Appends {"nodes": [...]}. */
void tn_tree_put_object(const struct tn_tree *t, struct tn_buf *out);

#endif
