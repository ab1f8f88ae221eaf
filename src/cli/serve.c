#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>

#include "base/child.h"
#include "base/log.h"
#include "base/thread.h"
#include "cli/job.h"
#include "cli/program.h"
#include "cli/verb.h"
#include "service/service.h"

/* Flags for what is set most; each row has the name of its key in [service]. */
struct serve_options {
    struct tn_str_list listen, origins;
    char *tls_cert, *tls_key, *url, *max_sandboxes, *drain_seconds;
    bool insecure, stop_sandboxes, check;
};

#define SERVE struct serve_options
static const struct tn_field rows[] = {
    TN_STRINGS("listen", SERVE, listen, .flag = "--listen", .letter = 'l', .value = "ADDRESS",
               .help = "HOST:PORT, [V6]:PORT, unix:PATH or fd:N [127.0.0.1:7171]"),
    TN_STRING("tls_cert", SERVE, tls_cert, .flag = "--tls-cert", .value = "FILE",
              .help = "certificate and its chain, PEM"),
    TN_STRING("tls_key", SERVE, tls_key, .flag = "--tls-key", .value = "FILE",
              .help = "its private key, PEM"),
    TN_BOOL("insecure", SERVE, insecure, .flag = "--insecure",
            .help = "listen beyond this machine without TLS: something else encrypts"),
    TN_STRING("url", SERVE, url, .flag = "--url", .value = "URL",
              .help = "how clients reach it [follows from the address]"),
    TN_STRINGS("origins", SERVE, origins, .flag = "--origin", .value = "ORIGIN",
               .help = "a web page of others that may call it; may be given several times"),
    TN_STRING("max_sandboxes", SERVE, max_sandboxes, .flag = "--max-sandboxes", .value = "N",
              .help = "that run at a time"),
    TN_STRING("drain_seconds", SERVE, drain_seconds, .flag = "--drain-seconds", .value = "N",
              .help = "for requests under way when it is asked to stop"),
    TN_BOOL("stop_sandboxes", SERVE, stop_sandboxes, .flag = "--stop-sandboxes",
            .help = "stop the sandboxes too when it is asked to stop"),
    TN_BOOL("check", SERVE, check, .flag = "--check",
            .help = "only see whether it could start like this"),
};
static const struct tn_fields options_table = TN_FIELDS(rows);

/* --- options ------------------------------------------------------------------------------- */

static void add_setting(struct tn_str_list *set, char *text)
{
    set->items = tn_realloc(set->items, (set->count + 2) * sizeof *set->items);
    set->items[set->count++] = text;
    set->items[set->count] = NULL;
}

/* As --set takes it: lists as JSON, because addresses may hold anything. */
static void put_value(const struct tn_field *row, const struct serve_options *o, struct tn_buf *out)
{
    const struct tn_str_list *list = (const struct tn_str_list *)((const char *)o + row->offset);
    struct tn_jw w = tn_jw(out);

    if (row->type != TN_FIELD_STRINGS) {
        tn_field_put_text(row, o, out);
    } else if (list->count) {
        tn_jw_array(&w);
        for (size_t i = 0; i < list->count; i++)
            tn_jw_str(&w, list->items[i]);
        tn_jw_array_end(&w);
    }
}

/* A flag is a --set of the key with its name. */
static void set_flags(struct cli *cli, const struct serve_options *o)
{
    for (size_t i = 0; i < TN_COUNT(rows); i++) {
        tn_autobuf struct tn_buf value = TN_BUF_INIT(64 * 1024);

        if (strcmp(rows[i].name, "check") == 0)
            continue;
        put_value(&rows[i], o, &value);
        if (value.len && (rows[i].type != TN_FIELD_BOOL || strcmp(value.data, "true") == 0))
            add_setting(&cli->globals.set,
                        tn_asprintf("service.%s=%s", rows[i].name, tn_buf_str(&value)));
    }
}

static void start_log(const struct cli *cli, const struct tn_config *config)
{
    static const char *const levels[] = {"debug", "info", "warn", "error"};
    enum tn_log_level least = TN_LOG_INFO;

    for (size_t i = 0; i < TN_COUNT(levels); i++)
        if (strcmp(levels[i], config->tendon.log_level) == 0)
            least = (enum tn_log_level)i;
    tn_log_init(STDERR_FILENO, least, cli->json || tn_log_json_wanted(getenv("LOG_JSON")));
}

