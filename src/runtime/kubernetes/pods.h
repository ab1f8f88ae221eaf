/* The kubernetes backend: what its files share.
 *
 * A sandbox is a Secret, which holds its environment; everything else that is made for it (pod,
 * claim, services, ingresses) is owned by that Secret, so that one DELETE removes all of it, also
 * what a killed process was just making.  A stop deletes the pod alone.
 *
 * All objects carry two labels, which are sent with the request that makes them: POD_STATE is the
 * store that they belong to, POD_ID the sandbox.  What has not both is never touched.
 *
 * The key stays here: the hand is told its digest, by which it proves that it is the one
 * (net/proof.h) before it is sent the key. */
#ifndef TN_RUNTIME_KUBERNETES_PODS_H
#define TN_RUNTIME_KUBERNETES_PODS_H

#include <pthread.h>

#include "kube/kube.h"
#include "runtime/backend.h"
#include "runtime/volume.h"

#define POD_STATE "tendon.dev/state"
#define POD_ID "tendon.dev/id"
#define POD_NETWORK "tendon.dev/network"
#define POD_WARM "tendon.dev/warm"           /* a label of a Secret that waits in a pool */
#define POD_CLAIMED "tendon.dev/claimed"     /* an annotation of it: by whom it was taken out */
#define POD_ANONYMOUS "tendon.dev/anonymous" /* an annotation of the Secret */
#define POD_AS "tendon.dev/as"               /* another: enum pod_as, if it is no bare pod */
#define POD_CONTAINER "runtime"

#define POD_HAND TN_INSIDE "/hand"

enum {
    POD_PORT_HAND = 8080,
    POD_PORT_EDITOR = 8081,
    POD_PORT_APP_1 = 30082,
    POD_PORT_APP_2 = 30083,
    POD_MANIFEST_MAX = 1 << 20,
};

/* What has its pod made. */
enum pod_as { POD_AS_POD, POD_AS_SANDBOX, POD_AS_CLAIM, POD_AS_COUNT };
struct pod_kind {
    const char *word, *api, *plural; /* "Sandbox", "GROUP/VERSION", "sandboxes" */
    const char *done;                /* the condition that says that there is a pod */
    bool true_only;                  /* which must be true */
};
extern const struct pod_kind pod_kinds[]; /* by enum pod_as */

/* Which NetworkPolicies select a pod; a word of POD_NETWORK. */
enum pod_network {
    POD_NETWORK_NONE,
    POD_NETWORK_OPEN,
    POD_NETWORK_GATED,
    POD_NETWORK_BRIDGE, /* none does: what the cluster's own network leads to */
    POD_NETWORK_COUNT
};
extern const char *const pod_networks[];

/* --- manifests (manifest.c, pod.c): pure ------------------------------------------------------ */

/* What a manifest is made from; borrowed. */
struct pod_plan {
    const struct tn_config *config;
    const struct tn_subject *subject;
    const char *mark, *namespace;
    const char *owner;    /* uid of the Secret; NULL for that one itself */
    bool kept;            /* the workspace is a claim */
    const char *snapshot; /* a VolumeSnapshot that it begins with, or NULL */
    bool anonymous;       /* its image is pulled without the operator's login */
    enum pod_network network;
    enum pod_as as;
};

/* "openhands-runtime-ID" and what is appended ("", "-key", "-pvc"...); on the heap. */
char *pod_name(const char *id, const char *after);
/* What no pod can have, or this configuration does not allow; also wrong settings, by name. */
int pod_check(const struct tn_config *config, const struct tn_spec *spec, struct tn_error *err);
enum pod_network pod_choose_network(const struct tn_config *config, const struct tn_spec *spec);
const char *pod_workspace(const struct tn_config *config, const struct tn_spec *spec);
/* The RuntimeClass of the isolation that is wanted, "" where none is configured; NULL: none is. */
const char *pod_class(const struct tn_config *config, const struct tn_spec *spec);
/* What a class gives (of tn_isolations) by its handler, or, where that says nothing or is not known
 * (""), by what the configuration takes it for. */
