/* Who is who: user namespaces and the ids in them. */
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/raw.h"
#include "jail/jail.h"
#include "jail/message.h"
#include "jail/sys.h"

/* --- the choice ---------------------------------------------------------------------------- */

/* Each sandbox has a range of its own, as far as they go; owners on disk are never of it. */
static uid_t range_of(const char *id)
{
    uint32_t hash = 2166136261u;

    for (; *id; id++)
        hash = (hash ^ (unsigned char)*id) * 16777619u;
    return JAIL_RANGE_FIRST + hash % JAIL_RANGE_SLOTS * JAIL_IDS;
}

int jail_choose_mapping(struct jail *j, bool retry, struct tn_error *err)
{
    int wanted = j->plan.mapping;

    if (wanted == TN_JAIL_MAP_AUTO && j->privileged)
        j->mapping = retry ? TN_JAIL_MAP_IDENTITY : TN_JAIL_MAP_RANGE;
    else if (wanted == TN_JAIL_MAP_AUTO)
        j->mapping = TN_JAIL_MAP_OWN;
    else if (retry)
        return -1; /* err says what cannot be mapped */
    else
        j->mapping = wanted;
    bool of_users = j->mapping == TN_JAIL_MAP_OWN || j->mapping == TN_JAIL_MAP_SUBIDS;
    if (of_users == j->privileged)
        return tn_fail(err, TN_E_UNSUPPORTED, "mapping '%s' is for %s",
                       tn_jail_mappings[j->mapping], of_users ? "ordinary users" : "root");
    if (j->mapping == TN_JAIL_MAP_OWN && (j->plan.uid != 0 || j->plan.gid != 0))
        return tn_fail(err, TN_E_UNSUPPORTED,
                       "user %lld:%lld inside: an ordinary user has nobody but root there; mapping "
                       "'subids' (newuidmap, /etc/subuid) gives more",
                       (long long)j->plan.uid, (long long)j->plan.gid);
    j->base = j->mapping == TN_JAIL_MAP_RANGE ? range_of(j->plan.id) : 0;
    j->gains = j->plan.new_privs && !j->plan.criu &&
               (j->mapping == TN_JAIL_MAP_RANGE || j->mapping == TN_JAIL_MAP_SUBIDS);
    return 0;
}

/* --- a namespace made in advance ------------------------------------------------------------- */

static int write_file(const char *path, const char *text)
{
    tn_autofd int fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd < 0 || write(fd, text, strlen(text)) < 0 ? -1 : 0;
}

static int write_of(pid_t pid, const char *file, const char *text)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file);
    return write_file(path, text);
}

/* Who holds a user namespace until we have a descriptor of it; it ends with the pipe.  Its memory
 * is ours, since a copy would cost more than all the rest: it does nothing that might set errno. */
struct holder {
    int release[2];
    pid_t pid;
    struct holder *next;
    _Alignas(16) char stack[16 << 10];
};

/* Nobody waits for their ends before the child has what it needs. */
static struct holder *holders;

void jail_bury_holders(void)
{
    while (holders) {
        struct holder *h = holders;
        while (waitpid(h->pid, NULL, 0) < 0 && errno == EINTR)
            ;
        holders = h->next;
        free(h);
    }
}

TN_RAW static int hold(void *arg)
{
    const struct holder *h = arg;
    char byte;

    syscall(SYS_close, h->release[1]);
    syscall(SYS_read, h->release[0], &byte, 1);
    syscall(SYS_exit_group, 0);
    __builtin_unreachable();
}

/* Clones it as that user, who is then the owner of its namespace: what the kernel counts by user
 * (inotify, signals, message queues) it counts for a user namespace to the owner as well. */
static pid_t clone_owned(struct holder *h, uid_t owner)
{
    const int flags = CLONE_VM | CLONE_NEWUSER | SIGCHLD;
    int bits = prctl(PR_GET_SECUREBITS), dumpable = prctl(PR_GET_DUMPABLE);
    uid_t self = geteuid();

    if (owner == self)
        return clone(hold, h->stack + sizeof h->stack, flags, h);
    /* Keeps the capabilities meanwhile. */
    if (prctl(PR_SET_SECUREBITS, bits | SECBIT_NO_SETUID_FIXUP) < 0)
        return -1;
    pid_t pid = -1;
    if (syscall(SYS_setresuid, -1, owner, -1) == 0)
        pid = clone(hold, h->stack + sizeof h->stack, flags, h);
    int saved = errno;
    if (syscall(SYS_setresuid, -1, self, -1) < 0 || prctl(PR_SET_SECUREBITS, bits) < 0 ||
        prctl(PR_SET_DUMPABLE, dumpable) < 0)
        _exit(1); /* a launcher that is somebody else must not go on */
    errno = saved;
    return pid;
}

