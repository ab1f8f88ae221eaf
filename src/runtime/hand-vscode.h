/* The editor of a sandbox, through its hand: /v1/vscode. */
#ifndef TN_RUNTIME_HAND_VSCODE_H
#define TN_RUNTIME_HAND_VSCODE_H

#include <stdint.h>

#include "base/error.h"
#include "runtime/hand-answer.h"

struct tn_hand_vscode {
    int port;      /* inside the sandbox */
    bool loopback; /* only the sandbox itself, and a tunnel into it, can reach that port */
    char *base;    /* the path that a proxy in front of it is expected to put first, or "" */
    char *page;    /* what to open there after the base: "/?tkn=..." */
};
void tn_hand_vscode_done(struct tn_hand_vscode *v);
#define tn_autovscode TN_CLEANUP(tn_hand_vscode_done)

/* Starts the editor if need be and waits until it can be visited.  0, or -1 with err: what is
 * missing, or why it could not be started. */
int tn_hand_vscode_open(const struct tn_hand_address *at, struct tn_hand_vscode *out,
                        int64_t deadline, struct tn_error *err);

#endif
