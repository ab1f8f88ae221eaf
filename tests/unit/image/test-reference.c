/* Image references, from reference.test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "image/reference.h"

static const char *dash(const char *s)
{
    return s ? s : "-";
}

static void check_line(char *line, int number)
{
    char *arrow = strstr(line, " => ");
    tn_autoreference struct tn_reference r = {0};
    tn_autobuf struct tn_buf got = TN_BUF_INIT(4096);
    struct tn_error err = {0};

    assert_non_null(arrow);
    *arrow = '\0';
    const char *expected = arrow + 4;
    int failed = tn_reference_parse(line, &r, &err);
    if (*expected == '!') {
        if (!failed || !strstr(err.text, expected + 2))
            fail_msg("line %d: '%s': expected an error about '%s', got '%s'", number, line,
                     expected + 2, failed ? err.text : "success");
        return;
    }
    if (failed)
        fail_msg("line %d: %s", number, err.text);
    tn_buf_printf(&got, "%s|%s|%s|%s ", dash(r.host), r.path, dash(r.tag), dash(r.digest));
    tn_reference_put_full(&r, &got);
    assert_string_equal(tn_buf_str(&got), expected);
    tn_buf_reset(&got);
    tn_reference_put(&r, &got);
    assert_string_equal(tn_buf_str(&got), line);
}

static void test_table(void **state)
{
    tn_autofile FILE *f = fopen(REFERENCE_TABLE, "re");
    char line[4096];
    int number = 0, checked = 0;

    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        number++;
        line[strcspn(line, "\n")] = '\0';
        if (!*line || *line == '#')
            continue;
        check_line(line, number);
        checked++;
    }
    assert_true(checked > 30);
}

static void test_lengths(void **state)
{
    char name[400];

    memset(name, 'a', sizeof name);
    name[255] = '\0';
    tn_autoreference struct tn_reference r = {0};
    assert_int_equal(tn_reference_parse(name, &r, NULL), 0);
    tn_reference_done(&r);
    name[255] = 'a';
    name[256] = '\0';
    assert_int_equal(tn_reference_parse(name, &r, NULL), -1);
    assert_int_equal(tn_reference_parse("", &r, NULL), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_table),
                                       cmocka_unit_test(test_lengths)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
