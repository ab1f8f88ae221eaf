#include "service/dockerfile.h"

#include <ctype.h>
#include <strings.h>

#include "base/buf.h"

/* It becomes one argument of a program, which the kernel lets have 128 KiB. */
enum { SCRIPT_MAX = 120 << 10 };
#define PROFILE "/etc/profile.d/tendon-image.sh"

void dockerfile_done(struct dockerfile *d)
{
    free(d->image);
    free(d->script);
    *d = (struct dockerfile){0};
}

struct reader {
    struct tn_buf script;
    const struct tn_json *args;
    char *image, *user; /* user NULL: the sandbox's own */
    struct tn_error *err;
};

/* --- words ----------------------------------------------------------------------------------- */

static const char *skip_blanks(const char *at)
{
    return at + strspn(at, " \t");
}

static void put_quoted(struct tn_buf *out, const char *text, size_t n)
{
    tn_buf_putc(out, '\'');
    for (size_t i = 0; i < n; i++)
        if (text[i] == '\'')
            tn_buf_puts(out, "'\\''");
        else
            tn_buf_putc(out, text[i]);
    tn_buf_putc(out, '\'');
}

/* One character of a value, for between double quotes; variables of it live, commands do not. */
static void put_inside(struct tn_buf *out, const char *at, bool live)
{
    bool variable = live && *at == '$' && (isalpha((unsigned char)at[1]) || strchr("_{", at[1]));

    if (strchr("\"`\\", *at) || (*at == '$' && !(variable && at[1])))
        tn_buf_putc(out, '\\');
    tn_buf_putc(out, *at);
}

/* The word at `at`, as a word in double quotes; whole: to the end of the line.  What follows. */
static const char *put_word(struct tn_buf *out, const char *at, bool whole)
{
    char quote = '\0';

    tn_buf_putc(out, '"');
    for (; *at && (quote || whole || !strchr(" \t", *at)); at++) {
        if (quote ? *at == quote : !whole && strchr("\"'", *at))
            quote = quote ? '\0' : *at;
        else if (*at == '\\' && at[1] && quote != '\'')
            put_inside(out, ++at, false);
        else
            put_inside(out, at, quote != '\'');
    }
    tn_buf_putc(out, '"');
    return skip_blanks(at);
}

/* How long the name of a variable at the beginning is; 0: there is none. */
static size_t name_length(const char *at)
{
    size_t n = 0;

    while (isalnum((unsigned char)at[n]) || at[n] == '_')
        n++;
    return isdigit((unsigned char)*at) ? 0 : n;
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
            put_quoted(&command, word ? word : "", word ? strlen(word) : 0);
            tn_buf_putc(&command, ' ');
        }
    else
        tn_buf_puts(&command, at);
    if (r->user)
        tn_buf_printf(&r->script, "su -s /bin/sh -c ");
    else
        tn_buf_puts(&r->script, "/bin/sh -c ");
    put_quoted(&r->script, tn_buf_str(&command), command.len);
    if (r->user)
        tn_buf_printf(&r->script, " -- %s", r->user);
    tn_buf_puts(&r->script, "\n");
    return 0;
}

/* NAME=value NAME=value, or NAME and all that follows. */
static int do_env(struct reader *r, const char *at)
{
    size_t n;

    do {
        n = name_length(at);
        bool whole = n && strchr(" \t", at[n]) && at[n];
        if (!n || (at[n] != '=' && !whole))
            return refuse(r, "ENV: expected NAME=value");
        tn_buf_printf(&r->script, "export %.*s=", (int)n, at);
        const char *next = put_word(&r->script, whole ? skip_blanks(at + n) : at + n + 1, whole);
        tn_buf_printf(&r->script, "\nprintf 'export %%s=%%q\\n' %.*s \"$%.*s\" >>" PROFILE "\n",
                      (int)n, at, (int)n, at);
        at = next;
    } while (*at);
    return 0;
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
        put_quoted(&r->script, given, strlen(given));
    else
        put_word(&r->script, at + n + 1, false);
    tn_buf_puts(&r->script, "\n");
    return 0;
}

