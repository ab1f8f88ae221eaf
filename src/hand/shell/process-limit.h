/* The limit on the number of processes, as far as it can be told from inside a sandbox.
 *
 * A control group counts how often it refused one, and a container sees its own.  A resource limit,
 * which is what a jail of an ordinary user has, counts nothing: there only the moment tells in
 * which a program says that it was refused. */
#ifndef TN_HAND_SHELL_PROCESS_LIMIT_H
#define TN_HAND_SHELL_PROCESS_LIMIT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct tn_process_limit {
    int64_t hits;   /* of the control group, as far as told */
    int64_t looked; /* when tn_process_limit_now last looked */
};

/* What was before this does not count. */
void tn_process_limit_init(struct tn_process_limit *p);

/* Whether this output ends with the words of a program that was refused a process, which then stops
 * or waits.  Costs next to nothing, however much output there is. */
bool tn_process_limit_is_mentioned(const char *bytes, size_t n);

/* The limit of the control group when it was met since this was last asked; else 0. */
int64_t tn_process_limit_of_group(struct tn_process_limit *p);

/* To be asked at the moment of these words: that, or the resource limit when this user has all the
 * processes it may have; else 0, also when this was asked just before. */
int64_t tn_process_limit_now(struct tn_process_limit *p, uid_t uid);

#endif