const char *pod_walls(const struct tn_config_kubernetes *k, const char *class, const char *handler);
/* Who it runs as. */
int64_t pod_uid(const struct tn_config *config, const struct tn_spec *spec);
/* Whether the hand's image is a volume of it. */
bool pod_mounts_image(const struct pod_plan *p);
/* Whether people may open that port: the editor's, the two of applications, those of the spec. */
bool pod_has_port(const struct tn_spec *spec, int port);

/* Appends the object. */
typedef int pod_put_fn(const struct pod_plan *p, struct tn_buf *out, struct tn_error *err);
pod_put_fn pod_put_secret, pod_put_claim, pod_put_pod;
/* The member "spec" of a pod. */
int pod_put_spec(const struct pod_plan *p, struct tn_jw *w, struct tn_error *err);
/* The member "labels" of an object; pod: with its network. */
void pod_put_labels(const struct pod_plan *p, bool pod, bool warm, struct tn_jw *w);
/* The arguments of its hand, but for who it is. */
typedef void pod_word_fn(void *ctx, const char *word);
void pod_each_argument(const struct pod_plan *p, pod_word_fn *put, void *ctx);
/* The image of a sandbox; spec NULL: of those that name none. */
const char *pod_image(const struct tn_config *config, const struct tn_spec *spec);
/* -svc with all ports of a sandbox, or -svc-code with the editor's. */
int pod_put_service(const struct pod_plan *p, bool editor, struct tn_buf *out,
                    struct tn_error *err);
/* Host of the Ingress of a port, on the heap. */
char *pod_host(const struct pod_plan *p, int port);
int pod_put_ingress(const struct pod_plan *p, int port, struct tn_buf *out, struct tn_error *err);
/* The NetworkPolicies that a pod with that word needs, which are for all such of the namespace: the
 * name of one, NULL: there are no more. */
const char *pod_put_policy(enum pod_network network, size_t at,
                           const struct tn_config_kubernetes *k, struct tn_buf *out);

/* Whether kubernetes.nameservers has any. */
bool pod_has_nameservers(const struct tn_config_kubernetes *k);

/* Begins an object with its metadata, which stays open for more; ends it. */
void pod_open(const struct pod_plan *p, const char *api, const char *kind, const char *after,
              struct tn_jw *w);
int pod_close(struct tn_jw *w, struct tn_error *err);
/* A member (key NULL: an element) that is JSON already, but for %s, a text that becomes a JSON
 * string, and %d, an int. */
void pod_json(struct tn_jw *w, const char *key, const char *json, ...);
/* An element: of the volumes of a container. */
void pod_put_mount(struct tn_jw *w, const char *name, const char *path, bool read_only);
#define POD_HOME "/home/openhands" /* of those that are not root */

/* "1500m", "2Gi", "1e3": a quantity of Kubernetes.  -1: it is none. */
int pod_quantity(const char *text, double *out);

/* --- what a pod says of itself (cause.c): pure ------------------------------------------------ */

struct pod_cause {
    enum tn_status status; /* never MISSING; ERROR: it ended, or will never run */
    enum tn_code code;     /* of an ERROR */
    enum tn_blame blame;
    bool patient; /* an ERROR that others may mend: no node has room, */
    bool volume;  /* or its volume is still being made */
    bool image;   /* an ERROR: an image cannot be had, its own or the hand's */
    char *reason; /* one printable line, on the heap; or NULL */
};
void pod_cause_done(struct pod_cause *c);
#define autopodcause TN_CLEANUP(pod_cause_done)

/* pod: the object; stopped: we have ended it. */
void pod_cause(const struct tn_json *pod, struct pod_cause *out);
/* Of that name in a list of containers, or of what is told of them; or NULL. */
const struct tn_json *pod_find(const struct tn_json *list, const char *name);
/* Words of the last trouble of the last pod in a list of events, on the heap; or NULL. */
char *pod_last_warning(const struct tn_json *events);

/* --- life (life.c) ---------------------------------------------------------------------------- */

/* A RuntimeClass that was asked for. */
enum { POD_HANDLER_SIZE = 64 };
struct pod_class {
    char name[254], handler[POD_HANDLER_SIZE];
    bool told;     /* of the handler: else nobody knows it */
    int64_t until; /* not asked for again before then */
};

