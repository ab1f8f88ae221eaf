/* Plugins of a sandbox: which it can have, and those it has, through its hand: /v1/plugins. */
#ifndef TN_RUNTIME_HAND_PLUGINS_H
#define TN_RUNTIME_HAND_PLUGINS_H

#include "runtime/hand-answer.h"
#include "runtime/spec.h"

/* For a sandbox on the files of this machine: TN_E_INVALID for a plugin that its hand will neither
 * have built in nor find as a program tendon-plugin-NAME.  0 also when that cannot be known before,
 * because the spec says where programs are, or brings files along. */
int tn_plugins_check(const struct tn_spec *spec, struct tn_error *err);

/* What docs/api.md says of all of them, an array; the caller frees it.  TN_E_NOT_FOUND from a
 * server that has none of ours. */
int tn_hand_plugins(const struct tn_hand_address *at, struct tn_json **out, int64_t deadline,
                    struct tn_error *err);
/* Starts one, also one that nobody asked for, and waits until it is ready.  What it then says of
 * itself is in *out, which the caller frees. */
int tn_hand_plugin_start(const struct tn_hand_address *at, const char *name, struct tn_json **out,
                         int64_t deadline, struct tn_error *err);

/* Makes it end what it is doing now. */
int tn_hand_plugin_interrupt(const struct tn_hand_address *at, const char *name, int64_t deadline,
                             struct tn_error *err);

/* The one with that name among all of them, or NULL. */
const struct tn_json *tn_hand_plugin_named(const struct tn_json *plugins, const char *name);

#endif
