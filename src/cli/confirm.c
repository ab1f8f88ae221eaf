/* Actions that wait for their confirmation: lists them, and answers. */
#include "base/clock.h"
#include "cli/ask.h"
#include "cli/clean.h"
#include "cli/style.h"
#include "cli/verb.h"

#define RULE_SECONDS 10.0

struct confirm_options {
    bool yes, no, rule;
    char *reason;
    char *sandbox;
    struct tn_opt_int number;
};

static const struct tn_field rows[] = {
    TN_BOOL("yes", struct confirm_options, yes, .flag = "--yes", .letter = 'y',
            .help = "carry it out"),
    TN_BOOL("no", struct confirm_options, no, .flag = "--no", .letter = 'n', .help = "refuse it"),
    TN_BOOL("rule", struct confirm_options, rule, .flag = "--rule",
            .help =
                "with --yes, of a connection that waits: add a rule that allows it from now on"),
    TN_STRING("reason", struct confirm_options, reason, .flag = "--reason", .value = "TEXT",
              .flags = TN_FIELD_NULLABLE, .help = "what the agent is told about a refusal"),
    TN_STRING("sandbox", struct confirm_options, sandbox,
              .flags = TN_FIELD_POSITIONAL | TN_FIELD_NULLABLE, .value = VALUE_SANDBOX,
              .help = "id, start of the id, or name [all of them: only lists]"),
    TN_OPT_INT("number", struct confirm_options, number,
               .flags = TN_FIELD_POSITIONAL | TN_FIELD_NULLABLE, .value = "NUMBER", .min = 0,
               .max = 1e15, .help = "of the action [each that waits, one after the other]"),
};
static const struct tn_fields options_table = TN_FIELDS(rows);

/* --- lists ------------------------------------------------------------------------------------ */

struct listing {
    struct cli *cli;
    struct tn_runtime *rt;
    const char *id, *directory; /* of the sandbox */
    struct tn_jw w;
    size_t count;
};

static int list_one(struct tn_pending *p, void *ctx)
{
    struct listing *l = ctx;

    if (tn_pending_is_late(p))
        return 0; /* the next answer refuses it */
    l->count++;
    if (!l->cli->json) {
        ask_show(l->id, l->directory, p);
        return 0;
    }
    tn_jw_object(&l->w);
    tn_jw_kstr(&l->w, "sandbox", l->id);
    tn_pending_put(l->directory, p, &l->w);
    tn_jw_object_end(&l->w);
    return 0;
}

static int list_sandbox(const struct tn_record *r, void *ctx)
{
    struct listing *l = ctx;
    tn_autofree char *directory =
        tn_asprintf("%s/sandbox/%s", tn_runtime_host(l->rt)->state, r->id);

    l->id = r->id;
    l->directory = directory;
    return tn_pending_each(directory, list_one, l);
}

/* Of one sandbox, or (NULL) of all. */
static int list(struct cli *cli, const struct tn_sandbox *sb, struct tn_error *err)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(64 << 20);
    struct listing l = {.cli = cli, .rt = cli_runtime(cli, err), .w = tn_jw(&json)};

    if (!l.rt)
        return -1;
    tn_jw_array(&l.w);
    if (sb)
        list_sandbox(tn_sandbox_record(sb), &l);
    else if (tn_store_each(tn_runtime_store(l.rt), TN_STORE_CLAIMED, list_sandbox, &l, err) < 0)
        return -1;
    tn_jw_array_end(&l.w);
    if (cli->json)
        return cli_print(&json, err);
    if (!l.count)
        cli_note(cli, "no action waits for a confirmation");
    return 0;
}

/* --- answers ---------------------------------------------------------------------------------- */

static int print_observation(struct cli *cli, const struct tn_observation *o, struct tn_error *err)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(256 << 20);
    struct tn_jw w = tn_jw(&json);

    if (cli->json) {
        tn_observation_to_json(o, &w);
        return cli_print(&json, err);
    }
    if (o->content.len)
        print_content_lines(stdout, o->content.data);
    return 0;
}

/* The rule that lets through what waits there, also from now on. */
static int rule_of(const struct tn_sandbox *sb, int64_t id, char rule[TN_PENDING_RULE],
                   struct tn_error *err)
{
    struct tn_pending p;