struct pods {
    const struct tn_host *host;
    struct kube *kube;
    const char *namespace;
    char mark[17];
    pthread_mutex_t lock;                    /* of what follows */
    int64_t policy_until[POD_NETWORK_COUNT]; /* it was seen: not looked for before then */
    int64_t storage_until;                   /* what follows holds */
    bool has_storage;
    int64_t as_until[POD_AS_COUNT]; /* the cluster has that kind: not asked before then */
    struct pod_class classes[2];    /* gVisor's and Kata's, as a rule */
    struct mirrors *mirrors;
};

/* The beginnings of a plan; secret: its own, or NULL, which the plan then lasts no longer than. */
struct pod_plan pods_plan(const struct pods *p, const struct tn_subject *s,
                          const struct tn_json *secret);
int pods_open(const struct tn_host *host, void **engine, struct tn_error *err);
void pods_close(void *engine);
int pods_inspect(void *engine, const struct tn_subject *s, struct tn_place *place, int64_t deadline,
                 struct tn_error *err);
int pods_drive(void *engine, const struct tn_subject *s, enum tn_goal goal, struct tn_place *place,
               int64_t deadline, struct tn_error *err);
int pods_list(void *engine, tn_found_fn found, void *ctx, int64_t deadline, struct tn_error *err);

/* What is noted in place.ref. */
struct pod_note {
    bool stopped;   /* by us */
    bool proxied;   /* its address does not lead there from here */
    char warm[64];  /* until it is claimed from its pool: the version of its Secret; else "" */
    char claim[11]; /* from before it is claimed until that is known: the claim's own word */
    char uid[64];   /* of its pod, "" when that is not known: any with our marks is taken */
    char pod[254];  /* the name that it came with out of a SandboxWarmPool; else "" */
};
void pods_read_note(const struct tn_subject *s, struct pod_note *out);
/* The name of its pod, on the heap. */
char *pods_name(const struct tn_subject *s);
/* Ends its pod, if it has one, and whatever would bring it back. */
int pods_end_pod(const struct pods *p, const struct tn_subject *s, const struct tn_json *secret,
                 const struct tn_json *pod, int64_t deadline, struct tn_error *err);

/* What a pod is as a place; the reason is taken from the cause.  May ask for its class. */
void pods_fill_place(const struct pods *p, const struct tn_subject *s, const struct tn_json *pod,
                     bool proxied, struct pod_cause *cause, struct tn_place *place,
                     int64_t deadline);
/* What place.ref says. */
char *pods_ref(const struct pods *p, const struct pod_note *note);
/* This state makes sandboxes there, from now on. */
int pods_note_use(const struct pods *p, struct tn_error *err);

/* --- all sandboxes at once (mirror.c) --------------------------------------------------------- */

struct mirrors *mirrors_new(struct pods *p);
void mirrors_free(struct mirrors *all);
/* What is told of it; NULL: the server must be asked. */
struct tn_json *mirror_get(const struct pods *p, const char *kind, const char *name);
/* Tells every object (KUBE_ADDED) and that these were all; -1: the server must be asked. */
int mirror_each(const struct pods *p, const char *kind, kube_change_fn fn, void *ctx);
/* As kube_watch of that one object; a watch of its own only where there is no mirror. */
int pods_follow(const struct pods *p, const char *kind, const char *name, kube_change_fn fn,
                void *ctx, int cancel, int64_t deadline, struct tn_error *err);

/* --- starting (start.c) ----------------------------------------------------------------------- */

int pods_create(void *engine, const struct tn_subject *s, struct tn_place *place, int64_t deadline,
                struct tn_error *err);
/* That the cluster's class for the isolation that is wanted gives it. */
int pods_check_class(struct pods *p, const struct tn_spec *spec, int64_t deadline,
                     struct tn_error *err);
/* Makes the pod of a plan whose Secret, and claim, are there, and settles it. */
int pods_start(struct pods *p, struct pod_plan *plan, struct tn_place *place, int64_t deadline,
               struct tn_error *err);
/* From a pod that was told to run to one with a hand. */
int pods_settle(const struct pods *p, const struct tn_subject *s, struct tn_place *place,
                int64_t deadline, struct tn_error *err);
