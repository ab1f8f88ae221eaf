#include "gate/keeper.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd-pass.h"
#include "base/fs.h"
#include "gate/pins.h"
#include "gate/program.h"
#include "gate/rules.h"

enum {
    RESOLV_MAX = 64 << 10,
    NAMESERVERS = 3,
    HIGH = 64,           /* above the numbers that the gate has its descriptors under */
    RECORDS_A_TURN = 64, /* of the gate, before others have theirs */
};
/* Questions that may come one after the other, and how long it takes until one more may. */
enum { ASKS_AT_ONCE = 2 * TN_GATE_QUESTIONS };
#define ASK_AGAIN_SECONDS 2.0
#define AGAIN_SECONDS 0.2 /* after one that could not be started, or died */

/* --- settings ------------------------------------------------------------------------------- */

static void add_nameservers(struct tn_buf *out)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(RESOLV_MAX);
    static const char word[] = "nameserver";
    int count = 0;

    tn_fs_read(TN_FS_ANYWHERE, "/etc/resolv.conf", &text, NULL);
    for (const char *line = tn_buf_str(&text); *line && count < NAMESERVERS;) {
        const char *at = line + strspn(line, " \t");
        size_t n = strlen(word);
        if (strncmp(at, word, n) == 0 && (at[n] == ' ' || at[n] == '\t')) {
            at += n + strspn(at + n, " \t");
            tn_buf_printf(out, TN_GATE_NAMESERVER "%.*s\n", (int)strcspn(at, " \t\r\n%#"), at);
            count++;
        }
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
}

/* A file in memory with all of it. */
static int write_settings(const struct tn_gate_keeper *k, const char *rules, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(TN_GATE_SETTINGS_MAX);
    tn_autofd int fd = memfd_create("gate", MFD_CLOEXEC);

    add_nameservers(&text);
    if (k->listener >= 0)
        tn_buf_printf(&text, TN_GATE_ASK "%.3f\n", k->ask_seconds);
    tn_buf_puts(&text, rules);
    if (!tn_buf_ok(&text))
        return tn_fail(err, TN_E_TOO_LARGE, "network: too many rules");
    if (fd < 0)
        return tn_fail_errno(err, errno, "memory for rules");
    return tn_fs_write(fd, text.data, text.len, err) < 0 ? -1 : TN_TAKE_FD(fd);
}

/* Which of tn_gate_modes they are; NULL: they cannot be its rules. */
static const char *read_mode(const struct tn_gate_keeper *k, const char *text, struct tn_error *err)
{
    tn_autorules struct tn_rules rules = {0};

    if (tn_rules_parse(text, strlen(text), &rules, err) < 0)
        return NULL;
    if (k->vault >= 0 || !tn_rules_look_inside(&rules))
        return tn_gate_modes[rules.mode];
    tn_fail(err, TN_E_CONFLICT,
            "a rule for https with a method or a path: the sandbox was made without an authority, "
            "which takes such a rule or a secret when it starts");
    return NULL;
}

int tn_gate_keeper_begin(struct tn_gate_keeper *k, const char *rules, struct tn_error *err)
{
    k->network = read_mode(k, rules, err);
    if (!k->network)
        return -1;
    k->rules = tn_strdup(rules);
    k->settings = write_settings(k, rules, err);
    k->pins = k->settings < 0 ? -1 : tn_pins_create(err);
    return k->pins < 0 ? -1 : 0;
}

static void kill_gate(const struct tn_gate_keeper *k)
{
    syscall(SYS_pidfd_send_signal, k->pidfd, SIGKILL, NULL, 0);
}

/* All gates from now on have these, also the one that runs. */
static int give_settings(struct tn_gate_keeper *k, const char *rules, struct tn_error *err)
{
    int settings = write_settings(k, rules, err);
    if (settings < 0)
        return -1;
    tn_close(TN_TAKE_FD(k->settings));
    k->settings = settings;
    /* One that takes no new rules must not go on with the old ones: the next one has them. */
    if (k->pidfd >= 0 && tn_fd_send(k->control, "", 1, &settings, 1, MSG_DONTWAIT) < 0)
        kill_gate(k);
    return 0;
}

int tn_gate_keeper_reload(struct tn_gate_keeper *k, const char *rules, struct tn_error *err)
{
    const char *network = read_mode(k, rules, err);

    if (!network || give_settings(k, rules, err) < 0)
        return -1;
    k->network = network;
    free(k->rules);
    k->rules = tn_strdup(rules);
    return 0;
}

/* --- what it refused ------------------------------------------------------------------------ */

