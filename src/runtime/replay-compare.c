#include "runtime/replay-compare.h"

#include <regex.h>

#include "base/json.h"
#include "runtime/replay-diff.h"

#define TEXT_MAX ((size_t)256 << 20)

/* --- words ------------------------------------------------------------------------------------ */

/* Keep it short: each row can hide a difference that matters. */
static const struct {
    const char *pattern, *replacement;
} rules[] = {
    /* 2026-11-15T05:16:50.123456+01:00, 2026-11-15 05:16 */
    {"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.,][0-9]+)?)?"
     "(Z|[ ]?[+-][0-9]{2}:?[0-9]{2})?",
     "<time>"},
    /* of `date`, `ls -l` and logs: Nov 15 05:16, Sun Nov 15 05:16:50 UTC 2026 */
    {"((Mon|Tue|Wed|Thu|Fri|Sat|Sun),? )?(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) "
     "+[0-9]{1,2} +[0-9]{2}:[0-9]{2}(:[0-9]{2})?( (AM|PM))?( [A-Z]{3,4} [0-9]{4})?",
     "<time>"},
    {"[0-9]{2}:[0-9]{2}:[0-9]{2}([.,][0-9]+)?", "<time>"},
    /* 0m0.005s, 0.12 seconds, 35 ms */
    {"[0-9]+m[0-9]+[.,][0-9]+s", "<duration>"},
    {"[0-9]+([.,][0-9]+ ?(s|secs?|seconds)|([.,][0-9]+)? ?(ms|us|ns))($|[^A-Za-z0-9_])",
     "<duration>\\5"},
    /* [1] 4711, pid 4711, PID=4711 */
    {"(\\[[0-9]+\\][-+]? +)[0-9]+($|\n)", "\\1<pid>\\2"},
    {"([Pp][Ii][Dd][ =:]+)[0-9]+", "\\1<pid>"},
    /* names that mktemp(1), mkstemp(3) and Python's tempfile make */
    {"/tmp/tmp[.]?[A-Za-z0-9_]{6,}", "/tmp/<temporary>"},
    {"0x[0-9a-f]{6,16}", "<address>"},
};
enum { GROUPS = 6 };

/* Directories in which the two sessions work, as the observations tell; NULL: not known yet. */
struct compare {
    regex_t rules[TN_COUNT(rules)];
    char *recorded_directory, *replayed_directory;
};

struct compare *compare_new(void)
{
    struct compare *c = tn_calloc(1, sizeof *c);

    for (size_t i = 0; i < TN_COUNT(rules); i++)
        if (regcomp(&c->rules[i], rules[i].pattern, REG_EXTENDED))
            abort(); /* they are constants */
    return c;
}

void compare_free(struct compare *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < TN_COUNT(rules); i++)
        regfree(&c->rules[i]);
    free(c->recorded_directory);
    free(c->replayed_directory);
    free(c);
}

static void put_replacement(const char *text, const regmatch_t *match, const char *replacement,
                            struct tn_buf *out)
{
    for (const char *r = replacement; *r; r++) {
        if (*r != '\\') {
            tn_buf_putc(out, *r);
            continue;
        }
        const regmatch_t *group = &match[*++r - '0'];
        if (group->rm_so >= 0)
            tn_buf_add(out, text + group->rm_so, (size_t)(group->rm_eo - group->rm_so));
    }
}

/* Line by line: an expression then never looks far. */
static void apply_to_line(const regex_t *rule, const char *replacement, const char *line, size_t n,
                          struct tn_buf *out)
{
    size_t at = 0;

    while (at < n) {
        regmatch_t match[GROUPS] = {{.rm_so = (regoff_t)at, .rm_eo = (regoff_t)n}};
        if (regexec(rule, line, GROUPS, match, REG_STARTEND) || match[0].rm_eo <= match[0].rm_so)
            break;
        tn_buf_add(out, line + at, (size_t)match[0].rm_so - at);
        put_replacement(line, match, replacement, out);
        at = (size_t)match[0].rm_eo;
    }
    tn_buf_add(out, line + at, n - at);
}

