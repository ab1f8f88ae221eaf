#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/field.h"
#include "base/nearest.h"

static const char *const colours[] = {"red", "green", "blue", NULL};
enum colour { RED, GREEN, BLUE };

struct limits {
    int64_t memory;
    char *name;
};

struct thing {
    char *title;
    char *note;
    struct tn_text blob;
    bool loud;
    int64_t count;
    double ratio;
    struct tn_opt_int port;
    struct tn_opt_double wait;
    struct tn_str_list plugins;
    struct tn_str_list rest;
    struct tn_int_list ids;
    struct tn_json *extra;
    struct tn_json *map;
    enum colour colour;
    char *key;
    int64_t risk;
    int64_t code;
    struct limits limits;
};

#define LIMITS struct limits
static const struct tn_field limit_rows[] = {
    TN_INT("memory", LIMITS, memory, .fallback = "64", .env = "TN_TEST_MEMORY", .flag = "--memory",
           .min = 1, .max = INFINITY, .help = "megabytes"),
    TN_STRING("name", LIMITS, name, .flags = TN_FIELD_NULLABLE | TN_FIELD_SPARSE, .help = "name"),
};
static const struct tn_fields limits = TN_FIELDS(limit_rows);

#define THING struct thing
static const struct tn_field rows[] = {
    TN_STRING("title", THING, title, .fallback = "untitled", .env = "TN_TEST_TITLE",
              .flag = "--title", .letter = 't', .value = "NAME", .help = "what it is called"),
    TN_STRING("note", THING, note, .flags = TN_FIELD_NULLABLE, .alias = "remark", .flag = "--note",
              .help = "a note"),
    TN_TEXT("blob", THING, blob, .flags = TN_FIELD_NULLABLE, .help = "bytes"),
    TN_BOOL("loud", THING, loud, .fallback = "true", .env = "TN_TEST_LOUD", .flag = "--loud",
            .flags = TN_FIELD_LAX, .help = "with noise"),
    TN_INT("count", THING, count, .fallback = "3", .flag = "--count", .min = -5, .max = 10,
           .help = "how many"),
    TN_DOUBLE("ratio", THING, ratio, .fallback = "0.5", .flag = "--ratio", .help = "how much"),
    TN_OPT_INT("port", THING, port, .flags = TN_FIELD_POSITIONAL | TN_FIELD_REQUIRED,
               .value = "PORT", .env = "TN_TEST_PORT", .min = 1, .max = 65535, .help = "TCP port"),
    TN_OPT_DOUBLE("wait", THING, wait, .flags = TN_FIELD_NULLABLE, .flag = "--wait",
                  .help = "seconds"),
    TN_STRINGS("plugins", THING, plugins, .flags = TN_FIELD_MANY, .flag = "--plugins",
               .env = "TN_TEST_PLUGINS", .help = "what to load"),
    TN_STRINGS("rest", THING, rest, .flags = TN_FIELD_REST, .value = "COMMAND", .help = "to run"),
    TN_INTS("ids", THING, ids, .flags = TN_FIELD_NULLABLE, .flag = "--ids", .help = "numbers"),
    TN_JSON("extra", THING, extra, .flags = TN_FIELD_NULLABLE, .flag = "--extra",
            .help = "anything"),
    TN_JSON("map", THING, map, .flags = TN_FIELD_MAP, .fallback = "{}", .env = "TN_TEST_MAP",
            .help = "an object"),
    TN_WORD("colour", THING, colour, colours, .fallback = "green", .flag = "--colour",
            .help = "of the thing"),
    TN_STRING("key", THING, key, .flags = TN_FIELD_SECRET | TN_FIELD_NULLABLE, .env = "TN_TEST_KEY",
              .fallback = "hush", .flag = "--key", .help = "password"),
    TN_INT("risk", THING, risk, .flags = TN_FIELD_LAX, .fallback = "-1", .min = -1, .max = 2,
           .help = "risk"),
    TN_INT("code", THING, code, .flags = TN_FIELD_TEXT_NUMBER, .fallback = "-1", .help = "code"),
    TN_OBJECT("limits", THING, limits, &limits, .help = "limits"),
};
static const struct tn_fields fields = TN_FIELDS(rows);

