/* Downloads: the browser puts them into .downloads of the working directory under names of its own
 * choice; what is told to the agent is copied beside it as file_1.pdf, file_2.csv ... */
#ifndef TN_HAND_BROWSER_DOWNLOAD_H
#define TN_HAND_BROWSER_DOWNLOAD_H

#include "base/buf.h"
#include "hand/browser/chrome.h"

/* {working_dir}/.downloads; the caller frees it. */
char *download_directory(const struct tn_hand *hand);
/* Makes it, as the agent's user. */
int download_prepare(struct tn_hand *hand, struct tn_error *err);

/* Events, with the lock. */
void download_began(struct tn_chrome *c, const struct tn_json *params);
void download_progressed(struct tn_chrome *c, const struct tn_json *params);

/* Whether one has begun since this was asked last. */
bool download_news(struct tn_chrome *c);

/* Waits until those that have begun are over, then copies the ones not told yet into the working
 * directory and appends their paths to the list, oldest first.  *count is how many files there have
 * been so far, and goes on from there. */
int download_collect(struct tn_chrome *c, int64_t deadline, int64_t *count,
                     struct tn_str_list *paths, struct tn_error *err);

/* The extension that fits the first bytes of a file (".pdf"), or "". */
const char *download_extension(const unsigned char *bytes, size_t n);

#endif
