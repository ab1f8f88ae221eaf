#include "service/dockerfile.h"

#include <ctype.h>
#include <strings.h>

#include "service/dockerfile-words.h"
#include "service/surface.h"

/* It becomes one argument of a program, which the kernel lets have 128 KiB. */
enum { SCRIPT_MAX = 120 << 10, COPY_MOST = 65 };
#define PROFILE "/etc/profile.d/tendon-image.sh"

void dockerfile_done(struct dockerfile *d)
{
    free(d->image);
    free(d->script);
    free(d->workdir);
    tn_json_free(d->env);
    *d = (struct dockerfile){0};
}

struct reader {
    struct tn_buf script;
    const struct tn_json *args;
    const char *context; /* NULL: none */
    char *image, *user;  /* user NULL: the sandbox's own */
    char *workdir;       /* NULL: nobody has said */
    struct dockerfile_variables vars;
    struct tn_error *err;
};

static void reader_done(struct reader *r)
{
    dockerfile_variables_done(&r->vars);
    free(r->user);
    free(r->image);
    free(r->workdir);
    tn_buf_done(&r->script);
}

/* --- instructions ---------------------------------------------------------------------------- */

static int refuse(struct reader *r, const char *why)
{
    return tn_fail(r->err, TN_E_INVALID, "dockerfile: %s", why);
}

static int do_from(struct reader *r, const char *at)
{
    for (; strncmp(at, "--", 2) == 0; at = dockerfile_skip_blanks(at + strcspn(at, " \t")))
        ;
    if (r->image)
        return refuse(r, "FROM: there is one already, and stages are not served here");
    r->image = tn_strndup(at, strcspn(at, " \t"));
    return *r->image ? 0 : refuse(r, "FROM: expected an image");
}

/* The command is run by a shell of its own, or (["a", "b"]) without one. */
static int do_run(struct reader *r, const char *at)
{
    tn_autobuf struct tn_buf command = TN_BUF_INIT(DOCKERFILE_MAX);
    tn_autojson struct tn_json *words = NULL;

    for (; strncmp(at, "--", 2) == 0; at = dockerfile_skip_blanks(at + strcspn(at, " \t")))
        ;
    if (!*at || strncmp(at, "<<", 2) == 0)
        return refuse(r, "RUN: expected a command, in the same line");
    if (*at == '[' && tn_json_parse(at, strlen(at), &words, NULL) == 0)
        for (size_t i = 0; i < tn_json_count(words); i++) {
            const char *word = tn_json_str(tn_json_at(words, i), NULL);
            surface_add_quoted(&command, word ? word : "", word ? strlen(word) : 0);
            tn_buf_putc(&command, ' ');
        }
    else
        tn_buf_puts(&command, at);
    if (r->user)
        tn_buf_printf(&r->script, "su -s /bin/sh -c ");
    else
        tn_buf_puts(&r->script, "/bin/sh -c ");
    surface_add_quoted(&r->script, tn_buf_str(&command), command.len);
    if (r->user)
        tn_buf_printf(&r->script, " -- %s", r->user);
    tn_buf_puts(&r->script, "\n");
    return 0;
}

static void export_env(const char *name, const char *value, const char *word, void *script)
{
    tn_buf_printf(script, "export %s=%s\nprintf 'export %%s=%%q\\n' %s \"$%s\" >>" PROFILE "\n",
                  name, word, name, name);
}

static int do_env(struct reader *r, const char *at)
{
    return dockerfile_add_env(&r->vars, at, export_env, &r->script, r->err);
}

static int do_arg(struct reader *r, const char *at)
{
    size_t n = dockerfile_name_length(at);
    tn_autofree char *name = tn_strndup(at, n);
    const char *given = tn_json_get_str(r->args, name, NULL);

    if (!n || (at[n] && at[n] != '='))
        return refuse(r, "ARG: expected NAME or NAME=value");
    if (!given && !at[n])
        return 0;
    tn_buf_printf(&r->script, "export %s=", name);
    if (given)
        surface_add_quoted(&r->script, given, strlen(given));
    else
        dockerfile_put_word(NULL, &r->script, at + n + 1, false);
    tn_buf_puts(&r->script, "\n");
    return given ? dockerfile_set(&r->vars, name, n, tn_strdup(given), false, r->err)
                 : dockerfile_set_word(&r->vars, name, n, at + n + 1, false, false, r->err);
}

static int do_workdir(struct reader *r, const char *at)
{
    tn_autobuf struct tn_buf word = TN_BUF_INIT(DOCKERFILE_MAX);

    dockerfile_put_word(NULL, &word, at, !strchr("\"'", *at));
    tn_buf_printf(&r->script, "mkdir -p -- %s\ncd -- %s\n", tn_buf_str(&word), tn_buf_str(&word));
    tn_autofree char *path = dockerfile_line(&r->vars, at);
    char *now =
        *path == '/' ? tn_strdup(path) : tn_asprintf("%s/%s", r->workdir ? r->workdir : "", path);
    free(r->workdir);
    r->workdir = now;
    return strlen(now) < DOCKERFILE_MAX ? 0 : refuse(r, "WORKDIR: too long");
}

