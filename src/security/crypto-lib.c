#include "security/crypto-lib.h"

#include "base/library.h"

static struct crypto_lib functions;

static const struct tn_library_symbol symbols[] = {
#define SYMBOL(name) {#name, offsetof(struct crypto_lib, name)},
    CRYPTO_FUNCTIONS(SYMBOL)
#undef SYMBOL
};

static struct tn_library library = {
    .user = "secrets",
    .name = "OpenSSL",
    .file = "libcrypto.so.3",
    .package = "libssl3",
    .symbols = symbols,
    .symbol_count = TN_COUNT(symbols),
    .functions = &functions,
    .lock = PTHREAD_MUTEX_INITIALIZER,
};

const struct crypto_lib *crypto_lib(struct tn_error *err)
{
    return tn_library_load(&library, err) == 0 ? &functions : NULL;
}
