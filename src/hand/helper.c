#include "hand/helper.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/wait.h>

#include "base/proc.h"
#include "base/thread.h"

enum { LAST_WORDS = 4096, DRAIN_MOST = 64 };
#define GOOD_SECONDS 30.0
#define KILL_SECONDS 2.0
#define WAIT_STEP 0.1
#define WAIT_MOST 5.0

struct tn_helper {
    char *name;
    struct tn_child *child;
    uint64_t mark; /* of all its processes; 0: they are known by their session */
    int to, from, words, quit;
    atomic_bool ending; /* it was asked to */
    pthread_t attendant;
    pthread_mutex_t lock;  /* of reading them */
    char last[LAST_WORDS]; /* the end of what it said on stderr */
    size_t last_len;
};

/* --- last words ----------------------------------------------------------------------------- */

/* At most LAST_WORDS bytes. */
static void remember(struct tn_helper *h, const char *bytes, size_t n)
{
    size_t keep = h->last_len + n > LAST_WORDS ? LAST_WORDS - n : h->last_len;
    memmove(h->last, h->last + h->last_len - keep, keep);
    memcpy(h->last + keep, bytes, n);
    h->last_len = keep + n;
}

/* Takes what is there by now; false at the end.  What the helper left running may talk without end,
 * but not to us. */
static bool drain(struct tn_helper *h)
{
    char bytes[2048];
    ssize_t n = 1;

    pthread_mutex_lock(&h->lock);
    for (int i = 0; i < DRAIN_MOST && n > 0; i++) {
        n = read(h->words, bytes, sizeof bytes);
        if (n > 0)
            remember(h, bytes, (size_t)n);
    }
    bool open = n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
    pthread_mutex_unlock(&h->lock);
    return open;
}

/* --- life ----------------------------------------------------------------------------------- */

/* What outlived it, also in sessions of its own. */
static void kill_strays(const struct tn_helper *h)
{
    int64_t deadline = tn_deadline_in(KILL_SECONDS);

    if (h->mark)
        tn_proc_kill_marked(h->mark, deadline);
    else
        tn_proc_kill_session(tn_child_pid(h->child), deadline);
}

/* Reads stderr all the time, so that the helper never waits for us; and when it ends unasked, so do
 * its descendants: nobody may come to free it for a long time. */
static void *attend(void *arg)
{
    struct tn_helper *h = arg;
    struct pollfd p[] = {{.fd = h->quit, .events = POLLIN},
                         {.fd = h->words, .events = POLLIN},
                         {.fd = tn_child_pidfd(h->child), .events = POLLIN}};

    while (!p[0].revents && (p[1].fd >= 0 || p[2].fd >= 0)) {
        if (poll(p, TN_COUNT(p), -1) < 0)
            continue;
        if (p[1].revents && !drain(h))
            p[1].fd = -1;
        if (p[2].revents) {
            p[2].fd = -1;
            if (!atomic_load(&h->ending))
                kill_strays(h);
        }
    }
    return NULL;
}

static void free_parts(struct tn_helper *h)
{
    tn_child_free(h->child);
    tn_close(h->to);
    tn_close(h->from);
    tn_close(h->words);
    tn_close(h->quit);
    pthread_mutex_destroy(&h->lock);
    free(h->name);
    free(h);
}

static int start_child(struct tn_helper *h, struct tn_hand *hand, const struct tn_helper_spec *spec,
                       struct tn_error *err)
{
    int in[2] = {-1, -1}, out[2] = {-1, -1}, words[2] = {-1, -1};
    const struct tn_agent_user *agent = &hand->user;
    const struct tn_child_user user = {agent->account.uid, agent->account.gid, agent->groups,
                                       agent->group_count};

    if (h->quit >= 0 && pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0 &&
        pipe2(words, O_CLOEXEC) == 0) {
        const struct tn_child_fd fds[] = {{in[0], spec->in}, {out[1], spec->out}, {words[1], 2}};
        struct tn_child_spec child = {
            .argv = spec->argv,
            .env = spec->env ? spec->env : (const char *const *)hand->shell_env,
            .cwd = spec->cwd ? spec->cwd : hand->options.working_dir,
            .fds = fds,
            .fd_count = TN_COUNT(fds),
            .user = agent->switch_user ? &user : NULL,
            .session = true,
            .death_signal = SIGKILL,
            .mark = h->mark,
        };
        h->child = tn_child_start(&child, err);
    } else {
        tn_fail_errno(err, errno, "descriptors for %s", h->name);
    }
    h->to = in[1];
    h->from = out[0];
    h->words = words[0];
    tn_close(in[0]);
    tn_close(out[1]);
    tn_close(words[1]);
    return h->child ? 0 : -1;
}

