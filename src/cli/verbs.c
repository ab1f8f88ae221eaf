/* Everything `tendon` can do. */
#include "base/nearest.h"
#include "cli/verb.h"

const char *const verb_group_titles[VERB_GROUPS] = {
    [VERB_WORK] = "Work in sandboxes",
    [VERB_LIFE] = "Make, change and end them",
    [VERB_LOOK] = "Look at them",
    [VERB_SYSTEM] = "This machine and this program",
};

extern const struct verb verb_run, verb_exec, verb_shell, verb_cp, verb_port, verb_open,
    verb_replay, verb_tools, verb_mcp;
extern const struct verb verb_new, verb_pause, verb_resume, verb_stop, verb_rm;
extern const struct verb verb_snapshot, verb_rollback, verb_fork;
extern const struct verb verb_ls, verb_ps, verb_logs, verb_events, verb_inspect;
extern const struct verb verb_serve, verb_key, verb_audit;
extern const struct verb verb_build, verb_images, verb_config, verb_doctor, verb_gc, verb_bench;
extern const struct verb verb_completion, verb_version, verb_help;

/* One a line: who adds a verb touches one line. */
const struct verb *const verbs[] = {
    &verb_run,    &verb_exec,       &verb_shell,    &verb_cp,       &verb_port,   &verb_open,
    &verb_replay, &verb_tools,      &verb_mcp,      &verb_new,      &verb_pause,  &verb_resume,
    &verb_stop,   &verb_rm,         &verb_snapshot, &verb_rollback, &verb_fork,   &verb_ls,
    &verb_ps,     &verb_logs,       &verb_events,   &verb_inspect,  &verb_serve,  &verb_key,
    &verb_audit,  &verb_build,      &verb_images,   &verb_config,   &verb_doctor, &verb_gc,
    &verb_bench,  &verb_completion, &verb_version,  &verb_help,     NULL, /* the end */
};

const struct verb *find_verb(const char *name, struct tn_error *err)
{
    struct tn_nearest near = tn_nearest(name);

    for (const struct verb *const *v = verbs; *v; v++) {
        if (!strcmp((*v)->name, name))
            return *v;
        tn_nearest_offer(&near, (*v)->name);
    }
    if (near.best)
        tn_fail(err, TN_E_INVALID,
                "there is no verb '%.60s': did you mean '%s'? (see: tendon %s --help)", name,
                near.best, near.best);
    else
        tn_fail(err, TN_E_INVALID,
                "there is no verb '%.60s' (see: tendon help, and tendon COMMAND --help)", name);
    return NULL;
}
