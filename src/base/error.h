/* The one error type.
 *
 * A function that can fail returns 0 or -1 (or NULL) and takes `struct tn_error *err` last; err may
 * be NULL when the caller does not want the reason.  Library code fills it and never prints.
 * Callers add context on the way up with tn_error_context. */
#ifndef TN_BASE_ERROR_H
#define TN_BASE_ERROR_H

#include <stdbool.h>

#include "base/guard.h"

enum tn_code {
    TN_OK,
    TN_E_INVALID,   /* the request makes no sense */
    TN_E_DENIED,    /* wrong or missing key, or not allowed */
    TN_E_NOT_FOUND, /* no such thing */
    TN_E_METHOD,    /* the thing exists but does not do that */
    TN_E_TIMEOUT,   /* the deadline passed */
    TN_E_CONFLICT,  /* exists already, or is in a state that forbids it */
    TN_E_GONE,      /* was there, is discarded */
    TN_E_TOO_LARGE, /* over a limit on size */
    TN_E_URI_TOO_LONG,
    TN_E_MEDIA_TYPE,
    TN_E_RANGE,         /* a byte range outside the thing */
    TN_E_UNPROCESSABLE, /* well formed, but a field is missing or has the wrong type */
    TN_E_QUOTA,         /* over a limit that this caller has */
    TN_E_HEADERS_TOO_LARGE,
    TN_E_INTERNAL,    /* our fault */
    TN_E_UNSUPPORTED, /* not something this build or machine can do */
    TN_E_BUSY,        /* at capacity now, try again */
    TN_E_HTTP_VERSION,
    TN_E_IO,   /* the operating system said no: see sys */
    TN_E_PEER, /* the other side went away or broke the protocol */
    TN_CODE_COUNT
};

struct tn_error {
    enum tn_code code;
    int sys; /* errno behind it, or 0 */
    char text[512];
};

/* One row per code: what each surface shows for it. */
struct tn_code_row {
    const char *name;
    int http_status;
    int exit_code;
    bool retryable;
};

const struct tn_code_row *tn_code_row(enum tn_code code);

/* Both fill err (when not NULL) and return -1. */
int tn_fail(struct tn_error *err, enum tn_code code, const char *fmt, ...) TN_PRINTF(3, 4);
/* The same with ": <strerror>" appended; code follows from the errno value (ENOENT is not
 * found...). */
int tn_fail_errno(struct tn_error *err, int sys, const char *fmt, ...) TN_PRINTF(3, 4);

/* Puts "context: " before the text.  Returns -1, so that it can end a function. */
int tn_error_context(struct tn_error *err, const char *fmt, ...) TN_PRINTF(2, 3);

/* strerror that is safe in threads; the text lives for ever. */
const char *tn_strerror(int sys);

#endif
