/* Using a sandbox that is a plain process, without its hand. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/fs.h"
#include "net/listen.h"
#include "net/url.h"
#include "runtime/process.h"

#define PIECE 65536
#define KILL_SECONDS 2.0

static int read_ref(const struct tn_subject *subject, struct tn_process_ref *ref,
                    struct tn_error *err)
{
    tn_process_ref_read(subject, ref);
    if (ref->workspace)
        return 0;
    return tn_fail(err, TN_E_NOT_FOUND, "sandbox %s was never started", subject->id);
}

/* --- put ----------------------------------------------------------------------------------- */

struct contents {
    const void *bytes;
    size_t n;
    mode_t mode;
};

static int put_contents(int fd, void *ctx, struct tn_error *err)
{
    const struct contents *c = ctx;

    if (fchmod(fd, c->mode) < 0)
        return tn_fail_errno(err, errno, "mode");
    return tn_fs_write(fd, c->bytes, c->n, err);
}

/* What is left of an absolute path below a directory; NULL when it is not below. */
static const char *below(const char *path, const char *directory)
{
    size_t n = strlen(directory);

    return strncmp(path, directory, n) == 0 && path[n] == '/' ? path + n + strspn(path + n, "/")
                                                              : NULL;
}

/* The path beneath the workspace by which a confined sandbox means it. */
static const char *confined(const char *path, const char *workspace, struct tn_error *err)
{
    const char *rest = below(path, workspace);

    if (!rest)
        rest = below(path, "/workspace");
    if (!rest)
        tn_fail(err, TN_E_DENIED, "Invalid path: %s. You can only work with files in %s.", path,
                workspace);
    return rest;
}

static int put_beneath(int root, const char *path, struct contents *contents, struct tn_error *err)
{
    struct tn_fs_replace how = {.mode = contents->mode, .in_place = true};
    const char *slash = strrchr(path, '/');

    if (slash && slash > path) {
        tn_autofree char *parent = tn_strndup(path, (size_t)(slash - path));
        tn_autofd int dir = tn_fs_mkdirs(root, parent, 0755, NULL, NULL, err);
        if (dir < 0)
            return -1;
    }
    return tn_fs_replace(root, path, &how, put_contents, contents, err);
}

int tn_process_put(void *engine, const struct tn_subject *subject, const char *path,
                   const void *bytes, size_t n, mode_t mode, int64_t deadline, struct tn_error *err)
{
    const struct tn_process_engine *e = engine;
    tn_autoprocessref struct tn_process_ref ref;
    struct contents contents = {.bytes = bytes, .n = n, .mode = mode};

    if (read_ref(subject, &ref, err) < 0)
        return -1;
    if (path[0] == '/' && !e->kind->confined)
        return put_beneath(TN_FS_ANYWHERE, path, &contents, err);
    const char *rest = path[0] == '/' ? confined(path, ref.workspace, err) : path;
    if (!rest)
        return -1;
    tn_autofd int root = tn_fs_open(TN_FS_ANYWHERE, ref.workspace, O_PATH | O_DIRECTORY, 0, err);
    return root < 0 ? -1 : put_beneath(root, rest, &contents, err);
}

/* --- exec ---------------------------------------------------------------------------------- */

/* Takes what is there; false at the end of the stream. */
static bool drain(int from, struct tn_buf *out)
{
    for (;;) {
        char piece[4096];
        ssize_t n = read(from, piece, sizeof piece);
        if (n > 0)
            tn_buf_add(out, piece, (size_t)n);
        else if (n == 0 || errno != EINTR)
            return n < 0 && errno == EAGAIN;
    }
}

/* Until it has ended; what it leaves running may keep the pipe open for longer. */
static int listen_to(struct tn_child *child, int from, struct tn_buf *out, int64_t deadline,
                     struct tn_error *err)
{
    struct pollfd fds[] = {{.fd = from, .events = POLLIN},
                           {.fd = tn_child_pidfd(child), .events = POLLIN}};

