#include "image/build.h"

#include "base/sha256.h"
#include "image/context.h"
#include "image/reference.h"
#include "net/url.h"

#define MAX_QUERY (64u << 10)
#define MAX_DOCKERFILE (4u << 20)

/* Output kept for the error of a failed build. */
#define LAST_WORDS 1500

void tn_built_done(struct tn_built *b)
{
    free(b->image);
    free(b->id);
    free(b->dockerfile);
    *b = (struct tn_built){0};
}

static void tell(const struct tn_build_options *o, const char *fmt, ...) TN_PRINTF(2, 3);
static void tell(const struct tn_build_options *o, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    if (!o->progress)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    o->progress(text, o->ctx);
}

/* --- looking ------------------------------------------------------------------------------- */

static void show_pull(const struct tn_engine_progress *p, void *ctx)
{
    const struct tn_build_options *o = ctx;

    if (p->total > 0)
        tell(o, "%s %s: %d%%", p->id ? p->id : "", p->status ? p->status : "",
             (int)(100 * p->current / p->total));
    else if (p->status)
        tell(o, "%s%s%s", p->id ? p->id : "", p->id ? " " : "", p->status);
}

/* The image's description: 1, 0 when it is not here (nor, if that is allowed, elsewhere), or -1.
 * *why is then the reason of a pull that failed. */
static int look_for(struct tn_engine *e, const struct tn_recipe *r, const char *image, bool pull,
                    const struct tn_build_options *o, struct tn_json **out, int64_t deadline,
                    struct tn_error *why)
{
    struct tn_error err = {0};

    if (!e)
        return 0;
    if (!tn_engine_image(e, image, out, deadline, &err))
        return 1;
    if (err.code == TN_E_NOT_FOUND && pull && !o->dry_run) {
        tell(o, "pulling %s", image);
        if (!tn_engine_pull(e, image, &(struct tn_engine_pull){.platform = r->platform}, show_pull,
                            (void *)o, deadline, &err))
            return tn_engine_image(e, image, out, deadline, why) ? -1 : 1;
        *why = err;
        return 0;
    }
    *why = err;
    return err.code == TN_E_NOT_FOUND ? 0 : -1;
}

static char *named(const char *tag)
{
    return tn_asprintf("%s:%s", tn_recipe_repository(), tag);
}

