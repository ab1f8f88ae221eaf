/* What a stream of a process has said: the last bytes of it, by offset from its beginning.
 *
 * Memory only, and bounded: the oldest bytes go first.  No locks: the process has one. */
#ifndef TN_HAND_PROCESS_LOG_H
#define TN_HAND_PROCESS_LOG_H

#include <stddef.h>
#include <stdint.h>

struct process_log {
    char *ring; /* grows up to max; byte `offset` is at offset % cap */
    size_t cap, max;
    uint64_t first, end; /* the bytes that are kept: from first, before end */
};

void process_log_init(struct process_log *log, size_t max);
void process_log_done(struct process_log *log);

void process_log_add(struct process_log *log, const void *bytes, size_t n);
/* At most n bytes from *offset on, which is moved to the first byte kept if those before it are
 * gone.  How many; 0: there are none yet. */
size_t process_log_read(const struct process_log *log, uint64_t *offset, void *to, size_t n);
/* Gives back the memory that its bytes do not need: nothing is added any more. */
void process_log_shrink(struct process_log *log);

#endif
