#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gate/dns.h"

/* 12 bytes of header: id 0x1234. */
#define HEAD(flags, questions, answers, more) \
    "\x12\x34" flags "\0" questions "\0" answers "\0\0\0" more
#define GOOD "\4good\4test\0"

static int question_of(const char *bytes, size_t size, struct tn_dns_question *q)
{
    return tn_dns_read_question((const uint8_t *)bytes, size, q);
}
#define QUESTION(text, q) question_of(text, sizeof(text) - 1, q)

static void reads_questions(void **state)
{
    struct tn_dns_question q;

    assert_int_equal(QUESTION(HEAD("\1\0", "\1", "\0", "\0") "\4GooD\4test\0\0\1\0\1", &q), 0);
    assert_string_equal(q.name, "good.test");
    assert_int_equal(q.id, 0x1234);
    assert_int_equal(q.type, TN_DNS_A);
    assert_true(q.recursion);
    assert_false(q.extended);
    assert_int_equal(QUESTION(HEAD("\1\0", "\1", "\0", "\1") GOOD "\0\x1c\0\1"
                                                                  "\0\0\x29\4\xd0\0\0\0\0\0\0",
                              &q),
                     0);
    assert_true(q.extended);
}

static void refuses_odd_questions(void **state)
{
    struct tn_dns_question q;

    assert_int_equal(QUESTION(HEAD("\x81\0", "\1", "\0", "\0") GOOD "\0\1\0\1", &q), -1);
    assert_int_equal(QUESTION("\x12\x34", &q), -1);
    assert_int_equal(QUESTION(HEAD("\1\0", "\2", "\0", "\0") GOOD "\0\1\0\1", &q), TN_DNS_FORMAT);
    assert_int_equal(QUESTION(HEAD("\1\0", "\1", "\0", "\0") GOOD "\0\1\0\3", &q), TN_DNS_FORMAT);
    assert_int_equal(QUESTION(HEAD("\1\0", "\1", "\0", "\0") GOOD "\0\1\0\1more", &q),
                     TN_DNS_FORMAT);
    assert_int_equal(QUESTION(HEAD("\x29\0", "\1", "\0", "\0") GOOD "\0\1\0\1", &q),
                     TN_DNS_NOT_THIS);
    /* A pointer to itself, and one forwards. */
    assert_int_equal(QUESTION(HEAD("\1\0", "\1", "\0", "\0") "\xc0\x0c\0\1\0\1", &q),
                     TN_DNS_FORMAT);
    assert_int_equal(QUESTION(HEAD("\1\0", "\1", "\0", "\0") "\xc0\x10\0\1\0\1", &q),
                     TN_DNS_FORMAT);
    /* A dot inside a label is not the dot between two. */
    assert_int_equal(QUESTION(HEAD("\1\0", "\1", "\0", "\0") "\11good.test\0\0\1\0\1", &q), 0);
    assert_string_equal(q.name, "?");
}

static const struct tn_dns_question asked = {.id = 0x1234, .type = TN_DNS_A, .name = "good.test"};

static int answer_of(const char *bytes, size_t size, struct tn_dns_answer *a)
{
    return tn_dns_read_answer((const uint8_t *)bytes, size, &asked, a);
}
#define ANSWER(text, a) answer_of(text, sizeof(text) - 1, a)
#define RECORD_A(name, address) name "\0\1\0\1\0\0\0\x3c\0\4" address

static void follows_the_chain(void **state)
{
    struct tn_dns_answer a;
    char text[TN_ADDRESS_TEXT];

    assert_int_equal(ANSWER(HEAD("\x81\x80", "\1", "\3", "\0") GOOD
                            "\0\1\0\1"
                            "\xc0\x0c\0\5\0\1\0\0\0\5\0\7\5other\0" RECORD_A(
                                "\5other\0", "\xcb\0\x71\1") RECORD_A("\4evil\0", "\1\2\3\4"),
                            &a),
                     0);
    assert_int_equal(a.count, 1);
    assert_string_equal(tn_address_text(&a.addresses[0], text), "203.0.113.1");
    assert_int_equal(a.ttl, 5);
}

static void refuses_other_answers(void **state)
{
    struct tn_dns_answer a;

    assert_int_equal(ANSWER(HEAD("\1\0", "\1", "\0", "\0") GOOD "\0\1\0\1", &a), -1);
    assert_int_equal(ANSWER(HEAD("\x81\0", "\1", "\0", "\0") "\4evil\4test\0\0\1\0\1", &a), -1);
    assert_int_equal(ANSWER("\0\0"
                            "\x81\0\0\1\0\0\0\0\0\0" GOOD "\0\1\0\1",
                            &a),
                     -1);
    assert_int_equal(ANSWER(HEAD("\x81\0", "\1", "\1", "\0") GOOD "\0\1\0\1\xc0\x0c\0\1", &a), -1);
    /* An address of the wrong size is none. */
    assert_int_equal(ANSWER(HEAD("\x81\0", "\1", "\1", "\0") GOOD
                            "\0\1\0\1\xc0\x0c\0\1\0\1\0\0\0\1\0\3\1\2\3",
                            &a),
                     0);
    assert_int_equal(a.count, 0);
}

static void writes_what_it_reads(void **state)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(TN_DNS_MAX);
    struct tn_dns_question q = {.id = 7, .type = TN_DNS_AAAA, .extended = true}, again;
    struct tn_dns_answer a = {.ttl = 9, .count = TN_DNS_ADDRESSES}, read;

    snprintf(q.name, sizeof q.name, "a.good.test");
    for (size_t i = 0; i < a.count; i++)
        assert_true(tn_address_parse("2001:db8::1", &a.addresses[i]));
    tn_dns_write_question(&out, &q);
    assert_int_equal(tn_dns_read_question((const uint8_t *)out.data, out.len, &again), 0);
    assert_string_equal(again.name, q.name);
    tn_dns_write_answer(&out, &q, &a, "because");
    assert_true(out.len <= TN_DNS_SMALL + 64);
    assert_int_equal(tn_dns_read_answer((const uint8_t *)out.data, out.len, &q, &read), 0);
    assert_int_equal(read.count, a.count);
    assert_int_equal(read.ttl, 9);
    assert_non_null(memmem(out.data, out.len, "because", 7));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_questions),      cmocka_unit_test(refuses_odd_questions),
        cmocka_unit_test(follows_the_chain),    cmocka_unit_test(refuses_other_answers),
        cmocka_unit_test(writes_what_it_reads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
