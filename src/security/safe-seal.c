#include "security/safe-seal.h"

#include <fcntl.h>
#include <libgen.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "base/hex.h"
#include "base/key-file.h"
#include "net/tls-lib.h"

#define FORMAT "tendon-secret 1\n"
enum { NONCE = 12, TAG = 16, PREFIX = sizeof FORMAT - 1 };

void safe_key_done(struct safe_key *k)
{
    explicit_bzero(k, sizeof *k);
}

/* --- the file of the key ---------------------------------------------------------------------- */

char *tn_safe_usual_key(void)
{
    const char *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");

    if (geteuid() == 0)
        return tn_strdup("/etc/tendon/secret.key");
    if (xdg && xdg[0] == '/')
        return tn_asprintf("%s/tendon/secret.key", xdg);
    return home && home[0] == '/' ? tn_asprintf("%s/.config/tendon/secret.key", home) : NULL;
}

static int parse_key(const char *path, const struct tn_buf *text, struct safe_key *out,
                     struct tn_error *err)
{
    const char *digits = tn_buf_str(text);
    size_t n = text->len - (text->len && digits[text->len - 1] == '\n');
    bool good = n == 2 * sizeof out->bytes;

    for (size_t i = 0; good && i < sizeof out->bytes; i++) {
        int high = tn_hex_digit(digits[2 * i]), low = tn_hex_digit(digits[2 * i + 1]);
        good = high >= 0 && low >= 0;
        out->bytes[i] = (unsigned char)(high << 4 | low);
    }
    return good ? 0
                : tn_fail(err, TN_E_INVALID,
                          "%.200s: expected %zu hexadecimal digits, the key of the secrets; put "
                          "the one back that they were sealed with",
                          path, 2 * sizeof out->bytes);
}

static int write_key(const char *path, struct tn_error *err)
{
    struct safe_key key;
    char digits[2 * SAFE_KEY_BYTES + 2];

    if (getrandom(&key, sizeof key, 0) != sizeof key)
        return tn_fail_errno(err, errno, "random bytes");
    for (size_t i = 0; i < sizeof key.bytes; i++)
        snprintf(digits + 2 * i, 3, "%02x", key.bytes[i]);
    digits[sizeof digits - 2] = '\n';
    tn_autofd int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    int r = fd < 0 ? tn_fail_errno(err, errno, "%.200s", path)
                   : tn_fs_write(fd, digits, sizeof digits - 1, err);
    if (r == 0 && fsync(fd) < 0)
        r = tn_fail_errno(err, errno, "%.200s", path);
    explicit_bzero(digits, sizeof digits);
    safe_key_done(&key);
    return r;
}

/* Under a name of its own first: a link takes nobody's place, and a key is never half of one.
 * Whoever came first has made it. */
static int make_key(const char *path, struct tn_error *err)
{
    tn_autofree char *copy = tn_strdup(path);
    const char *directory = dirname(copy);
    tn_autofd int made = tn_fs_mkdirs(TN_FS_ANYWHERE, directory, 0700, NULL, NULL, err);
    uint64_t number;

    if (made < 0)
        return tn_error_context(err, "the key of the secrets");
    if (getrandom(&number, sizeof number, 0) != sizeof number)
        return tn_fail_errno(err, errno, "random bytes");
    tn_autofree char *temporary = tn_asprintf("%s.%016llx", path, (unsigned long long)number);
    int r = write_key(temporary, err);
    if (r == 0 && link(temporary, path) < 0 && errno != EEXIST)
        r = tn_fail_errno(err, errno, "%.200s", path);
    unlink(temporary);
    return r;
}

/* Who copies the state directory must not get the key with it. */
static int check_place(const struct tn_safe *s, const char *path, struct tn_error *err)
{
    size_t n = strlen(s->state);

    if (path[0] != '/')
        return tn_fail(err, TN_E_INVALID, "security.secret_key: expected an absolute path");
    if (strncmp(path, s->state, n) == 0 && path[n] == '/')
        return tn_fail(err, TN_E_INVALID,
                       "security.secret_key: %.200s is in the state directory, beside what it "
                       "seals; choose another place",
                       path);
    return 0;
}

