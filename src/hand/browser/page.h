/* Pages of a running browser and the frames in them, as the events tell.
 *
 * A page is shared: it stays valid while somebody holds a reference, also when its tab is closed
 * or the browser is gone (calls then fail with TN_E_GONE or TN_E_PEER). */
#ifndef TN_HAND_BROWSER_PAGE_H
#define TN_HAND_BROWSER_PAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct tn_page;

/* A frame at one moment.  Everything may be outdated when it is used: then the call fails with
 * TN_E_GONE. */
struct tn_frame_info {
    char *id;
    char *parent_id; /* NULL: the main frame */
    size_t parent;   /* index of the parent in the list; its own for the main frame */
    char *session;   /* where to send its commands; differs for another site's frame */
    bool root;       /* first of its session: the page itself, or another site's frame */
    int64_t context; /* of our isolated world in it; 0: none, scripts cannot run there */
    char *url;
    int64_t owner_backend_node; /* its <iframe> in the parent's session; 0: main frame, or gone */
    bool scripts;               /* false: sandboxed without allow-scripts */
};

struct tn_frame_list {
    struct tn_frame_info *frames; /* parents before children; the first is the main frame */
    size_t count;
};

/* A snapshot of the page's frames.  May ask the browser about frames that are new. */
int tn_page_frames(struct tn_page *page, int64_t deadline, struct tn_frame_list *out,
                   struct tn_error *err);
void tn_frame_list_done(struct tn_frame_list *list);
#define tn_autoframes TN_CLEANUP(tn_frame_list_done)

struct tn_page *tn_page_ref(struct tn_page *page);
void tn_page_unref(struct tn_page *page);
static inline void tn_guard_page(struct tn_page **page)
{
    tn_page_unref(*page);
}
#define tn_autopage TN_CLEANUP(tn_guard_page)

/* The session of the page itself; lives as long as the page. */
const char *tn_page_session(const struct tn_page *page);
/* How far its document is: all of it has come (ready), and all that it shows has (loaded). */
struct tn_page_progress {
    bool ready, loaded;
};
struct tn_page_progress tn_page_progress(struct tn_page *page);
/* The caller frees both. */
char *tn_page_url(struct tn_page *page);
char *tn_page_title(struct tn_page *page);

#endif