static int do_user(struct reader *r, const char *at)
{
    size_t n = strcspn(at, ": \t");

    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)at[i]) && !(i && strchr("-_.", at[i])))
            n = 0;
    if (!n)
        return refuse(r, "USER: expected a name");
    free(TN_TAKE_PTR(r->user));
    if (!(n == 4 && strncmp(at, "root", n) == 0) && !(n == 1 && *at == '0'))
        r->user = tn_strndup(at, n);
    return 0;
}

static int do_nothing(struct reader *r, const char *at)
{
    return 0;
}

const char dockerfile_copy[] =
    "tn_copy() (\n"
    "set -e; o=$1 m=$2 t=$3; root=$(cd \"$4\"; pwd -P)\n"
    "case $t in /*) ;; *) t=$PWD/$t;; esac\n"
    "shift 4; cd \"$root\"; IFS=; n=0; into=\n"
    "for s; do for f in ./$s; do n=$((n + 1)); done; done\n"
    "case $t in */) into=1;; esac\n"
    "if [ -d \"$t\" ] || [ $n -gt 1 ]; then into=1; fi\n"
    "for s; do for f in ./$s; do\n"
    "  r=$(realpath \"$f\")\n"
    "  case $r in \"$root\"|\"$root\"/*) ;; *)\n"
    "    echo \"COPY $s: it leads out of the build context\" >&2; exit 1;; esac\n"
    "  [ -z \"$m\" ] || chmod -R \"$m\" \"$r\"\n"
    "  [ -z \"$o\" ] || chown -R \"$o\" \"$r\"\n"
    "  if [ -d \"$r\" ]; then mkdir -p \"$t\"; cp -a \"$r/.\" \"$t/\"\n"
    "  elif [ -n \"$into\" ]; then mkdir -p \"$t\"; cp -a \"$r\" \"$t/${f##*/}\"\n"
    "  else mkdir -p \"$(dirname \"$t\")\"; cp -a \"$r\" \"$t\"; fi\n"
    "done; done\n"
    ")\n";

/* --chown=, --chmod=: its value as a word, if it stands at `at`. */
static bool take_option(const char *at, const char *name, struct tn_buf *value)
{
    size_t n = strlen(name);

    if (strncmp(at, name, n) != 0)
        return false;
    tn_buf_reset(value);
    dockerfile_put_word(NULL, value, at + n, false);
    return true;
}

/* The words after the options, each between double quotes; how many. */
static size_t copy_words(struct tn_buf words[], size_t most, const char *at)
{
    tn_autojson struct tn_json *list = NULL;
    size_t n = 0;

    if (*at == '[' && tn_json_parse(at, strlen(at), &list, NULL) == 0) {
        for (; n < tn_json_count(list) && n < most; n++) {
            const char *word = tn_json_str(tn_json_at(list, n), NULL);
            tn_buf_init(&words[n], DOCKERFILE_MAX);
            dockerfile_put_word(NULL, &words[n], word ? word : "", true);
        }
        return n;
    }
    while (*at && n < most) {
        tn_buf_init(&words[n], DOCKERFILE_MAX);
        at = dockerfile_put_word(NULL, &words[n++], at, false);
    }
    return n;
}

/* The one image that nearly all who copy from one mean: its programs are on PyPI as well. */
#define UV_OPTION "--from=ghcr.io/astral-sh/uv"
#define UV_PLACE "/tmp/.tendon-uv"

/* Adds what makes the programs of that tag, a version, to be copied from UV_PLACE. */
static int add_uv(struct reader *r, struct tn_buf *script, const char *tag)
{
    tn_autofree char *version = tn_strndup(tag, strcspn(tag, " \t"));
    bool latest = !*version || strcmp(version, ":latest") == 0;
    bool dotted = *version == ':' && isdigit((unsigned char)version[1]) &&
                  !version[1 + strspn(version + 1, "0123456789.")];
    const char *dot = strchr(version, '.');
    bool exact = dot && strchr(dot + 1, '.');

    if (!latest && !dotted)
        return refuse(r, "COPY --from: of the image of uv it is `latest` or a version");
    tn_buf_printf(script,
                  "%srm -rf " UV_PLACE "\npython3 -m pip install --quiet --no-deps"
                  " --disable-pip-version-check --target " UV_PLACE " 'uv%s%s%s'\n",
                  dockerfile_copy, latest ? "" : "==", latest ? "" : version + 1,
                  latest || exact ? "" : ".*");
    return 0;
}

int dockerfile_add_copy(struct tn_buf *script, const char *context, const char *at,
                        struct tn_error *err)
{
    struct reader r = {.err = err};
    tn_autobuf struct tn_buf owner = TN_BUF_INIT(DOCKERFILE_MAX),
                             mode = TN_BUF_INIT(DOCKERFILE_MAX);
    struct tn_buf words[COPY_MOST];
    const char *uv = NULL;
    int failed = 0;

