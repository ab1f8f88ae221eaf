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

int main(void)
{
    look_at_all(SCMP_ARCH_X86_64);
    look_at_all(SCMP_ARCH_AARCH64);
    printf("%lu answers, %lu of them wrong\n", looks, failures);
    return failures ? 1 : 0;
}
