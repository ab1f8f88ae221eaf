#include "base/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/fs.h"

#define PROCESSES_MAX 65536
#define FILE_MAX ((size_t)1 << 20)
#define PID_LIMIT (4 << 20) /* the kernel has no larger numbers */
#define FREEZE_ROUNDS 16
#define QUIET_LOOKS 3
#define STILL_MS 1
/* For all to stop; who cannot be stopped is killed all the same. */
#define FREEZE_SECONDS 1.0
#define TICK_MS 5 /* only on kernels without pidfds */

/* Processes in the order they were found, each once. */
struct procs {
    struct tn_proc *items;
    size_t count, cap;
    uint8_t *seen; /* one bit per number */
};

static void procs_done(struct procs *p)
{
    free(p->items);
    free(p->seen);
}
#define autoprocs TN_CLEANUP(procs_done)

static int add(struct procs *p, const struct tn_proc *one, struct tn_error *err)
{
    if (one->pid <= 0 || one->pid >= PID_LIMIT)
        return tn_fail(err, TN_E_INTERNAL, "process %d: no such number", (int)one->pid);
    if (!p->seen)
        p->seen = tn_calloc(PID_LIMIT / 8, 1);
    uint8_t bit = (uint8_t)(1u << one->pid % 8);
    if (p->seen[one->pid / 8] & bit)
        return 0;
    if (p->count == PROCESSES_MAX)
        return tn_fail(err, TN_E_TOO_LARGE, "more than %d processes", PROCESSES_MAX);
    if (p->count == p->cap) {
        p->cap = p->cap ? p->cap * 2 : 16;
        p->items = tn_realloc(p->items, p->cap * sizeof *p->items);
    }
    p->seen[one->pid / 8] |= bit;
    p->items[p->count++] = *one;
    return 0;
}

/* --- looking ------------------------------------------------------------------------------- */

int tn_proc_numbers(const char *line, unsigned skip, unsigned long long *out, unsigned count)
{
    for (unsigned i = 0; i < skip + count; i++) {
        line += strspn(line, " ");
        size_t n = strcspn(line, " \n"), digits = strspn(line, "0123456789");
        if (n == 0 || (i >= skip && digits != n))
            return -1;
        if (i >= skip)
            out[i - skip] = strtoull(line, NULL, 10);
        line += n;
    }
    return 0;
}

/* The beginning of /proc/PID/NAME as a string; empty when there is none. */
static const char *read_about(pid_t pid, const char *name, char *text, size_t size)
{
    char path[40];

    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    tn_autofd int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);
    text[n < 0 ? 0 : n] = '\0';
    return text;
}

void tn_proc_no_core(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_CORE, &limit) < 0)
        return;
    /* One byte: a handler that is given a pipe gets a core in spite of a limit of none. */
    limit.rlim_cur = 1;
    limit.rlim_max = limit.rlim_max ? limit.rlim_max : 1;
    setrlimit(RLIMIT_CORE, &limit);
}

/* /proc/PID/stat: the name in parentheses may contain anything, so fields count from the last ')'.
 */
int tn_proc_get(pid_t pid, struct tn_proc *out)
{
    char text[1024];
    const char *p = strrchr(read_about(pid, "stat", text, sizeof text), ')');
    unsigned long long parent, start;
    if (!p || tn_proc_numbers(p + 1, 1, &parent, 1) < 0 ||
        tn_proc_numbers(p + 1, 19, &start, 1) < 0)
        return -1;
    *out = (struct tn_proc){.pid = pid, .parent = (pid_t)parent, .start = start};
    return 0;
}

static void read_lines(pid_t pid, const char *file, struct tn_buf *out)
{
    tn_autofree char *path = tn_asprintf("/proc/%d/%s", (int)pid, file);

    tn_fs_read(TN_FS_ANYWHERE, path, out, NULL);
}

/* What is mounted counts, the fourth field: where it is mounted says nothing, since an engine may
 * mount what is a container's in sight of everybody. */
static bool mounts_bear(const char *lines, const char *name)
{
    for (const char *line = lines; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        const char *field = line;

        for (int i = 0; i < 3; i++)
            field += strcspn(field, " \n"), field += *field == ' ';
        if (memmem(field, strcspn(field, " \n"), name, strlen(name)))
            return true;
    }
    return false;
}

bool tn_proc_bears(pid_t pid, const char *name)
{
    tn_autobuf struct tn_buf groups = TN_BUF_INIT(FILE_MAX), mounts = TN_BUF_INIT(FILE_MAX);

    read_lines(pid, "cgroup", &groups);
    if (strstr(tn_buf_str(&groups), name))
        return true;
    read_lines(pid, "mountinfo", &mounts);
    return mounts_bear(tn_buf_str(&mounts), name);
}

