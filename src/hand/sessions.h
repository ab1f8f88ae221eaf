/* The named shell sessions of this hand.  "main" always exists. */
#ifndef TN_HAND_SESSIONS_H
#define TN_HAND_SESSIONS_H

#include "hand/shell/session.h"

#define TN_MAIN_SESSION "main"

struct tn_sessions;

/* defaults: what new sessions get unless told otherwise; borrowed strings must outlive the
 * registry. */
struct tn_sessions *tn_sessions_new(const struct tn_session_options *defaults, size_t max);
/* No session starts a shell any more. */
void tn_sessions_close(struct tn_sessions *r);
/* Kills and removes all of them. */
void tn_sessions_free(struct tn_sessions *r);

/* -1 when no session can have that name. */
int tn_sessions_check_name(const char *name, struct tn_error *err);

/* Names are 1 to 40 letters, digits, '-', '_' or '.'.  program and cwd may be NULL for the
 * defaults.  The caller unrefs what it gets.  create: TN_E_CONFLICT when it exists, TN_E_BUSY when
 * there are too many. */
struct tn_session *tn_sessions_create(struct tn_sessions *r, const char *name, const char *program,
                                      const char *cwd, struct tn_error *err);
struct tn_session *tn_sessions_get(struct tn_sessions *r, const char *name, struct tn_error *err);
/* Gets it, or creates it with the defaults: for actions that name a session. */
struct tn_session *tn_sessions_ensure(struct tn_sessions *r, const char *name,
                                      struct tn_error *err);
/* Kills and forgets it; the main one cannot be removed (TN_E_CONFLICT). */
int tn_sessions_remove(struct tn_sessions *r, const char *name, struct tn_error *err);
void tn_sessions_each(struct tn_sessions *r, void (*fn)(struct tn_session *s, void *ctx),
                      void *ctx);

/* A session of its own for one command, in no list. */
struct tn_session *tn_sessions_temporary(struct tn_sessions *r, const char *cwd);

#endif
