/* Everything `tendon` can do. */
#include "base/nearest.h"
#include "cli/docker.h"
#include "cli/verb.h"

const char *const verb_group_titles[VERB_GROUPS] = {
    [VERB_WORK] = "Work in sandboxes",
    [VERB_LIFE] = "Make, change and end them",
    [VERB_LOOK] = "Look at them",
    [VERB_SYSTEM] = "This machine and this program",
};

/* In the order of the help text, and nowhere else. */
/* clang-format off */
#define VERBS(X)  \
    X(run) \
    X(exec) \
    X(shell) \
    X(cp) \
    X(port) \
    X(open) \
    X(replay) \
    X(tools) \
    X(mcp) \
    X(confirm) \
    X(new) \
    X(pause) \
    X(resume) \
    X(stop) \
    X(rm) \
    X(snapshot) \
    X(rollback) \
    X(fork) \
    X(ls) \
    X(ps) \
    X(logs) \
    X(events) \
    X(inspect) \
    X(network) \
    X(serve) \
    X(key) \
    X(secret) \
    X(policy) \
    X(audit) \
    X(build) \
    X(images) \
    X(config) \
    X(doctor) \
    X(gc) \
    X(bench) \
    X(completion) \
    X(version) \
    X(help)
/* clang-format on */

#define DECLARE(name) extern const struct verb verb_##name;
VERBS(DECLARE)

#define LIST(name) &verb_##name,
const struct verb *const verbs[] = {VERBS(LIST) NULL};

const struct verb *find_verb(const char *name, struct tn_error *err)
{
    struct tn_nearest near = tn_nearest(name);
    const char *same = docker_same(name);

    if (same)
        return find_verb(same, err);
    for (const struct verb *const *v = verbs; *v; v++) {
        if (!strcmp((*v)->name, name))
            return *v;
        tn_nearest_offer(&near, (*v)->name);
    }
    if (docker_refuse_verb(name, err) < 0)
        return NULL;
    if (near.best)
        tn_fail(err, TN_E_INVALID,
                "there is no verb '%.60s': did you mean '%s'? (see: tendon %s --help)", name,
                near.best, near.best);
    else
        tn_fail(err, TN_E_INVALID,
                "there is no verb '%.60s' (see: tendon help, and tendon COMMAND --help)", name);
    return NULL;
}
