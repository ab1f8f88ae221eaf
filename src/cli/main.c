#include <fcntl.h>
#include <poll.h>
#include <signal.h>

#include "base/fs.h"
#include "cli/clean.h"
#include "cli/docker.h"
#include "cli/progress.h"
#include "cli/verb.h"

/* Before the verb: the options of all verbs; then the verb and everything behind it. */
struct line {
    struct globals globals;
    bool version;
    struct tn_str_list rest;
};

static const struct tn_field line_rows[] = {
    TN_OBJECT("globals", struct line, globals, &global_fields),
    TN_BOOL("version", struct line, version, .flag = "--version", .letter = 'V'),
    TN_STRINGS("verb", struct line, rest, .flags = TN_FIELD_POSITIONAL | TN_FIELD_REST,
               .value = "VERB"),
};
static const struct tn_fields line_fields = TN_FIELDS(line_rows);

/* The options that stand in place of a verb, as everybody types them. */
static const struct {
    const char *option;
    const char *verb;
} synonyms[] = {{"--help", "help"},
                {"-h", "help"},
                {"--version", "version"},
                {"-V", "version"},
                {"-v", "version"}};

static const char *synonym(const char *name)
{
    for (size_t i = 0; i < TN_COUNT(synonyms); i++)
        if (strcmp(name, synonyms[i].option) == 0)
            return synonyms[i].verb;
    return NULL;
}

/* --- the options of a verb ----------------------------------------------------------------- */

/* Those of the verb, and behind them in the same memory those of all verbs. */
struct parsed {
    void *memory;
    size_t globals_at;
    struct tn_field *rows;
    struct tn_fields table;
};

static void parsed_init(struct parsed *p, const struct verb *v)
{
    size_t align = _Alignof(max_align_t);

    p->globals_at = (v->options_size + align - 1) / align * align;
    p->memory = tn_calloc(1, p->globals_at + sizeof(struct globals));
    p->rows = tn_calloc(v->options->count + 1, sizeof *p->rows);
    if (v->options->count)
        memcpy(p->rows, v->options->rows, v->options->count * sizeof *p->rows);
    p->rows[v->options->count] = (struct tn_field){.name = "globals",
                                                   .type = TN_FIELD_OBJECT,
                                                   .offset = p->globals_at,
                                                   .fields = &global_fields};
    p->table = (struct tn_fields){.rows = p->rows, .count = v->options->count + 1};
    tn_fields_defaults(&p->table, p->memory);
}

static struct globals *parsed_globals(const struct parsed *p)
{
    return (struct globals *)((char *)p->memory + p->globals_at);
}

static void parsed_done(struct parsed *p)
{
    tn_fields_done(&p->table, p->memory);
    free(p->memory);
    free(p->rows);
}

static void append(struct tn_str_list *to, const struct tn_str_list *from)
{
    to->items = tn_realloc(to->items, (to->count + from->count + 1) * sizeof *to->items);
    for (size_t i = 0; i < from->count; i++)
        to->items[to->count++] = tn_strdup(from->items[i]);
    to->items[to->count] = NULL;
}

static void prefer(char **value, char **fallback)
{
    if (!*value)
        *value = TN_TAKE_PTR(*fallback);
}

/* What stood behind the verb weighs more than what stood before it. */
static void merge(struct globals *behind, struct globals *before)
{
    append(&before->set, &behind->set);
    struct tn_str_list set = behind->set;
    behind->set = before->set;
    before->set = set;
    prefer(&behind->config, &before->config);
    prefer(&behind->state, &before->state);
    prefer(&behind->runtime, &before->runtime);
    behind->json |= before->json;
    behind->quiet |= before->quiet;
}

/* --- running it ---------------------------------------------------------------------------- */

static int print_help(const struct verb *v)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(256 << 10);

    put_verb_help(v, &text);
    return fputs(tn_buf_str(&text), stdout) < 0;
}