/* The next name in the directory that is a number; 0 at the end. */
static pid_t next_pid(DIR *dir)
{
    struct dirent *entry;

    while ((entry = readdir(dir))) {
        char *end;
        long pid = strtol(entry->d_name, &end, 10);
        if (pid > 0 && !*end)
            return (pid_t)pid;
    }
    return 0;
}

static int add_listed(struct procs *found, char *numbers, pid_t parent, struct tn_error *err)
{
    for (char *p = numbers, *end;; p = end) {
        struct tn_proc one;
        pid_t pid = (pid_t)strtol(p, &end, 10);
        if (end == p)
            return 0;
        if (tn_proc_get(pid, &one) == 0 && one.parent == parent && add(found, &one, err) < 0)
            return -1;
    }
}

/* The children of each thread of the process. */
static int add_children(struct procs *found, pid_t parent, struct tn_error *err)
{
    char path[64];
    pid_t thread;
    int result = 0;

    snprintf(path, sizeof path, "/proc/%d/task", (int)parent);
    DIR *dir = opendir(path);
    if (!dir)
        return 0; /* it is gone, and its children have another parent */
    while (result == 0 && (thread = next_pid(dir))) {
        tn_autobuf struct tn_buf text = TN_BUF_INIT(FILE_MAX);
        snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)parent, (int)thread);
        tn_autofd int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0 && tn_fs_read_fd(fd, &text, NULL) == 0 && text.len > 0)
            result = add_listed(found, text.data, parent, err);
    }
    closedir(dir);
    return result;
}

static bool lists_children(void)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    return access(path, R_OK) == 0;
}

static int add_all(struct procs *all, struct tn_error *err)
{
    DIR *dir = opendir("/proc");
    pid_t pid;
    int result = 0;

    if (!dir)
        return tn_fail_errno(err, errno, "/proc");
    while (result == 0 && (pid = next_pid(dir))) {
        struct tn_proc one;
        if (tn_proc_get(pid, &one) == 0)
            result = add(all, &one, err);
    }
    closedir(dir);
    return result;
}

static int add_children_from(struct procs *found, const struct procs *all, pid_t parent,
                             struct tn_error *err)
{
    for (size_t i = 0; i < all->count; i++)
        if (all->items[i].parent == parent && add(found, &all->items[i], err) < 0)
            return -1;
    return 0;
}

static int expand_one(struct procs *found, const struct procs *all, pid_t parent,
                      struct tn_error *err)
{
    return all->count ? add_children_from(found, all, parent, err)
                      : add_children(found, parent, err);
}

/* Adds the descendants of root, and of all that are in `found` already. */
static int find_descendants(pid_t root, struct procs *found, struct tn_error *err)
{
    autoprocs struct procs all = {0};

    if (!lists_children() && add_all(&all, err) < 0)
        return -1;
    if (expand_one(found, &all, root, err) < 0)
        return -1;
    for (size_t i = 0; i < found->count; i++)
        if (expand_one(found, &all, found->items[i].pid, err) < 0)
            return -1;
    return 0;
}

int tn_proc_descendants(pid_t root, struct tn_proc **list, size_t *count, struct tn_error *err)
{
    autoprocs struct procs found = {0};

    *list = NULL;
    *count = 0;
    if (find_descendants(root, &found, err) < 0)
        return -1;
    *count = found.count;
    *list = TN_TAKE_PTR(found.items);
    return 0;
}

/* --- ending -------------------------------------------------------------------------------- */

static bool same(const struct tn_proc *p)
{
    struct tn_proc now;
    return tn_proc_get(p->pid, &now) == 0 && now.start == p->start;
}

int tn_proc_open(const struct tn_proc *p)
{
    int fd = (int)syscall(SYS_pidfd_open, p->pid, 0);
    if (fd >= 0 && !same(p)) {
        close(fd);
        errno = ESRCH;
        return -1;
    }
    return fd;
}

/* 0, also when it is gone. */
static int signal_one(const struct tn_proc *p, int signal, struct tn_error *err)
{
    tn_autofd int fd = tn_proc_open(p);
    int result;

    if (fd >= 0)
        result = (int)syscall(SYS_pidfd_send_signal, fd, signal, NULL, 0);
    else if (errno == ENOSYS && same(p))
        result = kill(p->pid, signal);
    else
        return 0;
    if (result == 0 || errno == ESRCH)
        return 0;
    return tn_fail_errno(err, errno, "signal %d to process %d", signal, (int)p->pid);
}

