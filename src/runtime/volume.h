/* One entry of spec.volumes: HOST:INSIDE[:MODE].
 *
 * An absolute HOST is a bind mount; anything else names a volume of the engine ("volume:NAME" is
 * the long form, "volume:NAME/DIR" a directory of it, which only jails can mount).  MODE is a comma
 * list of rw (default), ro, overlay (writes go to a throw-away layer), z, Z. */
#ifndef TN_RUNTIME_VOLUME_H
#define TN_RUNTIME_VOLUME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct tn_volume {
    char *host;   /* absolute path, or name of a volume */
    char *inside; /* absolute */
    char *below;  /* directory of a named volume, without "..": "/a/b"; NULL: all */
    bool named, read_only, overlay;
    char *mode; /* as given, or "rw" */
};

/* Whether a path inside a sandbox is in the directory there that is ours: what the hand is carried
 * in by, and in containers its socket.  Nothing else is mounted or works there. */
#define TN_INSIDE "/.tendon"
bool tn_inside_is_ours(const char *path);

int tn_volume_parse(const char *text, struct tn_volume *out, struct tn_error *err);
void tn_volume_done(struct tn_volume *v);
/* Bytes that are in that directory.  *partial is set when not all of them could be counted; if then
 * *walk (NULL at first) is something, there was no time for it, and the next call goes on. */
struct tn_tree_walk;
int64_t tn_volume_measure(int fd, struct tn_tree_walk **walk, int64_t deadline, bool *partial);
void tn_volume_walk_end(struct tn_tree_walk **walk);

/* The text with a HOST such as ".", "./src", "../data" or "~/data" made absolute, and others as
 * they are, on the heap: for what people type.  NULL with err. */
char *tn_volume_absolute(const char *text, struct tn_error *err);

/* Several in one text with commas between them, as sandbox.volumes has them; a comma before a word
 * of a mode belongs to that mode.  Stops when fn answers non-zero, and returns that. */
typedef int (*tn_volume_fn)(const char *volume, void *ctx);
int tn_volumes_each(const char *text, tn_volume_fn fn, void *ctx);
#define tn_autovolume TN_CLEANUP(tn_volume_done)

#endif
