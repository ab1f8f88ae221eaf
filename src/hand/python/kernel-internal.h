/* The inside of a kernel, shared by its files: kernel.c (turns, cells) and kernel-start.c. */
#ifndef TN_HAND_PYTHON_KERNEL_INTERNAL_H
#define TN_HAND_PYTHON_KERNEL_INTERNAL_H

#include "hand/python/bridge.h"
#include "hand/python/kernel.h"

/* With the lock. */
struct kernel_turn {
    struct kernel_turn *next;
    const char *request; /* of its cell, or NULL */
    bool given_up;
    bool sent;          /* to the bridge, or about to be */
    bool first;         /* of its kernel, which is set up before it */
    int64_t owed_until; /* when a bridge that was told must have ended it; 0: it was not told */
};

/* Whoever has the turn may use all of it; to let others see what is below `lock`, it is changed
 * with the lock held. */
struct kernel {
    struct kernel_place *place;
    char *name;
    int refs; /* atomic */

    bool ready;       /* it has answered */
    bool fresh;       /* and has run nothing yet */
    int64_t start_by; /* when one that does not get ready is given up */
    uint64_t requests;
    uint64_t owed; /* the request whose cell has not stopped; 0: none */
    int64_t owed_until;
    char *listing; /* what the shell exported when the kernel was last told */
    char **exports;
    char *cwd;  /* of the shell, when the kernel was last told; NULL: never */
    char *died; /* how it ended, by its own account */
    char *lost; /* how the one before ended; told with the next result */
    struct tn_backoff backoff;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct kernel_turn *turns; /* first come, first served */
    struct bridge *bridge;     /* NULL: nothing runs */
    bool stopped;              /* by its owner: no fault of its own */
    pid_t pid;                 /* by its own account: to be shown, not to be used */
    char *file, *interpreter;  /* of the latest one */
    int64_t cells, restarts;
};

/* All with the turn. */

/* The shell whose directory and variables it shares: the one of its name, or the main one.  The
 * caller unrefs it. */
struct tn_session *kernel_shell(struct kernel *k);
/* Takes in a line that is no answer anybody waits for. */
void kernel_note(struct kernel *k, const struct tn_json *message);
/* Makes sure that it is ready.  TN_E_TIMEOUT: it goes on starting. */
int kernel_ensure(struct kernel *k, int64_t deadline, struct tn_error *err);
/* It has ended, or shall: forgets it.  why: when it has not told itself. */
void kernel_lose(struct kernel *k, const char *why);

#endif
