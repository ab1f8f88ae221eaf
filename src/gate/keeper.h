/* Who keeps the gate of one sandbox: it holds the sockets of the wall, starts tendon-gate when
 * something arrives there, and remembers what was refused.  It knows no sandbox: a process that
 * lives as long as one (the keeper of a jail) has it in its poll loop. */
#ifndef TN_GATE_KEEPER_H
#define TN_GATE_KEEPER_H

#include <poll.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/json.h"
#include "gate/program.h"
#include "gate/wall.h"

/* Which descriptors are polled: sockets of the wall, then these. */
enum { TN_GATE_KEEPER_END = 4, TN_GATE_KEEPER_SAYS, TN_GATE_KEEPER_LISTENER, TN_GATE_KEEPER_POLLS };

/* What the gate has refused, last with these words. */
struct tn_gate_refusal {
    uint64_t number, count; /* count 0: none */
    double at;              /* seconds since 1970 */
    char what[304], why[96];
};
enum { TN_GATE_REFUSALS = 32 };

/* A connection without a rule, which waits in the gate. */
struct tn_gate_question {
    char host[256]; /* "": none */
    uint16_t port;
};

/* The control groups of the sandbox. */
struct tn_gate_groups {
    int (*open)(void *ctx); /* a descriptor of the one of v2 to be born in, or -1 */
    /* In the process that becomes the gate, which was born there or not: enters the others.
     * Negative: there is to be no gate. */
    int (*join)(void *ctx, bool born);
};

struct tn_gate_keeper {
    const char *program; /* tendon-gate; borrowed */
    const char *network; /* as it is called: which of tn_gate_modes the rules are; borrowed */
    int log;             /* where the gate complains; -1: nowhere */
    /* What makes the gate count to the sandbox; NULL: it counts to whoever keeps it. */
    const struct tn_gate_groups *groups;
    void *ctx; /* for them */
    struct tn_wall wall;
    int pins, settings; /* files in memory */
    int vault;          /* another one, with what nobody inside may know; -1: none */
    pid_t pid;
    int pidfd, control; /* -1: none runs */
    int64_t not_before;
    bool died;
    uint64_t refused;
    struct tn_gate_refusal refusals[TN_GATE_REFUSALS];
    char *rules;        /* as they count now */
    double ask_seconds; /* that a connection without a rule may wait; 0: nobody is asked */
    int listener;       /* who passes questions on to somebody; -1: nobody, so there are none */
    struct tn_gate_question questions[TN_GATE_QUESTIONS];
    double asked;     /* lately: each is written down, and somebody is told */
    int64_t asked_at; /* when that was right */
};
#define TN_GATE_KEEPER_INIT                                                                    \
    {                                                                                          \
        .log = -1, .wall = TN_WALL_NONE, .pins = -1, .settings = -1, .vault = -1, .pidfd = -1, \
        .control = -1, .listener = -1                                                          \
    }

/* What every gate of this sandbox will be given: rules as tn_rules_parse reads them.  Rules about
 * requests inside TLS are for those that have a vault. */
int tn_gate_keeper_begin(struct tn_gate_keeper *k, const char *rules, struct tn_error *err);
/* New rules, which are checked.  The gate that runs gets them, and connections that it has stay. */
int tn_gate_keeper_reload(struct tn_gate_keeper *k, const char *rules, struct tn_error *err);
/* Ends the gate that runs, and with it all connections; the next one is started as ever. */
void tn_gate_keeper_interrupt(struct tn_gate_keeper *k);
/* At the end of the sandbox: ends the gate, and gives up the sockets of the wall. */
void tn_gate_keeper_end(struct tn_gate_keeper *k);

/* Takes the socket of who passes questions on from now on: lines "ask HOST PORT", "over HOST PORT",
 * "over" (all of them).  Where nobody may be asked it is refused.  Whoever did so before is
 * dropped; when it closes, what waits is refused. */
int tn_gate_keeper_listen(struct tn_gate_keeper *k, int socket, struct tn_error *err);
/* The answer to a question, "HOST PORT"; TN_E_NOT_FOUND: no connection waits for it. */
int tn_gate_keeper_answer(struct tn_gate_keeper *k, const char *what, bool allowed,
                          struct tn_error *err);

/* Fills p; returns when it wants to be called again. */
int64_t tn_gate_keeper_watch(const struct tn_gate_keeper *k, struct pollfd p[TN_GATE_KEEPER_POLLS]);
void tn_gate_keeper_serve(struct tn_gate_keeper *k, const struct pollfd p[TN_GATE_KEEPER_POLLS]);
/* What it has refused, as {"network", "gate", "refused", "refusals"} (gate/keeper-protocol.h); the
 * newest first, until there are so many bytes. */
void tn_gate_keeper_tell(struct tn_gate_keeper *k, struct tn_jw *w, size_t bytes);

#endif
