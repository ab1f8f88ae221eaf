/* The same jail with another kernel: its PID 1 is gVisor's runsc, and the program of the plan runs
 * on the kernel that runsc brings along, written in Go, of which ours sees few system calls.
 *
 * Everything around it stays as it is: the root file system, volumes, control groups, namespaces,
 * the keeper.  But the process does not enter that root: it enters the walls, a small tmpfs of
 *     runsc        the program, read-only, and the folder gvisor-bin that may lie beside it
 *     proc dev     what it needs of a system itself
 *     bundle       config.json, by which runsc is told what to run (OCI runtime-spec 1.0)
 *     state tmp    runsc's own notes; where it mounts its own empty root
 *     root         the root of the jail, served to the inside by runsc
 *     volumes/N    the volumes, each of which is told to be shared: what changes outside is seen
 * Whoever breaks out of that kernel is in there: with files, network and processes of the jail and
 * of nobody else.
 *
 * A listening socket cannot be passed through.  So the keeper listens for the hand, and hands each
 * connection over a socket pair (door.c, net/pair.h). */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/again.h"
#include "base/clock.h"
#include "base/fs.h"
#include "jail/jail.h"
#include "jail/sys.h"

enum { CONFIG_MAX = 8 << 20 };
#define RUNSC "/runsc"
#define STATE "/state"
#define BUNDLE "/bundle"
#define UP_SECONDS 20.0
#define UP_MS 20
#define SHM_BYTES (INT64_C(64) << 20)

/* --- config.json ------------------------------------------------------------------------------ */

static void put_list(struct tn_jw *w, const char *key, const char *const *items, size_t count)
{
    tn_jw_key(w, key);
    tn_jw_array(w);
    for (size_t i = 0; i < count; i++)
        tn_jw_str(w, items[i]);
    tn_jw_array_end(w);
}

/* The same that confine.c leaves to a jail of ours. */
static void put_capabilities(const struct jail *j, struct tn_jw *w)
{
    static const char *const sets[] = {"bounding", "effective", "permitted"};
    static const char *const names[] = {
        "CAP_CHOWN",      "CAP_DAC_OVERRIDE", "CAP_FOWNER",  "CAP_KILL",
        "CAP_SETGID",     "CAP_SETUID",       "CAP_SETPCAP", "CAP_NET_BIND_SERVICE",
        "CAP_SYS_CHROOT", "CAP_SETFCAP",      "CAP_FSETID",
    };
    const size_t of_set_id = 2; /* the last ones, see confine.c */

    tn_jw_key(w, "capabilities");
    tn_jw_object(w);
    for (size_t i = 0; i < TN_COUNT(sets); i++)
        put_list(w, sets[i], names, TN_COUNT(names) - (j->shares ? of_set_id : 0));
    tn_jw_object_end(w);
}

static void put_limit(struct tn_jw *w, const char *name, int64_t value)
{
    if (value <= 0)
        return;
    tn_jw_object(w);
    tn_jw_kstr(w, "type", name);
    tn_jw_kint(w, "hard", value);
    tn_jw_kint(w, "soft", value);
    tn_jw_object_end(w);
}

static void put_process(const struct jail *j, struct tn_jw *w)
{
    const struct tn_jail_plan *p = &j->plan;

    tn_jw_key(w, "process");
    tn_jw_object(w);
    tn_jw_key(w, "user");
    tn_jw_object(w);
    tn_jw_kint(w, "uid", p->uid);
    tn_jw_kint(w, "gid", p->gid);
    tn_jw_object_end(w);
    tn_jw_key(w, "args");
    tn_jw_array(w);
    tn_jw_str(w, TN_JAIL_HAND);
    for (size_t i = 1; i < p->argv.count; i++)
        tn_jw_str(w, p->argv.items[i]);
    tn_jw_array_end(w);
    put_list(w, "env", (const char *const *)p->env.items, p->env.count);
    tn_jw_kstr(w, "cwd", "/");
    tn_jw_kbool(w, "noNewPrivileges", !j->gains);
    put_capabilities(j, w);
    tn_jw_key(w, "rlimits");
    tn_jw_array(w);
    put_limit(w, "RLIMIT_FSIZE", p->file_size);
    put_limit(w, "RLIMIT_NOFILE", p->open_files);
    tn_jw_array_end(w);
    tn_jw_object_end(w);
}

static void put_mount(struct tn_jw *w, const char *type, const char *source, const char *target,
                      const char *const *options, size_t count)
{
    tn_jw_object(w);
    tn_jw_kstr(w, "type", type);
    tn_jw_kstr(w, "source", source);
    tn_jw_kstr(w, "destination", target);
    put_list(w, "options", options, count);
    tn_jw_object_end(w);
}

