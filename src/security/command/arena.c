#include "security/command/arena.h"

#include <stdalign.h>

#include "base/guard.h"

enum { BLOCK = 16 << 10 };

struct block {
    struct block *next;
    alignas(max_align_t) char room[];
};

struct tn_arena {
    struct block *blocks;
    char *at;
    size_t left, used;
};

struct tn_arena *tn_arena_new(void)
{
    return tn_calloc(1, sizeof(struct tn_arena));
}

void tn_arena_free(struct tn_arena *arena)
{
    if (!arena)
        return;
    while (arena->blocks) {
        struct block *next = arena->blocks->next;
        free(arena->blocks);
        arena->blocks = next;
    }
    free(arena);
}

void *tn_arena_get(struct tn_arena *arena, size_t size)
{
    size_t unit = alignof(max_align_t);
    size = (size + unit - 1) / unit * unit;
    if (size > arena->left) {
        size_t room = size > BLOCK ? size : BLOCK;
        struct block *block = tn_calloc(1, sizeof(*block) + room);
        block->next = arena->blocks;
        arena->blocks = block;
        arena->at = block->room;
        arena->left = room;
    }
    void *given = arena->at;
    arena->at += size;
    arena->left -= size;
    arena->used += size;
    return given;
}

char *tn_arena_copy(struct tn_arena *arena, const char *bytes, size_t len)
{
    char *copy = tn_arena_get(arena, len + 1);
    if (len)
        memcpy(copy, bytes, len);
    return copy;
}

size_t tn_arena_used(const struct tn_arena *arena)
{
    return arena->used;
}
