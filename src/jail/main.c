/* tendon-jail: launches one jail and keeps it.  See plan.h for how it is called. */
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "base/proc.h"
#include "gate/keeper-protocol.h"
#include "jail/criu.h"
#include "jail/enter.h"
#include "jail/jail.h"
#include "jail/parcel.h"
#include "jail/sys.h"

enum {
    PLAN_MAX = 4 << 20,
    REPORT_MAX = 16 << 10,
    QUIET_MS = 3,
    OWNER_END_MS = 1000, /* of one that has closed its descriptors */
};

/* --- the report ---------------------------------------------------------------------------- */

/* -1: nobody is there any more, which is no reason to end without cleaning up. */
static int send_report(int fd, struct tn_buf *text)
{
    tn_buf_putc(text, '\n');
    signal(SIGPIPE, SIG_IGN);
    int r = tn_fs_write(fd, tn_buf_str(text), text->len, NULL);
    signal(SIGPIPE, SIG_DFL);
    close(fd);
    return r;
}

static uint64_t start_of(pid_t pid)
{
    struct tn_proc proc;
    return tn_proc_get(pid, &proc) < 0 ? 0 : proc.start;
}

static int report_success(int fd, const struct jail *j, pid_t pid)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(REPORT_MAX);
    struct tn_jw w = tn_jw(&text);

    tn_jw_object(&w);
    tn_jw_kint(&w, "pid", pid);
    tn_jw_kint(&w, "start", (int64_t)start_of(pid));
    tn_jw_kint(&w, "keeper", getpid());
    tn_jw_kint(&w, "keeper_start", (int64_t)start_of(getpid()));
    tn_jw_key(&w, "isolation");
    tn_jw_object(&w);
    tn_fields_to_json(&tn_jail_isolation_fields, &j->isolation, &w);
    tn_jw_object_end(&w);
    tn_jw_object_end(&w);
    return send_report(fd, &text);
}

static int report_failure(int fd, const char *step, const struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(REPORT_MAX);
    struct tn_jw w = tn_jw(&text);
    const struct tn_code_row *row = tn_code_row(err->code);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "error", err->text);
    tn_jw_kstr(&w, "step", step);
    tn_jw_kstr(&w, "code", row->name);
    tn_jw_kbool(&w, "out_of_memory", err->sys == ENOMEM);
    tn_jw_object_end(&w);
    send_report(fd, &text);
    return row->exit_code;
}

/* --- before the start ---------------------------------------------------------------------- */

static int read_plan(int fd, struct tn_jail_plan *plan, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(PLAN_MAX);
    tn_autojson struct tn_json *json = NULL;

    if (tn_fs_read_fd(fd, &text, err) < 0 ||
        tn_json_parse(tn_buf_str(&text), text.len, &json, err) < 0)
        return -1;
    return tn_jail_plan_from_json(json, plan, err);
}

static int follow_owner(struct jail *j, struct tn_error *err)
{
    pid_t pid = (pid_t)j->plan.owner_pid;

    if (pid == 0)
        return 0;
    j->owner = sys_pidfd_open(pid);
    if (j->owner < 0)
        return tn_fail_errno(err, errno, "owner %d", (int)pid);
    if (start_of(pid) != (uint64_t)j->plan.owner_start)
        return tn_fail(err, TN_E_GONE, "owner %d is gone", (int)pid);
    return 0;
}

/* Output goes through a pipe, so that the jail never holds a file of the host. */
static int open_output(struct jail *j, struct tn_error *err)
{
    int ends[2];

    if (!j->plan.log)
        return 0;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return tn_fail_errno(err, errno, "pipe");
    j->output = ends[0];
    j->child_output = ends[1];
    return 0;
}

static int check_descriptors(const struct tn_jail_plan *plan, struct tn_error *err)
{
    if (plan->files_fd && fcntl((int)plan->files_fd, F_GETFD) < 0)
        return tn_fail_errno(err, errno, "descriptor %lld of the plan", (long long)plan->files_fd);
    if (plan->vault_fd && fcntl((int)plan->vault_fd, F_GETFD) < 0)
        return tn_fail_errno(err, errno, "descriptor %lld of the plan", (long long)plan->vault_fd);
    for (size_t i = 0; i < plan->fds.count; i++)
        if (fcntl((int)plan->fds.items[i], F_GETFD) < 0)
            return tn_fail_errno(err, errno, "descriptor %lld of the plan",
                                 (long long)plan->fds.items[i]);
    return 0;
}

