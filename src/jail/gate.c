/* The keeper's side of a gated network: it holds the sockets of the wall, starts the gate when
 * something arrives there, and keeps what the gate refused. */
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"
#include "base/fs.h"
#include "gate/pins.h"
#include "gate/program.h"
#include "gate/rules.h"
#include "jail/gate.h"
#include "jail/sys.h"

enum {
    RESOLV_MAX = 64 << 10,
    NAMESERVERS = 3,
    HIGH = 64,           /* above the numbers that the gate has its descriptors under */
    RECORDS_A_TURN = 64, /* of the gate, before others have theirs */
};
#define AGAIN_SECONDS 0.2 /* after one that could not be started, or died */

bool jail_is_gated(const struct jail *j)
{
    return j->plan.network == TN_JAIL_NET_OPEN || j->plan.network == TN_JAIL_NET_ALLOW;
}

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
static int write_settings(const char *rules, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(TN_GATE_SETTINGS_MAX);
    tn_autofd int fd = memfd_create("gate", MFD_CLOEXEC);

    add_nameservers(&text);
    tn_buf_puts(&text, rules);
    if (!tn_buf_ok(&text))
        return tn_fail(err, TN_E_TOO_LARGE, "network: too many rules");
    if (fd < 0)
        return tn_fail_errno(err, errno, "memory for rules");
    return tn_fs_write(fd, text.data, text.len, err) < 0 ? -1 : TN_TAKE_FD(fd);
}

int jail_gate_begin(struct jail *j, struct tn_error *err)
{
    tn_autobuf struct tn_buf rules = TN_BUF_INIT(TN_GATE_SETTINGS_MAX);
    struct jail_gate *g = &j->gate;

    if (!jail_is_gated(j))
        return 0;
    tn_buf_printf(&rules, "%s\n", tn_jail_networks[j->plan.network]);
    for (size_t i = 0; i < j->plan.allow.count; i++)
        tn_buf_printf(&rules, "%s\n", j->plan.allow.items[i]);
    g->settings = write_settings(tn_buf_str(&rules), err);
    g->pins = g->settings < 0 ? -1 : tn_pins_create(err);
    return g->pins < 0 ? -1 : 0;
}

int jail_gate_reload(struct jail *j, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(TN_GATE_SETTINGS_MAX);
    tn_autorules struct tn_rules rules = {0};
    struct jail_gate *g = &j->gate;
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {0};
    char byte = 0;
    struct iovec part = {.iov_base = &byte, .iov_len = 1};
    struct msghdr m = {.msg_iov = &part,
                       .msg_iovlen = 1,
                       .msg_control = control.room,
                       .msg_controllen = sizeof control.room};

    if (!jail_is_gated(j))
        return tn_fail(err, TN_E_CONFLICT, "its network has no gate");
    if (tn_fs_read(j->directory, TN_JAIL_RULES, &text, err) < 0 ||
        tn_rules_parse(tn_buf_str(&text), text.len, &rules, err) < 0)
        return -1;
    int settings = write_settings(tn_buf_str(&text), err);
    if (settings < 0)
        return -1;
    tn_close(TN_TAKE_FD(g->settings));
    g->settings = settings;
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof settings);
    memcpy(CMSG_DATA(c), &settings, sizeof settings);
    /* One that takes no new rules must not go on with the old ones: the next one has them. */
    if (g->pidfd >= 0 && sendmsg(g->control, &m, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        sys_pidfd_kill(g->pidfd);
    return 0;
}

/* --- the process ---------------------------------------------------------------------------- */

/* In the child, which becomes the gate. */
static _Noreturn void become_gate(const struct jail *j, int control, int log)
{
    const struct jail_gate *g = &j->gate;
    int from[TN_GATE_WALL + TN_WALL_SOCKETS] = {
        [TN_GATE_CONTROL] = control, [TN_GATE_PINS] = g->pins, [TN_GATE_SETTINGS] = g->settings};
    static char *const argv[] = {(char *)(uintptr_t) "tendon-gate", NULL};
    static char *const env[] = {NULL};
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int i = 0; i < TN_WALL_SOCKETS; i++)
        from[TN_GATE_WALL + i] = g->wall.fd[i];
    for (int i = 0; i < (int)TN_COUNT(from); i++) {
        int fd = i < 2 || i > 2 ? from[i] : log;
        from[i] = fcntl(i < 2 || fd < 0 ? null : fd, F_DUPFD_CLOEXEC, HIGH);
    }
    for (int i = 0; i < (int)TN_COUNT(from); i++)
        if (from[i] < 0 || dup2(from[i], i) < 0)
            _exit(127);
    close_range(TN_COUNT(from), ~0U, 0);
    execve(j->plan.gate, argv, env);
    _exit(127);
}

