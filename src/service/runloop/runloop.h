/* The API of Runloop: devboxes, executions, files, disk snapshots, blueprints, tunnels.
 *
 * Unmodified clients work by RUNLOOP_BASE_URL, the address of this service, and a key in
 * RUNLOOP_API_KEY.  A devbox is a box (box.h), an execution a process (process.h); a snapshot and a
 * blueprint are boxes that are at rest, of which devboxes are forked.  docs/clouds/runloop.md says
 * what differs; docs/internals/service-runloop.md why. */
#ifndef TN_SERVICE_RUNLOOP_H
#define TN_SERVICE_RUNLOOP_H

#include "base/clock.h"
#include "runtime/hand-files.h"
#include "service/api-native.h"
#include "service/process.h"
#include "service/surface.h"

#define RUNLOOP_HOME "/home/user"
#define RUNLOOP_CONTEXT \
    "/tmp/.tendon-context" /* where that of a build is unpacked, while it lasts */
enum {
    RUNLOOP_BODY_MAX = 1 << 20,
    RUNLOOP_ANSWER_MAX = 64 << 20,
};
#define RUNLOOP_SECONDS 60.0      /* for what a client waits for, as long as it does itself */
#define RUNLOOP_POLL_SECONDS 25.0 /* of a long poll: clients give up after 30 */
#define RUNLOOP_KEEP_ALIVE 3600.0 /* of a devbox, where nobody says how long */

/* Looks at every request first.  Answers those for tunnels and returns true; errors of the others
 * are told in the vendor's shape from here on. */
bool runloop_take(struct tn_service *s, struct tn_http_exchange *x);

/* --- boxes as clients see them (object.c) ---------------------------------------------------- */

enum runloop_kind {
    RUNLOOP_DEVBOX,
    RUNLOOP_SNAPSHOT,
    RUNLOOP_BLUEPRINT,
    RUNLOOP_UNFINISHED, /* a snapshot that does not rest yet: clients see nothing of it */
};
extern const char *const runloop_kinds[];

/* What this surface keeps of a box beside the words of its client: an object below a name of its
 * own in the metadata.  Whoever may change the metadata may change it: it decides about this box
 * alone. */
const struct tn_json *runloop_record(const struct box_view *v);
enum runloop_kind runloop_kind_of(const struct box_view *v);
/* A snapshot or a blueprint, finished or not (surface_is_layer). */
bool runloop_is_layer(const struct box_view *v);
/* Metadata with those words (members that are no strings are left out) and that record, where
 * `member` is the JSON text `value` (NULL: is not there).  The caller's; NULL with err. */
struct tn_json *runloop_metadata(const struct tn_json *words, const struct tn_json *record,
                                 const char *member, const char *value, struct tn_error *err);
/* Whether a client's metadata are words. */
int runloop_check_words(const struct tn_json *words, struct tn_error *err);
/* Another member of the record. */
int runloop_note(struct box *b, const struct caller *who, const char *member, const char *value,
                 struct tn_error *err);

/* The box of that kind and id in the caller's own tenant, for a caller with that scope; id NULL:
 * that of the path.  NULL: answered. */
struct box *runloop_box(struct tn_http_exchange *x, struct tn_service *s, unsigned scope,
                        enum runloop_kind kind, const char *id);
/* The same, of a devbox that runs: to use it. */
struct box *runloop_running(struct tn_http_exchange *x, struct tn_service *s);
/* False with why it cannot be used: it was suspended or shut down. */
bool runloop_is_up(struct box *b, struct tn_error *err);
const char *runloop_status(const struct box_view *v);
void runloop_put_words(struct tn_jw *w, const struct box_view *v);
void runloop_put_devbox(struct tn_jw *w, const struct box_view *v, const struct caller *who);
int runloop_reply_devbox(struct tn_http_exchange *x, struct box *b);
/* Their times: milliseconds since 1970. */
void runloop_put_ms(struct tn_jw *w, const char *key, double time);

/* A page of boxes of one kind, newest first, as member `key`, with has_more and total_count; keep
 * (NULL: all) says which. */
