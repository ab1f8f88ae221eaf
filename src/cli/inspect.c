#include "base/clock.h"
#include "cli/clean.h"
#include "cli/progress.h"
#include "cli/record.h"
#include "cli/style.h"
#include "cli/units.h"
#include "cli/verb.h"
#include "runtime/hand-plugins.h"
#include "runtime/record-json.h"

struct inspect_options {
    char *sandbox;
};

static const struct tn_field rows[] = {
    TN_STRING("sandbox", struct inspect_options, sandbox, .flags = TN_FIELD_POSITIONAL,
              .value = VALUE_SANDBOX, .help = "id, start of the id, or name [the only one]"),
};
static const struct tn_fields options_table = TN_FIELDS(rows);

/* --- for people ---------------------------------------------------------------------------- */

struct page {
    bool colour;
    int depth;
};

static void print_value(const char *key, const struct tn_json *v, const struct page *p);

static int print_member(const char *key, struct tn_json *value, void *ctx)
{
    print_value(key, value, ctx);
    return 0;
}

/* Times and sizes are numbers in JSON; people read them otherwise. */
static bool print_number(const char *key, const struct tn_json *v)
{
    static const char *const times[] = {"created", "used"}, *const sizes[] = {
                                                                "memory", "memory_peak", "disk"};
    char text[32];

    for (size_t i = 0; i < TN_COUNT(times); i++)
        if (strcmp(key, times[i]) == 0 && tn_json_type(v) == TN_JSON_DOUBLE) {
            printf("%s ago\n", format_age(seconds_since(tn_json_double(v, 0)), text));
            return true;
        }
    for (size_t i = 0; i < TN_COUNT(sizes); i++)
        if (strcmp(key, sizes[i]) == 0 && tn_json_type(v) == TN_JSON_INT) {
            printf("%s\n", format_bytes(tn_json_int(v, 0), text));
            return true;
        }
    return false;
}

static void print_plain(const struct tn_json *v)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(1 << 20);
    struct tn_jw w = tn_jw(&text);

    if (tn_json_type(v) == TN_JSON_STRING) {
        print_clean(tn_json_str(v, NULL));
    } else {
        tn_jw_tree(&w, v);
        print_clean(tn_buf_str(&text));
    }
    putchar('\n');
}

/* What is null or empty is not worth a line. */
static void print_value(const char *key, const struct tn_json *v, const struct page *p)
{
    enum tn_json_type type = tn_json_type(v);
    bool nested = type == TN_JSON_OBJECT || type == TN_JSON_ARRAY;
    struct page inner = {.colour = p->colour, .depth = p->depth + 1};

    if (type == TN_JSON_NULL || (nested && tn_json_count(v) == 0))
        return;
    printf("%*s%s", 2 * p->depth, "", p->colour ? STYLE_CYAN : "");
    print_clean(key);
    printf("%s: ", p->colour ? STYLE_PLAIN : "");
    if (type == TN_JSON_OBJECT) {
        putchar('\n');
        tn_json_each(v, print_member, &inner);
    } else if (!print_number(key, v)) {
        print_plain(v);
    }
}

/* --- plugins ------------------------------------------------------------------------------- */

#define PLUGINS_SECONDS 5

/* What the hand says of them; NULL when it does not run, or is none of ours: that is no reason to
 * keep the rest from anybody.  *silent: it runs, and does not answer. */
static struct tn_json *ask_plugins(struct tn_sandbox *sb, bool *silent)
{
    int64_t deadline = tn_deadline_in(PLUGINS_SECONDS);
    struct tn_hand_address at;
    struct tn_json *plugins = NULL;
    struct tn_error why = {0};

    if (tn_sandbox_record(sb)->status != TN_STATUS_RUNNING ||
        tn_sandbox_address(sb, &at.address, &at.key, deadline, NULL) < 0 ||
        tn_hand_plugins(&at, &plugins, deadline, &why) == 0)
        return plugins;
    *silent = why.code == TN_E_TIMEOUT;
    return NULL;
}

