/* Sandboxes whose network is behind a gate (docs/internals/gate.md): what is the same whichever
 * backend made them.  Their keeper answers in their directory (gate/keeper-protocol.h). */
#ifndef TN_RUNTIME_GATED_H
#define TN_RUNTIME_GATED_H

#include "runtime/backend.h"

#define TN_GATED_KEEPER "tendon-jail"
#define TN_GATED_GATE "tendon-gate"

/* Whether a network (enum tn_network, not the default) is one behind a gate. */
bool tn_gated(int network);
/* The rules of a sandbox with that network, which are the usual ones where its spec says allow and
 * names none; NULL: it has no gate. */
const struct tn_str_list *tn_gated_rules(int network, const struct tn_spec *spec,
                                         const struct tn_str_list *usual);
/* That the rules and secrets of the spec make sense with that network. */
int tn_gated_check(int network, const struct tn_spec *spec, struct tn_error *err);

/* Whether one of the rules is about requests inside TLS, for which the gate ends it. */
bool tn_gated_look_inside(const struct tn_str_list *rules);

/* Where TN_GATED_KEEPER or TN_GATED_GATE lies, on the heap; NULL with err. */
char *tn_gated_program(const struct tn_host *host, const char *name, struct tn_error *err);

/* The file that the keeper of a container holds a lock on (its first byte); -1: it never had one.
 */
int tn_gated_open_lock(const char *directory);
/* Whether a container has lost its keeper, and with it the way out: an inspect starts another.
 * Quick, and asks nobody. */
bool tn_gated_is_lost(const char *directory);

/* The rules as a keeper reads them, the name of the network first; one that is none (kept by an
 * older version) is an error. */
enum { TN_GATED_RULES_MAX = 1 << 20 };
int tn_gated_put_rules(struct tn_buf *text, int network, const struct tn_str_list *rules,
                       struct tn_error *err);
/* Writes TN_JAIL_RULES. */
int tn_gated_write_rules(const char *directory, int network, const struct tn_str_list *rules,
                         struct tn_error *err);
/* The same, and the keeper takes them. */
int tn_gated_reload(const char *directory, int network, const struct tn_str_list *rules,
                    int64_t deadline, struct tn_error *err);
/* tn_backend.refusals. */
int tn_gated_refusals(void *engine, const struct tn_subject *subject, struct tn_buf *out,
                      int64_t deadline, struct tn_error *err);
/* tn_backend.listen and .let. */
int tn_gated_listen(void *engine, const struct tn_subject *subject, int64_t deadline,
                    struct tn_error *err);
int tn_gated_let(void *engine, const struct tn_subject *subject, const char *host, int port,
                 bool allowed, int64_t deadline, struct tn_error *err);
/* Appends what the gate has refused last to the sentences of place.reason. */
void tn_gated_put_refusals(struct tn_buf *out, const struct tn_subject *subject, int64_t deadline);
/* The same from what a keeper has answered. */
void tn_gated_put_told(struct tn_buf *out, const struct tn_buf *answer);

#endif
