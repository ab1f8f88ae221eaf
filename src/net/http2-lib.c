#include "net/http2-lib.h"

#include "base/library.h"

static struct http2_lib functions;

static const struct tn_library_symbol symbols[] = {
#define SYMBOL(name) {#name, offsetof(struct http2_lib, name)},
    HTTP2_FUNCTIONS(SYMBOL)
#undef SYMBOL
};

static struct tn_library library = {
    .user = "HTTP/2",
    .name = "nghttp2",
    .file = "libnghttp2.so.14",
    .package = "libnghttp2-14",
    .symbols = symbols,
    .symbol_count = TN_COUNT(symbols),
    .functions = &functions,
    .lock = PTHREAD_MUTEX_INITIALIZER,
};

const struct http2_lib *http2_lib(struct tn_error *err)
{
    return tn_library_load(&library, err) == 0 ? &functions : NULL;
}
