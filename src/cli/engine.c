#include "cli/engine.h"

struct tn_engine *cli_engine(struct cli *cli, int64_t deadline, struct tn_error *err)
{
    const struct tn_config *config = cli_config(cli, err);

    if (!config)
        return NULL;
    return tn_engine_open(&(struct tn_engine_options){.host = config->docker.host,
                                                      .tls_verify = config->docker.tls_verify,
                                                      .cert_path = config->docker.cert_path},
                          deadline, err);
}