static void listen_to_gate(struct tn_gate_keeper *k);

/* Text of the gate, which reads hostile bytes: printable ASCII and nothing else. */
static void take_text(char *to, size_t size, const char *from, size_t n)
{
    size_t used = 0;

    for (size_t i = 0; i < n && used + 1 < size; i++)
        to[used++] = from[i] >= ' ' && from[i] <= '~' ? from[i] : '?';
    to[used] = '\0';
}

static void note_refusal(struct tn_gate_keeper *k, const char *record, size_t size)
{
    const char *tab = memchr(record, '\t', size);
    size_t n = tab ? (size_t)(tab - record) : size;
    struct tn_gate_refusal new = {.count = 1}, *place = &k->refusals[0];
    struct timespec now;

    take_text(new.what, sizeof new.what, record, n);
    take_text(new.why, sizeof new.why, tab ? tab + 1 : "", tab ? size - n - 1 : 0);
    clock_gettime(CLOCK_REALTIME, &now);
    new.at = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
    new.number = ++k->refused;
    for (size_t i = 0; i < TN_COUNT(k->refusals); i++) {
        struct tn_gate_refusal *r = &k->refusals[i];
        if (r->count && strcmp(r->what, new.what) == 0 && strcmp(r->why, new.why) == 0) {
            new.count = r->count + 1;
            place = r;
            break;
        }
        if (r->number < place->number)
            place = r;
    }
    *place = new;
}

/* --- what it asks --------------------------------------------------------------------------- */

/* The gate is told that nobody can be asked, and refuses what waits. */
static void drop_listener(struct tn_gate_keeper *k)
{
    if (k->listener < 0)
        return;
    tn_close(TN_TAKE_FD(k->listener));
    memset(k->questions, 0, sizeof k->questions);
    if (k->rules && give_settings(k, k->rules, NULL) < 0)
        kill_gate(k);
}

static void tell_listener(struct tn_gate_keeper *k, const char *line)
{
    size_t n = strlen(line);

    if (k->listener >= 0 && send(k->listener, line, n, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)n)
        drop_listener(k);
}

int tn_gate_keeper_listen(struct tn_gate_keeper *k, int socket, struct tn_error *err)
{
    tn_autofd int fd = socket;

    if (k->ask_seconds <= 0 || !k->rules)
        return tn_fail(err, TN_E_CONFLICT, "nobody is asked about its connections");
    drop_listener(k);
    k->listener = TN_TAKE_FD(fd);
    if (give_settings(k, k->rules, err) < 0) {
        drop_listener(k);
        return -1;
    }
    tell_listener(k, "ok\n");
    return 0;
}

static struct tn_gate_question *find_question(struct tn_gate_keeper *k, const char *host,
                                              unsigned port)
{
    for (size_t i = 0; i < TN_COUNT(k->questions); i++)
        if (strcmp(k->questions[i].host, host) == 0 && k->questions[i].port == port)
            return &k->questions[i];
    return NULL;
}

/* The gate reads hostile bytes: what makes no rule is no host. */
static bool read_question(const char *text, size_t size, char sign, struct tn_gate_question *out)
{
    tn_autofree char *line = tn_strndup(text, size);
    char rule[TN_RULE_FOR], *at = strchr(line, sign);
    char *end = at ? at + 1 : NULL;
    unsigned long port = at ? strtoul(at + 1, &end, 10) : 0;

    if (!at || *end || end == at + 1 || port < 1 || port > UINT16_MAX ||
        (size_t)(at - line) >= sizeof out->host)
        return false;
    *at = '\0';
    out->port = (uint16_t)port;
    snprintf(out->host, sizeof out->host, "%s", line);
    return tn_rule_for(line, (unsigned)port, rule);
}

static void answer_gate(struct tn_gate_keeper *k, const struct tn_gate_question *q, char sign)
{
    char record[TN_GATE_RECORD_MAX];
    int n = snprintf(record, sizeof record, "%c%s\t%u", sign, q->host, q->port);

    if (k->pidfd >= 0 && send(k->control, record, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL) != n)
        kill_gate(k);
}

/* Each leaves lines in logs, and perhaps wakes somebody: no sandbox asks without end. */
static bool may_ask(struct tn_gate_keeper *k)
{
    int64_t now = tn_now();

    k->asked -= (double)(now - k->asked_at) / (ASK_AGAIN_SECONDS * (double)TN_SECOND);
    k->asked = k->asked > 0 ? k->asked : 0;
    k->asked_at = now;
    if (k->asked + 1 > ASKS_AT_ONCE)
        return false;
    k->asked++;
    return true;
}

