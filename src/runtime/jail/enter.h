/* Running something inside a jail from outside, also when its hand is dead: `tendon-jail --enter`
 * joins the jail's namespaces and groups and takes on the same restrictions. */
#ifndef TN_RUNTIME_JAIL_ENTER_H
#define TN_RUNTIME_JAIL_ENTER_H

#include "runtime/jail/jail.h"

struct jail_entry {
    struct jail_engine *e;
    const struct tn_subject *subject;
    const struct jail_ref *ref;
    const char *const *argv; /* "--", program, arguments; or "--put", path, mode */
    const void *input;       /* for its standard input */
    size_t input_length;
    struct tn_buf *out; /* both streams; NULL: nowhere */
    int *status;        /* as a shell would say; NULL: anything but 0 is a failure */
    int64_t deadline;
};

int jail_enter(const struct jail_entry *entry, struct tn_error *err);

#endif
