/* tendon-jail --container DIRECTORY CONTAINER PID START GATE: the gate of a container.
 *
 * An engine has made the container with a network of its own that leads nowhere; PID, born at
 * START, is its first process.  The keeper raises the wall in that network, says "ok" (or what is
 * wrong, as a launcher reports it), and lives on as nobody's child until that process ends.  The
 * rules are in TN_JAIL_RULES of the directory, whose first line is the name of the network.  Where
 * standard input has the certificate of an authority, TN_JAIL_VAULT_FD is the vault of the gate.
 *
 * One container has one keeper: it holds TN_JAIL_KEEPER_LOCK, in which PID and START stand.  One
 * for the process that was before is ending, and is waited for. */
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/again.h"
#include "base/fd-pass.h"
#include "base/file-lock.h"
#include "base/fs.h"
#include "base/proc.h"
#include "gate/keeper-protocol.h"
#include "gate/keeper-socket.h"
#include "gate/keeper.h"
#include "gate/program.h"
#include "jail/cgroup.h"
#include "jail/enter.h"
#include "jail/jail.h"
#include "jail/sys.h"

enum {
    AUTHORITY_MAX = 16 << 10,
    LOCK_MS = 20,
};
#define LOCK_SECONDS 15.0
#define GATE_SECONDS 3.0
#define LOOK_SECONDS 60.0 /* how often its directory is looked at */

struct container {
    const char *name;       /* the engine's id */
    const char *path;       /* of the directory */
    struct tn_proc process; /* its first one */
    int directory, lock, pidfd, listener;
    int groups[TN_CGROUP_KINDS];
    struct tn_gate_keeper gate;
};

/* --- one keeper for one process ------------------------------------------------------------ */

static void process_text(const struct tn_proc *process, char *text, size_t size)
{
    snprintf(text, size, TN_JAIL_KEEPER_OF, (long long)process->pid,
             (unsigned long long)process->start);
}