static void init(struct thing *t)
{
    memset(t, 0xa5, sizeof *t);
    tn_fields_defaults(&fields, t);
}

static struct tn_json *parse(const char *text)
{
    struct tn_json *tree;
    struct tn_error err;
    if (tn_json_parse(text, strlen(text), &tree, &err) < 0)
        fail_msg("%s: %s", text, err.text);
    return tree;
}

static int from_json(struct thing *t, const char *text, struct tn_error *err)
{
    tn_autojson struct tn_json *json = parse(text);
    return tn_fields_from_json(&fields, t, json, err);
}

static void assert_json(const struct thing *t, bool show, const char *expected)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(1 << 16);
    struct tn_jw w = tn_jw(&out);
    tn_jw_object(&w);
    (show ? tn_fields_show : tn_fields_to_json)(&fields, t, &w);
    tn_jw_object_end(&w);
    assert_string_equal(tn_buf_str(&out), expected);
}

static void test_defaults(void **state)
{
    struct thing t;
    init(&t);
    assert_string_equal(t.title, "untitled");
    assert_null(t.note);
    assert_null(t.blob.data);
    assert_true(t.loud);
    assert_int_equal(t.count, 3);
    assert_true(t.ratio == 0.5);
    assert_false(t.port.set);
    assert_false(t.wait.set);
    assert_null(t.plugins.items);
    assert_null(t.ids.items);
    assert_null(t.extra);
    assert_int_equal(t.colour, GREEN);
    assert_int_equal(t.risk, -1);
    assert_int_equal(t.limits.memory, 64);
    assert_null(t.limits.name);
    assert_json(&t, false,
                "{\"title\":\"untitled\",\"note\":null,\"blob\":null,\"loud\":true,\"count\":3,"
                "\"ratio\":0.5,\"port\":null,\"wait\":null,\"plugins\":[],\"rest\":[],\"ids\":null,"
                "\"extra\":null,\"map\":{},\"colour\":\"green\",\"key\":\"hush\",\"risk\":-1,"
                "\"code\":-1,\"limits\":{\"memory\":64}}");
    tn_fields_done(&fields, &t);
    assert_null(t.title);
    tn_fields_done(&fields, &t); /* twice is fine */
}

