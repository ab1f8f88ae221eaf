#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/fd-pass.h"
#include "gate/keeper-protocol.h"

/* A path of any length fits into a socket address by way of its directory's descriptor. */
static int dial(const char *directory, int64_t deadline, struct tn_error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    tn_autofd int dir = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    tn_autofd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int ms = tn_poll_ms(deadline);
    struct timeval left = {.tv_sec = ms < 0 ? 3600 : ms / 1000,
                           .tv_usec = ms < 0 ? 0 : ms % 1000 * 1000 + 1};

    if (dir < 0 || fd < 0)
        return tn_fail_errno(err, errno, "%s", directory);
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/" TN_KEEPER_SOCKET, dir);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &left, sizeof left);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &left, sizeof left);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
        return errno == ECONNREFUSED
                   ? tn_fail(err, TN_E_PEER, "the keeper of %s is gone", directory)
                   : tn_fail_errno(err, errno, "keeper of %s", directory);
    return TN_TAKE_FD(fd);
}

/* Appends what came, and keeps a descriptor that came with it. */
static ssize_t receive(int socket, struct tn_buf *out, int *fd)
{
    char bytes[512];
    int passed;
    size_t count = 1;
    ssize_t n = tn_fd_receive(socket, bytes, sizeof bytes, &passed, &count, 0);

    if (fd && *fd < 0)
        *fd = TN_TAKE_FD(passed);
    tn_close(passed);
    if (n <= 0)
        return n;
    tn_buf_add(out, bytes, (size_t)n);
    return n;
}

/* Nothing but the first line is read: what follows it is for who reads later. */
static int heard(int socket, int64_t deadline, struct tn_error *err)
{
    struct pollfd p = {.fd = socket, .events = POLLIN};
    char line[256] = "";
    size_t n = 0;

    while (n < sizeof line - 1 && poll(&p, 1, tn_poll_ms(deadline)) > 0 &&
           recv(socket, line + n, 1, 0) == 1 && line[n] != '\n')
        n++;
    bool whole = line[n] == '\n';
    line[n] = '\0';
    if (whole && strcmp(line, "ok") == 0)
        return 0;
    bool no = strncmp(line, TN_KEEPER_NO, strlen(TN_KEEPER_NO)) == 0;
    return tn_fail(err, no ? TN_E_CONFLICT : TN_E_PEER, "its keeper: %s",
                   *line ? line : "no answer");
}

int tn_keeper_listen(const char *directory, int64_t deadline, struct tn_error *err)
{
    tn_autofd int socket = dial(directory, deadline, err);

    if (socket < 0)
        return -1;
    if (send(socket, TN_KEEPER_QUESTIONS "\n", strlen(TN_KEEPER_QUESTIONS) + 1, MSG_NOSIGNAL) < 0)
        return tn_fail_errno(err, errno, "keeper of %s", directory);
    return heard(socket, deadline, err) < 0 ? -1 : TN_TAKE_FD(socket);
}

int tn_keeper_ask(const char *directory, const char *request, struct tn_buf *out, int *fd,
                  int64_t deadline, struct tn_error *err)
{
    tn_autofd int socket = dial(directory, deadline, err);
    tn_autofree char *line = tn_asprintf("%s\n", request);
    ssize_t n;

    if (fd)
        *fd = -1;
    if (socket < 0)
        return -1;
    if (send(socket, line, strlen(line), MSG_NOSIGNAL) < 0)
        return tn_fail_errno(err, errno, "keeper of %s", directory);
    do {
        n = receive(socket, out, fd);
    } while (n > 0 && tn_buf_ok(out));
    if (n < 0)
        return tn_fail_errno(err, errno, "keeper of %s", directory);
    if (!tn_buf_ok(out) || out->len == 0 || out->data[out->len - 1] != '\n')
        return tn_fail(err, TN_E_PEER, "the keeper of %s gave half an answer", directory);
    tn_buf_cut(out, out->len - 1);
    return 0;
}
