/* A file that is built into a program: tools/embed writes tables of them. */
#ifndef TN_BASE_EMBEDDED_H
#define TN_BASE_EMBEDDED_H

#include <stddef.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"

struct tn_embedded {
    const char *name; /* "python/tendon_kernel.py" */
    const unsigned char *bytes;
    size_t size; /* a NUL follows, which does not count */
};

/* The file of that name in a table that ends with one without a name, or NULL. */
static inline const struct tn_embedded *tn_embedded_in(const struct tn_embedded *files,
                                                       const char *name)
{
    for (; files->name; files++) {
        if (strcmp(files->name, name) == 0)
            return files;
    }
    return NULL;
}

/* Adds what a file that the build has packed by gzip holds. */
int tn_embedded_inflate(const struct tn_embedded *f, struct tn_buf *out, struct tn_error *err);

#endif
