#include "runtime/jail/enter.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>

#include "base/fs.h"

#define REPORT_FD 3
#define REPORT_MAX 4096
#define CUT_OFF_MS 2000 /* for one that is to end */

/* --- what it is told ------------------------------------------------------------------------ */

struct arguments {
    const char **items;
    char pid[24], start[24], files[24], size[24], pids[24];
};

/* As jail/enter.c wants them. */
static int fill_arguments(const struct jail_entry *entry, struct arguments *a, struct tn_error *err)
{
    struct tn_limits limits;
    size_t count = 0, n = 0;
    int shares;

    if (jail_limits(entry->e, entry->subject->spec, &limits, err) < 0 ||
        (shares = jail_mounts_share(entry->subject->spec, err)) < 0)
        return -1;
    while (entry->argv[count])
        count++;
    snprintf(a->pid, sizeof a->pid, "%lld", (long long)entry->ref->pid);
    snprintf(a->start, sizeof a->start, "%lld", (long long)entry->ref->start);
    snprintf(a->files, sizeof a->files, "%llu", (unsigned long long)limits.open_files);
    snprintf(a->size, sizeof a->size, "%llu", (unsigned long long)limits.file_size);
    snprintf(a->pids, sizeof a->pids, "%llu", (unsigned long long)limits.pids);
    a->items = tn_calloc(count + 12, sizeof *a->items);
    const char *const head[] = {JAIL_PROGRAM,
                                "--enter",
                                "3",
                                a->pid,
                                a->start,
                                entry->subject->id,
                                a->files,
                                a->size,
                                a->pids,
                                shares ? "1" : "0",
                                entry->ref->workspace ? entry->ref->workspace : "/"};
    for (; n < TN_COUNT(head); n++)
        a->items[n] = head[n];
    memcpy(a->items + n, entry->argv, count * sizeof *a->items);
    return 0;
}

/* --- its streams ---------------------------------------------------------------------------- */

struct streams {
    int in, out, report; /* our ends */
    size_t written;
    struct tn_buf failure; /* what came on report */
};

static int fill_input(struct streams *s, const struct jail_entry *entry)
{
    size_t left = entry->input_length - s->written;
    ssize_t n = left ? write(s->in, (const char *)entry->input + s->written, left) : 0;

    if (n > 0)
        s->written += (size_t)n;
    if (s->written == entry->input_length || (n < 0 && errno != EAGAIN && errno != EINTR))
        tn_close(TN_TAKE_FD(s->in));
    return 0;
}

/* Reads what is there; closes at the end. */
static int drain(int *fd, struct tn_buf *to, struct tn_error *err)
{
    char bytes[16 << 10];
    ssize_t n = read(*fd, bytes, sizeof bytes);

    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return 0;
    if (n <= 0) {
        tn_close(TN_TAKE_FD(*fd));
        return 0;
    }
    return to && tn_buf_add(to, bytes, (size_t)n) < 0 ? tn_output_fits(to, err) : 0;
}

static int exchange(struct streams *s, const struct jail_entry *entry, int pidfd,
                    struct tn_error *err)
{
    while (s->out >= 0 || s->report >= 0) {
        struct pollfd p[] = {{.fd = s->in, .events = POLLOUT},
                             {.fd = s->out, .events = POLLIN},
                             {.fd = s->report, .events = POLLIN},
                             {.fd = pidfd, .events = POLLIN}};
        int ready = poll(p, TN_COUNT(p), tn_poll_ms(entry->deadline));
        if (ready == 0)
            return tn_fail(err, TN_E_TIMEOUT, "the program did not end in time");
        if (ready < 0)
            continue;
        if (p[0].revents)
            fill_input(s, entry);
        if ((p[1].revents && drain(&s->out, entry->out, err) < 0) ||
            (p[2].revents && drain(&s->report, &s->failure, err) < 0))
            return -1;
        /* What it left behind in the background may hold the pipe open for ever. */
        if (p[3].revents && !p[1].revents && !p[2].revents)
            return 0;
    }
    return 0;
}

