/* The first message of TLS: whom the client wants to talk to. */
#ifndef TN_GATE_HELLO_H
#define TN_GATE_HELLO_H

#include "gate/rules.h"

enum tn_hello_state {
    TN_HELLO_MORE, /* not all of it is there */
    TN_HELLO_NOT,  /* no client hello of TLS */
    TN_HELLO_WHOLE,
};

struct tn_hello {
    char name[TN_NAME_MAX + 1]; /* of the server; "" when it names none */
    bool encrypted;             /* it hides another one (ECH, or its predecessor) */
};

enum { TN_HELLO_MAX = 32 << 10 };

enum tn_hello_state tn_hello_read(const uint8_t *bytes, size_t size, struct tn_hello *hello);

#endif
