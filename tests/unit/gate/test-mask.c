#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gate/mask.h"

static const struct needle needles[] = {{"abcab", 5}, {"secret", 6}, {"aaa", 3}};

/* The text in two pieces, cut at every place, and byte by byte. */
static void check(const char *text, const char *wanted)
{
    size_t n = strlen(text);

    for (size_t cut = 0; cut <= n + 1; cut++) {
        struct mask m = MASK_INIT;
        tn_autobuf struct tn_buf out = TN_BUF_INIT(1 << 16);
        for (size_t i = 0; cut > n && i < n; i++)
            mask_push(&m, needles, TN_COUNT(needles), text + i, 1, &out);
        if (cut <= n) {
            mask_push(&m, needles, TN_COUNT(needles), text, cut, &out);
            mask_push(&m, needles, TN_COUNT(needles), text + cut, n - cut, &out);
        }
        mask_flush(&m, &out);
        if (strcmp(tn_buf_str(&out), wanted) != 0)
            fail_msg("'%s' cut at %zu: '%s'", text, cut, tn_buf_str(&out));
        mask_done(&m);
    }
}

static void covers_values_wherever_they_are_cut(void **state)
{
    check("", "");
    check("nothing here", "nothing here");
    check("a secret!", "a ******!");
    check("secretsecret", "************");
    check("secre", "secre");
    check("sesecret", "se******");
}

static void covers_values_that_overlap(void **state)
{
    check("abcabcab", "********");
    check("abcab", "*****");
    check("abcabc", "*****c");
    check("aaaa", "****");
    check("xaaabcabx", "x*******x");
    check("abca", "abca");
}

static void lets_go_of_what_is_decided(void **state)
{
    struct mask m = MASK_INIT;
    tn_autobuf struct tn_buf out = TN_BUF_INIT(1 << 16);

    mask_push(&m, needles, TN_COUNT(needles), "hello sec", 9, &out);
    assert_string_equal(tn_buf_str(&out), "hello ");
    mask_push(&m, needles, TN_COUNT(needles), "ond", 3, &out);
    assert_string_equal(tn_buf_str(&out), "hello second");
    mask_push(&m, NULL, 0, "secret", 6, &out);
    assert_string_equal(tn_buf_str(&out), "hello secondsecret");
    mask_done(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(covers_values_wherever_they_are_cut),
        cmocka_unit_test(covers_values_that_overlap),
        cmocka_unit_test(lets_go_of_what_is_decided),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
