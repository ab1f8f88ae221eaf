#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/log.h"

static int ends[2];

static int open_log(void **state)
{
    return pipe2(ends, O_CLOEXEC | O_NONBLOCK);
}

static int close_log(void **state)
{
    tn_log_done();
    close(ends[0]);
    close(ends[1]);
    return 0;
}

/* What was logged since the last call, without the time stamp; one line. */
static char *logged(void)
{
    static char line[70000];
    ssize_t n = read(ends[0], line, sizeof line - 1);
    assert_true(n > 0);
    line[n] = '\0';
    assert_int_equal(line[n - 1], '\n');
    assert_null(memchr(line, '\n', (size_t)n - 1));
    line[n - 1] = '\0';
    return line[0] == '{' ? line : line + strlen("2025-01-01T00:00:00.000Z ");
}

static void assert_quiet(void)
{
    char byte;
    assert_int_equal(read(ends[0], &byte, 1), -1);
}

static struct tn_json *logged_json(void)
{
    struct tn_json *tree;
    struct tn_error err;
    const char *line = logged();
    if (tn_json_parse(line, strlen(line), &tree, &err) < 0)
        fail_msg("%s in %s", err.text, line);
    return tree;
}

static void test_text(void **state)
{
    tn_log_init(ends[1], TN_LOG_INFO, false);
    tn_log(TN_LOG_INFO, "started");
    assert_string_equal(logged(), "info  started");
    tn_log(TN_LOG_WARN, "two words", tn_log_str("path", "/a b"), tn_log_int("n", -5),
           tn_log_double("t", 1.5), tn_log_bool("ok", true), tn_log_str("none", NULL),
           tn_log_str("empty", ""), tn_log_str("quote", "a\"b"), tn_log_str("plain", "x"));
    assert_string_equal(logged(), "warn  two words path=\"/a b\" n=-5 t=1.5 ok=true none=(none) "
                                  "empty=\"\" quote=\"a\\\"b\" plain=x");
}

static void test_text_is_one_line(void **state)
{
    tn_log_init(ends[1], TN_LOG_INFO, false);
    tn_log(TN_LOG_ERROR, "a\nb\r\t\x1b[31m\x7f\\ \xc2\x9b \xe2\x80\xa8 \xff \xc3\xa9",
           tn_log_str("v", "x\ny z"));
    assert_string_equal(logged(),
                        "error a\\nb\\r\\t\\x1b[31m\\x7f\\\\ \\xc2\\x9b \\u2028 \\xff \xc3\xa9 "
                        "v=\"x\\ny z\"");
}

static void test_time_stamp(void **state)
{
    int year, month, day, hour, minute, second, milli;
    tn_log_init(ends[1], TN_LOG_INFO, false);
    tn_log(TN_LOG_INFO, "x");
    char *line = logged() - strlen("2025-01-01T00:00:00.000Z ");
    assert_int_equal(sscanf(line, "%4d-%2d-%2dT%2d:%2d:%2d.%3dZ ", &year, &month, &day, &hour,
                            &minute, &second, &milli),
                     7);
    assert_in_range(year, 2020, 2200);
}

static void test_json(void **state)
{
    tn_log_init(ends[1], TN_LOG_DEBUG, true);
    tn_log(TN_LOG_DEBUG, "a \"b\"\n\x1b\xff", tn_log_str("s", "x\ny"), tn_log_int("i", 7),
           tn_log_double("d", 2.0), tn_log_double("nan", NAN), tn_log_bool("f", false));
    tn_autojson struct tn_json *line = logged_json();
    assert_string_equal(tn_json_get_str(line, "level", ""), "debug");
    assert_string_equal(tn_json_get_str(line, "message", ""), "a \"b\"\n\x1b\xef\xbf\xbd");
    assert_string_equal(tn_json_get_str(line, "s", ""), "x\ny");
    assert_int_equal(tn_json_int(tn_json_get(line, "i"), 0), 7);
    assert_true(tn_json_double(tn_json_get(line, "d"), 0) == 2.0);
    assert_string_equal(tn_json_get_str(line, "nan", ""), "nan");
    assert_false(tn_json_bool(tn_json_get(line, "f"), true));
    assert_int_equal(strlen(tn_json_get_str(line, "timestamp", "")), 24);
}

