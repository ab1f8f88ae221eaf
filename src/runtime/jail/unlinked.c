/* Files without a name take as much of the disk as others, and no walk over names meets them: what
 * processes of a jail have open or mapped, seen from outside.
 *
 * What is looked at is hostile: nothing is opened, servers of remote files are not asked, every
 * inode counts once, and who has more open than can be looked at hides something.  Not seen are
 * files that are on their way in a socket. */
#include <dirent.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include "base/fs.h"
#include "jail/tree-links.h"
#include "runtime/jail/jail.h"

/* Descriptors, threads and mappings of one jail that are looked at: a third of a second. */
enum { LOOKS_MAX = 250000 };

struct counting {
    dev_t upper; /* of the changed files */
    struct tree_links seen;
    uint64_t bytes;
    int left;
    pid_t pid; /* the process that is looked at */
    struct tn_proc
        *found; /* the first one and all that descend from it, as far as they are known */
    size_t count;
};

static void add_process(struct counting *c, pid_t pid, pid_t parent)
{
    if ((c->count & (c->count - 1)) == 0) /* a power of two: full */
        c->found = tn_realloc(c->found, (c->count ? c->count * 2 : 1) * sizeof *c->found);
    c->found[c->count++] = (struct tn_proc){.pid = pid, .parent = parent};
}

/* The changed files are seen through overlays inside, which have devices of their own.  What is in
 * memory is counted there. */
static bool is_on_disk(const struct counting *c, int dir, const char *name, const struct statx *x)
{
    tn_autofd int fd = openat(dir, name, O_PATH | O_CLOEXEC);
    struct statfs fs;

    return makedev(x->stx_dev_major, x->stx_dev_minor) == c->upper ||
           (fd >= 0 && fstatfs(fd, &fs) == 0 && fs.f_type == OVERLAYFS_SUPER_MAGIC);
}

static void look_at(struct counting *c, int dir, const char *name)
{
    struct statx x;

    if (statx(dir, name, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, STATX_BASIC_STATS, &x) < 0 ||
        !S_ISREG(x.stx_mode) || x.stx_nlink > 0)
        return;
    if (tree_links_find(&c->seen, x.stx_ino) || !is_on_disk(c, dir, name, &x))
        return;
    tree_links_add(&c->seen, x.stx_ino);
    struct stat st = {.st_blocks = (blkcnt_t)x.stx_blocks};
    c->bytes += tn_tree_bytes(&st);
}

/* Calls fn with each name in a directory of /proc, as long as looks are left. */
typedef void (*name_fn)(struct counting *c, int dir, const char *name);
static void each(struct counting *c, int at, const char *path, name_fn fn)
{
    int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);

    for (struct dirent *e; dir && c->left > 0 && (e = readdir(dir));)
        if (e->d_name[0] != '.') {
            c->left--;
            fn(c, fd, e->d_name);
        }
    if (dir)
        closedir(dir);
    else
        tn_close(fd);
}

/* The kernel's own list: reading all of /proc for each jail would cost as much as there are others.
 */
static void add_children(struct counting *c, int tasks, pid_t thread)
{
    char path[32];
    long pid;

    snprintf(path, sizeof path, "%d/children", (int)thread);
    int fd = openat(tasks, path, O_RDONLY | O_CLOEXEC);
    FILE *list = fd < 0 ? NULL : fdopen(fd, "re");
    if (!list)
        tn_close(fd);
    for (; list && c->left > 0 && fscanf(list, "%ld", &pid) == 1; c->left--)
        add_process(c, (pid_t)pid, c->pid);
    if (list)
        fclose(list);
}

/* Threads mostly share their descriptors; those that do not have them looked at, too. */
static void look_at_thread(struct counting *c, int tasks, const char *name)
{
    char path[32];
    pid_t thread = (pid_t)strtol(name, NULL, 10);

    add_children(c, tasks, thread);
    if (thread != c->pid && syscall(SYS_kcmp, c->pid, thread, KCMP_FILES, 0, 0) == 0)
        return;
    snprintf(path, sizeof path, "%d/fd", (int)thread);
    each(c, tasks, path, look_at);
}

/* Of its mappings those whose file the kernel calls removed; a name may look the same. */
static void look_at_mappings(struct counting *c, int process)
{
    tn_autofd int names = openat(process, "map_files", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int fd = names < 0 ? -1 : openat(process, "maps", O_RDONLY | O_CLOEXEC);
    FILE *maps = fd < 0 ? NULL : fdopen(fd, "re");
    tn_autofree char *line = NULL;
    unsigned long from, to;
    char name[48];
    size_t room = 0;

    if (!maps)
        tn_close(fd);
    while (maps && c->left > 0 && getline(&line, &room, maps) > 0) {
        c->left--;
        if (!strstr(line, " (deleted)") || sscanf(line, "%lx-%lx", &from, &to) != 2)
            continue;
        snprintf(name, sizeof name, "%lx-%lx", from, to);
        look_at(c, names, name);
    }
    if (maps)
        fclose(maps);
}

/* Whether it is still the process that was found, not a later one of the same number.  Orphans have
 * the first one for a parent. */
static bool is_ours(const struct jail_ref *ref, const struct tn_proc *p)
{
    struct tn_proc now;

    if (tn_proc_get(p->pid, &now) < 0)
        return false;
    return p->pid == (pid_t)ref->pid ? now.start == (uint64_t)ref->start
                                     : now.parent == p->parent || now.parent == (pid_t)ref->pid;
}

static void look_at_process(struct counting *c, const struct jail_ref *ref, struct tn_proc p)
{
    char path[32];

    snprintf(path, sizeof path, "/proc/%d", (int)p.pid);
    /* The descriptor is of that process, and of no later one. */
    tn_autofd int process = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (process < 0 || !is_ours(ref, &p))
        return;
    c->pid = p.pid;
    each(c, process, "task", look_at_thread);
    look_at_mappings(c, process);
}

/* For kernels without lists of children. */
static void add_descendants(struct counting *c, const struct jail_ref *ref)
{
    tn_autofree char *path =
        tn_asprintf("/proc/%lld/task/%lld/children", (long long)ref->pid, (long long)ref->pid);
    tn_autofree struct tn_proc *list = NULL;
    size_t count = 0;

    if (access(path, F_OK) == 0 || tn_proc_descendants((pid_t)ref->pid, &list, &count, NULL) < 0)
        return;
    for (size_t i = 0; i < count; i++)
        add_process(c, list[i].pid, list[i].parent);
}

uint64_t jail_unlinked(const struct jail_ref *ref, int upper)
{
    struct counting c = {.left = LOOKS_MAX};
    struct stat st;

    if (fstat(upper, &st) < 0)
        return 0;
    c.upper = st.st_dev;
    add_process(&c, (pid_t)ref->pid, 0);
    add_descendants(&c, ref);
    for (size_t i = 0; i < c.count && c.left > 0; i++)
        look_at_process(&c, ref, c.found[i]);
    free(c.found);
    tree_links_done(&c.seen);
    return c.left > 0 ? c.bytes : c.bytes + TN_TREE_HIDDEN;
}
