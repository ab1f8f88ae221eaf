/* What the gate of one sandbox knows that the sandbox must not: a file in memory with one JSON
 * object, {"authority": {"certificate", "key"}, "roots", "secrets": [{"name", "placeholder",
 * "value", "hosts", "headers"}]}.  It goes from the process that starts the sandbox to the keeper
 * and from there to the gate as a descriptor: never as text in a plan, a file with a name, an
 * argument or the environment. */
#ifndef TN_SECURITY_VAULT_H
#define TN_SECURITY_VAULT_H

#include "security/authority.h"
#include "security/safe.h"

struct tn_vault_secret {
    const char *placeholder; /* what stands for it inside */
    const struct tn_safe_entry *entry;
};

struct tn_vault {
    const struct tn_authority *authority;
    const char *roots; /* PEM: whom the gate trusts beside the machine's own; or NULL */
    const struct tn_vault_secret *secrets;
    size_t count;
};

enum { TN_VAULT_MAX = 4 << 20 };

/* A sealed file in memory, at its beginning: a descriptor, or -1. */
int tn_vault_write(const struct tn_vault *v, struct tn_error *err);

#endif
