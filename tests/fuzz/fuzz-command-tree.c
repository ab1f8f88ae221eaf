/* The command tree: any bytes become calls or a refusal with a reason; calls tell only places
 * inside the text, and what is unknown is marked so. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "security/command/calls.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool truth)
{
    if (!truth)
        abort();
}

static void check_arg(const struct tn_arg *arg, size_t size)
{
    size_t len = strlen(arg->text);
    bool unknown = arg->flags & TN_ARG_UNKNOWN;
    must(unknown == !arg->value && arg->known <= len);
    must(unknown || (arg->known == len && strcmp(arg->value, arg->text) == 0));
    must(arg->start <= arg->end && arg->end <= size);
}

static void check_call(const struct tn_calls *calls, const struct tn_call *call, size_t size)
{
    must(call->start <= call->end && call->end <= size && call->quote);
    must(call->in <= calls->pipes && call->out <= calls->pipes);
    must(call->depth == (call->via ? call->via->depth + 1 : 0));
    must(call->unseen < TN_UNSEEN_COUNT && tn_unseen_text(call->unseen));
    for (size_t i = 0; i < call->argc; i++)
        check_arg(&call->argv[i], size);
    /* A command has a name, or it is marked that this is not known. */
    must(call->argc == 0 || call->name[0] || call->unseen);
    for (const struct tn_call_redirect *r = call->redirects; r; r = r->next) {
        check_arg(&r->target, size);
        must(r->start <= r->end && r->end <= size);
    }
    for (const struct tn_call_assign *a = call->assigns; a; a = a->next)
        check_arg(&a->value, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* An exact copy, so that a read past the end is seen. */
    char *text = malloc(size ? size : 1);
    must(text);
    memcpy(text, data, size);
    struct tn_error err = {0};
    struct tn_calls *calls = tn_calls_new(text, size, &err);
    free(text);
    if (!calls) {
        must(err.text[0] && (err.code == TN_E_INVALID || err.code == TN_E_TOO_LARGE));
        return 0;
    }
    size_t count = 0;
    for (const struct tn_call *call = calls->first; call; call = call->next, count++)
        check_call(calls, call, size);
    must(count == calls->count && count <= TN_CALLS_MAX);
    if (count > 1)
        tn_call_feeds(calls, calls->first, calls->first->next);
    tn_calls_free(calls);
    return 0;
}
