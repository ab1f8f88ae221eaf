/* Where engines are found. */
#ifndef TN_ENGINE_FIND_H
#define TN_ENGINE_FIND_H

#include <stdbool.h>

#include "base/error.h"

struct engine_target {
    char *address; /* for people */
    char *base;    /* for tn_web */
    char *socket;  /* or NULL */
    char *host;
};

enum { ENGINE_USUAL_MAX = 4 };

/* As DOCKER_HOST has it.  tls: tcp means https. */
int engine_target_parse(const char *host, bool tls, struct engine_target *out,
                        struct tn_error *err);
/* The sockets that are tried when nothing is said, in order; returns how many. */
size_t engine_targets_usual(struct engine_target out[ENGINE_USUAL_MAX]);
void engine_target_done(struct engine_target *t);

#endif
