#include "service/audit.h"

#include "cli/table.h"
#include "cli/verb.h"

enum audit_what { AUDIT_VERIFY, AUDIT_SHOW };
static const char *const what_words[] = {"verify", "show", NULL};

struct audit_options {
    int what;
    char *file;
    int64_t last;
};

#define AUDIT struct audit_options
static const struct tn_field rows[] = {
    TN_WORD("what", AUDIT, what, what_words, .flags = TN_FIELD_POSITIONAL | TN_FIELD_REQUIRED,
            .value = "verify|show", .help = "what to do"),
    TN_STRING("file", AUDIT, file, .flags = TN_FIELD_POSITIONAL, .value = "FILE",
              .help = "a copy of the log [audit.log in the state directory]"),
    TN_INT("last", AUDIT, last, .flag = "--last", .letter = 'n', .value = "N", .fallback = "20",
           .min = 1, .max = 1e5, .help = "show: so many lines"),
};
static const struct tn_fields options_table = TN_FIELDS(rows);

/* --- verify ----------------------------------------------------------------------------------- */

static int verify(struct cli *cli, const char *path, struct tn_db *db, struct tn_error *err)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(1 << 10);
    struct tn_jw w = tn_jw(&json);
    int64_t lines = 0;

    if (audit_verify(path, db, &lines, err))
        return -1;
    if (cli->json) {
        tn_jw_object(&w);
        tn_jw_kbool(&w, "whole", true);
        tn_jw_kint(&w, "lines", lines);
        tn_jw_object_end(&w);
    } else {
        tn_buf_printf(&json, "%lld lines, all of them as they were written", (long long)lines);
    }
    return cli_print(&json, err);
}

/* --- show ------------------------------------------------------------------------------------- */

/* The last lines of a file, oldest first. */
struct tail {
    char **lines;
    size_t room, count; /* count: of all lines so far */
};

static void tail_done(struct tail *t)
{
    for (size_t i = 0; i < t->room; i++)
        free(t->lines[i]);
    free(t->lines);
}

static const char *tail_at(const struct tail *t, size_t i)
{
    return t->lines[t->count > t->room ? (t->count + i) % t->room : i];
}

static int read_tail(const char *path, struct tail *t, struct tn_error *err)
{
    tn_autofile FILE *f = fopen(path, "re");
    char *line = NULL;
    size_t room = 0;
    ssize_t n;

    if (!f)
        return tn_fail_errno(err, errno, "%s", path);
    while ((n = getline(&line, &room, f)) > 0) {
        char **place = &t->lines[t->count++ % t->room];
        line[n - (line[n - 1] == '\n')] = '\0';
        free(*place);
        *place = tn_strdup(line);
    }
    free(line);
    return ferror(f) ? tn_fail_errno(err, errno, "%s", path) : 0;
}

static const struct table_column columns[] = {
    {"N", true},     {"TIME", false}, {"TENANT", false}, {"KEY", false},
    {"WHAT", false}, {"BOX", false},  {"RESULT", false}, {"DETAIL", false},
};

static int put_row(struct table *t, const struct tn_json *line)
{
    static const char *const members[] = {"time", "tenant", "key",   "what",
                                          "box",  "result", "detail"};

    table_format(t, "%lld", (long long)tn_json_int(tn_json_get(line, "n"), -1));
    for (size_t i = 0; i < TN_COUNT(members); i++)
        table_cell(t, tn_json_get_str(line, members[i], NULL), NULL);
    return 0;
}

static int show(struct cli *cli, const char *path, int64_t last, struct tn_error *err)
{
    TN_CLEANUP(tail_done) struct tail tail = {.room = (size_t)last};
    autotable struct table *table = table_new(columns, TN_COUNT(columns));
    tn_autobuf struct tn_buf json = TN_BUF_INIT(1 << 30);
    struct tn_jw w = tn_jw(&json);

    tail.lines = tn_calloc(tail.room, sizeof *tail.lines);
    if (read_tail(path, &tail, err))
        return -1;
    tn_jw_array(&w);
    for (size_t i = 0; i < tail.count && i < tail.room; i++) {
        tn_autojson struct tn_json *line = NULL;
        const char *text = tail_at(&tail, i);
        if (tn_json_parse(text, strlen(text), &line, NULL))
            return tn_fail(err, TN_E_CONFLICT,
                           "%s: there is a line that is no JSON: tendon audit "
                           "verify tells more",
                           path);
        tn_jw_tree(&w, line);
        put_row(table, line);
    }
    tn_jw_array_end(&w);
    if (cli->json)
        return cli_print(&json, err);
    table_print(table);
    return 0;
}

static int run(struct cli *cli, const void *given, struct tn_error *err)
{
    const struct audit_options *o = given;
    struct tn_runtime *rt = o->file ? NULL : cli_runtime(cli, err);

    if (!rt && !o->file)
        return -1;
    tn_autofree char *path =
        o->file ? tn_strdup(o->file) : tn_asprintf("%s/" AUDIT_FILE, tn_runtime_host(rt)->state);
    if (o->what == AUDIT_SHOW)
        return show(cli, path, o->last, err);
    return verify(cli, path, rt ? tn_store_db(tn_runtime_store(rt)) : NULL, err);
}

const struct verb verb_audit = {
    .name = "audit",
    .group = VERB_SYSTEM,
    .summary = "verify or show the audit log of the service",
    .details =
        "Each line of the log is bound to the one before by a hash: verify finds the first line\n"
        "that was changed, removed, moved or added. The newest hash is also in the store, so that\n"
        "lines cut off at the end are noticed; of a copy that is given as FILE they are not.",
    .options = &options_table,
    .options_size = sizeof(struct audit_options),
    .run = run,
};
