/* A parcel: descriptors for a process that is running already, under the numbers that they would
 * have had if it had inherited them. */
#ifndef TN_JAIL_PARCEL_H
#define TN_JAIL_PARCEL_H

#include <stddef.h>

#include "base/child.h"
#include "base/error.h"

enum { TN_PARCEL_MOST = 8 };

/* What tendon-jail is started with: the socket through which a launcher gets its parcel, and that
 * through which a nursery gets such sockets. */
enum { TN_PARCEL_FD = 9, TN_NURSERY_FD = 10 };

/* A socket pair to send it through; [0] is the sender's. */
int tn_parcel_pair(int pair[2], struct tn_error *err);

/* Sends them; to the caller they remain its own.  At most TN_PARCEL_MOST.  Never waits: who does
 * not take parcels out of a full socket does not get one. */
int tn_parcel_send(int socket, const struct tn_child_fd *fds, size_t count, struct tn_error *err);

/* Waits for the parcel and puts its descriptors where they belong; what was there is closed.  Their
 * numbers must be smaller than that of the socket.  1; 0: the sender is gone and never will send
 * one; -1 with err. */
int tn_parcel_receive(int socket, struct tn_error *err);

#endif
