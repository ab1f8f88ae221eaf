/* What can be seen of a program in Python, or a language that looks like it: commands that it gives
 * to a shell, files that it opens, URLs.  No parser: words before a parenthesis and the strings
 * behind it; what stands in comments and in other strings is not looked at. */
#include <ctype.h>

#include "security/policy/scene.h"

enum {
    CODE_STRINGS = 16,   /* of one call that are kept */
    CODE_CALL = 4 << 10, /* bytes of one call that are looked at */
    CODE_BACK = 256,     /* ...and of what stands before a name */
};

/* Functions by what they do with their first argument, without the module they are in. */
static const char shell_functions[] =
    "system popen getoutput getstatusoutput shell_exec passthru execSync create_subprocess_shell "
    "readpipe capture2 capture2e capture3 popen2 popen2e popen3";
static const char word_functions[] = "run call spawn";
/* ...nobody else has functions of these names. */
static const char sure_functions[] =
    "Popen check_call check_output create_subprocess_exec execv execvp execve execvpe execl execlp "
    "execle execlpe spawnl spawnlp spawnv spawnvp spawnve spawnvpe posix_spawn posix_spawnp "
    "spawnSync execFile execFileSync proc_open pcntl_exec Command";
static const char read_functions[] = "Path read_csv load readFileSync";
static const char write_functions[] = "writeFileSync appendFileSync";
static const char delete_functions[] = "remove unlink rmdir rm";
static const char delete_sure[] =
    "rmtree rmSync rmdirSync unlinkSync rm_rf rm_r remove_dir remove_entry remove_tree";

static const char unknown_text[] = "gives a shell a text that is not known before it runs";
static const char unknown_name[] = "calls a function by a name that is not known before it runs";

struct code {
    struct scene *s;
    const char *field;
    const char *start, *at, *end;
    const struct tn_call *call;
    const char *language; /* "": not known, as Python */
    bool
        odd; /* something was there that may be a pattern or the like, where quotes are no quotes */
    bool runs;      /* it speaks of a module that runs programs */
    bool imported;  /* a function of such a module is known by its name alone */
    bool closures;  /* a variable of php may be a function of its own */
    char alias[32]; /* the name that subprocess was imported as */
};

static bool is_in(const struct code *c, const char *languages)
{
    return word_in(c->language, languages);
}

static bool is_python(const struct code *c)
{
    return !*c->language || is_in(c, "python");
}

/* exec runs a text of Python, and a command in others. */
static bool is_shell_function(const struct code *c, const char *name)
{
    return word_in(name, shell_functions) ||
           (strcmp(name, "exec") == 0 && is_in(c, "perl ruby php node bun"));
}

static void mark_unread(struct code *c, const char *why, const char *from)
{
    if (!c->s->unread) {
        c->s->unread = why;
        c->s->unread_part = (struct part){c->field, from, (size_t)(c->at - from)};
    }
}

/* Has a shell read the text, or (NULL) one that is not known.  reads: what the program prints. */
static void give_shell(struct code *c, const char *text, bool reads, const char *from)
{
    if (text) {
        tn_autofree char *line = tn_asprintf("%s%s", reads ? ": | " : "", text);
        scene_add_shell(c->s, c->field, pool_strdup(c->s->pool, line), strlen(line), false);
    } else {
        mark_unread(c, unknown_text, from);
    }
}

static bool name_byte(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '.';
}

