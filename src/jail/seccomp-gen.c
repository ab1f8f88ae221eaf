/* Writes the system call filters of the jail as C, at build time: seccomp-gen ARCHITECTURE FILE;
 * and with "gate" after that the one of the gate (src/gate), which names all that it may do.
 *
 * The first filter knows every call that libseccomp knows and answers "no such call" to all
 * others, so that what a future kernel adds is closed until somebody looks at it; of the known ones
 * the table below takes away what a sandbox has no business with.  The second looks at arguments.
 * A third is for jails that write to directories of the host, see `set_id`.  Nothing is compiled
 * when a jail starts. */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    NUMBERS = 1024,
    INSTRUCTIONS_MAX = 4096,
};
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* EPERM: privileged business.  ENOSYS: a feature that programs can do without. */
static const struct refusal {
    int error;
    const char *call;
} refused[] = {
    /* mounts and roots */
    {EPERM, "mount"},
    {EPERM, "umount"},
    {EPERM, "umount2"},
    {EPERM, "pivot_root"},
    {EPERM, "move_mount"},
    {EPERM, "open_tree"},
    {EPERM, "open_tree_attr"},
    {EPERM, "fsopen"},
    {EPERM, "fsconfig"},
    {EPERM, "fsmount"},
    {EPERM, "fspick"},
    {EPERM, "mount_setattr"},
    {EPERM, "quotactl"},
    {EPERM, "quotactl_fd"},
    {EPERM, "swapon"},
    {EPERM, "swapoff"},
    {EPERM, "open_by_handle_at"}, /* goes around every directory */
    /* namespaces; clone and unshare: by their flags */
    {EPERM, "setns"},
    {ENOSYS, "clone3"}, /* its flags are in memory; the C library falls back to clone */
    /* the machine */
    {EPERM, "reboot"},
    {EPERM, "kexec_load"},
    {EPERM, "kexec_file_load"},
    {EPERM, "init_module"},
    {EPERM, "finit_module"},
    {EPERM, "delete_module"},
    {EPERM, "create_module"},
    {EPERM, "query_module"},
    {EPERM, "get_kernel_syms"},
    {EPERM, "iopl"},
    {EPERM, "ioperm"},
    {EPERM, "syslog"},
    {EPERM, "acct"},
    {EPERM, "settimeofday"},
    {EPERM, "stime"},
    {EPERM, "clock_settime"},
    {EPERM, "clock_settime64"},
    {EPERM, "sethostname"},
    {EPERM, "setdomainname"},
    {EPERM, "vhangup"},
    {EPERM, "nfsservctl"},
    {EPERM, "lookup_dcookie"},
    {EPERM, "move_pages"},
    {EPERM, "migrate_pages"},
    {EPERM, "fanotify_init"},
    /* old, odd, and only ever an attack surface */
    {ENOSYS, "_sysctl"},
    {ENOSYS, "sysfs"},
    {ENOSYS, "uselib"},
    {ENOSYS, "ustat"},
    {ENOSYS, "vserver"},
    {ENOSYS, "modify_ldt"},
    {ENOSYS, "vm86"},
    {ENOSYS, "vm86old"},
    /* large parts of the kernel that a sandbox can do without */
    {ENOSYS, "add_key"},
    {ENOSYS, "request_key"},
    {ENOSYS, "keyctl"},
    {ENOSYS, "bpf"},
    {ENOSYS, "perf_event_open"},
    {ENOSYS, "userfaultfd"},
    {ENOSYS, "io_uring_setup"},
    {ENOSYS, "io_uring_enter"},
    {ENOSYS, "io_uring_register"},
    /* counted for the whole machine (fs.aio-max-nr): one jail could take all of it */
    {ENOSYS, "io_setup"},
};

/* Harmless calls newer than the libseccomp of the build; these numbers are the same everywhere. */
static const int newer[] = {
    451, /* cachestat */
    452, /* fchmodat2 */
    454, /* futex_wake */
    455, /* futex_wait */
    456, /* futex_requeue */
    462, /* mseal */
};

