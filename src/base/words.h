/* Words of one text, split as a POSIX shell does, without expansions. */
#ifndef TN_BASE_WORDS_H
#define TN_BASE_WORDS_H

#include "base/buf.h"
#include "base/error.h"

/* Appends the word that begins at `at` (no white space) to word and returns what follows it; NULL
 * with err for a quotation that is not closed. */
const char *tn_word_next(const char *at, struct tn_buf *word, struct tn_error *err);

/* White space between words. */
#define TN_WORD_SPACE " \t\r\n"

#endif
