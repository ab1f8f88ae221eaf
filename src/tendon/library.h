/* What the files of the public interface share. */
#ifndef TN_TENDON_LIBRARY_H
#define TN_TENDON_LIBRARY_H

#include "runtime/runtime.h"

#define MAX_TEXT (256u << 20)

struct tendon_error;

struct tendon {
    struct tn_config config;
    struct tn_runtime *runtime;
    void (*watch)(const char *id, const char *status, const char *message, void *ctx); /* or NULL */
    void *watch_ctx;
};

struct tendon_sandbox {
    struct tendon *tendon;
    struct tn_sandbox *sb;
    struct tendon_session *sessions; /* that are open on it */
};

/* Passes an error on; returns -1. */
int tn_library_fail(struct tendon_error *to, const struct tn_error *from);
/* Tells the sessions on it that it was brought there. */
void tn_library_tell_sessions(struct tendon_sandbox *sb, enum tn_goal goal);
/* The text of a buffer, or NULL when it did not fit. */
char *tn_library_text(struct tn_buf *out, struct tendon_error *to);

#endif
