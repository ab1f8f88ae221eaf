/* A client that does nothing but wait: one keep-alive connection on a unix socket.
 *
 *   requests SOCKET N GET /path        or
 *   requests SOCKET N POST /path BODY
 *
 * Prints the time of each round trip in nanoseconds, one per line. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void read_answer(int fd)
{
    static char text[1 << 20];
    size_t have = 0;

    for (;;) {
        ssize_t n = read(fd, text + have, sizeof text - 1 - have);
        if (n <= 0)
            exit(1);
        have += (size_t)n;
        text[have] = '\0';
        const char *end = strstr(text, "\r\n\r\n");
        const char *length = end ? strcasestr(text, "\ncontent-length:") : NULL;
        if (length && have >= (size_t)(end + 4 - text) + strtoul(length + 16, NULL, 10))
            return;
    }
}

int main(int argc, char **argv)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char *request;

    if (argc < 5)
        return 2;
    const char *body = argc > 5 ? argv[5] : "";
    int n = asprintf(&request,
                     "%s %s HTTP/1.1\r\nHost: hand\r\nContent-Type: application/json\r\n"
                     "Content-Length: %zu\r\n\r\n%s",
                     argv[3], argv[4], strlen(body), body);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", argv[1]);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (n < 0 || fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0) {
        perror(argv[1]);
        return 1;
    }
    long rounds = strtol(argv[2], NULL, 10);
    for (long i = 0; i < rounds; i++) {
        int64_t start = now();
        if (write(fd, request, (size_t)n) != n)
            return 1;
        read_answer(fd);
        printf("%lld\n", (long long)(now() - start));
    }
    return 0;
}
