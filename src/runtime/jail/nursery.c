/* The nursery: a tendon-jail that waits, and forks a launcher for everyone who asks.  A program
 * that has to be executed and to find out where it is takes half a millisecond of processor time; a
 * copy of one that has done so takes a tenth of that.  For the first jail of a process it would
 * only be one process more. */
#include "base/fs.h"
#include "jail/parcel.h"
#include "runtime/jail/jail.h"

void jail_nursery_init(struct jail_nursery *n)
{
    pthread_mutex_init(&n->lock, NULL);
    n->socket = -1;
    n->asked = n->comes = false;
}

/* It ends when it hears that nobody is there any more. */
void jail_nursery_done(struct jail_nursery *n)
{
    tn_close(TN_TAKE_FD(n->socket));
    pthread_mutex_destroy(&n->lock);
}

static bool ask(const struct jail_nursery *n, int parcel)
{
    const struct tn_child_fd fds[] = {{parcel, TN_PARCEL_FD}};

    return n->socket >= 0 && tn_parcel_send(n->socket, fds, TN_COUNT(fds), NULL) == 0;
}

bool jail_nursery_ready(struct jail_nursery *n)
{
    pthread_mutex_lock(&n->lock);
    bool ready = n->socket >= 0;
    pthread_mutex_unlock(&n->lock);
    return ready;
}

/* Whether it is on us to start one: there never was one, it has died, or it is of whom this process
 * no longer is. */
static bool must_start(struct jail_nursery *n)
{
    bool must = n->asked && !n->comes;

    if (must) {
        tn_close(TN_TAKE_FD(n->socket));
        n->user = geteuid();
        n->comes = true;
    }
    n->asked = true;
    return must;
}

bool jail_nursery_bear(struct jail_engine *e, int parcel, int64_t deadline)
{
    struct jail_nursery *n = &e->nursery;

    pthread_mutex_lock(&n->lock);
    bool born = n->user == geteuid() && ask(n, parcel);
    bool starts = !born && must_start(n);
    pthread_mutex_unlock(&n->lock);
    if (!starts)
        return born;
    int socket = jail_program_start(e, "--nursery", TN_NURSERY_FD, deadline, NULL);
    pthread_mutex_lock(&n->lock);
    n->comes = false;
    n->socket = socket;
    born = ask(n, parcel);
    pthread_mutex_unlock(&n->lock);
    return born;
}