/* Before there are threads.  What requests hold is bounded by service.request_memory, and by it
 * should be what stays when they are done.  Left alone, malloc takes the first large buffer that is
 * freed as a sign to keep such ones from now on, in eight heaps for each processor. */
static void give_memory_back(void)
{
    mallopt(M_MMAP_THRESHOLD, 128 << 10); /* the default, which does not grow once it is set */
    mallopt(M_ARENA_MAX, 2);
}

/* Each client is a descriptor or two, each sandbox that somebody uses some more. */
static void allow_descriptors(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* --- telling ------------------------------------------------------------------------------- */

static void put_json(const struct tn_service *s, const char *key, struct tn_buf *out)
{
    tn_autofree char *local = tn_service_local_url(s);
    struct tn_jw w = tn_jw(out);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "url", tn_service_url(s));
    tn_jw_kstr(&w, "local_url", local);
    tn_jw_kint(&w, "pid", getpid());
    tn_jw_kstr(&w, "key_file", key);
    tn_jw_object_end(&w);
}

/* For people; a link that signs in is for their eyes, not for a log. */
static void put_welcome(const struct tn_service *s, struct tn_runtime *rt, const char *key,
                        struct tn_buf *out)
{
    struct tn_db *db = tn_store_db(tn_runtime_store(rt));
    tn_autofree char *link =
        isatty(STDOUT_FILENO) ? tn_service_login_link(db, tn_runtime_host(rt)->state, NULL) : NULL;

    tn_buf_printf(out, "Tendon serves sandboxes at %s\n", tn_service_url(s));
    if (link)
        tn_buf_printf(out, "Sign in within five minutes by %s\n", link);
    if (key)
        tn_buf_printf(out, "The first key is in %s; others are made by: tendon key create NAME",
                      key);
    else
        tn_buf_puts(out, "The state directory holds no key that opens it; an administrator's is "
                         "made by: tendon key create NAME --scope read,use,manage,admin");
}

/* Nobody may be listening any more, least of all after an upgrade: that ends no service. */
static void tell(const struct cli *cli, const struct tn_service *s, struct tn_runtime *rt)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(16 * 1024);
    const char *state = tn_runtime_host(rt)->state;
    bool counts = tn_service_has_first_key(tn_store_db(tn_runtime_store(rt)), state);
    tn_autofree char *key = counts ? tn_asprintf("%s/" TN_SERVICE_KEY_FILE, state) : NULL;

    if (cli->json)
        put_json(s, key, &text);
    else
        put_welcome(s, rt, key, &text);
    if (cli_print(&text, NULL) < 0 || fflush(stdout))
        clearerr(stdout);
}

/* --- signals ------------------------------------------------------------------------------- */

static void block_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, set, NULL);
}

/* The next signal; children are buried meanwhile.  0: `done` became readable before. */
static int next_signal(int signals, int reaper, int done)
{
    struct pollfd fds[] = {{.fd = signals, .events = POLLIN},
                           {.fd = reaper, .events = POLLIN},
                           {.fd = done, .events = POLLIN}};
    struct signalfd_siginfo info;

    for (;;) {
        if (poll(fds, TN_COUNT(fds), -1) < 0)
            continue;
        if (fds[1].revents)
            tn_reaper_collect();
        if (fds[0].revents && read(signals, &info, sizeof info) == sizeof info)
            return (int)info.ssi_signo;
        if (fds[2].revents)
            return 0;
    }
}

/* One who runs this in a terminal and closes that wants no upgrade. */
static bool has_terminal(void)
{
    tn_autofd int fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);

    return fd >= 0;
}

/* --- running ------------------------------------------------------------------------------- */

struct server {
    struct cli *cli;
    const struct tn_config *config;
    struct own_program *program;
    struct tn_runtime *rt;
    struct tn_service *service;
    int signals, reaper;
    bool terminal; /* there was one at the start */
};

struct ending {
    struct tn_service *service;
    bool hand_over;
    int result, done; /* done: an eventfd */
};

static void *end_service(void *arg)
{
    struct ending *e = arg;

    e->result = tn_service_stop(e->service, e->hand_over);
    eventfd_write(e->done, 1);
    return NULL;
}

