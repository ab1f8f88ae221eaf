#include "base/program-search.h"

#include <dirent.h>
#include <sys/stat.h>

#define MAX_NAME 48

bool tn_program_name_ok(const char *name)
{
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");

    return n > 0 && n <= MAX_NAME && !name[n] && name[0] != '-';
}

static bool executable(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* Calls fn for each directory of the search path; non-zero stops. */
typedef int (*directory_fn)(const char *directory, void *ctx);
static int each_directory(const struct tn_str_list *own, directory_fn fn, void *ctx)
{
    const char *path = getenv("PATH");
    int r = 0;

    for (size_t i = 0; i < own->count && r == 0; i++)
        if (own->items[i][0] == '/')
            r = fn(own->items[i], ctx);
    for (const char *p = path ? path : ""; *p && r == 0;) {
        size_t n = strcspn(p, ":");
        tn_autofree char *directory = tn_strndup(p, n);
        if (directory[0] == '/')
            r = fn(directory, ctx);
        p += n + (p[n] == ':');
    }
    return r;
}

struct wanted {
    const char *prefix, *name;
    char *path;
};

static int look_for(const char *directory, void *ctx)
{
    struct wanted *w = ctx;
    tn_autofree char *path = tn_asprintf("%s/%s%s", directory, w->prefix, w->name);

    if (!executable(path))
        return 0;
    w->path = TN_TAKE_PTR(path);
    return 1;
}

char *tn_program_search(const struct tn_str_list *own, const char *prefix, const char *name)
{
    struct wanted w = {.prefix = prefix, .name = name};

    if (tn_program_name_ok(name))
        each_directory(own, look_for, &w);
    return w.path;
}

struct listing {
    const char *prefix;
    tn_program_fn fn;
    void *ctx;
    char **seen;
    size_t count;
};

static bool is_new(struct listing *l, const char *name)
{
    for (size_t i = 0; i < l->count; i++)
        if (strcmp(l->seen[i], name) == 0)
            return false;
    l->seen = tn_realloc(l->seen, (l->count + 1) * sizeof *l->seen);
    l->seen[l->count++] = tn_strdup(name);
    return true;
}

static int list_directory(const char *directory, void *ctx)
{
    struct listing *l = ctx;
    DIR *dir = opendir(directory);

    for (struct dirent *e; dir && (e = readdir(dir));) {
        const char *name = e->d_name + strlen(l->prefix);
        if (strncmp(e->d_name, l->prefix, strlen(l->prefix)) != 0 || !tn_program_name_ok(name))
            continue;
        tn_autofree char *path = tn_asprintf("%s/%s", directory, e->d_name);
        if (executable(path) && is_new(l, name))
            l->fn(name, path, l->ctx);
    }
    if (dir)
        closedir(dir);
    return 0;
}

void tn_program_each(const struct tn_str_list *own, const char *prefix, tn_program_fn fn, void *ctx)
{
    struct listing l = {.prefix = prefix, .fn = fn, .ctx = ctx};

    each_directory(own, list_directory, &l);
    for (size_t i = 0; i < l.count; i++)
        free(l.seen[i]);
    free(l.seen);
}