static const uint32_t personalities[] = {0, 0x0008, 0x20000, 0x20008, 0xffffffff};

/* Values are 32 bits wide to the kernel: IS does not compare what stands above, ABOVE refuses it.
 */
#define IS(arg, value) SCMP_CMP(arg, SCMP_CMP_MASKED_EQ, 0xffffffff, (value))
#define ABOVE(arg, value) SCMP_CMP(arg, SCMP_CMP_GT, (value), 0)
#define HAS(arg, bit) SCMP_CMP(arg, SCMP_CMP_MASKED_EQ, (bit), (bit))

/* mount, cgroup, uts, ipc, user, pid, net; the last is time, which clone has no room for */
static const uint32_t namespaces[] = {0x00020000, 0x02000000, 0x04000000, 0x08000000,
                                      0x10000000, 0x20000000, 0x40000000, 0x00000080};

static const struct {
    const char *call;
    int error;
    unsigned count;
    struct scmp_arg_cmp when[2];
} arguments[] = {
    {"ioctl", EPERM, 1, {IS(1, 0x5412)}}, /* TIOCSTI: types into a terminal */
    {"ioctl", EPERM, 1, {IS(1, 0x541c)}}, /* TIOCLINUX: pastes into a console */
    /* Sockets: unix, inet, inet6, and netlink for routes and socket lists.  The answer to the rest
     * of netlink is that of a kernel without it: who writes audit records (useradd, su, sudo) goes
     * on without an audit, but takes EPERM for a fault. */
    {"socket", EAFNOSUPPORT, 1, {ABOVE(0, AF_NETLINK)}},
    {"socket", EAFNOSUPPORT, 1, {IS(0, 3)}},
    {"socket", EAFNOSUPPORT, 1, {IS(0, 4)}},
    {"socket", EAFNOSUPPORT, 1, {IS(0, 5)}},
    {"socket", EAFNOSUPPORT, 1, {IS(0, 6)}},
    {"socket", EAFNOSUPPORT, 1, {IS(0, 7)}},
    {"socket", EAFNOSUPPORT, 1, {IS(0, 8)}},
    {"socket", EAFNOSUPPORT, 1, {IS(0, 9)}},
    {"socket", EAFNOSUPPORT, 1, {IS(0, 11)}},
    {"socket", EAFNOSUPPORT, 1, {IS(0, 12)}},
    {"socket", EAFNOSUPPORT, 1, {IS(0, 13)}},
    {"socket", EAFNOSUPPORT, 1, {IS(0, 14)}},
    {"socket", EAFNOSUPPORT, 1, {IS(0, 15)}},
    {"socket", EPROTONOSUPPORT, 2, {IS(0, AF_NETLINK), ABOVE(2, 4)}},
    {"socket", EPROTONOSUPPORT, 2, {IS(0, AF_NETLINK), IS(2, 1)}},
    {"socket", EPROTONOSUPPORT, 2, {IS(0, AF_NETLINK), IS(2, 2)}},
    {"socket", EPROTONOSUPPORT, 2, {IS(0, AF_NETLINK), IS(2, 3)}},
    {"socketpair", EAFNOSUPPORT, 1, {ABOVE(0, AF_UNIX)}},
    /* Limits of another process: root inside could take all descriptors from its hand, which each
     * of its threads has a number for.  One's own (0) can be set, and all can be read. */
    {"prlimit64", EPERM, 2, {ABOVE(0, 0), ABOVE(2, 0)}},
};

/* A file that is made or changed in a directory of the host is somebody's there: were it set-uid or
 * had it capabilities, everybody who can reach it would be that somebody.  So nobody gives those
 * bits to anything (as RestrictSUIDSGID= of systemd has it).  What stands behind a pointer cannot
 * be judged, and is refused in the words that programs know how to go on from. */
