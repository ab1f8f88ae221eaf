/* What every root has besides its files: /proc, /sys, /dev, /run, and the volumes of the plan.
 *
 * File systems are made while the host can still be seen (an ordinary user may only mount a new
 * /proc where a full one is visible, and devices come from the host's /dev) and attached once it
 * cannot. */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/fs.h"
#include "jail/jail.h"
#include "jail/sys.h"

enum { PROC, DEV, PTS, SHM, RUN, TMP };

#define SHM_BYTES (INT64_C(64) << 20)
#define TTY_GROUP 5    /* as everywhere on Linux */
#define TERMINALS "64" /* of the 3072 that the kernel has for all that are not the host's own */

#define LOCKED (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)

static const struct {
    const char *target, *type;
    unsigned attributes;
    const char *options[5];
} mounts[JAIL_SYSTEM_MOUNTS] = {
    [PROC] = {"/proc", "proc", LOCKED | MOUNT_ATTR_NOEXEC, {NULL}},
    [DEV] = {"/dev", "tmpfs", MOUNT_ATTR_NOSUID, {"mode=0755", "size=64k", NULL}},
    [PTS] = {"/dev/pts",
             "devpts",
             MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC,
             {"newinstance", "ptmxmode=0666", "mode=0620", "max=" TERMINALS, NULL}},
    [SHM] = {"/dev/shm", "tmpfs", LOCKED, {"mode=1777", NULL}},
    [RUN] = {"/run", "tmpfs", LOCKED, {"mode=0755", "size=16m", NULL}},
    [TMP] = {"/tmp", "tmpfs", LOCKED, {"mode=1777", NULL}},
};

static const char *const devices[] = {"null", "zero", "full", "random", "urandom", "tty"};

static const struct {
    const char *name, *target;
} links[] = {
    {"fd", "/proc/self/fd"},       {"stdin", "/proc/self/fd/0"}, {"stdout", "/proc/self/fd/1"},
    {"stderr", "/proc/self/fd/2"}, {"ptmx", "pts/ptmx"},
};

/* --- devices ------------------------------------------------------------------------------- */

/* mkdir -p of what stands before the last part. */
static int make_folders(int dir, const char *name)
{
    tn_autofree char *copy = tn_strdup(name);

    for (char *slash = strchr(copy, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdirat(dir, copy, 0755) < 0 && errno != EEXIST)
            return -1;
        *slash = '/';
    }
    return 0;
}

