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
};

#define TN_GATE_NAMESERVER "nameserver "

#endif
