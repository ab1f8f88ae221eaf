#include "runtime/backend.h"

const char *const tn_status_words[] = {
    [TN_STATUS_STARTING] = "starting",   [TN_STATUS_RUNNING] = "running",
    [TN_STATUS_PAUSED] = "paused",       [TN_STATUS_STOPPED] = "stopped",
    [TN_STATUS_SUSPENDED] = "suspended", [TN_STATUS_ERROR] = "error",
    [TN_STATUS_MISSING] = "missing",     NULL,
};

const char *const tn_goal_words[] = {
    [TN_GOAL_RUNNING] = "running",     [TN_GOAL_PAUSED] = "paused", [TN_GOAL_STOPPED] = "stopped",
    [TN_GOAL_SUSPENDED] = "suspended", [TN_GOAL_GONE] = "gone",     NULL,
};

const char *const tn_blame_words[] = {
    [TN_BLAME_NONE] = "none",
    [TN_BLAME_IMAGE] = "image",
    [TN_BLAME_MEMORY] = "memory",
    NULL,
};

enum tn_blame tn_blame_find(const char *word)
{
    for (int i = 0; word && tn_blame_words[i]; i++)
        if (strcmp(tn_blame_words[i], word) == 0)
            return (enum tn_blame)i;
    return TN_BLAME_NONE;
}

int tn_output_fits(const struct tn_buf *out, struct tn_error *err)
{
    return tn_buf_ok(out)
               ? 0
               : tn_fail(err, TN_E_TOO_LARGE, "the command printed more than %zu bytes", out->max);
}

void tn_place_done(struct tn_place *place)
{
    if (place->key)
        explicit_bzero(place->key, strlen(place->key));
    free(TN_TAKE_PTR(place->key));
    free(TN_TAKE_PTR(place->address));
    free(TN_TAKE_PTR(place->ref));
    free(TN_TAKE_PTR(place->reason));
    free(TN_TAKE_PTR(place->isolation));
}

void tn_host_tell(const struct tn_host *host, const char *id, enum tn_runtime_status status,
                  const char *message)
{
    if (host->told)
        host->told(id, status, message, host->told_ctx);
}
