#include "image/recipe.h"

#include <ctype.h>

#include "base/nearest.h"
#include "base/sha256.h"
#include "image/reference.h"

static const struct tn_field rows[] = {
    TN_STRING("base", struct tn_recipe, base, .help = "image to build on"),
    TN_STRINGS("plugins", struct tn_recipe, plugins, .flag = "--plugin", .value = "NAME",
               .help = "jupyter, agent_skills, vscode or browser; may be given several times"),
    TN_STRINGS("packages", struct tn_recipe, packages, .flag = "--package", .value = "NAME",
               .help = "package of the image's distribution; may be given several times"),
    TN_STRING("extra_deps", struct tn_recipe, extra_deps, .flag = "--extra-deps", .value = "SCRIPT",
              .help = "shell commands to run at the end, as root"),
    TN_STRING("platform", struct tn_recipe, platform, .flag = "--platform", .value = "OS/ARCH",
              .help = "platform to build for [the engine's]"),
    TN_JSON("build_args", struct tn_recipe, build_args, .flags = TN_FIELD_MAP,
            .flag = "--build-arg", .value = "NAME=VALUE", .help = "argument of the build"),
    TN_STRINGS("tags", struct tn_recipe, tags, .flag = "--tag", .letter = 't', .value = "NAME",
               .help = "a further name for the result; may be given several times"),
};
const struct tn_fields tn_recipe_fields = TN_FIELDS(rows);

void tn_recipe_init(struct tn_recipe *r)
{
    tn_fields_defaults(&tn_recipe_fields, r);
}

void tn_recipe_done(struct tn_recipe *r)
{
    tn_fields_done(&tn_recipe_fields, r);
}

/* --- what plugins need, in the words of each package manager ------------------------------- */

enum manager { APT, APK, DNF, MANAGERS };

static const struct {
    const char *name;
    const char *packages[MANAGERS];
    const char *command; /* afterwards, or NULL */
} plugins[] = {
    {"jupyter",
     {"python3 python3-ipykernel python3-pip", "python3 py3-ipykernel py3-pip",
      "python3 python3-ipykernel python3-pip"},
     NULL},
    {"agent_skills", {"python3", "python3", "python3"}, NULL},
    {"browser",
     {"chromium fonts-liberation", "chromium ttf-liberation", "chromium liberation-fonts"},
     NULL},
    {"vscode",
     {"nodejs npm python3 make g++ libsecret-1-dev libkrb5-dev ripgrep",
      "nodejs npm python3 make g++ libsecret-dev krb5-dev ripgrep",
      "nodejs npm python3 make gcc-c++ libsecret-devel krb5-devel ripgrep"},
     "npm install --global --unsafe-perm code-server@4.100.3"},
};

/* One branch each: how to notice it, and what to do with a list of packages. */
static const struct {
    const char *program;
    const char *before, *after;
} managers[MANAGERS] = {
    [APT] = {"apt-get",
             "export DEBIAN_FRONTEND=noninteractive; apt-get update -qq && apt-get install -qq -y "
             "--no-install-recommends",
             " && rm -rf /var/lib/apt/lists/*"},
    [APK] = {"apk", "apk add --no-cache", ""},
    [DNF] = {"dnf", "dnf install -y --setopt=install_weak_deps=False", " && dnf clean all"},
};

static int plugin_index(const char *name)
{
    for (size_t i = 0; i < TN_COUNT(plugins); i++)
        if (!strcmp(plugins[i].name, name))
            return (int)i;
    return -1;
}

/* --- checks -------------------------------------------------------------------------------- */

static bool package_name(const char *s)
{
    if (!isalnum((unsigned char)*s))
        return false;
    return strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.+_:=~-") ==
           strlen(s);
}

static bool platform_name(const char *s)
{
    return *s != '/' && strchr(s, '/') &&
           strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789/._-") == strlen(s);
}

static int check_build_arg(const char *name, struct tn_json *value, void *err)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";

    if (!*name || isdigit((unsigned char)*name) || strspn(name, letters) != strlen(name))
        return tn_fail(err, TN_E_INVALID, "'%.60s' is no name of a build argument", name);
    if (tn_json_type(value) != TN_JSON_STRING)
        return tn_fail(err, TN_E_INVALID, "build argument %.60s: expected a text, found %s", name,
                       tn_json_type_name(value));
    return 0;
}

static int check_plugin(const char *name, struct tn_error *err)
{
    struct tn_nearest near = tn_nearest(name);

    if (plugin_index(name) >= 0)
        return 0;
    for (size_t i = 0; i < TN_COUNT(plugins); i++)
        tn_nearest_offer(&near, plugins[i].name);
    return tn_fail(
        err, TN_E_INVALID,
        "there is no plugin '%s'%s%s%s: known are jupyter, agent_skills, browser, vscode", name,
        near.best ? " (did you mean '" : "", near.best ? near.best : "", near.best ? "'?)" : "");
}

