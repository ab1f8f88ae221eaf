#include "web/curl.h"

#include "base/library.h"

static struct web_curl functions;

static const struct tn_library_symbol symbols[] = {
#define SYMBOL(name) {"curl_" #name, offsetof(struct web_curl, name)},
    WEB_CURL_FUNCTIONS(SYMBOL)
#undef SYMBOL
};

static int initialise(struct tn_error *err)
{
    if (functions.global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK)
        return 0;
    return tn_fail(err, TN_E_UNSUPPORTED, "libcurl cannot be initialised");
}

static struct tn_library library = {
    .user = "a request",
    .name = "libcurl",
    .file = "libcurl.so.4",
    .package = "libcurl4",
    .symbols = symbols,
    .symbol_count = TN_COUNT(symbols),
    .functions = &functions,
    .prepare = initialise,
    .lock = PTHREAD_MUTEX_INITIALIZER,
};

const struct web_curl *web_curl(struct tn_error *err)
{
    return tn_library_load(&library, err) == 0 ? &functions : NULL;
}
