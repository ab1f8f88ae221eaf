#include "gate/pod.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "base/key-file.h"
#include "gate/gate.h"
#include "gate/keeper-protocol.h"
#include "gate/keeper-socket.h"
#include "gate/roots.h"

#define RESOLVER "nameserver " TN_WALL_NAMES4 "\nnameserver " TN_WALL_NAMES6 "\n"
#define KEPT TN_POD_STATE "/rules" /* those that count, once they were changed */
#define WISHED TN_POD_STATE "/new" /* those that shall */
#define ANSWER_SECONDS 10.0
#define TELL_SECONDS 0.2
enum { LINE_MAX = 12 << 10 }; /* longer lines of a log are cut in two */

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
        write_words(TN_POD_SHARED "/" TN_POD_RESOLVER, RESOLVER, err) < 0 ||
        show_authority(err) < 0)
        return -1;
    execv(*then, then);
    return tn_fail_errno(err, errno, "%s", *then);
}

/* --- the keeper ------------------------------------------------------------------------------ */

static int begin(struct tn_gate_keeper *k, struct tn_error *err)
{
    tn_autobuf struct tn_buf rules = TN_BUF_INIT(TN_GATE_SETTINGS_MAX);
    bool kept = access(KEPT, F_OK) == 0;

    if (tn_fs_read(TN_FS_ANYWHERE, kept ? KEPT : TN_POD_PAPERS "/" TN_POD_RULES, &rules, err) < 0)
        return -1;
    k->program = TN_POD_GATE;
    k->log = STDERR_FILENO;
    k->vault = open(TN_POD_PAPERS "/" TN_POD_VAULT, O_RDONLY | O_CLOEXEC);
    return tn_gate_keeper_begin(k, tn_buf_str(&rules), err) < 0 ? -1 : tn_wall_open(&k->wall, err);
}

static int take_rules(struct tn_gate_keeper *k, struct tn_error *err)
{
    tn_autobuf struct tn_buf rules = TN_BUF_INIT(TN_GATE_SETTINGS_MAX);

    /* Of two at once the first has taken what the second wished. */
    bool wished = access(WISHED, F_OK) == 0;
    if (tn_fs_read(TN_FS_ANYWHERE, wished ? WISHED : KEPT, &rules, err) < 0 ||
        tn_gate_keeper_reload(k, tn_buf_str(&rules), err) < 0)
        return -1;
    return wished && rename(WISHED, KEPT) < 0 ? tn_fail_errno(err, errno, KEPT) : 0;
}

static void serve(struct tn_gate_keeper *k, int listener)
{
    char line[KEEPER_REQUEST_MAX];
    tn_autofd int socket = keeper_accept(listener, line, sizeof line);
    struct tn_error err = {0};

    if (socket < 0 || keeper_serve_gate(k, socket, line))
        return;
    if (strcmp(line, TN_KEEPER_RULES "\n") == 0)
        keeper_answer_result(socket, take_rules(k, &err), &err);
    else
        keeper_answer(socket, "unknown\n", -1);
}

static void tell(struct tn_gate_keeper *k)
{
    tn_autobuf struct tn_buf line = TN_BUF_INIT(2 * LINE_MAX);
    struct tn_jw w = tn_jw(&line);

    tn_gate_keeper_tell(k, &w, LINE_MAX);
    puts(tn_buf_str(&line));
    fflush(stdout);
}

