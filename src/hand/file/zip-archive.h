/* An archive to be read, behind an open descriptor. */
#ifndef TN_HAND_FILE_ZIP_ARCHIVE_H
#define TN_HAND_FILE_ZIP_ARCHIVE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/error.h"

struct zip_archive;

struct zip_item {
    const char *name; /* checked (zip-name.h); valid until the next call */
    bool is_dir;
    mode_t mode; /* permission bits, never more than 0777; 0 when the archive has none */
    uint64_t size;
    uint64_t packed;
};

/* fd must be seekable and stays the caller's. */
struct zip_archive *zip_archive_open(int fd, struct tn_error *err);
void zip_archive_close(struct zip_archive *z);

uint64_t zip_archive_size(const struct zip_archive *z); /* of the whole file */
uint64_t zip_archive_entries(const struct zip_archive *z);

/* Moves to the next entry (at first, and after a rewind, to the first one) and checks it: name,
 * kind, method, that it is not encrypted, lies inside the archive, and that its local header says
 * the same as the central directory.  1, 0 at the end, -1 with err. */
int zip_archive_next(struct zip_archive *z, struct zip_item *item, struct tn_error *err);
void zip_archive_rewind(struct zip_archive *z);

/* Contents of the entry: count, 0 at the end (exactly item->size bytes came and the checksum is
 * right), -1 with err.  Never gives more than item->size bytes. */
ssize_t zip_archive_read(struct zip_archive *z, void *to, size_t n, struct tn_error *err);

#endif
