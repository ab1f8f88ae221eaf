#include "service/dockerfile.h"

#include <ctype.h>
#include <strings.h>

#include "base/buf.h"
#include "service/surface.h"

/* It becomes one argument of a program, which the kernel lets have 128 KiB. */
enum { SCRIPT_MAX = 120 << 10, VALUES_MAX = 128 << 10, COPY_MOST = 65 };
#define USUAL_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define PROFILE "/etc/profile.d/tendon-image.sh"
#define TOO_MUCH "dockerfile: ENV and ARG: there is too much of it"

void dockerfile_done(struct dockerfile *d)
{
    free(d->image);
    free(d->script);
    free(d->workdir);
    tn_json_free(d->env);
    *d = (struct dockerfile){0};
}

struct dockerfile_variable {
    char *name, *value;
    bool env; /* not only for the build */
};

void dockerfile_variables_done(struct dockerfile_variables *vars)
{
    for (size_t i = 0; i < vars->count; i++) {
        free(vars->items[i].name);
        free(vars->items[i].value);
    }
    free(vars->items);
    *vars = (struct dockerfile_variables){0};
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

/* --- words ----------------------------------------------------------------------------------- */

static const char *skip_blanks(const char *at)
{
    return at + strspn(at, " \t");
}

/* One character of a value, for between double quotes; variables of it live, commands do not. */
static void put_inside(struct tn_buf *out, const char *at, bool live)
{
    bool variable = live && *at == '$' && (isalpha((unsigned char)at[1]) || strchr("_{", at[1]));

    if (strchr("\"`\\", *at) || (*at == '$' && !(variable && at[1])))
        tn_buf_putc(out, '\\');
    tn_buf_putc(out, *at);
}

/* How long the name of a variable at the beginning is; 0: there is none. */
static size_t name_length(const char *at)
{
    size_t n = 0;

    while (isalnum((unsigned char)at[n]) || at[n] == '_')
        n++;
    return isdigit((unsigned char)*at) ? 0 : n;
}

const char *dockerfile_value(const struct dockerfile_variables *vars, const char *name, size_t n)
{
    for (size_t i = vars->count; i-- > 0;)
        if (strlen(vars->items[i].name) == n && strncmp(vars->items[i].name, name, n) == 0)
            return vars->items[i].value;
    return NULL;
}

static const char *value_of(const struct dockerfile_variables *vars, const char *name, size_t n)
{
    const char *value = dockerfile_value(vars, name, n);

    return value ? value : n == 4 && strncmp(name, "PATH", n) == 0 ? USUAL_PATH : "";
}

/* One character of a value, or a variable of it; how many characters of the text that was. */
static size_t put_plain(const struct dockerfile_variables *vars, struct tn_buf *out, const char *at,
                        bool live)
{
    size_t brace = *at == '$' && at[1] == '{', n = name_length(at + 1 + brace);

    if (!live || *at != '$' || !n || (brace && at[2 + n] != '}')) {
        tn_buf_putc(out, *at);
        return 1;
    }
    tn_buf_puts(out, value_of(vars, at + 1 + brace, n));
    return 1 + n + 2 * brace;
}

/* The word at `at`: what it stands for, or (vars NULL) a word in double quotes; whole: to the end
 * of the line.  What follows. */
static const char *put_word(const struct dockerfile_variables *vars, struct tn_buf *out,
                            const char *at, bool whole)
{
    char quote = '\0';

    if (!vars)
        tn_buf_putc(out, '"');
    while (*at && (quote || whole || !strchr(" \t", *at))) {
        bool is_quote = quote ? *at == quote : !whole && strchr("\"'", *at);
        bool escaped = !is_quote && *at == '\\' && at[1] && quote != '\'';
        if (is_quote) {
            quote = quote ? '\0' : *at;
            at++;
            continue;
        }
        at += escaped;
        bool live = !escaped && quote != '\'';
        if (!vars)
            put_inside(out, at, live);
        at += vars ? put_plain(vars, out, at, live) : 1;
    }
    if (!vars)
        tn_buf_putc(out, '"');
    return skip_blanks(at);
}

/* --- instructions ---------------------------------------------------------------------------- */

static int refuse(struct reader *r, const char *why)
{
    return tn_fail(r->err, TN_E_INVALID, "dockerfile: %s", why);
}

static int do_from(struct reader *r, const char *at)
{
    for (; strncmp(at, "--", 2) == 0; at = skip_blanks(at + strcspn(at, " \t")))
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

    for (; strncmp(at, "--", 2) == 0; at = skip_blanks(at + strcspn(at, " \t")))
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

/* Keeps what the variable of that name is from here on. */
static int set_variable(struct dockerfile_variables *vars, const char *name, size_t n, char *value,
                        bool env, struct tn_error *err)
{
    vars->items = tn_realloc(vars->items, (vars->count + 1) * sizeof *vars->items);
    vars->items[vars->count++] =
        (struct dockerfile_variable){.name = tn_strndup(name, n), .value = value, .env = env};
    vars->bytes += strlen(value);
    return vars->bytes <= VALUES_MAX ? 0 : tn_fail(err, TN_E_INVALID, "%s", TOO_MUCH);
}

/* The same for the word at `at`. */
static int set_word(struct dockerfile_variables *vars, const char *name, size_t n, const char *at,
                    bool whole, bool env, struct tn_error *err)
{
    tn_autobuf struct tn_buf value = TN_BUF_INIT(VALUES_MAX);

    put_word(vars, &value, at, whole);
    return tn_buf_ok(&value) ? set_variable(vars, name, n, tn_buf_take(&value), env, err)
                             : tn_fail(err, TN_E_INVALID, "%s", TOO_MUCH);
}

int dockerfile_add_env(struct dockerfile_variables *vars, const char *at, dockerfile_env_fn fn,
                       void *ctx, struct tn_error *err)
{
    do {
        tn_autobuf struct tn_buf word = TN_BUF_INIT(VALUES_MAX);
        size_t n = name_length(at);
        bool whole = n && strchr(" \t", at[n]) && at[n];
        if (!n || (at[n] != '=' && !whole))
            return tn_fail(err, TN_E_INVALID, "dockerfile: ENV: expected NAME=value");
        const char *value = whole ? skip_blanks(at + n) : at + n + 1;
        if (set_word(vars, at, n, value, whole, true, err))
            return -1;
        at = put_word(NULL, &word, value, whole);
        const struct dockerfile_variable *v = &vars->items[vars->count - 1];
        fn(v->name, v->value, tn_buf_str(&word), ctx);
    } while (*at);
    return 0;
}

char *dockerfile_line(const struct dockerfile_variables *vars, const char *at)
{
    tn_autobuf struct tn_buf plain = TN_BUF_INIT(VALUES_MAX);

    put_word(vars, &plain, at, !strchr("\"'", *at));
    return tn_buf_take(&plain);
}

void dockerfile_escape(struct tn_buf *out, const char *text)
{
    for (; *text; text++) {
        if (strchr(" \t\"'\\$", *text))
            tn_buf_putc(out, '\\');
        tn_buf_putc(out, *text);
    }
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
    size_t n = name_length(at);
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
        put_word(NULL, &r->script, at + n + 1, false);
    tn_buf_puts(&r->script, "\n");
    return given ? set_variable(&r->vars, name, n, tn_strdup(given), false, r->err)
                 : set_word(&r->vars, name, n, at + n + 1, false, false, r->err);
}

static int do_workdir(struct reader *r, const char *at)
{
    tn_autobuf struct tn_buf word = TN_BUF_INIT(DOCKERFILE_MAX);

    put_word(NULL, &word, at, !strchr("\"'", *at));
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
    put_word(NULL, value, at + n, false);
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
            put_word(NULL, &words[n], word ? word : "", true);
        }
        return n;
    }
    while (*at && n < most) {
        tn_buf_init(&words[n], DOCKERFILE_MAX);
        at = put_word(NULL, &words[n++], at, false);
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

    for (; strncmp(at, "--", 2) == 0; at = skip_blanks(at + strcspn(at, " \t")))
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
                       : instructions[i].work(r, skip_blanks(line + n));
    return tn_fail(r->err, TN_E_INVALID, "dockerfile: '%.40s' is none that is served here", line);
}

/* The next line without comments, continued where it ends with a backslash; false: there is none.
 */
static bool next_line(const char **at, struct tn_buf *line)
{
    bool more = true;

    tn_buf_reset(line);
    while (**at && more) {
        const char *from = *at, *begin = skip_blanks(from);
        size_t n = strcspn(from, "\n"), left = n - (size_t)(begin - from);
        *at += n + ((*at)[n] == '\n');
        while (left && isspace((unsigned char)begin[left - 1]))
            left--;
        if (!left || *begin == '#')
            continue;
        more = begin[left - 1] == '\\';
        if (line->len) /* blanks before it are between words */
            left += (size_t)(begin - from), begin = from;
        tn_buf_add(line, begin, left - more);
    }
    return line->len > 0;
}

static struct tn_json *make_env(const struct reader *r, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(8 * VALUES_MAX);
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
    while (!failed && next_line(&text, &line))
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

/* --- images ---------------------------------------------------------------------------------- */

#define WORD_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
#define IMAGE_LETTERS WORD_LETTERS "._/:@-"

struct lister {
    struct tn_buf args;   /* " NAME=value ", those before the first FROM; "$": not known */
    struct tn_buf stages; /* " name ", those that have ended */
    struct tn_buf stage;  /* the same of this one, which is no source of itself */
    size_t begun;         /* how many FROM there were */
    bool later;           /* ONBUILD: this is done where the stages are others */
    dockerfile_image_fn fn;
    void *ctx;
    struct tn_error *err;
};

static int no_image(struct lister *l, const char *why)
{
    return tn_fail(l->err, TN_E_INVALID, "Dockerfile: %s", why);
}

/* 1, 0, or -1: one builder would take it for a stage, and another one for an image. */
static int is_stage(struct lister *l, const char *name)
{
    tn_autofree char *whole = tn_asprintf(" %s ", name);
    const char *stages = tn_buf_str(&l->stages);

    if (l->later || !strcasestr(stages, whole))
        return 0;
    return strstr(stages, whole) ? 1 : no_image(l, "expected the name of a stage as AS gave it");
}

/* The value that counts, as far as the letters of an image go; NULL: not known. */
static const char *default_of(const struct lister *l, const char *name, size_t n)
{
    tn_autofree char *start = tn_asprintf(" %.*s=", (int)n, name);
    const char *found = NULL, *at = tn_buf_str((struct tn_buf *)&l->args);

    while (n && (at = strstr(at, start)))
        found = at += strlen(start);
    return found && *found != '$' ? found : NULL;
}

/* The image of a word, or a stage: as it is, or by the defaults of ARG. */
static int take_image(struct lister *l, const char *word, size_t len)
{
    tn_autobuf struct tn_buf image = TN_BUF_INIT(DOCKERFILE_MAX);
    const char *end = word + len;

    while (word < end) {
        bool braces = word[0] == '$' && word[1] == '{';
        size_t n = *word == '$' ? name_length(word + 1 + braces) : 0;
        const char *value = n ? default_of(l, word + 1 + braces, n) : NULL;
        if (*word == '$' && (!value || (braces && word[2 + n] != '}')))
            return no_image(l, "an image is named by what is not known before it is built; "
                               "expected a name, or an ARG with a default before the first FROM");
        if (*word != '$' && !strchr(IMAGE_LETTERS, *word))
            return no_image(l, "expected the name of an image, without quotes");
        if (value)
            tn_buf_add(&image, value, strspn(value, IMAGE_LETTERS));
        else
            tn_buf_putc(&image, *word);
        word += *word == '$' ? 1 + n + 2 * (size_t)braces : 1;
    }
    const char *name = tn_buf_str(&image);
    if (!*name)
        return no_image(l, "expected the name of an image");
    int stage = strcmp(name, "scratch") == 0 ? 1 : is_stage(l, name);
    return stage ? (stage < 0 ? -1 : 0) : l->fn(name, l->ctx, l->err);
}

/* The image of a flag, or a stage, also by its number.  Variables have other values there. */
static int take_source(struct lister *l, const char *word, size_t len)
{
    size_t number = 0;

    if (memchr(word, '$', len))
        return no_image(l, "from=: expected an image, or a stage, without variables");
    if (!len || strspn(word, "0123456789") < len)
        return take_image(l, word, len);
    for (size_t i = 0; i < len && number < l->begun; i++)
        number = number * 10 + (size_t)(word[i] - '0');
    return !l->later && number + 1 < l->begun ? 0 : no_image(l, "from=: there is no such stage");
}

/* How long the flag at `at` is; 0: there is none.  -1: builders could think differently where it
 * ends, which for some is at every byte that is a blank in Latin-1. */
static ssize_t flag_length(struct lister *l, const char *at)
{
    size_t n = strcspn(at, " \t");

    if ((unsigned char)*at >= 0x80)
        return no_image(l, "expected flags and first arguments to begin in ASCII");
    if (strncmp(at, "--", 2) != 0)
        return 0;
    for (size_t i = 0; i < n; i++)
        if (strchr("\"'\\", at[i]) || (unsigned char)at[i] >= 0x80)
            return no_image(l, "expected flags in ASCII, without quotes");
    return (ssize_t)n;
}

static int list_from(struct lister *l, const char *at)
{
    ssize_t flag;

    tn_buf_puts(&l->stages, tn_buf_str(&l->stage));
    tn_buf_reset(&l->stage);
    for (; (flag = flag_length(l, at)) > 0; at = skip_blanks(at + flag))
        if (strncmp(at, "--platform=", 11) != 0)
            return no_image(l, "FROM: expected --platform=... at most, before the image");
    if (flag < 0)
        return -1;
    size_t n = strcspn(at, " \t");
    const char *as = skip_blanks(at + n);
    if (take_image(l, at, n))
        return -1;
    l->begun++;
    if (!*as)
        return 0;
    const char *stage = skip_blanks(as + 2);
    if (strncasecmp(as, "as", 2) != 0 || stage == as + 2 ||
        strspn(stage, WORD_LETTERS "._-") != strlen(stage) || !isalpha((unsigned char)*stage))
        return no_image(l, "FROM: expected an image, or an image AS name");
    tn_buf_printf(&l->stage, " %s ", stage);
    return strcasestr(tn_buf_str(&l->stages), tn_buf_str(&l->stage))
               ? no_image(l, "FROM: there is a stage of that name")
               : 0;
}

/* Those before the first FROM; what is none of the letters of images is not known.  Quotes could
 * hide where a word ends, and what it names. */
static int list_arg(struct lister *l, const char *at)
{
    while (!l->begun && *at) {
        size_t n = name_length(at), len = strcspn(at, " \t");
        const char *value = at + n + 1;
        bool quoted = n && at[n] == '=' && *value == '"';
        size_t plain = n && at[n] == '=' ? strspn(value + quoted, IMAGE_LETTERS) : 0;
        bool known = n && at[n] == '=' && n + 1 + plain + 2 * (size_t)quoted == len &&
                     (!quoted || value[1 + plain] == '"');
        if (!n || (at[n] != '=' && n < len))
            return no_image(l, "ARG: expected NAME, or NAME=value");
        for (size_t i = n; !known && i < len; i++)
            if (strchr("\"'\\", at[i]) || (unsigned char)at[i] >= 0x80)
                return no_image(l, "ARG: expected values in ASCII, without quotes, before FROM");
        tn_buf_printf(&l->args, " %.*s=%.*s ", (int)n, at, known ? (int)plain : 1,
                      known ? value + quoted : "$");
        at = skip_blanks(at + len);
    }
    return 0;
}

/* The fields of --mount=type=bind,from=IMAGE */
static int list_mount(struct lister *l, const char *at, size_t len)
{
    if (memchr(at, '$', len))
        return no_image(l, "RUN: expected --mount=... without variables");
    for (const char *end = at + len; at < end;) {
        size_t n = strcspn(at, ", \t");
        if (strncasecmp(at, "from=", 5) == 0 && take_source(l, at + 5, n - 5))
            return -1;
        at += n + 1;
    }
    return 0;
}

static int list_nothing_of(struct lister *l, const char *at, size_t len)
{
    return 0;
}

/* The flags that are served: what the builders that are asked know, or refuse. */
static const struct {
    const char *start; /* with a =: a value follows */
    bool run;          /* of RUN; else of COPY and ADD */
    int (*work)(struct lister *l, const char *value, size_t len);
} flags[] = {
    {"--mount=", true, list_mount},         {"--from=", false, take_source},
    {"--chown=", false, list_nothing_of},   {"--chmod=", false, list_nothing_of},
    {"--exclude=", false, list_nothing_of}, {"--link", false, list_nothing_of},
    {"--parents", false, list_nothing_of},
};

static int list_flag(struct lister *l, const char *at, size_t len, bool run)
{
    for (size_t i = 0; i < TN_COUNT(flags); i++) {
        size_t n = strlen(flags[i].start);
        if (flags[i].run == run && strncmp(at, flags[i].start, n) == 0 &&
            (len == n || flags[i].start[n - 1] == '='))
            return flags[i].work(l, at + n, len - n);
    }
    return tn_fail(l->err, TN_E_INVALID, "Dockerfile: '%.*s' is no flag that is served here",
                   len < 40 ? (int)len : 40, at);
}

static int list_flags(struct lister *l, const char *at, bool run)
{
    ssize_t n;

    if (strstr(at, "<<"))
        return no_image(l, "here-documents, and <<, are not served here");
    for (; (n = flag_length(l, at)) > 0; at = skip_blanks(at + n))
        if (list_flag(l, at, (size_t)n, run))
            return -1;
    return n < 0 ? -1 : 0;
}

static int list_run(struct lister *l, const char *at)
{
    return list_flags(l, at, true);
}

static int list_copy(struct lister *l, const char *at)
{
    return list_flags(l, at, false);
}

/* What it fetches is fetched by the engine, whatever network the steps have. */
static int list_add(struct lister *l, const char *at)
{
    if (strpbrk(at, "$\"'\\") || strstr(at, "://") || strcasestr(at, "git@"))
        return no_image(l, "ADD: expected files of the context, without quotes and variables; "
                           "COPY takes these");
    return list_flags(l, at, false);
}

static int list_nothing(struct lister *l, const char *at)
{
    return 0;
}

static int list_onbuild(struct lister *l, const char *at);

static const struct {
    const char *word;
    int (*work)(struct lister *l, const char *at);
} listed[] = {
    {"FROM", list_from},
    {"ARG", list_arg},
    {"RUN", list_run},
    {"COPY", list_copy},
    {"ADD", list_add},
    {"ONBUILD", list_onbuild},
    {"ENV", list_nothing},
    {"WORKDIR", list_nothing},
    {"USER", list_nothing},
    {"CMD", list_nothing},
    {"ENTRYPOINT", list_nothing},
    {"EXPOSE", list_nothing},
    {"LABEL", list_nothing},
    {"VOLUME", list_nothing},
    {"STOPSIGNAL", list_nothing},
    {"SHELL", list_nothing},
    {"HEALTHCHECK", list_nothing},
    {"MAINTAINER", list_nothing},
};

static int list_line(struct lister *l, const char *line, bool onbuild)
{
    size_t n = strcspn(line, " \t");

    for (size_t i = 0; i < TN_COUNT(listed); i++)
        if (strlen(listed[i].word) == n && strncasecmp(line, listed[i].word, n) == 0 &&
            !(onbuild && (listed[i].work == list_from || listed[i].work == list_onbuild)))
            return listed[i].work(l, skip_blanks(line + n));
    return tn_fail(l->err, TN_E_INVALID, "Dockerfile: '%.40s' is none that is served here", line);
}

static int list_onbuild(struct lister *l, const char *at)
{
    l->later = true;
    int failed = list_line(l, at, true);
    l->later = false;
    return failed;
}

/* Lines of which builders could think differently where they end. */
static int check_lines(struct lister *l, const char *text)
{
    for (; *text; text += strcspn(text, "\n"), text += *text == '\n') {
        size_t n = strcspn(text, "\n");
        const char *word = skip_blanks(text);
        if (n && text[n - 1] == '\r')
            n--;
        for (size_t i = 0; i < n; i++)
            if ((unsigned char)text[i] < ' ' && text[i] != '\t')
                return no_image(l, "it has control characters");
        while (n && strchr(" \t", text[n - 1]))
            n--;
        if (n > 1 && text[n - 1] == '\\' && text[n - 2] == '\\')
            return no_image(l, "a line ends with two backslashes");
        if (*word == '#' && strncasecmp(skip_blanks(word + 1), "escape", 6) == 0)
            return no_image(l, "another escape character than \\ is not served here");
    }
    return 0;
}

int dockerfile_images(const char *text, dockerfile_image_fn fn, void *ctx, struct tn_error *err)
{
    tn_autobuf struct tn_buf line = TN_BUF_INIT(DOCKERFILE_MAX);
    struct lister l = {.fn = fn, .ctx = ctx, .err = err};

    if (strncmp(text, "\xef\xbb\xbf", 3) == 0)
        text += 3;
    tn_buf_init(&l.args, 2 * DOCKERFILE_MAX);
    tn_buf_init(&l.stages, 2 * DOCKERFILE_MAX);
    tn_buf_init(&l.stage, DOCKERFILE_MAX);
    int failed =
        strlen(text) < DOCKERFILE_MAX ? check_lines(&l, text) : no_image(&l, "it is too large");
    while (!failed && next_line(&text, &line))
        failed = list_line(&l, tn_buf_str(&line), false);
    if (!failed && !l.begun)
        failed = no_image(&l, "FROM: expected an image");
    tn_buf_done(&l.args);
    tn_buf_done(&l.stages);
    tn_buf_done(&l.stage);
    return failed ? -1 : 0;
}
