#include <dirent.h>
#include <sys/stat.h>

#include "hand/external/external.h"
#include "hand/hand.h"

#define PREFIX "tendon-plugin-"
enum { NAME_MAX_LEN = 48 };

/* What may become a part of a path. */
static bool name_ok(const char *name)
{
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");

    return n > 0 && n <= NAME_MAX_LEN && !name[n] && name[0] != '-';
}

/* Whatever lies there may have come with a repository. */
static bool in_workspace(const struct tn_hand_options *o, const char *path)
{
    tn_autofree char *real = realpath(path, NULL);
    tn_autofree char *resolved = realpath(o->working_dir, NULL);
    const char *workspace = resolved ? resolved : o->working_dir;
    size_t n = strlen(workspace);

    return !real || (n > 1 && strncmp(real, workspace, n) == 0 && real[n] == '/');
}

static bool executable(const struct tn_hand_options *o, const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0 &&
           !in_workspace(o, path);
}

/* Calls fn for each absolute directory of both paths until it returns true. */
typedef bool (*directory_fn)(const char *directory, void *ctx);
static void each_directory(const struct tn_hand_options *o, directory_fn fn, void *ctx)
{
    const char *const paths[] = {o->plugin_path, getenv("PATH")};

    for (size_t i = 0; i < TN_COUNT(paths); i++) {
        for (const char *p = paths[i] ? paths[i] : ""; *p;) {
            size_t n = strcspn(p, ":");
            tn_autofree char *directory = tn_strndup(p, n);
            if (directory[0] == '/' && fn(directory, ctx))
                return;
            p += n + (p[n] == ':');
        }
    }
}

struct wanted {
    const struct tn_hand_options *options;
    const char *name;
    char *path;
};

static bool look_for(const char *directory, void *ctx)
{
    struct wanted *w = ctx;
    tn_autofree char *path = tn_asprintf("%s/" PREFIX "%s", directory, w->name);

    if (!executable(w->options, path))
        return false;
    w->path = TN_TAKE_PTR(path);
    return true;
}

char *tn_plugin_search(const struct tn_hand_options *options, const char *name)
{
    struct wanted w = {.options = options, .name = name};

    if (name_ok(name))
        each_directory(options, look_for, &w);
    return w.path;
}

struct listing {
    const struct tn_hand_options *options;
    void (*fn)(const char *name, void *ctx);
    void *ctx;
};

static bool list_directory(const char *directory, void *ctx)
{
    struct listing *l = ctx;
    DIR *dir = opendir(directory);

    for (struct dirent *e; dir && (e = readdir(dir));) {
        const char *name = e->d_name + strlen(PREFIX);
        if (strncmp(e->d_name, PREFIX, strlen(PREFIX)) != 0)
            continue;
        tn_autofree char *here = tn_asprintf("%s/%s", directory, e->d_name);
        tn_autofree char *first = tn_plugin_search(l->options, name);
        if (first && strcmp(first, here) == 0)
            l->fn(name, l->ctx);
    }
    if (dir)
        closedir(dir);
    return false;
}

void tn_external_list(const struct tn_hand_options *options,
                      void (*fn)(const char *name, void *ctx), void *ctx)
{
    struct listing l = {.options = options, .fn = fn, .ctx = ctx};

    each_directory(options, list_directory, &l);
}
