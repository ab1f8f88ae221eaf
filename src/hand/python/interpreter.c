#include "hand/python/interpreter.h"

#include <dirent.h>
#include <limits.h>
#include <sys/stat.h>

#include "base/fs.h"

static const char *const names[] = {"python", "python3"}; /* as who types it gets it */
static const char usual[] = "/usr/local/bin:/usr/bin";

/* --- programs ------------------------------------------------------------------------------- */

/* The same program in the same directory by another name, or by another way there. */
static bool is_known(const struct interpreters *list, const struct stat *program,
                     const struct stat *directory)
{
    struct stat st;

    for (size_t i = 0; i < list->count; i++) {
        tn_autofree char *parent =
            tn_strndup(list->paths[i], (size_t)(strrchr(list->paths[i], '/') - list->paths[i]));
        if (stat(list->paths[i], &st) == 0 && st.st_ino == program->st_ino &&
            st.st_dev == program->st_dev && stat(parent, &st) == 0 &&
            st.st_ino == directory->st_ino && st.st_dev == directory->st_dev)
            return true;
    }
    return false;
}

/* Which some systems still mean by "python". */
static bool is_python2(const char *path)
{
    tn_autofree char *real = realpath(path, NULL);

    return real && strncmp(strrchr(real, '/') + 1, "python2", strlen("python2")) == 0;
}

static void look_into(struct interpreters *list, const char *directory)
{
    struct stat program, parent;

    for (size_t i = 0; i < TN_COUNT(names) && list->count < INTERPRETERS_MAX; i++) {
        tn_autofree char *path = tn_asprintf("%s/%s", directory, names[i]);
        if (directory[0] == '/' && stat(path, &program) == 0 && S_ISREG(program.st_mode) &&
            (program.st_mode & 0111) && stat(directory, &parent) == 0 && !is_python2(path) &&
            !is_known(list, &program, &parent))
            list->paths[list->count++] = TN_TAKE_PTR(path);
    }
}

static void look_through(struct interpreters *list, const char *path)
{
    while (*path) {
        const char *end = strchrnul(path, ':');
        tn_autofree char *directory = tn_strndup(path, (size_t)(end - path));
        look_into(list, directory);
        path = *end ? end + 1 : end;
    }
}

void interpreters_find(struct interpreters *list, const char *path)
{
    *list = (struct interpreters){0};
    if (path)
        look_through(list, path);
    look_through(list, usual);
}

void interpreters_done(struct interpreters *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->paths[i]);
    list->count = 0;
}

/* --- packages ------------------------------------------------------------------------------- */

/* PREFIX/lib/python3*\/{site,dist}-packages/MODULE exists. */
static bool has_below(const char *prefix, const char *module)
{
    static const char *const kinds[] = {"site-packages", "dist-packages"};
    tn_autofree char *lib = tn_asprintf("%s/lib", prefix);
    DIR *dir = opendir(lib);
    bool found = false;

    for (struct dirent *e; dir && !found && (e = readdir(dir));) {
        if (strncmp(e->d_name, "python3", strlen("python3")) != 0)
            continue;
        for (size_t i = 0; i < TN_COUNT(kinds); i++) {
            tn_autofree char *path = tn_asprintf("%s/%s/%s/%s", lib, e->d_name, kinds[i], module);
            found = found || access(path, F_OK) == 0;
        }
    }
    if (dir)
        closedir(dir);
    return found;
}

/* /usr/bin/python3 has the prefix /usr. */
static char *prefix_of(const char *program)
{
    const char *end = strrchr(program, '/');

    while (end && end > program && *--end != '/')
        ;
    return tn_strndup(program, end ? (size_t)(end - program) : 0);
}

/* A virtual environment sees the packages of the Python it was made from only if it says so. */
static bool sees_system(const char *prefix)
{
    tn_autofree char *path = tn_asprintf("%s/pyvenv.cfg", prefix);
    tn_autobuf struct tn_buf text = TN_BUF_INIT(64 << 10);

    if (tn_fs_read(TN_FS_ANYWHERE, path, &text, NULL) < 0)
        return true; /* no virtual environment */
    const char *line = strstr(tn_buf_str(&text), "include-system-site-packages");
    const char *truth = line ? strstr(line, "true") : NULL;
    return truth && truth < strchrnul(line, '\n');
}

static bool has_module(const char *program, const char *home, const char *module)
{
    tn_autofree char *prefix = prefix_of(program);
    tn_autofree char *own = tn_asprintf("%s/.local", home);

    if (has_below(prefix, module))
        return true;
    if (!sees_system(prefix))
        return false;
    tn_autofree char *real = realpath(program, NULL);
    tn_autofree char *real_prefix = prefix_of(real ? real : program);
    return has_below(real_prefix, module) || has_below("/usr/local", module) ||
           has_below(own, module);
}

int interpreters_probe(const struct interpreters *list, const char *home, struct tn_buf *found,
                       struct tn_error *err)
{
    if (list->count == 0)
        return tn_fail(err, TN_E_NOT_FOUND, "no python3 in PATH, /usr/local/bin or /usr/bin");
    for (size_t i = 0; i < list->count; i++) {
        if (has_module(list->paths[i], home, "ipykernel") &&
            has_module(list->paths[i], home, "jupyter_client")) {
            tn_buf_puts(found, list->paths[i]);
            return 0;
        }
    }
    return tn_fail(err, TN_E_NOT_FOUND,
                   "no package ipykernel with jupyter_client in lib/python3*/site-packages or "
                   "dist-packages of %s%s",
                   list->paths[0], list->count > 1 ? " or of any other Python here" : "");
}
