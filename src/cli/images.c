#include <time.h>

#include "cli/engine.h"
#include "cli/table.h"
#include "cli/units.h"
#include "cli/verb.h"
#include "image/build.h"

/* What the engine may take to answer. */
#define SECONDS 60.0

struct images_options {
    bool prune;
};

static const struct tn_field rows[] = {
    TN_BOOL("prune", struct images_options, prune, .flag = "--prune",
            .help = "remove those that no container uses"),
};
static const struct tn_fields options_table = TN_FIELDS(rows);

static const struct table_column columns[] = {
    {"IMAGE", false}, {"BASE", false}, {"PLUGINS", false}, {"SIZE", true}, {"AGE", true},
};

/* The i-th of the names that an image really has, or NULL: one that lost its name is called
 * <none>. */
static const char *real_name(const struct tn_json *image, size_t i)
{
    const struct tn_json *names = tn_json_get(image, "RepoTags");

    for (size_t at = 0; at < tn_json_count(names); at++) {
        const char *name = tn_json_str(tn_json_at(names, at), NULL);
        if (name && strcmp(name, "<none>:<none>") != 0 && i-- == 0)
            return name;
    }
    return NULL;
}

/* The first name of an image, or its id. */
static const char *name_of(const struct tn_json *image)
{
    const char *name = real_name(image, 0);

    return name ? name : tn_json_get_str(image, "Id", "");
}

static const char *label(const struct tn_json *image, const char *name)
{
    return tn_json_get_str(tn_json_get(image, "Labels"), name, "");
}

static void print_table(const struct tn_json *images)
{
    autotable struct table *t = table_new(columns, TN_COUNT(columns));
    double now = (double)time(NULL);

    for (size_t i = 0; i < tn_json_count(images); i++) {
        const struct tn_json *image = tn_json_at(images, i);
        char size[32], age[32];

        table_cell(t, name_of(image), NULL);
        table_cell(t, label(image, TN_IMAGE_LABEL_BASE), NULL);
        table_cell(t, label(image, TN_IMAGE_LABEL_PLUGINS), NULL);
        table_cell(t, format_bytes(tn_json_int(tn_json_get(image, "Size"), -1), size), NULL);
        table_cell(t, format_age(now - tn_json_double(tn_json_get(image, "Created"), now), age),
                   NULL);
    }
    table_print(t);
}

static void put_json(const struct tn_json *images, struct tn_buf *out)
{
    struct tn_jw w = tn_jw(out);

    tn_jw_array(&w);
    for (size_t i = 0; i < tn_json_count(images); i++) {
        const struct tn_json *image = tn_json_at(images, i);
        tn_jw_object(&w);
        tn_jw_kstr(&w, "id", tn_json_get_str(image, "Id", ""));
        tn_jw_key(&w, "names");
        tn_jw_array(&w);
        for (size_t j = 0; real_name(image, j); j++)
            tn_jw_str(&w, real_name(image, j));
        tn_jw_array_end(&w);
        tn_jw_kstr(&w, "base", label(image, TN_IMAGE_LABEL_BASE));
        tn_jw_kstr(&w, "plugins", label(image, TN_IMAGE_LABEL_PLUGINS));
        tn_jw_kint(&w, "size", tn_json_int(tn_json_get(image, "Size"), -1));
        tn_jw_kint(&w, "created", tn_json_int(tn_json_get(image, "Created"), 0));
        tn_jw_object_end(&w);
    }
    tn_jw_array_end(&w);
}

/* Whether it is gone: without force the engine refuses what a container uses.  -1 with err. */
static int remove_by(struct tn_engine *engine, const char *name, int64_t deadline,
                     struct tn_error *err)
{
    struct tn_error why = {0};

    if (!tn_engine_image_remove(engine, name, false, deadline, &why) ||
        why.code == TN_E_NOT_FOUND) /* with one that was built on it */
        return 1;
    if (why.code == TN_E_CONFLICT)
        return 0;
    *err = why;
    return -1;
}

/* All names of an image must go, and one without a name goes by its id. */
static int remove_image(struct tn_engine *engine, const struct tn_json *image, int64_t deadline,
                        struct tn_error *err)
{
    int removed = 1;

    if (!real_name(image, 0))
        return remove_by(engine, tn_json_get_str(image, "Id", ""), deadline, err);
    for (size_t i = 0; real_name(image, i) && removed >= 0; i++) {
        int one = remove_by(engine, real_name(image, i), deadline, err);
        removed = one < removed ? one : removed;
    }
    return removed;
}

static int prune(struct cli *cli, struct tn_engine *engine, const struct tn_json *images,
                 int64_t deadline, struct tn_error *err)
{
    for (size_t i = 0; i < tn_json_count(images); i++) {
        const struct tn_json *image = tn_json_at(images, i);
        int removed = remove_image(engine, image, deadline, err);
        if (removed < 0)
            return -1;
        cli_note(cli, "%s %s", removed ? "removed" : "in use:", name_of(image));
    }
    return 0;
}

static int run(struct cli *cli, const void *given, struct tn_error *err)
{
    static const char *const ours[] = {"label", TN_IMAGE_LABEL, NULL};
    const struct images_options *options = given;
    int64_t deadline = tn_deadline_in(SECONDS);
    tn_autoengine struct tn_engine *engine = cli_engine(cli, deadline, err);
    tn_autojson struct tn_json *images = NULL;
    tn_autobuf struct tn_buf text = TN_BUF_INIT(64 << 20);

    if (!engine) {
        tn_error_context(err, "images that `tendon build` makes are kept by a container engine "
                              "(jails need none: --image takes a directory or a tar)");
        return -1;
    }
    if (tn_engine_images(engine, ours, &images, deadline, err))
        return -1;
    if (options->prune)
        return prune(cli, engine, images, deadline, err);
    if (cli->json) {
        put_json(images, &text);
        return cli_print(&text, err);
    }
    print_table(images);
    return 0;
}

const struct verb verb_images = {
    .name = "images",
    .group = VERB_SYSTEM,
    .summary = "list the runtime images that were built here, or remove unused ones",
    .options = &options_table,
    .options_size = sizeof(struct images_options),
    .doing = "asking the container engine",
    .run = run,
};