/* Behind a backslash: \n, \x72, \u0072, \u{72}, \162; others are themselves. */
static void read_escape(struct code *c, struct tn_buf *out)
{
    static const char from[] = "nt", to[] = "\n\t";
    const char *escape = strchr(from, *++c->at), *at = c->at;
    bool octal = *at >= '0' && *at <= '7';
    char digits[9] = "";
    size_t n = 0;

    at += octal ? 0 : strchr("xuU", *at) ? 1 : 0;
    at += at > c->at && at < c->end && *at == '{';
    size_t most = octal ? 3 : at == c->at ? 0 : *c->at == 'x' ? 2 : *c->at == 'u' ? 4 : 8;
    while (n < most && at + n < c->end &&
           (octal ? at[n] >= '0' && at[n] <= '7' : isxdigit((unsigned char)at[n]))) {
        digits[n] = at[n];
        n++;
    }
    if (!n) {
        tn_buf_putc(out, escape && *escape ? to[escape - from] : *c->at);
        c->at++;
        return;
    }
    tn_buf_putc(out, (char)strtoul(digits, NULL, octal ? 8 : 16));
    c->at = at + n + (at[-1] == '{' && at + n < c->end && at[n] == '}');
}

/* Reads the string at c->at into out; false when it is none. */
static bool read_string(struct code *c, struct tn_buf *out)
{
    char quote = *c->at;
    bool triple;

    if (quote != '"' && quote != '\'')
        return false;
    triple = is_python(c) && c->end - c->at >= 3 && c->at[1] == quote && c->at[2] == quote;
    c->at += triple ? 3 : 1;
    while (c->at < c->end) {
        if (triple
                ? c->end - c->at >= 3 && c->at[0] == quote && c->at[1] == quote && c->at[2] == quote
                : *c->at == quote)
            break;
        if (*c->at == '\n' && !triple && !is_in(c, "perl ruby php"))
            return true;
        if (*c->at == '\\' && c->at + 1 < c->end) {
            read_escape(c, out);
        } else {
            tn_buf_putc(out, *c->at++);
        }
    }
    c->at += c->end - c->at < (triple ? 3 : 1) ? c->end - c->at : (triple ? 3 : 1);
    return true;
}

/* The strings of a call, up to its closing parenthesis. */
static const char unknown_word[] = "\001";
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

/* One of a list of words that is no string: it has no value, but for the one that Python has. */
static void skip_word(struct code *c, struct arguments *a)
{
    const char *from = c->at;
    int depth = 0;

    for (; c->at < c->end && (depth || !strchr(",]", *c->at)); c->at++)
        depth += strchr("([{", *c->at) ? 1 : strchr(")]}", *c->at) ? -1 : 0;
    size_t n = (size_t)(c->at - from);
    bool own = n == strlen("sys.executable") && strncmp(from, "sys.executable", n) == 0;
    if (a->count == CODE_STRINGS || (a->count == 0 && !own))
        return;
    struct tn_buf *word = &a->words[a->count++];
    tn_buf_init(word, 64);
    tn_buf_puts(word, own ? "python3" : unknown_word);
    a->opaque &= !own;
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
    bool whole = !formatted && c->at < c->end && strchr(",)]", *c->at);
    if (a->count == 0)
        a->opaque = !whole;
    else if (!whole) {
        tn_buf_reset(word);
        tn_buf_puts(word, unknown_word);
    }
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
        if (a->list && depth == 2 && !strchr(",])}+%.", *c->at) && (first || c->at[-1] != '*')) {
            first = false;
            skip_word(c, a);
            continue;
        }
        first = false;
        depth += strchr("([{", *c->at) ? 1 : strchr(")]}", *c->at) ? -1 : 0;
        c->at++;
    }
}

