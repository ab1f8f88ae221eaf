/* The hand in a sandbox of a vendor: looked for, put in, started, waited for. */
#include <ctype.h>
#include <elf.h>
#include <endian.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/sha256.h"
#include "runtime/cloud/cloud.h"
#include "runtime/hand-client.h"

enum { WORDS_MAX = 16 << 10, PATH_BYTES = 1024, HASH = CLOUD_DIGEST };
#define UP_SECONDS 5.0   /* for one that is there to say that it is ready */
#define LOOK_SECONDS 2.0 /* between two looks at whether it still lives */

/* Directory of ours inside; also in the other scripts. */
#define IN_DIRECTORY "d=${HOME:-/tmp}/.tendon; "
/* Numbers of processes are given again after a stop: it is the hand that counts. */
#define LIVES                               \
    "p=$(cat \"$d/pid\" 2>/dev/null) && "   \
    "case $(readlink \"/proc/$p/exe\") in " \
    "*/tendon-hand*) ;; *) false ;; esac "

/* sh DIGEST of the key: "MACHINE\nDIRECTORY\nup or down\n", then a line "DIGEST  PATH" for each
 * hand that is there.  One with another key is as good as none; shells may grumble at its zeros. */
static const char probe[] = IN_DIRECTORY
    "mkdir -p \"$d\" && chmod 700 \"$d\" || exit 1; uname -m; echo \"$d\"; " LIVES
    "&& (exec 2>/dev/null; case $(cat \"/proc/$p/cmdline\") in *\"$1\"*) ;; *) false ;; esac) "
    "&& echo up || echo down; "
    "for h in \"$(command -v tendon-hand)\" /opt/tendon/tendon-hand \"$d/tendon-hand\"; do "
    "[ -f \"$h\" ] && [ -x \"$h\" ] && sha256sum \"$h\"; done; :";
/* sh DIRECTORY WORKSPACE HAND ARGS...  A workspace that only root can make is made as OpenHands
 * does it. */
static const char start[] =
    "d=$1 w=$2 h=$3; shift 3; "
    "[ -d \"$w\" ] || mkdir -p \"$w\" 2>/dev/null || "
    "{ sudo -n mkdir -p \"$w\" && sudo -n chmod 777 \"$w\"; } || exit 1; n=0; while " LIVES
    "&& kill -9 \"$p\" 2>/dev/null && [ $n -lt 50 ]; do n=$((n+1)); sleep 0.1 || sleep 1; done; "
    "$(command -v setsid) \"$h\" --working-dir \"$w\" --username \"$(id -un 2>/dev/null || id -u)\" "
    "--user-id \"$(id -u)\" \"$@\" >\"$d/log\" 2>&1 </dev/null & echo $! >\"$d/pid\"";
/* Whether it lives, or else its last words. */
static const char check[] = IN_DIRECTORY LIVES "|| { tail -c 400 \"$d/log\"; exit 1; }";

/* --- the program ------------------------------------------------------------------------------ */

struct program {
    void *bytes;
    size_t n;
    char hash[HASH];
};

static void program_done(struct program *p)
{
    if (p->bytes)
        munmap(p->bytes, p->n);
}
#define autoprogram TN_CLEANUP(program_done)

static const struct {
    const char *uname, *other;
    uint16_t elf;
} machines[] = {
    {"x86_64", "amd64", EM_X86_64},
    {"aarch64", "arm64", EM_AARCH64},
    {"riscv64", "riscv64", EM_RISCV},
};

/* Every create asks for it twice, and all of a process for that of the same file. */
static void take_digest(struct program *p, const struct stat *st)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct stat of;
    static char known[HASH];

    pthread_mutex_lock(&lock);
    if (!*known || st->st_dev != of.st_dev || st->st_ino != of.st_ino ||
        st->st_size != of.st_size || st->st_ctim.tv_sec != of.st_ctim.tv_sec ||
        st->st_ctim.tv_nsec != of.st_ctim.tv_nsec) {
        struct tn_sha256 hash;
        tn_sha256_init(&hash);
        tn_sha256_add(&hash, p->bytes, p->n);
        tn_sha256_end_hex(&hash, known);
        of = *st;
    }
    memcpy(p->hash, known, sizeof known);
    pthread_mutex_unlock(&lock);
}

static int map_program(const char *path, struct program *out, struct tn_error *err)
{
    tn_autofd int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return tn_fail_errno(err, errno, "%s", path);
    void *bytes = st.st_size >= (off_t)sizeof(Elf64_Ehdr)
                      ? mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0)
                      : MAP_FAILED;
    if (bytes == MAP_FAILED)
        return tn_fail(err, TN_E_INVALID, "%s is no program", path);
    out->bytes = bytes;
    out->n = (size_t)st.st_size;
    take_digest(out, &st);
    return 0;
}

