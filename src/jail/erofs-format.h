/* What EROFS looks like on disk, as far as we write it: no compression, one device, blocks of
 * 4 KiB, and the long form of inodes, which has room for every owner, size and time.
 *
 * All numbers are little-endian.  Positions of inodes ("nid") count in units of 32 bytes from the
 * beginning.  Behind an inode lie its attributes and, with the layout "inline", its content, which
 * must not cross the end of a block; otherwise content lies in blocks of its own. */
#ifndef TN_JAIL_EROFS_FORMAT_H
#define TN_JAIL_EROFS_FORMAT_H

#include <stdint.h>

#define EROFS_BLOCK_BITS 12
#define EROFS_BLOCK (1u << EROFS_BLOCK_BITS)
#define EROFS_NID_UNIT 32u

#define EROFS_SUPER_AT 1024u
#define EROFS_MAGIC 0xE0F5E1E2u
#define EROFS_COMPAT_MTIME 2u /* times in inodes are those of the last change */

struct erofs_super {
    uint32_t magic, checksum;
    uint32_t compat;
    uint8_t block_bits, slots;
    uint16_t root_nid;
    uint64_t inodes;
    uint64_t built;
    uint32_t built_nsec;
    uint32_t blocks;
    uint32_t meta_block, xattr_block;
    uint8_t uuid[16], name[16];
    uint32_t incompat;
    uint8_t unused[44];
};
_Static_assert(sizeof(struct erofs_super) == 128, "a super block has 128 bytes");

/* Of erofs_inode.format. */
#define EROFS_LONG_INODE 1u
#define EROFS_PLAIN (0u << 1)
#define EROFS_INLINE (2u << 1)

struct erofs_inode {
    uint16_t format;
    uint16_t xattr_units; /* 0: no attributes; else 1 and one for each 4 bytes behind the header */
    uint16_t mode;
    uint16_t unused;
    uint64_t size;
    uint32_t start; /* the first block of the content; of a device, its number */
    uint32_t number;
    uint32_t uid, gid;
    int64_t mtime;
    uint32_t mtime_nsec;
    uint32_t links;
    uint8_t unused_too[16];
};
_Static_assert(sizeof(struct erofs_inode) == 64, "a long inode has 64 bytes");

/* Before the attributes of an inode. */
struct erofs_xattr_header {
    uint32_t filter;
    uint8_t shared;
    uint8_t unused[7];
};
_Static_assert(sizeof(struct erofs_xattr_header) == 12, "a header of attributes has 12 bytes");
#define EROFS_XATTR_UNIT 4u
#define EROFS_XATTRS_MAX (sizeof(struct erofs_xattr_header) + 65534u * EROFS_XATTR_UNIT)

/* One of them: name without its prefix, and value, follow; then zeros up to a whole unit. */
struct erofs_xattr {
    uint8_t name_length, prefix;
    uint16_t value_size;
};
_Static_assert(sizeof(struct erofs_xattr) == EROFS_XATTR_UNIT, "an attribute begins with a unit");

/* Directories: each block begins with entries, in the order of their names (bytes, as strcmp has
 * it, "." and ".." included); the names follow, one behind the other. */
struct __attribute__((packed)) erofs_dirent {
    uint64_t nid;
    uint16_t name_at; /* in the block; of the first: also where the entries end */
    uint8_t type;     /* as the kernel's FT_... */
    uint8_t unused;
};
_Static_assert(sizeof(struct erofs_dirent) == 12, "an entry of a directory has 12 bytes");

#endif
