/* The browser as an ability of the hand: started on first use, replaced when it dies. */
#ifndef TN_HAND_BROWSER_BROWSER_H
#define TN_HAND_BROWSER_BROWSER_H

#include "hand/browser/chrome.h"
#include "hand/plugin.h"

struct browser {
    struct tn_hand *hand;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool busy;                /* an action is at work */
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

/* browser-routes.c, live.c */
extern const struct tn_route browser_routes[];
void browser_live(struct tn_http_exchange *x, void *ctx);
/* The running browser, or NULL: answered. */
struct tn_chrome *browser_for_route(struct tn_http_exchange *x, struct tn_hand *hand);

#endif
