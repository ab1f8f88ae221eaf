/* DNS over TCP, for clients that like it better: questions with their length before them. */
#include <sys/socket.h>

#include "gate/gate.h"

struct name_conn {
    struct grave grave; /* first: it is freed by it */
    struct timer timer;
    struct watch client;
    struct tn_buf received;
};

static void end_conn(struct gate *g, struct name_conn *c)
{
    names_forget(g, c);
    timer_stop(&c->timer);
    tn_close(TN_TAKE_FD(c->client.fd));
    tn_buf_done(&c->received);
    g->name_conn_count--;
    bury(g, &c->grave);
}

static void conn_over(struct gate *g, struct timer *t)
{
    end_conn(g, CONTAINER(t, struct name_conn, timer));
}

/* One that does not take its answer is closed. */
void names_reply(struct gate *g, struct name_conn *c, const struct tn_buf *message)
{
    const char length[2] = {(char)(message->len >> 8), (char)message->len};
    struct iovec parts[] = {{.iov_base = (void *)(uintptr_t)length, .iov_len = 2},
                            {.iov_base = message->data, .iov_len = message->len}};
    struct msghdr m = {.msg_iov = parts, .msg_iovlen = 2};

    if (c->client.fd >= 0 &&
        sendmsg(c->client.fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)(message->len + 2))
        shutdown(c->client.fd, SHUT_RDWR);
}

static void take_questions(struct gate *g, struct name_conn *c)
{
    const struct asker who = {.conn = c};

    for (;;) {
        const uint8_t *at = (const uint8_t *)c->received.data;
        size_t wanted = c->received.len < 2 ? SIZE_MAX : (size_t)at[0] << 8 | at[1];
        if (c->received.len < 2 || c->received.len - 2 < wanted)
            return;
        names_ask(g, &who, at + 2, wanted);
        tn_buf_eat(&c->received, wanted + 2);
    }
}

static void client_ready(struct gate *g, struct watch *w, uint32_t events)
{
    struct name_conn *c = CONTAINER(w, struct name_conn, client);

    while (c->client.fd >= 0) {
        ssize_t n = recv(c->client.fd, g->buffer, sizeof g->buffer, MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0 || tn_buf_add(&c->received, g->buffer, (size_t)n) < 0) {
            end_conn(g, c);
            return;
        }
        timer_start(g, &c->timer, TIMER_JUDGE);
        take_questions(g, c);
    }
}

void names_accept(struct gate *g, int fd)
{
    if (g->name_conn_count >= NAME_CONNS_MAX) {
        tn_close(fd);
        return;
    }
    struct name_conn *c = tn_calloc(1, sizeof *c);
    c->client = (struct watch){.fd = fd, .ready = client_ready};
    c->timer.over = conn_over;
    tn_buf_init(&c->received, TN_DNS_MAX);
    g->name_conn_count++;
    timer_start(g, &c->timer, TIMER_JUDGE);
    watch_begin(g, &c->client);
}
