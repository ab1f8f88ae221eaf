#include "helpers.h"

static void test_page_is_up_to_date(void **state)
{
    tn_autobuf struct tn_buf printed = TN_BUF_INIT(1 << 20), kept = TN_BUF_INIT(1 << 20);
    tn_autofile FILE *f = fopen(TN_SOURCE_ROOT "/docs/actions.md", "rb");
    size_t n;

    if (!f)
        fail_msg("docs/actions.md is missing: print-actions > docs/actions.md");
    do {
        char *to = tn_buf_reserve(&kept, 4096);
        assert_non_null(to);
        n = fread(to, 1, 4096, f);
        tn_buf_grew(&kept, n);
    } while (n > 0);
    tn_event_describe(&printed);
    assert_true(tn_buf_ok(&printed));
    if (strcmp(tn_buf_str(&printed), tn_buf_str(&kept)) != 0)
        fail_msg("docs/actions.md is out of date: print-actions > docs/actions.md");
}

static void test_page_names_everything(void **state)
{
    tn_autobuf struct tn_buf page = TN_BUF_INIT(1 << 20);

    tn_event_describe(&page);
    for (size_t i = 0; i < TN_ACTION_TYPE_COUNT; i++) {
        tn_autofree char *heading = tn_asprintf("### `%s`\n", tn_action_name(i));
        assert_non_null(strstr(page.data, heading));
    }
    for (size_t i = 0; i < TN_OBSERVATION_TYPE_COUNT; i++) {
        tn_autofree char *heading = tn_asprintf("### `%s`\n", tn_observation_name(i));
        assert_non_null(strstr(page.data, heading));
    }
    assert_null(strstr(page.data, "(null)"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_page_is_up_to_date),
        cmocka_unit_test(test_page_names_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
