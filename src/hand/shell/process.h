/* One shell process on one terminal, and whoever listens to both.
 *
 * A thread of its own listens unless somebody attends: who waits for a command listens himself,
 * which saves a change of threads.  Events come from the listener, one at a time and in order: a
 * command's output is always delivered before the record that ends it, because the terminal is
 * emptied first. */
#ifndef TN_HAND_SHELL_PROCESS_H
#define TN_HAND_SHELL_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"
#include "hand/shell/dialect.h"

struct tn_shell;

struct tn_shell_events {
    void (*output)(void *ctx, const char *bytes, size_t n);
    void (*record)(void *ctx, const struct tn_record *record);
    void (*idle)(void *ctx);                    /* some 2 ms after a line ended */
    void (*exited)(void *ctx, int wait_status); /* the last one */
    void *ctx;
};

struct tn_shell_options {
    const char *program; /* looked up in PATH of env when it has no slash */
    const char *cwd;
    char *const *env;
    uid_t uid;
    gid_t gid;
    const gid_t *groups;
    size_t group_count;
    bool switch_user;
    int columns, rows;
};

/* Starts the shell and its thread; the shell is not yet set up (the caller sends dialect->setup).
 */
struct tn_shell *tn_shell_new(const struct tn_shell_options *options,
                              const struct tn_shell_events *events, struct tn_error *err);
/* Kills what is left, waits for the thread and frees. */
void tn_shell_free(struct tn_shell *sh);

/* The caller listens from now on; tn_shell_listen handles what comes next, or returns at the
 * deadline, when nudged, or when client (a socket, or -1) is closed by its other side, which is
 * when it returns false.  Only one attends at a time; leave as soon as the wait is over. */
void tn_shell_attend(struct tn_shell *sh);
bool tn_shell_listen(struct tn_shell *sh, int64_t deadline, int client);
void tn_shell_nudge(struct tn_shell *sh); /* by anybody */
void tn_shell_leave(struct tn_shell *sh);

const struct tn_dialect *tn_shell_dialect(const struct tn_shell *sh);
const char *tn_shell_token(const struct tn_shell *sh); /* for struct tn_line */
pid_t tn_shell_pid(const struct tn_shell *sh);
/* Script text for the shell; and keys for whatever reads the terminal.  -1 when the deadline passed
 * first. */
int tn_shell_send(struct tn_shell *sh, const char *text, size_t n, int64_t deadline,
                  struct tn_error *err);
int tn_shell_type(struct tn_shell *sh, const char *keys, size_t n, int64_t deadline,
                  struct tn_error *err);
/* Lets output flow again that a program has stopped. */
void tn_shell_let_flow(struct tn_shell *sh);
/* The same, and gives the terminal its ordinary modes back. */
void tn_shell_calm_terminal(struct tn_shell *sh);
void tn_shell_resize(struct tn_shell *sh, int columns, int rows);
/* The foreground process group of the terminal, or -1. */
pid_t tn_shell_foreground(const struct tn_shell *sh);
/* Whether that is the shell's own, or of a child that executes nothing (yet). */
bool tn_shell_has_terminal(const struct tn_shell *sh);
/* Kills every process of the shell's session at once. */
void tn_shell_kill(struct tn_shell *sh);
/* CPU time of the shell and its finished children, in seconds; and the largest peak among its live
 * ones. */
int tn_shell_times(const struct tn_shell *sh, double *user, double *system);
int64_t tn_shell_peak_memory(const struct tn_shell *sh);

#endif
