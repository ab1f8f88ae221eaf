/* Inside a backend: shared by its life (process.c) and its use (backend.c). */
#ifndef TN_HAND_MCP_BACKEND_INTERNAL_H
#define TN_HAND_MCP_BACKEND_INTERNAL_H

#include <pthread.h>

#include "base/clock.h"
#include "hand/helper.h"
#include "hand/mcp/backend.h"
#include "mcp/meta.h"
#include "mcp/pipe.h"

/* A request under way, on the stack of who carries it out. */
struct mcp_active {
    struct mcp_active *next;
    struct tn_mcp_request *request;
};

enum { MCP_SILENT_MAX = 2 };

struct mcp_run {
    int refs; /* of the backend's lock */
    struct mcp_backend *backend;
    struct tn_helper *helper;
    struct tn_mcp_pipe *pipe;
    struct tn_mcp_peer *peer;
    bool modern;       /* it speaks the revision without sessions; set before it is up */
    int64_t listening; /* the request by which it tells of changes, in that revision; 0: none */
    int64_t listened;  /* since when */
    bool unheard;      /* that request has ended by itself */
    int level;         /* of logging, plus 1, that it was told last; 0: none */
    bool wanted_end;   /* we ended it */
    bool dead;
    int silent; /* calls in a row that ran out of time while nothing was heard */
};

enum mcp_state { MCP_OFF, MCP_STARTING, MCP_UP };

struct mcp_backend {
    struct tn_hand *hand;
    struct mcp_spec spec;
    const struct mcp_backend_ops *ops;
    void *ctx;
    pthread_mutex_t lock; /* of all that follows */
    pthread_cond_t changed;
    int refs;
    int threads; /* that start it or read from it */
    enum mcp_state state;
    bool ended; /* for ever */
    unsigned attempts;
    struct mcp_run *run;   /* the present one, also while it starts */
    struct tn_json *hello; /* what it said to initialize or server/discover */
    bool modern;           /* to the latter */
    struct tn_backoff backoff;
    int starts; /* that succeeded */
    char *last_error;
    int64_t noise;   /* lines that were no messages */
    int64_t dropped; /* messages beyond what is passed on in a second */
    int64_t second;  /* the present one */
    int in_second;
    struct mcp_active *active;
    struct mcp_items *lists[MCP_LIST_COUNT];
    unsigned list_version[MCP_LIST_COUNT];
};

/* Begins to start it in a thread of its own.  With the lock held, in state MCP_OFF. */
void mcp_start(struct mcp_backend *b);
/* Listens again to a server that has ended that, at most once a second: when it ends, and with
 * every call after that. */
void mcp_listen_again(struct mcp_run *run);
/* Forgets what it listed. */
void mcp_forget_list(struct mcp_backend *b, enum mcp_list which);
/* What the hand says of itself; capabilities are the caller's to set. */
#define MCP_HAND_META                         \
    (struct tn_mcp_meta)                      \
    {                                         \
        "tendon-hand", TN_VERSION, "{}", NULL \
    }
void mcp_set_error(struct mcp_backend *b, const char *fmt, ...) TN_PRINTF(2, 3);

#endif