enum verdict {
    BY_MODE,  /* EPERM when the mode, in that argument, has one of the bits */
    BY_FLAGS, /* the same where the flags, in the argument before it, make a file */
    NEVER,
};
enum {
    SET_ID_BITS = S_ISUID | S_ISGID,
    MAKES_FILE = 0100 | 020000000, /* O_CREAT, O_TMPFILE: the same on all machines of ours */
};
static const struct set_id {
    const char *call; /* NULL: `number`, of a call newer than the libseccomp of the build */
    int number;
    enum verdict verdict;
    unsigned mode; /* its argument; NEVER: the error */
} set_id[] = {
    {"chmod", 0, BY_MODE, 1},
    {"fchmod", 0, BY_MODE, 1},
    {"fchmodat", 0, BY_MODE, 2},
    {NULL, 452, BY_MODE, 2}, /* fchmodat2 */
    {"mkdir", 0, BY_MODE, 1},
    {"mkdirat", 0, BY_MODE, 2},
    {"mknod", 0, BY_MODE, 1},
    {"mknodat", 0, BY_MODE, 2},
    {"creat", 0, BY_MODE, 1},
    {"open", 0, BY_FLAGS, 2},
    {"openat", 0, BY_FLAGS, 3},
    {"openat2", 0, NEVER, ENOSYS},
    {"setxattr", 0, NEVER, EOPNOTSUPP},
    {"lsetxattr", 0, NEVER, EOPNOTSUPP},
    {"fsetxattr", 0, NEVER, EOPNOTSUPP},
    {NULL, 463, NEVER, ENOSYS}, /* setxattrat */
};

static void check(int r, const char *what)
{
    if (r >= 0)
        return;
    fprintf(stderr, "seccomp-gen: %s: %s\n", what, strerror(-r));
    exit(1);
}

static const struct refusal *find_refusal(const char *name)
{
    for (size_t i = 0; i < COUNT(refused); i++)
        if (strcmp(refused[i].call, name) == 0)
            return &refused[i];
    return NULL;
}

/* --- calls by their number ---------------------------------------------------------------------
 *
 * Neighbours mostly have the same answer, so this filter searches among ranges of numbers: it has a
 * quarter of the instructions of one that knows each call by itself.  The kernel translates a
 * filter, and walks through it once for each number, whenever a jail starts. */

static struct range {
    uint32_t first;
    uint32_t answer;
    bool personality; /* by its argument */
} ranges[NUMBERS];
static size_t range_count;

static struct sock_filter code[INSTRUCTIONS_MAX];
static size_t code_count;

static void add(struct sock_filter instruction)
{
    if (code_count == INSTRUCTIONS_MAX)
        check(-E2BIG, "filter");
    code[code_count++] = instruction;
}

static void add_range(struct range r)
{
    const struct range *before = range_count ? &ranges[range_count - 1] : NULL;

    if (before && before->answer == r.answer && before->personality == r.personality)
        return;
    if (range_count == NUMBERS)
        check(-E2BIG, "ranges");
    ranges[range_count++] = r;
}

static bool is_newer(int number)
{
    for (size_t i = 0; i < COUNT(newer); i++)
        if (newer[i] == number)
            return true;
    return false;
}

static struct range range_of(uint32_t arch, int number)
{
    char *name = seccomp_syscall_resolve_num_arch(arch, number);
    const struct refusal *refusal = name ? find_refusal(name) : NULL;
    struct range r = {.first = (uint32_t)number, .answer = SCMP_ACT_ERRNO(ENOSYS)};

    if (refusal)
        r.answer = SCMP_ACT_ERRNO((uint32_t)refusal->error);
    else if (name || is_newer(number))
        r.answer = SCMP_ACT_ALLOW;
    r.personality = name && strcmp(name, "personality") == 0;
    free(name);
    return r;
}

static void answer_personality(void)
{
    add((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                     offsetof(struct seccomp_data, args[0])));
    for (size_t i = 0; i < COUNT(personalities); i++) {
        add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, personalities[i], 0, 1));
        add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SCMP_ACT_ALLOW));
    }
    add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SCMP_ACT_ERRNO(ENOSYS)));
}

