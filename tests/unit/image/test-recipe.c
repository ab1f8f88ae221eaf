/* Recipes: names that follow from content, and text that nothing can break out of. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "image/recipe.h"

struct change {
    const char *field, *value;
};

/* The names of a recipe with the given fields, as on a command line. */
static struct tn_recipe_tags tags_of(const struct change *changes, size_t n, const char *base_id)
{
    struct tn_recipe_tags tags;
    struct tn_recipe r;
    struct tn_error err = {0};

    tn_recipe_init(&r);
    r.base = tn_strdup("debian:12");
    for (size_t i = 0; i < n; i++) {
        const struct tn_field *row = tn_fields_find(&tn_recipe_fields, changes[i].field);
        if (tn_field_from_text(row, &r, changes[i].value, &err))
            fail_msg("%s", err.text);
    }
    if (tn_recipe_check(&r, &err))
        fail_msg("%s", err.text);
    tn_recipe_tags(&r, base_id, &tags);
    tn_recipe_done(&r);
    return tags;
}

static void test_everything_counts(void **state)
{
    static const struct change changes[] = {
        {"base", "debian:11"},
        {"plugins", "jupyter"},
        {"plugins", "agent_skills"},
        {"packages", "git"},
        {"packages", "git,jq"},
        {"extra_deps", "echo hello"},
        {"extra_deps", "echo hello "},
        {"platform", "linux/arm64"},
        {"build_args", "{\"A\": \"1\"}"},
        {"build_args", "{\"A\": \"2\"}"},
    };
    enum { COUNT = TN_COUNT(changes) + 2 };
    struct tn_recipe_tags all[COUNT];

    for (size_t i = 0; i < TN_COUNT(changes); i++)
        all[i] = tags_of(&changes[i], 1, NULL);
    all[COUNT - 2] = tags_of(NULL, 0, NULL);
    all[COUNT - 1] = tags_of(NULL, 0, "sha256:1");
    for (size_t i = 0; i < COUNT; i++) {
        struct tn_recipe_tags again =
            i < TN_COUNT(changes) ? tags_of(&changes[i], 1, NULL) : all[i];
        assert_string_equal(all[i].step[TN_RECIPE_EXTRA], again.step[TN_RECIPE_EXTRA]);
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(all[i].step[TN_RECIPE_EXTRA], all[j].step[TN_RECIPE_EXTRA]);
    }
    /* Two recipes that differ only at the end share the first step. */
    assert_string_equal(all[5].step[TN_RECIPE_PACKAGES], all[6].step[TN_RECIPE_PACKAGES]);
}

static void test_versioned(void **state)
{
    struct tn_recipe_tags tags;
    struct tn_recipe r;

    tn_recipe_init(&r);
    r.base = tn_strdup("host:5000/a/debian:12");
    tn_recipe_tags(&r, NULL, &tags);
    assert_string_equal(tags.versioned, "oh_v" TN_VERSION "_host_t_5000_s_a_s_debian_t_12");
    tn_recipe_done(&r);
}

static void test_refused(void **state)
{
    static const struct {
        const char *field, *value, *says;
    } table[] = {
        {"base", "", "image reference"},
        {"base", "a\nRUN evil", "image reference"},
        {"plugins", "jupyte", "did you mean 'jupyter'?"},
        {"packages", "git;reboot", "no name of a package"},
        {"packages", "-y", "no name of a package"},
        {"packages", "a b", "no name of a package"},
        {"platform", "arm64", "expected OS/ARCH"},
        {"platform", "linux/arm64\nRUN x", "expected OS/ARCH"},
        {"tags", "a@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
         "cannot have a digest"},
    };
    for (size_t i = 0; i < TN_COUNT(table); i++) {
        struct tn_error err = {0};
        struct tn_recipe r;

        tn_recipe_init(&r);
        r.base = tn_strdup("debian");
        assert_int_equal(tn_field_from_text(tn_fields_find(&tn_recipe_fields, table[i].field), &r,
                                            table[i].value, &err),
                         0);
        assert_int_equal(tn_recipe_check(&r, &err), -1);
        if (!strstr(err.text, table[i].says))
            fail_msg("%s=%s: '%s' does not say '%s'", table[i].field, table[i].value, err.text,
                     table[i].says);
        tn_recipe_done(&r);
    }
}

static void test_dockerfile(void **state)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(1 << 20);
    struct tn_recipe r;

    tn_recipe_init(&r);
    r.base = tn_strdup("debian");
    r.extra_deps = tn_strdup("echo \"a\"\nUSER evil");
    tn_recipe_put_dockerfile(&r, TN_RECIPE_EXTRA, "debian", "1000:1000", &text);
    assert_string_equal(tn_buf_str(&text),
                        "FROM debian\nUSER 0\n"
                        "RUN [\"/bin/sh\",\"-c\",\"echo \\\"a\\\"\\nUSER evil\"]\n"
                        "USER 1000:1000\n");
    tn_recipe_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everything_counts),
        cmocka_unit_test(test_versioned),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_dockerfile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
