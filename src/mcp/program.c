#include "mcp/program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/lines.h"

/* How long it may take to end by itself, and to die. */
#define END_SECONDS 2.0
#define KILL_SECONDS 2.0

#define LAST_WORDS 300

struct tn_rpc_program {
    char *path;
    const char *name; /* into path */
    struct tn_child *child;
    int line;   /* its standard input and output */
    int errors; /* its standard error; -1 once that is closed */
    bool broken;
    int64_t next_id;
    struct tn_lines lines;
    char last[LAST_WORDS]; /* of standard error: the last line that says something */
    size_t last_len;
    bool last_done; /* it is complete: what comes next begins a new one */
};

struct tn_rpc_program *tn_rpc_program_start(const char *path, const char *const *env,
                                            int64_t deadline, struct tn_error *err)
{
    int line[2], errors[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, line) < 0) {
        tn_fail_errno(err, errno, "socket pair");
        return NULL;
    }
    tn_autofd int ours = line[0];
    tn_autofd int theirs = line[1];
    if (pipe2(errors, O_CLOEXEC) < 0) {
        tn_fail_errno(err, errno, "pipe");
        return NULL;
    }
    tn_autofd int words = errors[0];
    tn_autofd int speaks = errors[1];
    struct tn_child_fd fds[] = {{theirs, 0}, {theirs, 1}, {speaks, 2}};
    const char *argv[] = {path, NULL};
    struct tn_child *child = NULL;

    if (fcntl(words, F_SETFL, O_NONBLOCK) < 0)
        tn_fail_errno(err, errno, "pipe");
    else
        child = tn_child_start(&(struct tn_child_spec){.argv = argv,
                                                       .env = env,
                                                       .fds = fds,
                                                       .fd_count = TN_COUNT(fds),
                                                       .group = true,
                                                       .death_signal = SIGTERM,
                                                       .deadline = deadline},
                               err);
    if (!child)
        return NULL;
    struct tn_rpc_program *p = tn_calloc(1, sizeof *p);
    p->path = tn_strdup(path);
    p->name = strrchr(p->path, '/') + 1;
    p->child = child;
    p->line = TN_TAKE_FD(ours);
    p->errors = TN_TAKE_FD(words);
    tn_lines_init(&p->lines, TN_RPC_PROGRAM_LINE_MAX);
    return p;
}

void tn_rpc_program_stop(struct tn_rpc_program *p)
{
    if (!p)
        return;
    shutdown(p->line, SHUT_RDWR);
    if (p->broken || tn_child_wait(p->child, tn_deadline_in(END_SECONDS), NULL, NULL) < 0) {
        tn_child_signal_group(p->child, SIGKILL, NULL);
        tn_child_wait(p->child, tn_deadline_in(KILL_SECONDS), NULL, NULL);
    }
    tn_child_free(p->child);
    tn_close(p->line);
    tn_close(p->errors);
    tn_lines_done(&p->lines);
    free(p->path);
    free(p);
}

bool tn_rpc_program_broken(struct tn_rpc_program *p)
{
    return p->broken || tn_child_wait(p->child, 0, NULL, NULL) == 0;
}

/* --- its last words ------------------------------------------------------------------------ */

static void hear_word(struct tn_rpc_program *p, char c)
{
    if (c == '\n') {
        p->last_done = p->last_len > 0;
        return;
    }
    if (p->last_done) {
        p->last_len = 0;
        p->last_done = false;
    }
    if (p->last_len < sizeof p->last - 1)
        p->last[p->last_len++] = (unsigned char)c < ' ' ? ' ' : c;
    p->last[p->last_len] = '\0';
}

/* Takes what it wrote to its standard error; a pipe nobody empties would stop it. */
static void hear_errors(struct tn_rpc_program *p)
{
    char piece[4096];
    ssize_t n;

    while ((n = read(p->errors, piece, sizeof piece)) > 0)
        for (ssize_t i = 0; i < n; i++)
            hear_word(p, piece[i]);
    if (n == 0) {
        tn_close(p->errors);
        p->errors = -1;
    }
}

/* --- breaking ------------------------------------------------------------------------------ */

static int break_down(struct tn_rpc_program *p, enum tn_code code, const char *what,
                      struct tn_error *err)
{
    p->broken = true;
    if (p->errors >= 0)
        hear_errors(p);
    return tn_fail(err, code, "%s %s%s%s", p->name, what, p->last_len ? ": " : "", p->last);
}

/* It closed its line: say how it ended. */
static int has_ended(struct tn_rpc_program *p, struct tn_error *err)
{
    struct tn_exit result;
    char what[96];

    if (tn_child_wait(p->child, tn_deadline_in(END_SECONDS), &result, NULL) < 0)
        return break_down(p, TN_E_PEER, "closed its output in the middle of a call", err);
    snprintf(what, sizeof what, "ended in the middle of a call (exit code %d)",
             tn_exit_code(&result));
    return break_down(p, TN_E_PEER, what, err);
}

static int is_late(struct tn_rpc_program *p, const char *method, struct tn_error *err)
{
    tn_autofree char *what = tn_asprintf("did not answer %s in time", method);

    return break_down(p, TN_E_TIMEOUT, what, err);
}

/* --- lines --------------------------------------------------------------------------------- */

