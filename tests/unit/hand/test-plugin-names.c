/* The host knows the plugins of a hand by their names: event/action.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "event/action.h"
#include "hand/plugin.h"

static void test_the_host_knows_every_row(void **state)
{
    size_t i = 0;

    for (; tn_plugins[i]; i++)
        assert_string_equal(tn_plugins[i]->name, tn_plugin_names[i]);
    assert_null(tn_plugin_names[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_host_knows_every_row)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
