/* The vectors of RFC 4231 (test cases 1 to 4, 6 and 7). */
#include "base/hmac.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
/* cmocka.h comes last */
#include <cmocka.h>

static void expect(const void *key, size_t key_len, const void *text, size_t n, const char *wanted)
{
    unsigned char mac[TN_SHA256_BYTES];
    char hex[2 * TN_SHA256_BYTES + 1];

    tn_hmac_sha256(key, key_len, text, n, mac);
    for (int i = 0; i < TN_SHA256_BYTES; i++)
        snprintf(hex + 2 * i, 3, "%02x", mac[i]);
    assert_string_equal(hex, wanted);
}

#define TEXT(literal) literal, sizeof(literal) - 1

static void test_short_keys(void **state)
{
    unsigned char key[25], text[50];

    memset(key, 0x0b, 20);
    expect(key, 20, TEXT("Hi There"),
           "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    expect(TEXT("Jefe"), TEXT("what do ya want for nothing?"),
           "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, 20);
    memset(text, 0xdd, 50);
    expect(key, 20, text, 50, "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
    for (unsigned char i = 0; i < 25; i++)
        key[i] = i + 1;
    memset(text, 0xcd, 50);
    expect(key, 25, text, 50, "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
}

static void test_keys_longer_than_a_block(void **state)
{
    unsigned char key[131];

    memset(key, 0xaa, sizeof key);
    expect(key, sizeof key, TEXT("Test Using Larger Than Block-Size Key - Hash Key First"),
           "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    expect(key, sizeof key,
           TEXT("This is a test using a larger than block-size key and a larger than block-size "
                "data. The key needs to be hashed before being used by the HMAC algorithm."),
           "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_short_keys),
        cmocka_unit_test(test_keys_longer_than_a_block),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
