#include "image/build.h"
#include "cli/engine.h"
#include "cli/progress.h"
#include "cli/verb.h"

struct build_options {
    struct tn_recipe recipe;
    char *context;
    bool force, pull, dry_run;
    double timeout;
};

static const struct tn_field rows[] = {
    TN_STRING("base", struct build_options, recipe.base, .flags = TN_FIELD_POSITIONAL,
              .value = "BASE", .help = "image to build on [sandbox.base_container_image]"),
    TN_OBJECT("recipe", struct build_options, recipe, &tn_recipe_fields),
    TN_STRING("context", struct build_options, context, .flag = "--context", .value = "DIR",
              .help = "directory whose files the build may use"),
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
