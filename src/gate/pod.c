#include "gate/pod.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/stat.h>

#include "base/again.h"
#include "base/fs.h"
#include "base/key-file.h"
#include "gate/gate.h"
#include "gate/keeper.h"
#include "gate/roots.h"

#define READY TN_POD_STATE "/ready"
#define KEPT TN_POD_STATE "/rules"      /* those that count, once they were changed */
#define WISHED TN_POD_STATE "/new"      /* those that shall; gone when that is answered */
#define ANSWERED TN_POD_STATE "/answer" /* "ok", or what is wrong with them */
#define ANSWER_SECONDS 10.0
#define TELL_SECONDS 0.2
enum { ANSWER_MS = 5, LINE_MAX = 12 << 10 }; /* longer lines of a log are cut in two */

static int write_text(int fd, void *ctx, struct tn_error *err)
{
    const struct tn_buf *text = ctx;

    return tn_fs_write(fd, text->data, text->len, err);
}

static int write_file(const char *path, const struct tn_buf *text, struct tn_error *err)
{
    return tn_fs_replace(TN_FS_ANYWHERE, path, &(struct tn_fs_replace){.mode = 0644}, write_text,
                         (void *)(uintptr_t)text, err);
}

static int write_words(const char *path, const char *words, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(TN_GATE_SETTINGS_MAX);

    tn_buf_puts(&text, words);
    return write_file(path, &text, err);
}

/* --- the init container ---------------------------------------------------------------------- */

/* Whom the sandbox believes: those that the gate does, and the gate. */
static int show_authority(struct tn_error *err)
{
    tn_autokeyfile struct tn_buf text = TN_BUF_INIT(VAULT_MAX);
    tn_autobuf struct tn_buf roots = TN_BUF_INIT(VAULT_MAX);
    struct vault vault;

    if (access(TN_POD_PAPERS "/" TN_POD_VAULT, F_OK) < 0)
        return 0;
    if (tn_fs_read(TN_FS_ANYWHERE, TN_POD_PAPERS "/" TN_POD_VAULT, &text, err) < 0 ||
        vault_parse(text.data, text.len, &vault, err) < 0)
        return -1;
    tn_buf_printf(&roots, "%s\n%s", vault.roots, vault.certificate);
    int r = write_words(TN_ROOTS_AUTHORITY, vault.certificate, err) < 0
                ? -1
                : write_file(TN_ROOTS_BUNDLE, &roots, err);
    vault_done(&vault);
    return r;
}

static int raise_wall(char **then, struct tn_error *err)
{
    if (tn_wall_raise_in_pod(TN_GATE_UID, err) < 0 ||
        write_words(TN_POD_SHARED "/" TN_POD_RESOLVER, "nameserver " TN_WALL_NAMES4 "\n", err) <
            0 ||
        show_authority(err) < 0)
        return -1;
    execv(*then, then);
    return tn_fail_errno(err, errno, "%s", *then);
}

/* --- the keeper ------------------------------------------------------------------------------ */

static int begin(struct tn_gate_keeper *k, char network[16], struct tn_error *err)
{
    tn_autobuf struct tn_buf rules = TN_BUF_INIT(TN_GATE_SETTINGS_MAX);
    bool kept = access(KEPT, F_OK) == 0;

    if (tn_fs_read(TN_FS_ANYWHERE, kept ? KEPT : TN_POD_PAPERS "/" TN_POD_RULES, &rules, err) < 0)
        return -1;
    snprintf(network, 16, "%.*s", (int)strcspn(tn_buf_str(&rules), "\n"), tn_buf_str(&rules));
    k->program = TN_POD_GATE;
    k->network = network;
    k->log = STDERR_FILENO;
    k->vault = open(TN_POD_PAPERS "/" TN_POD_VAULT, O_RDONLY | O_CLOEXEC);
    return tn_gate_keeper_begin(k, tn_buf_str(&rules), err) < 0 ? -1 : tn_wall_open(&k->wall, err);
}

static void take_rules(struct tn_gate_keeper *k)
{
    tn_autobuf struct tn_buf rules = TN_BUF_INIT(TN_GATE_SETTINGS_MAX);
    struct tn_error err = {0};
    bool good = tn_fs_read(TN_FS_ANYWHERE, WISHED, &rules, &err) == 0 &&
                write_file(KEPT ".next", &rules, &err) == 0 &&
                tn_gate_keeper_reload(k, tn_buf_str(&rules), &err) == 0 &&
                rename(KEPT ".next", KEPT) == 0;

    write_words(ANSWERED, good ? "ok" : err.code ? err.text : "its state cannot be written", NULL);
    unlink(WISHED);
}

