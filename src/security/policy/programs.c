/* What well-known programs do with their arguments: which are read, written, removed or run, which
 * name a host.  Of a program that has no row, what is no option counts as read. */
#include <ctype.h>

#include "security/policy/scene.h"

enum style {
    STYLE_FILES,  /* operands are files */
    STYLE_WORDS,  /* operands are words: what they say is not done */
    STYLE_NONE,   /* operands are no files */
    STYLE_URLS,   /* operands are URLs, also without their scheme */
    STYLE_REMOTE, /* operands are files, here or as host:path */
    STYLE_HOST,   /* the first operand is a host, the second a port if it is a number */
    STYLE_PAIRS,  /* dd: operands are if=FILE and of=FILE */
};

struct program {
    const char *names;
    enum style style;
    unsigned use;       /* of operands */
    unsigned last;      /* of the last one of several; 0: the same */
    unsigned skip;      /* operands at the start that are no files */
    const char *values; /* options that take a value: NAME:r read, :w written, :x run, :- neither,
                         * :s as :-, :S as :r, and then no operand is skipped */
};

#define R USE_READ
#define W USE_WRITE
#define D USE_DELETE
#define X USE_EXECUTE

/* Options that take a value in one program of a row only are not listed: a value that is taken
 * for a file harms nobody, a file that is taken for a value is not seen. */
/* clang-format off */
static const struct program programs[] = {
    {"echo printf true false : test [ [[ cd pushd popd export unset alias set which type command hash exit return kill sleep wait "
     "pgrep pkill killall ps id whoami uname seq basename dirname expr let tr apropos history local declare readonly",
                                      STYLE_WORDS,  0,     0, 0, ""},
    {"ls stat du df find tree realpath readlink pwd", STYLE_NONE, 0, 0, 0, "fprint:w fprint0:w fprintf:w fls:w"},
    {"file",                          STYLE_NONE,   0,     0, 0, "f:r files-from:r"},
    {"git",                           STYLE_FILES,  R,     0, 0, "m:- message:- c:- b:- grep:- author:-"},
    {"kubectl helm",                  STYLE_FILES,  R,     0, 0, "kubeconfig:- n:- namespace:- context:-"},
    {"mysql mysqldump mariadb",       STYLE_FILES,  R,     0, 0, "defaults-file:- defaults-extra-file:- e:-"},
    {"ansible ansible-playbook",      STYLE_FILES,  R,     0, 0, "private-key:- key-file:-"},
    {"rm rmdir unlink",               STYLE_FILES,  D,     0, 0, ""},
    {"shred",                         STYLE_FILES,  D | W, 0, 0, "n:- s:-"},
    {"mv",                            STYLE_FILES,  R | D, W, 0, "t:w target-directory:w S:-"},
    {"cp install",                    STYLE_FILES,  R,     W, 0, "t:w target-directory:w m:- o:- g:- S:-"},
    {"ln",                            STYLE_FILES,  R,     W, 0, "t:w S:-"},
    {"tee touch truncate mkdir mkfifo mknod", STYLE_FILES, W, 0, 0, "m:- s:- d:- r:- t:-"},
    {"chmod chown chgrp chattr setfacl", STYLE_FILES, W,   0, 1, "reference:s"},
    {"sed gsed",                      STYLE_FILES,  R,     0, 1, "e:s f:S file:S expression:s"},
    {"grep egrep fgrep rg ag",        STYLE_FILES,  R,     0, 1, "e:s f:S file:S A:- B:- C:- m:- g:- t:- include:- exclude:- exclude-dir:- regexp:s"},
    {"awk gawk mawk jq yq",           STYLE_FILES,  R,     0, 1, "F:- v:- f:S file:S from-file:S arg:- argjson:-"},
    {"head tail cut sort uniq fold column", STYLE_FILES, R, 0, 0, "o:w"},
    {"tar",                           STYLE_FILES,  R,     0, 0, "exclude:- T:r"},
    {"zip",                           STYLE_FILES,  R,     0, 1, "x:- i:-"},
    {"gcc cc clang g++ ld as rustc",  STYLE_FILES,  R,     0, 0, "o:w I:- L:- l:- D:-"},
    {"dd",                            STYLE_PAIRS,  R,     0, 0, ""},
    {"bash sh zsh dash ksh ash",      STYLE_FILES,  X | R, R, 0, "c:s o:- O:-"},
    {"source .",                      STYLE_FILES,  X | R, R, 0, ""},
    {"python python3 python2 pypy pypy3", STYLE_FILES, X | R, R, 0, "c:s m:- W:- X:-"},
    {"node nodejs deno bun perl ruby php lua Rscript", STYLE_FILES, X | R, R, 0, "c:s e:s r:-"},
    {"curl",                          STYLE_URLS,   R,     0, 0,
     "o:w output:w O:0 T:r upload-file:r d:@ data:@ data-binary:@ data-raw:- data-urlencode:@ data-ascii:@ json:@ F:@ form:@ "
     "H:- header:- X:- request:- u:- user:- A:- user-agent:- e:- b:- c:w cookie:- cookie-jar:w K:r config:r x:- proxy:- "
     "w:- write-out:- m:- max-time:- retry:- connect-timeout:- cacert:- cert:r E:r key:r resolve:- url:u"},
    {"wget aria2c",                   STYLE_URLS,   R,     0, 0,
     "O:w output-document:w o:w P:- directory-prefix:- post-file:r body-file:r post-data:- body-data:- header:- U:- "
     "user-agent:- i:r input-file:r T:- t:- tries:- timeout:- d:- dir:-"},
    {"http https xh lynx w3m links",  STYLE_URLS,   R,     0, 0, "o:w output:w a:- auth:-"},
    {"scp rsync sftp sshfs",          STYLE_REMOTE, R,     W, 0, "P:- i:- F:r o:- e:- J:- l:- exclude:- include:- rsh:-"},
    {"ssh telnet nc ncat netcat nmap dig nslookup host ping traceroute ssh-copy-id ftp mosh",
                                      STYLE_HOST,   0,     0, 0, "p:- i:- F:r o:- e:- c:- w:- l:- L:- R:- D:- J:- t:- n:-"},
    {"base64 xxd od hexdump strings cat less more nl wc md5sum sha1sum sha256sum gzip gunzip bzip2 xz zstd openssl gpg",
                                      STYLE_FILES,  R,     0, 0, "o:w output:w"},
    {"vi vim nano emacs ed",          STYLE_FILES,  R | W, 0, 0, ""},
};
/* clang-format on */

