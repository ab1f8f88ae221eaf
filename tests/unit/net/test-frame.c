#include "net/frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka.h comes last */
#include <cmocka.h>

static int tell(char kind, const unsigned char *bytes, size_t n, void *ctx)
{
    tn_buf_printf(ctx, "%c%zu:%.*s ", kind, n, (int)n, (const char *)bytes);
    return kind == 's' ? 7 : 0;
}

static void put(struct tn_buf *to, char kind, const char *text)
{
    unsigned char head[TN_FRAME_HEAD];

    tn_frame_head(head, kind, (uint32_t)strlen(text));
    tn_buf_add(to, head, sizeof head);
    tn_buf_puts(to, text);
}

static void test_any_cut_tells_the_same(void **state)
{
    tn_autobuf struct tn_buf stream = TN_BUF_INIT(4096);

    put(&stream, 'o', "hello");
    put(&stream, 'k', "");
    put(&stream, 'e', "x");
    for (size_t piece = 1; piece <= stream.len; piece++) {
        tn_autobuf struct tn_buf told = TN_BUF_INIT(4096);
        struct tn_frame_reader r;
        tn_frame_reader_init(&r, 16);
        for (size_t at = 0; at < stream.len; at += piece) {
            size_t n = stream.len - at < piece ? stream.len - at : piece;
            assert_int_equal(tn_frame_read(&r, stream.data + at, n, tell, &told, NULL), 0);
        }
        assert_string_equal(tn_buf_str(&told), "o5:hello k0: e1:x ");
        tn_frame_reader_done(&r);
    }
}

static void test_large_and_stopped(void **state)
{
    tn_autobuf struct tn_buf stream = TN_BUF_INIT(4096), told = TN_BUF_INIT(4096);
    struct tn_error err = {0};
    struct tn_frame_reader r;

    tn_frame_reader_init(&r, 4);
    put(&stream, 'o', "four");
    put(&stream, 's', "stop");
    put(&stream, 'o', "more");
    assert_int_equal(tn_frame_read(&r, stream.data, stream.len, tell, &told, &err), 7);
    assert_string_equal(tn_buf_str(&told), "o4:four s4:stop ");
    tn_frame_reader_reset(&r);
    tn_buf_reset(&stream);
    put(&stream, 'o', "fives");
    assert_int_equal(tn_frame_read(&r, stream.data, stream.len, tell, &told, &err), -1);
    assert_int_equal(err.code, TN_E_PEER);
    tn_frame_reader_done(&r);
}

static void test_numbers(void **state)
{
    static const uint64_t values[] = {0, 1, 255, 256, UINT64_C(0x0102030405060708), UINT64_MAX};
    unsigned char bytes[8];

    for (size_t i = 0; i < TN_COUNT(values); i++) {
        tn_frame_put_number(bytes, values[i]);
        assert_true(tn_frame_number(bytes) == values[i]);
    }
    tn_frame_put_number(bytes, values[4]);
    assert_int_equal(bytes[0], 1); /* the highest first */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_cut_tells_the_same),
        cmocka_unit_test(test_large_and_stopped),
        cmocka_unit_test(test_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
