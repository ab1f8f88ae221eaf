#include "base/json.h"
#include "event/mask.h"
#include "helpers.h"

static struct tn_mask *mask_of(const char *const *values, size_t count)
{
    struct tn_mask *m = tn_mask_new();
    struct tn_error err = {0};

    for (size_t i = 0; i < count; i++) {
        struct tn_secret secret = {.name = "S", .value = values[i]};
        if (tn_mask_update(m, &secret, 1, &err))
            fail_msg("%s", err.text);
    }
    return m;
}

static void check_event(const struct tn_mask *m, const char *in, const char *expected)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(1 << 20);
    struct tn_error err = {0};
    struct tn_json *tree;

    if (tn_mask_event(m, in, strlen(in), &out, &err))
        fail_msg("%s: %s", in, err.text);
    assert_string_equal(tn_buf_str(&out), expected);
    assert_int_equal(tn_json_parse(out.data, out.len, &tree, NULL), 0);
    tn_json_free(tree);
}

static void check_text(const struct tn_mask *m, const char *in, const char *expected)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(1 << 20);

    assert_int_equal(tn_mask_text(m, in, strlen(in), &out), 0);
    assert_string_equal(tn_buf_str(&out), expected);
}

#define HIDDEN TN_SECRET_HIDDEN

static void test_everywhere_in_an_event(void **state)
{
    static const char *const values[] = {"hunter2", "s3cr3t"};
    struct tn_mask *m = mask_of(values, 2);

    check_event(m, "{\"args\":{\"command\":\"echo hunter2 s3cr3t\"}}",
                "{\"args\":{\"command\":\"echo " HIDDEN " " HIDDEN "\"}}");
    check_event(m, "{\"args\":{\"list\":[\"a\",[\"hunter2\",{\"k\":[\"xs3cr3tx\",1]}]]}}",
                "{\"args\":{\"list\":[\"a\",[\"" HIDDEN "\",{\"k\":[\"x" HIDDEN "x\",1]}]]}}");
    check_event(m, "{\"message\":\"Running command: hunter2\",\"content\":\"hunter2\"}",
                "{\"message\":\"Running command: " HIDDEN "\",\"content\":\"" HIDDEN "\"}");
    check_event(m, "{\"tool_call_metadata\":{\"model_response\":{\"text\":\"hunter2\"}}}",
                "{\"tool_call_metadata\":{\"model_response\":{\"text\":\"" HIDDEN "\"}}}");
    check_event(m, "{\"args\":{\"n\":12,\"t\":true,\"z\":null,\"f\":1.5e3}}",
                "{\"args\":{\"n\":12,\"t\":true,\"z\":null,\"f\":1.5e3}}");
    tn_mask_free(m);
}

static void test_what_says_what_an_event_is(void **state)
{
    static const char *const values[] = {"agent", "2026", "command", "metadata", "exit_code"};
    struct tn_mask *m = mask_of(values, 5);

    check_event(m,
                "{\"id\":2026,\"timestamp\":\"2026-01-01\",\"source\":\"agent\","
                "\"action\":\"agent\",\"observation\":\"agent\",\"cause\":1,"
                "\"args\":{\"command\":\"agent\",\"action\":\"agent\"},"
                "\"extras\":{\"metadata\":{\"exit_code\":0,\"x\":{\"exit_code\":\"agent\"}}}}",
                "{\"id\":2026,\"timestamp\":\"2026-01-01\",\"source\":\"agent\","
                "\"action\":\"agent\",\"observation\":\"agent\",\"cause\":1,"
                "\"args\":{\"command\":\"" HIDDEN "\",\"action\":\"" HIDDEN "\"},"
                "\"extras\":{\"metadata\":{\"exit_code\":0,\"x\":{\"" HIDDEN "\":\"" HIDDEN
                "\"}}}}");
    tn_mask_free(m);
}

