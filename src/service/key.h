/* API keys: made by `tendon key`, kept as digests, looked up by their public part.
 *
 * A key is "tnk_ID_SECRET": ID names its row, SECRET is 43 characters of randomness; the row keeps
 * SHA-256 of SECRET, so a slow hash would gain nothing.  A key belongs to a tenant; keys of one
 * tenant see the same sandboxes, and nothing of any other.  A row changed by another process
 * (tendon key revoke) counts from the next request on, and ends the open ones (front_tick). */
#ifndef TN_SERVICE_KEY_H
#define TN_SERVICE_KEY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/field.h"
#include "runtime/database.h"
#include "security/settings.h"

enum scope {
    SCOPE_READ = 1 << 0,    /* look at sandboxes, their events and files */
    SCOPE_USE = 1 << 1,     /* actions, terminals, files, ports of sandboxes that exist */
    SCOPE_MANAGE = 1 << 2,  /* create, pause, resume, delete */
    SCOPE_ADMIN = 1 << 3,   /* everything: keys, pools, every tenant's sandboxes, metrics */
    SCOPE_METRICS = 1 << 4, /* /metrics and nothing else: for who collects them */
};
extern const char *const scope_words[]; /* "read", "use", "manage", "admin", "metrics", NULL */
unsigned scope_bit(const char *word);   /* 0: no such scope */
#define SCOPES_USUAL (SCOPE_READ | SCOPE_USE | SCOPE_MANAGE)

/* 0: as the service says (or no limit). */
struct key_limits {
    int64_t max_sandboxes;      /* that exist at a time */
    int64_t max_running;        /* that run at a time */
    int64_t max_memory;         /* bytes, of the limits of those that run together */
    double max_cpus;            /* likewise */
    int64_t max_pids;           /* likewise processes */
    int64_t max_disk;           /* bytes, of the limits of those that exist together */
    double max_seconds;         /* time to live of each */
    double requests_per_second; /* over it: 429 with Retry-After */
    bool gvisor;                /* each of its sandboxes must run on gVisor */
    int network; /* enum tn_network: the widest that each may have; default: as the service says */
};

/* What becomes of risky actions of a key, where the administrator who made it said so. */
struct key_security {
    bool set; /* false: as the service says */
    struct tn_thresholds own;
};

struct caller {
    char key_id[13];
    char tenant[65];
    unsigned scopes;
    struct key_limits limits;
    struct key_security security;
};

/* A row, for listing. */
struct key_info {
    char id[13];
    char *name, *tenant;
    unsigned scopes;
    struct key_limits limits;
    struct key_security security;
    double created, used, expires; /* 0: never */
    bool revoked;
};
void key_info_done(struct key_info *k);
/* Writes its members, for `tendon key` and /v1/keys; times are seconds since 1970 or null. */
void key_info_put(const struct key_info *k, struct tn_jw *w);
/* Its members "scopes" and "limits", for whoever tells only these. */
void key_put_scopes(struct tn_jw *w, unsigned scopes);
void key_put_limits(struct tn_jw *w, const struct key_limits *limits);
extern const struct tn_fields key_limit_fields;
/* What becomes of risky actions of that caller, where the service does so with others. */
struct tn_thresholds caller_thresholds(const struct caller *who, const struct tn_thresholds *usual);
/* Those thresholds, of which some may be set. */
struct key_security key_security_of(const struct tn_thresholds *own);

struct keyring;
struct keyring *keyring_new(struct tn_db *db);
void keyring_free(struct keyring *k);

/* Who presents that key: 0 with the caller, or -1 TN_E_DENIED with one sentence that is the same
 * for every wrong key.  Takes the same time for every wrong secret. */
int keyring_check(struct keyring *k, const char *text, struct caller *out, struct tn_error *err);
/* The key of that id, for who proved by other means (a ticket) to have had it: -1 TN_E_DENIED
 * unless it still counts. */
int keyring_find(struct keyring *k, const char *id, struct caller *out, struct tn_error *err);
/* The widest limits, each for itself, that a key of that tenant has which may use sandboxes and
 * counts; nothing else of *out is set.  -1: there is none. */
int keyring_widest(struct keyring *k, const char *tenant, struct key_limits *out,
                   struct tn_error *err);
/* Whether another process has written to the store since the last call, as far as checks saw. */
bool keyring_news(struct keyring *k);
/* One more request of that caller now: 0, or so many seconds until it may come again. */
double keyring_take(struct keyring *k, const struct caller *who);

/* The same key as clients of E2B want to see one, some of which look: "e2b_" and hexadecimal
 * digits, which are the bytes of ID_SECRET.  text is a key in its usual spelling. */
#define KEY_E2B_SIZE 117
void key_spell_e2b(const char *text, char out[KEY_E2B_SIZE]);

/* "tnk_ID_SECRET", in either spelling, taken apart; false: it has not the form of a key. */
#define KEY_SECRET 43
bool key_parse(const char *text, char id[13], char secret[KEY_SECRET + 1]);

/* For `tendon key` and /v1/keys.  wish: name, tenant, scopes, limits and expires are given, the
 * rest is filled in; text is the key, told only now (the caller wipes it).  TN_E_CONFLICT: a key
 * that counts has that name. */
int key_create(struct tn_db *db, struct key_info *wish, char text[64], struct tn_error *err);
int key_revoke(struct tn_db *db, const char *id_or_name, struct tn_error *err);
/* One that was not revoked, which the caller ends. */
int key_find(struct tn_db *db, const char *id_or_name, struct key_info *out, struct tn_error *err);
/* Gives the key of that id the scopes, limits, security and expires of k, from the next request on;
 * in the transaction of key_find. */
int key_change(struct tn_db *db, const struct key_info *k, struct tn_error *err);
/* Where no administrator ever had a key: makes one and writes it to the file (0600).  1 when it
 * did, 0, or -1. */
int key_make_first(struct tn_db *db, const char *path, struct tn_error *err);
typedef int (*key_fn)(const struct key_info *k, void *ctx);
int key_each(struct tn_db *db, key_fn fn, void *ctx, struct tn_error *err);
/* A secret that the database keeps under that name, made at the first call: 64 hexadecimal digits.
 */
int service_secret(struct tn_db *db, const char *name, char out[65], struct tn_error *err);

#endif
