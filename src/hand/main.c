/* tendon-hand: start-up, signals, the end.
 *
 * The main thread only waits for signals, so that children are reaped from the first moment (this
 * may be PID 1). A second thread starts everything up; from then on each connection has its own. */
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/proc.h"
#include "base/thread.h"
#include "hand/browser/download.h"
#include "hand/file/confine.h"
#include "hand/file/edit.h"
#include "hand/hand.h"
#include "hand/mcp/gateway.h"
#include "hand/owner.h"
#include "hand/plugin.h"
#include "hand/process/process.h"
#include "hand/routes.h"
#include "hand/viewer.h"
#include "net/listen.h"

enum {
    SESSIONS_MAX = 64,
    KEYS_MAX = 4096,         /* of actions that were carried out */
    ANSWERS_BYTES = 1 << 20, /* of these keys and their answers */
    VIEWER_PORTS = 40000,    /* after this one, where no PORT says otherwise */
    NOBODYS_UID = 65533,     /* within what a range of 65536 maps, and no account's */
};
#define STOP_SECONDS 2.0
#define GRACE_SECONDS 2.0
#define GIVE_UP_SECONDS 8.0

struct process {
    struct tn_hand hand;
    struct tn_http_server *server;
    struct tn_http_server *viewer;
    pthread_t starter;
    size_t bound; /* how many of --listen are ours by now */
    bool failed;
};

/* --- start-up ------------------------------------------------------------------------------- */

static int open_listener(struct tn_http_server *server, const char *text, bool has_key,
                         struct tn_error *err)
{
    struct tn_listen_address address;

    if (tn_listen_parse(text, &address, err) < 0)
        return -1;
    if (!has_key && address.kind == TN_LISTEN_TCP && !address.loopback)
        tn_log(
            TN_LOG_WARN,
            "listening beyond this machine without a key: anybody who can connect has a shell here",
            tn_log_str("address", text));
    int fd = tn_listen_open(&address, err);
    if (fd < 0 || tn_http_server_listen(server, fd, err) < 0)
        return tn_error_context(err, "listen on %s", text);
    tn_log(TN_LOG_INFO, "listening", tn_log_str("address", text));
    return 0;
}

/* --listen names that port already, perhaps on more interfaces. */
static bool listens_on(const struct tn_hand_options *o, int port)
{
    struct tn_listen_address address;

    for (size_t i = 0; i < o->listen.count; i++) {
        if (tn_listen_parse(o->listen.items[i], &address, NULL) == 0 &&
            address.kind == TN_LISTEN_TCP && address.port == port)
            return true;
    }
    return false;
}

static int open_listeners(struct process *p, struct tn_error *err)
{
    const struct tn_hand_options *o = &p->hand.options;
    bool has_key = tn_hand_has_key(o);
    char address[32];

    for (size_t i = 0; i < o->listen.count; i++) {
        if (open_listener(p->server, o->listen.items[i], has_key, err) < 0)
            return -1;
        p->bound++;
    }
    if (o->port == 0 || listens_on(o, (int)o->port))
        return 0;
    snprintf(address, sizeof address, "%s:%d", has_key ? "0.0.0.0" : "127.0.0.1", (int)o->port);
    return open_listener(p->server, address, has_key, err);
}

static void be_ready(struct tn_hand *hand)
{
    __atomic_store_n(&hand->ready, true, __ATOMIC_RELEASE);
    eventfd_write(hand->becoming_ready, 1);
}

/* Waits for the shell's own start-up files, which may do anything; readiness waits for them only so
 * long.  Afterwards, and in an image without the shell, the hand is still good for files and for
 * sessions with another one: each action that needs the shell says what is missing. */
static void wait_for_main_session(struct tn_hand *hand, struct tn_session *session)
{
    struct tn_error err;
    int r = tn_session_start(session, tn_deadline_in(hand->options.ready_seconds), &err);

    if (r < 0 && err.code == TN_E_TIMEOUT) {
        tn_log(TN_LOG_WARN, "ready without the main shell", tn_log_str("reason", err.text));
        be_ready(hand);
        r = tn_session_start(session, TN_NEVER, &err);
    }
    if (r < 0)
        tn_log(TN_LOG_WARN, "no shell in the main session", tn_log_str("reason", err.text));
    if (!hand->ready)
        be_ready(hand);
    tn_session_unref(session);
}

static void start_viewer(struct process *p, int after)
{
    struct tn_error err;

    p->viewer = tn_viewer_start(after, p->hand.options.viewer_secret, &p->hand.user, &err);
    if (!p->viewer)
        tn_log(TN_LOG_WARN, "no file viewer", tn_log_str("reason", err.text));
}

