/* What a sandbox says on a connection that a name rule allows: requests of HTTP, in two pieces cut
 * where the first byte says.  Whatever the gate grants begins with a head that names an allowed
 * host once, or belongs to the body of one. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "gate/link.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char text[] = "allow\ngood.test\nGET,POST http://www.good.test/ok/*\n";

/* --- the rest of the gate, as far as guard.c calls it ---------------------------------------- */

static bool ended;

void link_end(struct gate *g, struct link *l)
{
    (void)g, (void)l;
    ended = true;
}

void timer_start(struct gate *g, struct timer *t, enum timer_kind kind)
{
    (void)g, (void)t, (void)kind;
}

void timer_stop(struct timer *t)
{
    (void)t;
}

void refuse(struct gate *g, const char *what, const char *why)
{
    (void)g;
    assert(strlen(what) < TARGET_TEXT && *why);
}

const char *target_text(struct gate *g, const struct tn_address *a, uint16_t port,
                        char out[TARGET_TEXT])
{
    (void)g, (void)a;
    snprintf(out, TARGET_TEXT, "somewhere:%u", port);
    return out;
}

bool ended_begin(struct gate *g, struct link *l, const char *name)
{
    (void)g, (void)l, (void)name;
    assert(false); /* there is no vault */
    return false;
}

/* --- what must hold -------------------------------------------------------------------------- */

/* A head that was granted, read by simpler means than the gate's. */
static void check_head(const char *bytes, size_t size)
{
    const char *end = memmem(bytes, size, "\r\n\r\n", 4);
    int hosts = 0;

    assert(end && strncasecmp(bytes, "CONNECT ", 8) != 0);
    const char *target = memchr(bytes, ' ', (size_t)(end - bytes));
    assert(target && (target[1] == '/' || target[1] == '*'));
    for (const char *line = memchr(bytes, '\n', size); line && line < end;
         line = memchr(line + 1, '\n', (size_t)(bytes + size - line - 1))) {
        if (strncasecmp(line + 1, "host:", 5) != 0)
            continue;
        const char *value = line + 6 + strspn(line + 6, " \t");
        assert(strncasecmp(value, "good.test", 9) == 0 ||
               strncasecmp(value, "www.good.test", 13) == 0);
        hosts++;
    }
    assert(hosts == 1);
}

/* All that the guard lets go of what has come so far. */
static size_t take(struct gate *g, struct link *l, const char *bytes, size_t passed, size_t sent)
{
    while (!ended && l->guard != GUARD_NONE && passed < sent) {
        bool head = l->granted == 0 && (l->guard == GUARD_FIRST || l->guard == GUARD_HEAD);
        if (l->granted == 0 && (l->guard == GUARD_SWITCH || !guard_client(g, l)))
            break;
        if (l->granted == 0 || l->guard == GUARD_NONE)
            break;
        if (head)
            check_head(bytes + passed, sent - passed);
        size_t n = sent - passed < (size_t)l->granted ? sent - passed : (size_t)l->granted;
        assert(recv(l->client.watch.fd, g->buffer, n, MSG_DONTWAIT) == (ssize_t)n);
        assert(memcmp(g->buffer, bytes + passed, n) == 0);
        passed += n;
        l->granted -= (int64_t)n;
    }
    return passed;
}

static void pass(struct gate *g, const char *bytes, size_t size, size_t first)
{
    struct link l = {.port = 80, .pass = TN_PASS_HTTP, .guard = GUARD_FIRST, .connected = true};
    int ends[2];

    assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
    assert(tn_address_parse("203.0.113.10", &l.address));
    l.client.watch.fd = ends[0];
    l.server.watch.fd = -1;
    ended = false;
    assert(send(ends[1], bytes, first, MSG_NOSIGNAL) == (ssize_t)first);
    size_t passed = take(g, &l, bytes, 0, first);
    if (!ended && size > first) {
        assert(send(ends[1], bytes + first, size - first, MSG_NOSIGNAL) == (ssize_t)(size - first));
        take(g, &l, bytes, passed, size);
    }
    close(ends[0]);
    close(ends[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct gate g;

    if (size < 2 || size > 4096)
        return 0;
    if (!g.pins) {
        struct tn_address a;
        assert(tn_rules_parse(text, strlen(text), &g.rules, NULL) == 0);
        g.pins = tn_pins_open(tn_pins_create(NULL), NULL);
        assert(g.pins && tn_address_parse("203.0.113.10", &a));
        tn_pins_add(g.pins, &a, "good.test", TN_NEVER);
        tn_pins_add(g.pins, &a, "www.good.test", TN_NEVER);
    }
    pass(&g, (const char *)data + 1, size - 1, 1 + data[0] % (size - 1));
    return 0;
}
