/* The inside of `tendon mcp`: sandboxes for MCP clients, the tools and the resources they get.
 *
 *   about.c       what a sandbox is like, for the model
 *   boxes.c       which sandboxes there are, and whose
 *   tools.c       the table of tools: listing and calling
 *   work.c        tools that are actions: shell, Python, browser
 *   running.c     an action while it runs
 *   elicit.c      whether it may be carried out
 *   file-tools.c  tools for files
 *   life.c        tools about sandboxes themselves
 *   files.c       whole files, to and from it
 *   resources.c   files as resources */
#ifndef TN_CLI_MCP_MCP_H
#define TN_CLI_MCP_MCP_H

#include <pthread.h>

#include "cli/cli.h"
#include "mcp/serve.h"

/* --- sandboxes ------------------------------------------------------------------------------ */

struct mcp_client;

/* One that this process has made for a client. */
struct box {
    struct box *next;
    struct mcp_client *owner; /* NULL: it outlives the request that made it */
    char *id;
};

struct mcp_service {
    struct cli *cli;
    const struct tn_spec *spec; /* what new ones are like */
    const char *given;          /* the one sandbox that all clients work in, or NULL */
    size_t limit;               /* most at once */
    pthread_mutex_t lock;       /* of what follows */
    pthread_cond_t changed;
    struct box *boxes;
    size_t count; /* of them, and of those in the making */
    bool ending;  /* no more are made */
};

struct mcp_client {
    struct mcp_service *service;
    bool passing;         /* it is gone after one request */
    pthread_mutex_t lock; /* held while its own sandbox is made */
    char *own;            /* id of the sandbox it works in unless it names one; NULL: not made */
};

void *mcp_client_open(void *ctx, struct tn_mcp_client *client);
/* Removes what it had. */
void mcp_client_close(void *ctx, void *state);
/* The same while requests of it are still under way, which end by it. */
void mcp_client_gone(struct mcp_client *c);

/* A handle of the sandbox with that id, which must be one of this process; which NULL or "": the
 * client's own, made now if it has none.  The caller frees it. */
struct tn_sandbox *mcp_sandbox(struct mcp_client *c, const char *which, struct tn_error *err);
/* The client's own, if it is there; NULL without err if not. */
struct tn_sandbox *mcp_own_sandbox(struct mcp_client *c, struct tn_error *err);
/* One more.  parent: a fork of that one's files. */
struct tn_sandbox *mcp_make(struct mcp_client *c, struct tn_sandbox *parent, struct tn_error *err);
int mcp_remove(struct mcp_client *c, const char *id, struct tn_error *err);
/* Id of the client's own, or NULL; the caller frees it. */
char *mcp_own_id(struct mcp_client *c);
/* Ids of those the client can name; the caller frees them and the list. */
struct tn_str_list mcp_list(struct mcp_client *c);
/* All of them, at the end; those in the making too, if that does not take long. */
void mcp_remove_all(struct mcp_service *s);

/* --- what they are like ---------------------------------------------------------------------- */

/* For the instructions: what is known of a sandbox before there is one. */
void mcp_put_about(struct mcp_service *s, struct tn_buf *out);
/* Members of an object: what the sandbox says of itself. */
int mcp_put_facts(const struct tn_config *config, struct tn_sandbox *sb, struct tn_jw *w,
                  struct tn_error *err);

/* --- tools ---------------------------------------------------------------------------------- */

struct tool_call {
    struct mcp_client *client;
    struct tn_mcp_request *request;
    struct tn_jw *content;   /* blocks are written here */
    struct tn_buf *data;     /* structuredContent, a JSON object; "" for none */
    struct tn_json *verdict; /* of the last action, when analyzers found something; or NULL */
    bool failed;             /* isError */
};

enum {
    TOOL_READ_ONLY = 1,
    TOOL_DESTRUCTIVE = 2,
    TOOL_IDEMPOTENT = 4,
    TOOL_OPEN_WORLD = 8,
};

struct tool {
    const char *name, *title, *description;
    unsigned hints;
    const struct tn_fields *arguments;
    size_t size;
    const char *result; /* outputSchema, as JSON, of one that gives structuredContent; or NULL */
    /* -1 with err: the tool failed, and the model is told why. */
    int (*call)(struct tool_call *c, const void *arguments, struct tn_error *err);
};

/* Tables, each ended by a row without a name. */
extern const struct tool work_tools[], file_tools[], life_tools[];

int tools_list(struct tn_mcp_request *request, struct tn_buf *result);
int tools_call(struct mcp_client *c, struct tn_mcp_request *request, struct tn_buf *result);

/* The row that every tool begins with. */
#define TOOL_SANDBOX(strukt)                                          \
    TN_STRING("sandbox", strukt, sandbox, .flags = TN_FIELD_NULLABLE, \
              .help = "id of a sandbox made by sandbox_new; default: your own")

/* Executes the action in that sandbox; the caller ends the observation.  What it does is
 * interrupted when the client gives up. */
int mcp_execute(struct tool_call *c, const char *sandbox, const struct tn_action *action,
                struct tn_observation *o, struct tn_error *err);

/* The same for one that this program carries out itself, with fn, which makes the observation: it
 * is judged, confirmed and journaled as the others are. */
int mcp_perform(struct tool_call *c, const char *sandbox, const struct tn_action *action,
                tn_perform_fn fn, void *ctx, struct tn_observation *o, struct tn_error *err);
/* tn_ask_fn, of a struct tool_call: asks the client's user, where the client can do that. */
enum tn_confirmation mcp_elicit(void *ctx, const char *sandbox, const char *directory,
                                const struct tn_pending *p);

void put_text(struct tool_call *c, const char *text, size_t n);
/* As much of it as a model gets to see of anything (TN_CONTENT_LIMIT): the middle of more is left
 * out. */
void put_output(struct tool_call *c, const char *text, size_t n);
/* An image from a data URL; false when it is none. */
bool put_image(struct tool_call *c, const char *url);
void put_image_bytes(struct tool_call *c, const char *type, const struct tn_buf *bytes);

/* --- files ---------------------------------------------------------------------------------- */

enum { MCP_FILE_MAX = 8 << 20 };

/* The path, absolute: one that is not starts where the main shell is.  The caller frees it. */
char *mcp_absolute(struct tn_sandbox *sb, const char *path, struct tn_error *err);
/* All bytes of a file.  bytes has room for MCP_FILE_MAX + 1. */
int mcp_fetch(struct tn_sandbox *sb, const char *path, struct tn_buf *bytes, struct tn_error *err);
/* Replaces the file or makes it, with its directories. */
int mcp_store(struct tn_sandbox *sb, const char *path, const char *bytes, size_t n,
              struct tn_error *err);
bool mcp_is_text(const struct tn_buf *bytes);

/* --- resources ------------------------------------------------------------------------------ */

int resources_list(struct mcp_client *c, struct tn_mcp_request *request, struct tn_buf *result);
int resources_templates(struct tn_mcp_request *request, struct tn_buf *result);
int resources_read(struct mcp_client *c, struct tn_mcp_request *request, struct tn_buf *result);

#endif
