/* Finds any of a set of words in a text in one pass (the method of Aho and Corasick): the time is
 * linear in the text whatever it says, and memory linear in the words. */
#ifndef TN_EVENT_MASK_SEARCH_H
#define TN_EVENT_MASK_SEARCH_H

#include <stddef.h>
#include <sys/types.h>

#include "base/buf.h"

struct mask_search;

struct mask_search *mask_search_new(void);
void mask_search_free(struct mask_search *s);

/* Adds a word of n > 0 bytes. */
void mask_search_add(struct mask_search *s, const char *word, size_t n);
/* To be called after the last word and before the first search. */
void mask_search_finish(struct mask_search *s);

struct mask_span {
    size_t start, end;
};

/* Appends to `spans` the stretches of text that words cover, in order: each is one word, or several
 * that overlap.  Returns how many, or -1 when the buffer is full. */
ssize_t mask_search_all(const struct mask_search *s, const char *text, size_t n,
                        struct tn_buf *spans);
static inline struct mask_span mask_span_at(const struct tn_buf *spans, size_t i)
{
    struct mask_span span;

    memcpy(&span, spans->data + i * sizeof span, sizeof span);
    return span;
}

#endif
