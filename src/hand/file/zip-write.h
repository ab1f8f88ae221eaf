/* A zip archive of a directory, streamed: stored (not deflated), of a length known beforehand.
 *
 * A plan is made first: every regular file at or below a directory, symbolic links to files
 * followed, to directories not, hidden names included, no entries for directories, nothing of /proc
 * and /sys.  From their sizes follows the exact length of the archive.  Sending it reads each file
 * once; its checksum goes into a data descriptor behind the contents, so it is always that of the
 * bytes sent.
 *
 * Files that change in between do not break the promise of the length: of a file that grew, the
 * planned part is sent; one that shrank is sent as it is and the space left over is filled with
 * zeros outside of any entry; one that is gone is left out of the archive's directory.
 *
 * Memory does not grow with the number of files: the plan lies in an unlinked file of spool_dir. */
#ifndef TN_HAND_FILE_ZIP_WRITE_H
#define TN_HAND_FILE_ZIP_WRITE_H

#include <stdint.h>

#include "base/error.h"

struct tn_zip_plan;

/* Where the archive goes: 0, or -1 with err to stop. */
typedef int (*tn_zip_sink_fn)(void *ctx, const void *bytes, size_t n, struct tn_error *err);

/* path may also name one regular file, which is then the only entry.  NULL with err when path does
 * not exist, a file cannot be read, or the deadline passes. */
struct tn_zip_plan *tn_zip_plan_new(const char *path, const char *spool_dir, int64_t deadline,
                                    struct tn_error *err);
void tn_zip_plan_free(struct tn_zip_plan *plan);

uint64_t tn_zip_plan_length(const struct tn_zip_plan *plan);
uint64_t tn_zip_plan_entries(const struct tn_zip_plan *plan);

/* Gives exactly the planned length to the sink, in pieces of at most 64 KiB.  Call it once. */
int tn_zip_plan_send(struct tn_zip_plan *plan, tn_zip_sink_fn sink, void *ctx,
                     struct tn_error *err);

#endif
