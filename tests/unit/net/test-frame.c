#include "net/frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka.h comes last */
#include <cmocka.h>

enum { MOST = 1000 };
/* Two of Connect's, which the stream of a hand has too, and one without any bytes. */
static const char three[] = "\0\0\0\0\x07{\"a\":1}\x02\0\0\0\x02{}O\0\0\0\0";

static int tell(char kind, const unsigned char *bytes, size_t n, void *told)
{
    return tn_buf_printf(told, "%d:%.*s;", kind, (int)n, (const char *)bytes) < 0 || n == 13;
}

static void test_a_stream_may_be_cut_anywhere(void **state)
{
    for (size_t cut = 0; cut < sizeof three; cut++) {
        tn_autobuf struct tn_buf told = TN_BUF_INIT(4096);
        struct tn_frame_reader r;
        struct tn_error err = {0};
        tn_frame_reader_init(&r, MOST);
        assert_int_equal(tn_frame_read(&r, three, cut, tell, &told, &err), 0);
        assert_int_equal(
            tn_frame_read(&r, three + cut, sizeof three - 1 - cut, tell, &told, &err), 0);
        assert_string_equal(tn_buf_str(&told), "0:{\"a\":1};2:{};79:;");
        assert_int_equal(r.held.len, 0);
        tn_frame_reader_done(&r);
    }
}

static void test_what_is_too_long_is_refused_by_its_head(void **state)
{
    static const char *const heads[] = {"\0\0\0\x03\xe9", "\0\xff\xff\xff\xff"};

    for (size_t i = 0; i < TN_COUNT(heads); i++) {
        tn_autobuf struct tn_buf told = TN_BUF_INIT(4096);
        struct tn_frame_reader r;
        struct tn_error err = {0};
        tn_frame_reader_init(&r, MOST);
        assert_int_equal(tn_frame_read(&r, heads[i], TN_FRAME_HEAD, tell, &told, &err), -1);
        assert_int_equal(err.code, TN_E_PEER);
        tn_frame_reader_done(&r);
    }
}

static void test_a_head_says_what_follows(void **state)
{
    unsigned char head[TN_FRAME_HEAD], number[8];

    tn_frame_head(head, 2, 0x01020304);
    assert_memory_equal(head, "\x02\x01\x02\x03\x04", sizeof head);
    tn_frame_put_number(number, UINT64_C(0x0102030405060708));
    assert_int_equal(tn_frame_number(number), UINT64_C(0x0102030405060708));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_stream_may_be_cut_anywhere),
        cmocka_unit_test(test_what_is_too_long_is_refused_by_its_head),
        cmocka_unit_test(test_a_head_says_what_follows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