static void start_gate(struct jail *j)
{
    struct jail_gate *g = &j->gate;
    int ends[2];

    g->not_before = tn_deadline_in(AGAIN_SECONDS);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
        return;
    struct clone_args args = {.flags = CLONE_PIDFD | CLONE_CLEAR_SIGHAND,
                              .pidfd = (uintptr_t)&g->pidfd,
                              .exit_signal = SIGCHLD};
    g->pid = sys_clone3(&args);
    if (g->pid == 0)
        become_gate(j, ends[1], j->log);
    close(ends[1]);
    g->control = ends[0];
    if (g->pid > 0)
        return;
    tn_close(TN_TAKE_FD(g->control));
    g->pidfd = -1;
}

static void bury_gate(struct jail *j)
{
    struct jail_gate *g = &j->gate;
    int status = 0;

    jail_gate_listen(j);
    while (waitpid(g->pid, &status, 0) < 0 && errno == EINTR)
        ;
    tn_close(TN_TAKE_FD(g->control));
    tn_close(TN_TAKE_FD(g->pidfd));
    g->died = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    if (!g->died)
        g->not_before = 0;
}

void jail_gate_end(struct jail *j)
{
    if (j->gate.pidfd >= 0) {
        sys_pidfd_kill(j->gate.pidfd);
        bury_gate(j);
    }
    tn_wall_done(&j->gate.wall);
}

/* --- what it refused ------------------------------------------------------------------------ */

/* Text of the gate, which reads hostile bytes: printable ASCII and nothing else. */
static void take_text(char *to, size_t size, const char *from, size_t n)
{
    size_t used = 0;

    for (size_t i = 0; i < n && used + 1 < size; i++)
        to[used++] = from[i] >= ' ' && from[i] <= '~' ? from[i] : '?';
    to[used] = '\0';
}

static void note_refusal(struct jail_gate *g, const char *record, size_t size)
{
    const char *tab = memchr(record, '\t', size);
    size_t n = tab ? (size_t)(tab - record) : size;
    struct jail_refusal new = {.count = 1}, *place = &g->refusals[0];
    struct timespec now;

    take_text(new.what, sizeof new.what, record, n);
    take_text(new.why, sizeof new.why, tab ? tab + 1 : "", tab ? size - n - 1 : 0);
    clock_gettime(CLOCK_REALTIME, &now);
    new.at = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
    new.number = ++g->refused;
    for (size_t i = 0; i < TN_COUNT(g->refusals); i++) {
        struct jail_refusal *r = &g->refusals[i];
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

void jail_gate_listen(struct jail *j)
{
    char record[TN_GATE_RECORD_MAX];

    for (int i = 0; i < RECORDS_A_TURN; i++) {
        ssize_t n = recv(j->gate.control, record, sizeof record, MSG_DONTWAIT);
        if (n <= 0)
            return;
        note_refusal(&j->gate, record, (size_t)n);
    }
}

void jail_gate_tell(struct jail *j, struct tn_jw *w)
{
    struct jail_gate *g = &j->gate;

    if (g->control >= 0)
        jail_gate_listen(j);
    tn_jw_object(w);
    tn_jw_kstr(w, "network", tn_jail_networks[j->plan.network]);
    tn_jw_kint(w, "gate", g->pidfd >= 0 ? g->pid : 0);
    tn_jw_kint(w, "refused", (int64_t)g->refused);
    tn_jw_key(w, "refusals");
    tn_jw_array(w);
    for (size_t i = 0; i < TN_COUNT(g->refusals); i++) {
        const struct jail_refusal *r = &g->refusals[i];
        if (!r->count)
            continue;
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

/* --- for the keeper's poll ------------------------------------------------------------------ */

int64_t jail_gate_watch(const struct jail *j, struct pollfd p[JAIL_GATE_POLLS])
{
    static const int sockets[] = {TN_WALL_TCP4, TN_WALL_TCP6, TN_WALL_UDP4, TN_WALL_UDP6};
    const struct jail_gate *g = &j->gate;
    bool runs = g->pidfd >= 0, waits = !runs && tn_now() < g->not_before;

    for (size_t i = 0; i < TN_COUNT(sockets); i++)
        p[i] = (struct pollfd){.fd = runs || waits ? -1 : g->wall.fd[sockets[i]], .events = POLLIN};
    p[JAIL_GATE_END] = (struct pollfd){.fd = runs ? g->pidfd : -1, .events = POLLIN};
    p[JAIL_GATE_SAYS] = (struct pollfd){.fd = runs ? g->control : -1, .events = POLLIN};
    return waits ? g->not_before : TN_NEVER;
}

void jail_gate_serve(struct jail *j, const struct pollfd p[JAIL_GATE_POLLS])
{
    if (p[JAIL_GATE_SAYS].revents & POLLIN)
        jail_gate_listen(j);
    if (p[JAIL_GATE_END].revents) {
        bury_gate(j);
        return;
    }
    for (int i = 0; i < JAIL_GATE_END; i++) {
        if (p[i].revents) {
            start_gate(j);
            return;
        }
    }
}
