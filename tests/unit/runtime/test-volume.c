#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "runtime/volume.h"

static void test_forms(void **state)
{
    static const struct {
        const char *text, *host, *inside, *mode;
        bool named, read_only, overlay;
    } cases[] = {
        {"/a:/b", "/a", "/b", "rw", false, false, false},
        {"/a/:/b//c/./d/:ro", "/a", "/b/c/d", "ro", false, true, false},
        {"/a:/b:rw,z", "/a", "/b", "rw,z", false, false, false},
        {"/a:/b:overlay", "/a", "/b", "overlay", false, false, true},
        {"/a:/b:ro,overlay,Z", "/a", "/b", "ro,overlay,Z", false, true, true},
        {"/a/../c:/b", "/a/../c", "/b", "rw", false, false, false},
        {"/:/host:ro", "/", "/host", "ro", false, true, false},
        {"/a:/.tendons", "/a", "/.tendons", "rw", false, false, false},
        {"/a:/b/.tendon", "/a", "/b/.tendon", "rw", false, false, false},
        {"cache:/b", "cache", "/b", "rw", true, false, false},
        {"volume:cache:/b:ro", "cache", "/b", "ro", true, true, false},
        {"volume:/b", "volume", "/b", "rw", true, false, false},
    };

    for (size_t i = 0; i < TN_COUNT(cases); i++) {
        tn_autovolume struct tn_volume v = {0};
        struct tn_error err = {0};
        if (tn_volume_parse(cases[i].text, &v, &err) < 0)
            fail_msg("%s", err.text);
        assert_string_equal(v.host, cases[i].host);
        assert_string_equal(v.inside, cases[i].inside);
        assert_string_equal(v.mode, cases[i].mode);
        assert_int_equal(v.named, cases[i].named);
        assert_int_equal(v.read_only, cases[i].read_only);
        assert_int_equal(v.overlay, cases[i].overlay);
    }
}

static void test_directory_of_a_volume(void **state)
{
    tn_autovolume struct tn_volume v = {0};

    assert_int_equal(tn_volume_parse("volume:cache/a//./b/:/in:ro", &v, NULL), 0);
    assert_string_equal(v.host, "cache");
    assert_string_equal(v.below, "/a/b");
    assert_true(v.named && v.read_only);
}

static void test_wrong_forms(void **state)
{
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"", "expected HOST:INSIDE"},
        {"/a", "expected HOST:INSIDE"},
        {":/b", "expected HOST:INSIDE"},
        {"/a::ro", "expected HOST:INSIDE"},
        {"/a:/b:ro:z", "expected HOST:INSIDE"},
        {"/a:b", "expected an absolute path"},
        {"/a:/b/../../etc", "without '..'"},
        {"/a:/..", "without '..'"},
        {"/a:/", "the root"},
        {"/a:/.//", "the root"},
        {"/a:/.tendon", "which is ours"},
        {"/a:/./.tendon//run", "which is ours"},
        {"cache:/.tendon/hand:ro", "which is ours"},
        {"/a:/b:", "expected a mode"},
        {"/a:/b:ro,", "expected a mode"},
        {"/a:/b:exec", "found 'exec'"},
        {"/a:/b:rw,ro", "both rw and ro"},
        {"./a:/b", "neither an absolute path nor the name"},
        {"a/b:/b", "neither an absolute path nor the name"},
        {"volume:/a:/b", "expected a mode"},
        {"volume:a:/b", "no name for a volume"},
        {"volume:a/c:/b", "no name for a volume"},
        {"volume:cache/:/b", "a directory of the volume"},
        {"volume:cache/./:/b", "a directory of the volume"},
        {"volume:cache/a/../b:/b", "a directory of the volume"},
        {"volume:cache/..:/b", "a directory of the volume"},
        {"x:/b", "no name for a volume"},
        {"-x:/b", "no name for a volume"},
        {"cache:/b:overlay", "overlay needs a directory"},
    };

    for (size_t i = 0; i < TN_COUNT(cases); i++) {
        struct tn_volume v = {0};
        struct tn_error err = {0};
        assert_int_equal(tn_volume_parse(cases[i].text, &v, &err), -1);
        if (!strstr(err.text, cases[i].error))
            fail_msg("%s: %s", cases[i].text, err.text);
        assert_null(v.host);
        assert_int_equal(err.code, TN_E_INVALID);
    }
}

static void test_absolute(void **state)
{
    struct tn_error err = {0};
    char here[4096];
    tn_autofree char *plain = tn_volume_absolute("cache:/b", &err);
    tn_autofree char *dot = tn_volume_absolute(".:/b:ro", &err);

    assert_string_equal(plain, "cache:/b");
    assert_non_null(getcwd(here, sizeof here));
    tn_autofree char *expected = tn_asprintf("%s:/b:ro", here);
    assert_string_equal(dot, expected);
    setenv("HOME", "/home/x", 1);
    tn_autofree char *home = tn_volume_absolute("~/data:/b", &err);
    assert_string_equal(home, "/home/x/data:/b");
    unsetenv("HOME");
    assert_null(tn_volume_absolute("~:/b", &err));
    assert_null(tn_volume_absolute("./no/such/directory:/b", &err));
    assert_int_equal(err.code, TN_E_NOT_FOUND);
}

static int add(const char *volume, void *ctx)
{
    tn_buf_printf(ctx, "<%s>", volume);
    return strcmp(volume, "stop") == 0 ? 7 : 0;
}

static void test_several(void **state)
{
    static const struct {
        const char *text, *parts;
        int result;
    } cases[] = {
        {"", "", 0},
        {"/a:/b", "</a:/b>", 0},
        {"/a:/b:ro,z,/c:/d , e:/f:overlay,ro", "</a:/b:ro,z></c:/d><e:/f:overlay,ro>", 0},
        {"/a:/b,,/c:/d,", "</a:/b></c:/d>", 0},
        {"/a:/b,stop,/c:/d", "</a:/b><stop>", 7},
    };

    for (size_t i = 0; i < TN_COUNT(cases); i++) {
        tn_autobuf struct tn_buf parts = TN_BUF_INIT(1 << 10);
        assert_int_equal(tn_volumes_each(cases[i].text, add, &parts), cases[i].result);
        assert_string_equal(tn_buf_str(&parts), cases[i].parts);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),       cmocka_unit_test(test_directory_of_a_volume),
        cmocka_unit_test(test_wrong_forms), cmocka_unit_test(test_absolute),
        cmocka_unit_test(test_several),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
