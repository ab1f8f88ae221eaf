#include "cli/engine.h"

#include "base/clock.h"

/* One that lives says so at once, however long the work may take afterwards. */
#define OPEN_SECONDS 10.0

struct tn_engine *cli_engine(struct cli *cli, int64_t deadline, struct tn_error *err)
{
    const struct tn_config *config = cli_config(cli, err);
    int64_t soon = tn_deadline_in(OPEN_SECONDS);

    if (!config)
        return NULL;
    return tn_engine_open(&(struct tn_engine_options){.host = config->docker.host,
                                                      .tls_verify = config->docker.tls_verify,
                                                      .cert_path = config->docker.cert_path},
                          soon < deadline ? soon : deadline, err);
}