static void tell(struct tn_gate_keeper *k)
{
    tn_autobuf struct tn_buf line = TN_BUF_INIT(2 * LINE_MAX);
    struct tn_jw w = tn_jw(&line);

    tn_gate_keeper_tell(k, &w, LINE_MAX);
    puts(tn_buf_str(&line));
    fflush(stdout);
}

static int keep(struct tn_error *err)
{
    enum { SIGNALS, GATE, COUNT = GATE + TN_GATE_KEEPER_POLLS };
    struct tn_gate_keeper k = TN_GATE_KEEPER_INIT;
    struct signalfd_siginfo signal = {0};
    uint64_t told = 0;
    int64_t tell_at = TN_NEVER, quiet = 0;
    char network[16];
    sigset_t wanted;

    sigemptyset(&wanted);
    sigaddset(&wanted, SIGHUP);
    sigaddset(&wanted, SIGTERM);
    sigprocmask(SIG_BLOCK, &wanted, NULL);
    struct pollfd p[COUNT] = {{.fd = signalfd(-1, &wanted, SFD_CLOEXEC), .events = POLLIN}};
    unlink(READY); /* of one before */
    if (begin(&k, network, err) < 0 || write_words(READY, "", err) < 0)
        return -1;
    tell(&k);
    while (signal.ssi_signo != SIGTERM) {
        int64_t next = tn_gate_keeper_watch(&k, p + GATE);
        if (poll(p, COUNT, tn_poll_ms(next < tell_at ? next : tell_at)) < 0)
            continue;
        tn_gate_keeper_serve(&k, p + GATE);
        if (p[SIGNALS].revents && read(p[SIGNALS].fd, &signal, sizeof signal) > 0 &&
            signal.ssi_signo == SIGHUP)
            take_rules(&k);
        if (told != k.refused && tell_at == TN_NEVER)
            tell_at = quiet;
        if (tn_now() >= tell_at) {
            tell(&k);
            told = k.refused;
            quiet = tn_deadline_in(TELL_SECONDS);
            tell_at = TN_NEVER;
        }
    }
    tn_gate_keeper_end(&k);
    return 0;
}

/* --- who is executed beside it --------------------------------------------------------------- */

static int change_rules(const char *size, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(TN_GATE_SETTINGS_MAX);
    int64_t deadline = tn_deadline_in(ANSWER_SECONDS);
    size_t wanted = strtoul(size, NULL, 10);

    while (text.len < wanted) { /* the input does not always end */
        char *to = tn_buf_reserve(&text, wanted - text.len);
        ssize_t n = to ? read(STDIN_FILENO, to, wanted - text.len) : -1;
        if (n <= 0)
            return tn_fail(err, TN_E_IO, "the rules did not arrive");
        tn_buf_grew(&text, (size_t)n);
    }
    if (write_file(WISHED, &text, err) < 0)
        return -1;
    if (kill(1, SIGHUP) < 0)
        return tn_fail_errno(err, errno, "the keeper");
    while (access(WISHED, F_OK) == 0)
        if (!tn_look_again_in(ANSWER_MS, deadline))
            return tn_fail(err, TN_E_TIMEOUT, "the keeper does not answer");
    tn_buf_reset(&text);
    return tn_fs_read(TN_FS_ANYWHERE, ANSWERED, &text, err) < 0 || puts(tn_buf_str(&text)) < 0 ? -1
                                                                                               : 0;
}

int pod_main(int argc, char **argv)
{
    struct tn_error err = {0};
    int r = -1;

    signal(SIGPIPE, SIG_IGN);
    if (strcmp(argv[1], "--pod-wall") == 0 && argc > 2)
        r = raise_wall(argv + 2, &err);
    else if (strcmp(argv[1], "--pod-keep") == 0)
        r = keep(&err);
    else if (strcmp(argv[1], "--pod-ready") == 0)
        return access(READY, F_OK) < 0;
    else if (strcmp(argv[1], "--pod-rules") == 0 && argc == 3)
        r = change_rules(argv[2], &err);
    else
        tn_fail(&err, TN_E_INVALID, "tendon-gate has no %s", argv[1]);
    if (r < 0)
        fprintf(stderr, "the gate: %s\n", err.text);
    return r < 0;
}
