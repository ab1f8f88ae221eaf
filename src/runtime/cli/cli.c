/* cli: the hand in the user's own directory, which its file actions cannot leave.
 *
 * The process that owns a sandbox talks to it over a socket pair, so nobody else can; one that is
 * kept beyond its maker listens on a socket in its directory. */
#include "base/fs.h"
#include "runtime/process.h"

#define ISOLATION                                                                          \
    "{\"user\": false, \"mount\": false, \"pid\": false, \"ipc\": false, \"uts\": false, " \
    "\"network\": false, \"seccomp\": false, \"landlock\": false, \"limits\": false, "     \
    "\"file_actions\": true, \"atomic_pause\": false}"

/* What everybody calls the workspace inside of a sandbox. */
#define USUAL_NAME "/workspace"

/* The directory that was named, else the configured one, else where the user is. */
static char *workspace(const struct tn_host *host, const struct tn_subject *subject,
                       struct tn_error *err)
{
    const char *given = subject->spec->workspace, *base = host->config->core.workspace_base;

    if (given && strcmp(given, USUAL_NAME) == 0 && !tn_fs_is_directory(given))
        given = NULL;
    const char *named = given ? given : base && *base ? base : ".";
    char *path = realpath(named, NULL);
    if (!path)
        tn_fail_errno(err, errno, "workspace: %s", named);
    else if (!tn_fs_is_directory(path))
        tn_fail(err, TN_E_INVALID, "workspace: %s is not a directory", named);
    else
        return path;
    free(path);
    return NULL;
}

static const struct tn_process_kind kind = {
    .name = "cli",
    .confined = true,
    .pair = true,
    .isolation = ISOLATION,
    .workspace = workspace,
};

static int open_cli(const struct tn_host *host, void **engine, struct tn_error *err)
{
    return tn_process_open(&kind, host, engine, err);
}

static int doctor(const struct tn_host *host, tn_symptom_fn fn, void *ctx, struct tn_error *err)
{
    struct tn_error why = {0};
    tn_autofd int root = tn_fs_open(TN_FS_ANYWHERE, "/", O_PATH | O_DIRECTORY, 0, NULL);
    tn_autofd int beneath = tn_fs_open(root, ".", O_PATH | O_DIRECTORY, 0, &why);

    tn_process_doctor(host, fn, ctx);
    fn(&(struct tn_symptom){.what = "openat2",
                            .good = beneath >= 0,
                            .needed = true,
                            .detail =
                                beneath >= 0 ? "file actions stay in the workspace" : why.text},
       ctx);
    fn(&(struct tn_symptom){.what = "isolation",
                            .detail = "of file actions only: commands run with all the rights of "
                                      "the user who starts them"},
       ctx);
    return 0;
}

static int check(const struct tn_host *host, const struct tn_spec *spec, struct tn_error *err)
{
    return tn_process_check(kind.name, spec, err);
}

const struct tn_backend tn_backend_cli = {
    .name = "cli",
    .summary = "the user's own directory, which file actions cannot leave; commands are free",
    .abilities = TN_CAN_PAUSE | TN_CAN_STOP,
    .open = open_cli,
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
