#include "base/clock.h"
#include "base/thread.h"
#include "cli/record.h"
#include "cli/table.h"
#include "cli/units.h"
#include "cli/verb.h"
#include "runtime/record-json.h"
#include "runtime/registry.h"

/* More than these are not asked one by one unless that is wanted. */
enum { ASK_AT_MOST = 50 };
#define ASK_SECONDS 5.0

static const char *const refresh_words[] = {"auto", "yes", "no", NULL};
enum { REFRESH_AUTO, REFRESH_YES, REFRESH_NO };

struct ls_options {
    bool all;
    int refresh;
    struct tn_json *labels;
};

static const struct tn_field rows[] = {
    TN_BOOL("all", struct ls_options, all, .flag = "--all", .letter = 'a',
            .help = "also the warm ones, which wait to be used"),
    TN_WORD("refresh", struct ls_options, refresh, refresh_words, .fallback = "auto",
            .flag = "--refresh", .value = "WORD",
            .help = "ask each backend how they are now; auto: if there are at most 50"),
    TN_JSON("label", struct ls_options, labels, .flags = TN_FIELD_NULLABLE | TN_FIELD_MAP,
            .flag = "--label", .letter = 'l', .value = "NAME=VALUE",
            .help = "only those with this label"),
};
static const struct tn_fields options_table = TN_FIELDS(rows);

struct asked {
    char *id;
    struct tn_sandbox *sb; /* NULL: it cannot be asked, or did not answer */
};

struct listing {
    struct cli *cli;
    const struct ls_options *options;
    struct tn_runtime *rt;
    const char *runtime; /* canonical; only those of it, or NULL */
    size_t count;        /* of all */
    size_t shown;
    bool refresh;
    struct asked *asked;
    size_t asked_count;
    struct table *table;
    struct tn_jw w;
};

static const struct table_column columns[] = {
    {.title = "ID"},      {.title = "NAME"},  {.title = "STATE"},
    {.title = "RUNTIME"}, {.title = "IMAGE"}, {.title = "AGE", .right = true},
    {.title = "REASON"},
};

static int count(const struct tn_record *r, void *ctx)
{
    ((struct listing *)ctx)->count++;
    return 0;
}

struct match {
    const struct tn_json *labels;
};

static int missing_label(const char *name, struct tn_json *value, void *ctx)
{
    const struct match *m = ctx;

    return strcmp(tn_json_get_str(m->labels, name, ""), tn_json_str(value, NULL)) != 0 ||
           !tn_json_has(m->labels, name);
}

static void print_record(struct listing *l, const struct tn_record *r, const struct tn_json *spec)
{
    char age[32];

    if (l->cli->quiet && !l->cli->json) {
        puts(record_label(r));
        return;
    }
    if (l->cli->json) {
        tn_jw_object(&l->w);
        tn_record_put(r, &l->w);
        tn_jw_kstr(&l->w, "image", tn_json_get_str(spec, "image", NULL));
        tn_jw_key(&l->w, "labels");
        tn_jw_tree(&l->w, tn_json_get(spec, "labels"));
        tn_jw_kbool(&l->w, "warm", r->pool != NULL);
        tn_jw_object_end(&l->w);
        return;
    }
    table_cell(l->table, r->id, NULL);
    table_cell(l->table, r->name, NULL);
    table_cell(l->table, r->pool ? "warm" : status_word(r->status), status_style(r->status));
    table_cell(l->table, r->runtime, NULL);
    table_cell(l->table, tn_json_get_str(spec, "image", NULL), NULL);
    table_cell(l->table, format_age(seconds_since(r->created), age), NULL);
    table_cell(l->table, r->reason, NULL);
}

static bool is_wanted(const struct listing *l, const struct tn_record *r,
                      const struct tn_json *spec)
{
    struct match m = {.labels = tn_json_get(spec, "labels")};

    return (!l->runtime || strcmp(l->runtime, r->runtime) == 0) &&
           (!l->options->labels || !tn_json_each(l->options->labels, missing_label, &m));
}

/* --- how they are now ----------------------------------------------------------------------- */

