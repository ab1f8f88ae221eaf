/* One running browser, shared by the files of the driver: its process, its connection, its pages.
 *
 * The reader thread of the connection keeps it up to date (page-events.c); whoever waits for
 * something waits for `changed` with a deadline (wait.c).  It lives as long as somebody holds a
 * reference, also when the process is gone; the reader thread holds none. */
#ifndef TN_HAND_BROWSER_CHROME_H
#define TN_HAND_BROWSER_CHROME_H

#include <pthread.h>

#include "hand/browser/cdp.h"
#include "hand/browser/page.h"
#include "hand/hand.h"
#include "hand/helper.h"

enum { CHROME_WIDTH = 1280, CHROME_HEIGHT = 720 };

/* Name of our isolated world and of the function through which it talks to us. */
#define CHROME_WORLD "tendon"
#define CHROME_BINDING "tendonEvent"
/* Pages and frames of other sites become sessions, and wait until we have looked at them. */
#define CHROME_AUTO_ATTACH                                                   \
    "{\"autoAttach\":true,\"waitForDebuggerOnStart\":true,\"flatten\":true," \
    "\"filter\":[{\"type\":\"page\"},{\"type\":\"iframe\"},{\"exclude\":true}]}"

struct chrome_frame {
    char *id, *parent; /* parent NULL: the main frame */
    char *session;
    char *url;
    char *loader;       /* the document's */
    int64_t context;    /* of our world in the document, or 0 */
    bool still;         /* scripts do not run in it */
    int64_t owner;      /* backend node of its <iframe>, 0 when not asked for yet */
    bool ready, loaded; /* DOMContentLoaded and load of the document have been */
    bool asked;         /* the page wants it to navigate */
    bool moving;        /* a navigation has begun and not ended */
    int64_t commits;    /* navigations that have ended in a document, or a place in it */
    bool given_up;      /* was waited for long enough, and nothing has come of it since */
};

struct chrome_request {
    char *id, *session, *frame, *loader;
    uint64_t number;
    bool answered; /* a document's: with something to show, or to save */
};

/* Downloads that are to begin. */
struct chrome_promise {
    int count;
    uint64_t number; /* when the latest was made */
};

/* What our script has told about the mouse since it was asked to watch an element. */
struct chrome_aim {
    int64_t number; /* of the request to watch */
    bool met;       /* the mouse has moved onto the element */
    bool pressed;   /* a button has been pressed in its document */
};

/* Somebody who looks on.  Both are called in the reader thread with the lock: be quick. */
struct chrome_viewer {
    const char *session; /* of its own, where the pictures come from; NULL while it has none */
    void (*picture)(struct chrome_viewer *v, const char *base64, size_t len, int64_t number);
    void (*changed)(struct chrome_viewer *v); /* something about some page */
    struct chrome_viewer *next;
};

struct tn_page {
    int refs; /* atomic */
    struct tn_chrome *chrome;
    char *target, *session;
    /* under the lock of the browser: */
    bool known;           /* its frames have been told */
    bool closed, crashed; /* no more use */
    bool discarded;       /* crashed, and its tab is being closed */
    uint64_t active;      /* when it was the active one last */
    struct chrome_frame **frames;
    size_t frame_count;
    struct chrome_request *requests; /* under way */
    size_t request_count;
    char *title;
    double mouse_x, mouse_y;
    struct chrome_aim aim;
    struct chrome_promise linked; /* a link that is to be saved was used */
    struct chrome_promise
        answered;         /* a document was given up when it had come: it is being saved */
    int64_t chooser_node; /* of the latest file chooser, 0: none has opened */
    char *chooser_session;
    bool chooser_multiple;
    struct tn_json *drag; /* what is being dragged, once the browser has said so */
};

/* A session of the connection: a page's own, or that of another site's frame in it. */
struct chrome_session {
    char *id;
    struct tn_page *page;
};