static void test_json_round_trip(void **state)
{
    static const char text[] =
        "{\"title\":\"a \\\"b\\\"\",\"note\":\"n\",\"blob\":\"x\\u0000y\",\"loud\":false,"
        "\"count\":-5,\"ratio\":1e+20,\"port\":80,\"wait\":2.5,\"plugins\":[\"a\",\"b\"],"
        "\"rest\":[\"\"],\"ids\":[1,-2,9007199254740993],\"extra\":[null,{\"k\":1}],"
        "\"map\":{\"a\":[1]},\"colour\":\"blue\",\"key\":\"secret\",\"risk\":2,\"code\":7,"
        "\"limits\":{\"memory\":1,\"name\":\"big\"}}";
    struct thing t;
    struct tn_error err;

    init(&t);
    if (from_json(&t, text, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(t.blob.len, 3);
    assert_memory_equal(t.blob.data, "x\0y", 4);
    assert_int_equal(t.plugins.count, 2);
    assert_null(t.plugins.items[2]);
    assert_int_equal(t.ids.count, 3);
    assert_true(t.ids.items[2] == INT64_C(9007199254740993));
    assert_int_equal(t.colour, BLUE);
    assert_json(&t, false, text);
    /* The same again over the old values: nothing leaks, nothing changes. */
    assert_int_equal(from_json(&t, text, &err), 0);
    assert_json(&t, false, text);
    tn_fields_done(&fields, &t);
}

static void test_null_and_unknown_keys(void **state)
{
    struct thing t;
    struct tn_error err;

    init(&t);
    assert_int_equal(from_json(&t, "{\"note\":\"x\",\"wait\":1,\"extra\":5,\"ids\":[1]}", &err), 0);
    assert_int_equal(
        from_json(&t,
                  "{\"title\":null,\"count\":null,\"note\":null,\"wait\":null,\"map\":null,"
                  "\"colour\":null,\"extra\":null,\"ids\":null,\"limits\":null,"
                  "\"nobody\":{\"knows\":1}}",
                  &err),
        0);
    assert_string_equal(t.title, "untitled"); /* not nullable: as if absent */
    assert_int_equal(t.count, 3);
    assert_int_equal(t.colour, GREEN);
    assert_null(t.note);
    assert_null(t.extra);
    assert_null(t.ids.items);
    assert_false(t.wait.set);
    tn_fields_done(&fields, &t);
}

static void test_alias(void **state)
{
    struct thing t;
    struct tn_error err;

    init(&t);
    assert_int_equal(from_json(&t, "{\"remark\":\"old\",\"note\":\"new\"}", &err), 0);
    assert_string_equal(t.note, "old");
    assert_int_equal(from_json(&t, "{\"remark\":null,\"note\":\"new\"}", &err), 0);
    assert_string_equal(t.note, "new");
    assert_int_equal(from_json(&t, "{\"remark\":1}", &err), -1);
    assert_string_equal(err.text, "remark: expected a string or null, found integer");
    tn_fields_done(&fields, &t);
}

static void test_lenient_numbers(void **state)
{
    static const struct {
        const char *json;
        int64_t risk, code;
    } cases[] = {
        {"{\"risk\":1,\"code\":2}", 1, 2},
        {"{\"risk\":3,\"code\":\"2\"}", -1, 2},
        {"{\"risk\":\"high\",\"code\":\" 2.9 \"}", -1, 2},
        {"{\"risk\":\"1\",\"code\":\"\"}", -1, -1},
        {"{\"risk\":{},\"code\":[]}", -1, -1},
        {"{\"risk\":2.0,\"code\":-3.7}", 2, -3},
        {"{\"risk\":1.5,\"code\":\"1e300\"}", -1, -1},
    };
    for (size_t i = 0; i < TN_COUNT(cases); i++) {
        struct thing t;
        struct tn_error err;
        init(&t);
        assert_int_equal(from_json(&t, cases[i].json, &err), 0);
        assert_int_equal(t.risk, cases[i].risk);
        assert_int_equal(t.code, cases[i].code);
        tn_fields_done(&fields, &t);
    }
}

static void test_json_errors(void **state)
{
    static const struct {
        const char *json, *error;
    } cases[] = {
        {"[]", "expected an object, found array"},
        {"{\"title\":5}", "title: expected a string, found integer"},
        {"{\"title\":\"a\\u0000b\"}", "title: expected a string, found one with a NUL byte"},
        {"{\"count\":\"5\"}", "count: expected an integer from -5 to 10, found string"},
        {"{\"count\":2.5}", "count: expected an integer from -5 to 10, found 2.5"},
        {"{\"count\":11}", "count: expected an integer from -5 to 10, found 11"},
        {"{\"ratio\":true}", "ratio: expected a number, found boolean"},
        {"{\"port\":0}", "port: expected an integer from 1 to 65535, found 0"},
        {"{\"wait\":[]}", "wait: expected a number or null, found array"},
        {"{\"plugins\":\"a\"}", "plugins: expected a list of strings, found string"},
        {"{\"plugins\":[\"a\",1]}", "plugins: expected a list of strings, found integer as item 2"},
        {"{\"ids\":[1,1.5]}", "ids: expected a list of integers or null, found number as item 2"},
        {"{\"map\":[]}", "map: expected an object, found array"},
        {"{\"colour\":\"pink\"}", "colour: expected one of red, green, blue, found 'pink'"},
        {"{\"key\":77}", "key: expected a string or null, found something else"},
        {"{\"limits\":1}", "limits: expected an object, found integer"},
        {"{\"limits\":{\"memory\":0}}",
         "limits: memory: expected an integer of at least 1, found 0"},
    };
    for (size_t i = 0; i < TN_COUNT(cases); i++) {
        struct thing t;
        struct tn_error err = {0};
        init(&t);
        assert_int_equal(from_json(&t, cases[i].json, &err), -1);
        assert_string_equal(err.text, cases[i].error);
        assert_int_equal(err.code, TN_E_UNPROCESSABLE);
        assert_int_equal(from_json(&t, cases[i].json, NULL), -1);
        tn_fields_done(&fields, &t);
    }
}

static void test_refuse_unknown(void **state)
{
    static const struct {
        const char *json, *error;
    } cases[] = {
        {"{\"titel\":1}", "unknown key titel; did you mean title?"},
        {"{\"zzzzzzzz\":1}", "unknown key zzzzzzzz"},
        {"{\"limits\":{\"memori\":1}}", "limits: unknown key memori; did you mean memory?"},
    };
    struct tn_error err;
    for (size_t i = 0; i < TN_COUNT(cases); i++) {
        tn_autojson struct tn_json *json = parse(cases[i].json);
        assert_int_equal(tn_fields_refuse_unknown(&fields, json, &err), -1);
        assert_string_equal(err.text, cases[i].error);
    }
    tn_autojson struct tn_json *known = parse("{\"title\":1,\"remark\":2,\"limits\":{\"name\":1}}");
    assert_int_equal(tn_fields_refuse_unknown(&fields, known, &err), 0);
}

static void test_show_masks_secrets(void **state)
{
    static const struct tn_fields just_key = {.rows = &rows[14], .count = 1};
    tn_autobuf struct tn_buf out = TN_BUF_INIT(1 << 10);
    struct tn_jw w = tn_jw(&out);
    struct thing t;

    assert_string_equal(rows[14].name, "key");
    init(&t);
    tn_fields_show(&just_key, &t, &w);
    assert_string_equal(tn_buf_str(&out), "\"key\":\"***\"");
    free(TN_TAKE_PTR(t.key));
    tn_buf_reset(&out);
    w = tn_jw(&out);
    tn_fields_show(&just_key, &t, &w);
    assert_string_equal(tn_buf_str(&out), "\"key\":null");
    tn_fields_done(&fields, &t);
}

static void test_environment(void **state)
{
    struct thing t;
    struct tn_error err;

    setenv("TN_TEST_TITLE", "", 1);
    setenv("TN_TEST_LOUD", "express:*", 1); /* lax: not a yes */
    setenv("TN_TEST_PORT", "8080", 1);
    setenv("TN_TEST_PLUGINS", "a, b,,c ", 1);
    setenv("TN_TEST_MAP", "{'a': None, 'b': [True, 1.5]}", 1);
    setenv("TN_TEST_MEMORY", "128", 1);
    init(&t);
    assert_int_equal(tn_fields_from_env(&fields, &t, &err), 0);
    assert_string_equal(t.title, "untitled"); /* empty counts as unset */
    assert_false(t.loud);
    assert_int_equal(t.port.value, 8080);
    assert_int_equal(t.plugins.count, 3);
    assert_string_equal(t.plugins.items[1], "b");
    assert_string_equal(t.plugins.items[2], "c");
    assert_int_equal(tn_json_count(t.map), 2);
    assert_int_equal(t.limits.memory, 128);

    setenv("TN_TEST_PLUGINS", "['x', \"y,z\"]", 1);
    setenv("TN_TEST_LOUD", "YES", 1);
    assert_int_equal(tn_fields_from_env(&fields, &t, &err), 0);
    assert_int_equal(t.plugins.count, 2);
    assert_string_equal(t.plugins.items[1], "y,z");
    assert_true(t.loud);

    setenv("TN_TEST_PORT", "http", 1);
    assert_int_equal(tn_fields_from_env(&fields, &t, &err), -1);
    assert_string_equal(err.text,
                        "TN_TEST_PORT: expected an integer from 1 to 65535, found 'http'");
    setenv("TN_TEST_PORT", "80", 1);
    setenv("TN_TEST_MAP", "[1]", 1);
    assert_int_equal(tn_fields_from_env(&fields, &t, &err), -1);
    assert_string_equal(err.text, "TN_TEST_MAP: expected an object, found array");
    static const char *const names[] = {"TN_TEST_TITLE",   "TN_TEST_LOUD", "TN_TEST_PORT",
                                        "TN_TEST_PLUGINS", "TN_TEST_MAP",  "TN_TEST_MEMORY"};
    for (size_t i = 0; i < TN_COUNT(names); i++)
        unsetenv(names[i]);
    tn_fields_done(&fields, &t);
}

/* Splits at spaces; an underscore alone is an empty argument. */
static int from_words(struct thing *t, const char *line, struct tn_error *err)
{
    tn_autofree char *copy = tn_strdup(line);
    char *argv[32], *save = NULL;
    int argc = 0;
    for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        if (strcmp(word, "_") == 0)
            *word = '\0';
        argv[argc++] = word;
    }
    return tn_fields_from_argv(&fields, t, argc, argv, err);
}

static void test_arguments(void **state)
{
    struct thing t;
    struct tn_error err = {0};

    init(&t);
    if (from_words(&t,
                   "--title=a=b --no-loud --count -4 --plugins x y --ratio 2 8080 --memory 5 "
                   "--colour red --wait=.5 --ids [1,2] --extra {\"a\":1} --plugins z --note _",
                   &err) != 0)
        fail_msg("%s", err.text);
    assert_string_equal(t.title, "a=b");
    assert_false(t.loud);
    assert_int_equal(t.count, -4);
    assert_true(t.ratio == 2);
    assert_int_equal(t.port.value, 8080);
    assert_int_equal(t.limits.memory, 5);
    assert_int_equal(t.colour, RED);
    assert_true(t.wait.value == 0.5);
    assert_int_equal(t.ids.items[1], 2);
    assert_string_equal(t.note, "");
    /* Two mentions of a list add up ... */
    assert_int_equal(t.plugins.count, 3);
    assert_string_equal(t.plugins.items[2], "z");
    /* ... but replace what an earlier source said. */
    assert_int_equal(from_words(&t, "--plugins only", &err), 0);
    assert_int_equal(t.plugins.count, 1);
    tn_fields_done(&fields, &t);
}

static void test_arguments_more(void **state)
{
    struct thing t;
    struct tn_error err = {0};

    init(&t);
    assert_int_equal(from_words(&t, "-t short --loud=off 80 ls -l --color -- x", &err), 0);
    assert_string_equal(t.title, "short");
    assert_false(t.loud);
    assert_int_equal(t.rest.count, 5);
    assert_string_equal(t.rest.items[1], "-l");
    assert_string_equal(t.rest.items[3], "--");
    tn_fields_done(&fields, &t);

    init(&t);
    assert_int_equal(from_words(&t, "80 -- --title", &err), 0);
    assert_string_equal(t.rest.items[0], "--title");
    assert_int_equal(from_words(&t, "--count 1 --help --nonsense", &err), 1);
    assert_int_equal(from_words(&t, "-h", &err), 1);
    assert_int_equal(from_words(&t, "80 env -h", &err), 0); /* -h belongs to the rest */
    assert_int_equal(from_words(&t, "", &err), 0);
    tn_fields_done(&fields, &t);
}

static void test_argument_errors(void **state)
{
    static const struct {
        const char *line, *error;
    } cases[] = {
        {"--titel x", "unknown flag --titel; did you mean --title?"},
        {"--plugin=x", "unknown flag --plugin; did you mean --plugins?"},
        {"--entirely-else", "unknown flag --entirely-else"},
        {"-x", "unknown flag -x"},
        {"-tx", "unknown flag -tx (a letter's value stands apart)"},
        {"--title", "--title needs a value"},
        {"--title --loud", "--title needs a value (with '=' if it starts with a dash)"},
        {"--no-title", "unknown flag --no-title; did you mean --title?"},
        {"--no-loud=1", "--no-loud takes no value"},
        {"--loud=maybe", "--loud: expected true or false, found 'maybe'"},
        {"--count=", "--count: expected an integer from -5 to 10, found ''"},
        {"--count 1.0", "--count: expected an integer from -5 to 10, found '1.0'"},
        {"--count 99999999999999999999",
         "--count: expected an integer from -5 to 10, found '99999999999999999999'"},
        {"--ratio nan", "--ratio: expected a number, found 'nan'"},
        {"--key=a --ids x", "--ids: expected a list of integers or null, found 'x'"},
        {"99999", "PORT: expected an integer from 1 to 65535, found 99999"},
        {"--memory=0", "--memory: expected an integer of at least 1, found 0"},
        {"--colour=mauve", "--colour: expected one of red, green, blue, found 'mauve'"},
    };
    for (size_t i = 0; i < TN_COUNT(cases); i++) {
        struct thing t;
        struct tn_error err = {0};
        init(&t);
        assert_int_equal(from_words(&t, cases[i].line, &err), -1);
        assert_string_equal(err.text, cases[i].error);
        tn_fields_done(&fields, &t);
    }
}

static void test_unexpected_positional(void **state)
{
    static const struct tn_fields no_positional = {.rows = rows, .count = 1};
    char *argv[] = {(char[]){"stray"}};
    struct thing t;
    struct tn_error err;

    init(&t);
    assert_int_equal(tn_fields_from_argv(&no_positional, &t, 1, argv, &err), -1);
    assert_string_equal(err.text, "unexpected argument 'stray'");
    tn_fields_done(&fields, &t);
}

static void test_required(void **state)
{
    struct thing t;
    struct tn_error err;

    init(&t);
    assert_int_equal(tn_fields_check(&fields, &t, &err), -1);
    assert_string_equal(err.text, "PORT is required (or set TN_TEST_PORT)");
    assert_int_equal(err.code, TN_E_UNPROCESSABLE);
    assert_int_equal(from_words(&t, "80", &err), 0);
    assert_int_equal(tn_fields_check(&fields, &t, &err), 0);
    tn_fields_done(&fields, &t);
}

static void test_toml(void **state)
{
    static const char text[] = "title = 'from toml'\n"
                               "ids = [1, 2]\n"
                               "map = { a = 1979-05-27, b = [1.5, true] }\n"
                               "[limits]\n"
                               "memory = 9\n";
    struct thing t;
    struct tn_error err = {0};
    tn_autotoml struct tn_toml *good = tn_toml_parse(text, strlen(text), &err);

    init(&t);
    if (!good || tn_fields_from_toml(&fields, &t, good, &err) < 0)
        fail_msg("%s", err.text);
    assert_string_equal(t.title, "from toml");
    assert_int_equal(t.ids.count, 2);
    assert_int_equal(t.limits.memory, 9);
    assert_string_equal(tn_json_get_str(t.map, "a", ""), "1979-05-27");
    assert_int_equal(tn_fields_refuse_unknown_toml(&fields, good, &err), 0);
    assert_int_equal(tn_fields_from_toml(&fields, &t, NULL, &err), 0);

    static const struct {
        const char *toml, *error, *unknown;
    } cases[] = {
        {"\ncount = 'x'", "line 2: count: expected an integer from -5 to 10, found string", NULL},
        {"[limits]\nmemory = 0", "line 2: memory: expected an integer of at least 1, found 0",
         NULL},
        {"limits = 3", "line 1: limits: expected an object, found integer", NULL},
        {"note = 1", "line 1: note: expected a string or null, found integer", NULL},
        {"\n\ntitle2 = 1", NULL, "line 3: unknown key title2; did you mean title?"},
        {"[limits]\nmemo = 0", NULL, "line 2: unknown key memo; did you mean memory?"},
    };
    for (size_t i = 0; i < TN_COUNT(cases); i++) {
        tn_autotoml struct tn_toml *toml =
            tn_toml_parse(cases[i].toml, strlen(cases[i].toml), &err);
        assert_non_null(toml);
        int read = tn_fields_from_toml(&fields, &t, toml, &err);
        assert_int_equal(read, cases[i].error ? -1 : 0);
        if (cases[i].error)
            assert_string_equal(err.text, cases[i].error);
        int known = tn_fields_refuse_unknown_toml(&fields, toml, &err);
        assert_int_equal(known, cases[i].unknown ? -1 : 0);
        if (cases[i].unknown)
            assert_string_equal(err.text, cases[i].unknown);
    }
    tn_fields_done(&fields, &t);
}

static void test_help(void **state)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(1 << 16);

    tn_fields_help(&fields, "tendon-test", &out);
    assert_string_equal(
        tn_buf_str(&out),
        "Usage: tendon-test [OPTIONS] PORT [COMMAND...]\n"
        "\n"
        "Arguments:\n"
        "  PORT                          TCP port [env: TN_TEST_PORT]\n"
        "  COMMAND                       to run\n"
        "\n"
        "Options:\n"
        "  -t, --title NAME              what it is called [default: untitled] "
        "[env: TN_TEST_TITLE]\n"
        "      --note TEXT               a note\n"
        "      --[no-]loud               with noise [default: true] [env: TN_TEST_LOUD]\n"
        "      --count N                 how many [default: 3]\n"
        "      --ratio N                 how much [default: 0.5]\n"
        "      --wait N                  seconds\n"
        "      --plugins TEXT...         what to load [env: TN_TEST_PLUGINS]\n"
        "      --ids JSON                numbers\n"
        "      --extra JSON              anything\n"
        "      --colour WORD             of the thing (red, green, blue) [default: green]\n"
        "      --key TEXT                password [env: TN_TEST_KEY]\n"
        "      --memory N                megabytes [default: 64] [env: TN_TEST_MEMORY]\n"
        "  -h, --help                    print this and stop\n");
}

