#include "base/clock.h"
#include "cli/processes.h"
#include "cli/record.h"
#include "cli/table.h"
#include "cli/units.h"
#include "cli/verb.h"
#include "runtime/record-json.h"

struct ps_options {
    bool all;
    char *sandbox;
};

static const struct tn_field rows[] = {
    TN_BOOL("all", struct ps_options, all, .flag = "--all", .letter = 'a',
            .help = "also those that do not run, which are shown anyway"),
    TN_STRING("sandbox", struct ps_options, sandbox, .flags = TN_FIELD_POSITIONAL,
              .value = VALUE_SANDBOX, .help = "its processes [what all sandboxes use]"),
};
static const struct tn_fields options_table = TN_FIELDS(rows);

/* --- what all use -------------------------------------------------------------------------- */

static const struct table_column usage_columns[] = {
    {.title = "ID"},
    {.title = "NAME"},
    {.title = "STATE"},
    {.title = "PROCESSES", .right = true},
    {.title = "CPU TIME", .right = true},
    {.title = "MEMORY", .right = true},
    {.title = "PEAK", .right = true},
    {.title = "DISK", .right = true},
};

struct usage_list {
    struct cli *cli;
    struct table *table;
    struct tn_jw w;
};

static void show_usage(struct usage_list *l, const struct tn_record *r, const struct tn_usage *u)
{
    char text[32];

    tn_jw_object(&l->w);
    tn_record_put(r, &l->w);
    tn_usage_put(u, &l->w);
    tn_jw_object_end(&l->w);
    table_cell(l->table, r->id, NULL);
    table_cell(l->table, r->name, NULL);
    table_cell(l->table, status_word(r->status), status_style(r->status));
    table_format(l->table, u->processes < 0 ? "-" : "%lld", (long long)u->processes);
    if (u->cpu_seconds < 0 && u->cpus > 0)
        table_format(l->table, "%.3f cpus", u->cpus);
    else
        table_format(l->table, u->cpu_seconds < 0 ? "-" : "%.2f s", u->cpu_seconds);
    table_cell(l->table, format_bytes(u->memory, text), NULL);
    table_cell(l->table, format_bytes(u->memory_peak, text), NULL);
    table_cell(l->table, format_bytes(u->disk, text), NULL);
}

static int list_usage(const struct tn_record *r, void *ctx)
{
    struct usage_list *l = ctx;
    tn_autosandbox struct tn_sandbox *sb =
        tn_sandbox_attach(cli_runtime(l->cli, NULL), r->id, NULL);
    struct tn_usage usage = TN_USAGE_UNKNOWN;

    if (sb)
        tn_sandbox_usage_whole(sb, &usage, tn_deadline_in(TN_USAGE_SECONDS), NULL);
    show_usage(l, r, &usage);
    return 0;
}

static int all(struct cli *cli, struct tn_error *err)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(64 << 20);
    autotable struct table *table = table_new(usage_columns, TN_COUNT(usage_columns));
    struct usage_list l = {.cli = cli, .table = table, .w = tn_jw(&json)};
    struct tn_runtime *rt = cli_runtime(cli, err);

    if (!rt)
        return -1;
    tn_jw_array(&l.w);
    if (tn_store_each(tn_runtime_store(rt), TN_STORE_CLAIMED, list_usage, &l, err) < 0)
        return -1;
    tn_jw_array_end(&l.w);
    if (cli->json)
        return cli_print(&json, err);
    table_print(table);
    return 0;
}

/* --- the processes of one ------------------------------------------------------------------ */

static const struct table_column process_columns[] = {
    {.title = "PID", .right = true},
    {.title = "PPID", .right = true},
    {.title = "USER", .right = true},
    {.title = "STATE"},
    {.title = "CPU TIME", .right = true},
    {.title = "MEMORY", .right = true},
    {.title = "COMMAND"},
};

static void show_processes(const struct processes *list, struct table *table, struct tn_jw *w)
{
    char text[32];

    tn_jw_array(w);
    for (size_t i = 0; i < list->count; i++) {
        const struct process *p = &list->items[i];
        const char state[] = {p->state, '\0'};

        tn_jw_object(w);
        tn_jw_kint(w, "pid", p->pid);
        tn_jw_kint(w, "parent", p->parent);
        tn_jw_kint(w, "uid", p->uid);
        tn_jw_kstr(w, "state", state);
        tn_jw_kdouble(w, "cpu_seconds", p->cpu_seconds);
        tn_jw_kint(w, "memory", p->memory);
        tn_jw_kstr(w, "command", p->command);
        tn_jw_object_end(w);
        table_format(table, "%d", p->pid);
        table_format(table, "%d", p->parent);
        table_format(table, "%lld", (long long)p->uid);
        table_cell(table, state, NULL);
        table_format(table, "%.2f s", p->cpu_seconds);
        table_cell(table, format_bytes(p->memory, text), NULL);
        table_cell(table, p->command, NULL);
    }
    tn_jw_array_end(w);
}

static int one(struct cli *cli, const char *which, struct tn_error *err)
{
    tn_autosandbox struct tn_sandbox *sb = cli_sandbox(cli, which, err);
    tn_autobuf struct tn_buf json = TN_BUF_INIT(64 << 20);
    autotable struct table *table = table_new(process_columns, TN_COUNT(process_columns));
    struct tn_jw w = tn_jw(&json);
    struct processes list = {0};
    const char *address, *key;

    if (!sb || tn_sandbox_address(sb, &address, &key, cli_start_deadline(cli), err) < 0)
        return -1;
    int r = processes_read(&list, address, key, cli_start_deadline(cli), err);
    if (r == 0) {
        show_processes(&list, table, &w);
        if (cli->json)
            r = cli_print(&json, err);
        else
            table_print(table);
    }
    processes_done(&list);
    return r;
}

static int run(struct cli *cli, const void *given, struct tn_error *err)
{
    const struct ps_options *options = given;

    return options->sandbox ? one(cli, options->sandbox, err) : all(cli, err);
}

const struct verb verb_ps = {
    .name = "ps",
    .group = VERB_LOOK,
    .summary = "show what sandboxes use, or the processes of one",
    .options = &options_table,
    .options_size = sizeof(struct ps_options),
    .doing = "asking what is used",
    .run = run,
};