static void note_question(struct tn_gate_keeper *k, const char *record, size_t size)
{
    bool asked = *record == TN_GATE_ASKED;
    struct tn_gate_question new;

    if (!read_question(record + 1, size - 1, '\t', &new))
        return;
    struct tn_gate_question *q = find_question(k, new.host, new.port);
    struct tn_gate_question *room = asked ? find_question(k, "", 0) : NULL;
    if (asked && q)
        return;
    if (asked && (!room || k->listener < 0 || !may_ask(k))) {
        answer_gate(k, &new, TN_GATE_TOO_MANY);
        return;
    }
    if (!asked && !q)
        return;
    *(asked ? room : q) = asked ? new : (struct tn_gate_question){0};
    tn_autofree char *line = tn_asprintf("%s %s %u\n", asked ? "ask" : "over", new.host, new.port);
    tell_listener(k, line);
}

int tn_gate_keeper_answer(struct tn_gate_keeper *k, const char *what, bool allowed,
                          struct tn_error *err)
{
    struct tn_gate_question asked, *q = NULL;

    if (k->control >= 0)
        listen_to_gate(k);
    if (read_question(what, strlen(what), ' ', &asked))
        q = find_question(k, asked.host, asked.port);
    if (!q)
        return tn_fail(err, TN_E_NOT_FOUND, "no connection waits for that");
    answer_gate(k, q, allowed ? TN_GATE_YES : TN_GATE_NO);
    *q = (struct tn_gate_question){0};
    return 0;
}

static void listen_to_gate(struct tn_gate_keeper *k)
{
    char record[TN_GATE_RECORD_MAX];

    for (int i = 0; i < RECORDS_A_TURN; i++) {
        ssize_t n = recv(k->control, record, sizeof record, MSG_DONTWAIT);
        if (n <= 0)
            return;
        if (*record == TN_GATE_ASKED || *record == TN_GATE_OVER)
            note_question(k, record, (size_t)n);
        else
            note_refusal(k, record, (size_t)n);
    }
}

/* The newest that is older than that one. */
static const struct tn_gate_refusal *next_refusal(const struct tn_gate_keeper *k, uint64_t number)
{
    const struct tn_gate_refusal *next = NULL;

    for (size_t i = 0; i < TN_COUNT(k->refusals); i++) {
        const struct tn_gate_refusal *r = &k->refusals[i];
        if (r->count && r->number < number && (!next || r->number > next->number))
            next = r;
    }
    return next;
}

void tn_gate_keeper_tell(struct tn_gate_keeper *k, struct tn_jw *w, size_t bytes)
{
    const struct tn_gate_refusal *r = NULL;

    if (k->control >= 0)
        listen_to_gate(k);
    tn_jw_object(w);
    tn_jw_kstr(w, "network", k->network);
    tn_jw_kint(w, "gate", k->pidfd >= 0 ? k->pid : 0);
    tn_jw_kint(w, "refused", (int64_t)k->refused);
    tn_jw_key(w, "refusals");
    tn_jw_array(w);
    for (uint64_t at = UINT64_MAX; w->out->len < bytes && (r = next_refusal(k, at));
         at = r->number) {
        tn_jw_object(w);
        tn_jw_kint(w, "number", (int64_t)r->number);
        tn_jw_kstr(w, "what", r->what);
        tn_jw_kstr(w, "why", r->why);
        tn_jw_kint(w, "count", (int64_t)r->count);
        tn_jw_kdouble(w, "at", r->at);
        tn_jw_object_end(w);
    }
    tn_jw_array_end(w);
    tn_jw_object_end(w);
}

/* --- the process ---------------------------------------------------------------------------- */

/* In the child, which becomes the gate. */
static _Noreturn void become_gate(const struct tn_gate_keeper *k, int control, bool born)
{
    int from[TN_GATE_WALL + TN_WALL_SOCKETS] = {
        [TN_GATE_CONTROL] = control,
        [TN_GATE_PINS] = k->pins,
        [TN_GATE_SETTINGS] = k->settings,
        [TN_GATE_VAULT] = k->vault,
    };
    static char *const argv[] = {(char *)(uintptr_t) "tendon-gate", NULL};
    static char *const env[] = {NULL};
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (k->groups && k->groups->join(k->ctx, born) < 0)
        _exit(127);
    for (int i = 0; i < TN_WALL_SOCKETS; i++)
        from[TN_GATE_WALL + i] = k->wall.fd[i];
    for (int i = 0; i < (int)TN_COUNT(from); i++) {
        int fd = i < 2 || i > 2 ? from[i] : k->log;
        from[i] = fcntl(i < 2 || fd < 0 ? null : fd, F_DUPFD_CLOEXEC, HIGH);
    }
    for (int i = 0; i < (int)TN_COUNT(from); i++)
        if (from[i] < 0 || dup2(from[i], i) < 0)
            _exit(127);
    close_range(TN_COUNT(from), ~0U, 0);
    execve(k->program, argv, env);
    _exit(127);
}

