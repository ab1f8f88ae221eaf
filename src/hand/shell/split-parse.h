/* The bash reader behind split.c, shared by its parts and by nobody else.
 *
 * It is a machine with a stack of frames.  The top frame says what the next bytes are: inside text
 * frames (a word, a quote, an expansion) split-scan.c goes byte by byte; inside the others it cuts
 * tokens and hands them to split-grammar.c, which decides what may follow.  A word may hold
 * commands and commands hold words, so both kinds share one stack, and nothing recurses. */
#ifndef TN_HAND_SHELL_SPLIT_PARSE_H
#define TN_HAND_SHELL_SPLIT_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hand/shell/split.h"

enum {
    SPLIT_MAX_DEPTH = 1000,
    SPLIT_MAX_HEREDOCS = 16, /* that may wait for one newline: bash's own limit */
    SPLIT_MAX_REREADS = 4,   /* how often the text may be read once more, on the whole */
};

enum phase {
    IN_NOTHING, /* in tables: no phase, or the construct ends */

    /* Lists of commands.  They use `at`, `seen` and `target`. */
    IN_TOP,
    IN_SUBSTITUTION, /* $( <( >( */
    IN_SUBSHELL,
    IN_GROUP,
    IN_IF, /* the condition; `elif` comes back here */
    IN_THEN,
    IN_ELSE,
    IN_WHILE, /* the condition of while and until */
    IN_DO,
    IN_CASE_BODY,

    /* Headers and whatever else is made of tokens but is no list. */
    IN_FOR_NAME, /* after for */
    IN_SELECT_NAME,
    IN_FOR_IN,    /* after the name, on its line */
    IN_FOR_LINE,  /* after the name, on a later line */
    IN_FOR_WORDS, /* after in */
    IN_FOR_SEMI,  /* after for ((...)) */
    IN_FOR_DO,
    IN_CASE_WORD,
    IN_CASE_IN,
    IN_CASE_CLAUSE,  /* before a clause or esac */
    IN_CASE_PATTERN, /* a pattern must follow */
    IN_CASE_BAR,     /* after a pattern */
    IN_FUNC_NAME,    /* after function */
    IN_FUNC_PARENS,  /* after function NAME */
    IN_FUNC_CLOSE,   /* after NAME ( */
    IN_FUNC_BODY,
    IN_COND,  /* [[ */
    IN_ARRAY, /* name=( */

    /* Text.  IN_WORD uses `flags` and `mark`, the others count open brackets in `mark`. */
    IN_WORD,
    IN_DQUOTE,
    IN_PARAM,     /* ${ */
    IN_PARENS,    /* $(( and patterns such as @( */
    IN_BRACKETS,  /* $[ and name[ */
    IN_ARITH,     /* (( as a command, or two subshells */
    IN_FOR_ARITH, /* for (( */
};

/* Where in a list the reader stands. */
enum at {
    AT_START,  /* a command may start, the list may end */
    AT_NEED,   /* after && and ||: newlines, then a command */
    AT_PIPE,   /* after |: likewise */
    AT_PREFIX, /* after ! */
    AT_TIME,
    AT_COPROC,
    AT_NAME, /* from here on a whole command stands before; here: one word, perhaps a function's */
    AT_COPROC_NAME,
    AT_ASSIGN, /* only assignments and redirections so far */
    AT_ARGS,
    AT_DECLARE,   /* arguments of a command that takes arrays */
    AT_COMPOUND,  /* after a compound command */
    AT_REDIRECTS, /* after redirections of a compound command */
    AT_COUNT,
};

/* What the next word is for, when it follows a redirection. */
enum target { TARGET_NONE, TARGET_FILE, TARGET_HEREDOC, TARGET_HEREDOC_TABS };

