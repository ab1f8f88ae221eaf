/* Every member of a spec has a bound, and nothing else has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/spec.h"
#include "service/admit.h"
#include "service/bounds.h"

static void every_member_has_a_row(void **state)
{
    for (size_t i = 0; i < tn_spec_fields.count; i++) {
        const char *member = tn_spec_fields.rows[i].name;
        const struct bound_row *row = bound_find(member);
        if (!row)
            fail_msg("%s: who may set it? Add a row to bounds.c", member);
        assert_string_equal(row->member, member);
        assert_true(*row->how);
    }
    assert_null(bound_find("nonsense"));
}

static int members(unsigned scopes, const char *text, struct tn_error *err)
{
    const struct caller who = {.scopes = scopes};
    tn_autojson struct tn_json *body = NULL;

    assert_int_equal(tn_json_parse(text, strlen(text), &body, NULL), 0);
    *err = (struct tn_error){0};
    return bounds_members(&who, body, err);
}

static void members_that_are_not_a_tenants(void **state)
{
    struct tn_error err;

    assert_int_equal(members(SCOPES_USUAL, "{\"memory\":\"1g\",\"env\":{}}", &err), 0);
    assert_int_equal(members(SCOPES_USUAL, "{\"volumes\":[\"/:/x\"]}", &err), -1);
    assert_int_equal(err.code, TN_E_DENIED);
    assert_int_equal(members(SCOPE_ADMIN, "{\"volumes\":[\"/:/x\"]}", &err), 0);
    assert_int_equal(members(SCOPE_ADMIN, "{\"lease\":5}", &err), -1);
    assert_int_equal(err.code, TN_E_UNPROCESSABLE);
}

static void times(void **state)
{
    const struct caller tenant = {.scopes = SCOPES_USUAL}, admin = {.scopes = SCOPE_ADMIN};
    struct tn_error err = {0};

    assert_int_equal(bounds_time(&tenant, "ttl", 0, 0, "x", &err), 0);
    assert_int_equal(bounds_time(&tenant, "ttl", -1, 60, "x", &err), 0);
    assert_int_equal(bounds_time(&tenant, "ttl", 60, 60, "x", &err), 0);
    assert_int_equal(bounds_time(&tenant, "ttl", 60.5, 60, "x", &err), -1);
    assert_int_equal(bounds_time(&tenant, "ttl", 0, 60, "x", &err), -1);
    assert_int_equal(err.code, TN_E_DENIED);
    assert_int_equal(bounds_time(&admin, "ttl", 0, 60, "x", &err), 0);
    assert_int_equal(bounds_time(NULL, "ttl", 0, 60, "x", &err), 0);
}

static void settings_that_are_no_sizes(void **state)
{
    struct tn_service_options o = {.sandbox_memory = (char[]){"1g"}};
    struct tn_error err = {0};

    assert_int_equal(bounds_check(&o, &err), 0);
    o.sandbox_disk = (char[]){"lots"};
    assert_int_equal(bounds_check(&o, &err), -1);
    assert_non_null(strstr(err.text, "service.sandbox_disk"));
}

/* Where the cluster decides whether workspaces are claims, they count as such. */
static void claims_of_pods(void **state)
{
    struct tn_config config = {.kubernetes = {.pvc_storage_size = (char[]){"2Gi"}}};
    int *volume = &config.kubernetes.workspace_volume;

    *volume = TN_KUBERNETES_ANY;
    assert_true(bounds_claim(&config, "kubernetes") == 0x1p31);
    assert_true(bounds_claim(&config, "jail") == 0);
    *volume = TN_KUBERNETES_CLAIM;
    assert_true(bounds_claim(&config, "kubernetes") == 0x1p31);
    *volume = TN_KUBERNETES_EMPTY;
    assert_true(bounds_claim(&config, "kubernetes") == 0);
    *volume = TN_KUBERNETES_CLAIM;
    config.kubernetes.pvc_storage_size = (char[]){"99E"};
    assert_true(bounds_claim(&config, "kubernetes") == 1e18);
    config.kubernetes.pvc_storage_size = (char[]){"2 Gi"};
    assert_true(bounds_claim(&config, "kubernetes") == 0);
    config.kubernetes.pvc_storage_size = NULL;
    assert_true(bounds_claim(&config, "kubernetes") == 0);
}

/* Who has a limit needs a wish that has one too; 0 is no limit. */
static void disk_of_a_tenant(void **state)
{
    const struct key_limits limits = {.max_disk = 3 << 20}, none = {0};
    struct tn_error err = {0};

    assert_int_equal(admit_disk(&limits, 2 << 20, 1 << 20, &err), 0);
    assert_int_equal(admit_disk(&limits, 2 << 20, (1 << 20) + 1, &err), -1);
    assert_int_equal(err.code, TN_E_QUOTA);
    assert_non_null(strstr(err.text, "max_disk"));
    assert_int_equal(admit_disk(&limits, 0, 0, &err), -1);
    assert_int_equal(admit_disk(&none, 1e18, 1e18, &err), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_member_has_a_row),
        cmocka_unit_test(members_that_are_not_a_tenants),
        cmocka_unit_test(times),
        cmocka_unit_test(settings_that_are_no_sizes),
        cmocka_unit_test(claims_of_pods),
        cmocka_unit_test(disk_of_a_tenant),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
