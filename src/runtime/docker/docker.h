/* The docker backend: what its files share.
 *
 * A container is found by two labels: tendon.id is the sandbox, tendon.state the store it belongs
 * to, so that several users and machines can share an engine.  A container without both is never
 * touched.
 *
 * There are two ways to carry the hand in and to reach it:
 *
 *   socket  the engine runs on this machine and root of a container is this user: the hand is
 *           mounted read-only, and listens on a unix socket in the sandbox's directory, which is
 *           mounted too.  Costs nothing, works without any network.
 *   port    everywhere else: the hand is copied in, listens on a TCP port, which is published.
 *
 * Neither carries the key: the hand is told only its digest, which anybody may see. */
#ifndef TN_RUNTIME_DOCKER_DOCKER_H
#define TN_RUNTIME_DOCKER_DOCKER_H

#include "base/proc.h"
#include "engine/engine.h"
#include "runtime/backend.h"
#include "runtime/volume.h"

#define DOCKER_LABEL_ID "tendon.id"
#define DOCKER_LABEL_STATE "tendon.state"
#define DOCKER_LABEL_OWNER "tendon.owner"
#define DOCKER_LABEL_HAND "tendon.hand"       /* "socket", or the TCP port it listens on inside */
#define DOCKER_LABEL_PORTS "tendon.ports"     /* its own, of one in the network of the host */
#define DOCKER_LABEL_GVISOR "tendon.gvisor"   /* it was made for docker.runsc */
#define DOCKER_LABEL_NETWORK "tendon.network" /* open or allow: it has a gate */
#define DOCKER_LABEL_PREFIX "tendon."

#define DOCKER_INSIDE TN_INSIDE
#define DOCKER_HAND DOCKER_INSIDE "/hand"
#define DOCKER_SOCKET DOCKER_INSIDE "/run/hand.sock"
#define DOCKER_OWNER DOCKER_INSIDE "/run/owner"

/* Ports that a sandbox has for itself, each from a range of its own as OpenHands takes them. */
enum docker_own_port {
    DOCKER_PORT_HAND,
    DOCKER_PORT_VSCODE,
    DOCKER_PORT_APP_1,
    DOCKER_PORT_APP_2,
    DOCKER_PORT_COUNT
};

struct docker_plan;

struct docker {
    const struct tn_host *host;
    struct tn_engine *engine;
    char mark[17];   /* value of DOCKER_LABEL_STATE */
    char *reach;     /* host at which published ports are reached, as configured; or NULL */
    bool root_is_us; /* the way "socket" is open */
};

static inline const struct tn_config *docker_config(const struct docker *d)
{
    return d->host->config;
}

enum docker_way { DOCKER_BY_SOCKET, DOCKER_BY_PORT };

/* --- names (names.c) ------------------------------------------------------------------------ */

/* "openhands-runtime-NAME" or "tendon-ID", on the heap. */
char *docker_name(const struct tn_subject *s);
/* The directory inside where work happens. */
const char *docker_workspace(const struct docker *d, const struct tn_subject *s);
/* Paths on this machine, on the heap. */
char *docker_run_directory(const struct tn_subject *s);
char *docker_socket_address(const struct tn_subject *s); /* "unix:..." */
char *docker_hand_copy(const struct tn_subject *s);
/* What place.ref says; network: the label; stopped: by us; process: its first one, or pid 0. */
char *docker_ref(const char *container, const char *network, bool stopped,
                 const struct tn_proc *process);

/* --- finding (find.c) ----------------------------------------------------------------------- */

/* The container as the engine describes it, found by ref or by labels, and certainly ours; 0 with
 * *tree NULL when there is none. */
int docker_find(const struct docker *d, const struct tn_subject *s, struct tn_json **tree,
                int64_t deadline, struct tn_error *err);
/* The same when there must be one: TN_E_NOT_FOUND. */
int docker_must_find(const struct docker *d, const struct tn_subject *s, struct tn_json **tree,
                     int64_t deadline, struct tn_error *err);
int docker_list(void *engine, tn_found_fn found, void *ctx, int64_t deadline, struct tn_error *err);

