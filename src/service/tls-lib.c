#include "service/tls-lib.h"

#include <dlfcn.h>
#include <pthread.h>

static struct tls_lib functions;
static struct tn_error failure;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const struct {
    const char *name;
    size_t offset;
} symbols[] = {
#define SYMBOL(name) {#name, offsetof(struct tls_lib, name)},
    TLS_FUNCTIONS(SYMBOL)
#undef SYMBOL
};

static void load(void)
{
    void *library = dlopen("libssl.so.3", RTLD_NOW | RTLD_LOCAL);

    if (!library) {
        tn_fail(&failure, TN_E_UNSUPPORTED,
                "TLS needs OpenSSL, which cannot be loaded (%s): install the package libssl3",
                dlerror());
        return;
    }
    for (size_t i = 0; i < TN_COUNT(symbols); i++) {
        void *symbol = dlsym(library, symbols[i].name);
        if (!symbol) {
            tn_fail(&failure, TN_E_UNSUPPORTED, "this OpenSSL has no %s", symbols[i].name);
            return;
        }
        memcpy((char *)&functions + symbols[i].offset, &symbol, sizeof symbol);
    }
}

const struct tls_lib *tls_lib(struct tn_error *err)
{
    pthread_once(&once, load);
    if (failure.code == TN_OK)
        return &functions;
    if (err)
        *err = failure;
    return NULL;
}
