/* The API of E2B: its control plane (/sandboxes, /templates) and envd, the agent in its sandboxes.
 *
 * Unmodified clients work by E2B_API_URL and E2B_SANDBOX_URL, both the address of this service,
 * and a key in E2B_API_KEY.  What they ask for becomes boxes (box.h), files of a hand
 * (hand-files.h) and processes (process.h).  docs/clouds/e2b.md says what differs;
 * docs/internals/service-e2b.md why. */
#ifndef TN_SERVICE_E2B_H
#define TN_SERVICE_E2B_H

#include "base/clock.h"
#include "runtime/hand-files.h"
#include "service/api-native.h"
#include "service/surface.h"

/* Clients ask no more of an envd than its version had: metadata of files (0.6.2), entries in events
 * (0.6.3), directories on a network (0.6.4). */
#define E2B_ENVD_VERSION "0.6.4"
#define E2B_ATTRIBUTES "user.e2b." /* extended attributes that are the metadata of a file */
#define E2B_TEMPLATE "base"
#define E2B_GATEWAY "mcp-gateway" /* the template whose sandboxes have that command */
#define E2B_HOME "/home/user"
enum {
    E2B_ENVD_PORT = 49983,
    E2B_CODE_PORT = 49999,
    E2B_MCP_PORT = 50005,
    E2B_BODY_MAX = 1 << 20,
    E2B_ANSWER_MAX = 64 << 20,
};
#define E2B_SECONDS 60.0        /* for what a client waits for, as long as it does itself */
#define E2B_USUAL_TIMEOUT 300.0 /* of a sandbox, where nobody says one */

/* Looks at every request first.  Answers those for envd and returns true; errors of the control
 * plane are told in the vendor's shape from here on. */
bool e2b_take(struct tn_service *s, struct tn_http_exchange *x);

/* {"code": 404, "message": "..."}: a surface_reply_fn. */
int e2b_reply(struct tn_http_exchange *x, int status, const char *code, const char *detail);

/* --- a sandbox as the control plane shows it (object.c) ------------------------------------- */

/* The box that {id} names, in the caller's own tenant, with that scope; NULL: answered. */
struct box *e2b_box(struct tn_http_exchange *x, struct tn_service *s, unsigned scope);
/* A template or a snapshot (surface_is_layer). */
bool e2b_is_layer(const struct box_view *v);
/* "running" or "paused"; NULL: it is not there any more, to clients of E2B. */
const char *e2b_state(const struct box_view *v);
/* When it was started, in seconds since 1970. */
double e2b_started(const struct box_view *v);
/* "template" or "alias" of the template that it comes from. */
const char *e2b_template_of(const struct box_view *v, const char *member);
/* What create and connect answer with. */
void e2b_put_sandbox(struct tn_http_exchange *x, struct tn_jw *w, struct box *b);
/* What lists and info answer with; detail: all of it. */
void e2b_put_info(struct tn_http_exchange *x, struct tn_jw *w, const struct box_view *v,
                  bool detail);
/* Lists of what may go out (allowOut, denyOut; body says allow_internet_access), as members of a
 * spec: all (none of them), nothing (network none), what is named (allow), or all but what no gate
 * reaches (open). */
int e2b_put_network(struct tn_jw *w, const struct tn_json *body, const struct tn_json *network,
                    struct tn_error *err);

/* What opens envd of a sandbox: "ID_DIGITS".  It names the sandbox, since some clients (connect of
 * 2.9) forget to. */
enum { E2B_TOKEN = 11 + SURFACE_TOKEN };
void e2b_token(const struct tn_service *s, const char *id, char out[E2B_TOKEN]);

/* --- where sandboxes come from (create.c, templates.c, build.c) ------------------------------ */

/* In the metadata of a box: {"template", "alias", "cwd", "user"} of one that comes from a template
 * that a client has built, {"build"} of such a template itself. */
