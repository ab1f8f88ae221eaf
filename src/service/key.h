/* API keys: made by `tendon key`, kept as digests, looked up by their public part.
 *
 * A key is "tnk_ID_SECRET": ID names its row, SECRET is 43 characters of randomness; the row keeps
 * SHA-256 of SECRET, so a slow hash would gain nothing.  A key belongs to a tenant; keys of one
 * tenant see the same sandboxes, and nothing of any other.  A row changed by another process (tendon
 * key revoke) counts from the next request on. */
#ifndef TN_SERVICE_KEY_H
#define TN_SERVICE_KEY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/field.h"
#include "runtime/database.h"

enum scope {
    SCOPE_READ = 1 << 0,  /* look at sandboxes, their events and files */
    SCOPE_USE = 1 << 1,   /* actions, terminals, files, ports of sandboxes that exist */
    SCOPE_MANAGE = 1 << 2, /* create, pause, resume, delete */
    SCOPE_ADMIN = 1 << 3, /* keys, pools, every tenant's sandboxes, metrics */
};
extern const char *const scope_words[]; /* "read", "use", "manage", "admin"; ends with NULL */
#define SCOPES_USUAL (SCOPE_READ | SCOPE_USE | SCOPE_MANAGE)

/* 0: as the service says (or no limit). */
struct key_limits {
    int64_t max_sandboxes;  /* that exist at a time */
    int64_t max_running;    /* that run at a time */
    int64_t max_memory;     /* bytes, of the limits of those that run together */
    double max_cpus;        /* likewise */
    double max_seconds;     /* time to live of each */
    double requests_per_second; /* over it: 429 with Retry-After */
};

struct caller {
    char key_id[13];
    char tenant[65];
    unsigned scopes;
    struct key_limits limits;
};

/* A row, for listing. */
struct key_info {
    char id[13];
    char *name, *tenant;
    unsigned scopes;
    struct key_limits limits;
    double created, used, expires; /* 0: never */
    bool revoked;
};
void key_info_done(struct key_info *k);

struct keyring;
struct keyring *keyring_new(struct tn_db *db);
void keyring_free(struct keyring *k);

/* Who presents that key: 0 with the caller, or -1 TN_E_DENIED with one sentence that is the same for
 * every wrong key.  Takes the same time for every wrong secret. */
int keyring_check(struct keyring *k, const char *text, struct caller *out, struct tn_error *err);

/* For `tendon key` and /v1/keys.  wish: id and times are filled in; text is the key, told only now
 * (the caller wipes it). */
int key_create(struct tn_db *db, struct key_info *wish, char text[64], struct tn_error *err);
int key_revoke(struct tn_db *db, const char *id_or_name, struct tn_error *err);
typedef int (*key_fn)(const struct key_info *k, void *ctx);
int key_each(struct tn_db *db, key_fn fn, void *ctx, struct tn_error *err);
/* A secret that the database keeps under that name, made at the first call: 64 hexadecimal digits. */
int service_secret(struct tn_db *db, const char *name, char out[65], struct tn_error *err);

#endif
