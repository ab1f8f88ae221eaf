#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/spec.h"

static void test_sizes(void **state)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {
        {"0", 0},
        {"4096", 4096},
        {"17b", 17},
        {"64k", 64 << 10},
        {"512M", 512 << 20},
        {"2g", UINT64_C(2) << 30},
        {"2Gb", UINT64_C(2) << 30},
        {"2GiB", UINT64_C(2) << 30},
        {"1t", UINT64_C(1) << 40},
        {"1.5g", UINT64_C(3) << 29},
        {"0.5k", 512},
        {"9223372036854775807", INT64_MAX},
    };
    static const char *const bad[] = {
        "",    "g",   "-1",  "1.5", "1..5g",    "1 g",
        "1q",  "1gg", "1gi", "1bb", "0x10",     "18446744073709551616",
        "1e3", "1.g", " 1",  "1ib", "8388608t", "99999999999999999999999",
    };

    for (size_t i = 0; i < TN_COUNT(good); i++) {
        uint64_t bytes = 1;
        struct tn_error err = {0};
        if (tn_size_parse(good[i].text, &bytes, &err) < 0)
            fail_msg("%s", err.text);
        assert_true(bytes == good[i].bytes);
    }
    for (size_t i = 0; i < TN_COUNT(bad); i++) {
        uint64_t bytes;
        struct tn_error err = {0};
        if (tn_size_parse(bad[i], &bytes, &err) == 0)
            fail_msg("'%s' is %llu bytes?", bad[i], (unsigned long long)bytes);
        assert_non_null(strstr(err.text, "expected a size"));
    }
}

/* A spec from JSON; fails the test when that is not one. */
static void make(struct tn_spec *spec, const char *text)
{
    tn_autojson struct tn_json *json = NULL;
    struct tn_error err = {0};

    tn_spec_init(spec);
    if (tn_json_parse(text, strlen(text), &json, &err) < 0 ||
        tn_spec_from_json(json, spec, &err) < 0)
        fail_msg("%s: %s", text, err.text);
}

static char *written(const struct tn_spec *spec)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(1 << 20);
    struct tn_jw w = tn_jw(&out);

    tn_jw_object(&w);
    tn_spec_to_json(spec, &w);
    tn_jw_object_end(&w);
    return tn_buf_take(&out);
}

static const char full[] =
    "{\"runtime\":\"jail\",\"name\":\"web\",\"image\":\"/srv/root\",\"workspace\":\"/ws\","
    "\"user\":\"1000\",\"plugins\":[\"jupyter\"],\"volumes\":[\"/a:/b:ro\"],"
    "\"env\":{\"A\":\"1\",\"B\":\"$(id)\"},\"labels\":{\"team\":\"x\"},\"network\":\"none\","
    "\"ports\":[80],\"devices\":[\"/dev/fuse\"],\"gpus\":\"all\",\"memory\":\"512m\",\"cpus\":1.5,"
    "\"pids\":100,\"file_size\":\"1g\",\"open_files\":64,\"disk\":\"2g\",\"wall_time\":60.0,"
    "\"keep\":true,\"lease\":3600.0,\"hand_args\":[\"--log-level=debug\"]}";

static void test_json_and_copy(void **state)
{
    struct tn_spec spec, copy;
    struct tn_error err = {0};
    struct tn_limits limits;

    make(&spec, full);
    assert_int_equal(tn_spec_check(&spec, &err), 0);
    assert_int_equal(tn_spec_copy(&spec, &copy, &err), 0);
    tn_autofree char *text = written(&copy);
    assert_string_equal(text, full);
    assert_int_equal(tn_spec_limits(&copy, &limits, &err), 0);
    assert_true(limits.memory == 512 << 20 && limits.disk == UINT64_C(2) << 30);
    assert_true(limits.file_size == 1 << 30 && limits.pids == 100 && limits.open_files == 64);
    assert_true(limits.cpus == 1.5 && limits.wall_time == 60);
    tn_spec_done(&spec);
    tn_spec_done(&copy);

    make(&spec, "{\"allow\":[]}"); /* no rules, and not the configured ones */
    tn_autofree char *none = written(&spec);
    assert_string_equal(none, "{\"network\":\"default\",\"allow\":[]}");
    tn_spec_done(&spec);

    make(&spec, "{}");
    tn_autofree char *empty = written(&spec);
    assert_string_equal(empty, "{\"network\":\"default\"}");
    assert_int_equal(tn_spec_limits(&spec, &limits, &err), 0);
    assert_true(limits.memory == 0 && limits.pids == 0 && limits.cpus == 0);
    tn_spec_done(&spec);
}