/* So that nothing else gets the number that the socket is to have. */
static int reserve_socket(const struct tn_jail_plan *plan, struct tn_error *err)
{
    int number = (int)plan->socket_fd;

    if (!plan->criu)
        return 0;
    if (fcntl(number, F_GETFD) >= 0)
        return tn_fail(err, TN_E_INVALID, "socket_fd: descriptor %d is taken", number);
    tn_autofd int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null == number)
        TN_TAKE_FD(null);
    else if (null < 0 || dup3(null, number, O_CLOEXEC) < 0)
        return tn_fail_errno(err, errno, "descriptor %d", number);
    return 0;
}

static bool has_capability(int cap)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];

    return syscall(SYS_capget, &header, data) == 0 && data[cap / 32].effective >> (cap % 32) & 1;
}

static int prepare(struct jail *j, struct tn_error *err)
{
    umask(0);
    if (reserve_socket(&j->plan, err) < 0)
        return -1;
    j->directory = open(j->plan.directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (j->directory < 0)
        return tn_fail_errno(err, errno, "%s", j->plan.directory);
    unlinkat(j->directory, "end.json", 0);
    if (check_descriptors(&j->plan, err) < 0 || follow_owner(j, err) < 0)
        return -1;
    if (j->plan.files_fd)
        fcntl((int)j->plan.files_fd, F_SETFD, FD_CLOEXEC);
    if (j->plan.vault_fd) {
        fcntl((int)j->plan.vault_fd, F_SETFD, FD_CLOEXEC);
        j->gate.vault = (int)j->plan.vault_fd;
    }
    return jail_open_door(j, err) < 0 ? -1 : open_output(j, err);
}

/* --- after it ------------------------------------------------------------------------------ */

/* Descriptors between the launcher and whoever started it; -1: none. */
struct ways {
    int plan, report, start, parcel;
};

/* Lets go of everything the keeper does not need: the jail's own descriptors above all, or nobody
 * would notice that it is gone. */
static void settle(struct jail *j, const struct ways *w)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    for (size_t i = 0; i < j->plan.fds.count; i++)
        if (j->plan.fds.items[i] != w->report)
            close((int)j->plan.fds.items[i]);
    if (j->plan.criu)
        close((int)j->plan.socket_fd);
    if (j->plan.files_fd)
        close((int)j->plan.files_fd);
    tn_close(w->start);
    tn_close(w->parcel);
    tn_close(TN_TAKE_FD(j->child_output));
    tn_close(TN_TAKE_FD(j->door.inside));
    for (int i = 0; null >= 0 && i < 3; i++)
        dup2(null, i);
    if (null > 2)
        close(null);
    if (chdir("/") < 0)
        return; /* then it stays where it is */
}

/* Whether the keeper will see the end of the owner, and remove everything. */
static bool owner_ends(const struct jail *j)
{
    struct pollfd p = {.fd = j->owner, .events = POLLIN};

    return j->owner >= 0 && poll(&p, 1, OWNER_END_MS) > 0;
}

/* Everything from the plan to the end; j is empty before, and to be freed after it. */
static int run(struct jail *j, const struct ways *w)
{
    struct tn_error err = {0};
    const char *step = "plan";
    int pidfd = -1;
    pid_t pid = -1;

    if (read_plan(w->plan, &j->plan, &err) < 0)
        return report_failure(w->report, step, &err);
    close(w->plan);
    j->shares = tn_jail_plan_shares(&j->plan);
    step = "prepare";
    if (prepare(j, &err) < 0 || jail_spawn(j, &pid, &pidfd, &step, &err) < 0) {
        if (j->listener >= 0)
            unlinkat(j->directory, TN_KEEPER_SOCKET, 0);
        return report_failure(w->report, step, &err);
    }
    if (report_success(w->report, j, pid) < 0 && !owner_ends(j))
        sys_pidfd_kill(pidfd); /* nobody wants it any more; the keeper clears up after it */
    setsid();
    settle(j, w);
    jail_clear_trash(j);
    return jail_keep(j, pid, pidfd);
}

static void begin(struct jail *j)
{
    *j = (struct jail){
        .userns = -1,
        .directory = -1,
        .storage = -1,
        .storage_mount = -1,
        .control = -1,
        .hand = -1,
        .runsc = -1,
        .sidecars = -1,
        .door = {-1, -1, -1, -1},
        .cpu_info = -1,
        .output = -1,
        .child_output = -1,
        .listener = -1,
        .log = -1,
        .owner = -1,
        .root = -1,
        .images = -1,
        .left_network = -1,
        .gate = TN_GATE_KEEPER_INIT,
    };
    for (int i = 0; i < JAIL_SYSTEM_MOUNTS; i++)
        j->system[i] = -1;
    tn_jail_plan_init(&j->plan);
    j->caller_uid = geteuid();
    j->caller_gid = getegid();
    j->privileged = j->caller_uid == 0 && has_capability(CAP_SYS_ADMIN);
    j->user_xattrs = !j->privileged || !tn_jail_in_first_userns();
}

