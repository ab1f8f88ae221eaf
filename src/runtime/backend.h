/* What a backend is: a const table of functions that make sandboxes exist and reachable.
 *
 * A backend never runs actions: it carries the hand in, starts it and says where it listens; the
 * hand does the rest, everywhere the same.  Everything a backend makes outside its own memory
 * carries the sandbox's id in its name or labels, and the id is in the store before the first call,
 * so that whatever a killed process left behind is found again by id.
 *
 * All calls are synchronous, bounded by a deadline (base/clock.h), and safe from several threads
 * and processes for different sandboxes; for one sandbox the caller (sandbox.c) holds its lock. */
#ifndef TN_RUNTIME_BACKEND_H
#define TN_RUNTIME_BACKEND_H

#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/proc.h"
#include "runtime/config.h"
#include "runtime/spec.h"
#include "runtime/status.h"

enum tn_status {
    TN_STATUS_STARTING,
    TN_STATUS_RUNNING,
    TN_STATUS_PAUSED,    /* processes frozen, memory kept */
    TN_STATUS_STOPPED,   /* no processes; the file system is kept */
    TN_STATUS_SUSPENDED, /* no processes; file system and memory are on disk */
    TN_STATUS_ERROR,     /* ended or failed by itself: place.reason says why */
    TN_STATUS_MISSING,   /* the backend does not know it (any more) */
};
extern const char *const tn_status_words[]; /* "starting", "running", ...; ends with NULL */

/* What an error or an end is owed to, for programs; people read the reason. */
enum tn_blame {
    TN_BLAME_NONE,   /* nothing in particular */
    TN_BLAME_IMAGE,  /* it is not there, or cannot be used */
    TN_BLAME_MEMORY, /* it ran out */
};
extern const char *const tn_blame_words[];     /* "none", "image", "memory"; ends with NULL */
enum tn_blame tn_blame_find(const char *word); /* of an unknown one, or NULL: none */

enum tn_goal {
    TN_GOAL_RUNNING,
    TN_GOAL_PAUSED,
    TN_GOAL_STOPPED,
    TN_GOAL_SUSPENDED,
    TN_GOAL_GONE,
};
extern const char *const tn_goal_words[];

/* A process that a sandbox must not outlive; pid 0: it may. */
struct tn_owner {
    pid_t pid;
    uint64_t start; /* as in base/proc.h */
};

/* A sandbox as the store knows it; what backends are given.  Borrowed for the call. */
struct tn_subject {
    const char *id;  /* [a-z0-9]{10}, unique on this machine */
    const char *key; /* the hand's key, 32 characters; secret */
    const struct tn_spec *spec;
    const char
        *directory;  /* absolute, mode 0700, of this sandbox alone; gc removes it at the end */
    const char *ref; /* what place.ref said last, or NULL */
    struct tn_owner owner;
    bool warm;      /* of a create: for a pool, not for anybody yet */
    bool anonymous; /* of a create: whatever has to be fetched is, without this machine's logins */
    int cancel; /* of a create: 0, or a descriptor: readable means that nobody wants it any more,
               and what takes long (a pull) ends with TN_E_GONE */
};

/* Where and how it is.  Members are owned; NULL when unknown. */
struct tn_place {
    enum tn_status status;
    char *address; /* of the hand, for hand-address.h; only while running or paused */
    char *key;     /* of the hand when it is not the subject's, but one that others chose; secret */
    char *ref;     /* JSON text in which a backend notes what it needs to find the thing again */
    char *reason;  /* of an error or an end, for people: "killed: out of memory (limit 512 MiB)" */
    enum tn_blame blame; /* of an error or an end; also after a create that failed */
    bool pending;        /* whatever the status is, it may come to run by itself */
    char *isolation;     /* JSON object of what really holds: {"pid": true, "seccomp": true, ...} */
};
void tn_place_done(struct tn_place *place);
#define tn_autoplace TN_CLEANUP(tn_place_done)

/* Whether all that a command printed is in out: else TN_E_TOO_LARGE. */
int tn_output_fits(const struct tn_buf *out, struct tn_error *err);

