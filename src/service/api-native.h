/* What the files of the native API (/v1) share. */
#ifndef TN_SERVICE_API_NATIVE_H
#define TN_SERVICE_API_NATIVE_H

#include "service/box.h"
#include "service/caller.h"

/* Largest body of a request that describes something. */
enum { NATIVE_BODY_MAX = 1 << 20, NATIVE_ANSWER_MAX = 64 << 20 };
/* A sign of life on streams. */
#define NATIVE_BEAT_SECONDS 15.0

/* Whose things the caller sees: its tenant's, or (NULL) everybody's. */
const char *native_tenant(const struct caller *who);

/* For open rows: who asks, by a key or, for a WebSocket of a page, by a ticket among its protocols
 * (purpose "ws", for the box that {id} names).  False: answered. */
bool native_enter(struct tn_http_exchange *x, struct tn_service *s);

/* The box that {id} of the path names, for a caller with that scope; NULL: answered. */
struct box *native_box(struct tn_http_exchange *x, struct tn_service *s, unsigned scope);

/* A parameter of the query: 0, or -1 when it has answered.  *out is left alone when it is absent.
 */
int native_query_int(struct tn_http_exchange *x, const char *name, int64_t min, int64_t max,
                     int64_t *out);
int native_query_seconds(struct tn_http_exchange *x, const char *name, double max, double *out);
int native_query_flag(struct tn_http_exchange *x, const char *name, bool *out);

/* Reads a body, an object (an empty one counts as {}); members that are in none of the tables (ends
 * with NULL) are an error that names the nearest.  -1: answered. */
int native_read(struct tn_http_exchange *x, const struct tn_fields *const *tables,
                struct tn_json **out);
/* The same without any members, for requests that need no body. */
int native_read_nothing(struct tn_http_exchange *x);

/* Answers with err, which says what is wrong with the request. */
int native_refuse(struct tn_http_exchange *x, enum tn_code code, const char *fmt, ...)
    TN_PRINTF(3, 4);
/* Notes in the audit log what somebody did (why NULL: it worked).  -1: the log could not be
 * written, which it has answered. */
int native_audit(struct tn_http_exchange *x, struct tn_service *s, const char *what,
                 const char *box, const struct tn_error *why);
/* The same of what is no sandbox, by its name. */
int native_audit_of(struct tn_http_exchange *x, struct tn_service *s, const char *what,
                    const char *of, const struct tn_error *why);

/* --- the sandbox as an object -------------------------------------------------------------- */

enum {
    NATIVE_WHOLE = 1, /* with its spec */
    NATIVE_KEY = 2,   /* with the key that opens SERVICE/ID/... alone: for who may use it */
};
void native_put_box(struct tn_jw *w, struct box *b, unsigned flags);
void native_put_usage(struct tn_jw *w, const struct tn_usage *usage);
int native_reply_box(struct tn_http_exchange *x, int status, struct box *b);
/* A spec without values that nobody should read, into an object that the caller has opened. */
void native_put_spec(struct tn_jw *w, const struct tn_spec *spec);

/* 202 with an action that waits for its confirmation, and where it is answered. */
void native_reply_pending(struct tn_http_exchange *x, struct box *b, int64_t id);

/* --- wishes -------------------------------------------------------------------------------- */

/* The spec that the configuration, a template (NULL: none) and the members of a body make; of those
 * a caller who is no administrator may not choose what reaches into the machine itself.  spec is
 * initialised, and done on failure. */
int native_spec(struct tn_service *s, const struct caller *who, const char *template,
                const struct tn_json *body, struct tn_spec *spec, struct tn_error *err);

/* Names and metadata that a client gives; all may be NULL. */
int native_check_names(const char *name, const char *session, const struct tn_json *metadata,
                       struct tn_error *err);

#endif
