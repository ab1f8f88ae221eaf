/* A hand as a child process of this one, on a unix socket in a directory of ours. */
#ifndef TN_CLI_HAND_PROCESS_H
#define TN_CLI_HAND_PROCESS_H

#include "base/child.h"
#include "base/error.h"

struct hand_process {
    struct tn_child *child;
    char *address; /* for net/http-client.h */
    char *log;     /* path of the file that takes what it prints */
};

#define HAND_PROCESS_INIT \
    {                     \
        .pidfd = -1       \
    }

/* Path of the program: the given one, or the first of: beside this program, in ../lib/tendon from
 * there, in $PATH.  The caller frees it; NULL with err. */
char *find_hand(const char *given, struct tn_error *err);

/* Starts it; a connection to the address is served as soon as it is ready.  directory takes the
 * socket and the log.  From the main thread: the hand ends with the thread that started it. */
int hand_process_start(struct hand_process *p, const char *program, const char *directory,
                       const char *workspace, struct tn_error *err);
/* Ends it and everything it left running (TERM, then KILL after a moment), and frees. */
void hand_process_stop(struct hand_process *p);

/* The last lines it printed, on the heap; for messages. */
char *hand_process_last_words(const struct hand_process *p);

#endif
