/* What a saved image says about itself: its tar, and the JSON in it. */
#include <stdint.h>

#include "runtime/jail/image-manifest.h"

struct input {
    const uint8_t *data;
    size_t size;
};

static ssize_t next(void *ctx, const void **bytes, struct tn_error *err)
{
    struct input *in = ctx;
    size_t n = in->size;

    *bytes = in->data;
    in->size = 0;
    return (ssize_t)n;
}

/* What becomes the name of a directory must be harmless. */
static void check(const struct jail_manifest *m)
{
    for (size_t i = 0; i < m->count; i++)
        if (strspn(m->layers[i].digest, "0123456789abcdef") != 64 || m->layers[i].digest[64])
            abort();
    for (size_t i = 0; i < m->env.count; i++)
        if (!strchr(m->env.items[i], '='))
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {.data = data, .size = size};
    struct jail_source source = {.next = next, .ctx = &in};
    jail_autopapers struct jail_papers papers = {0};
    jail_automanifest struct jail_manifest manifest = {0};
    jail_autotar struct jail_tar *tar = jail_tar_new(&source, NULL, NULL);

    if (tar && jail_papers_collect(tar, &papers, NULL) == 0 &&
        jail_manifest_read(&papers, &manifest, NULL) == 1)
        check(&manifest);
    return 0;
}
