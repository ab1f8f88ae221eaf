#include "security/policy/scene.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <limits.h>
#include <strings.h>

#include "security/analyzer.h"

enum { FOLLOW_MAX = 256 }; /* paths: as many as a hand is asked for at once */

/* The trees of the texts that were read: the calls point into them. */
struct owned_calls {
    struct tn_calls *calls;
    struct owned_calls *next;
};

/* Whether there is room for one more; else there is something that was not looked at. */
static bool room(struct scene *s, size_t count, size_t most, struct part part)
{
    if (count >= most && !s->unread) {
        s->unread = "there is more in it than is looked at";
        s->unread_part = part;
    }
    return count < most;
}

#define ADD(s, list, most, part, ...)                                                        \
    do {                                                                                     \
        if (room(s, (s)->list##_count, most, part)) {                                        \
            (s)->list##s =                                                                   \
                pool_grow((s)->pool, (s)->list##s, (s)->list##_count, sizeof *(s)->list##s); \
            (s)->list##s[(s)->list##_count++] = (struct seen_##list){__VA_ARGS__};           \
        }                                                                                    \
    } while (0)

static struct part whole(const char *field, const char *text, size_t n)
{
    return (struct part){field, text, n};
}

bool word_in(const char *word, const char *list)
{
    size_t n = strlen(word);

    for (const char *at = list; n && (at = strstr(at, word)); at += n) {
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || !at[n]))
            return true;
    }
    return false;
}

/* --- paths ------------------------------------------------------------------------------------ */

/* The text behind a home that is written as a variable, or NULL. */
static const char *behind_home(const char *text)
{
    static const char *const spellings[] = {"$HOME", "${HOME}"};

    for (size_t i = 0; i < TN_COUNT(spellings); i++) {
        size_t n = strlen(spellings[i]);
        if (strncmp(text, spellings[i], n) == 0 && (text[n] == '/' || !text[n]))
            return text + n;
    }
    return NULL;
}

/* Adds the parts of a path to out, which holds a root ("/", "~" or "") and what was added before.
 */
static void add_parts(struct tn_buf *out, size_t root, const char *text)
{
    while (*text) {
        size_t n = strcspn(text, "/");
        if (n == 2 && text[0] == '.' && text[1] == '.') {
            while (out->len > root && out->data[out->len - 1] != '/')
                tn_buf_cut(out, out->len - 1);
            if (out->len > root)
                tn_buf_cut(out, out->len - 1);
        } else if (n && !(n == 1 && text[0] == '.')) {
            if (out->len && out->data[out->len - 1] != '/')
                tn_buf_putc(out, '/');
            tn_buf_add(out, text, n);
        }
        text += n + (text[n] == '/');
    }
}

const char *scene_path(struct scene *s, const char *cwd, const char *text)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(1 << 20);
    const char *home = behind_home(text);

    if (home || text[0] == '~') {
        size_t n = home ? 0 : strcspn(text, "/");
        tn_buf_add(&out, home ? "~" : text, home ? 1 : n);
        add_parts(&out, out.len, home ? home : text + n);
    } else if (text[0] == '/') {
        tn_buf_putc(&out, '/');
        add_parts(&out, 1, text);
    } else if (cwd) {
        size_t root = cwd[0] == '~' ? strcspn(cwd, "/") : 1;
        tn_buf_add(&out, cwd[0] == '~' ? cwd : "/", root);
        add_parts(&out, root, cwd + (cwd[0] == '~' ? root : 0));
        add_parts(&out, root, text);
    } else {
        /* above a directory that is not known: it may be the root */
        if (strncmp(text, "..", 2) == 0 && (text[2] == '/' || !text[2]))
            tn_buf_putc(&out, '/');
        add_parts(&out, out.len, text);
    }
    return tn_arena_copy(s->pool, tn_buf_str(&out), out.len);
}

