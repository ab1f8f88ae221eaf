/* The child of the launcher, when a jail is made anew: it mounts what it would mount, but lays it
 * out in the scaffold, and becomes criu, which puts it together.
 *     parts/N    what is mounted on the target number N
 * criu makes PID 1 a child of the launcher, and ends. */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/securebits.h>
#include <stdlib.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/fs.h"
#include "jail/criu.h"
#include "jail/sys.h"

enum { FACTS_MAX = 4096 };

int jail_open_images(struct jail *j, struct tn_error *err)
{
    j->images =
        openat(j->directory, TN_JAIL_SUSPENDED, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return j->images < 0 ? tn_fail_errno(err, errno, TN_JAIL_SUSPENDED) : 0;
}

static int read_facts(int images, struct jail_facts *facts, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(FACTS_MAX);
    tn_autojson struct tn_json *json = NULL;
    tn_autofd int fd = openat(images, "facts.json", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

    tn_fields_defaults(&jail_facts_fields, facts);
    if (fd < 0)
        return tn_fail_errno(err, errno, "facts.json");
    if (tn_fs_read_fd(fd, &text, err) < 0 ||
        tn_json_parse(tn_buf_str(&text), text.len, &json, err) < 0)
        return -1;
    return tn_fields_from_json(&jail_facts_fields, facts, json, err);
}

/* --- parts --------------------------------------------------------------------------------- */

/* Takes the mount; -1 is none. */
static int lay(struct jail *j, int mount, const char *target, struct tn_error *err)
{
    char name[32];
    struct stat st;

    if (mount < 0)
        return 0;
    snprintf(name, sizeof name, "parts/%zu", j->part_count);
    if (fstat(mount, &st) < 0)
        return tn_fail_errno(err, errno, "%s", target);
    tn_autofd int file =
        S_ISDIR(st.st_mode) ? -1 : open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if ((S_ISDIR(st.st_mode) ? mkdir(name, 0755)
         : file < 0          ? -1
                             : 0) < 0 ||
        move_mount(mount, "", AT_FDCWD, name, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return tn_fail_errno(err, errno, "lay out %s", target);
    j->parts = tn_realloc(j->parts, (j->part_count + 1) * sizeof *j->parts);
    j->parts[j->part_count++] = tn_strdup(target);
    return jail_fill_memory(j, mount, target, err);
}

int jail_lay_out(struct jail *j, struct tn_error *err)
{
    if (mkdir("parts", 0755) < 0)
        return tn_fail_errno(err, errno, "parts");
    for (int i = 0; i < JAIL_SYSTEM_MOUNTS; i++)
        if (strcmp(jail_system_target(i), "/proc") != 0 &&
            lay(j, j->system[i], jail_system_target(i), err) < 0)
            return -1;
    if (jail_lock_cpu_info(j, err) < 0 || lay(j, j->cpu_info, JAIL_CPU_INFO, err) < 0 ||
        lay(j, j->hand, TN_JAIL_HAND, err) < 0)
        return -1;
    for (size_t i = 0; i < j->plan.mount_count; i++)
        if (lay(j, j->volumes[i], j->plan.mounts[i].target, err) < 0)
            return -1;
    return 0;
}

/* --- criu ---------------------------------------------------------------------------------- */

static void inherit(struct jail_words *words, int fd, const char *kind, int64_t inode)
{
    fcntl(fd, F_SETFD, 0);
    jail_words_add(words, "--inherit-fd=fd[%d]:%s:[%lld]", fd, kind, (long long)inode);
}

static void add_mounts(struct jail_words *words, const struct jail *j)
{
    static const char at[] = JAIL_LAYOUT;

    jail_words_add(words, "--root=%s/root", at);
    for (size_t i = 0; i < j->part_count; i++) {
        jail_words_add(words, "--external=mnt[%s]:%s/parts/%zu", j->parts[i], at, i);
        if (strcmp(j->parts[i], "/dev") == 0) {
            jail_words_add(words, "--external=mnt[/proc/keys]:%s/parts/%zu/null", at, i);
            jail_words_add(words, "--external=mnt[/proc/key-users]:%s/parts/%zu/null", at, i);
        }
    }
}

/* criu reads some of them as root of the jail.  No path leads there from inside. */
static int open_to_group(int images, gid_t group, struct tn_error *err)
{
    int fd = openat(images, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    int r = dir && fchown(fd, 0, group) == 0 && fchmod(fd, 0750) == 0 ? 0 : -1;

    for (struct dirent *e; r == 0 && (e = readdir(dir));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
            (fchownat(fd, e->d_name, 0, group, AT_SYMLINK_NOFOLLOW) < 0 ||
             fchmodat(fd, e->d_name, 0640, 0) < 0))
            r = -1;
    if (r < 0)
        tn_fail_errno(err, errno, "images");
    if (dir)
        closedir(dir);
    return r;
}

/* As the root of the machine that it is. */
static int act_as_oneself(struct tn_error *err)
{
    setfsgid(0);
    setfsuid(0);
    return prctl(PR_SET_SECUREBITS, 0) < 0 ? tn_fail_errno(err, errno, "securebits") : 0;
}

int jail_become_criu(struct jail *j, struct tn_error *err)
{
    jail_autowords struct jail_words words = {0};
    struct jail_facts facts;
    char images[32];

    tn_autofd int opened =
        openat(j->images, "images", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (opened < 0)
        return tn_fail_errno(err, errno, "images");
    if (read_facts(j->images, &facts, err) < 0 || act_as_oneself(err) < 0)
        return -1;
    if (open_to_group(opened, j->base, err) < 0)
        return -1;
    fcntl(opened, F_SETFD, 0);
    snprintf(images, sizeof images, "/proc/self/fd/%d", opened);
    jail_words_begin(&words, "restore", images, "restore.log", getppid());
    jail_words_add(&words, "--restore-detached");
    jail_words_add(&words, "--restore-sibling");
    jail_words_add(&words, "--pidfile=pid");
    add_mounts(&words, j);
    inherit(&words, (int)j->plan.socket_fd, "socket", facts.socket);
    if (j->child_output >= 0)
        inherit(&words, j->child_output, "pipe", facts.pipe);
    unlinkat(opened, "pid", 0);
    jail_words_execute(&words, j, getppid(), 0);
    return tn_fail_errno(err, errno, "%s", j->plan.criu);
}

/* --- in the launcher ----------------------------------------------------------------------- */

static long number_in(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    return at ? strtol(at + strlen(name), NULL, 10) : -1;
}

/* That a wall is in the images is not enough. */
static int check_walls(struct jail *j, pid_t pid, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(64 << 10);
    char path[40];

    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    if (tn_fs_read(TN_FS_ANYWHERE, path, &text, err) < 0)
        return -1;
    const char *status = tn_buf_str(&text);
    if (number_in(status, "\nPPid:") != getpid())
        return tn_fail(err, TN_E_INTERNAL, "criu made a process that is not ours");
    if (number_in(status, "\nNoNewPrivs:") != 1 || number_in(status, "\nSeccomp:") != 2)
        return tn_fail(err, TN_E_INTERNAL, "criu left out a part of the isolation");
    j->isolation.user = j->isolation.no_new_privs = j->isolation.seccomp = true;
    j->isolation.capabilities = true;
    /* One that an older tendon suspended has fewer. */
    j->isolation.no_set_id = j->shares && number_in(status, "\nSeccomp_filters:") >= JAIL_FILTERS;
    j->isolation.file_size_limit = j->plan.file_size > 0;
    j->isolation.open_files_limit = j->plan.open_files > 0;
    return 0;
}

/* It is called otherwise once it is used up. */
static int open_used(const struct jail *j)
{
    static const char *const names[] = {TN_JAIL_TRASH TN_JAIL_SUSPENDED "/images",
                                        TN_JAIL_SUSPENDED "/images"};
    int fd = -1;

    for (size_t i = 0; fd < 0 && i < TN_COUNT(names); i++)
        fd = openat(j->directory, names[i], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd;
}

int jail_take_restored(struct jail *j, int status, pid_t *pid, int *pidfd, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(64);
    tn_autofd int images = open_used(j);

    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        tn_autofree char *words = jail_criu_complaint(images, "restore.log");
        return tn_fail(err, TN_E_IO, "criu could not make its processes anew: %s",
                       *words ? words : "it does not say why");
    }
    tn_autofd int file = openat(images, "pid", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (file < 0 || tn_fs_read_fd(file, &text, NULL) < 0)
        return tn_fail(err, TN_E_IO, "criu does not say which process it made");
    long made = strtol(tn_buf_str(&text), NULL, 10);
    if (made <= 1 || made > INT_MAX)
        return tn_fail(err, TN_E_IO, "criu made a process %ld", made);
    int handle = sys_pidfd_open((pid_t)made);
    if (handle < 0)
        return tn_fail_errno(err, errno, "process %ld", made);
    tn_close(*pidfd);
    *pidfd = handle;
    *pid = (pid_t)made;
    return check_walls(j, *pid, err);
}