static const struct program unknown_program = {"", STYLE_FILES, R, 0, 0, ""};

static const struct program *find_program(const char *name)
{
    for (size_t i = 0; i < TN_COUNT(programs); i++) {
        if (word_in(name, programs[i].names))
            return &programs[i];
    }
    return &unknown_program;
}

/* What the option does with its value: a letter as in the table, or 0 for one that takes none. */
static char option_value(const struct program *p, const char *name, size_t n)
{
    for (const char *at = p->values; *at;) {
        size_t word = strcspn(at, ":");
        if (word == n && strncmp(at, name, n) == 0)
            return at[n + 1];
        at += word + 2;
        at += *at == ' ';
    }
    return 0;
}

/* --- one command ------------------------------------------------------------------------------ */

struct reading {
    struct scene *s;
    const struct seen_call *c;
    const struct program *program;
    size_t skip;
    size_t operands;     /* so far */
    const char *written; /* what goes to files, once that is known */
    size_t written_len;
};

/* What a word with unknown parts may be: a path of the defaults in it, or the one that is left
 * where variables are empty, with a name below it. */
static void add_filled(struct reading *r, const char *cwd, const struct tn_arg *arg,
                       const char *text, const char *name, unsigned use)
{
    bool unset = false, glob = *name || arg->flags & TN_ARG_GLOB;
    const char *filled = arg->value ? NULL : word_filled(r->s->pool, text, &unset);

    if (!filled || (unset && !(use & (USE_WRITE | USE_DELETE))))
        return;
    tn_autofree char *path = tn_asprintf("%s%s%s", filled, *name ? "/" : "", name);
    scene_add_path(r->s, cwd, pool_strdup(r->s->pool, path), use | (unset ? USE_UNSET : 0), glob,
                   r->c->call, r->c->part);
}

