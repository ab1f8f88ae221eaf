/* tendon-gate: the only way out of a sandbox.  See gate.h for how it is started. */
#include <linux/netlink.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/fd-pass.h"
#include "base/key-file.h"
#include "base/proc.h"
#include "gate/ending.h"
#include "gate/gate.h"
#include "gate/netlink.h"

enum { EVENTS = 256 };
#define QUIET_SECONDS 10

/* --- settings ------------------------------------------------------------------------------- */

/* From its beginning: gates of one sandbox share the file. */
static int read_whole(int fd, struct tn_buf *text, struct tn_error *err)
{
    for (;;) {
        char *to = tn_buf_reserve(text, 4096);
        ssize_t n = to ? pread(fd, to, 4096, (off_t)text->len) : -1;
        if (n < 0)
            return tn_fail(err, TN_E_IO, "what the keeper gave cannot be read");
        if (n == 0)
            return 0;
        tn_buf_grew(text, (size_t)n);
    }
}

/* Either all of it counts, or what was before stays. */
static int take_settings(struct gate *g, int fd, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(TN_GATE_SETTINGS_MAX);
    struct tn_address servers[SERVERS_MAX];
    struct tn_rules rules;
    double ask = 0;
    size_t count = 0;

    if (read_whole(fd, &text, err) < 0)
        return -1;
    const char *at = tn_buf_str(&text);
    size_t head = strlen(TN_GATE_NAMESERVER);
    while (strncmp(at, TN_GATE_NAMESERVER, head) == 0) {
        tn_autofree char *address = tn_strndup(at + head, strcspn(at + head, "\n"));
        if (count < SERVERS_MAX && tn_address_parse(address, &servers[count]))
            count++;
        at += strcspn(at, "\n");
        at += *at == '\n';
    }
    if (strncmp(at, TN_GATE_ASK, strlen(TN_GATE_ASK)) == 0) {
        ask = strtod(at + strlen(TN_GATE_ASK), NULL);
        at += strcspn(at, "\n");
        at += *at == '\n';
    }
    if (tn_rules_parse(at, strlen(at), &rules, err) < 0) {
        tn_rules_done(&rules);
        return -1;
    }
    tn_rules_done(&g->rules);
    g->rules = rules;
    g->settings++;
    memcpy(g->servers, servers, sizeof servers);
    g->server_count = count;
    g->ask_seconds = rules.mode == TN_GATE_ALLOW ? ask : 0;
    asked_again(g);
    return 0;
}

/* OpenSSL and the roots of this machine are files, which nobody opens later. */
static int take_vault(struct gate *g, struct tn_error *err)
{
    tn_autokeyfile struct tn_buf text = TN_BUF_INIT(VAULT_MAX);

    tn_proc_no_core();
    if (read_whole(TN_GATE_VAULT, &text, err) < 0)
        return -1;
    if (text.len == 0)
        return 0;
    if (vault_parse(text.data, text.len, &g->vault, err) < 0)
        return -1;
    g->ending = ending_new(&g->vault, err);
    return g->ending ? 0 : -1;
}

/* New settings come as a file, answers as text; when the keeper is gone so is the sandbox. */
static void control_ready(struct gate *g, struct watch *w, uint32_t events)
{
    for (;;) {
        char bytes[TN_GATE_RECORD_MAX];
        tn_autofd int fd = -1;
        size_t count = 1;
        ssize_t n = tn_fd_receive(w->fd, bytes, sizeof bytes, &fd, &count, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            _exit(0);
        if (n < 0)
            return;
        if (fd >= 0 && take_settings(g, fd, NULL) < 0)
            _exit(1); /* nothing passes rather than what the old ones let through */
        if (fd >= 0)
            continue;
        if (*bytes == TN_GATE_YES || *bytes == TN_GATE_NO || *bytes == TN_GATE_TOO_MANY)
            asked_answered(g, *bytes, bytes + 1, (size_t)n - 1);
    }
}

/* --- the loop ------------------------------------------------------------------------------- */

static bool is_idle(const struct gate *g)
{
    return g->link_count + g->flow_count + g->query_count + g->name_conn_count + g->held_count == 0;
}

static void end_timers(struct gate *g)
{
    for (int i = 0; i < TIMER_KINDS; i++) {
        struct timer *head = &g->timers[i];
        while (head->after != head && head->after->at <= g->now) {
            struct timer *t = head->after;
            timer_stop(t);
            t->over(g, t);
        }
    }
}

static int64_t next_time(const struct gate *g)
{
    int64_t next = g->quiet + QUIET_SECONDS * TN_SECOND;

    if (!is_idle(g))
        next = TN_NEVER;
    for (int i = 0; i < TIMER_KINDS; i++)
        if (g->timers[i].after != &g->timers[i] && g->timers[i].after->at < next)
            next = g->timers[i].after->at;
    return next;
}

static void run_waiting(struct gate *g)
{
    struct again *a = g->again;

    g->again = NULL;
    g->again_end = &g->again;
    for (struct again *next; a; a = next) {
        next = a->next;
        a->waits = false;
        a->run(g, a);
    }
}

static void empty_graves(struct gate *g)
{
    while (g->graves) {
        struct grave *grave = g->graves;
        g->graves = grave->next;
        free(grave);
    }
}

static void run(struct gate *g)
{
    struct epoll_event events[EVENTS];

    for (;;) {
        int n = epoll_wait(g->epoll, events, EVENTS, g->again ? 0 : tn_poll_ms(next_time(g)));
        g->now = tn_now();
        for (int i = 0; i < n; i++) {
            struct watch *w = events[i].data.ptr;
            if (w->fd >= 0)
                w->ready(g, w, events[i].events);
        }
        run_waiting(g);
        end_timers(g);
        empty_graves(g);
        if (is_idle(g) && g->now - g->quiet >= QUIET_SECONDS * TN_SECOND)
            return;
    }
}

/* --- the beginning -------------------------------------------------------------------------- */

static void accept_again(struct gate *g, struct again *a)
{
    links_accept(g, &CONTAINER(a, struct source, again)->watch, EPOLLIN);
}

static void receive_again(struct gate *g, struct again *a)
{
    flows_receive(g, &CONTAINER(a, struct source, again)->watch, EPOLLIN);
}

static bool is_socket(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode);
}

