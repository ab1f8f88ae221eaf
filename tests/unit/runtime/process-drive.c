/* The client of a hand's processes, for tests.
 *
 *     process-drive ADDRESS KEY SECONDS VERB [WHICH [ARGUMENT...]]
 *
 *     list | look WHICH | wait WHICH        prints id, pid, running, exit code or signal
 *     read WHICH OUT ERR [now]              prints every piece; offsets may be "end"
 *     input WHICH OFFSET TEXT               prints what was taken in all
 *     close WHICH | signal WHICH N | resize WHICH COLUMNS ROWS | remove WHICH
 *
 * An error is one line, "CODE: text", and exit status 1. */
#include <inttypes.h>

#include "base/clock.h"
#include "runtime/process-client.h"

static char **words;
static int count;

static const char *word(int i)
{
    return i < count ? words[i] : "";
}

static uint64_t place(int i)
{
    return strcmp(word(i), "end") == 0 ? UINT64_MAX : strtoull(word(i), NULL, 10);
}

static int show(const struct tn_process_status *s, void *ctx)
{
    (void)ctx;
    printf("%s %" PRId64 " %s", s->id, s->pid, s->running ? "running" : s->over ? "over" : "ended");
    if (s->exit_code.set)
        printf(" exit %" PRId64, s->exit_code.value);
    if (s->signal.set)
        printf(" signal %" PRId64, s->signal.value);
    printf("%s %s\n", s->late ? " late" : "", s->spec.args.items[0]);
    return 0;
}

static int show_piece(const struct tn_process_piece *p, void *ctx)
{
    static const char *const names[] = {"out", "err", "lost", "beat", "end"};

    (void)ctx;
    printf("%s", names[p->kind]);
    if (p->kind == TN_PROCESS_LOST)
        printf(" %s %" PRIu64 " %" PRIu64, names[p->stream], p->offset, p->lost);
    if (p->kind == TN_PROCESS_OUT || p->kind == TN_PROCESS_ERR)
        printf(" %" PRIu64 " %.*s", p->offset, (int)p->n, (const char *)p->bytes);
    if (p->kind == TN_PROCESS_END)
        return printf(" "), show(p->status, NULL);
    printf("\n");
    fflush(stdout);
    return p->kind == TN_PROCESS_BEAT && strcmp(word(5), "beat") == 0 ? 5 : 0;
}

static int look(struct tn_process_client *c, int64_t deadline, struct tn_error *err)
{
    tn_autostatus struct tn_process_status status = {0};
    bool waits = strcmp(word(0), "wait") == 0;

    return (waits ? tn_process_wait : tn_process_look)(c, word(1), &status, deadline, err)
               ? -1
               : show(&status, NULL);
}

static int do_read(struct tn_process_client *c, int64_t deadline, struct tn_error *err)
{
    struct tn_process_follow f = {
        .at = {.out = place(2), .err = place(3)}, .now = strcmp(word(4), "now") == 0, .beat = 1};
    int r = tn_process_read(c, word(1), &f, show_piece, NULL, deadline, err);

    printf("at %" PRIu64 " %" PRIu64 " result %d\n", f.at.out, f.at.err, r);
    return r < 0 ? -1 : 0;
}

static int input(struct tn_process_client *c, int64_t deadline, struct tn_error *err)
{
    uint64_t taken = 0;
    int r = tn_process_input(c, word(1), place(2), word(3), strlen(word(3)), &taken, deadline, err);

    printf("taken %" PRIu64 "\n", taken);
    return r;
}

static int act(struct tn_process_client *c, int64_t deadline, struct tn_error *err)
{
    const char *verb = word(0);

    if (strcmp(verb, "list") == 0)
        return tn_process_each(c, show, NULL, deadline, err);
    if (strcmp(verb, "look") == 0 || strcmp(verb, "wait") == 0)
        return look(c, deadline, err);
    if (strcmp(verb, "read") == 0)
        return do_read(c, deadline, err);
    if (strcmp(verb, "input") == 0)
        return input(c, deadline, err);
    if (strcmp(verb, "close") == 0)
        return tn_process_close_input(c, word(1), deadline, err);
    if (strcmp(verb, "signal") == 0)
        return tn_process_signal(c, word(1), (int)strtol(word(2), NULL, 10), deadline, err);
    if (strcmp(verb, "resize") == 0)
        return tn_process_resize(c, word(1), (int)strtol(word(2), NULL, 10),
                                 (int)strtol(word(3), NULL, 10), deadline, err);
    if (strcmp(verb, "remove") == 0)
        return tn_process_remove(c, word(1), deadline, err);
    return tn_fail(err, TN_E_INVALID, "no such verb");
}

int main(int argc, char **argv)
{
    struct tn_error err = {0};

    if (argc < 5)
        return 2;
    words = argv + 4;
    count = argc - 4;
    tn_autoprocessclient struct tn_process_client *c =
        tn_process_client_new(argv[1], *argv[2] ? argv[2] : NULL, &err);
    if (c && act(c, tn_deadline_in(strtod(argv[3], NULL)), &err) == 0)
        return 0;
    printf("%s: %s\n", tn_code_row(err.code)->name, err.text);
    return 1;
}
