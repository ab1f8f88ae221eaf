/* The reference: a persistent bash on a bare terminal, driven by the simplest possible client.
 *
 *   bare-pty latency N    round trips of `:`, times in nanoseconds, one per line
 *   bare-pty output CMD   runs CMD and throws its output away; prints the seconds it took */
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define PROMPT "\001READY\002"

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* Reads until the prompt is the last thing that came. */
static void read_prompt(int master)
{
    static char text[64 << 10];
    char tail[sizeof PROMPT] = "";

    for (;;) {
        ssize_t n = read(master, text, sizeof text);
        if (n <= 0)
            exit(1);
        size_t keep = sizeof PROMPT - 1;
        if ((size_t)n >= keep) {
            memcpy(tail, text + n - keep, keep);
        } else {
            memmove(tail, tail + n, keep - (size_t)n);
            memcpy(tail + keep - n, text, (size_t)n);
        }
        if (memcmp(tail, PROMPT, keep) == 0)
            return;
    }
}

static int start_bash(void)
{
    int master;
    pid_t pid = forkpty(&master, NULL, NULL, NULL);

    if (pid < 0)
        exit(1);
    if (pid == 0) {
        setenv("PS1", PROMPT, 1);
        execlp("bash", "bash", "--norc", "--noprofile", "--noediting", "-i", (char *)NULL);
        _exit(127);
    }
    struct termios modes;
    tcgetattr(master, &modes);
    modes.c_lflag &= ~(tcflag_t)ECHO;
    tcsetattr(master, TCSANOW, &modes);
    read_prompt(master);
    return master;
}

static void command(int master, const char *text)
{
    if (write(master, text, strlen(text)) < 0 || write(master, "\n", 1) < 0)
        exit(1);
    read_prompt(master);
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    int master = start_bash();
    if (strcmp(argv[1], "output") == 0) {
        int64_t start = now();
        command(master, argv[2]);
        printf("%.6f\n", (double)(now() - start) / 1e9);
        return 0;
    }
    long rounds = strtol(argv[2], NULL, 10);
    for (long i = 0; i < rounds; i++) {
        int64_t start = now();
        if (write(master, ":\n", 2) != 2)
            return 1;
        read_prompt(master);
        printf("%lld\n", (long long)(now() - start));
    }
    return 0;
}