enum symbol {
    /* operators */
    S_NEWLINE,
    S_SEMI,
    S_AMP,
    S_AND_OR,
    S_PIPE,
    S_REDIRECT,
    S_SEPARATORS, /* how many of the above have a column in the table of list positions */
    S_OPEN = S_SEPARATORS,
    S_CLOSE,
    S_CLAUSE_END, /* ;; ;& ;;& */
    S_LESS_MORE,  /* < and > alone: comparisons inside [[ */
    S_HEREDOC,
    S_HEREDOC_TABS,

    /* words, reserved and not */
    S_WORD,
    S_IF,
    S_THEN,
    S_ELIF,
    S_ELSE,
    S_FI,
    S_WHILE,
    S_FOR,
    S_SELECT,
    S_DO,
    S_DONE,
    S_CASE,
    S_IN,
    S_ESAC,
    S_BRACE,
    S_BRACE_END,
    S_COND,
    S_COND_END,
    S_FUNCTION,
    S_BANG,
    S_TIME,
    S_COPROC,
};

enum {
    WORD_NAME = 1 << 0,    /* may still become an assignment */
    WORD_INDEX = 1 << 1,   /* has its subscript, needs its = */
    WORD_ELEMENT = 1 << 2, /* of an array: may start with a subscript */
    WORD_REGEX = 1 << 3,   /* after =~ */
};

struct frame {
    enum phase phase;
    enum at at;
    enum target target;
    unsigned flags;
    bool seen;             /* lists: not empty */
    bool may_params;       /* subshells: () would be the parentheses of a function */
    bool regex;            /* IN_COND: the next word is a regular expression */
    bool live;             /* words: OpenHands' parser sees expansions in a quoted piece */
    bool brace;            /* lists: the argument before was a { or } */
    bool skipped;          /* substitutions: not read, it stands in a ${...} */
    bool unread;           /* substitutions: parser.unread outside of it */
    bool joined;           /* lists: more than one separator stood behind a command */
    enum symbol separator; /* lists: the last of them; S_SEPARATORS: none yet */
    size_t start;          /* where the construct began */
    /* Open brackets; of a word, the position just after its =, or 0; of a substitution, the
     * heredoc_base outside of it. */
    size_t mark;
    size_t heredocs; /* IN_ARITH: how many there were when it began */
};

struct heredoc {
    size_t start; /* its delimiter in parser.delimiters */
    size_t len;
    bool tabs;   /* <<- */
    bool quoted; /* no line continuation in the body */
};

struct parser {
    const char *text;
    size_t len;
    size_t pos;

    struct frame *stack;
    size_t depth;

    struct heredoc *heredocs; /* waiting for their newline */
    size_t heredoc_count;
    size_t heredoc_cap;
    size_t heredoc_base; /* those before this index belong to lines outside the substitution */
    size_t substitutions;
    struct tn_buf delimiters;

    size_t rescanned; /* bytes read more than once: (( that was no arithmetic... */

    bool at_end;  /* the newline that ends the text has been delivered */
    bool running; /* until the state is known */
    bool no_memory;
    enum tn_split_state state;

    bool started; /* not only blanks so far */
    size_t first; /* where the first token or comment began */

    bool in_command; /* at the top level, since the last newline that counts */
    size_t last_end; /* where the last token or comment ended */
    struct tn_span *commands;
    size_t command_count;
    size_t command_cap;

    /* What OpenHands' parser makes of it: split-beyond.c. */
    bool beyond;       /* it gives up */
    bool unread;       /* it does not read commands here, words it does */
    bool late;         /* it reads the first line of the here-document to come as commands */
    bool one_line;     /* the run ends after the first line of commands */
    size_t skip_until; /* it reads nothing before this position */
    unsigned level;    /* how often a text inside a text is being read once more */
    size_t *budget;    /* bytes that may be read once more */
};

/* Ends the run. */
static inline void split_stop(struct parser *p, enum tn_split_state state)
{
    p->running = false;
    p->state = state;
}

