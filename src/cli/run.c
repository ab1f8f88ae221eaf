#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "cli/hand-process.h"
#include "cli/scratch.h"
#include "cli/show.h"
#include "cli/tour.h"
#include "cli/verb.h"
#include "runtime/hand-client.h"

/* A hand starts in milliseconds; this is for a machine on its knees. */
#define START_SECONDS 20.0

#define MAX_COMMAND (8u << 20)

struct run_options {
    char *hand;
    char *workspace;
    double timeout;
    struct tn_str_list command;
};

static const struct tn_field rows[] = {
    TN_STRING("hand", struct run_options, hand, .flag = "--hand", .value = "PATH",
              .help = "the tendon-hand to start [beside this program, ../lib/tendon, PATH]"),
    TN_STRING("workspace", struct run_options, workspace, .flag = "--workspace", .value = "DIR",
              .help = "work here and leave it alone afterwards [a fresh temporary directory]"),
    TN_DOUBLE("timeout", struct run_options, timeout, .flag = "--timeout", .value = "S",
              .fallback = "120", .min = 0.001, .max = 1e8, .help = "seconds the command may take"),
    TN_STRINGS("command", struct run_options, command, .flags = TN_FIELD_POSITIONAL | TN_FIELD_REST,
               .value = "COMMAND",
               .help = "one line for the shell, or a program and its arguments"),
};
static const struct tn_fields options_table = TN_FIELDS(rows);

/* --- what is done with the hand, on a thread of its own --------------------------------------- */

/* The main thread starts and ends the hand and listens for signals; this one talks to the hand. */
struct job {
    const struct run_options *options;
    const char *workspace;
    int64_t started; /* the hand */
    int hand_ended;  /* readable then */
    struct tn_hand_client *client;
    int done;   /* eventfd */
    int status; /* exit status, or -1 with err */
    struct tn_error err;
};

/* Several arguments are a program's: each is quoted, so that the shell passes it on as it is. */
static void put_command(struct tn_buf *out, const struct tn_str_list *words)
{
    if (words->count == 1) {
        tn_buf_puts(out, words->items[0]);
        return;
    }
    for (size_t i = 0; i < words->count; i++) {
        tn_buf_puts(out, i ? " '" : "'");
        for (const char *c = words->items[i]; *c; c++)
            if (*c == '\'')
                tn_buf_puts(out, "'\\''");
            else
                tn_buf_putc(out, *c);
        tn_buf_putc(out, '\'');
    }
}

static void print_text(const struct tn_text *text, FILE *out)
{
    if (!text->len)
        return;
    fwrite(text->data, 1, text->len, out);
    if (text->data[text->len - 1] != '\n')
        putc('\n', out);
}

/* The exit status that fits the observation, or -1 with err. */
static int print_result(const struct tn_observation *o, double timeout, struct tn_error *err)
{
    const struct tn_run_metadata *m = &o->run.metadata;
    bool ran = o->type == TN_OBSERVATION_RUN && m->command_id;

    if (!ran) { /* it says why */
        print_text(&o->content, stderr);
        return tn_code_row(TN_E_UNSUPPORTED)->exit_code;
    }
    if (m->prefix)
        fputs(m->prefix, stderr);
    print_text(&o->content, stdout);
    if (m->exit_code < 0)
        return tn_fail(err, TN_E_TIMEOUT, "not done after %g s: killed (see --timeout)", timeout);
    return (int)m->exit_code & 255;
}

static int run_command(struct job *j, struct tn_error *err)
{
    tn_autobuf struct tn_buf command = TN_BUF_INIT(MAX_COMMAND);
    tn_autoaction struct tn_action action;
    tn_autoobservation struct tn_observation observation;

    tn_action_init(&action, TN_ACTION_RUN);
    tn_observation_init(&observation, TN_OBSERVATION_NULL);
    put_command(&command, &j->options->command);
    if (!tn_buf_ok(&command))
        return tn_fail(err, TN_E_TOO_LARGE, "the command is longer than %u MiB", MAX_COMMAND >> 20);
    action.run.command = tn_buf_take(&command);
    action.run.blocking = true;
    action.run.script = true;
    action.timeout = (struct tn_opt_double){.set = true, .value = j->options->timeout};
    if (tn_hand_client_execute(j->client, &action, &observation, err))
        return -1;
    return print_result(&observation, j->options->timeout, err);
}

static double milliseconds_since(int64_t start)
{
    return (double)(tn_now() - start) / TN_MILLI;
}

static int take_tour(struct job *j, struct tn_error *err)
{
    struct show s = show_on(stdout);
    double hand_ready = milliseconds_since(j->started);

    if (tour_warm_up(j->client, err))
        return -1;
    printf("tendon %s: a hand of its own, in a fresh workspace\n"
           "ready after %.1f ms, its shell (with your start-up files) after %.1f ms\n",
           TN_VERSION, hand_ready, milliseconds_since(j->started));
    int failed = tour(j->client, j->workspace, &s, err);
    if (failed < 0)
        return -1;
    if (failed)
        return 1;
    printf("\nYour turn: tendon run 'COMMAND'\n");
    return 0;
}

