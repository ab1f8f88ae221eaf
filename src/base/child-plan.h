/* Between the files of child: what the new process does between its birth and exec. */
#ifndef TN_BASE_CHILD_PLAN_H
#define TN_BASE_CHILD_PLAN_H

#include <sched.h>
#include <stdatomic.h>

#include "base/child.h"

/* What a new process borrows from the one that starts it until it has exec'd.  ThreadSanitizer does
 * not know of two processes in one memory. */
#if defined(__SANITIZE_THREAD__)
#define CHILD_BORROW 0
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CHILD_BORROW 0
#endif
#endif
#ifndef CHILD_BORROW
#define CHILD_BORROW (CLONE_VM | CLONE_VFORK)
#endif

#define CHILD_STACK (64 * 1024)

/* In the order in which they happen. */
enum child_step {
    STEP_ORPHAN,
    STEP_SESSION,
    STEP_DESCRIPTORS,
    STEP_TERMINAL,
    STEP_MARK,
    STEP_GROUPS,
    STEP_GID,
    STEP_UID,
    STEP_CWD,
    STEP_DEATH_SIGNAL,
    STEP_EXEC,
    STEP_COUNT
};

struct child_report {
    int step;
    int sys;
};

/* Everything is prepared before the birth: afterwards nothing may allocate or lock. */
struct child_plan {
    char **argv;
    char **env;
    char **candidates; /* paths to try, in order */
    char *cwd;
    struct tn_child_fd *fds;
    int *moved; /* room for one descriptor per row of fds */
    size_t fd_count;
    int above; /* lowest number that is no target */
    bool set_user;
    uid_t uid;
    gid_t gid;
    gid_t *groups;
    size_t group_count;
    bool session, group, terminal;
    int death_signal;
    uint64_t mark;
    pid_t parent;
    int report_fd;        /* the child's end of the pipe; closed by exec */
    volatile bool shared; /* set by the child (who starts an orphan: when that one has exec'd or
                             failed): seen by the parent only if they share memory */
    char *orphan_stack;   /* of the program itself, when it is to be nobody's child; or NULL */
    bool lost;            /* an orphan that may never have exec'd may still use all of this */
    int lost_fd;          /* then: our end of the pipe, which ends when it is past that */
    struct child_plan *next_lost;
};

/* After a fork: the threads that start processes are not there.  In between nobody has the lock. */
void child_spawn_before_fork(void);
void child_spawn_after_fork(bool child);

struct child_plan *child_plan_new(const struct tn_child_spec *spec, struct tn_error *err);
void child_plan_free(struct child_plan *plan);

/* The life of the child up to exec; returns only when something failed, after reporting it.  All
 * signals are blocked when it starts.  Uses nothing but system calls. */
int child_run(void *plan);

/* Starts the planned process on a lasting thread, stores its number in *pid before it runs, and
 * waits until it runs or has failed, or the deadline passes.  Owns the plan.  The owner of *pid is
 * kept by ref/unref for as long as somebody may still write to it. */
struct child_slot {
    _Atomic pid_t pid;
    void (*ref)(struct child_slot *);
    void (*unref)(struct child_slot *);
    void (*kill)(struct child_slot *); /* if it still is that process */
    void (*bury)(struct child_slot *); /* wait for it, when the reaper does not */
};
int child_spawn(struct child_plan *plan, struct child_slot *slot, int64_t deadline,
                struct tn_error *err);

#endif