static bool is(const struct tn_json *plugin, const char *key)
{
    return tn_json_bool(tn_json_get(plugin, key), false);
}

/* "browser: running, 210 MiB: /usr/bin/chromium", "vscode: missing: ...; get it: ..." */
static void print_plugin(const struct tn_json *plugin, const struct page *p)
{
    const char *install = tn_json_get_str(plugin, "install", NULL);
    int64_t memory = tn_json_int(tn_json_get(plugin, "memory"), 0);
    tn_autobuf struct tn_buf line = TN_BUF_INIT(64 << 10);
    char text[32];

    if (is(plugin, "running"))
        tn_buf_puts(&line, "running");
    else if (!is(plugin, "usable"))
        tn_buf_puts(&line, "missing");
    else
        tn_buf_puts(&line, is(plugin, "enabled") ? "ready" : "not asked for");
    if (memory > 0)
        tn_buf_printf(&line, ", %s", format_bytes(memory, text));
    tn_buf_printf(&line, ": %s",
                  tn_json_get_str(plugin, is(plugin, "usable") ? "found" : "missing", ""));
    if (install)
        tn_buf_printf(&line, "; to get it: %s", install);
    printf("  %s", p->colour ? STYLE_CYAN : "");
    print_clean(tn_json_get_str(plugin, "name", ""));
    printf("%s: ", p->colour ? STYLE_PLAIN : "");
    print_clean(tn_buf_str(&line));
    putchar('\n');
}

static void print_plugins(const struct tn_json *plugins, const struct page *p)
{
    if (tn_json_count(plugins) == 0)
        return;
    printf("%splugins%s:\n", p->colour ? STYLE_CYAN : "", p->colour ? STYLE_PLAIN : "");
    for (size_t i = 0; i < tn_json_count(plugins); i++)
        print_plugin(tn_json_at(plugins, i), p);
}

static int run(struct cli *cli, const void *given, struct tn_error *err)
{
    const struct inspect_options *options = given;
    tn_autosandbox struct tn_sandbox *sb = cli_sandbox(cli, options->sandbox, err);
    tn_autobuf struct tn_buf text = TN_BUF_INIT(16 << 20);
    tn_autojson struct tn_json *json = NULL;
    struct tn_jw w = tn_jw(&text);

    if (!sb || tn_sandbox_inspect(sb, NULL, cli_stop_deadline(cli), err) < 0)
        return -1;
    tn_jw_object(&w);
    tn_sandbox_put_json(cli_runtime(cli, err), sb, &w);
    bool silent = false;
    tn_autojson struct tn_json *plugins = ask_plugins(sb, &silent);
    if (silent)
        tn_jw_kstr(&w, "hand", "does not answer");
    if (cli->json) {
        tn_jw_key(&w, "plugins");
        tn_jw_tree(&w, plugins);
    }
    tn_jw_object_end(&w);
    if (cli->json)
        return cli_print(&text, err);
    if (tn_json_parse(tn_buf_str(&text), text.len, &json, err) < 0)
        return -1;
    struct page page = {.colour = style_wanted(stdout)};
    progress_end();
    tn_json_each(json, print_member, &page);
    print_plugins(plugins, &page);
    return 0;
}

const struct verb verb_inspect = {
    .name = "inspect",
    .group = VERB_LOOK,
    .summary = "print everything that is known of a sandbox",
    .details = "Asks its backend how it is now. Isolation is what really holds, not what was\n"
               "wished for. Secrets are never printed. The plugins are those of its hand: what\n"
               "is there, what runs, and how to get what is missing. A hand that runs and does\n"
               "not answer within 5 s is told as such.",
    .options = &options_table,
    .options_size = sizeof(struct inspect_options),
    .doing = "asking about the sandbox",
    .run = run,
};
