/* Commands that destroy what a machine is made of. */
#include "security/policy/detect.h"
#include "security/policy/glob.h"

/* Whether this is the end of a path, or one part more that fits all or nearly all: a star, and
 * nothing else but signs of a pattern ("**", "?*", "[!.]*", ".*"). */
static bool all_below(const char *rest)
{
    return !*rest || (*rest == '/' && strchr(rest, '*') && !rest[1 + strspn(rest + 1, "*?[]!^.")]);
}

/* Whole trees without which a machine is none. */
static bool vital(const char *path)
{
    static const char names[] =
        "bin boot dev etc home lib lib64 lib32 proc root sbin srv sys usr var opt";
    char name[64];
    size_t n;

    if (path[0] == '~')
        return all_below(path + strcspn(path, "/"));
    if (path[0] != '/')
        return false;
    if (!path[1] || all_below(path))
        return true;
    n = strcspn(path + 1, "/");
    if (!all_below(path + 1 + n))
        return false;
    if (n >= sizeof name) /* it may fit all; no directory of the system has a name like that */
        return strcspn(path + 1, "*?[") < n;
    memcpy(name, path + 1, n);
    name[n] = '\0';
    for (const char *at = names; *at; at += n + (at[n] == ' ')) {
        n = strcspn(at, " ");
        if (glob_match(name, at, n))
            return true;
    }
    return false;
}

static bool device(const char *path)
{
    static const char *const patterns[] = {
        "/dev/sd*",     "/dev/hd*",       "/dev/vd*", "/dev/xvd*", "/dev/nvme*", "/dev/mmcblk*",
        "/dev/disk/**", "/dev/mapper/**", "/dev/mem", "/dev/kmem", "/dev/dm-*"};

    for (size_t i = 0; i < TN_COUNT(patterns); i++) {
        if (glob_path(patterns[i], path))
            return true;
    }
    return false;
}

static bool recursive(const struct tn_call *c)
{
    return tn_call_letter(c, 'r') || tn_call_letter(c, 'R') || tn_call_has(c, "--recursive");
}

/* A command that removes or changes: what it does to the paths it names.  rm -rf "$X"/ is
 * rm -rf / where X is empty. */
static void look_paths(struct scene *s)
{
    for (size_t i = 0; i < s->path_count; i++) {
        const struct seen_path *p = &s->paths[i];
        const char *name = p->call ? p->call->name : "";
        if (p->use & USE_WRITE && device(p->path))
            scene_add_sign(s, "device-write", "writes to a disk itself", p->call, p->part);
        if (!vital(p->path))
            continue;
        bool removes = p->use & USE_DELETE && (p->use & USE_BELOW || !p->call ||
                                               !word_in(name, "rm") || recursive(p->call));
        bool changes = word_in(name, "chmod chown chgrp chattr setfacl") && recursive(p->call);
        if (p->use & USE_UNSET && (changes || (removes && word_in(name, "rm find shred"))))
            scene_add_sign(s, "remove-unset", "means everything if the variable is empty", p->call,
                           p->part);
        else if (removes && !(p->use & USE_UNSET))
            scene_add_sign(s, "remove-root", "removes a whole tree of the system", p->call,
                           p->part);
        else if (changes)
            scene_add_sign(s, "change-root", "changes a whole tree of the system", p->call,
                           p->part);
    }
}

static const struct {
    const char *programs;
    const char *args; /* one of these is there; "": always */
    const char *kind, *text;
} rows[] = {
    {"mkfs mke2fs mkfs.ext2 mkfs.ext3 mkfs.ext4 mkfs.xfs mkfs.btrfs mkfs.vfat mkfs.fat mkfs.ntfs "
     "mkswap wipefs blkdiscard",
     "", "format", "makes a file system where there may be one"},
    {"shutdown reboot halt poweroff telinit", "", "power", "switches the machine off"},
    {"init", "0 6", "power", "switches the machine off"},
    {"systemctl", "reboot poweroff halt kexec rescue emergency", "power",
     "switches the machine off"},
    {"insmod modprobe rmmod kexec", "", "kernel", "changes the kernel"},
    {"killall5", "", "kill-all", "ends all processes"},
};

static void look_call(struct scene *s, const struct seen_call *c)
{
    const struct tn_call *call = c->call;

    for (size_t r = 0; r < TN_COUNT(rows); r++) {
        bool fits = word_in(call->name, rows[r].programs);
        bool wanted = !*rows[r].args;
        for (size_t i = 1; fits && !wanted && i < call->argc; i++)
            wanted = word_in(call->argv[i].text, rows[r].args);
        if (fits && wanted && !tn_call_has(call, "--help") && !tn_call_has(call, "--version"))
            scene_add_sign(s, rows[r].kind, rows[r].text, call, c->part);
    }
    if (strcmp(call->name, "kill") == 0 && call->argc > 2 &&
        strcmp(call->argv[call->argc - 1].text, "-1") == 0)
        scene_add_sign(s, "kill-all", "ends all processes", call, c->part);
    if (call->flags & TN_CALL_RECURSIVE &&
        (call->flags & TN_CALL_BACKGROUND || call->in || call->out))
        scene_add_sign(s, "fork-bomb", "starts itself without end", call, c->part);
}

static void look(struct scene *s)
{
    look_paths(s);
    for (size_t i = 0; i < s->call_count; i++)
        look_call(s, &s->calls[i]);
}

const struct detector detect_dangerous = {
    .name = "dangerous",
    .about =
        "commands that destroy a system: rm -rf /, mkfs, dd to a disk, chmod -R /, a fork bomb, "
        "shutdown",
    .kinds = "remove-root remove-unset change-root device-write format power kernel kill-all "
             "fork-bomb",
    .look = look,
};