/* Asks the hand itself, and now and then whether its pod (from: as it was seen last) still lives:
 * the cause is then what that says.  *proxied: through the API server; becomes true when the pod's
 * address does not lead to it and the configuration leaves the choice. */
int pods_await_hand(const struct pods *p, const struct tn_subject *s, const struct tn_json *from,
                    bool *proxied, struct pod_cause *cause, int64_t deadline, struct tn_error *err);
/* The network of a plan, whose policy is there then. */
int pods_choose_network(struct pods *p, struct pod_plan *plan, int64_t deadline,
                        struct tn_error *err);

/* --- agent-sandbox (agent-sandbox.c) ---------------------------------------------------------- */

/* Which kind a new sandbox is, by the configuration, its wishes, and what the cluster has. */
int pods_choose_kind(struct pods *p, struct pod_plan *plan, int64_t deadline, struct tn_error *err);
enum pod_as pods_as(const struct tn_json *secret);
/* Has the pod of a plan made by the controller, or brought back, and waits until it is there.
 * *ref: for who goes on, what place.ref is to say (NULL: as before). */
int pods_have_made(const struct pods *p, const struct pod_plan *plan, char **ref, int64_t deadline,
                   struct tn_error *err);
/* The pod is to end, the object stays. */
int pods_suspend(const struct pods *p, const struct tn_subject *s, int64_t deadline,
                 struct tn_error *err);
/* Runs the hand that was put into a pod of a SandboxWarmPool. */
int pods_run_hand(const struct pods *p, const struct tn_subject *s, int64_t deadline,
                  struct tn_error *err);
#define POD_POOL_HAND "/tmp/.tendon/hand"

/* --- pools (claim.c) -------------------------------------------------------------------------- */

/* One PATCH of the Secret, which counts only if nobody has changed it since.  Its word is in the
 * row before, so that whoever tries again, or removes it, knows what was done. */
int pods_claim(void *engine, const struct tn_subject *s, char **ref, int64_t deadline,
               struct tn_error *err);
enum { POD_TRIES = 8 }; /* against changes that leave it warm: somebody's annotations */
/* Whose a sandbox is, by the row and by its Secret. */
enum pod_whose { POD_OURS, POD_WAITS, POD_TAKEN };
enum pod_whose pods_whose(const struct pod_note *note, const struct tn_json *secret);

/* A sandbox that begins with the files of a VolumeSnapshot of that name (NULL: with none), which is
 * made first, of that claim, unless claim is NULL.  What is there of the sandbox already stays. */
int pods_create_from(struct pods *p, const struct tn_subject *s, const char *snapshot,
                     const char *claim, struct tn_place *place, int64_t deadline,
                     struct tn_error *err);

/* --- the gate of a pod (gate.c) --------------------------------------------------------------- */

#define POD_GATE_CONTAINER "gate"

/* The network of a sandbox, never the default; *allow: the rules of its gate, or NULL: none. */
int pod_network_of(const struct tn_config *config, const struct tn_spec *spec,
                   const struct tn_str_list **allow);
bool pod_is_gated(const struct tn_config *config, const struct tn_spec *spec);
/* Whether its gate ends TLS: the sandbox has placeholders, and an authority to believe. */
bool pod_ends_tls(const struct tn_config *config, const struct tn_spec *spec);
/* What no gate before a pod can hold. */
int pod_check_gate(const struct tn_config *config, const struct tn_spec *spec,
                   struct tn_error *err);
/* Of a pod that is gated: its init containers, elements of an open array; its volumes, as well. */
void pod_put_gate(const struct pod_plan *p, struct tn_jw *w);
void pod_put_gate_volumes(const struct pod_plan *p, struct tn_jw *w);

/* The Secret of its gate, for one start: rules, secrets and an authority. */
/* What its fields take: an older server would not know them, and do without. */
int pods_check_version(const struct pods *p, const struct tn_spec *spec, int64_t deadline,
                       struct tn_error *err);
int pods_make_gate(const struct pods *p, const struct pod_plan *plan, int64_t deadline,
                   struct tn_error *err);
