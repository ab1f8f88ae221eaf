/* A sandbox that this process makes, and takes away again unless it is told to leave it.
 *
 * For the two threads of a job: one makes and uses it, the other may have to abandon it at any
 * moment. */
#ifndef TN_CLI_FRESH_H
#define TN_CLI_FRESH_H

#include <pthread.h>
#include <stdbool.h>

#include "cli/cli.h"

struct fresh {
    struct cli *cli;
    struct tn_sandbox *sb;
    bool one_of_many;     /* whoever makes them tells of the progress of all */
    bool warned;          /* of what they do not isolate, once */
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    bool making;
    char id[16]; /* "" while there is none to be removed */
};

void fresh_init(struct fresh *f, struct cli *cli);
/* Frees the handle; the sandbox stays as it is. */
void fresh_done(struct fresh *f);

/* Makes it and waits until its hand is ready; f->sb.  With progress. */
int fresh_make(struct fresh *f, const struct tn_spec *spec, struct tn_error *err);
/* The same as a fork of another; name NULL: of what it is now. */
int fresh_fork(struct fresh *f, struct tn_sandbox *from, const char *name,
               const struct tn_spec *spec, struct tn_error *err);
/* From now on it is not abandoned: somebody wants to keep it. */
void fresh_leave(struct fresh *f);
int fresh_remove(struct fresh *f, struct tn_error *err);

/* From the thread of signals: removes it.  One that is being made and does not come up soon is left
 * to a process that removes it when this one is dead. */
void fresh_abandon(struct fresh *f);

#endif