void scene_add_path(struct scene *s, const char *cwd, const char *text, unsigned use, bool glob,
                    const struct tn_call *call, struct part part)
{
    const char *home = behind_home(text), *raw = text;

    /* no file has a name that is as long: a text, or something that is made to look so */
    bool text_only = strlen(text) >= PATH_MAX;
    bool looked = !text_only || (!glob && text[0] != '/' && text[0] != '~');
    if (!*text || !use || !room(s, looked ? s->path_count : SCENE_THINGS, SCENE_THINGS, part) ||
        text_only)
        return;
    if (home || (cwd && text[0] != '/' && text[0] != '~')) {
        tn_autofree char *joined =
            tn_asprintf("%s%s%s", home ? "~" : cwd, home ? "" : "/", home ? home : text);
        raw = pool_strdup(s->pool, joined);
    }
    ADD(s, path, SCENE_THINGS, part, scene_path(s, cwd, text), use, glob, call, part, raw);
}

void scene_add_content(struct scene *s, const char *path, const char *text, size_t n,
                       const struct tn_call *call, struct part part)
{
    if (n)
        ADD(s, content, SCENE_THINGS, part, path, text, n, call, part);
}

void scene_add_sign(struct scene *s, const char *kind, const char *text, const struct tn_call *call,
                    struct part part)
{
    struct sign *sign = tn_arena_get(s->pool, sizeof *sign);

    *sign = (struct sign){kind, text, call, part, NULL};
    *s->next_sign = sign;
    s->next_sign = &sign->next;
}

/* --- URLs ------------------------------------------------------------------------------------- */

static int scheme_port(const char *scheme)
{
    static const struct {
        const char *scheme;
        int port;
    } ports[] = {{"http", 80},  {"https", 443}, {"ftp", 21}, {"ssh", 22},
                 {"git", 9418}, {"ws", 80},     {"wss", 443}};

    for (size_t i = 0; i < TN_COUNT(ports); i++) {
        if (strcmp(scheme, ports[i].scheme) == 0)
            return ports[i].port;
    }
    return 0;
}

