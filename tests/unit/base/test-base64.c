#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base64.h"

static const struct {
    const char *plain;
    const char *text;
} pairs[] = {
    /* RFC 4648, section 10 */
    {"", ""},
    {"f", "Zg=="},
    {"fo", "Zm8="},
    {"foo", "Zm9v"},
    {"foob", "Zm9vYg=="},
    {"fooba", "Zm9vYmE="},
    {"foobar", "Zm9vYmFy"},
    {"\xff\xfe\xfd", "//79"},
    {"\xfb\xef\xbe", "++++"},
};

static void test_known_pairs(void **state)
{
    for (size_t i = 0; i < TN_COUNT(pairs); i++) {
        tn_autobuf struct tn_buf text = TN_BUF_INIT(100), plain = TN_BUF_INIT(100);
        size_t n = strlen(pairs[i].plain);

        assert_int_equal(tn_base64_encode(&text, pairs[i].plain, n), 0);
        assert_string_equal(tn_buf_str(&text), pairs[i].text);
        assert_int_equal(text.len, tn_base64_length(n));
        assert_int_equal(tn_base64_decode(&plain, pairs[i].text, strlen(pairs[i].text), NULL), 0);
        assert_string_equal(tn_buf_str(&plain), pairs[i].plain);
        assert_int_equal(plain.len, n);
    }
}

static void test_every_length_round_trips(void **state)
{
    unsigned char bytes[300];

    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 7 + i / 3);
    for (size_t n = 0; n <= sizeof bytes; n++) {
        tn_autobuf struct tn_buf text = TN_BUF_INIT(1000), plain = TN_BUF_INIT(1000);
        assert_int_equal(tn_base64_encode(&text, bytes, n), 0);
        assert_int_equal(tn_base64_decode(&plain, text.data, text.len, NULL), 0);
        assert_int_equal(plain.len, n);
        assert_memory_equal(tn_buf_str(&plain), bytes, n);
    }
}

static void test_what_is_not_base64(void **state)
{
    static const char *const bad[] = {
        "Z",     "Zg",   "Zg=",  "Zg===", "Z===", "====",     "Zg=v", "=Zg=",       "Zm9\n",
        "Zm9v ", "Zm9-", "Zm9_", "Zh==",  "Zm9=", "Zg==Zg==", "Zm 9", "\xc3\xbc==", "Zg=\n"};
    struct tn_error err;

    for (size_t i = 0; i < TN_COUNT(bad); i++) {
        tn_autobuf struct tn_buf plain = TN_BUF_INIT(100);
        if (tn_base64_decode(&plain, bad[i], strlen(bad[i]), &err) == 0)
            fail_msg("accepted %s", bad[i]);
        assert_int_equal(err.code, TN_E_INVALID);
        assert_int_equal(plain.len, 0);
    }
}

static void test_a_full_buffer(void **state)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(3);
    struct tn_error err;

    assert_int_equal(tn_base64_encode(&out, "f", 1), -1);
    tn_buf_reset(&out);
    assert_int_equal(tn_base64_decode(&out, "Zm9vYg==", 8, &err), -1);
    assert_int_equal(err.code, TN_E_TOO_LARGE);
    tn_buf_reset(&out);
    assert_int_equal(tn_base64_decode(&out, "Zm9v", 4, &err), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_pairs),
        cmocka_unit_test(test_every_length_round_trips),
        cmocka_unit_test(test_what_is_not_base64),
        cmocka_unit_test(test_a_full_buffer),
    };

    return cmocka_run_group_tests_name("base64", tests, NULL, NULL);
}
