/* A recorded session: its events, and which observation answers which action.
 *
 * Read from a session's directory (our journal, or OpenHands' events/ID.json), or from a file: a
 * JSON list of events (an OpenHands trajectory), a list of [action, observation] pairs, an object
 * with such a list as `history`, `trajectory` or `events`, or one event on each line. */
#ifndef TN_RUNTIME_RECORDING_H
#define TN_RUNTIME_RECORDING_H

#include "base/error.h"
#include "base/json.h"

/* An action that a hand executes, and the recorded answer.  Borrowed from the recording. */
struct tn_recorded_step {
    const struct tn_json *action;
    const struct tn_json *observation; /* or NULL */
};

struct tn_recording {
    struct tn_json **events; /* owned */
    size_t event_count;
    struct tn_recorded_step *steps;
    size_t step_count;
};

/* Reads it into uninitialised memory; on failure there is nothing to free. */
int tn_recording_load(const char *path, struct tn_recording *out, struct tn_error *err);
/* From the text of such a file. */
int tn_recording_parse(const char *text, size_t n, struct tn_recording *out, struct tn_error *err);
void tn_recording_done(struct tn_recording *r);
#define tn_autorecording TN_CLEANUP(tn_recording_done)

#endif