/* --- starting it ---------------------------------------------------------------------------- */

static struct tn_child *start(const struct jail_entry *entry, const char *const *argv,
                              struct streams *s, struct tn_error *err)
{
    TN_CLEANUP(jail_list_done) struct tn_str_list env = {0};
    jail_autostorage struct jail_storage storage = {0};
    int in[2] = {-1, -1}, out[2] = {-1, -1}, report[2] = {-1, -1};
    struct tn_child *child = NULL;

    jail_storage_init(&storage);
    jail_storage_read(entry->subject->directory, &storage, NULL); /* for the image's variables */
    jail_environment(entry->subject, &storage, &env);
    if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0 || pipe2(report, O_CLOEXEC) < 0) {
        tn_fail_errno(err, errno, "pipe");
    } else {
        const struct tn_child_fd fds[] = {
            {in[0], 0}, {out[1], 1}, {out[1], 2}, {report[1], REPORT_FD}};
        child = tn_child_start(&(struct tn_child_spec){.argv = argv,
                                                       .file = entry->e->launcher,
                                                       .env = (const char *const *)env.items,
                                                       .cwd = "/",
                                                       .fds = fds,
                                                       .fd_count = TN_COUNT(fds),
                                                       .session = true,
                                                       .death_signal = SIGKILL,
                                                       .deadline = entry->deadline},
                               err);
    }
    tn_close(in[0]);
    tn_close(out[1]);
    tn_close(report[1]);
    s->in = in[1];
    s->out = out[0];
    s->report = report[0];
    if (s->in >= 0)
        fcntl(s->in, F_SETFL, O_NONBLOCK);
    return child;
}

static int finish(const struct jail_entry *entry, struct streams *s, struct tn_child *child,
                  struct tn_error *err)
{
    struct tn_exit result;

    if (tn_child_wait(child, entry->deadline, &result, err) < 0)
        return -1;
    if (s->failure.len)
        return tn_fail(err, TN_E_IO, "enter the jail: %s", tn_buf_str(&s->failure));
    int code = tn_exit_code(&result);
    if (entry->status)
        *entry->status = code;
    else if (code != 0)
        return tn_fail(err, TN_E_IO, "enter the jail: status %d", code);
    return 0;
}

/* It ends what it started inside, and then itself. */
static void cut_off(struct tn_child *child)
{
    struct pollfd p = {.fd = tn_child_pidfd(child), .events = POLLIN};

    tn_child_signal(child, SIGTERM, NULL);
    poll(&p, 1, CUT_OFF_MS);
    tn_child_signal_group(child, SIGKILL, NULL);
    tn_child_wait(child, tn_deadline_in(CUT_OFF_MS / 1000.0), NULL, NULL);
}

int jail_enter(const struct jail_entry *entry, struct tn_error *err)
{
    struct streams s = {.in = -1, .out = -1, .report = -1, .failure = TN_BUF_INIT(REPORT_MAX)};
    struct arguments a = {0};
    int r = fill_arguments(entry, &a, err);
    struct tn_child *child = r < 0 ? NULL : start(entry, a.items, &s, err);

    r = -1;
    if (child) {
        sigset_t pipe_signal, before;
        sigemptyset(&pipe_signal);
        sigaddset(&pipe_signal, SIGPIPE);
        pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
        r = exchange(&s, entry, tn_child_pidfd(child), err);
        struct timespec none = {0};
        while (sigtimedwait(&pipe_signal, NULL, &none) > 0)
            ;
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        if (r < 0)
            cut_off(child);
        else
            r = finish(entry, &s, child, err);
    }
    tn_child_free(child);
    tn_close(s.in);
    tn_close(s.out);
    tn_close(s.report);
    tn_buf_done(&s.failure);
    free(a.items);
    return r;
}