/* A node of the jail's own (root), or an empty file for the host's to be attached on. */
static int add_device(struct jail *j, const char *path, const char *name, bool standard,
                      struct tn_error *err)
{
    int dev = j->system[DEV];
    tn_autofd int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return tn_fail_errno(err, errno, "device %s", path);
    if (!S_ISCHR(st.st_mode) && !S_ISBLK(st.st_mode))
        return tn_fail(err, TN_E_INVALID, "%s is not a device", path);
    if (make_folders(dev, name) < 0)
        return tn_fail_errno(err, errno, "device %s", path);
    mode_t mode = standard ? 0666 : st.st_mode & 0777;
    if (j->privileged && mknodat(dev, name, (st.st_mode & S_IFMT) | mode, st.st_rdev) == 0)
        return 0;
    tn_autofd int file = openat(dev, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    tn_autofd int mount = sys_clone_mount(fd, "", 0);
    if (file < 0 || mount < 0)
        return tn_fail_errno(err, errno, "device %s", path);
    j->devices = tn_realloc(j->devices, (j->device_count + 1) * sizeof *j->devices);
    j->devices[j->device_count++] =
        (struct jail_device){.mount = TN_TAKE_FD(mount), .target = tn_asprintf("/dev/%s", name)};
    return 0;
}

static int fill_dev(struct jail *j, struct tn_error *err)
{
    for (size_t i = 0; i < TN_COUNT(devices); i++) {
        tn_autofree char *path = tn_asprintf("/dev/%s", devices[i]);
        if (add_device(j, path, devices[i], true, err) < 0)
            return -1;
    }
    for (size_t i = 0; i < j->plan.devices.count; i++)
        if (add_device(j, j->plan.devices.items[i], j->plan.devices.items[i] + strlen("/dev/"),
                       false, err) < 0)
            return -1;
    if (j->plan.platform == TN_JAIL_PLATFORM_KVM && /* runsc's own, not seen inside */
        add_device(j, "/dev/kvm", "kvm", false, err) < 0)
        return -1;
    for (size_t i = 0; i < TN_COUNT(links); i++)
        if (symlinkat(links[i].target, j->system[DEV], links[i].name) < 0)
            return tn_fail_errno(err, errno, "/dev/%s", links[i].name);
    if (mkdirat(j->system[DEV], "pts", 0755) < 0 || mkdirat(j->system[DEV], "shm", 01777) < 0)
        return tn_fail_errno(err, errno, "/dev");
    return 0;
}

/* --- before the root is entered ------------------------------------------------------------ */

static int make_mount(struct jail *j, int i, struct tn_error *err)
{
    const char *options[8] = {NULL};
    char extra[64];
    size_t n = 0;

    while (mounts[i].options[n]) {
        options[n] = mounts[i].options[n];
        n++;
    }
    if (i == SHM)
        snprintf(extra, sizeof extra, "size=%lld",
                 (long long)(j->plan.shm_bytes ? j->plan.shm_bytes : SHM_BYTES));
    else if (i == TMP)
        snprintf(extra, sizeof extra, "size=%lld", (long long)j->plan.tmp_bytes);
    else if (i == PTS && j->mapping != TN_JAIL_MAP_OWN)
        snprintf(extra, sizeof extra, "gid=%u", j->base + TTY_GROUP);
    else
        extra[0] = '\0';
    options[n] = extra[0] ? extra : NULL;
    j->system[i] = jail_new_mount(mounts[i].type, options, mounts[i].attributes, err);
    return j->system[i] < 0 ? tn_error_context(err, "%s", mounts[i].target) : 0;
}

int jail_prepare_system(struct jail *j, struct tn_error *err)
{
    for (int i = 0; i < JAIL_SYSTEM_MOUNTS; i++)
        if ((i != TMP || j->plan.tmp_bytes > 0) && make_mount(j, i, err) < 0)
            return -1;
    return fill_dev(j, err);
}

const char *jail_system_target(int i)
{
    return mounts[i].target;
}

/* --- after it was entered ------------------------------------------------------------------ */

static int attach_devices(struct jail *j, struct tn_error *err)
{
    for (size_t i = 0; i < j->device_count; i++)
        if (jail_attach(j, j->devices[i].mount, j->devices[i].target, false, err) < 0)
            return -1;
    return 0;
}

/* Of /sys only which processors there are: programs size themselves by it. */
int jail_lock_cpu_info(struct jail *j, struct tn_error *err)
{
    if (j->cpu_info >= 0 &&
        sys_set_mount(j->cpu_info, MOUNT_ATTR_RDONLY | LOCKED | MOUNT_ATTR_NOEXEC, -1, 0) < 0)
        return tn_fail_errno(err, errno, "/sys: read-only");
    return 0;
}

static int attach_sys(struct jail *j, struct tn_error *err)
{
    if (jail_lock_cpu_info(j, err) < 0)
        return -1;
    return j->cpu_info < 0 ? 0 : jail_attach(j, j->cpu_info, JAIL_CPU_INFO, true, err);
}

int jail_attach_system(struct jail *j, struct tn_error *err)
{
    for (int i = 0; i < JAIL_SYSTEM_MOUNTS; i++)
        if (j->system[i] >= 0 && jail_attach(j, j->system[i], mounts[i].target, true, err) < 0)
            return -1;
    if (attach_devices(j, err) < 0 || attach_sys(j, err) < 0)
        return -1;
    if (mkdir("/run/lock", 01777) < 0)
        return tn_fail_errno(err, errno, "/run/lock");
    return jail_attach(j, j->hand, TN_JAIL_HAND, false, err);
}

int jail_attach_own_system(struct jail *j, const char *below, struct tn_error *err)
{
    static const int wanted[] = {PROC, DEV};

    for (size_t i = 0; i < TN_COUNT(wanted); i++) {
        tn_autofree char *path = tn_asprintf("%s%s", below, mounts[wanted[i]].target);
        if (jail_attach_here(&j->system[wanted[i]], path, err) < 0)
            return -1;
    }
    for (size_t i = 0; i < j->device_count; i++) {
        tn_autofree char *path = tn_asprintf("%s%s", below, j->devices[i].target);
        if (move_mount(j->devices[i].mount, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH) < 0)
            return tn_fail_errno(err, errno, "attach %s", path);
    }
    return 0;
}

/* --- /proc --------------------------------------------------------------------------------- */

enum cover { READ_ONLY, NOTHING, EMPTY };

/* Most of it only root of the machine can read or write.  Where root inside is somebody else
 * outside the kernel refuses it anyway; the rest is covered always. */
static const struct {
    const char *path;
    enum cover cover;
    bool always;
} covered[] = {
    {"sys", READ_ONLY, true},
    {"keys", NOTHING, true},
    {"key-users", NOTHING, true},
    {"interrupts", NOTHING, true}, /* their pace tells what is typed and computed elsewhere */
    {"sysrq-trigger", READ_ONLY, false},
    {"irq", READ_ONLY, false},
    {"bus", READ_ONLY, false},
    {"fs", READ_ONLY, false},
    {"kcore", NOTHING, false},
    {"kmsg", NOTHING, false},
    {"timer_list", NOTHING, false},
    {"timer_stats", NOTHING, false},
    {"sched_debug", NOTHING, false},
    {"latency_stats", NOTHING, false},
    {"kpagecount", NOTHING, false},
    {"kpageflags", NOTHING, false},
    {"kpagecgroup", NOTHING, false},
    {"vmallocinfo", NOTHING, false},
    {"acpi", EMPTY, false},
    {"scsi", EMPTY, false},
    {"asound", EMPTY, false},
    {"driver", EMPTY, false},
};

static int cover_one(int proc, int null, const char *path, enum cover cover, struct tn_error *err)
{
    static const char *const small[] = {"mode=0555", "size=4k", NULL};
    tn_autofd int on = openat(proc, path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    tn_autofd int mount = -1;

    if (on < 0)
        return errno == ENOENT ? 0 : tn_fail_errno(err, errno, "/proc/%s", path);
    if (cover == EMPTY)
        mount = jail_new_mount("tmpfs", small, LOCKED | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_RDONLY, err);
    else
        mount = sys_clone_mount(cover == NOTHING ? null : on, "", 0);
    if (mount < 0)
        return cover == EMPTY ? -1 : tn_fail_errno(err, errno, "cover /proc/%s", path);
    if (cover == READ_ONLY && sys_set_mount(mount, MOUNT_ATTR_RDONLY, -1, 0) < 0)
        return tn_fail_errno(err, errno, "/proc/%s: read-only", path);
    if (sys_attach_mount(mount, on) < 0)
        return tn_fail_errno(err, errno, "cover /proc/%s", path);
    return 0;
}

int jail_mask_proc(struct jail *j, struct tn_error *err)
{
    tn_autofd int proc = open("/proc", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    tn_autofd int null = open("/dev/null", O_PATH | O_NOFOLLOW | O_CLOEXEC);

    if (proc < 0 || null < 0)
        return tn_fail_errno(err, errno, "/proc");
    bool other = j->mapping == TN_JAIL_MAP_RANGE || !j->privileged; /* than root of the machine */
    for (size_t i = 0; i < TN_COUNT(covered); i++)
        if ((covered[i].always || !other) &&
            cover_one(proc, null, covered[i].path, covered[i].cover, err) < 0)
            return -1;
    return 0;
}
