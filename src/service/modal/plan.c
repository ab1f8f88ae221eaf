/* What is to be done for an image: lines of a Dockerfile, read. */
#include "service/modal/plan.h"

#include <strings.h>

#include "service/openhands.h"

enum { SCRIPT_MAX = 1 << 20 };

static bool is_word(const char *line, const char *word, const char **rest)
{
    size_t n = strlen(word);

    if (strncasecmp(line, word, n) != 0 || (line[n] != ' ' && line[n] != '\t'))
        return false;
    *rest = line + n + strspn(line + n, " \t");
    return true;
}

static void put_env(const char *name, const char *value, const char *word, void *ctx)
{
    tn_jw_kstr(ctx, name, value);
}

char *modal_recipe_env(const char *recipe, char **workdir)
{
    tn_autobuf struct tn_buf env = TN_BUF_INIT(4 * MODAL_RECIPE_MAX);
    autovariables struct dockerfile_variables vars = {0};
    struct tn_jw w = tn_jw(&env);
    tn_autobuf struct tn_buf line = TN_BUF_INIT(MODAL_RECIPE_MAX);
    struct tn_error err;
    const char *rest;

    *workdir = NULL;
    tn_jw_object(&w);
    while (dockerfile_next_line(&recipe, &line)) {
        if (is_word(tn_buf_str(&line), "ENV", &rest)) {
            dockerfile_add_env(&vars, rest, put_env, &w, &err);
        } else if (is_word(tn_buf_str(&line), "WORKDIR", &rest)) {
            tn_autofree char *path = dockerfile_line(&vars, rest);
            char *now =
                *path == '/' || !*workdir ? tn_strdup(path) : tn_asprintf("%s/%s", *workdir, path);
            free(*workdir);
            *workdir = now;
        }
    }
    tn_jw_object_end(&w);
    return tn_buf_take(&env);
}

char *modal_recipe_workdir(const char *recipe)
{
    char *workdir;

    free(modal_recipe_env(recipe, &workdir));
    return workdir;
}

void modal_plan_done(struct modal_plan *p)
{
    modal_image_done(&p->base);
    tn_buf_done(&p->recipe);
    tn_buf_done(&p->script);
    dockerfile_variables_done(&p->vars);
    free(p->shell);
}

/* ["/bin/bash", "-c"] */
static bool set_shell(const char *text, struct modal_plan *p)
{
    tn_autobuf struct tn_buf words = TN_BUF_INIT(MODAL_RECIPE_MAX);
    tn_autojson struct tn_json *list = NULL;

    if (tn_json_parse(text, strlen(text), &list, NULL) || !tn_json_count(list))
        return false;
    for (size_t i = 0; i < tn_json_count(list); i++) {
        const char *word = tn_json_str(tn_json_at(list, i), NULL);
        if (!word)
            return false;
        tn_buf_puts(&words, i ? " " : "");
        surface_add_quoted(&words, word, strlen(word));
    }
    free(p->shell);
    p->shell = tn_buf_take(&words);
    return true;
}

static void add_command(struct modal_plan *p, const char *text)
{
    if (!p->shell) {
        tn_buf_printf(&p->script, "(%s\n)\n", text);
        return;
    }
    tn_buf_printf(&p->script, "%s ", p->shell);
    surface_add_quoted(&p->script, text, strlen(text));
    tn_buf_puts(&p->script, "\n");
}

static void plan_env(const char *name, const char *value, const char *word, void *ctx)
{
    struct modal_plan *p = ctx;

    tn_buf_printf(&p->script, "export %s=%s\n", name, word);
    tn_buf_printf(&p->recipe, "ENV %s=", name);
    dockerfile_escape(&p->recipe, value);
    tn_buf_puts(&p->recipe, "\n");
}

