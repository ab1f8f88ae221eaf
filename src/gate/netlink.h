/* Messages to the kernel over netlink: built one after the other, sent at once. */
#ifndef TN_GATE_NETLINK_H
#define TN_GATE_NETLINK_H

#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

struct tn_netlink {
    struct tn_buf bytes;
    size_t message; /* where the last one begins */
    uint32_t sent;  /* messages that are to be acknowledged */
};

void tn_netlink_init(struct tn_netlink *n);
void tn_netlink_done(struct tn_netlink *n);
#define tn_autonetlink TN_CLEANUP(tn_netlink_done)

/* Begins a message with its fixed part; flags beside NLM_F_REQUEST. */
void tn_netlink_begin(struct tn_netlink *n, uint16_t type, uint16_t flags, const void *head,
                      size_t size);
void tn_netlink_add(struct tn_netlink *n, uint16_t type, const void *data, size_t size);
void tn_netlink_add_text(struct tn_netlink *n, uint16_t type, const char *text);
void tn_netlink_add_be32(struct tn_netlink *n, uint16_t type, uint32_t value);
/* What is added between them lies in one attribute. */
size_t tn_netlink_open(struct tn_netlink *n, uint16_t type);
void tn_netlink_close(struct tn_netlink *n, size_t at);
/* Each message ends with it. */
void tn_netlink_end(struct tn_netlink *n);

/* A socket of that protocol (NETLINK_ROUTE, ...) in the network of the calling process, or -1. */
int tn_netlink_socket(int protocol, struct tn_error *err);
/* Sends all of it and waits until the kernel has acknowledged each message that asked for it
 * (NLM_F_ACK); the first refusal is the error. */
int tn_netlink_send(int socket, struct tn_netlink *n, struct tn_error *err);
/* Sends one message that is not acknowledged: what is answered, if it is of that type and has at
 * least so many bytes; else NULL.  It lies in the buffer. */
enum { TN_NETLINK_ANSWER = 4096 };
const void *tn_netlink_ask(int socket, struct tn_netlink *n, uint16_t type, size_t size,
                           char answer[TN_NETLINK_ANSWER]);

#endif
