/* The inside of a shell process, shared by its files: process.c (life, talking), process-listen.c
 * (who listens, and to what), process-terminal.c and process-proc.c (what the kernel tells about
 * it). */
#ifndef TN_HAND_SHELL_PROCESS_INTERNAL_H
#define TN_HAND_SHELL_PROCESS_INTERNAL_H

#include <pthread.h>
#include <termios.h>

#include "base/child.h"
#include "base/clock.h"
#include "hand/shell/process.h"

enum {
    SHELL_READ_SIZE = 32 << 10,
    SHELL_RECORDS_MAX = 4 << 20, /* an exported environment cannot be larger */
};

struct tn_shell {
    const struct tn_dialect *dialect;
    struct tn_shell_events events;
    struct tn_child *child;
    int master;  /* non-blocking */
    int slave;   /* our own open of the terminal, to set its modes; non-blocking */
    int control; /* the shell's descriptor 0 is the other end; non-blocking */
    int wake;    /* eventfd: the process ended */
    struct termios modes;
    char token[24];  /* begins the shell's records */
    bool typed;      /* keys, since the latest report */
    int wait_status; /* valid once wake is readable */

    /* Who listens: the thread behind it, or whoever attends. */
    pthread_t reader;
    pthread_mutex_t role;
    pthread_cond_t role_changed;
    bool background;    /* the thread is listening now */
    bool thread_parked; /* it waits for the attendant to leave */
    bool attended;
    int64_t quiet_until; /* it does not come back before: the next command is often there at once */
    int kick;            /* eventfd: makes the thread stop listening */

    bool ended; /* set by the listener, under the lock */

    /* Of the listener. */
    uint64_t idle_seen;
    bool hung_up, silent; /* nothing more comes from the terminal, from the socket */
    uint64_t last_done;
    struct tn_buf records;
    char in[SHELL_READ_SIZE];
};

/* Opens the terminal's two sides, with its ordinary modes. */
int shell_open_terminal(struct tn_shell *sh, const struct tn_shell_options *o,
                        struct tn_error *err);
/* The thread that listens while nobody attends; ends with the shell. */
void *shell_listen_thread(void *shell);
/* Not ended, and not replaced by another program: its arguments are those we gave it. */
bool shell_is_itself(const struct tn_shell *sh);

#endif