static struct holder *clone_holder(uid_t owner)
{
    struct holder *h = tn_malloc(sizeof *h);

    if (pipe2(h->release, O_CLOEXEC) < 0) {
        free(h);
        return NULL;
    }
    h->pid = clone_owned(h, owner);
    if (h->pid > 0) {
        h->next = holders;
        holders = h;
        return h;
    }
    int saved = errno;
    close(h->release[0]);
    close(h->release[1]);
    free(h);
    errno = saved;
    return NULL;
}

static int userns_with(const char *uid_map, const char *gid_map, uid_t owner, struct tn_error *err)
{
    char path[64];
    int fd = -1;
    const struct holder *h = clone_holder(owner);

    if (!h)
        return tn_fail_errno(err, errno, "new user namespace");
    snprintf(path, sizeof path, "/proc/%d/ns/user", (int)h->pid);
    if (write_of(h->pid, "uid_map", uid_map) < 0 || write_of(h->pid, "gid_map", gid_map) < 0)
        tn_fail_errno(err, errno, "map the ids of a user namespace");
    else if ((fd = open(path, O_RDONLY | O_CLOEXEC)) < 0)
        tn_fail_errno(err, errno, "%s", path);
    close(h->release[0]);
    close(h->release[1]);
    return fd;
}

int jail_make_userns(uid_t inside, uid_t outside_uid, gid_t inside_gid, gid_t outside_gid,
                     uint32_t count, struct tn_error *err)
{
    char uids[64], gids[64];

    snprintf(uids, sizeof uids, "%u %u %u", inside, outside_uid, count);
    snprintf(gids, sizeof gids, "%u %u %u", inside_gid, outside_gid, count);
    return userns_with(uids, gids, geteuid(), err);
}

/* Its owner is root of the range, and so of no other sandbox.  Without CAP_SYS_PTRACE such a
 * namespace cannot be opened; then all of them have the launcher's user as their owner.  So do
 * those for criu, which needs every capability over it that an owner has (CAP_SYS_RESOURCE, for
 * one, even root of a machine may lack). */
static int make_range(struct jail *j, struct tn_error *err)
{
    char map[64];

    snprintf(map, sizeof map, "0 %u %u", j->base, JAIL_IDS);
    int fd = j->plan.criu ? -1 : userns_with(map, map, j->base, NULL);
    j->counted_alone = fd >= 0;
    return fd >= 0 ? fd : userns_with(map, map, geteuid(), err);
}

/* Every id that exists here, as itself. */
static int identity_map(const char *file, char *out, size_t size)
{
    tn_autofile FILE *f = fopen(file, "re");
    unsigned inside, outside, count;
    size_t used = 0;

    while (f && fscanf(f, "%u %u %u", &inside, &outside, &count) == 3 && used + 40 < size)
        used += (size_t)snprintf(out + used, size - used, "%u %u %u\n", inside, inside, count);
    return used > 0 ? 0 : -1;
}

int jail_prepare_userns(struct jail *j, struct tn_error *err)
{
    char uids[2048], gids[2048];

    if (j->mapping == TN_JAIL_MAP_RANGE) {
        j->userns = make_range(j, err);
    } else if (j->mapping == TN_JAIL_MAP_IDENTITY) {
        if (identity_map("/proc/self/uid_map", uids, sizeof uids) < 0 ||
            identity_map("/proc/self/gid_map", gids, sizeof gids) < 0)
            return tn_fail(err, TN_E_IO, "cannot read /proc/self/uid_map");
        j->userns = userns_with(uids, gids, geteuid(), err);
    } else {
        return 0;
    }
    return j->userns < 0 ? -1 : 0;
}

/* --- inside -------------------------------------------------------------------------------- */

int jail_map_own(uid_t uid, gid_t gid, struct tn_error *err)
{
    char uids[40], gids[40];

    snprintf(uids, sizeof uids, "0 %u 1", uid);
    snprintf(gids, sizeof gids, "0 %u 1", gid);
    if (write_file("/proc/self/setgroups", "deny") < 0 ||
        write_file("/proc/self/uid_map", uids) < 0 || write_file("/proc/self/gid_map", gids) < 0)
        return tn_fail_errno(err, errno, "map the caller to root inside");
    return 0;
}

