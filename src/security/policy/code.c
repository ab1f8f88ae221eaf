/* What can be seen of a program in Python, or a language that looks like it: commands that it gives
 * to a shell, files that it opens, URLs.  No parser: words before a parenthesis and the strings
 * behind it; what stands in comments and in other strings is not looked at. */
#include <ctype.h>

#include "security/policy/scene.h"

enum {
    CODE_STRINGS = 16,  /* of one call that are kept */
    CODE_CALL = 4 << 10 /* bytes of one call that are looked at */
};

/* Functions by what they do with their first argument, without the module they are in. */
static const char shell_functions[] =
    "system popen getoutput getstatusoutput shell_exec passthru execSync create_subprocess_shell";
static const char word_functions[] =
    "run call Popen check_call check_output create_subprocess_exec execv execvp execl execlp spawnl "
    "spawnlp spawn spawnSync execFileSync";
static const char read_functions[] = "Path read_csv load readFileSync";
static const char write_functions[] = "writeFileSync appendFileSync";
static const char delete_functions[] = "rmtree remove unlink rmdir rmSync unlinkSync";

struct code {
    struct scene *s;
    const char *field;
    const char *start, *at, *end;
    const struct tn_call *call;
};

static bool name_byte(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '.';
}

/* Reads the string at c->at into out; false when it is none. */
static bool read_string(struct code *c, struct tn_buf *out)
{
    char quote = *c->at;
    bool triple;

    if (quote != '"' && quote != '\'')
        return false;
    triple = c->end - c->at >= 3 && c->at[1] == quote && c->at[2] == quote;
    c->at += triple ? 3 : 1;
    while (c->at < c->end) {
        if (triple
                ? c->end - c->at >= 3 && c->at[0] == quote && c->at[1] == quote && c->at[2] == quote
                : *c->at == quote)
            break;
        if (*c->at == '\n' && !triple)
            return true;
        if (*c->at == '\\' && c->at + 1 < c->end) {
            static const char from[] = "nt", to[] = "\n\t";
            const char *escape = strchr(from, *++c->at);
            tn_buf_putc(out, escape && *escape ? to[escape - from] : *c->at);
        } else {
            tn_buf_putc(out, *c->at);
        }
        c->at++;
    }
    c->at += c->end - c->at < (triple ? 3 : 1) ? c->end - c->at : (triple ? 3 : 1);
    return true;
}

/* The strings of a call, up to its closing parenthesis. */
struct arguments {
    struct tn_buf words[CODE_STRINGS];
    size_t count;
    bool list;   /* the first argument is a list of words */
    bool opaque; /* the first argument is no string, or is put together */
};

static void arguments_done(struct arguments *a)
{
    for (size_t i = 0; i < CODE_STRINGS; i++)
        tn_buf_done(&a->words[i]);
}

/* Reads a string that is an argument, with its prefix (f"", r"", b""); false when it is none. */
static bool read_word(struct code *c, struct arguments *a)
{
    bool prefix = strchr("frb", *c->at) && c->end - c->at > 1 && strchr("\"'", c->at[1]);
    bool formatted = prefix && *c->at == 'f';
    struct tn_buf *word = &a->words[a->count < CODE_STRINGS ? a->count : CODE_STRINGS - 1];

    if (prefix)
        c->at++;
    tn_buf_done(word);
    tn_buf_init(word, 1 << 20);
    if (!read_string(c, word))
        return false;
    while (c->at < c->end && isspace((unsigned char)*c->at))
        c->at++;
    /* "a" + x and "a" % x are put together */
    if (a->count == 0)
        a->opaque = formatted || c->at == c->end || !strchr(",)]", *c->at);
    a->count += a->count < CODE_STRINGS;
    return true;
}

static void read_arguments(struct code *c, struct arguments *a)
{
    int depth = 1;
    bool first = true; /* nothing was read of the first argument */

    a->opaque = true;
    while (c->at < c->end && depth) {
        if (isspace((unsigned char)*c->at)) {
            c->at++;
            continue;
        }
        if (first && *c->at == '[' && !a->list) {
            a->list = true;
            depth++;
            c->at++;
            continue;
        }
        if ((first || a->count) && read_word(c, a)) {
            first = false;
            continue;
        }
        first = false;
        depth += strchr("([{", *c->at) ? 1 : strchr(")]}", *c->at) ? -1 : 0;
        c->at++;
    }
}