static int evaluated;

static const char *evaluate(void)
{
    evaluated++;
    return "x";
}

static void test_levels(void **state)
{
    tn_log_init(ends[1], TN_LOG_WARN, false);
    tn_log(TN_LOG_INFO, "no", tn_log_str("k", evaluate()));
    tn_log(TN_LOG_DEBUG, "no");
    assert_quiet();
    assert_int_equal(evaluated, 0);
    assert_false(tn_log_enabled(TN_LOG_INFO));
    tn_log(TN_LOG_ERROR, "yes", tn_log_str("k", evaluate()));
    assert_string_equal(logged(), "error yes k=x");
    assert_int_equal(evaluated, 1);
}

static void test_errno_is_kept(void **state)
{
    tn_log_init(ends[1], TN_LOG_INFO, false);
    errno = EXDEV;
    tn_log(TN_LOG_INFO, "x");
    assert_int_equal(errno, EXDEV);
    logged();
}

static void test_secrets_are_hidden(void **state)
{
    tn_log_init(ends[1], TN_LOG_INFO, false);
    assert_int_equal(tn_log_secret("s3cret-token"), 0);
    assert_int_equal(tn_log_secret("with \"quote\"\n"), 0);
    assert_int_equal(tn_log_secret("123456"), 0);
    assert_int_equal(tn_log_secret("abc"), 0); /* too short to hide */
    assert_int_equal(tn_log_secret(""), 0);
    tn_log(TN_LOG_INFO, "key s3cret-token and s3cret-tokens3cret-token.",
           tn_log_str("k", "s3cret-token"), tn_log_int("pin", 91234567), tn_log_int("n", 12345),
           tn_log_str("q", "with \"quote\"\n"),
           tn_log_str("json", "{\"v\":\"with \\\"quote\\\"\\n\"}"),
           tn_log_str("s", "abc s3cret-toke"));
    assert_string_equal(
        logged(),
        "info  key ******** and ****************. k=******** pin=9********7 n=12345 q=******** "
        "json=\"{\\\"v\\\":\\\"********\\\"}\" s=\"abc s3cret-toke\"");
    tn_log_init(ends[1], TN_LOG_INFO, true);
    tn_log(TN_LOG_INFO, "with \"quote\"\n", tn_log_int("pin", 123456));
    tn_autojson struct tn_json *line = logged_json();
    assert_string_equal(tn_json_get_str(line, "message", ""), "********");
    assert_string_equal(tn_json_get_str(line, "pin", ""), "********");
}

static void test_secrets_that_overlap(void **state)
{
    tn_log_init(ends[1], TN_LOG_INFO, false);
    tn_log_secret("abcdef");
    tn_log_secret("defghi");
    tn_log_secret("abcd");
    tn_log_secret("aaaa");
    tn_log(TN_LOG_INFO, "-abcdefghi-abcd-aaaaaa-");
    assert_string_equal(logged(), "info  -********-********-********-");
}

static void test_long_lines_are_cut(void **state)
{
    static const bool kinds[] = {false, true};
    char longest[20000];
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    for (size_t i = 0; i < TN_COUNT(kinds); i++) {
        tn_log_init(ends[1], TN_LOG_INFO, kinds[i]);
        tn_log(TN_LOG_INFO, longest, tn_log_str("a", longest), tn_log_str("b", "end"));
        const char *line = logged();
        assert_true(strlen(line) < 4096);
        assert_non_null(strstr(line, "xxx..."));
        assert_non_null(strstr(line, "end"));
    }
    /* Each byte becomes six: the line stays valid JSON. */
    memset(longest, 1, sizeof longest - 1);
    tn_log(TN_LOG_INFO, longest, tn_log_str("a", longest));
    tn_autojson struct tn_json *line = logged_json();
    assert_true(strlen(tn_json_get_str(line, "message", "")) > 200);
    /* and a character is not cut in half */
    for (size_t i = 0; i + 3 < sizeof longest; i += 3)
        memcpy(longest + i, "\xe2\x98\x83", 3);
    tn_log(TN_LOG_INFO, longest);
    tn_autojson struct tn_json *snow = logged_json();
    assert_null(strstr(tn_json_get_str(snow, "message", "\xef\xbf\xbd"), "\xef\xbf\xbd"));
}

