/* What the client of a name rule says: TLS must name the host, and so must each request of HTTP. */
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "gate/hello.h"
#include "gate/link.h"

enum {
    METHOD_MAX = 20,
    SWITCHED = 12, /* bytes of "HTTP/1.1 101" */
};

const struct tn_http_limits request_limits = {.target = 8 << 10, .fields = REQUEST_HEAD_MAX};

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

size_t guard_refusal(char out[REFUSAL_TEXT], const char *status, const char *what, const char *why)
{
    char body[TARGET_TEXT + 200];
    int size = snprintf(body, sizeof body, "the network refused %s: %s\n", what, why);
    int n = snprintf(out, REFUSAL_TEXT,
                     "HTTP/1.1 %s\r\nContent-Type: text/plain\r\n"
                     "Content-Length: %d\r\nConnection: close\r\n\r\n%s",
                     status, size, body);

    return n < REFUSAL_TEXT ? (size_t)n : REFUSAL_TEXT - 1;
}

static bool refuse_http(struct gate *g, struct link *l, const char *what, const char *why)
{
    char text[REFUSAL_TEXT];

    refuse(g, what, why);
    return end_with(g, l, text, guard_refusal(text, "403 Forbidden", what, why));
}

static bool refuse_raw(struct gate *g, struct link *l, const char *why)
{
    char what[TARGET_TEXT];

    refuse(g, target_text(g, &l->address, l->port, what), why);
    return end_with(g, l, NULL, 0);
}

/* --- TLS ------------------------------------------------------------------------------------ */

static bool end_tls(struct gate *g, struct link *l, const char *name, const char *what)
{
    if (!g->ending)
        return refuse_tls(g, l, what,
                          "a rule about requests in TLS, which this sandbox cannot have");
    if (!ended_begin(g, l, name))
        return refuse_tls(g, l, what, "too many connections at once to hosts whose TLS is ended");
    return true;
}

/* Where all may go, only hosts of secrets are of interest. */
static bool judge_free_hello(struct gate *g, struct link *l, enum tn_hello_state state,
                             const struct tn_hello *hello)
{
    char what[TARGET_TEXT];

    if (state == TN_HELLO_WHOLE && vault_knows(&g->vault, hello->name, l->port)) {
        snprintf(what, sizeof what, "%s:%u", hello->name, l->port);
        return end_tls(g, l, hello->name, what);
    }
    grant(g, l, GUARD_NONE, GRANT_ALL);
    return true;
}

static bool judge_hello(struct gate *g, struct link *l, const uint8_t *bytes, size_t size)
{
    const struct tn_wish w = {.address = &l->address, .port = l->port};
    struct tn_hello hello;
    char what[TARGET_TEXT];
    enum tn_hello_state state = tn_hello_read(bytes, size, &hello);

    if (state == TN_HELLO_MORE && size < TN_HELLO_MAX)
        return true;
    if (l->free)
        return judge_free_hello(g, l, state, &hello);
    if (state != TN_HELLO_WHOLE)
        return refuse_raw(g, l,
                          state == TN_HELLO_MORE ? "a TLS client hello that does not end"
                                                 : "neither TLS nor HTTP");
    target_text(g, &l->address, l->port, what);
    if (!hello.name[0])
        return refuse_tls(g, l, what, "TLS without a server name (SNI)");
    snprintf(what, sizeof what, "%s:%u", hello.name, l->port);
    bool ended = vault_knows(&g->vault, hello.name, l->port) ||
                 tn_rules_end_tls(&g->rules, hello.name, l->port);
    /* Where TLS ends here nothing is hidden from the gate: it is the one who cannot read that. */
    if (hello.encrypted && !ended)
        return refuse_tls(g, l, what, "TLS with an encrypted client hello (ECH)");
    if (!tn_pins_have(g->pins, &l->address, hello.name, g->now))
        return refuse_tls(g, l, what, "the address is not one that this name was looked up to");
    if (!(tn_rules_allow_name(link_rules(g, l), hello.name, &w) & TN_PASS_TLS))
        return refuse_tls(g, l, what, "no rule");
    if (ended)
        return end_tls(g, l, hello.name, what);
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

/* HTTP/2 in the clear would be further requests, which nobody reads. */
static bool wants_http2(const struct tn_http_head *head, const char *bytes)
{
    for (unsigned i = 0; i < head->field_count; i++) {
        const struct tn_http_field *f = &head->fields[i];
        if (tn_http_same(bytes + f->name.at, f->name.len, "upgrade") &&
            tn_http_list_has(bytes + f->value.at, f->value.len, "h2c"))
            return true;
    }
    return false;
}

const char *guard_request(struct gate *g, const struct link *l, const char *inside,
                          const struct tn_http_head *head, const char *bytes,
                          char what[TARGET_TEXT])
{
    char name[TN_NAME_MAX + 1];
    const char *method = bytes + head->method.at, *target = bytes + head->target.at, *why;
    struct tn_rule_request request = {.name = name,
                                      .port = l->port,
                                      .tls = inside != NULL,
                                      .method = method,
                                      .method_size = head->method.len,
                                      .target = target,
                                      .target_size = head->target.len};

    if (!host_of(head, bytes, l->port, name, &why))
        return why;
    snprintf(what, TARGET_TEXT, "%s:%u", name, l->port);
    if (tn_http_same(method, head->method.len, "CONNECT"))
        return "CONNECT";
    if (*target != '/' && !(head->target.len == 1 && *target == '*'))
        return "a request for a proxy";
    if (wants_http2(head, bytes))
        return "an upgrade to HTTP/2";
    if (inside && strcmp(inside, name) != 0)
        return "Host is not the name that TLS was for";
    if (!inside && !tn_pins_have(g->pins, &l->address, name, g->now))
        return "the address is not one that this name was looked up to";
    if (!l->free && !tn_rules_allow_request(link_rules(g, l), &request)) {
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
    int64_t data;

    target_text(g, &l->address, l->port, what);
    ssize_t n = tn_http_scan(&l->scan, bytes, size, &request_limits, NULL);
    if (n == 0 && size < REQUEST_HEAD_MAX)
        return true;
    if (n <= 0 || tn_http_parse_request(bytes, (size_t)n, &request_limits, &head, NULL) < 0)
        return refuse_http(g, l, what, "HTTP that cannot be read");
    const char *why = guard_request(g, l, NULL, &head, bytes, what);
    if (why)
        return refuse_http(g, l, what, why);
    l->scan = (struct tn_http_scan){0};
    l->body = body_of(head.chunked, head.length);
    body_next(&l->body, NULL, 0, &data);
    grant(g, l, head.upgrade ? GUARD_SWITCH : head.chunked ? GUARD_CHUNKS : GUARD_HEAD, n + data);
    return true;
}

static bool judge_chunks(struct gate *g, struct link *l, const char *bytes, size_t size)
{
    int64_t data;
    ssize_t n = body_next(&l->body, bytes, size, &data);

    if (n < 0)
        return refuse_raw(g, l, "HTTP that cannot be read");
    grant(g, l, body_ended(&l->body) ? GUARD_HEAD : GUARD_CHUNKS, n + data);
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
        if (l->free)
            break;
        if (!(l->pass & TN_PASS_HTTP))
            return refuse_raw(g, l, "HTTP, where a rule allows only TLS");
        l->guard = GUARD_HEAD;
        return judge_head(g, l, (const char *)bytes, size);
    case FIRST_OTHER:
        break;
    }
    if (!l->free && !(l->pass & TN_PASS_RAW))
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
    if (alive && !l->ended && l->granted == 0 && l->guard != GUARD_NONE)
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
