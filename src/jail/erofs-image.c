#include "jail/erofs-image.h"

#include <endian.h>
#include <stddef.h>
#include <sys/sysmacros.h>

#include "jail/erofs-format.h"

/* So much of inodes, attributes and small files is collected before it is written. */
#define PIECE (64u << 10)

#define BLOCKS_MAX UINT32_MAX

static uint64_t round_up(uint64_t n, uint64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

static int write_at(int fd, uint64_t at, const char *bytes, size_t n, struct tn_error *err)
{
    while (n > 0) {
        ssize_t done = pwrite(fd, bytes, n, (off_t)at);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return tn_fail_errno(err, done < 0 ? errno : EIO, "write the image");
        bytes += done;
        at += (uint64_t)done;
        n -= (size_t)done;
    }
    return 0;
}

/* --- places --------------------------------------------------------------------------------- */

/* n bytes from the beginning of a block on. */
static int take_blocks(struct erofs_image *image, uint64_t n, uint64_t *at, struct tn_error *err)
{
    uint64_t left = (uint64_t)BLOCKS_MAX * EROFS_BLOCK - image->end;

    if (n > left)
        return tn_fail(err, TN_E_UNSUPPORTED, "the files are larger than an image can be");
    *at = image->end;
    image->end += round_up(n, EROFS_BLOCK);
    return 0;
}

static int write_piece(struct erofs_image *image, struct tn_error *err)
{
    return write_at(image->fd, image->piece, image->bytes, image->used, err);
}

static int new_piece(struct erofs_image *image, size_t least, struct tn_error *err)
{
    size_t room = least > PIECE ? (size_t)round_up(least, EROFS_BLOCK) : PIECE;
    uint64_t at = 0;

    if (write_piece(image, err) < 0 || take_blocks(image, room, &at, err) < 0)
        return -1;
    free(image->bytes);
    image->bytes = tn_calloc(1, room);
    image->piece = at;
    image->room = room;
    image->used = 0;
    return 0;
}

/* For an inode and the n - its size bytes behind it.  inside: within a block. */
static int take_place(struct erofs_image *image, size_t n, bool inside, uint64_t *at,
                      struct tn_error *err)
{
    size_t from = (size_t)round_up(image->used, sizeof(struct erofs_inode));

    if (inside && from / EROFS_BLOCK != (from + n - 1) / EROFS_BLOCK)
        from = (size_t)round_up(from, EROFS_BLOCK);
    if (from > image->room || n > image->room - from) {
        if (new_piece(image, n, err) < 0)
            return -1;
        from = 0;
    }
    image->used = from + n;
    *at = image->piece + from;
    return 0;
}

int erofs_image_put(struct erofs_image *image, uint64_t at, const void *bytes, size_t n,
                    struct tn_error *err)
{
    if (n == 0)
        return 0;
    if (at < image->piece || at - image->piece >= image->room)
        return write_at(image->fd, at, bytes, n, err);
    memcpy(image->bytes + (at - image->piece), bytes, n);
    return 0;
}

/* --- inodes --------------------------------------------------------------------------------- */

/* As the kernel's new_encode_dev. */
static uint32_t device_number(dev_t device)
{
    uint32_t high = major(device), low = minor(device);
    return (low & 0xff) | high << 8 | (low & ~0xffu) << 12;
}

static bool has_content(mode_t mode)
{
    return S_ISREG(mode) || S_ISDIR(mode) || S_ISLNK(mode);
}

static uint16_t xattr_units(const struct tn_buf *xattrs)
{
    size_t header = sizeof(struct erofs_xattr_header);
    return xattrs->len ? (uint16_t)(1 + (xattrs->len - header) / EROFS_XATTR_UNIT) : 0;
}

int erofs_image_add(struct erofs_image *image, const struct stat *st, const struct tn_buf *xattrs,
                    uint64_t size, struct erofs_place *out, struct tn_error *err)
{
    const size_t head = sizeof(struct erofs_inode) + xattrs->len;
    bool inside = size > 0 && head <= EROFS_BLOCK && size <= EROFS_BLOCK - head;
    uint64_t at = 0, blocks = 0;

    if (take_place(image, inside ? head + (size_t)size : head, inside, &at, err) < 0 ||
        (size > 0 && !inside && take_blocks(image, size, &blocks, err) < 0))
        return -1;
    *out = (struct erofs_place){.nid = at / EROFS_NID_UNIT, .content = inside ? at + head : blocks};
    uint32_t start =
        has_content(st->st_mode) ? (uint32_t)(blocks / EROFS_BLOCK) : device_number(st->st_rdev);
    const struct erofs_inode inode = {
        .format = htole16(EROFS_LONG_INODE | (inside ? EROFS_INLINE : EROFS_PLAIN)),
        .xattr_units = htole16(xattr_units(xattrs)),
        .mode = htole16((uint16_t)st->st_mode),
        .size = htole64(size),
        .start = htole32(start),
        .number = htole32((uint32_t)++image->inodes),
        .uid = htole32(st->st_uid),
        .gid = htole32(st->st_gid),
        .mtime = (int64_t)htole64((uint64_t)st->st_mtim.tv_sec),
        .mtime_nsec = htole32((uint32_t)st->st_mtim.tv_nsec),
        .links = htole32(1),
    };
    if (erofs_image_put(image, at, &inode, sizeof inode, err) < 0)
        return -1;
    return erofs_image_put(image, at + sizeof inode, xattrs->data, xattrs->len, err);
}

int erofs_image_set_links(struct erofs_image *image, uint64_t nid, uint32_t links,
                          struct tn_error *err)
{
    uint32_t number = htole32(links);

    return erofs_image_put(image, nid * EROFS_NID_UNIT + offsetof(struct erofs_inode, links),
                           &number, sizeof number, err);
}

/* --- attributes ----------------------------------------------------------------------------- */

static const struct {
    const char *name;
    uint8_t number;
    bool whole; /* nothing comes after it */
} prefixes[] = {
    {"user.", 1, false},
    {"system.posix_acl_access", 2, true},
    {"system.posix_acl_default", 3, true},
    {"trusted.", 4, false},
    {"security.", 6, false},
};

int erofs_xattr_add(const struct tree_xattr *x, void *ctx, struct tn_error *err)
{
    static const struct erofs_xattr_header header;
    static const char zeros[EROFS_XATTR_UNIT];
    struct tn_buf *out = ctx;
    size_t i = 0, skip = 0;

    for (; i < TN_COUNT(prefixes); i++) {
        skip = strlen(prefixes[i].name);
        if (strncmp(x->name, prefixes[i].name, skip) == 0 && (!prefixes[i].whole || !x->name[skip]))
            break;
    }
    if (i == TN_COUNT(prefixes))
        return 0;
    size_t length = strlen(x->name + skip);
    if (length > UINT8_MAX || x->size > UINT16_MAX)
        return tn_fail(err, TN_E_UNSUPPORTED, "attribute %s is too large for an image", x->name);
    const struct erofs_xattr head = {.name_length = (uint8_t)length,
                                     .prefix = prefixes[i].number,
                                     .value_size = htole16((uint16_t)x->size)};
    if (out->len == 0)
        tn_buf_add(out, &header, sizeof header);
    tn_buf_add(out, &head, sizeof head);
    tn_buf_add(out, x->name + skip, length);
    tn_buf_add(out, x->value, x->size);
    size_t over = (length + x->size) % EROFS_XATTR_UNIT;
    tn_buf_add(out, zeros, over ? EROFS_XATTR_UNIT - over : 0);
    return tn_buf_ok(out) ? 0
                          : tn_fail(err, TN_E_UNSUPPORTED,
                                    "the attributes of a file are too large for an image");
}

/* --- the whole ------------------------------------------------------------------------------ */

void erofs_image_begin(struct erofs_image *image, int fd)
{
    *image = (struct erofs_image){
        .fd = fd,
        .end = PIECE,
        .room = PIECE,
        .used = EROFS_SUPER_AT + sizeof(struct erofs_super),
        .bytes = tn_calloc(1, PIECE),
    };
}

int erofs_image_end(struct erofs_image *image, struct erofs_place root, struct tn_error *err)
{
    const struct erofs_super super = {
        .magic = htole32(EROFS_MAGIC),
        .compat = htole32(EROFS_COMPAT_MTIME),
        .block_bits = EROFS_BLOCK_BITS,
        .root_nid = htole16((uint16_t)root.nid),
        .inodes = htole64(image->inodes),
        .blocks = htole32((uint32_t)(image->end / EROFS_BLOCK)),
    };

    if (erofs_image_put(image, EROFS_SUPER_AT, &super, sizeof super, err) < 0 ||
        write_piece(image, err) < 0)
        return -1;
    if (ftruncate(image->fd, (off_t)image->end) < 0) /* what was not used up is zeros */
        return tn_fail_errno(err, errno, "write the image");
    return 0;
}

void erofs_image_done(struct erofs_image *image)
{
    free(TN_TAKE_PTR(image->bytes));
}
