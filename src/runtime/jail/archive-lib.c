#include "runtime/jail/archive-lib.h"

#include <dlfcn.h>
#include <pthread.h>

static struct jail_archive_lib lib;
static struct tn_error failure;
static pthread_once_t once = PTHREAD_ONCE_INIT;

#define ROW(name) {#name, offsetof(struct jail_archive_lib, name)},
static const struct {
    const char *name;
    size_t offset;
} rows[] = {JAIL_ARCHIVE_FUNCTIONS(ROW)};
#undef ROW

static void load(void)
{
    void *handle = dlopen("libarchive.so.13", RTLD_NOW | RTLD_LOCAL);

    if (!handle) {
        tn_fail(&failure, TN_E_UNSUPPORTED,
                "an image in an archive needs libarchive (Debian: libarchive13): %s", dlerror());
        return;
    }
    for (size_t i = 0; i < TN_COUNT(rows); i++) {
        void *function = dlsym(handle, rows[i].name);
        if (!function) {
            tn_fail(&failure, TN_E_UNSUPPORTED, "libarchive has no %s: it is too old",
                    rows[i].name);
            return;
        }
        memcpy((char *)&lib + rows[i].offset, &function, sizeof function);
    }
}

const struct jail_archive_lib *jail_archive_lib(struct tn_error *err)
{
    pthread_once(&once, load);
    if (failure.code == TN_OK)
        return &lib;
    if (err)
        *err = failure;
    return NULL;
}
