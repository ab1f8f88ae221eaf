#include "runtime/owner.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sys/random.h>

#include "base/file-lock.h"
#include "base/fs.h"
#include "base/proc.h"
#include "base/sha256.h"

/* Read once: a process keeps both.  A child that was forked is another. */
struct tn_owner tn_owner_self(void)
{
    static _Atomic uint64_t start;
    static _Atomic pid_t whose;
    pid_t pid = getpid();
    struct tn_proc me;

    if (whose == pid)
        return (struct tn_owner){.pid = pid, .start = start};
    if (tn_proc_get(pid, &me) < 0)
        return (struct tn_owner){.pid = pid};
    start = me.start;
    whose = pid;
    return (struct tn_owner){.pid = pid, .start = me.start};
}

static char boot_id[64];

static void read_boot_id(void)
{
    tn_autofd int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, boot_id, sizeof boot_id - 1);

    boot_id[n < 0 ? 0 : n] = '\0';
    boot_id[strcspn(boot_id, "\n")] = '\0';
}

const char *tn_boot_id(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, read_boot_id);
    return boot_id;
}

static void machine_id(struct tn_buf *out)
{
    char host[256] = "";

    if (tn_fs_read(TN_FS_ANYWHERE, "/etc/machine-id", out, NULL) == 0 && out->len)
        return;
    tn_buf_reset(out);
    gethostname(host, sizeof host - 1);
    tn_buf_puts(out, host);
}

/* Not a random number in the directory: when that is lost, what it held is still found. */
void tn_state_mark(const char *state, char out[17])
{
    tn_autobuf struct tn_buf id = TN_BUF_INIT(4096);
    tn_autofree char *real = realpath(state, NULL);
    char digest[2 * TN_SHA256_BYTES + 1];
    struct tn_sha256 hash;

    machine_id(&id);
    tn_sha256_init(&hash);
    tn_sha256_add(&hash, tn_buf_str(&id), id.len);
    tn_sha256_add(&hash, "", 1);
    tn_sha256_add(&hash, real ? real : state, strlen(real ? real : state));
    tn_sha256_end_hex(&hash, digest);
    memcpy(out, digest, 16);
    out[16] = '\0';
}

bool tn_owner_lives(struct tn_owner owner, const char *boot)
{
    if (boot && strcmp(boot, tn_boot_id()))
        return false;
    /* One that nobody has buried yet is dead all the same. */
    char state = tn_proc_state(owner.pid, owner.start);
    return state && state != 'Z' && state != 'X';
}

/* --- names --------------------------------------------------------------------------------- */

/* n characters of the alphabet, evenly. */
static int random_word(char *out, size_t n, const char *alphabet, struct tn_error *err)
{
    size_t size = strlen(alphabet);

    for (size_t i = 0; i < n;) {
        unsigned char bytes[64];

        if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
            return tn_fail_errno(err, errno, "no random bytes");
        for (size_t j = 0; j < sizeof bytes && i < n; j++)
            if (bytes[j] < 256 / size * size)
                out[i++] = alphabet[bytes[j] % size];
    }
    out[n] = '\0';
    return 0;
}

int tn_new_id(char out[11], struct tn_error *err)
{
    /* A letter first: an id is also a host name and never a number. */
    return random_word(out, 1, "abcdefghijklmnopqrstuvwxyz", err) ||
                   random_word(out + 1, 9, "abcdefghijklmnopqrstuvwxyz0123456789", err)
               ? -1
               : 0;
}

int tn_new_key(char out[33], struct tn_error *err)
{
    return random_word(out, 32, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
                       err);
}

/* --- the lock ------------------------------------------------------------------------------ */

/* One byte of one file per sandbox: a file of its own would have to be unlinked some day, and a
 * waiter would then hold a lock that nobody else sees. */
static uint64_t place_in_file(const char *id)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a */

    for (; *id; id++)
        hash = (hash ^ (unsigned char)*id) * 1099511628211u;
    return hash >> 2;
}

static int open_locks(const char *state, const char *name, struct tn_error *err)
{
    tn_autofree char *path = tn_asprintf("%s/%s", state, name);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

    return fd < 0 ? tn_fail_errno(err, errno, "%s", path) : fd;
}

int tn_sandbox_use_mark(const char *state, const char *id)
{
    tn_autofd int fd = open_locks(state, "use", NULL);

    return fd < 0 || tn_byte_share(fd, place_in_file(id), NULL) ? -1 : TN_TAKE_FD(fd);
}

int tn_sandbox_use_none(const char *state, const char *id)
{
    tn_autofd int fd = open_locks(state, "use", NULL);

    return fd < 0 || tn_byte_lock(fd, place_in_file(id), 0, NULL) ? -1 : TN_TAKE_FD(fd);
}

int tn_sandbox_lock(const char *state, const char *id, int64_t deadline, struct tn_error *err)
{
    tn_autofd int fd = open_locks(state, "lock", err);

    if (fd < 0)
        return -1;
    if (!tn_byte_lock(fd, place_in_file(id), deadline, err))
        return TN_TAKE_FD(fd);
    if (err && err->code == TN_E_BUSY)
        return tn_fail(err, TN_E_BUSY, "sandbox %s is busy: somebody else is changing it", id);
    return tn_error_context(err, "sandbox %s", id);
}
