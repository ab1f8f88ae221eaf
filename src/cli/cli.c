#include "cli/cli.h"
#include "cli/ask.h"

#include <stdarg.h>

#include "base/clock.h"
#include "base/nearest.h"
#include "cli/clean.h"
#include "cli/progress.h"
#include "runtime/registry.h"

#define GLOBALS struct globals

static const struct tn_field rows[] = {
    TN_STRING("config", GLOBALS, config, .flag = "--config", .value = "FILE",
              .help = "configuration file [$TENDON_CONFIG, ./config.toml, "
                      "~/.config/tendon/config.toml]"),
    TN_STRINGS("set", GLOBALS, set, .flag = "--set", .value = "KEY=VALUE",
               .help = "set section.key of the configuration; may be given several times"),
    TN_STRING("state", GLOBALS, state, .flag = "--state", .value = "DIR",
              .help = "state directory [~/.local/state/tendon]"),
    TN_STRING("runtime", GLOBALS, runtime, .flag = "--runtime", .letter = 'r', .value = "NAME",
              .help = "backend of new sandboxes: jail, docker, local, cli, ..."),
    TN_BOOL("json", GLOBALS, json, .flag = "--json",
            .help = "print JSON: results on standard output, errors on standard error"),
    TN_BOOL("quiet", GLOBALS, quiet, .flag = "--quiet", .letter = 'q',
            .help = "no progress and no notes"),
};
const struct tn_fields global_fields = TN_FIELDS(rows);

struct cli_private {
    struct tn_config config;
    bool loaded;
    struct tn_runtime *runtime;
};

void cli_init(struct cli *cli, const struct globals *given)
{
    *cli = (struct cli){.globals = *given, .json = given->json, .quiet = given->quiet};
    cli->private = tn_calloc(1, sizeof *cli->private);
}

void cli_done(struct cli *cli)
{
    tn_runtime_close(cli->private->runtime);
    if (cli->private->loaded)
        tn_config_done(&cli->private->config);
    free(cli->private);
    tn_fields_done(&global_fields, &cli->globals);
}

/* --- configuration and runtime ------------------------------------------------------------- */

static int set_pair(struct tn_config *config, const char *pair, struct tn_error *err)
{
    const char *equals = strchr(pair, '=');

    if (!equals)
        return tn_fail(err, TN_E_INVALID, "--set %s: expected section.key=value", pair);
    tn_autofree char *name = tn_strndup(pair, (size_t)(equals - pair));
    return tn_config_set(config, name, equals + 1, err);
}

static int set_flags(struct tn_config *config, const struct globals *g, struct tn_error *err)
{
    for (size_t i = 0; i < g->set.count; i++)
        if (set_pair(config, g->set.items[i], err) < 0)
            return -1;
    if (g->state && tn_config_set(config, "tendon.state", g->state, err) < 0)
        return -1;
    return g->runtime ? tn_config_set(config, "tendon.runtime", g->runtime, err) : 0;
}

static void show_warning(const char *text, void *ctx)
{
    cli_note(ctx, "%s", text);
}

const struct tn_config *cli_config(struct cli *cli, struct tn_error *err)
{
    struct cli_private *p = cli->private;

    if (p->loaded)
        return &p->config;
    if (tn_config_load(&p->config, cli->globals.config, err) < 0)
        return NULL;
    if (set_flags(&p->config, &cli->globals, err) < 0) {
        tn_config_done(&p->config);
        return NULL;
    }
    p->loaded = true;
    tn_config_warnings(&p->config, show_warning, cli);
    return &p->config;
}

struct tn_runtime *cli_runtime_for(struct cli *cli, const struct tn_spec *expect,
                                   struct tn_error *err)
{
    struct cli_private *p = cli->private;
    const struct tn_config *config = cli_config(cli, err);

    if (!config)
        return NULL;
    if (!p->runtime)
        p->runtime = tn_runtime_open(&(struct tn_runtime_options){.config = config,
                                                                  .progress = progress_say,
                                                                  .expect = expect,
                                                                  .ask = ask_at_terminal,
                                                                  .ask_ctx = cli},
                                     err);
    return p->runtime;
}

struct tn_runtime *cli_runtime(struct cli *cli, struct tn_error *err)
{
    return cli_runtime_for(cli, NULL, err);
}

/* Where nothing is isolated the workspace is a directory here, and people name it from where they
 * are. */
static int find_workspace(const struct tn_config *config, struct tn_spec *spec,
                          struct tn_error *err)
{
    const char *name = spec->runtime ? spec->runtime : config->tendon.runtime;
    const struct tn_backend *backend =
        *spec->workspace == '/' ? NULL : tn_backend_find(config, name, NULL);

    if (!backend || backend->abilities & TN_CAN_ISOLATE)
        return 0;
    char *path = realpath(spec->workspace, NULL);
    if (!path)
        return tn_fail_errno(err, errno, "workspace %s", spec->workspace);
    free(spec->workspace);
    spec->workspace = path;
    return 0;
}

int cli_spec(struct cli *cli, const char *template, const struct tn_spec *given,
             struct tn_spec *spec, struct tn_error *err)
{
    const struct tn_config *config = cli_config(cli, err);
    tn_autojson struct tn_json *flags = NULL;

