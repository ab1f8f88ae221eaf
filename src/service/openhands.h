/* What the surfaces of OpenHands share: the runtime API, the sandbox API, webhooks. */
#ifndef TN_SERVICE_OPENHANDS_H
#define TN_SERVICE_OPENHANDS_H

#include "base/clock.h"
#include "service/api-native.h"

/* Ports of a sandbox as OpenHands numbers them. */
enum {
    OPENHANDS_AGENT = 60000, /* the hand, at SERVICE/ID */
    OPENHANDS_EDITOR = 60001,
    OPENHANDS_WORKER_1 = 12000,
    OPENHANDS_WORKER_2 = 12001,
};
/* For a state to change; the clients wait 180 seconds (15 in the newer one). */
#define OPENHANDS_ORDER_SECONDS 60.0

/* A request for SERVICE/ID/...: answers it, from the hand of that box, and returns true.  Who asks
 * has the session key of the box, or a key of its tenant.  For the front of the server. */
bool openhands_take(struct tn_service *s, struct tn_http_exchange *x);

/* Lets a request in by the session key of the box of that id (X-Session-API-Key).  A session key is
 * worth as much as the API key that made the box: it ends with it, and its requests count.  0 with
 * the box, 1 when it has no such key, -1: answered. */
int openhands_session_enter(struct tn_service *s, struct tn_http_exchange *x, const char *id,
                            struct box **out);
/* Gives the order, waits for it, and notes it in the audit log.  0, or -1: answered. */
int openhands_order(struct tn_http_exchange *x, struct box *b, enum box_order order);

/* How this client reaches the box: SERVICE/ID.  Freed by the caller. */
char *openhands_url(const struct tn_http_exchange *x, const char *id);
/* The token of links to its editor, SERVICE/ID/vscode?tkn=TOKEN, which opens nothing else. */
void openhands_editor_token(const struct tn_service *s, const char *id, char out[33]);
char *openhands_editor_url(const struct tn_http_exchange *x, const struct box_view *v);
/* 2026-11-15T05:16:50.123456Z */
void openhands_put_time(struct tn_jw *w, const char *key, double time);

/* The backend of the configuration takes references of images ("python:3.12"), not paths of this
 * machine or nothing at all. */
bool openhands_takes_images(const struct tn_service *s, const char *runtime);
/* Its nodes pull them, and whether one is there is known when it runs.  A name that is to be built
 * (openhands_is_built) then stands for the configured image: nothing that is built here gets there.
 */
bool openhands_pulls_images(const struct tn_service *s, const char *runtime);
/* Whether the tenant's registry prefix is before it. */
bool openhands_is_built(const struct tn_service *s, const char *tenant, const char *image);
/* Into the spec what the command that a client of the original wants started says about the
 * sandbox: directory, user, plugins, browser.  Everything else of it is let pass. */
int openhands_take_command(const struct tn_service *s, struct tn_spec *spec,
                           const struct tn_json *command, struct tn_error *err);
/* Where a tenant's images are, "tendon-tenant/0123456789abcdef0123456789abcdef": nobody else can
 * guess it.  Freed by the caller. */
char *openhands_registry_prefix(const struct tn_service *s, const char *tenant);
/* The image as the engine is to be asked for it: a reference, never an id, and none of another
 * tenant.  On the heap; NULL with err. */
char *openhands_image(const struct tn_service *s, const char *tenant, const char *image,
                      struct tn_error *err);

#endif
