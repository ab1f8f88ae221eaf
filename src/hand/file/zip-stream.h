/* The contents of one entry, unpacked as a stream. */
#ifndef TN_HAND_FILE_ZIP_STREAM_H
#define TN_HAND_FILE_ZIP_STREAM_H

#include <stdbool.h>
#include <sys/types.h>
#include <zlib.h>

#include "hand/file/zip-end.h"

enum { ZIP_STORED = 0, ZIP_DEFLATED = 8 };

struct zip_contents {
    uint64_t at; /* in the file */
    uint64_t packed, size;
    uint32_t crc;
    uint32_t method;
};

struct zip_stream {
    const struct zip_input *in;
    struct zip_contents left; /* what is still to come; crc stays */
    uint32_t crc;             /* so far */
    z_stream z;
    bool has_z; /* inflateInit was called */
    unsigned char packed[16384];
};

/* Starts with another entry; the struct must have been zero before the first. */
void zip_stream_start(struct zip_stream *s, const struct zip_input *in,
                      const struct zip_contents *contents);
void zip_stream_done(struct zip_stream *s);

/* Count, 0 when all came and the checksum is right, -1 with the fault (a phrase). */
ssize_t zip_stream_read(struct zip_stream *s, void *to, size_t n, const char **fault);

#endif