/* What a sandbox uses at this moment; -1 is unknown. */
struct tn_usage {
    int64_t memory, memory_peak, disk; /* bytes */
    double cpu_seconds;
    int64_t processes;
    double cpus;       /* used at this moment, where that is told instead of seconds; else 0 */
    bool disk_partial; /* it is that much at least, and the next call goes on counting */
};
#define TN_USAGE_UNKNOWN ((struct tn_usage){-1, -1, -1, -1, -1, 0, false})

enum tn_ability {
    TN_CAN_PAUSE = 1 << 0,
    TN_CAN_STOP = 1 << 1, /* keeps the file system while stopped */
    TN_CAN_SUSPEND = 1 << 2,
    TN_CAN_SNAPSHOT = 1 << 3, /* also roll back and fork */
    TN_CAN_LIMIT = 1 << 4,
    TN_CAN_ISOLATE = 1 << 5,
    TN_CAN_IMAGE = 1 << 6, /* takes an image */
    TN_CAN_NETWORK_NONE = 1 << 7,
    TN_CAN_GVISOR = 1 << 8,      /* a kernel of its own */
    TN_CAN_SECRETS = 1 << 9,     /* a gate that puts them in, or somebody elsewhere who has one */
    TN_CAN_CHANGE_ENV = 1 << 10, /* a start takes the variables as the spec has them then */
    TN_CAN_KATA = 1 << 11,       /* a virtual machine of its own */
};

/* One line of `tendon doctor`. */
struct tn_symptom {
    const char *what;   /* "user namespaces" */
    bool good;          /* false: the backend works less well, or not at all, without it */
    bool needed;        /* nothing works without it */
    const char *detail; /* what was found; how to get it */
};
typedef void (*tn_symptom_fn)(const struct tn_symptom *symptom, void *ctx);

/* Bytes of a log or of an output, in order; non-zero stops (tn_buf_sink keeps them). */
typedef int (*tn_log_fn)(const void *bytes, size_t n, void *ctx);
/* An id the backend found by its own marks; non-zero stops. */
typedef int (*tn_found_fn)(const char *id, void *ctx);
/* Progress of something long, for people: "pulling python:3.12: 34%". */
typedef void (*tn_progress_fn)(const char *text, void *ctx);
/* What becomes of the sandbox of that id, in OpenHands' words; message may be "". */
typedef void (*tn_told_fn)(const char *id, enum tn_runtime_status status, const char *message,
                           void *ctx);

/* The sandbox of that id may have ended, or changed otherwise, by itself. */
typedef void (*tn_changed_fn)(const char *id, void *ctx);

/* What backends get from the process they work in. */
struct tn_host {
    const struct tn_config *config;
    const char *state;       /* state directory, absolute */
    const char *hand;        /* path of the static hand */
    const char *program;     /* directory of our own helper programs */
    tn_progress_fn progress; /* may be NULL */
    void *progress_ctx;
    tn_told_fn told; /* may be NULL: tn_host_tell */
    void *told_ctx;
    /* NULL, or somebody who stays and has many sandboxes: a backend may follow all of them at once,
     * and tells when one has ended, from a thread of its own. */
    tn_changed_fn changed;
    void *changed_ctx;
    bool trial; /* a doctor may make a sandbox to find something out: a person asks for this one */
};
/* A backend itself tells only that it prepares an image (BUILDING_RUNTIME, and STARTING_RUNTIME
 * when that is done); sandbox.c tells the rest. */
void tn_host_tell(const struct tn_host *host, const char *id, enum tn_runtime_status status,
                  const char *message);

struct tn_backend {
    const char *name;
    const char *const *aliases; /* NULL-terminated, or NULL */
    const char *summary;        /* one line, for help and docs */
    unsigned abilities;         /* enum tn_ability; what it can do at best */
    bool elsewhere; /* others pause its sandboxes, too: with sandbox.keep_runtime_alive a use of one
                       that is paused or stopped wakes it */
    bool diskless;  /* its usage never tells of a disk: to ask for that alone is in vain */
    bool judges;    /* a service answers for its sandboxes, which tells what its analyzers found */