static void plan_workdir(const char *text, struct modal_plan *p)
{
    tn_autofree char *path = dockerfile_line(&p->vars, text);

    tn_buf_puts(&p->script, "mkdir -p -- ");
    surface_add_quoted(&p->script, path, strlen(path));
    tn_buf_puts(&p->script, "\ncd -- ");
    surface_add_quoted(&p->script, path, strlen(path));
    tn_buf_puts(&p->script, "\n");
    tn_buf_puts(&p->recipe, "WORKDIR ");
    dockerfile_escape(&p->recipe, path);
    tn_buf_puts(&p->recipe, "\n");
}

/* ENV and WORKDIR count for the commands and for the result, SHELL for commands of later ones.  1
 * when the line was one of them, 0, or -1. */
static int plan_setting(const char *line, struct modal_plan *p, struct tn_error *err)
{
    const char *rest;

    if (is_word(line, "ENV", &rest))
        return dockerfile_add_env(&p->vars, rest, plan_env, p, err) ? -1 : 1;
    if (is_word(line, "WORKDIR", &rest)) {
        plan_workdir(rest, p);
        return 1;
    }
    if (!is_word(line, "SHELL", &rest))
        return 0;
    if (!set_shell(rest, p))
        return tn_fail(err, TN_E_INVALID, "SHELL: expected a list of words");
    tn_buf_printf(&p->recipe, "%s\n", line);
    return 1;
}

static void plan_arg(const char *name, const char *value, const char *word, void *ctx)
{
    tn_buf_printf(ctx, "export %s=%s\n", name, word);
}

static int plan_from(struct modal_call *c, const Modal__Image *image, const char *name,
                     struct modal_plan *p, struct tn_error *err)
{
    if (p->base.recipe || strpbrk(name, " \t"))
        return tn_fail(err, TN_E_INVALID, "FROM: builds of several stages are not served here");
    for (size_t i = 0; i < image->n_base_images; i++)
        if (strcmp(image->base_images[i]->docker_tag ? image->base_images[i]->docker_tag : "",
                   name) == 0) {
            if (modal_use_image(c, image->base_images[i]->image_id, &p->base, err))
                return -1;
            const char *at = p->base.recipe;
            tn_autobuf struct tn_buf line = TN_BUF_INIT(MODAL_RECIPE_MAX);
            int failed = 0;
            while (failed >= 0 && dockerfile_next_line(&at, &line))
                failed = plan_setting(tn_buf_str(&line), p, err);
            return failed < 0 ? -1 : 0;
        }
    p->base.from = tn_strdup(name);
    p->base.recipe = tn_strdup("");
    return 0;
}

bool modal_has_files(const struct modal_plan *p)
{
    return p->context || p->file_count;
}

static int plan_line(struct modal_call *c, const Modal__Image *image, const char *line,
                     struct modal_plan *p, struct tn_error *err)
{
    static const char *const without[] = {"CMD",        "ENTRYPOINT", "EXPOSE",     "LABEL",
                                          "MAINTAINER", "STOPSIGNAL", "HEALTHCHECK"};
    const char *rest;
    int setting;

    if (is_word(line, "FROM", &rest))
        return plan_from(c, image, rest, p, err);
    if (is_word(line, "RUN", &rest)) {
        if (*rest == '[' || strncmp(rest, "--", 2) == 0)
            return tn_fail(err, TN_E_INVALID, "RUN: expected a command of a shell");
        p->runs = true;
        add_command(p, rest);
        return 0;
    }
    if (is_word(line, "COPY", &rest) || is_word(line, "ADD", &rest)) {
        p->runs = true;
        return dockerfile_add_copy(&p->script, modal_has_files(p) ? MODAL_CONTEXT : NULL, rest,
                                   err);
    }
    if ((setting = plan_setting(line, p, err)))
        return setting < 0 ? -1 : 0;
    if (is_word(line, "ARG", &rest)) { /* what the request says counts more */
        size_t n = strcspn(rest, "= \t");
        return rest[n] != '=' || dockerfile_value(&p->vars, rest, n)
                   ? 0
                   : dockerfile_add_env(&p->vars, rest, plan_arg, &p->script, err);
    }
    for (size_t i = 0; i < TN_COUNT(without); i++)
        if (is_word(line, without[i], &rest))
            return 0;
    return tn_fail(err, TN_E_INVALID,
                   "%.20s is not served here: FROM, RUN, COPY, ENV, ARG, SHELL and WORKDIR are",
                   line);
}