static int run_verb(const struct verb *v, const struct parsed *p, struct tn_error *err)
{
    struct cli cli;
    struct globals *own = parsed_globals(p), given = *own;

    *own = (struct globals){0};
    cli_init(&cli, &given);
    progress_allow(!cli.quiet && !cli.json);
    if (v->doing)
        progress_begin(v->doing);
    int status = v->run(&cli, p->memory, err);
    progress_end();
    cli_done(&cli);
    return status;
}

/* Whatever was wrong, it is wrong usage: the error also says where the right one is told. */
static int misused(const char *verb, struct tn_error *err)
{
    tn_autofree char *said = tn_strdup(err->text);

    return tn_fail(err, TN_E_INVALID, "%.400s (see: tendon %s --help)", said, verb);
}

/* Exit status of the verb, or -1 with err; *json tells how to report that. */
static int obey(struct line *line, const struct verb *v, bool *json, struct tn_error *err)
{
    struct parsed p;

    parsed_init(&p, v);
    int status = tn_fields_from_argv(&p.table, p.memory, (int)line->rest.count - 1,
                                     line->rest.items + 1, err);
    if (!status)
        status = tn_fields_check(&p.table, p.memory, err);
    merge(parsed_globals(&p), &line->globals);
    *json |= parsed_globals(&p)->json;
    if (status < 0) {
        docker_explain_flags(v->name, &line->rest, err);
        misused(v->name, err);
    } else if (status == 1) {
        status = print_help(v);
    } else {
        status = run_verb(v, &p, err);
    }
    parsed_done(&p);
    return status;
}

static void report(const struct tn_error *err, bool json)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(16 << 10);
    struct tn_jw w = tn_jw(&text);

    if (!json) {
        fputs("tendon: ", stderr);
        print_message(stderr, err->text);
        return;
    }
    tn_jw_object(&w);
    tn_jw_key(&w, "error");
    tn_jw_object(&w);
    tn_jw_kstr(&w, "code", tn_code_row(err->code)->name);
    tn_jw_kstr(&w, "message", err->text);
    tn_jw_object_end(&w);
    tn_jw_object_end(&w);
    fprintf(stderr, "%s\n", tn_buf_str(&text));
}

/* Whoever reads no further, as head does, need not be told: ends as filters do. */
static void leave_if_unread(const struct tn_error *err)
{
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};

    if (err->sys != EPIPE || poll(&out, 1, 0) <= 0 || !(out.revents & POLLERR))
        return;
    signal(SIGPIPE, SIG_DFL);
    raise(SIGPIPE);
}

/* The line as it was given; "tendon", "tendon --help" and the like as a verb. */
static int read_line(struct line *line, int argc, char **argv, struct tn_error *err)
{
    const char *instead = argc > 1 ? synonym(argv[1]) : "help";

    tn_fields_defaults(&line_fields, line);
    if (!instead) {
        int status = tn_fields_from_argv(&line_fields, line, argc - 1, argv + 1, err);
        if (status < 0)
            return -1;
        instead = line->version                      ? "version"
                  : status == 1 || !line->rest.count ? "help"
                                                     : synonym(line->rest.items[0]);
    }
    if (instead) {
        tn_fields_done(&line_fields, line);
        append(&line->rest,
               &(struct tn_str_list){.items = (char *[]){(char *)instead, NULL}, .count = 1});
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct tn_error err = {0};
    struct line line = {0};
    bool json = false;
    int status = -1;

    tn_fs_fill_standard(O_RDONLY);
    /* A reader that went away is an error of writing, which ends a verb in order. */
    signal(SIGPIPE, SIG_IGN);
    if (read_line(&line, argc, argv, &err) < 0) {
        misused("COMMAND", &err);
    } else {
        const struct verb *v = find_verb(line.rest.items[0], &err);
        if (v)
            status = obey(&line, v, &json, &err);
    }
    json |= line.globals.json;
    tn_fields_done(&line_fields, &line);
    if (status < 0) {
        leave_if_unread(&err);
        report(&err, json);
        status = tn_code_row(err.code)->exit_code;
    }
    if (fflush(stdout) || ferror(stdout)) {
        tn_fail_errno(&err, errno, "standard output");
        leave_if_unread(&err);
        report(&err, json);
        return status ? status : tn_code_row(TN_E_IO)->exit_code;
    }
    return status;
}