/* The bits of the ports that sandboxes in the network of the host have for themselves, of this
 * store or another; but not those of that container (NULL: all). */
enum { DOCKER_TAKEN_BYTES = (1 << 16) / 8 };
int docker_taken_ports(const struct docker *d, const char *but, uint8_t *taken, int64_t deadline,
                       struct tn_error *err);

static inline const char *docker_id(const struct tn_json *tree)
{
    return tn_json_get_str(tree, "Id", "");
}
/* State.Status: created, running, paused, restarting, removing, exited, dead. */
const char *docker_status(const struct tn_json *tree);
const char *docker_label(const struct tn_json *tree, const char *name);

/* --- the network, and its gate (gate.c) ------------------------------------------------------ */

/* Which network the gate of a container with that label is for now. */
int docker_gate_network(const struct tn_spec *spec, const char *label);
/* As the backend's. */
int docker_network(const struct tn_host *host, const struct tn_spec *spec, const char *ref,
                   const struct tn_str_list **allow);
int docker_reload(void *engine, const struct tn_subject *s, int64_t deadline, struct tn_error *err);
/* What a sandbox of that spec is to have, never the default; said: somebody has named it. */
int docker_choose_network(const struct docker *d, const struct tn_spec *spec, bool *said);
/* Whether its gate ends TLS: for secrets, or rules about requests inside. */
bool docker_ends_tls(const struct docker *d, int network, const struct tn_spec *spec);
/* That it can have it, with its rules. */
int docker_check_network(const struct docker *d, int network, const struct tn_spec *spec,
                         struct tn_error *err);
/* Whether the way "socket" is open for it, as far as spec and configuration say. */
bool docker_socket_fits(const struct docker *d, const struct tn_spec *spec);
/* Whether it is one of this machine whose root is this user (backend.c). */
bool docker_runs_as_us(const struct tn_engine_info *info);
/* What a network leads to (state.c): a sentence after "reaches". */
const char *docker_reaches(const char *network);
/* Whether the engine that the configuration leads to is one whose root is this user, without asking
 * it (backend.c). */
bool docker_expects_root(const struct tn_host *host);

/* The files of one with a gate, before it is made: its /etc/resolv.conf, and those of its authority
 * (gate/roots.h), which are empty until it has one.  A secret that is not there is an error. */
int docker_make_gate_files(const struct docker_plan *p, struct tn_error *err);
/* A file of its directory: the path, on the heap. */
char *docker_file(const struct tn_subject *s, const char *name);
#define DOCKER_RESOLVER "resolv.conf"
/* Starts the keeper of a container that runs and has a gate, if there is none for its first
 * process: when it returns the wall is up.  TN_E_UNSUPPORTED: the kernel has no gate. */
int docker_gate_up(const struct docker *d, const struct tn_subject *s, const struct tn_json *tree,
                   int64_t deadline, struct tn_error *err);
/* Waits until the keeper of one whose container is gone has ended. */
void docker_gate_down(const struct tn_subject *s, int64_t deadline);

/* --- gVisor (gvisor.c) ---------------------------------------------------------------------- */

/* Whether the engine runs it with docker.runsc: Docker says so of a container; Podman does not, and
 * runs all with its default, which was looked at when this one was made. */
bool docker_has_gvisor(const struct docker *d, const struct tn_json *tree);
/* The same of those that the engine will make: what GET /info says. */
bool docker_offers_gvisor(const struct tn_engine_info *engine, const struct tn_json *info,
                          const char *name);
/* Asks it: TN_E_UNSUPPORTED where it does not. */
int docker_ask_gvisor(struct tn_engine *e, const struct tn_config *config, int64_t deadline,
                      struct tn_error *err);
/* The same for a spec that wants it, before anything is made; the answer is kept for a while.  An
 * engine that does not answer is no error here. */
int docker_check_offer(const struct tn_host *host, const struct tn_spec *spec,
                       struct tn_error *err);
/* TN_E_UNSUPPORTED for a container that ought to have it and has not. */
int docker_check_gvisor(const struct docker *d, const struct tn_subject *s,
                        const struct tn_json *tree, struct tn_error *err);
