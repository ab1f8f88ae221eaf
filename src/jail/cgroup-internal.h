/* Between the files of cgroup. */
#ifndef TN_JAIL_CGROUP_INTERNAL_H
#define TN_JAIL_CGROUP_INTERNAL_H

#include "jail/cgroup.h"

#define CGROUP_FOLDER "tendon"

enum { CGROUP_TEXT_MAX = 4096 };

/* A file (NULL: the directory itself) of the sandbox in that hierarchy, on the heap; NULL when the
 * hierarchy is not there. */
char *cgroup_path(const struct tn_cgroups *c, enum tn_cgroup_kind kind, const char *id,
                  const char *file);
/* The hierarchy that controls `what`: its own (v1), or the unified one; -1 when none does. */
int cgroup_where(const struct tn_cgroups *c, enum tn_cgroup_kind what);

/* -1 with errno. */
int cgroup_write(const char *path, const char *text);
/* What the file holds, cut at `size`; false when it cannot be read. */
bool cgroup_read(const char *path, char *text, size_t size);
/* The number after `key ` at the beginning of a line, or the first number when key is NULL; -1 when
 * there is none. */
int64_t cgroup_number(const char *text, const char *key);

#endif
