#include "net/tls-lib.h"

#include "base/library.h"

#ifdef TN_TLS_INSIDE /* tendon-gate-pod has OpenSSL in it: where it runs there are no libraries */

static const struct tn_tls_lib functions = {
#define MEMBER(name) .name = name,
    TLS_FUNCTIONS(MEMBER)
#undef MEMBER
};

static int load(struct tn_error *err)
{
    return 0;
}

#else

static struct tn_tls_lib functions;

static const struct tn_library_symbol symbols[] = {
#define SYMBOL(name) {#name, offsetof(struct tn_tls_lib, name)},
    TLS_FUNCTIONS(SYMBOL)
#undef SYMBOL
};

static struct tn_library library = {
    .user = "encryption",
    .name = "OpenSSL",
    .file = "libssl.so.3",
    .package = "libssl3",
    .symbols = symbols,
    .symbol_count = TN_COUNT(symbols),
    .functions = &functions,
    .lock = PTHREAD_MUTEX_INITIALIZER,
};

static int load(struct tn_error *err)
{
    return tn_library_load(&library, err);
}

#endif

const struct tn_tls_lib *tn_tls_lib(struct tn_error *err)
{
    return load(err) == 0 ? &functions : NULL;
}
