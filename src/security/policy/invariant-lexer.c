#include "security/policy/invariant-lexer.h"

#include <ctype.h>
#include <stdarg.h>

int lexer_fail(struct lexer *l, const char *fmt, ...)
{
    char text[300];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return tn_fail(l->err, TN_E_INVALID, "%s:%d:%zu: %s", l->file, l->token.line, l->token.column,
                   text);
}

bool token_is(const struct token *t, const char *word)
{
    return (t->kind == TOKEN_NAME || t->kind == TOKEN_SIGN) && strlen(word) == t->len &&
           memcmp(t->text, word, t->len) == 0;
}

bool lexer_at(const struct lexer *l, const char *word)
{
    return token_is(&l->token, word);
}

char *token_text(const struct token *t, struct tn_arena *pool)
{
    char *out = tn_arena_get(pool, t->len), *to = out;

    for (const char *c = t->text + 1; c < t->text + t->len - 1; c++) {
        if (*c == '\\' && c + 2 < t->text + t->len)
            c++;
        *to++ = *c;
    }
    return out;
}

/* Skips spaces and comments; line breaks too. */
static void skip_space(struct lexer *l)
{
    for (; l->at < l->end; l->at++) {
        if (*l->at == '#') {
            while (l->at + 1 < l->end && l->at[1] != '\n')
                l->at++;
        } else if (*l->at == '\n') {
            l->line++;
            l->line_start = l->at + 1;
        } else if (!isspace((unsigned char)*l->at)) {
            break;
        }
    }
}

static size_t text_length(const char *at, const char *end)
{
    const char *c = at + 1;

    while (c < end && *c != *at && *c != '\n')
        c += *c == '\\' && c + 1 < end ? 2 : 1;
    return c < end && *c == *at ? (size_t)(c + 1 - at) : 0;
}

int lexer_next(struct lexer *l)
{
    static const char *const signs[] = {":=", "->", "==", "!=", "<=", ">=", "(", ")",
                                        "[",  "]",  ",",  ".",  ":",  "=",  "<", ">"};
    struct token *t = &l->token;
    int line = t->line;
    const char *at;

    skip_space(l);
    at = l->at;
    *t = (struct token){TOKEN_END,      at, 0, l->line, (size_t)(at - l->line_start) + 1,
                        l->line != line};
    if (at == l->end)
        return 0;
    while (at + t->len < l->end && (isalnum((unsigned char)at[t->len]) || at[t->len] == '_'))
        t->len++;
    t->kind = isdigit((unsigned char)*at) ? TOKEN_NUMBER : TOKEN_NAME;
    if (*at == '"' || *at == '\'') {
        t->kind = TOKEN_TEXT;
        t->len = text_length(at, l->end);
        if (!t->len)
            return lexer_fail(l, "a text without its closing quote");
    }
    for (size_t i = 0; !t->len && i < TN_COUNT(signs); i++) {
        size_t n = strlen(signs[i]);
        if ((size_t)(l->end - at) >= n && memcmp(at, signs[i], n) == 0) {
            t->kind = TOKEN_SIGN;
            t->len = n;
        }
    }
    if (!t->len)
        return lexer_fail(l, "'%c' has no meaning here", isprint((unsigned char)*at) ? *at : '?');
    /* within brackets a condition may go over several lines */
    t->first = t->first && !l->open;
    if (t->kind == TOKEN_SIGN)
        l->open += strchr("([", *at) ? 1 : strchr(")]", *at) ? -1 : 0;
    if (l->open < 0)
        return lexer_fail(l, "nothing is open here");
    l->at += t->len;
    return 0;
}

int lexer_init(struct lexer *l, const char *file, const char *text, size_t n, struct tn_error *err)
{
    *l = (struct lexer){
        .file = file, .at = text, .end = text + n, .line_start = text, .line = 1, .err = err};
    return lexer_next(l);
}

int lexer_expect(struct lexer *l, const char *sign)
{
    if (!lexer_at(l, sign))
        return lexer_fail(l, "expected '%s', found %s%.*s%s", sign,
                          l->token.kind == TOKEN_END ? "the end" : "'",
                          (int)(l->token.len < 40 ? l->token.len : 40), l->token.text,
                          l->token.kind == TOKEN_END ? "" : "'");
    return lexer_next(l);
}

int lexer_expect_line(struct lexer *l)
{
    if (l->token.kind != TOKEN_END && !l->token.first)
        return lexer_fail(l, "expected the end of the line, found '%.*s'",
                          (int)(l->token.len < 40 ? l->token.len : 40), l->token.text);
    return 0;
}
