/* Starting a process: as whom, where, with which environment and descriptors. */
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <termios.h>

#include "base/thread.h"
#include "hand/process/process-internal.h"

enum { LOG_BYTES = 1 << 20, COLUMNS = 80, ROWS = 24 };
/* So long after its start a reader is expected: whoever starts one asks for its output next. */
#define READER_SECONDS 5.0

/* --- who -------------------------------------------------------------------------------------- */

struct identity {
    struct tn_user account;
    gid_t *groups;
    size_t group_count;
    bool other; /* not the sandbox's own user */
};

static void identity_done(struct identity *who)
{
    tn_user_done(&who->account);
    free(who->groups);
}

static int find_account(const char *name, struct tn_user *out, struct tn_error *err)
{
    char *end;
    unsigned long uid = strtoul(name, &end, 10);

    if (tn_user_by_name(TN_FS_ANYWHERE, name, out, err) == 0)
        return 0;
    if (!*name || *end || name[strspn(name, "0123456789")] || uid > UINT_MAX - 1)
        return -1;
    return tn_user_by_uid(TN_FS_ANYWHERE, (uid_t)uid, out, err);
}

static int find_user(const struct tn_process_options *options, const char *name,
                     struct identity *who, struct tn_error *err)
{
    if (!name)
        return 0;
    if (find_account(name, &who->account, err))
        return tn_fail(err, TN_E_NOT_FOUND, "there is no user %.60s in this sandbox", name);
    who->other = who->account.uid != options->user->account.uid;
    if (who->other && geteuid() != 0)
        return tn_fail(err, TN_E_DENIED,
                       "the hand cannot start a process of the user %.60s: it is "
                       "not root",
                       name);
    if (who->other)
        return tn_user_groups(TN_FS_ANYWHERE, &who->account, &who->groups, &who->group_count, err);
    return 0;
}

/* --- its environment -------------------------------------------------------------------------- */

struct environment {
    char **list;
    size_t count;
};

static void environment_done(struct environment *e)
{
    for (size_t i = 0; i < e->count; i++)
        free(e->list[i]);
    free(e->list);
}

/* The last one of a name counts. */
static void set(struct environment *e, char *entry)
{
    size_t name = strcspn(entry, "=") + 1, i = 0;

    while (i < e->count && strncmp(e->list[i], entry, name) != 0)
        i++;
    if (i < e->count)
        free(e->list[i]);
    else
        e->count++;
    e->list[i] = entry;
}

static int set_variable(const char *name, struct tn_json *value, void *ctx)
{
    set(ctx, tn_asprintf("%s=%s", name, tn_json_str(value, NULL)));
    return 0;
}

static struct environment make_environment(const struct tn_process_options *options,
                                           const struct tn_process_spec *spec,
                                           const struct identity *who)
{
    size_t count = 0;

    while (options->env[count])
        count++;
    struct environment e = {.list =
                                tn_calloc(count + tn_json_count(spec->env) + 5, sizeof *e.list)};
    for (size_t i = 0; i < count; i++)
        e.list[e.count++] = tn_strdup(options->env[i]);
    if (who->other) {
        set(&e, tn_asprintf("HOME=%s", who->account.home));
        set(&e, tn_asprintf("USER=%s", who->account.name));
        set(&e, tn_asprintf("LOGNAME=%s", who->account.name));
        set(&e, tn_asprintf("SHELL=%s", who->account.shell));
    }
    tn_json_each(spec->env, set_variable, &e);
    return e;
}

static const char *home_of(const struct environment *e)
{
    for (size_t i = 0; i < e->count; i++)
        if (strncmp(e->list[i], "HOME=/", 6) == 0)
            return e->list[i] + 5;
    return "/";
}

/* What is not absolute is below the home of the user. */
static char *directory_for(const struct tn_process_options *options, const char *cwd,
                           const struct environment *e)
{
    if (!cwd || !*cwd)
        return tn_strdup(options->cwd);
    if (*cwd == '/')
        return tn_strdup(cwd);
    if (strncmp(cwd, "~/", 2) == 0 || strcmp(cwd, "~") == 0)
        cwd += cwd[1] ? 2 : 1;
    return tn_asprintf("%s/%s", home_of(e), cwd);
}

/* --- its descriptors -------------------------------------------------------------------------- */

/* Ends of the child, which are closed here when it has them. */
struct ends {
    int in, out, err;
};

static void ends_done(struct ends *ends)
{
    tn_close(ends->in);
    tn_close(ends->out);
    tn_close(ends->err);
}

static int make_pipe(int *ours, int *its, bool we_read, struct tn_error *err)
{
    int fds[2];

    if (pipe2(fds, O_CLOEXEC))
        return tn_fail_errno(err, errno, "a pipe for the process");
    *ours = fds[we_read ? 0 : 1];
    *its = fds[we_read ? 1 : 0];
    fcntl(*ours, F_SETFL, O_NONBLOCK);
    return 0;
}

static int open_pipes(struct tn_process *p, bool input, struct ends *ends, struct tn_error *err)
{
    if (input && make_pipe(&p->input_fd, &ends->in, false, err))
        return -1;
    return make_pipe(&p->out_fd, &ends->out, true, err) ||
                   make_pipe(&p->err_fd, &ends->err, true, err)
               ? -1
               : 0;
}

