/* A named IPython kernel: started by its first cell, one cell at a time, replaced when it dies. */
#ifndef TN_HAND_PYTHON_KERNEL_H
#define TN_HAND_PYTHON_KERNEL_H

#include <pthread.h>

#include "base/json.h"
#include "hand/hand.h"

/* What all kernels of a hand share. */
struct kernel_place {
    struct tn_hand *hand;
    bool closing; /* atomic: nothing starts any more */
    pthread_mutex_t lock;
    char *directory;          /* program and sockets; NULL until the first start */
    char *path, *interpreter; /* the latest PATH, and the Python that could */
};

struct kernel;
/* Starts nothing.  name is that of a session as well. */
struct kernel *kernel_new(struct kernel_place *place, const char *name);
struct kernel *kernel_ref(struct kernel *k);
/* The last one ends it. */
void kernel_unref(struct kernel *k);
/* Nothing runs, and nobody but the caller has it. */
bool kernel_is_spare(struct kernel *k);
const char *kernel_name(const struct kernel *k);

struct kernel_cell {
    const char *code;
    const char *init;    /* code that a new kernel runs first; "": none */
    double timeout;      /* seconds */
    const char *request; /* by which it can be given up; or NULL */
    /* Told what it prints while it runs; NULL: nobody wants to know. */
    void (*live)(const char *text, size_t n, void *ctx);
    void *ctx;
};

enum kernel_end {
    KERNEL_DONE,
    KERNEL_TIMEOUT,
    KERNEL_DIED,
    KERNEL_GIVEN_UP, /* before it was sent */
    KERNEL_FAILED,   /* there is none */
};

struct kernel_result {
    enum kernel_end end;
    struct tn_json *answer; /* of the bridge; NULL when it gave none */
    char *why;              /* how it died, why it takes so long, or what failed; may be NULL */
    char *lost;             /* how the kernel before this one ended, told once; or NULL */
    char *cwd;              /* of the shell */
    char *interpreter;      /* NULL: not known */
};
void kernel_result_done(struct kernel_result *r);

/* Runs a cell: fills *r (uninitialised memory), by the timeout + 1 s. */
void kernel_run(struct kernel *k, const struct kernel_cell *cell, struct kernel_result *r);
/* Returns when it is ready for a cell. */
int kernel_start(struct kernel *k, int64_t deadline, struct tn_error *err);
/* Ends it, in the middle of a cell perhaps; the next cell starts another one. */
void kernel_stop(struct kernel *k);
/* A cell that runs gets a KeyboardInterrupt; one whose kernel is being set up is not run. */
void kernel_interrupt(struct kernel *k);
/* The cell of that request is not run, or gets one KeyboardInterrupt and, if it goes on, loses its
 * kernel; its end is waited for, which takes as long as the start of its kernel.  False: there is
 * none. */
bool kernel_give_up(struct kernel *k, const char *request, int64_t deadline);

struct kernel_state {
    bool running, busy;
    pid_t bridge, kernel; /* 0: none */
    int64_t memory, cells, restarts;
    char *file, *interpreter; /* the caller frees them; may be NULL */
};
void kernel_inspect(struct kernel *k, struct kernel_state *state);

#endif