/* Sends some of the request; bytes sent, or -1 when it has closed its end. */
static ssize_t push(const struct tn_rpc_program *p, const char *bytes, size_t n)
{
    ssize_t done = send(p->line, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL);

    return done < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : done;
}

/* Receives some; 0, or -1 when that broke it. */
static int pull(struct tn_rpc_program *p, struct tn_error *err)
{
    char piece[16384];
    ssize_t n = recv(p->line, piece, sizeof piece, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n <= 0)
        return has_ended(p, err);
    tn_lines_add(&p->lines, piece, (size_t)n);
    return 0;
}

/* --- messages ------------------------------------------------------------------------------ */

static enum tn_code code_of(const struct tn_json *error)
{
    const char *word = tn_json_get_str(tn_json_get(error, "data"), "code", "");

    for (int code = TN_OK + 1; code < TN_CODE_COUNT; code++)
        if (strcmp(tn_code_row((enum tn_code)code)->name, word) == 0)
            return (enum tn_code)code;
    return tn_json_int(tn_json_get(error, "code"), 0) == -32601 ? TN_E_UNSUPPORTED : TN_E_INTERNAL;
}

/* 1: it was the answer; 0: something else; -1: it was an error, or broke the program. */
static int take_line(struct tn_rpc_program *p, const char *line, ssize_t n, int64_t id,
                     tn_rpc_progress_fn progress, void *ctx, struct tn_json **result,
                     struct tn_error *err)
{
    tn_autojson struct tn_json *message = NULL;
    struct tn_error why = {0};

    if (n == TN_LINES_TOO_LONG)
        return break_down(p, TN_E_TOO_LARGE, "sent a line that is too long", err);
    int parsed = tn_json_parse(line, (size_t)n, &message, &why);
    if (parsed < 0 || tn_json_type(message) != TN_JSON_OBJECT)
        return break_down(p, TN_E_PEER, "sent a line that is not a JSON object", err);
    const char *method = tn_json_get_str(message, "method", NULL);
    if (method) {
        const char *text = tn_json_get_str(tn_json_get(message, "params"), "text", NULL);
        if (strcmp(method, "progress") == 0 && text && progress)
            progress(text, ctx);
        return 0;
    }
    if (tn_json_int(tn_json_get(message, "id"), -1) != id)
        return break_down(p, TN_E_PEER, "answered something that was not asked", err);
    const struct tn_json *error = tn_json_get(message, "error");
    if (error)
        return tn_fail(err, code_of(error), "%s",
                       tn_json_get_str(error, "message", "an error without a message"));
    *result = tn_json_ref(tn_json_get(message, "result"));
    return 1;
}

static void write_request(struct tn_buf *out, int64_t id, const char *method,
                          const struct tn_buf *params, int64_t deadline)
{
    int64_t left = deadline - tn_now();
    struct tn_jw w = tn_jw(out);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "jsonrpc", "2.0");
    tn_jw_kint(&w, "id", id);
    tn_jw_kstr(&w, "method", method);
    tn_jw_key(&w, "params");
    tn_jw_object(&w);
    tn_jw_kdouble(&w, "timeout", left > 0 ? (double)left / 1e9 : 0);
    if (params->len > 2) { /* the members of an object that is not empty */
        tn_buf_putc(out, ',');
        tn_buf_add(out, params->data + 1, params->len - 2);
    }
    tn_jw_object_end(&w);
    tn_jw_object_end(&w);
    tn_buf_putc(out, '\n');
}

int tn_rpc_program_call(struct tn_rpc_program *p, const char *method, const struct tn_buf *params,
                        tn_rpc_progress_fn progress, void *ctx, int64_t deadline,
                        struct tn_json **result, struct tn_error *err)
{
    tn_autobuf struct tn_buf request = TN_BUF_INIT(TN_RPC_PROGRAM_LINE_MAX);
    int64_t id = ++p->next_id;
    const char *line;
    size_t sent = 0;

    write_request(&request, id, method, params, deadline);
    if (!tn_buf_ok(&request) || !tn_buf_ok(params))
        return tn_fail(err, TN_E_TOO_LARGE, "%s: more than %zu MiB for one call of %s", p->name,
                       TN_RPC_PROGRAM_LINE_MAX >> 20, method);
    for (;;) {
        for (ssize_t n; (n = tn_lines_next(&p->lines, &line)) != TN_LINES_NONE;) {
            int r = take_line(p, line, n, id, progress, ctx, result, err);
            if (r)
                return r < 0 ? -1 : 0;
        }
        struct pollfd fds[] = {
            {.fd = p->line, .events = (short)(POLLIN | (sent < request.len ? POLLOUT : 0))},
            {.fd = p->errors, .events = POLLIN}};
        int ready = poll(fds, 2, tn_poll_ms(deadline));
        if (ready == 0)
            return is_late(p, method, err);
        if (ready < 0)
            continue;
        if (fds[1].revents)
            hear_errors(p);
        ssize_t pushed =
            fds[0].revents & POLLOUT ? push(p, request.data + sent, request.len - sent) : 0;
        if (pushed < 0)
            return has_ended(p, err);
        sent += (size_t)pushed;
        if (fds[0].revents & (POLLIN | POLLHUP | POLLERR) && pull(p, err) < 0)
            return -1;
    }
}
