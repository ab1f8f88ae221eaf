/* What is shown instead of a preview: a small page for people, JSON for programs. */
#ifndef TN_SERVICE_PREVIEW_PAGE_H
#define TN_SERVICE_PREVIEW_PAGE_H

#include "service/box.h"

/* The sandbox does not run; err says why it could not be made to. */
void preview_not_running(struct tn_http_exchange *x, struct box *b, const struct tn_error *err);
/* It does, but no server of it has answered. */
void preview_no_answer(struct tn_http_exchange *x, int port, const struct tn_error *err);
/* Whoever asks is not known, or has no such sandbox. */
void preview_unknown_caller(struct tn_http_exchange *x);
void preview_no_box(struct tn_http_exchange *x);

/* Any other: `advice` is what to do. */
struct page {
    int status;
    const char *code; /* for programs */
    const char *title, *advice;
    bool again; /* the page looks again by itself */
};
void preview_page(struct tn_http_exchange *x, const struct page *p);

#endif