static inline struct frame *split_top(struct parser *p)
{
    return &p->stack[p->depth - 1];
}

/* Makes f a fresh frame of this phase. */
static inline void split_set(struct frame *f, enum phase phase)
{
    *f = (struct frame){.phase = phase, .start = f->start, .separator = S_SEPARATORS};
}

/* The last command found so far reaches to the last token or comment. */
static inline void split_close_command(struct parser *p)
{
    if (p->command_count) {
        struct tn_span *last = &p->commands[p->command_count - 1];
        last->len = p->last_end - last->start;
    }
}

/* Opens a frame at the current position; NULL (and the run ends) when the nesting is too deep. */
static inline struct frame *split_push(struct parser *p, enum phase phase)
{
    if (p->depth == SPLIT_MAX_DEPTH) {
        split_stop(p, TN_SPLIT_UNSURE);
        return NULL;
    }
    p->depth++;
    struct frame *f = split_top(p);
    *f = (struct frame){.phase = phase, .start = p->pos, .separator = S_SEPARATORS};
    return f;
}

/* The byte at pos + ahead, or -1 past the end. */
static inline int split_peek(const struct parser *p, size_t ahead)
{
    return ahead < p->len - p->pos ? (unsigned char)p->text[p->pos + ahead] : -1;
}

/* The length of the line end that lies `ahead`, 0 when there is none. */
static inline size_t split_line_end(const struct parser *p, size_t ahead)
{
    if (split_peek(p, ahead) == '\n')
        return 1;
    return split_peek(p, ahead) == '\r' && split_peek(p, ahead + 1) == '\n' ? 2 : 0;
}

/* Reads on from an earlier position; false (and the run ends) when that has been done so often that
 * the time would no longer be linear. */
static inline bool split_go_back(struct parser *p, size_t pos)
{
    p->rescanned += p->pos - pos;
    if (p->rescanned / 4 > p->len) {
        split_stop(p, TN_SPLIT_UNSURE);
        return false;
    }
    p->pos = pos;
    return true;
}

/* split.c: what tn_split does, for a parser whose text, length, budget and wishes are set. */
int split_run(struct parser *p, struct tn_split *out);

/* split-beyond.c: OpenHands' parser does not know this command... */
void split_beyond_command(struct parser *p);
/* ...or what stands at this position of a word. */
void split_beyond_word(struct parser *p, size_t at);
/* Whether it would see expansions in this text, which has none for bash: in single quotes... */
bool split_is_live(const struct parser *p, size_t start, size_t end);
/* ...and if so, whether that counts here. */
void split_beyond_text(struct parser *p, size_t start, size_t end);
/* It reads this part of the text as commands; of those in backquotes only the first line. */
void split_beyond_inner(struct parser *p, size_t start, size_t end, bool backquotes);
/* A ) ends the substitution of frame f. */
void split_beyond_close(struct parser *p, const struct frame *f);
/* The body of the here-document h starts here; the one that ended here started at start. */
void split_beyond_body(struct parser *p, const struct heredoc *h);
void split_beyond_body_end(struct parser *p, size_t start);

/* split-scan.c: reads on until the top frame changes or one token is done. */
void split_step(struct parser *p);

/* split-heredoc.c: makes the word at start..end the delimiter of a here-document that awaits the
 * next newline. */
void split_add_heredoc(struct parser *p, size_t start, size_t end, bool tabs);
/* Moves past the bodies of the here-documents that await the newline just read. */
void split_read_heredocs(struct parser *p);

/* split-grammar.c: what a token means to the top frame.  pos is just past the token. */
void split_operator(struct parser *p, enum symbol symbol);
void split_word(struct parser *p, size_t start, size_t end, bool assignment);
/* Which WORD_ flags a word that starts now has. */
unsigned split_word_flags(const struct frame *f);
/* The compound command of the top frame is over. */
void split_compound_done(struct parser *p);

#endif
