#include "mcp/pipe.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/eventfd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/lines.h"
#include "base/thread.h"

enum { KEPT = 256 << 10 };

struct tn_mcp_pipe {
    struct tn_mcp_pipe_options options;
    int kick; /* eventfd: there is something to write, or to stop */
    pthread_mutex_t lock;
    pthread_cond_t room;
    struct tn_buf unsent;
    size_t flushed; /* of those bytes, which are dropped when they are many */
    bool broken;    /* nobody reads any more */
    bool stopped;
    struct tn_lines lines; /* of the thread that runs */
};

static void make_nonblocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags >= 0 && !(flags & O_NONBLOCK))
        fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

struct tn_mcp_pipe *tn_mcp_pipe_new(const struct tn_mcp_pipe_options *options)
{
    struct tn_mcp_pipe *pipe = tn_calloc(1, sizeof *pipe);

    pipe->options = *options;
    pipe->kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&pipe->lock, NULL);
    tn_cond_init(&pipe->room);
    tn_buf_init(&pipe->unsent, 2 * options->unsent_max + 1); /* with what is flushed */
    tn_lines_init(&pipe->lines, options->line_max);
    make_nonblocking(options->in);
    make_nonblocking(options->out);
    return pipe;
}

void tn_mcp_pipe_free(struct tn_mcp_pipe *pipe)
{
    if (!pipe)
        return;
    tn_close(pipe->kick);
    pthread_mutex_destroy(&pipe->lock);
    pthread_cond_destroy(&pipe->room);
    tn_buf_done(&pipe->unsent);
    tn_lines_done(&pipe->lines);
    free(pipe);
}

static void kick(struct tn_mcp_pipe *pipe)
{
    uint64_t one = 1;
    (void)!write(pipe->kick, &one, sizeof one);
}

void tn_mcp_pipe_wake(struct tn_mcp_pipe *pipe)
{
    kick(pipe);
}

void tn_mcp_pipe_stop(struct tn_mcp_pipe *pipe)
{
    pthread_mutex_lock(&pipe->lock);
    pipe->stopped = true;
    pthread_cond_broadcast(&pipe->room);
    pthread_mutex_unlock(&pipe->lock);
    kick(pipe);
}

/* --- writing -------------------------------------------------------------------------------- */

/* write(2) that raises no SIGPIPE in whoever's thread this is. */
static ssize_t write_quietly(int fd, const void *bytes, size_t n)
{
    static const struct timespec now = {0};
    sigset_t pipe_only, old;

    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_only, &old);
    ssize_t written = write(fd, bytes, n);
    int why = errno;
    if (written < 0 && why == EPIPE && !sigismember(&old, SIGPIPE))
        sigtimedwait(&pipe_only, NULL, &now);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    errno = why;
    return written;
}

/* One large message must not hold memory for ever. */
static void trim(struct tn_buf *b)
{
    size_t max = b->max;

    if (b->len == 0 && b->cap > KEPT) {
        tn_buf_done(b);
        tn_buf_init(b, max);
    }
}

/* As much as the other side takes now.  With the lock held. */
static size_t write_some(struct tn_mcp_pipe *pipe, const char *bytes, size_t n)
{
    size_t done = 0;

    while (done < n && !pipe->broken) {
        ssize_t written = write_quietly(pipe->options.out, bytes + done, n - done);
        if (written > 0)
            done += (size_t)written;
        else if (errno == EAGAIN)
            break;
        else if (errno != EINTR)
            pipe->broken = true;
    }
    return done;
}

static size_t left(const struct tn_mcp_pipe *pipe)
{
    return pipe->unsent.len - pipe->flushed;
}

static void flush(struct tn_mcp_pipe *pipe)
{
    pthread_mutex_lock(&pipe->lock);
    pipe->flushed += write_some(pipe, tn_buf_str(&pipe->unsent) + pipe->flushed, left(pipe));
    if (pipe->flushed >= pipe->unsent.len / 2) {
        tn_buf_eat(&pipe->unsent, pipe->flushed);
        pipe->flushed = 0;
        trim(&pipe->unsent);
    }
    pthread_cond_broadcast(&pipe->room);
    pthread_mutex_unlock(&pipe->lock);
}

static int nobody_reads(struct tn_error *err)
{
    tn_fail(err, TN_E_PEER, "the other side does not read any more");
    if (err)
        err->sys = EPIPE;
    return -1;
}