static int open_terminal(struct tn_process *p, const struct tn_process_spec *spec,
                         const struct tn_child_user *user, struct ends *ends, struct tn_error *err)
{
    struct termios modes;

    p->terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    if (p->terminal < 0 || unlockpt(p->terminal))
        return tn_fail_errno(err, errno, "open a terminal (/dev/ptmx)");
    ends->err = ioctl(p->terminal, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (ends->err < 0)
        return tn_fail_errno(err, errno, "open the terminal's other side");
    if (user && fchown(ends->err, user->uid, (gid_t)-1))
        return tn_fail_errno(err, errno, "give the terminal to user %u", (unsigned)user->uid);
    if (tcgetattr(ends->err, &modes) == 0) {
        modes.c_iflag |= IUTF8;
        tcsetattr(ends->err, TCSANOW, &modes);
    }
    ends->in = fcntl(ends->err, F_DUPFD_CLOEXEC, 3);
    ends->out = fcntl(ends->err, F_DUPFD_CLOEXEC, 3);
    p->out_fd = fcntl(p->terminal, F_DUPFD_CLOEXEC, 3);
    p->input_fd = fcntl(p->terminal, F_DUPFD_CLOEXEC, 3);
    if (ends->in < 0 || ends->out < 0 || p->out_fd < 0 || p->input_fd < 0)
        return tn_fail_errno(err, errno, "descriptors of a terminal");
    return process_set_size(p, spec->columns ? (int)spec->columns : COLUMNS,
                            spec->rows ? (int)spec->rows : ROWS, err);
}

/* --- the child -------------------------------------------------------------------------------- */

static void child_ended(struct tn_child *child, const struct tn_exit *result, void *ctx)
{
    struct tn_process *p = ctx;
    struct timespec now;

    (void)child;
    clock_gettime(CLOCK_REALTIME, &now);
    pthread_mutex_lock(&p->lock);
    p->status = result->status;
    p->ended = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
    p->ended_at = tn_now();
    p->exited = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    process_wake(p);
}

static int start_child(struct tn_process *p, const struct tn_process_options *options,
                       const struct tn_process_spec *spec, const struct identity *who,
                       int64_t deadline, struct tn_error *err)
{
    const struct tn_agent_user *own = options->user;
    const struct tn_child_user other = {who->account.uid, who->account.gid, who->groups,
                                        who->group_count},
                               usual = {own->account.uid, own->account.gid, own->groups,
                                        own->group_count},
                               *user = who->other         ? &other
                                       : own->switch_user ? &usual
                                                          : NULL;
    TN_CLEANUP(environment_done) struct environment e = make_environment(options, spec, who);
    tn_autofree char *cwd = directory_for(options, spec->cwd, &e);
    TN_CLEANUP(ends_done) struct ends ends = {-1, -1, -1};

    if (spec->pty ? open_terminal(p, spec, user, &ends, err)
                  : open_pipes(p, spec->input, &ends, err))
        return -1;
    const struct tn_child_fd fds[] = {{ends.in, 0}, {ends.out, 1}, {ends.err, 2}};
    const struct tn_child_spec child = {
        .argv = (const char *const *)spec->args.items,
        .env = (const char *const *)e.list,
        .cwd = cwd,
        .fds = fds,
        .fd_count = TN_COUNT(fds),
        .user = user,
        .session = true,
        .terminal = spec->pty,
        .death_signal = SIGKILL,
        .deadline = deadline,
        .on_exit = child_ended,
        .ctx = p,
    };
    p->child = tn_child_start(&child, err);
    if (!p->child)
        return -1;
    p->pid = tn_child_pid(p->child);
    return 0;
}

/* As it was started, for lists. */
static char *spec_text(const struct tn_process_spec *spec)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(4 << 20);
    struct tn_jw w = tn_jw(&text);

    tn_process_spec_to_json(spec, &w);
    return tn_buf_take(&text);
}

static int make_id(struct tn_process *p, struct tn_error *err)
{
    uint64_t random;

    if (getrandom(&random, sizeof random, 0) != sizeof random)
        return tn_fail_errno(err, errno, "no random bytes for the id of a process");
    snprintf(p->id, sizeof p->id, "p%016llx", (unsigned long long)random);
    return 0;
}

struct tn_process *process_new(const struct tn_process_options *options,
                               const struct tn_process_spec *spec, int64_t deadline,
                               struct tn_error *err)
{
    TN_CLEANUP(identity_done) struct identity who = {0};
    struct tn_process *p = tn_calloc(1, sizeof *p);
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    p->started = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
    p->deadline = spec->seconds > 0 ? tn_deadline_in(spec->seconds) : TN_NEVER;
    p->wait_for_reader = tn_deadline_in(READER_SECONDS);
    p->spec = spec_text(spec);
    p->tag = tn_strdup_or_null(spec->tag);
    p->pty = spec->pty;
    p->terminal = p->input_fd = p->out_fd = p->err_fd = -1;
    atomic_init(&p->refs, 1);
    pthread_mutex_init(&p->lock, NULL);
    tn_cond_init(&p->changed);
    process_log_init(&p->out, LOG_BYTES);
    process_log_init(&p->err, LOG_BYTES);
    p->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (p->wake < 0)
        tn_fail_errno(err, errno, "an event descriptor for the process");
    else if (make_id(p, err) == 0 && find_user(options, spec->user, &who, err) == 0 &&
             start_child(p, options, spec, &who, deadline, err) == 0)
        return p;
    tn_process_unref(p);
    return NULL;
}
