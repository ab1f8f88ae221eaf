/* Everything the browser has to tell about a page at one moment, fetched in few round trips. */
#ifndef TN_HAND_BROWSER_VIEW_SHOT_H
#define TN_HAND_BROWSER_VIEW_SHOT_H

#include "hand/browser/cdp.h"
#include "hand/browser/page.h"

/* One entry per frame of the list. */
struct tn_shot_frame {
    size_t session;       /* index into sessions */
    char *prefix;         /* of its bids; NULL: it is not marked */
    struct tn_json *look; /* what tendon.look() says; NULL: not to be had */
    char *tree;           /* result of Accessibility.getFullAXTree, or NULL */
    size_t tree_len;
};

struct tn_shot_session {
    size_t root;    /* its first frame */
    bool silent;    /* it did not answer in time */
    char *snapshot; /* result of DOMSnapshot.captureSnapshot, or NULL */
    size_t snapshot_len;
};

struct tn_shot {
    struct tn_frame_list list;
    struct tn_shot_frame *frames;
    struct tn_shot_session *sessions; /* the first is the page's own */
    size_t session_count;
    char *picture; /* result of Page.captureScreenshot, or NULL */
    size_t picture_len;
};

struct tn_shot_wishes {
    bool trees, snapshots, picture;
    double
        patience; /* seconds for the picture when all else is there; 0: as long as there is time */
};

/* Takes it by the deadline.  0 also when parts are missing, err then tells why the first one is
 * (its code is TN_OK otherwise); -1 when the page changed under our hands (TN_E_GONE: try again) or
 * the browser is gone.  Free it with tn_shot_done in either case. */
int tn_shot_take(struct tn_cdp *cdp, struct tn_page *page, const struct tn_shot_wishes *wishes,
                 int64_t deadline, struct tn_shot *shot, struct tn_error *err);
void tn_shot_done(struct tn_shot *shot);

#endif
