/* local: the hand as a process of this machine, with no isolation whatever. */
#include <sys/stat.h>

#include "base/fs.h"
#include "runtime/process.h"

#define ISOLATION                                                                          \
    "{\"user\": false, \"mount\": false, \"pid\": false, \"ipc\": false, \"uts\": false, " \
    "\"network\": false, \"seccomp\": false, \"landlock\": false, \"limits\": false, "     \
    "\"file_actions\": false, \"atomic_pause\": false}"

/* A directory of the user's where one was named, else one of the sandbox's own: no two sandboxes
 * share one by accident. */
static char *workspace(const struct tn_host *host, const struct tn_subject *subject,
                       struct tn_error *err)
{
    const char *given = subject->spec->workspace, *base = host->config->core.workspace_base;

    if (given && given[0] == '/' && tn_fs_is_directory(given))
        return tn_strdup(given);
    if (base && base[0] == '/' && tn_fs_is_directory(base))
        return tn_strdup(base);
    tn_autofree char *own = tn_asprintf("%s/workspace", subject->directory);
    if (mkdir(own, 0700) < 0 && errno != EEXIST) {
        tn_fail_errno(err, errno, "%s", own);
        return NULL;
    }
    return TN_TAKE_PTR(own);
}

static const struct tn_process_kind kind = {
    .name = "local",
    .isolation = ISOLATION,
    .workspace = workspace,
};

static int open_local(const struct tn_host *host, void **engine, struct tn_error *err)
{
    return tn_process_open(&kind, host, engine, err);
}

static int doctor(const struct tn_host *host, tn_symptom_fn fn, void *ctx, struct tn_error *err)
{
    tn_process_doctor(host, fn, ctx);
    fn(&(struct tn_symptom){.what = "isolation",
                            .detail = "none: commands run with all the rights of the user who "
                                      "starts them; use jail or docker for what is not trusted"},
       ctx);
    return 0;
}

static int check(const struct tn_host *host, const struct tn_spec *spec, struct tn_error *err)
{
    return tn_process_check(kind.name, spec, err);
}

const struct tn_backend tn_backend_local = {
    .name = "local",
    .summary = "processes of this machine, without isolation",
    .abilities = TN_CAN_PAUSE | TN_CAN_STOP | TN_CAN_CHANGE_ENV,
    .open = open_local,
    .close = tn_process_close,
    .check = check,
    .create = tn_process_create,
    .inspect = tn_process_inspect,
    .drive = tn_process_drive,
    .list = tn_process_list,
    .put = tn_process_put,
    .exec = tn_process_exec,
    .dial = tn_process_dial,
    .url = tn_process_url,
    .logs = tn_process_logs,
    .usage = tn_process_usage,
    .process = tn_process_hand,
    .doctor = doctor,
};
