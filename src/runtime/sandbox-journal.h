/* The journal of a sandbox: each action and what came of it, without what nobody should read.
 *
 * Whoever sends an action to a hand notes both here: the library for its handles, the service for
 * its boxes.  A journal that cannot be written never stops an action. */
#ifndef TN_RUNTIME_SANDBOX_JOURNAL_H
#define TN_RUNTIME_SANDBOX_JOURNAL_H

#include "event/stream.h"
#include "runtime/config.h"

struct tn_sandbox_journal {
    const char *directory;          /* of the sandbox */
    const char *key;                /* of its hand */
    const struct tn_json *env;      /* of its spec */
    const struct tn_config *config; /* what it knows of MCP servers is hidden too */
};

/* The stream to note in, from any thread; NULL when there can be none.  tn_stream_close ends it. */
struct tn_stream *tn_sandbox_journal_open(const struct tn_sandbox_journal *of);

/* All of these take a NULL stream, and do nothing then. */

/* The id that the action got, or -1.  Set-up by the host (hidden actions) is not noted: it may hold
 * values that nobody should read. */
int64_t tn_note_action(struct tn_stream *s, const struct tn_action *action);
/* What became of it; nothing for a cause of -1, nor for a `null` observation: nothing has. */
void tn_note_observation(struct tn_stream *s, const struct tn_action *action, int64_t cause,
                         const struct tn_observation *observation);
/* A variable of that name holds what nobody should read. */
bool tn_names_secret(const char *name);

#endif
