/* The keeper: the launcher after the start.  It waits for the end of the jail and for the end of
 * its owner, answers on its socket, passes the program's output on, and cleans up.  When the keeper
 * is killed the kernel kills the jail. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"
#include "base/fs.h"
#include "gate/keeper-protocol.h"
#include "gate/keeper-socket.h"
#include "jail/criu.h"
#include "jail/gate.h"
#include "jail/sys.h"

enum {
    ANSWER_MAX = 1024,
    LOG_BYTES = 16 << 20, /* nobody fills the host's disk by way of a log */
};
#define END_SECONDS 10.0
#define LOOK_SECONDS 60.0 /* how often its directory is looked at */

struct keeper {
    struct jail *jail;
    pid_t pid;
    int pidfd;
    int copier;       /* pidfd of who has frozen it last in order to copy; -1: nobody */
    int64_t deadline; /* of the jail */
    bool timed_out;
    bool orphaned; /* its owner is gone */
};

/* --- requests ------------------------------------------------------------------------------ */

int jail_open_keeper(struct jail *j, struct tn_error *err)
{
    if (j->plan.log)
        j->log = open(j->plan.log, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (j->plan.log && j->log < 0)
        return tn_fail_errno(err, errno, "log %s", j->plan.log);
    j->listener = keeper_listen(j->directory, j->plan.directory, err);
    return j->listener < 0 ? -1 : 0;
}

static void answer_status(struct keeper *k, int socket)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(ANSWER_MAX);
    struct tn_jw w = tn_jw(&text);
    struct tn_cgroup_events events;

    tn_cgroup_events(&k->jail->cgroups, k->jail->plan.id, &events);
    tn_jw_object(&w);
    tn_jw_kint(&w, "pid", k->pid);
    tn_jw_kstr(&w, "gvisor", tn_jail_platforms[k->jail->plan.platform]);
    tn_jw_kint(&w, "oom_kills", events.oom_kills);
    tn_jw_kint(&w, "pids_hits", events.pids_hits);
    if (k->deadline == TN_NEVER)
        tn_jw_knull(&w, "wall_left");
    else
        tn_jw_kdouble(&w, "wall_left", (double)(k->deadline - tn_now()) / 1e9);
    tn_jw_object_end(&w);
    tn_buf_putc(&text, '\n');
    keeper_answer(socket, tn_buf_str(&text), -1);
}

static void answer_storage(struct keeper *k, int socket)
{
    keeper_answer(socket, "ok\n", k->jail->storage);
}

static void answer_end(struct keeper *k, int socket)
{
    sys_pidfd_kill(k->pidfd);
    keeper_answer(socket, "ok\n", -1);
}

static void answer_suspend(struct keeper *k, int socket)
{
    struct tn_error err = {0};

    keeper_answer_result(socket, jail_suspend(k->jail, k->pid, k->pidfd, &err), &err);
}

static void answer_rules(struct keeper *k, int socket)
{
    struct tn_error err = {0};

    keeper_answer_result(socket, jail_gate_reload(k->jail, &err), &err);
}

static void answer_name(struct keeper *k, int socket, const char *name)
{
    struct tn_error err = {0};

    keeper_answer_result(socket, jail_take_name(k->jail, k->pid, k->pidfd, name, &err), &err);
}

static void answer_copying(struct keeper *k, int socket)
{
    struct ucred peer;
    socklen_t size = sizeof peer;

    tn_close(TN_TAKE_FD(k->copier));
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0)
        k->copier = sys_pidfd_open(peer.pid);
    keeper_answer(socket, "ok\n", -1);
}

/* Nobody else would thaw it before somebody wants something of it. */
static void thaw_abandoned(struct keeper *k)
{
    const struct jail *j = k->jail;

    tn_close(TN_TAKE_FD(k->copier));
    if (faccessat(j->directory, TN_KEEPER_COPYING, F_OK, AT_SYMLINK_NOFOLLOW) == 0 &&
        tn_cgroup_freeze(&j->cgroups, j->plan.id, false, tn_deadline_in(END_SECONDS), NULL) == 0)
        unlinkat(j->directory, TN_KEEPER_COPYING, 0);
}