    while (tn_child_wait(child, 0, NULL, NULL) < 0) {
        if (poll(fds, 2, tn_poll_ms(deadline)) == 0)
            return tn_fail(err, TN_E_TIMEOUT, "the command did not end in time");
        if (fds[0].revents && !drain(from, out))
            fds[0].fd = -1;
        if (tn_output_fits(out, err) < 0)
            return -1;
    }
    drain(from, out);
    return tn_output_fits(out, err);
}

int tn_process_exec(void *engine, const struct tn_subject *subject, const char *const *argv,
                    struct tn_buf *out, int *status, int64_t deadline, struct tn_error *err)
{
    tn_autoprocessref struct tn_process_ref ref;
    struct tn_exit result;
    int ends[2];

    if (read_ref(subject, &ref, err) < 0)
        return -1;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return tn_fail_errno(err, errno, "pipe");
    tn_autofd int from = ends[0];
    tn_autofd int to = ends[1];
    if (fcntl(from, F_SETFL, O_NONBLOCK) < 0)
        return tn_fail_errno(err, errno, "pipe");
    struct tn_child_fd fds[] = {{to, 1}, {to, 2}};
    char **env = tn_process_env(subject, NULL);
    tn_autochild struct tn_child *child =
        tn_child_start(&(struct tn_child_spec){.argv = argv,
                                               .env = (const char *const *)env,
                                               .cwd = ref.workspace,
                                               .fds = fds,
                                               .fd_count = TN_COUNT(fds),
                                               .session = true,
                                               .deadline = deadline},
                       err);
    tn_process_env_free(env);
    if (!child)
        return -1;
    tn_close(TN_TAKE_FD(to));
    if (listen_to(child, from, out, deadline, err) < 0) {
        tn_child_signal_group(child, SIGKILL, NULL);
        tn_child_wait(child, tn_deadline_in(KILL_SECONDS), NULL, NULL);
        return -1;
    }
    if (tn_child_wait(child, deadline, &result, err) < 0)
        return -1;
    *status = tn_exit_code(&result);
    return 0;
}

/* --- ports --------------------------------------------------------------------------------- */

int tn_process_dial(void *engine, const struct tn_subject *subject, int port, int64_t deadline,
                    struct tn_error *err)
{
    char address[32];

    snprintf(address, sizeof address, "localhost:%d", port);
    return tn_dial(address, deadline, err);
}

/* The name under which a proxy in front of this machine knows the port, or NULL. */
static char *public_name(const struct tn_config_sandbox *config, const struct tn_spec *spec,
                         int port)
{
    if (config->vscode_port.set && config->vscode_port.value == port)
        return tn_strdup("vscode");
    for (size_t i = 0; i < spec->ports.count; i++)
        if (spec->ports.items[i] == port)
            return tn_asprintf("work-%zu", i + 1);
    return NULL;
}

/* RUNTIME_URL, or RUNTIME_URL_PATTERN with the id put in, or what the configuration says. */
static char *base_url(const struct tn_config_sandbox *config, const char *id)
{
    const char *url = getenv("RUNTIME_URL"), *pattern = getenv("RUNTIME_URL_PATTERN");
    const char *slot = pattern && *pattern ? strstr(pattern, "{runtime_id}") : NULL;

    if (url && *url)
        return tn_strdup(url);
    if (slot)
        return tn_asprintf("%.*s%s%s", (int)(slot - pattern), pattern, id,
                           slot + strlen("{runtime_id}"));
    if (pattern && *pattern)
        return tn_strdup(pattern);
    return tn_strdup(config->local_runtime_url && *config->local_runtime_url
                         ? config->local_runtime_url
                         : "http://localhost");
}