static void put_tmpfs(struct tn_jw *w, const char *target, const char *mode, int64_t bytes)
{
    char size[40];
    const char *const options[] = {mode, "nosuid", "nodev", size};

    snprintf(size, sizeof size, "size=%lld", (long long)bytes);
    put_mount(w, "tmpfs", "tmpfs", target, options, TN_COUNT(options));
}

static void put_mounts(const struct jail *j, struct tn_jw *w)
{
    static const char *const read_only[] = {"nosuid", "noexec", "nodev", "ro"};
    const struct tn_jail_plan *p = &j->plan;

    tn_jw_key(w, "mounts");
    tn_jw_array(w);
    put_mount(w, "proc", "proc", "/proc", NULL, 0);
    put_mount(w, "sysfs", "sysfs", "/sys", read_only, TN_COUNT(read_only));
    put_tmpfs(w, "/dev/shm", "mode=1777", p->shm_bytes ? p->shm_bytes : SHM_BYTES);
    put_tmpfs(w, "/run", "mode=0755", INT64_C(16) << 20);
    if (p->tmp_bytes > 0)
        put_tmpfs(w, "/tmp", "mode=1777", p->tmp_bytes);
    for (size_t i = 0; i < p->mount_count; i++) {
        char source[40];
        const char *const options[] = {"rbind", "nosuid", "nodev",
                                       p->mounts[i].read_only ? "ro" : "rw"};
        snprintf(source, sizeof source, "/volumes/%zu", i);
        put_mount(w, "bind", source, p->mounts[i].target, options, TN_COUNT(options));
    }
    tn_jw_array_end(w);
}

static void put_namespaces(struct tn_jw *w)
{
    static const char *const names[] = {"pid", "ipc", "uts", "mount"};

    tn_jw_key(w, "linux");
    tn_jw_object(w);
    tn_jw_key(w, "namespaces");
    tn_jw_array(w);
    for (size_t i = 0; i < TN_COUNT(names); i++) {
        tn_jw_object(w);
        tn_jw_kstr(w, "type", names[i]);
        tn_jw_object_end(w);
    }
    tn_jw_array_end(w);
    tn_jw_object_end(w);
}

static int write_config(const struct jail *j, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(CONFIG_MAX);
    struct tn_jw w = tn_jw(&text);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "ociVersion", "1.0.0");
    put_process(j, &w);
    tn_jw_key(&w, "root");
    tn_jw_object(&w);
    tn_jw_kstr(&w, "path", "/root");
    tn_jw_object_end(&w);
    tn_jw_kstr(&w, "hostname", j->plan.hostname ? j->plan.hostname : "tendon");
    put_mounts(j, &w);
    put_namespaces(&w);
    tn_jw_object_end(&w);
    if (!tn_buf_ok(&text))
        return tn_fail(err, TN_E_TOO_LARGE, "the plan is too large for config.json");
    tn_autofd int fd = open("walls/bundle/config.json", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return tn_fail_errno(err, errno, "config.json");
    return tn_fs_write(fd, text.data, text.len, err);
}

/* --- the walls -------------------------------------------------------------------------------- */

