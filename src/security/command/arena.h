/* Memory of one tree, released at once. */
#ifndef TN_SECURITY_COMMAND_ARENA_H
#define TN_SECURITY_COMMAND_ARENA_H

#include <stddef.h>

struct tn_arena;

struct tn_arena *tn_arena_new(void);
void tn_arena_free(struct tn_arena *arena);

/* Zeroed memory that lives as long as the arena.  Never NULL. */
void *tn_arena_get(struct tn_arena *arena, size_t size);
/* A copy of len bytes, followed by a NUL. */
char *tn_arena_copy(struct tn_arena *arena, const char *bytes, size_t len);

/* How many bytes were given out. */
size_t tn_arena_used(const struct tn_arena *arena);

#endif
