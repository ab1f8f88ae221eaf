/* Files that are built into the hand: Python for the sandbox's interpreter, scripts for pages.
 * src/hand/embedded/meson.build lists them. */
#ifndef TN_HAND_EMBEDDED_H
#define TN_HAND_EMBEDDED_H

#include "base/embedded.h"
#include "base/error.h"

/* All of them, ended by one without a name. */
extern const struct tn_embedded tn_embedded_files[];

/* The file of that name, or NULL. */
const struct tn_embedded *tn_embedded_find(const char *name);

/* The uncompressed text of one named NAME.gz, which is there; the caller frees it. */
char *tn_embedded_text(const char *name);

/* Writes every file whose name starts with `prefix` ("python/agentskills/") below the existing
 * directory, without the part of the prefix before its last component, readable by everybody.
 * One named NAME.gz becomes NAME, uncompressed. */
int tn_embedded_unpack(const char *prefix, const char *directory, struct tn_error *err);

#endif
