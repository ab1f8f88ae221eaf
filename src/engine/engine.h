/* Container engines that speak the Docker Engine API: dockerd and Podman's service.
 *
 * One function per call of the API that is needed here; answers are JSON trees as the engine sent
 * them, errors carry the engine's own sentence.  A handle serves several threads; each call is
 * synchronous and ends by its deadline (base/clock.h).
 *
 *     TN_E_PEER       the engine does not answer: the text says where it was looked for
 *     TN_E_DENIED     no permission on its socket (the text says what to do), or TLS refused
 *     TN_E_NOT_FOUND  no such container, image, network, volume: the text says which
 *     TN_E_CONFLICT   the name is taken, or its state forbids it
 *     TN_E_TIMEOUT    the deadline passed */
#ifndef TN_ENGINE_ENGINE_H
#define TN_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "web/web.h"

struct tn_engine;

struct tn_engine_options {
    const char *host;      /* as DOCKER_HOST; NULL or "": the usual sockets, Docker's first */
    bool tls_verify;       /* as DOCKER_TLS_VERIFY */
    const char *cert_path; /* as DOCKER_CERT_PATH: ca.pem, cert.pem, key.pem */
};

/* Finds the engine, asks for its version and agrees on one of the API.  NULL with err. */
struct tn_engine *tn_engine_open(const struct tn_engine_options *options, int64_t deadline,
                                 struct tn_error *err);
void tn_engine_free(struct tn_engine *e);
static inline void tn_guard_engine(struct tn_engine **e)
{
    tn_engine_free(*e);
}
#define tn_autoengine TN_CLEANUP(tn_guard_engine)

struct tn_engine_info {
    const char *address; /* "unix:///var/run/docker.sock" */
    const char *host;    /* its machine: "localhost" or the host of a tcp address */
    const char *name;    /* "docker" or "podman" */
    const char *version; /* "20.10.24" */
    const char *api;     /* agreed on: "1.41" */
    const char *os, *arch;
    bool local; /* reached over a unix socket: it may see our files */
};
/* Lives as long as the handle. */
const struct tn_engine_info *tn_engine_info(const struct tn_engine *e);

/* The unix socket at which such a host (as in the options) would be asked first, on the heap; NULL:
 * none is there, or it is not of this machine.  Asks nobody. */
char *tn_engine_usual_socket(const char *host);

/* --- any call ----------------------------------------------------------------------------- */

struct tn_engine_call {
    const char *method; /* NULL: GET, or POST with a body */
    const char *target; /* below the version: "/containers/json?all=1" */
    const char *const *headers;
    const char *type; /* of the body; NULL: application/json */
    const void *body;
    size_t body_len;
    tn_web_source_fn source; /* see web/web.h */
    void *source_ctx;
    int64_t source_len;
    tn_web_sink_fn sink;
    void *sink_ctx;
    int64_t deadline;
    double idle;
    int cancel;
};

/* 0 with the answer as a tree (*out may be NULL: no content; out may be NULL: not wanted), or -1
 * when there is no answer or a status other than 2xx and 304.  status (may be NULL) is 0 when there
 * was no answer. */
int tn_engine_call(struct tn_engine *e, const struct tn_engine_call *call, int *status,
                   struct tn_json **out, struct tn_error *err);

/* "{"label":["a=b"],...}" percent-encoded, for the parameter `filters`: pairs of name and value,
 * NULL at the end. */
char *tn_engine_filters(const char *const *pairs);

/* --- containers --------------------------------------------------------------------------- */

/* body is the JSON of the API.  *id is on the heap, so is *warnings (may be NULL), what the engine
 * had to say about it in one text, or NULL.  No such image is TN_E_NOT_FOUND. */
int tn_engine_create(struct tn_engine *e, const char *name, const char *platform,
                     const struct tn_buf *body, char **id, char **warnings, int64_t deadline,
                     struct tn_error *err);
int tn_engine_inspect(struct tn_engine *e, const char *id, struct tn_json **out, int64_t deadline,
                      struct tn_error *err);
/* The same with "SizeRw", which takes the engine longer. */
int tn_engine_inspect_size(struct tn_engine *e, const char *id, struct tn_json **out,
                           int64_t deadline, struct tn_error *err);
/* Already started, stopped, paused, running again, removed: success. */
int tn_engine_start(struct tn_engine *e, const char *id, int64_t deadline, struct tn_error *err);
int tn_engine_stop(struct tn_engine *e, const char *id, int grace_seconds, int64_t deadline,
                   struct tn_error *err);
int tn_engine_pause(struct tn_engine *e, const char *id, int64_t deadline, struct tn_error *err);
int tn_engine_unpause(struct tn_engine *e, const char *id, int64_t deadline, struct tn_error *err);
/* By force, with its anonymous volumes. */
int tn_engine_remove(struct tn_engine *e, const char *id, int64_t deadline, struct tn_error *err);
/* An array, running or not; filters as for tn_engine_filters. */
int tn_engine_containers(struct tn_engine *e, const char *const *filters, struct tn_json **out,
                         int64_t deadline, struct tn_error *err);
