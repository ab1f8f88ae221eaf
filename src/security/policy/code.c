/* What can be seen of a program in Python, or a language that looks like it: commands that it gives
 * to a shell, files that it opens, URLs.  No parser: words before a parenthesis and the strings
 * behind it; what stands in comments and in other strings is not looked at. */
#include <ctype.h>

#include "security/policy/code.h"

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
const char unknown_name[] = "calls a function by a name that is not known before it runs";

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

void mark_unread(struct code *c, const char *why, const char *from)
{
    if (!c->s->unread) {
        c->s->unread = why;
        c->s->unread_part = (struct part){c->field, from, (size_t)(c->at - from)};
    }
}

/* A command that the program runs.  A shell or the like that reads its input is given that by the
 * program: pty.spawn("/bin/sh"). */
static void run_line(struct code *c, const char *line, size_t n, const char *from)
{
    size_t i = c->s->call_count;

    scene_add_shell(c->s, c->field, line, n, false);
    for (; i < c->s->call_count; i++)
        if (c->s->calls[i].call->unseen == TN_UNSEEN_INPUT)
            mark_unread(c, unknown_text, from);
}

void give_shell(struct code *c, const char *text, bool reads, const char *from)
{
    if (text) {
        tn_autofree char *line = tn_asprintf("%s%s", reads ? ": | " : "", text);
        run_line(c, pool_strdup(c->s->pool, line), strlen(line), from);
    } else {
        mark_unread(c, unknown_text, from);
    }
}

bool name_byte(char c)
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

bool read_string(struct code *c, struct tn_buf *out)
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
        run_line(c, text, strlen(text), from);
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
        run_line(c, tn_arena_copy(c->s->pool, tn_buf_str(&line), line.len), line.len, from);
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
    static const char *const modules[] = {"subprocess", "child_",   "import os", "from os",
                                          "__import__", "builtins", "ctypes"};
    static const char as[] = "subprocess as ";
    const char *alias = mentions(c, as);
    size_t n = 0;

    for (size_t i = 0; i < TN_COUNT(modules); i++)
        c->runs |= mentions(c, modules[i]) != NULL;
    c->imported = c->runs && mentions(c, "import *");
    c->builtins = mentions(c, "builtins");
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

/* What calls by a name that it is given, or runs a text or a file. */
static const struct maker {
    const char *languages, *names;
    enum {
        MAKES_ALWAYS,
        MAKES_OTHERS, /* unless it is one string */
        MAKES_CODE,   /* the same, and the string is code */
        MAKES_TEXT,   /* a string is code; what is none is a function */
        MAKES_NAMED,  /* if the string names something with power */
        MAKES_SECOND,
    } how;
    enum { OF_ANY, OF_NONE, OF_SOME } of; /* the object that it is of */
} makers[] = {
    {"python", "__import__ import_module", MAKES_OTHERS, OF_ANY},
    {"python", "exec eval", MAKES_CODE, OF_NONE},
    {"python", "getattr", MAKES_SECOND, OF_NONE},
    {"python", "FunctionType LambdaType CodeType runsource runcode", MAKES_ALWAYS, OF_ANY},
    {"python", "timeit runctx", MAKES_TEXT, OF_ANY},
    {"node bun", "require import _load", MAKES_OTHERS, OF_ANY},
    {"node bun php Rscript", "eval", MAKES_CODE, OF_NONE},
    {"node bun", "Script compileFunction", MAKES_CODE, OF_ANY},
    {"node bun", "setTimeout setInterval setImmediate", MAKES_TEXT, OF_ANY},
    {"node bun",
     "Function runInThisContext runInNewContext runInContext binding dlopen fork Worker",
     MAKES_ALWAYS, OF_ANY},
    {"node bun", "constructor", MAKES_ALWAYS, OF_SOME},
    {"perl", "eval syscall", MAKES_CODE, OF_NONE},
    {"perl", "do open2 open3", MAKES_ALWAYS, OF_NONE},
    {"perl", "require", MAKES_OTHERS, OF_NONE},
    {"ruby", "eval instance_eval class_eval module_eval", MAKES_CODE, OF_ANY},
    {"ruby", "load", MAKES_ALWAYS, OF_NONE},
    {"ruby", "const_get", MAKES_OTHERS, OF_ANY},
    {"ruby", "send public_send __send__ method instance_method", MAKES_NAMED, OF_ANY},
    {"php", "call_user_func call_user_func_array array_map array_walk array_filter", MAKES_NAMED,
     OF_NONE},
    {"php", "create_function assert", MAKES_ALWAYS, OF_NONE},
    {"php", "include include_once require require_once", MAKES_OTHERS, OF_NONE},
    {"Rscript", "call", MAKES_NAMED, OF_ANY}, /* do.call */
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
    bool bare = isalnum((unsigned char)next) && is_in(c, "perl"); /* require Foo::Bar */
    bool none = strchr(";\n{)", next) || (!open && !is_in(c, "perl ruby php")) ||
                next == '=' || /* a block, a variable */
                (bare && m->how == MAKES_OTHERS) || (m->how == MAKES_TEXT && !strchr("\"'`", next));
    bool closure = is_in(c, "php") && strncmp(c->at, "f", 1) == 0;
    bool made = !none;
    if (!none && m->how == MAKES_SECOND)
        made = second_is_made(c);
    else if (!none && m->how != MAKES_ALWAYS && !closure && read_whole(c, &text))
        made = m->how == MAKES_NAMED && has_power(c, tn_buf_str(&text));
    else if (closure)
        made = false;
    if (!none && !made && (m->how == MAKES_CODE || m->how == MAKES_TEXT))
        scene_add_code(c->s, c->field, tn_arena_copy(c->s->pool, tn_buf_str(&text), text.len),
                       text.len, c->call);
    if (made)
        mark_unread(c, unknown_name, from);
    c->at = inside;
}