/* own: the name is one of a module that runs programs, and of nothing else. */
static void see_arguments(struct code *c, const char *name, const char *from, bool own)
{
    TN_CLEANUP(arguments_done) struct arguments a = {0};
    struct part part;

    if (c->at < c->end && *c->at == ')') /* platform.system() */
        return;
    const char *inside = c->at, *end = c->end;
    c->end = end - c->at > CODE_CALL ? c->at + CODE_CALL : end;
    read_arguments(c, &a);
    a.opaque |= c->at == c->end && c->end != end;
    c->end = end;
    part = (struct part){c->field, from, (size_t)(c->at - from)};
    if (a.opaque && (is_shell_function(c, name) || word_in(name, sure_functions) || own))
        give_shell(c, NULL, false, from);
    if (strcmp(name, "open") == 0 && is_in(c, "perl ruby") &&
        memchr(inside, '|', (size_t)(c->at - inside))) /* a command in the place of a file */
        give_shell(c, NULL, false, from);
    c->at = inside; /* there may be calls in it */
    if (!a.count || a.opaque)
        return;
    const char *text = pool_strdup(c->s->pool, tn_buf_str(&a.words[0]));
    bool shell = is_shell_function(c, name);
    bool runs = shell || word_in(name, word_functions) || word_in(name, sure_functions);
    if (shell || (runs && !a.list))
        scene_add_shell(c->s, c->field, text, strlen(text), false);
    if (runs && (a.list || (a.count > 1 && !strpbrk(text, " \t\n")))) { /* a program's words */
        tn_autobuf struct tn_buf line = TN_BUF_INIT(1 << 20);
        for (size_t i = 0; i < a.count; i++) {
            if (strcmp(tn_buf_str(&a.words[i]), unknown_word) == 0) {
                tn_buf_puts(&line, " \"$word\"");
                continue;
            }
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
    } else if (word_in(name, delete_functions) || word_in(name, delete_sure)) {
        scene_add_path(c->s, c->s->cwd, text, USE_DELETE, false, c->call, part);
    }
}

/* A function that runs or removes something, whoever has it. */
static bool has_power(const struct code *c, const char *name)
{
    return is_shell_function(c, name) || word_in(name, sure_functions) ||
           word_in(name, delete_sure);
}

/* Whether anything is done with the arguments of a function of that name. */
static bool known_function(const struct code *c, const char *name)
{
    return strcmp(name, "open") == 0 || has_power(c, name) || word_in(name, word_functions) ||
           word_in(name, read_functions) || word_in(name, write_functions) ||
           word_in(name, delete_functions);
}

/* system "x", qx{x}: what stands behind the name; all of it is known if it is one string. */
static void see_plain(struct code *c, const char *from)
{
    tn_autobuf struct tn_buf string = TN_BUF_INIT(1 << 20);

    bool known = read_string(c, &string);
    while (c->at < c->end && *c->at == ' ')
        c->at++;
    known = known && (c->at == c->end || strchr(";}\n", *c->at));
    give_shell(c, known ? tn_buf_str(&string) : NULL, false, from);
}

/* `x` is a command in these. */
static void see_quoted(struct code *c)
{
    const char *from = c->at++;
    const char *close = memchr(c->at, '`', (size_t)(c->end - c->at));

    close = close ? close : c->end;
    tn_autofree char *text = tn_strndup(c->at, (size_t)(close - c->at));
    c->at = close + (close < c->end);
    give_shell(c, strpbrk(text, "$#@") ? NULL : text, false, from);
}

/* Whether a single | stands in the rest of the statement: open F, "command |". */
static bool has_pipe(const struct code *c)
{
    for (const char *at = c->at; at < c->end && !strchr(";\n", *at); at++) {
        if ((*at == '|' && at[-1] != '|' && (at + 1 == c->end || at[1] != '|')) ||
            at - c->at == CODE_CALL)
            return true;
    }
    return false;
}

/* --- functions that are passed on, and names that are put together ---------------------------- */

static char before(const struct code *c, const char *at)
{
    while (at > c->start && (at[-1] == ' ' || at[-1] == '\t'))
        at--;
    return at > c->start ? at[-1] : '\n';
}

static const char *mentions(const struct code *c, const char *word)
{
    return memmem(c->start, (size_t)(c->end - c->start), word, strlen(word));
}

/* What the whole text tells about its names. */
static void see_modules(struct code *c)
{
    static const char *const modules[] = {"subprocess", "child_", "import os", "from os",
                                          "__import__"};
    static const char as[] = "subprocess as ";
    const char *alias = mentions(c, as);
    size_t n = 0;

    for (size_t i = 0; i < TN_COUNT(modules); i++)
        c->runs |= mentions(c, modules[i]) != NULL;
    c->imported = c->runs && mentions(c, "import *");
    c->closures = mentions(c, "fn") || mentions(c, "function");
    for (const char *at = alias ? alias + strlen(as) : c->end;
         at < c->end && name_byte(*at) && n + 1 < sizeof c->alias; at++)
        c->alias[n++] = *at;
}

/* Whether the statement in which it stands begins with that word. */
static bool stands_behind(const struct code *c, const char *at, const char *word)
{
    for (int i = 0; at > c->start && !strchr("\n;", at[-1]) && i < CODE_BACK; i++)
        at--;
    while (at < c->end && *at == ' ')
        at++;
    return (size_t)(c->end - at) > strlen(word) && strncmp(at, word, strlen(word)) == 0;
}

/* Whether the n bytes name a module that runs programs: by its name, or as it was imported. */
static bool is_module(const struct code *c, const char *at, size_t n)
{
    tn_autofree char *name = tn_strndup(at, n);

    return word_in(name, "subprocess sp child_process cp") || (n && strcmp(name, c->alias) == 0);
}

/* A name without a call.  whole: with the objects that it is of. */
static void see_reference(struct code *c, const char *name, const char *whole, const char *from)
{
    static const char modules[] = "os posix subprocess shutil builtins __builtins__ pty";
    size_t objects = from > whole ? (size_t)(from - whole - 1) : 0;
    char last = before(c, whole), next = c->at < c->end ? *c->at : '\n';
    bool owned = from > whole || last == '.', python = is_python(c);
    bool import = python && (stands_behind(c, from, "from ") || stands_behind(c, from, "import "));
    bool renamed = next == 'a' && c->end - c->at > 3 && strncmp(c->at, "as ", 3) == 0;
    bool set = next == '=' && (c->at + 1 == c->end || c->at[1] != '=');

    if (!python && !is_in(c, "node bun"))
        return;
    if (python && !owned && word_in(name, modules) && !import && next != '.' && !set &&
        strchr("=([,{", last))
        mark_unread(c, unknown_name, from);
    bool sure = has_power(c, name) && (strcmp(name, "system") != 0 || c->runs ||
                                       (objects == 2 && strncmp(whole, "os", 2) == 0));
    if (!sure && !(c->runs && word_in(name, "run call exec spawn") &&
                   (import || is_module(c, whole, objects) || (owned && last == ')'))))
        return;
    if (import || (!python && !owned && strchr("{,", last) && strchr(",}", next)))
        c->imported = true;
    if (renamed || (owned && !set) || (!python && !owned && next == ':' && c->runs) ||
        (!owned && !import && !set && c->imported && strchr("=([:", last)))
        mark_unread(c, unknown_name, from);
}

/* What calls by a name that it is given, or runs a text.  Without its module: of no object. */
static const struct maker {
    const char *languages, *names;
    enum { MAKES_ALWAYS, MAKES_OTHERS, MAKES_CODE, MAKES_NAMED, MAKES_SECOND } how;
    bool bare;
} makers[] = {
    {"python", "__import__ import_module", MAKES_OTHERS, false},
    {"python", "exec eval", MAKES_CODE, true},
    {"python", "getattr", MAKES_SECOND, true},
    {"node bun", "require import", MAKES_OTHERS, true},
    {"node bun php Rscript", "eval", MAKES_CODE, true},
    {"node bun", "Function runInThisContext runInNewContext runInContext binding dlopen",
     MAKES_ALWAYS, false},
    {"perl", "eval syscall", MAKES_CODE, true},
    {"ruby", "eval instance_eval class_eval module_eval", MAKES_CODE, false},
    {"ruby", "send public_send __send__ method instance_method", MAKES_NAMED, false},
    {"php", "call_user_func call_user_func_array array_map array_walk array_filter", MAKES_NAMED,
     true},
    {"php", "create_function assert", MAKES_ALWAYS, true},
    {"Rscript", "call", MAKES_NAMED, false}, /* do.call */
};

/* Reads one string, or a :symbol; false: it is none, or is put together with something. */
static bool read_whole(struct code *c, struct tn_buf *out)
{
    while (c->at < c->end && isspace((unsigned char)*c->at))
        c->at++;
    if (c->at < c->end && *c->at == ':' && is_in(c, "ruby"))
        for (c->at++; c->at < c->end && !strchr(",) \n;", *c->at); c->at++)
            tn_buf_putc(out, *c->at);
    else if (c->at == c->end || !read_string(c, out))
        return false;
    while (c->at < c->end && *c->at == ' ')
        c->at++;
    return c->at == c->end || strchr(",);\n", *c->at);
}

/* getattr(object, NAME): put together, or called at once. */
static bool second_is_made(struct code *c)
{
    tn_autobuf struct tn_buf name = TN_BUF_INIT(1 << 20), ignored = TN_BUF_INIT(1 << 20);
    bool whole = false, text = false;
    int depth = 1;

    const char *from = c->at;
    while (c->at < c->end && depth && c->at - from < CODE_BACK) {
        if (depth == 1 && *c->at == ',' && !text) {
            c->at++;
            const char *at = c->at;
            whole = read_whole(c, &name);
            text = c->at > at && name.len;
        } else if (!read_string(c, &ignored)) {
            depth += strchr("([{", *c->at) ? 1 : strchr(")]}", *c->at) ? -1 : 0;
            c->at++;
        }
    }
    bool called = (c->at < c->end && *c->at == '(') || depth;
    return whole ? called && known_function(c, tn_buf_str(&name)) : text || called;
}

/* At what stands behind the name, which a parenthesis may begin. */
static void see_maker(struct code *c, const struct maker *m, const char *from)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(1 << 20);
    bool open = c->at < c->end && *c->at == '(';
    const char *inside = c->at += open;

    while (c->at < c->end && *c->at == ' ')
        c->at++;
    char next = c->at < c->end ? *c->at : ';';
    bool none = strchr(";\n{)", next) || (!open && !is_in(c, "perl ruby")) ||
                next == '='; /* a block, a variable */
    bool closure = is_in(c, "php") && strncmp(c->at, "f", 1) == 0;
    bool made = !none;
    if (!none && m->how == MAKES_SECOND)
        made = second_is_made(c);
    else if (!none && m->how != MAKES_ALWAYS && !closure && read_whole(c, &text))
        made = m->how == MAKES_NAMED && has_power(c, tn_buf_str(&text));
    else if (closure)
        made = false;
    if (!none && !made && m->how == MAKES_CODE)
        scene_add_code(c->s, c->field, tn_arena_copy(c->s->pool, tn_buf_str(&text), text.len),
                       text.len, c->call);
    if (made)
        mark_unread(c, unknown_name, from);
    c->at = inside;
}

