/* The keeper's half of suspending: everything that comes from outside is cut off, criu writes down
 * what is left, and only when that is whole does it count. */
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/fs.h"
#include "jail/criu.h"
#include "jail/sys.h"

#define DUMP_SECONDS 120.0
#define CLOSE_SECONDS 5.0
#define CLOSED_SOCKET TN_JAIL_SOCKET ".closed"
#define IMAGES TN_JAIL_SUSPENDING "/images"

enum {
    LOOK_MS = 50,  /* between two looks at how much was written */
    CLOSE_MS = 2,  /* between two looks at which connections are left */
    FREE_PART = 20 /* one in so many bytes of the file system is left alone */
};
#define ROOM_EXTRA (INT64_C(256) << 20) /* beyond twice the memory that the jail may have */

/* --- what cannot be done -------------------------------------------------------------------- */

static int refuse(const struct jail *j, struct tn_error *err)
{
    const struct tn_jail_plan *p = &j->plan;

    if (!p->criu)
        return tn_fail(err, TN_E_UNSUPPORTED,
                       "it was not started to be suspended: set jail.suspend, stop it and resume "
                       "it");
    if (j->mapping != TN_JAIL_MAP_RANGE)
        return tn_fail(err, TN_E_UNSUPPORTED, "its users are not mapped to a range of their own");
    if (p->tmpfs_bytes > 0)
        return tn_fail(err, TN_E_UNSUPPORTED,
                       "it has a disk limit, so its files are in memory: stop it instead");
    if (p->devices.count > 0)
        return tn_fail(err, TN_E_UNSUPPORTED, "it uses devices, whose state cannot be kept");
    return 0;
}

/* --- connections ---------------------------------------------------------------------------- */

/* The address that the socket is bound to; its length, 0 when it is no such socket. */
static socklen_t address_of(int fd, struct sockaddr_un *address)
{
    socklen_t size = sizeof *address;
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISSOCK(st.st_mode) ||
        getsockname(fd, (struct sockaddr *)address, &size) < 0 || address->sun_family != AF_UNIX)
        return 0;
    /* A byte more when the name fills it. */
    return size < sizeof *address ? size : (socklen_t)sizeof *address;
}

/* Hangs up on everybody who is connected to the hand; how many there were, -1 with err. */
static int hang_up(pid_t pid, int pidfd, int listener, struct tn_error *err)
{
    struct sockaddr_un wanted, address;
    socklen_t size = address_of(listener, &wanted);
    char path[40];
    int found = 0;

    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *dir = opendir(path);
    if (!dir)
        return tn_fail_errno(err, errno, "%s", path);
    for (struct dirent *e; (e = readdir(dir));) {
        if (e->d_name[0] == '.')
            continue;
        tn_autofd int fd =
            (int)syscall(SYS_pidfd_getfd, pidfd, (int)strtol(e->d_name, NULL, 10), 0);
        int listens = 0;
        socklen_t n = sizeof listens;
        if (fd < 0 || address_of(fd, &address) != size || memcmp(&address, &wanted, size) != 0 ||
            getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &n) < 0 || listens)
            continue;
        shutdown(fd, SHUT_RDWR);
        found++;
    }
    closedir(dir);
    return found;
}

/* Nobody can connect meanwhile: the socket is called otherwise. */
static int close_connections(const struct jail *j, pid_t pid, int pidfd, int listener,
                             struct tn_error *err)
{
    int64_t deadline = tn_deadline_in(CLOSE_SECONDS);

    if (renameat(j->directory, TN_JAIL_SOCKET, j->directory, CLOSED_SOCKET) < 0)
        return tn_fail_errno(err, errno, TN_JAIL_SOCKET);
    for (;;) {
        int left = hang_up(pid, pidfd, listener, err);
        if (left <= 0)
            return left;
        if (tn_now() >= deadline)
            return tn_fail(err, TN_E_BUSY, "%d connections to it stay open", left);
        /* Nothing tells when the hand has closed them; its own end would be told. */
        if (poll(&(struct pollfd){.fd = pidfd, .events = POLLIN}, 1, CLOSE_MS) > 0)
            return tn_fail(err, TN_E_PEER, "the hand has ended");
    }
}

