/* How the keeper starts tendon-gate and what they tell each other; see gate.h. */
#ifndef TN_GATE_PROGRAM_H
#define TN_GATE_PROGRAM_H

enum {
    TN_GATE_CONTROL = 3,
    TN_GATE_PINS,
    TN_GATE_SETTINGS,
    TN_GATE_VAULT,
    TN_GATE_WALL, /* TN_WALL_SOCKETS of them */
};

enum {
    TN_GATE_SETTINGS_MAX = 1 << 20,
    TN_GATE_RECORD_MAX = 512,
    TN_GATE_QUESTIONS = 16, /* that wait for an answer at a time */
};

/* Who a gate of root becomes: below the ranges of the sandboxes, owns nothing anywhere; in a pod
 * nobody else may be it. */
enum { TN_GATE_UID = 0x6fffffff };

#define TN_GATE_NAMESERVER "nameserver "
#define TN_GATE_ASK "ask " /* SECONDS that a connection without a rule waits for an answer */

/* The first byte of a record, and then HOST TAB PORT; what begins with another byte is a refusal.
 * From the gate: somebody is to be asked, nobody is any more.  To the gate: the answer. */
enum {
    TN_GATE_ASKED = 1,
    TN_GATE_OVER = 2,
    TN_GATE_YES = '+',
    TN_GATE_NO = '-',
    TN_GATE_TOO_MANY = '!', /* nobody is asked */
};

#endif
