/* What the parts of the parser share: grammar.c reads commands, word.c words and what is
 * expanded in them, heredoc.c here-documents.
 *
 * The first error moves the position to the end of the text, so every loop ends by itself; whoever
 * looks at a result asks `failed` once, at the end. */
#ifndef TN_SECURITY_COMMAND_PARSE_H
#define TN_SECURITY_COMMAND_PARSE_H

#include <string.h>

#include "base/buf.h"
#include "security/command/arena.h"
#include "security/command/tree.h"

struct pending {
    struct tn_sh_redirect *redirect;
    struct pending *next;
};

/* Of a text and all texts inside it. */
struct parse_common {
    struct tn_sh_tree *tree;
    size_t nodes;
    size_t name_room;
    size_t ahead;          /* bytes looked at in advance */
    struct tn_buf scratch; /* the characters of the word that is being read */
};

struct parser {
    const char *text;
    size_t len, pos;
    unsigned depth;
    unsigned substitutions;  /* how many $( are open */
    struct pending *pending; /* here-documents whose bodies follow the line, in order */
    struct parse_common *common;
    bool failed;
    struct tn_error *err;
};

/* Both fail the parser; the first names the position. */
void sh_wrong(struct parser *p, size_t at, const char *fmt, ...) TN_PRINTF(3, 4);
void sh_too_large(struct parser *p, const char *what);

/* One level deeper until sh_leave; false when that is too deep. */
bool sh_enter(struct parser *p);
void sh_leave(struct parser *p);

/* Zeroed memory for a node, which is counted. */
void *sh_get(struct parser *p, size_t size);
/* Remembers that a variable may be changed here. */
void sh_note_name(struct parser *p, const char *name, size_t len);

/* The next character behind lines that a backslash joins; -1 at the end. */
int sh_next(struct parser *p);
/* Whether these characters come next; then they are behind us. */
bool sh_eat(struct parser *p, const char *chars);
/* Whether they come next. */
bool sh_sees(struct parser *p, const char *chars);

/* Blanks, joined lines and a comment. */
void sh_skip_blanks(struct parser *p);
/* The same and newlines, with the bodies of here-documents. */
void sh_skip_lines(struct parser *p);

static inline bool sh_is_name(int c, bool first)
{
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (!first && c >= '0' && c <= '9');
}

static inline bool sh_is_meta(int c)
{
    return c == -1 || (c > 0 && strchr(" \t\n|&;()<>", c));
}

/* --- word.c ------------------------------------------------------------------------------ */

enum word_mode {
    WORD_PLAIN,   /* up to a blank or an operator */
    WORD_COMMAND, /* the same where ( after it is no pattern: the name of a command */
    WORD_DECLARE, /* the same where NAME=(...) is an array */
    WORD_VALUE,   /* the same behind NAME= */
    WORD_REGEX,   /* the same, and ( | ) are part of it */
    WORD_BRACE,   /* up to the } of ${ */
    WORD_BRACE_QUOTED,
    WORD_QUOTED, /* up to the closing " */
    WORD_GROUP,  /* up to the ) of an extended pattern */
    WORD_BODY,   /* all of the text: a here-document, an arithmetic expression */
};

/* The word that begins at the position; of no parts when there is none. */
struct tn_sh_word *sh_read_word(struct parser *p, enum word_mode mode);
/* What lies between two parentheses of arithmetic, if the position (behind the second one) begins
 * such: then the position is behind both that close it.  NULL when it is something else. */
struct tn_sh_word *sh_read_arithmetic(struct parser *p);
/* Whether it is exactly these characters, with no quotes. */
bool sh_word_is(const struct tn_sh_word *word, const char *literal);

/* --- heredoc.c --------------------------------------------------------------------------- */

void sh_add_heredoc(struct parser *p, struct tn_sh_redirect *redirect);
/* Reads the bodies of all that are pending; the position is behind the newline. */
void sh_read_heredocs(struct parser *p);

/* --- grammar.c --------------------------------------------------------------------------- */

struct tn_sh_node *sh_begin(struct parser *p, enum tn_sh_node_kind kind);
void sh_end(struct parser *p, struct tn_sh_node *node);

/* Commands up to what cannot go on: the end, ), ;; or a word such as `done`. */
struct tn_sh_node *sh_read_list(struct parser *p, bool may_be_empty);
/* A list in a substitution up to its closing character, which is behind us then. */
struct tn_sh_node *sh_read_substitution(struct parser *p, const char *close);
/* The compound command that a function is; makes node that function. */
void sh_read_body(struct parser *p, struct tn_sh_node *node);
/* A word that must be there. */
struct tn_sh_word *sh_expect_plain(struct parser *p, enum word_mode mode, const char *what);

/* --- simple.c ---------------------------------------------------------------------------- */

/* A simple command, or NAME () with its body. */
void sh_read_simple(struct parser *p, struct tn_sh_node *node);
void sh_read_redirects(struct parser *p, struct tn_sh_node *node);
/* What follows [[. */
void sh_read_test(struct parser *p, struct tn_sh_node *node);

/* --- tree.c ------------------------------------------------------------------------------ */

/* Lists and words that are a text of their own: backquotes, a here-document.  bash reads them only
 * when it runs them, so one that is wrong is NULL and no error; a limit fails p. */
struct tn_sh_node *sh_inner_list(struct parser *p, const char *text, size_t len);
struct tn_sh_word *sh_inner_word(struct parser *p, const char *text, size_t len);

#endif
