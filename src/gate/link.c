/* TCP: accepted from the sandbox, judged, connected, and moved by splice(2) in both directions. */
#include "gate/link.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

enum {
    NAMES_PORT = 53,
    PIPE_BYTES = 256 << 10, /* its pages, of which each may be one of a larger piece */
    MOVED_AT_ONCE = 1 << 20,
    MOVED_IN_A_CROWD = 128 << 10,
    MOVES_A_ROUND = 4,
};

/* --- pipes ---------------------------------------------------------------------------------- */

/* One is held only while bytes are on their way; false: there are enough of them. */
static bool take_pipe(struct gate *g, struct way *w)
{
    if (g->pipe_count > 0) {
        g->pipe_count--;
        memcpy(w->pipe, g->pipes[g->pipe_count], sizeof w->pipe);
        return true;
    }
    if (g->pipes_open >= PIPES_MAX || pipe2(w->pipe, O_CLOEXEC | O_NONBLOCK) < 0) {
        w->pipe[0] = w->pipe[1] = -1;
        return false;
    }
    g->pipes_open++;
    fcntl(w->pipe[1], F_SETPIPE_SZ, PIPE_BYTES);
    return true;
}

static void give_pipe(struct gate *g, struct way *w)
{
    if (w->pipe[0] >= 0 && w->held == 0 && g->pipe_count < PIPES_KEPT) {
        memcpy(g->pipes[g->pipe_count++], w->pipe, sizeof w->pipe);
        w->pipe[0] = w->pipe[1] = -1;
    }
    g->pipes_open -= w->pipe[0] >= 0;
    tn_close(TN_TAKE_FD(w->pipe[0]));
    tn_close(TN_TAKE_FD(w->pipe[1]));
}

/* --- the end -------------------------------------------------------------------------------- */

static void free_rules(struct tn_rules *r)
{
    if (r)
        tn_rules_done(r);
    free(r);
}

void link_end(struct gate *g, struct link *l)
{
    if (l->client.watch.fd < 0)
        return;
    timer_stop(&l->timer);
    tn_close(TN_TAKE_FD(l->client.watch.fd));
    tn_close(TN_TAKE_FD(l->server.watch.fd));
    give_pipe(g, &l->up);
    give_pipe(g, &l->down);
    ended_free(g, TN_TAKE_PTR(l->ended));
    free_rules(TN_TAKE_PTR(l->own));
    if (l->before)
        l->before->after = l->after;
    else
        g->links = l->after;
    if (l->after)
        l->after->before = l->before;
    g->link_count--;
    g->quiet = g->now;
    for (int i = 0; g->full && i < 2; i++)
        run_again(g, &g->listeners[i].again);
    g->full = false;
    if (!l->again.waits)
        bury(g, &l->grave);
}