int cloud_hand_digest(const struct tn_host *host, char out[CLOUD_DIGEST], struct tn_error *err)
{
    autoprogram struct program p = {0};

    if (map_program(host->hand, &p, err) < 0)
        return -1;
    memcpy(out, p.hash, sizeof p.hash);
    return 0;
}

static bool is_for(const struct program *p, const char *machine)
{
    const Elf64_Ehdr *elf = p->bytes;

    for (size_t i = 0; i < TN_COUNT(machines); i++)
        if (strcmp(machines[i].uname, machine) == 0 || strcmp(machines[i].other, machine) == 0)
            return memcmp(elf->e_ident, ELFMAG, SELFMAG) == 0 && elf->e_machine == machines[i].elf;
    return false;
}

/* The hand of this machine, or one beside it that is called after the other. */
static int find_program(const struct tn_host *host, const char *machine, struct program *out,
                        struct tn_error *err)
{
    tn_autofree char *other = tn_asprintf("%s-%s", host->hand, machine);

    if (map_program(host->hand, out, err) < 0)
        return -1;
    if (!is_for(out, machine)) {
        program_done(out);
        *out = (struct program){0};
        if (map_program(other, out, NULL) < 0 || !is_for(out, machine))
            return tn_fail(err, TN_E_UNSUPPORTED,
                           "the sandbox is %s, and there is no hand for that machine: put one at "
                           "%s",
                           machine, other);
    }
    return 0;
}

/* --- running scripts -------------------------------------------------------------------------- */

/* Its exit code, with what it printed. */
static int script(const struct cloud *c, const struct tn_subject *s, struct cloud_view *v,
                  const char *const *argv, const struct tn_json *env, struct tn_buf *words,
                  int64_t deadline, struct tn_error *err)
{
    const struct cloud_run run = {
        .argv = argv, .env = env, .user = s->spec->user, .out = tn_buf_sink, .ctx = words};
    int status = -1;

    return c->vendor->run(c, v, &run, &status, deadline, err) < 0 ? -1 : status;
}

static int said(const struct tn_buf *words, const char *what, struct tn_error *err)
{
    tn_autofree char *text = cloud_sentence(tn_buf_str(words));

    return tn_fail(err, TN_E_PEER, "%s%s%s", what, *text ? ": " : "", text);
}

/* --- what is there ---------------------------------------------------------------------------- */

struct found {
    char machine[32], directory[PATH_BYTES], path[PATH_BYTES];
    bool up;
    struct tn_buf words;
};

static void found_done(struct found *f)
{
    tn_buf_done(&f->words);
}

/* The next line of at most n - 1 bytes; NULL when it does not fit. */
static const char *take_line(const char *at, char *out, size_t n)
{
    size_t len = strcspn(at, "\n");

    if (len >= n || at[len] != '\n')
        return NULL;
    memcpy(out, at, len);
    out[len] = '\0';
    return at + len + 1;
}

static void key_digest(const struct tn_subject *s, char out[HASH])
{
    struct tn_sha256 hash;

    tn_sha256_init(&hash);
    tn_sha256_add(&hash, s->key, strlen(s->key));
    tn_sha256_end_hex(&hash, out);
}

static int look_inside(const struct cloud *c, const struct tn_subject *s, struct cloud_view *v,
                       struct found *f, int64_t deadline, struct tn_error *err)
{
    char digest[HASH], state[8];
    const char *const argv[] = {"sh", "-c", probe, "sh", digest, NULL};

    key_digest(s, digest);
    int status = script(c, s, v, argv, NULL, &f->words, deadline, err);

    if (status < 0)
        return -1;
    const char *at = tn_buf_str(&f->words);
    if (status || !(at = take_line(at, f->machine, sizeof f->machine)) ||
        !(at = take_line(at, f->directory, sizeof f->directory)) || f->directory[0] != '/' ||
        !(at = take_line(at, state, sizeof state)))
        return said(&f->words, "the sandbox cannot take a hand", err);
    f->up = strcmp(state, "up") == 0;
    tn_buf_eat(&f->words, (size_t)(at - tn_buf_str(&f->words)));
    return 0;
}

/* Of the hands that are there, one with that digest. */
static bool choose(struct found *f, const char *hash)
{
    char line[PATH_BYTES + HASH + 1];

    for (const char *at = tn_buf_str(&f->words); (at = take_line(at, line, sizeof line));)
        if (strncmp(line, hash, HASH - 1) == 0 && strncmp(line + HASH - 1, "  /", 3) == 0) {
            snprintf(f->path, sizeof f->path, "%s", line + HASH + 1);
            return true;
        }
    return false;
}

static int put_in(const struct cloud *c, const struct tn_subject *s, struct cloud_view *v,
                  struct found *f, const struct program *p, int64_t deadline, struct tn_error *err)
{
    tn_autofree char *path = tn_asprintf("%s/tendon-hand", f->directory);
    const char *const argv[] = {"sh", "-c", "chmod 755 \"$1\" && sha256sum \"$1\"",
                                "sh", path, NULL};

