/* Reading a tar as a stream, whatever compressed it, and its digest on the way.
 *
 * Bytes come from a source; a source can be a file or an entry of another tar, so an archive in an
 * archive is read without a temporary file. */
#ifndef TN_RUNTIME_JAIL_TAR_STREAM_H
#define TN_RUNTIME_JAIL_TAR_STREAM_H

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/sha256.h"
#include "runtime/jail/archive-lib.h"

struct jail_source {
    /* The next bytes, valid until the next call: how many, 0 at the end, -1 with err. */
    ssize_t (*next)(void *ctx, const void **bytes, struct tn_error *err);
    void *ctx;
};

/* A source that reads a file from its current position. */
struct jail_file_source {
    struct jail_source source;
    int fd;                                 /* borrowed */
    uint64_t read;                          /* so far */
    void (*told)(uint64_t read, void *ctx); /* for progress; may be NULL */
    void *told_ctx;
    char *buffer;
};
void jail_file_source_init(struct jail_file_source *f, int fd);
void jail_file_source_done(struct jail_file_source *f);
#define jail_autofilesource TN_CLEANUP(jail_file_source_done)

struct jail_tar;

/* digest (borrowed, may be NULL) gets every byte of the tar itself, after decompression.  source
 * is borrowed until jail_tar_free.  NULL with err. */
struct jail_tar *jail_tar_new(const struct jail_source *source, struct tn_sha256 *digest,
                              struct tn_error *err);
void jail_tar_free(struct jail_tar *t);
static inline void jail_guard_tar(struct jail_tar **t)
{
    jail_tar_free(*t);
}
#define jail_autotar TN_CLEANUP(jail_guard_tar)

/* 1 with the next entry (valid until the next call), 0 at the end, -1. */
int jail_tar_next(struct jail_tar *t, struct archive_entry **entry, struct tn_error *err);
/* The next piece of the entry's content and where in the file it belongs: 1, 0 at its end, -1. */
int jail_tar_data(struct jail_tar *t, const void **bytes, size_t *n, int64_t *offset,
                  struct tn_error *err);
/* Reads what follows the last entry, so that the digest is that of the whole. */
int jail_tar_finish(struct jail_tar *t, struct tn_error *err);
/* The content of the current entry as a source; lives as long as t stays at that entry. */
struct jail_source jail_tar_entry_source(struct jail_tar *t);

#endif
