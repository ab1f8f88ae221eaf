#include "runtime/jail/suspend.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "runtime/programs.h"

#define LOG_MAX (8u << 20)

char *jail_criu_find(void)
{
    return tn_program_find("criu", NULL, NULL);
}

/* The last line of its log that speaks of an error; on the heap. */
static char *complaint(int dir, const char *name)
{
    tn_autobuf struct tn_buf log = TN_BUF_INIT(LOG_MAX);
    const char *found = NULL;

    tn_fs_read(dir, name, &log, NULL);
    for (const char *p = tn_buf_str(&log); (p = strstr(p, "Error")); p++)
        found = p;
    if (!found)
        return tn_strdup("it does not say why");
    return tn_strndup(found, strcspn(found, "\n"));
}

static int run_criu(const char *criu, const char *const *argv, int dir, int64_t deadline,
                    struct tn_error *err)
{
    struct tn_exit result;
    tn_autochild struct tn_child *child = tn_child_start(
        &(struct tn_child_spec){
            .argv = argv, .file = criu, .cwd = "/", .session = true, .deadline = deadline},
        err);

    if (!child)
        return -1;
    if (tn_child_wait(child, deadline, &result, err) < 0) {
        tn_child_signal_group(child, SIGKILL, NULL);
        tn_child_wait(child, tn_deadline_in(2.0), NULL, NULL);
        return -1;
    }
    if (tn_exit_code(&result) == 0)
        return 0;
    tn_autofree char *why = complaint(dir, "criu.log");
    return tn_fail(err, TN_E_UNSUPPORTED, "criu: %s", why);
}

static int check(char **criu, struct tn_error *err)
{
    *criu = jail_criu_find();
    if (!*criu)
        return tn_fail(err, TN_E_UNSUPPORTED,
                       "suspend needs the program criu (Debian: apt-get install criu)");
    if (geteuid() != 0)
        return tn_fail(err, TN_E_UNSUPPORTED, "suspend with criu needs root");
    return 0;
}

int jail_suspend(struct jail_engine *e, const struct tn_subject *subject, int64_t deadline,
                 struct tn_error *err)
{
    tn_autofree char *criu = NULL;
    tn_autofree char *images = tn_asprintf("%s/suspending", subject->directory);
    jail_autoref struct jail_ref ref = {0};
    char pid[24];

    if (check(&criu, err) < 0)
        return -1;
    tn_autofd int dir = open(subject->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0 || !jail_ref_find(subject, &ref, deadline))
        return tn_fail(err, TN_E_CONFLICT, "the jail does not run");
    if (tn_fs_remove_tree(dir, "suspending", 0, err) < 0)
        return -1;
    if (mkdirat(dir, "suspending", 0700) < 0)
        return tn_fail_errno(err, errno, "%s", images);
    snprintf(pid, sizeof pid, "%lld", (long long)ref.pid);
    const char *const argv[] = {
        "criu",          "dump", "--tree",   pid, "-D", images, "--tcp-established",
        "--ext-unix-sk", "-o",   "criu.log", NULL};
    tn_autofd int to = openat(dir, "suspending", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (run_criu(criu, argv, to, deadline, err) < 0) {
        tn_fs_remove_tree(dir, "suspending", 0, NULL);
        return -1;
    }
    if (jail_kill(e, subject, deadline, err) < 0)
        return -1;
    if (renameat(dir, "suspending", dir, JAIL_SUSPENDED) < 0)
        return tn_fail_errno(err, errno, "%s", images);
    return 0;
}

int jail_wake(struct jail_engine *e, const struct tn_subject *subject, struct tn_place *place,
              int64_t deadline, struct tn_error *err)
{
    return tn_fail(err, TN_E_UNSUPPORTED, "wake");
}
