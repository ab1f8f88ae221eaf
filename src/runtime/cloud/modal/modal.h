/* The modal backend: sandboxes of Modal, or of whoever serves its API.  What its files share.
 *
 * Two services over gRPC (rpc.c): the control plane makes sandboxes (control.c); the command router
 * of a sandbox runs programs in it (inside.c), or, on older platforms, the control plane does that,
 * too.  The hand is put in by a program that reads it, and then reached by the sandbox's tunnel.
 *
 * Sandboxes are of two generations, which their ids tell apart: calls about the newer one are named
 * with V2. */
#ifndef TN_RUNTIME_CLOUD_MODAL_MODAL_H
#define TN_RUNTIME_CLOUD_MODAL_MODAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "modal/grpc.h"
#include "runtime/cloud/cloud.h"

/* --- credentials (profile.c) ------------------------------------------------------------------ */

/* Who we are there, and where that is; on the heap, or NULL where nothing says. */
struct modal_login {
    char *id, *secret;
    char *url, *environment;
};
/* As the configuration says, and, where that is silent, the profile of ~/.modal.toml. */
int modal_login(const struct tn_config *config, struct modal_login *out, struct tn_error *err);
void modal_login_done(struct modal_login *login);

/* An engine. */
struct modal {
    struct cloud cloud; /* first: it is what cloud's functions are given */
    struct modal_login login;
    char *tunnels;         /* one address for all tunnels, or NULL: each has its own */
    atomic_bool old;       /* the platform has only sandboxes of the first generation */
    atomic_bool signed_in; /* calls carry a token from now on, where the platform has them */
    pthread_mutex_t lock;  /* of what follows */
    char *app;             /* id of the app, once it is known */
};

/* What it learns of the platform is its own, whoever asks. */
static inline struct modal *modal_of(const struct cloud *c)
{
    return (struct modal *)(uintptr_t)c;
}

/* --- calls (rpc.c) ---------------------------------------------------------------------------- */

struct modal_call {
    const char *method;              /* "SandboxCreate" */
    const struct cloud_view *router; /* whose router (agent) is asked; NULL: the control plane is */
    const char
        *about;     /* id of a sandbox: where it is of the newer generation, the method is V2's */
    const void *in; /* a message; NULL: an empty one */
    const ProtobufCMessageDescriptor *out; /* NULL: whatever it is */
    const char *key;                       /* a second call with the same is none; or NULL */
    bool unsafe, ends;                     /* as in struct cloud_call */
    bool patient;                          /* it may take until the deadline */
    int cancel;
};
/* One message for another (*out may be NULL; else it is freed as tn_grpc_read says). */
int modal_ask(const struct cloud *c, const struct modal_call *call, void *out, int64_t deadline,
              struct tn_error *err);
/* Many messages for one: fn is told each.  0 at the end of the stream; 1 when fn returned non-zero,
 * and the rest was left. */
typedef int (*modal_said_fn)(const void *message, void *ctx);
int modal_listen(const struct cloud *c, const struct modal_call *call, modal_said_fn fn, void *ctx,
                 int64_t deadline, struct tn_error *err);
/* A line that speaks gRPC, without credentials yet. */
struct tn_web *modal_web(const char *url, struct tn_error *err);
/* For the line of the control plane. */
int modal_status(struct tn_web_answer *answer, char **words);
/* A call that changes nothing and shows whether the token is good. */
extern const struct tn_web_call modal_harmless;
/* What frames hold, for the fuzzer: -1 is nonsense. */
int modal_read_one(const ProtobufCMessageDescriptor *of, const void *bytes, size_t n, void **out,
                   struct tn_error *err);
/* 16 bytes as a UUID. */
#define MODAL_UUID 37
void modal_uuid(const unsigned char bytes[16], char out[MODAL_UUID]);

/* --- control.c -------------------------------------------------------------------------------- */

cloud_make_fn modal_make;
extern const struct cloud_disks modal_disks;
cloud_look_fn modal_look;
cloud_each_fn modal_each;
cloud_order_fn modal_order;
cloud_address_fn modal_address;
cloud_port_fn modal_port;

/* --- inside.c --------------------------------------------------------------------------------- */

cloud_take_fn modal_image_take; /* for 30 days; nothing lists them */
cloud_drop_fn modal_image_drop;
cloud_put_fn modal_put;
cloud_run_fn modal_run;

#endif
