#include "gate/keeper-socket.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/buf.h"
#include "base/fd-pass.h"
#include "gate/keeper-protocol.h"

enum { ANSWER_MAX = 1024, NETWORK_MAX = 64 << 10, REQUEST_MS = 500 };

int keeper_listen(int directory, const char *name, struct tn_error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    tn_autofd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/" TN_KEEPER_SOCKET,
             directory);
    unlinkat(directory, TN_KEEPER_SOCKET, 0);
    mode_t mask = umask(0177);
    int r = fd < 0 ? -1 : bind(fd, (struct sockaddr *)&address, sizeof address);
    umask(mask);
    if (r < 0 || listen(fd, 16) < 0)
        return tn_fail_errno(err, errno, "%s/" TN_KEEPER_SOCKET, name);
    return TN_TAKE_FD(fd);
}

static bool is_ours(int socket)
{
    struct ucred peer;
    socklen_t size = sizeof peer;

    return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
           (peer.uid == 0 || peer.uid == geteuid());
}

int keeper_accept(int listener, char *line, size_t size)
{
    tn_autofd int socket = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    struct pollfd p = {.fd = socket, .events = POLLIN};

    if (socket < 0 || !is_ours(socket) || poll(&p, 1, REQUEST_MS) <= 0)
        return -1;
    ssize_t n = recv(socket, line, size - 1, MSG_DONTWAIT);
    line[n < 0 ? 0 : n] = '\0';
    return TN_TAKE_FD(socket);
}

void keeper_answer(int socket, const char *text, int fd)
{
    tn_fd_send(socket, text, strlen(text), &fd, fd >= 0, MSG_DONTWAIT);
}

void keeper_answer_result(int socket, int result, const struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(ANSWER_MAX);

    if (result == 0)
        tn_buf_puts(&text, "ok\n");
    else
        tn_buf_printf(&text, TN_KEEPER_NO "%s\n", err->text);
    keeper_answer(socket, tn_buf_str(&text), -1);
}

/* --- about the gate ------------------------------------------------------------------------- */

static void answer_network(struct tn_gate_keeper *gate, int socket, const char *nothing)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(NETWORK_MAX);
    struct tn_jw w = tn_jw(&text);

    tn_gate_keeper_tell(gate, &w, SIZE_MAX);
    tn_buf_putc(&text, '\n');
    keeper_answer(socket, tn_buf_str(&text), -1);
}

static void answer_questions(struct tn_gate_keeper *gate, int socket, const char *nothing)
{
    struct tn_error err = {0};
    int own = fcntl(socket, F_DUPFD_CLOEXEC, 0);

    if (own < 0 || tn_gate_keeper_listen(gate, own, &err) < 0)
        keeper_answer_result(socket, -1, &err);
}

static void answer_allow(struct tn_gate_keeper *gate, int socket, const char *what)
{
    struct tn_error err = {0};

    keeper_answer_result(socket, tn_gate_keeper_answer(gate, what, true, &err), &err);
}

static void answer_refuse(struct tn_gate_keeper *gate, int socket, const char *what)
{
    struct tn_error err = {0};

    keeper_answer_result(socket, tn_gate_keeper_answer(gate, what, false, &err), &err);
}

bool keeper_serve_gate(struct tn_gate_keeper *gate, int socket, const char *line)
{
    static const struct {
        const char *request;
        void (*answer)(struct tn_gate_keeper *gate, int socket, const char *what);
        bool what; /* a word follows */
    } requests[] = {
        {TN_KEEPER_NETWORK, answer_network, false},
        {TN_KEEPER_QUESTIONS, answer_questions, false},
        {TN_KEEPER_ALLOW, answer_allow, true},
        {TN_KEEPER_REFUSE, answer_refuse, true},
    };
    const char *end = strchr(line, '\n');

    for (size_t i = 0; end && i < TN_COUNT(requests); i++) {
        size_t head = strlen(requests[i].request);
        if (strncmp(line, requests[i].request, head) != 0 ||
            (!requests[i].what && line + head != end))
            continue;
        tn_autofree char *what = tn_strndup(line + head, (size_t)(end - line) - head);
        requests[i].answer(gate, socket, what);
        return true;
    }
    return false;
}
