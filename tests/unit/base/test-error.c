#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/error-hide.h"

static void test_every_code_has_a_row(void **state)
{
    for (int code = TN_OK; code < TN_CODE_COUNT; code++) {
        const struct tn_code_row *row = tn_code_row((enum tn_code)code);
        assert_non_null(row->name);
        assert_in_range(row->http_status, 200, 599);
        assert_in_range(row->exit_code, 0, 125);
        assert_true((code == TN_OK) == (row->exit_code == 0));
    }
    assert_ptr_equal(tn_code_row((enum tn_code)9999), tn_code_row(TN_E_INTERNAL));
}

static void test_fail_fills_and_returns(void **state)
{
    struct tn_error err = {0};
    assert_int_equal(tn_fail(&err, TN_E_CONFLICT, "sandbox %s exists", "web"), -1);
    assert_int_equal(err.code, TN_E_CONFLICT);
    assert_int_equal(err.sys, 0);
    assert_string_equal(err.text, "sandbox web exists");
    assert_int_equal(tn_fail(NULL, TN_E_CONFLICT, "nobody asks"), -1);
}

static void test_errno_decides_the_code(void **state)
{
    static const struct {
        int sys;
        enum tn_code code;
    } rows[] = {
        {ENOENT, TN_E_NOT_FOUND}, {EACCES, TN_E_DENIED},     {EEXIST, TN_E_CONFLICT},
        {ELOOP, TN_E_INVALID},    {ETIMEDOUT, TN_E_TIMEOUT}, {ENOSYS, TN_E_UNSUPPORTED},
        {EPIPE, TN_E_PEER},       {EMFILE, TN_E_BUSY},       {EIO, TN_E_IO},
    };
    for (size_t i = 0; i < TN_COUNT(rows); i++) {
        struct tn_error err = {0};
        assert_int_equal(tn_fail_errno(&err, rows[i].sys, "open"), -1);
        assert_int_equal(err.code, rows[i].code);
        assert_int_equal(err.sys, rows[i].sys);
    }
    struct tn_error err;
    tn_fail_errno(&err, ENOENT, "/etc/%s", "x");
    assert_string_equal(err.text, "/etc/x: No such file or directory");
    assert_int_equal(tn_fail_errno(NULL, EIO, "x"), -1);
}

static void test_context_goes_in_front(void **state)
{
    struct tn_error err;
    tn_fail(&err, TN_E_NOT_FOUND, "image python:3.12 not found");
    assert_int_equal(tn_error_context(&err, "create sandbox %s", "web"), -1);
    tn_error_context(&err, "docker");
    assert_string_equal(err.text, "docker: create sandbox web: image python:3.12 not found");
    assert_int_equal(err.code, TN_E_NOT_FOUND);
    assert_int_equal(tn_error_context(NULL, "x"), -1);
}

static void test_long_texts_are_cut_and_ended(void **state)
{
    char longest[2000];
    struct tn_error err;

    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    tn_fail(&err, TN_E_INVALID, "%s", longest);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
    tn_error_context(&err, "%s", longest);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
    tn_fail_errno(&err, EIO, "%s", longest);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
}

static void test_old_text_may_be_an_argument(void **state)
{
    struct tn_error err;
    tn_fail(&err, TN_E_INVALID, "inner");
    tn_fail(&err, TN_E_IO, "outer: %s", err.text);
    assert_string_equal(err.text, "outer: inner");
    tn_error_context(&err, "again %s", err.text);
    assert_string_equal(err.text, "again outer: inner: outer: inner");
}

static void test_strerror(void **state)
{
    assert_string_equal(tn_strerror(EACCES), "Permission denied");
    assert_string_equal(tn_strerror(123456), "Unknown error");
}

static void test_asprintf(void **state)
{
    tn_autofree char *text = tn_asprintf("%d-%s", 7, "x");
    assert_string_equal(text, "7-x");
}

static char heard[512];

static void hear(const char *instead, const char *text)
{
    snprintf(heard, sizeof heard, "%s <- %s", instead, text);
}

/* Whoever runs a program reads all of it; others what is said instead. */
static void test_hidden(void **state)
{
    struct tn_error err;

    tn_fail(&err, TN_E_DENIED, "/home/me/login ended with 1: no such profile");
    tn_error_hide(&err, "the login does not work");
    assert_string_equal(err.text, "/home/me/login ended with 1: no such profile");
    tn_error_hidden_to(hear);
    tn_error_hide(&err, "the login does not work");
    tn_error_hide(NULL, "nothing");
    tn_error_hidden_to(NULL);
    assert_string_equal(err.text, "the login does not work");
    assert_int_equal(err.code, TN_E_DENIED);
    assert_string_equal(heard,
                        "the login does not work <- /home/me/login ended with 1: no such profile");
}

/* Paths of the service's own directory are told to nobody, in whatever text. */
static void test_hidden_paths(void **state)
{
    assert_null(tn_hide_paths("cannot open /srv/state/x"));
    tn_hide_below("/srv/state");
    tn_error_hidden_to(hear);
    tn_autofree char *told = tn_hide_paths("dial /srv/state/a/hand.sock: gone; \"/srv/state\"");
    assert_string_equal(told, "dial a file of the service: gone; \"a file of the service\"");
    assert_non_null(strstr(heard, "/srv/state/a/hand.sock"));
    assert_null(tn_hide_paths("cannot open /srv/x"));
    assert_null(tn_hide_paths(NULL));
    tn_autofree char *long_text = tn_asprintf("/srv/state/x %*s", 2 << 20, "/srv/state/y");
    tn_autofree char *cut = tn_hide_paths(long_text);
    assert_non_null(cut);
    assert_null(strstr(cut, "/srv"));
    tn_hide_below(NULL);
    tn_error_hidden_to(NULL);
    assert_null(tn_hide_paths("cannot open /srv/state/x"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hidden),
        cmocka_unit_test(test_hidden_paths),
        cmocka_unit_test(test_every_code_has_a_row),
        cmocka_unit_test(test_fail_fills_and_returns),
        cmocka_unit_test(test_errno_decides_the_code),
        cmocka_unit_test(test_context_goes_in_front),
        cmocka_unit_test(test_long_texts_are_cut_and_ended),
        cmocka_unit_test(test_old_text_may_be_an_argument),
        cmocka_unit_test(test_strerror),
        cmocka_unit_test(test_asprintf),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
