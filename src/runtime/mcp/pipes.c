/* A server that is a program on this machine: a message per line on its input and its output.
 *
 * One thread moves the bytes of all three pipes, so that nobody who sends ever waits for it. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>

#include "base/child.h"
#include "base/lines.h"
#include "base/thread.h"
#include "runtime/mcp/link.h"

#define END_SECONDS 0.5
#define LAST_WORDS 300

/* The pipes of the child, as it numbers them. */
enum { INPUT, OUTPUT, ERRORS, PIPES };
/* Of what is polled besides: its end. */
enum { ENDED = PIPES + 1 };

struct pipe_link {
    struct mcp_link link;
    const char *name; /* of the program, borrowed from the server */
    struct tn_child *child;
    bool reaped; /* its number may be another's by now */
    struct tn_exit exit;
    int ours[PIPES]; /* our ends, non-blocking; -1: closed */
    int wake;        /* an event: there is something to send, or to end */
    pthread_t mover;
    bool moving;
    struct tn_lines lines;
    char last[LAST_WORDS]; /* the last line of its errors that says something */
    size_t last_len;
    bool last_done;
    pthread_mutex_t lock; /* of what follows */
    struct tn_buf out;
    bool stop;
};

/* --- what it says --------------------------------------------------------------------------- */

static void hear_word(struct pipe_link *l, char c)
{
    if (c == '\n') {
        l->last_done = l->last_len > 0;
        return;
    }
    if (l->last_done) {
        l->last_len = 0;
        l->last_done = false;
    }
    if (l->last_len < sizeof l->last - 1)
        l->last[l->last_len++] = (unsigned char)c < ' ' ? ' ' : c;
    l->last[l->last_len] = '\0';
}

/* -1 when it sent a line that is too long. */
static int take_lines(struct pipe_link *l)
{
    const char *text;

    for (ssize_t n; (n = tn_lines_next(&l->lines, &text)) != TN_LINES_NONE;) {
        if (n == TN_LINES_TOO_LONG)
            return -1;
        if (n > 0) /* what is no message is noise, as programs make it */
            tn_mcp_peer_feed(l->link.peer, text, (size_t)n, NULL);
    }
    return 0;
}

static void close_pipe(struct pipe_link *l, int which)
{
    tn_close(l->ours[which]);
    l->ours[which] = -1;
}

/* Takes what there is; -1 when it sent a line that is too long. */
static int pull(struct pipe_link *l, int which)
{
    char piece[16384];
    ssize_t n = read(l->ours[which], piece, sizeof piece);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n <= 0) {
        close_pipe(l, which);
        return 0;
    }
    if (which == ERRORS) {
        for (ssize_t i = 0; i < n; i++)
            hear_word(l, piece[i]);
        return 0;
    }
    tn_lines_add(&l->lines, piece, (size_t)n);
    return take_lines(l);
}

/* Sends some of what waits; true when more does. */
static bool push(struct pipe_link *l)
{
    pthread_mutex_lock(&l->lock);
    ssize_t n = l->out.len ? write(l->ours[INPUT], l->out.data, l->out.len) : 0;
    if (n > 0)
        tn_buf_eat(&l->out, (size_t)n);
    bool more = l->out.len > 0;
    pthread_mutex_unlock(&l->lock);
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        close_pipe(l, INPUT);
    return more;
}

static bool stopping(struct pipe_link *l)
{
    uint64_t count;

    (void)!read(l->wake, &count, sizeof count);
    pthread_mutex_lock(&l->lock);
    bool stop = l->stop;
    pthread_mutex_unlock(&l->lock);
    return stop;
}

/* Whether the program has ended, by the deadline; it is not reaped yet. */
static bool has_ended(const struct pipe_link *l, int64_t deadline)
{
    struct pollfd end = {.fd = tn_child_pidfd(l->child), .events = POLLIN};

    return !l->reaped && poll(&end, 1, tn_poll_ms(deadline)) > 0;
}

/* What it started does not outlive it, also when it ends by itself. */
static void bury(struct pipe_link *l)
{
    if (l->reaped)
        return;
    kill(-tn_child_pid(l->child), SIGKILL);
    l->reaped = tn_child_wait(l->child, tn_deadline_in(END_SECONDS), &l->exit, NULL) == 0;
}

static void tell_end(struct pipe_link *l, bool too_long)
{
    tn_autobuf struct tn_buf why = TN_BUF_INIT(4096);

    if (l->ours[ERRORS] >= 0)
        pull(l, ERRORS);
    if (has_ended(l, tn_deadline_in(END_SECONDS)))
        bury(l);
    tn_buf_printf(&why, "%s ", l->name);
    if (too_long)
        tn_buf_printf(&why, "sent more than %zu bytes in one line", (size_t)MCP_MESSAGE_MAX);
    else if (l->reaped)
        tn_buf_printf(&why, "has ended with exit code %d", tn_exit_code(&l->exit));
    else
        tn_buf_puts(&why, "has closed its output");
    tn_buf_printf(&why, "%s%s", l->last_len ? ": " : "", l->last);
    l->link.ended = true;
    tn_mcp_peer_lost(l->link.peer, tn_buf_str(&why));
}

