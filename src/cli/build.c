#include "image/build.h"
#include "cli/engine.h"
#include "cli/progress.h"
#include "cli/verb.h"

struct build_options {
    struct tn_recipe recipe;
    char *context, *network;
    struct tn_str_list hosts;
    bool force, pull, dry_run;
    double timeout;
};

static const struct tn_field rows[] = {
    TN_STRING("base", struct build_options, recipe.base, .flags = TN_FIELD_POSITIONAL,
              .value = "BASE", .help = "image to build on [sandbox.base_container_image]"),
    TN_OBJECT("recipe", struct build_options, recipe, &tn_recipe_fields),
    TN_STRING("context", struct build_options, context, .flag = "--context", .value = "DIR",
              .help = "directory whose files ONBUILD steps of the base may use"),
    TN_STRING("network", struct build_options, network, .flag = "--network", .value = "NAME",
              .help = "network that steps of the build see: none, host, ... [the engine's choice]"),
    TN_STRINGS("hosts", struct build_options, hosts, .flag = "--add-host", .value = "NAME:ADDRESS",
               .help = "host to be known while it is built; may be given several times"),
    TN_BOOL("force", struct build_options, force, .flag = "--force", .letter = 'f',
            .help = "build all of it, whatever exists"),
    TN_BOOL("pull", struct build_options, pull, .flag = "--pull", .fallback = "true",
            .help = "pull images that are not here"),
    TN_BOOL("dry_run", struct build_options, dry_run, .flag = "--dry-run", .letter = 'n',
            .help = "print the Dockerfile and the name, and change nothing"),
    TN_DOUBLE("timeout", struct build_options, timeout, .flag = "--timeout", .value = "S",
              .fallback = "3600", .min = 1, .max = 1e6, .help = "seconds the build may take"),
};
static const struct tn_fields options_table = TN_FIELDS(rows);

/* What the configuration says, where the command line says nothing. */
static void complete(struct tn_recipe *r, const struct tn_config *config)
{
    const struct tn_config_sandbox *s = &config->sandbox;

    if (!r->base)
        r->base = tn_strdup_or_null(s->base_container_image);
    if (!r->extra_deps)
        r->extra_deps = tn_strdup_or_null(s->runtime_extra_deps);
    if (!r->platform)
        r->platform = tn_strdup_or_null(s->platform);
}

/* --- arguments that OpenHands would pass to `docker buildx build` -------------------------------
 */

struct extra {
    struct tn_json *build_args;
    char *platform, *network;
    struct tn_str_list hosts;
    bool no_cache;
};

static const struct tn_field extra_rows[] = {
    TN_JSON("build_args", struct extra, build_args, .flags = TN_FIELD_MAP, .flag = "--build-arg"),
    TN_STRING("platform", struct extra, platform, .flag = "--platform"),
    TN_STRING("network", struct extra, network, .flag = "--network"),
    TN_STRINGS("hosts", struct extra, hosts, .flag = "--add-host"),
    TN_BOOL("no_cache", struct extra, no_cache, .flag = "--no-cache"),
};
static const struct tn_fields extra_table = TN_FIELDS(extra_rows);

struct merge {
    struct tn_jw w;
    const struct tn_json *before; /* whose values count */
};

static int add_missing(const char *name, struct tn_json *value, void *ctx)
{
    struct merge *m = ctx;

    if (!tn_json_has(m->before, name))
        tn_jw_kstr(&m->w, name, tn_json_str(value, NULL));
    return 0;
}

static int merge_args(struct tn_json **into, const struct tn_json *more, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(1 << 20);
    struct merge m = {.w = tn_jw(&text)};
    struct tn_json *merged = NULL;

    tn_jw_object(&m.w);
    tn_json_each(*into, add_missing, &m);
    m.before = *into;
    tn_json_each(more, add_missing, &m);
    tn_jw_object_end(&m.w);
    if (tn_json_parse(tn_buf_str(&text), text.len, &merged, err) < 0)
        return -1;
    tn_json_free(*into);
    *into = merged;
    return 0;
}

/* Where the command line says nothing. */
static int complete_extra(struct build_options *options, const struct tn_str_list *words,
                          struct tn_error *err)
{
    struct tn_recipe *r = &options->recipe;
    struct extra x;

    tn_fields_defaults(&extra_table, &x);
    int failed = tn_fields_from_argv(&extra_table, &x, (int)words->count, words->items, err);
    if (!failed && x.build_args)
        failed = merge_args(&r->build_args, x.build_args, err);
    if (!failed && !r->platform)
        r->platform = TN_TAKE_PTR(x.platform);
    if (!failed && !options->network)
        options->network = TN_TAKE_PTR(x.network);
    if (!failed && !options->hosts.count) {
        options->hosts = x.hosts;
        x.hosts = (struct tn_str_list){0};
    }
    if (failed > 0)
        failed = tn_fail(err, TN_E_INVALID, "--help is for people");
    options->force |= x.no_cache;
    tn_fields_done(&extra_table, &x);
    return failed ? tn_error_context(err, "sandbox.runtime_extra_build_args") : 0;
}

static void put_result(const struct tn_built *built, struct tn_buf *out)
{
    struct tn_jw w = tn_jw(out);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "image", built->image);
    tn_jw_kstr(&w, "id", built->id);
    tn_jw_kstr(&w, "how", built->how);
    tn_jw_kstr(&w, "dockerfile", built->dockerfile);
    tn_jw_object_end(&w);
}

static int run(struct cli *cli, const void *given, struct tn_error *err)
{
    struct build_options *options = (struct build_options *)given;
    const struct tn_config *config = cli_config(cli, err);
    int64_t deadline = tn_deadline_in(options->timeout);
    tn_autobuf struct tn_buf text = TN_BUF_INIT(32 << 20);
    tn_autobuilt struct tn_built built = {0};

    if (!config)
        return -1;
    if (complete_extra(options, &config->sandbox.runtime_extra_build_args, err) < 0)
        return -1;
    complete(&options->recipe, config);
    if (tn_recipe_check(&options->recipe, err))
        return -1;
    progress_begin("building");
    tn_autoengine struct tn_engine *engine = cli_engine(cli, deadline, err);
    if (!engine)
        return -1;
    struct tn_build_options how = {.force = options->force || config->sandbox.force_rebuild_runtime,
                                   .pull = options->pull,
                                   .dry_run = options->dry_run,
                                   .context = options->context,
                                   .network = options->network,
                                   .hosts = options->hosts,
                                   .progress = progress_say};
    int failed = tn_image_build(engine, &options->recipe, &how, &built, deadline, err);
    progress_end();
    if (failed)
        return -1;
    if (cli->json)
        put_result(&built, &text);
    else if (options->dry_run && built.dockerfile)
        tn_buf_printf(&text, "%s\n# %s", built.dockerfile, built.image);
    else
        tn_buf_puts(&text, built.image);
    return cli_print(&text, err);
}

const struct verb verb_build = {
    .name = "build",
    .group = VERB_SYSTEM,
    .summary = "make a runtime image from a base image, plugins and packages",
    .details =
        "Finds, pulls or builds an image that has what the plugins need, and prints its name.\n"
        "The name follows from everything that matters: the same recipe is built once.\n"
        "The hand itself needs no build: without plugins, packages and extra commands the\n"
        "base image is the runtime image.",
    .options = &options_table,
    .options_size = sizeof(struct build_options),
    .run = run,
};
