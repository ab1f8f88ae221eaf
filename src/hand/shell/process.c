#include "hand/shell/process.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <termios.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/proc.h"
#include "base/thread.h"

enum {
    READ_SIZE = 32 << 10,
    TERMINAL_HOLDS = 256 << 10, /* more than a terminal can: some 12 KB in Linux, 132 KB in gVisor */
    RECORDS_MAX = 4 << 20, /* an exported environment cannot be larger */
};
#define DRAIN_NS (500 * TN_MILLI)
#define QUIET_NS (2 * TN_MILLI)

struct tn_shell {
    const struct tn_dialect *dialect;
    struct tn_shell_events events;
    struct tn_child *child;
    int master;  /* non-blocking */
    int slave;   /* our own open of the terminal, to write marks and set modes; non-blocking */
    int control; /* the shell's descriptor 0 is the other end; non-blocking */
    int wake;    /* eventfd: the process ended */
    struct termios modes;
    char token[24];  /* begins the shell's records */
    bool typed;      /* keys, since the latest report */
    int wait_status; /* valid once wake is readable */

    /* Who listens: the thread behind it, or whoever attends. */
    pthread_t reader;
    pthread_mutex_t role;
    pthread_cond_t role_changed;
    bool background;    /* the thread is listening now */
    bool thread_parked; /* it waits for the attendant to leave */
    bool attended;
    int64_t quiet_until; /* it does not come back before: the next command is often there at once */
    int kick;            /* eventfd: makes the thread stop listening */

    bool ended; /* set by the listener, under the lock */

    /* Of the listener. */
    uint64_t idle_seen;
    bool hung_up, silent; /* nothing more comes from the terminal, from the socket */
    uint64_t last_done;
    struct tn_buf records;
    char in[READ_SIZE];
};

/* --- the terminal ------------------------------------------------------------------------------
 */

static int open_terminal(struct tn_shell *sh, const struct tn_shell_options *o,
                         struct tn_error *err)
{
    sh->master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    if (sh->master < 0)
        return tn_fail_errno(err, errno, "open a terminal (/dev/ptmx)");
    if (unlockpt(sh->master) < 0)
        return tn_fail_errno(err, errno, "unlock the terminal");
    sh->slave = ioctl(sh->master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    if (sh->slave < 0)
        return tn_fail_errno(err, errno, "open the terminal's other side");
    if (o->switch_user && fchown(sh->slave, o->uid, (gid_t)-1) < 0)
        return tn_fail_errno(err, errno, "give the terminal to user %d", (int)o->uid);
    if (tcgetattr(sh->slave, &sh->modes) < 0)
        return tn_fail_errno(err, errno, "terminal modes");
    sh->modes.c_iflag |= IUTF8;
    sh->modes.c_iflag &= ~(tcflag_t)(IXON | IXOFF); /* a stray Ctrl-S must not stop the output */
    tn_shell_calm_terminal(sh);
    tn_shell_resize(sh, o->columns, o->rows);
    return 0;
}

void tn_shell_let_flow(struct tn_shell *sh)
{
    tcflow(sh->slave, TCOON);
}

void tn_shell_calm_terminal(struct tn_shell *sh)
{
    struct termios now;

    tn_shell_let_flow(sh);
    if (tcgetattr(sh->slave, &now) == 0 && memcmp(&now, &sh->modes, sizeof now) != 0)
        tcsetattr(sh->slave, TCSANOW, &sh->modes);
}

void tn_shell_resize(struct tn_shell *sh, int columns, int rows)
{
    struct winsize size = {.ws_col = (unsigned short)columns, .ws_row = (unsigned short)rows};
    ioctl(sh->master, TIOCSWINSZ, &size);
}

pid_t tn_shell_foreground(const struct tn_shell *sh)
{
    return tcgetpgrp(sh->master);
}

/* --- the listening thread ----------------------------------------------------------------------
 */

/* Reads what the terminal has now; the count, 0 for none, -1 at its end. */
static ssize_t read_terminal(struct tn_shell *sh)
{
    size_t got = 0;
    while (got < READ_SIZE) {
        ssize_t n = read(sh->master, sh->in + got, READ_SIZE - got);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return got > 0 ? (ssize_t)got : n < 0 && errno == EAGAIN ? 0 : -1;
        got += (size_t)n;
        if (n < 1024) /* a short piece: nothing more is waiting */
            break;
    }
    return (ssize_t)got;
}

/* Delivers all that was written to the terminal before the report which has just come.  A worker of
 * the kernel carries it from one side to the other, but a read that would find nothing waits for
 * that worker first: a terminal that reads as empty is empty.  Programs in the background may go on
 * writing; what came before them is out after as much as a terminal can hold. */
static void drain(struct tn_shell *sh)
{
    /* The echo of keys can be held back until the next write, which this is. */
    if (__atomic_exchange_n(&sh->typed, false, __ATOMIC_ACQ_REL) &&
        write(sh->slave, "", 0) < 0 && errno != EAGAIN && errno != EIO)
        abort();
    for (size_t drained = 0; drained < TERMINAL_HOLDS;) {
        ssize_t n = read_terminal(sh);
        if (n <= 0)
            return;
        sh->events.output(sh->events.ctx, sh->in, (size_t)n);
        drained += (size_t)n;
    }
}

/* Returns -1 when the shell's end of the socket is closed. */
static int read_control(struct tn_shell *sh)
{
    if (sh->records.len > RECORDS_MAX - 4096)
        tn_buf_reset(&sh->records); /* no environment is that large: traps are printing into it */
    char *to = tn_buf_reserve(&sh->records, 4096);
    ssize_t n = to ? read(sh->control, to, 4096) : -1;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n <= 0)
        return -1;
    tn_buf_grew(&sh->records, (size_t)n);

