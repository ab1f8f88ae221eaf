/* The process that launches a jail, as seen from here: it is started, if possible before it is
 * needed, gets what it needs in a parcel, and reports. */
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/thread.h"
#include "jail/parcel.h"
#include "runtime/jail/jail.h"

#define REPORT_MAX (64u << 10)
#define KILL_SECONDS 5.0
#define START_SECONDS 10.0 /* of one that is not needed yet */
#define BIRTH_SECONDS 2.0  /* until one that a nursery was asked for must have said something */

/* --- what it gets and what it says ------------------------------------------------------------ */

/* The plan holds the key: it is never in a file. */
static int write_plan(const struct tn_jail_plan *plan, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(16u << 20);
    tn_autofd int fd = memfd_create("plan", MFD_CLOEXEC);
    struct tn_jw w = tn_jw(&text);

    tn_jail_plan_to_json(plan, &w);
    if (!tn_buf_ok(&text))
        return tn_fail(err, TN_E_TOO_LARGE, "the plan of the jail is too large");
    if (fd < 0)
        return tn_fail_errno(err, errno, "memory for the plan");
    if (tn_fs_write(fd, text.data, text.len, err) < 0 || lseek(fd, 0, SEEK_SET) < 0)
        return -1;
    return TN_TAKE_FD(fd);
}

/* One line, or whatever came until the end. */
static int read_report(int fd, struct tn_buf *report, int64_t deadline, struct tn_error *err)
{
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int ready = poll(&p, 1, tn_poll_ms(deadline));
        if (ready == 0)
            return tn_fail(err, TN_E_TIMEOUT, "the jail did not start in time");
        char *to = tn_buf_reserve(report, 4096);
        ssize_t n = ready < 0 ? -1 : to ? read(fd, to, 4096) : 0;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return tn_fail_errno(err, errno, "report of the jail");
        tn_buf_grew(report, (size_t)n);
        if (n == 0 || memchr(report->data, '\n', report->len))
            return 0;
    }
}

static enum tn_code code_by_name(const char *name)
{
    for (int i = 0; name && i < TN_CODE_COUNT; i++)
        if (strcmp(tn_code_row((enum tn_code)i)->name, name) == 0)
            return (enum tn_code)i;
    return TN_E_INTERNAL;
}

static int take_report(const struct tn_buf *text, struct jail_ref *ref, struct tn_place *place,
                       struct tn_error *err)
{
    tn_autojson struct tn_json *report = NULL;

    if (text->len == 0)
        return tn_fail(err, TN_E_INTERNAL, "%s ended without a word", JAIL_PROGRAM);
    if (tn_json_parse(text->data, text->len, &report, err) < 0)
        return tn_error_context(err, "report of the jail");
    const char *error = tn_json_get_str(report, "error", NULL);
    if (tn_json_bool(tn_json_get(report, "out_of_memory"), false))
        place->blame = TN_BLAME_MEMORY;
    if (error)
        return tn_fail(err, code_by_name(tn_json_get_str(report, "code", NULL)), "%s", error);
    ref->pid = tn_json_int(tn_json_get(report, "pid"), 0);
    ref->start = tn_json_int(tn_json_get(report, "start"), 0);
    ref->keeper = tn_json_int(tn_json_get(report, "keeper"), 0);
    ref->keeper_start = tn_json_int(tn_json_get(report, "keeper_start"), 0);
    if (jail_ref_isolate(ref, tn_json_get(report, "isolation"), err) < 0)
        return tn_error_context(err, "report of the jail");
    place->isolation = jail_ref_isolation(ref);
    return 0;
}

/* A FIFO that the launcher holds open until its report is written, also when the process that
 * started it was killed: whoever comes after that one must not overtake the start. */
static int open_start(const struct tn_subject *subject, struct tn_error *err)
{
    tn_autofree char *path = tn_asprintf("%s/" JAIL_STARTING, subject->directory);
    int fd = mkfifo(path, 0600) < 0 && errno != EEXIST
                 ? -1
                 : open(path, O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);

    return fd < 0 ? tn_fail_errno(err, errno, "%s", path) : fd;
}

int jail_await_start(const struct tn_subject *subject, int64_t deadline, struct tn_error *err)
{
    tn_autofree char *path = tn_asprintf("%s/" JAIL_STARTING, subject->directory);
    tn_autofd int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    char byte;

    if (fd < 0)
        return errno == ENOENT ? 0 : tn_fail_errno(err, errno, "%s", path);
    while (read(fd, &byte, 1) < 0) { /* 0: nobody has it open for writing */
        if (errno != EAGAIN && errno != EINTR)
            return tn_fail_errno(err, errno, "%s", path);
        if (poll(&p, 1, tn_poll_ms(deadline)) == 0)
            return tn_fail(err, TN_E_BUSY, "the jail is still being started");
    }
    return 0;
}