static void apply(const regex_t *rule, const char *replacement, const struct tn_buf *in,
                  struct tn_buf *out)
{
    const char *text = tn_buf_str(in), *end = text + in->len;

    while (text < end) {
        const char *lf = memchr(text, '\n', (size_t)(end - text));
        size_t n = (size_t)((lf ? lf + 1 : end) - text);
        apply_to_line(rule, replacement, text, n, out);
        text += n;
    }
}

int compare_normalise(const struct compare *c, const char *text, size_t n, struct tn_buf *out)
{
    tn_autobuf struct tn_buf one = TN_BUF_INIT(TEXT_MAX), two = TN_BUF_INIT(TEXT_MAX);
    struct tn_buf *from = &one, *to = &two;

    tn_buf_add(from, text, n);
    for (size_t i = 0; i < TN_COUNT(rules); i++) {
        struct tn_buf *done = from;
        tn_buf_reset(to);
        apply(&c->rules[i], rules[i].replacement, from, to);
        if (!tn_buf_ok(from) || !tn_buf_ok(to))
            return -1;
        from = to;
        to = done;
    }
    return tn_buf_add(out, from->data, from->len);
}

/* --- observations ----------------------------------------------------------------------------- */

/* What no two runs have in common, and pictures. */
static const char *const ignored[] = {
    "metadata.pid",         "metadata.username",
    "metadata.hostname",    "metadata.py_interpreter_path",
    "metadata.prefix",      "metadata.suffix",
    "metadata.duration",    "metadata.user_time",
    "metadata.system_time", "metadata.peak_memory",
    "metadata.command_id",  "metadata.process",
    "metadata.output_path", "metadata.output_bytes",
    "metadata.output_size", "metadata.end",
    "screenshot",           "screenshot_path",
    "set_of_marks",         "error_id",
};

/* The two texts that are compared, while they are written. */
struct views {
    struct tn_buf recorded, replayed;
    const struct tn_json *other; /* the replayed object beside the recorded one */
    const char *prefix;
};

static bool is_ignored(const char *name)
{
    for (size_t i = 0; i < TN_COUNT(ignored); i++)
        if (strcmp(ignored[i], name) == 0)
            return true;
    return false;
}

static void put_member(struct tn_buf *out, const char *name, const struct tn_json *value)
{
    struct tn_jw w = tn_jw(out);
    size_t n;
    const char *string = tn_json_str(value, &n);

    tn_buf_printf(out, "%s: ", name);
    if (string)
        tn_buf_add(out, string, n);
    else
        tn_jw_tree(&w, value);
    tn_buf_putc(out, '\n');
}

/* Only what the recording has: other hosts know less. */
static int put_both(const char *key, struct tn_json *value, void *ctx)
{
    struct views *v = ctx;
    tn_autofree char *name = tn_asprintf("%s%s", v->prefix, key);
    const struct tn_json *other = tn_json_get(v->other, key);

    if (!value || is_ignored(name))
        return 0;
    if (tn_json_type(value) == TN_JSON_OBJECT && !*v->prefix) {
        tn_autofree char *prefix = tn_asprintf("%s.", key);
        struct views inner = *v;
        inner.prefix = prefix;
        inner.other = other;
        tn_json_each(value, put_both, &inner);
        v->recorded = inner.recorded;
        v->replayed = inner.replayed;
        return 0;
    }
    put_member(&v->recorded, name, value);
    put_member(&v->replayed, name, other);
    return 0;
}

static struct tn_json *as_tree(const struct tn_observation *o)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(TEXT_MAX);
    struct tn_jw w = tn_jw(&text);
    struct tn_json *tree = NULL;

    tn_observation_to_json(o, &w);
    if (tn_buf_ok(&text))
        tn_json_parse(text.data, text.len, &tree, NULL);
    return tree;
}

