#include "cli/progress.h"
#include "cli/record.h"
#include "cli/table.h"
#include "cli/units.h"
#include "cli/verb.h"

#include <time.h>

struct snapshot_options {
    bool list, remove;
    char *sandbox, *name;
};

static const struct tn_field rows[] = {
    TN_BOOL("list", struct snapshot_options, list, .flag = "--list",
            .help = "list the snapshots of the sandbox"),
    TN_BOOL("remove", struct snapshot_options, remove, .flag = "--rm",
            .help = "remove the snapshot NAME"),
    TN_STRING("sandbox", struct snapshot_options, sandbox,
              .flags = TN_FIELD_POSITIONAL | TN_FIELD_REQUIRED, .value = VALUE_SANDBOX,
              .help = "id, start of the id, or name"),
    TN_STRING("name", struct snapshot_options, name, .flags = TN_FIELD_POSITIONAL, .value = "NAME",
              .help = "what to call it [the time]"),
};
static const struct tn_fields options_table = TN_FIELDS(rows);

struct listing {
    struct tn_jw w;
    struct table *table;
};

static int list_one(const struct tn_snapshot *s, void *ctx)
{
    struct listing *l = ctx;
    char age[32];

    tn_jw_object(&l->w);
    tn_jw_kstr(&l->w, "name", s->name);
    tn_jw_kdouble(&l->w, "created", s->created);
    tn_jw_object_end(&l->w);
    table_cell(l->table, s->name, NULL);
    table_cell(l->table, format_age(seconds_since(s->created), age), NULL);
    return 0;
}

static int list(struct cli *cli, struct tn_sandbox *sb, struct tn_error *err)
{
    static const struct table_column columns[] = {{.title = "SNAPSHOT"},
                                                  {.title = "AGE", .right = true}};
    tn_autobuf struct tn_buf json = TN_BUF_INIT(16 << 20);
    autotable struct table *table = table_new(columns, TN_COUNT(columns));
    struct listing l = {.w = tn_jw(&json), .table = table};

    tn_jw_array(&l.w);
    if (tn_store_snapshots(tn_runtime_store(cli_runtime(cli, err)), tn_sandbox_record(sb)->id,
                           list_one, &l, err) < 0)
        return -1;
    tn_jw_array_end(&l.w);
    if (cli->json)
        return cli_print(&json, err);
    table_print(table);
    return 0;
}

/* "20261115-142501", in UTC. */
static char *name_of_now(void)
{
    time_t now = time(NULL);
    struct tm tm;
    char text[32];

    gmtime_r(&now, &tm);
    strftime(text, sizeof text, "%Y%m%d-%H%M%S", &tm);
    return tn_strdup(text);
}

static int print_name(struct cli *cli, struct tn_sandbox *sb, const char *name,
                      struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(1 << 16);
    struct tn_jw w = tn_jw(&text);

    if (cli->json) {
        tn_jw_object(&w);
        tn_jw_kstr(&w, "sandbox", tn_sandbox_record(sb)->id);
        tn_jw_kstr(&w, "snapshot", name);
        tn_jw_object_end(&w);
    } else {
        tn_buf_puts(&text, name);
    }
    return cli_print(&text, err);
}

static int run(struct cli *cli, const void *given, struct tn_error *err)
{
    const struct snapshot_options *options = given;
    tn_autosandbox struct tn_sandbox *sb = cli_sandbox(cli, options->sandbox, err);
    tn_autofree char *name = options->name ? tn_strdup(options->name) : name_of_now();

    if (!sb)
        return -1;
    if (options->list)
        return list(cli, sb, err);
    if (options->remove && !options->name)
        return tn_fail(err, TN_E_INVALID, "--rm needs the NAME of the snapshot");
    progress_begin(options->remove ? "removing the snapshot" : "taking a snapshot");
    int r = options->remove ? tn_sandbox_forget(sb, name, cli_stop_deadline(cli), err)
                            : tn_sandbox_snapshot(sb, name, cli_stop_deadline(cli), err);
    progress_end();
    return r < 0 ? -1 : print_name(cli, sb, name, err);
}

const struct verb verb_snapshot = {
    .name = "snapshot",
    .group = VERB_LIFE,
    .summary = "remember the files of a sandbox as they are now",
    .details = "Snapshots are what tendon rollback returns to and tendon fork starts from. They\n"
               "are of files, not of processes, and go with their sandbox.",
    .options = &options_table,
    .options_size = sizeof(struct snapshot_options),
    .run = run,
};