struct chrome_download {
    char *guid; /* its name in the directory of downloads */
    char *name; /* what the site calls it */
    bool over, failed, told;
};

struct tn_chrome {
    int refs; /* atomic */
    struct tn_hand *hand;
    struct tn_helper *helper;
    struct tn_cdp *cdp;
    bool sandboxed; /* Chromium's own sandbox is on */
    int64_t memory_max;
    pthread_t watcher;
    bool watching;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool ended;             /* the connection is over */
    bool hurried;           /* the action at work is to end: nobody waits for anything */
    char *why;              /* why it was ended by the watcher, or NULL */
    uint64_t counter;       /* numbers everything that happens */
    struct tn_page **pages; /* open ones, oldest first */
    size_t page_count;
    struct chrome_session *sessions;
    size_t session_count;
    struct chrome_download *downloads;
    size_t download_count;
    size_t downloads_seen; /* by the steps so far, told or not */
    struct chrome_viewer *viewers;
};

/* --- chrome.c ------------------------------------------------------------------------------- */

/* Starts Chromium and waits for its first page.  Who starts it holds the first reference. */
struct tn_chrome *chrome_start(struct tn_hand *hand, int64_t deadline, struct tn_error *err);
struct tn_chrome *chrome_ref(struct tn_chrome *c);
void chrome_unref(struct tn_chrome *c);
/* Ends the process; calls under way fail. */
void chrome_end(struct tn_chrome *c, double grace);
/* The same, because of something: "was ended: ..." */
void chrome_give_up(struct tn_chrome *c, const char *why);
/* Whether it still answers at all. */
bool chrome_answers(struct tn_chrome *c, int64_t deadline);
/* Appends why it is gone. */
void chrome_obituary(struct tn_chrome *c, struct tn_buf *out);

void chrome_lock(struct tn_chrome *c);
void chrome_unlock(struct tn_chrome *c);
/* Waits, with the lock, for a change.  False at the deadline, or when the browser is gone. */
bool chrome_wait(struct tn_chrome *c, int64_t deadline);
/* While hurried, every wait is over at once. */
void chrome_hurry(struct tn_chrome *c, bool hurried);

/* With the lock: something has changed; tells whoever waits and whoever looks on. */
void chrome_changed(struct tn_chrome *c);

/* --- page.c, with the lock ------------------------------------------------------------------ */

struct tn_page *page_by_session(struct tn_chrome *c, const char *session);
struct tn_page *page_by_target(struct tn_chrome *c, const char *target);
struct tn_page *page_add(struct tn_chrome *c, const char *target, const char *session,
                         const char *url);
void page_close(struct tn_chrome *c, struct tn_page *page);
void chrome_add_session(struct tn_chrome *c, const char *session, struct tn_page *page);
void chrome_drop_session(struct tn_chrome *c, const char *session);
/* The one that was active last; NULL when none is open. */
struct tn_page *page_active(struct tn_chrome *c);

struct chrome_frame *frame_find(const struct tn_page *page, const char *id);
struct chrome_frame *frame_main(const struct tn_page *page);
struct chrome_frame *frame_add(struct tn_page *page, const char *id, const char *parent,
                               const char *session);
void frame_remove(struct tn_page *page, const char *id);
void frame_remove_children(struct tn_page *page, const char *id);
void frame_set_session(struct chrome_frame *f, const char *session);

void request_add(struct tn_page *page, const struct chrome_request *request);
struct chrome_request *request_find(const struct tn_page *page, const char *id);
void request_remove(struct tn_page *page, const char *id);
/* Those of a document that is not there any more, or of a whole session. */
void request_remove_of(struct tn_page *page, const char *session, const char *frame,
                       const char *but_loader);

/* --- page-events.c -------------------------------------------------------------------------- */

extern const struct tn_cdp_event chrome_events[];
/* The script that every document gets in our world; the caller frees it. */
char *page_script(void);

#endif