    /* Is the engine reachable, are credentials there?  -1 says clearly what is missing.  host
     * outlives the engine. */
    int (*open)(const struct tn_host *host, void **engine, struct tn_error *err);
    void (*close)(void *engine);

    /* Whether a sandbox of that spec could ever be, as far as can be told before one is made: -1
     * (TN_E_INVALID, TN_E_UNSUPPORTED) names the part that cannot be kept, in words for a tenant.
     * Quick; needs no engine, and what it must ask one is kept. NULL: only create tells. */
    int (*check)(const struct tn_host *host, const struct tn_spec *spec, struct tn_error *err);

    /* A create is about to follow: what takes time and is the same for all may be prepared. */
    void (*expect)(void *engine);

    /* Makes and starts it; returns once the hand can be connected to (a connection may wait in its
     * backlog).  After a failure the caller drives it to GONE. */
    int (*create)(void *engine, const struct tn_subject *subject, struct tn_place *place,
                  int64_t deadline, struct tn_error *err);
    /* How it is now.  A sandbox that the backend does not know is 0 with TN_STATUS_MISSING. */
    int (*inspect)(void *engine, const struct tn_subject *subject, struct tn_place *place,
                   int64_t deadline, struct tn_error *err);
    /* Brings it to the goal from whatever state it is in; doing so twice is doing it once. */
    int (*drive)(void *engine, const struct tn_subject *subject, enum tn_goal goal,
                 struct tn_place *place, int64_t deadline, struct tn_error *err);
    /* Every sandbox of ours that the backend finds by its marks, whatever the store says. */
    int (*list)(void *engine, tn_found_fn found, void *ctx, int64_t deadline, struct tn_error *err);

    /* Those of them that were made with that name, best first: the newest that runs, ..., the newest
     * that can be started.  Whoever has no row is driven to running under its id by the next create
     * with that name.  NULL: names are in the store alone. */
    int (*lost)(void *engine, const char *name, tn_found_fn found, void *ctx, int64_t deadline,
                struct tn_error *err);

    /* For gc: removes what was made for sandboxes and is none, and is not wanted any more.  NULL:
     * there is nothing of the kind. */
    int (*tidy)(void *engine, int64_t deadline, struct tn_error *err);

    /* Enough to carry the hand in and start it; also for rescue when the hand is dead. */
    int (*put)(void *engine, const struct tn_subject *subject, const char *path, const void *bytes,
               size_t n, mode_t mode, int64_t deadline, struct tn_error *err);
    /* Runs argv inside; its output (both streams) lands in out; *status as a shell would say. */
    int (*exec)(void *engine, const struct tn_subject *subject, const char *const *argv,
                struct tn_buf *out, int *status, int64_t deadline, struct tn_error *err);
    /* A connected stream to a TCP port inside; NULL: through the hand's tunnel. */
    int (*dial)(void *engine, const struct tn_subject *subject, int port, int64_t deadline,
                struct tn_error *err);
    /* What a person can open for that port, on the heap; NULL with err when there is nothing.  A
     * host that ends in .svc is a Service's name, which its cluster alone knows.  The function may
     * be NULL: only the tunnel reaches ports. */
    char *(*url)(void *engine, const struct tn_subject *subject, int port, struct tn_error *err);
    /* What url would say, and whether all that it takes is there, for which an engine that does not
     * answer is not asked again (there NULL: nor at all).  Makes nothing.  NULL: nor does url. */
    char *(*look_url)(void *engine, const struct tn_subject *subject, int port, bool *there,
                      int64_t deadline, struct tn_error *err);
    /* What the hand and its sandbox printed; with follow until the deadline or fn stops. */
    int (*logs)(void *engine, const struct tn_subject *subject, bool follow, tn_log_fn fn,
                void *ctx, int64_t deadline, struct tn_error *err);

    /* It is used by this process from now on, or no more: what would put it to rest by itself is
     * kept from doing so meanwhile.  Does not wait.  NULL: nothing would. */
    void (*attend)(void *engine, const struct tn_subject *subject, bool used);

    /* It was made before it had the name of its spec: what is its host name inside becomes that, as
     * if it had been made with it.  Quick: a claim waits for it.  NULL: it keeps its id. */
    int (*rename)(void *engine, const struct tn_subject *subject, int64_t deadline,
                  struct tn_error *err);