static int launch(struct jail *j, const struct ways *w)
{
    fcntl(w->report, F_SETFD, FD_CLOEXEC);
    fcntl(w->start, F_SETFD, FD_CLOEXEC);
    int code = run(j, w);
    tn_cgroups_done(&j->cgroups);
    tn_jail_plan_done(&j->plan);
    return code;
}

static int usage(void)
{
    fputs("usage: tendon-jail PLAN_FD REPORT_FD [START_FD]\n"
          "       tendon-jail --parcel SOCKET_FD\n"
          "       tendon-jail --nursery SOCKET_FD\n"
          "       tendon-jail --enter ... (see enter.c)\n"
          "       tendon-jail --copy ... (see copy-own.c)\n"
          "       tendon-jail --container ... (see container.c)\n"
          "       tendon-jail --probe\n"
          "       tendon-jail --version\n",
          stderr);
    return 2;
}

static int number(const char *text)
{
    char *end;
    long value = strtol(text, &end, 10);

    return *text && !*end && value > 2 && value < 1 << 20 ? (int)value : -1;
}

/* Until the parcel comes there is time for what every jail needs. */
static int launch_by_parcel(struct jail *j, int socket)
{
    struct ways w = {.plan = TN_JAIL_PLAN_FD,
                     .report = TN_JAIL_REPORT_FD,
                     .start = TN_JAIL_START_FD,
                     .parcel = socket};
    struct tn_error err = {0};
    struct tn_proc self;

    fcntl(socket, F_SETFD, FD_CLOEXEC);
    if (tn_proc_get(getpid(), &self) < 0)
        return 1;
    if (send(socket, &self, sizeof self, MSG_NOSIGNAL) < 0)
        return 0; /* nobody is there any more */
    jail_prepare_launch(j);
    int r = tn_parcel_receive(socket, &err);
    if (r > 0)
        return launch(j, &w);
    tn_cgroups_done(&j->cgroups);
    tn_jail_plan_done(&j->plan);
    return r < 0;
}

/* When nobody has come for a while there is time for the network of the next jail: its launcher
 * will be born there.  Only the next one's: two jails must not meet in one. */
static int await_socket(struct jail *j, int socket)
{
    struct pollfd p = {.fd = socket, .events = POLLIN};

    if (poll(&p, 1, QUIET_MS) == 0 && j->privileged)
        jail_enter_network(j, NULL);
    return tn_parcel_receive(socket, NULL);
}

/* Forks a launcher for each socket that comes.  Nobody waits for them, and none needs a burial. */
static int nurse(struct jail *j, int socket)
{
    int r;

    signal(SIGCHLD, SIG_IGN);
    jail_find_groups(j);
    while ((r = await_socket(j, socket)) > 0) {
        pid_t pid = fork();
        if (pid == 0) {
            signal(SIGCHLD, SIG_DFL);
            close(socket);
            setsid();
            return launch_by_parcel(j, TN_PARCEL_FD);
        }
        close(TN_PARCEL_FD);
        if (jail_leave_network(j, NULL) < 0)
            return 1;
    }
    tn_cgroups_done(&j->cgroups);
    tn_jail_plan_done(&j->plan);
    return r < 0;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--version") == 0)
        return puts("tendon-jail " TN_VERSION) < 0;
    if (argc == 2 && strcmp(argv[1], "--probe") == 0)
        return jail_probe();
    if (argc > 1 && strcmp(argv[1], "--enter") == 0)
        return jail_enter_main(argc, argv);
    if (argc > 1 && strcmp(argv[1], "--copy") == 0)
        return jail_copy_own(argc, argv);
    if (argc > 1 && strcmp(argv[1], "--container") == 0)
        return jail_container_main(argc, argv);
    if (argc == 1 && getenv("CRTOOLS_SCRIPT_ACTION"))
        return jail_criu_action();
    struct jail j;
    begin(&j);
    if (argc == 3 && strcmp(argv[1], "--parcel") == 0 && number(argv[2]) > 0)
        return launch_by_parcel(&j, number(argv[2]));
    if (argc == 3 && strcmp(argv[1], "--nursery") == 0 && number(argv[2]) > 0)
        return nurse(&j, number(argv[2]));
    struct ways w = {.start = argc == 4 ? number(argv[3]) : -1, .parcel = -1};
    if ((argc != 3 && w.start < 0) || (w.plan = number(argv[1])) < 0 ||
        (w.report = number(argv[2])) < 0)
        return usage();
    return launch(&j, &w);
}