static const struct maker *find_maker(const struct code *c, const char *name, bool owned)
{
    for (size_t i = 0; i < TN_COUNT(makers); i++)
        if ((is_in(c, makers[i].languages) || (is_python(c) && i < 3)) &&
            word_in(name, makers[i].names) && !(owned && makers[i].bare))
            return &makers[i];
    return NULL;
}

/* x["a" + "b"](...), x[name](...): at the closing bracket. */
static void see_member(struct code *c)
{
    const char *open = c->at, *next = c->at + 1;
    bool put = false, quoted = false;

    while (open > c->start && *open != '[' && c->at - open < CODE_BACK) {
        open--;
        put |= *open == '+';
        quoted |= *open == '"' || *open == '\'';
    }
    while (next < c->end && *next == ' ')
        next++;
    bool called = next < c->end && strchr("(`?", *next);
    const char *inside = open + 1;
    bool word = inside < c->at && (isalpha((unsigned char)*inside) || *inside == '_');
    tn_autofree char *name = tn_strndup(inside + quoted, (size_t)(c->at - inside) * !put);
    name[strcspn(name, "\"'")] = '\0';
    char last = before(c, open);
    bool member = name_byte(last) || strchr(")]", last);
    if (*open == '[' && member &&
        ((put && quoted && (called || c->runs)) || (quoted && called && has_power(c, name)) ||
         (word && called && c->runs)))
        mark_unread(c, unknown_name, open);
}

