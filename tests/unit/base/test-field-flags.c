/* Lists and maps on the command line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/field.h"

struct thing {
    struct tn_json *env, *labels;
    struct tn_int_list ports;
    struct tn_str_list plugins, volumes;
};

#define THING struct thing
static const struct tn_field rows[] = {
    TN_JSON("env", THING, env, .flags = TN_FIELD_MAP | TN_FIELD_ENVIRON | TN_FIELD_SECRET,
            .flag = "--env", .letter = 'e', .help = "variables"),
    TN_JSON("labels", THING, labels, .flags = TN_FIELD_MAP, .flag = "--label", .help = "labels"),
    TN_INTS("ports", THING, ports, .flag = "--port", .letter = 'p', .help = "ports"),
    TN_STRINGS("plugins", THING, plugins, .flags = TN_FIELD_COMMAS, .flag = "--plugins",
               .help = "plugins"),
    TN_STRINGS("volumes", THING, volumes, .flag = "--volume", .help = "volumes"),
};
static const struct tn_fields fields = TN_FIELDS(rows);

/* Words in argv; -1 with err. */
static int read_words(struct thing *t, struct tn_error *err, const char *const *words)
{
    char *argv[16];
    int argc = 0;

    for (; words[argc]; argc++)
        argv[argc] = (char *)(uintptr_t)words[argc];
    return tn_fields_from_argv(&fields, t, argc, argv, err);
}
#define READ(t, err, ...) read_words(t, err, (const char *const[]){__VA_ARGS__, NULL})

static void assert_written(const struct thing *t, const char *expected)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(1 << 16);
    struct tn_jw w = tn_jw(&out);

    tn_jw_object(&w);
    tn_fields_to_json(&fields, t, &w);
    tn_jw_object_end(&w);
    assert_string_equal(tn_buf_str(&out), expected);
}

static void test_pairs(void **state)
{
    struct thing t;
    struct tn_error err = {0};

    tn_fields_defaults(&fields, &t);
    setenv("TN_TEST_VALUE", "from $HOME `here`", 1);
    if (READ(&t, &err, "--env", "A=1", "-e", "B=x=y \"z\"", "--env=C=", "-e", "A=2", "-e",
             "TN_TEST_VALUE", "--label", "k=v") != 0)
        fail_msg("%s", err.text);
    assert_written(&t, "{\"env\":{\"B\":\"x=y \\\"z\\\"\",\"C\":\"\",\"A\":\"2\","
                       "\"TN_TEST_VALUE\":\"from $HOME `here`\"},\"labels\":{\"k\":\"v\"},"
                       "\"ports\":[],\"plugins\":[],\"volumes\":[]}");
    /* The first mention replaces what an earlier source said; an object is taken whole. */
    assert_int_equal(READ(&t, &err, "--env", "Z=26", "--label", "{\"a\": \"b\"}"), 0);
    assert_written(&t, "{\"env\":{\"Z\":\"26\"},\"labels\":{\"a\":\"b\"},"
                       "\"ports\":[],\"plugins\":[],\"volumes\":[]}");
    tn_fields_done(&fields, &t);
}

static void test_lists(void **state)
{
    struct thing t;
    struct tn_error err = {0};

    tn_fields_defaults(&fields, &t);
    if (READ(&t, &err, "-p", "80", "--port", "443,-1", "--plugins", "a,b", "--plugins=c",
             "--volume", "/a:/b:ro,z", "--volume", "x:/y") != 0)
        fail_msg("%s", err.text);
    assert_written(&t, "{\"env\":null,\"labels\":null,\"ports\":[80,443,-1],"
                       "\"plugins\":[\"a\",\"b\",\"c\"],\"volumes\":[\"/a:/b:ro,z\",\"x:/y\"]}");
    assert_int_equal(READ(&t, &err, "--plugins", ""), 0);
    assert_int_equal(t.plugins.count, 0); /* none, where others are the default */
    assert_int_equal(READ(&t, &err, "-p", "[1, 2]", "-p", "3"), 0);
    assert_int_equal(t.ports.count, 1); /* a whole list is said once */
    assert_int_equal(tn_field_from_text(&rows[2], &t, "7,8", &err), 0);
    assert_int_equal(t.ports.count, 2);
    assert_int_equal(t.ports.items[1], 8);
    assert_int_equal(tn_field_from_text(&rows[2], &t, "", &err), 0);
    assert_int_equal(t.ports.count, 0);
    tn_fields_done(&fields, &t);
}

static void test_errors(void **state)
{
    static const struct {
        const char *flag, *value, *error;
    } cases[] = {
        {"--env", "=secret", "--env: expected NAME=VALUE, found no name"},
        {"--env", "TN_TEST_UNSET",
         "--env: expected NAME=VALUE or the name of a variable of the environment, but "
         "'TN_TEST_UNSET' is not set"},
        {"--env", "A=\xff", "--env: expected UTF-8, found other bytes"},
        {"--env", "{\"A\": ", "--env: expected an object, found something else"},
        {"--label", "k", "--label: expected NAME=VALUE, found 'k'"},
        {"--label", "{1", "--label: expected an object, found '{1'"},
        {"--port", "x", "--port: expected a list of integers, found 'x'"},
        {"--port", "1,", "--port: expected a list of integers, found '1,'"},
        {"--port", "99999999999999999999",
         "--port: expected a list of integers, found '99999999999999999999'"},
    };

    unsetenv("TN_TEST_UNSET");
    for (size_t i = 0; i < TN_COUNT(cases); i++) {
        struct thing t;
        struct tn_error err = {0};
        tn_fields_defaults(&fields, &t);
        assert_int_equal(READ(&t, &err, cases[i].flag, cases[i].value), -1);
        assert_string_equal(err.text, cases[i].error);
        tn_fields_done(&fields, &t);
    }
}

static void test_help(void **state)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(1 << 16);

    tn_fields_help(&fields, "x", &out);
    assert_non_null(strstr(out.data, "  -e, --env NAME=VALUE"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_help),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
