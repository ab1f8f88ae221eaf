/* What a tenant may ask a sandbox to be, whatever surface it asks through.
 *
 * An administrator may have anything.  A template is the operator's word: what it says is allowed.
 * Nothing is lowered silently: a wish beyond its bound is refused with a text that names the bound.
 */
#ifndef TN_SERVICE_BOUNDS_H
#define TN_SERVICE_BOUNDS_H

#include "service/internal.h"
#include "service/key.h"

enum bound {
    BOUND_FREE,     /* concerns the inside of the sandbox alone */
    BOUND_CEILING,  /* a limit: at most what the operator has set */
    BOUND_CHOICE,   /* one of those that the operator allows */
    BOUND_OPERATOR, /* reaches into the machine itself: the scope admin, or a template */
    BOUND_SERVICE,  /* the service decides */
};

/* Whether the settings can be read: sizes are. */
int bounds_check(const struct tn_service_options *options, struct tn_error *err);

/* The row of a member of the spec, with what holds for it; NULL: there is no such member.  Every
 * member has one: tests/unit/service. */
struct bound_row {
    const char *member;
    enum bound bound;
    const char *how;
};
const struct bound_row *bound_find(const char *member);

/* Whether this caller may write these members of a spec at all: for surfaces that take a spec word
 * by word.  TN_E_DENIED, or TN_E_UNPROCESSABLE for what is the service's. */
int bounds_members(const struct caller *who, const struct tn_json *body, struct tn_error *err);

/* Whether this caller may have a sandbox of that spec, made from the template (NULL: none) with
 * that factor: TN_E_DENIED.  A limit that neither it nor the runtime names becomes the ceiling. */
int bounds_settle(struct tn_service *s, const struct caller *who, const char *template,
                  double factor, struct tn_spec *spec, struct tn_error *err);
/* The same for the fork of a sandbox; its image is part of the files that it has already. */
int bounds_fork(struct tn_service *s, const struct caller *who, const char *template, double factor,
                struct tn_spec *spec, struct tn_error *err);
/* Whether a sandbox of that tenant, which this key made, may start once more with the network,
 * volumes, devices and secrets that it has: TN_E_DENIED. */
int bounds_again(const struct tn_service *s, const char *tenant, const char *key_id,
                 const char *template, const struct tn_spec *spec, struct tn_error *err);

/* Whether this caller may give those rules (spec->allow) to a sandbox of that template. */
int bounds_rules(const struct tn_service *s, const struct caller *who, const char *template,
                 const struct tn_spec *spec, struct tn_error *err);

/* Whether that rule, which denies, is the operator's for a sandbox of that template. */
bool bounds_deny(const struct tn_service *s, const struct caller *who, const char *template,
                 const struct tn_spec *spec, const char *rule);

/* Whether that key is an administrator's, and counts. */
bool bounds_admin(const struct tn_service *s, const char *key_id);
/* The labels that the operator gives sandboxes of that template; NULL: none.  The caller's to end.
 */
struct tn_json *bounds_labels(const struct tn_service *s, const char *template);
/* Whether an image that this key named may be pulled with the logins of this machine. */
bool bounds_login(struct tn_service *s, const char *key_id, const char *template,
                  const struct tn_spec *spec);

/* Limits that hold for a spec on its runtime, by what the operator has set where it is silent; 0:
 * none. */
struct bound_limits {
    double memory, cpus, pids, open_files, disk;
};
int bounds_measure(const struct tn_service *s, const char *runtime, const struct tn_spec *spec,
                   double factor, struct bound_limits *out, struct tn_error *err);
/* Bytes that a runtime sets aside for the files of each sandbox beside its limit of disk, and again
 * for each of its snapshots, until they are deleted; 0: none. */
double bounds_claim(const struct tn_config *config, const char *runtime);

/* Whether this caller may have an image of that name, or take something from it. */
int bounds_image(struct tn_service *s, const struct caller *who, const char *image,
                 struct tn_error *err);
/* What the steps of a build may have that this caller asks for, by what holds for sandboxes without
 * a template.  TN_E_DENIED: it may have none. */
struct bound_build {
    struct bound_limits limits;
    bool network; /* the engine's own: no gate stands before a build */
};
int bounds_build(struct tn_service *s, const struct caller *who, struct bound_build *out,
                 struct tn_error *err);

/* Whether this caller may have that time, which the service limits to `most` seconds (0: it does
 * not) by its setting of that name; negative: as the service says, 0: for ever. */
int bounds_time(const struct caller *who, const char *what, double seconds, double most,
                const char *setting, struct tn_error *err);
/* The longest that this caller may have of that time, where 0 is for ever. */
double bounds_nearest(const struct caller *who, double seconds, double most);

#endif