/* A file of a command in this directory. */
static void add_listed(struct reading *r, const char *cwd, const struct tn_arg *arg,
                       const char *text, unsigned use)
{
    scene_add_path(r->s, cwd, text, use, arg->flags & TN_ARG_GLOB, r->c->call, r->c->part);
    add_filled(r, cwd, arg, text, "", use);
}

static void add_file(struct reading *r, const struct tn_arg *arg, const char *text, unsigned use)
{
    add_listed(r, r->c->cwd, arg, text, use);
}

static bool is_rooted(const char *text)
{
    return text[0] == '~' || strncmp(text, "$HOME", 5) == 0 || strncmp(text, "${HOME}", 7) == 0 ||
           (text[0] == '/' && text[1] != '/');
}

/* Paths from a root on that stand in a word behind one of =:,@ or the letter of an option, or
 * before one of them: read, for all that is known.  --from-file=k=/a/b, -f/a/b, -v /a:/b. */
static void add_inner(struct reading *r, const struct tn_arg *arg)
{
    const char *text = arg->text;

    for (size_t i = 0; text[i] && r->program->style != STYLE_WORDS; i++) {
        bool starts = i == 0 ? strpbrk(text, ":,@") != NULL
                             : strchr("=:,@", text[i - 1]) || (i == 2 && text[0] == '-');
        if (!starts || !is_rooted(text + i))
            continue;
        /* none has another in it: all of them together are no longer than the word */
        size_t end = i + 1;
        while (text[end] && !strchr(":,@", text[end]) &&
               (text[end] != '=' || !is_rooted(text + end + 1)))
            end++;
        add_file(r, arg, tn_arena_copy(r->s->pool, text + i, end - i), USE_READ);
        i = end - 1;
    }
}

/* host, host:port or host/path in the place of a URL. */
static void add_bare_url(struct reading *r, const struct tn_arg *arg)
{
    const char *text = arg->text;
    size_t host = strcspn(text, ":/?");
    long port = text[host] == ':' ? strtol(text + host + 1, NULL, 10) : 0;

    if (host && (memchr(text, '.', host) || strncmp(text, "localhost", host) == 0))
        scene_add_url(r->s, "http", text, host, port > 0 && port < 65536 ? (int)port : 0,
                      pool_strdup(r->s->pool, text + strcspn(text, "/?")), r->c->call, r->c->part);
}

/* user@host:path; true when it is one. */
static bool add_remote(struct reading *r, const struct tn_arg *arg)
{
    const char *colon = strchr(arg->text, ':'), *slash = strchr(arg->text, '/');
    const char *at = strchr(arg->text, '@');

    if (!colon || (slash && slash < colon) || colon == arg->text)
        return false;
    at = at && at < colon ? at + 1 : arg->text;
    scene_add_url(r->s, "ssh", at, (size_t)(colon - at), 0, pool_strdup(r->s->pool, colon + 1),
                  r->c->call, r->c->part);
    return true;
}

static void add_host(struct reading *r, const struct tn_arg *arg, const struct tn_arg *port)
{
    const char *at = strchr(arg->text, '@');
    const char *host = at ? at + 1 : arg->text;

    if (r->operands == 0 && *host)
        scene_add_url(
            r->s, strcmp(r->c->call->name, "ssh") == 0 ? "ssh" : "tcp", host, strlen(host),
            port && isdigit((unsigned char)port->text[0]) ? (int)strtol(port->text, NULL, 10) : 0,
            "", r->c->call, r->c->part);
}

static void add_urls(struct reading *r, const char *text)
{
    if (r->program->style != STYLE_WORDS)
        scene_add_urls(r->s, text, strlen(text), r->c->call, r->c->part);
}