#define E2B_RECORD "$e2b"
#define E2B_PUBLIC "public" /* true there: its ports want no token, while the operator allows it */
/* Whether they are to be so by these lists of the network; usual: where they do not say. */
int e2b_read_public(const struct tn_service *s, const struct tn_json *network, bool usual,
                    bool *out, struct tn_error *err);
/* Somebody without a key at a port: 1 enters as who made the box, whose ports are public; 0: they
 * are not; -1: answered. */
int e2b_visit(struct tn_service *s, struct tn_http_exchange *x, const char *id, int port);

/* A template of the configuration, or the files of a box that was built as one or is a snapshot. */
struct e2b_origin {
    const char *template; /* borrowed; NULL: none */
    struct box *parent;
    struct tn_json *built; /* {"record", "env", "start", "ready"}; NULL: it is none of those */
    bool gateway;          /* its sandboxes have the command mcp-gateway */
};
void e2b_origin_done(struct e2b_origin *o);
#define autoorigin TN_CLEANUP(e2b_origin_done)
int e2b_find_origin(struct tn_service *s, const struct caller *who, const char *id,
                    struct e2b_origin *out, struct tn_error *err);
/* Whether every service has a template of that name, or the configuration of this one. */
bool e2b_is_usual(struct tn_service *s, const char *name);
/* A new box of that origin, as members of the body say (network, envVars, cpuCount, memoryMB,
 * fromImage). */
struct box *e2b_make_box(struct tn_service *s, const struct caller *who,
                         const struct e2b_origin *from, const struct tn_json *body,
                         struct box_wish *wish, struct tn_error *err);
/* Waits until it runs, with the command mcp-gateway if it is to have it.  One that does not come to
 * life is removed: clients know none that are not there. */
int e2b_await(struct box *b, const struct caller *who, bool gateway, struct tn_error *err);

/* Makes mcp-gateway a command in a box that runs. */
int e2b_add_gateway(struct box *b, struct tn_error *err);

/* A name as clients write it: "name" or "name:tag". */
struct e2b_name {
    char name[129], tag[129]; /* tag "": none was given */
};
int e2b_read_name(const char *text, struct e2b_name *out, struct tn_error *err);
/* The template of that name or id that a client has built: 1, 0 or -1. */
int e2b_find_built(struct tn_service *s, const struct caller *who, const char *id,
                   struct e2b_origin *out, struct tn_error *err);
/* The build has that tag now, and no other one of its name; those that have none any more go. */
int e2b_give_tag(struct tn_service *s, const char *tenant, const char *name, const char *tag,
                 const char *build, struct tn_error *err);
void e2b_drop_untagged(struct tn_service *s, const struct caller *who, const char *name);
/* The id of a new build, and that of the template of that name, the same for the same one of a
 * tenant: a template has many builds. */
enum { E2B_BUILD_ID = 37, E2B_TEMPLATE_ID = 21 };
int e2b_make_id(char out[E2B_BUILD_ID], struct tn_error *err);
void e2b_template_id(const struct tn_service *s, const char *tenant, const char *name,
                     char out[E2B_TEMPLATE_ID]);
/* What a service that was killed has left. */
int e2b_builds_begin(struct tn_service *s, struct tn_error *err);
/* Builds that were not started in time go, and archives whose build has ended or is gone. */
void e2b_builds_sweep(struct tn_service *s);

/* --- envd (envd.c) --------------------------------------------------------------------------- */

/* One request for envd of a box. */
struct e2b_call {
    struct tn_service *s;
    struct tn_http_exchange *x;
    struct box *b;
    char *home;          /* where paths that are not absolute begin */
    char *cwd;           /* of programs; NULL: home */
    char user[65];       /* as whom; "": the sandbox's own */
    char *id;            /* of a context, as its path has it; or NULL */
    char *address, *key; /* of its hand, once e2b_files was called */
};