static int keep(double ask_seconds, struct tn_error *err)
{
    enum { END, REQUEST, GATE, COUNT = GATE + TN_GATE_KEEPER_POLLS };
    struct tn_gate_keeper k = TN_GATE_KEEPER_INIT;
    uint64_t told = 0;
    int64_t tell_at = TN_NEVER, quiet = 0;
    sigset_t end;

    sigemptyset(&end);
    sigaddset(&end, SIGTERM);
    sigprocmask(SIG_BLOCK, &end, NULL);
    k.ask_seconds = ask_seconds;
    if (begin(&k, err) < 0)
        return -1;
    tn_autofd int state = open(TN_POD_STATE, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct pollfd p[COUNT] = {
        [END] = {.fd = signalfd(-1, &end, SFD_CLOEXEC), .events = POLLIN},
        [REQUEST] = {.fd = keeper_listen(state, TN_POD_STATE, err), .events = POLLIN},
    };
    if (p[REQUEST].fd < 0)
        return -1;
    tell(&k);
    while (!p[END].revents) {
        int64_t next = tn_gate_keeper_watch(&k, p + GATE);
        if (poll(p, COUNT, tn_poll_ms(next < tell_at ? next : tell_at)) < 0)
            continue;
        tn_gate_keeper_serve(&k, p + GATE);
        if (p[REQUEST].revents)
            serve(&k, p[REQUEST].fd);
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

static int ask(const char *request, struct tn_error *err)
{
    tn_autobuf struct tn_buf answer = TN_BUF_INIT(TN_GATE_SETTINGS_MAX);

    return tn_keeper_ask(TN_POD_STATE, request, &answer, NULL, tn_deadline_in(ANSWER_SECONDS),
                         err) < 0 ||
                   puts(tn_buf_str(&answer)) < 0
               ? -1
               : 0;
}

static int change_rules(const char *size, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(TN_GATE_SETTINGS_MAX);
    size_t wanted = strtoul(size, NULL, 10);

    while (text.len < wanted) { /* the input does not always end */
        char *to = tn_buf_reserve(&text, wanted - text.len);
        ssize_t n = to ? read(STDIN_FILENO, to, wanted - text.len) : -1;
        if (n <= 0)
            return tn_fail(err, TN_E_IO, "the rules did not arrive");
        tn_buf_grew(&text, (size_t)n);
    }
    return write_file(WISHED, &text, err) < 0 ? -1 : ask(TN_KEEPER_RULES, err);
}

/* Its input stays open for as long as anybody is at the other end. */
static int hear(struct tn_error *err)
{
    tn_autofd int keeper = tn_keeper_listen(TN_POD_STATE, tn_deadline_in(ANSWER_SECONDS), err);
    struct pollfd p[] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = keeper, .events = POLLIN}};
    char bytes[4096] = "ok\n";
    ssize_t n = 3;

    if (keeper < 0) /* "no: " where nobody may be asked, else the keeper is not there yet */
        return err->code == TN_E_CONFLICT && printf(TN_KEEPER_NO "%s\n", err->text) > 0 ? 0 : -1;
    while (n > 0 && write(STDOUT_FILENO, bytes, (size_t)n) == n) {
        int ready = poll(p, TN_COUNT(p), TN_POD_HEARD_MS);
        if (p[0].revents)
            return 0;
        *bytes = '\n';
        n = ready == 0 ? 1 : read(keeper, bytes, sizeof bytes);
    }
    return 0;
}

int pod_main(int argc, char **argv)
{
    struct tn_error err = {0};
    int r = -1;

    signal(SIGPIPE, SIG_IGN);
    if (strcmp(argv[1], "--pod-wall") == 0 && argc > 2)
        r = raise_wall(argv + 2, &err);
    else if (strcmp(argv[1], "--pod-keep") == 0)
        r = keep(argc > 2 ? strtod(argv[2], NULL) : 0, &err);
    else if (strcmp(argv[1], "--pod-ready") == 0)
        r = ask(TN_KEEPER_NETWORK, &err);
    else if (strcmp(argv[1], "--pod-hear") == 0)
        r = hear(&err);
    else if (strcmp(argv[1], "--pod-ask") == 0 && argc == 3)
        r = ask(argv[2], &err);
    else if (strcmp(argv[1], "--pod-rules") == 0 && argc == 3)
        r = change_rules(argv[2], &err);
    else
        tn_fail(&err, TN_E_INVALID, "tendon-gate has no %s", argv[1]);
    if (r < 0)
        fprintf(stderr, "the gate: %s\n", err.text);
    return r < 0;
}
