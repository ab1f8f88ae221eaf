/* Plugins: abilities of the hand beyond shell and files, one row each.
 *
 * A row says what an ability is called, whether it can work in this sandbox, how it is started and
 * stopped, and which actions and routes it adds.  Nothing is started before its first use, unless
 * the row or the command line says so. */
#ifndef TN_HAND_PLUGIN_H
#define TN_HAND_PLUGIN_H

#include "base/json.h"
#include "event/action.h"
#include "event/observation.h"
#include "hand/actions.h"
#include "net/http-server.h"

struct tn_hand;
struct tn_hand_options;

/* An action of the event vocabulary that the ability carries out.  Fills *o (uninitialised memory);
 * whatever goes wrong is an observation.  Returns by the action's timeout + 1 s. */
struct tn_plugin_action {
    enum tn_action_type type;
    void (*execute)(struct tn_hand *hand, const struct tn_action *a, struct tn_observation *o,
                    struct tn_delivery *delivery);
};

enum {
    TN_PLUGIN_NAMED = 1,     /* a host must ask for it with --plugins */
    TN_PLUGIN_IMMEDIATE = 2, /* then it starts with the hand, in the background */
    TN_PLUGIN_BROWSER = 4,   /* --no-enable-browser switches it off */
};

struct tn_plugin {
    const char *name;
    const char *help;
    const char *install; /* how to get what is missing, in one line: "apt-get install chromium" */
    unsigned flags;
    const char *not_asked; /* what its actions answer when it is not enabled */

    /* Its state, made at start-up; starts nothing, cannot fail. */
    void *(*open)(struct tn_hand *hand);
    /* Ends everything it started; state is gone afterwards.  No action is under way any more. */
    void (*close)(void *state);
    /* Makes actions under way give up soon: the hand is about to end.  May be NULL. */
    void (*interrupt)(void *state);
    /* Makes what is under way now end as if its time were up; what comes next is as usual.  May be
     * NULL: then only its time or a stop ends it. */
    void (*cancel)(void *state);
    /* A shell session was removed: what goes with it ends.  May be NULL. */
    void (*session_gone)(void *state, const char *name);
    /* Can it work here?  0 with what was found ("/usr/bin/chromium"), or -1 with what is missing.
     * Looks at files only. */
    int (*probe)(void *state, struct tn_buf *found, struct tn_error *err);
    /* Returns when it is ready for its first action: 0, or -1 with err by the deadline.  May be
     * called again at any time, by several threads. */
    int (*start)(void *state, int64_t deadline, struct tn_error *err);
    void (*stop)(void *state); /* back to the state before start */
    /* Members of its object in /v1/plugins: "running" (bool), "pids", "memory" (bytes), "restarts"
     * and what else there is to tell. */
    void (*status)(void *state, struct tn_jw *w);

    const struct tn_plugin_action *actions; /* ended by a row without a function, or NULL */
    const struct tn_route *routes;          /* ended by {0}, or NULL; their context is the hand */
};

/* The abilities that are built in; those of their own programs are in hand/external. */
extern const struct tn_plugin tn_plugin_jupyter, tn_plugin_agent_skills, tn_plugin_vscode,
    tn_plugin_browser, tn_plugin_mcp;

/* All rows, ended by NULL. */
extern const struct tn_plugin *const tn_plugins[];
/* The row with that name, or NULL. */
const struct tn_plugin *tn_plugin_find(const char *name);
/* 0, or -1 for a name that is neither a row nor that of a program; the text lists those there are.
 */
int tn_plugin_check(const struct tn_hand_options *options, const char *name, struct tn_error *err);

/* Adds how to get what is missing to the text of err, and returns -1. */
int tn_plugin_lacks(const struct tn_plugin *plugin, struct tn_error *err);

/* --- in a running hand: the rows above, and one for each program that --plugins names ------ */

/* The states of all of them; to be kept in hand->plugins. */
struct tn_plugin_states;
struct tn_plugin_states *tn_plugins_open(struct tn_hand *hand);
/* Starts, in the background, those that shall not wait for their first use. */
void tn_plugins_start(struct tn_hand *hand);
/* The hand is about to end: actions under way give up.  May come before open has returned, and
 * again. */
void tn_plugins_interrupt(struct tn_hand *hand);
/* Waits for the background; no action may be under way. */
void tn_plugins_close(struct tn_hand *hand);

/* Tells all of them that a shell session was removed. */
void tn_plugins_session_gone(struct tn_hand *hand, const char *name);

size_t tn_plugins_count(const struct tn_hand *hand);
const struct tn_plugin *tn_plugins_at(const struct tn_hand *hand, size_t i);
/* What open returned for that row. */
void *tn_plugin_state(struct tn_hand *hand, const struct tn_plugin *plugin);
/* A row that is not NAMED, or that --plugins names, or that has been enabled since; never a browser
 * that is switched off. */
bool tn_plugin_enabled(const struct tn_hand *hand, const struct tn_plugin *plugin);
/* The owner asks for it now.  -1 when the command line forbids it. */
int tn_plugin_enable(struct tn_hand *hand, const struct tn_plugin *plugin, struct tn_error *err);

/* Carries out an action that some row claims.  -1 with err when none does, or the one that does was
 * not asked for; what an agent can recover from is an observation. */
int tn_plugins_execute(struct tn_hand *hand, const struct tn_action *a, struct tn_observation *o,
                       struct tn_delivery *delivery, struct tn_error *err);

#endif
