/* Blobs: bytes that clients store here for sandboxes that come later, by tenant.
 *
 * Each is a row (table blob) and a file of the state directory.  A row counts as a page of a disk
 * and its words; a file counts from its first byte on, in steps, and until it is gone: against what
 * its tenant may store and against the disk of its key (max_disk, together with the sandboxes).
 * Nothing here looks into a blob. */
#ifndef TN_SERVICE_BLOBS_H
#define TN_SERVICE_BLOBS_H

#include "net/http-client.h"
#include "service/service.h"

struct caller;

enum { BLOB_ID = 33, BLOB_NAME = 257, BLOB_OWNER = 65 };
enum blob_state {
    BLOB_OPEN,    /* declared */
    BLOB_STORING, /* somebody writes it */
    BLOB_STORED,  /* may be written anew */
    BLOB_WHOLE,
};

struct blob {
    char id[BLOB_ID], key[13];
    char owner[BLOB_OWNER], name[BLOB_NAME]; /* whose it is within the tenant, by which name */
    char *words;                             /* more of the owner's, or NULL */
    enum blob_state state;
    int64_t size;
    double created, expires; /* 0: never */
};
void blob_done(struct blob *b);
#define autoblob TN_CLEANUP(blob_done)

/* A new row with owner, name, words and expires of the blob; id and key are set.  TN_E_QUOTA: the
 * tenant has too many. */
int blob_new(struct tn_service *s, const struct caller *who, struct blob *b, struct tn_error *err);
/* Calls fn with those of that owner, newest first, under the lock of the database, which others get
 * now and then meanwhile; non-zero stops and is returned. */
typedef int (*blob_fn)(const struct blob *b, void *ctx);
int blob_each(struct tn_service *s, const char *tenant, const char *owner, blob_fn fn, void *ctx,
              struct tn_error *err);
/* The one with that id, or with NULL the newest of that name.  TN_E_NOT_FOUND. */
int blob_find(struct tn_service *s, const char *tenant, const char *owner, const char *id,
              const char *name, struct blob *out, struct tn_error *err);
/* Its bytes are what the source gives, or none when that fails; nobody else writes meanwhile
 * (TN_E_CONFLICT), and nobody writes one that is whole.  TN_E_TOO_LARGE, TN_E_BUSY: the disk. */
int blob_store(struct tn_service *s, const struct caller *who, const struct blob *b,
               tn_http_source_fn source, void *ctx, struct tn_error *err);
/* From here on it is whole.  TN_E_INVALID: it has no bytes
 * yet. */
int blob_seal(struct tn_service *s, const struct blob *b, struct tn_error *err);
/* For reading, of one that was stored: a descriptor of the caller's. */
int blob_open(const struct tn_service *s, const struct blob *b, struct tn_error *err);
/* TN_E_CONFLICT: somebody writes it. */
int blob_delete(struct tn_service *s, const struct blob *b, struct tn_error *err);
/* Other words of its owner. */
int blob_say(struct tn_service *s, const struct blob *b, const char *words, struct tn_error *err);
/* It lives until then. */
int blob_keep(struct tn_service *s, const struct blob *b, double expires, struct tn_error *err);

/* What counts for a tenant, in bytes. */
int64_t blobs_charge(struct tn_service *s, const char *tenant);
/* Removes files without a row, and what has expired. */
void blobs_sweep(struct tn_service *s);
/* After a kill: what was being written is not. */
int blobs_begin(struct tn_service *s, struct tn_error *err);

#endif
