/* tendon-jail --enter: something runs inside a jail that exists already, also when its PID 1 does
 * not answer.  It gets the same namespaces, control groups and restrictions.
 *
 *     --enter REPORT_FD PID START ID OPEN_FILES FILE_SIZE PIDS SHARES DIR -- PROGRAM [ARGUMENT...]
 *     --enter REPORT_FD PID START ID OPEN_FILES FILE_SIZE PIDS SHARES DIR --put PATH MODE
 *     --enter REPORT_FD PID START ID OPEN_FILES FILE_SIZE PIDS SHARES DIR --runsc PROGRAM ...
 *
 * PID and START name PID 1 of the jail; SHARES is 1 when it writes to directories of the host; DIR
 * is where the program starts, if it exists.  --put writes what comes on standard input, and makes
 * the directories on the way.  --runsc is for a jail under gVisor, whose runsc is told to start the
 * program: this process only goes as far as the walls (gvisor.c).  The exit code is the program's,
 * or 128 + the signal that ended it; when it could not be started REPORT_FD says why, otherwise it
 * is closed without a word. */
#include "jail/enter.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/fs.h"
#include "base/proc.h"
#include "jail/jail.h"
#include "jail/sys.h"

enum {
    ARGUMENTS = 12, /* up to and with the "--" */
    FAILED = 125,
    RUNSC_FAILED = 128, /* it says so of itself; mostly, there is no such program */
    NOT_STARTED = 127,
    STATUS_MAX = 64 << 10,
};

struct entry {
    struct jail jail;
    int report;
    pid_t pid;
    uint64_t start;
    const char *directory;
    char **argv; /* from "--" or "--put" on */
    int pidfd;
    bool same_user, same_network; /* as the launcher's own */
    bool gvisor;                  /* runsc is to do it */
};

/* --- its arguments ------------------------------------------------------------------------- */

static bool number(const char *text, int64_t *out)
{
    char *end;

    *out = strtoll(text, &end, 10);
    return *text && !*end && *out >= 0;
}

static int read_arguments(struct entry *e, char **argv, struct tn_error *err)
{
    struct tn_jail_plan *plan = &e->jail.plan;
    int64_t report, pid, start, shares;

    if (!number(argv[2], &report) || !number(argv[3], &pid) || !number(argv[4], &start) ||
        !number(argv[6], &plan->open_files) || !number(argv[7], &plan->file_size) ||
        !number(argv[8], &plan->pids) || !number(argv[9], &shares) || pid <= 0 || report < 3)
        return tn_fail(err, TN_E_INVALID, "--enter: expected numbers");
    e->report = (int)report;
    e->pid = (pid_t)pid;
    e->start = (uint64_t)start;
    e->argv = argv + ARGUMENTS - 1;
    e->jail.shares = shares != 0;
    e->directory = argv[10];
    plan->id = tn_strdup(argv[5]);
    e->gvisor = strcmp(e->argv[0], "--runsc") == 0;
    bool put = strcmp(e->argv[0], "--put") == 0 && e->argv[1] && e->argv[2] && *e->argv[1] == '/';
    if (!put && ((strcmp(e->argv[0], "--") != 0 && !e->gvisor) || !e->argv[1]))
        return tn_fail(err, TN_E_INVALID,
                       "--enter: expected -- PROGRAM, --runsc PROGRAM or --put PATH MODE");
    return 0;
}

/* --- going in ------------------------------------------------------------------------------ */

static bool same_namespace(pid_t pid, const char *name)
{
    struct stat ours, theirs;
    tn_autofree char *mine = tn_asprintf("/proc/self/ns/%s", name);
    tn_autofree char *other = tn_asprintf("/proc/%d/ns/%s", (int)pid, name);

    return stat(mine, &ours) == 0 && stat(other, &theirs) == 0 && ours.st_ino == theirs.st_ino;
}

/* Nobody can take no_new_privs off again: PID 1 has it if the jail does. */
static bool may_gain(pid_t pid)
{
    tn_autofree char *path = tn_asprintf("/proc/%d/status", (int)pid);
    tn_autobuf struct tn_buf status = TN_BUF_INIT(STATUS_MAX);

    return tn_fs_read(TN_FS_ANYWHERE, path, &status, NULL) == 0 &&
           strstr(tn_buf_str(&status), "\nNoNewPrivs:\t0\n");
}

static int find_jail(struct entry *e, struct tn_error *err)
{
    struct tn_proc proc;

    e->pidfd = sys_pidfd_open(e->pid);
    if (e->pidfd < 0 || tn_proc_get(e->pid, &proc) < 0 || proc.start != e->start)
        return tn_fail(err, TN_E_GONE, "the jail is gone");
    e->same_user = same_namespace(e->pid, "user");
    e->same_network = same_namespace(e->pid, "net");
    e->jail.gains = !e->same_user && may_gain(e->pid);
    return 0;
}

static int join_groups(struct entry *e, struct tn_error *err)
{
    struct jail *j = &e->jail;

    if (tn_cgroups_find(&j->cgroups, err) < 0)
        return -1;
    j->pids_by_rlimit = j->plan.pids > 0 && !tn_cgroups_can_limit(&j->cgroups, TN_CGROUP_PIDS);
    /* One that was started where nothing was delegated has none, even if who comes now has some. */
    if (!tn_cgroup_holds(j->plan.id, e->pid))
        return 0;
    return tn_cgroup_join(&j->cgroups, j->plan.id, 0, true, err);
}

/* Root goes in with its rights and gives them up inside; an ordinary user has rights only inside.
 */
