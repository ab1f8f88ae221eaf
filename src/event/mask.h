/* Secrets that no event may show.
 *
 * Every occurrence of a value in any string of an event is replaced by <secret_hidden>, however
 * deep it lies in lists and objects, in member names of free form too, and in `message`.  Left
 * alone are the top-level timestamp, id, source, cause, action and observation, which say what an
 * event is.  Found are the value itself (without white space around it) and the forms in which
 * programs print it: as part of a JSON string, percent-encoded for a URL, with CR LF at its line
 * ends.  Not found: a value shorter than TN_SECRET_LEAST bytes, one that was encoded in another way
 * (base64, reversed), one that is spread over several strings, and numbers that are not strings. */
#ifndef TN_EVENT_MASK_H
#define TN_EVENT_MASK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/error.h"

#define TN_SECRET_HIDDEN "<secret_hidden>"

/* Shorter values would turn ordinary text into noise, and hide nothing. */
#define TN_SECRET_LEAST 4
/* Of all values together. */
#define TN_SECRET_BYTES (256u << 10)

struct tn_secret {
    const char *name, *value;
};

struct tn_mask;

struct tn_mask *tn_mask_new(void);
void tn_mask_free(struct tn_mask *m);

/* Replaces all secrets by these.  After a failure (TN_E_TOO_LARGE) those before are still hidden.
 */
int tn_mask_set(struct tn_mask *m, const struct tn_secret *secrets, size_t count,
                struct tn_error *err);
/* Adds these.  A new value of a known name does not uncover the old one, which may still be in use
 * somewhere. */
int tn_mask_update(struct tn_mask *m, const struct tn_secret *secrets, size_t count,
                   struct tn_error *err);
/* Nothing is hidden: the functions below would only copy. */
bool tn_mask_empty(const struct tn_mask *m);

/* The following may run in several threads at once, as long as none changes the set. */

/* Appends the event, one JSON object, to out.  -1 when it is no JSON or out is full; what was
 * appended by then is of no use. */
int tn_mask_event(const struct tn_mask *m, const char *json, size_t n, struct tn_buf *out,
                  struct tn_error *err);
/* Appends plain text to out; -1 when it is full. */
int tn_mask_text(const struct tn_mask *m, const char *text, size_t n, struct tn_buf *out);

#endif
