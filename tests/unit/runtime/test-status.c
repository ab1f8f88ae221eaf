#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/status.h"

/* What goes over the wire, letter by letter. */
static const char *const texts[] = {
    "STATUS$STOPPED",
    "STATUS$BUILDING_RUNTIME",
    "STATUS$STARTING_RUNTIME",
    "STATUS$RUNTIME_STARTED",
    "STATUS$SETTING_UP_WORKSPACE",
    "STATUS$SETTING_UP_GIT_HOOKS",
    "STATUS$READY",
    "STATUS$ERROR",
    "STATUS$ERROR_RUNTIME_DISCONNECTED",
    "STATUS$ERROR_LLM_AUTHENTICATION",
    "STATUS$ERROR_LLM_SERVICE_UNAVAILABLE",
    "STATUS$ERROR_LLM_INTERNAL_SERVER_ERROR",
    "STATUS$ERROR_LLM_OUT_OF_CREDITS",
    "STATUS$ERROR_LLM_CONTENT_POLICY_VIOLATION",
    "CHAT_INTERFACE$AGENT_RATE_LIMITED_STOPPED_MESSAGE",
    "STATUS$GIT_PROVIDER_AUTHENTICATION_ERROR",
    "STATUS$LLM_RETRY",
    "STATUS$ERROR_MEMORY",
};

static void test_texts(void **state)
{
    enum tn_runtime_status status;

    assert_int_equal(TN_COUNT(texts), TN_RUNTIME_STATUS_COUNT);
    for (size_t i = 0; i < TN_COUNT(texts); i++) {
        assert_int_equal(tn_runtime_status_find(texts[i], &status), 0);
        assert_string_equal(tn_runtime_status_text(status), texts[i]);
        assert_string_equal(tn_runtime_status_name(status), strchr(texts[i], '$') + 1);
    }
    assert_string_equal(tn_runtime_status_text(TN_RUNTIME_READY), "STATUS$READY");
    assert_int_equal(tn_runtime_status_find("READY", &status), -1);
}

static void test_classes(void **state)
{
    static const struct {
        enum tn_code code;
        const char *name;
        bool unavailable;
    } cases[] = {
        {TN_E_TIMEOUT, "AgentRuntimeTimeoutError", false},
        {TN_E_PEER, "AgentRuntimeDisconnectedError", true},
        {TN_E_NOT_FOUND, "AgentRuntimeNotFoundError", true},
        {TN_E_GONE, "AgentRuntimeNotFoundError", true},
        {TN_E_BUSY, "AgentRuntimeNotReadyError", true},
        {TN_E_UNSUPPORTED, "AgentRuntimeUnavailableError", true},
        {TN_E_INTERNAL, "AgentRuntimeError", false},
        {TN_E_INVALID, "AgentRuntimeError", false},
    };

    for (size_t i = 0; i < TN_COUNT(cases); i++) {
        const struct tn_error_class *c = tn_error_class_of(cases[i].code);
        assert_string_equal(c->name, cases[i].name);
        assert_true(tn_error_class_is(c, "AgentRuntimeError"));
        assert_int_equal(tn_error_class_is(c, "AgentRuntimeUnavailableError"),
                         cases[i].unavailable);
        assert_string_equal(tn_error_class_of(tn_error_class_code(c->name))->name, c->name);
    }
    assert_non_null(tn_error_class_find("AgentRuntimeBuildError"));
    assert_null(tn_error_class_find("ValueError"));
    assert_int_equal(tn_error_class_code("ValueError"), TN_E_INTERNAL);
    assert_int_equal(tn_error_class_code("AgentRuntimeNotFoundError"), TN_E_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_classes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