static void add_operand(struct reading *r, const struct tn_arg *arg, const struct tn_arg *next)
{
    const struct program *p = r->program;
    bool last = !next && r->operands > r->skip;
    unsigned use = last && p->last ? p->last : p->use;

    if (r->operands < r->skip || strstr(arg->text, "://")) {
        if (r->operands >= r->skip)
            add_urls(r, arg->text);
        r->operands++;
        return;
    }
    switch (p->style) {
    case STYLE_WORDS:
    case STYLE_NONE:
        break;
    case STYLE_URLS:
        add_bare_url(r, arg);
        break;
    case STYLE_HOST:
        add_host(r, arg, next);
        break;
    case STYLE_PAIRS:
        if (strncmp(arg->text, "of=", 3) == 0)
            add_file(r, arg, arg->text + 3, USE_WRITE);
        else if (strncmp(arg->text, "if=", 3) == 0)
            add_file(r, arg, arg->text + 3, USE_READ);
        break;
    case STYLE_REMOTE:
        if (!add_remote(r, arg))
            add_file(r, arg, arg->text, use);
        break;
    case STYLE_FILES:
        add_file(r, arg, arg->text, use);
        if (use & USE_READ)
            add_inner(r, arg);
        break;
    }
    r->operands++;
}

static void add_value(struct reading *r, char role, const struct tn_arg *arg, const char *text)
{
    const char *file = strchr(text, '@');

    if (role != '-' && role != 's')
        add_urls(r, text);
    switch (role) {
    case 'r':
        add_file(r, arg, text, USE_READ);
        break;
    case 'w':
        add_file(r, arg, text, USE_WRITE);
        break;
    case '@': /* @file, or name=@file */
        if (file && (file == text || file[-1] == '=') && file[1] != '-')
            add_file(r, arg, tn_arena_copy(r->s->pool, file + 1, strcspn(file + 1, ";")), USE_READ);
        break;
    case 'S':
        add_file(r, arg, text, USE_READ);
        r->skip = 0;
        break;
    case 's':
        r->skip = 0;
        break;
    default:
        break;
    }
}

/* Handles an option; the number of further words that it takes. */
static size_t add_option(struct reading *r, const struct tn_arg *arg, const struct tn_arg *next)
{
    const char *name = arg->text + 1, *value = NULL;
    size_t n;
    char role = 0;

    if (*name == '-') {
        n = strcspn(++name, "=");
        role = option_value(r->program, name, n);
        value = name[n] ? name + n + 1 : NULL;
    } else if (r->program->style == STYLE_NONE && option_value(r->program, name, strlen(name))) {
        role = option_value(r->program, name, strlen(name)); /* find */
    } else {
        for (; *name && !role; name++)
            role = option_value(r->program, name, 1);
        value = *name ? name : NULL;
    }
    if (!role && value)
        add_urls(r, value);
    if (!role)
        add_inner(r, arg);
    if (!role || role == '0')
        return 0;
    if (value)
        add_value(r, role, arg, value);
    else if (next)
        add_value(r, role, next, next->text);
    return !value && next;
}

/* git config a.b VALUE: the last word is no file that is read. */
static bool ends_with_setting(const struct tn_call *call)
{
    const char *key = call->argc > 3 ? call->argv[call->argc - 2].text : "-";

    return strcmp(call->name, "git") == 0 && !strchr("-/~$.", key[0]) && !strchr(key, '/') &&
           strchr(key, '.') && strcmp(call->argv[1].text, "config") == 0 &&
           !word_in(call->argv[call->argc - 3].text, "-f --file --blob");
}

static void add_words(struct reading *r)
{
    const struct tn_call *call = r->c->call;
    size_t count = call->argc - (call->argc && ends_with_setting(call));
    bool options = true;

    for (size_t i = 1; i < count; i++) {
        const struct tn_arg *arg = &call->argv[i], *next = i + 1 < call->argc ? arg + 1 : NULL;
        if (options && strcmp(arg->text, "--") == 0)
            options = false;
        else if (options && arg->text[0] == '-' && arg->text[1])
            i += add_option(r, arg, next);
        else
            add_operand(r, arg, next);
    }
}

/* Those that stand before the places. */
static bool is_find_option(const char *word)
{
    return word_in(word, "-H -L -P -D --") || strncmp(word, "-O", 2) == 0;
}

