#include "hand/external/program.h"

#include <poll.h>

#include "base/lines.h"

/* How long a program that closed its output may take to end. */
#define END_SECONDS 3.0

struct plugin_program {
    char *path;
    const char *name; /* into path */
    struct tn_helper *helper;
    int64_t id; /* of the latest question */
    struct tn_lines lines;
};

struct plugin_program *plugin_program_start(struct tn_hand *hand, const char *path,
                                            struct tn_error *err)
{
    const char *argv[] = {path, NULL};
    struct tn_helper_spec spec = {.name = strrchr(path, '/') + 1, .argv = argv, .in = 0, .out = 1};
    struct tn_helper *helper = tn_helper_start(hand, &spec, err);

    if (!helper)
        return NULL;
    struct plugin_program *p = tn_calloc(1, sizeof *p);
    p->path = tn_strdup(path);
    p->name = strrchr(p->path, '/') + 1;
    p->helper = helper;
    tn_lines_init(&p->lines, PROGRAM_LINE_MAX);
    return p;
}

void plugin_program_free(struct plugin_program *p, double grace)
{
    if (!p)
        return;
    tn_helper_end(p->helper, grace);
    tn_helper_free(p->helper);
    tn_lines_done(&p->lines);
    free(p->path);
    free(p);
}

struct tn_helper *plugin_program_helper(const struct plugin_program *p)
{
    return p->helper;
}

/* --- breaking down -------------------------------------------------------------------------- */

static int broke(const struct plugin_program *p, const char *what, struct tn_error *err)
{
    return tn_fail(err, TN_E_PEER, "%s %s", p->name, what);
}

/* It closed its side: say how it ended. */
static int has_ended(struct plugin_program *p, struct tn_error *err)
{
    tn_autobuf struct tn_buf how = TN_BUF_INIT(8192);

    if (tn_helper_wait(p->helper, tn_deadline_in(END_SECONDS), NULL) < 0)
        return broke(p, "closed its output", err);
    tn_helper_obituary(p->helper, &how);
    return broke(p, tn_buf_str(&how), err);
}

/* --- lines ---------------------------------------------------------------------------------- */

/* 0 when there may be something to do with that descriptor; -1 when it is not waited for any more.
 */
static int await(const struct plugin_program *p, int fd, short events,
                 const struct plugin_program_patience *patience, struct tn_error *err)
{
    struct pollfd fds[] = {{.fd = fd, .events = events},
                           {.fd = patience->quit, .events = POLLIN},
                           {.fd = patience->stop, .events = POLLIN}};
    int ready = poll(fds, TN_COUNT(fds), tn_poll_ms(patience->deadline));

    if (ready == 0 || tn_now() > patience->deadline)
        return tn_fail(err, TN_E_TIMEOUT, "%s did not answer in time", p->name);
    if (ready > 0 && fds[1].revents)
        return tn_fail(err, TN_E_GONE, "the hand is ending");
    if (ready > 0 && fds[2].revents)
        return tn_fail(err, TN_E_TIMEOUT, "was interrupted");
    return 0;
}

/* Receives some: 0, or -1 when that was the end. */
static int pull(struct plugin_program *p, struct tn_error *err)
{
    char piece[16384];
    ssize_t n = read(tn_helper_from(p->helper), piece, sizeof piece);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n <= 0)
        return has_ended(p, err);
    tn_lines_add(&p->lines, piece, (size_t)n);
    return 0;
}

/* 1: it was the answer; 0: something that is none of our business; -1: nonsense. */
static int take_line(struct plugin_program *p, const char *text, ssize_t n, struct tn_rpc *answer,
                     struct tn_error *err)
{
    if (n == TN_LINES_TOO_LONG)
        return broke(p, "sent a line that is too long", err);
    if (tn_rpc_parse(text, (size_t)n, answer, NULL) < 0)
        return broke(p, "sent a line that is no JSON-RPC message", err);
    if (answer->kind == TN_RPC_NOTIFICATION) {
        tn_rpc_done(answer);
        return 0;
    }
    if (answer->kind != TN_RPC_REQUEST && tn_json_type(answer->id) == TN_JSON_INT &&
        tn_json_int(answer->id, 0) == p->id)
        return 1;
    tn_rpc_done(answer);
    return broke(p, "answered something that was not asked", err);
}

static int wait_for_answer(struct plugin_program *p, const struct plugin_program_patience *patience,
                           struct tn_rpc *answer, struct tn_error *err)
{
    const char *text;

    for (;;) {
        for (ssize_t n; (n = tn_lines_next(&p->lines, &text)) != TN_LINES_NONE;) {
            int r = take_line(p, text, n, answer, err);
            if (r)
                return r < 0 ? -1 : 0;
        }
        if (await(p, tn_helper_from(p->helper), POLLIN, patience, err) < 0 || pull(p, err) < 0)
            return -1;
    }
}

/* It may take its time with its input, as with its answer.  What it had to say before it closed it
 * is worth more than that it did.  A pipe whose reader is gone raises a signal, which every thread
 * of ours has blocked. */
static int send_line(struct plugin_program *p, struct tn_buf *line,
                     const struct plugin_program_patience *patience, struct tn_error *err)
{
    int fd = tn_helper_to(p->helper);

    tn_buf_putc(line, '\n');
    if (!tn_buf_ok(line))
        return tn_fail(err, TN_E_TOO_LARGE, "more than %zu MiB for one call of %s",
                       PROGRAM_LINE_MAX >> 20, p->name);
    for (size_t done = 0; done < line->len;) {
        ssize_t n = write(fd, line->data + done, line->len - done);
        if (n > 0)
            done += (size_t)n;
        else if (errno != EAGAIN && errno != EINTR)
            return has_ended(p, err);
        else if (await(p, fd, POLLOUT, patience, err) < 0)
            return -1;
    }
    return 0;
}

int plugin_program_call(struct plugin_program *p, const char *method, const char *params,
                        const struct plugin_program_patience *patience, struct tn_rpc *answer,
                        struct tn_error *err)
{
    tn_autobuf struct tn_buf line = TN_BUF_INIT(PROGRAM_LINE_MAX);

    tn_rpc_put_request(&line, ++p->id, method, params);
    if (send_line(p, &line, patience, err) < 0)
        return -1;
    return wait_for_answer(p, patience, answer, err);
}

int plugin_program_cancel(struct plugin_program *p, const struct plugin_program_patience *patience,
                          struct tn_rpc *answer, struct tn_error *err)
{
    tn_autobuf struct tn_buf line = TN_BUF_INIT(256);
    char params[64];

    snprintf(params, sizeof params, "{\"id\":%lld}", (long long)p->id);
    tn_rpc_put_notification(&line, "cancel", params);
    if (send_line(p, &line, patience, err) < 0)
        return -1;
    return wait_for_answer(p, patience, answer, err);
}