int safe_key_open(const struct tn_safe *s, bool make, struct safe_key *out, struct tn_error *err)
{
    tn_autofree char *usual = s->key ? NULL : tn_safe_usual_key();
    tn_autokeyfile struct tn_buf text = TN_KEY_FILE_INIT;
    const char *path = s->key ? s->key : usual;
    struct tn_error why = {0};

    if (!path)
        return tn_fail(err, TN_E_INVALID,
                       "no place for the key of the secrets: set HOME, or security.secret_key");
    if (check_place(s, path, err) < 0)
        return -1;
    int r = tn_key_file_read(path, TN_KEY_FILE_OURS, &text, &why);
    if (r < 0 && why.code == TN_E_NOT_FOUND) {
        if (!make)
            return tn_fail(err, TN_E_CONFLICT,
                           "the key of the secrets is missing: put %.200s back, or remove them "
                           "and set them anew",
                           path);
        r = make_key(path, err) < 0 ? -1 : tn_key_file_read(path, TN_KEY_FILE_OURS, &text, err);
    } else if (r < 0 && err) {
        *err = why;
    }
    return r < 0 ? -1 : parse_key(path, &text, out, err);
}

/* --- sealing ---------------------------------------------------------------------------------- */

static int refuse(struct tn_error *err)
{
    return tn_fail(err, TN_E_DENIED,
                   "it is damaged, or was sealed with another key: set it anew, or put the key "
                   "back");
}

/* One pass in either direction; tag is written or compared. */
static bool pass(const struct tn_tls_lib *lib, EVP_CIPHER_CTX *c, const struct safe_key *k,
                 const char *about, const unsigned char *nonce, const void *in, size_t n, void *out,
                 unsigned char tag[TAG], bool seal)
{
    int done = 0;

    return lib->EVP_CipherInit_ex(c, lib->EVP_aes_256_gcm(), NULL, k->bytes, nonce, seal) == 1 &&
           (seal || lib->EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_SET_TAG, TAG, tag) == 1) &&
           lib->EVP_CipherUpdate(c, NULL, &done, (const unsigned char *)about,
                                 (int)strlen(about)) == 1 &&
           lib->EVP_CipherUpdate(c, out, &done, in, (int)n) == 1 && done == (int)n &&
           lib->EVP_CipherFinal_ex(c, (unsigned char *)out + n, &done) == 1 &&
           (!seal || lib->EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_GET_TAG, TAG, tag) == 1);
}

int safe_seal(const struct safe_key *k, const char *about, const struct tn_buf *plain,
              struct tn_buf *out, struct tn_error *err)
{
    const struct tn_tls_lib *lib = tn_tls_lib(err);
    unsigned char nonce[NONCE], tag[TAG];

    if (!lib)
        return -1;
    if (getrandom(nonce, sizeof nonce, 0) != sizeof nonce)
        return tn_fail_errno(err, errno, "random bytes");
    tn_buf_puts(out, FORMAT);
    tn_buf_add(out, nonce, sizeof nonce);
    char *to = tn_buf_reserve(out, plain->len + TAG);
    EVP_CIPHER_CTX *c = lib->EVP_CIPHER_CTX_new();
    bool good = c && to && pass(lib, c, k, about, nonce, plain->data, plain->len, to, tag, true);
    lib->EVP_CIPHER_CTX_free(c);
    if (!good)
        return tn_fail(err, TN_E_INTERNAL, "a secret could not be sealed");
    tn_buf_grew(out, plain->len);
    tn_buf_add(out, tag, sizeof tag);
    return 0;
}

int safe_unseal(const struct safe_key *k, const char *about, const struct tn_buf *sealed,
                struct tn_buf *out, struct tn_error *err)
{
    const struct tn_tls_lib *lib = tn_tls_lib(err);
    unsigned char tag[TAG];

    if (!lib)
        return -1;
    if (sealed->len < PREFIX + NONCE + TAG || memcmp(sealed->data, FORMAT, PREFIX) != 0)
        return refuse(err);
    const unsigned char *nonce = (const unsigned char *)sealed->data + PREFIX;
    size_t n = sealed->len - PREFIX - NONCE - TAG;
    char *to = tn_buf_reserve(out, n + TAG);
    memcpy(tag, sealed->data + sealed->len - TAG, TAG);
    EVP_CIPHER_CTX *c = lib->EVP_CIPHER_CTX_new();
    bool good = c && to && pass(lib, c, k, about, nonce, nonce + NONCE, n, to, tag, false);
    lib->EVP_CIPHER_CTX_free(c);
    if (!good) {
        if (to)
            explicit_bzero(to, n);
        return refuse(err);
    }
    tn_buf_grew(out, n);
    return 0;
}
