/* Errors whose words are for whoever runs this program alone: of programs of his, with paths of
 * his. */
#ifndef TN_BASE_ERROR_HIDE_H
#define TN_BASE_ERROR_HIDE_H

#include "base/error.h"

/* In a process that answers others (one with a listener, which is told what err says) err says
 * `instead`; in every other one it stays as it is. */
void tn_error_hide(struct tn_error *err, const char *instead);
/* For the whole process; NULL: none.  The listener may be called by several threads at once. */
void tn_error_hidden_to(void (*listener)(const char *instead, const char *text));

#endif