/* --- the process ------------------------------------------------------------------------------ */

int jail_program_start(const struct jail_engine *e, const char *mode, int number, int64_t deadline,
                       struct tn_error *err)
{
    char digits[16];
    const char *const argv[] = {JAIL_PROGRAM, mode, digits, NULL};
    static const char *const env[] = {JAIL_PATH_ENTRY, NULL};
    int pair[2];

    snprintf(digits, sizeof digits, "%d", number);
    if (tn_parcel_pair(pair, err) < 0)
        return -1;
    tn_autofd int ours = pair[0], theirs = pair[1];
    const struct tn_child_fd fds[] = {{theirs, number}};
    tn_autochild struct tn_child *starter =
        tn_child_start(&(struct tn_child_spec){.argv = argv,
                                               .file = e->launcher,
                                               .env = env,
                                               .cwd = "/",
                                               .fds = fds,
                                               .fd_count = TN_COUNT(fds),
                                               .session = true,
                                               .orphan = true,
                                               .deadline = deadline},
                       err);
    if (!starter || tn_child_wait(starter, deadline, NULL, err) < 0)
        return -1;
    return TN_TAKE_FD(ours);
}

static int execute(const struct jail_engine *e, struct jail_launcher *l, int64_t deadline,
                   struct tn_error *err)
{
    l->nursery = 0;
    l->user = jail_user_now();
    l->socket = jail_program_start(e, "--parcel", TN_PARCEL_FD, deadline, err);
    return l->socket < 0 ? -1 : 0;
}

/* Asks for one to be forked; deadline 0: of a nursery that is there.  It may never come. */
static bool order(struct jail_engine *e, struct jail_launcher *l, int64_t deadline)
{
    int pair[2];

    if (tn_parcel_pair(pair, NULL) < 0)
        return false;
    tn_autofd int ours = pair[0], theirs = pair[1];
    l->user = jail_user_now();
    l->nursery =
        deadline ? jail_nursery_bear(e, theirs, deadline) : jail_nursery_ask(&e->nursery, theirs);
    l->socket = l->nursery ? TN_TAKE_FD(ours) : -1;
    return l->nursery != 0;
}

/* Whether the one that a nursery was asked for is there; what it says stays to be read. */
static bool is_born(struct jail_engine *e, const struct jail_launcher *l, int64_t deadline)
{
    int64_t patience = tn_deadline_in(BIRTH_SECONDS);
    int ms = tn_poll_ms(patience < deadline ? patience : deadline);
    struct pollfd p = {.fd = l->socket, .events = POLLIN};
    struct tn_proc it;
    int ready;

    while ((ready = poll(&p, 1, ms)) < 0 && errno == EINTR)
        ;
    if (ready == 0) /* it was stopped, say, and may keep what it gets for ever */
        jail_nursery_leave(&e->nursery, l->nursery);
    return ready > 0 && recv(l->socket, &it, sizeof it, MSG_PEEK | MSG_DONTWAIT) == sizeof it;
}

/* One that nobody listens to any more ends with everything it has begun.  The first thing it says
 * is who it is; its socket is open until it has reported, or longer than it lives, if it has left a
 * child: by then its number may be another's. */
static void kill_launcher(const struct jail_launcher *l)
{
    struct pollfd p = {.fd = l->socket};
    struct tn_proc it;

    if (recv(l->socket, &it, sizeof it, MSG_DONTWAIT) == sizeof it && poll(&p, 1, 0) == 0 &&
        tn_proc_lives(it.pid, it.start))
        tn_proc_kill_tree(it.pid, true, 0, tn_deadline_in(KILL_SECONDS), NULL);
}

void jail_launcher_done(struct jail_launcher *l)
{
    if (l->report >= 0) /* it was told what to do, and not heard */
        kill_launcher(l);
    tn_close(TN_TAKE_FD(l->report));
    tn_close(TN_TAKE_FD(l->socket)); /* one that waits for its parcel ends */
    if (l->turns)
        jail_turns_leave(l->turns);
    l->turns = NULL;
}

/* --- before it is needed ---------------------------------------------------------------------- */

static void early_came(struct jail_engine *e, const struct jail_launcher *l)
{
    pthread_mutex_lock(&e->early_lock);
    e->early = *l;
    e->early_comes = false;
    pthread_cond_broadcast(&e->early_came);
    pthread_mutex_unlock(&e->early_lock);
}

/* Who needs it will see why there is none. */
static void *start_early(void *arg)
{
    struct jail_engine *e = arg;
    struct jail_launcher l = JAIL_LAUNCHER_NONE;
    int64_t deadline = tn_deadline_in(START_SECONDS);

    if (!order(e, &l, deadline))
        execute(e, &l, deadline, NULL);
    early_came(e, &l);
    return NULL;
}

