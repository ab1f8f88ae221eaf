#include "net/sse-read.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka.h comes last */
#include <cmocka.h>

struct story {
    struct tn_sse_reader reader;
    struct tn_buf told;
};

static int tell(const char *event, const char *data, size_t n, void *ctx)
{
    struct story *s = ctx;

    return tn_buf_printf(&s->told, "%s|%.*s|%s\n", event, (int)n, data, tn_buf_str(&s->reader.id));
}

static void take(struct story *s, const char *text)
{
    struct tn_error err = {0};

    assert_int_equal(tn_sse_read(&s->reader, text, strlen(text), tell, s, &err), 0);
}

static void start(struct story *s)
{
    tn_sse_reader_init(&s->reader, 1 << 16);
    tn_buf_init(&s->told, 1 << 16);
}

static void end(struct story *s, const char *expected)
{
    assert_string_equal(tn_buf_str(&s->told), expected);
    tn_buf_done(&s->told);
    tn_sse_reader_done(&s->reader);
}

static void test_ids(void **state)
{
    struct story s;

    start(&s);
    take(&s, "data: a\n\nid: 1\nevent: x\ndata: b\n\ndata: c\n\nid\ndata: d\n\n");
    end(&s, "|a|\nx|b|1\n|c|1\n|d|\n");
}

/* An event that broke off is asked for again: its id does not count. */
static void test_an_id_counts_with_its_event(void **state)
{
    struct story s;

    start(&s);
    take(&s, "id: 1\ndata: a\n\nid: 2\ndata: b\n");
    assert_string_equal(tn_buf_str(&s.reader.id), "1");
    tn_sse_reader_reset(&s.reader);
    assert_string_equal(tn_buf_str(&s.reader.id), "1");
    take(&s, "data: c\n\nid: 3\n\n");
    assert_string_equal(tn_buf_str(&s.reader.id), "3");
    end(&s, "|a|1\n|c|1\n");
}

static void test_retry(void **state)
{
    struct story s;

    start(&s);
    assert_int_equal(s.reader.retry, -1);
    take(&s, "retry: 1500\n\n");
    assert_int_equal(s.reader.retry, 1500);
    take(&s, "retry: soon\nretry: -1\nretry: 99999999999\nretry:\nretry: 1x\n\n");
    assert_int_equal(s.reader.retry, 1500);
    end(&s, "");
}

static void test_an_id_nobody_can_ask_for(void **state)
{
    struct story s;
    char line[8192];

    start(&s);
    snprintf(line, sizeof line, "id: %05000d\ndata: a\n\n", 0);
    take(&s, line);
    end(&s, "|a|\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_an_id_counts_with_its_event),
        cmocka_unit_test(test_retry),
        cmocka_unit_test(test_an_id_nobody_can_ask_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
