#include "modal/grpc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka.h comes last */
#include <cmocka.h>

static int keep(char kind, const unsigned char *bytes, size_t n, void *ctx)
{
    Modal__TunnelData **to = ctx;

    *to = tn_grpc_read(&modal__tunnel_data__descriptor, kind, bytes, n, NULL, NULL);
    return 0;
}

static void test_a_message_goes_and_comes(void **state)
{
    tn_autobuf struct tn_buf wire = TN_BUF_INIT(4096);
    Modal__TunnelData sent = MODAL__TUNNEL_DATA__INIT;
    struct tn_frame_reader r;
    Modal__TunnelData *got = NULL;

    sent.host = (char *)(uintptr_t) "8000-x.localhost";
    sent.has_container_port = true;
    sent.container_port = 8000;
    assert_int_equal(tn_grpc_add(&wire, &sent.base), 0);
    tn_frame_reader_init(&r, 64);
    for (size_t i = 0; i < wire.len; i++)
        assert_int_equal(tn_frame_read(&r, wire.data + i, 1, keep, &got, NULL), 0);
    tn_frame_reader_done(&r);
    assert_non_null(got);
    assert_string_equal(got->host, sent.host);
    assert_int_equal(got->container_port, 8000);
    assert_false(got->has_port);
    protobuf_c_message_free_unpacked(&got->base, NULL);
}

static void test_what_is_no_message_is_refused(void **state)
{
    struct tn_error err;

    assert_null(tn_grpc_read(&modal__who__descriptor, 0,
                             "\x0a\x05"
                             "ab",
                             4, NULL, &err));
    assert_int_equal(err.code, TN_E_PEER);
    assert_null(tn_grpc_read(&modal__who__descriptor, 1, "", 0, NULL, &err));
}

static void test_fields_of_others_are_skipped(void **state)
{
    /* id "x", then field 99 of each wire type that there is */
    tn_autogrpc Modal__Who *who = tn_grpc_read(
        &modal__who__descriptor, 0,
        "\x0a\x01x\x98\x06\x05\x9a\x06\x01z\x9d\x06zzzz\x99\x06zzzzzzzz", 26, NULL, NULL);

    assert_non_null(who);
    assert_string_equal(who->id, "x");
}

/* A million empty entries would be a hundred megabytes of structures. */
static void test_memory_is_bounded(void **state)
{
    const size_t n = 2 << 20;
    char *bytes = malloc(n);

    for (size_t i = 0; i < n; i += 2) {
        bytes[i] = 0x0a;
        bytes[i + 1] = 0;
    }
    assert_null(tn_grpc_read(&modal__sandbox_list_response__descriptor, 0, bytes, n, NULL, NULL));
    free(bytes);
}

static void test_memory_is_held_in_a_purse(void **state)
{
    struct tn_purse purse = {.max = 4096};
    struct tn_held held = {.purse = &purse};
    const char *bytes = "\x0a\x01x";
    struct tn_error err;

    Modal__Who *who = tn_grpc_read(&modal__who__descriptor, 0, bytes, 3, &held, &err);
    assert_non_null(who);
    assert_true(held.bytes > 3 && held.bytes == purse.held);
    purse.max = held.bytes + 8;
    assert_null(tn_grpc_read(&modal__who__descriptor, 0, bytes, 3, &held, &err));
    assert_int_equal(err.code, TN_E_BUSY);
    protobuf_c_message_free_unpacked(&who->base, NULL);
    tn_guard_held(&held);
    assert_int_equal(purse.held, 0);
}

static void test_texts(void **state)
{
    tn_autobuf struct tn_buf b = TN_BUF_INIT(4096);
    char back[64];

    tn_grpc_add_text(&b, "50% of\nM\xc3\xbc");
    assert_string_equal(tn_buf_str(&b), "50%25 of%0AM%C3%BC");
    snprintf(back, sizeof back, "%s", tn_buf_str(&b));
    tn_grpc_plain_text(back);
    assert_string_equal(back, "50% of\nM\xc3\xbc");
    snprintf(back, sizeof back, "%s", "%zz%4%00%");
    tn_grpc_plain_text(back);
    assert_string_equal(back, "%zz%4%00%");
}

static void test_statuses(void **state)
{
    assert_string_equal(tn_grpc_status_name(5), "NOT_FOUND");
    assert_string_equal(tn_grpc_status_name(999), "UNKNOWN");
    assert_int_equal(tn_grpc_status_of(TN_E_NOT_FOUND), TN_GRPC_NOT_FOUND);
    assert_int_equal(tn_grpc_status_of(TN_E_IO), TN_GRPC_INTERNAL);
    assert_int_equal(tn_grpc_code(16), TN_E_DENIED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_message_goes_and_comes),
        cmocka_unit_test(test_what_is_no_message_is_refused),
        cmocka_unit_test(test_fields_of_others_are_skipped),
        cmocka_unit_test(test_memory_is_bounded),
        cmocka_unit_test(test_memory_is_held_in_a_purse),
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_statuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