typedef void (*runloop_put_fn)(struct tn_jw *w, const struct box_view *v, const struct caller *who);
typedef bool (*runloop_keep_fn)(struct tn_http_exchange *x, const struct box_view *v);
void runloop_list(struct tn_http_exchange *x, struct tn_service *s, enum runloop_kind kind,
                  const char *key, runloop_put_fn put, runloop_keep_fn keep);

/* 0, or -1: answered. */
int runloop_order(struct tn_http_exchange *x, struct box *b, enum box_order what);
/* {} */
void runloop_reply_nothing(struct tn_http_exchange *x);

/* --- new boxes (create.c) -------------------------------------------------------------------- */

/* Makes what the body asks for, of that kind, whose record gets `member` as above.  NULL with err.
 */
struct box *runloop_create(struct tn_http_exchange *x, struct tn_service *s,
                           const struct tn_json *body, enum runloop_kind kind, const char *member,
                           const char *value, struct tn_error *err);
/* Writes the files and objects of the body into a box that runs. */
int runloop_write_mounts(struct tn_http_exchange *x, struct box *b, const struct tn_json *body,
                         struct tn_error *err);
/* Writes an object into a box that runs; a relative path begins at home. */
int runloop_write_object(const struct tn_http_exchange *x, struct box *b, const char *id,
                         const char *path, struct tn_error *err);
/* The id that a client gives a request and each repetition of it, also one of its user's own
 * (idempotency_key).  NULL: none, or one that a proxy may have written. */
const char *runloop_idempotency(const struct tn_http_exchange *x);
/* How long a start may take. */
double runloop_start_seconds(const struct tn_service *s);

/* --- executions (executions.c) --------------------------------------------------------------- */

struct runloop_command {
    const char *text, *shell; /* shell: the name of one whose state is kept, or NULL */
    const char *tag, *idempotency;
    bool input;
    bool pty; /* of that size */
    int64_t columns, rows;
};
int runloop_start(struct tn_http_exchange *x, struct box *b, const struct runloop_command *c,
                  struct process_started *out, struct tn_error *err);
/* Every command on a line of its own, the first that fails ends it; for the caller to free. */
char *runloop_script(const struct tn_json *commands);
/* The exit status as a shell tells it. */
int64_t runloop_exit_status(const struct tn_process_status *status);
/* What the process has said so far, line by line as entries of a log. */
void runloop_put_log(struct tn_http_exchange *x, struct tn_jw *w, struct box *b, const char *which);

/* --- files (files.c) ------------------------------------------------------------------------- */

/* The files of a box, with a connection of the caller's; home is where paths begin, the caller's.
 */
struct tn_hand_files *runloop_files(const struct tn_http_exchange *x, struct box *b, char **home,
                                    struct tn_error *err);

/* --- objects (objects.c) --------------------------------------------------------------------- */

/* One that is complete, of that tenant; archive: it is a tar.  TN_E_NOT_FOUND, TN_E_INVALID. */
struct blob;
int runloop_object(struct tn_service *s, const struct caller *who, const char *id, struct blob *out,
                   bool *archive, struct tn_error *err);

/* --- layers (layers.c) ----------------------------------------------------------------------- */

/* The blueprint that an id or a name means: one that is ready.  NULL with err. */
struct box *runloop_blueprint(struct tn_service *s, const struct caller *who, const char *id,
                              const char *name, struct tn_error *err);

/* --- tunnels (tunnels.c) --------------------------------------------------------------------- */

/* The tunnel of that box as a member, if it has one and this caller may use it. */
void runloop_put_tunnel(struct tn_jw *w, const struct box_view *v, const struct caller *who);
/* The record of a tunnel that is asked for now; for the caller to free. */
char *runloop_new_tunnel(const struct tn_json *wish);
/* Answers a request for the host of a tunnel. */
bool runloop_take_tunnel(struct tn_service *s, struct tn_http_exchange *x);

/* --- terminals (pty.c) ----------------------------------------------------------------------- */

/* Answers a request by the tunnel for terminals; false: that is not its key. */
bool runloop_take_pty(struct tn_http_exchange *x, const struct box_view *v, const char *key);

#endif