/* That the sockets of one with it, whose first process this is, are those of this kernel in the
 * container's network, as docker.runsc_gate says: a stack of gVisor's own never meets the wall. */
int docker_check_sockets(const struct docker *d, const struct tn_proc *process,
                         struct tn_error *err);

/* --- the body of a create (body.c, kwargs.c, mounts.c) -------------------------------------- */

struct docker_port {
    int inside;
    int outside; /* 0: the engine chooses */
    bool fixed;  /* outside is what the user said */
};

enum { DOCKER_PORTS_MAX = 64 };

struct docker_plan {
    const struct docker *docker;
    const struct tn_subject *subject;
    const struct tn_json *kwargs; /* docker_runtime_kwargs, checked; or NULL */
    struct tn_limits limits;
    char *name, *image;
    int network; /* enum tn_network, never the default */
    bool host_network, no_network;
    bool gated;         /* no_network, as the engine has it */
    bool gate_optional; /* nobody has said a network: without a gate it is bridge */
    bool ends_tls;      /* its gate does, by secrets or rules: it has an authority */
    bool gvisor;        /* its runtime is docker.runsc; sockets by docker.runsc_gate */
    enum docker_way way;
    int own[DOCKER_PORT_COUNT]; /* inside */
    int hand_port;              /* inside; 0 by socket */
    struct docker_port ports[DOCKER_PORTS_MAX];
    size_t port_count;
    uint8_t
        taken[DOCKER_TAKEN_BYTES]; /* bits of ports that are others' own, in the host's network */
    unsigned range_start;          /* where in the range the search for ports began */
};

/* Everything that can be wrong without asking the engine. */
int docker_plan_init(struct docker_plan *p, const struct docker *d, const struct tn_subject *s,
                     struct tn_error *err);
void docker_plan_done(struct docker_plan *p);
/* Sets way, the sandbox's own ports, hand_port, and the ports that follow from them. */
int docker_plan_way(struct docker_plan *p, enum docker_way way, struct tn_error *err);
/* Other than what was planned, before a way is set. */
void docker_plan_network(struct docker_plan *p, int network);
/* Whether one of those ports, but for such as the user has said, is another's: in taken. */
bool docker_plan_clashes(const struct docker_plan *p);
/* Gives the published ports other numbers of the range (attempt counts from 0); false when nothing
 * can be changed. */
bool docker_plan_next_ports(struct docker_plan *p, int attempt);
/* Appends the JSON. */
int docker_plan_body(const struct docker_plan *p, struct tn_buf *out, struct tn_error *err);

/* Arguments of the Python SDK's containers.run(): unknown ones and those that are ours to set are
 * errors. */
int docker_kwargs_check(const struct tn_json *kwargs, struct tn_error *err);
/* Is there one that sets this member of the API ("Memory")? */
bool docker_kwargs_sets(const struct tn_json *kwargs, const char *api_field);
/* Appends the members of the part that they set, but those in `done` (NULL at the end). */
int docker_kwargs_put(const struct tn_json *kwargs, bool host_config, const char *const *done,
                      struct tn_jw *w, struct tn_error *err);

/* Appends their ulimits, but those of these names, to a list of Ulimits. */
void docker_kwargs_put_ulimits(const struct tn_json *kwargs, const char *const *but,
                               struct tn_jw *w);

/* One entry of Devices: "/dev/a[:/dev/b[:rwm]]". */
void docker_put_device(const char *text, struct tn_jw *w);

/* Mounts and Binds: the volumes of the spec, and what carries the hand. */
int docker_put_mounts(const struct docker_plan *p, struct tn_jw *w, struct tn_error *err);
/* Directories that must exist before a create; each is noted before it is made. */
int docker_make_directories(const struct docker_plan *p, struct tn_error *err);
/* And their end. */
int docker_remove_directories(const struct tn_subject *s, struct tn_error *err);

/* --- the owner (leash.c) -------------------------------------------------------------------- */

/* This process, when it is the owner, holds a lock on a file in the run directory from now on until
 * it ends or releases it: a hand that waits for the lock ends with its owner. */
