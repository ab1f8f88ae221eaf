/* Unpacking an archive that somebody sent.
 *
 * Everything is checked before anything is written: names (zip-name.h), kinds (files and
 * directories, no links, no devices), encryption, that each entry has one name and one size, the
 * limits, and room on the disk. Then all is unpacked into a directory of ours inside the
 * destination, checksums included, and only then moved into place: directories are merged, files
 * replaced one by one.  A symbolic link or a file where the archive has a directory makes it fail
 * before the first move. */
#ifndef TN_HAND_FILE_ZIP_READ_H
#define TN_HAND_FILE_ZIP_READ_H

#include <stdint.h>

#include "base/error.h"
#include "hand/file/path.h"

struct tn_zip_limits {
    uint64_t bytes; /* of all files together */
    uint64_t entries;
    uint64_t ratio; /* how many times larger than the archive, once that is more than free_bytes; 0:
                       any */
    uint64_t free_bytes;
};

#define TN_ZIP_LIMITS_DEFAULT                                          \
    {                                                                  \
        .bytes = UINT64_C(16) << 30, .entries = 1000000, .ratio = 200, \
        .free_bytes = UINT64_C(1) << 30,                               \
    }

/* Unpacks the archive behind the seekable descriptor into the directory dest (both stay the
 * caller's), through a new directory `staging` (one name) in it, which is gone afterwards.  Files
 * keep their permission bits, set-id bits excepted, and belong to user, as do new directories. With
 * the server's rights. */
int tn_zip_unpack(int archive, int dest, const char *staging, const struct tn_file_user *user,
                  const struct tn_zip_limits *limits, struct tn_error *err);

#endif
