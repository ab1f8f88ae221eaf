#include <poll.h>
#include <signal.h>

#include "base/clock.h"
#include "base/fs.h"
#include "cli/clean.h"
#include "cli/fresh.h"
#include "cli/job.h"
#include "cli/tty.h"
#include "cli/verb.h"
#include "runtime/hand-terminal.h"

#define SEND_SECONDS 30.0
#define BEAT_SECONDS 15.0
#define SILENCE_SECONDS 45.0 /* the hand shows a sign of life every 15 seconds */
#define RESUME_SECONDS 15.0

struct shell_options {
    struct tn_spec spec;
    bool fresh, history;
    char *session, *program, *template;
    char *sandbox;
};

static const struct tn_field rows[] = {
    TN_BOOL("new", struct shell_options, fresh, .flag = "--new",
            .help = "in a new sandbox, which is removed at the end"),
    TN_STRING("session", struct shell_options, session, .flag = "--session", .letter = 's',
              .value = "NAME", .fallback = "main", .help = "the shell to attach to"),
    TN_STRING("program", struct shell_options, program, .flag = "--program", .value = "PROGRAM",
              .help = "shell of a session that is made by this: bash, sh or a path"),
    TN_BOOL("history", struct shell_options, history, .flag = "--history",
            .help = "show first what the terminal showed lately"),
    TN_STRING("template", struct shell_options, template, .flag = "--template", .letter = 't',
              .value = "NAME", .help = "with --new: start from [template.NAME]"),
    TN_OBJECT("spec", struct shell_options, spec, &tn_spec_fields),
    TN_STRING("sandbox", struct shell_options, sandbox, .flags = TN_FIELD_POSITIONAL,
              .value = VALUE_SANDBOX, .help = "id, start of the id, or name [the only one]"),
};
static const struct tn_fields options_table = TN_FIELDS(rows);

/* --- the keyboard -------------------------------------------------------------------------- */

/* `~.` at the start of a line detaches, as people know it from ssh; `~~` is a tilde. */
struct keys {
    enum { IN_LINE, LINE_START, TILDE } at;
    bool detach;
};

/* What of the n bytes is to be sent, in out (2 * n bytes); stops at a detach. */
static size_t filter_keys(struct keys *k, const char *in, size_t n, char *out)
{
    size_t used = 0;

    for (size_t i = 0; i < n && !k->detach; i++) {
        char c = in[i];
        if (k->at == LINE_START && c == '~') {
            k->at = TILDE;
            continue;
        }
        if (k->at == TILDE && c == '.') {
            k->detach = true;
            break;
        }
        if (k->at == TILDE && c != '~')
            out[used++] = '~';
        out[used++] = c;
        k->at = c == '\r' || c == '\n' ? LINE_START : IN_LINE;
    }
    return used;
}

/* --- the conversation ---------------------------------------------------------------------- */

struct talk {
    struct tn_hand_terminal *terminal;
    struct tty *tty;
    struct keys keys;
    struct tn_buf out;
    int64_t heard, beat;
    bool closed; /* no more keys */
    int number;  /* of the signal that ended it, or 0 */
};

/* How it ended. */
enum { GO_ON, DETACHED, ENDED, KILLED, FAILED };

static int64_t soon(void)
{
    return tn_deadline_in(SEND_SECONDS);
}

static void send_size(struct talk *t)
{
    int columns, rows_count;

    tty_size(t->tty, &columns, &rows_count);
    tn_hand_terminal_resize(t->terminal, columns, rows_count, soon());
}

static void show_note(const char *text)
{
    int width;
    tn_autofree char *safe = clean_text(text, INT32_MAX, &width);
    tn_autofree char *line = tn_asprintf("\r\n[tendon: %s]\r\n", safe);

    tn_fs_write(STDOUT_FILENO, line, strlen(line), NULL);
}

static int resume(struct talk *t, struct tn_error *err)
{
    int64_t deadline = tn_deadline_in(RESUME_SECONDS);

    show_note("the connection broke, trying to resume");
    while (tn_hand_terminal_resume(t->terminal, deadline, err) < 0) {
        struct pollfd p = {.fd = t->tty->signals, .events = POLLIN};
        if (err->code != TN_E_PEER || tn_now() >= deadline)
            return FAILED;
        if (poll(&p, 1, 200) > 0 && tty_signal(t->tty, &t->number) == TTY_END)
            return KILLED;
    }
    send_size(t);
    t->heard = tn_now();
    return GO_ON;
}

static int hear(struct talk *t, struct tn_error *err)
{
    int event = tn_hand_terminal_next(t->terminal, &t->out, tn_now(), err);

    t->heard = tn_now();
    switch (event) {
    case TN_TERMINAL_QUIET:
        return GO_ON;
    case TN_TERMINAL_BYTES:
        return tty_write(t->tty, tn_buf_str(&t->out), t->out.len, err) < 0 ? FAILED : GO_ON;
    case TN_TERMINAL_NOTE:
        show_note(tn_buf_str(&t->out));
        return GO_ON;
    case TN_TERMINAL_ENDED:
        return ENDED;
    case TN_TERMINAL_BROKEN:
        return resume(t, err);
    default:
        return FAILED;
    }
}

static int type(struct talk *t)
{
    char in[1024], out[2 * sizeof in];
    ssize_t n = read(t->tty->fd, in, sizeof in);

    if (n < 0 && errno == EINTR)
        return GO_ON;
    if (n <= 0) {
        t->number = SIGHUP; /* the terminal is gone */
        return KILLED;
    }
    size_t send = filter_keys(&t->keys, in, (size_t)n, out);
    if (send)
        tn_hand_terminal_type(t->terminal, out, send, soon());
    return t->keys.detach ? DETACHED : GO_ON;
}

