#include "jail/tree-links.h"

#include "base/guard.h"

/* Where the inode is, or would be; the table is never full. */
static struct tree_link *slot_of(const struct tree_links *links, ino_t inode)
{
    uint64_t hash = (uint64_t)inode * UINT64_C(0x9e3779b97f4a7c15);
    size_t at = (size_t)(hash >> 32) & (links->room - 1);

    while (links->rows[at].names && links->rows[at].inode != inode)
        at = (at + 1) & (links->room - 1);
    return &links->rows[at];
}

struct tree_link *tree_links_find(const struct tree_links *links, ino_t inode)
{
    struct tree_link *row = links->room ? slot_of(links, inode) : NULL;
    return row && row->names ? row : NULL;
}

static void grow(struct tree_links *links)
{
    struct tree_links old = *links;

    links->room = old.room ? old.room * 2 : 64;
    links->rows = tn_calloc(links->room, sizeof *links->rows);
    for (size_t i = 0; i < old.room; i++)
        if (old.rows[i].names)
            *slot_of(links, old.rows[i].inode) = old.rows[i];
    free(old.rows);
}

struct tree_link *tree_links_add(struct tree_links *links, ino_t inode)
{
    if (2 * links->count >= links->room)
        grow(links);
    links->count++;
    struct tree_link *row = slot_of(links, inode);
    *row = (struct tree_link){.inode = inode, .names = 1};
    return row;
}

void tree_links_done(struct tree_links *links)
{
    free(links->rows);
    *links = (struct tree_links){0};
}
