/* A page's text, in the manner of Markdown: what `browse` shows. */
#ifndef TN_HAND_BROWSER_VIEW_TEXT_H
#define TN_HAND_BROWSER_VIEW_TEXT_H

#include "hand/browser/view-dom.h"

/* A snapshot and where it lies: the first is the page's own, others are frames of other sites. */
struct tn_text_source {
    const struct tn_dom *dom; /* NULL: it could not be had */
    size_t parent;            /* the source in which it lies */
    int64_t owner;            /* backendNodeId of its <iframe> there */
};

/* Appends the text, with a newline at its end; at most `max` bytes, then a line says that there was
 * more. */
void tn_text_put(const struct tn_text_source *sources, size_t count, struct tn_buf *out,
                 size_t max);

#endif
