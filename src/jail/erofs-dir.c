#include <dirent.h>
#include <endian.h>

#include "jail/erofs-format.h"
#include "jail/erofs-image.h"

/* The kernel's FT_... by DT_... */
static const uint8_t types[] = {[DT_REG] = 1,  [DT_DIR] = 2,  [DT_CHR] = 3, [DT_BLK] = 4,
                                [DT_FIFO] = 5, [DT_SOCK] = 6, [DT_LNK] = 7};

void erofs_dir_add(struct erofs_dir *dir, const char *name, unsigned char type)
{
    if (dir->count == dir->room) {
        dir->room = dir->room ? dir->room * 2 : 16;
        dir->entries = tn_realloc(dir->entries, dir->room * sizeof *dir->entries);
    }
    dir->entries[dir->count++] = (struct erofs_entry){.name = tn_strdup(name), .type = type};
}

static int by_name(const void *a, const void *b)
{
    const struct erofs_entry *left = a, *right = b;
    return strcmp(left->name, right->name);
}

void erofs_dir_sort(struct erofs_dir *dir)
{
    qsort(dir->entries, dir->count, sizeof *dir->entries, by_name);
}

/* How many entries from the first one on fit into a block, and how many bytes they take. */
static size_t fill_block(const struct erofs_dir *dir, size_t first, size_t *used)
{
    size_t i = first;

    for (*used = 0; i < dir->count; i++) {
        size_t more = sizeof(struct erofs_dirent) + strlen(dir->entries[i].name);
        if (more > EROFS_BLOCK - *used)
            break;
        *used += more;
    }
    return i - first;
}

uint64_t erofs_dir_size(const struct erofs_dir *dir)
{
    uint64_t size = 0;
    size_t used;

    for (size_t i = 0; i < dir->count;) {
        i += fill_block(dir, i, &used);
        size += i < dir->count ? EROFS_BLOCK : used;
    }
    return size;
}

static void encode_block(const struct erofs_entry *entries, size_t count, char *block)
{
    size_t name_at = count * sizeof(struct erofs_dirent);

    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(entries[i].name);
        const struct erofs_dirent entry = {.nid = htole64(entries[i].nid),
                                           .name_at = htole16((uint16_t)name_at),
                                           .type = types[entries[i].type]};
        memcpy(block + i * sizeof entry, &entry, sizeof entry);
        memcpy(block + name_at, entries[i].name, length);
        name_at += length;
    }
}

int erofs_dir_put(const struct erofs_dir *dir, struct erofs_image *image, struct erofs_place place,
                  struct tn_error *err)
{
    char block[EROFS_BLOCK];
    uint64_t at = place.content;
    size_t used;

    for (size_t i = 0; i < dir->count; at += EROFS_BLOCK) {
        size_t count = fill_block(dir, i, &used);
        encode_block(&dir->entries[i], count, block);
        memset(block + used, 0, sizeof block - used);
        i += count;
        if (erofs_image_put(image, at, block, i < dir->count ? sizeof block : used, err) < 0)
            return -1;
    }
    return 0;
}

void erofs_dir_done(struct erofs_dir *dir)
{
    for (size_t i = 0; i < dir->count; i++)
        free(dir->entries[i].name);
    free(dir->entries);
    *dir = (struct erofs_dir){0};
}