/* An object or list in the place of a protected value is none. */
static void test_protection_is_for_plain_values(void **state)
{
    static const char *const values[] = {"hunter2"};
    struct tn_mask *m = mask_of(values, 1);

    check_event(
        m, "{\"source\":[\"hunter2\"],\"cause\":{\"a\":\"hunter2\"},\"action\":\"hunter2\"}",
        "{\"source\":[\"" HIDDEN "\"],\"cause\":{\"a\":\"" HIDDEN "\"},\"action\":\"hunter2\"}");
    tn_mask_free(m);
}

static void test_free_member_names(void **state)
{
    static const char *const values[] = {"hunter2"};
    struct tn_mask *m = mask_of(values, 1);

    check_event(m, "{\"args\":{\"arguments\":{\"hunter2\":1,\"b\":\"hunter2\"}}}",
                "{\"args\":{\"arguments\":{\"" HIDDEN "\":1,\"b\":\"" HIDDEN "\"}}}");
    tn_mask_free(m);
}

static void test_escapes(void **state)
{
    static const char *const values[] = {"nabc", "a\"b\\c\nd", "p\xc3\xa4ss"};
    struct tn_mask *m = mask_of(values, 3);

    /* the n of an escape is no n */
    check_event(m, "{\"c\":\"\\nabc nabc\"}", "{\"c\":\"\\nabc " HIDDEN "\"}");
    check_event(m, "{\"c\":\"x\\\"a\\\"b\\\\c\\nd\"}", "{\"c\":\"x\\\"" HIDDEN "\"}");
    /* other spellings of the same text */
    check_event(m, "{\"c\":\"p\\u00e4ss \\u006eabc\"}", "{\"c\":\"" HIDDEN " " HIDDEN "\"}");
    /* a program printed it as JSON, in a URL, on a raw terminal */
    check_text(m, "{\"k\": \"a\\\"b\\\\c\\nd\"}", "{\"k\": \"" HIDDEN "\"}");
    check_text(m, "http://x/?q=a%22b%5Cc%0Ad&p%C3%A4ss", "http://x/?q=" HIDDEN "&" HIDDEN);
    check_text(m, "a\"b\\c\r\nd", HIDDEN);
    tn_mask_free(m);
}

static void test_bytes_that_are_no_text(void **state)
{
    static const char *const values[] = {"key\xff\xfe!"};
    struct tn_mask *m = mask_of(values, 1);

    check_event(m, "{\"c\":\"key\xef\xbf\xbd\xef\xbf\xbd!\"}", "{\"c\":\"" HIDDEN "\"}");
    check_text(m, "key\xff\xfe!", HIDDEN);
    tn_mask_free(m);
}

static void test_overlaps(void **state)
{
    static const char *const values[] = {"abcd", "cdef", "bcdefgh", "abcdefgh-and-much-more"};
    struct tn_mask *m = mask_of(values, 4);

    check_text(m, "abcdef", HIDDEN);
    check_text(m, "abcdabcd", HIDDEN HIDDEN);
    check_text(m, "xabcdefghx", "x" HIDDEN "x");
    check_text(m, "abcdefgh-and-much", HIDDEN "-and-much");
    check_text(m, "abcdefgh-and-much-more!", HIDDEN "!");
    check_text(m, "abc cde", "abc cde");
    tn_mask_free(m);
}

/* A long secret that is in progress when a short one ends inside must not be forgotten. */
static void test_short_inside_long(void **state)
{
    static const char *const values[] = {"0123", "123--4567--end"};
    static const char *const inner[] = {"0123", "4567", "123--4567--end"};
    struct tn_mask *m = mask_of(values, 2);

    check_text(m, "0123--4567--end.", HIDDEN ".");
    tn_mask_free(m);
    m = mask_of(inner, 3);
    check_text(m, "0123--4567--end.", HIDDEN ".");
    check_text(m, "0123--4567--not.", HIDDEN "--" HIDDEN "--not.");
    tn_mask_free(m);
}

static void test_short_and_empty_values(void **state)
{
    static const char *const values[] = {"", "   \n", "abc", " abc\n", "  long enough \n"};
    struct tn_mask *m = mask_of(values, 5);

    check_text(m, "abc    long enough\n", "abc    " HIDDEN "\n");
    tn_mask_free(m);
    m = mask_of(values, 4);
    assert_true(tn_mask_empty(m));
    check_event(m, "{\"c\":\"abc\"}", "{\"c\":\"abc\"}");
    tn_mask_free(m);
}

