/* A client that asks for a proof before it says anything else, and servers of all kinds. */
#include "unit.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "net/listen.h"
#include "net/proof.h"

#define OK "HTTP/1.1 200 OK\r\nContent-Length: 76\r\n\r\n"

/* How a server answers: format with its proof, perhaps that of another key or connection. */
static const struct kind {
    const char *format, *key;
    enum { REFUSED, ACCEPTED, RELAYED } how; /* RELAYED: of the real server, at another address */
} kinds[] = {
    {OK "%s", "key", ACCEPTED},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4c\r\n%s\r\n0\r\n\r\n", "key", ACCEPTED},
    {OK "%s", "another", REFUSED},
    {OK "%s", "key", RELAYED},
    {OK "%sHTTP/1.1 200 OK\r\n", "key", REFUSED}, /* an answer to what was not asked yet */
    {"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n%s", "key", REFUSED},
    {"HTTP/1.1 200 OK\r\nContent-Length: 75\r\n\r\n%.75s", "key", REFUSED},
    {"HTTP/1.1 200 OK\r\nContent-Length: 376\r\n\r\n%-376s", "key", REFUSED},
    {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "key", REFUSED},
    {"HTTP/1.1 404 Not Found\r\nContent-Length: 76\r\n\r\n%s", "key", REFUSED},
    {"HTTP/1.1 101 Switching Protocols\r\n\r\n%s", "key", REFUSED},
    {"%s", "key", REFUSED},
    {"", "key", REFUSED},
};

struct server {
    const struct kind *kind;
    int listener, other;
    char asked[512];
};

/* Answers one question. */
static void *serve(void *arg)
{
    struct server *s = arg;
    char digest[TN_PROOF_DIGITS + 1], nonce[TN_PROOF_DIGITS + 1];
    tn_autofd int fd = accept(s->listener, NULL, NULL);
    size_t n = 0;

    while (n < sizeof s->asked - 1 && !strstr(s->asked, "\r\n\r\n") &&
           read(fd, s->asked + n, 1) == 1)
        n++;
    assert_int_equal(sscanf(s->asked, "GET /proof?nonce=%64s HTTP/1.1", nonce), 1);
    assert_true(tn_proof_is_digits(nonce));
    tn_proof_digest(s->kind->key, digest);
    tn_autofree char *proof =
        tn_proof_answer(s->kind->how == RELAYED ? s->other : fd, digest, nonce);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    tn_autofree char *answer = tn_asprintf(s->kind->format, proof);
#pragma GCC diagnostic pop
    send(fd, answer, strlen(answer), MSG_NOSIGNAL);
    return NULL;
}

static int listen_at(const char *host, int *port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)*port)};
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    inet_pton(AF_INET, host, &a.sin_addr);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    *port = ntohs(a.sin_port);
    return fd;
}

static int dial(const char *host, int port)
{
    tn_autofree char *address = tn_asprintf("%s:%d", host, port);
    struct tn_error err = {0};
    int fd = tn_dial(address, tn_deadline_in(10), &err);

    assert_true(fd >= 0);
    return fd;
}

static void test_proofs(void **state)
{
    char digest[TN_PROOF_DIGITS + 1];
    int port = 0, real_port = 0;
    tn_autofd int listener = listen_at("127.0.0.1", &port);
    /* The real server, which somebody at the first address could pass the question on to. */
    tn_autofd int real = listen_at("127.0.0.2", &real_port);
    tn_autofd int relay = dial("127.0.0.2", real_port), other = accept(real, NULL, NULL);

    assert_true(relay >= 0 && other >= 0);
    tn_proof_digest("key", digest);
    for (size_t i = 0; i < TN_COUNT(kinds); i++) {
        struct server s = {.kind = &kinds[i], .listener = listener, .other = other};
        struct tn_error err = {0};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, serve, &s), 0);
        int fd = dial("127.0.0.1", port);
        int r = tn_proof_ask(fd, digest, tn_deadline_in(20), &err);
        if ((r == 0) != (kinds[i].how == ACCEPTED))
            fail_msg("case %zu: %s", i, err.text);
        if (r < 0)
            assert_int_equal(err.code, TN_E_PEER);
        assert_null(strstr(s.asked, digest));
        close(fd);
        pthread_join(thread, NULL);
    }
}

/* A listener of both families: an address of IPv4 is the same, however the kernel writes it. */
static void test_both_families(void **state)
{
    static const char *const hosts[] = {"127.0.0.1", "[::1]"};
    struct tn_listen_address at;
    struct sockaddr_in6 bound = {0};
    socklen_t len = sizeof bound;
    char digest[TN_PROOF_DIGITS + 1];

    assert_int_equal(tn_listen_parse("[::]:0", &at, NULL), 0);
    tn_autofd int listener = tn_listen_open(&at, NULL);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&bound, &len), 0);
    fcntl(listener, F_SETFL, 0);
    tn_proof_digest("key", digest);
    for (size_t i = 0; i < (access("/proc/net/if_inet6", F_OK) == 0 ? 2 : 1); i++) {
        struct server s = {.kind = &kinds[0], .listener = listener};
        struct tn_error err = {0};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, serve, &s), 0);
        tn_autofd int fd = dial(hosts[i], ntohs(bound.sin6_port));
        if (tn_proof_ask(fd, digest, tn_deadline_in(20), &err) < 0)
            fail_msg("%s: %s", hosts[i], err.text);
        pthread_join(thread, NULL);
    }
}

/* One that accepts and says nothing ends with the deadline. */
static void test_silence(void **state)
{
    char digest[TN_PROOF_DIGITS + 1];
    struct tn_error err = {0};
    int port = 0;
    tn_autofd int listener = listen_at("127.0.0.1", &port), fd = dial("127.0.0.1", port);

    assert_true(listener >= 0);
    tn_proof_digest("key", digest);
    assert_int_equal(tn_proof_ask(fd, digest, tn_deadline_in(0.1), &err), -1);
    assert_int_equal(err.code, TN_E_TIMEOUT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_proofs),
                                       cmocka_unit_test(test_both_families),
                                       cmocka_unit_test(test_silence)};

    return cmocka_run_group_tests_name("proof", tests, NULL, NULL);
}
