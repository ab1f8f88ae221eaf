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
    char *api;
    char *bearer;       /* what the header Authorization says; a secret */
    char *organization; /* or NULL: that of the key */
    char *toolbox_url;  /* of the configuration; NULL: what the platform says */
};

static inline const struct daytona *daytona_of(const struct cloud *c)
{
    return (const struct daytona *)c;
}

/* A line to that address with the key of the account on every request. */
struct tn_web *daytona_web(const struct daytona *d, const char *url, struct tn_error *err);

/* --- control.c -------------------------------------------------------------------------------- */

int daytona_make(const struct cloud *c, const struct tn_subject *s, struct cloud_view *out,
                 int64_t deadline, struct tn_error *err);
int daytona_look(const struct cloud *c, const char *id, struct cloud_view *out, int64_t deadline,
                 struct tn_error *err);
int daytona_each(const struct cloud *c, const char *id, cloud_found_fn fn, void *ctx,
                 int64_t deadline, struct tn_error *err);
int daytona_order(const struct cloud *c, const char *id, enum tn_goal goal, int64_t deadline,
                  struct tn_error *err);
int daytona_extend(const struct cloud *c, const char *id, double seconds, int64_t deadline,
                   struct tn_error *err);
char *daytona_address(const struct cloud *c, struct cloud_view *v, int64_t deadline,
                      struct tn_error *err);
/* A link to the port that a browser can open, for an hour where the sandbox is private; on the
 * heap. */
char *daytona_port_url(const struct cloud *c, const char *id, int port, int64_t deadline,
                       struct tn_error *err);
/* What answers say; hostile until they were read.  -1, or NULL: nothing that makes sense. */
int daytona_read(const struct cloud *c, const struct tn_json *tree, struct cloud_view *out,
                 struct tn_error *err);
char *daytona_read_link(const struct cloud *c, const struct tn_json *tree, struct tn_error *err);

/* --- toolbox.c -------------------------------------------------------------------------------- */

/* Whether the key of the API may go there, too: as secure, and of its domain. */
bool daytona_is_near(const char *api, const char *url);
int daytona_put_file(const struct cloud *c, struct cloud_view *v, const char *user,
                     const char *path, const void *bytes, size_t n, int64_t deadline,
                     struct tn_error *err);
int daytona_run_program(const struct cloud *c, struct cloud_view *v, const struct cloud_run *run,
                        int *status, int64_t deadline, struct tn_error *err);
/* What came of a command; hostile. */
int daytona_read_run(const struct tn_json *tree, const struct cloud_run *run, int *status,
                     struct tn_error *err);

#endif
