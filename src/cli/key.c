#include <ctype.h>

#include "cli/record.h"
#include "cli/table.h"
#include "cli/units.h"
#include "cli/verb.h"
#include "service/audit.h"
#include "service/clock.h"
#include "service/key.h"
#include "service/service.h"

enum key_what { KEY_CREATE, KEY_SET, KEY_LS, KEY_REVOKE, KEY_LOGIN };
static const char *const what_words[] = {"create", "set", "ls", "revoke", "login", NULL};

struct key_options {
    int what;
    char *name, *tenant, *memory, *disk, *expires;
    struct tn_str_list scopes, analyzers;
    struct key_limits limits;
    struct tn_thresholds security;
    bool all, e2b, usual;
};

#define KEY struct key_options
static const struct tn_field rows[] = {
    TN_WORD("what", KEY, what, what_words, .flags = TN_FIELD_POSITIONAL | TN_FIELD_REQUIRED,
            .value = "create|set|ls|revoke|login", .fallback = NULL, .help = "what to do"),
    TN_STRING("name", KEY, name, .flags = TN_FIELD_POSITIONAL, .value = "NAME",
              .help = "of the key; set and revoke also take its id"),
    TN_STRING("tenant", KEY, tenant, .flag = "--tenant", .value = "NAME", .fallback = "default",
              .help = "who it is for: keys of one tenant see the same sandboxes, and no others"),
    TN_STRINGS("scopes", KEY, scopes, .flag = "--scope", .value = "SCOPE", .words = scope_words,
               .flags = TN_FIELD_COMMAS, .fallback = "read,use,manage",
               .help = "what it opens: read, use, manage, admin, metrics"),
    TN_STRING("expires", KEY, expires, .flag = "--expires", .value = "TIME",
              .help = "after so long it opens nothing: 90s, 30m, 12h, 7d [never]"),
    TN_INT("max_sandboxes", KEY, limits.max_sandboxes, .flag = "--max-sandboxes", .value = "N",
           .min = 0, .max = 1e9, .help = "that exist at a time [as many as the service allows]"),
    TN_INT("max_running", KEY, limits.max_running, .flag = "--max-running", .value = "N", .min = 0,
           .max = 1e9, .help = "that run at a time"),
    TN_STRING("max_memory", KEY, memory, .flag = "--max-memory", .value = "SIZE",
              .help = "of those that run, together: 512m, 8g"),
    TN_DOUBLE("max_cpus", KEY, limits.max_cpus, .flag = "--max-cpus", .value = "N", .min = 0,
              .max = 1e6, .help = "of those that run, together"),
    TN_INT("max_pids", KEY, limits.max_pids, .flag = "--max-pids", .value = "N", .min = 0,
           .max = 1e12, .help = "processes of those that run, together"),
    TN_STRING("max_disk", KEY, disk, .flag = "--max-disk", .value = "SIZE",
              .help = "that all of them may write, together: 20g"),
    TN_DOUBLE("max_seconds", KEY, limits.max_seconds, .flag = "--max-seconds", .value = "N",
              .min = 0, .max = 1e9, .help = "that each may live"),
    TN_DOUBLE("requests_per_second", KEY, limits.requests_per_second, .flag = "--rate",
              .value = "N", .min = 0, .max = 1e6, .help = "requests per second"),
    TN_OBJECT("security", KEY, security, &tn_thresholds_fields),
    TN_STRINGS("analyzers", KEY, analyzers, .flag = "--analyzers", .value = "NAMES",
               .flags = TN_FIELD_COMMAS,
               .help = "who judges its actions [all that the service has]"),
    TN_BOOL("usual", KEY, usual, .flag = "--usual",
            .help =
                "set: what becomes of its actions is as the service says, but for what is given"),
    TN_BOOL("gvisor", KEY, limits.gvisor, .flag = "--gvisor",
            .help = "each of its sandboxes has isolation gvisor"),
    TN_WORD("network", KEY, limits.network, tn_networks, .flag = "--network", .value = "WORD",
            .fallback = "default",
            .help = "the widest that each of its sandboxes may have: none, allow, open, bridge, "
                    "host [as the service says]"),
    TN_BOOL("e2b", KEY, e2b, .flag = "--e2b",
            .help = "create: spell it as clients of E2B want it, e2b_ and hexadecimal digits"),
    TN_BOOL("all", KEY, all, .flag = "--all", .letter = 'a',
            .help = "ls: also those that were revoked"),
};
static const struct tn_fields options_table = TN_FIELDS(rows);