/* The places where a call of find looks, as far as it takes all that is there; else the name that
 * it looks for in each of them, or one that is not known. */
static void add_found(struct reading *r, const struct seen_call *from, unsigned use)
{
    const struct tn_call *find = from->call;
    const char *name = "";

    for (size_t i = 1; i + 1 < find->argc; i++) {
        const char *word = find->argv[i].text;
        if (word_in(word, "-name -iname -path -wholename") && !*name)
            name = word_in(find->argv[i - 1].text, "-not !") ? "?" : find->argv[i + 1].text;
        else if (word_in(word, "-o -or , -name -iname -path -wholename") ||
                 (!*name &&
                  word_in(word, "-regex -mtime -newer -user -size -empty -mmin -maxdepth")))
            name = "?";
    }
    size_t first = 1;
    while (first < find->argc && is_find_option(find->argv[first].text))
        first += 1 + (strcmp(find->argv[first].text, "-D") == 0);
    const struct tn_arg here = {.value = ".", .text = "."};
    for (size_t i = first; i <= find->argc; i++) {
        bool place = i < find->argc && !strchr("-(!", find->argv[i].text[0]);
        const struct tn_arg *arg = place ? &find->argv[i] : &here;
        if (!place && i > first)
            break;
        tn_autofree char *below = tn_asprintf("%s/%s", arg->text, name);
        scene_add_path(r->s, from->cwd, pool_strdup(r->s->pool, below), use | USE_BELOW, *name,
                       r->c->call, r->c->part);
        add_filled(r, from->cwd, arg, arg->text, name, use | USE_BELOW);
    }
}

/* Whether a word of a call is a variable and nothing else. */
static bool takes_variable(const struct tn_call *call)
{
    for (size_t i = 1; i < call->argc; i++)
        if (!call->argv[i].value && call->argv[i].text[0] == '$' &&
            !strchr(call->argv[i].text, '/'))
            return true;
    return false;
}

/* What hands a command its words: find, xargs; also through a shell ('rm "$1"' _ {}), or by the
 * loop around it (find | while read f; do rm "$f"; done). */
static const struct tn_call *handed_by(const struct tn_call *call)
{
    const struct tn_call *by = call->via;

    if (!takes_variable(call))
        return by;
    while (by && word_in(by->name, "sh bash dash ash ksh zsh"))
        by = by->via;
    return by || !call->in || !(call->flags & TN_CALL_LOOP) ? by : call;
}

/* What a command of find or xargs is given to work on: the words that are not known yet. */
static void add_handed(struct reading *r)
{
    static const struct tn_arg all = {.value = "*", .text = "*", .flags = TN_ARG_GLOB};
    const struct tn_call *by = handed_by(r->c->call);
    unsigned use = r->program->use;

    if (!by || !use || (by != r->c->call && !word_in(by->name, "find xargs parallel")))
        return;
    for (size_t i = 0; i < r->s->call_count; i++) {
        const struct seen_call from = r->s->calls[i];
        bool feeds = from.of == r->c->of && from.call->out && tn_call_feeds(from.of, from.call, by);
        if (strcmp(from.call->name, "find") == 0 && (feeds || from.call == by))
            add_found(r, &from, use);
        bool lists = strcmp(from.call->name, "ls") == 0, here = lists;
        for (size_t k = 1;
             feeds && (lists || word_in(from.call->name, "echo printf")) && k < from.call->argc;
             k++) {
            add_listed(r, from.cwd, &from.call->argv[k], from.call->argv[k].text, use);
            here = here && from.call->argv[k].text[0] == '-';
        }
        if (feeds && here)
            add_listed(r, from.cwd, &all, "*", use);
    }
    bool given = false;
    for (size_t k = 1; strcmp(by->name, "parallel") == 0 && k < by->argc; k++) {
        if (given)
            add_listed(r, r->c->cwd, &by->argv[k], by->argv[k].text, use);
        given = given || strncmp(by->argv[k].text, ":::", 3) == 0;
    }
    for (const struct tn_call_redirect *d = by == r->c->call ? NULL : by->redirects; d;
         d = d->next) {
        if (d->kind == TN_SH_HERE_STRING || d->kind == TN_SH_HERE_TEXT)
            add_file(r, &d->target, d->target.text, use);
    }
}

