/* Where control groups are, and which sandboxes have some. */
#include "jail/cgroup.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "base/buf.h"
#include "base/fs.h"
#include "jail/cgroup-internal.h"

enum { MOUNTINFO_MAX = 8 << 20 };

/* Names of controllers, as mounts and v2 files spell them. */
static const char *const names[TN_CGROUP_KINDS] = {
    [TN_CGROUP_MEMORY] = "memory",
    [TN_CGROUP_PIDS] = "pids",
    [TN_CGROUP_CPU] = "cpu",
    [TN_CGROUP_FREEZER] = "freezer",
};

/* --- files --------------------------------------------------------------------------------- */

char *cgroup_path(const struct tn_cgroups *c, enum tn_cgroup_kind kind, const char *id,
                  const char *file)
{
    if (!c->base[kind])
        return NULL;
    return tn_asprintf("%s/" CGROUP_FOLDER "/%s%s%s", c->base[kind], id, file ? "/" : "",
                       file ? file : "");
}

int cgroup_where(const struct tn_cgroups *c, enum tn_cgroup_kind what)
{
    if (c->base[what])
        return (int)what;
    return c->base[TN_CGROUP_UNIFIED] && c->controls[what] ? TN_CGROUP_UNIFIED : -1;
}

int cgroup_write(const char *path, const char *text)
{
    tn_autofd int fd = open(path, O_WRONLY | O_CLOEXEC);

    if (fd < 0)
        return -1;
    return write(fd, text, strlen(text)) < 0 ? -1 : 0;
}

bool cgroup_read(const char *path, char *text, size_t size)
{
    tn_autofd int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);

    text[n < 0 ? 0 : n] = '\0';
    return n >= 0;
}

