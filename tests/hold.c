/* hold PID [no-stop]: tries to take hold of that process in every way that ptrace's rules are asked
 * for, to take its descriptors by a limit, and to stop it by a signal.  Each way has a process of
 * its own, and prints one line: what it tried, "done", or why not. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static pid_t pid;

static const char *about(const char *name)
{
    static char path[64];

    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    return path;
}

static long attach(void)
{
    return ptrace(PTRACE_ATTACH, pid, 0, 0);
}

static long seize(void)
{
    return ptrace(PTRACE_SEIZE, pid, 0, 0);
}

static long read_memory(void)
{
    return open(about("mem"), O_RDONLY);
}

static long write_memory(void)
{
    return open(about("mem"), O_RDWR);
}

static long see_maps(void)
{
    char byte;
    int fd = open(about("maps"), O_RDONLY);

    return fd < 0 || read(fd, &byte, 1) < 0 ? -1 : 0;
}

static long see_environment(void)
{
    char byte;
    int fd = open(about("environ"), O_RDONLY);

    return fd < 0 || read(fd, &byte, 1) < 0 ? -1 : 0;
}

static long open_descriptor(void)
{
    return open(about("fd/0"), O_RDONLY);
}

static long take_descriptor(void)
{
    long fd = syscall(SYS_pidfd_open, pid, 0);

    return fd < 0 ? -1 : syscall(SYS_pidfd_getfd, fd, 0, 0);
}

/* No address of the other is known: one that is not there is seen only by who may look. */
static long copy_memory(long call)
{
    char byte = 0;
    struct iovec here = {&byte, 1}, there = {(void *)1, 1};
    long r = syscall(call, pid, &here, 1, &there, 1, 0);

    return r < 0 && errno == EFAULT ? 0 : r;
}

static long copy_out(void)
{
    return copy_memory(SYS_process_vm_readv);
}

static long copy_in(void)
{
    return copy_memory(SYS_process_vm_writev);
}

static long limit(pid_t whose)
{
    const struct rlimit none = {1, 1};

    return prlimit(whose, RLIMIT_NOFILE, &none, NULL);
}

static long limit_it(void)
{
    return limit(pid);
}

/* A thread is as good as its process. */
static long limit_thread(void)
{
    DIR *tasks = opendir(about("task"));
    long last = -1;

    for (struct dirent *e; tasks && (e = readdir(tasks));)
        last = atoi(e->d_name) ? atoi(e->d_name) : last;
    return last < 0 ? -1 : limit((pid_t)last);
}

/* 0 when it stands still after a while. */
static long stop(void)
{
    for (time_t end = time(NULL) + 2; time(NULL) < end; sched_yield()) {
        char text[512] = "";
        int fd = open(about("stat"), O_RDONLY);
        if (kill(pid, SIGSTOP) < 0 || fd < 0 || read(fd, text, sizeof text - 1) <= 0)
            return -1;
        close(fd);
        if (strncmp(strrchr(text, ')'), ") T", 3) == 0)
            return 0;
    }
    errno = EAGAIN;
    return -1;
}

static const struct {
    const char *name;
    long (*way)(void);
} ways[] = {
    {"attach", attach},
    {"seize", seize},
    {"read memory", read_memory},
    {"write memory", write_memory},
    {"see maps", see_maps},
    {"see environment", see_environment},
    {"open descriptor", open_descriptor},
    {"take descriptor", take_descriptor},
    {"copy out", copy_out},
    {"copy in", copy_in},
    {"limit", limit_it},
    {"limit a thread", limit_thread},
    {"stop", stop},
};

int main(int argc, char **argv)
{
    pid = argc > 1 ? atoi(argv[1]) : 1;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        if (argc > 2 && ways[i].way == stop)
            continue;
        if (fork() == 0) {
            long r = ways[i].way();
            printf("%s: %s\n", ways[i].name, r < 0 ? strerror(errno) : "done");
            fflush(stdout);
            _exit(0);
        }
        wait(NULL);
    }
    return 0;
}
