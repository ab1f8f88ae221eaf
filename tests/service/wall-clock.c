/* Preloaded into a program: its wall clock, moved by as many seconds as the file $TN_TEST_CLOCK
 * says (an int64_t, which may change at any time).  Clocks that nobody can set stay as they are. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *moved;

__attribute__((constructor)) static void open_file(void)
{
    const char *path = getenv("TN_TEST_CLOCK");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;

    if (fd < 0)
        return;
    void *map = mmap(NULL, sizeof *moved, PROT_READ, MAP_SHARED, fd, 0);
    if (map != MAP_FAILED)
        moved = map;
    close(fd);
}

int clock_gettime(clockid_t clock, struct timespec *t)
{
    int result = (int)syscall(SYS_clock_gettime, clock, t);

    if (result == 0 && moved && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        t->tv_sec += (time_t)*moved;
    return result;
}

time_t time(time_t *out)
{
    struct timespec t = {0};

    clock_gettime(CLOCK_REALTIME, &t);
    if (out)
        *out = t.tv_sec;
    return t.tv_sec;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone)
{
    struct timespec now = {0};

    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    t->tv_sec = now.tv_sec;
    t->tv_usec = now.tv_nsec / 1000;
    return 0;
}