/* What its gate has refused lately becomes part of the reason. */
void pods_add_refusals(const struct pods *p, const struct tn_subject *s, struct tn_place *place,
                       int64_t deadline);
int pods_refusals(void *engine, const struct tn_subject *s, struct tn_buf *out, int64_t deadline,
                  struct tn_error *err);
int pods_reload(void *engine, const struct tn_subject *s, int64_t deadline, struct tn_error *err);
/* tn_backend.listen and .let. */
int pods_listen(void *engine, const struct tn_subject *s, int64_t deadline, struct tn_error *err);
int pods_let(void *engine, const struct tn_subject *s, const char *host, int port, bool allowed,
             int64_t deadline, struct tn_error *err);

/* --- asking (ask.c) --------------------------------------------------------------------------- */

/* An object of the namespace by kind ("pods") and name, certainly ours and of that sandbox; 0 with
 * *out NULL where there is none. */
int pods_get(const struct pods *p, const char *kind, const char *name, const char *id,
             struct tn_json **out, int64_t deadline, struct tn_error *err);
/* The same, of the server itself: a mirror may be a moment behind. */
int pods_get_now(const struct pods *p, const char *kind, const char *name, const char *id,
                 struct tn_json **out, int64_t deadline, struct tn_error *err);
/* The same, for who looks anyway: a refusal that may pass is one. */
int pods_glance(const struct pods *p, const char *kind, const char *name, const char *id,
                struct tn_json **out, int64_t deadline, struct tn_error *err);
/* Whatever has that name, whoever's it is. */
int pods_ask(const struct pods *p, const char *kind, const char *name, struct tn_json **out,
             int64_t deadline, struct tn_error *err);
/* Whether this account may do that in the namespace; err, if nobody says. */
bool pods_may(struct kube *kube, const char *group, const char *resource, const char *sub,
              const char *verb, int64_t deadline, struct tn_error *err);
/* Makes it, or finds that it is there and ours (out may be NULL).  One of that name that is on its
 * way out is waited for.  cancel as that of a subject. */
int pods_make(const struct pods *p, const char *kind, const char *name, const char *id,
              const struct tn_buf *manifest, struct tn_json **out, int cancel, int64_t deadline,
              struct tn_error *err);
/* Changes it (out may be NULL): a body that is a list is a JSON patch, an object is merged. */
int pods_patch(const struct pods *p, const char *kind, const char *name, const char *body,
               struct tn_json **out, int64_t deadline, struct tn_error *err);
/* Deletes it, if it is still this one: what it owns goes first.  Gone already is fine.  unchanged:
 * if it is as it was looked at, too (TN_E_CONFLICT). */
int pods_delete(const struct pods *p, const char *kind, const struct tn_json *object,
                bool unchanged, int64_t deadline, struct tn_error *err);
/* Deletes the one of that name, if it is that sandbox's, and waits until there is none. */
int pods_remove(const struct pods *p, const char *kind, const char *name, const char *id,
                int64_t deadline, struct tn_error *err);
/* Waits until there is none of that name. */
int pods_await_end(const struct pods *p, const char *kind, const char *name, int64_t deadline,
                   struct tn_error *err);
/* "/api/v1/namespaces/NS/KIND" with what follows, on the heap. */
char *pods_target(const struct pods *p, const char *kind, const char *after);
/* Whether both labels are ours: its id, or NULL. */
const char *pods_own_id(const struct pods *p, const struct tn_json *object);
/* A member of its metadata, or NULL. */
const struct tn_json *pods_meta(const struct tn_json *object, const char *member);
const char *pods_own_name(const struct tn_json *object);
const char *pods_uid(const struct tn_json *object);
const char *pods_version(const struct tn_json *object);
bool pods_is_going(const struct tn_json *object);
/* What the subject says at its create alone: the Secret keeps it. */
bool pods_is_anonymous(const struct tn_json *secret);
/* The Secret of a sandbox that must be there: TN_E_NOT_FOUND. */
int pods_must_have(const struct pods *p, const struct tn_subject *s, struct tn_json **secret,
                   int64_t deadline, struct tn_error *err);