static const struct {
    const char *request;
    void (*answer)(struct keeper *k, int socket);
} requests[] = {
    {TN_KEEPER_STATUS "\n", answer_status},   {TN_KEEPER_STORAGE "\n", answer_storage},
    {TN_KEEPER_SUSPEND "\n", answer_suspend}, {TN_KEEPER_COPYING "\n", answer_copying},
    {TN_KEEPER_RULES "\n", answer_rules},     {TN_KEEPER_END "\n", answer_end},
};

static void serve(struct keeper *k)
{
    char line[KEEPER_REQUEST_MAX];
    tn_autofd int socket = keeper_accept(k->jail->listener, line, sizeof line);

    if (socket < 0)
        return;
    if (keeper_serve_gate(&k->jail->gate, socket, line))
        return;
    if (strncmp(line, TN_KEEPER_NAME, strlen(TN_KEEPER_NAME)) == 0 && strchr(line, '\n')) {
        line[strcspn(line, "\n")] = '\0';
        answer_name(k, socket, line + strlen(TN_KEEPER_NAME));
        return;
    }
    for (size_t i = 0; i < TN_COUNT(requests); i++) {
        if (strcmp(line, requests[i].request) == 0) {
            requests[i].answer(k, socket);
            return;
        }
    }
    keeper_answer(socket, "unknown\n", -1);
}

/* --- output -------------------------------------------------------------------------------- */

/* False at its end. */
static bool pass_on(int pipe, int log)
{
    static const char full[] = "\ntendon-jail: the log is full, the rest is lost\n";
    char bytes[4096];
    struct stat st;
    ssize_t n = read(pipe, bytes, sizeof bytes);

    if (n <= 0)
        return n < 0 && (errno == EAGAIN || errno == EINTR);
    if (fstat(log, &st) < 0 || st.st_size >= LOG_BYTES)
        return true;
    tn_fs_write(log, bytes, (size_t)n, NULL);
    if (st.st_size + n >= LOG_BYTES)
        tn_fs_write(log, full, strlen(full), NULL);
    return true;
}

/* --- signals ------------------------------------------------------------------------------- */

/* Whoever asks the keeper to stop wants its jail to stop. */
static int catch_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC);
}

/* --- the end ------------------------------------------------------------------------------- */

static void note_end(const struct keeper *k, int status)
{
    const struct jail *j = k->jail;
    struct tn_cgroup_events events;
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    tn_cgroup_events(&j->cgroups, j->plan.id, &events);
    struct tn_jail_end end = {
        .status = {.set = WIFEXITED(status), .value = WEXITSTATUS(status)},
        .signal = {.set = WIFSIGNALED(status), .value = WTERMSIG(status)},
        .oom_kills = events.oom_kills,
        .pids_hits = events.pids_hits,
        .wall_time = k->timed_out,
        .at = (double)now.tv_sec + (double)now.tv_nsec / 1e9,
    };
    tn_jail_end_write(j->directory, &end, NULL);
}

/* The whole directory, links removed and never followed, nothing that is mounted. */
static void remove_directory(const struct jail *j)
{
    tn_autofree char *path = tn_strdup(j->plan.directory);
    char *slash;

    while ((slash = strrchr(path, '/')) && slash[1] == '\0' && slash > path)
        *slash = '\0';
    if (!slash || slash == path)
        return;
    *slash = '\0';
    tn_autofd int parent = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (parent >= 0)
        tn_fs_remove_tree(parent, slash + 1, 0, NULL);
}

