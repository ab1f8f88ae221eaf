/* Ports of a sandbox on this machine: connections to a local port are carried to a port inside. */
#ifndef TN_CLI_FORWARD_H
#define TN_CLI_FORWARD_H

#include "cli/cli.h"

struct forward {
    char host[64]; /* numeric; here */
    int local;     /* 0: the system chooses */
    int inside;
};

/* "PORT", "LOCAL:PORT" or "HOST:LOCAL:PORT"; without HOST 127.0.0.1. */
int forward_parse(const char *text, struct forward *out, struct tn_error *err);

/* Listens for all of them (which fills in the ports that the system chose), calls ready, and
 * carries until SIGINT, SIGTERM or SIGHUP: 0.  A connection that cannot be made inside is closed
 * and noted. */
int forward_all(struct cli *cli, struct tn_sandbox *sb, struct forward *list, size_t count,
                void (*ready)(const struct forward *f, void *ctx), void *ctx, struct tn_error *err);

#endif
