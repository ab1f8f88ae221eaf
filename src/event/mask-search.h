/* Finds any of a set of words in a text in one pass (the method of Aho and Corasick): the time is
 * linear in the text whatever it says, and memory linear in the words. */
#ifndef TN_EVENT_MASK_SEARCH_H
#define TN_EVENT_MASK_SEARCH_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct mask_search;

struct mask_search *mask_search_new(void);
void mask_search_free(struct mask_search *s);

/* Adds a word of n > 0 bytes. */
void mask_search_add(struct mask_search *s, const char *word, size_t n);
/* To be called after the last word and before the first search. */
void mask_search_finish(struct mask_search *s);

/* Where the first stretch of text from `from` on begins and ends that is covered by words which
 * overlap each other.  false when there is none. */
bool mask_search_next(const struct mask_search *s, const char *text, size_t n, size_t from,
                      size_t *start, size_t *end);

#endif
