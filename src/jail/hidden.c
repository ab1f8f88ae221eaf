/* Which paths of the host a jail does not see: the entries of etc_hidden, and settings that hold a
 * credential.
 *
 * What lies behind a link counts where the jail would find it: links are followed from host path to
 * host path, as the kernel will inside, and what they lead to is hidden there as well.  One that
 * leads elsewhere leads nowhere inside. */
#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <sys/stat.h>

#include "jail/jail.h"
#include "jail/sys.h"

enum { LINKS_MAX = 40 }; /* as in the kernel */

/* --- where a path of the jail is found ------------------------------------------------------ */

/* What is left of the path below the directory, with its slash; "" for itself, NULL: it is not. */
static const char *below(const char *directory, const char *path)
{
    size_t n = strlen(directory);

    while (n > 0 && directory[n - 1] == '/')
        n--;
    return strncmp(path, directory, n) == 0 && (path[n] == '/' || !path[n]) ? path + n : NULL;
}

/* Its name in the scaffold; NULL: it is in none of the host's directories. */
static char *scaffold_name(const struct jail *j, const char *path)
{
    const char *found = NULL;
    size_t at = 0;

    for (size_t i = 0; i < j->plan.host_paths.count; i++) {
        const char *rest = j->host_paths[i].there ? below(j->host_paths[i].path, path) : NULL;
        if (rest && (!found || strlen(rest) < strlen(found))) {
            found = rest;
            at = i;
        }
    }
    if (!found)
        return NULL;
    return j->host_paths[at].joined ? tn_asprintf("hr%s", path) : tn_asprintf("h%zu%s", at, found);
}

/* What the path is a link to, or NULL. */
static char *link_at(const struct jail *j, const char *path)
{
    tn_autofree char *name = scaffold_name(j, path);
    char target[PATH_MAX];

    for (size_t i = 0; i < j->plan.host_paths.count; i++)
        if (j->host_paths[i].link && strcmp(j->host_paths[i].path, path) == 0)
            return tn_strdup(j->host_paths[i].link);
    ssize_t n = name ? readlink(name, target, sizeof target) : -1;
    return n <= 0 || n == sizeof target ? NULL : tn_strndup(target, (size_t)n);
}

/* One step on from a path without links. */
static bool step(char done[PATH_MAX], const char *part, size_t n)
{
    size_t length = strlen(done);

    if (n == 1 && *part == '.')
        return true;
    if (n == 2 && memcmp(part, "..", 2) == 0) {
        if (length)
            *strrchr(done, '/') = '\0';
        return true;
    }
    return snprintf(done + length, PATH_MAX - length, "/%.*s", (int)n, part) <
           (int)(PATH_MAX - length);
}

/* The path without links, as it is inside; NULL: there are too many of them. */
static char *follow(const struct jail *j, const char *path)
{
    tn_autofree char *left = tn_strdup(path);
    char done[PATH_MAX] = "";
    int links = 0;

    for (const char *at = left; *(at += strspn(at, "/"));) {
        size_t n = strcspn(at, "/"), before = strlen(done);
        if (!step(done, at, n))
            return NULL;
        at += n;
        tn_autofree char *target = strlen(done) > before ? link_at(j, done) : NULL;
        if (!target)
            continue;
        if (++links > LINKS_MAX)
            return NULL;
        done[*target == '/' ? 0 : before] = '\0';
        char *next = tn_asprintf("%s/%s", target, at);
        free(left);
        at = left = next;
    }
    return tn_strdup(done);
}

/* Opens what the jail would; *real is where it is, or NULL when no link leads there. */
static int open_seen(const struct jail *j, const char *path, int flags, char **real)
{
    tn_autofree char *name = scaffold_name(j, path);
    int fd = name ? sys_openat2(AT_FDCWD, name, flags | O_CLOEXEC, 0, RESOLVE_NO_SYMLINKS) : -1;

    *real = NULL;
    if (fd >= 0 || (name && errno != ELOOP))
        return fd;
    *real = follow(j, path);
    tn_autofree char *there = *real ? scaffold_name(j, *real) : NULL;
    return there ? sys_openat2(AT_FDCWD, there, flags | O_CLOEXEC, 0, RESOLVE_NO_SYMLINKS) : -1;
}

/* --- what is hidden ------------------------------------------------------------------------- */

static void add(struct jail *j, char *path)
{
    struct tn_str_list *list = &j->hidden;

    list->items = tn_realloc(list->items, (list->count + 1) * sizeof *list->items);
    list->items[list->count++] = path;
}

/* Hides the path, where it is there, and what it leads to; a file only if it holds a credential. */
static void hide(struct jail *j, const char *path, bool settings)
{
    tn_autofree char *real = NULL;
    tn_autofd int fd =
        open_seen(j, path, settings ? O_RDONLY | O_NONBLOCK | O_NOCTTY : O_PATH, &real);

    /* What cannot be read here cannot be inside; a link that is listed goes, wherever it leads. */
    if (settings ? fd < 0 || !jail_holds_credential(fd) : fd < 0 && !real)
        return;
    add(j, tn_strdup(path));
    if (real)
        add(j, TN_TAKE_PTR(real));
}

/* A pattern is one in its last part: /etc/ssh/ssh_host_*. */
static void hide_matching(struct jail *j, const char *pattern, bool settings)
{
    const char *last = strrchr(pattern, '/') + 1;
    tn_autofree char *folder = tn_strndup(pattern, (size_t)(last - pattern - 1));
    tn_autofree char *real = NULL;
    int fd = open_seen(j, folder, O_RDONLY | O_DIRECTORY, &real);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);

    for (struct dirent *e; dir && (e = readdir(dir));) {
        tn_autofree char *path = tn_asprintf("%s/%s", folder, e->d_name);
        if (fnmatch(last, e->d_name, FNM_PERIOD) == 0)
            hide(j, path, settings);
    }
    if (dir)
        closedir(dir);
}

void jail_find_hidden(struct jail *j)
{
    for (size_t i = 0; i < j->plan.etc_hidden.count; i++) {
        tn_autofree char *path = tn_asprintf("/etc/%s", j->plan.etc_hidden.items[i]);
        (strpbrk(path, "*?[") ? hide_matching : hide)(j, path, false);
    }
    for (const char *const *path = jail_settings; *path; path++)
        (strchr(*path, '*') ? hide_matching : hide)(j, *path, true);
}

int jail_hide_found(const struct jail *j, const char *host_path, int host, int mask,
                    struct tn_error *err)
{
    for (size_t i = 0; i < j->hidden.count; i++) {
        const char *rest = below(host_path, j->hidden.items[i]);
        if (rest && *rest && jail_hide(host, mask, rest + 1, err) < 0)
            return -1;
    }
    return 0;
}
