/* The runloop backend: devboxes of Runloop, or of whoever serves its API.  What its files share.
 *
 * One plane: the API makes devboxes (control.c) and has their files and commands (inside.c).  The
 * hand is put in through it, and then reached by the tunnel of the devbox. */
#ifndef TN_RUNTIME_CLOUD_RUNLOOP_RUNLOOP_H
#define TN_RUNTIME_CLOUD_RUNLOOP_RUNLOOP_H

#include "runtime/cloud/cloud.h"

#define DEVBOX_SNAPSHOT "snapshot:"   /* before the id of one, in an image */
enum { DEVBOX_OUTPUT_MAX = 8 << 20 }; /* of a command, in bytes */

/* An engine. */
struct runloop {
    struct cloud cloud; /* first: it is what cloud's functions are given */
    char *tunnels;      /* one address for all tunnels, or NULL: each has a name of its own */
    char *tunnel_host;  /* below which those names are */
};

static inline const struct runloop *runloop_of(const struct cloud *c)
{
    return (const struct runloop *)c;
}

/* A view's domain is "KEY.tunnel.HOST", before which PORT- makes a name, or, of older services, the
 * whole address of the hand's port. */

/* --- control.c -------------------------------------------------------------------------------- */

cloud_make_fn devbox_make;
cloud_look_fn devbox_look;
cloud_each_fn devbox_each;
cloud_order_fn devbox_order;
cloud_extend_fn devbox_extend;
extern const struct cloud_works devbox_works;
cloud_address_fn devbox_address;
cloud_port_fn devbox_port;
cloud_read_fn devbox_read;

/* --- inside.c --------------------------------------------------------------------------------- */

cloud_put_fn devbox_put;
cloud_run_fn devbox_run;

/* The command line that a shell of a devbox is given; what it prints is for devbox_decode. */
int devbox_write_command(const struct cloud_run *run, struct tn_buf *out, struct tn_error *err);
/* What the command itself has printed, of all that came, or (*file, the caller's) where that lies;
 * hostile. */
int devbox_decode(const char *text, size_t n, struct tn_buf *out, char **file,
                  struct tn_error *err);

#endif
