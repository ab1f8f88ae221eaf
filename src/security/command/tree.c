/* The text under the parser, its limits and errors, and the parser's beginning. */
#include "security/command/tree.h"

#include <stdarg.h>

#include "security/command/parse.h"

/* --- errors and limits ------------------------------------------------------------------- */

static void stop(struct parser *p)
{
    p->failed = true;
    p->pos = p->len;
}

void sh_wrong(struct parser *p, size_t at, const char *fmt, ...)
{
    if (p->failed)
        return;
    unsigned line = 1, column = 1;
    for (size_t i = 0; i < at && i < p->len; i++) {
        column = p->text[i] == '\n' ? 1 : column + 1;
        line += p->text[i] == '\n';
    }
    char what[200];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof(what), fmt, args);
    va_end(args);
    tn_fail(p->err, TN_E_INVALID, "line %u, column %u: %s", line, column, what);
    stop(p);
}

void sh_too_large(struct parser *p, const char *what)
{
    if (p->failed)
        return;
    tn_fail(p->err, TN_E_TOO_LARGE, "too much to judge: %s", what);
    stop(p);
}

bool sh_enter(struct parser *p)
{
    if (p->depth >= TN_SH_MAX_DEPTH) {
        sh_too_large(p, "constructs are nested too deeply");
        return false;
    }
    p->depth++;
    return true;
}

void sh_leave(struct parser *p)
{
    p->depth--;
}

void *sh_get(struct parser *p, size_t size)
{
    if (++p->common->nodes > TN_SH_MAX_NODES)
        sh_too_large(p, "there are too many words");
    return tn_arena_get(p->common->tree->arena, size);
}

void sh_note_name(struct parser *p, const char *name, size_t len)
{
    struct tn_sh_tree *tree = p->common->tree;
    if (tree->name_count == p->common->name_room) {
        p->common->name_room = p->common->name_room ? 2 * p->common->name_room : 16;
        const char **names = tn_arena_get(tree->arena, p->common->name_room * sizeof(*names));
        if (tree->name_count)
            memcpy(names, tree->names, tree->name_count * sizeof(*names));
        tree->names = names;
    }
    tree->names[tree->name_count++] = tn_arena_copy(tree->arena, name, len);
}

/* --- characters -------------------------------------------------------------------------- */

int sh_next(struct parser *p)
{
    while (p->len - p->pos >= 2 && p->text[p->pos] == '\\' && p->text[p->pos + 1] == '\n')
        p->pos += 2;
    return p->pos < p->len ? (unsigned char)p->text[p->pos] : -1;
}

bool sh_eat(struct parser *p, const char *chars)
{
    size_t start = p->pos;
    for (; *chars; chars++) {
        if (sh_next(p) != (unsigned char)*chars) {
            p->pos = start;
            return false;
        }
        p->pos++;
    }
    return true;
}

bool sh_sees(struct parser *p, const char *chars)
{
    size_t start = p->pos;
    bool seen = sh_eat(p, chars);
    p->pos = start;
    return seen;
}

void sh_skip_blanks(struct parser *p)
{
    while (sh_next(p) == ' ' || sh_next(p) == '\t')
        p->pos++;
    if (sh_next(p) == '#')
        while (p->pos < p->len && p->text[p->pos] != '\n')
            p->pos++;
}

void sh_skip_lines(struct parser *p)
{
    for (sh_skip_blanks(p); sh_next(p) == '\n'; sh_skip_blanks(p)) {
        p->pos++;
        sh_read_heredocs(p);
    }
}

/* --- texts inside the text --------------------------------------------------------------- */

static struct parser inner_parser(struct parser *p, const char *text, size_t len,
                                  struct tn_error *err)
{
    return (struct parser){
        .text = text, .len = len, .depth = p->depth, .common = p->common, .err = err};
}

/* What of the inner one concerns the outer one; true when the inner one is right. */
static bool inner_done(struct parser *p, struct parser *inner)
{
    tn_buf_reset(&p->common->scratch);
    if (inner->failed && inner->err->code == TN_E_TOO_LARGE)
        sh_too_large(p, "a text inside the text");
    return !inner->failed;
}

struct tn_sh_node *sh_inner_list(struct parser *p, const char *text, size_t len)
{
    struct tn_error err = {0};
    struct parser inner = inner_parser(p, text, len, &err);
    struct tn_sh_node *list = sh_read_list(&inner, true);
    if (inner.pos < inner.len)
        sh_wrong(&inner, inner.pos, "the end was expected");
    return inner_done(p, &inner) ? list : NULL;
}

struct tn_sh_word *sh_inner_word(struct parser *p, const char *text, size_t len)
{
    struct tn_error err = {0};
    struct parser inner = inner_parser(p, text, len, &err);
    struct tn_sh_word *word = sh_read_word(&inner, WORD_BODY);
    return inner_done(p, &inner) ? word : NULL;
}

/* --- the beginning ----------------------------------------------------------------------- */

static void read_all(struct parser *p)
{
    const char *nul = p->len ? memchr(p->text, 0, p->len) : NULL;
    if (nul) {
        sh_wrong(p, (size_t)(nul - p->text), "a NUL byte");
        return;
    }
    p->common->tree->list = sh_read_list(p, true);
    if (p->pos < p->len)
        sh_wrong(p, p->pos, "a command was expected, found '%.*s'", 1, p->text + p->pos);
}

struct tn_sh_tree *tn_sh_parse_in(struct tn_arena *arena, const char *text, size_t len,
                                  struct tn_error *err)
{
    struct tn_error reason = {0};
    if (len > TN_SH_MAX_TEXT) {
        tn_fail(err, TN_E_TOO_LARGE, "too much to judge: the text has more than %d bytes",
                TN_SH_MAX_TEXT);
        return NULL;
    }
    struct tn_sh_tree *tree = tn_arena_get(arena, sizeof(*tree));
    *tree =
        (struct tn_sh_tree){.arena = arena, .len = len, .text = tn_arena_copy(arena, text, len)};
    struct parse_common common = {.tree = tree, .scratch = TN_BUF_INIT(2 * TN_SH_MAX_TEXT)};
    struct parser p = {.text = tree->text, .len = len, .common = &common, .err = &reason};
    read_all(&p);
    tn_buf_done(&common.scratch);
    if (!p.failed)
        return tree;
    if (err)
        *err = reason;
    return NULL;
}

struct tn_sh_tree *tn_sh_parse(const char *text, size_t len, struct tn_error *err)
{
    struct tn_arena *arena = tn_arena_new();
    struct tn_sh_tree *tree = tn_sh_parse_in(arena, text, len, err);
    if (!tree)
        tn_arena_free(arena);
    return tree;
}

void tn_sh_tree_free(struct tn_sh_tree *tree)
{
    if (tree)
        tn_arena_free(tree->arena);
}
