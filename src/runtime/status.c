#include "runtime/status.h"

#include <assert.h>

#define ROW(word) [TN_RUNTIME_##word] = {#word, "STATUS$" #word}

static const struct {
    const char *name, *text;
} statuses[] = {
    ROW(STOPPED),
    ROW(BUILDING_RUNTIME),
    ROW(STARTING_RUNTIME),
    ROW(RUNTIME_STARTED),
    ROW(SETTING_UP_WORKSPACE),
    ROW(SETTING_UP_GIT_HOOKS),
    ROW(READY),
    ROW(ERROR),
    ROW(ERROR_RUNTIME_DISCONNECTED),
    ROW(ERROR_LLM_AUTHENTICATION),
    ROW(ERROR_LLM_SERVICE_UNAVAILABLE),
    ROW(ERROR_LLM_INTERNAL_SERVER_ERROR),
    ROW(ERROR_LLM_OUT_OF_CREDITS),
    ROW(ERROR_LLM_CONTENT_POLICY_VIOLATION),
    [TN_RUNTIME_AGENT_RATE_LIMITED_STOPPED_MESSAGE] =
        {"AGENT_RATE_LIMITED_STOPPED_MESSAGE", "CHAT_INTERFACE$AGENT_RATE_LIMITED_STOPPED_MESSAGE"},
    ROW(GIT_PROVIDER_AUTHENTICATION_ERROR),
    ROW(LLM_RETRY),
    ROW(ERROR_MEMORY),
};
static_assert(TN_COUNT(statuses) == TN_RUNTIME_STATUS_COUNT, "a row for each");

const char *tn_runtime_status_text(enum tn_runtime_status status)
{
    return statuses[status].text;
}

const char *tn_runtime_status_name(enum tn_runtime_status status)
{
    return statuses[status].name;
}

int tn_runtime_status_find(const char *text, enum tn_runtime_status *status)
{
    for (size_t i = 0; i < TN_COUNT(statuses); i++)
        if (strcmp(statuses[i].text, text) == 0) {
            *status = (enum tn_runtime_status)i;
            return 0;
        }
    return -1;
}

/* --- error classes ------------------------------------------------------------------------ */

enum class {
    ANY,
    BUILD,
    TIMEOUT,
    UNAVAILABLE,
    NOT_READY,
    DISCONNECTED,
    NOT_FOUND,
};

static const struct tn_error_class classes[] = {
    [ANY] = {"AgentRuntimeError", NULL},
    [BUILD] = {"AgentRuntimeBuildError", "AgentRuntimeError"},
    [TIMEOUT] = {"AgentRuntimeTimeoutError", "AgentRuntimeError"},
    [UNAVAILABLE] = {"AgentRuntimeUnavailableError", "AgentRuntimeError"},
    [NOT_READY] = {"AgentRuntimeNotReadyError", "AgentRuntimeUnavailableError"},
    [DISCONNECTED] = {"AgentRuntimeDisconnectedError", "AgentRuntimeUnavailableError"},
    [NOT_FOUND] = {"AgentRuntimeNotFoundError", "AgentRuntimeUnavailableError"},
};

/* Codes that are not here are AgentRuntimeError.  The first row of a class is its code. */
static const struct {
    enum tn_code code;
    enum class class;
} codes[] = {
    {TN_E_INTERNAL, ANY},   {TN_E_TIMEOUT, TIMEOUT},   {TN_E_UNSUPPORTED, UNAVAILABLE},
    {TN_E_BUSY, NOT_READY}, {TN_E_PEER, DISCONNECTED}, {TN_E_NOT_FOUND, NOT_FOUND},
    {TN_E_GONE, NOT_FOUND},
};

const struct tn_error_class *tn_error_class_of(enum tn_code code)
{
    for (size_t i = 0; i < TN_COUNT(codes); i++)
        if (codes[i].code == code)
            return &classes[codes[i].class];
    return &classes[ANY];
}

const struct tn_error_class *tn_error_class_find(const char *name)
{
    for (size_t i = 0; i < TN_COUNT(classes); i++)
        if (strcmp(classes[i].name, name) == 0)
            return &classes[i];
    return NULL;
}

bool tn_error_class_is(const struct tn_error_class *c, const char *name)
{
    for (; c; c = c->parent ? tn_error_class_find(c->parent) : NULL)
        if (strcmp(c->name, name) == 0)
            return true;
    return false;
}

enum tn_code tn_error_class_code(const char *name)
{
    const struct tn_error_class *c = tn_error_class_find(name);

    for (size_t i = 0; c && i < TN_COUNT(codes); i++)
        if (&classes[codes[i].class] == c)
            return codes[i].code;
    return TN_E_INTERNAL;
}
