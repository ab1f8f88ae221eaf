/* DNS for the sandbox.  A question is read, judged, and asked anew of the nameservers of this
 * machine; of the answer only addresses are kept, and those are remembered (pins.h). */
#include <sys/random.h>
#include <sys/socket.h>

#include "gate/gate.h"

enum {
    NAMES_PORT = 53,
    TRIES = 4,               /* over all servers */
    PIN_SECONDS_LEAST = 300, /* programs keep an address longer than they may */
    STAND_IN_TTL = 1,
};

struct query {
    struct grave grave; /* first: it is freed by it */
    struct query *next;
    struct timer timer;
    struct watch server;
    struct asker who;
    struct tn_dns_question question;
    uint16_t id; /* ours */
    int tries;
    bool tcp, sent;
    struct tn_buf received; /* tcp: with the length before it */
};

/* --- answers -------------------------------------------------------------------------------- */

static void reply(struct gate *g, const struct asker *who, const struct tn_buf *message)
{
    const struct ends back = {.from = who->server,
                              .to = who->client,
                              .from_port = who->server_port,
                              .to_port = who->client_port};

    if (who->conn)
        names_reply(g, who->conn, message);
    else if (who->client.family)
        packet_send(g, &back, message->data, message->len);
}

static void answer(struct gate *g, const struct asker *who, const struct tn_dns_question *q,
                   const struct tn_dns_answer *a, const char *reason)
{
    tn_autobuf struct tn_buf message = TN_BUF_INIT(TN_DNS_MAX);

    if (who->here) {
        asked_found(g, q, a);
        return;
    }
    tn_dns_write_answer(&message, q, a, reason);
    if (tn_buf_ok(&message))
        reply(g, who, &message);
}

static void answer_code(struct gate *g, const struct asker *who, const struct tn_dns_question *q,
                        enum tn_dns_code code, const char *reason)
{
    answer(g, who, q, &(struct tn_dns_answer){.code = code}, reason);
}

/* --- asking --------------------------------------------------------------------------------- */

static void end_query(struct gate *g, struct query *q)
{
    struct query **at = &g->queries;

    while (*at != q)
        at = &(*at)->next;
    *at = q->next;
    timer_stop(&q->timer);
    tn_close(TN_TAKE_FD(q->server.fd));
    tn_buf_done(&q->received);
    g->query_count--;
    bury(g, &q->grave);
}

static void fail_query(struct gate *g, struct query *q)
{
    answer_code(g, &q->who, &q->question, TN_DNS_FAILED, NULL);
    end_query(g, q);
}

static void write_query(const struct query *q, struct tn_buf *out)
{
    struct tn_dns_question asked = q->question;

    asked.id = q->id;
    tn_dns_write_question(out, &asked);
}

static void server_ready(struct gate *g, struct watch *w, uint32_t events);