/* Reaches all it can; -1 with the first that it could not. */
static int signal_all(const struct tn_proc *list, size_t count, int signal, struct tn_error *err)
{
    int result = 0;
    for (size_t i = 0; i < count; i++)
        if (signal_one(&list[i], signal, result == 0 ? err : NULL) < 0)
            result = -1;
    return result;
}

/* 0 when it is gone. */
static char state_of(pid_t pid)
{
    char text[512];
    const char *state = strrchr(read_about(pid, "stat", text, sizeof text), ')');
    return state && state[1] == ' ' ? state[2] : 0;
}

static bool is_zombie(pid_t pid)
{
    char state = state_of(pid);
    return state == 0 || state == 'Z' || state == 'X';
}

char tn_proc_state(pid_t pid, uint64_t start)
{
    char state = state_of(pid);
    return state && same(&(struct tn_proc){.pid = pid, .start = start}) ? state : 0;
}

double tn_proc_age(uint64_t start)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9 -
           (double)start / (double)sysconf(_SC_CLK_TCK);
}

bool tn_proc_lives(pid_t pid, uint64_t start)
{
    char state = pid > 0 ? tn_proc_state(pid, start) : 0;
    return state && state != 'Z' && state != 'X';
}

/* In a line of /proc/PID/status: a set of signals, in hexadecimal. */
static bool kill_is_pending(const char *status, const char *title)
{
    const char *line = strstr(status, title);
    return line && strtoull(line + strlen(title), NULL, 16) >> (SIGKILL - 1) & 1;
}

/* A signal that kills is pending until the process takes it; from then on it is exiting, which may
 * take long (PID 1 of a namespace waits for all others there), and stays so until it is buried.  In
 * this order: one that is killed between both looks is seen by the second. */
bool tn_proc_is_well(const struct tn_proc *p)
{
    enum { FLAGS_AT = 6, START_AT = 19, EXITING = 0x4 }; /* after the name; as the kernel has it */
    char text[4096];
    unsigned long long flags, start;

    read_about(p->pid, "status", text, sizeof text);
    if (kill_is_pending(text, "\nSigPnd:") || kill_is_pending(text, "\nShdPnd:"))
        return false;
    const char *rest = strrchr(read_about(p->pid, "stat", text, sizeof text), ')');
    return rest && tn_proc_numbers(rest + 1, FLAGS_AT, &flags, 1) == 0 && !(flags & EXITING) &&
           tn_proc_numbers(rest + 1, START_AT, &start, 1) == 0 && start == p->start;
}

/* False at the deadline. */
static bool wait_gone(const struct tn_proc *p, int64_t deadline)
{
    tn_autofd int fd = tn_proc_open(p);
    bool blind = fd < 0 && errno == ENOSYS;

    for (;;) {
        int ms = tn_poll_ms(deadline);
        if (fd < 0 && (!blind || !same(p) || is_zombie(p->pid)))
            return true;
        struct pollfd one = {.fd = fd, .events = POLLIN};
        if (poll(&one, 1, blind && (ms < 0 || ms > TICK_MS) ? TICK_MS : ms) > 0)
            return true;
        if (ms == 0)
            return false;
    }
}

/* How many of those that are ours to end have not. */
static size_t wait_all(const struct tn_proc *list, size_t count, int64_t deadline)
{
    size_t left = 0;
    for (size_t i = 0; i < count; i++)
        left += signal_one(&list[i], 0, NULL) == 0 && !wait_gone(&list[i], deadline);
    return left;
}

static int kill_and_wait(const struct tn_proc *list, size_t count, int64_t deadline,
                         struct tn_error *err)
{
    int result = signal_all(list, count, SIGKILL, err);
    size_t left = wait_all(list, count, deadline);
    if (result == 0 && left > 0)
        return tn_fail(err, TN_E_TIMEOUT, "%zu of %zu processes did not end in time", left, count);
    return result;
}

/* A stopped process must run to hear the request.  Who cannot be asked will not be killed either,
 * and that is where it is reported. */
static void ask_and_wait(const struct tn_proc *list, size_t count, int64_t grace)
{
    signal_all(list, count, SIGTERM, NULL);
    signal_all(list, count, SIGCONT, NULL);
    wait_all(list, count, grace);
}

int tn_proc_kill(const struct tn_proc *list, size_t count, int64_t grace, int64_t deadline,
                 struct tn_error *err)
{
    if (grace > 0)
        ask_and_wait(list, count, grace);
    return kill_and_wait(list, count, deadline, err);
}

/* Those that belong together: a tree, or all our descendants in a session or with a mark. */
struct family {
    pid_t root;
    bool root_too;
    pid_t session;
    uint64_t mark;
    struct procs *dead; /* where those of a session or mark go that have ended; NULL: nowhere */
};

