/* A server for tests that plays a script: each connection is answered, request by request, with the
 * next text; it says what it was asked. */
#ifndef TN_TESTS_UNIT_WEB_SCRIPT_SERVER_H
#define TN_TESTS_UNIT_WEB_SCRIPT_SERVER_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* What to do with a connection after an answer. */
enum script_then { SCRIPT_KEEP, SCRIPT_CLOSE, SCRIPT_STALL };

struct script_step {
    const char *answer;
    enum script_then then;
};

struct script_server {
    char path[64];  /* of its socket; "" when it listens on TCP */
    char where[64]; /* then: "http://127.0.0.1:PORT" */
    int listener, stop[2];
    const struct script_step *steps; /* ends with a NULL answer */
    size_t at;
    char asked[1 << 16]; /* all requests, one after the other */
    size_t asked_len;
    int connections;
    pthread_t thread;
};

/* Reads until the head and as much body as its Content-Length, or the last chunk, says; false at
 * the end of the stream. */
static inline bool script_read(struct script_server *s, int fd)
{
    size_t start = s->asked_len;
    char first;

    if (recv(fd, &first, 1, MSG_PEEK) <= 0)
        return false;
    for (;;) {
        s->asked[s->asked_len] = '\0';
        const char *request = s->asked + start, *end = strstr(request, "\r\n\r\n");
        const char *length = end ? strcasestr(request, "\r\nContent-Length: ") : NULL;
        bool chunked = end && strcasestr(request, "\r\nTransfer-Encoding: chunked");
        size_t body = length && length < end ? strtoul(length + 18, NULL, 10) : 0;
        if (end && chunked && strstr(end, "\r\n0\r\n\r\n"))
            return true;
        if (end && !chunked && strlen(end + 4) >= body)
            return true;
        ssize_t n = read(fd, s->asked + s->asked_len, sizeof s->asked - s->asked_len - 1);
        if (n <= 0)
            return false;
        s->asked_len += (size_t)n;
    }
}

static inline void script_wait_stop(struct script_server *s)
{
    struct pollfd p = {.fd = s->stop[0], .events = POLLIN};

    while (poll(&p, 1, -1) < 0)
        ;
}

/* One request and its answer; false when the connection is over. */
static inline bool script_talk(struct script_server *s, int fd)
{
    if (!script_read(s, fd) || !s->steps[s->at].answer)
        return false;
    const struct script_step *step = &s->steps[s->at++];
    if (send(fd, step->answer, strlen(step->answer), MSG_NOSIGNAL) < 0)
        return false;
    if (step->then == SCRIPT_STALL)
        script_wait_stop(s);
    return step->then == SCRIPT_KEEP;
}

enum { SCRIPT_CONNECTIONS = 30 };

static inline void *script_run(void *arg)
{
    struct script_server *s = arg;
    struct pollfd p[2 + SCRIPT_CONNECTIONS] = {{.fd = s->listener, .events = POLLIN},
                                               {.fd = s->stop[0], .events = POLLIN}};
    nfds_t n = 2;

    while (poll(p, n, -1) >= 0 && !p[1].revents) {
        for (nfds_t i = n - 1; i >= 2; i--) {
            if (p[i].revents && !script_talk(s, p[i].fd)) {
                close(p[i].fd);
                p[i] = p[--n];
            }
        }
        if (!p[0].revents || n == 2 + SCRIPT_CONNECTIONS)
            continue;
        p[n] = (struct pollfd){.fd = accept(s->listener, NULL, NULL), .events = POLLIN};
        s->connections++;
        n++;
    }
    while (n > 2)
        close(p[--n].fd);
    return NULL;
}

/* Plays the script to whoever comes to that listener. */
static inline void script_play(struct script_server *s)
{
    if (listen(s->listener, 16) < 0 || pipe(s->stop) < 0 ||
        pthread_create(&s->thread, NULL, script_run, s) != 0)
        abort();
}

static inline void script_start(struct script_server *s, const struct script_step *steps)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};

    memset(s, 0, sizeof *s);
    s->steps = steps;
    snprintf(s->path, sizeof s->path, "/tmp/tn-script-%d.sock", (int)getpid());
    unlink(s->path);
    memcpy(a.sun_path, s->path, strlen(s->path));
    s->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s->listener < 0 || bind(s->listener, (struct sockaddr *)&a, sizeof a) < 0)
        abort();
    script_play(s);
}

/* The same at a port of the loopback address. */
static inline void script_start_tcp(struct script_server *s, const struct script_step *steps)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;

    memset(s, 0, sizeof *s);
    s->steps = steps;
    s->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s->listener < 0 || bind(s->listener, (struct sockaddr *)&a, sizeof a) < 0 ||
        getsockname(s->listener, (struct sockaddr *)&a, &n) < 0)
        abort();
    snprintf(s->where, sizeof s->where, "http://127.0.0.1:%d", ntohs(a.sin_port));
    script_play(s);
}

static inline void script_stop(struct script_server *s)
{
    close(s->stop[1]);
    pthread_join(s->thread, NULL);
    close(s->stop[0]);
    close(s->listener);
    if (*s->path)
        unlink(s->path);
}

#endif
