/* The bytes of an archive, and where in them its central directory is. */
#ifndef TN_HAND_FILE_ZIP_END_H
#define TN_HAND_FILE_ZIP_END_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Reads through a small window, because directories consist of small records. */
struct zip_input {
    int fd;
    uint64_t size;
    uint64_t window_at;
    size_t window_len;
    char window[4096];
};

int zip_input_init(struct zip_input *in, int fd, struct tn_error *err);
/* Exactly n bytes from `at`, through the window or not: 0, or -1 when there are fewer. */
int zip_input_get(struct zip_input *in, void *to, size_t n, uint64_t at);
int zip_input_pread(const struct zip_input *in, void *to, size_t n, uint64_t at);

/* A little-endian number of that many bytes (1 to 8). */
uint64_t zip_get(const unsigned char *b, size_t bytes);

struct zip_directory {
    uint64_t base;  /* what offsets count from: bytes before the archive are skipped */
    uint64_t start; /* of the directory, in the file; base <= start */
    uint64_t end;   /* start <= end <= size */
    uint64_t entries;
};

/* Finds the end of the archive (its 64-bit form too) and what it says about the directory. */
int zip_find_directory(struct zip_input *in, struct zip_directory *d, struct tn_error *err);

#endif
