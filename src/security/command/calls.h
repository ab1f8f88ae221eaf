/* What a shell command would run: every simple command, seen through wrappers.
 *
 * A policy looks at these.  `sudo env X=1 bash -c 'rm -rf "$D"'` is four calls: sudo, env,
 * bash, and rm, each with the one it runs through (`via`).  Words have their value after
 * quoting and brace expansion; variables that the same text has given one literal value are
 * filled in, and the words of a loop one after the other.  What cannot be seen is marked, never
 * left out: an unknown word, an unknown name, a script from elsewhere.
 *
 * A tree of calls is read-only after tn_calls_new and may be shared by threads. */
#ifndef TN_SECURITY_COMMAND_CALLS_H
#define TN_SECURITY_COMMAND_CALLS_H

#include "security/command/tree.h"

/* More calls than this in one text are refused (TN_E_TOO_LARGE). */
enum { TN_CALLS_MAX = 4096 };

/* --- words ------------------------------------------------------------------------------- */

enum tn_arg_flag {
    TN_ARG_UNKNOWN = 1 << 0, /* holds something that is known only when it runs */
    TN_ARG_MANY = 1 << 1,    /* may be several words, or none: $x, $(...), a pattern, "$@" */
    TN_ARG_GLOB = 1 << 2,    /* holds an unquoted pattern; `text` has it as written */
    TN_ARG_TILDE = 1 << 3,   /* begins with ~, which stands for a home; `text` has it as written */
    TN_ARG_QUOTED = 1 << 4,  /* some of it was quoted */
};

struct tn_arg {
    const char *value; /* NULL: TN_ARG_UNKNOWN */
    const char *text;  /* the value, or with unknown parts as they are written: "$HOME/.ssh" */
    size_t known;      /* bytes of text before the first unknown part: all of it if there is none */
    unsigned flags;
    size_t start, end; /* of the word in the text */
};

/* A redirection in effect; of a compound command it is told at a call without words. */
struct tn_call_redirect {
    enum tn_sh_redirect_kind kind;
    int fd;               /* -1: a variable chooses it */
    bool reads, writes;   /* the file; neither: a copy of a descriptor, a here-document */
    struct tn_arg target; /* the file, descriptor, here-string, or text of the here-document */
    size_t start, end;
    const struct tn_call_redirect *next;
};

struct tn_call_assign {
    const char *name;
    bool add, array; /* array: value has the words with a space between */
    struct tn_arg value;
    const struct tn_call_assign *next;
};

/* --- calls ------------------------------------------------------------------------------- */

enum tn_call_flag {
    TN_CALL_SUBSTITUTION = 1 << 0, /* in $(...), `...`, <(...) or >(...) */
    TN_CALL_CONDITION = 1 << 1,    /* decides an if, while or until */
    TN_CALL_BRANCH = 1 << 2,       /* runs or not: after && ||, in if, case, a loop */
    TN_CALL_LOOP = 1 << 3,         /* may run many times */
    TN_CALL_BACKGROUND = 1 << 4,
    TN_CALL_SUBSHELL = 1 << 5,   /* changes nothing of the shell itself: ( ), pipelines, ... */
    TN_CALL_FUNCTION = 1 << 6,   /* in the body of a function or alias, seen at its call */
    TN_CALL_DEFINED = 1 << 7,    /* in a body that nothing in this text calls: it may be later */
    TN_CALL_REMOTE = 1 << 8,     /* on another machine: ssh */
    TN_CALL_ELSEWHERE = 1 << 9,  /* in a container, another root or name space */
    TN_CALL_RAISED = 1 << 10,    /* as another user: sudo, doas, su */
    TN_CALL_LATER = 1 << 11,     /* when something happens: trap, at, watch */
    TN_CALL_RECURSIVE = 1 << 12, /* calls the function it is in */
};

/* Why it is not known what a call does. */
enum tn_unseen {
    TN_SEEN,
    TN_UNSEEN_NAME,   /* the name of the command is not known */
    TN_UNSEEN_SCRIPT, /* it runs a text that is not known */
    TN_UNSEEN_INPUT,  /* it runs what it reads from a pipe, a file or a terminal */
    TN_UNSEEN_FILE,   /* it runs a script from a file: bash x.sh, source x */
    TN_UNSEEN_OPTION, /* a wrapper with an option that is not known: what it runs is a guess */
    TN_UNSEEN_SYNTAX, /* it runs a text that is no shell command, or too deep */
    TN_UNSEEN_LOADED, /* a variable or a setting makes it load what is not seen */
    TN_UNSEEN_COUNT
};

struct tn_call {
    const char *name; /* base name of argv[0], "" if there is none or it is not known */
    const struct tn_arg *argv;
    size_t argc;
    bool more; /* unknown words follow argv: xargs */
    const struct tn_call_assign *assigns;
    const struct tn_call_redirect *redirects;
    unsigned flags; /* enum tn_call_flag */
    enum tn_unseen unseen;
    const char *language;      /* it runs `program`, a text in this language ("python"), or NULL */
    const char *program;       /* NULL: no language, or unseen */
    const struct tn_call *via; /* the wrapper, shell or function call that runs it, or NULL */
    unsigned depth;            /* how many `via` */
    unsigned in, out;          /* the pipe it reads and the one it writes, by number; 0: none */
    size_t start, end;         /* where; of a text inside the text: what holds that */
    const char *quote;         /* what an explanation shows: its own text, cut if long */
    const struct tn_call *next;
};

struct tn_calls {
    const struct tn_sh_tree *tree;
    const struct tn_call *first; /* in the order in which they are written; go on with ->next */
    size_t count;
    unsigned pipes; /* the greatest number of one */
};

/* Reads the text.  NULL with err as tn_sh_parse, and for too many calls: whoever judges the text
 * takes that for unknown. */
struct tn_calls *tn_calls_new(const char *text, size_t len, struct tn_error *err);
void tn_calls_free(struct tn_calls *calls);

/* One sentence for people. */
const char *tn_unseen_text(enum tn_unseen unseen);

/* Whether what `from` writes reaches `to` through pipes, over any number of calls between. */
bool tn_call_feeds(const struct tn_calls *calls, const struct tn_call *from,
                   const struct tn_call *to);

/* Whether an argument (not argv[0]) has this value. */
bool tn_call_has(const struct tn_call *call, const char *value);

/* Whether a letter stands in one of the arguments of single letters before --: 'r' in -rf. */
bool tn_call_letter(const struct tn_call *call, char letter);

#endif
