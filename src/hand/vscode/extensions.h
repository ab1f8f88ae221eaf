/* The extensions that every editor gets: hello-world and memory-monitor. */
#ifndef TN_HAND_VSCODE_EXTENSIONS_H
#define TN_HAND_VSCODE_EXTENSIONS_H

#include "base/error.h"

struct tn_hand;

/* Puts them into the editor's directory of extensions, as the agent's user and before the editor
 * runs.  What is there already stays as it is, whoever put it there, but for an older version of
 * ours; what was there once and has been removed stays away.  -1: some are missing; err
 * says why. */
int editor_extensions_install(struct tn_hand *hand, const char *directory, struct tn_error *err);

#endif