static void see_name(struct code *c)
{
    const char *from = c->at, *whole = c->at;
    char name[64];

    for (; c->at < c->end && name_byte(*c->at); c->at++) {
        if (*c->at == '.')
            from = c->at + 1;
    }
    size_t n = (size_t)(c->at - from);
    while (c->at < c->end && *c->at == ' ')
        c->at++;
    if (n >= sizeof name)
        return;
    memcpy(name, from, n);
    name[n] = '\0';
    bool owned = from > whole || before(c, whole) == '.';
    const struct maker *maker = find_maker(c, name, owned);
    if (maker) {
        see_maker(c, maker, from);
        return;
    }
    if (c->at == c->end) {
        see_reference(c, name, whole, from);
        return;
    }
    if (from > whole && word_in(name, "call apply bind")) { /* f.call(null, "x") */
        const char *end = from - 1, *at = end;
        while (at > whole && at[-1] != '.')
            at--;
        tn_autofree char *object = tn_strndup(at, (size_t)(end - at));
        if (has_power(c, object))
            mark_unread(c, unknown_name, at);
    }
    /* $f("x"): no closure is in sight that it may be */
    if (is_in(c, "php") && *c->at == '(' && whole > c->start && whole[-1] == '$' && !c->closures)
        mark_unread(c, unknown_name, from);
    if (*c->at != '(')
        see_reference(c, name, whole, from);
    bool plain = *c->at != '(' && is_in(c, "perl ruby"); /* they want no parentheses */
    bool runs = is_shell_function(c, name) || strcmp(name, "spawn") == 0;
    if ((plain && (strcmp(name, "qx") == 0 || (runs && *c->at != ';'))) ||
        (*name == 'x' && n == 1 && from > c->start && from[-1] == '%' && is_in(c, "ruby")))
        see_plain(c, from);
    else if ((*c->at == '(' && strcmp(name, "qx") == 0) ||
             (plain && strcmp(name, "open") == 0 && has_pipe(c)))
        give_shell(c, NULL, false, from);
    if (c->at == c->end || *c->at != '(')
        return;
    c->at++;
    bool own = word_in(name, word_functions) &&
               (from > whole ? is_module(c, whole, (size_t)(from - whole - 1)) : c->imported);
    if (known_function(c, name))
        see_arguments(c, name, from, own);
}

