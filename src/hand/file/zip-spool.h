/* The plan of an archive to be written: its entries, in a file, in order. */
#ifndef TN_HAND_FILE_ZIP_SPOOL_H
#define TN_HAND_FILE_ZIP_SPOOL_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

/* One entry.  The first group is planned; the second is known once the file has been sent. */
struct zip_entry {
    uint64_t size;
    uint64_t offset; /* of its local header */
    int64_t mtime;
    uint32_t mode;

    uint64_t sent; /* bytes of contents */
    uint32_t crc;
    bool gone;

    uint16_t name_len;
    char name[PATH_MAX];
};

struct zip_spool {
    int fd;
    uint64_t end;          /* bytes in it */
    struct tn_buf unsaved; /* appended, not written yet */
};

/* An unlinked file in dir. */
int zip_spool_init(struct zip_spool *s, const char *dir, struct tn_error *err);
void zip_spool_done(struct zip_spool *s);

int zip_spool_add(struct zip_spool *s, const struct zip_entry *e, struct tn_error *err);
/* Reads the entry at *at and moves on to the next: 1, or 0 at the end, or -1 with err. */
int zip_spool_next(struct zip_spool *s, uint64_t *at, struct zip_entry *e, struct tn_error *err);
/* Stores what is known now about the entry that started at `at`. */
int zip_spool_update(struct zip_spool *s, uint64_t at, const struct zip_entry *e,
                     struct tn_error *err);

#endif