/* All that an action needs, and then the doors. */
static int open_for_actions(struct process *p, struct tn_error *err)
{
    struct tn_hand *hand = &p->hand;
    const struct tn_editor_options editor = {
        .history_dir = tn_state_undo(hand->state),
        .workspace_root = hand->options.working_dir,
    };

    if (tn_state_complete(hand->state, hand->user.account.gid, err) < 0)
        return -1;
    hand->editor = tn_editor_new(&editor, err);
    if (!hand->editor)
        return -1;
    hand->once = tn_once_new(KEYS_MAX, ANSWERS_BYTES);
    if (hand->options.downloads && hand->options.enable_browser && download_prepare(hand, err) < 0)
        return -1;
    __atomic_store_n(&hand->plugins, tn_plugins_open(hand), __ATOMIC_RELEASE);
    p->server = tn_hand_server(hand);
    return open_listeners(p, err);
}

static int start(struct process *p, struct tn_error *err)
{
    struct tn_hand *hand = &p->hand;
    const struct tn_hand_options *o = &hand->options;

    if (tn_agent_user_set_up(o, &hand->user, err) < 0 ||
        (o->confine && tn_confine(o->working_dir, err) < 0))
        return -1;
    if (o->port && !o->confine) /* it shows any file */
        start_viewer(p, (int)o->port);
    hand->started = hand->last_action = tn_now();
    const struct tn_user *account = &hand->user.account;
    hand->state = tn_state_new(NULL, err);
    if (!hand->state)
        return -1;
    const char *shell = tn_agent_shell(o->shell);
    hand->shell_env = tn_agent_env(&hand->user, shell, tn_state_id(hand->state));
    struct tn_session_options defaults = {
        .name = TN_MAIN_SESSION,
        .program = shell,
        .cwd = o->working_dir,
        .env = hand->shell_env,
        .uid = account->uid,
        .gid = account->gid,
        .groups = hand->user.groups,
        .group_count = hand->user.group_count,
        .switch_user = hand->user.switch_user,
        .no_change_seconds = o->no_change_seconds,
        .output_directory = tn_state_outputs(hand->state),
        .setup = "alias git=\"git --no-pager\"",
    };
    /* The shell takes longest to be ready, so it comes first; its state directory is there by now
     * because whoever cleans up after us finds its processes by that. */
    struct tn_sessions *sessions = tn_sessions_new(&defaults, SESSIONS_MAX);
    __atomic_store_n(&hand->sessions, sessions, __ATOMIC_RELEASE);
    struct tn_session *session = tn_sessions_ensure(sessions, TN_MAIN_SESSION, err);
    if (!session)
        return -1;
    const struct tn_process_options processes = {
        .user = &hand->user, .env = hand->shell_env, .cwd = o->working_dir};
    __atomic_store_n(&hand->processes, tn_processes_new(&processes), __ATOMIC_RELEASE);
    tn_session_begin(session); /* its shell reads its files while we go on */
    if (open_for_actions(p, err) < 0) {
        tn_session_unref(session);
        return -1;
    }
    tn_plugins_start(hand);
    wait_for_main_session(hand, session);
    if (o->viewer && !o->port && !o->confine) {
        sched_yield(); /* others waited for us; nobody waits for this */
        start_viewer(p, VIEWER_PORTS);
    }
    return 0;
}

static void *start_thread(void *arg)
{
    struct process *p = arg;
    struct tn_error err = {0};

    if (start(p, &err) < 0) {
        tn_log(TN_LOG_ERROR, err.text);
        p->failed = true;
        kill(getpid(), SIGTERM);
    }
    return NULL;
}

/* --- the end -------------------------------------------------------------------------------- */

/* The shells of sessions must not go on to their next command when the present one is ended. */
struct shells {
    pid_t pids[SESSIONS_MAX];
    size_t count;
};

static void stop_shell(struct tn_session *session, void *ctx)
{
    struct shells *shells = ctx;
    struct tn_session_state state;

    tn_session_inspect(session, &state);
    if (state.pid > 0 && shells->count < SESSIONS_MAX && kill(state.pid, SIGSTOP) == 0)
        shells->pids[shells->count++] = state.pid;
}

static bool is_shell(const struct shells *shells, pid_t pid)
{
    for (size_t i = 0; i < shells->count; i++) {
        if (shells->pids[i] == pid)
            return true;
    }
    return false;
}