/* Variables of a process that is to start: a token for a gateway opens its port from now on. */
int e2b_note_gateway(struct e2b_call *c, const struct tn_json *envs, struct tn_error *err);
/* A request for the port of the gateway in the box of that id: answered, if it has the token. */
bool e2b_take_gateway(struct tn_service *s, struct tn_http_exchange *x, const char *id);
/* The request goes to that port, from a caller who may: one that rests answers as the vendor does,
 * unless it is to wake. */
void e2b_pass(struct tn_http_exchange *x, struct box *b, int port);
/* The files of the box, with a connection of the caller's; NULL: answered. */
struct tn_hand_files *e2b_files(struct e2b_call *c);
/* An entry as clients are told it, at that path; a link has the type of what it leads to. */
void e2b_put_found(struct tn_hand_files *f, struct tn_jw *w, const char *path,
                   const struct tn_entry *e, int64_t deadline);
/* What one takes at most: its name, path, target and attributes, each byte escaped. */
enum { E2B_ENTRY_MAX = 256 << 10 };
/* The path that is meant, absolute; on the heap.  NULL: answered. */
char *e2b_path(struct e2b_call *c, const char *given);

void e2b_get_file(struct e2b_call *c);
void e2b_post_files(struct e2b_call *c);
/* Whether the request for /files of that box is signed: "v1_...". */
bool e2b_is_signed(struct tn_http_exchange *x, const char *token);

/* --- the code interpreter (interpreter.c) ---------------------------------------------------- */

void e2b_execute(struct e2b_call *c);
void e2b_create_context(struct e2b_call *c);
void e2b_list_contexts(struct e2b_call *c);
void e2b_remove_context(struct e2b_call *c);
void e2b_restart_context(struct e2b_call *c);

/* --- Connect (connect.c) --------------------------------------------------------------------- */

/* A call of one method: the message is read, and its errors are told as Connect does. */
typedef void (*e2b_method_fn)(struct e2b_call *c, const struct tn_json *message);
struct e2b_method {
    const char *name;
    e2b_method_fn call;
    bool stream; /* its answer is one */
    bool reads;  /* it reads the messages of its request itself */
};
extern const struct e2b_method e2b_filesystem[]; /* filesystem.c; ends with {0} */
extern const struct e2b_method e2b_process[];    /* process.c */
void e2b_rpc(struct e2b_call *c, const struct e2b_method *methods, const char *name);

/* A member under its name in JSON or in the .proto ("watcherId", "watcher_id"). */
struct tn_json *e2b_member(const struct tn_json *v, const char *camel, const char *snake);

/* Answers a call that is no stream with that message; or either with an error, whose code is one
 * of Connect's ("not_found"). */
void e2b_answer(struct e2b_call *c, const struct tn_buf *json);
int e2b_fail(struct e2b_call *c, const char *code, const char *fmt, ...) TN_PRINTF(3, 4);

/* Calls fn for every message of the request's stream, each of at most max bytes; non-zero stops.
 * 0 at its proper end, else it (or fn) has answered. */
typedef int (*e2b_message_fn)(struct tn_json *message, void *ctx);
int e2b_read_messages(struct e2b_call *c, size_t max, e2b_message_fn fn, void *ctx);

/* A stream: begins with 200, each message is one envelope, and the end says how it ended (err
 * NULL: well).  All: -1 when the client is gone. */
int e2b_stream_start(struct e2b_call *c);
int e2b_stream_send(struct e2b_call *c, const struct tn_buf *json);
int e2b_stream_end(struct e2b_call *c, const struct tn_error *err);
/* Seconds after which a quiet stream says so, as the client wishes. */
double e2b_stream_beat(const struct e2b_call *c);

/* --- watching directories (watch.c) --------------------------------------------------------- */

void e2b_watch_dir(struct e2b_call *c, const struct tn_json *message);
void e2b_create_watcher(struct e2b_call *c, const struct tn_json *message);
void e2b_watcher_events(struct e2b_call *c, const struct tn_json *message);
void e2b_remove_watcher(struct e2b_call *c, const struct tn_json *message);

#endif
