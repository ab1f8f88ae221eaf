/* Child processes: starting them, waiting for them, reaping all of them.
 *
 * A process that may be PID 1, or wants to inherit the orphans of its children, calls
 * tn_reaper_start in its main thread and from then on tn_reaper_collect whenever the returned
 * descriptor is readable; that one thread waits for every child and hands the result to whoever
 * holds its handle.  A process (or a library inside a foreign process) that never calls it waits
 * for its own children only. Everything else here may be called from any thread, and works the same
 * either way; also in a fork of this process, for children of its own. */
#ifndef TN_BASE_CHILD_H
#define TN_BASE_CHILD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"

struct tn_child;

struct tn_exit {
    int status; /* as wait(2) gives it: WIFEXITED and so on */
    struct rusage usage;
};

/* Descriptor `from` of this process is descriptor `to` of the child; from -1 is /dev/null. */
struct tn_child_fd {
    int from, to;
};

struct tn_child_user {
    uid_t uid;
    gid_t gid;
    const gid_t *groups; /* the supplementary ones */
    size_t group_count;
};

typedef void (*tn_child_exit_fn)(struct tn_child *child, const struct tn_exit *result, void *ctx);

/* All of it is copied; only argv is required. */
struct tn_child_spec {
    const char *const *argv; /* ends with NULL; without a '/' argv[0] is looked up in PATH of env */
    const char *file;        /* execute this instead of argv[0] */
    const char *const *env;  /* ends with NULL; NULL: the environment of this process */
    const char *cwd;         /* entered as the new user; NULL: stay */
    /* Every other descriptor is closed in the child, but 0, 1 and 2 are then /dev/null. */
    const struct tn_child_fd *fds;
    size_t fd_count;
    const struct tn_child_user *user; /* NULL: as this process */
    bool session;                     /* its own session, hence group */
    bool group;                       /* its own process group */
    bool terminal;    /* descriptor 2 is its controlling terminal; implies session */
    bool orphan;      /* nobody's child: the handle is of a process that only starts it and ends */
    int death_signal; /* sent to it when this process (not merely the calling thread) dies; 0: none
                       */
    uint64_t mark;    /* of tn_proc_mark_new; 0: none */
    int64_t deadline; /* by when it must run; 0: in ten seconds */
    /* Called by tn_reaper_collect, in its thread (by tn_child_start itself for a child that has
     * ended by then, never for one that could not be started); needs the reaper. */
    tn_child_exit_fn on_exit;
    void *ctx;
};

/* Starts it.  Returns the handle once the program runs, or NULL; the message names the step that
 * failed.  Signal mask and dispositions are the defaults.  The caller frees the handle. */
struct tn_child *tn_child_start(const struct tn_child_spec *spec, struct tn_error *err);

/* Forgets the child: it runs on, and the reaper buries it.  (Without the reaper: wait for it first,
 * or it stays a zombie.)  When this returns, on_exit is not running and never will. */
void tn_child_free(struct tn_child *child);
static inline void tn_guard_child(struct tn_child **child)
{
    tn_child_free(*child);
}
#define tn_autochild TN_CLEANUP(tn_guard_child)

pid_t tn_child_pid(const struct tn_child *child);
/* Readable once it has exited: for poll.  -1 when the kernel has no pidfds, or it exited at once;
 * then tn_child_wait with a deadline is the way.  Stays with the handle. */
int tn_child_pidfd(const struct tn_child *child);

/* Waits until it has exited: 0 (out may be NULL), or -1 with TN_E_TIMEOUT at the deadline.  May be
 * called again, and by several threads.  A deadline of 0 asks without waiting. */
int tn_child_wait(struct tn_child *child, int64_t deadline, struct tn_exit *out,
                  struct tn_error *err);

/* Sends the signal to the child or to its process group; -1 with TN_E_GONE when it has exited.
 * Never hits a later process of the same number. */
int tn_child_signal(struct tn_child *child, int signal, struct tn_error *err);
int tn_child_signal_group(struct tn_child *child, int signal, struct tn_error *err);

/* Runs a program to its end in a group of its own.  input, 4096 bytes at most, is its standard
 * input; what it writes lands in out and in complaints, and what does not fit there is dropped.
 * Its exit code, or -1 with err (TN_E_TIMEOUT: it was killed). */
int tn_child_run(const char *const *argv, const char *const *env, const char *input,
                 struct tn_buf *out, struct tn_buf *complaints, int64_t deadline,
                 struct tn_error *err);

/* What a shell would say: the exit code, or 128 + the signal. */
int tn_exit_code(const struct tn_exit *result);

/* Makes the calling thread the one that reaps; call it before other threads start.  Blocks SIGCHLD.
 * adopt: orphaned descendants become children of this process, as they do for PID 1.  Returns a
 * descriptor to poll for reading (it stays the reaper's), or -1. */
int tn_reaper_start(bool adopt, struct tn_error *err);
/* Reaps everything that has exited by now.  Never blocks.  Only in the thread that started it. */
void tn_reaper_collect(void);
/* Back to the state before tn_reaper_start; children still running are nobody's then. */
void tn_reaper_stop(void);

#endif
