/* Suspend to disk: criu writes the processes of a jail down and makes them anew in another one.
 *
 * For a plan with `criu`.  What is written lies in plan.directory, for root alone:
 *     suspending/         while it is written; TN_JAIL_SUSPENDED once it is whole
 *         images/         what criu writes, and its logs
 *         files/shm ...   what was in /dev/shm, /run and /tmp
 *         facts.json      what the images call the descriptors that come from outside
 * A restore uses TN_JAIL_SUSPENDED up: it becomes TN_JAIL_TRASH* before the first process runs on.
 *
 * criu is always a child of the keeper, which is in the Landlock domain of its jail: so criu may
 * talk to the processes that it writes down, and what it makes is in the domain again. */
#ifndef TN_JAIL_CRIU_H
#define TN_JAIL_CRIU_H

#include "jail/jail.h"

#define TN_JAIL_SUSPENDING "suspending"
/* In the environment of criu: keeper, its descriptor of the directory, PID 1. */
#define JAIL_ACTION_SUBJECT "TENDON_JAIL"

/* --- criu-words.c: its command line ----------------------------------------------------------- */

struct jail_words {
    char **items; /* ends with NULL */
    size_t count;
};
void jail_words_add(struct jail_words *words, const char *format, ...) TN_PRINTF(2, 3);
void jail_words_done(struct jail_words *words);
#define jail_autowords TN_CLEANUP(jail_words_done)

/* What both commands have in common. */
void jail_words_begin(struct jail_words *words, const char *command, const char *images,
                      const char *log, pid_t keeper);
/* Becomes criu; pid is that of the PID 1 that is to end, or 0.  Returns when that failed. */
void jail_words_execute(const struct jail_words *words, const struct jail *j, pid_t keeper,
                        pid_t pid);
/* The first complaint in a log of criu, on the heap; "" when there is none. */
char *jail_criu_complaint(int images, const char *log);

/* --- criu-files.c -------------------------------------------------------------------------- */

/* criu calls this program on its way, with CRTOOLS_SCRIPT_ACTION in its environment: it keeps the
 * files in memory of the processes that are about to end, or uses the images up. */
int jail_criu_action(void);
/* The files of the system mount on that target back into it. */
int jail_fill_memory(const struct jail *j, int mount, const char *target, struct tn_error *err);

/* --- criu-dump.c, in the keeper --------------------------------------------------------------- */

/* Ends the processes of the jail and keeps what they were.  On failure they run on. */
int jail_suspend(struct jail *j, pid_t pid, int pidfd, struct tn_error *err);

/* --- criu-restore.c, in the child of the launcher --------------------------------------------- */

/* Opens the images, and reads what is needed of them, while they can be seen. */
int jail_open_images(struct jail *j, struct tn_error *err);
/* Lays everything that is mounted in the jail out for criu. */
int jail_lay_out(struct jail *j, struct tn_error *err);
int jail_become_criu(struct jail *j, struct tn_error *err);
/* In the launcher, after criu ended with that status: pid and pidfd become those of the new PID 1,
 * if it has everything that a jail must have. */
int jail_take_restored(struct jail *j, int status, pid_t *pid, int *pidfd, struct tn_error *err);
#define JAIL_RESTORE_SECONDS 120.0

struct jail_facts {
    int64_t pipe, socket;
};
extern const struct tn_fields jail_facts_fields;

#endif