    size_t eaten = 0;
    for (;;) {
        struct tn_record record;
        size_t len =
            tn_record_parse(sh->records.data + eaten, sh->records.len - eaten, sh->token, &record);
        if (len == 0)
            break;
        if (record.kind == TN_RECORD_EVALUATED || record.kind == TN_RECORD_DONE) {
            sh->last_done = record.seq;
            drain(sh);
        }
        sh->events.record(sh->events.ctx, &record);
        eaten += len;
    }
    tn_buf_eat(&sh->records, eaten);
    return 0;
}

/* After the process ended: what is left in the terminal, until it is closed on the other side. */
static void drain_to_end(struct tn_shell *sh)
{
    int64_t deadline = tn_now() + DRAIN_NS;
    for (;;) {
        struct pollfd fd = {.fd = sh->master, .events = POLLIN};
        if (poll(&fd, 1, tn_poll_ms(deadline)) <= 0 || tn_now() > deadline)
            return;
        ssize_t n = read_terminal(sh);
        if (n < 0 || (n == 0 && (fd.revents & POLLHUP)))
            return;
        if (n > 0)
            sh->events.output(sh->events.ctx, sh->in, (size_t)n);
    }
}

static ssize_t read_proc(pid_t pid, const char *name, char *to, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    tn_autofd int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, to, size - 1);
    to[n > 0 ? n : 0] = '\0';
    return n;
}

/* Not ended, and not replaced by another program: its arguments are those we gave it. */
static bool is_still_the_shell(const struct tn_shell *sh)
{
    char text[512];
    ssize_t n = read_proc(tn_shell_pid(sh), "cmdline", text, sizeof text);

    if (n <= 0)
        return false;
    const char *argument = text;
    for (size_t i = 0; sh->dialect->argv_tail[i]; i++) {
        argument += strlen(argument) + 1;
        if (argument >= text + n || strcmp(argument, sh->dialect->argv_tail[i]) != 0)
            return false;
    }
    return argument + strlen(argument) + 1 == text + n;
}

static void end_listening(struct tn_shell *sh)
{
    uint64_t once;

    if (read(sh->wake, &once, sizeof once) < 0) /* with it comes wait_status */
        return;
    /* The last thing it told may still be on its way: a large environment, for example. */
    struct pollfd told = {.fd = sh->control, .events = POLLIN};
    while (!sh->silent && poll(&told, 1, 0) > 0)
        sh->silent = read_control(sh) < 0;
    tn_close(TN_TAKE_FD(sh->slave));
    drain_to_end(sh);
    pthread_mutex_lock(&sh->role);
    sh->ended = true;
    pthread_mutex_unlock(&sh->role);
    sh->events.exited(sh->events.ctx, sh->wait_status);
}

enum heard { HEARD_NOTHING, HEARD_SOMETHING, HEARD_CLIENT_LEAVE };

