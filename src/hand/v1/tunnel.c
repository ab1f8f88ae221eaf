/* /v1/tunnel/{port}: a byte stream to a port inside the sandbox, by HTTP upgrade. */
#include "base/clock.h"
#include "hand/routes.h"
#include "hand/v1/v1.h"
#include "net/listen.h"
#include "net/pump.h"

#define CONNECT_SECONDS 5.0

static int dial(int64_t port, struct tn_error *err)
{
    static const char *const hosts[] = {"127.0.0.1", "[::1]"};
    char address[32];
    int fd = -1;

    for (size_t i = 0; i < TN_COUNT(hosts) && fd < 0; i++) {
        snprintf(address, sizeof address, "%s:%d", hosts[i], (int)port);
        fd = tn_dial(address, tn_deadline_in(CONNECT_SECONDS), i == 0 ? err : NULL);
    }
    return fd;
}

static void get_tunnel(struct tn_http_exchange *x, void *ctx)
{
    tn_autobuf struct tn_buf early = TN_BUF_INIT(1 << 20);
    const char *text = tn_http_param(x, "port");
    struct tn_error err;
    int64_t port = 0;

    if (!text || !tn_v1_number(text, 10, 65535, &port) || port == 0) {
        tn_http_reply_detail(x, 422, "port must be a number from 1 to 65535");
        return;
    }
    if (!tn_http_header(x, "Upgrade") || strcmp(tn_http_method(x), "GET") != 0) {
        tn_http_set_header(x, "Upgrade", "tendon-tunnel");
        tn_http_reply_detail(x, 426, "This needs a connection upgrade to tendon-tunnel");
        return;
    }
    tn_autofd int inside = dial(port, &err);
    if (inside < 0) {
        tn_http_reply_detail(x, 502, err.text);
        return;
    }
    int client = tn_http_upgrade(x, "tendon-tunnel", &early);
    if (client < 0)
        return;
    tn_pump(client, inside, &early, NULL);
}

const struct tn_route tn_routes_tunnel[] = {
    {"GET", "/v1/tunnel/{port}", get_tunnel,
     "Upgrade: tendon-tunnel, then bytes to and from the port", 0},
    {0},
};
