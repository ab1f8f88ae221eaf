/* The journal: every event of a session, in order, on disk.
 *
 * A session has a directory.  The journal is the file events.log in it; docs/internals/events.md
 * describes its bytes.  It is only ever appended to, one checked line for each event, so a reader
 * may come at any time and a writer may die at any byte: half a line at the end is not an event,
 * and the next writer cuts it off.  Several processes may write: a lock gives each event the next
 * id, from 0, and an id is never given twice.
 *
 * What was appended survives the end of the process at once (it is in the kernel), and a power
 * failure with TN_JOURNAL_SYNC; without that a power failure may cost the last seconds. */
#ifndef TN_EVENT_JOURNAL_H
#define TN_EVENT_JOURNAL_H

#include <stdint.h>

#include "base/error.h"

#define TN_JOURNAL_LOG "events.log"

/* Bytes of one event as JSON; what a hand may answer is smaller. */
#define TN_EVENT_MAX ((size_t)256 << 20)

enum tn_journal_flags {
    TN_JOURNAL_SYNC = 1,     /* an event is on the disk when append returns */
    TN_JOURNAL_EXISTING = 2, /* a directory that is missing is not made: TN_E_NOT_FOUND */
};

/* --- writing ---------------------------------------------------------------------------------- */

struct tn_journal;

/* Opens the journal of a directory, which is made (0700) when missing, and mends what a killed
 * writer left.  Events that are there only in OpenHands' layout (events/ID.json) are taken over. */
struct tn_journal *tn_journal_open(const char *directory, unsigned flags, struct tn_error *err);
void tn_journal_close(struct tn_journal *j);

/* Appends an event, one JSON object without `id` and without line breaks; it gets the next id as
 * its first member.  For one thread at a time; waits for other writers, at most ten seconds
 * (TN_E_TIMEOUT).  After an error nothing was added.  TN_E_GONE: the directory was removed. */
int tn_journal_append(struct tn_journal *j, const char *json, size_t n, int64_t *id,
                      struct tn_error *err);

/* The id that comes next, as far as this writer knows. */
int64_t tn_journal_next_id(const struct tn_journal *j);

/* --- reading ---------------------------------------------------------------------------------- */

struct tn_journal_reader;

/* One event; borrowed from the reader until its next call. */
struct tn_journal_event {
    int64_t id;
    const char *json;
    size_t len;
};

/* Reads from the first event whose id is at least `from`.  A directory without a journal is one
 * without events so far. */
struct tn_journal_reader *tn_journal_reader_new(const char *directory, int64_t from,
                                                struct tn_error *err);
void tn_journal_reader_free(struct tn_journal_reader *r);
static inline void tn_guard_journal_reader(struct tn_journal_reader **r)
{
    tn_journal_reader_free(*r);
}
#define tn_autojournalreader TN_CLEANUP(tn_guard_journal_reader)

/* 1 with the next event, 0 when there is none yet, -1.  Ids grow; where the disk lost something,
 * the events that are damaged are left out and tn_journal_damaged counts them. */
int tn_journal_next(struct tn_journal_reader *r, struct tn_journal_event *event,
                    struct tn_error *err);
int64_t tn_journal_damaged(const struct tn_journal_reader *r);

/* The id of the newest event; -1 when there is none, -2 with err. */
int64_t tn_journal_newest(const char *directory, struct tn_error *err);

/* Waits until there may be more to read: 0 then, also without reason.  `watch` is a descriptor that
 * ends the wait when it becomes readable, or -1.  -1: TN_E_TIMEOUT at the deadline, TN_E_GONE when
 * the directory is no more. */
int tn_journal_wait(struct tn_journal_reader *r, int watch, int64_t deadline, struct tn_error *err);

#endif
