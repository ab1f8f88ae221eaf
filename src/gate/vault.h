/* What a gate knows that nobody inside may: the key of the sandbox's authority, and its secrets.
 *
 * A JSON object in TN_GATE_VAULT, /dev/null where there is none:
 *     {"authority": {"certificate": PEM, "key": PEM}, "roots": PEM or absent,
 *      "secrets": [{"name": ..., "placeholder": ..., "value": ..., "hosts": ["*.x.test:8443"],
 *                   "headers": ["authorization", ...]}]} */
#ifndef TN_GATE_VAULT_H
#define TN_GATE_VAULT_H

#include "base/json.h"
#include "gate/rules.h"

enum { VAULT_MAX = 4 << 20, VAULT_SECRETS = 256, VAULT_VALUE_MAX = 16 << 10 };

struct vault_secret {
    const char *placeholder, *value;
    size_t value_size;
    struct tn_rules hosts; /* each as a rule https://HOST */
    const struct tn_json *headers;
};

/* All texts are borrowed from the tree, which lives as long as the gate. */
struct vault {
    struct tn_json *tree; /* NULL: there is no vault */
    const char *certificate, *key, *roots;
    struct vault_secret *secrets;
    size_t count;
};

/* From that text, which is wiped by the caller. */
int vault_parse(const char *text, size_t size, struct vault *v, struct tn_error *err);
void vault_done(struct vault *v);

/* Whether the value of the secret may be sent there, inside TLS. */
bool vault_secret_is_for(const struct vault_secret *s, const char *name, uint16_t port);
/* Whether that of any may be. */
bool vault_knows(const struct vault *v, const char *name, uint16_t port);
/* Whether there is one for any name on that port. */
bool vault_has_port(const struct vault *v, uint16_t port);

#endif
