#include "service/ticket.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka.h comes last */
#include <cmocka.h>

static const struct ticket usual = {
    .key_id = "abcdefghijkl", .box = "boxboxboxb", .purpose = "port:8080", .expires = 1794745185};

static void test_what_was_sealed_comes_back(void **state)
{
    char text[TICKET_MAX];
    struct ticket back;

    assert_int_equal(ticket_seal("secret", &usual, text), 0);
    assert_int_equal(
        strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"),
        strlen(text));
    assert_true(ticket_unseal("secret", text, &back));
    assert_string_equal(back.key_id, usual.key_id);
    assert_string_equal(back.box, usual.box);
    assert_string_equal(back.purpose, usual.purpose);
    assert_int_equal(back.expires, usual.expires);
    assert_false(ticket_unseal("another", text, &back));
}

static void test_no_other_text_opens(void **state)
{
    char text[TICKET_MAX], other[2 * TICKET_MAX];
    struct ticket back;

    assert_int_equal(ticket_seal("secret", &usual, text), 0);
    size_t n = strlen(text);
    for (size_t i = 0; i < n; i++) {
        memcpy(other, text, n + 1);
        other[i] = other[i] == 'A' ? 'B' : 'A';
        assert_false(ticket_unseal("secret", other, &back));
        memcpy(other, text, i);
        other[i] = '\0';
        assert_false(ticket_unseal("secret", other, &back));
    }
    for (const char *more = "A="; *more; more++) {
        snprintf(other, sizeof other, "%s%c", text, *more);
        assert_false(ticket_unseal("secret", other, &back));
    }
    memset(other, 'A', sizeof other - 1);
    other[sizeof other - 1] = '\0';
    assert_false(ticket_unseal("secret", other, &back));
    assert_false(ticket_unseal("secret", "", &back));
}

static void test_one_member_cannot_become_another(void **state)
{
    struct ticket t = usual;
    char text[TICKET_MAX];

    snprintf(t.purpose, sizeof t.purpose, "port:1\nboxboxboxc");
    assert_int_equal(ticket_seal("secret", &t, text), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_was_sealed_comes_back),
        cmocka_unit_test(test_no_other_text_opens),
        cmocka_unit_test(test_one_member_cannot_become_another),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