    for (; strncmp(at, "--", 2) == 0; at = dockerfile_skip_blanks(at + strcspn(at, " \t")))
        if (strncmp(at, UV_OPTION, sizeof UV_OPTION - 1) == 0)
            uv = at + sizeof UV_OPTION - 1;
        else if (!take_option(at, "--chown=", &owner) && !take_option(at, "--chmod=", &mode) &&
                 strncmp(at, "--link", 6) != 0)
            return refuse(&r, "COPY and ADD: --chown, --chmod and --link are served here");
    if (!uv && !context)
        return refuse(&r, "COPY and ADD: there is no build context here");
    if (uv && add_uv(&r, script, uv))
        return -1;
    context = uv ? UV_PLACE "/bin" : context;
    size_t n = copy_words(words, COPY_MOST, at);
    if (n < 2 || n == COPY_MOST || strncmp(at, "<<", 2) == 0)
        failed = refuse(&r, "COPY and ADD: expected sources and where they go");
    for (size_t i = 0; !failed && i + 1 < n; i++)
        if (strstr(tn_buf_str(&words[i]), "://"))
            failed = refuse(&r, "ADD: nothing is fetched: RUN can");
    if (!failed)
        tn_buf_printf(script, "tn_copy %s %s %s '%s'", owner.len ? tn_buf_str(&owner) : "''",
                      mode.len ? tn_buf_str(&mode) : "''", tn_buf_str(&words[n - 1]), context);
    for (size_t i = 0; i < n; i++) {
        if (!failed && i + 1 < n)
            tn_buf_printf(script, " %s", tn_buf_str(&words[i]));
        tn_buf_done(&words[i]);
    }
    tn_buf_puts(script, uv ? "\nrm -rf " UV_PLACE "\n" : "\n");
    return failed;
}

static int do_copy(struct reader *r, const char *at)
{
    return dockerfile_add_copy(&r->script, r->context, at, r->err);
}

static const struct {
    const char *word;
    int (*work)(struct reader *r, const char *at);
} instructions[] = {
    {"FROM", do_from},
    {"RUN", do_run},
    {"ENV", do_env},
    {"ARG", do_arg},
    {"WORKDIR", do_workdir},
    {"USER", do_user},
    {"COPY", do_copy},
    {"ADD", do_copy},
    {"CMD", do_nothing},
    {"ENTRYPOINT", do_nothing},
    {"EXPOSE", do_nothing},
    {"LABEL", do_nothing},
    {"VOLUME", do_nothing},
    {"STOPSIGNAL", do_nothing},
    {"HEALTHCHECK", do_nothing},
    {"MAINTAINER", do_nothing},
};

static int do_line(struct reader *r, const char *line)
{
    size_t n = strcspn(line, " \t");

    for (size_t i = 0; i < TN_COUNT(instructions); i++)
        if (strlen(instructions[i].word) == n && strncasecmp(line, instructions[i].word, n) == 0)
            return !r->image && instructions[i].work != do_from && instructions[i].work != do_arg
                       ? refuse(r, "it does not begin with FROM")
                       : instructions[i].work(r, dockerfile_skip_blanks(line + n));
    return tn_fail(r->err, TN_E_INVALID, "dockerfile: '%.40s' is none that is served here", line);
}

static struct tn_json *make_env(const struct reader *r, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(8 * DOCKERFILE_VALUES_MAX);
    struct tn_jw w = tn_jw(&text);
    struct tn_json *env = NULL;

    tn_jw_object(&w);
    for (size_t i = 0; i < r->vars.count; i++)
        if (r->vars.items[i].env)
            tn_jw_kstr(&w, r->vars.items[i].name, r->vars.items[i].value);
    tn_jw_object_end(&w);
    return tn_json_parse(tn_buf_str(&text), text.len, &env, err) ? NULL : env;
}

int dockerfile_read(const char *text, const struct tn_json *args, const char *context,
                    struct dockerfile *out, struct tn_error *err)
{
    tn_autobuf struct tn_buf line = TN_BUF_INIT(DOCKERFILE_MAX);
    struct reader r = {.args = args, .context = context, .err = err};
    int failed = strlen(text) < DOCKERFILE_MAX ? 0 : refuse(&r, "it is too large");

    tn_buf_init(&r.script, SCRIPT_MAX);
    tn_buf_printf(&r.script, "set -e\n%s", context ? dockerfile_copy : "");
    while (!failed && dockerfile_next_line(&text, &line))
        failed = do_line(&r, tn_buf_str(&line));
    if (!failed && !r.image)
        failed = refuse(&r, "FROM: expected an image");
    if (!failed && !tn_buf_ok(&r.script))
        failed = refuse(&r, "it is too large");
    struct tn_json *env = failed ? NULL : make_env(&r, err);
    if (env)
        *out = (struct dockerfile){.image = TN_TAKE_PTR(r.image),
                                   .script = tn_buf_take(&r.script),
                                   .workdir = TN_TAKE_PTR(r.workdir),
                                   .env = env};
    reader_done(&r);
    return env ? 0 : -1;
}