/* What agents started: TERM, then KILL.  Then the shells, which heed a hangup. */
static void end_children(struct tn_hand *hand, double grace)
{
    tn_autofree struct tn_proc *below = NULL;
    struct shells shells = {0};
    struct tn_error err;
    size_t n = 0, others = 0;

    struct tn_sessions *sessions =
        __atomic_load_n(&hand->sessions, __ATOMIC_ACQUIRE); /* may just come up */
    if (sessions)
        tn_sessions_each(sessions, stop_shell, &shells);
    tn_proc_descendants(getpid(), &below, &n, NULL);
    for (size_t i = 0; i < n; i++) {
        if (!is_shell(&shells, below[i].pid))
            below[others++] = below[i];
    }
    if (others)
        tn_proc_kill(below, others, tn_deadline_in(grace), tn_deadline_in(grace + 1), NULL);
    for (size_t i = 0; i < shells.count; i++) {
        kill(shells.pids[i], SIGHUP);
        kill(shells.pids[i], SIGCONT);
    }
    if (tn_proc_kill_tree(getpid(), false, tn_deadline_in(grace / 4), tn_deadline_in(grace / 4 + 1),
                          &err) < 0)
        tn_log(TN_LOG_ERROR, err.text);
    tn_reaper_collect();
}

/* Only what this process has bound: another one may listen at the path that we could not get. */
static void remove_sockets(const struct process *p)
{
    struct tn_listen_address address;

    for (size_t i = 0; i < p->bound; i++) {
        if (tn_listen_parse(p->hand.options.listen.items[i], &address, NULL) == 0 &&
            address.kind == TN_LISTEN_UNIX)
            unlink(address.path);
    }
}

/* --- the other threads, while this one goes on reaping --- */

struct stopping {
    struct process *process;
    bool quiet; /* no thread is left that could use what will be freed */
};

static void *stop_threads(void *arg)
{
    struct stopping *s = arg;
    struct process *p = s->process;

    pthread_join(p->starter, NULL);
    tn_plugins_interrupt(&p->hand);
    s->quiet = (!p->server || tn_http_server_stop(p->server, STOP_SECONDS) == 0) &&
               (!p->viewer || tn_http_server_stop(p->viewer, STOP_SECONDS) == 0);
    if (s->quiet)
        tn_plugins_close(&p->hand);
    return NULL;
}

/* Ends the children, whose end releases the threads that wait for them, and then those. */
static bool stop_everything(struct process *p)
{
    struct stopping stopping = {.process = p};
    pthread_t stopper;

    struct tn_sessions *sessions = __atomic_load_n(&p->hand.sessions, __ATOMIC_ACQUIRE);

    if (sessions)
        tn_sessions_close(sessions);
    struct tn_processes *processes = __atomic_load_n(&p->hand.processes, __ATOMIC_ACQUIRE);
    if (processes)
        tn_processes_close(processes);
    tn_plugins_interrupt(&p->hand);
    end_children(&p->hand, GRACE_SECONDS);
    if (tn_thread_start(&stopper, stop_threads, &stopping) != 0)
        return false;
    int64_t deadline = tn_deadline_in(GIVE_UP_SECONDS);
    for (;;) {
        struct timespec moment;
        clock_gettime(CLOCK_REALTIME, &moment);
        moment.tv_nsec += 20 * TN_MILLI;
        if (moment.tv_nsec >= TN_SECOND) {
            moment.tv_nsec -= TN_SECOND;
            moment.tv_sec++;
        }
        if (pthread_timedjoin_np(stopper, NULL, &moment) == 0)
            return stopping.quiet;
        if (tn_now() > deadline)
            return false;
        end_children(&p->hand, 0); /* what a thread started meanwhile */
    }
}

/* False when threads are left that could still use what would be freed. */
static bool stop(struct process *p)
{
    struct tn_hand *hand = &p->hand;
    bool quiet = stop_everything(p);

    /* A shell that came up at the last moment: who frees it waits for its end, which only this
     * thread can tell. */
    end_children(hand, 0);
    if (quiet) {
        if (p->server)
            tn_http_server_free(p->server);
        if (p->viewer)
            tn_http_server_free(p->viewer);
        tn_sessions_free(TN_TAKE_PTR(hand->sessions));
        tn_processes_free(TN_TAKE_PTR(hand->processes));
        tn_editor_free(hand->editor);
    }
    end_children(hand, 0);
    remove_sockets(p);
    if (p->viewer)
        tn_viewer_withdraw();
    tn_state_free(hand->state);
    if (!quiet)
        return false;
    tn_close(hand->becoming_ready);
    tn_once_free(hand->once);
    tn_agent_env_free(hand->shell_env);
    tn_agent_user_done(&hand->user);
    tn_fields_done(&tn_hand_fields, &hand->options);
    return true;
}