static void do_not_block(int fd)
{
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

struct tn_helper *tn_helper_start(struct tn_hand *hand, const struct tn_helper_spec *spec,
                                  struct tn_error *err)
{
    struct tn_helper *h = tn_calloc(1, sizeof *h);

    h->name = tn_strdup(spec->name);
    h->to = h->from = h->words = -1;
    h->quit = eventfd(0, EFD_CLOEXEC);
    h->mark = tn_proc_mark_new();
    pthread_mutex_init(&h->lock, NULL);
    if (start_child(h, hand, spec, err) < 0) {
        free_parts(h);
        return NULL;
    }
    do_not_block(h->to);
    do_not_block(h->from);
    do_not_block(h->words);
    int sys = tn_thread_start(&h->attendant, attend, h);
    if (sys) {
        tn_fail_errno(err, sys, "thread for %s", h->name);
        tn_helper_end(h, 0);
        free_parts(h);
        return NULL;
    }
    return h;
}

void tn_helper_end(struct tn_helper *h, double grace)
{
    atomic_store(&h->ending, true);
    if (tn_child_wait(h->child, 0, NULL, NULL) < 0) /* its number is its own */
        tn_proc_kill_tree(tn_child_pid(h->child), true, grace > 0 ? tn_deadline_in(grace) : 0,
                          tn_deadline_in(grace + KILL_SECONDS), NULL);
    kill_strays(h);
    tn_child_wait(h->child, tn_deadline_in(KILL_SECONDS), NULL, NULL);
}

void tn_helper_free(struct tn_helper *h)
{
    uint64_t one = 1;

    if (!h)
        return;
    tn_helper_end(h, 0);
    if (write(h->quit, &one, sizeof one) < 0)
        abort(); /* an eventfd takes its first write always */
    pthread_join(h->attendant, NULL);
    free_parts(h);
}

/* --- talking -------------------------------------------------------------------------------- */

int tn_helper_to(const struct tn_helper *h)
{
    return h->to;
}

int tn_helper_from(const struct tn_helper *h)
{
    return h->from;
}

/* A pipe whose reader is gone raises a signal, which every thread of ours has blocked. */
int tn_helper_write(struct tn_helper *h, const void *bytes, size_t n, int64_t deadline,
                    struct tn_error *err)
{
    for (const char *at = bytes; n > 0;) {
        ssize_t sent = h->to < 0 ? -1 : write(h->to, at, n);
        if (sent > 0) {
            at += sent;
            n -= (size_t)sent;
            continue;
        }
        if (h->to < 0 || (errno != EAGAIN && errno != EINTR))
            return tn_fail(err, TN_E_PEER, "%s is gone", h->name);
        struct pollfd p = {.fd = h->to, .events = POLLOUT};
        if (poll(&p, 1, tn_poll_ms(deadline)) == 0)
            return tn_fail(err, TN_E_TIMEOUT, "%s does not take its input", h->name);
    }
    return 0;
}

void tn_helper_close_input(struct tn_helper *h)
{
    tn_close(TN_TAKE_FD(h->to));
}

/* --- asking --------------------------------------------------------------------------------- */

pid_t tn_helper_pid(const struct tn_helper *h)
{
    return tn_child_pid(h->child);
}

int tn_helper_wait(struct tn_helper *h, int64_t deadline, struct tn_error *err)
{
    return tn_child_wait(h->child, deadline, NULL, err);
}

int tn_helper_signal(struct tn_helper *h, int signal, struct tn_error *err)
{
    return tn_child_signal(h->child, signal, err);
}

static void put_end(struct tn_helper *h, struct tn_buf *out)
{
    struct tn_exit result;

    if (tn_child_wait(h->child, 0, &result, NULL) < 0)
        tn_buf_puts(out, "is still running");
    else if (WIFEXITED(result.status))
        tn_buf_printf(out, "ended with exit code %d", WEXITSTATUS(result.status));
    else
        tn_buf_printf(out, "was ended by SIG%s", sigabbrev_np(WTERMSIG(result.status)));
}

void tn_helper_obituary(struct tn_helper *h, struct tn_buf *out)
{
    put_end(h, out);
    drain(h); /* the attendant may not have come to it yet */
    pthread_mutex_lock(&h->lock);
    size_t end = h->last_len;
    while (end && strchr(" \r\n\t", h->last[end - 1]))
        end--;
    if (end) {
        tn_buf_puts(out, ": ");
        tn_buf_add(out, h->last, end);
    }
    pthread_mutex_unlock(&h->lock);
}

int64_t tn_helper_memory(const struct tn_helper *h)
{
    return tn_child_wait(h->child, 0, NULL, NULL) < 0
               ? tn_proc_memory(tn_child_pid(h->child), h->mark)
               : 0;
}

/* --- restarts ------------------------------------------------------------------------------- */

void tn_backoff_good(struct tn_backoff *b)
{
    b->good = tn_now();
}

void tn_backoff_bad(struct tn_backoff *b)
{
    int64_t now = tn_now();

    if (b->good && now - b->good > (int64_t)(GOOD_SECONDS * 1e9))
        b->failures = 0;
    b->good = 0;
    double wait = b->failures < 6 ? WAIT_STEP * (double)((1 << b->failures) - 1) : WAIT_MOST;
    b->failures++;
    b->until = now + (int64_t)((wait < WAIT_MOST ? wait : WAIT_MOST) * 1e9);
}

int tn_backoff_wait(const struct tn_backoff *b, int quit, int64_t deadline, struct tn_error *err)
{
    struct pollfd p = {.fd = quit, .events = POLLIN};

    if (b->until > deadline)
        return tn_fail(err, TN_E_BUSY, "it ended %d times in a row: try again in a few seconds",
                       b->failures);
    while (tn_now() < b->until) {
        if (poll(&p, 1, tn_poll_ms(b->until)) > 0)
            return tn_fail(err, TN_E_GONE, "the hand is ending");
    }
    return 0;
}
