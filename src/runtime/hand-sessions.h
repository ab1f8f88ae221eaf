/* Shell sessions of a sandbox, through its hand: /v1/sessions.  Each call is a connection of its
 * own, so that any thread may make one while another waits for a command. */
#ifndef TN_RUNTIME_HAND_SESSIONS_H
#define TN_RUNTIME_HAND_SESSIONS_H

#include "runtime/hand-answer.h"

/* Makes it: shell and cwd may be NULL.  TN_E_CONFLICT when the name is taken. */
int tn_hand_session_make(const struct tn_hand_address *at, const char *name, const char *shell,
                         const char *cwd, int64_t deadline, struct tn_error *err);
/* "INT" to what runs there; TN_E_CONFLICT when nothing does. */
int tn_hand_session_signal(const struct tn_hand_address *at, const char *name, const char *number,
                           int64_t deadline, struct tn_error *err);
/* Kills the shell and all on its terminal; the next one has its directory and environment. */
int tn_hand_session_kill(const struct tn_hand_address *at, const char *name, int64_t deadline,
                         struct tn_error *err);
int tn_hand_session_remove(const struct tn_hand_address *at, const char *name, int64_t deadline,
                           struct tn_error *err);
/* What docs/api.md says of one session; the caller frees *out. */
int tn_hand_session_get(const struct tn_hand_address *at, const char *name, struct tn_json **out,
                        int64_t deadline, struct tn_error *err);

#endif
