#include "image/build.h"
#include "cli/engine.h"
#include "cli/progress.h"
#include "cli/verb.h"
#include "image/folder.h"
#include "image/hand-image.h"
#include "image/remote.h"
#include "runtime/programs.h"

struct build_options {
    struct tn_recipe recipe;
    char *context, *network;
    struct tn_str_list hosts, hands;
    char *output;
    int builder;
    bool force, pull, dry_run, hand_image, push;
    double timeout;
};

#define HAND_IMAGE "tendon-hand:" TN_VERSION

static const char *const builder_words[] = {"engine", "remote", NULL};
enum { BUILDER_ENGINE, BUILDER_REMOTE };

static const struct tn_field rows[] = {
    TN_STRING("base", struct build_options, recipe.base, .flags = TN_FIELD_POSITIONAL,
              .value = "BASE",
              .help = "image to build on [sandbox.base_container_image]; with --hand-image the "
                      "name of the result [" HAND_IMAGE "]"),
    TN_OBJECT("recipe", struct build_options, recipe, &tn_recipe_fields),
    TN_WORD("builder", struct build_options, builder, builder_words, .fallback = "engine",
            .flag = "--builder", .value = "WORD",
            .help = "who builds: the container engine here, or the runtime service of "
                    "sandbox.remote_runtime_api_url"),
    TN_STRING("output", struct build_options, output, .flag = "--output", .letter = 'o',
              .value = "DIR",
              .help = "write the Dockerfile and the files it needs there instead; needs no "
                      "engine; with --hand-image the archive to write, FILE.tar"),
    TN_BOOL("hand_image", struct build_options, hand_image, .flag = "--hand-image",
            .help = "make the image that is the hand alone, for clusters; needs no engine"),
    TN_STRINGS("hands", struct build_options, hands, .flag = "--hand", .value = "FILE",
               .help = "static tendon-hand for --hand-image; several of different architectures "
                       "make one image for all of them [this machine's]"),
    TN_BOOL("push", struct build_options, push, .flag = "--push",
            .help = "send the image of --hand-image to its registry"),
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

/* --- arguments that OpenHands would pass to `docker buildx build` -------------------------- */

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

/* What docker's users type first. No image has such a name. */
static int check_base(const char *base, struct tn_error *err)
{
    if (!base || (*base != '.' && *base != '/'))
        return 0;
    return tn_fail(err, TN_E_INVALID,
                   "'%s': a directory is not built as in docker; here: docker build -t NAME DIR, "
                   "then tendon build NAME",
                   base);
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

/* --- other builders ------------------------------------------------------------------------ */

/* For whoever builds it by other means. */
static int write_folder(const struct build_options *options, const struct tn_build_options *how,
                        struct tn_built *built, struct tn_error *err)
{
    if (tn_image_describe(&options->recipe, how, NULL, built, err) < 0)
        return -1;
    if (!built->dockerfile)
        built->dockerfile = tn_asprintf("FROM %s\n", built->image);
    return tn_folder_write(options->output, built->dockerfile, options->context, err);
}

static struct tn_web *open_service(const struct tn_config_sandbox *c, struct tn_error *err)
{
    if (!c->remote_runtime_api_url || !*c->remote_runtime_api_url || !c->api_key || !*c->api_key) {
        tn_fail(err, TN_E_INVALID,
                "--builder remote: set sandbox.remote_runtime_api_url and sandbox.api_key");
        return NULL;
    }
    tn_autofree char *base = tn_strdup(c->remote_runtime_api_url);
    for (size_t n = strlen(base); n && base[n - 1] == '/'; n--)
        base[n - 1] = '\0';
    struct tn_web *web = tn_web_new(&(struct tn_web_options){.base = base}, err);
    if (web && tn_web_header(web, "X-API-Key", c->api_key, err) < 0) {
        tn_web_free(web);
        return NULL;
    }
    return web;
}

static int build_remotely(const struct tn_config *config, const struct build_options *options,
                          const struct tn_build_options *how, struct tn_built *built,
                          int64_t deadline, struct tn_error *err)
{
    if (options->network || options->hosts.count || options->recipe.platform)
        return tn_fail(err, TN_E_UNSUPPORTED,
                       "--builder remote: the service chooses network, hosts and platform");
    tn_autoweb struct tn_web *web = open_service(&config->sandbox, err);
    tn_autofree char *prefix = web ? tn_remote_registry_prefix(web, deadline, err) : NULL;
    if (!prefix || tn_image_describe(&options->recipe, how, prefix, built, err) < 0)
        return -1;
    int there = how->force || !built->dockerfile
                    ? 0
                    : tn_remote_image_exists(web, built->image, deadline, err);
    if (there < 0)
        return -1;
    if (there)
        built->how = "found";
    if (there || !built->dockerfile || how->dry_run)
        return 0;
    tn_autocontext struct tn_context *context =
        tn_context_new(built->dockerfile, how->context, err);
    const struct tn_remote_build order = {.context = context,
                                          .image = built->image,
                                          .tags = (const char *const *)options->recipe.tags.items,
                                          .tag_count = options->recipe.tags.count,
                                          .progress = how->progress};
    char *image = NULL;
    if (!context || tn_remote_build(web, &order, &image, deadline, err) < 0)
        return -1;
    free(built->image);
    built->image = image;
    return 0;
}

/* --- the hand's own image --------------------------------------------------------------------- */

static void put_hand_result(const struct tn_hand_image *image, const char *name, struct tn_buf *out)
{
    struct tn_jw w = tn_jw(out);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "image", name);
    tn_jw_kstr(&w, "digest", tn_hand_image_index(image)->digest);
    tn_jw_key(&w, "architectures");
    tn_jw_array(&w);
    for (size_t i = 0; i < image->count; i++)
        if (image->blobs[i].architecture)
            tn_jw_str(&w, image->blobs[i].architecture);
    tn_jw_array_end(&w);
    tn_jw_object_end(&w);
}

static int build_hand_image(struct cli *cli, const struct build_options *options,
                            const struct tn_config *config, struct tn_error *err)
{
    tn_autofree char *hand = tn_program_find("tendon-hand", config->tendon.hand, err);
    const struct tn_str_list ours = {&hand, 1},
                             *hands = options->hands.count ? &options->hands : &ours;
    const char *wanted = options->recipe.base ? options->recipe.base : HAND_IMAGE;
    tn_autobuf struct tn_buf name = TN_BUF_INIT(4096), text = TN_BUF_INIT(64 << 10);
    tn_autohandimage struct tn_hand_image image = {0};
    tn_autoreference struct tn_reference reference = {0};

    if (!options->output && !options->push && !options->dry_run)
        return tn_fail(err, TN_E_INVALID,
                       "--hand-image: where to? --output FILE.tar, --push, or both");
    if (options->push && !options->recipe.base)
        return tn_fail(err, TN_E_INVALID,
                       "--push: name the image, REGISTRY/NAME:TAG, before --hand-image");
    if ((hands == &ours && !hand) || tn_reference_parse(wanted, &reference, err) < 0)
        return -1;
    if (reference.digest)
        return tn_fail(err, TN_E_INVALID, "%s: the digest follows from the hand", wanted);
    if (!reference.tag)
        reference.tag = tn_strdup(TN_VERSION);
    tn_reference_put(&reference, &name);
    if (tn_hand_image_make(hands, &image, err) < 0)
        return -1;
    if (options->output && !options->dry_run &&
        tn_hand_image_write(&image, &reference, options->output, err) < 0)
        return -1;
    progress_begin("pushing");
    int failed = options->push && !options->dry_run
                     ? tn_hand_image_push(&image, &reference, tn_deadline_in(options->timeout), err)
                     : 0;
    progress_end();
    if (failed)
        return -1;
    if (cli->json)
        put_hand_result(&image, tn_buf_str(&name), &text);
    else
        tn_buf_printf(&text, "%s@%s", tn_buf_str(&name), tn_hand_image_index(&image)->digest);
    return cli_print(&text, err);
}

/* A dry run has no need of an engine, but one that is there knows what need not be built. */
static int build_here(struct cli *cli, const struct build_options *options,
                      const struct tn_build_options *how, struct tn_built *built, int64_t deadline,
                      struct tn_error *err)
{
    struct tn_error why = {0};
    tn_autoengine struct tn_engine *engine = cli_engine(cli, deadline, &why);

    if (!engine && !how->dry_run) {
        *err = why;
        return -1;
    }
    if (!engine)
        cli_note(cli, "no container engine was asked what is there already: %s", why.text);
    return tn_image_build(engine, &options->recipe, how, built, deadline, err);
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
    if (options->hand_image)
        return build_hand_image(cli, options, config, err);
    if (options->push || options->hands.count)
        return tn_fail(err, TN_E_INVALID, "--push and --hand are for --hand-image");
    if (complete_extra(options, &config->sandbox.runtime_extra_build_args, err) < 0)
        return -1;
    complete(&options->recipe, config);
    if (check_base(options->recipe.base, err) || tn_recipe_check(&options->recipe, err))
        return -1;
    progress_begin("building");
    struct tn_build_options how = {.force = options->force || config->sandbox.force_rebuild_runtime,
                                   .pull = options->pull,
                                   .dry_run = options->dry_run,
                                   .context = options->context,
                                   .network = options->network,
                                   .hosts = options->hosts,
                                   .progress = progress_say};
    int failed = options->output ? write_folder(options, &how, &built, err)
                 : options->builder == BUILDER_REMOTE
                     ? build_remotely(config, options, &how, &built, deadline, err)
                     : build_here(cli, options, &how, &built, deadline, err);
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
        "base image is the runtime image.\n"
        "With --hand-image it makes the image that clusters take the hand from, of nothing but\n"
        "the hand and, if it lies beside it, the gate of pods (tendon-gate-pod): the same hand\n"
        "makes the same digest.",
    .options = &options_table,
    .options_size = sizeof(struct build_options),
    .run = run,
};
