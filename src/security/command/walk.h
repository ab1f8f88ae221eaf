/* What the parts that make calls of a tree share: walk.c goes through the tree, expand.c makes
 * words of it known, wrappers.c knows which commands run others. */
#ifndef TN_SECURITY_COMMAND_WALK_H
#define TN_SECURITY_COMMAND_WALK_H

#include "base/buf.h"
#include "security/command/arena.h"
#include "security/command/calls.h"

/* --- variables: vars.c ------------------------------------------------------------------- */

/* The variables of one shell, as far as its text tells them.  A value is known from an assignment
 * of a literal on, until something may have changed it. */
struct vars;

struct vars *vars_new(struct tn_arena *arena);
/* value NULL: no longer known; then text is what it is made of (${1:-/}), or NULL. */
void vars_set(struct vars *vars, const char *name, size_t len, const char *value, const char *text);
/* The same for an array, whose words are all known. */
void vars_set_words(struct vars *vars, const char *name, const struct tn_arg *words, size_t count);
/* Its words; NULL when they are not known. */
const struct tn_arg *vars_words(const struct vars *vars, const char *name, size_t *count);
/* Its value, or NULL and the text that it is made of, or NULL. */
const char *vars_get(const struct vars *vars, const char *name, const char **text);
/* Whether vars_get has told its value since it was set. */
bool vars_read(const struct vars *vars, const char *name);
/* Nothing is known from here on. */
void vars_blind(struct vars *vars);
/* Whether it was ever set or forgotten. */
bool vars_touched(const struct vars *vars, const char *name);
/* What these rows of names may have changed is no longer known; the name * stands for all. */
void vars_forget(struct vars *vars, const struct tn_sh_tree *tree, size_t from, size_t to);
/* Whether these rows may change $1 and on. */
bool vars_change_args(const struct tn_sh_tree *tree, size_t from, size_t to);
/* These rows are changed by a function, which may be called wherever something else is
 * forgotten. */
void vars_share(struct vars *vars, const struct tn_sh_tree *tree, size_t from, size_t to);

/* --- the walk ---------------------------------------------------------------------------- */

/* Of lists, functions, texts and commands that run commands, inside each other. */
enum { MAX_LEVEL = 40 };

struct function {
    const char *name;
    const struct tn_sh_node *node;
    const struct place *place; /* where it is defined */
    bool called, active;
    struct function *next;
};

struct alias {
    const char *name, *text;
    bool active, called;
    struct alias *next;
};

struct walker {
    struct tn_arena *arena;
    struct tn_calls *calls;
    struct tn_call **tail;
    struct function *functions; /* newest first */
    struct alias *aliases;
    unsigned pipes;
    size_t turns;       /* of all loops around here together */
    size_t inner;       /* bytes of texts inside the text */
    struct tn_buf text; /* the word that is being expanded */
    bool failed;
    struct tn_error *err;
};

/* Where commands stand: what holds for all calls there. */
struct place {
    const struct tn_sh_tree *tree;
    const char *source; /* the text that positions of nodes are in */
    bool inside;        /* a text inside the text, which lies at start, end */
    size_t start, end;
    unsigned flags;
    const struct tn_call *via;
    unsigned level;
    unsigned in, out;
    unsigned written;          /* the pipe that >(...) in the words of a command reads */
    const struct tn_arg *here; /* what standard input has; NULL: not known */
    struct vars *vars;
    const struct tn_arg *args; /* $1 and on, when has_args */
    size_t arg_count;
    bool has_args;
    bool added; /* to the words of the command others are added that are not known */
};

void walk_too_large(struct walker *w, const char *what);
/* Counts bytes, or words, of what is inside the text; false: there are too many. */
bool walk_inner(struct walker *w, size_t count);
void walk_list(struct walker *w, const struct place *at, const struct tn_sh_node *list);
/* A call that stands at these bytes of the place's source; it is in the list of calls then. */
struct tn_call *walk_add(struct walker *w, const struct place *at, size_t start, size_t end);
/* The calls of a text that `call` runs in a shell of its own, or (same_shell) in the one it is in.
 * An unknown text is a guess, and the call is marked. */
