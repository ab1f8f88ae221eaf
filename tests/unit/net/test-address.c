/* What kind addresses are, and nets of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/guard.h"
#include "net/address.h"

static struct tn_address address_of(const char *text)
{
    struct tn_address a;

    if (!tn_address_parse(text, &a))
        fail_msg("%s is no address", text);
    return a;
}

static void kinds_of_addresses(void **state)
{
    static const struct {
        const char *text;
        enum tn_address_kind kind;
    } cases[] = {
        {"8.8.8.8", TN_ADDRESS_PUBLIC},
        {"10.255.0.1", TN_ADDRESS_PRIVATE},
        {"11.0.0.1", TN_ADDRESS_PUBLIC},
        {"100.127.255.255", TN_ADDRESS_PRIVATE},
        {"100.128.0.0", TN_ADDRESS_PUBLIC},
        {"127.9.9.9", TN_ADDRESS_LOOPBACK},
        {"0.0.0.0", TN_ADDRESS_NOBODYS},
        {"168.63.129.16", TN_ADDRESS_NOBODYS},
        {"168.63.129.17", TN_ADDRESS_PUBLIC},
        {"169.254.169.254", TN_ADDRESS_NOBODYS},
        {"172.31.0.1", TN_ADDRESS_PRIVATE},
        {"172.32.0.1", TN_ADDRESS_PUBLIC},
        {"192.0.0.8", TN_ADDRESS_PRIVATE},
        {"192.0.1.8", TN_ADDRESS_PUBLIC},
        {"198.19.0.1", TN_ADDRESS_PRIVATE},
        {"224.0.0.1", TN_ADDRESS_NOBODYS},
        {"240.1.2.3", TN_ADDRESS_NOBODYS},
        {"::", TN_ADDRESS_NOBODYS},
        {"::1", TN_ADDRESS_LOOPBACK},
        {"::2", TN_ADDRESS_NOBODYS},
        {"::10.0.0.1", TN_ADDRESS_PRIVATE},
        {"::ffff:8.8.8.8", TN_ADDRESS_PUBLIC},
        {"64:ff9b::10.0.0.1", TN_ADDRESS_PRIVATE},
        {"64:ff9b::8.8.8.8", TN_ADDRESS_PUBLIC},
        {"64:ff9b:1::8.8.8.8", TN_ADDRESS_PRIVATE},
        {"2002:7f00:1::1", TN_ADDRESS_LOOPBACK},
        {"2002:808:808::1", TN_ADDRESS_PUBLIC},
        {"2001::1", TN_ADDRESS_PRIVATE},
        {"2001:db8::1", TN_ADDRESS_PUBLIC},
        {"fd00::1", TN_ADDRESS_PRIVATE},
        {"fe80::1", TN_ADDRESS_NOBODYS},
        {"fec0::1", TN_ADDRESS_PRIVATE},
        {"ff02::1", TN_ADDRESS_NOBODYS},
        {"2600::1", TN_ADDRESS_PUBLIC},
    };

    for (size_t i = 0; i < TN_COUNT(cases); i++) {
        struct tn_address a = address_of(cases[i].text);
        if (tn_address_kind(&a) != cases[i].kind)
            fail_msg("%s: %d", cases[i].text, tn_address_kind(&a));
    }
    assert_int_equal(tn_address_kind(&(struct tn_address){.family = AF_UNIX}), TN_ADDRESS_NOBODYS);
}

/* A net that reaches farther than one row is public. */
static void kinds_of_nets(void **state)
{
    static const struct {
        const char *text;
        int bits;
        enum tn_address_kind kind;
    } cases[] = {
        {"0.0.0.0", 1, TN_ADDRESS_PUBLIC},      {"10.0.0.0", 8, TN_ADDRESS_PRIVATE},
        {"10.0.0.0", 7, TN_ADDRESS_PUBLIC},     {"10.1.2.0", 24, TN_ADDRESS_PRIVATE},
        {"172.16.0.0", 11, TN_ADDRESS_PUBLIC},  {"192.0.0.0", 23, TN_ADDRESS_PUBLIC},
        {"224.0.0.0", 3, TN_ADDRESS_NOBODYS},   {"240.0.0.0", 4, TN_ADDRESS_NOBODYS},
        {"224.0.0.0", 2, TN_ADDRESS_PUBLIC},    {"::", 1, TN_ADDRESS_PUBLIC},
        {"::", 95, TN_ADDRESS_PUBLIC},          {"fc00::", 7, TN_ADDRESS_PRIVATE},
        {"fc00::", 6, TN_ADDRESS_PUBLIC},       {"64:ff9b::10.0.0.0", 104, TN_ADDRESS_PRIVATE},
        {"64:ff9b::", 96, TN_ADDRESS_PUBLIC},   {"2002::", 16, TN_ADDRESS_PUBLIC},
        {"2002:a00::", 24, TN_ADDRESS_PRIVATE},
    };

    for (size_t i = 0; i < TN_COUNT(cases); i++) {
        struct tn_address a = address_of(cases[i].text);
        if (tn_address_net_kind(&a, cases[i].bits) != cases[i].kind)
            fail_msg("%s/%d: %d", cases[i].text, cases[i].bits,
                     tn_address_net_kind(&a, cases[i].bits));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_of_addresses),
        cmocka_unit_test(kinds_of_nets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
