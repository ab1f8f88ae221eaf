#ifndef TN_HAND_PROCESS_INTERNAL_H
#define TN_HAND_PROCESS_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/child.h"
#include "hand/process/log.h"
#include "hand/process/process.h"

struct tn_process {
    /* set before anybody else sees it */
    char id[TN_PROCESS_ID_SIZE];
    char *spec; /* JSON */
    char *tag;  /* or NULL */
    bool pty;
    struct tn_child *child;
    pid_t pid;
    double started;   /* seconds since 1970 */
    int64_t deadline; /* when it is killed */
    int wake;         /* eventfd: the thread has something to look at */
    int terminal;     /* for its size; -1: none */

    atomic_int refs;
    pthread_mutex_t lock;   /* for all below */
    pthread_cond_t changed; /* a log has grown, or it has ended */
    struct process_log out, err;
    struct process_reader *readers;
    int64_t wait_for_reader; /* until then somebody is expected to read along; 0: no more */
    bool exited, over, late, removed;
    int status; /* as wait(2) gives it */
    double ended;
    int64_t ended_at; /* the same on the clock of deadlines */
    uint64_t input;   /* bytes that it has taken */
    bool writing;     /* somebody is about to write: only he changes the two */
    int input_fd;     /* -1: closed */

    int out_fd, err_fd; /* the thread's own */
    struct tn_process *next;
};

/* A process that is started but has no thread yet, or NULL. */
struct tn_process *process_new(const struct tn_process_options *options,
                               const struct tn_process_spec *spec, int64_t deadline,
                               struct tn_error *err);
/* Starts its thread, which holds a reference of its own. */
int process_begin(struct tn_process *p, struct tn_error *err);
struct tn_process *process_ref(struct tn_process *p);
void process_wake(struct tn_process *p);
/* With its group and all that came from it. */
void process_kill(struct tn_process *p);
/* Under the lock: waits for `changed`; false at the deadline. */
bool process_wait_change(struct tn_process *p, int64_t deadline);
/* Closes its input unless somebody is just writing, who does it then. */
void process_drop_input(struct tn_process *p);
/* What it holds in memory. */
size_t process_bytes(struct tn_process *p);

#endif
