/* The Pythons of a sandbox. */
#ifndef TN_HAND_PYTHON_INTERPRETER_H
#define TN_HAND_PYTHON_INTERPRETER_H

#include "base/buf.h"
#include "base/error.h"

enum { INTERPRETERS_MAX = 8 };

struct interpreters {
    char *paths[INTERPRETERS_MAX];
    size_t count;
};

/* python and python3 in the directories of a PATH, first come first, and then in the usual ones. */
void interpreters_find(struct interpreters *list, const char *path);
void interpreters_done(struct interpreters *list);

/* Whether one of them can run a kernel, as far as files tell: 0 with "/usr/bin/python3" appended to
 * found, or -1 with what is missing.  home: where a user's own packages are. */
int interpreters_probe(const struct interpreters *list, const char *home, struct tn_buf *found,
                       struct tn_error *err);

#endif
