#include "cli/verb.h"

static const struct tn_fields options_table = {0};

static int run(const void *given, struct tn_error *err)
{
    printf("tendon %s\n", TN_VERSION);
    return 0;
}

const struct verb verb_version = {
    .name = "version",
    .summary = "print the version",
    .options = &options_table,
    .run = run,
};
