/* The browser as an ability of the hand: started on first use, replaced when it dies. */
#ifndef TN_HAND_BROWSER_BROWSER_H
#define TN_HAND_BROWSER_BROWSER_H

#include "hand/browser/chrome.h"
#include "hand/browser/input.h"
#include "hand/plugin.h"

/* Keys (bits of input-keys.h) and the button that were pressed by messages and not let go. */
struct browser_held {
    int modifiers;
    enum input_button button;
};

struct browser {
    struct tn_hand *hand;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool busy;                /* an action is at work */
    struct browser_held held; /* by /v1/browser/input; whoever is busy has it */
    bool starting;            /* a browser is being started */
    struct tn_chrome *chrome; /* a reference, or NULL */
    struct tn_backoff backoff;
    int64_t starts;
    int64_t files; /* downloads told so far */
    char *news;    /* how the last browser ended, when nobody has been told yet */
};

/* A reference to the running browser, which is started when there is none.  NULL with err. */
struct tn_chrome *browser_use(struct browser *b, int64_t deadline, struct tn_error *err);
/* The same without starting one: NULL when none runs. */
struct tn_chrome *browser_running(struct browser *b);
/* What is to be told about an earlier browser, or NULL; the caller frees it. */
char *browser_news(struct browser *b);

/* One action at a time: -1 at the deadline. */
int browser_begin(struct browser *b, int64_t deadline, struct tn_error *err);
void browser_finish(struct browser *b);

/* browser-step.c */
void browser_browse(struct tn_hand *hand, const struct tn_action *a, struct tn_observation *o,
                    struct tn_delivery *delivery);

/* browser-routes.c, live.c, browser-input.c */
extern const struct tn_route browser_routes[];
void browser_live(struct tn_http_exchange *x, void *ctx);
void browser_post_input(struct tn_http_exchange *x, void *ctx);
/* Carries out one message (docs/api.md) on that page, or NULL.  held: what is held by earlier ones
 * counts, and is noted; NULL: each says all.  -1 with err. */
int browser_input(struct tn_page *page, const struct tn_json *message, struct browser_held *held,
                  struct tn_error *err);
/* The running browser, or NULL: answered. */
struct tn_chrome *browser_for_route(struct tn_http_exchange *x, struct tn_hand *hand);

#endif
