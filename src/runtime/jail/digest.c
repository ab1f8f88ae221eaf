#include "runtime/jail/digest.h"

#include <dlfcn.h>
#include <openssl/evp.h>
#include <pthread.h>

#define FUNCTIONS(X)     \
    X(EVP_MD_CTX_new)    \
    X(EVP_MD_CTX_free)   \
    X(EVP_sha256)        \
    X(EVP_DigestInit_ex) \
    X(EVP_DigestUpdate)  \
    X(EVP_DigestFinal_ex)

#define MEMBER(name) __typeof__(&name) name;
static struct {
    FUNCTIONS(MEMBER)
} lib;

static bool loaded;
static pthread_once_t once = PTHREAD_ONCE_INIT;

#define ROW(name) {#name, &lib.name},
static const struct {
    const char *name;
    void *slot;
} rows[] = {FUNCTIONS(ROW)};

static void load(void)
{
    void *handle = dlopen("libcrypto.so.3", RTLD_NOW | RTLD_LOCAL);

    for (size_t i = 0; handle && i < TN_COUNT(rows); i++) {
        void *function = dlsym(handle, rows[i].name);
        if (!function)
            return;
        memcpy(rows[i].slot, &function, sizeof function);
    }
    loaded = handle != NULL;
}

struct jail_digest {
    EVP_MD_CTX *ctx;
};

struct jail_digest *jail_digest_new(struct tn_error *err)
{
    pthread_once(&once, load);
    if (!loaded) {
        tn_fail(err, TN_E_UNSUPPORTED, "checking an image needs libcrypto (Debian: libssl3)");
        return NULL;
    }
    EVP_MD_CTX *ctx = tn_check_memory(lib.EVP_MD_CTX_new());
    if (lib.EVP_DigestInit_ex(ctx, lib.EVP_sha256(), NULL) != 1) {
        lib.EVP_MD_CTX_free(ctx);
        tn_fail(err, TN_E_UNSUPPORTED, "libcrypto offers no SHA-256 here");
        return NULL;
    }
    struct jail_digest *d = tn_calloc(1, sizeof *d);
    d->ctx = ctx;
    return d;
}

void jail_digest_free(struct jail_digest *d)
{
    if (!d)
        return;
    lib.EVP_MD_CTX_free(d->ctx);
    free(d);
}

void jail_digest_add(struct jail_digest *d, const void *bytes, size_t n)
{
    if (lib.EVP_DigestUpdate(d->ctx, bytes, n) != 1)
        abort();
}

void jail_digest_end(struct jail_digest *d, char out[JAIL_DIGEST_CHARS + 1])
{
    unsigned char sum[EVP_MAX_MD_SIZE];
    unsigned length;

    if (lib.EVP_DigestFinal_ex(d->ctx, sum, &length) != 1 || length * 2 != JAIL_DIGEST_CHARS)
        abort();
    for (unsigned i = 0; i < length; i++)
        snprintf(out + 2 * i, 3, "%02x", sum[i]);
}
