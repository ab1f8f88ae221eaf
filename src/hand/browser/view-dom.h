/* DOMSnapshot.captureSnapshot, read into arrays: what one session (a page, or another site's
 * frame) holds, with the documents of the frames in its process. */
#ifndef TN_HAND_BROWSER_VIEW_DOM_H
#define TN_HAND_BROWSER_VIEW_DOM_H

#include "base/error.h"
#include "hand/browser/view-scan.h"

/* Growing array of numbers. */
struct tn_ints {
    int32_t *data;
    size_t count, cap;
};

struct tn_rects {
    double (*data)[4];
    size_t count, cap;
};

/* All arrays are indexed by node, unless said otherwise, and have `count` entries.  A parent comes
 * before its children; the first node is the document.  String numbers go to tn_dom_string. */
struct tn_dom_document {
    size_t count;
    int32_t frame_id; /* string */
    double scroll_x, scroll_y;
    struct tn_ints parent;      /* -1: none */
    struct tn_ints type;        /* Node.nodeType */
    struct tn_ints name, value; /* strings */
    struct tn_ints backend;
    struct tn_ints first_attribute;                /* index into attributes; count + 1 entries */
    struct tn_ints attributes;                     /* name and value strings in turn */
    struct tn_ints clickable;                      /* node numbers, ascending */
    struct tn_ints shadow_node, shadow_type;       /* shadow roots and their kind, a string */
    struct tn_ints content_node, content_document; /* iframes and the documents in them */
    /* indexed by box */
    struct tn_ints box_node;
    struct tn_rects box;
    struct tn_ints box_shown; /* 1: it has a client rectangle: it is really rendered */
    struct tn_rects client;   /* that one: the widths of the left and upper border come first */
    /* made from these, indexed by node */
    int32_t *bid;                /* string, or -1 */
    int32_t *box_of;             /* box number, or -1 */
    int32_t *next, *first_child; /* -1: none */
    int32_t *inner;              /* document inside this node, or -1 */
    bool *is_clickable;
    double x, y; /* where the document's origin is in the viewport of its session's first one */
};

struct tn_dom {
    struct tn_dom_document *documents; /* the first is the session's own */
    size_t count;
    struct tn_buf text;              /* the strings, each followed by a NUL */
    struct tn_ints strings;          /* where they start in text */
    struct tn_dom_entry *by_backend; /* sorted */
    size_t backend_count;
};

/* A node by its backendNodeId. */
struct tn_dom_entry {
    int32_t backend, document, node;
};

/* Reads the text of a result.  0, or -1 with err; free it with tn_dom_done in either case. */
int tn_dom_read(struct tn_dom *d, const char *json, size_t n, struct tn_error *err);
void tn_dom_done(struct tn_dom *d);

/* Forgets the bids of a document that is not marked by us: whatever it has is the page's own. */
void tn_dom_drop_bids(struct tn_dom_document *doc);

/* The string, or NULL for -1 and other numbers that are none. */
const char *tn_dom_string(const struct tn_dom *d, int32_t number, size_t *n);
/* The value of a node's attribute, or NULL. */
const char *tn_dom_attribute(const struct tn_dom *d, const struct tn_dom_document *doc, size_t node,
                             const char *name);
/* The node with that backendNodeId, or NULL. */
const struct tn_dom_entry *tn_dom_find(const struct tn_dom *d, int64_t backend);
/* The bid of the node with that backendNodeId, or NULL. */
const char *tn_dom_bid(const struct tn_dom *d, int64_t backend);
/* Where the inside of a node is, in the viewport of its session. */
void tn_dom_inside(const struct tn_dom_document *doc, size_t node, double at[2]);
/* Whether it listens to clicks. */
bool tn_dom_clickable(const struct tn_dom *d, int64_t backend);

#endif