/* A new socket, and with it a new port, for each attempt. */
static void ask_server(struct gate *g, struct query *q)
{
    const struct tn_address *server = &g->servers[(size_t)q->tries % g->server_count];
    tn_autobuf struct tn_buf message = TN_BUF_INIT(TN_DNS_MAX);
    union tn_sockaddr to;
    socklen_t size = tn_address_to(server, NAMES_PORT, &to);
    int type = q->tcp ? SOCK_STREAM : SOCK_DGRAM;

    tn_close(TN_TAKE_FD(q->server.fd));
    tn_buf_reset(&q->received);
    q->sent = false;
    if (q->tries++ >= TRIES || getrandom(&q->id, sizeof q->id, 0) != (ssize_t)sizeof q->id) {
        fail_query(g, q);
        return;
    }
    timer_start(g, &q->timer, TIMER_QUERY);
    q->server.fd = socket(server->family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (q->server.fd < 0 || (connect(q->server.fd, &to.any, size) < 0 && errno != EINPROGRESS))
        return; /* until its time is over */
    write_query(q, &message);
    if (!q->tcp)
        send(q->server.fd, message.data, message.len, MSG_DONTWAIT | MSG_NOSIGNAL);
    watch_begin(g, &q->server);
}

static void query_over(struct gate *g, struct timer *t)
{
    ask_server(g, CONTAINER(t, struct query, timer));
}

static void begin_query(struct gate *g, const struct asker *who,
                        const struct tn_dns_question *asked)
{
    if (g->query_count >= QUERIES_MAX || g->server_count == 0) {
        answer_code(g, who, asked, TN_DNS_FAILED, NULL);
        return;
    }
    struct query *q = tn_calloc(1, sizeof *q);
    q->who = *who;
    q->question = *asked;
    q->server = (struct watch){.fd = -1, .ready = server_ready};
    q->timer.over = query_over;
    tn_buf_init(&q->received, TN_DNS_MAX + 2);
    q->next = g->queries;
    g->queries = q;
    g->query_count++;
    ask_server(g, q);
}

/* --- what a server says --------------------------------------------------------------------- */

static void keep_allowed(struct gate *g, const struct query *q, struct tn_dns_answer *a)
{
    uint32_t least = a->ttl > PIN_SECONDS_LEAST ? a->ttl : PIN_SECONDS_LEAST;
    size_t kept = 0;

    for (size_t i = 0; i < a->count; i++) {
        if (!may_answer(g, &a->addresses[i]))
            continue;
        tn_pins_add(g->pins, &a->addresses[i], q->question.name, g->now + least * TN_SECOND);
        a->addresses[kept++] = a->addresses[i];
    }
    a->count = kept;
}

static void take_answer(struct gate *g, struct query *q, const uint8_t *bytes, size_t size)
{
    struct tn_dns_question asked = q->question;
    struct tn_dns_answer a;
    char what[TARGET_TEXT];

    asked.id = q->id;
    if (tn_dns_read_answer(bytes, size, &asked, &a) < 0)
        return; /* somebody else's, perhaps: the right one may still come */
    if (a.truncated && a.count == 0 && !q->tcp) {
        q->tcp = true;
        ask_server(g, q);
        return;
    }
    bool server_failed = a.code != TN_DNS_OK && a.code != TN_DNS_NO_NAME;
    if (server_failed && (size_t)q->tries < g->server_count) {
        ask_server(g, q);
        return;
    }
    size_t before = a.count;
    keep_allowed(g, q, &a);
    const char *reason = NULL;
    if (before > 0 && a.count == 0) {
        reason = "all of its addresses are private, or denied";
        snprintf(what, sizeof what, "the name %s", q->question.name);
        refuse(g, what, reason);
    }
    answer(g, &q->who, &q->question, &a, reason);
    end_query(g, q);
}

static void receive_stream(struct gate *g, struct query *q)
{
    tn_autobuf struct tn_buf message = TN_BUF_INIT(TN_DNS_MAX);

    if (!q->sent) {
        write_query(q, &message);
        const char length[2] = {(char)(message.len >> 8), (char)message.len};
        struct iovec parts[] = {{.iov_base = (void *)(uintptr_t)length, .iov_len = 2},
                                {.iov_base = message.data, .iov_len = message.len}};
        struct msghdr m = {.msg_iov = parts, .msg_iovlen = 2};
        q->sent = sendmsg(q->server.fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL) > 0;
        if (!q->sent)
            return;
    }
    for (;;) {
        ssize_t n = recv(q->server.fd, g->buffer, sizeof g->buffer, MSG_DONTWAIT);
        if (n <= 0 || tn_buf_add(&q->received, g->buffer, (size_t)n) < 0)
            return;
        const uint8_t *at = (const uint8_t *)q->received.data;
        size_t wanted = q->received.len < 2 ? SIZE_MAX : (size_t)at[0] << 8 | at[1];
        if (q->received.len >= 2 && q->received.len - 2 >= wanted) {
            take_answer(g, q, at + 2, wanted);
            return;
        }
    }
}

static void server_ready(struct gate *g, struct watch *w, uint32_t events)
{
    struct query *q = CONTAINER(w, struct query, server);

    if (q->tcp) {
        if (q->server.fd >= 0)
            receive_stream(g, q);
        return;
    }
    while (q->server.fd >= 0 && !q->tcp) {
        ssize_t n = recv(q->server.fd, g->buffer, sizeof g->buffer, MSG_DONTWAIT);
        if (n < 0 && errno == ECONNREFUSED) {
            ask_server(g, q);
            return;
        }
        if (n < 0)
            return;
        int asked = q->tries;
        take_answer(g, q, g->buffer, (size_t)n);
        if (q->tries != asked)
            return; /* it has another socket now */
    }
}

/* --- questions ------------------------------------------------------------------------------ */

void names_find(struct gate *g, const char *name, enum tn_dns_type type)
{
    struct tn_dns_question q = {.type = (uint16_t)type, .recursion = true};

    snprintf(q.name, sizeof q.name, "%s", name);
    begin_query(g, &(struct asker){.here = true}, &q);
}

/* Somebody is asked when the sandbox connects: until then the name goes nowhere. */
static bool answer_stand_in(struct gate *g, const struct asker *who,
                            const struct tn_dns_question *q)
{
    struct tn_dns_answer a = {.ttl = STAND_IN_TTL, .count = q->type == g->family};

    if (!asked_stand_in(g, q->name, &a.addresses[0]))
        return false;
    answer(g, who, q, &a, NULL);
    return true;
}

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);

    return n >= m && strcmp(name + n - m, end) == 0;
}

void names_ask(struct gate *g, const struct asker *who, const uint8_t *bytes, size_t size)
{
    struct tn_dns_question q;
    char what[TARGET_TEXT];
    int code = tn_dns_read_question(bytes, size, &q);

    if (code < 0)
        return;
    if (code != TN_DNS_OK) {
        q.name[0] = '\0';
        answer_code(g, who, &q, (enum tn_dns_code)code, NULL);
        return;
    }
    bool reverse = ends_with(q.name, ".arpa");
    if (q.name[0] == '?' ||
        (g->rules.mode == TN_GATE_ALLOW && !reverse && !tn_rules_know_name(&g->rules, q.name))) {
        if (q.name[0] != '?' && answer_stand_in(g, who, &q))
            return;
        snprintf(what, sizeof what, "the name %s", q.name);
        refuse(g, what, "no rule");
        answer_code(g, who, &q, TN_DNS_NO_NAME, "no rule allows this name");
        return;
    }
    /* Other records would be a way around what is judged: other addresses, keys for ECH, text. */
    bool address = q.type == TN_DNS_A || (q.type == TN_DNS_AAAA && g->ipv6);
    if (!address || reverse)
        answer_code(g, who, &q, reverse ? TN_DNS_NO_NAME : TN_DNS_OK, NULL);
    else
        begin_query(g, who, &q);
}

void names_forget(struct gate *g, const struct name_conn *conn)
{
    for (struct query *q = g->queries; q; q = q->next)
        if (q->who.conn == conn)
            q->who = (struct asker){0};
}
