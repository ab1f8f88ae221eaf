#include "web/curl.h"

#include <dlfcn.h>
#include <pthread.h>

static struct web_curl functions;
static struct tn_error failure;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const struct {
    const char *name;
    size_t offset;
} symbols[] = {
#define SYMBOL(name) {"curl_" #name, offsetof(struct web_curl, name)},
    WEB_CURL_FUNCTIONS(SYMBOL)
#undef SYMBOL
};

static int load(struct tn_error *err)
{
    void *library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);

    if (!library)
        return tn_fail(err, TN_E_UNSUPPORTED,
                       "libcurl cannot be loaded (%s): install the package libcurl4", dlerror());
    for (size_t i = 0; i < TN_COUNT(symbols); i++) {
        void *symbol = dlsym(library, symbols[i].name);
        if (!symbol)
            return tn_fail(err, TN_E_UNSUPPORTED, "this libcurl is too old: it has no %s",
                           symbols[i].name);
        memcpy((char *)&functions + symbols[i].offset, &symbol, sizeof symbol);
    }
    if (functions.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return tn_fail(err, TN_E_UNSUPPORTED, "libcurl cannot be initialised");
    return 0;
}

static void load_once(void)
{
    load(&failure);
}

const struct web_curl *web_curl(struct tn_error *err)
{
    pthread_once(&once, load_once);
    if (failure.code == TN_OK)
        return &functions;
    if (err)
        *err = failure;
    return NULL;
}
