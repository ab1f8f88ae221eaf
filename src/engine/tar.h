/* A tar written while it is sent: plain ustar entries, from memory or descriptors. */
#ifndef TN_ENGINE_TAR_H
#define TN_ENGINE_TAR_H

#include "engine/engine.h"

struct engine_tar {
    const struct tn_engine_file *files;
    size_t count;
    size_t at;     /* which file; count: the end marker */
    uint64_t done; /* of its bytes, header and padding included */
    char header[512];
};

/* Checks that every entry can be written.  files is borrowed. */
int engine_tar_init(struct engine_tar *t, const struct tn_engine_file *files, size_t count,
                    struct tn_error *err);
/* Length of the whole. */
int64_t engine_tar_length(const struct engine_tar *t);
/* A tn_web_source_fn; ctx is a struct engine_tar. */
ssize_t engine_tar_read(void *to, size_t n, void *tar, struct tn_error *err);

#endif
