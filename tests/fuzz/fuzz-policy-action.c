/* Actions before the rules that ship: the first byte chooses what the rest is. */
#include <stdint.h>

#include "base/clock.h"
#include "security/policy/policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void make(struct tn_action *a, unsigned kind, const char *text)
{
    switch (kind % 5) {
    case 0:
        tn_action_init_run(a, text, 0);
        break;
    case 1:
        tn_action_init(a, TN_ACTION_RUN_IPYTHON);
        a->run_ipython.code = tn_strdup(text);
        break;
    case 2:
        tn_action_init(a, TN_ACTION_WRITE);
        a->write.path = tn_strdup(text);
        a->write.content = (struct tn_text){tn_strdup(text), strlen(text)};
        break;
    case 3:
        tn_action_init(a, TN_ACTION_BROWSE);
        a->browse.url = tn_strdup(text);
        break;
    default:
        tn_action_init_run(a, text, 0);
        a->run.is_input = true;
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct tn_policy *policy; /* for all inputs */
    tn_autoaction struct tn_action a = {.type = TN_ACTION_NULL};
    tn_autoverdict struct tn_verdict v = {0};
    tn_autofree char *text = size ? tn_strndup((const char *)data + 1, size - 1) : NULL;
    struct tn_case c = {.action = &a, .cwd = size % 2 ? "/workspace" : NULL};

    if (!text)
        return 0;
    if (!policy)
        policy = tn_policy_new(true, NULL, 0, NULL);
    make(&a, data[0], text);
    if (!policy || tn_policy_judge(policy, &c, TN_NEVER, &v, NULL))
        abort();
    return 0;
}
