/* The manual page of tendon, made from the table of verbs. */
#ifndef TN_CLI_MANUAL_H
#define TN_CLI_MANUAL_H

#include "base/buf.h"

/* Appends tendon(1) in mdoc: docs/man/tendon.1. */
void put_manual(struct tn_buf *out);

#endif
