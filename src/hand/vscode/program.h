/* Which editor a sandbox has, and how it wants to be called. */
#ifndef TN_HAND_VSCODE_PROGRAM_H
#define TN_HAND_VSCODE_PROGRAM_H

#include <stdbool.h>

#include "base/error.h"

struct editor_dialect {
    const char *name;        /* of the program */
    const char *const *args; /* ended by NULL; a field of editor_place in braces ("{socket}") first
                                in one stands for its value */
    bool knows_base;         /* it wants to see the whole path, not what follows the base */
    /* Where it keeps extensions: below what the variable says, or else below home. */
    const char *data_variable, *data, *extensions;
};

struct editor_program {
    char *path;
    const struct editor_dialect *dialect;
};
void editor_program_done(struct editor_program *p);
#define autoprogram TN_CLEANUP(editor_program_done)

/* What $TENDON_VSCODE names, or else the first of the known ones, in the PATH of env if they have
 * no place of their own.  -1 with TN_E_UNSUPPORTED when there is none.  Looks at files only. */
int editor_program_find(const char *const *env, struct editor_program *out, struct tn_error *err);

/* What the arguments depend on. */
struct editor_place {
    const char *socket;    /* where it shall listen */
    const char *directory; /* for files of its own */
    const char *base;      /* "/a/b": the path below which visitors see it */
    const char *extensions;
};
/* Where it keeps extensions if nobody says otherwise; the caller frees it. */
char *editor_extensions_directory(const struct editor_program *p, const char *const *env);
/* Its command line, ended by NULL; free with editor_free_strings. */
char **editor_arguments(const struct editor_program *p, const struct editor_place *place);
void editor_free_strings(char **strings);

#endif
