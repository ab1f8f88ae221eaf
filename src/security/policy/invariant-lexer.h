/* Words and signs of Invariant's language, with their places. */
#ifndef TN_SECURITY_POLICY_INVARIANT_LEXER_H
#define TN_SECURITY_POLICY_INVARIANT_LEXER_H

#include "base/error.h"
#include "security/policy/pool.h"

enum token_kind {
    TOKEN_NAME,
    TOKEN_NUMBER,
    TOKEN_TEXT, /* with its quotes */
    TOKEN_SIGN,
    TOKEN_END,
};

struct token {
    enum token_kind kind;
    const char *text;
    size_t len;
    int line;
    size_t column; /* from 1 */
    bool first;    /* of its line */
};

struct lexer {
    const char *file;
    const char *at, *end, *line_start;
    int line;
    int open;           /* brackets: line breaks in them count as spaces */
    struct token token; /* the one to be read next */
    struct tn_error *err;
};

/* All return 0, or -1 with "file:line:column: ..." in err. */
int lexer_init(struct lexer *l, const char *file, const char *text, size_t n, struct tn_error *err);
int lexer_next(struct lexer *l);
int lexer_expect(struct lexer *l, const char *sign); /* and goes on behind it */
int lexer_expect_line(struct lexer *l);              /* a new line, or the end */
int lexer_fail(struct lexer *l, const char *fmt, ...) TN_PRINTF(2, 3);

bool lexer_at(const struct lexer *l, const char *word); /* a name or sign, not a text */
bool token_is(const struct token *t, const char *word);
/* What stands between the quotes. */
char *token_text(const struct token *t, struct tn_arena *pool);

#endif