static int do_workdir(struct reader *r, const char *at)
{
    tn_autobuf struct tn_buf word = TN_BUF_INIT(DOCKERFILE_MAX);

    put_word(&word, at, true);
    tn_buf_printf(&r->script, "mkdir -p -- %s\ncd -- %s\n", tn_buf_str(&word), tn_buf_str(&word));
    return 0;
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

static int do_copy(struct reader *r, const char *at)
{
    return refuse(r, "COPY and ADD: there is no build context here");
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

int dockerfile_read(const char *text, const struct tn_json *args, struct dockerfile *out,
                    struct tn_error *err)
{
    tn_autobuf struct tn_buf line = TN_BUF_INIT(DOCKERFILE_MAX);
    struct reader r = {.args = args, .err = err};
    int failed = strlen(text) < DOCKERFILE_MAX ? 0 : refuse(&r, "it is too large");

    tn_buf_init(&r.script, SCRIPT_MAX);
    tn_buf_puts(&r.script, "set -e\n");
    while (!failed && next_line(&text, &line))
        failed = do_line(&r, tn_buf_str(&line));
    if (!failed && !r.image)
        failed = refuse(&r, "FROM: expected an image");
    if (!failed && !tn_buf_ok(&r.script))
        failed = refuse(&r, "it is too large");
    free(r.user);
    if (failed)
        free(r.image);
    else
        *out = (struct dockerfile){.image = r.image, .script = tn_buf_take(&r.script)};
    tn_buf_done(&r.script);
    return failed ? -1 : 0;
}

/* --- images ---------------------------------------------------------------------------------- */

#define WORD_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
#define IMAGE_LETTERS WORD_LETTERS "._/:@-"

struct lister {
    struct tn_buf args;   /* " NAME=value ", those before the first FROM; "$": not known */
    struct tn_buf stages; /* " name " */
    bool begun;           /* there was a FROM */
    dockerfile_image_fn fn;
    void *ctx;
    struct tn_error *err;
};

static int no_image(struct lister *l, const char *why)
{
    return tn_fail(l->err, TN_E_INVALID, "Dockerfile: %s", why);
}

static bool is_stage(const struct lister *l, const char *name)
{
    tn_autofree char *whole = tn_asprintf(" %s ", name);

    return strcasestr(tn_buf_str((struct tn_buf *)&l->stages), whole);
}

/* The value that counts, as far as the letters of an image go; NULL: not known. */
static const char *value_of(const struct lister *l, const char *name, size_t n)
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
        const char *value = n ? value_of(l, word + 1 + braces, n) : NULL;
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
    return strcmp(name, "scratch") == 0 || is_stage(l, name) ? 0 : l->fn(name, l->ctx, l->err);
}

static int list_from(struct lister *l, const char *at)
{
    for (; strncmp(at, "--", 2) == 0; at = skip_blanks(at + strcspn(at, " \t")))
        if (strncmp(at, "--platform=", 11) != 0)
            return no_image(l, "FROM: expected --platform=... at most, before the image");
    size_t n = strcspn(at, " \t");
    const char *as = skip_blanks(at + n);
    if (take_image(l, at, n))
        return -1;
    l->begun = true;
    if (!*as)
        return 0;
    const char *stage = skip_blanks(as + 2);
    if (strncasecmp(as, "as", 2) != 0 || stage == as + 2 ||
        strspn(stage, WORD_LETTERS "._-") != strlen(stage) || !isalpha((unsigned char)*stage))
        return no_image(l, "FROM: expected an image, or an image AS name");
    tn_buf_printf(&l->stages, " %s ", stage);
    return 0;
}

/* Those before the first FROM; what is none of the letters of images is not known. */
static int list_arg(struct lister *l, const char *at)
{
    while (!l->begun && *at) {
        size_t n = name_length(at), len = strcspn(at, " \t");
        const char *value = at + n + 1;
        bool quoted = n && at[n] == '=' && *value == '"';
        size_t plain = n && at[n] == '=' ? strspn(value + quoted, IMAGE_LETTERS) : 0;
        bool known = n && at[n] == '=' && n + 1 + plain + 2 * (size_t)quoted == len &&
                     (!quoted || value[1 + plain] == '"');
        if (n)
            tn_buf_printf(&l->args, " %.*s=%.*s ", (int)n, at, known ? (int)plain : 1,
                          known ? value + quoted : "$");
        at = skip_blanks(at + len);
    }
    return 0;
}

/* The fields of --mount=type=bind,from=IMAGE */
static int list_mount(struct lister *l, const char *at, size_t len)
{
    for (const char *end = at + len; at < end;) {
        size_t n = strcspn(at, ", \t");
        if (strncasecmp(at, "from=", 5) == 0 && take_image(l, at + 5, n - 5))
            return -1;
        at += n + 1;
    }
    return 0;
}

static int list_flags(struct lister *l, const char *at, bool run)
{
    if (strstr(at, "<<"))
        return no_image(l, "here-documents, and <<, are not served here");
    for (; strncmp(at, "--", 2) == 0; at = skip_blanks(at + strcspn(at, " \t"))) {
        size_t n = strcspn(at, " \t");
        if (strcspn(at, "\"'\\") < n)
            return no_image(l, "expected flags without quotes");
        if (run && strncmp(at, "--mount=", 8) != 0)
            return no_image(l, "RUN: of flags only --mount is served here");
        int failed =
            run ? list_mount(l, at + 8, n - 8)
            : strncasecmp(at, "--from=", 7) != 0 || (strspn(at + 7, "0123456789") == n - 7 && n > 7)
                ? 0
                : take_image(l, at + 7, n - 7);
        if (failed)
            return -1;
    }
    return 0;
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
    return list_line(l, at, true);
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
    int failed =
        strlen(text) < DOCKERFILE_MAX ? check_lines(&l, text) : no_image(&l, "it is too large");
    while (!failed && next_line(&text, &line))
        failed = list_line(&l, tn_buf_str(&line), false);
    if (!failed && !l.begun)
        failed = no_image(&l, "FROM: expected an image");
    tn_buf_done(&l.args);
    tn_buf_done(&l.stages);
    return failed ? -1 : 0;
}
