/* Access tokens: our own come back, everything else is refused with the same words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "service/jws.h"

#define SECRET "your-256-bit-secret"
/* From the documentation of the format: HS256 with the secret above. */
#define KNOWN                                                                                 \
    "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lIi" \
    "wiaWF0IjoxNTE2MjM5MDIyfQ.SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c"

static int check(const char *token, double now, struct tn_json **claims)
{
    struct tn_error err = {0};

    *claims = NULL;
    int result = jws_check(SECRET, token, now, claims, &err);
    if (result)
        assert_string_equal(err.text, "The access token is wrong or too old");
    return result;
}

static void test_known(void **state)
{
    tn_autojson struct tn_json *claims = NULL;

    assert_int_equal(check(KNOWN, 0, &claims), 0);
    assert_string_equal(tn_json_get_str(claims, "name", ""), "John Doe");
}

static void test_our_own(void **state)
{
    tn_autobuf struct tn_buf token = TN_BUF_INIT(JWS_MAX);
    tn_autojson struct tn_json *claims = NULL, *late = NULL;

    assert_int_equal(jws_sign(SECRET, "{\"user_id\":\"acme\",\"exp\":1000}", &token), 0);
    assert_int_equal(check(token.data, 999, &claims), 0);
    assert_string_equal(tn_json_get_str(claims, "user_id", ""), "acme");
    assert_int_equal(check(token.data, 1000, &late), -1);
}

static void test_any_byte(void **state)
{
    char token[] = KNOWN;

    for (size_t i = 0; i < sizeof token - 1; i++) {
        struct tn_json *claims;
        char was = token[i];
        token[i] = was == 'A' ? 'B' : 'A';
        assert_int_equal(check(token, 0, &claims), -1);
        token[i] = was;
    }
}

static void test_refused(void **state)
{
    static const char *const tokens[] = {
        "",
        ".",
        "..",
        "a.b.c",
        "eyJhbGciOiJIUzI1NiJ9.e30",
        /* alg none, without and with a signature */
        "eyJhbGciOiJub25lIn0.eyJ1c2VyX2lkIjoiYWNtZSJ9.",
        "eyJhbGciOiJub25lIn0.eyJ1c2VyX2lkIjoiYWNtZSJ9.AAAA",
        KNOWN "=",
        KNOWN ".",
        KNOWN "A",
    };

    for (size_t i = 0; i < TN_COUNT(tokens); i++) {
        struct tn_json *claims;
        assert_int_equal(check(tokens[i], 0, &claims), -1);
    }
}

/* Signed as it should be, but not what we accept. */
static void test_signed_nonsense(void **state)
{
    static const char *const claims[] = {
        "[]", "1", "{", "", "{\"exp\":\"soon\"}", "{\"exp\":null}"};

    for (size_t i = 0; i < TN_COUNT(claims); i++) {
        tn_autobuf struct tn_buf token = TN_BUF_INIT(JWS_MAX);
        struct tn_json *tree;
        assert_int_equal(jws_sign(SECRET, claims[i], &token), 0);
        assert_int_equal(check(token.data, 5, &tree), -1);
    }
}

static void test_too_long(void **state)
{
    tn_autobuf struct tn_buf token = TN_BUF_INIT(2 * JWS_MAX);
    tn_autofree char *claims = tn_malloc(JWS_MAX + 1);

    memset(claims, 'x', JWS_MAX);
    claims[JWS_MAX] = '\0';
    assert_int_equal(jws_sign(SECRET, claims, &token), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known),    cmocka_unit_test(test_our_own),
        cmocka_unit_test(test_any_byte), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_too_long), cmocka_unit_test(test_signed_nonsense),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