/* owned: it is of an object.  builtins.exec is exec. */
static const struct maker *find_maker(const struct code *c, const char *name, bool owned)
{
    bool of = owned && !(is_python(c) && c->builtins);

    for (size_t i = 0; i < TN_COUNT(makers); i++)
        if ((is_in(c, makers[i].languages) ||
             (is_python(c) && strcmp(makers[i].languages, "python") == 0)) &&
            word_in(name, makers[i].names) && !(of && makers[i].of == OF_NONE) &&
            !(!owned && makers[i].of == OF_SOME))
            return &makers[i];
    return NULL;
}

/* x["a" + "b"](...), x[name](...): at the closing bracket. */
static void see_member(struct code *c)
{
    const char *open = c->at, *next = c->at + 1;
    bool put = false;
    int quotes = 0;

    while (open > c->start && *open != '[' && c->at - open < CODE_BACK) {
        open--;
        put |= *open == '+';
        quotes += *open == '"' || *open == '\'';
    }
    bool quoted = quotes;
    put |= quotes > 2; /* "a" "b" */
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

void see_name(struct code *c)
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
    bool arrow = whole - c->start > 1 && whole[-1] == '>' && whole[-2] == '-';
    bool owned = from > whole || before(c, whole) == '.' || (arrow && is_in(c, "perl php"));
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

void see_hidden(struct code *c, const char *from)
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
        const char *end = c->at;
        if (maker && python && maker->how != MAKES_CODE) { /* f"{getattr(x, y)(z)}" */
            c->at = next;
            see_maker(c, maker, at);
            c->at = end;
        }
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

/* &{"na" . "me"}(...), and the end of s/x/y/ee. */
static bool is_made_perl(const struct code *c)
{
    static const char flags[] = "msixpodualngcer";
    size_t left = (size_t)(c->end - c->at), n = 1;

    if (*c->at == '&' && left > 2)
        return c->at[1] == '{' && strchr("\"'", c->at[2]);
    bool twice = false;
    for (; strchr("/}|!,", *c->at) && n < left && c->at[n] && strchr(flags, c->at[n]); n++)
        twice |= n > 1 && c->at[n] == 'e' && c->at[n - 1] == 'e';
    return twice && (n == left || strchr(" ;)}\n", c->at[n]));
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
        if (is_in(c, "php") && strchr("(,=[", before(c, from)) &&
            has_power(c, tn_buf_str(&ignored))) /* usort($a, "system") */
            mark_unread(c, unknown_name, from);
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
        if (is_in(c, "perl") && is_made_perl(c))
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
