#include "cli/verb.h"

static const struct tn_fields options_table = {0};

static int run(struct cli *cli, const void *given, struct tn_error *err)
{
    printf(cli->json ? "{\"version\":\"%s\"}\n" : "tendon %s\n", TN_VERSION);
    return 0;
}

const struct verb verb_version = {
    .name = "version",
    .group = VERB_SYSTEM,
    .summary = "print the version",
    .options = &options_table,
    .run = run,
};