/* Without the line breaks at its end, which come and go. */
static void put_content(struct tn_buf *out, const struct tn_json *tree)
{
    size_t n;
    const char *content = tn_json_str(tn_json_get(tree, "content"), &n);

    while (n && content[n - 1] == '\n')
        n--;
    tn_buf_add(out, content, n);
    tn_buf_putc(out, '\n');
}

static void write_views(struct views *v, const struct tn_json *recorded,
                        const struct tn_json *replayed)
{
    put_member(&v->recorded, "observation", tn_json_get(recorded, "observation"));
    put_member(&v->replayed, "observation", tn_json_get(replayed, "observation"));
    v->other = tn_json_get(replayed, "extras");
    v->prefix = "";
    tn_json_each(tn_json_get(recorded, "extras"), put_both, v);
    put_content(&v->recorded, recorded);
    put_content(&v->replayed, replayed);
}

/* --- the working directory -------------------------------------------------------------------- */

static const char *working_directory(const struct tn_observation *o)
{
    return o->type == TN_OBSERVATION_RUN ? o->run.metadata.working_dir : NULL;
}

/* The first command of both tells where each session works; afterwards that place is the same. */
static void note_directories(struct compare *c, const struct tn_observation *recorded,
                             const struct tn_observation *replayed)
{
    const char *one = working_directory(recorded), *two = working_directory(replayed);

    if (c->recorded_directory || !one || !two || strlen(one) < 2 || strlen(two) < 2)
        return;
    c->recorded_directory = tn_strdup(one);
    c->replayed_directory = tn_strdup(two);
}

static bool is_part_of_name(char c)
{
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '_' ||
           c == '-';
}

/* Puts the recorded directory in the place of the replayed one. */
static void put_moved(const struct compare *c, const struct tn_buf *in, struct tn_buf *out)
{
    const char *text = tn_buf_str(in), *end = text + in->len;
    size_t n = strlen(c->replayed_directory);

    while (text < end) {
        const char *found = memmem(text, (size_t)(end - text), c->replayed_directory, n);
        if (!found)
            break;
        tn_buf_add(out, text, (size_t)(found - text));
        bool whole = found + n == end || !is_part_of_name(found[n]);
        tn_buf_puts(out, whole ? c->recorded_directory : c->replayed_directory);
        text = found + n;
    }
    tn_buf_add(out, text, (size_t)(end - text));
}

/* --- both together ---------------------------------------------------------------------------- */

static int compare_views(struct compare *c, const struct views *v, struct tn_buf *out)
{
    tn_autobuf struct tn_buf moved = TN_BUF_INIT(TEXT_MAX), recorded = TN_BUF_INIT(TEXT_MAX),
                             replayed = TN_BUF_INIT(TEXT_MAX);

    if (c->replayed_directory)
        put_moved(c, &v->replayed, &moved);
    else
        tn_buf_add(&moved, v->replayed.data, v->replayed.len);
    if (!tn_buf_ok(&v->recorded) || !tn_buf_ok(&v->replayed) || !tn_buf_ok(&moved) ||
        compare_normalise(c, tn_buf_str(&v->recorded), v->recorded.len, &recorded) ||
        compare_normalise(c, tn_buf_str(&moved), moved.len, &replayed))
        return -1;
    return replay_diff(&recorded, &replayed, out);
}

int compare_observations(struct compare *c, const struct tn_observation *recorded,
                         const struct tn_observation *replayed, struct tn_buf *out)
{
    tn_autojson struct tn_json *one = as_tree(recorded), *two = as_tree(replayed);
    struct views v = {.recorded = TN_BUF_INIT(TEXT_MAX), .replayed = TN_BUF_INIT(TEXT_MAX)};
    int failed = -1;

    note_directories(c, recorded, replayed);
    if (one && two) {
        write_views(&v, one, two);
        failed = compare_views(c, &v, out);
    }
    tn_buf_done(&v.recorded);
    tn_buf_done(&v.replayed);
    return failed;
}
