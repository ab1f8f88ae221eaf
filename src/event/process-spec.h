/* What somebody wants to start as a process of its own: the argument `process` of a `run` action.
 *
 * A hand runs it apart from its shells, with its output in logs of its own; the observation of the
 * action tells its id, and it goes on when that was told.  `command` of the action says the same as
 * the command line of a shell: tn_process_spec_command makes it of the rest, and an action where
 * the two differ is not carried out.  So whatever judges, shows or keeps the action sees what is
 * run.  (Not when an action is read: a journal has masked both.) */
#ifndef TN_EVENT_PROCESS_SPEC_H
#define TN_EVENT_PROCESS_SPEC_H

#include "base/field.h"
#include "event/observation.h"

enum {
    TN_PROCESS_ID_SIZE = 18, /* "p", 16 hexadecimal digits and a NUL */
    TN_PROCESS_TAG_MAX = 128,
};

/* error_id of the observation where one could not be started. */
#define TN_PROCESS_NOT_STARTED "PROCESS$NOT_STARTED"
#define TN_PROCESS_TOO_MANY "PROCESS$TOO_MANY" /* TN_E_BUSY: later it might */

struct tn_process_spec {
    struct tn_str_list args; /* the program and its arguments; at least one, none of them a shell's
                                syntax: {"/bin/sh", "-c", text} is how a text is run */
    struct tn_json *env; /* an object of strings, added to those of the sandbox's user; NULL: {} */
    char *cwd;  /* absolute, or below the home of the user; NULL: the hand's working directory */
    char *user; /* NULL: the sandbox's own.  Another one (a name or a number) only where the hand is
                   root. */
    char *tag;  /* the client's own name for it, at most TN_PROCESS_TAG_MAX bytes; NULL */
    bool input; /* standard input stays open until somebody closes it; else it is empty */
    bool pty;   /* on a terminal: one log, and input is always open */
    int64_t columns, rows; /* of the terminal; 0: 80 by 24 */
    double seconds;        /* after which it is killed with its group; 0: never */
};

void tn_process_spec_done(struct tn_process_spec *spec);
#define tn_autoprocess TN_CLEANUP(tn_process_spec_done)

/* The words "NAME=value program args..." as a shell would be given them; quoted where need be. */
void tn_process_spec_command(const struct tn_process_spec *spec, struct tn_buf *out);

/* Whether that can be the name of a variable, and a member the variable; ctx is the error. */
int tn_process_check_name(const char *name, struct tn_error *err);
int tn_process_check_variable(const char *name, struct tn_json *value, void *ctx);

/* A `run` action that starts it (in uninitialised memory; the caller ends it), where the hand gets
 * so many seconds for the start.  -1 with TN_E_INVALID: the spec makes no sense; there is nothing
 * to end then. */
int tn_action_init_process(struct tn_action *a, const struct tn_process_spec *spec, double seconds,
                           struct tn_error *err);

/* The spec of an action: 1 with the spec (the caller ends it), 0 when it starts no process, -1
 * TN_E_INVALID.  Whoever is about to carry out an action asks here first. */
int tn_action_process(const struct tn_action *a, struct tn_process_spec *out, struct tn_error *err);

/* The answer (in uninitialised memory) to one that could not be started. */
void tn_observation_init_not_started(struct tn_observation *o, const struct tn_action *a,
                                     const struct tn_error *why);

/* The rows of the object `process`; cwd is an argument of the action itself. */
extern const struct tn_fields tn_process_spec_fields;

/* All of it as one object, for lists. */
void tn_process_spec_to_json(const struct tn_process_spec *spec, struct tn_jw *w);
int tn_process_spec_from_json(const struct tn_json *json, struct tn_process_spec *out,
                              struct tn_error *err);

#endif