static void *move(void *arg)
{
    struct pipe_link *l = arg;
    bool too_long = false;
    int64_t until = TN_NEVER; /* once it has ended: who else holds its pipes is not waited for */

    while (!stopping(l)) {
        bool more = l->ours[INPUT] >= 0 && push(l);
        struct pollfd fds[] = {
            {.fd = more ? l->ours[INPUT] : -1, .events = POLLOUT},
            {.fd = l->ours[OUTPUT], .events = POLLIN},
            {.fd = l->ours[ERRORS], .events = POLLIN},
            {.fd = l->wake, .events = POLLIN},
            {.fd = l->reaped ? -1 : tn_child_pidfd(l->child), .events = POLLIN},
        };

        poll(fds, TN_COUNT(fds), tn_poll_ms(until));
        if (fds[ERRORS].revents)
            pull(l, ERRORS);
        if (fds[OUTPUT].revents)
            too_long = pull(l, OUTPUT) < 0;
        if (too_long || l->ours[OUTPUT] < 0 || tn_now() >= until)
            break;
        if (fds[ENDED].revents) {
            bury(l);
            until = tn_deadline_in(END_SECONDS);
        }
    }
    if (too_long || l->ours[OUTPUT] < 0 || l->reaped)
        tell_end(l, too_long);
    return NULL;
}

/* --- messages ------------------------------------------------------------------------------- */

static void wake(struct pipe_link *l)
{
    uint64_t one = 1;

    (void)!write(l->wake, &one, sizeof one);
}

static int pipe_send(struct mcp_link *link, const char *const *headers, const char *text, size_t n,
                     int64_t deadline, struct tn_error *err)
{
    struct pipe_link *l = (struct pipe_link *)link;

    pthread_mutex_lock(&l->lock);
    bool fits = l->out.len + n < l->out.max;
    if (fits) {
        tn_buf_add(&l->out, text, n);
        tn_buf_putc(&l->out, '\n');
    }
    pthread_mutex_unlock(&l->lock);
    if (!fits)
        return tn_fail(err, TN_E_BUSY, "%s does not read what it is sent", l->name);
    wake(l);
    return 0;
}

/* --- life ----------------------------------------------------------------------------------- */

/* Its input ends; then it is asked, then it is made. */
static void end_child(struct pipe_link *l)
{
    static const int signals[] = {0, SIGTERM};

    for (size_t i = 0; i < TN_COUNT(signals) && !l->reaped; i++) {
        if (signals[i])
            tn_child_signal_group(l->child, signals[i], NULL);
        if (has_ended(l, tn_deadline_in(END_SECONDS)))
            break;
    }
    bury(l);
    tn_child_free(l->child);
}

static void pipe_close(struct mcp_link *link)
{
    struct pipe_link *l = (struct pipe_link *)link;

    pthread_mutex_lock(&l->lock);
    l->stop = true;
    pthread_mutex_unlock(&l->lock);
    if (l->moving) {
        wake(l);
        pthread_join(l->mover, NULL);
    }
    for (int i = 0; i < PIPES; i++)
        close_pipe(l, i);
    if (l->child)
        end_child(l);
    tn_close(l->wake);
    tn_lines_done(&l->lines);
    tn_buf_done(&l->out);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

static int start(struct pipe_link *l, const struct mcp_server *server, int64_t deadline,
                 struct tn_error *err)
{
    struct tn_child_fd fds[PIPES];
    int theirs[PIPES];
    int made = 0;

    for (int ends[2]; made < PIPES && pipe2(ends, O_CLOEXEC) == 0; made++) {
        l->ours[made] = ends[made == INPUT];
        theirs[made] = ends[made != INPUT];
        fcntl(l->ours[made], F_SETFL, O_NONBLOCK);
        fds[made] = (struct tn_child_fd){theirs[made], made};
    }
    if (made < PIPES)
        tn_fail_errno(err, errno, "pipe");
    else
        l->child = tn_child_start(&(struct tn_child_spec){.argv = (const char *const *)server->argv,
                                                          .env = (const char *const *)server->env,
                                                          .fds = fds,
                                                          .fd_count = PIPES,
                                                          .group = true,
                                                          .death_signal = SIGTERM,
                                                          .deadline = deadline},
                                  err);
    while (made > 0)
        tn_close(theirs[--made]);
    return l->child ? 0 : -1;
}

static struct mcp_link *pipe_open(const struct mcp_server *server, const char *url,
                                  struct tn_mcp_peer *peer, int64_t deadline, struct tn_error *err)
{
    struct pipe_link *l = tn_calloc(1, sizeof *l);

    *l = (struct pipe_link){
        .link = {.ops = &mcp_over_pipes, .peer = peer},
        .name = server->label,
        .ours = {-1, -1, -1},
        .out = TN_BUF_INIT(2 * MCP_MESSAGE_MAX),
        .wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
    };
    tn_lines_init(&l->lines, MCP_MESSAGE_MAX);
    pthread_mutex_init(&l->lock, NULL);
    if (l->wake < 0) {
        tn_fail_errno(err, errno, "eventfd");
    } else if (start(l, server, deadline, err) == 0) {
        int failed = tn_thread_start(&l->mover, move, l);
        l->moving = !failed;
        if (!failed)
            return &l->link;
        tn_fail_errno(err, failed, "thread");
    }
    pipe_close(&l->link);
    return NULL;
}

const struct mcp_link_ops mcp_over_pipes = {
    .open = pipe_open,
    .send = pipe_send,
    .close = pipe_close,
};
