/* Whom programs believe: the places where systems keep the certificates of authorities. */
#ifndef TN_GATE_ROOTS_H
#define TN_GATE_ROOTS_H

#include <stddef.h>

/* Bundles, the first that there is counts; NULL ends them. */
extern const char *const tn_root_bundles[];
extern const size_t tn_root_bundle_count; /* without the NULL */

/* What a sandbox with an authority of its own has inside, both read-only. */
#define TN_ROOTS_AUTHORITY "/.tendon/authority.pem" /* its certificate alone */
#define TN_ROOTS_BUNDLE "/.tendon/roots.pem"        /* the system's bundle and that */

/* The same on this machine, in the scaffold of a jail or the directory of a container. */
#define TN_ROOTS_AUTHORITY_FILE "authority.pem"
#define TN_ROOTS_BUNDLE_FILE "roots.pem"
#define TN_ROOTS_POLICY_FILE "policy.json" /* for tn_root_policies */

/* Policies of browsers that have a list of their own and read no variable; NULL ends them. */
extern const char *const tn_root_policies[];
extern const size_t tn_root_policy_count; /* without the NULL */

/* Variables by which programs are told, as NAME=path; NULL ends them. */
extern const char *const tn_root_variables[];

#endif