static void see_arguments(struct code *c, const char *name, const char *from)
{
    TN_CLEANUP(arguments_done) struct arguments a = {0};
    struct part part;

    const char *inside = c->at, *end = c->end;
    c->end = end - c->at > CODE_CALL ? c->at + CODE_CALL : end;
    read_arguments(c, &a);
    a.opaque |= c->at == c->end && c->end != end;
    c->end = end;
    part = (struct part){c->field, from, (size_t)(c->at - from)};
    if (a.opaque && word_in(name, shell_functions) && !c->s->unread) {
        c->s->unread = "gives a shell a text that is not known before it runs";
        c->s->unread_part = part;
    }
    if (a.opaque)
        c->at = inside; /* there may be calls in it */
    if (!a.count || a.opaque)
        return;
    const char *text = pool_strdup(c->s->pool, tn_buf_str(&a.words[0]));
    if (word_in(name, shell_functions) || (word_in(name, word_functions) && !a.list)) {
        scene_add_shell(c->s, c->field, text, strlen(text), false);
    } else if (word_in(name, word_functions)) {
        tn_autobuf struct tn_buf line = TN_BUF_INIT(1 << 20);
        for (size_t i = 0; i < a.count; i++) {
            tn_buf_puts(&line, i ? " '" : "'");
            for (const char *w = tn_buf_str(&a.words[i]); *w; w++)
                tn_buf_add(&line, *w == '\'' ? "'\\''" : w, *w == '\'' ? 4 : 1);
            tn_buf_putc(&line, '\'');
        }
        scene_add_shell(c->s, c->field, tn_arena_copy(c->s->pool, tn_buf_str(&line), line.len),
                        line.len, false);
    } else if (strcmp(name, "open") == 0) {
        const char *mode = a.count > 1 ? tn_buf_str(&a.words[1]) : "r";
        scene_add_path(c->s, c->s->cwd, text, strpbrk(mode, "wax+") ? USE_WRITE : USE_READ, false,
                       c->call, part);
    } else if (word_in(name, read_functions)) {
        scene_add_path(c->s, c->s->cwd, text, USE_READ, false, c->call, part);
    } else if (word_in(name, write_functions)) {
        scene_add_path(c->s, c->s->cwd, text, USE_WRITE, false, c->call, part);
    } else if (word_in(name, delete_functions)) {
        scene_add_path(c->s, c->s->cwd, text, USE_DELETE, false, c->call, part);
    }
}

/* Whether anything is done with the arguments of a function of that name. */
static bool known_function(const char *name)
{
    return strcmp(name, "open") == 0 || word_in(name, shell_functions) ||
           word_in(name, word_functions) || word_in(name, read_functions) ||
           word_in(name, write_functions) || word_in(name, delete_functions);
}

static void see_name(struct code *c)
{
    const char *from = c->at;
    char name[64];

    for (; c->at < c->end && name_byte(*c->at); c->at++) {
        if (*c->at == '.')
            from = c->at + 1;
    }
    size_t n = (size_t)(c->at - from);
    while (c->at < c->end && *c->at == ' ')
        c->at++;
    if (c->at == c->end || *c->at != '(' || n >= sizeof name)
        return;
    c->at++;
    memcpy(name, from, n);
    name[n] = '\0';
    if (known_function(name))
        see_arguments(c, name, from);
}

/* Lines of IPython that are a shell's: `!ls`, `%%bash` and the rest of the cell. */
static void see_shell_lines(struct code *c)
{
    for (const char *line = c->start; line < c->end;) {
        const char *stop = memchr(line, '\n', (size_t)(c->end - line));
        const char *text = line;
        stop = stop ? stop : c->end;
        while (text < stop && isspace((unsigned char)*text))
            text++;
        if (strncmp(text, "%%bash", 6) == 0 || strncmp(text, "%%sh", 4) == 0) {
            if (stop < c->end)
                scene_add_shell(c->s, c->field, stop + 1, (size_t)(c->end - stop - 1), true);
            return;
        }
        if (*text == '!' && text + 1 < stop)
            scene_add_shell(c->s, c->field, text + 1, (size_t)(stop - text - 1), true);
        else if (strncmp(text, "%pip ", 5) == 0)
            scene_add_shell(c->s, c->field, text + 1, (size_t)(stop - text - 1), true);
        line = stop + 1;
    }
}

void scene_add_code(struct scene *s, const char *field, const char *text, size_t n,
                    const struct tn_call *call)
{
    struct code c = {s, field, text, text, text + n, call};
    tn_autobuf struct tn_buf ignored = TN_BUF_INIT(1 << 20);

    if (s->depth == SCENE_DEPTH) {
        s->unread = "programs within programs, deeper than is looked at";
        s->unread_part = (struct part){field, text, n};
        return;
    }
    s->depth++;
    if (!call)
        see_shell_lines(&c);
    while (c.at < c.end) {
        if (*c.at == '"' || *c.at == '\'') {
            tn_buf_reset(&ignored);
            read_string(&c, &ignored);
        } else if (*c.at == '#') {
            while (c.at < c.end && *c.at != '\n')
                c.at++;
        } else if (name_byte(*c.at)) {
            see_name(&c);
        } else {
            c.at++;
        }
    }
    scene_add_urls(s, text, n, call, (struct part){field, text, n});
    s->depth--;
}