    if (c->vendor->put(c, v, s->spec->user, path, p->bytes, p->n, deadline, err) < 0)
        return tn_error_context(err, "putting in the hand");
    tn_buf_reset(&f->words);
    int status = script(c, s, v, argv, NULL, &f->words, deadline, err);
    if (status < 0)
        return -1;
    if (status || !choose(f, p->hash))
        return said(&f->words, "the hand is not inside what it is here (sha256sum)", err);
    return 0;
}

/* --- starting --------------------------------------------------------------------------------- */

const char *cloud_workspace(const struct cloud *c, const struct tn_subject *s)
{
    return s->spec->workspace ? s->spec->workspace
                              : c->host->config->core.workspace_mount_path_in_sandbox;
}

static int run_hand(const struct cloud *c, const struct tn_subject *s, struct cloud_view *v,
                    const struct found *f, int64_t deadline, struct tn_error *err)
{
    const struct tn_config *config = c->host->config;
    bool plugins = s->spec->plugins.count && config->sandbox.initialize_plugins;
    size_t most = 20 + s->spec->plugins.count + s->spec->hand_args.count, n = 0;
    tn_autofree const char **argv = tn_calloc(most, sizeof *argv);
    tn_autobuf struct tn_buf words = TN_BUF_INIT(WORDS_MAX);
    tn_autofree char *listen = tn_asprintf("0.0.0.0:%d", CLOUD_HAND_PORT);
    char digest[HASH];

    key_digest(s, digest);
    const char *const first[] = {
        "sh",    "-c",       start,  "sh",           f->directory, cloud_workspace(c, s),
        f->path, "--listen", listen, "--key-digest", digest,       "--viewer"};
    for (; n < TN_COUNT(first); n++)
        argv[n] = first[n];
    if (!config->core.enable_browser)
        argv[n++] = "--no-enable-browser";
    if (plugins)
        argv[n++] = "--plugins";
    for (size_t i = 0; plugins && i < s->spec->plugins.count; i++)
        argv[n++] = s->spec->plugins.items[i];
    for (size_t i = 0; i < s->spec->hand_args.count; i++)
        argv[n++] = s->spec->hand_args.items[i];
    int status = script(c, s, v, argv, s->spec->env, &words, deadline, err);
    if (status > 0)
        return said(&words, "the hand could not be started", err);
    return status;
}

/* Asks the hand itself whether it is ready, and now and then the sandbox whether it still lives. */
static int await(const struct cloud *c, const struct tn_subject *s, struct cloud_view *v,
                 const char *address, int64_t deadline, struct tn_error *err)
{
    const char *const argv[] = {"sh", "-c", check, NULL};
    struct tn_hand_client *client = tn_hand_client_new(address, s->key, err);
    int result = client ? 1 : -1;

    while (result > 0) {
        tn_autobuf struct tn_buf words = TN_BUF_INIT(WORDS_MAX);
        int64_t soon = tn_deadline_in(LOOK_SECONDS);
        if (tn_hand_client_wait(client, -1, soon < deadline ? soon : deadline, err) == 0)
            result = 0;
        else if (tn_now() >= deadline)
            result = -1;
        else if (script(c, s, v, argv, NULL, &words, deadline, err) > 0)
            result = said(&words, "the hand has ended", err);
    }
    tn_hand_client_free(client);
    return result;
}

/* One that runs, and says so soon. */
static bool is_up(const struct cloud *c, const struct tn_subject *s, struct cloud_view *v,
                  const struct found *f, const char *address, int64_t deadline)
{
    int64_t soon = tn_deadline_in(UP_SECONDS);

    return f->up && await(c, s, v, address, soon < deadline ? soon : deadline, NULL) == 0;
}

int cloud_start_hand(const struct cloud *c, const struct tn_subject *s, struct cloud_view *v,
                     const struct cloud_cache *cache, char **address, int64_t deadline,
                     struct tn_error *err)
{
    TN_CLEANUP(found_done) struct found f = {.words = TN_BUF_INIT(WORDS_MAX)};
    autoprogram struct program program = {0};
    tn_autofree char *at = c->vendor->address(c, v, deadline, err);

    if (!at || look_inside(c, s, v, &f, deadline, err) < 0)
        return -1;
    if (!is_up(c, s, v, &f, at, deadline) &&
        (find_program(c->host, f.machine, &program, err) < 0 ||
         (!choose(&f, program.hash) && (put_in(c, s, v, &f, &program, deadline, err) < 0 ||
                                        cloud_cache_take(c, v, cache, deadline, err) < 0)) ||
         run_hand(c, s, v, &f, deadline, err) < 0 || await(c, s, v, at, deadline, err) < 0))
        return -1;
    *address = TN_TAKE_PTR(at);
    return 0;
}
