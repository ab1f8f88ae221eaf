/* Places of boxes that are about to run, so that many that start at once cannot all have the last
 * one; kept beside the line (queue.c), used by admit.c. */
#ifndef TN_SERVICE_ROOM_H
#define TN_SERVICE_ROOM_H

#include <pthread.h>

#include "service/admit.h"

struct room {
    pthread_mutex_t lock;
    struct kept_place {
        char id[11];
        int64_t until; /* its start has ended by then, whatever came of it */
    } * kept;
    size_t count;
    double copies; /* bytes that are being written to the disk by forks and snapshots, at most */
};

struct room *queue_room(struct queue *q);

#endif