    if (tn_pending_load(tn_sandbox_directory(sb), id, &p, err))
        return -1;
    bool connection = tn_pending_rule(&p, rule);
    tn_pending_done(&p);
    return connection
               ? 0
               : tn_fail(err, TN_E_INVALID, "--rule: action %lld is no connection", (long long)id);
}

static int answer(struct cli *cli, struct tn_sandbox *sb, int64_t id, bool yes, bool rule,
                  const char *reason, struct tn_error *err)
{
    tn_autoobservation struct tn_observation o;
    char text[TN_PENDING_RULE];
    char *rules[] = {text, NULL};
    const struct tn_rules_change change = {.allow = {.items = rules, .count = 1}};

    tn_observation_init(&o, TN_OBSERVATION_NULL);
    if ((rule && rule_of(sb, id, text, err) < 0) ||
        tn_sandbox_answer(sb, id, yes, reason, &o, err) < 0 ||
        (rule && tn_sandbox_change_rules(sb, &change, tn_deadline_in(RULE_SECONDS), err) < 0))
        return -1;
    return print_observation(cli, &o, err);
}

struct questions {
    struct cli *cli;
    struct tn_sandbox *sb;
    const struct confirm_options *options;
    struct tn_error *err;
    size_t count;
};

static int ask_one(struct tn_pending *p, void *ctx)
{
    struct questions *q = ctx;
    bool decided = q->options->yes || q->options->no;

    q->count++;
    if (!decided)
        ask_show(sandbox_label(q->sb), tn_sandbox_directory(q->sb), p);
    enum tn_confirmation said = decided ? TN_CONFIRMED : ask_person(p);
    if (said == TN_AWAITING_CONFIRMATION)
        return 0;
    return answer(q->cli, q->sb, p->id, decided ? q->options->yes : said == TN_CONFIRMED,
                  q->options->rule, q->options->reason, q->err);
}

static int answer_each(struct cli *cli, struct tn_sandbox *sb, const struct confirm_options *o,
                       struct tn_error *err)
{
    struct questions q = {.cli = cli, .sb = sb, .options = o, .err = err};

    if (tn_pending_each(tn_sandbox_directory(sb), ask_one, &q) < 0)
        return -1;
    if (!q.count)
        cli_note(cli, "no action waits for a confirmation");
    return 0;
}

static int run(struct cli *cli, const void *given, struct tn_error *err)
{
    const struct confirm_options *o = given;
    bool decided = o->yes || o->no;

    if (o->yes && o->no)
        return tn_fail(err, TN_E_INVALID, "--yes and --no: expected one of them");
    if (o->rule && !o->yes)
        return tn_fail(err, TN_E_INVALID, "--rule: only with --yes");
    if (o->reason && strlen(o->reason) > TN_PENDING_REASON_MAX)
        return tn_fail(err, TN_E_INVALID, "--reason: expected at most %d bytes",
                       TN_PENDING_REASON_MAX);
    if (!o->sandbox && decided)
        return tn_fail(err, TN_E_INVALID, "--%s needs a SANDBOX", o->yes ? "yes" : "no");
    if (!o->sandbox)
        return list(cli, NULL, err);
    tn_autosandbox struct tn_sandbox *sb = cli_sandbox(cli, o->sandbox, err);
    if (!sb)
        return -1;
    if (o->number.set && decided)
        return answer(cli, sb, o->number.value, o->yes, o->rule, o->reason, err);
    if (o->number.set) {
        struct tn_pending p;
        if (tn_pending_load(tn_sandbox_directory(sb), o->number.value, &p, err))
            return -1;
        struct questions q = {.cli = cli, .sb = sb, .options = o, .err = err};
        int r = ask_can(cli)
                    ? ask_one(&p, &q)
                    : tn_fail(err, TN_E_INVALID, "nobody is at a terminal: --yes or --no?");
        tn_pending_done(&p);
        return r;
    }
    return decided || ask_can(cli) ? answer_each(cli, sb, o, err) : list(cli, sb, err);
}

const struct verb verb_confirm = {
    .name = "confirm",
    .group = VERB_WORK,
    .summary = "list and answer actions that wait for a confirmation",
    .details = "What security.confirmation and the analyzers want confirmed waits, also when the\n"
               "program that asked is gone, until somebody answers or security.confirm_seconds\n"
               "have passed; then it is refused. Confirmed, the action is carried out and its\n"
               "observation is printed. Each is answered once.",
    .options = &options_table,
    .options_size = sizeof(struct confirm_options),
    .run = run,
};