    /* One that was made warm is the caller's from now on, also before those who can reach it and
     * have another store.  *ref is what its ref becomes, NULL: it stays; 1: again, when the store has
     * that.  0 at once for what is claimed already.  TN_E_CONFLICT: another was quicker, or it has
     * ended; driving it to GONE then touches nothing of others: TN_E_GONE while another has it.
     * NULL: what the store says is enough. */
    int (*claim)(void *engine, const struct tn_subject *subject, char **ref, int64_t deadline,
                 struct tn_error *err);

    /* What network a sandbox of that spec has, never the default, or will have (ref NULL: there is
     * none yet); *allow are the rules of its gate, borrowed from an argument, or NULL: no gate.
     * Asks nobody.  NULL: a backend without gates, as are the two that follow. */
    int (*network)(const struct tn_host *host, const struct tn_spec *spec, const char *ref,
                   const struct tn_str_list **allow);
    /* What the gate of one that runs has refused: as the keeper answers (gate/keeper-protocol.h),
     * into out. */
    int (*refusals)(void *engine, const struct tn_subject *subject, struct tn_buf *out,
                    int64_t deadline, struct tn_error *err);
    /* The rules of the spec count from now on for one that runs; connections that are there stay.
     * Done, or the old ones count. */
    int (*reload)(void *engine, const struct tn_subject *subject, int64_t deadline,
                  struct tn_error *err);

    /* Who hears of connections that no rule allows and that wait, from now on: a socket with the
     * lines of gate/keeper-protocol.h.  TN_E_CONFLICT, or a socket that ends: nobody may be asked.
     * NULL: as above. */
    int (*listen)(void *engine, const struct tn_subject *subject, int64_t deadline,
                  struct tn_error *err);
    /* What becomes of those to that host and port.  TN_E_NOT_FOUND: none waits. */
    int (*let)(void *engine, const struct tn_subject *subject, const char *host, int port,
               bool allowed, int64_t deadline, struct tn_error *err);

    /* The rest may be NULL where the abilities say so.  name is [A-Za-z0-9._-]{1,64}. */
    int (*usage)(void *engine, const struct tn_subject *subject, struct tn_usage *out,
                 struct tn_error *err);
    /* The process that its hand ends with, as the ref has it, whether it lives or not; pid 0 where
     * there is none on this machine.  Asks nobody.  NULL: only inspect tells of an end. */
    struct tn_proc (*process)(void *engine, const struct tn_subject *subject);
    int (*snapshot)(void *engine, const struct tn_subject *subject, const char *name,
                    int64_t deadline, struct tn_error *err);
    int (*forget)(void *engine, const struct tn_subject *subject, const char *name,
                  int64_t deadline, struct tn_error *err); /* removes a snapshot */
    /* Back to the snapshot's files; processes end and the hand starts anew. */
    int (*rollback)(void *engine, const struct tn_subject *subject, const char *name,
                    struct tn_place *place, int64_t deadline, struct tn_error *err);
    /* child begins with the files of subject (name NULL: as they are now; else of the snapshot), and
     * is what its own spec says, whose bounds (tn_spec_borrow_bounds) may be others: TN_E_UNSUPPORTED
     * where they cannot be. */
    int (*fork)(void *engine, const struct tn_subject *subject, const char *name,
                const struct tn_subject *child, struct tn_place *place, int64_t deadline,
                struct tn_error *err);
    /* What this machine offers it, whether or not open succeeds. */
    int (*doctor)(const struct tn_host *host, tn_symptom_fn fn, void *ctx, struct tn_error *err);
};

extern const struct tn_backend tn_backend_local;
extern const struct tn_backend tn_backend_cli;
extern const struct tn_backend tn_backend_jail;
extern const struct tn_backend tn_backend_docker;
extern const struct tn_backend tn_backend_remote;
extern const struct tn_backend tn_backend_e2b;
extern const struct tn_backend tn_backend_runloop;
extern const struct tn_backend tn_backend_modal;
extern const struct tn_backend tn_backend_daytona;
extern const struct tn_backend tn_backend_kubernetes;

#endif
