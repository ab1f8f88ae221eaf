/* The text of a shell command (bash) as a syntax tree.
 *
 * The tree is what the text says, not what it does: no expansion, no wrapper is seen through
 * here; calls.h does that, and is what a policy looks at.  Positions are byte offsets into the
 * text; parts of a text inside the text (backquotes, a here-document) have positions in that
 * `source`.
 *
 * Extended patterns such as @(a|b) always count as patterns, as with `shopt -s extglob`, except as
 * the first word of a command.  Aliases, options of the shell and history expansion are unknown. */
#ifndef TN_SECURITY_COMMAND_TREE_H
#define TN_SECURITY_COMMAND_TREE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* Beyond these a text is refused (TN_E_TOO_LARGE), so that time and memory are bounded. */
enum {
    TN_SH_MAX_TEXT = 128 << 10, /* bytes */
    TN_SH_MAX_DEPTH = 64,       /* of constructs inside each other */
    TN_SH_MAX_NODES = 100000,   /* nodes, words and their parts */
};

struct tn_arena;

/* --- words ------------------------------------------------------------------------------- */

enum tn_sh_part_kind {
    TN_SH_TEXT,       /* characters, quotes removed */
    TN_SH_PARAMETER,  /* $x ${x} ${x:-word} */
    TN_SH_COMMAND,    /* $(...) `...` ${ ...; } */
    TN_SH_PROCESS,    /* <(...) >(...) */
    TN_SH_ARITHMETIC, /* $((...)) $[...] */
    TN_SH_ARRAY,      /* the (...) of NAME=(...) */
};

struct tn_sh_part {
    enum tn_sh_part_kind kind;
    bool quoted; /* not split into words, no pattern */
    size_t start, end;
    const char *text; /* TEXT: the characters; PARAMETER: the name; PROCESS: < or > */
    const char *op; /* PARAMETER: what stands before the name (! or #) or after it (:- ## / ...) */
    struct tn_sh_word *word; /* PARAMETER: after op, else NULL; ARITHMETIC: the expression; ARRAY:
                              * the first of its words */
    struct tn_sh_node *list; /* COMMAND, PROCESS; NULL: backquotes whose text is no command */
    const char *source;      /* the text that list has its positions in; NULL: the word's own */
    struct tn_sh_part *next;
};

struct tn_sh_word {
    size_t start, end;
    struct tn_sh_part *parts; /* none: an empty word, such as '' (which has one of empty text) */
    struct tn_sh_word *next;
};

struct tn_sh_assign {
    size_t start, end;
    const char *name;
    struct tn_sh_word *index; /* name[index]=, or NULL */
    bool add;                 /* += */
    struct tn_sh_word *value;
    struct tn_sh_assign *next;
};

enum tn_sh_redirect_kind {
    TN_SH_READ,        /* < */
    TN_SH_WRITE,       /* > */
    TN_SH_CLOBBER,     /* >| */
    TN_SH_APPEND,      /* >> */
    TN_SH_READ_WRITE,  /* <> */
    TN_SH_WRITE_BOTH,  /* &> , and >& with a word that is no descriptor */
    TN_SH_APPEND_BOTH, /* &>> */
    TN_SH_COPY_READ,   /* <& */
    TN_SH_COPY_WRITE,  /* >& */
    TN_SH_HERE_TEXT,   /* << and <<- */
    TN_SH_HERE_STRING, /* <<< */
};

struct tn_sh_redirect {
    enum tn_sh_redirect_kind kind;
    size_t start, end;
    int fd;               /* the number before the operator, or the one it stands for without */
    bool has_fd;          /* was written */
    const char *variable; /* {name}> */
    struct tn_sh_word *target; /* HERE_TEXT: the delimiter */
    /* HERE_TEXT only: */
    bool quoted;                 /* the delimiter is: nothing is expanded */
    bool tabs;                   /* <<- */
    const char *source;          /* the text, without its tabs and its closing line */
    struct tn_sh_word *body;     /* has positions in source */
    size_t body_start, body_end; /* with the tabs, without the closing line */
    struct tn_sh_redirect *next;
};

/* --- commands ---------------------------------------------------------------------------- */

enum tn_sh_node_kind {
    TN_SH_LIST,     /* body: pipelines, each with its `join` */
    TN_SH_PIPELINE, /* body: commands */
    TN_SH_SIMPLE,   /* assigns, words, redirects */
    TN_SH_GROUP,    /* { body } */
    TN_SH_SUBSHELL, /* ( body ) */
    TN_SH_IF,       /* test, body, other: an IF (elif), a LIST (else) or NULL */
    TN_SH_WHILE,    /* test, body */
    TN_SH_UNTIL,
    TN_SH_FOR, /* name, words (when has_words), body */
    TN_SH_SELECT,
    TN_SH_FOR_ARITH, /* words: one, the text between (( and )); body */
    TN_SH_CASE,      /* words: the subject; body: CLAUSEs */
    TN_SH_CLAUSE,    /* words: the patterns; body: a LIST or NULL; ending */
    TN_SH_TEST,      /* [[ ]]; words: the operators too */
    TN_SH_ARITH,     /* (( )); words: one */
    TN_SH_FUNCTION,  /* name, body: a compound command, which has the redirects */
    TN_SH_COPROC,    /* name or NULL, body: one command */
};

/* What follows a pipeline in its list. */
enum tn_sh_join {
    TN_SH_THEN,       /* ; or a newline, or the end */
    TN_SH_AND,        /* && */
    TN_SH_OR,         /* || */
    TN_SH_BACKGROUND, /* &, for all that is joined to it by && and || */
};

struct tn_sh_node {
    enum tn_sh_node_kind kind;
    enum tn_sh_join join;    /* of a PIPELINE */
    bool negated;            /* of a PIPELINE: ! */
    bool timed, timed_posix; /* of a PIPELINE: time, time -p */
    bool pipe_errors;        /* of a command in a pipeline: |& follows it */
    bool has_words;          /* FOR, SELECT: `in` was written */
    const char *ending;      /* CLAUSE: ;; ;& or ;;& */
    const char *name;
    size_t start, end;
    size_t assigned, assigned_end; /* the names it may change: rows of the tree's `names` */
    struct tn_sh_node *test, *body, *other;
    struct tn_sh_word *words;
    struct tn_sh_assign *assigns;
    struct tn_sh_redirect *redirects;
    struct tn_sh_node *next;
};

/* A parsed text.  Everything lies in one arena. */
struct tn_sh_tree {
    struct tn_arena *arena;
    const char *text; /* a copy, followed by a NUL */
    size_t len;
    const struct tn_sh_node *list;
    const char **names; /* of variables that may be changed, in the order of the text;
                         * "*": of any, "@": of $1 and on */
    size_t name_count;
};

/* Reads the text.  NULL with err: a syntax error (TN_E_INVALID, with its position), a limit
 * (TN_E_TOO_LARGE), or no memory.  Any bytes may be given; a NUL byte is an error.  Linear time. */
struct tn_sh_tree *tn_sh_parse(const char *text, size_t len, struct tn_error *err);
/* The same in an arena that exists; what is there on failure stays until that is freed. */
struct tn_sh_tree *tn_sh_parse_in(struct tn_arena *arena, const char *text, size_t len,
                                  struct tn_error *err);
void tn_sh_tree_free(struct tn_sh_tree *tree);

#endif
