/* Plugins that are programs of their own: executables tendon-plugin-NAME that speak JSON-RPC 2.0,
 * one message per line, on standard input and output.  docs/plugins.md describes what is said.
 *
 * One runs only when the host named it, never out of the workspace, with the rights of the agent's
 * user; it starts with its first action, answers one call at a time, and one that breaks down is
 * dropped and started again. */
#ifndef TN_HAND_EXTERNAL_H
#define TN_HAND_EXTERNAL_H

#include "hand/plugin.h"

/* Where such a program is looked for. */
#define TN_EXTERNAL_PLACE "into a directory of TENDON_PLUGIN_PATH or PATH of the hand"

struct tn_external;

/* Its path, on the heap; NULL when there is none, or only in the workspace. */
char *tn_plugin_search(const struct tn_hand_options *options, const char *name);
/* Calls fn with the names of all there are, each once. */
void tn_external_list(const struct tn_hand_options *options,
                      void (*fn)(const char *name, void *ctx), void *ctx);

/* Starts nothing and cannot fail: a program that is gone meanwhile is missed when it is wanted. */
struct tn_external *tn_external_open(struct tn_hand *hand, const char *name);
/* Its row, whose state it is; lives as long as it does. */
const struct tn_plugin *tn_external_row(const struct tn_external *x);

/* Carries out an action of type TN_ACTION_PLUGIN: an `mcp` observation, or an `error`. */
void tn_external_execute(struct tn_external *x, const struct tn_action *a,
                         struct tn_observation *o);

#endif
