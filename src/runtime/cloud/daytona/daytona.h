/* The daytona backend: sandboxes of Daytona, or of whoever serves its API.  What its files share.
 *
 * The API (control.c) makes sandboxes and tells of them; the toolbox (toolbox.c), the agent in
 * each, has files and processes.  The hand is put in through the toolbox, and then reached by the
 * preview link of its port, with the token that belongs to it. */
#ifndef TN_RUNTIME_CLOUD_DAYTONA_DAYTONA_H
#define TN_RUNTIME_CLOUD_DAYTONA_DAYTONA_H

#include "runtime/cloud/cloud.h"

/* An engine. */
struct daytona {
    struct cloud cloud; /* first: it is what cloud's functions are given */
    char *toolbox_url;  /* of the configuration; NULL: what the platform says */
};

static inline const struct daytona *daytona_of(const struct cloud *c)
{
    return (const struct daytona *)c;
}

/* A line to that address with the key of the account on every request. */
struct tn_web *daytona_web(const struct cloud *c, const char *url, struct tn_error *err);

/* --- control.c -------------------------------------------------------------------------------- */

cloud_make_fn daytona_make;
extern const struct cloud_disks daytona_disks;
cloud_look_fn daytona_look;
cloud_each_fn daytona_each;
cloud_order_fn daytona_order;
cloud_extend_fn daytona_extend;
cloud_address_fn daytona_address;
cloud_port_fn daytona_port; /* for an hour where the sandbox is private */
cloud_read_fn daytona_read;
/* What an answer says; hostile.  NULL: nothing that makes sense. */
char *daytona_read_link(const struct cloud *c, const struct tn_json *tree, struct tn_error *err);

/* --- toolbox.c -------------------------------------------------------------------------------- */

/* Whether the key of the API may go there, too: as secure, and of its domain. */
bool daytona_is_near(const char *api, const char *url);
cloud_put_fn daytona_put_file;
cloud_run_fn daytona_run_program;
/* What came of a command; hostile. */
int daytona_read_run(const struct tn_json *tree, const struct cloud_run *run, int *status,
                     struct tn_error *err);

#endif