/* What was skipped from there on, as a string or the like.  A call in it is one where code runs
 * within strings, or where it may be none. */
static void see_hidden(struct code *c, const char *from)
{
    bool python = is_python(c), code = c->odd;

    if (python) /* f"{...}" */
        code = (from > c->start && strchr("fF", from[-1])) ||
               (from > c->start + 1 && strchr("fF", from[-2]) && strchr("rR", from[-1]));
    else if (*from == '"' && is_in(c, "perl ruby php")) /* "#{...}", "@{[...]}", "{$...}" */
        code |= memchr(from, '{', (size_t)(c->at - from)) != NULL;
    for (const char *at = from; code && at < c->at;) {
        size_t n = 0;
        while (at + n < c->at && name_byte(at[n]) && at[n] != '.')
            n++;
        const char *next = at + n;
        while (n && next < c->end && *next == ' ')
            next++;
        tn_autofree char *name = tn_strndup(at, n);
        bool called = next < c->end && *next == '(';
        const struct maker *maker = called ? find_maker(c, name, false) : NULL;
        if ((called && known_function(c, name)) || (maker && maker->how == MAKES_CODE) ||
            (!python && (is_shell_function(c, name) || word_in(name, "qx spawn"))) ||
            (*at == '`' && is_in(c, "perl ruby php")) ||
            (n == 1 && *at == 'x' && at[-1] == '%' && is_in(c, "ruby"))) {
            give_shell(c, NULL, false, from);
            return;
        }
        at += n ? n : 1;
    }
}

