#include "base/library.h"

#include <dlfcn.h>

static int take_symbols(const struct tn_library *l, void *handle, struct tn_error *err)
{
    for (size_t i = 0; i < l->symbol_count; i++) {
        void *symbol = dlsym(handle, l->symbols[i].name);
        if (!symbol)
            return tn_fail(err, TN_E_UNSUPPORTED, "%s needs a newer %s: %s has no %s", l->user,
                           l->name, l->file, l->symbols[i].name);
        memcpy((char *)l->functions + l->symbols[i].offset, &symbol, sizeof symbol);
    }
    return l->prepare ? l->prepare(err) : 0;
}

static int load(const struct tn_library *l, struct tn_error *err)
{
    void *handle = dlopen(l->file, RTLD_NOW | RTLD_LOCAL);

    if (!handle)
        return tn_fail(err, TN_E_UNSUPPORTED,
                       "%s needs %s, which cannot be loaded (%s): install the package %s", l->user,
                       l->name, dlerror(), l->package);
    if (take_symbols(l, handle, err) == 0)
        return 0;
    dlclose(handle);
    return -1;
}

int tn_library_load(struct tn_library *library, struct tn_error *err)
{
    if (atomic_load_explicit(&library->loaded, memory_order_acquire))
        return 0;
    pthread_mutex_lock(&library->lock);
    int r = atomic_load_explicit(&library->loaded, memory_order_relaxed) ? 0 : load(library, err);
    if (r == 0)
        atomic_store_explicit(&library->loaded, true, memory_order_release);
    pthread_mutex_unlock(&library->lock);
    return r;
}