/* --- what criu does not write down itself ---------------------------------------------------- */

static int write_facts(const struct jail *j, int listener, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(4096);
    struct tn_jw w = tn_jw(&text);
    struct stat pipe = {0}, socket;

    if (fstat(listener, &socket) < 0 || (j->output >= 0 && fstat(j->output, &pipe) < 0))
        return tn_fail_errno(err, errno, "descriptors of the jail");
    const struct jail_facts facts = {.pipe = (int64_t)pipe.st_ino,
                                     .socket = (int64_t)socket.st_ino};
    tn_jw_object(&w);
    tn_fields_to_json(&jail_facts_fields, &facts, &w);
    tn_jw_object_end(&w);
    tn_autofd int fd = openat(j->directory, TN_JAIL_SUSPENDING "/facts.json",
                              O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd < 0 ? tn_fail_errno(err, errno, "facts.json")
                  : tn_fs_write(fd, text.data, text.len, err);
}

static int make_directories(const struct jail *j, struct tn_error *err)
{
    static const char *const names[] = {TN_JAIL_SUSPENDING, IMAGES, TN_JAIL_SUSPENDING "/files"};

    if (tn_fs_remove_tree(j->directory, TN_JAIL_SUSPENDING, 0, err) < 0)
        return -1;
    /* What accidents may have left under names that will be needed. */
    unlinkat(j->directory, CLOSED_SOCKET, 0);
    tn_fs_remove_tree(j->directory, TN_JAIL_TRASH TN_JAIL_SUSPENDED, 0, NULL);
    for (size_t i = 0; i < TN_COUNT(names); i++)
        if (mkdirat(j->directory, names[i], 0700) < 0)
            return tn_fail_errno(err, errno, "%s", names[i]);
    return 0;
}

/* --- how large it may become ------------------------------------------------------------------ */

static int64_t room(const struct jail *j)
{
    struct statvfs fs;

    if (fstatvfs(j->directory, &fs) < 0)
        return 0;
    int64_t unit = (int64_t)fs.f_frsize;
    int64_t most = ((int64_t)fs.f_bavail - (int64_t)fs.f_blocks / FREE_PART) * unit;
    if (j->plan.memory > 0 && j->plan.memory < (most - ROOM_EXTRA) / 2)
        most = 2 * j->plan.memory + ROOM_EXTRA;
    return most > 0 ? most : 0;
}

static int64_t written(int images)
{
    int fd = openat(images, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    int64_t sum = 0;
    struct stat st;

    for (struct dirent *e; dir && (e = readdir(dir));)
        if (fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
            sum += (int64_t)st.st_blocks * 512;
    if (dir)
        closedir(dir);
    return sum;
}

/* --- criu ---------------------------------------------------------------------------------- */

static void add_mounts(struct jail_words *words, const struct jail *j)
{
    static const char *const others[] = {JAIL_CPU_INFO, TN_JAIL_HAND, "/proc/keys",
                                         "/proc/key-users"};

    for (int i = 0; i < JAIL_SYSTEM_MOUNTS; i++)
        if (strcmp(jail_system_target(i), "/proc") != 0)
            jail_words_add(words, "--external=mnt[%s]:%s", jail_system_target(i),
                           jail_system_target(i));
    for (size_t i = 0; i < TN_COUNT(others); i++)
        jail_words_add(words, "--external=mnt[%s]:%s", others[i], others[i]);
    for (size_t i = 0; i < j->plan.mount_count; i++)
        jail_words_add(words, "--external=mnt[%s]:%s", j->plan.mounts[i].target,
                       j->plan.mounts[i].target);
}

/* What criu itself is in does not have to be made anew: network, host name and control groups are
 * the launcher's business. */
static bool join(pid_t pid)
{
    static const char *const names[] = {"net", "uts", "cgroup"};
    char path[64];

    for (size_t i = 0; i < TN_COUNT(names); i++) {
        snprintf(path, sizeof path, "/proc/%d/ns/%s", (int)pid, names[i]);
        tn_autofd int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || setns(fd, 0) < 0)
            return false;
    }
    return true;
}

static _Noreturn void become_criu(const struct jail *j, pid_t keeper, pid_t pid, int64_t most)
{
    jail_autowords struct jail_words words = {0};
    tn_autofree char *images = tn_asprintf("%s/" IMAGES, j->plan.directory);
    struct rlimit largest;

    jail_words_begin(&words, "dump", images, "dump.log", keeper);
    jail_words_add(&words, "--tree=%d", (int)pid);
    add_mounts(&words, j);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != keeper || !join(pid) ||
        getrlimit(RLIMIT_FSIZE, &largest) < 0)
        _exit(126);
    if (largest.rlim_max == RLIM_INFINITY || largest.rlim_max > (rlim_t)most)
        largest.rlim_cur = (rlim_t)most;
    setrlimit(RLIMIT_FSIZE, &largest);
    jail_words_execute(&words, j, keeper, pid);
    _exit(127);
}

static int await(pid_t criu, int pidfd, int images, int64_t most, struct tn_error *err)
{
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    int64_t deadline = tn_deadline_in(DUMP_SECONDS);
    const char *fault = NULL;
    int status = 0;

    while (poll(&p, 1, LOOK_MS) <= 0 && !fault) {
        if (tn_now() >= deadline)
            fault = "criu does not end";
        else if (written(images) > most)
            fault = "there is not enough room on the disk for its memory";
    }
    /* Without it the processes go on where they were. */
    if (fault)
        sys_pidfd_kill(pidfd);
    while (waitpid(criu, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0; /* also when it came to its end at the last moment: the processes are gone */
    if (fault)
        return tn_fail(err, TN_E_TOO_LARGE, "%s", fault);
    tn_autofree char *words = jail_criu_complaint(images, "dump.log");
    if (WIFSIGNALED(status))
        return tn_fail(err, TN_E_IO, "criu was killed by signal %d", WTERMSIG(status));
    return tn_fail(err, TN_E_IO, "criu: %s", *words ? words : "it does not say why");
}

static int run_criu(const struct jail *j, pid_t pid, struct tn_error *err)
{
    tn_autofd int images =
        openat(j->directory, IMAGES, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int64_t most = room(j);
    pid_t keeper = getpid();

    if (images < 0)
        return tn_fail_errno(err, errno, IMAGES);
    pid_t criu = fork();
    if (criu == 0)
        become_criu(j, keeper, pid, most);
    tn_autofd int pidfd = criu < 0 ? -1 : sys_pidfd_open(criu);
    if (pidfd < 0)
        return tn_fail_errno(err, errno, "start criu");
    return await(criu, pidfd, images, most, err);
}

int jail_suspend(struct jail *j, pid_t pid, int pidfd, struct tn_error *err)
{
    if (refuse(j, err) < 0 || make_directories(j, err) < 0)
        return -1;
    tn_autofd int listener = (int)syscall(SYS_pidfd_getfd, pidfd, (int)j->plan.socket_fd, 0);
    if (listener < 0)
        return tn_fail_errno(err, errno, "socket of the hand");
    tn_gate_keeper_interrupt(&j->gate); /* nobody but criu acts in the jail's network */
    if (write_facts(j, listener, err) == 0 &&
        close_connections(j, pid, pidfd, listener, err) == 0 && run_criu(j, pid, err) == 0) {
        if (renameat(j->directory, TN_JAIL_SUSPENDING, j->directory, TN_JAIL_SUSPENDED) == 0) {
            unlinkat(j->directory, CLOSED_SOCKET, 0);
            return 0;
        }
        tn_fail_errno(err, errno, TN_JAIL_SUSPENDED);
    }
    renameat(j->directory, CLOSED_SOCKET, j->directory, TN_JAIL_SOCKET);
    tn_fs_remove_tree(j->directory, TN_JAIL_SUSPENDING, 0, NULL);
    return -1;
}
