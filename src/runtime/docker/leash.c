/* A container cannot see the process it belongs to; but it sees who holds a lock. */
#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>

#include "base/fs.h"
#include "runtime/docker/docker.h"

#define OWNER "run/owner" /* which the container can replace by anything */

/* Locks that this process holds; only its end, or that of the sandbox, releases them. */
struct leash {
    char *path;
    int fd;
    struct leash *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct leash *held;

static char *lock_path(const struct tn_subject *s)
{
    return tn_asprintf("%s/" OWNER, s->directory);
}

bool docker_is_owner(const struct tn_subject *s)
{
    return s->owner.pid != 0 && s->owner.pid == getpid();
}

static struct leash **find(const char *path)
{
    struct leash **at = &held;

    while (*at && strcmp((*at)->path, path) != 0)
        at = &(*at)->next;
    return at;
}

int docker_leash(const struct tn_subject *s, struct tn_error *err)
{
    tn_autofree char *path = lock_path(s);
    int r = 0;

    if (!docker_is_owner(s))
        return 0;
    pthread_mutex_lock(&lock);
    if (!*find(path)) {
        tn_autofd int fd = tn_fs_open_shared(s->directory, OWNER, O_RDWR | O_CREAT, 0600, err);
        if (fd < 0) {
            r = -1;
        } else if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
            r = tn_fail_errno(err, errno, "%s", path);
        } else {
            struct leash *leash = tn_calloc(1, sizeof *leash);
            *leash = (struct leash){.path = TN_TAKE_PTR(path), .fd = TN_TAKE_FD(fd), .next = held};
            held = leash;
        }
    }
    pthread_mutex_unlock(&lock);
    return r;
}

void docker_unleash(const struct tn_subject *s)
{
    tn_autofree char *path = lock_path(s);

    pthread_mutex_lock(&lock);
    struct leash **at = find(path), *leash = *at;
    if (leash) {
        *at = leash->next;
        close(leash->fd);
        free(leash->path);
        free(leash);
    }
    pthread_mutex_unlock(&lock);
}