int64_t cgroup_number(const char *text, const char *key)
{
    size_t n = key ? strlen(key) : 0;

    for (const char *line = text; line && *line;) {
        const char *value = line + n + (key ? 1 : 0);
        if ((!key || (strncmp(line, key, n) == 0 && line[n] == ' ')) &&
            isdigit((unsigned char)*value))
            return strtoll(value, NULL, 10);
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    return -1;
}

/* --- finding the hierarchies --------------------------------------------------------------- */

/* Whether `word` stands in a list with that separator. */
static bool has_word(const char *list, const char *word, char separator)
{
    size_t n = strlen(word);

    for (const char *at = list; at;) {
        if (strncmp(at, word, n) == 0 &&
            (at[n] == separator || at[n] == '\0' || at[n] == '\n' || at[n] == ' '))
            return true;
        at = strchr(at, separator);
        at = at ? at + 1 : NULL;
    }
    return false;
}

/* Undoes \040 and friends, in place. */
static void unescape(char *s)
{
    char *to = s;

    for (const char *from = s; *from; to++) {
        if (from[0] == '\\' && isdigit((unsigned char)from[1]) && isdigit((unsigned char)from[2]) &&
            isdigit((unsigned char)from[3])) {
            *to = (char)((from[1] - '0') << 6 | (from[2] - '0') << 3 | (from[3] - '0'));
            from += 4;
        } else {
            *to = *from++;
        }
    }
    *to = '\0';
}

struct mount_line {
    char *point;
    const char *type, *options;
};

/* Cuts one line of mountinfo: ID PARENT DEVICE ROOT POINT OPTIONS [TAGS] - TYPE SOURCE OPTIONS. */
static bool cut_line(char *line, struct mount_line *out)
{
    char *at = line, *tail = strstr(line, " - ");

    if (!tail)
        return false;
    *tail = '\0';
    for (int i = 0; i < 4; i++) {
        at = strchr(at, ' ');
        if (!at)
            return false;
        at++;
    }
    out->point = at;
    at = strchr(at, ' ');
    if (!at)
        return false;
    *at = '\0';
    unescape(out->point);
    out->type = tail + 3;
    at = strchr(tail + 3, ' ');
    if (!at)
        return false;
    *at++ = '\0';
    at = strchr(at, ' ');
    out->options = at ? at + 1 : "";
    return true;
}

/* The path of this process in a hierarchy: the third part of a line N:CONTROLLERS:PATH. */
static char *own_path(const char *own, const char *controller)
{
    for (const char *line = own; line && *line;) {
        const char *list = strchr(line, ':');
        const char *path = list ? strchr(list + 1, ':') : NULL;
        size_t length = strcspn(line, "\n");
        if (path && path < line + length) {
            tn_autofree char *controllers = tn_strndup(list + 1, (size_t)(path - list - 1));
            if (controller ? has_word(controllers, controller, ',') : controllers[0] == '\0')
                return tn_strndup(path + 1, (size_t)(line + length - path - 1));
        }
        line += length;
        line += *line == '\n';
    }
    return NULL;
}

static bool writable(const char *directory)
{
    tn_autofree char *procs = tn_asprintf("%s/cgroup.procs", directory);

    return faccessat(AT_FDCWD, directory, W_OK, AT_EACCESS) == 0 &&
           faccessat(AT_FDCWD, procs, W_OK, AT_EACCESS) == 0;
}

/* The topmost directory that is ours to write, on the way from the mount to this process. */
static char *find_base(const char *point, const char *own)
{
    tn_autofree char *path = tn_asprintf("%s%s", point, own && own[0] == '/' ? own : "");
    size_t end = strlen(point);

    for (;;) {
        char cut = path[end];
        path[end] = '\0';
        if (writable(path))
            return tn_strdup(path);
        path[end] = cut;
        if (cut == '\0' || path[end + 1] == '\0')
            return NULL;
        end += 1 + strcspn(path + end + 1, "/");
    }
}

static void note_unified(struct tn_cgroups *c, const char *point, const char *own)
{
    tn_autofree char *path = own_path(own, NULL);
    char text[CGROUP_TEXT_MAX];

    if (c->base[TN_CGROUP_UNIFIED] || !(c->base[TN_CGROUP_UNIFIED] = find_base(point, path)))
        return;
    tn_autofree char *file = tn_asprintf("%s/cgroup.controllers", c->base[TN_CGROUP_UNIFIED]);
    if (!cgroup_read(file, text, sizeof text))
        return;
    for (int i = TN_CGROUP_MEMORY; i < TN_CGROUP_KINDS; i++)
        c->controls[i] = has_word(text, names[i], ' ');
}

static void note_v1(struct tn_cgroups *c, const struct mount_line *line, const char *own)
{
    for (int i = TN_CGROUP_MEMORY; i < TN_CGROUP_KINDS; i++) {
        if (c->base[i] || !has_word(line->options, names[i], ','))
            continue;
        tn_autofree char *path = own_path(own, names[i]);
        c->base[i] = find_base(line->point, path);
    }
}

int tn_cgroups_parse(struct tn_cgroups *c, const char *mountinfo, const char *own,
                     struct tn_error *err)
{
    tn_autofree char *copy = tn_strdup(mountinfo);
    bool mounted = false;
    char *next;

    *c = (struct tn_cgroups){0};
    for (char *line = copy; line && *line; line = next) {
        struct mount_line m;
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        if (!strstr(line, "cgroup") || !cut_line(line, &m))
            continue;
        if (strcmp(m.type, "cgroup2") == 0)
            note_unified(c, m.point, own);
        else if (strcmp(m.type, "cgroup") == 0)
            note_v1(c, &m, own);
        else
            continue;
        mounted = true;
    }
    for (int i = 0; i < TN_CGROUP_KINDS; i++)
        if (c->base[i])
            return 0;
    c->why =
        tn_strdup(mounted ? "no control group is writable for this user: run in a delegated one "
                            "(systemd-run --user --scope -p Delegate=yes), or as root"
                          : "no control group file system is mounted");
    return 0;
}

int tn_cgroups_find(struct tn_cgroups *c, struct tn_error *err)
{
    tn_autobuf struct tn_buf mounts = TN_BUF_INIT(MOUNTINFO_MAX);
    tn_autobuf struct tn_buf own = TN_BUF_INIT(64 << 10);

    *c = (struct tn_cgroups){0};
    if (tn_fs_read(TN_FS_ANYWHERE, "/proc/self/mountinfo", &mounts, err) < 0 ||
        tn_fs_read(TN_FS_ANYWHERE, "/proc/self/cgroup", &own, err) < 0)
        return tn_error_context(err, "control groups");
    return tn_cgroups_parse(c, tn_buf_str(&mounts), tn_buf_str(&own), err);
}

void tn_cgroups_done(struct tn_cgroups *c)
{
    for (int i = 0; i < TN_CGROUP_KINDS; i++)
        free(TN_TAKE_PTR(c->base[i]));
    free(TN_TAKE_PTR(c->why));
}

int tn_cgroups_of(const struct tn_cgroups *c, pid_t pid, const char *name, int fds[TN_CGROUP_KINDS],
                  struct tn_error *err)
{
    tn_autobuf struct tn_buf groups = TN_BUF_INIT(64 << 10);
    tn_autofree char *file = tn_asprintf("/proc/%d/cgroup", (int)pid);
    int count = 0;

    for (int i = 0; i < TN_CGROUP_KINDS; i++)
        fds[i] = -1;
    if (tn_fs_read(TN_FS_ANYWHERE, file, &groups, err) < 0)
        return -1;
    for (int i = 0; i < TN_CGROUP_KINDS; i++) {
        tn_autofree char *path = c->base[i] ? own_path(tn_buf_str(&groups), names[i]) : NULL;
        if (!path || !strstr(path, name))
            continue;
        tn_autofree char *whole = tn_asprintf("%s%s", c->base[i], path);
        fds[i] = open(whole, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        count += fds[i] >= 0;
    }
    return count;
}

bool tn_cgroups_can_limit(const struct tn_cgroups *c, enum tn_cgroup_kind what)
{
    return cgroup_where(c, what) >= 0;
}

bool tn_nproc_is_per_namespace(void)
{
    struct utsname u;
    unsigned major, minor;

    return uname(&u) == 0 && sscanf(u.release, "%u.%u", &major, &minor) == 2 &&
           (major > 5 || (major == 5 && minor >= 14));
}

bool tn_cgroup_holds(const char *id, pid_t pid)
{
    tn_autobuf struct tn_buf groups = TN_BUF_INIT(64 << 10);
    tn_autofree char *file = tn_asprintf("/proc/%d/cgroup", (int)pid);
    tn_autofree char *ours = tn_asprintf("/" CGROUP_FOLDER "/%s\n", id);

    return tn_fs_read(TN_FS_ANYWHERE, file, &groups, NULL) < 0 || strstr(tn_buf_str(&groups), ours);
}

/* --- listing ------------------------------------------------------------------------------- */

static bool listed_before(const struct tn_cgroups *c, int kind, const char *id)
{
    for (int i = 0; i < kind; i++) {
        tn_autofree char *path = cgroup_path(c, (enum tn_cgroup_kind)i, id, NULL);
        if (path && access(path, F_OK) == 0)
            return true;
    }
    return false;
}

int tn_cgroups_list(const struct tn_cgroups *c, tn_cgroup_found_fn fn, void *ctx)
{
    int r = 0;

    for (int i = 0; i < TN_CGROUP_KINDS && r == 0; i++) {
        if (!c->base[i])
            continue;
        tn_autofree char *path = tn_asprintf("%s/" CGROUP_FOLDER, c->base[i]);
        DIR *dir = opendir(path);
        for (struct dirent *e; dir && r == 0 && (e = readdir(dir));) {
            if (e->d_name[0] == '.' || e->d_type != DT_DIR || listed_before(c, i, e->d_name))
                continue;
            r = fn(e->d_name, ctx);
        }
        if (dir)
            closedir(dir);
    }
    return r;
}