static void *work(void *arg)
{
    struct job *j = arg;

    if (tn_hand_client_wait(j->client, j->hand_ended, tn_deadline_in(START_SECONDS), &j->err))
        j->status = -1;
    else if (j->options->command.count)
        j->status = run_command(j, &j->err);
    else
        j->status = take_tour(j, &j->err);
    eventfd_write(j->done, 1);
    return NULL;
}

/* --- the frame around it ---------------------------------------------------------------------- */

/* The workspace as an absolute path; the caller frees it. */
static char *open_workspace(const char *given, const struct scratch *scratch, struct tn_error *err)
{
    tn_autofree char *path = NULL;

    if (given) {
        struct stat st;
        path = realpath(given, NULL);
        if (!path)
            tn_fail_errno(err, errno, "workspace %s", given);
        else if (stat(path, &st) || !S_ISDIR(st.st_mode))
            tn_fail_errno(err, ENOTDIR, "workspace %s", given);
        else
            return TN_TAKE_PTR(path);
        return NULL;
    }
    path = tn_asprintf("%s/workspace", scratch->path);
    if (mkdir(path, 0755)) {
        tn_fail_errno(err, errno, "%s", path);
        return NULL;
    }
    return TN_TAKE_PTR(path);
}

static sigset_t ending_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    return set;
}

/* Ends this process by that signal, as it would have ended without our care. */
static _Noreturn void die_by(int number)
{
    sigset_t set = ending_signals();

    signal(number, SIG_DFL);
    raise(number);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    _exit(128 + number);
}

/* Until the job is done (0) or a signal asks us to end (its number). */
static int wait_for(const struct job *j, int signals)
{
    struct pollfd p[] = {{.fd = j->done, .events = POLLIN}, {.fd = signals, .events = POLLIN}};
    struct signalfd_siginfo info;

    while (poll(p, TN_COUNT(p), -1) < 0)
        ;
    if (p[1].revents && read(signals, &info, sizeof info) == sizeof info)
        return (int)info.ssi_signo;
    return 0;
}

/* Adds what the hand had to say, for when it was the hand that failed. */
static void add_last_words(struct tn_error *err, const struct hand_process *process)
{
    tn_autofree char *words = hand_process_last_words(process);
    struct tn_error why = *err;

    if (*words)
        tn_fail(err, why.code, "%s\n%s", why.text, words);
}

/* The job on its thread, until it is done or a signal comes; after a signal everything is removed
 * and this never returns, because the thread may still be busy with the job. */
static int do_job(struct job *job, struct hand_process *process, struct scratch *scratch,
                  int signals, struct tn_error *err)
{
    pthread_t thread;
    int failed = pthread_create(&thread, NULL, work, job);

    if (failed)
        return tn_fail_errno(err, failed, "cannot start a thread");
    int number = wait_for(job, signals);
    if (number) {
        hand_process_stop(process);
        scratch_close(scratch, NULL);
        die_by(number);
    }
    pthread_join(thread, NULL);
    *err = job->err;
    if (job->status < 0 && err->code == TN_E_PEER)
        add_last_words(err, process);
    return job->status;
}

static int with_hand(const struct run_options *options, struct scratch *scratch, int signals,
                     struct tn_error *err)
{
    struct hand_process process = {0};
    tn_autofree char *program = find_hand(options->hand, err);
    tn_autofree char *workspace = program ? open_workspace(options->workspace, scratch, err) : NULL;
    tn_autofd int done = eventfd(0, EFD_CLOEXEC);
    int64_t started = tn_now();
    int status = -1;

    if (done < 0)
        return tn_fail_errno(err, errno, "eventfd");
    if (!workspace || hand_process_start(&process, program, scratch->path, workspace, err))
        return -1;

    struct job job = {.options = options,
                      .workspace = workspace,
                      .started = started,
                      .hand_ended = tn_child_pidfd(process.child),
                      .client = tn_hand_client_new(process.address, NULL, err),
                      .done = done};
    if (job.client)
        status = do_job(&job, &process, scratch, signals, err);
    tn_hand_client_free(job.client);
    hand_process_stop(&process);
    return status;
}

static int run(const void *options, struct tn_error *err)
{
    struct scratch scratch = SCRATCH_INIT;
    struct tn_error leftover = {0};
    sigset_t set = ending_signals();

    /* From here on they are read from a descriptor: nothing is ever left half done. */
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    tn_autofd int signals = signalfd(-1, &set, SFD_CLOEXEC);
    if (signals < 0)
        return tn_fail_errno(err, errno, "signalfd");
    if (scratch_open(&scratch, err))
        return -1;
    int status = with_hand(options, &scratch, signals, err);
    if (scratch_close(&scratch, &leftover))
        fprintf(stderr, "tendon: %s\n", leftover.text);
    return status;
}

const struct verb verb_run = {
    .name = "run",
    .summary = "run a command in a hand of its own, or take a short tour",
    .details =
        "Starts a hand, lets it run COMMAND, prints the output, and removes everything again.\n"
        "One argument is a line for the shell; several are a program and its arguments.\n"
        "Without COMMAND: a short tour. Nothing is isolated: it runs on this machine, as you.",
    .options = &options_table,
    .options_size = sizeof(struct run_options),
    .run = run,
};
