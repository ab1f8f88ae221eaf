/* Every name that is looked at takes some milliseconds: a small tree is as slow to count as one of
 * millions of files.  So few names with so much time each: where processors are stolen each takes
 * as much more as the kernel is late, and what is counted in a slice of time must not become less
 * than a few. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <sys/stat.h>
#include <time.h>

/* As programs with large files call fstatat. */
int fstatat64(int dir, const char *name, struct stat64 *st, int flags)
{
    static int (*real)(int, const char *, struct stat64 *, int);
    const struct timespec pause = {.tv_nsec = 3200000};

    if (!real)
        real = dlsym(RTLD_NEXT, "fstatat64");
    ppoll(NULL, 0, &pause, NULL);
    return real(dir, name, st, flags);
}
