/* What one command wrote, byte for byte, addressable by offset.
 *
 * Small outputs stay in memory; a larger one moves to a file that the sandbox user may read.  A
 * file over its cap loses its oldest bytes (a hole is punched, offsets stay true), so disk use is
 * bounded.  Shared between the thread that appends and any number of readers. */
#ifndef TN_HAND_SHELL_OUTPUT_H
#define TN_HAND_SHELL_OUTPUT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/error.h"

struct tn_output;

struct tn_output_options {
    const char *directory; /* where the file goes when one is needed; must outlive the output */
    gid_t group;           /* may read the file */
    uint64_t cap;          /* bytes kept on disk */
};

struct tn_output_state {
    uint64_t size;  /* bytes written so far */
    uint64_t first; /* offset of the oldest byte still kept */
    bool finished;
};

struct tn_output *tn_output_new(const char *id, const struct tn_output_options *options);
struct tn_output *tn_output_ref(struct tn_output *o);
void tn_output_unref(struct tn_output *o); /* the last one removes the file */

const char *tn_output_id(const struct tn_output *o);
/* Path of the file, or NULL while everything is in memory. */
const char *tn_output_path(const struct tn_output *o);
struct tn_output_state tn_output_state(struct tn_output *o);

/* Never fails for the caller: when the disk is full the bytes are counted and dropped. */
void tn_output_append(struct tn_output *o, const char *bytes, size_t n);
void tn_output_finish(struct tn_output *o);

/* Up to n bytes at offset: the count, 0 when there are none yet (or at the end of a finished
 * output), -1 with TN_E_GONE when they are discarded. */
ssize_t tn_output_read(struct tn_output *o, uint64_t offset, char *to, size_t n,
                       struct tn_error *err);
/* Waits until there are bytes after offset or it is finished; false when the deadline passed. */
bool tn_output_wait(struct tn_output *o, uint64_t offset, int64_t deadline);

#endif
