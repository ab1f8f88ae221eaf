/* Volumes of tenants: directories that outlive sandboxes and that several of a tenant may share.
 *
 * A tenant's volume is a named volume of jails (runtime/volume.h), whose name begins with a token
 * of the tenant; so specs and answers name it, and no path of the machine.  To others it does not
 * exist.  What is in all volumes of a tenant counts as disk of every sandbox that has one of them
 * (box_sample): together they may hold what one sandbox may write.  And it counts against max_disk
 * of who makes a sandbox. */
#ifndef TN_SERVICE_VOLUME_H
#define TN_SERVICE_VOLUME_H

#include "runtime/volume.h"
#include "service/box.h"

enum { VOLUME_NAME = 101 };
struct volume {
    char name[VOLUME_NAME];
    double created; /* seconds since 1970 */
};

/* TN_E_INVALID: no name for one; TN_E_CONFLICT: it is there; TN_E_QUOTA: there are too many. */
int volume_create(struct tn_service *s, const char *tenant, const char *name, struct tn_error *err);
/* TN_E_NOT_FOUND. */
int volume_find(struct tn_service *s, const char *tenant, const char *name, struct volume *out,
                struct tn_error *err);
/* In no order; non-zero from fn stops and is returned. */
typedef int (*volume_fn)(const struct volume *v, void *ctx);
int volume_each(struct tn_service *s, const char *tenant, volume_fn fn, void *ctx);
/* With all that is in it.  TN_E_CONFLICT: a sandbox has it.  ends (NULL: none) is the record in the
 * metadata of sandboxes that never start again once they are stopped: such a one has nothing. */
int volume_delete(struct tn_service *s, const char *tenant, const char *name, const char *ends,
                  struct tn_error *err);

/* Removes what a killed service has left of deleted ones. */
void volumes_begin(struct tn_service *s);

/* Puts the volume into a spec: all of it, or (below, may be NULL) a directory of it, which is made
 * at the start of the sandbox.  TN_E_UNSUPPORTED where the runtime is not the jail. */
int volume_mount(struct tn_service *s, const char *tenant, const char *name, const char *below,
                 const char *inside, bool read_only, struct tn_spec *spec, struct tn_error *err);

/* An entry of spec.volumes: the name of the tenant's volume that it is of, into v; false: it is
 * something else.  The caller ends v (tn_volume_done) if it is true. */
bool volume_read(const struct tn_service *s, const char *tenant, const char *entry,
                 struct tn_volume *v, const char **name);
/* Bytes in all volumes of the tenant, if the spec has any; *partial is set: at least, and the next
 * call goes on counting. */
struct volumes *volumes_new(void);
void volumes_free(struct volumes *all);
int64_t volume_measure(struct tn_service *s, const char *tenant, const struct tn_spec *spec,
                       bool *partial);
/* Bytes in all of them, as last counted to the end if that is more than is counted now. */
int64_t volume_charge(struct tn_service *s, const char *tenant);

#endif
