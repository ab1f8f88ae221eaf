/* Builds of images that clients asked for: rows of the database, files in STATE/builds.
 *
 * A row and its file are there before the build, the file goes when it ends; what a killed service
 * left is told as INTERNAL_ERROR by the next one. */
#ifndef TN_SERVICE_BUILDS_H
#define TN_SERVICE_BUILDS_H

#include "service/bounds.h"

struct builds *builds_new(struct tn_service *s, struct tn_error *err);
/* Stops those under way and waits for their threads.  False: some have not ended, and what they use
 * must not be freed. */
bool builds_end(struct builds *b);
/* After builds_end. */
void builds_free(struct builds *b);

/* Does fn in a thread of its own: one more build of that tenant, of which there may only be so many
 * (TN_E_QUOTA).  `stop` is readable when the service ends.  On failure ctx stays the caller's. */
typedef void (*build_fn)(void *ctx, int stop);
int builds_start(struct builds *b, const char *id, const char *tenant, build_fn fn, void *ctx,
                 struct tn_error *err);

/* --- for api-openhands-build.c ------------------------------------------------------------- */

struct build_wish {
    char id[17];
    const char *tenant;
    char *path;       /* of the context: a gzip'ed tar */
    char *dockerfile; /* of it, which was checked */
    struct bound_build bound;
    struct tn_str_list tags; /* the first is what the image is called */
};

/* A place for one more of that tenant, with a row and an empty file; TN_E_QUOTA when there are too
 * many.  The descriptor of the file, or -1 with err; ended by build_run or build_drop. */
int build_begin(struct builds *b, struct build_wish *wish, struct tn_error *err);
/* It comes to nothing. */
void build_drop(struct builds *b, struct build_wish *wish);
/* Builds it in the background; takes the wish over, also when it fails. */
int build_run(struct builds *b, struct build_wish *wish, struct tn_error *err);

struct build_info {
    char *status, *image, *error;
};
void build_info_done(struct build_info *i);
int build_find(struct builds *b, const char *tenant, const char *id, struct build_info *out,
               struct tn_error *err);

/* The container engine of the configuration. */
struct tn_engine *builds_engine(struct tn_service *s, int64_t deadline, struct tn_error *err);

#endif
