#include "runtime/programs.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/stat.h>

static bool executable(const char *path)
{
    struct stat st;

    return !stat(path, &st) && S_ISREG(st.st_mode) && !access(path, X_OK);
}

/* Directory of this program, without the slash; on the heap, NULL when nobody knows. */
static char *own_directory(void)
{
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);

    if (n <= 0)
        return NULL;
    path[n] = '\0';
    *strrchr(path, '/') = '\0';
    return tn_strdup(path);
}

/* directory/name if that can be executed, else NULL. */
static char *program_in(const char *directory, size_t n, const char *name)
{
    tn_autofree char *path = tn_asprintf("%.*s/%s", (int)n, directory, name);

    return executable(path) ? TN_TAKE_PTR(path) : NULL;
}

static char *program_in_path(const char *name)
{
    const char *list = getenv("PATH");

    for (const char *p = list ? list : ""; *p;) {
        size_t n = strcspn(p, ":");
        char *found = n && *p == '/' ? program_in(p, n, name) : NULL;

        if (found)
            return found;
        p += n + (p[n] == ':');
    }
    return NULL;
}

char *tn_program_called(void)
{
    const char *slash = strrchr(program_invocation_name, '/');
    tn_autofree char *found = slash ? program_in_path(slash + 1) : NULL;
    struct stat there, here;
    bool same = found && !stat(found, &there) && !stat("/proc/self/exe", &here) &&
                there.st_dev == here.st_dev && there.st_ino == here.st_ino;

    return tn_strdup(same ? slash + 1 : program_invocation_name);
}

char *tn_program_find(const char *name, const char *given, struct tn_error *err)
{
    if (given) {
        char *path = executable(given) ? realpath(given, NULL) : NULL;
        if (!path)
            tn_fail(err, TN_E_NOT_FOUND, "%s: no program that can be executed", given);
        return path;
    }

    tn_autofree char *own = own_directory();
    tn_autofree char *lib = tn_asprintf("%s/../lib/tendon", own ? own : "");
    char *found = own ? program_in(own, strlen(own), name) : NULL;
    if (!found && own)
        found = program_in(lib, strlen(lib), name);
    if (!found)
        found = program_in_path(name);
    if (!found)
        tn_fail(err, TN_E_NOT_FOUND, "there is no %s in %s, in %s or in PATH", name,
                own ? own : "the directory of this program", own ? lib : "../lib/tendon");
    return found;
}
