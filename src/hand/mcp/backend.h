/* One MCP server of the sandbox: its process, started when it is needed and again when it ended,
 * and calls to it. */
#ifndef TN_HAND_MCP_BACKEND_H
#define TN_HAND_MCP_BACKEND_H

#include "hand/hand.h"
#include "hand/mcp/spec.h"
#include "mcp/peer.h"
#include "mcp/serve.h"

struct mcp_backend;
struct mcp_run; /* one life of the process */

struct mcp_backend_ops {
    /* What the server asks or tells, in the thread that reads from it: must not block.  A request
     * is answered with mcp_run_answer. */
    void (*request)(void *ctx, struct mcp_backend *b, struct mcp_run *run,
                    const struct tn_rpc *message);
    void (*notification)(void *ctx, struct mcp_backend *b, const struct tn_rpc *message);
    /* It is up; again: after it had ended. */
    void (*up)(void *ctx, struct mcp_backend *b, bool again);
    /* It shall be told anew what we want to hear of. */
    void (*listen)(void *ctx, struct mcp_backend *b);
    /* What this client wants to hear of what is logged for its requests: a level, or NULL. */
    const char *(*level)(void *ctx, const struct tn_mcp_client *client);
};

/* The spec is the backend's from now on. */
struct mcp_backend *mcp_backend_new(struct tn_hand *hand, struct mcp_spec *spec,
                                    const struct mcp_backend_ops *ops, void *ctx);
struct mcp_backend *mcp_backend_ref(struct mcp_backend *b);
void mcp_backend_unref(struct mcp_backend *b);
const struct mcp_spec *mcp_backend_spec(const struct mcp_backend *b);

/* Begins to start it, unless it runs; does not wait. */
void mcp_backend_wake(struct mcp_backend *b);
/* Waits until it runs: 0, or -1 with why it does not. */
int mcp_backend_ready(struct mcp_backend *b, int64_t deadline, struct tn_error *err);
/* Ends the process; forever: it cannot be started any more. */
void mcp_backend_end(struct mcp_backend *b, bool forever);
/* Waits until nothing of an ended one is left. */
void mcp_backend_await(struct mcp_backend *b, int64_t deadline);

/* Starts it if need be, asks, and waits for the answer, which is the caller's to end.  `request` is
 * whom it is done for, or NULL.  err (required): TN_E_GONE when cancelled. */
int mcp_backend_call(struct mcp_backend *b, const char *method, const char *params,
                     struct tn_mcp_request *request, struct tn_rpc *answer, struct tn_error *err);
/* The same with answers to what a server without sessions has asked in its result before: members
 * of params, as text without braces. */
int mcp_backend_call_again(struct mcp_backend *b, const char *method, const char *params,
                           const char *inputs, struct tn_mcp_request *request,
                           struct tn_rpc *answer, struct tn_error *err);
/* Asks a server that runs something whose answer does not matter; nothing happens for one that does
 * not.  Never blocks. */
void mcp_backend_ask(struct mcp_backend *b, const char *method, const char *params);
/* Whether a running server has said it can do that ("prompts"). */
bool mcp_backend_can(struct mcp_backend *b, const char *capability);
/* Whether it tells of changes of single resources. */
bool mcp_backend_subscribes(struct mcp_backend *b);
/* Whether it speaks the revision without sessions: it asks in results, not in the middle. */
bool mcp_backend_is_modern(struct mcp_backend *b);
/* Whether the server that runs was not told this level of logging before; it counts as told now. */
bool mcp_backend_note_level(struct mcp_backend *b, int level);
/* Tells a running server of that revision what we want to hear of (a JSON object), in the place of
 * what it was told before; nothing happens for others.  Never blocks. */
int mcp_backend_listen(struct mcp_backend *b, const char *notifications, struct tn_error *err);

enum mcp_list { MCP_TOOLS, MCP_PROMPTS, MCP_RESOURCES, MCP_TEMPLATES, MCP_LIST_COUNT };
/* A list as several threads hold it: never changed, only replaced. */
struct mcp_items {
    int refs; /* atomic */
    struct tn_json *array;
};
void mcp_items_unref(struct mcp_items *items); /* also NULL */
static inline void mcp_guard_items(struct mcp_items **items)
{
    mcp_items_unref(*items);
}
#define mcp_autoitems TN_CLEANUP(mcp_guard_items)

/* All pages of a list; the caller's reference, or NULL with err.  Kept until the server says that
 * it changed, or ends. */
struct mcp_items *mcp_backend_list(struct mcp_backend *b, enum mcp_list which,
                                   struct tn_error *err);

/* The requests of clients without sessions that are under way here, with a reference each; how many
 * there are. */
size_t mcp_backend_requests(struct mcp_backend *b, struct tn_mcp_request ***requests);
/* The latest request under way here whose client can be asked that, with a reference; or NULL. */
struct tn_mcp_request *mcp_backend_cause(struct mcp_backend *b, const char *capability);
struct mcp_run *mcp_run_ref(struct mcp_run *run);
void mcp_run_unref(struct mcp_run *run);
void mcp_run_answer(struct mcp_run *run, const struct tn_json *id, int64_t code, const char *text);

struct mcp_backend_totals {
    int running;
    int64_t memory;
    int restarts;
};
/* Appends its object to an array and adds to the totals. */
void mcp_backend_status(struct mcp_backend *b, struct tn_jw *w, struct mcp_backend_totals *totals);
pid_t mcp_backend_pid(struct mcp_backend *b); /* 0: none */

#endif
