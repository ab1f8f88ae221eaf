/* Secrets of a sandbox: what it has instead of them, and what its gate gets when it starts.
 *
 * spec.secrets has names.  "NAME" is the operator's own, "TENANT/NAME" that of a tenant of the
 * service.  Values are read from the safe (security/safe.h) at each start, and are in no record. */
#ifndef TN_RUNTIME_SECRETS_H
#define TN_RUNTIME_SECRETS_H

#include "runtime/backend.h"
#include "security/safe.h"

/* The safe of this host; borrows from it. */
struct tn_safe tn_secrets_safe(const struct tn_host *host);

/* "NAME=placeholder", a variable for the inside, on the heap.  The placeholder is
 * tnsecret_name_ and 32 hexadecimal digits that follow from the key of the sandbox: the same after
 * each start, another one in every sandbox, and worth nothing outside of it. */
char *tn_secrets_variable(const struct tn_subject *subject, const char *secret);

/* The vault (security/vault.h) for one start: all secrets of the spec, an authority that is made
 * for it, whose certificate (PEM, on the heap) is to be shown inside.  -1 with TN_E_NOT_FOUND when
 * one is not there any more, and names it.  elsewhere: the gate runs on a machine without a
 * bundle of roots, and believes whom this one does. */
int tn_secrets_vault(const struct tn_host *host, const struct tn_subject *subject, bool elsewhere,
                     char **certificate, struct tn_error *err);

#endif