/* --- awk -------------------------------------------------------------------------------------- */

/* A sign with what it is for behind it.  command: the string before it, or NULL. */
static void see_awk_sign(struct code *c, const char *command)
{
    const char *from = c->at;
    tn_autobuf struct tn_buf string = TN_BUF_INIT(1 << 20);

    for (c->at++; c->at < c->end && strchr("&> ", *c->at);)
        c->at++;
    if (*from == '|' && c->end - c->at >= 7 && strncmp(c->at, "getline", 7) == 0) {
        give_shell(c, command, false, from);
        return;
    }
    if (c->at == c->end || *c->at != '"') {
        if (*from == '|')
            give_shell(c, NULL, true, from);
        return;
    }
    read_string(c, &string);
    const char *text = tn_buf_str(&string), *next = c->at;
    while (next < c->end && *next == ' ')
        next++;
    if (*from == '|')
        give_shell(c, next == c->end || strchr(";})\n#", *next) ? text : NULL, true, from);
    else
        scene_add_path(c->s, c->s->cwd, pool_strdup(c->s->pool, text),
                       *from == '>' ? USE_WRITE : USE_READ, false, c->call,
                       (struct part){c->field, from, (size_t)(c->at - from)});
}

/* How many bytes follow the bracket of a class ("[:alpha:]"); 0: it is none. */
static size_t class_length(const char *at)
{
    size_t n = 2 + strspn(at + 2, "abcdefghijklmnopqrstuvwxyz");

    return strncmp(at + n, ":]", 2) == 0 ? n + 1 : 0;
}

/* Skips the pattern of awk at c->at.  A slash in brackets ends it in some, and not in others. */
static void skip_awk_pattern(struct code *c)
{
    const char *from = c->at++;
    bool bracket = false, doubt = false;

    for (; c->at < c->end && *c->at != '\n' && (bracket || *c->at != '/'); c->at++) {
        doubt |= *c->at == '/';
        if (*c->at == '\\' && c->at + 1 < c->end)
            c->at++;
        else if (bracket && strncmp(c->at, "[:", 2) == 0)
            c->at += class_length(c->at);
        else if (*c->at == '[' && !bracket) {
            bracket = true;
            c->at += c->at + 1 < c->end && c->at[1] == '^';
            c->at += c->at + 1 < c->end && c->at[1] == ']';
        } else if (*c->at == ']')
            bracket = false;
    }
    c->at += c->at < c->end;
    c->odd |= doubt;
    if (bracket || (doubt && (memchr(from, '"', (size_t)(c->at - from)) ||
                              memchr(from, '#', (size_t)(c->at - from)))))
        give_shell(c, NULL, false, from);
}