static void test_put_text(void **state)
{
    static const struct {
        const char *name, *text;
    } cases[] = {
        {"title", "untitled"},
        {"note", ""},
        {"blob", "x"},
        {"loud", "true"},
        {"count", "3"},
        {"ratio", "0.5"},
        {"port", "80"},
        {"plugins", "a,b"},
        {"ids", "[1, 2]"},
        {"map", "{}"},
        {"extra", "[1]"},
        {"colour", "green"},
        {"limits", "{\"memory\":64}"},
    };
    struct thing t;
    struct tn_error err;

    init(&t);
    assert_int_equal(
        from_json(&t,
                  "{\"blob\":\"x\",\"port\":80,\"plugins\":[\"a\",\"b\"],\"ids\":[1,2],"
                  "\"extra\":[1]}",
                  &err),
        0);
    for (size_t i = 0; i < TN_COUNT(cases); i++) {
        tn_autobuf struct tn_buf out = TN_BUF_INIT(1 << 10);
        tn_field_put_text(tn_fields_find(&fields, cases[i].name), &t, &out);
        assert_string_equal(tn_buf_str(&out), cases[i].text);
    }
    assert_null(tn_fields_find(&fields, "nobody"));
    tn_fields_done(&fields, &t);
}

static void test_edit_distance(void **state)
{
    assert_int_equal(tn_edit_distance("", ""), 0);
    assert_int_equal(tn_edit_distance("abc", ""), 3);
    assert_int_equal(tn_edit_distance("kitten", "sitting"), 3);
    assert_int_equal(tn_edit_distance("form", "from"), 1); /* a swap is one slip */
    assert_int_equal(tn_edit_distance("--pluginss", "--plugins"), 1);
    char longer[100];
    memset(longer, 'a', sizeof longer);
    longer[99] = '\0';
    assert_int_equal(tn_edit_distance(longer, longer), 0);
    assert_true(tn_edit_distance(longer, "a") == SIZE_MAX);

    struct tn_nearest near = tn_nearest("rnu");
    tn_nearest_offer(&near, "read");
    assert_null(near.best);
    tn_nearest_offer(&near, "run");
    tn_nearest_offer(&near, "rude");
    assert_string_equal(near.best, "run");
    near = tn_nearest("x");
    tn_nearest_offer(&near, "y"); /* nothing in common */
    assert_null(near.best);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_json_round_trip),
        cmocka_unit_test(test_null_and_unknown_keys),
        cmocka_unit_test(test_alias),
        cmocka_unit_test(test_lenient_numbers),
        cmocka_unit_test(test_json_errors),
        cmocka_unit_test(test_refuse_unknown),
        cmocka_unit_test(test_show_masks_secrets),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_arguments_more),
        cmocka_unit_test(test_argument_errors),
        cmocka_unit_test(test_unexpected_positional),
        cmocka_unit_test(test_required),
        cmocka_unit_test(test_toml),
        cmocka_unit_test(test_help),
        cmocka_unit_test(test_put_text),
        cmocka_unit_test(test_edit_distance),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
