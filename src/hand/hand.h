/* The server's own state: one per process, made by main.c, read by the routes. */
#ifndef TN_HAND_HAND_H
#define TN_HAND_HAND_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "hand/once.h"
#include "hand/options.h"
#include "hand/sessions.h"
#include "hand/state.h"
#include "hand/user.h"

struct tn_editor;
struct tn_plugin_states;
struct tn_processes;

struct tn_hand {
    struct tn_hand_options options;
    struct tn_state *state;
    struct tn_agent_user user; /* who the agent is */
    char **shell_env;          /* environment of new shells */
    struct tn_sessions *sessions;
    struct tn_processes *processes; /* atomic while the server starts */
    struct tn_once *once;
    struct tn_editor *editor;
    struct tn_plugin_states *plugins; /* atomic while the server starts: see plugin.h */
    int ending;                       /* eventfd: readable once the hand is about to end */
    bool ready;                       /* atomic: the main shell has read its start-up files */
    int becoming_ready;               /* eventfd: readable from then on */
    int64_t started;
    int64_t last_action; /* atomic: when the latest action began */
};

#endif