static int begin_source(struct gate *g, struct source *s, int fd, bool datagrams)
{
    s->watch = (struct watch){.fd = fd, .ready = datagrams ? flows_receive : links_accept};
    s->again.run = datagrams ? receive_again : accept_again;
    return fd < 0 ? 0 : watch_begin(g, &s->watch);
}

/* As many connections as there are descriptors for; root makes room for all. */
static size_t count_links(void)
{
    const struct rlimit wanted = {.rlim_cur = 2 * LINKS_MAX + FILES_APART,
                                  .rlim_max = 2 * LINKS_MAX + FILES_APART};
    struct rlimit files;

    if (setrlimit(RLIMIT_NOFILE, &wanted) == 0)
        return LINKS_MAX;
    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return 1;
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    size_t apart = FILES_APART < files.rlim_max / 2 ? FILES_APART : files.rlim_max / 2;
    return (files.rlim_max - apart) / 2;
}

static bool has_way(const struct gate *g, const char *to)
{
    struct tn_address far;

    return tn_address_parse(to, &far) && route_of(g->route, &far) == ROUTE_OUT;
}

static int begin(struct gate *g, struct tn_error *err)
{
    g->again_end = &g->again;
    g->now = g->quiet = tn_now();
    for (int i = 0; i < TIMER_KINDS; i++)
        g->timers[i].before = g->timers[i].after = &g->timers[i];
    for (int i = 0; i < TN_WALL_SOCKETS; i++)
        g->wall.fd[i] = is_socket(TN_GATE_WALL + i) ? TN_GATE_WALL + i : -1;
    g->links_max = count_links();
    g->epoll = epoll_create1(EPOLL_CLOEXEC);
    g->route = tn_netlink_socket(NETLINK_ROUTE, err);
    if (g->route < 0 || g->epoll < 0)
        return -1;
    g->pins = tn_pins_open(TN_GATE_PINS, err);
    if (!g->pins || take_settings(g, TN_GATE_SETTINGS, err) < 0 || take_vault(g, err) < 0 ||
        gate_confine(err) < 0)
        return -1;
    g->ipv6 = has_way(g, "2001:4860:4860::8888");
    g->family = g->ipv6 && !has_way(g, "8.8.8.8") ? TN_DNS_AAAA : TN_DNS_A;
    g->control = (struct watch){.fd = TN_GATE_CONTROL, .ready = control_ready};
    if (watch_begin(g, &g->control) < 0 ||
        begin_source(g, &g->listeners[0], g->wall.fd[TN_WALL_TCP4], false) < 0 ||
        begin_source(g, &g->listeners[1], g->wall.fd[TN_WALL_TCP6], false) < 0 ||
        begin_source(g, &g->datagrams[0], g->wall.fd[TN_WALL_UDP4], true) < 0 ||
        begin_source(g, &g->datagrams[1], g->wall.fd[TN_WALL_UDP6], true) < 0)
        return tn_fail_errno(err, errno, "the sockets of the sandbox");
    return 0;
}

int main(int argc, char **argv)
{
    static struct gate g;
    struct tn_error err = {0};

    if (argc == 2 && strcmp(argv[1], "--version") == 0)
        return puts("tendon-gate " TN_VERSION) < 0;
    if (argc > 1 && strncmp(argv[1], "--pod-", 6) == 0)
        return pod_main(argc, argv);
    if (argc != 1 || !is_socket(TN_GATE_CONTROL)) {
        fputs("tendon-gate is started by the keeper of a sandbox, which gives it its sockets\n",
              stderr);
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    if (begin(&g, &err) < 0) {
        fprintf(stderr, "tendon-gate: %s\n", err.text);
        return 1;
    }
    run(&g);
    return 0;
}
