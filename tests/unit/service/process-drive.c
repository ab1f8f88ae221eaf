/* A service with one sandbox of a tenant, and the functions of service/process.h, for tests.
 *
 *     process-drive LISTEN      prints the id of the sandbox once it runs; then one line in, the
 *                               answer out: lines, of which the last is "ok" or "no CODE: text"
 *
 *     start SPEC                prints the id and the pid
 *     follow WHICH | list | look WHICH | wait WHICH | close WHICH | remove WHICH
 *     input WHICH TEXT | signal WHICH N | resize WHICH COLUMNS
 *     pause                     pauses the sandbox */
#include <inttypes.h>
#include <sys/signal.h>

#include "base/child.h"
#include "base/clock.h"
#include "service/process.h"
#include "service/service.h"

#define SECONDS 60.0

static struct tn_service *service;
static struct box *box;
static struct caller who = {
    .key_id = "aaaaaaaaaaaa", .tenant = "drive", .scopes = SCOPE_READ | SCOPE_USE | SCOPE_MANAGE};

static int show(const struct tn_process_status *s, void *ctx)
{
    (void)ctx;
    printf("%s %" PRId64 " %s", s->id, s->pid, s->running ? "running" : "ended");
    if (s->exit_code.set)
        printf(" exit %" PRId64, s->exit_code.value);
    if (s->signal.set)
        printf(" signal %" PRId64, s->signal.value);
    printf(" %s\n", s->spec.args.items[0]);
    return 0;
}

static int show_piece(const struct tn_process_piece *p, void *ctx)
{
    if (p->kind == TN_PROCESS_OUT || p->kind == TN_PROCESS_ERR)
        printf("%s %.*s\n", p->kind == TN_PROCESS_OUT ? "out" : "err", (int)p->n,
               (const char *)p->bytes);
    return p->kind == TN_PROCESS_END ? show(p->status, ctx) : 0;
}

static int start(const char *text, struct tn_error *err)
{
    struct tn_purse purse = {.max = 64 << 20};
    const struct process_how how = {.purse = &purse, .watch = -1};
    tn_autoprocess struct tn_process_spec spec = {0};
    tn_autojson struct tn_json *tree = NULL;
    struct process_started out;

    if (tn_json_parse(text, strlen(text), &tree, err) ||
        tn_process_spec_from_json(tree, &spec, err) ||
        process_start(box, &who, &spec, &how, &out, err))
        return -1;
    printf("%s %" PRId64 " held %zu\n", out.id, out.pid, purse.held);
    return 0;
}

static int pause_box(int64_t deadline, struct tn_error *err)
{
    return box_order(box, &who, ORDER_PAUSE, deadline, err);
}

static int look(const char *verb, const char *which, int64_t deadline, struct tn_error *err)
{
    tn_autostatus struct tn_process_status status = {0};
    int failed = strcmp(verb, "wait") == 0 ? process_wait(box, which, &status, -1, deadline, err)
                                           : process_look(box, which, &status, deadline, err);

    return failed ? -1 : show(&status, NULL);
}

static int act_on(const char *verb, const char *which, const char *rest, struct tn_error *err)
{
    int64_t deadline = tn_deadline_in(SECONDS);
    struct tn_process_follow f = {.beat = 1};
    int number = (int)strtol(rest, NULL, 10);

    if (strcmp(verb, "follow") == 0)
        return process_follow(box, which, &f, show_piece, NULL, -1, deadline, err);
    if (strcmp(verb, "look") == 0 || strcmp(verb, "wait") == 0)
        return look(verb, which, deadline, err);
    if (strcmp(verb, "list") == 0)
        return process_list(box, show, NULL, deadline, err);
    if (strcmp(verb, "input") == 0)
        return process_input(box, which, UINT64_MAX, rest, strlen(rest), NULL, deadline, err);
    if (strcmp(verb, "close") == 0)
        return process_close_input(box, which, deadline, err);
    if (strcmp(verb, "signal") == 0)
        return process_signal(box, which, number, deadline, err);
    if (strcmp(verb, "resize") == 0)
        return process_resize(box, which, number, 24, deadline, err);
    if (strcmp(verb, "remove") == 0)
        return process_remove(box, which, deadline, err);
    if (strcmp(verb, "pause") == 0)
        return pause_box(deadline, err);
    return tn_fail(err, TN_E_INVALID, "no such verb");
}

static void take_line(char *line)
{
    struct tn_error err = {0};
    char *which = strchr(line, ' '), *rest = NULL;
    char nothing[] = "";

    if (which)
        *which++ = '\0';
    int failed = 0;
    if (strcmp(line, "start") == 0) {
        failed = start(which, &err);
    } else {
        rest = which ? strchr(which, ' ') : NULL;
        if (rest)
            *rest++ = '\0';
        failed = act_on(line, which ? which : nothing, rest ? rest : nothing, &err);
    }
    failed ? printf("no %s: %s\n", tn_code_row(err.code)->name, err.text) : printf("ok\n");
    fflush(stdout);
}

static int make_box(struct tn_error *err)
{
    struct box_wish wish = {.idle_pause = 0, .idle_stop = 0, .ttl = 0};

    tn_spec_init(&wish.spec);
    box = box_create(service, &who, &wish, NULL, err);
    tn_spec_done(&wish.spec);
    return box ? box_wait(box, 1u << BOX_RUNNING | 1u << BOX_ERROR, tn_deadline_in(SECONDS), err)
               : -1;
}

static int drive(struct tn_runtime *rt, const struct tn_config *config, struct tn_error *err)
{
    char *line = NULL;
    size_t room = 0;

    service = tn_service_start(rt, &config->service, err);
    if (!service || make_box(err))
        return -1;
    printf("%s\n", box_id(box));
    fflush(stdout);
    for (ssize_t n; (n = getline(&line, &room, stdin)) > 0;) {
        line[n - 1] = '\0';
        take_line(line);
    }
    free(line);
    int failed = box_order(box, &who, ORDER_DELETE, tn_deadline_in(SECONDS), err);
    box_release(box);
    return tn_service_stop(service, false) || failed ? -1 : 0;
}

int main(int argc, char **argv)
{
    struct tn_config config;
    struct tn_error err = {0};

    signal(SIGPIPE, SIG_IGN);
    if (argc < 2 || tn_config_load(&config, NULL, &err) ||
        tn_config_set(&config, "service.listen", argv[1], &err)) {
        fprintf(stderr, "process-drive: %s\n", err.text);
        return 2;
    }
    struct tn_runtime *rt = tn_runtime_open(&(struct tn_runtime_options){.config = &config}, &err);
    int failed = !rt || drive(rt, &config, &err);
    if (failed)
        fprintf(stderr, "process-drive: %s\n", err.text);
    tn_runtime_close(rt);
    tn_config_done(&config);
    return failed;
}