static void test_unknown_key(void **state)
{
    static const char text[] = "{\"memroy\":\"1g\"}";
    tn_autojson struct tn_json *json = NULL;
    struct tn_error err = {0};
    struct tn_spec spec;

    tn_spec_init(&spec);
    assert_int_equal(tn_json_parse(text, sizeof text - 1, &json, &err), 0);
    assert_int_equal(tn_spec_from_json(json, &spec, &err), -1);
    assert_string_equal(err.text, "unknown key memroy; did you mean memory?");
    tn_spec_done(&spec);
}

static void test_check(void **state)
{
    static const struct {
        const char *spec, *error;
    } cases[] = {
        {"{\"name\":\"\"}", "name: expected 1 to 63"},
        {"{\"name\":\"-x\"}", "name: expected 1 to 63"},
        {"{\"name\":\"a/b\"}", "name: expected 1 to 63"},
        {"{\"runtime\":\"../evil\"}", "runtime: '../evil' is no name"},
        {"{\"image\":\"\"}", "image: it is empty"},
        {"{\"workspace\":\"work\"}", "workspace: expected an absolute path"},
        {"{\"workspace\":\"/a/../b\"}", "workspace: expected an absolute path"},
        {"{\"workspace\":\"/.tendon/run\"}",
         "workspace: /.tendon/run is in /.tendon, which is ours"},
        {"{\"workspace\":\"/.//.tendon\"}", "workspace: /.//.tendon is in /.tendon"},
        {"{\"volumes\":[\"/a:/.tendon/run\"]}",
         "volumes: volume '/a:/.tendon/run': nothing can be mounted"},
        {"{\"workspace\":\"/a/..\"}", "workspace: expected an absolute path"},
        {"{\"user\":\"\"}", "user: '' is no name"},
        {"{\"user\":\"a b\"}", "user: 'a b' is no name"},
        {"{\"user\":\"4294967295\"}", "user: '4294967295' is neither"},
        {"{\"user\":\"1000:1000\"}", "user: '1000:1000' is neither"},
        {"{\"plugins\":[\"a b\"]}", "plugins: 'a b' is no name"},
        {"{\"volumes\":[\"/a\"]}", "volumes: volume '/a': expected HOST:INSIDE"},
        {"{\"volumes\":[\"/a:/x\",\"/b:/x/\"]}", "volumes: two volumes are to be mounted at /x"},
        {"{\"env\":{\"A-B\":\"\"}}", "env: 'A-B' is no name of a variable"},
        {"{\"env\":{\"1A\":\"\"}}", "env: '1A' is no name of a variable"},
        {"{\"env\":{\"\":\"\"}}", "env: '' is no name of a variable"},
        {"{\"env\":{\"A\":1}}", "env: A: expected text, found "},
        {"{\"env\":{\"A\":\"x\\u0000y\"}}", "env: A: the value holds a NUL byte"},
        {"{\"labels\":{\"a=b\":\"\"}}", "labels: 'a=b' is no name of a label"},
        {"{\"ports\":[0]}", "ports: expected a port from 1 to 65535, found 0"},
        {"{\"ports\":[80,80]}", "ports: 80 is there twice"},
        {"{\"devices\":[\"/dev/\"]}", "devices: expected a path below /dev"},
        {"{\"devices\":[\"/dev/../etc/shadow\"]}", "devices: expected a path below /dev"},
        {"{\"devices\":[\"/etc/shadow\"]}", "devices: expected a path below /dev"},
        {"{\"gpus\":\"0,,1\"}", "gpus: expected 'all' or ids"},
        {"{\"memory\":\"lots\"}", "memory: expected a size"},
        {"{\"disk\":\"-1\"}", "disk: expected a size"},
        {"{\"memory\":\"8191k\"}", "memory: no sandbox lives with so little: expected at least 8m"},
        {"{\"pids\":11}", "pids: no sandbox lives with so little: expected at least 12"},
        {"{\"open_files\":47}", "open_files: no sandbox lives with so little"},
        {"{\"disk\":\"1k\"}", "disk: no sandbox lives with so little"},
        {"{\"file_size\":\"1\"}", "file_size: no sandbox lives with so little"},
        {"{\"wall_time\":0.001}", "wall_time: no sandbox lives with so little"},
    };

    for (size_t i = 0; i < TN_COUNT(cases); i++) {
        struct tn_spec spec;
        struct tn_error err = {0};
        make(&spec, cases[i].spec);
        assert_int_equal(tn_spec_check(&spec, &err), -1);
        if (strncmp(err.text, cases[i].error, strlen(cases[i].error)) != 0)
            fail_msg("%s: %s", cases[i].spec, err.text);
        tn_spec_done(&spec);
    }
}

