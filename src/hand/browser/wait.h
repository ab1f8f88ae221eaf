/* Waiting for a page to come to rest.  Every wait has a deadline; none of them fails. */
#ifndef TN_HAND_BROWSER_WAIT_H
#define TN_HAND_BROWSER_WAIT_H

#include "hand/browser/chrome.h"

/* A moment to compare with: everything numbered higher has happened since. */
uint64_t wait_moment(struct tn_chrome *c);

/* After an action that began at `moment`: until navigations it started have arrived, their
 * documents are there, requests it sent are answered, and the document has stopped changing - each
 * for a limited time, and none past the deadline. */
void wait_settled(struct tn_page *page, uint64_t moment, int64_t deadline);
/* The same without waiting for the document to stop changing. */
void wait_arrived(struct tn_page *page, uint64_t moment, int64_t deadline);

/* Navigations of the main frame so far. */
int64_t wait_commits(struct tn_page *page);
/* Until the main frame has navigated once more than that and loaded its document: 0, or -1 with
 * TN_E_TIMEOUT, or TN_E_GONE when the page is.  A document that is there but goes on loading is
 * waited for ten seconds. */
int wait_loaded(struct tn_page *page, int64_t commits, int64_t deadline, struct tn_error *err);

#endif
