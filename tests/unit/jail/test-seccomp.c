/* The filter of system calls answers every number on every machine as its list says.
 *
 * It compares a number with constants and nothing else: so its answer is the same from one of them
 * up to the next, and looking at all constants and their neighbours is looking at every number.
 * What it is compared with is found call by call.  No cmocka: this runs where the generator does,
 * which may be another machine than that of the filter. */
int generate(int argc, char **argv);
#define main generate
#include "../../../src/jail/seccomp-gen.c"
#undef main

#define X32 0x40000000u
#define REFUSED(error) SCMP_ACT_ERRNO((uint32_t)(error))

static const uint32_t audit[] = {AUDIT_ARCH_X86_64, AUDIT_ARCH_AARCH64, AUDIT_ARCH_I386,
                                 AUDIT_ARCH_ARM,    AUDIT_ARCH_RISCV64, 0,
                                 UINT32_MAX};
static const uint64_t values[] = {0,          1,          7,          8,
                                  9,          0x20000,    0x20008,    0x0040000,
                                  0xfffffffe, 0xffffffff, 1ull << 32, (1ull << 32) + 8,
                                  UINT64_MAX};

static unsigned long failures, looks;

static void expect(bool good, const char *what, uint32_t number, uint32_t got, uint32_t wanted)
{
    looks++;
    if (!good && failures++ < 20)
        fprintf(stderr, "%s: call %#x: %#x instead of %#x\n", what, number, got, wanted);
}

/* As the kernel does it; what the filter has no use for is an error. */
static uint32_t run(const struct seccomp_data *data)
{
    uint32_t a = 0;

    for (size_t at = 0; at < code_count; at++) {
        const struct sock_filter *i = &code[at];
        switch (i->code) {
        case BPF_LD | BPF_W | BPF_ABS:
            if (i->k > sizeof *data - sizeof a)
                check(-EFAULT, "load");
            memcpy(&a, (const char *)data + i->k, sizeof a);
            break;
        case BPF_JMP | BPF_JEQ | BPF_K:
            at += a == i->k ? i->jt : i->jf;
            break;
        case BPF_JMP | BPF_JGE | BPF_K:
            at += a >= i->k ? i->jt : i->jf;
            break;
        case BPF_JMP | BPF_JSET | BPF_K:
            at += a & i->k ? i->jt : i->jf;
            break;
        case BPF_RET | BPF_K:
            return i->k;
        default:
            check(-EINVAL, "instruction");
        }
    }
    check(-ERANGE, "end of the filter");
    return 0;
}

static uint32_t wanted(uint32_t arch, uint32_t number, uint64_t argument)
{
    if (arch == SCMP_ARCH_X86_64 && number >= X32)
        return number == UINT32_MAX ? REFUSED(ENOSYS) : SCMP_ACT_KILL_PROCESS;
    char *name = number < X32 ? seccomp_syscall_resolve_num_arch(arch, (int)number) : NULL;
    uint32_t answer = name ? SCMP_ACT_ALLOW : REFUSED(ENOSYS);
    for (size_t i = 0; !name && i < COUNT(newer); i++)
        if ((uint32_t)newer[i] == number)
            answer = SCMP_ACT_ALLOW;
    for (size_t i = 0; name && i < COUNT(refused); i++)
        if (strcmp(name, refused[i].call) == 0)
            answer = REFUSED(refused[i].error);
    if (name && strcmp(name, "personality") == 0) {
        answer = REFUSED(ENOSYS);
        for (size_t i = 0; i < COUNT(personalities); i++)
            if (personalities[i] == (uint32_t)argument)
                answer = SCMP_ACT_ALLOW;
    }
    free(name);
    return answer;
}

static void look_at(uint32_t arch, uint32_t number)
{
    for (size_t i = 0; i < COUNT(values); i++) {
        const struct seccomp_data data = {.nr = (int)number, .arch = arch, .args = {values[i]}};
        uint32_t got = run(&data), should = wanted(arch, number, values[i]);
        expect(got == should, "answer", number, got, should);
    }
    for (size_t i = 0; i < COUNT(audit); i++) {
        const struct seccomp_data data = {.nr = (int)number, .arch = audit[i]};
        uint32_t got = run(&data);
        if (audit[i] != arch)
            expect(got == SCMP_ACT_KILL_PROCESS, "another machine", number, got,
                   SCMP_ACT_KILL_PROCESS);
    }
}

/* That the list is read at all. */
static void look_at_some_names(uint32_t arch)
{
    static const struct {
        const char *call;
        uint32_t answer;
    } some[] = {
        {"read", SCMP_ACT_ALLOW},
        {"execve", SCMP_ACT_ALLOW},
        {"clone", SCMP_ACT_ALLOW},
        {"mount", REFUSED(EPERM)},
        {"setns", REFUSED(EPERM)},
        {"ptrace", SCMP_ACT_ALLOW},
        {"init_module", REFUSED(EPERM)},
        {"bpf", REFUSED(ENOSYS)},
        {"io_uring_setup", REFUSED(ENOSYS)},
        {"io_setup", REFUSED(ENOSYS)},
        {"clone3", REFUSED(ENOSYS)},
    };

    for (size_t i = 0; i < COUNT(some); i++) {
        int number = seccomp_syscall_resolve_name_arch(arch, some[i].call);
        const struct seccomp_data data = {.nr = number, .arch = arch};
        uint32_t got = number < 0 ? 0 : run(&data);
        expect(got == some[i].answer, some[i].call, (uint32_t)number, got, some[i].answer);
    }
}