/* Waits for what comes first, until the deadline, and handles it. */
static enum heard listen_once(struct tn_shell *sh, int64_t deadline, int client)
{
    struct pollfd fds[] = {{.fd = sh->hung_up ? -1 : sh->master, .events = POLLIN},
                           {.fd = sh->silent ? -1 : sh->control, .events = POLLIN},
                           {.fd = sh->wake, .events = POLLIN},
                           {.fd = sh->kick, .events = POLLIN},
                           {.fd = client, .events = POLLRDHUP}};
    uint64_t kicks;
    int64_t left = deadline == TN_NEVER ? 0 : deadline - tn_now();
    struct timespec time_left = tn_timespec(left > 0 ? left : 0);

    int ready = ppoll(fds, TN_COUNT(fds), deadline == TN_NEVER ? NULL : &time_left, NULL);
    if (ready <= 0)
        return ready < 0 ? HEARD_SOMETHING : HEARD_NOTHING;
    /* Records first: one was written before what a program of the next line prints. */
    if (fds[1].revents && read_control(sh) < 0) {
        sh->silent = true; /* ending, or replaced by exec: its death will be the event */
        if (is_still_the_shell(sh))
            tn_child_signal(sh->child, SIGKILL,
                            NULL); /* it closed its descriptors: nobody can reach it */
    }
    if (fds[0].revents) {
        ssize_t n = read_terminal(sh);
        if (n > 0)
            sh->events.output(sh->events.ctx, sh->in, (size_t)n);
        else if (n < 0)
            sh->hung_up = true; /* the process is ending */
    }
    if (fds[2].revents)
        end_listening(sh);
    if (fds[3].revents && read(sh->kick, &kicks, sizeof kicks) < 0 && errno != EAGAIN)
        abort();
    return fds[4].revents ? HEARD_CLIENT_LEAVE : HEARD_SOMETHING;
}

/* The thread's turn to listen: not while somebody attends, nor right after. */
static bool take_role(struct tn_shell *sh)
{
    pthread_mutex_lock(&sh->role);
    for (;;) {
        struct timespec until = tn_timespec(sh->quiet_until);
        if (sh->ended)
            break;
        if (sh->attended) {
            sh->thread_parked = true;
            pthread_cond_wait(&sh->role_changed, &sh->role);
            sh->thread_parked = false;
        } else if (tn_now() < sh->quiet_until) {
            pthread_cond_timedwait(&sh->role_changed, &sh->role, &until);
        } else {
            break;
        }
    }
    sh->background = !sh->ended;
    bool mine = sh->background;
    pthread_mutex_unlock(&sh->role);
    return mine;
}

static void release_role(struct tn_shell *sh)
{
    pthread_mutex_lock(&sh->role);
    sh->background = false;
    pthread_cond_broadcast(&sh->role_changed);
    pthread_mutex_unlock(&sh->role);
}

static void *listen_to_shell(void *arg)
{
    struct tn_shell *sh = arg;

    while (take_role(sh)) {
        if (sh->last_done > sh->idle_seen) {
            sh->idle_seen = sh->last_done;
            sh->events.idle(sh->events.ctx);
        }
        bool kicked = false;
        while (!sh->ended && !kicked) {
            int64_t deadline = sh->last_done > sh->idle_seen ? tn_now() + QUIET_NS : TN_NEVER;
            if (listen_once(sh, deadline, -1) == HEARD_NOTHING) {
                sh->idle_seen = sh->last_done;
                sh->events.idle(sh->events.ctx);
            }
            kicked = __atomic_load_n(&sh->attended, __ATOMIC_ACQUIRE);
        }
        release_role(sh);
    }
    return NULL;
}

void tn_shell_nudge(struct tn_shell *sh)
{
    uint64_t one = 1;

    if (write(sh->kick, &one, sizeof one) < 0 && errno != EAGAIN)
        abort();
}

void tn_shell_attend(struct tn_shell *sh)
{
    pthread_mutex_lock(&sh->role);
    __atomic_store_n(&sh->attended, true, __ATOMIC_RELEASE);
    if (sh->background)
        tn_shell_nudge(sh);
    while (sh->background)
        pthread_cond_wait(&sh->role_changed, &sh->role);
    pthread_mutex_unlock(&sh->role);
}

bool tn_shell_listen(struct tn_shell *sh, int64_t deadline, int client)
{
    return sh->ended || listen_once(sh, deadline, client) != HEARD_CLIENT_LEAVE;
}

