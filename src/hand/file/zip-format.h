/* The records of a zip archive, as bytes.  Numbers are little endian; the rules for when the 64-bit
 * forms are used live here, so that planning a length and writing it cannot disagree. */
#ifndef TN_HAND_FILE_ZIP_FORMAT_H
#define TN_HAND_FILE_ZIP_FORMAT_H

#include "hand/file/zip-spool.h"

/* What precedes and what follows the contents of an entry. */
size_t zip_local_length(const struct zip_entry *e);
size_t zip_descriptor_length(const struct zip_entry *e);
/* Its record in the central directory. */
size_t zip_central_length(const struct zip_entry *e);
/* The end of an archive whose entries end at `data` and whose central directory has `central`
 * bytes. */
size_t zip_end_length(uint64_t entries, uint64_t data, uint64_t central);

/* Each appends as many bytes as the function above says. */
void zip_put_local(struct tn_buf *out, const struct zip_entry *e);
void zip_put_descriptor(struct tn_buf *out, const struct zip_entry *e);
void zip_put_central(struct tn_buf *out, const struct zip_entry *e);

/* `planned` decides about the form, `entries` and the rest are what came of it. */
struct zip_end {
    bool wide; /* zip_end_length gave the 64-bit form */
    uint64_t entries;
    uint64_t central_offset;
    uint64_t central;
};
void zip_put_end(struct tn_buf *out, const struct zip_end *end);

#endif
