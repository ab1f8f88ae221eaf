#include "hand/state.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/fs.h"
#include "base/log.h"
#include "base/proc.h"

#define PREFIX "tendon-hand-"
enum { SLOTS = 64, YOUNG_SECONDS = 10 };

/* A page per slot: memory that the kernel writes to the journal file even when we are killed. */
struct slot {
    char path[PATH_MAX];
};

struct tn_state {
    char *parent;
    char *name;
    char *directory, *outputs, *undo;
    int lock_fd;
    struct slot *journal;
    struct tn_fs_journal hooks;
    pthread_mutex_t lock;
};

/* --- after the dead ------------------------------------------------------------------------- */

/* Kills every process that carries TENDON_HAND=id. */
static void kill_marked(const char *id)
{
    tn_autofree char *mark = tn_asprintf("TENDON_HAND=%s", id);
    tn_autobuf struct tn_buf env = TN_BUF_INIT(4 << 20);
    DIR *proc = opendir("/proc");

    for (struct dirent *e; proc && (e = readdir(proc));) {
        char *end;
        long pid = strtol(e->d_name, &end, 10);
        if (*end || pid <= 1 || pid == getpid())
            continue;
        /* The descriptor keeps naming this process even if its number is used again. */
        tn_autofd int handle = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
        if (handle < 0 || tn_proc_environ((pid_t)pid, &env) < 0)
            continue;
        for (size_t at = 0; at < env.len; at += strlen(env.data + at) + 1) {
            if (strcmp(env.data + at, mark) == 0) {
                syscall(SYS_pidfd_send_signal, handle, SIGKILL, NULL, 0);
                break;
            }
        }
    }
    if (proc)
        closedir(proc);
}