static void test_secret_at_the_cut(void **state)
{
    char text[6000];
    tn_log_init(ends[1], TN_LOG_INFO, false);
    tn_log_secret("TOPSECRETVALUE");
    for (size_t at = 4080; at < 4110; at++) {
        memset(text, '.', sizeof text);
        memcpy(text + at, "TOPSECRETVALUE", 14);
        text[sizeof text - 1] = '\0';
        tn_log(TN_LOG_INFO, text);
        assert_null(strstr(logged(), "TOP"));
    }
}

/* Nobody reads: the program must go on, and say later what is missing. */
static void test_full_pipe_loses_lines_not_time(void **state)
{
    char block[4096];
    memset(block, '#', sizeof block);
    tn_log_init(ends[1], TN_LOG_INFO, false);
    while (write(ends[1], block, sizeof block) > 0)
        ;
    int64_t before = tn_now();
    for (int i = 0; i < 50; i++)
        tn_log(TN_LOG_INFO, "lost");
    assert_true(tn_now() - before < 5 * TN_SECOND);
    while (read(ends[0], block, sizeof block) > 0)
        ;
    tn_log(TN_LOG_INFO, "found");
    assert_string_equal(logged(), "info  found lost_lines=50");
    tn_log(TN_LOG_INFO, "more");
    assert_string_equal(logged(), "info  more");
}

static void test_closed_pipe_does_not_kill(void **state)
{
    int gone[2];
    assert_int_equal(pipe2(gone, O_CLOEXEC), 0);
    close(gone[0]);
    tn_log_init(gone[1], TN_LOG_INFO, false);
    tn_log(TN_LOG_INFO, "into the void");
    close(gone[1]);
}

#define THREADS 4
#define LINES 300

static void *chatter(void *ctx)
{
    for (int i = 0; i < LINES; i++)
        tn_log(TN_LOG_INFO, "a line that is long enough to be cut in pieces if anything is",
               tn_log_str("text", "\"\n x"), tn_log_int("line", i));
    return NULL;
}

static void test_lines_of_threads_do_not_mix(void **state)
{
    char path[] = "/tmp/tn-log-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    unlink(path);
    tn_log_init(fd, TN_LOG_INFO, true);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, chatter, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    tn_autobuf struct tn_buf text = TN_BUF_INIT(1 << 22);
    lseek(fd, 0, SEEK_SET);
    assert_int_equal(tn_fs_read_fd(fd, &text, NULL), 0);
    int lines = 0;
    for (char *p = text.data, *end; (end = strchr(p, '\n')); p = end + 1, lines++) {
        struct tn_json *tree;
        assert_int_equal(tn_json_parse(p, (size_t)(end - p), &tree, NULL), 0);
        tn_json_free(tree);
    }
    assert_int_equal(lines, THREADS * LINES);
    close(fd);
}

static void test_json_wanted(void **state)
{
    assert_true(tn_log_json_wanted("1"));
    assert_true(tn_log_json_wanted("true"));
    assert_true(tn_log_json_wanted("True"));
    assert_false(tn_log_json_wanted("0"));
    assert_false(tn_log_json_wanted(""));
    assert_false(tn_log_json_wanted(NULL));
}

#define LOG_TEST(name) cmocka_unit_test_setup_teardown(name, open_log, close_log)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LOG_TEST(test_text),
        LOG_TEST(test_text_is_one_line),
        LOG_TEST(test_time_stamp),
        LOG_TEST(test_json),
        LOG_TEST(test_levels),
        LOG_TEST(test_errno_is_kept),
        LOG_TEST(test_secrets_are_hidden),
        LOG_TEST(test_secrets_that_overlap),
        LOG_TEST(test_long_lines_are_cut),
        LOG_TEST(test_secret_at_the_cut),
        LOG_TEST(test_full_pipe_loses_lines_not_time),
        LOG_TEST(test_closed_pipe_does_not_kill),
        LOG_TEST(test_lines_of_threads_do_not_mix),
        cmocka_unit_test(test_json_wanted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
