#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka.h comes last */
#include <cmocka.h>

#include "engine/stream.h"

static int note(int stream, const void *bytes, size_t n, void *ctx)
{
    tn_buf_printf(ctx, "%d", stream);
    tn_buf_add(ctx, bytes, n);
    return 0;
}

static int stop(int stream, const void *bytes, size_t n, void *ctx)
{
    return 1;
}

static const char frames[] =
    "\1\0\0\0\0\0\0\3one\2\0\0\0\0\0\0\0\2\0\0\0\0\0\0\3two\0\0\0\0\0\0\0\1z";

static void test_frames(void **state)
{
    tn_autobuf struct tn_buf got = TN_BUF_INIT(100);
    struct engine_frames f = {.fn = note, .ctx = &got};

    assert_int_equal(engine_frames_take(frames, sizeof frames - 1, &f), 0);
    assert_string_equal(tn_buf_str(&got), "1one2two1z");

    tn_buf_reset(&got);
    f = (struct engine_frames){.fn = note, .ctx = &got};
    for (size_t i = 0; i < sizeof frames - 1; i++)
        assert_int_equal(engine_frames_take(frames + i, 1, &f), 0);
    assert_string_equal(tn_buf_str(&got), "1o1n1e2t2w2o1z");
}

static void test_not_frames(void **state)
{
    struct engine_frames f = {0};

    assert_int_not_equal(engine_frames_take("plain text of a terminal", 24, &f), 0);
    assert_true(f.broken);
    f = (struct engine_frames){.fn = stop};
    assert_int_equal(engine_frames_take(frames, sizeof frames - 1, &f), 1);
    assert_false(f.broken);
}

static int note_status(const struct tn_json *object, void *ctx, struct tn_error *err)
{
    const char *error = tn_json_get_str(object, "error", NULL);

    if (error)
        return tn_fail(err, TN_E_PEER, "%s", error);
    tn_buf_puts(ctx, tn_json_get_str(object, "status", "?"));
    return 0;
}

static int feed(const char *text, struct tn_buf *got, struct tn_error *err)
{
    struct engine_lines l = {.line = TN_BUF_INIT(64), .fn = note_status, .ctx = got};
    int r = 0;

    for (const char *p = text; *p && r == 0; p++)
        r = engine_lines_take(p, 1, &l);
    if (r == 0)
        r = engine_lines_end(&l);
    *err = l.err;
    tn_buf_done(&l.line);
    return r;
}

static void test_lines(void **state)
{
    tn_autobuf struct tn_buf got = TN_BUF_INIT(100);
    struct tn_error err;

    assert_int_equal(
        feed("{\"status\":\"a\"}\r\n\r\n{\"status\":\"b\"}\n{\"status\":\"c\"}", &got, &err), 0);
    assert_string_equal(tn_buf_str(&got), "abc");
    assert_int_equal(feed("{\"status\":\"a\"}\n{\"error\":\"no\"}\n{\"status\":\"b\"}", &got, &err),
                     -1);
    assert_string_equal(err.text, "no");
    assert_int_equal(feed("not json\n", &got, &err), -1);
    assert_int_equal(
        feed("{\"status\":\"0123456789012345678901234567890123456789012345678901234567890\"}", &got,
             &err),
        -1);
    assert_int_equal(err.code, TN_E_TOO_LARGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frames),
        cmocka_unit_test(test_not_frames),
        cmocka_unit_test(test_lines),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