/* The pod of a sandbox that must run: TN_E_NOT_FOUND, TN_E_CONFLICT. */
int pods_must_run(const struct pods *p, const struct tn_subject *s, struct tn_json **pod,
                  int64_t deadline, struct tn_error *err);
/* Words of its last trouble, on the heap; or NULL: also when they do not come soon. */
char *pods_warning(const struct pods *p, const char *pod, int64_t deadline);
/* These words become part of err, if that is a time-out. */
void pods_add_trouble(const struct pods *p, const char *id, struct tn_error *err);
/* Whether a storage class is known for claims that name none; the answer is kept for a while. */
int pods_have_storage(struct pods *p, bool *has, int64_t deadline, struct tn_error *err);
/* The handler of a RuntimeClass, "" where the cluster has none of that name.  hurried: as that of a
 * call. */
int pods_handler(struct pods *p, const char *class, bool hurried, char out[POD_HANDLER_SIZE],
                 int64_t deadline, struct tn_error *err);
/* The same as it was told within the last minute, or earlier if the server does not answer; ""
 * also where this account may not ask.  False: nobody has told. */
bool pods_known_handler(const struct pods *p, const char *class, char out[POD_HANDLER_SIZE],
                        int64_t deadline);
/* That the policy of that word is there; made where it is not. */
int pods_ensure_policies(struct pods *p, enum pod_network network, int64_t deadline,
                         struct tn_error *err);

/* --- using (use.c) ---------------------------------------------------------------------------- */

/* Executes in a container of its pod (e.container NULL: its own), of which e says no more than argv
 * and input; the output goes to out, which it must fit. */
int pods_run(const struct pods *p, const struct tn_subject *s, struct kube_exec e,
             struct tn_buf *out, int *status, int64_t deadline, struct tn_error *err);

/* The hand, where no image has it, into a container that waits for it. */
int pods_put_hand(const struct pods *p, const struct tn_subject *s, int64_t deadline,
                  struct tn_error *err);
/* Whether its hand is reached through the API server, not by the address of its pod. */
bool pods_by_proxy(const struct pods *p, const struct tn_subject *s);
/* Where the hand of a pod is, on the heap; NULL: it has no address yet. */
char *pods_address(const struct pods *p, const struct tn_subject *s, const struct tn_json *pod,
                   bool proxied);

int pods_put(void *engine, const struct tn_subject *s, const char *path, const void *bytes,
             size_t n, mode_t mode, int64_t deadline, struct tn_error *err);
int pods_exec(void *engine, const struct tn_subject *s, const char *const *argv, struct tn_buf *out,
              int *status, int64_t deadline, struct tn_error *err);
int pods_logs(void *engine, const struct tn_subject *s, bool follow, tn_log_fn fn, void *ctx,
              int64_t deadline, struct tn_error *err);
char *pods_url(void *engine, const struct tn_subject *s, int port, struct tn_error *err);
char *pods_look_url(void *engine, const struct tn_subject *s, int port, bool *there,
                    int64_t deadline, struct tn_error *err);
int pods_usage(void *engine, const struct tn_subject *s, struct tn_usage *out,
               struct tn_error *err);

/* --- snapshots (snapshot.c) ------------------------------------------------------------------- */

/* One of a claim, for the sandbox of the plan and called as `after` says; returns when it can be
 * used. */
int pods_make_snapshot(const struct pods *p, const struct pod_plan *plan, const char *after,
                       const char *claim, int64_t deadline, struct tn_error *err);
int pods_snapshot(void *engine, const struct tn_subject *s, const char *name, int64_t deadline,
                  struct tn_error *err);
int pods_forget(void *engine, const struct tn_subject *s, const char *name, int64_t deadline,
                struct tn_error *err);
int pods_rollback(void *engine, const struct tn_subject *s, const char *name,
                  struct tn_place *place, int64_t deadline, struct tn_error *err);
int pods_fork(void *engine, const struct tn_subject *s, const char *name,
              const struct tn_subject *child, struct tn_place *place, int64_t deadline,
              struct tn_error *err);

/* --- doctor (doctor.c) ------------------------------------------------------------------------ */

int pods_doctor(const struct tn_host *host, tn_symptom_fn fn, void *ctx, struct tn_error *err);

#endif