/* --- create -------------------------------------------------------------------------------- */

/* "12h" in seconds. */
static int parse_span(const char *text, double *out, struct tn_error *err)
{
    static const struct {
        char unit;
        double seconds;
    } units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
    char *end = NULL;
    double number = strtod(text, &end);

    for (size_t i = 0; i < TN_COUNT(units); i++)
        if (end != text && isdigit((unsigned char)*text) && number > 0 && number < 1e9 &&
            end[0] == units[i].unit && !end[1]) {
            *out = number * units[i].seconds;
            return 0;
        }
    return tn_fail(err, TN_E_INVALID, "--expires %s: expected a time like 90s, 30m, 12h or 7d",
                   text);
}

/* With the note for the audit log, or not at all. */
static int note(struct tn_db *db, const char *what, const char *name, struct tn_error *err)
{
    tn_autofree char *detail = tn_asprintf("%.80s (tendon key, by user %d)", name, (int)getuid());

    return audit_note(db, what, detail, err);
}

struct making {
    struct key_info *key;
    char *text;
};

static int make(struct tn_db *db, void *ctx, struct tn_error *err)
{
    struct making *m = ctx;

    return key_create(db, m->key, m->text, err) || note(db, "key.create", m->key->name, err) ? -1
                                                                                             : 0;
}

static int withdraw(struct tn_db *db, void *ctx, struct tn_error *err)
{
    return key_revoke(db, ctx, err) || note(db, "key.revoke", ctx, err) ? -1 : 0;
}

struct changing {
    const struct key_options *options;
    struct tn_thresholds usual; /* none is set */
};

/* What becomes of its actions, from the next one on. */
static int change(struct tn_db *db, void *ctx, struct tn_error *err)
{
    const struct changing *c = ctx;
    struct key_info k;

    int failed = key_find(db, c->options->name, &k, err);
    if (!failed) {
        struct tn_thresholds before =
            k.security.set && !c->options->usual ? k.security.own : c->usual;
        before = tn_thresholds_over(&before, &c->options->security);
        k.security = key_security_of(&before);
        failed = key_change(db, &k, err) || note(db, "key.change", k.name, err);
    }
    key_info_done(&k);
    return failed ? -1 : 0;
}

static int create(struct cli *cli, struct tn_db *db, const struct key_options *o,
                  struct tn_error *err)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(64 * 1024);
    struct key_info k = {.name = o->name,
                         .tenant = o->tenant,
                         .limits = o->limits,
                         .security = key_security_of(&o->security)};
    struct tn_jw w = tn_jw(&json);
    uint64_t memory = 0, disk = 0;
    double span = 0;
    char text[64], e2b[KEY_E2B_SIZE];

    for (size_t i = 0; i < o->scopes.count; i++)
        k.scopes |= scope_bit(o->scopes.items[i]);
    if ((o->memory && tn_size_parse(o->memory, &memory, err) < 0) ||
        (o->disk && tn_size_parse(o->disk, &disk, err) < 0) ||
        (o->expires && parse_span(o->expires, &span, err) < 0))
        return -1;
    k.limits.max_memory = (int64_t)memory;
    k.limits.max_disk = (int64_t)disk;
    if (span > 0)
        k.expires = service_time() + span;
    struct making making = {.key = &k, .text = text};
    if (tn_db_atomically(db, make, &making, err))
        return -1;
    key_spell_e2b(text, e2b);
    if (cli->json) {
        tn_jw_object(&w);
        tn_jw_kstr(&w, "key", o->e2b ? e2b : text);
        key_info_put(&k, &w);
        tn_jw_object_end(&w);
    } else {
        tn_buf_puts(&json, o->e2b ? e2b : text);
        cli_note(cli, "this is shown once: only a digest of it is kept");
    }
    int result = cli_print(&json, err);
    explicit_bzero(text, sizeof text);
    explicit_bzero(e2b, sizeof e2b);
    explicit_bzero(json.data, json.len);
    return result;
}

/* --- ls ------------------------------------------------------------------------------------ */

struct listing {
    const struct key_options *options;
    struct table *table;
    struct tn_jw w;
};

static void put_scopes(struct table *t, unsigned scopes)
{
    char text[64] = "";
    size_t n = 0;

    for (unsigned i = 0; scope_words[i]; i++)
        if (scopes & 1u << i)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", n ? "," : "", scope_words[i]);
    table_cell(t, text, NULL);
}