int docker_leash(const struct tn_subject *s, struct tn_error *err);
void docker_unleash(const struct tn_subject *s);
/* Is this process the owner? */
bool docker_is_owner(const struct tn_subject *s);

/* --- images (image.c) ----------------------------------------------------------------------- */

/* Pulls it, telling the host so.  cancel: as that of a subject. */
int docker_pull(const struct docker *d, const char *image, const struct tn_subject *s,
                int64_t deadline, struct tn_error *err);

/* --- life (create.c, drive.c, state.c, ready.c) --------------------------------------------- */

int docker_check(const struct tn_host *host, const struct tn_spec *spec, struct tn_error *err);
int docker_create(void *engine, const struct tn_subject *s, struct tn_place *place,
                  int64_t deadline, struct tn_error *err);
int docker_drive(void *engine, const struct tn_subject *s, enum tn_goal goal,
                 struct tn_place *place, int64_t deadline, struct tn_error *err);
/* Removes the container, which may be gone already or just going. */
int docker_erase(const struct docker *d, const char *id, int64_t deadline, struct tn_error *err);
int docker_inspect(void *engine, const struct tn_subject *s, struct tn_place *place,
                   int64_t deadline, struct tn_error *err);

/* Waits until the hand of a started container can be talked to; *address is where.  When the
 * container ends instead, err says why. */
int docker_wait_ready(const struct docker *d, const struct tn_subject *s, const char *container,
                      char **address, int64_t deadline, struct tn_error *err);
/* Fills a place from what the engine says. */
int docker_place(const struct docker *d, const struct tn_subject *s, const struct tn_json *tree,
                 struct tn_place *place, int64_t deadline, struct tn_error *err);
/* Address of the hand of a running container, for net/http-client.h; NULL with err. */
char *docker_address(const struct docker *d, const struct tn_subject *s, const struct tn_json *tree,
                     struct tn_error *err);

/* --- the end (end.c) ------------------------------------------------------------------------ */

/* Why it ended, on the heap. */
char *docker_end_reason(const struct docker *d, const struct tn_json *tree, enum tn_blame *blame,
                        int64_t deadline);
/* A limit that a running one has hit, on the heap; or NULL. */
char *docker_trouble(const struct docker *d, const struct tn_json *tree, int64_t deadline);

/* --- watching (watch.c) --------------------------------------------------------------------- */

/* The first process of a running container as this machine knows it; pid 0 where it cannot be told
 * for certain. */
void docker_process(const struct docker *d, const struct tn_json *tree, struct tn_proc *out);
/* tn_backend.process: the one that was noted in the ref. */
struct tn_proc docker_first_process(void *engine, const struct tn_subject *s);

/* --- ports (ports.c) ------------------------------------------------------------------------ */

/* Where port `inside` is published: the host (numeric or a name, for people or for connecting) and
 * the port; -1 when it is not. */
int docker_published(const struct docker *d, const struct tn_json *tree, int inside, char **host);
/* Of the default network, "" when it has none. */
const char *docker_container_ip(const struct tn_json *tree);
bool docker_has_host_network(const struct tn_json *tree);
/* What name or address this machine reaches the engine's published ports by. */
const char *docker_reach(const struct docker *d, const char *bound);

/* --- the rest of the table (reach.c, doctor.c) ---------------------------------------------- */

int docker_put(void *engine, const struct tn_subject *s, const char *path, const void *bytes,
               size_t n, mode_t mode, int64_t deadline, struct tn_error *err);
int docker_exec(void *engine, const struct tn_subject *s, const char *const *argv,
                struct tn_buf *out, int *status, int64_t deadline, struct tn_error *err);
char *docker_url(void *engine, const struct tn_subject *s, int port, struct tn_error *err);
int docker_logs(void *engine, const struct tn_subject *s, bool follow, tn_log_fn fn, void *ctx,
                int64_t deadline, struct tn_error *err);
int docker_usage(void *engine, const struct tn_subject *s, struct tn_usage *out,
                 struct tn_error *err);
int docker_doctor(const struct tn_host *host, tn_symptom_fn fn, void *ctx, struct tn_error *err);

#endif
