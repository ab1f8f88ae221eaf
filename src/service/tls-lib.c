#include "service/tls-lib.h"

#include "base/library.h"

static struct tls_lib functions;

static const struct tn_library_symbol symbols[] = {
#define SYMBOL(name) {#name, offsetof(struct tls_lib, name)},
    TLS_FUNCTIONS(SYMBOL)
#undef SYMBOL
};

static struct tn_library library = {
    .user = "TLS",
    .name = "OpenSSL",
    .file = "libssl.so.3",
    .package = "libssl3",
    .symbols = symbols,
    .symbol_count = TN_COUNT(symbols),
    .functions = &functions,
    .lock = PTHREAD_MUTEX_INITIALIZER,
};

const struct tls_lib *tls_lib(struct tn_error *err)
{
    return tn_library_load(&library, err) == 0 ? &functions : NULL;
}
