#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "gate/hello.h"

static void put16(struct tn_buf *b, size_t n)
{
    tn_buf_putc(b, (char)(n >> 8));
    tn_buf_putc(b, (char)n);
}

static void put_extension(struct tn_buf *b, unsigned type, const struct tn_buf *data)
{
    put16(b, type);
    put16(b, data->len);
    tn_buf_add(b, data->data, data->len);
}

/* A client hello; name NULL: without SNI. */
static void make_message(struct tn_buf *out, const char *name, bool ech)
{
    tn_autobuf struct tn_buf extensions = TN_BUF_INIT(4096), data = TN_BUF_INIT(4096),
                             body = TN_BUF_INIT(8192);
    static const char random[32], pad[700];

    tn_buf_add(&data, pad, sizeof pad);
    put_extension(&extensions, 21, &data);
    tn_buf_reset(&data);
    if (name) {
        put16(&data, strlen(name) + 3);
        tn_buf_putc(&data, 0);
        put16(&data, strlen(name));
        tn_buf_puts(&data, name);
        put_extension(&extensions, 0, &data);
    }
    tn_buf_reset(&data);
    tn_buf_putc(&data, 0);
    if (ech)
        put_extension(&extensions, 0xfe0d, &data);
    put16(&body, 0x303);
    tn_buf_add(&body, random, sizeof random);
    tn_buf_putc(&body, 0);
    put16(&body, 2);
    put16(&body, 0x1301);
    tn_buf_putc(&body, 1);
    tn_buf_putc(&body, 0);
    put16(&body, extensions.len);
    tn_buf_add(&body, extensions.data, extensions.len);
    tn_buf_putc(out, 1);
    tn_buf_putc(out, 0);
    put16(out, body.len);
    tn_buf_add(out, body.data, body.len);
}

/* In records of at most `most` bytes. */
static void make_hello(struct tn_buf *out, const char *name, bool ech, size_t most)
{
    tn_autobuf struct tn_buf message = TN_BUF_INIT(8192);

    make_message(&message, name, ech);
    for (size_t at = 0; at < message.len; at += most) {
        size_t n = message.len - at < most ? message.len - at : most;
        tn_buf_add(out, "\x16\3\1", 3);
        put16(out, n);
        tn_buf_add(out, message.data + at, n);
    }
}

static enum tn_hello_state read_of(const struct tn_buf *b, size_t size, struct tn_hello *h)
{
    return tn_hello_read((const uint8_t *)b->data, size, h);
}

static void reads_the_name(void **state)
{
    static const size_t sizes[] = {16384, 100, 1};

    for (size_t i = 0; i < TN_COUNT(sizes); i++) {
        tn_autobuf struct tn_buf hello = TN_BUF_INIT(64 << 10);
        struct tn_hello h;
        make_hello(&hello, "Good.Test", false, sizes[i]);
        assert_int_equal(read_of(&hello, hello.len, &h), TN_HELLO_WHOLE);
        assert_string_equal(h.name, "good.test");
        assert_false(h.encrypted);
    }
}

static void waits_for_all_of_it(void **state)
{
    tn_autobuf struct tn_buf hello = TN_BUF_INIT(64 << 10);
    struct tn_hello h;

    make_hello(&hello, "good.test", false, 300);
    for (size_t n = 1; n < hello.len; n++)
        assert_int_equal(read_of(&hello, n, &h), TN_HELLO_MORE);
}

static void tells_what_is_hidden(void **state)
{
    tn_autobuf struct tn_buf hello = TN_BUF_INIT(64 << 10);
    struct tn_hello h;

    make_hello(&hello, NULL, false, 16384);
    assert_int_equal(read_of(&hello, hello.len, &h), TN_HELLO_WHOLE);
    assert_string_equal(h.name, "");
    tn_buf_reset(&hello);
    make_hello(&hello, "good.test", true, 16384);
    assert_int_equal(read_of(&hello, hello.len, &h), TN_HELLO_WHOLE);
    assert_true(h.encrypted);
}

static void refuses_what_is_none(void **state)
{
    tn_autobuf struct tn_buf hello = TN_BUF_INIT(64 << 10);
    struct tn_hello h;

    assert_int_equal(tn_hello_read((const uint8_t *)"GET / HTTP/1.1", 14, &h), TN_HELLO_NOT);
    assert_int_equal(tn_hello_read((const uint8_t *)"\x16\3\1\0\4\2\0\0\0", 9, &h), TN_HELLO_NOT);
    assert_int_equal(tn_hello_read((const uint8_t *)"\x16\2\1", 3, &h), TN_HELLO_NOT);
    assert_int_equal(tn_hello_read((const uint8_t *)"\x16\3\1\xff\xff", 5, &h), TN_HELLO_NOT);
    make_hello(&hello, "bad..name", false, 16384);
    assert_int_equal(read_of(&hello, hello.len, &h), TN_HELLO_NOT);
    tn_buf_reset(&hello);
    make_hello(&hello, "good.test", false, 16384);
    hello.data[43] = (char)0xff; /* the length of the session id */
    assert_int_equal(read_of(&hello, hello.len, &h), TN_HELLO_NOT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_the_name),
        cmocka_unit_test(waits_for_all_of_it),
        cmocka_unit_test(tells_what_is_hidden),
        cmocka_unit_test(refuses_what_is_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
