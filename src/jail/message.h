/* What the two processes of the launcher tell each other, one packet each. */
#ifndef TN_JAIL_MESSAGE_H
#define TN_JAIL_MESSAGE_H

#include <sys/types.h>

#include "base/error.h"
#include "jail/isolation.h"

enum jail_message_kind {
    /* to the child */
    JAIL_USERNS,  /* a user namespace comes along: the jail's, then one for each volume */
    JAIL_STORAGE, /* the storage comes along; also from the child of an ordinary user */
    JAIL_MAPPED,  /* its ids are mapped */
    JAIL_GO,      /* the control groups are joined */
    /* from the child */
    JAIL_WALL,       /* a socket of its wall, in their order; an ordinary user's */
    JAIL_FILLED,     /* its layers are complete */
    JAIL_READY,      /* about to exec; `isolation` is what it has */
    JAIL_FAILED,     /* `step` and `error` */
    JAIL_UNMAPPABLE, /* ids cannot be mapped: `error` names the file system */
};

struct jail_message {
    enum jail_message_kind kind;
    char step[40];
    struct tn_error error;
    struct tn_jail_isolation isolation;
    uid_t uid; /* JAIL_USERNS: the owner it was made for */
    gid_t gid;
};

/* fd -1: none goes along. */
int jail_send(int socket, const struct jail_message *message, int fd, struct tn_error *err);
/* 1, 0 when the other side has closed it, or -1; waits until the deadline.  fd may be NULL. */
int jail_receive(int socket, struct jail_message *message, int *fd, int64_t deadline,
                 struct tn_error *err);

/* In the child: waits for that message (NULL: its content does not matter) and returns its
 * descriptor, -1 when there is none; -2 with err when the launcher is gone. */
int jail_expect(int socket, enum jail_message_kind kind, struct jail_message *message,
                struct tn_error *err);

#endif