/* system("command"), "command" | getline, print | "command", print > "file", getline < "file". */
static void see_awk(struct code *c)
{
    tn_autobuf struct tn_buf string = TN_BUF_INIT(1 << 20);
    static const char starts[] = "({[};\n,&|!~=<>?:*%^$"; /* what an expression may stand behind */
    static const char words[] = "print printf return else do in case";
    char before = ';';
    bool alone = false; /* a string stands before, and nothing else */

    while (c->at < c->end) {
        const char *from = c->at;
        char here = *from, next = from + 1 < c->end ? from[1] : '\0';
        if (here == '"') {
            tn_buf_reset(&string);
            read_string(c, &string);
            see_hidden(c, from);
            alone = strchr(starts, before);
        } else if (here == '/' && strchr(starts, before)) {
            skip_awk_pattern(c);
            see_hidden(c, from);
            alone = false;
        } else if (here == '#') {
            while (c->at < c->end && *c->at != '\n')
                c->at++;
            see_hidden(c, from);
            continue;
        } else if (strchr("|<>", here) && (here != '|' || next != '|')) {
            see_awk_sign(c, alone ? tn_buf_str(&string) : NULL);
            alone = false;
        } else if (here == '@' && isalpha((unsigned char)next)) { /* @f("x"), @load */
            c->at++;
            mark_unread(c, unknown_name, from);
        } else if (here == '\\' && next == '\n') {
            c->at += 2;
            continue;
        } else if (name_byte(here)) {
            size_t n = 0;
            while (from + n < c->end && name_byte(from[n]))
                n++;
            tn_autofree char *name = tn_strndup(from, n);
            see_name(c);
            before = c->at > from + n && c->at[-1] == '(' ? '(' : word_in(name, words) ? ',' : 'a';
            alone = false;
            continue;
        } else {
            c->odd |= here == '/' && strchr(")+-", before); /* x++ / 2, or 1 + /x/ */
            c->at += here == '|' ? 2 : 1;
            alone = alone && here == ' ';
        }
        before = here == ' ' || here == '\t' ? before : here;
    }
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

/* Whether the sign at c->at may begin something in which quotes are no quotes: a pattern, a
 * quotation of perl or ruby, a comment that is not read here, a variable like $'. */
static bool is_odd(const struct code *c)
{
    char here = *c->at, before = c->at > c->start ? c->at[-1] : ';';
    bool line = c->at == c->start || before == '\n', quote = strchr("\"'`", here);

    if (is_in(c, "node bun"))
        return strchr("/`<", here);
    if (is_in(c, "php"))
        return strchr("/#<?", here);
    if (!is_in(c, "perl ruby"))
        return false;
    if (isalpha((unsigned char)here)) {
        size_t n = 1;
        while (c->at + n < c->end && name_byte(c->at[n]))
            n++;
        tn_autofree char *name = tn_strndup(c->at, n);
        return !strchr("$@", before) && word_in(name, "q qq qw qr m s y tr format");
    }
    return strchr("/<?%", here) || (here == '#' && !line && !isspace((unsigned char)before)) ||
           (here == '=' && line) ||
           (quote && (strchr("$@*&", before) || (is_in(c, "perl") && name_byte(before))));
}

/* The sign, the word, the string or the comment at c->at. */
static void see_next(struct code *c)
{
    tn_autobuf struct tn_buf ignored = TN_BUF_INIT(1 << 20);
    const char *from = c->at;
    bool quotes = is_in(c, "perl ruby php"), spaced = from == c->start;

    spaced = spaced || isspace((unsigned char)from[-1]);
    c->odd = c->odd || is_odd(c);
    if (*from == '`' && quotes) {
        see_quoted(c);
    } else if (read_string(c, &ignored)) {
        see_hidden(c, from);
    } else if (*from == '#' && !is_in(c, "node bun") && (!quotes || spaced)) {
        while (c->at < c->end && *c->at != '\n')
            c->at++;
        see_hidden(c, from);
    } else if (name_byte(*from)) {
        see_name(c);
    } else {
        if (*from == ']' && (is_python(c) || is_in(c, "node bun php")))
            see_member(c);
        if (*from == ')' && c->end - from > 1 && from[1] == '(' && is_in(c, "php") &&
            strchr("\"'", before(c, from))) /* ("sys" . "tem")(...) */
            mark_unread(c, unknown_name, from);
        c->at++;
    }
}

void scene_add_code(struct scene *s, const char *field, const char *text, size_t n,
                    const struct tn_call *call)
{
    const char *language = call && call->language ? call->language : "";
    struct code c = {.s = s,
                     .field = field,
                     .start = text,
                     .at = text,
                     .end = text + n,
                     .call = call,
                     .language = language};

    if (s->depth == SCENE_DEPTH) {
        s->unread = "programs within programs, deeper than is looked at";
        s->unread_part = (struct part){field, text, n};
        return;
    }
    s->depth++;
    see_modules(&c);
    if (!call)
        see_shell_lines(&c);
    if (is_in(&c, "awk"))
        see_awk(&c);
    while (c.at < c.end)
        see_next(&c);
    scene_add_urls(s, text, n, call, (struct part){field, text, n});
    s->depth--;
}
