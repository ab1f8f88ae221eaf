/* An HTTP server that is asked about actions: JSON there, JSON back. */
#ifndef TN_SECURITY_ENDPOINT_H
#define TN_SECURITY_ENDPOINT_H

#include <stdint.h>

#include "base/json.h"

struct security_endpoint;

/* The most that an answer may be. */
enum { SECURITY_ANSWER_MAX = 1 << 20 };

/* Connects to nothing yet.  key: sent as a bearer, never shown; NULL: none.  NULL with err. */
struct security_endpoint *security_endpoint_new(const char *address, const char *key,
                                                struct tn_error *err);
void security_endpoint_free(struct security_endpoint *e);
/* A further header for every request. */
int security_endpoint_header(struct security_endpoint *e, const char *name, const char *value,
                             struct tn_error *err);

struct security_request {
    const char *method; /* NULL: POST with a body, else GET */
    const char *target; /* follows the address */
    const struct tn_buf *body;
    int64_t deadline;
};

/* 0 with the JSON of a 2xx.  -1 with err for everything else, a redirection too, and for an answer
 * that repeats the key; *status is that of the answer, 0 without one.  Errors have no words of the
 * server's.  Any thread. */
int security_ask(struct security_endpoint *e, const struct security_request *request, int *status,
                 struct tn_json **answer, struct tn_error *err);

#endif