static int join_namespaces(struct entry *e, struct tn_error *err)
{
    const int others =
        CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;
    const bool root = geteuid() == 0;
    const int order[] = {root ? others : CLONE_NEWUSER, root ? CLONE_NEWUSER : others};

    e->jail.mapping = e->same_user ? TN_JAIL_MAP_NONE : root ? TN_JAIL_MAP_RANGE : TN_JAIL_MAP_OWN;
    /* Limits are set while they still can be: they hold for what comes. */
    if (!e->gvisor && jail_set_limits(&e->jail, err) < 0)
        return -1;
    for (size_t i = 0; i < TN_COUNT(order); i++)
        if (!(order[i] == CLONE_NEWUSER && e->same_user) && setns(e->pidfd, order[i]) < 0)
            return tn_fail_errno(err, errno, "enter its namespaces");
    return 0;
}

/* A scope of its own would keep it from signalling the jail's processes; where the jail has its own
 * network there is nothing else that it would keep it from. */
static int confine(struct entry *e, struct tn_error *err)
{
    struct jail *j = &e->jail;

    if (jail_leave_keyring(j, err) < 0 || (e->same_network && jail_restrict_scope(j, err) < 0) ||
        jail_filter_calls(j, err) < 0 || jail_drop_capabilities(j, err) < 0 ||
        jail_become_user(j, err) < 0 || jail_no_new_privileges(j, err) < 0)
        return -1;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    return 0;
}

/* --- what is done there -------------------------------------------------------------------- */

static int copy_input(int fd, void *ctx, struct tn_error *err)
{
    return tn_fs_copy(STDIN_FILENO, fd, UINT64_MAX, err) < 0 ? -1 : 0;
}

static int put(const char *path, const char *mode, struct tn_error *err)
{
    const struct tn_fs_replace how = {.mode = (mode_t)strtoul(mode, NULL, 8), .in_place = true};

    tn_autofree char *parent = tn_strndup(path, (size_t)(strrchr(path, '/') - path));
    if (*parent) {
        tn_autofd int made = tn_fs_mkdirs(TN_FS_ANYWHERE, parent, 0755, NULL, NULL, err);
        if (made < 0)
            return -1;
    }
    umask(0);
    return tn_fs_replace(TN_FS_ANYWHERE, path, &how, copy_input, NULL, err);
}

static _Noreturn void complain(const struct entry *e, const struct tn_error *err)
{
    tn_fs_write(e->report, err->text, strlen(err->text), NULL);
    _exit(FAILED);
}

static _Noreturn void be_inside(struct entry *e)
{
    struct tn_error err = {0};

    if (e->gvisor) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (jail_become_user(&e->jail, &err) == 0)
            jail_ask_runsc(e->jail.plan.id, e->directory, e->argv + 1, &err);
        complain(e, &err);
    }
    if (confine(e, &err) < 0)
        complain(e, &err);
    if (strcmp(e->argv[0], "--put") == 0) {
        if (put(e->argv[1], e->argv[2], &err) < 0)
            complain(e, &err);
        _exit(0);
    }
    if (chdir(e->directory) < 0 && chdir("/") < 0) {
        tn_fail_errno(&err, errno, "%s", e->directory);
        complain(e, &err);
    }
    execvp(e->argv[1], e->argv + 1);
    tn_fail_errno(&err, errno, "execute %s", e->argv[1]);
    complain(e, &err);
}

/* Who is cut off ends its child and waits for it: whoever got it otherwise, the first process of
 * the machine, may be one that waits for nobody, and a jail does not end before its last process
 * has. */
static volatile sig_atomic_t child_inside, child_signal = SIGKILL;

static void cut_off(int number)
{
    (void)number;
    if (child_inside > 0)
        kill(child_inside, child_signal);
}

/* The child, with a handler of which it must know nothing. */
static pid_t start_inside(struct entry *e)
{
    sigset_t term, before;

    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_BLOCK, &term, &before);
    pid_t pid = fork();
    if (pid == 0) {
        sigprocmask(SIG_SETMASK, &before, NULL);
        be_inside(e);
    }
    child_inside = pid;
    if (e->gvisor) /* which it passes on to the program; one that was killed could not */
        child_signal = SIGTERM;
    signal(SIGTERM, cut_off);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return pid;
}

static int wait_for(const struct entry *e, pid_t pid)
{
    int status = 0;

    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (e->gvisor && WIFEXITED(status) && WEXITSTATUS(status) == RUNSC_FAILED)
        return NOT_STARTED;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int jail_enter_main(int argc, char **argv)
{
    struct entry e = {.report = -1, .pidfd = -1};
    struct tn_error err = {0};

    if (argc < ARGUMENTS + 1 || read_arguments(&e, argv, &err) < 0) {
        fprintf(stderr, "tendon-jail: %s\n", err.text[0] ? err.text : "--enter: too few arguments");
        return 2;
    }
    fcntl(e.report, F_SETFD, FD_CLOEXEC);
    /* Nobody inside may look at this process, or reach its program file through /proc. */
    prctl(PR_SET_DUMPABLE, 0);
    if (find_jail(&e, &err) < 0 || join_groups(&e, &err) < 0 || join_namespaces(&e, &err) < 0)
        complain(&e, &err);
    /* Only a child is in the pid namespace. */
    pid_t pid = start_inside(&e);
    if (pid < 0) {
        tn_fail_errno(&err, errno, "start a process");
        complain(&e, &err);
    }
    close(e.report);
    return wait_for(&e, pid);
}
