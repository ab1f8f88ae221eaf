#include "net/proof.h"

#include <sys/random.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/hmac.h"
#include "base/secret.h"
#include "net/address.h"
#include "net/http-answer.h"
#include "net/socket-io.h"

#define ASK_SECONDS 20.0 /* a server that never answers must not hold whoever has more time */
enum { ANSWER_MAX = 256 };

void tn_proof_digest(const char *key, char digest[TN_PROOF_DIGITS + 1])
{
    struct tn_sha256 hash;

    tn_sha256_init(&hash);
    tn_sha256_add(&hash, key, strlen(key));
    tn_sha256_end_hex(&hash, digest);
}

bool tn_proof_is_digits(const char *text)
{
    return strlen(text) == TN_PROOF_DIGITS && strspn(text, "0123456789abcdef") == TN_PROOF_DIGITS;
}

static void put_hex(const unsigned char *bytes, size_t n, char *out)
{
    for (size_t i = 0; i < n; i++)
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

/* addr: an end of the connection. */
static char *answer_for(const struct sockaddr *addr, const char *digest, const char *nonce)
{
    char host[TN_ADDRESS_TEXT], hex[TN_PROOF_DIGITS + 1];
    unsigned char mac[TN_SHA256_BYTES];
    struct tn_address a;
    uint16_t port;

    if (!tn_address_from(addr, &a, &port))
        return NULL;
    tn_autofree char *text =
        tn_asprintf("tendon-hand %s %s:%d", nonce, tn_address_text(&a, host), port);
    tn_hmac_sha256(digest, strlen(digest), text, strlen(text), mac);
    put_hex(mac, sizeof mac, hex);
    return tn_asprintf("{\"proof\":\"%s\"}", hex);
}

char *tn_proof_answer(int fd, const char *digest, const char *nonce)
{
    struct sockaddr_storage addr = {0};
    socklen_t len = sizeof addr;

    return getsockname(fd, (struct sockaddr *)&addr, &len) == 0
               ? answer_for((struct sockaddr *)&addr, digest, nonce)
               : NULL;
}

/* The answer to head, whole and nothing behind it; its body lands in body. */
static int exchange(int fd, const char *head, char body[ANSWER_MAX], struct http_answer *a,
                    int64_t deadline, struct tn_error *err)
{
    struct net_wait wait = {.each = TN_NEVER, .deadline = deadline};
    struct iovec piece = {.iov_base = (char *)head, .iov_len = strlen(head)};
    size_t used = 0;
    ssize_t got = 1;

    if (net_ask(fd, &piece, 1, &wait) != 0)
        return tn_fail_errno(err, errno, "asking for its proof");
    int status = http_answer_head(a, fd, false, deadline, err);
    while (status == 200 && got > 0 && used < ANSWER_MAX - 1) {
        got = http_answer_read(a, fd, body + used, ANSWER_MAX - 1 - used, deadline, err);
        used += got > 0 ? (size_t)got : 0;
    }
    if (status < 0 || got < 0)
        return -1;
    if (status != 200 || got > 0 || !a->keep || a->at != a->in.len)
        return tn_fail(err, TN_E_PEER, "it does not prove that it is the hand (HTTP %d)", status);
    return 0;
}

int tn_proof_ask(int fd, const char *digest, int64_t deadline, struct tn_error *err)
{
    int64_t most = tn_deadline_in(ASK_SECONDS), until = deadline < most ? deadline : most;
    unsigned char random[TN_SHA256_BYTES];
    char nonce[TN_PROOF_DIGITS + 1], body[ANSWER_MAX] = {0};
    struct sockaddr_storage addr = {0};
    socklen_t len = sizeof addr;
    struct http_answer answer;
    struct tn_error why = {0};

    if (getrandom(random, sizeof random, 0) != sizeof random ||
        getpeername(fd, (struct sockaddr *)&addr, &len) < 0)
        return tn_fail_errno(err, errno, "asking for its proof");
    put_hex(random, sizeof random, nonce);
    tn_autofree char *head =
        tn_asprintf("GET /proof?nonce=%s HTTP/1.1\r\nHost: hand\r\n\r\n", nonce);
    tn_autofree char *expected = answer_for((struct sockaddr *)&addr, digest, nonce);
    http_answer_init(&answer);
    int r = exchange(fd, head, body, &answer, until, &why);
    http_answer_done(&answer);
    if (r < 0)
        return tn_fail(err, why.code == TN_E_TIMEOUT ? TN_E_TIMEOUT : TN_E_PEER, "%s", why.text);
    if (!expected || !tn_same_secret(body, expected))
        return tn_fail(err, TN_E_PEER,
                       "it is not the hand of this sandbox: another one has its address");
    return 0;
}
