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
    int lock;         /* of the state directory: a descriptor */
    struct tn_http_server *http;
    char *url;                 /* as clients see it, without a final slash */
    char secret[65];           /* hexadecimal; signs tickets (ticket.h); kept in the store */
    struct doors *doors;       /* listen.c: listeners, TLS */
    struct boxes *boxes;       /* box.h */
    struct queue *queue;       /* admit.h */
    struct steward *steward;   /* steward.h: limits of time, pools, strays */
    struct keyring *keys;      /* key.h */
    struct audit *audit;       /* audit.h */
    struct metrics *metrics;   /* metrics.h */
    struct watchers *watchers; /* watch.h */
    struct builds *builds;     /* api-openhands-build.c */
    struct tn_http_kept *kept; /* proxy.c: connections to hands and ports */
    struct desks *desks;       /* proxy.h: act */
    struct health *health;     /* health.h */
    struct purses *purses;     /* purses.h: memory of requests */
    struct asks *asks;         /* asks.h: connections that wait */
    struct hook *hook;         /* confirm.h */
    struct volumes *volumes;   /* volume.h: how much is in them */
    struct tcp_ports *tcp;     /* tcp-ports.h */
};

/* Routes of each surface; service.c lists the tables. */
extern const struct tn_route routes_openhands[];    /* api-openhands.c */
extern const struct tn_route routes_builds[];       /* api-openhands-build.c */
extern const struct tn_route routes_v1app[];        /* api-sandboxes.c: /api/v1 */
extern const struct tn_route routes_webhooks[];     /* api-webhooks.c */
extern const struct tn_route routes_native_about[]; /* api-native-about.c, and so on: /v1 */
extern const struct tn_route routes_native_actions[];
extern const struct tn_route routes_native_admin[];
extern const struct tn_route routes_native_boxes[];
extern const struct tn_route routes_native_create[];
extern const struct tn_route routes_native_events[];
extern const struct tn_route routes_native_hand[];
extern const struct tn_route routes_native_inside[];
extern const struct tn_route routes_native_network[];
extern const struct tn_route routes_native_pending[];
extern const struct tn_route routes_native_ports[];
extern const struct tn_route routes_native_secrets[];
extern const struct tn_route routes_native_security[];
extern const struct tn_route routes_native_watch[];
extern const struct tn_route routes_e2b_create[];        /* e2b/create.c */
extern const struct tn_route routes_e2b_control[];       /* e2b/control.c */
extern const struct tn_route routes_e2b_templates[];     /* e2b/templates.c */
extern const struct tn_route routes_e2b_build[];         /* e2b/build.c */
extern const struct tn_route routes_e2b_snapshots[];     /* e2b/snapshot.c */
extern const struct tn_route routes_e2b_volumes[];       /* e2b/volumes.c */
extern const struct tn_route routes_daytona[];           /* daytona/api.c */
extern const struct tn_route routes_daytona_snapshots[]; /* daytona/snapshot.c */
extern const struct tn_route routes_runloop_create[];    /* runloop/create.c, and so on */
extern const struct tn_route routes_runloop_devboxes[];
extern const struct tn_route routes_runloop_executions[];
extern const struct tn_route routes_runloop_files[];
extern const struct tn_route routes_runloop_layers[];
extern const struct tn_route routes_runloop_objects[];
extern const struct tn_route routes_runloop_pty[];
extern const struct tn_route routes_runloop_tunnels[];
extern const struct tn_route routes_swerex[]; /* swerex/swerex.c, and so on */
extern const struct tn_route routes_swerex_execute[];
extern const struct tn_route routes_swerex_files[];
extern const struct tn_route routes_swerex_session[];
extern const struct tn_route routes_modal[];
extern const struct tn_route routes_modal_mounts[]; /* modal/call.c */
extern const struct tn_route routes_health[];       /* health.c: /healthz /readyz /metrics */
extern const struct tn_route routes_preview[];      /* preview.c */
extern const struct tn_route routes_editor[];       /* editor.c */
extern const struct tn_route routes_dashboard[];    /* dashboard.c */

#endif