static void look_at_all(uint32_t arch)
{
    range_count = code_count = 0;
    filter_calls(arch);
    for (uint32_t number = 0; number < 4 * NUMBERS; number++) {
        look_at(arch, number);
        look_at(arch, X32 + number);
    }
    for (size_t i = 0; i < code_count; i++)
        for (uint32_t k = 0; k < 3; k++)
            look_at(arch, code[i].k - 1 + k);
    for (uint32_t bit = 1; bit; bit <<= 1)
        for (uint32_t k = 0; k < 3; k++)
            look_at(arch, bit - 2 + k); /* -1 too */
    look_at_some_names(arch);
}

/* --- the filter of jails that write to the host's directories ------------------------------ */

static uint32_t answer_to(uint32_t arch, const char *call, int number, unsigned arg, uint64_t value,
                          uint64_t flags)
{
    struct seccomp_data data = {.nr = call ? seccomp_syscall_resolve_name_arch(arch, call) : number,
                                .arch = arch};

    if (arg > 0)
        data.args[arg - 1] = flags;
    data.args[arg] = value;
    return run(&data);
}

static void look_at_modes(uint32_t arch, const char *call, int number, unsigned arg, bool flagged)
{
    static const uint64_t modes[] = {0,
                                     0644,
                                     0777,
                                     01777,
                                     0100644,
                                     02000,
                                     04000,
                                     06000,
                                     06755,
                                     0104755,
                                     UINT64_C(1) << 32 | 02755};
    static const uint64_t flags[] = {0, 2, 0100, 020000000, 0200000, UINT64_C(1) << 32 | 0100};

    if (call && seccomp_syscall_resolve_name_arch(arch, call) < 0)
        return; /* not there */
    for (size_t i = 0; i < COUNT(modes); i++) {
        for (size_t k = 0; k < COUNT(flags); k++) {
            bool makes = !flagged || (uint32_t)flags[k] & (0100 | 020000000);
            uint32_t should = makes && modes[i] & 06000 ? REFUSED(EPERM) : SCMP_ACT_ALLOW;
            uint32_t got = answer_to(arch, call, number, arg, modes[i], flags[k]);
            expect(got == should, call ? call : "by number", (uint32_t)modes[i], got, should);
        }
    }
}

static void look_at_set_id(uint32_t arch)
{
    static const struct {
        const char *call;
        int number;
        unsigned mode;
        bool flagged;
    } by_mode[] = {
        {"chmod", 0, 1, false}, {"fchmod", 0, 1, false},  {"fchmodat", 0, 2, false},
        {NULL, 452, 2, false},  {"mkdir", 0, 1, false},   {"mkdirat", 0, 2, false},
        {"mknod", 0, 1, false}, {"mknodat", 0, 2, false}, {"creat", 0, 1, false},
        {"open", 0, 2, true},   {"openat", 0, 3, true},
    };
    static const struct {
        const char *call;
        int number;
        int error;
    } never[] = {{"openat2", 0, ENOSYS},
                 {"setxattr", 0, EOPNOTSUPP},
                 {"lsetxattr", 0, EOPNOTSUPP},
                 {"fsetxattr", 0, EOPNOTSUPP},
                 {NULL, 463, ENOSYS}};
    static const char *const free_of_it[] = {"read", "execve", "renameat", "linkat", "getxattr"};

    filter_set_id(arch);
    for (size_t i = 0; i < COUNT(by_mode); i++)
        look_at_modes(arch, by_mode[i].call, by_mode[i].number, by_mode[i].mode,
                      by_mode[i].flagged);
    for (size_t i = 0; i < COUNT(never); i++) {
        uint32_t got = answer_to(arch, never[i].call, never[i].number, 0, 0, 0);
        expect(got == REFUSED(never[i].error), "never", (uint32_t)i, got, REFUSED(never[i].error));
    }
    for (size_t i = 0; i < COUNT(free_of_it); i++) {
        uint32_t got = answer_to(arch, free_of_it[i], 0, 2, 06755, 0100);
        expect(got == SCMP_ACT_ALLOW, free_of_it[i], (uint32_t)i, got, SCMP_ACT_ALLOW);
    }
}

int main(void)
{
    look_at_all(SCMP_ARCH_X86_64);
    look_at_all(SCMP_ARCH_AARCH64);
    look_at_set_id(SCMP_ARCH_X86_64);
    look_at_set_id(SCMP_ARCH_AARCH64);
    printf("%lu answers, %lu of them wrong\n", looks, failures);
    return failures ? 1 : 0;
}
