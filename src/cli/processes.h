/* The processes of a sandbox, read from its /proc through the hand: works in any image. */
#ifndef TN_CLI_PROCESSES_H
#define TN_CLI_PROCESSES_H

#include <stdint.h>

#include "base/error.h"

struct process {
    int pid, parent;
    int64_t uid;
    char state;
    double cpu_seconds;
    int64_t memory; /* resident bytes */
    char *command;
};

struct processes {
    struct process *items;
    size_t count;
};

/* Everything that descends from the hand, in order of pid. */
int processes_read(struct processes *list, const char *address, const char *key, int64_t deadline,
                   struct tn_error *err);
void processes_done(struct processes *list);

#endif
