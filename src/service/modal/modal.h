/* The API of Modal: apps, images, sandboxes, commands, files, tunnels, snapshots; two gRPC
 * services, ModalClient and TaskCommandRouter, on the port of all others.
 *
 * Unmodified clients work by MODAL_SERVER_URL, the address of this service, and a key in
 * MODAL_TOKEN_SECRET.  A sandbox is a box (box.h), a command a process (process.h), an image a
 * recipe that its id spells out or a box at rest.  docs/clouds/modal.md says what differs;
 * docs/internals/service-modal.md why.  The messages: modal/modal.proto. */
#ifndef TN_SERVICE_MODAL_H
#define TN_SERVICE_MODAL_H

#include "base/clock.h"
#include "modal/grpc.h"
#include "service/api-native.h"
#include "service/clock.h"
#include "service/process.h"
#include "service/surface.h"

#define MODAL_HOME "/home/user"
#define MODAL_SECONDS 60.0      /* for what a client waits for */
#define MODAL_POLL_SECONDS 55.0 /* of a long poll */
#define MODAL_SLICE_SECONDS 5.0 /* of a wait: then it is looked whether the sandbox has ended */
#define MODAL_LINGER 120.0      /* how long a sandbox that has ended is remembered */
#define MODAL_RECORD "$modal"
#define MODAL_ENTRYPOINT "tendon:entrypoint"
#define MODAL_START_MORE 5.0 /* seconds beyond those that a start may take */
enum { MODAL_ID = 16, MODAL_APP_ID = 26, MODAL_WHICH = TN_PROCESS_TAG_MAX + 8 };
enum { MODAL_PORTS_MAX = 32 };
/* How a sandbox ended, in their numbers. */
enum {
    MODAL_SUCCESS = 1,
    MODAL_FAILURE = 2,
    MODAL_TERMINATED = 3,
    MODAL_TIMEOUT = 4,
    MODAL_INTERNAL_FAILURE = 6,
    MODAL_IDLE_TIMEOUT = 7,
};

/* --- calls (call.c) -------------------------------------------------------------------------- */

/* Looks at every request first.  Answers those for tunnels and returns true; errors of calls are
 * told as gRPC does from here on. */
bool modal_take(struct tn_service *s, struct tn_http_exchange *x);

struct modal_call {
    struct tn_http_exchange *x;
    struct tn_service *s;
    const struct caller *who;
    struct box *box; /* of the router: the only one that its token opens; else NULL */
    bool started;    /* the answer has begun */
};

/* Carries out a call.  0: well; what was not answered is answered with an empty message.  -1 with
 * err.  MODAL_ANSWERED: nothing is left to say. */
enum { MODAL_ANSWERED = 1 };
typedef int (*modal_fn)(struct modal_call *c, const void *request, struct tn_error *err);
struct modal_method {
    const char *name;
    const ProtobufCMessageDescriptor *request; /* NULL: it reads the messages itself */
    modal_fn call;
    unsigned scope;
};
extern const struct modal_method modal_account[], modal_secrets[], modal_creates[],
    modal_sandboxes[], modal_lists[], modal_tunnels[], modal_mounts[], modal_images[],
    modal_commands[], modal_volumes[], modal_file_io[], modal_router[]; /* each ends with {0} */

/* One message of the answer: 0, or -1 when the client is gone. */
int modal_send(struct modal_call *c, const void *message, struct tn_error *err);
/* The messages of a request as they come; non-zero from fn stops and is returned.  -1 with err. */
int modal_read(struct modal_call *c, tn_frame_fn fn, void *ctx, struct tn_error *err);
/* ALREADY_EXISTS, which none of our codes means. */
int modal_exists(struct modal_call *c, const char *what, const char *name);

/* The token by which the router knows the box and its client, as text for the caller to free; and
 * the address of the router as that client wants it. */
char *modal_token(const struct modal_call *c, const char *box);
char *modal_router_url(const struct modal_call *c);

/* --- names and secrets (account.c, secrets.c) ------------------------------------------------ */

/* The id of the app of that name. */
void modal_app_id(const char *name, char out[MODAL_APP_ID]);
/* Adds entries of a map to an object that is open. */
void modal_put_pairs(struct tn_jw *w, Modal__Pair *const *pairs, size_t n);
/* The variables of these secrets and sources, into an object that is open. */
int modal_put_secrets(struct modal_call *c, struct tn_jw *w, char *const *ids, size_t count,
                      Modal__SecretSource *const *sources, size_t source_count,
                      struct tn_error *err);
#define MODAL_MESSAGE(name) &modal__##name##__descriptor

/* --- boxes as clients see them (sandbox.c) --------------------------------------------------- */

/* An object of this surface's own in the metadata of a box; NULL: it is not one of ours. */
const struct tn_json *modal_record(const struct box_view *v);
/* Another member of the record: JSON text.  The service itself writes it. */
int modal_note(struct box *b, const char *member, const char *value, struct tn_error *err);
/* It is deleted after a while, in use or not. */
int modal_forget(struct box *b, struct tn_error *err);
/* "sb-ID", "ta-ID", "im-ID" in protobuf's hands. */
char *modal_id(const char *prefix, const struct box *b, char out[MODAL_ID]);
/* The sandbox that an id (sb- or ta-) means, in the caller's tenant.  NULL with TN_E_NOT_FOUND. */
struct box *modal_box(const struct modal_call *c, const char *id, struct tn_error *err);
/* The same, which runs: TN_E_NOT_FOUND when it has ended. */
struct box *modal_running(const struct modal_call *c, const char *id, struct tn_error *err);
/* False with TN_E_NOT_FOUND when it has ended, but for one whose own command alone is over. */
bool modal_goes_on(struct box *b, struct tn_error *err);
bool modal_is_sandbox(const struct box_view *v);
/* An image (surface_is_layer). */
bool modal_is_layer(const struct box_view *v);
/* How it ended, as far as the box itself tells; false: it has not. */
bool modal_result(const struct box_view *v, Modal__Result *r);
/* A call of both services. */
int modal_ready(struct modal_call *c, const void *request, struct tn_error *err);