/* By a thread, if it takes time: whoever expects a jail has enough to do until it is there. */
void jail_launcher_expect(struct jail_engine *e)
{
    struct jail_launcher l = JAIL_LAUNCHER_NONE;
    pthread_t thread;

    pthread_mutex_lock(&e->early_lock);
    bool wanted = e->early.socket < 0 && !e->early_comes;
    if (wanted)
        e->early_comes = true;
    pthread_mutex_unlock(&e->early_lock);
    if (!wanted)
        return;
    if (order(e, &l, 0))
        early_came(e, &l);
    else if (tn_thread_start(&thread, start_early, e) == 0)
        pthread_detach(thread);
    else
        start_early(e);
}

/* Without what it counts for: another one will do that. */
static void dismiss(struct jail_launcher *l)
{
    tn_close(TN_TAKE_FD(l->socket));
}

/* False when there is none, or only one of whom this process was before. */
static bool take_early(struct jail_engine *e, struct jail_launcher *l, int64_t deadline)
{
    struct timespec until = tn_timespec(deadline);

    pthread_mutex_lock(&e->early_lock);
    while (e->early_comes &&
           pthread_cond_timedwait(&e->early_came, &e->early_lock, &until) != ETIMEDOUT)
        ;
    l->socket = TN_TAKE_FD(e->early.socket);
    l->nursery = e->early.nursery;
    l->user = e->early.user;
    pthread_mutex_unlock(&e->early_lock);
    return l->socket >= 0 && jail_user_is(&l->user);
}

void jail_launcher_expect_none(struct jail_engine *e)
{
    pthread_mutex_lock(&e->early_lock);
    while (e->early_comes) /* at most as long as a start may take */
        pthread_cond_wait(&e->early_came, &e->early_lock);
    pthread_mutex_unlock(&e->early_lock);
    jail_launcher_done(&e->early);
}

/* --- launching -------------------------------------------------------------------------------- */

/* To the one that is there, if it lives; to a new one otherwise.  Who is not born yet gets none: it
 * might never be, and what it holds of the sandbox would be in nobody's hands. */
static int send_parcel(struct jail_engine *e, struct jail_launcher *l,
                       const struct tn_child_fd *fds, size_t count, int64_t deadline,
                       struct tn_error *err)
{
    for (int i = 0; i < 2; i++) {
        bool there = i == 0 ? take_early(e, l, deadline) : order(e, l, deadline);
        if (there && (!l->nursery || is_born(e, l, deadline)) &&
            tn_parcel_send(l->socket, fds, count, NULL) == 0)
            return 0;
        dismiss(l);
    }
    return execute(e, l, deadline, err) < 0 ? -1 : tn_parcel_send(l->socket, fds, count, err);
}

int jail_launcher_start(struct jail_engine *e, const struct tn_subject *subject,
                        const struct tn_jail_plan *plan, int socket, int files, int vault,
                        struct jail_launcher *l, int64_t deadline, struct tn_error *err)
{
    int ends[2];

    tn_autofd int start = open_start(subject, err);
    tn_autofd int text = start < 0 ? -1 : write_plan(plan, err);
    if (text < 0)
        return -1;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return tn_fail_errno(err, errno, "pipe");
    tn_autofd int report = ends[0], theirs = ends[1];
    struct tn_child_fd fds[TN_PARCEL_MOST] = {
        {text, TN_JAIL_PLAN_FD}, {theirs, TN_JAIL_REPORT_FD}, {start, TN_JAIL_START_FD}};
    size_t count = 3;
    if (socket >= 0)
        fds[count++] = (struct tn_child_fd){socket, JAIL_LISTEN_FD};
    if (files >= 0)
        fds[count++] = (struct tn_child_fd){files, JAIL_FILES_FD};
    if (vault >= 0)
        fds[count++] = (struct tn_child_fd){vault, TN_JAIL_VAULT_FD};
    jail_turns_enter(&e->turns, deadline);
    l->turns = &e->turns;
    if (send_parcel(e, l, fds, count, deadline, err) < 0)
        return -1;
    l->report = TN_TAKE_FD(report);
    if (files >= 0) /* whoever waits for files does not keep others from starting */
        jail_turns_leave(TN_TAKE_PTR(l->turns));
    return 0;
}

int jail_launcher_finish(struct jail_launcher *l, struct jail_ref *ref, struct tn_place *place,
                         int64_t deadline, struct tn_error *err)
{
    tn_autobuf struct tn_buf report = TN_BUF_INIT(REPORT_MAX);

    if (read_report(l->report, &report, deadline, err) < 0)
        return -1;
    tn_close(TN_TAKE_FD(l->report)); /* it was heard */
    jail_launcher_done(l);
    return take_report(&report, ref, place, err);
}
