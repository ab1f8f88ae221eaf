/* The lines of a journal; private to it.
 *
 *     00000057 1f0c93ab 000000000012 {"id":12,...}
 *
 * Length of the JSON in hexadecimal, checksum (CRC-32, hexadecimal) of everything behind it, id in
 * decimal, the event, LF.  JSON as we write it never holds a line break, so lines begin and end
 * where they seem to, from whichever side a file is read. */
#ifndef TN_EVENT_JOURNAL_LINE_H
#define TN_EVENT_JOURNAL_LINE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/error.h"
#include "event/journal.h"

#define LINE_HEAD 31 /* bytes before the JSON */
/* The longest line, and some room for the id. */
#define LINE_MAX_BYTES (TN_EVENT_MAX + LINE_HEAD + 64)
/* The highest id there is room for. */
#define LINE_LAST_ID INT64_C(999999999999)
/* No writer holds a lock for longer than an append takes. */
#define LOCK_SECONDS 10.0

/* Writes the head of a line (and a NUL) for an event that consists of these two parts. */
void line_head(char out[LINE_HEAD + 1], int64_t id, const char *first, size_t first_n,
               const char *rest, size_t rest_n);

/* Reads a line without its LF; false when it is not what was written. */
bool line_parse(const char *line, size_t n, struct tn_journal_event *event);

/* Reads the file into a buffer: at least one byte at `at`, at most `most`.  How many, 0 at the end
 * of the file, -1. */
ssize_t line_pread(int fd, struct tn_buf *into, off_t at, size_t most, struct tn_error *err);

/* Start of the line that ends before `end` (the offset behind an LF), not before `floor`; -1. */
off_t line_start_before(int fd, off_t floor, off_t end, struct tn_error *err);
/* Offset behind the first LF at or behind `from`, `end` when there is none before it; -1. */
off_t line_start_after(int fd, off_t from, off_t end, struct tn_error *err);

#endif