static char *lowered(struct scene *s, const char *text, size_t n)
{
    char *copy = tn_arena_copy(s->pool, text, n);

    for (char *c = copy; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    return copy;
}

void scene_add_url(struct scene *s, const char *scheme, const char *host, size_t host_len, int port,
                   const char *path, const struct tn_call *call, struct part part)
{
    char *name;
    struct in_addr numeric;
    char usual[INET_ADDRSTRLEN];

    while (host_len && host[host_len - 1] == '.')
        host_len--;
    name = lowered(s, host, host_len);
    /* 0x7f.1 and 2130706433 are 127.0.0.1 to whoever connects */
    if (isdigit((unsigned char)name[0]) && inet_aton(name, &numeric) &&
        inet_ntop(AF_INET, &numeric, usual, sizeof usual))
        name = pool_strdup(s->pool, usual);
    ADD(s, url, SCENE_THINGS, part, scheme, name, path, port ? port : scheme_port(scheme),
        !strpbrk(name, "$`"), call, part);
}

/* Signs that end a URL in a text. */
static bool url_byte(char c)
{
    return (unsigned char)c > ' ' && !strchr("\"'<>`|;", c);
}

/* The part between "://" and the path: user@host:port. */
static void add_authority(struct scene *s, const char *scheme, const char *at, const char *end,
                          const struct tn_call *call, struct part part)
{
    const char *stop = at, *host = at;
    long port = 0;

    while (stop < end && !strchr("/?#\\", *stop))
        stop++;
    for (const char *c = at; c < stop; c++) {
        if (*c == '@')
            host = c + 1;
    }
    const char *name_end =
        host < stop && *host == '[' ? memchr(host, ']', (size_t)(stop - host)) : NULL;
    const char *colon =
        memchr(name_end ? name_end : host, ':', (size_t)(stop - (name_end ? name_end : host)));
    if (colon)
        port = strtol(colon + 1, NULL, 10);
    if (name_end)
        host++;
    else
        name_end = colon ? colon : stop;
    bool file = strcmp(scheme, "file") == 0;
    const char *path = tn_arena_copy(s->pool, stop, (size_t)(end - stop));
    if (name_end > host || file)
        scene_add_url(s, scheme, host, (size_t)(name_end - host),
                      port > 0 && port < 65536 ? (int)port : 0, path, call, part);
    if (file && *path == '/')
        scene_add_path(s, NULL, path, USE_READ, false, call, part);
}

void scene_add_urls(struct scene *s, const char *text, size_t n, const struct tn_call *call,
                    struct part part)
{
    const char *end = text + n, *at = text;

    while ((at = memmem(at, (size_t)(end - at), "://", 3))) {
        const char *scheme = at, *stop = at + 3;
        while (scheme > text && (isalnum((unsigned char)scheme[-1]) || strchr("+.-", scheme[-1])))
            scheme--;
        while (stop < end && url_byte(*stop))
            stop++;
        while (stop > at + 3 && strchr(").,]}", stop[-1]))
            stop--;
        if (scheme < at) {
            const char *plus = memchr(scheme, '+', (size_t)(at - scheme)); /* git+https */
            if (plus)
                scheme = plus + 1;
            if (part.len == n && part.text == text)
                part = whole(part.field, scheme, (size_t)(stop - scheme));
            add_authority(s, lowered(s, scheme, (size_t)(at - scheme)), at + 3, stop, call, part);
            part = whole(part.field, text, n);
        }
        at = stop;
    }
}

/* --- actions ---------------------------------------------------------------------------------- */

int scene_add_shell(struct scene *s, const char *field, const char *text, size_t n, bool must)
{
    struct tn_error err = {0};
    struct tn_calls *calls = tn_calls_new(text, n, &err);
    size_t first = s->call_count;
    struct owned_calls *owned;
    const char *shell = s->cwd, *below = s->cwd; /* the directory, and that of a subshell */

    if (!calls && must) {
        s->unread = pool_strdup(s->pool, err.text);
        s->unread_part = whole(field, text, n);
    }
    if (!calls)
        return -1;
    owned = tn_arena_get(s->pool, sizeof *owned);
    *owned = (struct owned_calls){calls, s->owned};
    s->owned = owned;
    for (const struct tn_call *c = calls->first; c; c = c->next) {
        bool inner = c->flags & TN_CALL_SUBSHELL;
        if (!inner)
            below = shell;
        ADD(s, call, SCENE_CALLS, whole(field, text, n), c, calls, inner ? below : shell,
            whole(field, calls->tree->text + c->start, c->end - c->start));
        if (!word_in(c->name, "cd pushd"))
            continue;
        const struct tn_arg *to = c->argc > 1 ? &c->argv[c->argc - 1] : NULL;
        below = !to                                        ? "~"
                : to->value && strcmp(to->value, "-") != 0 ? scene_path(s, below, to->value)
                : behind_home(to->text)                    ? scene_path(s, NULL, to->text)
                                                           : NULL;
        if (below && strlen(below) >= PATH_MAX) /* each path below it would be as long */
            below = NULL;
        if (!inner)
            shell = below;
    }
    for (size_t i = first, count = s->call_count; i < count; i++)
        scene_add_call(s, &s->calls[i]);
    return 0;
}

/* Arguments of tools of others: what a string is follows from how it looks, and from its name. */
static void add_argument(struct scene *s, const char *key, const struct tn_json *v);

static int add_member(const char *key, struct tn_json *v, void *scene)
{
    add_argument(scene, key, v);
    return 0;
}

static void add_argument(struct scene *s, const char *key, const struct tn_json *v)
{
    size_t n = 0;
    const char *text = tn_json_str(v, &n);
    char *field =
        tn_json_type(v) == TN_JSON_STRING ? tn_arena_get(s->pool, strlen(key) + 11) : NULL;

    if (tn_json_type(v) == TN_JSON_OBJECT)
        tn_json_each(v, add_member, s);
    for (size_t i = 0; tn_json_type(v) == TN_JSON_ARRAY && i < tn_json_count(v); i++)
        add_argument(s, key, tn_json_at(v, i));
    if (!text)
        return;
    snprintf(field, strlen(key) + 11, "arguments.%s", key);
    struct part part = whole(field, text, n);
    scene_add_urls(s, text, n, NULL, part);
    if (n < 4096 && (word_in(key, "path file filename file_path filepath source destination") ||
                     text[0] == '/' || strncmp(text, "~/", 2) == 0 || strncmp(text, "./", 2) == 0))
        scene_add_path(s, s->cwd, strncmp(text, "file://", 7) == 0 ? text + 7 : text,
                       USE_READ | USE_WRITE, false, NULL, part);
    if (word_in(key, "command cmd script shell bash"))
        scene_add_shell(s, field, text, n, true);
    if (word_in(key, "code python"))
        scene_add_code(s, field, text, n, NULL);
    if (word_in(key, "content contents text new_str file_text data"))
        scene_add_content(s, "", text, n, NULL, part);
}

static void add_written(struct scene *s, const char *field, const char *path,
                        const struct tn_text *t)
{
    if (t->data)
        scene_add_content(s, scene_path(s, s->cwd, path ? path : ""), t->data, t->len, NULL,
                          whole(field, t->data, t->len));
}

/* Scripts that the command writes and runs are seen, too. */
static void see_scripts(struct scene *s)
{
    for (size_t i = 0, count = s->content_count; i < count; i++) {
        struct seen_content script = s->contents[i];
        size_t n = strlen(script.path);
        bool python = n > 3 && strcmp(script.path + n - 3, ".py") == 0, runs = false;
        for (size_t k = 0; n && !runs && k < s->path_count; k++)
            runs = s->paths[k].use & USE_EXECUTE && strcmp(s->paths[k].path, script.path) == 0;
        if (runs && python)
            scene_add_code(s, script.part.field, script.text, script.len, script.call);
        else if (runs)
            scene_add_shell(s, script.part.field, script.text, script.len, false);
    }
}

static void see_run(struct scene *s)
{
    const struct tn_run_action *run = &s->action->run;
    const char *text = run->command ? run->command : "";

    if (run->is_static && run->cwd)
        s->cwd = scene_path(s, s->cwd, run->cwd);
    if (run->input_path)
        scene_add_path(s, s->cwd, run->input_path, USE_READ, false, NULL,
                       whole("args.stdin", run->input_path, strlen(run->input_path)));
    /* what is typed into a program may be meant for a shell, or for an interpreter */
    if (scene_add_shell(s, "args.command", text, strlen(text), !run->is_input) && run->is_input)
        scene_add_code(s, "args.command", text, strlen(text), NULL);
    see_scripts(s);
}

static void see_file(struct scene *s, const char *path, unsigned use)
{
    if (path)
        scene_add_path(s, s->cwd, path, use, false, NULL, whole("args.path", path, strlen(path)));
}

static void see_edit(struct scene *s)
{
    const struct tn_edit_action *e = &s->action->edit;

    see_file(s, e->path, e->command && strcmp(e->command, "view") == 0 ? USE_READ : USE_WRITE);
    add_written(s, "args.file_text", e->path, &e->file_text);
    add_written(s, "args.new_str", e->path, &e->new_str);
    add_written(s, "args.content", e->path, &e->content);
}

static void see_text(struct scene *s, const char *field, const char *text)
{
    if (text)
        scene_add_urls(s, text, strlen(text), NULL, whole(field, text, strlen(text)));
}

void scene_of_action(struct scene *s, const struct tn_action *a, const char *cwd)
{
    *s = (struct scene){.action = a, .cwd = cwd, .pool = tn_arena_new()};
    switch ((int)a->type) {
    case TN_ACTION_RUN:
        see_run(s);
        break;
    case TN_ACTION_RUN_IPYTHON:
        if (a->run_ipython.code)
            scene_add_code(s, "args.code", a->run_ipython.code, strlen(a->run_ipython.code), NULL);
        if (a->run_ipython.kernel_init_code)
            scene_add_code(s, "args.kernel_init_code", a->run_ipython.kernel_init_code,
                           strlen(a->run_ipython.kernel_init_code), NULL);
        break;
    case TN_ACTION_READ:
        see_file(s, a->read.path, USE_READ);
        break;
    case TN_ACTION_WRITE:
        see_file(s, a->write.path, USE_WRITE);
        add_written(s, "args.content", a->write.path, &a->write.content);
        break;
    case TN_ACTION_EDIT:
        see_edit(s);
        break;
    case TN_ACTION_BROWSE:
        see_text(s, "args.url", a->browse.url);
        break;
    case TN_ACTION_BROWSE_INTERACTIVE:
        see_text(s, "args.browser_actions", a->browse_interactive.browser_actions);
        break;
    case TN_ACTION_CALL_TOOL_MCP:
        add_argument(s, "", a->call_tool_mcp.arguments);
        break;
    case TN_ACTION_PLUGIN:
        add_argument(s, "", a->plugin.args);
        break;
    case TN_ACTION_NETWORK:
        if (a->network.host)
            scene_add_url(s, a->network.protocol, a->network.host, strlen(a->network.host),
                          (int)a->network.port, "/", NULL,
                          whole("args.host", a->network.host, strlen(a->network.host)));
        break;
    default:
        break;
    }
}

/* The last part of a path that is named itself, not what a link of that name leads to; or NULL. */
static const char *named_itself(const struct seen_path *p)
{
    const char *slash = strrchr(p->raw, '/'), *last = slash ? slash + 1 : p->raw;
    bool itself = (p->use & USE_DELETE) && !(p->use & USE_WRITE);

    return itself && *last && strcmp(last, ".") != 0 && strcmp(last, "..") != 0 ? last : NULL;
}

int scene_follow(struct scene *s, const struct tn_case *c, int64_t deadline, struct tn_error *err)
{
    const char *names[FOLLOW_MAX];
    size_t all = s->path_count, count = all < FOLLOW_MAX ? all : FOLLOW_MAX;
    struct tn_error why = {0};

    for (size_t i = 0; i < count; i++) {
        const struct seen_path *p = &s->paths[i];
        const char *last = named_itself(p);
        names[i] = !last            ? p->raw
                   : last == p->raw ? "."
                                    : tn_arena_copy(s->pool, p->raw, (size_t)(last - p->raw));
    }
    tn_autojson struct tn_json *targets =
        c->lead && count ? c->lead(c->lead_ctx, names, count, deadline, &why) : NULL;
    if (!targets && why.code && why.code != TN_E_UNSUPPORTED) {
        *err = why;
        return -1;
    }
    for (size_t i = 0; targets && i < count; i++) {
        const char *target = tn_json_str(tn_json_at(targets, i), NULL);
        const struct seen_path p = s->paths[i];
        const char *last = named_itself(&p);
        if (!target || target[0] != '/') {
            tn_fail(&why, TN_E_PEER, "it is not known where %.200s leads", p.raw);
            continue;
        }
        const char *path = scene_path(s, target, last ? last : ".");
        if (strcmp(path, p.path) != 0)
            ADD(s, path, SCENE_THINGS, p.part, path, p.use, p.glob, p.call, p.part, path);
    }
    if (targets && count < all)
        tn_fail(&why, TN_E_TOO_LARGE, "it names more paths than links are followed for");
    if (!targets || !why.code)
        return 0;
    *err = why;
    return -1;
}

void scene_of_output(struct scene *s, const char *text, size_t n)
{
    *s = (struct scene){.output = text, .output_len = n, .pool = tn_arena_new()};
}

void scene_done(struct scene *s)
{
    for (struct owned_calls *o = s->owned; o; o = o->next)
        tn_calls_free(o->calls);
    tn_arena_free(s->pool);
}