static int list_tree(const struct family *f, struct procs *found, struct tn_error *err)
{
    struct tn_proc one;
    if (f->root_too && tn_proc_get(f->root, &one) == 0 && add(found, &one, err) < 0)
        return -1;
    return find_descendants(f->root, found, err);
}

static bool has_mark(pid_t pid, uint64_t mark)
{
    static const char title[] = "Max realtime timeout";
    char text[4096];
    const char *line = strstr(read_about(pid, "limits", text, sizeof text), title);
    unsigned long long hard; /* after the soft one */

    return line && tn_proc_numbers(line + strlen(title), 1, &hard, 1) == 0 && hard == mark;
}

/* Who is not ours to signal is left out: nothing would come of it. */
static int list_strays(const struct family *f, struct procs *found, struct tn_error *err)
{
    autoprocs struct procs ours = {0};

    if (find_descendants(getpid(), &ours, err) < 0)
        return -1;
    for (size_t i = 0; i < ours.count; i++) {
        const struct tn_proc *one = &ours.items[i];
        if (!(f->mark ? has_mark(one->pid, f->mark) : getsid(one->pid) == f->session))
            continue;
        struct procs *to = is_zombie(one->pid) ? f->dead : found;
        if (to && signal_one(one, 0, NULL) == 0 && add(to, one, err) < 0)
            return -1;
    }
    return 0;
}

static int list_family(const struct family *f, struct procs *found, struct tn_error *err)
{
    return f->root ? list_tree(f, found, err) : list_strays(f, found, err);
}

/* Until it has ended or is in one of these states.  Nothing tells that a process has stopped (it
 * does when it next enters or leaves the kernel), only that it has ended. */
static bool wait_state(const struct tn_proc *p, const char *states, int64_t deadline)
{
    tn_autofd int fd = tn_proc_open(p);

    for (;;) {
        char state = tn_proc_state(p->pid, p->start);
        if (state == 0 || strchr("ZX", state) || strchr(states, state))
            return true;
        if (tn_now() >= deadline)
            return false;
        struct pollfd one = {.fd = fd, .events = POLLIN};
        poll(&one, 1, STILL_MS);
    }
}

/* Stops everything until a look shows nothing new: what is stopped cannot give birth.  One that was
 * giving birth when it was told to stop has done so once it has stopped; one that sleeps deeply
 * (D) gives birth to nothing. */
static int freeze(const struct family *f, struct procs *all, struct tn_error *err)
{
    int64_t deadline = tn_deadline_in(FREEZE_SECONDS);
    size_t stopped = 0;

    for (int round = 0; round < FREEZE_ROUNDS; round++) {
        if (list_family(f, all, err) < 0)
            return -1;
        if (all->count == stopped)
            break;
        signal_all(all->items + stopped, all->count - stopped, SIGSTOP, NULL);
        for (; stopped < all->count; stopped++)
            wait_state(&all->items[stopped], "TtD", deadline);
    }
    return 0;
}

int tn_proc_kill_tree(pid_t root, bool root_too, int64_t grace, int64_t deadline,
                      struct tn_error *err)
{
    const struct family tree = {.root = root, .root_too = root_too};
    autoprocs struct procs asked = {0}, all = {0};

    if (grace > 0) {
        if (list_tree(&tree, &asked, err) < 0)
            return -1;
        ask_and_wait(asked.items, asked.count, grace);
    }
    /* Whoever outlived its parent hangs elsewhere in the tree by now. */
    for (size_t i = 0; i < asked.count; i++)
        if (same(&asked.items[i]) && add(&all, &asked.items[i], err) < 0)
            return -1;
    int frozen = freeze(&tree, &all, err);
    int killed = kill_and_wait(all.items, all.count, deadline, frozen < 0 ? NULL : err);
    return frozen < 0 ? -1 : killed;
}

/* --- stopping and going on ----------------------------------------------------------------- */

/* One that has lent its memory to a child (vfork, posix_spawn) sleeps deeply until that has become
 * another program: it cannot stop while the child is stopped, and does nothing either.  Children
 * come later in the list. */
static bool stands_still(const struct procs *all, size_t i)
{
    const struct tn_proc *p = &all->items[i];
    char state = tn_proc_state(p->pid, p->start);

    for (size_t child = i + 1; state == 'D' && child < all->count; child++)
        if (all->items[child].parent == p->pid && stands_still(all, child))
            return true;
    return state == 'T' || state == 't';
}