/* What stands in `debian_slim` of their clients.  Where sandboxes have the root of this machine,
 * what is in it is the operator's. */
static bool is_slim(const Modal__Image *image)
{
    for (size_t i = 0; i < image->n_dockerfile_commands; i++)
        if (strcmp(image->dockerfile_commands[i],
                   "RUN apt-get install -y gcc gfortran build-essential") == 0)
            return true;
    return false;
}

/* A box that is built is of use where others can be forked of it.  Where that cannot be, or the
 * operator's root is all there is, the steps of debian_slim are left out. */
static int plan_fork(struct modal_call *c, const Modal__Image *image, struct modal_plan *p,
                     struct tn_error *err)
{
    struct tn_error why = {0};
    struct tn_spec spec;

    if (modal_spec(c, p->base.from, NULL, NULL, &spec, err))
        return -1;
    int failed = surface_spec_can_fork(c->s, &spec, &why);
    tn_spec_done(&spec);
    if (is_slim(image) && (failed || !openhands_takes_images(c->s, NULL))) {
        p->runs = false;
        return 0;
    }
    return failed ? tn_fail(err, why.code,
                            "RUN, COPY and ADD are not served here: %s. An image that is built "
                            "elsewhere may be named",
                            why.text)
                  : 0;
}

/* A value for ARG. */
static int plan_given(struct modal_plan *p, const Modal__Pair *arg, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(2 * MODAL_RECIPE_MAX);

    tn_buf_printf(&text, "%s=", arg->key ? arg->key : "");
    dockerfile_escape(&text, arg->value ? arg->value : "");
    if (!tn_buf_ok(&text))
        return tn_fail(err, TN_E_TOO_LARGE, "build_args: there is too much of it");
    return dockerfile_add_env(&p->vars, tn_buf_str(&text), plan_arg, &p->script, err);
}

int modal_make_plan(struct modal_call *c, const Modal__Image *image, struct modal_plan *p,
                    struct tn_error *err)
{
    tn_autobuf struct tn_buf text = {.max = SCRIPT_MAX, .purse = purse_of(c->x)},
                             line = {.max = SCRIPT_MAX, .purse = purse_of(c->x)};
    int failed = 0;

    tn_buf_init(&p->recipe, MODAL_RECIPE_MAX);
    tn_buf_init(&p->script, SCRIPT_MAX);
    p->context =
        image->context_mount_id && *image->context_mount_id ? image->context_mount_id : NULL;
    p->files = image->context_files;
    p->file_count = image->n_context_files;
    tn_buf_printf(&p->script, "set -e\n%s", modal_has_files(p) ? dockerfile_copy : "");
    for (size_t i = 0; !failed && i < image->n_build_args; i++)
        failed = plan_given(p, image->build_args[i], err);
    for (size_t i = 0; i < image->n_dockerfile_commands; i++)
        tn_buf_printf(&text, "%s\n", image->dockerfile_commands[i]);
    const char *at = tn_buf_str(&text);
    while (!failed && dockerfile_next_line(&at, &line))
        failed = tn_buf_ok(&line) ? plan_line(c, image, tn_buf_str(&line), p, err)
                                  : tn_fail(err, TN_E_TOO_LARGE, "a line of the image is too long");
    if (!failed && !p->base.recipe)
        failed = tn_fail(err, TN_E_INVALID, "expected FROM");
    if (!failed && (!tn_buf_ok(&p->recipe) || !tn_buf_ok(&p->script) || !tn_buf_ok(&text)))
        failed = tn_fail(err, TN_E_TOO_LARGE, "the image says too much");
    if (modal_has_files(p))
        tn_buf_puts(&p->script, "rm -rf " MODAL_CONTEXT "\n");
    if (!failed && p->runs && p->base.from)
        failed = plan_fork(c, image, p, err);
    return failed;
}
