/* The HTTP surface: the routes an OpenHands host knows, and ours below /v1. */
#ifndef TN_HAND_ROUTES_H
#define TN_HAND_ROUTES_H

#include "hand/hand.h"
#include "net/http-server.h"

/* Route tables, each ended by {0}; the context of every handler is struct tn_hand. */
extern const struct tn_route tn_routes_openhands[];
extern const struct tn_route tn_routes_transfer[];
extern const struct tn_route tn_routes_index[];
extern const struct tn_route tn_routes_sessions[];
extern const struct tn_route tn_routes_output[];
extern const struct tn_route tn_routes_terminal[];
extern const struct tn_route tn_routes_input[];
extern const struct tn_route tn_routes_files[];
extern const struct tn_route tn_routes_links[];
extern const struct tn_route tn_routes_content[];
extern const struct tn_route tn_routes_watch[];
extern const struct tn_route tn_routes_tunnel[];
extern const struct tn_route tn_routes_plugins[];
extern const struct tn_route tn_routes_processes[];
/* All of them and those of the plugins, ended by NULL; complete once the server is made. */
extern const struct tn_route *tn_route_tables[];

/* The server with all tables and the key check; not listening yet. */
struct tn_http_server *tn_hand_server(struct tn_hand *hand);

/* 422 in the shape of the original: where is a Python tuple's inside ("'body', 'action'"). */
void tn_reply_invalid(struct tn_http_exchange *x, const char *where, const char *why);

#endif