static const char *state_of(const struct key_info *k)
{
    if (k->revoked)
        return "revoked";
    return k->expires > 0 && k->expires <= service_time() ? "expired" : "good";
}

static int list_one(const struct key_info *k, void *ctx)
{
    struct listing *l = ctx;
    char age[32];

    if (k->revoked && !l->options->all)
        return 0;
    tn_jw_object(&l->w);
    key_info_put(k, &l->w);
    tn_jw_object_end(&l->w);
    table_cell(l->table, k->id, NULL);
    table_cell(l->table, k->name, NULL);
    table_cell(l->table, k->tenant, NULL);
    put_scopes(l->table, k->scopes);
    table_cell(l->table, state_of(k), NULL);
    table_cell(l->table, format_age(seconds_since(k->created), age), NULL);
    table_cell(l->table, k->used > 0 ? format_age(seconds_since(k->used), age) : NULL, NULL);
    return 0;
}

static int list(struct cli *cli, struct tn_db *db, const struct key_options *o,
                struct tn_error *err)
{
    static const struct table_column columns[] = {
        {.title = "ID"},
        {.title = "NAME"},
        {.title = "TENANT"},
        {.title = "SCOPES"},
        {.title = "STATE"},
        {.title = "AGE", .right = true},
        {.title = "USED", .right = true},
    };
    tn_autobuf struct tn_buf json = TN_BUF_INIT(64u << 20);
    autotable struct table *table = table_new(columns, TN_COUNT(columns));
    struct listing l = {.options = o, .table = table, .w = tn_jw(&json)};

    tn_jw_array(&l.w);
    if (key_each(db, list_one, &l, err) < 0)
        return -1;
    tn_jw_array_end(&l.w);
    if (cli->json)
        return cli_print(&json, err);
    table_print(table);
    return 0;
}

/* --- login --------------------------------------------------------------------------------- */

static int print_link(struct cli *cli, struct tn_runtime *rt, struct tn_db *db,
                      struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(16 * 1024);
    tn_autofree char *link = tn_service_login_link(db, tn_runtime_host(rt)->state, err);
    struct tn_jw w = tn_jw(&text);

    if (!link)
        return -1;
    if (!cli->json) {
        tn_buf_puts(&text, link);
        return cli_print(&text, err);
    }
    tn_jw_object(&w);
    tn_jw_kstr(&w, "link", link);
    tn_jw_object_end(&w);
    return cli_print(&text, err);
}

/* --- all of it ----------------------------------------------------------------------------- */

static int run(struct cli *cli, const void *given, struct tn_error *err)
{
    const struct key_options *o = given;
    struct tn_runtime *rt = cli_runtime(cli, err);

    if (!rt)
        return -1;
    struct tn_db *db = tn_store_db(tn_runtime_store(rt));
    if (service_clock_join(db, err) < 0)
        return -1;
    if (o->what == KEY_LS)
        return list(cli, db, o, err);
    if (o->what == KEY_LOGIN)
        return print_link(cli, rt, db, err);
    if (!o->name)
        return tn_fail(err, TN_E_INVALID, "which key? tendon key %s NAME", what_words[o->what]);
    struct key_options chosen = *o; /* borrows everything */
    struct changing changing = {.options = &chosen};
    tn_fields_defaults(&tn_thresholds_fields, &changing.usual);
    if (tn_thresholds_choose(&chosen.security, &o->analyzers,
                             &tn_runtime_host(rt)->config->security, err))
        return -1;
    if (o->what == KEY_SET)
        return tn_db_atomically(db, change, &changing, err);
    return o->what == KEY_CREATE ? create(cli, db, &chosen, err)
                                 : tn_db_atomically(db, withdraw, o->name, err);
}

const struct verb verb_key = {
    .name = "key",
    .group = VERB_SYSTEM,
    .summary = "make, change, list and revoke keys of the service; sign in to its dashboard",
    .details =
        "A key is shown when it is made and never again: the store keeps a digest. A key that is\n"
        "revoked opens nothing from the next request on; a running service need not be told.\n"
        "set changes what becomes of its actions (--low to --unknown, --confirmation, --analyzers),\n"
        "from the next one on; the API (PATCH /v1/keys/ID) changes its scopes, limits and end, too.\n"
        "The service itself makes the first one and writes it to service.key in the state\n"
        "directory. login prints a link that signs you in to the dashboard with that one, once;\n"
        "it is good for five minutes.",
    .options = &options_table,
    .options_size = sizeof(struct key_options),
    .run = run,
};
