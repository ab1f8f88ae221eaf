/* The network of a sandbox: its rules, what was refused, and other rules while it runs. */
#include "cli/clean.h"
#include "cli/progress.h"
#include "cli/record.h"
#include "cli/table.h"
#include "cli/units.h"
#include "cli/verb.h"

struct network_options {
    char *sandbox;
    int network;
    struct tn_str_list allow, deny;
};

static const struct tn_field rows[] = {
    TN_WORD("network", struct network_options, network, tn_networks, .fallback = "default",
            .flag = "--network", .value = "NETWORK", .help = "open or allow, from now on"),
    TN_STRINGS("allow", struct network_options, allow, .flag = "--allow", .value = "RULE",
               .help = "one more rule, which counts at once; may be repeated"),
    TN_STRINGS("deny", struct network_options, deny, .flag = "--deny", .value = "RULE",
               .help = "takes away one of its rules; may be repeated"),
    TN_STRING("sandbox", struct network_options, sandbox, .flags = TN_FIELD_POSITIONAL,
              .value = VALUE_SANDBOX, .help = "id, start of the id, or name [the only one]"),
};
static const struct tn_fields options_table = TN_FIELDS(rows);

static void print_refusals(const struct tn_json *list)
{
    static const struct table_column columns[] = {{.title = "REFUSED"},
                                                  {.title = "TIMES", .right = true},
                                                  {.title = "LAST", .right = true},
                                                  {.title = "WHY"}};
    autotable struct table *t = table_new(columns, TN_COUNT(columns));
    char age[32];

    for (size_t i = 0; i < tn_json_count(list); i++) {
        const struct tn_json *r = tn_json_at(list, i);
        table_cell(t, tn_json_get_str(r, "what", ""), NULL);
        table_format(t, "%lld", (long long)tn_json_int(tn_json_get(r, "count"), 1));
        table_cell(t, format_age(seconds_since(tn_json_double(tn_json_get(r, "at"), 0)), age),
                   NULL);
        table_cell(t, tn_json_get_str(r, "why", ""), NULL);
    }
    table_print(t);
}

/* The newest refusal that a rule would let through. */
static const char *advice(const struct tn_json *list)
{
    const char *rule = NULL;

    for (size_t i = 0; i < tn_json_count(list) && !rule; i++)
        rule = tn_json_get_str(tn_json_at(list, i), "rule", NULL);
    return rule;
}

static void print_page(struct cli *cli, const struct tn_sandbox *sb, const struct tn_json *page)
{
    const struct tn_json *rules = tn_json_get(page, "rules"),
                         *refusals = tn_json_get(page, "refusals");
    bool gated = tn_json_bool(tn_json_get(page, "gated"), false);
    const char *rule = advice(refusals);

    progress_end();
    printf("network: %s%s\n", tn_json_get_str(page, "network", ""), gated ? ", gated" : "");
    for (size_t i = 0; i < tn_json_count(rules); i++) {
        const char *text = tn_json_str(tn_json_at(rules, i), NULL);
        bool denies = text && *text == '!';
        fputs(denies ? "deny: " : "allow: ", stdout);
        print_clean(text + denies);
        putchar('\n');
    }
    if (tn_json_count(refusals))
        print_refusals(refusals);
    if (rule && !strchr(rule, '\''))
        cli_note(cli, "to allow it: tendon network %s --allow '%s'", sandbox_label(sb), rule);
}

static int run(struct cli *cli, const void *given, struct tn_error *err)
{
    const struct network_options *o = given;
    const struct tn_rules_change change = {
        .network = o->network, .allow = o->allow, .deny = o->deny};
    tn_autosandbox struct tn_sandbox *sb = cli_sandbox(cli, o->sandbox, err);
    tn_autobuf struct tn_buf text = TN_BUF_INIT(16 << 20);
    tn_autojson struct tn_json *page = NULL;
    struct tn_jw w = tn_jw(&text);
    int64_t deadline = cli_stop_deadline(cli);

    if (!sb)
        return -1;
    if ((o->network != TN_NETWORK_DEFAULT || o->allow.count || o->deny.count) &&
        tn_sandbox_change_rules(sb, &change, deadline, err) < 0)
        return -1;
    tn_sandbox_note_refusals(sb, NULL, deadline);
    tn_jw_object(&w);
    tn_sandbox_put_network(sb, &w, deadline);
    tn_jw_object_end(&w);
    if (cli->json)
        return cli_print(&text, err);
    if (tn_json_parse(tn_buf_str(&text), text.len, &page, err) < 0)
        return -1;
    print_page(cli, sb, page);
    return 0;
}

const struct verb verb_network = {
    .name = "network",
    .group = VERB_LOOK,
    .summary = "show what the network of a sandbox refused, and change its rules",
    .details =
        "New rules count at once, connections that are there stay, and the next start has\n"
        "them too. A rule !NET denies these addresses, --deny RULE takes a rule away. What was refused lately is shown with how often, when last and why.",
    .options = &options_table,
    .options_size = sizeof(struct network_options),
    .doing = "asking about the network",
    .run = run,
};