/* --- new boxes (create.c) -------------------------------------------------------------------- */

/* Starts what the spec says, with more variables (an object or NULL); tag and idempotency. */
int modal_start(struct modal_call *c, struct box *b, struct tn_process_spec *spec,
                const struct tn_json *env, const char *tag, struct process_started *out,
                struct tn_error *err);
/* A spec with what the name after FROM means here, of what the client says (NULL: nothing), with
 * these variables (NULL: none). */
int modal_spec(struct modal_call *c, const char *from, const Modal__Sandbox *d,
               const struct tn_json *env, struct tn_spec *spec, struct tn_error *err);

/* A call of the router: what it may reach from now on. */
int modal_set_network(struct modal_call *c, const void *request, struct tn_error *err);

/* --- names and tags (list.c) ----------------------------------------------------------------- */

/* Whether one that runs has that name in that app; its id. */
struct modal_search {
    const char *app, *name;
    char id[11];
};
bool modal_find_name(const struct modal_call *c, struct modal_search *s);
/* Tags as metadata, the caller's; NULL with err. */
struct tn_json *modal_tag_words(Modal__Tag *const *tags, size_t n, struct tn_error *err);

/* --- tunnels (tunnels.c) --------------------------------------------------------------------- */

/* Answers a request for the host of a tunnel. */
bool modal_take_tunnel(struct tn_service *s, struct tn_http_exchange *x);
/* Opens what a new sandbox wants for unencrypted_ports (tcp-ports.h). */
int modal_open_ports(struct modal_call *c, struct box *b, const Modal__Sandbox *d,
                     struct tn_error *err);

/* --- files for them (mounts.c) --------------------------------------------------------------- */

/* Paths are those of a sandbox and go to its hand; one that climbs is none. */
bool modal_is_filename(const char *text);
struct blob;
/* The list of files that an id (mo-) means; its name is their hash.  TN_E_NOT_FOUND. */
int modal_find_mount(struct modal_call *c, const char *id, struct blob *out, struct tn_error *err);
/* Writes them into a box that runs, beneath root ("": where they say). */
int modal_write_mount(struct modal_call *c, struct box *b, const char *id, const char *root,
                      struct tn_error *err);

/* --- volumes (volumes.c) --------------------------------------------------------------------- */

/* Those that the client wishes, into a spec whose runtime is known. */
int modal_mount_volumes(struct modal_call *c, const Modal__Sandbox *d, struct tn_spec *spec,
                        struct tn_error *err);
/* A call of the router: nothing is to be done, since all sandboxes see the same files. */
int modal_reload_volumes(struct modal_call *c, const void *request, struct tn_error *err);

/* --- images (image.c) ------------------------------------------------------------------------ */

/* What an image id means.  One that is not there: TN_E_NOT_FOUND. */
struct modal_image {
    char *from;      /* the name after FROM; NULL: it is a box */
    struct box *box; /* whose files it has; or NULL */
    char *recipe;    /* lines of ENV and WORKDIR */
    bool spelt;      /* its id says all of that: nothing is kept of it */
};
void modal_image_done(struct modal_image *i);
#define automodalimage TN_CLEANUP(modal_image_done)
int modal_find_image(struct tn_service *s, const struct caller *who, const char *id,
                     struct modal_image *out, struct tn_error *err);
/* The same, to make something of it: waits until it is built.  TN_E_INVALID: its build has failed;
 * TN_E_BUSY: it goes on. */
int modal_use_image(struct modal_call *c, const char *id, struct modal_image *out,
                    struct tn_error *err);
/* The variables of a recipe as JSON text of an object, and its directory or NULL; the caller's. */
char *modal_recipe_env(const char *recipe, char **workdir);
char *modal_recipe_workdir(const char *recipe);
/* The name itself where it is that of a template, or NULL. */
const char *modal_template(const struct tn_service *s, const char *from);

/* A call of the router. */
int modal_task_snapshot(struct modal_call *c, const void *request, struct tn_error *err);

/* --- commands (command.c) -------------------------------------------------------------------- */

/* Bytes as text that protobuf takes: what is no UTF-8 is replaced.  The caller's. */
char *modal_text(const void *bytes, size_t n);

/* --- files (files.c) ------------------------------------------------------------------------- */

#define MODAL_FS_TOOLS "/__modal/.bin/modal-sandbox-fs-tools"
/* Instead of their program, which no sandbox has: does what the text asks for. */
int modal_fs_start(struct modal_call *c, struct box *b, const char *exec_id, const char *text,
                   struct tn_error *err);
/* The same at once, of those that give nothing: "MakeDirectory", "Remove"; all: with its parents,
 * or what is in it. */
int modal_fs_do(struct modal_call *c, struct box *b, const char *operation, const char *path,
                bool all, struct tn_error *err);
/* The file that such a command reads or writes ("ReadFile", "WriteFile"), the caller's; NULL: it is
 * no such command. */
char *modal_fs_path(struct modal_call *c, const struct tn_process_status *status,
                    const char *operation);
/* The bytes of that file from an offset on, as messages. */
int modal_fs_send(struct modal_call *c, struct box *b, const char *path, uint64_t offset,
                  struct tn_error *err);
/* Replaces it by what the source gives, and ends the command with what came of it. */
int modal_fs_store(struct modal_call *c, struct box *b, const struct tn_process_status *status,
                   const char *path, tn_http_source_fn source, void *ctx, struct tn_error *err);

#endif
