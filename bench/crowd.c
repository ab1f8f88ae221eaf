/* Many clients at once that do nothing but wait, in one thread: keep-alive connections to a unix
 * socket.
 *
 *   crowd SOCKET CONNECTIONS REQUESTS HEADER METHOD PATH [BODY]
 *
 * Connects all, then sends on all of them at the same moment, and again on each as soon as it was
 * answered, until there were so many requests.  HEADER is "Name: value", or "".  Prints a line
 * "STATUS NANOSECONDS BODY" for each answer (its body cut to 200 bytes, on one line), and "total
 * NANOSECONDS" from the first byte sent to the last received. */
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define ANSWER_MAX (1 << 20)
#define SHOWN 200

struct client {
    int64_t began;
    size_t have;
    char *text;
};

static char *request;
static size_t request_size;

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static _Noreturn void give_up(const char *what)
{
    perror(what);
    exit(1);
}

static void ask(struct pollfd *p, struct client *c)
{
    c->have = 0;
    c->began = now();
    if (write(p->fd, request, request_size) != (ssize_t)request_size)
        give_up("write");
    p->events = POLLIN;
}

/* Whether the answer is complete; prints it then. */
static int hear(struct pollfd *p, struct client *c)
{
    ssize_t n = read(p->fd, c->text + c->have, ANSWER_MAX - 1 - c->have);

    if (n <= 0)
        give_up("read");
    c->have += (size_t)n;
    c->text[c->have] = '\0';
    char *end = strstr(c->text, "\r\n\r\n");
    const char *length = end ? strcasestr(c->text, "\ncontent-length:") : NULL;
    size_t size = length ? strtoul(length + 16, NULL, 10) : 0;
    if (!end || (length && length < end && c->have < (size_t)(end + 4 - c->text) + size))
        return 0;
    for (char *at = end + 4; *at; at++)
        if (*at == '\n' || *at == '\r')
            *at = ' ';
    printf("%.3s %lld %.*s\n", c->text + 9, (long long)(now() - c->began), SHOWN, end + 4);
    return 1;
}

static int connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
        give_up(path);
    return fd;
}

int main(int argc, char **argv)
{
    if (argc < 7)
        return 2;
    long connections = strtol(argv[2], NULL, 10), requests = strtol(argv[3], NULL, 10);
    const char *body = argc > 7 ? argv[7] : "";
    struct pollfd *polls = calloc((size_t)connections, sizeof *polls);
    struct client *clients = calloc((size_t)connections, sizeof *clients);
    int n = asprintf(&request,
                     "%s %s HTTP/1.1\r\nHost: localhost\r\n%s%sContent-Type: application/json\r\n"
                     "Content-Length: %zu\r\n\r\n%s",
                     argv[5], argv[6], argv[4], *argv[4] ? "\r\n" : "", strlen(body), body);

    if (n < 0 || connections < 1 || !polls || !clients)
        return 2;
    request_size = (size_t)n;
    for (long i = 0; i < connections; i++) {
        polls[i].fd = connect_to(argv[1]);
        clients[i].text = malloc(ANSWER_MAX);
        if (!clients[i].text)
            give_up("memory");
    }
    int64_t began = now();
    long sent = 0, heard = 0;
    for (; sent < connections && sent < requests; sent++)
        ask(&polls[sent], &clients[sent]);
    while (heard < requests) {
        if (poll(polls, (nfds_t)connections, 300000) <= 0)
            give_up("poll");
        for (long i = 0; i < connections; i++) {
            if (!polls[i].revents || !hear(&polls[i], &clients[i]))
                continue;
            heard++;
            polls[i].events = 0;
            if (sent < requests) {
                ask(&polls[i], &clients[i]);
                sent++;
            }
        }
    }
    printf("total %lld\n", (long long)(now() - began));
    return 0;
}
