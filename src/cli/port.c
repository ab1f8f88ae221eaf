#include "cli/forward.h"
#include "cli/table.h"
#include "cli/verb.h"

struct port_options {
    char *sandbox;
    struct tn_str_list forwards;
};

static const struct tn_field rows[] = {
    TN_STRING("sandbox", struct port_options, sandbox,
              .flags = TN_FIELD_POSITIONAL | TN_FIELD_REQUIRED, .value = VALUE_SANDBOX,
              .help = "id, start of the id, or name"),
    TN_STRINGS("forwards", struct port_options, forwards, .flags = TN_FIELD_POSITIONAL,
               .value = "[[HOST:]LOCAL:]PORT",
               .help = "carry this local port to the one inside [list the published ones]"),
};
static const struct tn_fields options_table = TN_FIELDS(rows);

/* --- listing ------------------------------------------------------------------------------- */

static int list(struct cli *cli, struct tn_sandbox *sb, struct tn_error *err)
{
    static const struct table_column columns[] = {{.title = "PORT", .right = true},
                                                  {.title = "URL"}};
    const struct tn_int_list *ports = &tn_sandbox_spec(sb)->ports;
    tn_autobuf struct tn_buf json = TN_BUF_INIT(1 << 20);
    autotable struct table *table = table_new(columns, TN_COUNT(columns));
    struct tn_jw w = tn_jw(&json);
    int hidden = 0, inner = 0; /* the first that is not published; that its cluster alone knows */

    tn_jw_array(&w);
    for (size_t i = 0; i < ports->count; i++) {
        tn_autofree char *url = tn_sandbox_url(sb, (int)ports->items[i], NULL);

        tn_jw_object(&w);
        tn_jw_kint(&w, "port", ports->items[i]);
        tn_jw_kstr(&w, "url", url);
        tn_jw_object_end(&w);
        table_format(table, "%d", (int)ports->items[i]);
        table_cell(table, url, NULL);
        if (!url && !hidden)
            hidden = (int)ports->items[i];
        if (url && url_is_of_cluster(url) && !inner)
            inner = (int)ports->items[i];
    }
    tn_jw_array_end(&w);
    if (cli->json)
        return cli_print(&json, err);
    if (ports->count)
        table_print(table);
    else
        cli_note(cli, "no port of %s is published; forward one with: tendon port %s PORT",
                 sandbox_label(sb), sandbox_label(sb));
    if (inner)
        cli_note(cli,
                 "a name that ends in .svc is known inside of the cluster alone; from elsewhere: "
                 "tendon port %s %d",
                 sandbox_label(sb), inner);
    if (hidden)
        cli_note(cli, "a port without a URL is not published; forward it with: tendon port %s %d",
                 sandbox_label(sb), hidden);
    return 0;
}

/* --- forwarding ---------------------------------------------------------------------------- */

static void tell(const struct forward *f, void *ctx)
{
    const struct cli *cli = ctx;

    if (cli->json)
        printf("{\"host\":\"%s\",\"local\":%d,\"port\":%d}\n", f->host, f->local, f->inside);
    else
        printf("%s:%d -> %d\n", f->host, f->local, f->inside);
}

static int run(struct cli *cli, const void *given, struct tn_error *err)
{
    const struct port_options *options = given;
    size_t count = options->forwards.count;
    tn_autosandbox struct tn_sandbox *sb = cli_sandbox(cli, options->sandbox, err);
    tn_autofree struct forward *forwards = tn_calloc(count, sizeof *forwards);
    const char *address, *key;

    if (!sb)
        return -1;
    if (!count)
        return list(cli, sb, err);
    for (size_t i = 0; i < count; i++)
        if (forward_parse(options->forwards.items[i], &forwards[i], err) < 0)
            return -1;
    /* Better told now than to every connection. */
    if (tn_sandbox_address(sb, &address, &key, cli_start_deadline(cli), err) < 0)
        return -1;
    tn_sandbox_use(sb);
    return forward_all(cli, sb, forwards, count, tell, cli, err);
}

const struct verb verb_port = {
    .name = "port",
    .group = VERB_WORK,
    .summary = "forward local ports into a sandbox, or list the published ones",
    .details = "Works whatever network the sandbox has, also without any: connections go through\n"
               "the hand. LOCAL 0 lets the system choose; what is listened on is printed. Ends\n"
               "with ctrl-C.",
    .options = &options_table,
    .options_size = sizeof(struct port_options),
    .run = run,
};
