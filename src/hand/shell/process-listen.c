/* Listening to a shell: output from its terminal, records from its socket, its end; and who does
 * that, a thread of its own or whoever attends. */
#include <poll.h>
#include <signal.h>

#include "hand/shell/process-internal.h"

/* More than a terminal can hold: some 16 KB in Linux, 132 KB in gVisor. */
enum { TERMINAL_HOLDS = 256 << 10 };
#define DRAIN_NS (500 * TN_MILLI)
#define QUIET_NS (2 * TN_MILLI)

/* Reads what the terminal has now; the count, 0 for none, -1 at its end. */
static ssize_t read_terminal(struct tn_shell *sh)
{
    size_t got = 0;
    while (got < SHELL_READ_SIZE) {
        ssize_t n = read(sh->master, sh->in + got, SHELL_READ_SIZE - got);
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
    /* The terminal may hold back the echo of keys until the next write, which this is. */
    if (__atomic_exchange_n(&sh->typed, false, __ATOMIC_ACQ_REL) && write(sh->slave, "", 0) < 0)
        return; /* it is gone */
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
    if (sh->records.len > SHELL_RECORDS_MAX - 4096)
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
        if (shell_is_itself(sh))
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

void *shell_listen_thread(void *shell)
{
    struct tn_shell *sh = shell;

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
