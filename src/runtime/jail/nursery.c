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
    n->number = 0;
    n->asked = n->comes = false;
}

/* It ends when it hears that nobody is there any more. */
void jail_nursery_done(struct jail_nursery *n)
{
    tn_close(TN_TAKE_FD(n->socket));
    pthread_mutex_destroy(&n->lock);
}

/* --- as whom -------------------------------------------------------------------------------- */

struct jail_user jail_user_now(void)
{
    struct jail_user user = {.uid = geteuid(), .gid = getegid(), .groups = 14695981039346656037u};
    int count = getgroups(0, NULL);
    tn_autofree gid_t *groups = count > 0 ? tn_calloc((size_t)count, sizeof *groups) : NULL;

    count = count > 0 ? getgroups(count, groups) : 0;
    for (int i = 0; i < count; i++)
        user.groups = (user.groups ^ groups[i]) * 1099511628211u;
    return user;
}

bool jail_user_is(const struct jail_user *user)
{
    struct jail_user now = jail_user_now();

    return user->uid == now.uid && user->gid == now.gid && user->groups == now.groups;
}

/* --- asking --------------------------------------------------------------------------------- */

static unsigned ask(const struct jail_nursery *n, int parcel)
{
    const struct tn_child_fd fds[] = {{parcel, TN_PARCEL_FD}};

    return n->socket >= 0 && jail_user_is(&n->user) &&
                   tn_parcel_send(n->socket, fds, TN_COUNT(fds), NULL) == 0
               ? n->number
               : 0;
}

unsigned jail_nursery_ask(struct jail_nursery *n, int parcel)
{
    pthread_mutex_lock(&n->lock);
    unsigned number = ask(n, parcel);
    pthread_mutex_unlock(&n->lock);
    return number;
}

/* Whoever comes while one is being started does without: that may take as long as the one who
 * starts it has time. */
unsigned jail_nursery_bear(struct jail_engine *e, int parcel, int64_t deadline)
{
    struct jail_nursery *n = &e->nursery;

    pthread_mutex_lock(&n->lock);
    unsigned number = ask(n, parcel);
    bool start = number == 0 && n->asked && !n->comes;
    n->asked = true;
    if (start) { /* it never was, has died, or is of whom this process no longer is */
        tn_close(TN_TAKE_FD(n->socket));
        n->user = jail_user_now();
        n->comes = true;
    }
    pthread_mutex_unlock(&n->lock);
    if (!start)
        return number;
    int socket = jail_program_start(e, "--nursery", TN_NURSERY_FD, deadline, NULL);
    pthread_mutex_lock(&n->lock);
    n->socket = socket;
    n->number++;
    n->comes = false;
    number = ask(n, parcel);
    pthread_mutex_unlock(&n->lock);
    return number;
}

void jail_nursery_leave(struct jail_nursery *n, unsigned number)
{
    pthread_mutex_lock(&n->lock);
    if (n->number == number)
        tn_close(TN_TAKE_FD(n->socket));
    pthread_mutex_unlock(&n->lock);
}