    tn_spec_init(spec);
    if (!config || tn_config_spec(config, template, spec, err) < 0)
        return -1;
    if (cli->globals.runtime && !given->runtime) { /* a flag weighs more than a template */
        free(spec->runtime);
        spec->runtime = tn_strdup(cli->globals.runtime);
    }
    int network = spec->network;
    if (tn_spec_tree(given, &flags, err) < 0 ||
        tn_fields_from_json(&tn_spec_fields, spec, flags, err) < 0)
        return -1;
    if (given->network == TN_NETWORK_DEFAULT)
        spec->network = network;
    if (given->plugins.items && given->plugins.count == 0 && /* none are a wish, too */
        tn_field_from_text(tn_fields_find(&tn_spec_fields, "plugins"), spec, "", err) < 0)
        return -1;
    if (given->workspace && find_workspace(config, spec, err) < 0)
        return -1;
    return tn_spec_resolve(spec, err);
}

static double seconds(struct cli *cli, bool start)
{
    const struct tn_config *config = cli_config(cli, NULL);

    if (!config)
        return 60;
    return start ? config->tendon.start_timeout : config->tendon.stop_timeout;
}

int64_t cli_start_deadline(struct cli *cli)
{
    return tn_deadline_in(seconds(cli, true));
}

int64_t cli_stop_deadline(struct cli *cli)
{
    return tn_deadline_in(seconds(cli, false));
}

/* --- sandboxes ----------------------------------------------------------------------------- */

#define HOW_TO_MAKE "there is no sandbox; make one with: tendon new"

struct census {
    struct tn_nearest near;
    char best[80]; /* what near borrows would go with its row */
    char *only;    /* the id when there is one alone */
    size_t count;
};

static void offer(struct census *c, const char *name)
{
    const char *before = c->near.best;

    if (!name)
        return;
    tn_nearest_offer(&c->near, name);
    if (c->near.best != before) {
        snprintf(c->best, sizeof c->best, "%s", name);
        c->near.best = c->best;
    }
}

static int count_sandbox(const struct tn_record *r, void *ctx)
{
    struct census *c = ctx;

    if (c->near.word) {
        offer(c, r->name);
        offer(c, r->id);
    }
    if (c->count++ == 0)
        c->only = tn_strdup(r->id);
    return 0;
}

static int unknown(const struct census *c, const char *which, struct tn_error *err)
{
    if (c->count == 0)
        return tn_fail(err, TN_E_NOT_FOUND, "no sandbox %s: " HOW_TO_MAKE, which);
    if (c->near.best)
        return tn_fail(err, TN_E_NOT_FOUND, "no sandbox %s: did you mean %s?", which, c->near.best);
    return tn_fail(err, TN_E_NOT_FOUND, "no sandbox %s: tendon ls shows what there is", which);
}

/* The only sandbox there is; the caller frees the id. */
static char *only_one(struct tn_runtime *rt, struct tn_error *err)
{
    struct census c = {0};

    if (tn_store_each(tn_runtime_store(rt), TN_STORE_CLAIMED, count_sandbox, &c, err) < 0)
        return NULL;
    if (c.count == 1)
        return c.only;
    free(c.only);
    if (c.count == 0)
        tn_fail(err, TN_E_NOT_FOUND, HOW_TO_MAKE);
    else
        tn_fail(err, TN_E_INVALID, "there are %zu sandboxes: say which one (see tendon ls)",
                c.count);
    return NULL;
}

struct tn_sandbox *cli_sandbox(struct cli *cli, const char *which, struct tn_error *err)
{
    struct tn_runtime *rt = cli_runtime(cli, err);
    tn_autofree char *only = rt && !which ? only_one(rt, err) : NULL;
    struct tn_error why = {0};

    if (!rt || (!which && !only))
        return NULL;
    struct tn_sandbox *sb = tn_sandbox_attach(rt, which ? which : only, &why);
    if (sb)
        return sb;
    if (err)
        *err = why;
    if (why.code == TN_E_NOT_FOUND && which) {
        struct census c = {.near = tn_nearest(which)};
        tn_store_each(tn_runtime_store(rt), TN_STORE_CLAIMED, count_sandbox, &c, NULL);
        if (!c.near.best || strcmp(c.near.best, which) != 0) /* else its runtime is missing */
            unknown(&c, which, err);
        free(c.only);
    }
    return NULL;
}

bool url_is_of_cluster(const char *url)
{
    const char *host = strstr(url, "://");
    size_t n = host ? strcspn(host + 3, ":/") : 0;

    return n > 4 && strncmp(host + 3 + n - 4, ".svc", 4) == 0;
}

const char *sandbox_label(const struct tn_sandbox *sb)
{
    const struct tn_record *r = tn_sandbox_record(sb);

    return r->name ? r->name : r->id;
}

/* --- printing ------------------------------------------------------------------------------ */

void cli_note(const struct cli *cli, const char *fmt, ...)
{
    tn_autofree char *text = NULL;
    va_list ap;

    if (cli->quiet || cli->json)
        return;
    progress_pause();
    va_start(ap, fmt);
    if (vasprintf(&text, fmt, ap) < 0)
        abort();
    va_end(ap);
    fputs("tendon: ", stderr);
    print_message(stderr, text);
}

void cli_warn(const struct tn_error *err)
{
    progress_pause();
    fputs("tendon: ", stderr);
    print_message(stderr, err->text);
}

int cli_print(const struct tn_buf *text, struct tn_error *err)
{
    if (!tn_buf_ok(text))
        return tn_fail(err, TN_E_TOO_LARGE, "there is too much to print");
    progress_pause();
    if (fwrite(tn_buf_str(text), 1, text->len, stdout) != text->len || putchar('\n') == EOF)
        return tn_fail_errno(err, errno, "standard output");
    return 0;
}
