/* Starts a program again and again, and prints how long each took to end: spawn COUNT PROGRAM
 * ARG... Times in nanoseconds. */
#include <inttypes.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    for (long i = strtol(argv[1], NULL, 10); i > 0; i--) {
        int64_t start = now();
        int status;
        pid_t pid;

        if (posix_spawnp(&pid, argv[2], NULL, NULL, argv + 2, environ) ||
            waitpid(pid, &status, 0) < 0)
            return 1;
        if (status) {
            fprintf(stderr, "%s: status %d\n", argv[2], status);
            return 1;
        }
        printf("%" PRId64 "\n", now() - start);
    }
    return 0;
}