void link_cut(struct gate *g, struct link *l)
{
    const struct linger now = {.l_onoff = 1};

    setsockopt(l->client.watch.fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    link_end(g, l);
}

static void link_over(struct gate *g, struct timer *t)
{
    struct link *l = CONTAINER(t, struct link, timer);
    char what[TARGET_TEXT];

    if (ended_is_late(g, l)) {
        run_again(g, &l->again);
        return;
    }
    if (t->kind == TIMER_JUDGE)
        refuse(g, target_text(g, &l->address, l->port, what),
               "the client did not say in time what it wants");
    link_cut(g, l);
}

/* --- moving --------------------------------------------------------------------------------- */

/* Out of the pipe. False: an error. */
static bool pass_on(struct gate *g, struct way *w, struct side *to)
{
    ssize_t n =
        splice(w->pipe[0], NULL, to->watch.fd, NULL, w->held, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);

    if (n < 0 && errno == EAGAIN)
        to->out = false;
    else if (n < 0)
        return errno == EINTR;
    else
        w->held -= (size_t)n;
    if (w->held == 0)
        give_pipe(g, w);
    return true;
}

/* What a read of `from` gave that was no bytes: its end, or nothing now.  False: an error. */
static bool take_none(struct way *w, struct side *from, struct side *to, ssize_t n, int error)
{
    if (n == 0) {
        w->ended = true;
        shutdown(to->watch.fd, SHUT_WR);
        return true;
    }
    if (error == EAGAIN)
        from->in = false;
    return error == EAGAIN || error == EINTR;
}

/* Without a pipe: what the other side does not take stays where it is. */
static bool copy(struct gate *g, struct way *w, struct side *from, struct side *to, size_t most,
                 size_t *moved)
{
    ssize_t n =
        recv(from->watch.fd, g->buffer, most < BUFFER ? most : BUFFER, MSG_PEEK | MSG_DONTWAIT);

    if (n <= 0)
        return take_none(w, from, to, n, errno);
    ssize_t sent = send(to->watch.fd, g->buffer, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) {
        to->out = errno != EAGAIN;
        return errno == EAGAIN || errno == EINTR;
    }
    *moved = (size_t)sent;
    return recv(from->watch.fd, g->buffer, (size_t)sent, MSG_DONTWAIT) == sent;
}

/* The first pipes take more at once, which costs fewer rounds; what all of them hold of slow
 * readers stays below 128 MB. */
static int64_t share(const struct gate *g)
{
    return g->pipes_open - g->pipe_count < PIPES_KEPT ? MOVED_AT_ONCE : MOVED_IN_A_CROWD;
}

/* Into the pipe: at most `most` bytes. */
static bool fetch(struct gate *g, struct way *w, struct side *from, struct side *to, size_t most,
                  size_t *moved)
{
    if (!take_pipe(g, w))
        return copy(g, w, from, to, most, moved);
    ssize_t n =
        splice(from->watch.fd, NULL, w->pipe[1], NULL, most, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
    int error = errno;
    if (n > 0) {
        w->held = *moved = (size_t)n;
        return true;
    }
    give_pipe(g, w);
    return take_none(w, from, to, n, error);
}

/* 1: there is more to move; 0: not now; -1: an error. */
static int move(struct gate *g, struct way *w, struct side *from, struct side *to, int64_t *granted)
{
    for (int i = 0; i < MOVES_A_ROUND; i++) {
        size_t moved = 0;
        if (!to->out)
            return 0;
        if (w->held > 0) {
            if (!pass_on(g, w, to))
                return -1;
            continue;
        }
        if (w->ended || !from->in || *granted == 0)
            return 0;
        int64_t most = share(g);
        if (!fetch(g, w, from, to, (size_t)(*granted < most ? *granted : most), &moved))
            return -1;
        if (*granted != GRANT_ALL)
            *granted -= (int64_t)moved;
    }
    return 1;
}

static bool take_connection(struct gate *g, struct link *l)
{
    int error = 0;
    socklen_t size = sizeof error;

    if (!l->server.out)
        return true;
    if (getsockopt(l->server.watch.fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0 || error) {
        if (!l->ended)
            link_cut(g, l);
        else
            ended_unreachable(l->ended, error);
        return l->ended;
    }
    l->connected = true;
    if (l->timer.kind == TIMER_CONNECT)
        timer_stop(&l->timer);
    return true;
}

/* Whatever can be done now is done. */
static void advance(struct gate *g, struct link *l)
{
    int64_t all = GRANT_ALL;

    if (l->client.watch.fd < 0)
        return;
    if (!l->connected && !take_connection(g, l))
        return;
    if (l->guard == GUARD_SWITCH && !guard_server(g, l))
        return;
    while (!l->ended && l->guard != GUARD_NONE && l->guard != GUARD_SWITCH && l->granted == 0 &&
           l->client.in && !l->up.ended) {
        if (!guard_client(g, l))
            return;
        if (l->granted == 0 && l->guard != GUARD_NONE)
            break;
    }
    if (l->ended) {
        ended_advance(g, l);
        return;
    }
    if (!l->connected)
        return;
    int up = move(g, &l->up, &l->client, &l->server, &l->granted);
    int down = up < 0 ? -1 : move(g, &l->down, &l->server, &l->client, &all);
    if (up < 0 || down < 0) {
        link_cut(g, l);
        return;
    }
    if (l->up.ended && l->down.ended && !l->up.held && !l->down.held) {
        link_end(g, l);
        return;
    }
    if (l->up.ended || l->down.ended)
        timer_start(g, &l->timer, TIMER_HALF);
    bool look = l->guard != GUARD_NONE && l->guard != GUARD_SWITCH && l->granted == 0 &&
                l->client.in && !l->up.ended && !l->up.held;
    if (up > 0 || down > 0 || look)
        run_again(g, &l->again);
}

static void note(struct side *s, uint32_t events)
{
    s->in |= (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
    s->out |= (events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0;
}

static void client_ready(struct gate *g, struct watch *w, uint32_t events)
{
    struct link *l = CONTAINER(w, struct link, client.watch);

    note(&l->client, events);
    advance(g, l);
}

static void server_ready(struct gate *g, struct watch *w, uint32_t events)
{
    struct link *l = CONTAINER(w, struct link, server.watch);

    note(&l->server, events);
    advance(g, l);
}

static void link_again(struct gate *g, struct again *a)
{
    struct link *l = CONTAINER(a, struct link, again);

    if (l->client.watch.fd < 0)
        bury(g, &l->grave);
    else
        advance(g, l);
}

/* --- the beginning -------------------------------------------------------------------------- */

static int connect_to(const struct tn_address *a, uint16_t port)
{
    static const int yes = 1;
    union tn_sockaddr to;
    socklen_t size = tn_address_to(a, port, &to);
    tn_autofd int fd = socket(a->family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0 || (connect(fd, &to.any, size) < 0 && errno != EINPROGRESS))
        return -1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
    return TN_TAKE_FD(fd);
}

void link_close_hard(int fd)
{
    const struct linger now = {.l_onoff = 1};

    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    tn_close(fd);
}

void link_begin(struct gate *g, int fd, const struct tn_wish *w, const struct judgement *j,
                const struct tn_address *to, struct tn_rules *own)
{
    static const int yes = 1;
    tn_autofd int client = fd;
    tn_autofd int server = connect_to(to, w->port);

    if (server < 0) {
        link_close_hard(TN_TAKE_FD(client));
        free_rules(own);
        return;
    }
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    struct link *l = tn_calloc(1, sizeof *l);
    l->client.watch = (struct watch){.fd = TN_TAKE_FD(client), .ready = client_ready};
    l->server.watch = (struct watch){.fd = TN_TAKE_FD(server), .ready = server_ready};
    l->up.pipe[0] = l->up.pipe[1] = l->down.pipe[0] = l->down.pipe[1] = -1;
    l->timer.over = link_over;
    l->again.run = link_again;
    l->address = *w->address;
    l->port = w->port;
    l->own = own;
    l->pass = j->pass;
    l->guard = j->verdict == PASSES ? GUARD_NONE : GUARD_FIRST;
    l->granted = j->verdict == PASSES ? GRANT_ALL : 0;
    l->free = j->verdict == FREE;
    l->after = g->links;
    if (g->links)
        g->links->before = l;
    g->links = l;
    g->link_count++;
    /* A protocol in which the server speaks first has no time in which the client must. */
    bool silent = l->free || l->pass & TN_PASS_RAW;
    timer_start(g, &l->timer, l->guard == GUARD_FIRST && !silent ? TIMER_JUDGE : TIMER_CONNECT);
    watch_begin(g, &l->client.watch);
    watch_begin(g, &l->server.watch);
}

void link_judge(struct gate *g, int fd, const struct tn_wish *w)
{
    struct judgement j = judge(g, w->address, w->port, false, g->now);
    char what[TARGET_TEXT];

    if ((j.ask || (j.look_up && j.verdict != REFUSED)) && asked_hold(g, fd, w, &j))
        return;
    if (j.verdict != REFUSED && !j.look_up) {
        link_begin(g, fd, w, &j, w->address, NULL);
        return;
    }
    refuse(g, target_text(g, w->address, w->port, what),
           j.ask || j.verdict != REFUSED ? "no rule, and too many others wait for an answer"
                                         : j.why);
    link_close_hard(fd);
}

static void take_client(struct gate *g, int fd)
{
    union tn_sockaddr wanted;
    socklen_t size = sizeof wanted;
    struct tn_address address;
    struct tn_wish w = {.address = &address};
    struct tn_address names4, names6;

    if (getsockname(fd, &wanted.any, &size) < 0 ||
        !tn_address_from(&wanted.any, &address, &w.port)) {
        link_close_hard(fd);
        return;
    }
    tn_address_parse(TN_WALL_NAMES4, &names4);
    tn_address_parse(TN_WALL_NAMES6, &names6);
    if (w.port == NAMES_PORT &&
        (g->rules.mode == TN_GATE_ALLOW || tn_address_same(&address, &names4) ||
         tn_address_same(&address, &names6))) {
        names_accept(g, fd);
        return;
    }
    link_judge(g, fd, &w);
}

/* A full gate leaves the rest in the queue of the kernel. */
void links_accept(struct gate *g, struct watch *w, uint32_t events)
{
    struct source *s = CONTAINER(w, struct source, watch);

    for (int i = 0; i < TAKEN_A_ROUND; i++) {
        int fd = -1;
        g->full = g->link_count >= g->links_max;
        if (!g->full)
            fd = accept4(w->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        g->full |= fd < 0 && (errno == EMFILE || errno == ENFILE);
        if (g->full || (fd < 0 && errno == EAGAIN))
            return;
        if (fd < 0)
            continue;
        g->quiet = g->now;
        take_client(g, fd);
    }
    run_again(g, &s->again);
}
