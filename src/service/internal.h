/* What the files of the service share. */
#ifndef TN_SERVICE_INTERNAL_H
#define TN_SERVICE_INTERNAL_H

#include "net/http-server.h"
#include "runtime/database.h"
#include "service/service.h"

struct tn_service {
    struct tn_runtime *rt;
    const struct tn_service_options *options;
    struct tn_db *db; /* the store's; borrowed */
    struct tn_http_server *http;
    char *url;          /* as clients see it, without a final slash */
    char secret[65];    /* hexadecimal; signs tickets (ticket.h); kept in the store */
    struct doors *doors;       /* listen.c: listeners, TLS */
    struct boxes *boxes;       /* box.h */
    struct queue *queue;       /* admit.h */
    struct keeper *keeper;     /* keeper.h: limits of time, pools, strays */
    struct keyring *keys;      /* key.h */
    struct audit *audit;       /* audit.h */
    struct metrics *metrics;   /* metrics.h */
    struct watchers *watchers; /* watch.h */
    struct builds *builds;     /* api-openhands-build.c */
};

/* Routes of each surface; service.c lists the tables. */
extern const struct tn_route routes_openhands[]; /* api-openhands.c */
extern const struct tn_route routes_builds[];    /* api-openhands-build.c */
extern const struct tn_route routes_v1app[];     /* api-sandboxes.c: /api/v1 */
extern const struct tn_route routes_webhooks[];  /* api-webhooks.c */
extern const struct tn_route routes_native[];    /* api-native*.c: /v1 */
extern const struct tn_route routes_health[];    /* health.c: /healthz /readyz /metrics */
extern const struct tn_route routes_preview[];   /* preview.c, proxy.c */
extern const struct tn_route routes_dashboard[]; /* dashboard.c */

#endif