static int finish(struct keeper *k)
{
    struct jail *j = k->jail;
    int status = 0;

    while (waitpid(k->pid, &status, 0) < 0 && errno == EINTR)
        ;
    note_end(k, status);
    tn_gate_keeper_end(&j->gate);
    /* With PID 1 the kernel has ended everybody else; this is for what is still on its way out. */
    tn_cgroup_kill(&j->cgroups, j->plan.id, tn_deadline_in(END_SECONDS), NULL);
    tn_cgroup_remove(&j->cgroups, j->plan.id, tn_deadline_in(END_SECONDS), NULL);
    tn_close(TN_TAKE_FD(j->storage)); /* a tmpfs goes with it */
    if (k->orphaned)
        remove_directory(j);
    else
        unlinkat(j->directory, TN_KEEPER_SOCKET, 0);
    return 0;
}

static void end_jail(struct keeper *k)
{
    /* A frozen jail dies too: cgroup.kill does not ask, and neither does the death of PID 1; the v1
     * freezer must let go first. */
    tn_cgroup_freeze(&k->jail->cgroups, k->jail->plan.id, false, tn_now(), NULL);
    sys_pidfd_kill(k->pidfd);
}

/* Somebody has removed its directory: nobody can find it any more, and no store knows it.  (An
 * inotify for each jail would use up what the kernel allows.) */
static bool is_lost(const struct jail *j)
{
    struct stat st;

    return fstat(j->directory, &st) == 0 && st.st_nlink == 0;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int jail_keep(struct jail *j, pid_t pid, int pidfd)
{
    struct keeper k = {
        .jail = j,
        .pid = pid,
        .pidfd = pidfd,
        .copier = -1,
        .deadline = j->plan.wall_time > 0 ? tn_deadline_in(j->plan.wall_time) : TN_NEVER,
    };
    enum {
        END,
        OWNER,
        REQUEST,
        OUTPUT,
        SIGNAL,
        COPIER,
        DOOR,
        GATE,
        COUNT = GATE + TN_GATE_KEEPER_POLLS
    };
    struct pollfd p[COUNT] = {
        [END] = {.fd = pidfd, .events = POLLIN},
        [OWNER] = {.fd = j->owner, .events = POLLIN},
        [REQUEST] = {.fd = j->listener, .events = POLLIN},
        [OUTPUT] = {.fd = j->output, .events = POLLIN},
        [SIGNAL] = {.fd = catch_signals(), .events = POLLIN},
        [COPIER] = {.fd = -1, .events = POLLIN},
    };

    j->gate.log = j->log;
    for (;;) {
        p[COPIER].fd = k.copier;
        jail_poll_door(&j->door, &p[DOOR]);
        int64_t next = earlier(k.deadline, tn_deadline_in(LOOK_SECONDS));
        int n = poll(p, COUNT, tn_poll_ms(earlier(next, tn_gate_keeper_watch(&j->gate, p + GATE))));
        if (n < 0 && errno != EINTR)
            break;
        bool lost = p[SIGNAL].fd >= 0 && is_lost(j);
        if (n <= 0 && !lost && (k.deadline == TN_NEVER || tn_now() < k.deadline))
            continue;
        if (p[OUTPUT].revents && !pass_on(j->output, j->log))
            p[OUTPUT].fd = -1;
        if (p[END].revents)
            break;
        tn_gate_keeper_serve(&j->gate, p + GATE);
        if (p[COPIER].revents)
            thaw_abandoned(&k);
        if (p[REQUEST].revents)
            serve(&k);
        if (p[DOOR].revents)
            jail_serve_door(&j->door);
        bool late = k.deadline != TN_NEVER && tn_now() >= k.deadline;
        if (p[OWNER].revents || p[SIGNAL].revents || late || lost) {
            k.orphaned = p[OWNER].revents != 0;
            k.timed_out = late && !k.orphaned;
            k.deadline = TN_NEVER;
            p[OWNER].fd = p[SIGNAL].fd = -1;
            end_jail(&k);
        }
    }
    while (p[OUTPUT].fd >= 0 && poll(&p[OUTPUT], 1, 0) > 0 && pass_on(j->output, j->log))
        ;
    return finish(&k);
}