int tn_recipe_check(const struct tn_recipe *r, struct tn_error *err)
{
    tn_autoreference struct tn_reference reference = {0};

    if (!r->base)
        return tn_fail(err, TN_E_INVALID,
                       "no base image: name one, or set "
                       "sandbox.base_container_image");
    if (tn_reference_parse(r->base, &reference, err))
        return -1;
    for (size_t i = 0; i < r->plugins.count; i++)
        if (check_plugin(r->plugins.items[i], err))
            return -1;
    for (size_t i = 0; i < r->packages.count; i++)
        if (!package_name(r->packages.items[i]))
            return tn_fail(err, TN_E_INVALID, "'%s' is no name of a package", r->packages.items[i]);
    for (size_t i = 0; i < r->tags.count; i++) {
        tn_autoreference struct tn_reference tag = {0};
        if (tn_reference_parse(r->tags.items[i], &tag, err))
            return -1;
        if (tag.digest)
            return tn_fail(err, TN_E_INVALID, "the name '%s' for a new image cannot have a digest",
                           r->tags.items[i]);
    }
    if (r->platform && !platform_name(r->platform))
        return tn_fail(err, TN_E_INVALID, "platform '%s': expected OS/ARCH, such as linux/arm64",
                       r->platform);
    return tn_json_each(r->build_args, check_build_arg, err) ? -1 : 0;
}

bool tn_recipe_has(const struct tn_recipe *r, enum tn_recipe_step step)
{
    if (step == TN_RECIPE_PACKAGES)
        return r->plugins.count || r->packages.count;
    return r->extra_deps && *r->extra_deps;
}

/* --- the Dockerfile
 * ------------------------------------------------------------------------------- */

static void put_packages(const struct tn_recipe *r, enum manager m, struct tn_buf *out)
{
    for (size_t i = 0; i < r->plugins.count; i++)
        tn_buf_printf(out, " %s", plugins[plugin_index(r->plugins.items[i])].packages[m]);
    for (size_t i = 0; i < r->packages.count; i++)
        tn_buf_printf(out, " %s", r->packages.items[i]);
}

/* In the exec form nothing of the script is read by the builder. */
static void put_script(const char *script, struct tn_buf *out)
{
    struct tn_jw w = tn_jw(out);

    tn_buf_puts(out, "RUN ");
    tn_jw_array(&w);
    tn_jw_str(&w, "/bin/sh");
    tn_jw_str(&w, "-c");
    tn_jw_str(&w, script);
    tn_jw_array_end(&w);
    tn_buf_putc(out, '\n');
}

static void put_installation(const struct tn_recipe *r, struct tn_buf *out)
{
    tn_autobuf struct tn_buf script = TN_BUF_INIT(1 << 20);

    tn_buf_puts(&script, "set -e; ");
    for (int m = 0; m < MANAGERS; m++) {
        tn_buf_printf(&script, "%sif command -v %s >/dev/null; then %s", m ? "el" : "",
                      managers[m].program, managers[m].before);
        put_packages(r, (enum manager)m, &script);
        tn_buf_printf(&script, "%s; ", managers[m].after);
    }
    tn_buf_puts(&script, "else echo 'this image has no package manager that tendon knows "
                         "(apt-get, apk, dnf)' >&2; exit 1; fi");
    put_script(tn_buf_str(&script), out);
    for (size_t i = 0; i < r->plugins.count; i++) {
        const char *command = plugins[plugin_index(r->plugins.items[i])].command;
        if (command)
            put_script(command, out);
    }
}

/* Without it a value that is given to the build is nobody's.  The value is there, too, so that the
 * text needs nothing beside it, unless a line of a Dockerfile cannot hold it. */
static int put_arg(const char *name, struct tn_json *value, void *ctx)
{
    struct tn_buf *out = ctx;
    const char *text = tn_json_str(value, NULL);

    if (text[strcspn(text, "\r\n")]) {
        tn_buf_printf(out, "ARG %s\n", name);
        return 0;
    }
    tn_buf_printf(out, "ARG %s=\"", name);
    for (const char *c = text; *c; c++) {
        if (strchr("\"\\$", *c))
            tn_buf_putc(out, '\\');
        tn_buf_putc(out, *c);
    }
    tn_buf_puts(out, "\"\n");
    return 0;
}

