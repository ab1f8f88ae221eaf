#include "cli/verb.h"

struct config_options {
    char *key;
    bool changed;
};

static const struct tn_field rows[] = {
    TN_STRING("key", struct config_options, key, .flags = TN_FIELD_POSITIONAL, .value = "KEY",
              .help = "a section, or section.key: print only that"),
    TN_BOOL("changed", struct config_options, changed, .flag = "--changed", .letter = 'c',
            .help = "only what is not the default"),
};
static const struct tn_fields options_table = TN_FIELDS(rows);

#define MAX_TEXT (16u << 20)

/* What is asked for, and the text that answers it. */
struct listing {
    const struct tn_config *config;
    const struct config_options *options;
    size_t section_len; /* of options->key, up to its dot */
    size_t count;
    const char *section; /* the last one printed */
    struct tn_buf text;
    struct tn_jw w;
};

static bool is_wanted(const struct listing *l, const char *section, const char *key,
                      enum tn_origin origin)
{
    const char *wanted = l->options->key;

    if (l->options->changed && origin == TN_FROM_DEFAULT)
        return false;
    if (!wanted)
        return true;
    if (strlen(section) != l->section_len || strncmp(section, wanted, l->section_len) != 0)
        return false;
    return !wanted[l->section_len] || strcmp(wanted + l->section_len + 1, key) == 0;
}

/* --- for people --------------------------------------------------------------------------- */

static void put_source(struct tn_buf *out, enum tn_origin origin, const char *where)
{
    if (where)
        tn_buf_printf(out, "%s, %s", tn_origin_words[origin], where);
    else
        tn_buf_puts(out, tn_origin_words[origin]);
}

/* "section.key = value", with the source where it can be told from the value. */
static void print_line(const char *section, const struct tn_field *row, const char *value,
                       enum tn_origin origin, const char *where, void *ctx)
{
    struct listing *l = ctx;

    if (!is_wanted(l, section, row->name, origin))
        return;
    if (!l->section || strcmp(l->section, section) != 0)
        tn_buf_printf(&l->text, "%s[%s]\n", l->section ? "\n" : "", section);
    l->section = section;
    l->count++;
    size_t start = l->text.len;
    tn_buf_printf(&l->text, "%s = %s", row->name, *value ? value : "-");
    size_t used = l->text.len - start;
    tn_buf_printf(&l->text, "%*s  # ", used < 44 ? (int)(44 - used) : 0, "");
    put_source(&l->text, origin, where);
    tn_buf_putc(&l->text, '\n');
}

/* One alone is printed as it is, for scripts. */
static void print_value(const char *section, const struct tn_field *row, const char *value,
                        enum tn_origin origin, const char *where, void *ctx)
{
    struct listing *l = ctx;

    if (!is_wanted(l, section, row->name, origin))
        return;
    tn_buf_printf(&l->text, "%s\n", value);
    l->count++;
}

/* --- for programs ------------------------------------------------------------------------- */

static void print_json(const char *section, const struct tn_field *row, const char *value,
                       enum tn_origin origin, const char *where, void *ctx)
{
    struct listing *l = ctx;
    struct tn_jw *w = &l->w;

    if (!is_wanted(l, section, row->name, origin))
        return;
    tn_jw_object(w);
    tn_jw_kstr(w, "section", section);
    tn_jw_kstr(w, "key", row->name);
    tn_config_show(l->config, section, row, "value", w);
    tn_jw_kstr(w, "origin", tn_origin_words[origin]);
    tn_jw_kstr(w, "where", where);
    tn_jw_object_end(w);
    l->count++;
}

/* --- the verb ----------------------------------------------------------------------------- */

static int run(struct cli *cli, const void *given, struct tn_error *err)
{
    const struct config_options *options = given;
    const struct tn_config *config = cli_config(cli, err);
    struct listing l = {
        .config = config,
        .options = options,
        .section_len = options->key ? strcspn(options->key, ".") : 0,
        .text = TN_BUF_INIT(MAX_TEXT),
    };
    bool one = options->key && options->key[l.section_len];

    if (!config)
        return -1;
    l.w = tn_jw(&l.text);
    if (cli->json)
        tn_jw_array(&l.w);
    tn_config_each(config, cli->json ? print_json : one ? print_value : print_line, &l);
    if (cli->json)
        tn_jw_array_end(&l.w);
    else if (l.text.len) /* cli_print ends the last line */
        tn_buf_cut(&l.text, l.text.len - 1);
    int result = 0;
    if (l.count == 0 && options->key && !options->changed)
        result = tn_config_unknown(options->key, err);
    else if (l.count > 0 || cli->json)
        result = cli_print(&l.text, err);
    tn_buf_done(&l.text);
    return result;
}

const struct verb verb_config = {
    .name = "config",
    .group = VERB_SYSTEM,
    .summary = "print the effective configuration and where each value came from",
    .details =
        "Values come from the defaults, one file (config.toml), the environment and --set, each\n"
        "going before the one above. Secrets are hidden. A single section.key prints its value\n"
        "alone.",
    .options = &options_table,
    .options_size = sizeof(struct config_options),
    .run = run,
};
