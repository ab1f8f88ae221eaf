#include "base/clock.h"
#include "cli/record.h"
#include "cli/style.h"
#include "cli/table.h"
#include "cli/units.h"
#include "cli/verb.h"

struct inspect_options {
    char *sandbox;
};

static const struct tn_field rows[] = {
    TN_STRING("sandbox", struct inspect_options, sandbox, .flags = TN_FIELD_POSITIONAL,
              .value = VALUE_SANDBOX, .help = "id, start of the id, or name [the only one]"),
};
static const struct tn_fields options_table = TN_FIELDS(rows);

/* --- as JSON -----------------------------------------------------------------------------------
 */

static int put_snapshot(const struct tn_snapshot *s, void *ctx)
{
    tn_jw_object(ctx);
    tn_jw_kstr(ctx, "name", s->name);
    tn_jw_kdouble(ctx, "created", s->created);
    tn_jw_object_end(ctx);
    return 0;
}

static void put_all(struct cli *cli, struct tn_sandbox *sb, struct tn_buf *out)
{
    const struct tn_record *r = tn_sandbox_record(sb);
    struct tn_jw w = tn_jw(out);
    struct tn_usage usage;

    tn_jw_object(&w);
    put_record(&w, r);
    tn_jw_kstr(&w, "directory", tn_sandbox_directory(sb));
    tn_jw_kstr(&w, "address", r->address);
    put_raw(&w, "ref", r->ref);
    put_raw(&w, "isolation", r->isolation);
    tn_jw_key(&w, "usage");
    tn_jw_object(&w);
    tn_sandbox_usage(sb, &usage, NULL);
    put_usage(&w, &usage);
    tn_jw_object_end(&w);
    tn_jw_key(&w, "spec");
    tn_jw_object(&w);
    tn_fields_show(&tn_spec_fields, tn_sandbox_spec(sb), &w);
    tn_jw_object_end(&w);
    tn_jw_key(&w, "snapshots");
    tn_jw_array(&w);
    tn_store_snapshots(tn_runtime_store(cli_runtime(cli, NULL)), r->id, put_snapshot, &w, NULL);
    tn_jw_array_end(&w);
    tn_jw_object_end(&w);
}

/* --- for people --------------------------------------------------------------------------------
 */

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

static int run(struct cli *cli, const void *given, struct tn_error *err)
{
    const struct inspect_options *options = given;
    tn_autosandbox struct tn_sandbox *sb = cli_sandbox(cli, options->sandbox, err);
    tn_autobuf struct tn_buf text = TN_BUF_INIT(16 << 20);
    tn_autojson struct tn_json *json = NULL;

    if (!sb || tn_sandbox_inspect(sb, NULL, cli_stop_deadline(cli), err) < 0)
        return -1;
    put_all(cli, sb, &text);
    if (cli->json)
        return cli_print(&text, err);
    if (tn_json_parse(tn_buf_str(&text), text.len, &json, err) < 0)
        return -1;
    struct page page = {.colour = style_wanted(stdout)};
    tn_json_each(json, print_member, &page);
    return 0;
}

const struct verb verb_inspect = {
    .name = "inspect",
    .group = VERB_LOOK,
    .summary = "print everything that is known of a sandbox",
    .details = "Asks its backend how it is now. Isolation is what really holds, not what was\n"
               "wished for. Secrets are never printed.",
    .options = &options_table,
    .options_size = sizeof(struct inspect_options),
    .run = run,
};
