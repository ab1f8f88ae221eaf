/* A tar written while it is sent: plain ustar entries, from memory or descriptors. */
#ifndef TN_ENGINE_TAR_H
#define TN_ENGINE_TAR_H

#include "engine/engine.h"

struct tn_tar {
    const struct tn_engine_file *files;
    size_t count;
    size_t at;     /* which file; count: the end marker */
    uint64_t done; /* of its bytes, header and padding included */
    char header[512];
};

/* Checks that every entry can be written.  files is borrowed. */
int tn_tar_init(struct tn_tar *t, const struct tn_engine_file *files, size_t count,
                struct tn_error *err);
/* Length of the whole. */
int64_t tn_tar_length(const struct tn_tar *t);
/* A tn_web_source_fn; ctx is a struct tn_tar. */
ssize_t tn_tar_read(void *to, size_t n, void *tar, struct tn_error *err);

#endif
