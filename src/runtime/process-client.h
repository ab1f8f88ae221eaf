/* Processes of a sandbox, through its hand: /v1/processes.
 *
 * Starting one is an action (event/process-spec.h) and goes through runtime/execute.h; this is the
 * rest.  `which` names a process everywhere below: its id ("p" and 16 hexadecimal digits), its pid
 * ("4711"), or "tag:TAG"; of several with the same tag or pid the one that runs, else the newest.
 *
 * One client is one kept-alive connection, for one thread at a time; each call has a deadline.
 * What a hand answers is bounded here, whatever it says.  TN_E_NOT_FOUND: there is no such process
 * (any more; ended ones are kept for ten minutes, while there is room). */
#ifndef TN_RUNTIME_PROCESS_CLIENT_H
#define TN_RUNTIME_PROCESS_CLIENT_H

#include <stdint.h>

#include "base/error.h"
#include "event/process-spec.h"

/* Bytes of one stream that are still kept: those from `first` up to `end`, which is how many there
 * were in all. */
struct tn_process_log {
    uint64_t first, end;
};

struct tn_process_status {
    char id[TN_PROCESS_ID_SIZE];
    int64_t pid;
    struct tn_process_spec spec; /* as it was started; user and cwd as they were found */
    bool running;                /* the process itself; its children may hold the logs open */
    bool over;                   /* ...and so have its logs, or a second has passed */
    /* How it ended: one of the two is set, and neither while it runs. */
    struct tn_opt_int exit_code;    /* 0 to 255 */
    struct tn_opt_int signal;       /* the number that Linux gives it */
    bool late;                      /* it was killed because its seconds were over */
    double started, ended;          /* seconds since 1970; ended 0: it runs */
    struct tn_process_log out, err; /* a terminal has only out */
    uint64_t input;                 /* bytes of standard input taken so far */
    bool input_open;
};
void tn_process_status_done(struct tn_process_status *s);
#define tn_autostatus TN_CLEANUP(tn_process_status_done)

struct tn_process_client;

/* address and key as for tn_hand_client_new.  Does not connect yet. */
struct tn_process_client *tn_process_client_new(const char *address, const char *key,
                                                struct tn_error *err);
void tn_process_client_free(struct tn_process_client *c);
static inline void tn_guard_process_client(struct tn_process_client **c)
{
    tn_process_client_free(*c);
}
#define tn_autoprocessclient TN_CLEANUP(tn_guard_process_client)
/* Whoever waits stops (TN_E_TIMEOUT) once that descriptor, which is borrowed, is readable. */
void tn_process_client_cancel_by(struct tn_process_client *c, int fd);
/* What answers need is held there (borrowed; NULL: nowhere): TN_E_BUSY when it is empty. */
void tn_process_client_hold(struct tn_process_client *c, struct tn_purse *purse);

/* How it is now.  The caller ends *out. */
int tn_process_look(struct tn_process_client *c, const char *which, struct tn_process_status *out,
                    int64_t deadline, struct tn_error *err);
/* Waits until it is not running any more.  TN_E_TIMEOUT at the deadline. */
int tn_process_wait(struct tn_process_client *c, const char *which, struct tn_process_status *out,
                    int64_t deadline, struct tn_error *err);
/* Calls fn for every one, the oldest first; non-zero from fn stops and is returned. */
typedef int (*tn_process_fn)(const struct tn_process_status *s, void *ctx);
int tn_process_each(struct tn_process_client *c, tn_process_fn fn, void *ctx, int64_t deadline,
                    struct tn_error *err);

/* --- output ---------------------------------------------------------------------------------- */