/* 1: there is one already. */
static int take_lock(struct container *c, struct tn_error *err)
{
    int64_t deadline = tn_deadline_in(LOCK_SECONDS);
    char text[64], there[64];

    process_text(&c->process, text, sizeof text);
    c->lock =
        openat(c->directory, TN_JAIL_KEEPER_LOCK, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (c->lock < 0)
        return tn_fail_errno(err, errno, "%s/" TN_JAIL_KEEPER_LOCK, c->path);
    while (tn_byte_lock(c->lock, 0, 0, NULL) < 0) {
        ssize_t n = pread(c->lock, there, sizeof there - 1, 0);
        there[n < 0 ? 0 : n] = '\0';
        if (strcmp(there, text) == 0)
            return 1;
        if (!tn_look_again_in(LOCK_MS, deadline))
            return tn_fail(err, TN_E_TIMEOUT, "the keeper of the container before does not end");
    }
    return ftruncate(c->lock, 0) < 0 ? tn_fail_errno(err, errno, "%s", c->path) : 0;
}

/* Only one that has its sockets is there for others. */
static int sign_lock(const struct container *c, struct tn_error *err)
{
    char text[64];

    process_text(&c->process, text, sizeof text);
    if (pwrite(c->lock, text, strlen(text), 0) != (ssize_t)strlen(text))
        return tn_fail_errno(err, errno, "%s/" TN_JAIL_KEEPER_LOCK, c->path);
    return 0;
}

/* --- its network --------------------------------------------------------------------------- */

/* That the number is still who it was, and lives in the container. */
static int check_process(const struct container *c, struct tn_error *err)
{
    bool bears = *c->name && tn_proc_bears(c->process.pid, c->name);
    struct tn_proc now;

    if (tn_proc_get(c->process.pid, &now) < 0 || now.start != c->process.start)
        return tn_fail(err, TN_E_GONE, "the container has ended");
    if (!bears)
        return tn_fail(err, TN_E_CONFLICT, "process %d is not of the container",
                       (int)c->process.pid);
    return 0;
}

/* Its network, which is not that of this process: a wall here would cut off the machine. */
static int open_network(const struct container *c, struct tn_error *err)
{
    tn_autofree char *path = tn_asprintf("/proc/%d/ns/net", (int)c->process.pid);
    tn_autofd int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat ours, theirs;

    if (fd < 0 || fstat(fd, &theirs) < 0 || stat("/proc/self/ns/net", &ours) < 0)
        return tn_fail_errno(err, errno, "%s", path);
    if (ours.st_ino == theirs.st_ino && ours.st_dev == theirs.st_dev)
        return tn_fail(err, TN_E_CONFLICT, "the container is in the network of the host");
    return TN_TAKE_FD(fd);
}

/* The gate of a keeper that was killed dies with it, but not at once. */
static int raise_after_gate(struct container *c, struct tn_error *err)
{
    int64_t deadline = tn_deadline_in(GATE_SECONDS);
    int r;

    while ((r = tn_wall_raise_again(&c->gate.wall, err)) < 0 && err->sys == EADDRINUSE)
        if (!tn_look_again_in(LOCK_MS, deadline))
            break;
    return r;
}

/* What the child that raised the wall says; where fd is not -1 a socket comes with it. */
struct raised {
    int result;
    struct tn_error error;
    struct tn_wall wall;
};

/* An ordinary user has rights over the network in the user namespace that it belongs to, which is
 * this user's. */
static int raise_inside(struct container *c, int network, struct tn_error *err)
{
    if (jail_become_owner(network, err) < 0)
        return -1;
    if (setns(network, CLONE_NEWNET) < 0)
        return tn_fail_errno(err, errno, "network of the container");
    return jail_prepare_loopback(err) < 0 ? -1 : raise_after_gate(c, err);
}

static _Noreturn void raise_and_tell(struct container *c, int network, int socket)
{
    struct raised told = {0};
    int fds[TN_WALL_SOCKETS];
    size_t count = 0;

    told.result = raise_inside(c, network, &told.error);
    told.wall = c->gate.wall;
    for (int i = 0; told.result == 0 && i < TN_WALL_SOCKETS; i++)
        if (told.wall.fd[i] >= 0)
            fds[count++] = told.wall.fd[i];
    _exit(tn_fd_send(socket, &told, sizeof told, fds, count, 0) < 0);
}

static int take_wall(struct container *c, int socket, struct tn_error *err)
{
    struct raised told;
    int fds[TN_WALL_SOCKETS];
    size_t count = TN_WALL_SOCKETS, used = 0;

    if (tn_fd_receive(socket, &told, sizeof told, fds, &count, 0) != (ssize_t)sizeof told)
        return tn_fail(err, TN_E_INTERNAL, "who was to raise the wall has ended");
    if (told.result < 0)
        *err = told.error;
    for (int i = 0; told.result == 0 && i < TN_WALL_SOCKETS; i++)
        c->gate.wall.fd[i] = told.wall.fd[i] >= 0 ? fds[used++] : -1;
    return told.result;
}

/* By a child: nobody comes back from a user namespace, and no gate must be born in there. */
static int raise_wall(struct container *c, struct tn_error *err)
{
    tn_autofd int network = open_network(c, err);
    int ends[2];

    /* Looked at last: whose network was opened is the one of who is still there. */
    if (network < 0 || check_process(c, err) < 0)
        return -1;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return tn_fail_errno(err, errno, "socket pair");
    tn_autofd int ours = ends[0], theirs = ends[1];
    pid_t pid = fork();
    if (pid == 0)
        raise_and_tell(c, network, theirs);
    tn_close(TN_TAKE_FD(theirs));
    int r = pid < 0 ? tn_fail_errno(err, errno, "fork") : take_wall(c, ours, err);
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return r;
}

/* --- whom it believes ---------------------------------------------------------------------- */

static int take_authority(struct container *c, struct tn_buf *authority, struct tn_error *err)
{
    if (tn_fs_read_fd(STDIN_FILENO, authority, err) < 0)
        return -1;
    if (!authority->len)
        return 0;
    if (fcntl(TN_JAIL_VAULT_FD, F_SETFD, FD_CLOEXEC) < 0)
        return tn_fail_errno(err, errno, "the vault");
    c->gate.vault = TN_JAIL_VAULT_FD;
    return 0;
}

static int show_authority(const struct container *c, const char *authority, struct tn_error *err)
{
    tn_autofree char *process = tn_asprintf("/proc/%d", (int)c->process.pid);
    tn_autofd int of = open(process, O_PATH | O_DIRECTORY | O_CLOEXEC);
    tn_autofd int root = openat(of, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
    tn_autofd int mounts = openat(of, "ns/mnt", O_RDONLY | O_CLOEXEC);

    if (root < 0 || mounts < 0)
        return tn_fail_errno(err, errno, "%s", process);
    return check_process(c, err) < 0
               ? -1
               : jail_show_roots_of_container(c->directory, root, mounts, authority, err);
}

/* --- its gate ------------------------------------------------------------------------------ */

static int open_group(void *ctx)
{
    const struct container *c = ctx;

    return fcntl(c->groups[TN_CGROUP_UNIFIED], F_DUPFD_CLOEXEC, 0);
}

static int join_groups(void *ctx, bool born)
{
    const struct container *c = ctx;

    for (int i = 0; i < TN_CGROUP_KINDS; i++) {
        if (c->groups[i] < 0 || (born && i == TN_CGROUP_UNIFIED))
            continue;
        tn_autofd int procs = openat(c->groups[i], "cgroup.procs", O_WRONLY | O_CLOEXEC);
        /* An ordinary user may move nobody out of the group that a login has: then it stays there. */
        if ((procs < 0 || write(procs, "0", 1) < 0) && geteuid() == 0)
            return -1;
    }
    return 0;
}

static int find_groups(struct container *c, struct tn_error *err)
{
    tn_autocgroups struct tn_cgroups groups = {0};

    if (tn_cgroups_find(&groups, err) < 0)
        return -1;
    return tn_cgroups_of(&groups, c->process.pid, c->name, c->groups, err) < 0 ? -1 : 0;
}

static int read_rules(const struct container *c, struct tn_buf *rules, struct tn_error *err)
{
    return tn_fs_read(c->directory, TN_JAIL_RULES, rules, err);
}

static int begin_gate(struct container *c, const char *program, struct tn_error *err)
{
    static const struct tn_gate_groups groups = {.open = open_group, .join = join_groups};
    tn_autobuf struct tn_buf rules = TN_BUF_INIT(TN_GATE_SETTINGS_MAX);

    if (read_rules(c, &rules, err) < 0 || find_groups(c, err) < 0)
        return -1;
    c->gate.program = program;
    c->gate.groups = &groups;
    c->gate.ctx = c;
    c->gate.log = openat(c->directory, "gate.log",
                         O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    return tn_gate_keeper_begin(&c->gate, tn_buf_str(&rules), err);
}

/* --- requests ------------------------------------------------------------------------------ */

static void answer_rules(struct container *c, int socket)
{
    tn_autobuf struct tn_buf rules = TN_BUF_INIT(TN_GATE_SETTINGS_MAX);
    struct tn_error err = {0};
    int r = read_rules(c, &rules, &err);

    keeper_answer_result(
        socket, r < 0 ? r : tn_gate_keeper_reload(&c->gate, tn_buf_str(&rules), &err), &err);
}

static void serve(struct container *c)
{
    char line[KEEPER_REQUEST_MAX];
    tn_autofd int socket = keeper_accept(c->listener, line, sizeof line);

    if (socket < 0 || keeper_serve_gate(&c->gate, socket, line))
        return;
    if (strcmp(line, TN_KEEPER_RULES "\n") == 0)
        answer_rules(c, socket);
    else
        keeper_answer(socket, "unknown\n", -1);
}

/* --- its life ------------------------------------------------------------------------------ */

/* Somebody has removed its directory: no store knows the container any more. */
static bool is_lost(const struct container *c)
{
    struct stat st;

    return fstat(c->directory, &st) == 0 && st.st_nlink == 0;
}

static int keep(struct container *c)
{
    enum { END, REQUEST, GATE, COUNT = GATE + TN_GATE_KEEPER_POLLS };
    struct pollfd p[COUNT] = {
        [END] = {.fd = c->pidfd, .events = POLLIN},
        [REQUEST] = {.fd = c->listener, .events = POLLIN},
    };

    while (!is_lost(c)) {
        int64_t look = tn_deadline_in(LOOK_SECONDS);
        int64_t next = tn_gate_keeper_watch(&c->gate, p + GATE);
        int n = poll(p, COUNT, tn_poll_ms(next < look ? next : look));
        if (n < 0 && errno != EINTR)
            break;
        if (n <= 0)
            continue;
        if (p[END].revents)
            break;
        tn_gate_keeper_serve(&c->gate, p + GATE);
        if (p[REQUEST].revents)
            serve(c);
    }
    tn_gate_keeper_end(&c->gate);
    unlinkat(c->directory, TN_KEEPER_SOCKET, 0);
    return 0;
}

static int prepare(struct container *c, const char *gate, struct tn_error *err)
{
    tn_autobuf struct tn_buf authority = TN_BUF_INIT(AUTHORITY_MAX);

    c->directory = open(c->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (c->directory < 0)
        return tn_fail_errno(err, errno, "%s", c->path);
    int there = take_lock(c, err);
    if (there)
        return there;
    c->pidfd = sys_pidfd_open(c->process.pid);
    if (c->pidfd < 0)
        return tn_fail(err, TN_E_GONE, "the container has ended");
    if (take_authority(c, &authority, err) < 0 || begin_gate(c, gate, err) < 0 ||
        (authority.len && show_authority(c, tn_buf_str(&authority), err) < 0) ||
        raise_wall(c, err) < 0)
        return -1;
    c->listener = keeper_listen(c->directory, c->path, err);
    return c->listener < 0 ? -1 : sign_lock(c, err);
}

static int fail(const struct tn_error *err)
{
    printf("%s %s\n", tn_code_row(err->code)->name, err->text);
    return tn_code_row(err->code)->exit_code;
}

static _Noreturn void live_on(struct container *c)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    setsid();
    for (int i = 0; null >= 0 && i < 3; i++)
        dup2(null, i);
    _exit(chdir("/") < 0 ? 1 : keep(c));
}

int jail_container_main(int argc, char **argv)
{
    struct container c = {
        .directory = -1, .lock = -1, .pidfd = -1, .listener = -1, .gate = TN_GATE_KEEPER_INIT};
    struct tn_error err = {0};

    if (argc != 8)
        return 2;
    c.path = argv[2];
    c.name = argv[3];
    c.process = (struct tn_proc){.pid = (pid_t)strtol(argv[4], NULL, 10),
                                 .start = strtoull(argv[5], NULL, 10)};
    c.gate.ask_seconds = strtod(argv[7], NULL);
    signal(SIGPIPE, SIG_IGN);
    int there = prepare(&c, argv[6], &err);
    if (there < 0)
        return fail(&err);
    pid_t pid = there ? -1 : fork();
    if (!there && pid < 0) {
        tn_fail_errno(&err, errno, "fork");
        return fail(&err);
    }
    if (pid == 0)
        live_on(&c);
    return puts("ok") < 0;
}