void tn_shell_leave(struct tn_shell *sh)
{
    pthread_mutex_lock(&sh->role);
    __atomic_store_n(&sh->attended, false, __ATOMIC_RELEASE);
    sh->quiet_until = tn_now() + QUIET_NS;
    if (sh->thread_parked || sh->ended)
        pthread_cond_broadcast(&sh->role_changed);
    pthread_mutex_unlock(&sh->role);
}

static void process_ended(struct tn_child *child, const struct tn_exit *result, void *ctx)
{
    struct tn_shell *sh = ctx;
    uint64_t one = 1;

    sh->wait_status = result->status;
    if (write(sh->wake, &one, sizeof one) < 0)
        abort(); /* an eventfd takes its first write always */
}

/* --- life ----------------------------------------------------------------------------------- */

static int start_process(struct tn_shell *sh, const struct tn_shell_options *o, int shell_end,
                         struct tn_error *err)
{
    tn_autofd int terminal = ioctl(sh->master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    const char *slash = strrchr(o->program, '/');
    const char *argv[8] = {slash ? slash + 1 : o->program};
    const struct tn_child_fd fds[] = {
        {shell_end, 0}, {terminal, 1}, {terminal, 2}, {terminal, sh->dialect->tty_fd}};
    const struct tn_child_user user = {o->uid, o->gid, o->groups, o->group_count};
    struct tn_child_spec child = {
        .argv = argv,
        .file = slash ? o->program : NULL,
        .env = (const char *const *)o->env,
        .cwd = o->cwd,
        .fds = fds,
        .fd_count = TN_COUNT(fds),
        .user = o->switch_user ? &user : NULL,
        .terminal = true,
        .on_exit = process_ended,
        .ctx = sh,
    };

    if (terminal < 0)
        return tn_fail_errno(err, errno, "open the terminal for the shell");
    for (size_t i = 0; sh->dialect->argv_tail[i]; i++)
        argv[i + 1] = sh->dialect->argv_tail[i];
    struct tn_error why = {0};
    sh->child = tn_child_start(&child, &why);
    if (!sh->child && access(o->cwd, F_OK) < 0) {
        child.cwd = "/"; /* the directory is gone; `cd` to it will say so */
        sh->child = tn_child_start(&child, &why);
    }
    if (sh->child)
        return 0;
    if (why.code == TN_E_NOT_FOUND)
        return tn_fail(
            err, TN_E_NOT_FOUND,
            "there is no %s in this sandbox; use a session with another shell, for example \"sh\", "
            "or start tendon-hand with --shell",
            o->program);
    if (err)
        *err = why;
    return -1;
}

static void free_parts(struct tn_shell *sh)
{
    tn_child_free(sh->child);
    tn_close(sh->master);
    tn_close(sh->slave);
    tn_close(sh->control);
    tn_close(sh->wake);
    tn_close(sh->kick);
    pthread_cond_destroy(&sh->role_changed);
    pthread_mutex_destroy(&sh->role);
    tn_buf_done(&sh->records);
    free(sh);
}

struct tn_shell *tn_shell_new(const struct tn_shell_options *o,
                              const struct tn_shell_events *events, struct tn_error *err)
{
    struct tn_shell *sh = tn_calloc(1, sizeof *sh);
    int pair[2];

    sh->dialect = tn_dialect_for(o->program);
    sh->events = *events;
    sh->master = sh->slave = sh->control = -1;
    tn_buf_init(&sh->records, RECORDS_MAX);
    sh->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    sh->kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&sh->role, NULL);
    tn_cond_init(&sh->role_changed);
    uint64_t token;
    if (getrandom(&token, sizeof token, 0) != sizeof token)
        token = (uint64_t)tn_now();
    snprintf(sh->token, sizeof sh->token, "%016llx", (unsigned long long)token);
    if (sh->wake < 0 || sh->kick < 0) {
        tn_fail_errno(err, errno, "event descriptors for the shell");
        goto fail;
    }
    if (open_terminal(sh, o, err) < 0)
        goto fail;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
        tn_fail_errno(err, errno, "socket pair");
        goto fail;
    }
    sh->control = pair[0];
    fcntl(sh->control, F_SETFL, O_NONBLOCK);
    int started = start_process(sh, o, pair[1], err);
    tn_close(pair[1]);
    if (started < 0)
        goto fail;
    int sys = tn_thread_start(&sh->reader, listen_to_shell, sh);
    if (sys) {
        tn_fail_errno(err, sys, "thread for the shell");
        tn_child_signal(sh->child, SIGKILL, NULL);
        goto fail;
    }
    return sh;