static void remove_announced(int dir)
{
    tn_autofd int fd = openat(dir, "journal", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct slot slot;

    for (int i = 0; fd >= 0 && i < SLOTS; i++) {
        if (pread(fd, &slot, sizeof slot, (off_t)(i * (long)sizeof slot)) != sizeof slot)
            break;
        slot.path[PATH_MAX - 1] = '\0';
        char *last = strrchr(slot.path, '/');
        if (!last || strncmp(last + 1, TN_FS_TEMP_PREFIX, strlen(TN_FS_TEMP_PREFIX)) != 0)
            continue;
        *last = '\0';
        tn_autofd int parent = open(slot.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (parent >= 0)
            tn_fs_remove_tree(parent, last + 1, 0, NULL);
    }
}

/* True when the directory is of ours and its process is dead; lock is then held by us. */
static bool is_dead(int dir, int *lock)
{
    struct stat st;

    if (fstat(dir, &st) < 0 || st.st_uid != geteuid())
        return false;
    *lock = openat(dir, "lock", O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (*lock < 0) /* being made right now, or killed just then */
        return errno == ENOENT && time(NULL) - st.st_mtime > YOUNG_SECONDS;
    if (flock(*lock, LOCK_EX | LOCK_NB) < 0 || fstat(*lock, &st) < 0)
        return false;
    /* Whoever has locked it writes into it: an empty one is being made, or its maker died just
     * then. */
    return st.st_size > 0 || time(NULL) - st.st_mtime > YOUNG_SECONDS;
}

static void reclaim(const char *parent)
{
    DIR *dir = opendir(parent);

    for (struct dirent *e; dir && (e = readdir(dir));) {
        if (strncmp(e->d_name, PREFIX, strlen(PREFIX)) != 0)
            continue;
        tn_autofd int fd =
            openat(dirfd(dir), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        tn_autofd int lock = -1;
        if (fd < 0 || !is_dead(fd, &lock))
            continue;
        tn_log(TN_LOG_INFO, "cleaning up after a server that was killed",
               tn_log_str("directory", e->d_name));
        kill_marked(e->d_name + strlen(PREFIX));
        remove_announced(fd);
        tn_fs_remove_tree(dirfd(dir), e->d_name, 0, NULL);
    }
    if (dir)
        closedir(dir);
}

/* --- our own -------------------------------------------------------------------------------- */

static int announce(void *ctx, const char *path, struct tn_error *err)
{
    struct tn_state *s = ctx;
    int r = -1;

    if (strlen(path) >= PATH_MAX)
        return tn_fail(err, TN_E_INVALID, "path of a temporary file is too long");
    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < SLOTS && r < 0; i++) {
        if (!s->journal[i].path[0]) {
            memcpy(s->journal[i].path, path, strlen(path) + 1);
            r = 0;
        }
    }
    pthread_mutex_unlock(&s->lock);
    return r < 0 ? tn_fail(err, TN_E_BUSY, "too many files are being written at once") : 0;
}

static void withdraw(void *ctx, const char *path)
{
    struct tn_state *s = ctx;

    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < SLOTS; i++) {
        if (strcmp(s->journal[i].path, path) == 0) {
            s->journal[i].path[0] = '\0';
            break;
        }
    }
    pthread_mutex_unlock(&s->lock);
}

static int make_outputs(const struct tn_state *s, gid_t group, struct tn_error *err)
{
    const mode_t mode = 0750;

    if (mkdir(s->outputs, mode) < 0 ||
        (geteuid() == 0 && (chown(s->outputs, 0, group) < 0 || chmod(s->outputs, mode) < 0)))
        return tn_fail_errno(err, errno, "%s", s->outputs);
    return 0;
}

static int map_journal(struct tn_state *s, struct tn_error *err)
{
    tn_autofree char *path = tn_asprintf("%s/journal", s->directory);
    tn_autofd int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    if (fd < 0 || ftruncate(fd, SLOTS * sizeof(struct slot)) < 0)
        return tn_fail_errno(err, errno, "%s", path);
    s->journal = mmap(NULL, SLOTS * sizeof(struct slot), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (s->journal == MAP_FAILED) {
        s->journal = NULL;
        return tn_fail_errno(err, errno, "%s", path);
    }
    return 0;
}

static int choose_name(struct tn_state *s, struct tn_error *err)
{
    uint64_t random;

    if (getrandom(&random, sizeof random, 0) != sizeof random)
        return tn_fail_errno(err, errno, "random number");
    s->name = tn_asprintf(PREFIX "%016llx", (unsigned long long)random);
    s->directory = tn_asprintf("%s/%s", s->parent, s->name);
    s->outputs = tn_asprintf("%s/output", s->directory);
    s->undo = tn_asprintf("%s/undo", s->directory);
    return 0;
}

static int make_directory(struct tn_state *s, struct tn_error *err)
{
    /* Others may pass through (to outputs that they know), not look around. */
    if (mkdir(s->directory, 0711) < 0 || chmod(s->directory, 0711) < 0)
        return tn_fail_errno(err, errno, "%s", s->directory);
    tn_autofree char *lock = tn_asprintf("%s/lock", s->directory);
    s->lock_fd = open(lock, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (s->lock_fd < 0 || flock(s->lock_fd, LOCK_EX) < 0 || write(s->lock_fd, "\n", 1) != 1)
        return tn_fail_errno(err, errno, "%s", lock);
    return 0;
}

struct tn_state *tn_state_new(const char *parent, struct tn_error *err)
{
    struct tn_state *s = tn_calloc(1, sizeof *s);
    const char *tmp = getenv("TMPDIR");

    pthread_mutex_init(&s->lock, NULL);
    s->lock_fd = -1;
    s->hooks = (struct tn_fs_journal){announce, withdraw, s};
    s->parent = tn_strdup(parent ? parent : tmp && tmp[0] == '/' ? tmp : "/tmp");
    if (mkdir(s->parent, 01777) == 0) /* a scratch image has no /tmp */
        chmod(s->parent, 01777);
    reclaim(s->parent);
    /* With PID 1 all processes end: nobody will look for those with the mark, and they come first.
     */
    if (choose_name(s, err) < 0 || (getpid() != 1 && make_directory(s, err) < 0)) {
        tn_error_context(err, "state directory");
        tn_state_free(s);
        return NULL;
    }
    return s;
}

int tn_state_complete(struct tn_state *s, gid_t group, struct tn_error *err)
{
    if ((s->lock_fd < 0 && make_directory(s, err) < 0) || make_outputs(s, group, err) < 0 ||
        map_journal(s, err) < 0)
        return tn_error_context(err, "state directory");
    return 0;
}

void tn_state_free(struct tn_state *s)
{
    if (!s)
        return;
    tn_autofd int parent = open(s->parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->lock_fd >= 0 && parent >= 0)
        tn_fs_remove_tree(parent, s->name, 0, NULL);
    if (s->journal)
        munmap(s->journal, SLOTS * sizeof(struct slot));
    tn_close(s->lock_fd);
    free(s->parent);
    free(s->name);
    free(s->directory);
    free(s->outputs);
    free(s->undo);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

const char *tn_state_id(const struct tn_state *s)
{
    return s->name + strlen(PREFIX);
}

const char *tn_state_outputs(const struct tn_state *s)
{
    return s->outputs;
}

const char *tn_state_undo(const struct tn_state *s)
{
    return s->undo;
}

char *tn_state_private(const struct tn_state *s, const char *name, uid_t uid, gid_t gid,
                       struct tn_error *err)
{
    tn_autofree char *path = tn_asprintf("%s/%s", s->directory, name);

    if (mkdir(path, 0700) < 0 && errno != EEXIST) {
        tn_fail_errno(err, errno, "%s", path);
        return NULL;
    }
    /* Its parent is ours alone, so it is what we have made. */
    if (geteuid() == 0 && (lchown(path, uid, gid) < 0 || chmod(path, 0700) < 0)) {
        tn_fail_errno(err, errno, "%s", path);
        return NULL;
    }
    return TN_TAKE_PTR(path);
}

const struct tn_fs_journal *tn_state_journal(const struct tn_state *s)
{
    return &s->hooks;
}
