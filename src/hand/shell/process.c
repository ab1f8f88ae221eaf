#include "hand/shell/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "base/proc.h"
#include "base/thread.h"
#include "hand/shell/process-internal.h"

/* --- life ----------------------------------------------------------------------------------- */

static void process_ended(struct tn_child *child, const struct tn_exit *result, void *ctx)
{
    struct tn_shell *sh = ctx;
    uint64_t one = 1;

    sh->wait_status = result->status;
    if (write(sh->wake, &one, sizeof one) < 0)
        abort(); /* an eventfd takes its first write always */
}

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
    tn_buf_init(&sh->records, SHELL_RECORDS_MAX);
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
    if (shell_open_terminal(sh, o, err) < 0)
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
    int sys = tn_thread_start(&sh->reader, shell_listen_thread, sh);
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

    tn_proc_kill_tree(session, true, 0, tn_deadline_in(1), NULL);
    tn_proc_kill_session(session, tn_deadline_in(1));
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