/* Waits until n more bytes may wait.  With the lock held. */
static int await_room(struct tn_mcp_pipe *pipe, size_t n, int64_t deadline, struct tn_error *err)
{
    struct timespec until = tn_timespec(deadline);

    if (n > pipe->options.unsent_max)
        return tn_fail(err, TN_E_TOO_LARGE, "a message of %zu bytes; the most is %zu", n,
                       pipe->options.unsent_max);
    for (;;) {
        if (pipe->broken || pipe->stopped)
            return nobody_reads(err);
        if (left(pipe) + n <= pipe->options.unsent_max)
            return 0;
        if (tn_now() >= deadline)
            return tn_fail(err, TN_E_TIMEOUT, "the other side does not read what it is sent");
        pthread_cond_timedwait(&pipe->room, &pipe->lock, &until);
    }
}

int tn_mcp_pipe_send(struct tn_mcp_pipe *pipe, const char *text, size_t n, int64_t deadline,
                     struct tn_error *err)
{
    tn_autobuf struct tn_buf line = TN_BUF_INIT(n + 1);

    if (tn_buf_add(&line, text, n) < 0 || tn_buf_putc(&line, '\n') < 0)
        return tn_fail(err, TN_E_TOO_LARGE, "no memory for a message of %zu bytes", n);
    pthread_mutex_lock(&pipe->lock);
    int result = await_room(pipe, line.len, deadline, err);
    if (result == 0) {
        size_t done = left(pipe) ? 0 : write_some(pipe, line.data, line.len);
        if (pipe->broken)
            result = nobody_reads(err);
        else if (tn_buf_add(&pipe->unsent, line.data + done, line.len - done) < 0) {
            pipe->broken = true; /* half a line may have gone */
            result = tn_fail(err, TN_E_TOO_LARGE, "no memory for a message of %zu bytes", n);
        } else if (done < line.len) {
            kick(pipe);
        }
    }
    pthread_mutex_unlock(&pipe->lock);
    return result;
}

/* --- reading -------------------------------------------------------------------------------- */

static void take(struct tn_mcp_pipe *pipe, const char *bytes, size_t n)
{
    const char *text;
    ssize_t length;

    tn_lines_add(&pipe->lines, bytes, n);
    while ((length = tn_lines_next(&pipe->lines, &text)) != TN_LINES_NONE) {
        if (length == TN_LINES_TOO_LONG)
            pipe->options.line(pipe->options.ctx, NULL, 0);
        else if (length > 0)
            pipe->options.line(pipe->options.ctx, text, (size_t)length);
    }
}

/* 1: there may be more, 0: the end, -1 with err. */
static int read_some(struct tn_mcp_pipe *pipe, char *piece, struct tn_error *err)
{
    ssize_t n = read(pipe->options.in, piece, TN_LINES_PIECE);

    if (n > 0)
        take(pipe, piece, (size_t)n);
    else if (n == 0)
        return 0;
    else if (errno != EAGAIN && errno != EINTR)
        return tn_fail_errno(err, errno, "read");
    return 1;
}

/* Whether there is reason to go on after the end of the input. */
static bool is_owing(const struct tn_mcp_pipe *pipe, bool waiting)
{
    return pipe->options.owes && (waiting || pipe->options.owes(pipe->options.ctx));
}

int tn_mcp_pipe_run(struct tn_mcp_pipe *pipe, struct tn_error *err)
{
    tn_autofree char *piece = tn_malloc(TN_LINES_PIECE);
    int more = 1;

    while (more >= 0) {
        pthread_mutex_lock(&pipe->lock);
        bool stopped = pipe->stopped, broken = pipe->broken, waiting = left(pipe) > 0 && !broken;
        pthread_mutex_unlock(&pipe->lock);
        if (stopped || (more == 0 && (broken || !is_owing(pipe, waiting))))
            return 0;
        /* Without input, the output alone tells that the other side has gone. */
        struct pollfd fds[] = {
            {.fd = more ? pipe->options.in : -1, .events = POLLIN},
            {.fd = pipe->kick, .events = POLLIN},
            {.fd = waiting || !more ? pipe->options.out : -1, .events = waiting ? POLLOUT : 0}};
        if (poll(fds, 3, -1) < 0)
            continue;
        uint64_t kicks;
        if (fds[1].revents)
            (void)!read(pipe->kick, &kicks, sizeof kicks);
        if (more == 0 && fds[2].revents & (POLLERR | POLLHUP | POLLNVAL))
            return 0;
        if (fds[2].revents)
            flush(pipe);
        if (fds[0].revents)
            more = read_some(pipe, piece, err);
    }
    return more;
}