static void add_echoed(struct tn_buf *text, const struct tn_call *call)
{
    bool format = strcmp(call->name, "printf") == 0 && call->argc > 2;

    for (size_t i = 1; word_in(call->name, "echo printf") && i < call->argc; i++)
        tn_buf_printf(text, "%s%s", i > 1 ? " " : "", call->argv[i].text);
    for (size_t i = 2; format && i < call->argc; i++) /* printf %s 'all of it' */
        tn_buf_printf(text, "\n%s", call->argv[i].text);
}

/* What stands in the words of echo and printf, or in a here-document, and goes to a file. */
static void add_written(struct reading *r, const char *path)
{
    const struct tn_call *call = r->c->call;
    tn_autobuf struct tn_buf text = TN_BUF_INIT(1 << 20);

    if (r->written) {
        scene_add_content(r->s, path, r->written, r->written_len, call, r->c->part);
        return;
    }
    add_echoed(&text, call);
    for (const struct tn_call *by = call->in ? r->c->of->first : NULL; by; by = by->next)
        if (by->out == call->in) /* echo x | tee file */
            add_echoed(&text, by);
    for (const struct tn_call_redirect *d = call->redirects; d; d = d->next) {
        if (d->kind == TN_SH_HERE_TEXT || d->kind == TN_SH_HERE_STRING)
            tn_buf_puts(&text, d->target.text);
    }
    r->written = tn_arena_copy(r->s->pool, tn_buf_str(&text), text.len);
    r->written_len = text.len;
    scene_add_content(r->s, path, r->written, text.len, call, r->c->part);
}

static void add_redirect(struct reading *r, const struct tn_call_redirect *d)
{
    static const char *const sockets[] = {"/dev/tcp/", "/dev/udp/"};
    const char *text = d->target.text;

    for (size_t i = 0; i < TN_COUNT(sockets); i++) {
        size_t n = strlen(sockets[i]);
        if (strncmp(text, sockets[i], n) == 0) {
            size_t host = strcspn(text + n, "/");
            scene_add_url(r->s, i ? "udp" : "tcp", text + n, host,
                          text[n + host] ? (int)strtol(text + n + host + 1, NULL, 10) : 0, "",
                          r->c->call, r->c->part);
        }
    }
    if (d->reads || d->writes)
        add_file(r, &d->target, text, (d->reads ? USE_READ : 0) | (d->writes ? USE_WRITE : 0));
    if (d->writes)
        add_written(r, scene_path(r->s, r->c->cwd, text));
}

void scene_add_call(struct scene *s, const struct seen_call *c)
{
    const struct tn_call *call = c->call;
    struct seen_call own = *c; /* the array may move */
    struct reading r = {s, &own, find_program(call->name), 0, 0, NULL, 0};

    r.skip = r.program->skip;
    if (call->argc && strchr(call->argv[0].text, '/') && !strstr(call->argv[0].text, "://"))
        add_file(&r, &call->argv[0], call->argv[0].text, USE_EXECUTE);
    add_words(&r);
    add_handed(&r);
    if (strcmp(call->name, "find") == 0 && tn_call_has(call, "-delete"))
        add_found(&r, &own, USE_DELETE);
    for (const struct tn_call_redirect *d = call->redirects; d; d = d->next)
        add_redirect(&r, d);
    if (word_in(call->name, "tee") && call->argc > 1)
        add_written(&r, scene_path(s, own.cwd, call->argv[call->argc - 1].text));
    if (strcmp(call->name, "sed") == 0 &&
        (tn_call_letter(call, 'i') || tn_call_has(call, "--in-place"))) {
        for (size_t i = 0; i < s->path_count; i++)
            s->paths[i].use |= s->paths[i].call == call ? USE_WRITE : 0;
    }
    if (call->language && call->program)
        scene_add_code(s, own.part.field, call->program, strlen(call->program), call);
}