void tn_recipe_put_dockerfile(const struct tn_recipe *r, enum tn_recipe_step step, const char *from,
                              const char *user, struct tn_buf *out)
{
    tn_buf_printf(out, "FROM %s\nUSER 0\n", from);
    tn_json_each(r->build_args, put_arg, out);
    if (step == TN_RECIPE_PACKAGES)
        put_installation(r, out);
    else
        put_script(r->extra_deps, out);
    if (user && *user)
        tn_buf_printf(out, "USER %s\n", user);
}

/* --- names
 * ---------------------------------------------------------------------------------------- */

static const char *given_repository(void)
{
    const char *given = getenv("OH_RUNTIME_RUNTIME_IMAGE_REPO");

    return given && *given ? given : NULL;
}

const char *tn_recipe_repository(void)
{
    const char *given = given_repository();

    return given ? given : "tendon/runtime";
}

bool tn_recipe_repository_is_given(void)
{
    return given_repository();
}

/* Each part with its length: no two different recipes feed the same bytes. */
static void add_part(struct tn_sha256 *h, const char *text)
{
    uint64_t n = text ? strlen(text) : UINT64_MAX;

    tn_sha256_add(h, &n, sizeof n);
    if (text)
        tn_sha256_add(h, text, strlen(text));
}

static void add_list(struct tn_sha256 *h, const struct tn_str_list *list)
{
    uint64_t n = list->count;

    tn_sha256_add(h, &n, sizeof n);
    for (size_t i = 0; i < list->count; i++)
        add_part(h, list->items[i]);
}

/* 16 digits of base 36, the least significant first. */
static void end_short(struct tn_sha256 *h, char out[17])
{
    unsigned char number[TN_SHA256_BYTES];

    tn_sha256_end(h, number);
    for (int i = 0; i < 16; i++) {
        unsigned rest = 0;
        for (size_t j = 0; j < sizeof number; j++) {
            unsigned value = rest << 8 | number[j];
            number[j] = (unsigned char)(value / 36);
            rest = value % 36;
        }
        out[i] = "0123456789abcdefghijklmnopqrstuvwxyz"[rest];
    }
    out[16] = '\0';
}

static void hash_packages(const struct tn_recipe *r, const char *base_id, char out[17])
{
    tn_autobuf struct tn_buf steps = TN_BUF_INIT(1 << 20), args = TN_BUF_INIT(1 << 20);
    tn_autobuf struct tn_buf base = TN_BUF_INIT(4096);
    tn_autoreference struct tn_reference reference = {0};
    struct tn_jw w = tn_jw(&args);
    struct tn_sha256 h;

    if (!tn_reference_parse(r->base, &reference, NULL))
        tn_reference_put_full(&reference, &base);
    put_installation(r, &steps);
    tn_jw_tree(&w, r->build_args);
    tn_sha256_init(&h);
    add_part(&h, tn_buf_str(&base));
    add_part(&h, base_id);
    add_part(&h, r->platform);
    add_part(&h, tn_buf_str(&args));
    add_list(&h, &r->plugins);
    add_list(&h, &r->packages);
    add_part(&h, tn_buf_str(&steps));
    end_short(&h, out);
}

static void hash_extra(const struct tn_recipe *r, char out[17])
{
    struct tn_sha256 h;

    tn_sha256_init(&h);
    add_part(&h, r->extra_deps);
    end_short(&h, out);
}

/* The base image as part of a tag: '/' is _s_, ':' is _t_, and the last 96 characters count. */
static void put_base(const char *base, struct tn_buf *out)
{
    tn_autobuf struct tn_buf name = TN_BUF_INIT(4096);

    for (const char *c = base; *c; c++) {
        if (*c == '/')
            tn_buf_puts(&name, "_s_");
        else if (*c == ':')
            tn_buf_puts(&name, "_t_");
        else
            tn_buf_putc(&name, *c == '@' ? '_' : (char)tolower((unsigned char)*c));
    }
    tn_buf_puts(out, tn_buf_str(&name) + (name.len > 96 ? name.len - 96 : 0));
}

void tn_recipe_tags(const struct tn_recipe *r, const char *base_id, struct tn_recipe_tags *out)
{
    tn_autobuf struct tn_buf base = TN_BUF_INIT(256);
    char first[17], second[17];

    hash_packages(r, base_id, first);
    hash_extra(r, second);
    put_base(r->base, &base);
    snprintf(out->step[TN_RECIPE_PACKAGES], sizeof out->step[0], "oh_v" TN_VERSION "_%s", first);
    snprintf(out->step[TN_RECIPE_EXTRA], sizeof out->step[0], "oh_v" TN_VERSION "_%s_%s", first,
             second);
    snprintf(out->versioned, sizeof out->versioned, "oh_v" TN_VERSION "_%s", tn_buf_str(&base));
}
