#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gate/rewrite.h"

#define SECRET(name, value, hosts, headers)                                           \
    "{\"name\":\"" name "\",\"placeholder\":\"tnsecret_" name "\",\"value\":\"" value \
    "\",\"hosts\":[" hosts "],\"headers\":[" headers "]}"
#define VAULT(secrets) \
    "{\"authority\":{\"certificate\":\"c\",\"key\":\"k\"},\"secrets\":[" secrets "]}"

static const char vault_text[] = VAULT(SECRET(
    "one", "VALUE", "\"api.test\",\"*.deep.test:8443\"",
    "\"authorization\",\"x-api-key\"") "," SECRET("two", "LONGER-VALUE", "\"api.test\"",
                                                  "\"x-two\"") "," SECRET("bad", "two\\r\\nlines",
                                                                          "\"api.test\"",
                                                                          "\"authorization\""));

static const struct tn_http_limits limits = {.target = 8192, .fields = 16384};

/* What becomes of the header lines of a request for that host. */
static char *rewritten(const char *host, uint16_t port, const char *lines)
{
    struct vault v;
    struct tn_http_head head;
    tn_autobuf struct tn_buf out = TN_BUF_INIT(1 << 16), encoded = TN_BUF_INIT(1 << 16);
    tn_autofree char *text = tn_asprintf("GET /a HTTP/1.1\r\nHost: x\r\n%s\r\n", lines);

    assert_int_equal(vault_parse(vault_text, strlen(vault_text), &v, NULL), 0);
    assert_int_equal(tn_http_parse_request(text, strlen(text), &limits, &head, NULL), 0);
    assert_int_equal(rewrite_head(&head, text, &v, host, port, &out, &encoded), 0);
    vault_done(&v);
    return tn_strdup(tn_buf_str(&out) + strlen("GET /a HTTP/1.1\r\nHost: x\r\n"));
}

static void puts_values_where_they_may_be(void **state)
{
    static const struct {
        const char *host;
        uint16_t port;
        const char *lines, *wanted;
    } cases[] = {
        {"api.test", 443, "Authorization: Bearer tnsecret_one\r\n",
         "Authorization: Bearer VALUE\r\nAccept-Encoding: identity\r\n\r\n"},
        {"api.test", 443, "AUTHORIZATION:tnsecret_one tnsecret_one\r\n",
         "AUTHORIZATION: VALUE VALUE\r\nAccept-Encoding: identity\r\n\r\n"},
        {"api.test", 443, "X-Two: tnsecret_one tnsecret_two\r\n",
         "X-Two: tnsecret_one LONGER-VALUE\r\nAccept-Encoding: identity\r\n\r\n"},
        {"api.test", 443, "Cookie: tnsecret_one\r\nAccept-Encoding: gzip\r\n",
         "Cookie: tnsecret_one\r\nAccept-Encoding: identity\r\n\r\n"},
        {"api.test", 443, "Authorization: Basic bWU6dG5zZWNyZXRfb25l\r\n",
         "Authorization: Basic bWU6VkFMVUU=\r\nAccept-Encoding: identity\r\n\r\n"},
        {"api.test", 443, "Authorization: Basic bWU6bm90aGluZw==\r\n",
         "Authorization: Basic bWU6bm90aGluZw==\r\nAccept-Encoding: identity\r\n\r\n"},
        {"api.test", 443, "Authorization: tnsecret_bad\r\n",
         "Authorization: tnsecret_bad\r\nAccept-Encoding: identity\r\n\r\n"},
        {"api.test", 8443, "Authorization: tnsecret_one\r\n",
         "Authorization: tnsecret_one\r\n\r\n"},
        {"a.deep.test", 8443, "X-Api-Key: tnsecret_one\r\n",
         "X-Api-Key: VALUE\r\nAccept-Encoding: identity\r\n\r\n"},
        {"deep.test", 8443, "X-Api-Key: tnsecret_one\r\n", "X-Api-Key: tnsecret_one\r\n\r\n"},
        {"evil.test", 443, "Accept-Encoding: gzip\r\nX-Api-Key: tnsecret_one\r\n",
         "Accept-Encoding: gzip\r\nX-Api-Key: tnsecret_one\r\n\r\n"},
    };

    for (size_t i = 0; i < TN_COUNT(cases); i++) {
        tn_autofree char *got = rewritten(cases[i].host, cases[i].port, cases[i].lines);
        assert_string_equal(got, cases[i].wanted);
    }
}

static void refuses_vaults_that_say_too_little(void **state)
{
    static const char *const wrong[] = {
        "",
        "null",
        "[]",
        "{}",
        "{\"authority\":{\"certificate\":\"c\"}}",
        VAULT(SECRET("one", "", "\"api.test\"", "\"a\"")),
        VAULT(SECRET("one", "x", "\"not a name\"", "\"a\"")),
        VAULT(SECRET("one", "x", "\"api.test/path\"", "\"a\"")),
        VAULT(SECRET("one", "x", "7", "\"a\"")),
        VAULT("{\"value\":\"x\",\"hosts\":[]}"),
    };

    for (size_t i = 0; i < TN_COUNT(wrong); i++) {
        struct vault v;
        struct tn_error err = {0};
        if (vault_parse(wrong[i], strlen(wrong[i]), &v, &err) == 0)
            fail_msg("'%s' is no vault", wrong[i]);
        vault_done(&v);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(puts_values_where_they_may_be),
        cmocka_unit_test(refuses_vaults_that_say_too_little),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