/* Stops it while signals are heard: the second one that asks for an end has it at once.  False:
 * requests did not end. */
static bool stop(struct server *s, bool hand_over)
{
    struct ending e = {.service = TN_TAKE_PTR(s->service),
                       .hand_over = hand_over,
                       .done = eventfd(0, EFD_CLOEXEC)};
    pthread_t thread;

    if (e.done < 0 || tn_thread_start(&thread, end_service, &e) != 0) {
        end_service(&e);
    } else {
        for (int number; (number = next_signal(s->signals, s->reaper, e.done));)
            if (number != SIGHUP)
                die_by(number);
        pthread_join(thread, NULL);
    }
    tn_close(e.done);
    return e.result == 0;
}

static int start(struct server *s, struct tn_error *err)
{
    s->rt = tn_runtime_open(&(struct tn_runtime_options){.config = s->config}, err);
    if (!s->rt)
        return -1;
    s->service = tn_service_start(s->rt, &s->config->service, err);
    if (!s->service) {
        tn_runtime_close(s->rt);
        return -1;
    }
    tell(s->cli, s->service, s->rt);
    return 0;
}

/* The signal that ends this service: SIGHUP only where the next program can be expected to start.
 */
static int wait_for_end(const struct server *s)
{
    struct tn_error err;

    for (;;) {
        int number = next_signal(s->signals, s->reaper, -1);
        if (number != SIGHUP)
            return number;
        if (s->terminal && !has_terminal())
            return SIGTERM;
        if (own_program_check(s->program, &err) == 0)
            return number;
        tn_log(TN_LOG_ERROR, "no upgrade: this service goes on", tn_log_str("reason", err.text));
    }
}

static int serve(struct server *s, struct tn_error *err)
{
    for (;;) {
        if (start(s, err) < 0)
            return -1;
        int number = wait_for_end(s);
        bool upgrade = number == SIGHUP;
        tn_log(TN_LOG_INFO, upgrade ? "upgrading" : "stopping", tn_log_int("signal", number));
        bool whole = stop(s, upgrade);
        if (whole)
            tn_runtime_close(s->rt);
        if (upgrade)
            own_program_exec(s->program, err);
        if (!upgrade && whole)
            return 0;
        tn_log(TN_LOG_ERROR, upgrade ? err->text : "ended without waiting for all requests");
        if (!whole)
            _exit(EXIT_FAILURE); /* there are threads that use what an orderly end would free */
    }
}

static int run(struct cli *cli, const void *given, struct tn_error *err)
{
    const struct serve_options *o = given;
    struct server s = {.cli = cli, .terminal = has_terminal()};
    sigset_t set;

    set_flags(cli, o);
    s.config = cli_config(cli, err);
    if (!s.config)
        return -1;
    if (o->check)
        return tn_service_check(&s.config->service, err);
    start_log(cli, s.config);
    give_memory_back();
    allow_descriptors();
    s.program = own_program_here(err);
    s.reaper = s.program ? tn_reaper_start(false, err) : -1;
    if (s.reaper < 0) {
        own_program_free(s.program);
        return -1;
    }
    block_signals(&set);
    tn_autofd int signals = signalfd(-1, &set, SFD_CLOEXEC);
    s.signals = signals;
    int result =
        signals < 0 ? tn_fail_errno(err, errno, "cannot listen for signals") : serve(&s, err);
    tn_reaper_stop();
    own_program_free(s.program);
    return result;
}

const struct verb verb_serve = {
    .name = "serve",
    .group = VERB_SYSTEM,
    .summary = "give sandboxes to many, over HTTP",
    .details =
        "Listens on this machine alone unless it is told otherwise, and then wants TLS. Everybody\n"
        "needs a key: see tendon key. Everything of [service] in the configuration can also be\n"
        "given with --set service.KEY=VALUE.\n"
        "\n"
        "SIGTERM and SIGINT end it when the requests under way are answered; a second one at\n"
        "once. Sandboxes stay, and the next service finds them. SIGHUP starts the program file\n"
        "anew in the same process, without refusing anybody: for upgrades and new settings.",
    .options = &options_table,
    .options_size = sizeof(struct serve_options),
    .run = run,
};
