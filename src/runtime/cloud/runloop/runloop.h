/* The runloop backend: devboxes of Runloop, or of whoever serves its API.  What its files share.
 *
 * One plane: the API makes devboxes (control.c) and has their files and commands (inside.c).  The
 * hand is put in through it, and then reached by the tunnel of the devbox. */
#ifndef TN_RUNTIME_CLOUD_RUNLOOP_RUNLOOP_H
#define TN_RUNTIME_CLOUD_RUNLOOP_RUNLOOP_H

#include "runtime/cloud/cloud.h"

enum { DEVBOX_OUTPUT_MAX = 8 << 20 }; /* of a command, in bytes */

/* An engine. */
struct runloop {
    struct cloud cloud; /* first: it is what cloud's functions are given */
    char *api;
    char *tunnels;     /* one address for all tunnels, or NULL: each has a name of its own */
    char *tunnel_host; /* below which those names are */
    bool public_ports;
};

static inline const struct runloop *runloop_of(const struct cloud *c)
{
    return (const struct runloop *)c;
}

/* A view's domain is "KEY.tunnel.HOST", before which PORT- makes a name, or, of older services, the
 * whole address of the hand's port. */

/* --- control.c -------------------------------------------------------------------------------- */

int devbox_make(const struct cloud *c, const struct tn_subject *s, struct cloud_view *out,
                int64_t deadline, struct tn_error *err);
int devbox_look(const struct cloud *c, const char *id, struct cloud_view *out, int64_t deadline,
                struct tn_error *err);
int devbox_each(const struct cloud *c, const char *id, cloud_found_fn fn, void *ctx,
                int64_t deadline, struct tn_error *err);
int devbox_order(const struct cloud *c, const char *id, enum tn_goal goal, int64_t deadline,
                 struct tn_error *err);
int devbox_extend(const struct cloud *c, const char *id, double seconds, int64_t deadline,
                  struct tn_error *err);
char *devbox_address(const struct cloud *c, struct cloud_view *v, int64_t deadline,
                     struct tn_error *err);
/* What a person can open for that port. */
char *devbox_port_url(const struct cloud *c, struct cloud_view *v, int port, int64_t deadline,
                      struct tn_error *err);
/* What an answer says of one devbox; hostile until it was read.  One that was shut down is not
 * known.  -1: nothing that makes sense. */
int devbox_read(const struct cloud *c, const struct tn_json *tree, struct cloud_view *out,
                struct tn_error *err);
/* A POST with a body of JSON. */
struct cloud_call devbox_post(const char *target, const struct tn_buf *body);

/* --- inside.c --------------------------------------------------------------------------------- */

int devbox_put(const struct cloud *c, struct cloud_view *v, const char *user, const char *path,
               const void *bytes, size_t n, int64_t deadline, struct tn_error *err);
int devbox_run(const struct cloud *c, struct cloud_view *v, const struct cloud_run *run,
               int *status, int64_t deadline, struct tn_error *err);

/* The command line that a shell of a devbox is given; what it prints is for devbox_decode. */
int devbox_write_command(const struct cloud_run *run, struct tn_buf *out, struct tn_error *err);
/* What the command itself has printed, of all that came, or (*file, the caller's) where that lies;
 * hostile. */
int devbox_decode(const char *text, size_t n, struct tn_buf *out, char **file,
                  struct tn_error *err);

#endif
