/* Files with several names, by inode: what became of the first name when a tree is copied. */
#ifndef TN_JAIL_TREE_LINKS_H
#define TN_JAIL_TREE_LINKS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct tree_link {
    ino_t inode;
    uint32_t names; /* so far; 0: the row is free */
    union {
        char *path;   /* of the first copy, from the top; the user of the table frees it */
        uint64_t nid; /* of the inode in an image */
    };
};

/* A hash table; zeros are an empty one. */
struct tree_links {
    struct tree_link *rows;
    size_t count, room;
};

/* NULL when it has not been seen.  Valid until the next add. */
struct tree_link *tree_links_find(const struct tree_links *links, ino_t inode);
/* One that has not been seen, with one name; the caller fills in the rest. */
struct tree_link *tree_links_add(struct tree_links *links, ino_t inode);
void tree_links_done(struct tree_links *links);

#endif