char *tn_process_url(void *engine, const struct tn_subject *subject, int port, struct tn_error *err)
{
    const struct tn_process_engine *e = engine;
    const struct tn_config_sandbox *config = &e->host->config->sandbox;
    const char *given = getenv("RUNTIME_ID"), *id = given && *given ? given : subject->id;
    tn_autofree char *url = base_url(config, id);
    size_t n = strlen(url);

    while (n > 0 && url[n - 1] == '/')
        url[--n] = '\0';
    if (strstr(url, "localhost") || strstr(url, "127.0.0.1"))
        return tn_asprintf("%s:%d", url, port);
    tn_autofree char *name = public_name(config, subject->spec, port);
    const char *host = strstr(url, "://");
    if (!name || !host) {
        tn_fail(err, TN_E_NOT_FOUND, "port %d is not one of the sandbox's ports: %s cannot show it",
                port, url);
        return NULL;
    }
    host += 3;
    const char *path = strchr(host, '/');
    if (path && strncmp(path + 1, id, strlen(id)) == 0)
        return tn_asprintf("%.*s/%s/%s", (int)(path - url), url, id, name);
    return tn_asprintf("%.*s%s-%s", (int)(host - url), url, name, host);
}

/* --- logs ---------------------------------------------------------------------------------- */

static int copy_log(int fd, tn_log_fn fn, void *ctx, struct tn_error *err)
{
    tn_autofree char *piece = tn_malloc(PIECE);

    for (;;) {
        ssize_t n = read(fd, piece, PIECE);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return tn_fail_errno(err, errno, "log");
        if (n == 0)
            return 0;
        if (fn(piece, (size_t)n, ctx))
            return 1;
    }
}

int tn_process_logs(void *engine, const struct tn_subject *subject, bool follow, tn_log_fn fn,
                    void *ctx, int64_t deadline, struct tn_error *err)
{
    tn_autofd int fd = tn_fs_open_shared(subject->directory, TN_PROCESS_LOG, O_RDONLY, 0, err);
    tn_autofd int watch = follow ? inotify_init1(IN_CLOEXEC | IN_NONBLOCK) : -1;
    struct pollfd p = {.fd = watch, .events = POLLIN};
    char events[4096], path[40];

    if (fd < 0)
        return -1;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (follow && (watch < 0 || inotify_add_watch(watch, path, IN_MODIFY | IN_ATTRIB) < 0))
        return tn_fail_errno(err, errno, "watch " TN_PROCESS_LOG);
    for (;;) {
        struct stat st;
        int r = copy_log(fd, fn, ctx, err);
        if (r || !follow)
            return r < 0 ? -1 : 0;
        if (fstat(fd, &st) < 0 || st.st_nlink == 0 || poll(&p, 1, tn_poll_ms(deadline)) == 0)
            return 0;
        while (read(watch, events, sizeof events) > 0)
            ;
    }
}

/* --- usage --------------------------------------------------------------------------------- */

/* Adds resident memory and processor time of one process. */
static void add_usage(pid_t pid, struct tn_usage *u)
{
    char path[40], text[1024];
    long long resident;
    unsigned long long user, system;

    snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
    tn_autofd int memory = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = memory < 0 ? -1 : read(memory, text, sizeof text - 1);
    text[n > 0 ? n : 0] = '\0';
    if (sscanf(text, "%*d %lld", &resident) == 1)
        u->memory += resident * sysconf(_SC_PAGESIZE);
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    tn_autofd int stat = open(path, O_RDONLY | O_CLOEXEC);
    n = stat < 0 ? -1 : read(stat, text, sizeof text - 1);
    text[n > 0 ? n : 0] = '\0';
    const char *fields = strrchr(text, ')');
    if (fields && sscanf(fields + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu",
                         &user, &system) == 2)
        u->cpu_seconds += (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
    u->processes++;
}

int tn_process_usage(void *engine, const struct tn_subject *subject, struct tn_usage *out,
                     struct tn_error *err)
{
    tn_autoprocessref struct tn_process_ref ref;
    tn_autofree struct tn_proc *list = NULL;
    size_t count = 0;

    if (read_ref(subject, &ref, err) < 0)
        return -1;
    *out = (struct tn_usage){.memory_peak = -1, .disk = -1};
    if (!ref.hand.pid || !tn_proc_state(ref.hand.pid, ref.hand.start))
        return 0;
    if (tn_proc_descendants(ref.hand.pid, &list, &count, err) < 0)
        return -1;
    add_usage(ref.hand.pid, out);
    for (size_t i = 0; i < count; i++)
        add_usage(list[i].pid, out);
    return 0;
}