/* A user name out of a foreign image goes into our text: only if it is one. */
static const char *user_of(const struct tn_json *image)
{
    const char *user = tn_json_get_str(tn_json_get(image, "Config"), "User", "");

    return user[strspn(user, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-")]
               ? NULL
               : user;
}

/* --- building
 * ------------------------------------------------------------------------------------- */

struct build {
    const struct tn_build_options *options;
    struct tn_buf line;  /* of the output, not yet complete */
    struct tn_buf words; /* the last of it */
};

static void take_line(struct build *b)
{
    if (b->line.len)
        tell(b->options, "%s", tn_buf_str(&b->line));
    tn_buf_add(&b->words, tn_buf_str(&b->line), b->line.len);
    tn_buf_putc(&b->words, '\n');
    if (b->words.len > LAST_WORDS)
        tn_buf_eat(&b->words, b->words.len - LAST_WORDS);
    tn_buf_reset(&b->line);
}

static void show_build(const struct tn_engine_progress *p, void *ctx)
{
    struct build *b = ctx;

    if (p->status && !p->stream)
        show_pull(p, (void *)b->options);
    for (const char *c = p->stream ? p->stream : ""; *c; c++) {
        if (*c == '\n')
            take_line(b);
        else
            tn_buf_putc(&b->line, *c);
    }
}

static void put_pair(struct tn_buf *query, const char *name, const char *value)
{
    tn_buf_printf(query, "%s%s=", query->len ? "&" : "", name);
    tn_url_encode(query, value, "");
}

static void put_labels(struct tn_buf *query, const struct tn_recipe *r)
{
    tn_autobuf struct tn_buf labels = TN_BUF_INIT(MAX_QUERY), plugins = TN_BUF_INIT(4096);
    struct tn_jw w = tn_jw(&labels);

    for (size_t i = 0; i < r->plugins.count; i++)
        tn_buf_printf(&plugins, "%s%s", i ? "," : "", r->plugins.items[i]);
    tn_jw_object(&w);
    tn_jw_kstr(&w, TN_IMAGE_LABEL, TN_VERSION);
    tn_jw_kstr(&w, TN_IMAGE_LABEL_BASE, r->base);
    tn_jw_kstr(&w, TN_IMAGE_LABEL_PLUGINS, tn_buf_str(&plugins));
    tn_jw_object_end(&w);
    put_pair(query, "labels", tn_buf_str(&labels));
}

/* Docker takes one after the other, Podman a JSON list. */
static void put_hosts(struct tn_buf *query, const struct tn_str_list *hosts, bool as_list)
{
    tn_autobuf struct tn_buf list = TN_BUF_INIT(MAX_QUERY);
    struct tn_jw w = tn_jw(&list);

    tn_jw_array(&w);
    for (size_t i = 0; i < hosts->count; i++) {
        tn_jw_str(&w, hosts->items[i]);
        if (!as_list)
            put_pair(query, "extrahosts", hosts->items[i]);
    }
    tn_jw_array_end(&w);
    if (as_list && hosts->count)
        put_pair(query, "extrahosts", tn_buf_str(&list));
}

static int run_build(struct tn_engine *e, const struct tn_recipe *r,
                     const struct tn_build_options *o, const char *image, const char *dockerfile,
                     int64_t deadline, struct tn_error *err)
{
    tn_autocontext struct tn_context *context = tn_context_new(dockerfile, o->context, err);
    tn_autobuf struct tn_buf query = TN_BUF_INIT(MAX_QUERY), args = TN_BUF_INIT(MAX_QUERY);
    struct tn_jw w = tn_jw(&args);
    struct build b = {
        .options = o, .line = TN_BUF_INIT(64 << 10), .words = TN_BUF_INIT(LAST_WORDS + (65 << 10))};

    if (!context)
        return -1;
    put_pair(&query, "t", image);
    put_pair(&query, "forcerm", "1");
    if (o->force)
        put_pair(&query, "nocache", "1");
    if (r->platform)
        put_pair(&query, "platform", r->platform);
    if (r->build_args) {
        tn_jw_tree(&w, r->build_args);
        put_pair(&query, "buildargs", tn_buf_str(&args));
    }
    if (o->network)
        put_pair(&query, "networkmode", o->network);
    put_hosts(&query, &o->hosts, strcmp(tn_engine_info(e)->name, "podman") == 0);
    put_labels(&query, r);
    int failed = !tn_buf_ok(&query)
                     ? tn_fail(err, TN_E_TOO_LARGE, "the build arguments are too long")
                     : tn_engine_build(e, tn_buf_str(&query), tn_context_read, context, -1,
                                       show_build, &b, 0, deadline, err);
    if (b.line.len)
        take_line(&b);
    if (failed && b.words.len) {
        struct tn_error why = err ? *err : (struct tn_error){0};
        size_t most = sizeof why.text / 2;
        const char *words = tn_buf_str(&b.words);
        tn_fail(err, why.code, "%.200s\n%s", why.text,
                words + (b.words.len > most ? b.words.len - most : 0));
    }
    tn_buf_done(&b.line);
    tn_buf_done(&b.words);
    return failed ? tn_error_context(err, "build of %s", image) : 0;
}

static int add_tag(struct tn_engine *e, const char *image, const char *name, int64_t deadline,
                   struct tn_error *err)
{
    tn_autoreference struct tn_reference r = {0};

    if (tn_reference_parse(name, &r, err))
        return -1;
    tn_autofree char *repository =
        tn_asprintf("%s%s%s", r.host ? r.host : "", r.host ? "/" : "", r.path);
    return tn_engine_tag(e, image, repository, r.tag ? r.tag : "latest", deadline, err);
}

/* --- deciding
 * ------------------------------------------------------------------------------------- */

struct work {
    struct tn_engine *engine;
    const struct tn_recipe *recipe;
    const struct tn_build_options *options;
    int64_t deadline;
    const char *user;    /* of the base image */
    struct tn_buf texts; /* Dockerfiles of what was built */
    char *image;         /* what there is so far */
};

/* The image of that step: found, or built upon what there is. */
static int take_step(struct work *k, enum tn_recipe_step step, const char *tag,
                     struct tn_error *err)
{
    tn_autofree char *image = named(tag);
    tn_autobuf struct tn_buf text = TN_BUF_INIT(MAX_DOCKERFILE);
    tn_autojson struct tn_json *found = NULL;
    struct tn_error why = {0};
    /* Somebody else's image of that name is not ours: only a repository of the user's is asked. */
    bool pull = k->options->pull && tn_recipe_repository_is_given();
    int there = k->options->force ? 0
                                  : look_for(k->engine, k->recipe, image, pull, k->options, &found,
                                             k->deadline, &why);

    if (there < 0) {
        if (err)
            *err = why;
        return -1;
    }
    if (!there) {
        tn_recipe_put_dockerfile(k->recipe, step, k->image, k->user, &text);
        tn_buf_add(&k->texts, text.data, text.len);
        if (!tn_buf_ok(&text) || !tn_buf_ok(&k->texts))
            return tn_fail(err, TN_E_TOO_LARGE, "the recipe is too long");
        if (!k->options->dry_run &&
            run_build(k->engine, k->recipe, k->options, image, tn_buf_str(&text), k->deadline, err))
            return -1;
    }
    free(k->image);
    k->image = TN_TAKE_PTR(image);
    return 0;
}

static int take_steps(struct work *k, const struct tn_recipe_tags *tags, struct tn_error *err)
{
    for (int step = 0; step < TN_RECIPE_STEPS; step++)
        if (tn_recipe_has(k->recipe, (enum tn_recipe_step)step) &&
            take_step(k, (enum tn_recipe_step)step, tags->step[step], err))
            return -1;
    return 0;
}

/* The names people know it by. */
static int name_it(struct work *k, const struct tn_recipe_tags *tags, struct tn_error *err)
{
    tn_autofree char *version = named(tags->versioned);

    if (k->texts.len && add_tag(k->engine, k->image, version, k->deadline, err))
        return -1;
    for (size_t i = 0; i < k->recipe->tags.count; i++)
        if (add_tag(k->engine, k->image, k->recipe->tags.items[i], k->deadline, err))
            return -1;
    return 0;
}

/* What the tags follow from besides the recipe, on the heap: the base image, and the files that are
 * sent along.  (These with their times and in the order of the directory: files that were touched
 * cost a build, files that were changed are never missed.) */
static char *ground(const char *base_id, const char *directory, struct tn_error *err)
{
    tn_autocontext struct tn_context *context =
        directory ? tn_context_new("", directory, err) : NULL;
    char bytes[16 << 10], hex[2 * TN_SHA256_BYTES + 1];
    struct tn_sha256 h;
    ssize_t n;

    if (!directory)
        return tn_strdup(base_id ? base_id : "");
    if (!context)
        return NULL;
    tn_sha256_init(&h);
    while ((n = tn_context_read(bytes, sizeof bytes, context, err)) > 0)
        tn_sha256_add(&h, bytes, (size_t)n);
    if (n < 0)
        return NULL;
    tn_sha256_end_hex(&h, hex);
    return tn_asprintf("%s %s", base_id ? base_id : "", hex);
}

int tn_image_build(struct tn_engine *e, const struct tn_recipe *r, const struct tn_build_options *o,
                   struct tn_built *out, int64_t deadline, struct tn_error *err)
{
    tn_autojson struct tn_json *base = NULL, *made = NULL;
    struct tn_recipe_tags tags;
    struct tn_error why = {0};

    *out = (struct tn_built){0};
    if (tn_recipe_check(r, err))
        return -1;
    int there = look_for(e, r, r->base, o->pull, o, &base, deadline, &why);
    if (there != 1 && !(there == 0 && o->dry_run)) {
        if (err)
            *err = why;
        return tn_error_context(err, "base image %s", r->base);
    }
    tn_autofree char *on = ground(tn_json_get_str(base, "Id", NULL), o->context, err);
    if (!on)
        return -1;
    tn_recipe_tags(r, on, &tags);
    struct work k = {.engine = e,
                     .recipe = r,
                     .options = o,
                     .deadline = deadline,
                     .user = user_of(base),
                     .texts = TN_BUF_INIT(2 * MAX_DOCKERFILE),
                     .image = tn_strdup(r->base)};
    int failed = take_steps(&k, &tags, err) || (!o->dry_run && name_it(&k, &tags, err)) ||
                 (!o->dry_run && tn_engine_image(e, k.image, &made, deadline, err));
    out->image = k.image;
    out->how = k.texts.len ? "built" : strcmp(k.image, r->base) ? "found" : "base";
    out->dockerfile = k.texts.len ? tn_buf_take(&k.texts) : NULL;
    out->id = tn_strdup_or_null(tn_json_get_str(made, "Id", NULL));
    tn_buf_done(&k.texts);
    if (failed)
        tn_built_done(out);
    return failed ? -1 : 0;
}

/* --- for others ---------------------------------------------------------------------------- */

/* The steps as stages, each upon the one before. */
static int put_stages(const struct tn_recipe *r, struct tn_buf *out, struct tn_error *err)
{
    tn_autofree char *from =
        r->platform ? tn_asprintf("--platform=%s %s", r->platform, r->base) : tn_strdup(r->base);

    for (int step = 0; step < TN_RECIPE_STEPS; step++) {
        if (!tn_recipe_has(r, (enum tn_recipe_step)step))
            continue;
        tn_autofree char *stage = tn_asprintf("%s AS step%d", from, step);
        tn_recipe_put_dockerfile(r, (enum tn_recipe_step)step, stage, NULL, out);
        free(from);
        from = tn_asprintf("step%d", step);
    }
    return tn_buf_ok(out) ? 0 : tn_fail(err, TN_E_TOO_LARGE, "the recipe is too long");
}

static int check_one_line(const char *name, struct tn_json *value, void *err)
{
    return strpbrk(tn_json_str(value, NULL), "\r\n")
               ? tn_fail(err, TN_E_UNSUPPORTED,
                         "build argument %.60s: a Dockerfile cannot hold its line breaks", name)
               : 0;
}

int tn_image_describe(const struct tn_recipe *r, const struct tn_build_options *o,
                      const char *prefix, struct tn_built *out, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(2 * MAX_DOCKERFILE);
    struct tn_recipe_tags tags;

    *out = (struct tn_built){.how = "base"};
    if (tn_recipe_check(r, err) || tn_json_each(r->build_args, check_one_line, err))
        return -1;
    tn_autofree char *on = ground(NULL, o->context, err);
    if (!on || put_stages(r, &text, err))
        return -1;
    if (!text.len) {
        out->image = tn_strdup(r->base);
        return 0;
    }
    bool extra = tn_recipe_has(r, TN_RECIPE_EXTRA);
    tn_recipe_tags(r, on, &tags);
    const char *tag = tags.step[extra ? TN_RECIPE_EXTRA : TN_RECIPE_PACKAGES];
    out->image = prefix ? tn_asprintf("%s/runtime:%s", prefix, tag) : named(tag);
    out->dockerfile = tn_buf_take(&text);
    out->how = "built";
    return 0;
}