int jail_map_self(struct jail *j, struct tn_error *err)
{
    if (j->mapping == TN_JAIL_MAP_OWN)
        return jail_map_own(j->caller_uid, j->caller_gid, err);
    if (j->mapping != TN_JAIL_MAP_SUBIDS)
        return 0;
    if (jail_expect(j->control, JAIL_MAPPED, NULL, err) == -2)
        return -1;
    if (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
        return tn_fail_errno(err, errno, "become root of the user namespace");
    return 0;
}

/* The caller's own count is shared by all of its jails: each may have a quarter of what a user may,
 * but no less than programs need. */
static const struct {
    const char *whole, *ours;
    long least;
} shares[] = {
    {"/proc/sys/fs/inotify/max_user_instances", "/proc/sys/user/max_inotify_instances", 16},
    {"/proc/sys/fs/inotify/max_user_watches", "/proc/sys/user/max_inotify_watches", 1024},
};
enum { SHARE_OF_A_USER = 4 };

int jail_take_shares(struct jail *j, struct tn_error *err)
{
    bool all = true;

    if (j->privileged)
        return 0;
    for (size_t i = 0; i < TN_COUNT(shares); i++) {
        tn_autofile FILE *f = fopen(shares[i].whole, "re");
        long whole = 0;
        char text[24];
        all = f && fscanf(f, "%ld", &whole) == 1 && all;
        long share = whole / SHARE_OF_A_USER;
        snprintf(text, sizeof text, "%ld", share > shares[i].least ? share : shares[i].least);
        all = write_file(shares[i].ours, text) == 0 && all;
    }
    /* Such a limit is one of each user inside: who has several has as many times as much. */
    j->isolation.inotify_limit = all && j->mapping == TN_JAIL_MAP_OWN;
    return 0;
}

/* Sets the effective capabilities of this thread to those of `wanted` that it is permitted. */
static int set_effective(uint64_t wanted, uint64_t *before)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];

    if (syscall(SYS_capget, &header, data) < 0)
        return -1;
    *before = data[0].effective | (uint64_t)data[1].effective << 32;
    data[0].effective = (uint32_t)wanted & data[0].permitted;
    data[1].effective = (uint32_t)(wanted >> 32) & data[1].permitted;
    return (int)syscall(SYS_capset, &header, data);
}

/* These calls never say whether they did anything: the next one tells who it was. */
static bool set_files_owner(uid_t uid, gid_t gid)
{
    setfsgid(gid);
    setfsuid(uid);
    return (uid_t)setfsuid((uid_t)-1) == uid && (gid_t)setfsgid((gid_t)-1) == gid;
}

int jail_act_as(uid_t id, uint64_t capabilities, struct jail_actor *before, struct tn_error *err)
{
    uint64_t ours;

    *before =
        (struct jail_actor){.uid = (uid_t)setfsuid((uid_t)-1), .gid = (gid_t)setfsgid((gid_t)-1)};
    if (set_effective(UINT64_MAX, &before->effective) < 0 || setgroups(0, NULL) < 0)
        return tn_fail_errno(err, errno, "give up groups");
    if (set_files_owner(id, id) && set_effective(capabilities, &ours) == 0)
        return 0;
    jail_act_again(before, NULL);
    return tn_fail(err, TN_E_IO, "cannot act as user %u", id);
}

int jail_act_again(const struct jail_actor *before, struct tn_error *err)
{
    uint64_t ours;

    return set_effective(UINT64_MAX, &ours) == 0 && set_files_owner(before->uid, before->gid) &&
                   set_effective(before->effective, &ours) == 0
               ? 0
               : tn_fail(err, TN_E_IO, "cannot act as user %u again", before->uid);
}

int jail_act_as_root(const struct jail *j, struct tn_error *err)
{
    if (j->base == 0)
        return 0;
    /* Without this bit the kernel takes away the capabilities that go with being root. */
    if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP) < 0)
        return tn_fail_errno(err, errno, "keep capabilities");
    return set_files_owner(j->base, j->base)
               ? 0
               : tn_fail(err, TN_E_IO, "cannot act as user %u", j->base);
}

int jail_enter_userns(struct jail *j, struct tn_error *err)
{
    if (j->mapping == TN_JAIL_MAP_NONE)
        return 0;
    if (j->userns >= 0 && setns(j->userns, CLONE_NEWUSER) < 0)
        return tn_fail_errno(err, errno, "enter the user namespace");
    j->isolation.user = true;
    return 0;
}

int jail_become_user(struct jail *j, struct tn_error *err)
{
    uid_t uid = (uid_t)j->plan.uid;
    gid_t gid = (gid_t)j->plan.gid;

    /* An ordinary user may not give up groups; outside they are what they were before. */
    if (j->mapping != TN_JAIL_MAP_OWN && setgroups(0, NULL) < 0)
        return tn_fail_errno(err, errno, "give up groups");
    if (setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
        return tn_fail_errno(err, errno, "become user %u:%u inside", uid, gid);
    return 0;
}
