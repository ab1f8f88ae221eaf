/* The safe: secrets of sandboxes, sealed on disk (AES-256-GCM) with a key that lies elsewhere.
 *
 *     STATE/secrets/own/NAME             the operator's, and those of the command line
 *     STATE/secrets/tenant-TENANT/NAME   of a tenant of the service
 *
 * A file is a line "tendon-secret 1", twelve random bytes, what is sealed and its tag; owner and
 * name are bound to it, so no file counts in the place of another.  What is sealed is one line of
 * JSON (hosts, headers, changed) and then the value.  Files are replaced as a whole, and plain text
 * is never in one.  Any number of threads and processes may use a safe. */
#ifndef TN_SECURITY_SAFE_H
#define TN_SECURITY_SAFE_H

#include "base/buf.h"
#include "base/error.h"
#include "base/field.h"

enum {
    TN_SAFE_NAME_MAX = 64,
    TN_SAFE_VALUE_MIN = 8, /* a shorter one is in ordinary text, and would be masked there */
    TN_SAFE_VALUE_MAX = 16 << 10,
    TN_SAFE_LIST_MAX = 32,       /* hosts, or headers, of one secret */
    TN_SAFE_ABOUT_MAX = 64 << 10 /* all of that as JSON */
};

struct tn_safe {
    const char *state; /* the state directory */
    const char *key;   /* the file of the key; NULL: tn_safe_usual_key */
};

struct tn_safe_entry {
    char *name;                 /* [A-Z_][A-Z0-9_]*: also that of the variable inside */
    struct tn_str_list hosts;   /* "api.example.com", "*.example.com:8443" */
    struct tn_str_list headers; /* in lower case */
    double changed;             /* seconds since 1970 */
    char *value;                /* printable ASCII; secret; NULL where nobody asked for it */
};
/* hosts, headers, changed: what may be shown, and what a request says. */
extern const struct tn_fields tn_safe_fields;
/* Wipes the value. */
void tn_safe_entry_done(struct tn_safe_entry *e);
#define tn_autosafeentry TN_CLEANUP(tn_safe_entry_done)

bool tn_safe_is_name(const char *name);
/* Name, hosts, headers and value: TN_E_INVALID says what is wrong, and never tells the value.
 * Hosts and headers become lower case; without headers those that carry keys are meant. */
int tn_safe_check(struct tn_safe_entry *e, struct tn_error *err);

/* $XDG_CONFIG_HOME/tendon/secret.key; of root's /etc/tendon/secret.key.  NULL without a home. */
char *tn_safe_usual_key(void);

/* Of all that follow, owner NULL is the operator.  -1 where the key is missing while there are
 * secrets, belongs to others or can be read by them, or does not fit. */

/* Keeps it, in the place of one of the same name; checks it first.  Makes the key if there is no
 * secret yet.  TN_E_CONFLICT when the owner has `most` others already (0: any number). */
int tn_safe_put(const struct tn_safe *s, const char *owner, struct tn_safe_entry *e, int64_t most,
                struct tn_error *err);
/* With its value; TN_E_NOT_FOUND. */
int tn_safe_get(const struct tn_safe *s, const char *owner, const char *name,
                struct tn_safe_entry *out, struct tn_error *err);
/* All of that owner by name, without values; non-zero from fn stops and is returned. */
typedef int (*tn_safe_fn)(const struct tn_safe_entry *e, void *ctx);
int tn_safe_each(const struct tn_safe *s, const char *owner, tn_safe_fn fn, void *ctx,
                 struct tn_error *err);
/* TN_E_NOT_FOUND.  Needs no key. */
int tn_safe_remove(const struct tn_safe *s, const char *owner, const char *name,
                   struct tn_error *err);

/* For what is kept elsewhere: appends the sealed form, as base64, to out.  It opens for the same
 * `what` alone, a name that no secret above has ("modal TENANT NAME").  Makes the key as above. */
int tn_safe_seal(const struct tn_safe *s, const char *what, const struct tn_buf *plain,
                 struct tn_buf *out, struct tn_error *err);
/* TN_E_DENIED: it was sealed with another key, for something else, or is damaged. */
int tn_safe_unseal(const struct tn_safe *s, const char *what, const char *sealed,
                   struct tn_buf *plain, struct tn_error *err);

#endif
