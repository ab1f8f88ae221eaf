/* The words in which an OpenHands application is told how a runtime is, and what went wrong. */
#ifndef TN_RUNTIME_STATUS_H
#define TN_RUNTIME_STATUS_H

#include "base/error.h"

enum tn_runtime_status {
    TN_RUNTIME_STOPPED,
    TN_RUNTIME_BUILDING_RUNTIME,
    TN_RUNTIME_STARTING_RUNTIME,
    TN_RUNTIME_RUNTIME_STARTED,
    TN_RUNTIME_SETTING_UP_WORKSPACE,
    TN_RUNTIME_SETTING_UP_GIT_HOOKS,
    TN_RUNTIME_READY,
    TN_RUNTIME_ERROR,
    TN_RUNTIME_ERROR_RUNTIME_DISCONNECTED,
    TN_RUNTIME_ERROR_LLM_AUTHENTICATION,
    TN_RUNTIME_ERROR_LLM_SERVICE_UNAVAILABLE,
    TN_RUNTIME_ERROR_LLM_INTERNAL_SERVER_ERROR,
    TN_RUNTIME_ERROR_LLM_OUT_OF_CREDITS,
    TN_RUNTIME_ERROR_LLM_CONTENT_POLICY_VIOLATION,
    TN_RUNTIME_AGENT_RATE_LIMITED_STOPPED_MESSAGE,
    TN_RUNTIME_GIT_PROVIDER_AUTHENTICATION_ERROR,
    TN_RUNTIME_LLM_RETRY,
    TN_RUNTIME_ERROR_MEMORY,
    TN_RUNTIME_STATUS_COUNT
};

/* "STATUS$READY": what goes over the wire; lives for ever. */
const char *tn_runtime_status_text(enum tn_runtime_status status);
/* "READY". */
const char *tn_runtime_status_name(enum tn_runtime_status status);
/* By its text; -1 when there is none. */
int tn_runtime_status_find(const char *text, enum tn_runtime_status *status);

/* An error class of OpenHands' and where it stands among the others. */
struct tn_error_class {
    const char *name;
    const char *parent; /* NULL for the one above all */
};

/* What OpenHands calls an error of that code; never NULL. */
const struct tn_error_class *tn_error_class_of(enum tn_code code);
/* By name, or NULL. */
const struct tn_error_class *tn_error_class_find(const char *name);
/* True when the class is the named one or stands below it. */
bool tn_error_class_is(const struct tn_error_class *c, const char *name);
/* The code that an error of that class has here; TN_E_INTERNAL for an unknown one. */
enum tn_code tn_error_class_code(const char *name);

#endif