static int collect(const struct tn_record *r, void *ctx)
{
    struct listing *l = ctx;
    tn_autojson struct tn_json *spec = NULL;

    tn_json_parse(r->spec, strlen(r->spec), &spec, NULL);
    if (r->status == TN_STATUS_STARTING || !is_wanted(l, r, spec))
        return 0;
    l->asked = tn_realloc(l->asked, (l->asked_count + 1) * sizeof *l->asked);
    l->asked[l->asked_count++] = (struct asked){.id = tn_strdup(r->id)};
    return 0;
}

static void ask(size_t i, void *ctx)
{
    const struct listing *l = ctx;
    tn_autosandbox struct tn_sandbox *sb = tn_sandbox_attach(l->rt, l->asked[i].id, NULL);

    if (sb && tn_sandbox_inspect(sb, NULL, tn_deadline_in(ASK_SECONDS), NULL) == 0)
        l->asked[i].sb = TN_TAKE_PTR(sb);
}

/* What was seen of it; one that did not answer is shown as it was known last. */
static const struct tn_record *seen(const struct listing *l, const struct tn_record *r)
{
    for (size_t i = 0; i < l->asked_count; i++)
        if (l->asked[i].sb && strcmp(l->asked[i].id, r->id) == 0)
            return tn_sandbox_record(l->asked[i].sb);
    return r;
}

static void listing_done(struct listing *l)
{
    for (size_t i = 0; i < l->asked_count; i++) {
        tn_sandbox_free(l->asked[i].sb);
        free(l->asked[i].id);
    }
    free(l->asked);
}

static int list_one(const struct tn_record *r, void *ctx)
{
    struct listing *l = ctx;
    tn_autojson struct tn_json *spec = NULL;

    tn_json_parse(r->spec, strlen(r->spec), &spec, NULL);
    if (!is_wanted(l, r, spec))
        return 0;
    print_record(l, seen(l, r), spec);
    l->shown++;
    return 0;
}

static int run(struct cli *cli, const void *given, struct tn_error *err)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(256 << 20);
    autotable struct table *table = table_new(columns, TN_COUNT(columns));
    TN_CLEANUP(listing_done)
    struct listing l = {.cli = cli,
                        .options = given,
                        .rt = cli_runtime(cli, err),
                        .table = table,
                        .w = tn_jw(&json)};

    if (!l.rt)
        return -1;
    const char *asked = cli->globals.runtime;
    const struct tn_config *config = tn_runtime_host(l.rt)->config;
    const struct tn_backend *backend = asked ? tn_backend_find(config, asked, NULL) : NULL;
    l.runtime = backend ? backend->name : asked; /* one that is gone may have left some */
    struct tn_store *store = tn_runtime_store(l.rt);
    enum tn_store_part part = l.options->all ? TN_STORE_ALL : TN_STORE_CLAIMED;
    if (tn_store_each(store, part, count, &l, err) < 0)
        return -1;
    l.refresh = l.options->refresh == REFRESH_YES ||
                (l.options->refresh == REFRESH_AUTO && l.count <= ASK_AT_MOST);
    if (l.refresh && tn_store_each(store, part, collect, &l, err) < 0)
        return -1;
    /* A backend that is not there holds up no other. */
    tn_thread_share(l.asked_count, ask, &l);
    tn_jw_array(&l.w);
    if (tn_store_each(store, part, list_one, &l, err) < 0)
        return -1;
    tn_jw_array_end(&l.w);
    if (asked && !backend && !l.shown) {
        tn_backend_find(config, asked, err);
        return -1;
    }
    if (cli->json)
        return cli_print(&json, err);
    if (l.count && !cli->quiet)
        table_print(table);
    else if (!l.count)
        cli_note(cli, "there is no sandbox; make one with: tendon new");
    if (l.count && !l.refresh && l.options->refresh == REFRESH_AUTO)
        cli_note(cli, "states are as last known: --refresh=yes asks for all %zu", l.count);
    return 0;
}

const struct verb verb_ls = {
    .name = "ls",
    .group = VERB_LOOK,
    .summary = "list the sandboxes",
    .details = "With --quiet their names alone, with --runtime those of one runtime.\n"
               "What they use is shown by: tendon ps. What is known of one: tendon inspect.",
    .options = &options_table,
    .options_size = sizeof(struct ls_options),
    .doing = "asking how the sandboxes are",
    .run = run,
};