static void test_set_and_update(void **state)
{
    struct tn_mask *m = tn_mask_new();
    struct tn_secret one = {"TOKEN", "first-value"}, two = {"TOKEN", "second-value"},
                     other = {"OTHER", "other-value"};

    assert_int_equal(tn_mask_set(m, &other, 1, NULL), 0);
    assert_int_equal(tn_mask_update(m, &one, 1, NULL), 0);
    assert_int_equal(tn_mask_update(m, &two, 1, NULL), 0);
    check_text(m, "first-value second-value other-value", HIDDEN " " HIDDEN " " HIDDEN);
    assert_int_equal(tn_mask_set(m, &two, 1, NULL), 0);
    check_text(m, "first-value second-value other-value", "first-value " HIDDEN " other-value");
    assert_int_equal(tn_mask_set(m, NULL, 0, NULL), 0);
    check_text(m, "second-value", "second-value");
    tn_mask_free(m);
}

static void test_too_many_secrets_change_nothing(void **state)
{
    struct tn_mask *m = tn_mask_new();
    struct tn_error err = {0};
    tn_autofree char *huge = tn_malloc(TN_SECRET_BYTES + 1);
    struct tn_secret small = {"SMALL", "small-value"}, large = {"LARGE", huge};

    memset(huge, 'x', TN_SECRET_BYTES);
    huge[TN_SECRET_BYTES] = '\0';
    assert_int_equal(tn_mask_set(m, &small, 1, &err), 0);
    assert_int_equal(tn_mask_update(m, &large, 1, &err), -1);
    assert_int_equal(err.code, TN_E_TOO_LARGE);
    assert_null(strstr(err.text, "xxxx"));
    check_text(m, "small-value", HIDDEN);
    tn_mask_free(m);
}

static void test_no_json(void **state)
{
    static const char *const values[] = {"hunter2"};
    static const char *const wrong[] = {"{\"c\":\"hunter2", "{\"c\":\"a\\",
                                        "{\"c\":[\"hunter2\"}]}}", "{\"c\":\"\\x\"}", "{"};
    struct tn_mask *m = mask_of(values, 1);

    for (size_t i = 0; i < TN_COUNT(wrong); i++) {
        tn_autobuf struct tn_buf out = TN_BUF_INIT(1 << 20);
        assert_int_equal(tn_mask_event(m, wrong[i], strlen(wrong[i]), &out, NULL), -1);
    }
    tn_mask_free(m);
}

/* Every step of a simple search through this text would be a long one. */
static void test_hostile_text(void **state)
{
    size_t word = 100000, text = 4000000;
    tn_autofree char *value = tn_malloc(word + 1), *content = tn_malloc(text + 1);
    struct tn_secret secret = {"S", value};
    struct tn_mask *m = tn_mask_new();
    tn_autobuf struct tn_buf out = TN_BUF_INIT(text + 1);

    memset(value, 'a', word);
    value[word - 1] = 'b';
    value[word] = '\0';
    memset(content, 'a', text);
    assert_int_equal(tn_mask_set(m, &secret, 1, NULL), 0);
    assert_int_equal(tn_mask_text(m, content, text, &out), 0);
    assert_int_equal(out.len, text);
    tn_mask_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everywhere_in_an_event),
        cmocka_unit_test(test_what_says_what_an_event_is),
        cmocka_unit_test(test_protection_is_for_plain_values),
        cmocka_unit_test(test_free_member_names),
        cmocka_unit_test(test_escapes),
        cmocka_unit_test(test_bytes_that_are_no_text),
        cmocka_unit_test(test_overlaps),
        cmocka_unit_test(test_short_inside_long),
        cmocka_unit_test(test_short_and_empty_values),
        cmocka_unit_test(test_set_and_update),
        cmocka_unit_test(test_too_many_secrets_change_nothing),
        cmocka_unit_test(test_no_json),
        cmocka_unit_test(test_hostile_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