/* Attaches the mount there and takes it; a file needs one to be attached on. */
static int attach(int *mount, const char *path, bool directory, struct tn_error *err)
{
    if (directory)
        return jail_attach_here(mount, path, err);
    tn_autofd int on = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (on < 0 || move_mount(*mount, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return tn_fail_errno(err, errno, "attach %s", path);
    close(TN_TAKE_FD(*mount));
    return 0;
}

/* Where a volume will be must be there: made as the jail would find it. */
static int attach_volumes(struct jail *j, struct tn_error *err)
{
    char path[40];
    struct stat st;

    for (size_t i = 0; i < j->plan.mount_count; i++) {
        if (fstat(j->volumes[i], &st) < 0)
            return tn_fail_errno(err, errno, "volume at %s", j->plan.mounts[i].target);
        tn_autofd int target =
            jail_open_inside(j, j->plan.mounts[i].target, S_ISDIR(st.st_mode), err);
        snprintf(path, sizeof path, "walls/volumes/%zu", i);
        if (target < 0 || attach(&j->volumes[i], path, S_ISDIR(st.st_mode), err) < 0)
            return tn_error_context(err, "volume at %s", j->plan.mounts[i].target);
    }
    return 0;
}

static int attach_root(struct jail *j, struct tn_error *err)
{
    if (jail_attach(j, TN_TAKE_FD(j->hand), TN_JAIL_HAND, false, err) < 0)
        return -1;
    tn_autofd int root = sys_clone_mount(j->root, "", AT_RECURSIVE);
    if (root < 0)
        return tn_fail_errno(err, errno, "root");
    return jail_attach_here(&root, "walls/root", err);
}

int jail_make_walls(struct jail *j, struct tn_error *err)
{
    static const char *const folders[] = {"walls/bundle", "walls/state", "walls/volumes",
                                          "walls/tmp"};

    if (mkdir("walls", 0755) < 0 ||
        mount("tendon", "walls", "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=64m") < 0)
        return tn_fail_errno(err, errno, "walls");
    for (size_t i = 0; i < TN_COUNT(folders); i++)
        if (mkdir(folders[i], 0755) < 0)
            return tn_fail_errno(err, errno, "%s", folders[i]);
    if (attach_volumes(j, err) < 0 || jail_make_workspace(j, err) < 0 ||
        jail_write_resolver(j, err) < 0 || jail_correct_names(j, err) < 0)
        return -1;
    return attach_root(j, err) < 0 || write_config(j, err) < 0 ||
                   jail_attach_own_system(j, "walls", err) < 0 ||
                   (j->sidecars >= 0 &&
                    attach(&j->sidecars, "walls" JAIL_SIDECARS, true, err) < 0) ||
                   attach(&j->runsc, "walls" RUNSC, false, err) < 0
               ? -1
               : 0;
}

int jail_enter_walls(struct jail *j, struct tn_error *err)
{
    tn_close(TN_TAKE_FD(j->root));
    j->root = open("walls", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return j->root < 0 ? tn_fail_errno(err, errno, "walls") : jail_enter_root(j, err);
}

static char *const runsc_env[] = {(char *)(uintptr_t) "PATH=/", NULL};

int jail_become_runsc(const struct jail *j, struct tn_error *err)
{
    const struct tn_jail_plan *p = &j->plan;
    tn_autofree char *platform = tn_asprintf("--platform=%s", tn_jail_platforms[p->platform]);
    /* Its sockets are those of this kernel in the namespace that it is in: behind the wall, too. */
    const char *network = p->network == TN_JAIL_NET_NONE ? "--network=none" : "--network=host";
    tn_autofree char *door = tn_asprintf("--pass-fd=%d:%d", (int)p->socket_fd, (int)p->socket_fd);
    const char *const argv[] = {
        "runsc",
        "--root=" STATE,
        platform,
        network,
        "--ignore-cgroups", /* the launcher's are around it */
        "--overlay2=none",  /* files are to be found outside */
        j->gains ? "--allow-suid=true" : "--allow-suid=false",
        "run",
        "--bundle=" BUNDLE,
        door,
        p->id,
        NULL,
    };

    execve(RUNSC, (char *const *)(uintptr_t)argv, runsc_env);
    return tn_fail_errno(err, errno, "execute %s", p->runsc);
}

/* The key of the hand is among the variables of the jail, and nobody else's business. */
static int run_runsc(const char *id, const char *directory, const char *const *program)
{
    tn_autofree char *cwd = tn_asprintf("--cwd=%s", directory);
    const char *const head[] = {"runsc", "--root=" STATE,          "exec",
                                cwd,     "--env=SESSION_API_KEY=", id};
    size_t count = 0;

    while (program[count])
        count++;
    tn_autofree const char **argv = tn_calloc(TN_COUNT(head) + count + 1, sizeof *argv);
    memcpy(argv, head, sizeof head);
    memcpy(argv + TN_COUNT(head), program, count * sizeof *argv);
    return execve(RUNSC, (char *const *)(uintptr_t)argv, runsc_env);
}

/* One that has been started a moment ago may not know the jail yet. */
static bool is_up(const char *id)
{
    static const char *const trial[] = {TN_JAIL_HAND, "--version", NULL};
    int status = -1;
    pid_t pid = fork();

    if (pid == 0) {
        int null = open("/dev/null", O_RDWR);
        for (int i = 0; i < 3; i++)
            dup2(null, i);
        run_runsc(id, "/", trial);
        _exit(1);
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int jail_ask_runsc(const char *id, const char *directory, char *const *program,
                   struct tn_error *err)
{
    int64_t deadline = tn_deadline_in(UP_SECONDS);

    while (!is_up(id))
        if (!tn_look_again_in(UP_MS, deadline))
            return tn_fail(err, TN_E_TIMEOUT, "runsc does not know the jail, or cannot reach it");
    run_runsc(id, directory, (const char *const *)program);
    return tn_fail_errno(err, errno, "execute runsc");
}
