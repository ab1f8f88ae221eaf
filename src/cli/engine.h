/* The container engine of the configuration, for verbs about images. */
#ifndef TN_CLI_ENGINE_H
#define TN_CLI_ENGINE_H

#include "cli/cli.h"
#include "engine/engine.h"

/* The caller frees it; NULL with err. */
struct tn_engine *cli_engine(struct cli *cli, int64_t deadline, struct tn_error *err);

#endif