/* Waits until it is gone, and does not care how. */
int tn_engine_wait_removed(struct tn_engine *e, const char *id, int64_t deadline,
                           struct tn_error *err);
int tn_engine_stats(struct tn_engine *e, const char *id, struct tn_json **out, int64_t deadline,
                    struct tn_error *err);

/* What it printed, piece by piece: stream 1 is standard output, 2 standard error.  Non-zero from fn
 * stops, which is no error.  tail < 0: all.  With follow until it ends or the deadline, which is no
 * error either. */
typedef int (*tn_engine_output_fn)(int stream, const void *bytes, size_t n, void *ctx);
int tn_engine_logs(struct tn_engine *e, const char *id, bool follow, int64_t tail,
                   tn_engine_output_fn fn, void *ctx, int64_t deadline, struct tn_error *err);

struct tn_engine_exec {
    const char *const *argv;
    const char *const *env; /* "NAME=VALUE", or NULL */
    const char *user, *cwd; /* or NULL */
    tn_engine_output_fn fn; /* may be NULL */
    void *ctx;
};
/* Runs a command in a running container; *status as a shell would say. */
int tn_engine_exec(struct tn_engine *e, const char *id, const struct tn_engine_exec *exec,
                   int *status, int64_t deadline, struct tn_error *err);

/* Files (a directory ends with '/' in `name`) from memory or from a descriptor, into a directory of
 * the container, running or not. */
struct tn_engine_file {
    const char *name;  /* relative to the directory */
    const void *bytes; /* of a file; NULL: fd, read from its start */
    int fd;
    uint64_t size;
    mode_t mode;
    uid_t uid;
    gid_t gid;
    time_t mtime; /* 0: now */
};
int tn_engine_put_files(struct tn_engine *e, const char *id, const char *directory,
                        const struct tn_engine_file *files, size_t count, int64_t deadline,
                        struct tn_error *err);

/* --- images ------------------------------------------------------------------------------- */

int tn_engine_image(struct tn_engine *e, const char *reference, struct tn_json **out,
                    int64_t deadline, struct tn_error *err);
int tn_engine_images(struct tn_engine *e, const char *const *filters, struct tn_json **out,
                     int64_t deadline, struct tn_error *err);

/* What the engine tells while it works; members are NULL or -1 when not told.  Borrowed. */
struct tn_engine_progress {
    const char *id;     /* a layer */
    const char *status; /* "Downloading" */
    const char *stream; /* a piece of a build's output */
    int64_t current, total;
    const char *image; /* id of what a build has made so far */
};
typedef void (*tn_engine_progress_fn)(const struct tn_engine_progress *p, void *ctx);

struct tn_engine_pull {
    const char *platform; /* NULL: the engine's own */
    bool anonymous;       /* without the credentials of `docker login` */
    int cancel;           /* 0, or a descriptor: readable means stop (TN_E_GONE); the engine, too */
};
/* Pulls; a reference without tag and digest means :latest.  how and fn may be NULL.  Nothing moving
 * for five minutes is an error. */
int tn_engine_pull(struct tn_engine *e, const char *reference, const struct tn_engine_pull *how,
                   tn_engine_progress_fn fn, void *ctx, int64_t deadline, struct tn_error *err);
int tn_engine_tag(struct tn_engine *e, const char *image, const char *repository, const char *tag,
                  int64_t deadline, struct tn_error *err);
/* One that is gone already: success. */
int tn_engine_image_remove(struct tn_engine *e, const char *reference, bool force, int64_t deadline,
                           struct tn_error *err);
/* Builds from a tar; query is what follows "/build?" (t=, dockerfile=, buildargs=, ...), encoded.
 * cancel: 0, or a descriptor: readable means stop. */
int tn_engine_build(struct tn_engine *e, const char *query, tn_web_source_fn source,
                    void *source_ctx, int64_t length, tn_engine_progress_fn fn, void *ctx,
                    int cancel, int64_t deadline, struct tn_error *err);

/* --- networks, events ------------------------------------------------------------ */

int tn_engine_network_connect(struct tn_engine *e, const char *name, const char *container,
                              int64_t deadline, struct tn_error *err);

/* Events that have happened since then (seconds since 1970), as far as the engine remembers, until
 * fn returns non-zero, which is no error; the event is borrowed. */
typedef int (*tn_engine_event_fn)(const struct tn_json *event, void *ctx);
int tn_engine_past_events(struct tn_engine *e, const char *const *filters, double since,
                          tn_engine_event_fn fn, void *ctx, int64_t deadline, struct tn_error *err);

#endif