static void test_digest(void **state)
{
    static const struct {
        const char *a, *b;
        bool same;
    } cases[] = {
        {"{}", "{\"name\":\"x\",\"labels\":{\"a\":\"b\"},\"lease\":5,\"keep\":true}", true},
        {"{\"env\":{\"A\":\"1\",\"B\":\"2\"}}", "{\"env\":{\"B\":\"2\",\"A\":\"1\"}}", true},
        {"{\"env\":{}}", "{}", true},
        {"{\"env\":{\"A\":\"1\"}}", "{\"env\":{\"A\":\"2\"}}", false},
        {"{\"memory\":\"1g\"}", "{}", false},
        {"{\"allow\":[]}", "{}", false},
        {"{\"network\":\"none\"}", "{\"network\":\"host\"}", false},
        {"{\"volumes\":[\"/a:/b\"]}", "{\"plugins\":[\"/a:/b\"]}", false},
    };

    for (size_t i = 0; i < TN_COUNT(cases); i++) {
        struct tn_spec a, b;
        char da[17], db[17];
        make(&a, cases[i].a);
        make(&b, cases[i].b);
        tn_spec_digest(&a, da);
        tn_spec_digest(&b, db);
        assert_int_equal(strlen(da), 16);
        assert_int_equal(strspn(da, "0123456789abcdef"), 16);
        if ((strcmp(da, db) == 0) != cases[i].same)
            fail_msg("%s and %s: %s, %s", cases[i].a, cases[i].b, da, db);
        tn_spec_done(&a);
        tn_spec_done(&b);
    }
}

static void test_flags(void **state)
{
    static const char *const words[] = {
        "--image", "i",     "--env",     "A=$B `c`", "-v",     "/a:/b:ro,z", "-p",     "80",
        "-p",      "443",   "--plugins", "a,b",      "-m",     "1g",         "--keep", "--cpus=2",
        "--label", "k=v=w", "--network", "none",     "--gpus", "all",
    };
    struct tn_spec spec;
    struct tn_error err = {0};

    tn_spec_init(&spec);
    if (tn_fields_from_argv(&tn_spec_fields, &spec, TN_COUNT(words),
                            (char *const *)(uintptr_t)words, &err) != 0)
        fail_msg("%s", err.text);
    tn_autofree char *text = written(&spec);
    assert_string_equal(text, "{\"image\":\"i\",\"plugins\":[\"a\",\"b\"],"
                              "\"volumes\":[\"/a:/b:ro,z\"],\"env\":{\"A\":\"$B `c`\"},"
                              "\"labels\":{\"k\":\"v=w\"},\"network\":\"none\",\"ports\":[80,443],"
                              "\"gpus\":\"all\",\"memory\":\"1g\",\"cpus\":2.0,\"keep\":true}");
    assert_int_equal(tn_spec_check(&spec, &err), 0);
    tn_spec_done(&spec);
}

/* Each member that bounds is told and borrowed; no other is. */
static void test_bounds(void **state)
{
    static const char *const bounding[] = {
        "{\"isolation\":\"gvisor\"}",
        "{\"network\":\"none\"}",
        "{\"allow\":[\"a.test\"]}",
        "{\"allow\":[]}",
        "{\"ask\":true}",
        "{\"memory\":\"1g\"}",
        "{\"cpus\":1}",
        "{\"pids\":7}",
        "{\"open_files\":7}",
        "{\"disk\":\"1g\"}",
    };
    static const char *const others[] = {"{}", "{\"name\":\"x\"}", "{\"image\":\"x\"}",
                                         "{\"env\":{\"A\":\"1\"}}", "{\"wall_time\":5}"};
    struct tn_spec plain, spec;

    make(&plain, "{}");
    for (size_t i = 0; i < TN_COUNT(bounding); i++) {
        struct tn_spec borrowed = plain;
        make(&spec, bounding[i]);
        const char *name = tn_spec_bounds_differ(&plain, &spec);
        assert_non_null(name);
        assert_non_null(strstr(bounding[i], name));
        tn_spec_borrow_bounds(&borrowed, &spec);
        assert_null(tn_spec_bounds_differ(&borrowed, &spec));
        tn_autofree char *text = written(&borrowed), *wanted = written(&spec);
        assert_string_equal(text, wanted);
        tn_spec_done(&spec);
    }
    for (size_t i = 0; i < TN_COUNT(others); i++) {
        make(&spec, others[i]);
        assert_null(tn_spec_bounds_differ(&plain, &spec));
        tn_spec_done(&spec);
    }
    tn_spec_done(&plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),       cmocka_unit_test(test_json_and_copy),
        cmocka_unit_test(test_unknown_key), cmocka_unit_test(test_check),
        cmocka_unit_test(test_digest),      cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_flags),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
