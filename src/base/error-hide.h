/* Errors whose words are for whoever runs this program alone: of programs of his, with paths of
 * his. */
#ifndef TN_BASE_ERROR_HIDE_H
#define TN_BASE_ERROR_HIDE_H

#include "base/error.h"

/* In a process that answers others (one with a listener, which is told what err says) err says
 * `instead`; in every other one it stays as it is. */
void tn_error_hide(struct tn_error *err, const char *instead);
/* The text without the paths below the directory of tn_hide_below, each of which becomes "a file of
 * the service"; the listener is told the text.  NULL when there are none in it, or text is NULL.
 * The caller frees the result. */
char *tn_hide_paths(const char *text);
/* For the whole process: what is below this directory is not told to others.  NULL: none. */
void tn_hide_below(const char *directory);
/* For the whole process; NULL: none.  The listener may be called by several threads at once. */
void tn_error_hidden_to(void (*listener)(const char *instead, const char *text));

#endif
