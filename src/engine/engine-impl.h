/* What the files of this folder share. */
#ifndef TN_ENGINE_ENGINE_IMPL_H
#define TN_ENGINE_ENGINE_IMPL_H

#include "engine/engine.h"

struct tn_engine {
    struct tn_web *web;
    char *address, *host, *version, *api, *os, *arch;
    struct tn_engine_info info;
};

/* "/containers/ID/VERB?QUERY" with the id encoded, on the heap; verb and query may be NULL. */
char *engine_path(const char *kind, const char *id, const char *verb, const char *query);
/* Appends "name=value" to a query, encoded; NULL values are left out. */
void engine_query(struct tn_buf *query, const char *name, const char *value);

/* A call without body whose answer does not matter; statuses in `fine` (0 at the end) are success
 * besides 2xx and 304. */
int engine_do(struct tn_engine *e, const char *method, const char *path, const int *fine,
              int64_t deadline, struct tn_error *err);
/* GET of a tree. */
int engine_get(struct tn_engine *e, const char *path, struct tn_json **out, int64_t deadline,
               struct tn_error *err);

/* What X-Registry-Auth says for an image's registry ("X-Registry-Auth: ..." on the heap), from the
 * files and helpers of `docker login`; NULL when there is nothing to say.  A secret. */
char *engine_auth_header(const char *reference, int64_t deadline);

#endif