static int listen_once(struct talk *t, struct tn_error *err)
{
    struct pollfd p[] = {{.fd = t->tty->fd, .events = POLLIN},
                         {.fd = tn_hand_terminal_fd(t->terminal), .events = POLLIN},
                         {.fd = t->tty->signals, .events = POLLIN}};
    int how = GO_ON;

    if (tn_hand_terminal_buffered(t->terminal))
        return hear(t, err);
    if (poll(p, TN_COUNT(p), tn_poll_ms(t->beat)) < 0 && errno != EINTR) {
        tn_fail_errno(err, errno, "poll");
        return FAILED;
    }
    if (p[2].revents) {
        enum tty_signal what = tty_signal(t->tty, &t->number);
        if (what == TTY_RESIZED)
            send_size(t);
        if (what == TTY_END)
            return KILLED;
    }
    if (p[1].revents)
        how = hear(t, err);
    if (how == GO_ON && p[0].revents)
        how = type(t);
    if (how == GO_ON && tn_now() >= t->beat) {
        tn_hand_terminal_beat(t->terminal, soon());
        t->beat = tn_deadline_in(BEAT_SECONDS);
        if (tn_now() - t->heard > (int64_t)(SILENCE_SECONDS * 1e9))
            how = resume(t, err);
    }
    return how;
}

static int converse(struct talk *t, struct tn_error *err)
{
    int how;

    t->keys.at = LINE_START;
    t->heard = tn_now();
    t->beat = tn_deadline_in(BEAT_SECONDS);
    send_size(t);
    do
        how = listen_once(t, err);
    while (how == GO_ON);
    return how;
}

/* --- the verb ------------------------------------------------------------------------------ */

/* The exit status, or -1 with err; *number is the signal that ended it. */
static int attach(struct cli *cli, struct tn_sandbox *sb, const struct shell_options *options,
                  int *number, struct tn_error *err)
{
    struct tty tty;
    struct talk t = {.tty = &tty, .out = TN_BUF_INIT(2 << 20)};
    const char *address, *key;

    if (tn_sandbox_address(sb, &address, &key, cli_start_deadline(cli), err) < 0)
        return -1;
    tn_sandbox_use(sb);
    t.terminal = tn_hand_terminal_open(address, key, options->session, options->program,
                                       options->history, cli_start_deadline(cli), err);
    if (!t.terminal)
        return -1;
    int how = tty_open(&tty, err) < 0 ? FAILED : converse(&t, err);
    tty_close(&tty);
    int exit_code = tn_hand_terminal_exit_code(t.terminal);
    tn_hand_terminal_close(t.terminal);
    tn_buf_done(&t.out);
    *number = how == KILLED ? t.number : 0;
    if (how == ENDED && exit_code < 0) {
        tn_fail(err, TN_E_GONE, "the terminal was closed: its sandbox is being stopped");
        how = FAILED;
    }
    if (how == DETACHED)
        cli_note(cli, "detached; to come back: tendon shell %s", sandbox_label(sb));
    return how == FAILED ? -1 : how == ENDED && exit_code > 0 ? exit_code : 0;
}

struct make_job {
    struct fresh fresh;
    struct tn_spec spec;
};

static int make(void *ctx, struct tn_error *err)
{
    struct make_job *j = ctx;

    return fresh_make(&j->fresh, &j->spec, err);
}

static void abandon(void *ctx)
{
    struct make_job *j = ctx;

    fresh_abandon(&j->fresh);
}

/* What would end this process waits until the sandbox is removed. */
static sigset_t hold_signals(void)
{
    sigset_t set, before;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &set, &before);
    return before;
}

static int in_new(struct cli *cli, const struct shell_options *options, int *number,
                  struct tn_error *err)
{
    struct make_job j;
    int status = -1;

    if (options->sandbox)
        return tn_fail(err, TN_E_INVALID, "either --new or SANDBOX, not both");
    fresh_init(&j.fresh, cli);
    if (cli_spec(cli, options->template, &options->spec, &j.spec, err) == 0 &&
        cli_runtime(cli, err) &&
        job_run(&(struct job){.work = make, .abandon = abandon, .ctx = &j}, err) == 0) {
        sigset_t before = hold_signals();
        status = attach(cli, j.fresh.sb, options, number, err);
        if (!j.spec.keep && fresh_remove(&j.fresh, status < 0 ? NULL : err) < 0)
            status = -1;
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    fresh_done(&j.fresh);
    tn_spec_done(&j.spec);
    return status;
}

static int run(struct cli *cli, const void *given, struct tn_error *err)
{
    const struct shell_options *options = given;
    int status, number = 0;

    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
        return tn_fail(err, TN_E_INVALID,
                       "this needs a terminal; for a single command there is: tendon exec");
    if (options->fresh) {
        status = in_new(cli, options, &number, err);
    } else {
        tn_autosandbox struct tn_sandbox *sb = cli_sandbox(cli, options->sandbox, err);
        status = sb ? attach(cli, sb, options, &number, err) : -1;
    }
    if (number)
        die_by(number);
    return status;
}

const struct verb verb_shell = {
    .name = "shell",
    .group = VERB_WORK,
    .summary = "work in a sandbox at an interactive terminal",
    .details = "Attaches to a shell of the sandbox: `main`, the one that the agent uses, or the\n"
               "one that --session names (made if it does not exist). Several people may attach\n"
               "to the same one. The size of the window is passed on.\n"
               "At the start of a line ~. detaches: the shell and what runs in it go on, and\n"
               "tendon shell comes back to it. ~~ types a tilde. When the shell exits, its exit\n"
               "status is this program's.",
    .options = &options_table,
    .options_size = sizeof(struct shell_options),
    .run = run,
};