static void start_gate(struct tn_gate_keeper *k)
{
    int ends[2];

    k->not_before = tn_deadline_in(AGAIN_SECONDS);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
        return;
    struct clone_args args = {.flags = CLONE_PIDFD | CLONE_CLEAR_SIGHAND,
                              .pidfd = (uintptr_t)&k->pidfd,
                              .exit_signal = SIGCHLD};
    tn_autofd int group = k->groups ? k->groups->open(k->ctx) : -1;
    k->pid = -1;
    if (group >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)group;
        k->pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
        if (k->pid == 0)
            become_gate(k, ends[1], true);
        args.flags &= ~(uint64_t)CLONE_INTO_CGROUP; /* one that is full can be moved into */
    }
    if (k->pid < 0)
        k->pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
    if (k->pid < 0 && errno == ENOSYS) { /* a container: what its filter cannot look into */
        k->pid = fork();
        k->pidfd = k->pid > 0 ? (int)syscall(SYS_pidfd_open, k->pid, 0) : -1;
    }
    if (k->pid == 0)
        become_gate(k, ends[1], false);
    close(ends[1]);
    k->control = ends[0];
    if (k->pid > 0)
        return;
    tn_close(TN_TAKE_FD(k->control));
    k->pidfd = -1;
}

static void bury_gate(struct tn_gate_keeper *k)
{
    int status = 0;

    listen_to_gate(k);
    while (waitpid(k->pid, &status, 0) < 0 && errno == EINTR)
        ;
    tn_close(TN_TAKE_FD(k->control));
    tn_close(TN_TAKE_FD(k->pidfd));
    memset(k->questions, 0, sizeof k->questions);
    tell_listener(k, "over\n");
    k->died = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    if (!k->died)
        k->not_before = 0;
}

void tn_gate_keeper_interrupt(struct tn_gate_keeper *k)
{
    if (k->pidfd >= 0) {
        kill_gate(k);
        bury_gate(k);
    }
}

void tn_gate_keeper_end(struct tn_gate_keeper *k)
{
    tn_gate_keeper_interrupt(k);
    tn_close(TN_TAKE_FD(k->listener));
    free(TN_TAKE_PTR(k->rules));
    tn_wall_done(&k->wall);
    tn_close(TN_TAKE_FD(k->settings));
    tn_close(TN_TAKE_FD(k->pins));
}

/* --- for who polls ------------------------------------------------------------------------- */

int64_t tn_gate_keeper_watch(const struct tn_gate_keeper *k, struct pollfd p[TN_GATE_KEEPER_POLLS])
{
    static const int sockets[] = {TN_WALL_TCP4, TN_WALL_TCP6, TN_WALL_UDP4, TN_WALL_UDP6};
    bool runs = k->pidfd >= 0, waits = !runs && tn_now() < k->not_before;

    for (size_t i = 0; i < TN_COUNT(sockets); i++)
        p[i] = (struct pollfd){.fd = runs || waits ? -1 : k->wall.fd[sockets[i]], .events = POLLIN};
    p[TN_GATE_KEEPER_END] = (struct pollfd){.fd = runs ? k->pidfd : -1, .events = POLLIN};
    p[TN_GATE_KEEPER_SAYS] = (struct pollfd){.fd = runs ? k->control : -1, .events = POLLIN};
    p[TN_GATE_KEEPER_LISTENER] = (struct pollfd){.fd = k->listener, .events = POLLIN};
    return waits ? k->not_before : TN_NEVER;
}

void tn_gate_keeper_serve(struct tn_gate_keeper *k, const struct pollfd p[TN_GATE_KEEPER_POLLS])
{
    if (p[TN_GATE_KEEPER_LISTENER].revents && p[TN_GATE_KEEPER_LISTENER].fd == k->listener)
        drop_listener(k); /* it has nothing to say */
    if (p[TN_GATE_KEEPER_SAYS].revents & POLLIN)
        listen_to_gate(k);
    if (p[TN_GATE_KEEPER_END].revents) {
        bury_gate(k);
        return;
    }
    for (int i = 0; i < TN_GATE_KEEPER_END; i++) {
        if (p[i].revents) {
            start_gate(k);
            return;
        }
    }
}
