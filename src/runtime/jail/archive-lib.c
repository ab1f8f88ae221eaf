#include "runtime/jail/archive-lib.h"

#include "base/library.h"

static struct jail_archive_lib functions;

static const struct tn_library_symbol symbols[] = {
#define SYMBOL(name) {#name, offsetof(struct jail_archive_lib, name)},
    JAIL_ARCHIVE_FUNCTIONS(SYMBOL)
#undef SYMBOL
};

static struct tn_library library = {
    .user = "an image in an archive",
    .name = "libarchive",
    .file = "libarchive.so.13",
    .package = "libarchive13",
    .symbols = symbols,
    .symbol_count = TN_COUNT(symbols),
    .functions = &functions,
    .lock = PTHREAD_MUTEX_INITIALIZER,
};

const struct jail_archive_lib *jail_archive_lib(struct tn_error *err)
{
    return tn_library_load(&library, err) == 0 ? &functions : NULL;
}