void walk_text(struct walker *w, const struct place *at, struct tn_call *call,
               const struct tn_arg *text, bool same_shell);
/* Names the call by its first word. */
void walk_name(struct walker *w, struct tn_call *call);

void walk_node(struct walker *w, const struct place *at, const struct tn_sh_node *node);

/* --- simple commands: walk-simple.c ------------------------------------------------------ */

void walk_simple(struct walker *w, const struct place *at, const struct tn_sh_node *node);
/* The substitutions in words; what they write reaches at->out. */
void walk_words(struct walker *w, const struct place *at, const struct tn_sh_word *words);
void walk_redirect_words(struct walker *w, const struct place *at,
                         const struct tn_sh_redirect *redirects);
/* The redirections of a command; at->here is what its input has then. */
const struct tn_call_redirect *walk_redirects(struct walker *w, struct place *at,
                                              const struct tn_sh_redirect *redirects);
/* A function is known from here on; its body is walked at its calls. */
void walk_define(struct walker *w, const struct place *at, const struct tn_sh_node *node);
void walk_body(struct walker *w, const struct place *at, struct function *function);

/* --- words: expand.c --------------------------------------------------------------------- */

/* Words of a command: braces expanded, known variables filled in and split.  Adds to call. */
void expand_words(struct walker *w, const struct place *at, const struct tn_sh_word *words,
                  struct tn_call *call);
/* A word that stays one: a value, the target of a redirection, a here-document (whose positions are
 * in source). */
struct tn_arg expand_word(struct walker *w, const struct place *at, const struct tn_sh_word *word,
                          const char *source);
/* An argument of this text, all of it known. */
struct tn_arg known_arg(struct walker *w, const char *text);

/* --- wrappers: wrappers.c ---------------------------------------------------------------- */

/* Sees through a call if its name is that of a wrapper, a shell or an interpreter. */
void see_through(struct walker *w, const struct place *at, struct tn_call *call);
/* A text for a shell that the call runs with further words, and with an input of its own. */
void run_added(struct walker *w, const struct place *at, struct tn_call *call,
               const struct tn_arg *text);
/* The argument without its first bytes. */
const struct tn_arg *arg_behind(struct walker *w, const struct tn_arg *arg, size_t skip);

/* --- variables and settings: settings.c -------------------------------------------------- */

/* Whether a name is one of those in a list with a space between; * at the end: any that begins so.
 */
bool listed(const char *list, const char *name);
/* Sees what a variable makes programs run, or marks the call: LD_PRELOAD, PAGER. */
void see_variable(struct walker *w, const struct place *at, struct tn_call *call, const char *name,
                  const struct tn_arg *value);
/* The same for a word that says NAME=VALUE, or nothing of the kind. */
void see_assignment(struct walker *w, const struct place *at, struct tn_call *call,
                    const struct tn_arg *word);
/* The same for the settings that a call of git makes: git -c core.pager=x, git config. */
void see_git_settings(struct walker *w, const struct place *at, struct tn_call *call);

/* --- what sets up a shell: setup.c -------------------------------------------------------- */

/* Whether the word is <(...) or $(...) of one command that prints what sets up a shell, and is run
 * in this way by everybody: source <(kubectl completion bash). */
bool is_setup(const struct walker *w, const struct place *at, const struct tn_arg *word);

/* --- PowerShell: pwsh.c ------------------------------------------------------------------- */

/* Sees what it runs where that only shows something, or marks the call. */
void see_pwsh(struct walker *w, const struct place *at, struct tn_call *call);

/* --- scripts of sed: sed.c --------------------------------------------------------------- */

/* Sees the commands that a script runs, and the files it reads and writes. */
void see_sed(struct walker *w, const struct place *at, struct tn_call *call,
             const struct tn_arg *script);

#endif