/* Also when it has ended; false at the deadline. */
static bool wait_still(const struct procs *all, size_t i, int64_t deadline)
{
    while (!stands_still(all, i) &&
           !wait_state(&all->items[i], "Tt", tn_now() + STILL_MS * TN_MILLI))
        if (tn_now() >= deadline)
            return false;
    return true;
}

int tn_proc_stop_tree(pid_t root, int64_t deadline, struct tn_error *err)
{
    const struct family tree = {.root = root, .root_too = true};
    autoprocs struct procs all = {0};

    if (freeze(&tree, &all, err) < 0 ||
        signal_all(all.items, all.count, SIGSTOP, err) < 0) /* again, for the errors */
        return -1;
    for (size_t i = 0; i < all.count; i++)
        if (!wait_still(&all, i, deadline))
            return tn_fail(err, TN_E_TIMEOUT, "process %d did not stop in time",
                           (int)all.items[i].pid);
    return 0;
}

int tn_proc_continue_tree(pid_t root, struct tn_error *err)
{
    const struct family tree = {.root = root, .root_too = true};
    autoprocs struct procs all = {0};
    int result = 0;

    if (list_tree(&tree, &all, err) < 0)
        return -1;
    for (size_t i = all.count; i-- > 0;)
        if (signal_one(&all.items[i], SIGCONT, result == 0 ? err : NULL) < 0)
            result = -1;
    return result;
}

/* --- strays -------------------------------------------------------------------------------- */

/* A look takes time: who has a child and ends meanwhile may hide it.  So one look that finds
 * nobody, alive or newly dead, is not enough. */
static void kill_strays(struct family f, int64_t deadline)
{
    autoprocs struct procs dead = {0};

    f.dead = &dead;
    for (int quiet = 0; quiet < QUIET_LOOKS && tn_now() < deadline;) {
        autoprocs struct procs all = {0};
        size_t before = dead.count;
        if (freeze(&f, &all, NULL) < 0)
            return;
        kill_and_wait(all.items, all.count, deadline, NULL);
        quiet = all.count > 0 || dead.count > before ? 0 : quiet + 1;
    }
}

void tn_proc_kill_session(pid_t leader, int64_t deadline)
{
    kill_strays((struct family){.session = leader}, deadline);
}

uint64_t tn_proc_mark_new(void)
{
    struct rlimit now;
    uint64_t mark;

    if (getrlimit(RLIMIT_RTTIME, &now) < 0 || now.rlim_max != RLIM_INFINITY ||
        getrandom(&mark, sizeof mark, 0) != sizeof mark)
        return 0;
    return mark >> 3 | UINT64_C(1) << 61;
}

void tn_proc_kill_marked(uint64_t mark, int64_t deadline)
{
    kill_strays((struct family){.mark = mark}, deadline);
}

/* --- memory --------------------------------------------------------------------------------- */

/* Pages of its own and pages it may share with others. */
static void count_pages(pid_t pid, int64_t *own, int64_t *shared)
{
    char path[64], text[256];
    unsigned long long pages[2]; /* resident, and of these those that it may share */

    snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
    tn_autofd int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (n <= 0)
        return;
    text[n] = '\0';
    if (tn_proc_numbers(text, 1, pages, 2) < 0)
        return;
    int64_t common = (int64_t)pages[1];
    *own += (int64_t)pages[0] - common;
    if (common > *shared)
        *shared = common;
}

int64_t tn_proc_memory(pid_t root, uint64_t mark)
{
    const struct family tree = {.root = root, .root_too = true}, marked = {.mark = mark};
    autoprocs struct procs all = {0};
    int64_t own = 0, shared = 0;

    if (list_tree(&tree, &all, NULL) == 0 && mark)
        list_strays(&marked, &all, NULL);
    for (size_t i = 0; i < all.count; i++)
        count_pages(all.items[i].pid, &own, &shared);
    return (own + shared) * sysconf(_SC_PAGESIZE);
}

/* --- threads -------------------------------------------------------------------------------- */

uint64_t tn_proc_threads_of(uid_t uid)
{
    DIR *dir = opendir("/proc");
    uint64_t threads = 0;
    pid_t pid;

    while (dir && (pid = next_pid(dir))) {
        char path[40], text[1024];
        unsigned long long count;
        struct stat st;

        snprintf(path, sizeof path, "/proc/%d", (int)pid);
        if (stat(path, &st) < 0 || st.st_uid != uid)
            continue;
        const char *after_name = strrchr(read_about(pid, "stat", text, sizeof text), ')');
        if (after_name && tn_proc_numbers(after_name + 1, 17, &count, 1) == 0)
            threads += count;
    }
    if (dir)
        closedir(dir);
    return threads;
}