static void wait_for_end(int reaper, int owner, const sigset_t *signals)
{
    tn_autofd int arrived = signalfd(-1, signals, SFD_CLOEXEC);
    struct pollfd fds[] = {{.fd = reaper, .events = POLLIN},
                           {.fd = arrived, .events = POLLIN},
                           {.fd = owner, .events = POLLIN}};

    for (;;) {
        if (poll(fds, 3, -1) < 0)
            continue;
        if (fds[0].revents)
            tn_reaper_collect();
        if (fds[2].revents) {
            tn_log(TN_LOG_INFO, "stopping: the owner has ended");
            return;
        }
        struct signalfd_siginfo info;
        if (fds[1].revents && read(arrived, &info, sizeof info) == sizeof info) {
            tn_log(TN_LOG_INFO, "stopping", tn_log_int("signal", info.ssi_signo));
            return;
        }
    }
}

/* Ours, not for the sandbox: neither inherited nor to be read in /proc. */
static void forget_key(void)
{
    char *key = getenv("SESSION_API_KEY");

    if (key)
        explicit_bzero(key, strlen(key));
    unsetenv("SESSION_API_KEY");
}

/* The first process of a sandbox, which its kernel guards against the signals of those inside, is
 * guarded against their ptrace as well, and against all that goes by the same rule: memory,
 * descriptors, environment.  Root of a sandbox lacks CAP_SYS_PTRACE; whoever has it may still look.
 * And against their prlimit, which asks that all our ids are the caller's: the saved one is not,
 * where root may have another one at all (elsewhere a jail's filter refuses that call).
 * Outside of a sandbox we are a process among others of a user, who finds us by our environment. */
static void keep_to_ourselves(const struct tn_hand_options *o)
{
    if (getpid() != 1 || o->traceable)
        return;
    syscall(SYS_setresuid, -1, -1, NOBODYS_UID);
    prctl(PR_SET_DUMPABLE, 0);
}

/* Die with whoever started us, also when that happened already. */
static void follow_parent(void)
{
    pid_t parent = getppid();
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        kill(getpid(), SIGTERM);
}

static enum tn_log_level log_level(const char *name)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    for (size_t i = 0; i < TN_COUNT(names); i++) {
        if (strcmp(names[i], name) == 0)
            return (enum tn_log_level)i;
    }
    return TN_LOG_INFO;
}

int main(int argc, char **argv)
{
    static struct process process;
    struct tn_error err = {0};
    sigset_t signals;

    mallopt(M_ARENA_MAX,
            1); /* a heap for each thread costs every start more than they save later */
    tn_fs_fill_standard(O_RDWR);
    if (argc > 0 && strcmp(basename(argv[0]), MCP_GATEWAY) == 0)
        return mcp_gateway(argc, argv);
    int r = tn_hand_options_read(&process.hand.options, argc, argv, &err);
    if (r < 0)
        fprintf(stderr, "tendon-hand: %s\nTry 'tendon-hand --help'.\n", err.text);
    if (r != 0) {
        tn_fields_done(&tn_hand_fields, &process.hand.options);
        return r < 0 ? tn_code_row(err.code)->exit_code : 0;
    }
    const struct tn_hand_options *o = &process.hand.options;
    keep_to_ourselves(o);
    tn_log_init(STDERR_FILENO, log_level(o->log_level), o->log_json);
    if (o->key)
        tn_log_secret(o->key);
    forget_key();

    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    sigaddset(&signals, SIGQUIT);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    int reaper = tn_reaper_start(true, &err);
    if (reaper < 0) {
        fprintf(stderr, "tendon-hand: %s\n", err.text);
        return tn_code_row(err.code)->exit_code;
    }
    if (o->exit_with_parent)
        follow_parent();
    int owner = o->exit_with ? tn_watch_owner(o->exit_with, &err) : -1;
    if (o->exit_with && owner < 0) {
        fprintf(stderr, "tendon-hand: %s\n", err.text);
        return tn_code_row(err.code)->exit_code;
    }

    process.hand.becoming_ready = eventfd(0, EFD_CLOEXEC);
    int sys = tn_thread_start(&process.starter, start_thread, &process);
    if (sys) {
        fprintf(stderr, "tendon-hand: start a thread: %s\n", tn_strerror(sys));
        return 70;
    }
    wait_for_end(reaper, owner, &signals);
    bool clean = stop(&process);
    tn_log_done();
    if (!clean)
        _exit(process.failed ? 1 : 0);
    return process.failed ? 1 : 0;
}