/* The answer to numbers of ranges [from, to). */
static void search(size_t from, size_t to)
{
    size_t middle = from + (to - from) / 2, at = code_count;

    if (to - from > 1) {
        add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, ranges[middle].first, 0, 0));
        search(from, middle);
        if (code_count - at - 1 > UINT8_MAX)
            check(-E2BIG, "jump");
        code[at].jt = (uint8_t)(code_count - at - 1);
        search(middle, to);
    } else if (ranges[from].personality) {
        answer_personality();
    } else {
        add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, ranges[from].answer));
    }
}

/* Another architecture ends the process; then loads the number of the call. */
static void add_head(uint32_t arch)
{
    add((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                     offsetof(struct seccomp_data, arch)));
    add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, arch, 1, 0));
    add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SCMP_ACT_KILL_PROCESS));
    add((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
}

static void filter_calls(uint32_t arch)
{
    for (int number = 0; number < NUMBERS; number++)
        add_range(range_of(arch, number));
    if (arch == SCMP_ARCH_X86_64) { /* x32: calls under other numbers; -1 is what tracers write */
        add_range((struct range){.first = 0x40000000, .answer = SCMP_ACT_KILL_PROCESS});
        add_range((struct range){.first = UINT32_MAX, .answer = SCMP_ACT_ERRNO(ENOSYS)});
    }
    add_head(arch);
    search(0, range_count);
}

/* --- set-uid, set-gid and capabilities of files -------------------------------------------- */

static void load_argument(unsigned i)
{
    add((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                     (uint32_t)(offsetof(struct seccomp_data, args) +
                                                i * sizeof(uint64_t)))); /* its lower half */
}

/* Leaves the loaded number as it is for the next one, unless it is this call. */
static void judge_set_id(const struct set_id *s, int number)
{
    size_t at = code_count;

    add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 0));
    if (s->verdict == NEVER) {
        add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SCMP_ACT_ERRNO(s->mode)));
    } else {
        if (s->verdict == BY_FLAGS) {
            load_argument(s->mode - 1);
            add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, MAKES_FILE, 1, 0));
            add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SCMP_ACT_ALLOW));
        }
        load_argument(s->mode);
        add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, SET_ID_BITS, 0, 1));
        add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SCMP_ACT_ERRNO(EPERM)));
        add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SCMP_ACT_ALLOW));
    }
    code[at].jf = (uint8_t)(code_count - at - 1);
}

static void filter_set_id(uint32_t arch)
{
    code_count = 0;
    add_head(arch);
    for (size_t i = 0; i < COUNT(set_id); i++) {
        int number = set_id[i].call ? seccomp_syscall_resolve_name_arch(arch, set_id[i].call)
                                    : set_id[i].number;
        if (number >= 0) /* arm64 has none without "at" */
            judge_set_id(&set_id[i], number);
    }
    add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SCMP_ACT_ALLOW));
}

/* --- calls by their arguments -------------------------------------------------------------- */

static scmp_filter_ctx new_filter(uint32_t arch, uint32_t fallback)
{
    scmp_filter_ctx ctx = seccomp_init(fallback);

    if (!ctx)
        check(-ENOMEM, "new filter");
    if (arch != seccomp_arch_native()) {
        check(seccomp_arch_remove(ctx, SCMP_ARCH_NATIVE), "native architecture");
        check(seccomp_arch_add(ctx, arch), "architecture");
    }
    /* A program of another architecture (32 bits on amd64) would find calls under other numbers. */
    check(seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS), "bad arch");
    check(seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2), "binary tree");
    return ctx;
}

static scmp_filter_ctx filter_arguments(uint32_t arch)
{
    scmp_filter_ctx ctx = new_filter(arch, SCMP_ACT_ALLOW);

    for (size_t i = 0; i < COUNT(arguments); i++)
        check(seccomp_rule_add_array(ctx, SCMP_ACT_ERRNO((uint32_t)arguments[i].error),
                                     seccomp_syscall_resolve_name(arguments[i].call),
                                     arguments[i].count, arguments[i].when),
              arguments[i].call);
    for (size_t i = 0; i < COUNT(namespaces); i++) {
        if (i + 1 < COUNT(namespaces))
            check(seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM),
                                   seccomp_syscall_resolve_name("clone"), 1, HAS(0, namespaces[i])),
                  "clone");
        check(seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), seccomp_syscall_resolve_name("unshare"),
                               1, HAS(0, namespaces[i])),
              "unshare");
    }
    return ctx;
}

