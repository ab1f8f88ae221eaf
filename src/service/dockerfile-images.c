/* The images that builders of containers would take something from. */
#include <ctype.h>
#include <strings.h>

#include "service/dockerfile-words.h"

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
        size_t n = *word == '$' ? dockerfile_name_length(word + 1 + braces) : 0;
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
    for (; (flag = flag_length(l, at)) > 0; at = dockerfile_skip_blanks(at + flag))
        if (strncmp(at, "--platform=", 11) != 0)
            return no_image(l, "FROM: expected --platform=... at most, before the image");
    if (flag < 0)
        return -1;
    size_t n = strcspn(at, " \t");
    const char *as = dockerfile_skip_blanks(at + n);
    if (take_image(l, at, n))
        return -1;
    l->begun++;
    if (!*as)
        return 0;
    const char *stage = dockerfile_skip_blanks(as + 2);
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
        size_t n = dockerfile_name_length(at), len = strcspn(at, " \t");
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
        at = dockerfile_skip_blanks(at + len);
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
    for (; (n = flag_length(l, at)) > 0; at = dockerfile_skip_blanks(at + n))
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
            return listed[i].work(l, dockerfile_skip_blanks(line + n));
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
        const char *word = dockerfile_skip_blanks(text);
        if (n && text[n - 1] == '\r')
            n--;
        for (size_t i = 0; i < n; i++)
            if ((unsigned char)text[i] < ' ' && text[i] != '\t')
                return no_image(l, "it has control characters");
        while (n && strchr(" \t", text[n - 1]))
            n--;
        if (n > 1 && text[n - 1] == '\\' && text[n - 2] == '\\')
            return no_image(l, "a line ends with two backslashes");
        if (*word == '#' && strncasecmp(dockerfile_skip_blanks(word + 1), "escape", 6) == 0)
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
    while (!failed && dockerfile_next_line(&text, &line))
        failed = list_line(&l, tn_buf_str(&line), false);
    if (!failed && !l.begun)
        failed = no_image(&l, "FROM: expected an image");
    tn_buf_done(&l.args);
    tn_buf_done(&l.stages);
    tn_buf_done(&l.stage);
    return failed ? -1 : 0;
}
