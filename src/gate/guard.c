/* What the client of a name rule says: TLS must name the host, and so must each request of HTTP. */
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "gate/hello.h"
#include "gate/link.h"

enum {
    HEAD_MAX = 16 << 10,
    METHOD_MAX = 20,
    SWITCHED = 12, /* bytes of "HTTP/1.1 101" */
};

static const struct tn_http_limits limits = {.target = 8 << 10, .fields = HEAD_MAX};

/* Its place in time: the server may still have to take the connection. */
static void grant(struct gate *g, struct link *l, enum guard guard, int64_t bytes)
{
    l->guard = guard;
    l->granted = bytes;
    if (l->connected)
        timer_stop(&l->timer);
    else
        timer_start(g, &l->timer, TIMER_CONNECT);
}

/* --- refusing, in the client's own words ---------------------------------------------------- */

static bool end_with(struct gate *g, struct link *l, const void *last, size_t size)
{
    int fd = l->client.watch.fd;

    /* What is still unread would turn the end into a reset, and nobody would see the last word. */
    while (recv(fd, g->buffer, sizeof g->buffer, MSG_DONTWAIT) > 0)
        ;
    if (size > 0)
        send(fd, last, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    shutdown(fd, SHUT_WR);
    link_end(g, l);
    return false;
}

static bool refuse_tls(struct gate *g, struct link *l, const char *what, const char *why)
{
    static const uint8_t access_denied[] = {21, 3, 3, 0, 2, 2, 49};

    refuse(g, what, why);
    return end_with(g, l, access_denied, sizeof access_denied);
}

static bool refuse_http(struct gate *g, struct link *l, const char *what, const char *why)
{
    char body[TARGET_TEXT + 200], text[TARGET_TEXT + 400];

    refuse(g, what, why);
    int size = snprintf(body, sizeof body, "the network refused %s: %s\n", what, why);
    int n = snprintf(text, sizeof text,
                     "HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\n"
                     "Content-Length: %d\r\nConnection: close\r\n\r\n%s",
                     size, body);
    return end_with(g, l, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}

static bool refuse_raw(struct gate *g, struct link *l, const char *why)
{
    char what[TARGET_TEXT];

    refuse(g, target_text(g, &l->address, l->port, what), why);
    return end_with(g, l, NULL, 0);
}

/* --- TLS ------------------------------------------------------------------------------------ */

static bool judge_hello(struct gate *g, struct link *l, const uint8_t *bytes, size_t size)
{
    const struct tn_wish w = {.address = &l->address, .port = l->port};
    struct tn_hello hello;
    char what[TARGET_TEXT];

    switch (tn_hello_read(bytes, size, &hello)) {
    case TN_HELLO_MORE:
        if (size < TN_HELLO_MAX)
            return true;
        return refuse_raw(g, l, "a TLS client hello that does not end");
    case TN_HELLO_NOT:
        return refuse_raw(g, l, "neither TLS nor HTTP");
    case TN_HELLO_WHOLE:
        break;
    }
    target_text(g, &l->address, l->port, what);
    if (!hello.name[0])
        return refuse_tls(g, l, what, "TLS without a server name (SNI)");
    snprintf(what, sizeof what, "%s:%u", hello.name, l->port);
    if (hello.encrypted)
        return refuse_tls(g, l, what, "TLS with an encrypted client hello (ECH)");
    if (!tn_pins_have(g->pins, &l->address, hello.name, g->now))
        return refuse_tls(g, l, what, "the address is not one that this name was looked up to");
    if (!(tn_rules_allow_name(&g->rules, hello.name, &w) & TN_PASS_TLS))
        return refuse_tls(g, l, what, "no rule");
    if (tn_rules_end_tls(&g->rules, hello.name, l->port))
        return refuse_tls(g, l, what, "a rule about requests in TLS, which cannot be seen here");
    grant(g, l, GUARD_NONE, GRANT_ALL);
    return true;
}

/* --- HTTP ----------------------------------------------------------------------------------- */

/* The name in Host, which must be there once; false with why. */
static bool host_of(const struct tn_http_head *head, const char *bytes, uint16_t port,
                    char name[TN_NAME_MAX + 1], const char **why)
{
    const struct tn_http_slice *host = NULL;
    char at[8];

    *why = "HTTP without one Host";
    for (unsigned i = 0; i < head->field_count; i++) {
        const struct tn_http_field *f = &head->fields[i];
        if (!tn_http_same(bytes + f->name.at, f->name.len, "host"))
            continue;
        if (host)
            return false;
        host = &f->value;
    }
    if (!host)
        return false;
    const char *value = bytes + host->at;
    const char *colon = memchr(value, ':', host->len);
    size_t n = colon ? (size_t)(colon - value) : host->len;
    size_t rest = host->len - n;
    snprintf(at, sizeof at, ":%u", port);
    if (rest > 0 && (rest != strlen(at) || memcmp(colon, at, rest) != 0)) {
        *why = "Host names another port";
        return false;
    }
    *why = "Host is no name";
    return tn_name_normalise(value, n, name);
}

static const char *judge_request(struct gate *g, struct link *l, const struct tn_http_head *head,
                                 const char *bytes, char what[TARGET_TEXT])
{
    char name[TN_NAME_MAX + 1];
    const char *method = bytes + head->method.at, *target = bytes + head->target.at, *why;

    if (!host_of(head, bytes, l->port, name, &why))
        return why;
    snprintf(what, TARGET_TEXT, "%s:%u", name, l->port);
    if (tn_http_same(method, head->method.len, "CONNECT"))
        return "CONNECT";
    if (*target != '/' && !(head->target.len == 1 && *target == '*'))
        return "a request for a proxy";
    if (!tn_pins_have(g->pins, &l->address, name, g->now))
        return "the address is not one that this name was looked up to";
    const struct tn_rule_request request = {.name = name,
                                            .port = l->port,
                                            .method = method,
                                            .method_size = head->method.len,
                                            .target = target,
                                            .target_size = head->target.len};
    if (!tn_rules_allow_request(&g->rules, &request)) {
        snprintf(what, TARGET_TEXT, "%.*s %s:%u%.*s", (int)head->method.len, method, name, l->port,
                 head->target.len < 60 ? (int)head->target.len : 60, target);
        return "no rule";
    }
    return NULL;
}

static bool judge_head(struct gate *g, struct link *l, const char *bytes, size_t size)
{
    struct tn_http_head head;
    char what[TARGET_TEXT];

    target_text(g, &l->address, l->port, what);
    ssize_t n = tn_http_scan(&l->scan, bytes, size, &limits, NULL);
    if (n == 0 && size < HEAD_MAX)
        return true;
    if (n <= 0 || tn_http_parse_request(bytes, (size_t)n, &limits, &head, NULL) < 0)
        return refuse_http(g, l, what, "HTTP that cannot be read");
    const char *why = judge_request(g, l, &head, bytes, what);
    if (why)
        return refuse_http(g, l, what, why);
    l->scan = (struct tn_http_scan){0};
    l->chunks = (struct tn_http_chunked){0};
    int64_t body = head.chunked || head.length < 0 ? 0 : head.length;
    grant(g, l, head.upgrade ? GUARD_SWITCH : head.chunked ? GUARD_CHUNKS : GUARD_HEAD, n + body);
    return true;
}

static bool judge_chunks(struct gate *g, struct link *l, const char *bytes, size_t size)
{
    ssize_t n = tn_http_unchunk(&l->chunks, bytes, size);

    if (n < 0)
        return refuse_raw(g, l, "HTTP that cannot be read");
    int64_t data = l->chunks.state == TN_CHUNK_DATA ? l->chunks.left : 0;
    l->chunks.left -= data;
    grant(g, l, l->chunks.state == TN_CHUNK_END ? GUARD_HEAD : GUARD_CHUNKS, n + data);
    return true;
}

/* --- which it is ---------------------------------------------------------------------------- */

enum first { FIRST_MORE, FIRST_TLS, FIRST_HTTP, FIRST_OTHER };

static enum first first_bytes(const uint8_t *bytes, size_t size)
{
    size_t n = 0;

    if (bytes[0] == 22)
        return FIRST_TLS;
    while (n < size && n < METHOD_MAX && bytes[n] >= 'A' && bytes[n] <= 'Z')
        n++;
    if (n == size)
        return FIRST_MORE;
    return n > 0 && bytes[n] == ' ' ? FIRST_HTTP : FIRST_OTHER;
}

static bool judge_first(struct gate *g, struct link *l, const uint8_t *bytes, size_t size)
{
    switch (first_bytes(bytes, size)) {
    case FIRST_MORE:
        return true;
    case FIRST_TLS:
        return judge_hello(g, l, bytes, size);
    case FIRST_HTTP:
        if (!(l->pass & TN_PASS_HTTP))
            return refuse_raw(g, l, "HTTP, where a rule allows only TLS");
        l->guard = GUARD_HEAD;
        return judge_head(g, l, (const char *)bytes, size);
    case FIRST_OTHER:
        break;
    }
    if (!(l->pass & TN_PASS_RAW))
        return refuse_raw(g, l, "neither TLS nor HTTP");
    grant(g, l, GUARD_NONE, GRANT_ALL);
    return true;
}

bool guard_client(struct gate *g, struct link *l)
{
    ssize_t n = recv(l->client.watch.fd, g->buffer, TN_HELLO_MAX, MSG_PEEK | MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        l->client.in = errno == EINTR;
        return true;
    }
    if (n < 0 || (n == 0 && !l->connected))
        return end_with(g, l, NULL, 0);
    if (n == 0) {
        l->up.ended = true;
        shutdown(l->server.watch.fd, SHUT_WR);
        return true;
    }
    bool alive = l->guard == GUARD_FIRST  ? judge_first(g, l, g->buffer, (size_t)n)
                 : l->guard == GUARD_HEAD ? judge_head(g, l, (const char *)g->buffer, (size_t)n)
                                          : judge_chunks(g, l, (const char *)g->buffer, (size_t)n);
    if (alive && l->granted == 0 && l->guard != GUARD_NONE)
        l->client.in = false; /* until more has come */
    return alive;
}

bool guard_server(struct gate *g, struct link *l)
{
    char bytes[SWITCHED];

    if (l->granted > 0 || l->up.held > 0 || !l->server.in)
        return true;
    ssize_t n = recv(l->server.watch.fd, bytes, sizeof bytes, MSG_PEEK | MSG_DONTWAIT);
    if (n < 0)
        return true;
    bool switched = n == SWITCHED && memcmp(bytes, "HTTP/1.1 101", SWITCHED) == 0;
    grant(g, l, switched ? GUARD_NONE : GUARD_HEAD, switched ? GRANT_ALL : 0);
    return true;
}