fail:
    free_parts(sh);
    return NULL;
}

void tn_shell_kill(struct tn_shell *sh)
{
    pid_t session = tn_child_pid(sh->child);
    tn_autofree struct tn_proc *ours = NULL;
    size_t n = 0, strays = 0;

    tn_proc_kill_tree(session, true, 0, tn_deadline_in(1), NULL);
    /* Its background jobs whose parent has ended are children of ours by now. */
    if (tn_proc_descendants(getpid(), &ours, &n, NULL) < 0)
        return;
    for (size_t i = 0; i < n; i++) {
        if (getsid(ours[i].pid) == session)
            ours[strays++] = ours[i];
    }
    if (strays)
        tn_proc_kill(ours, strays, 0, tn_deadline_in(1), NULL);
}

void tn_shell_free(struct tn_shell *sh)
{
    if (!sh)
        return;
    pthread_mutex_lock(&sh->role);
    bool ended = sh->ended;
    pthread_mutex_unlock(&sh->role);
    if (!ended)
        tn_shell_kill(sh);
    pthread_join(sh->reader, NULL);
    free_parts(sh);
}

const struct tn_dialect *tn_shell_dialect(const struct tn_shell *sh)
{
    return sh->dialect;
}

const char *tn_shell_token(const struct tn_shell *sh)
{
    return sh->token;
}

pid_t tn_shell_pid(const struct tn_shell *sh)
{
    return tn_child_pid(sh->child);
}

/* --- talking -------------------------------------------------------------------------------- */

static int write_by(int fd, const char *bytes, size_t n, int64_t deadline, const char *what,
                    struct tn_error *err)
{
    while (n > 0) {
        ssize_t k = write(fd, bytes, n);
        if (k > 0) {
            bytes += k;
            n -= (size_t)k;
            continue;
        }
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0 && errno != EAGAIN)
            return tn_fail_errno(err, errno, "%s", what);
        struct pollfd p = {.fd = fd, .events = POLLOUT};
        if (poll(&p, 1, tn_poll_ms(deadline)) == 0)
            return tn_fail(err, TN_E_TIMEOUT, "%s does not take what is sent to it", what);
    }
    return 0;
}

int tn_shell_send(struct tn_shell *sh, const char *text, size_t n, int64_t deadline,
                  struct tn_error *err)
{
    return write_by(sh->control, text, n, deadline, "the shell", err);
}

int tn_shell_type(struct tn_shell *sh, const char *keys, size_t n, int64_t deadline,
                  struct tn_error *err)
{
    __atomic_store_n(&sh->typed, true, __ATOMIC_RELEASE);
    return write_by(sh->master, keys, n, deadline, "the program on the terminal", err);
}

/* --- measuring ------------------------------------------------------------------------------ */

int tn_shell_times(const struct tn_shell *sh, double *user, double *system)
{
    char text[1024];
    unsigned long long own_user, own_system, child_user, child_system;
    double tick = (double)sysconf(_SC_CLK_TCK);

    if (read_proc(tn_shell_pid(sh), "stat", text, sizeof text) <= 0)
        return -1;
    const char *after_name = strrchr(text, ')');
    if (!after_name ||
        sscanf(after_name + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %llu %llu",
               &own_user, &own_system, &child_user, &child_system) != 4)
        return -1;
    *user = (double)(own_user + child_user) / tick;
    *system = (double)(own_system + child_system) / tick;
    return 0;
}

int64_t tn_shell_peak_memory(const struct tn_shell *sh)
{
    tn_autofree struct tn_proc *below = NULL;
    char text[4096];
    int64_t peak = -1;
    size_t n = 0;

    if (tn_proc_descendants(tn_shell_pid(sh), &below, &n, NULL) < 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        const char *line = read_proc(below[i].pid, "status", text, sizeof text) > 0
                               ? strstr(text, "\nVmHWM:")
                               : NULL;
        int64_t bytes = line ? strtoll(line + 7, NULL, 10) * 1024 : -1;
        if (bytes > peak)
            peak = bytes;
    }
    return peak;
}