/* --- the gate ------------------------------------------------------------------------------- */

/* What moving bytes between sockets takes.  Nothing opens a file, makes a process or ends one. */
static const char *const gate_calls[] = {
    "read",
    "write",
    "pread64",
    "close",
    "fcntl",
    "fstat",
    "newfstatat",
    "pipe2",
    "splice",
    "connect",
    "accept4",
    "bind",
    "getpeername",
    "getsockname",
    "getsockopt",
    "setsockopt",
    "shutdown",
    "recvfrom",
    "recvmsg",
    "sendto",
    "sendmsg",
    "epoll_wait",
    "epoll_pwait",
    "epoll_ctl",
    "brk",
    "mmap",
    "munmap",
    "mremap",
    "madvise",
    "mprotect",
    "futex",
    "getrandom",
    "clock_gettime",
    "getpid",
    "rt_sigreturn",
    "rt_sigaction",
    "rt_sigprocmask",
    "sigaltstack",
    "exit",
    "exit_group",
    "gettid",
    "restart_syscall",
    "sched_yield",
};

static scmp_filter_ctx filter_gate(uint32_t arch)
{
    static const int families[] = {AF_INET, AF_INET6};
    static const int types[] = {SOCK_STREAM, SOCK_DGRAM};
    scmp_filter_ctx ctx = new_filter(arch, SCMP_ACT_ERRNO(EPERM));

    for (size_t i = 0; i < COUNT(gate_calls); i++)
        check(seccomp_rule_add(ctx, SCMP_ACT_ALLOW, seccomp_syscall_resolve_name(gate_calls[i]), 0),
              gate_calls[i]);
    for (size_t i = 0; i < COUNT(families) * COUNT(types); i++)
        check(seccomp_rule_add(
                  ctx, SCMP_ACT_ALLOW, seccomp_syscall_resolve_name("socket"), 2,
                  IS(0, (scmp_datum_t)families[i / COUNT(types)]),
                  SCMP_CMP(1, SCMP_CMP_MASKED_EQ, 0xf, (scmp_datum_t)types[i % COUNT(types)])),
              "socket");
    return ctx;
}

/* As libseccomp translates it. */
static void translate(scmp_filter_ctx ctx)
{
    FILE *binary = tmpfile();

    if (!binary)
        check(-errno, "temporary file");
    check(seccomp_export_bpf(ctx, fileno(binary)), "export");
    rewind(binary);
    code_count = fread(code, sizeof code[0], INSTRUCTIONS_MAX, binary);
    fclose(binary);
    seccomp_release(ctx);
}

static void put(FILE *out, const char *name)
{
    fprintf(out, "static const struct sock_filter %s[] = {\n", name);
    for (size_t i = 0; i < code_count; i++)
        fprintf(out, "    {0x%04x, %u, %u, 0x%08x},\n", code[i].code, code[i].jt, code[i].jf,
                code[i].k);
    fprintf(out, "};\n");
}

int main(int argc, char **argv)
{
    bool gate = argc == 4 && strcmp(argv[3], "gate") == 0;
    uint32_t arch = argc == 3 || gate ? seccomp_arch_resolve_name(argv[1]) : 0;
    FILE *out = arch ? fopen(argv[2], "w") : NULL;

    if (!out) {
        fprintf(stderr, "usage: seccomp-gen ARCHITECTURE FILE [gate]\n");
        return 2;
    }
    fprintf(out, "/* Written by seccomp-gen for %s. */\n", argv[1]);
    if (gate) {
        translate(filter_gate(arch));
        put(out, "filter_gate");
        return fclose(out) == 0 ? 0 : 1;
    }
    filter_calls(arch);
    put(out, "filter_calls");
    translate(filter_arguments(arch));
    put(out, "filter_arguments");
    filter_set_id(arch);
    put(out, "filter_set_id");
    return fclose(out) == 0 ? 0 : 1;
}
