/* Shared libraries that are loaded when they are first needed: a program that does not get there
 * does not pay for them, and runs where they are not installed. */
#ifndef TN_BASE_LIBRARY_H
#define TN_BASE_LIBRARY_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/error.h"

struct tn_library_symbol {
    const char *name;
    size_t offset; /* of the pointer to it, in the struct of all of them */
};

/* One for each library, static: it stays loaded until the process ends. */
struct tn_library {
    const char *user, *name;    /* "TLS" needs "OpenSSL" */
    const char *file, *package; /* what is opened; what to install where that fails */
    const struct tn_library_symbol *symbols;
    size_t symbol_count;
    void *functions;                      /* the struct of pointers that is filled */
    int (*prepare)(struct tn_error *err); /* called once they are, or NULL */

    pthread_mutex_t lock; /* PTHREAD_MUTEX_INITIALIZER */
    atomic_bool loaded;
};

/* Fills the pointers, once, whatever thread comes first.  -1 with TN_E_UNSUPPORTED when the
 * library or one of its symbols is not here; the next call tries again. */
int tn_library_load(struct tn_library *library, struct tn_error *err);

#endif
