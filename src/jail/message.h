/* What the two processes of the launcher tell each other, one packet each. */
#ifndef TN_JAIL_MESSAGE_H
#define TN_JAIL_MESSAGE_H

#include "base/error.h"
#include "jail/isolation.h"

enum jail_message_kind {
    JAIL_GO,         /* to the child: the control groups are joined */
    JAIL_MAPPED,     /* to the child: its ids are mapped */
    JAIL_WANT_MAP,   /* from the child: map my ids */
    JAIL_STORAGE,    /* from the child: the descriptor of its storage comes along */
    JAIL_READY,      /* from the child: about to exec; `isolation` is what it has */
    JAIL_FAILED,     /* from the child: `step` and `error` */
    JAIL_UNMAPPABLE, /* from the child: ids cannot be mapped on its storage */
};

struct jail_message {
    enum jail_message_kind kind;
    char step[40];
    struct tn_error error;
    struct tn_jail_isolation isolation;
};

/* fd -1: none goes along. */
int jail_send(int socket, const struct jail_message *message, int fd, struct tn_error *err);
/* 1, 0 when the other side has closed it, or -1; waits until the deadline.  fd may be NULL. */
int jail_receive(int socket, struct jail_message *message, int *fd, int64_t deadline,
                 struct tn_error *err);

#endif
