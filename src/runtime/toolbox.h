/* The tools that an agent has: those of MCP servers, wherever they run.
 *
 * Servers of [mcp] in the configuration are asked from here; those that are programs run inside the
 * sandbox, whose hand is then one server more.  Each has one long-lived client: connected when
 * first needed, connected anew after a loss.  A toolbox serves several threads. */
#ifndef TN_RUNTIME_TOOLBOX_H
#define TN_RUNTIME_TOOLBOX_H

#include "event/action.h"
#include "event/observation.h"
#include "runtime/config.h"

struct tn_toolbox;

/* Where the hand of the sandbox is: 0 with both on the heap (key may be NULL), or -1 with err. */
typedef int (*tn_toolbox_reach_fn)(void *ctx, char **address, char **key, int64_t deadline,
                                   struct tn_error *err);
/* What went wrong without being a failure, one sentence; never holds a secret.  Any thread. */
typedef void (*tn_toolbox_note_fn)(const char *text, void *ctx);

/* A person is to open this address in a browser, to log in somewhere.  0 at once when the browser
 * will come back to us by itself; or 0 with the address that it ended at, on the heap; or -1 with
 * err.  `stop` is readable when nobody waits for the login any more; -1: somebody always does. */
typedef int (*tn_toolbox_visit_fn)(const char *url, char **ended, int stop, int64_t deadline,
                                   void *ctx, struct tn_error *err);

/* A server asks the caller something in the middle of a call (elicitation): params as it sent them,
 * an object with "message" and "requestedSchema".  Appends the answer, an object with "action" and
 * "content".  -1 with err: it is told that nobody answers.  `stop` is readable when nobody wants
 * the answer any more.  Any thread, one at a time. */
typedef int (*tn_toolbox_question_fn)(const char *server, const struct tn_json *params, int stop,
                                      struct tn_jw *answer, void *ctx, struct tn_error *err);

struct tn_toolbox_options {
    const struct tn_config *config; /* NULL: only servers that are added */
    tn_toolbox_reach_fn reach;      /* NULL: no sandbox, and no programs of [mcp] */
    void *reach_ctx;
    const char *session;     /* its id, for servers that want to know; or NULL */
    tn_toolbox_note_fn note; /* or NULL */
    void *note_ctx;
    const char *state;         /* the state directory, for logins; NULL: that of config, or none */
    tn_toolbox_visit_fn visit; /* NULL: nobody can log in; logins of before are used */
    tn_toolbox_question_fn question; /* NULL: servers are told that there is nobody to ask */
    void *person_ctx;                /* of both */
    size_t max_message;              /* bytes of one message of a server; 0: 32 MiB */
};

/* Copies what it needs; connects to nobody yet.  NULL with err. */
struct tn_toolbox *tn_toolbox_new(const struct tn_toolbox_options *options, struct tn_error *err);
/* No call may be under way. */
void tn_toolbox_free(struct tn_toolbox *t);
static inline void tn_guard_toolbox(struct tn_toolbox **t)
{
    tn_toolbox_free(*t);
}
#define tn_autotoolbox TN_CLEANUP(tn_guard_toolbox)

/* --- further servers, before the first use or later ----------------------------------------- */

/* At a URL, streamable HTTP or the older HTTP+SSE, whichever it speaks; key may be NULL. */
int tn_toolbox_add_url(struct tn_toolbox *t, const char *url, const char *key,
                       struct tn_error *err);
/* A program on this machine, which ends with the toolbox: a line for the shell.  Of our environment
 * it gets what every program needs, and no keys. */
int tn_toolbox_add_program(struct tn_toolbox *t, const char *command, struct tn_error *err);
/* What a microagent brings (its mcp_tools): programs for the sandbox. */
int tn_toolbox_add_microagent(struct tn_toolbox *t, const struct tn_json *mcp_tools,
                              struct tn_error *err);

/* --- logins of servers at URLs that want one (OAuth) ---------------------------------------- */

/* How to log in; what is NULL or 0 is found out.  A secret is sent to nobody but `issuer`, or else
 * the one that the server names at the first login. */
struct tn_toolbox_login {
    const char *client, *secret; /* that are known there already */
    const char *key;             /* a file: the private key (PEM) that it signs with instead */
    const char *workload;        /* a file: the token that its surroundings give it (RFC 7523) */
    const char *document;        /* the https URL of a description of the client, which is its id */
    const char *issuer;
    const char *scope;
    bool machine; /* the client acts for itself, with one of these: nobody logs in */
    int port;     /* of 127.0.0.1, where the browser comes back to */
};
/* Forgets the login of before and keeps how to do it: the next use of the server logs in. */
int tn_toolbox_prepare_login(struct tn_toolbox *t, const char *url,
                             const struct tn_toolbox_login *login, struct tn_error *err);
/* Forgets the login. */
int tn_toolbox_logout(struct tn_toolbox *t, const char *url, struct tn_error *err);

/* --- use ------------------------------------------------------------------------------------ */

struct tn_tool {
    const char *server; /* for people */
    const char *name;
    const struct tn_json *json; /* as the server lists it */
};
/* Non-zero stops. */
typedef int (*tn_tool_fn)(const struct tn_tool *tool, void *ctx);
/* A server that could not be asked, or has a complaint. */
typedef void (*tn_tool_problem_fn)(const char *server, const struct tn_error *why, void *ctx);

/* All tools, servers in the order in which tools are looked for; of two tools with one name the
 * first counts.  problem may be NULL.  Returns how many servers gave a list. */
int tn_toolbox_list(struct tn_toolbox *t, int64_t deadline, tn_tool_fn fn,
                    tn_tool_problem_fn problem, void *ctx);

/* Carries out a call_tool_mcp action.  There is always an observation, made in uninitialised
 * memory: `mcp`, or `error` when nobody has such a tool.  Returns by the action's timeout (120 s
 * when it has none) + 1 s. */
void tn_toolbox_execute(struct tn_toolbox *t, const struct tn_action *action,
                        struct tn_observation *observation);

/* The tool as language models are told of it: {"type": "function", "function": {"name",
 * "description", "parameters"}}. */
void tn_tool_put_function(struct tn_jw *w, const struct tn_json *tool);

#endif