enum tn_process_piece_kind {
    TN_PROCESS_OUT,  /* bytes of standard output, or of the terminal; at most 32 KiB at a time */
    TN_PROCESS_ERR,  /* bytes of standard error, likewise */
    TN_PROCESS_LOST, /* `lost` bytes before offset are kept no more; stream says of which log */
    TN_PROCESS_BEAT, /* nothing has come for `beat` seconds */
    TN_PROCESS_END,  /* it has ended, and what it said was handed over: status.  Processes that it
                        left behind and that hold its logs are waited for a second. */
};
struct tn_process_piece {
    enum tn_process_piece_kind kind;
    enum tn_process_piece_kind stream; /* OUT, ERR, LOST: TN_PROCESS_OUT or TN_PROCESS_ERR */
    uint64_t offset;                   /* OUT, ERR: of the first byte; LOST: of the next one kept */
    uint64_t lost;
    const void *bytes; /* until fn returns */
    size_t n;
    const struct tn_process_status *status; /* END: until fn returns */
};
/* Non-zero stops. */
typedef int (*tn_process_piece_fn)(const struct tn_process_piece *piece, void *ctx);

/* Where a reader is.  Offsets grow for the life of the process; any number of readers may follow,
 * each with its own.  UINT64_MAX: from what comes next. */
struct tn_process_place {
    uint64_t out, err;
};
enum { TN_PROCESS_BEAT_MIN = 1, TN_PROCESS_BEAT_MAX = 60 };
struct tn_process_follow {
    struct tn_process_place at; /* moved along as pieces are handed over, so that a second call goes
                                   on where the first ended */
    bool now;       /* hand over what there is now, and do not wait: then 0 also without an END */
    double beat;    /* seconds, TN_PROCESS_BEAT_MIN to _MAX; 0: 15 */
    double silence; /* seconds without a sign of life, at least three beats, after which the hand
                       has gone away; 0: 45 */
};
/* Calls fn for all that comes out, until the process has ended and its logs are closed (an END is
 * the last piece then).  A connection that breaks is made anew where it broke off.  0, what fn
 * returned, or -1 with err: TN_E_TIMEOUT at the deadline, TN_E_PEER when the hand goes away. */
int tn_process_read(struct tn_process_client *c, const char *which, struct tn_process_follow *f,
                    tn_process_piece_fn fn, void *ctx, int64_t deadline, struct tn_error *err);

/* --- input and signals ------------------------------------------------------------------------ */

/* Writes to its standard input, or types on its terminal.  offset: how many bytes came before these
 * (tn_process_status.input); what was taken already is not written again, so a write that may have
 * arrived can be repeated.  A gap is TN_E_CONFLICT.  UINT64_MAX: after whatever came before; such a
 * write is never repeated.  *taken (may be NULL): bytes taken in all by now; fewer than wanted with
 * TN_E_TIMEOUT when the process does not read.  TN_E_GONE: its input is closed, or it has ended. */
int tn_process_input(struct tn_process_client *c, const char *which, uint64_t offset,
                     const void *bytes, size_t n, uint64_t *taken, int64_t deadline,
                     struct tn_error *err);
/* The end of its input (on a terminal: the character for it).  Closing twice is fine. */
int tn_process_close_input(struct tn_process_client *c, const char *which, int64_t deadline,
                           struct tn_error *err);
/* TN_E_CONFLICT: it has no terminal. */
int tn_process_resize(struct tn_process_client *c, const char *which, int64_t columns, int64_t rows,
                      int64_t deadline, struct tn_error *err);
/* Variables of processes that are started from now on: an array of names that are gone and an
 * object of texts that are there; each may be NULL. */
int tn_process_change_env(struct tn_process_client *c, const struct tn_json *unset,
                          const struct tn_json *set, int64_t deadline, struct tn_error *err);
/* To its process group; signal 1 to 64.  TN_E_GONE: it has ended. */
int tn_process_signal(struct tn_process_client *c, const char *which, int signal, int64_t deadline,
                      struct tn_error *err);
/* Kills its group if it runs, and forgets it with its logs. */
int tn_process_remove(struct tn_process_client *c, const char *which, int64_t deadline,
                      struct tn_error *err);

#endif
