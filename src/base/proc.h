/* Other processes, through /proc: who descends from whom, and ending them for certain. */
#ifndef TN_BASE_PROC_H
#define TN_BASE_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"

/* A number alone may be reused; with the start time it names one process for good. */
struct tn_proc {
    pid_t pid;
    pid_t parent;
    uint64_t start; /* clock ticks after boot */
};

/* Reads `count` of the numbers of a line of /proc: words between blanks, of which the first `skip`
 * are left out.  -1 when one is missing or is no number. */
int tn_proc_numbers(const char *line, unsigned skip, unsigned long long *out, unsigned count);

/* -1 when there is no such process. */
int tn_proc_get(pid_t pid, struct tn_proc *out);

/* This process leaves no core file from now on, nor does what it starts unless that wants to: its
 * memory holds what no file may.  Not even the host's crash handler gets one. */
void tn_proc_no_core(void);

/* All descendants of root at this moment, parents before children, without root.  The caller frees
 * *list, which is NULL when there are none. */
int tn_proc_descendants(pid_t root, struct tn_proc **list, size_t *count, struct tn_error *err);

/* Asks them to end (SIGTERM), and kills those that are still there at `grace`.  Returns 0 as soon
 * as all have ended (zombies have), or -1: TN_E_TIMEOUT at the deadline, TN_E_DENIED for one that
 * is not ours to signal.  grace 0: kill at once. */
int tn_proc_kill(const struct tn_proc *list, size_t count, int64_t grace, int64_t deadline,
                 struct tn_error *err);

/* The same for all descendants of root, and root itself if root_too, including those that are born
 * meanwhile: before killing, everything is stopped until nothing new appears. */
int tn_proc_kill_tree(pid_t root, bool root_too, int64_t grace, int64_t deadline,
                      struct tn_error *err);

/* Kills those of our descendants that belong to the session whose leader has that number: what is
 * left of it when its parents have ended. */
void tn_proc_kill_session(pid_t leader, int64_t deadline);

/* A mark for a child (tn_child_spec) and all that come from it, whatever they make of their
 * environment, session, user and parents: a limit of the real-time CPU time, as large as none and
 * different each time.  The kernel hands it down, shows it to everybody, and raises it for nobody
 * without a privilege.  0 when this process is marked itself, or limited: that stays. */
uint64_t tn_proc_mark_new(void);
/* Kills those of our descendants that bear the mark, which is not 0. */
void tn_proc_kill_marked(uint64_t mark, int64_t deadline);

/* Stops (SIGSTOP) root and all its descendants, parents first, until nothing new appears and all of
 * them stand still; lets all of them go on (SIGCONT), children first, so that no parent sees a
 * stopped child.  -1 with the first that could not be reached (all others are), or TN_E_TIMEOUT. */
int tn_proc_stop_tree(pid_t root, int64_t deadline, struct tn_error *err);
int tn_proc_continue_tree(pid_t root, struct tn_error *err);

/* A descriptor that stands for this very process and becomes readable when it ends; -1 with ESRCH
 * when it is gone, or another errno. */
int tn_proc_open(const struct tn_proc *p);

/* Its state as /proc has it ('R', 'S', 'T', 'Z'...); 0 when it is gone, or another process has its
 * number by now. */
char tn_proc_state(pid_t pid, uint64_t start);
/* Seconds since that start time of a process of this boot, also those that the machine slept. */
double tn_proc_age(uint64_t start);

/* Whether that very process runs: one that has ended and waits to be buried does not. */
bool tn_proc_lives(pid_t pid, uint64_t start);

/* Whether that very process runs and is not on its way out: killed but not yet ended, or ending. */
bool tn_proc_is_well(const struct tn_proc *p);

/* Whether its control groups bear that name, or what is mounted for it does, as those do that an
 * engine made for a container (its id; a rootless engine may have no control groups to give). */
bool tn_proc_bears(pid_t pid, const char *name);

/* Its environment into `out`, each variable with a NUL at its end; nothing for a thread of the
 * kernel and for the dead.  -1 when it is gone, not ours to look at, or larger than `out` may
 * become.  Who is just becoming another program is waited for, a second at most (then -1). */
int tn_proc_environ(pid_t pid, struct tn_buf *out);

/* Memory that root and its descendants hold, and (unless 0) our descendants with the mark, in
 * bytes; what they share counts once. */
int64_t tn_proc_memory(pid_t root, uint64_t mark);

/* How many threads the user has in all processes that can be seen, the dead that wait to be buried
 * included: what RLIMIT_NPROC counts. */
uint64_t tn_proc_threads_of(uid_t uid);

#endif
