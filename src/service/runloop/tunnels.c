/* Tunnels: ports of devboxes under names that are hard to guess, PORT-KEY.DOMAIN. */
#include <pthread.h>
#include <strings.h>

#include "base/secret.h"
#include "service/clock.h"
#include "service/preview-host.h"
#include "service/proxy.h"
#include "service/runloop/runloop.h"

enum { ID = 10, KEY = SURFACE_TUNNEL, PORTS_MAX = 16 << 10 };

/* --- records --------------------------------------------------------------------------------- */

char *runloop_new_tunnel(const struct tn_json *wish)
{
    const char *mode = tn_json_get_str(wish, "auth_mode", "open");

    /* What is not known is not open. */
    return tn_asprintf("{\"auth_mode\":\"%s\",\"create_time_ms\":%lld,\"http_keep_alive\":%s,"
                       "\"wake_on_http\":%s,\"all_ports\":true}",
                       strcmp(mode, "open") == 0 ? "open" : "authenticated",
                       (long long)(service_time() * 1000),
                       tn_json_bool(tn_json_get(wish, "http_keep_alive"), true) ? "true" : "false",
                       tn_json_bool(tn_json_get(wish, "wake_on_http"), false) ? "true" : "false");
}

/* A token of the tunnel that this box has now: another tunnel has others. */
static void token_of(const struct box_view *v, const char *purpose, char out[SURFACE_TOKEN])
{
    const struct tn_json *record = tn_json_get(runloop_record(v), "tunnel");
    char text[64];

    snprintf(text, sizeof text, "%s %lld", v->id,
             (long long)tn_json_int(tn_json_get(record, "create_time_ms"), 0));
    surface_token(box_service(v->box), purpose, text, out);
}

/* Older clients have tunnels to one port each: "ports" of the record, when each was made. */
static int64_t port_made(const struct box_view *v, int port)
{
    char name[8];

    snprintf(name, sizeof name, "%d", port);
    return tn_json_int(tn_json_get(tn_json_get(runloop_record(v), "ports"), name), 0);
}

/* Like that of a tunnel to all ports, and good for this one alone. */
static void port_key_of(const struct box_view *v, int port, char out[KEY])
{
    char text[64];

    snprintf(text, sizeof text, "%s %d %lld", v->id, port, (long long)port_made(v, port));
    memcpy(out, v->id, ID);
    surface_token(box_service(v->box), "tunnel-port", text, out + ID);
}

static void key_of(const struct box_view *v, char out[KEY])
{
    memcpy(out, v->id, ID);
    token_of(v, "tunnel", out + ID);
}

static bool is_open(const struct tn_json *record)
{
    return strcmp(tn_json_get_str(record, "auth_mode", ""), "open") == 0;
}

static void put_view(struct tn_jw *w, const struct box_view *v)
{
    const struct tn_json *record = tn_json_get(runloop_record(v), "tunnel");
    char key[KEY], token[SURFACE_TOKEN];

    key_of(v, key);
    token_of(v, "tunnel-auth", token);
    tn_jw_object(w);
    tn_jw_kstr(w, "tunnel_key", key);
    tn_jw_kstr(w, "auth_mode", is_open(record) ? "open" : "authenticated");
    tn_jw_kint(w, "create_time_ms", tn_json_int(tn_json_get(record, "create_time_ms"), 0));
    tn_jw_kbool(w, "http_keep_alive", tn_json_bool(tn_json_get(record, "http_keep_alive"), true));
    tn_jw_kbool(w, "wake_on_http", tn_json_bool(tn_json_get(record, "wake_on_http"), false));
    if (!is_open(record))
        tn_jw_kstr(w, "auth_token", token);
    tn_jw_object_end(w);
    explicit_bzero(token, sizeof token);
}

void runloop_put_tunnel(struct tn_jw *w, const struct box_view *v, const struct caller *who)
{
    tn_jw_key(w, "tunnel");
    if (who->scopes & (SCOPE_USE | SCOPE_ADMIN) && tn_json_get(runloop_record(v), "tunnel"))
        put_view(w, v);
    else
        tn_jw_null(w);
}

/* --- routes ---------------------------------------------------------------------------------- */

static void post_enable(struct tn_http_exchange *x, void *ctx)
{
    autobox struct box *b = runloop_box(x, ctx, SCOPE_USE, RUNLOOP_DEVBOX, NULL);
    tn_autobuf struct tn_buf json = TN_BUF_INIT(4096);
    tn_autojson struct tn_json *body = NULL;
    struct tn_jw w = tn_jw(&json);
    autoview struct box_view v = {0}, now = {0};
    struct tn_error err = {0};

    if (!b || surface_body(x, RUNLOOP_BODY_MAX, &body))
        return;
    box_look(b, &v);
    tn_autofree char *record = runloop_new_tunnel(body);
    if (!tn_json_get(runloop_record(&v), "tunnel") &&
        runloop_note(b, caller_of(x), "tunnel", record, &err)) {
        reply_error(x, &err);
        return;
    }
    box_look(b, &now);
    put_view(&w, &now);
    tn_http_reply_json(x, 200, &json);
}

struct others {
    struct tn_jw *w;
    const char *but;
};

static int put_other_port(const char *name, struct tn_json *value, void *ctx)
{
    const struct others *others = ctx;

    if (strcmp(name, others->but) == 0)
        return 0;
    tn_jw_key(others->w, name);
    tn_jw_tree(others->w, value);
    return 0;
}

/* That port has a tunnel of its own from now on, or none any more; 0: none has.  Under the lock. */
static int write_port(struct box *b, const struct caller *who, int port, bool open,
                      struct tn_error *err)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(PORTS_MAX);
    struct tn_jw w = tn_jw(&json);
    autoview struct box_view v;
    char name[8];

    box_look(b, &v);
    if (open ? port_made(&v, port) != 0 : !tn_json_get(runloop_record(&v), "ports"))
        return 0;
    snprintf(name, sizeof name, "%d", port);
    tn_jw_object(&w);
    if (port)
        tn_json_each(tn_json_get(runloop_record(&v), "ports"), put_other_port,
                     &(struct others){&w, name});
    if (open)
        tn_jw_kint(&w, name, (int64_t)(service_time() * 1000));
    tn_jw_object_end(&w);
    if (!tn_buf_ok(&json))
        return tn_fail(err, TN_E_INVALID, "this devbox has too many tunnels: remove some");
    return runloop_note(b, who, "ports", tn_buf_str(&json), err);
}

/* One after the other: none writes back what another has just removed. */
static int note_port(struct box *b, const struct caller *who, int port, bool open,
                     struct tn_error *err)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

    pthread_mutex_lock(&lock);
    int result = write_port(b, who, port, open, err);
    pthread_mutex_unlock(&lock);
    return result;
}

/* The way of older clients: one port, and its address. */
static void post_create(struct tn_http_exchange *x, void *ctx)
{
    struct tn_service *s = ctx;
    autobox struct box *b = runloop_box(x, s, SCOPE_USE, RUNLOOP_DEVBOX, NULL);
    tn_autobuf struct tn_buf json = TN_BUF_INIT(4096);
    tn_autojson struct tn_json *body = NULL;
    struct tn_jw w = tn_jw(&json);
    autoview struct box_view v = {0};
    struct tn_error err = {0};
    char key[KEY];

    if (!b || surface_body(x, RUNLOOP_BODY_MAX, &body))
        return;
    int64_t port = tn_json_int(tn_json_get(body, "port"), 0);
    if (port < 1 || port > 65535) {
        native_refuse(x, TN_E_INVALID, "port: expected 1 to 65535");
        return;
    }
    if (note_port(b, caller_of(x), (int)port, true, &err)) {
        reply_error(x, &err);
        return;
    }
    box_look(b, &v);
    port_key_of(&v, (int)port, key);
    tn_autofree char *url = preview_origin(s->url, s->options->preview_domain, key, (int)port);
    tn_jw_object(&w);
    tn_jw_kstr(&w, "devbox_id", v.id);
    tn_jw_kint(&w, "port", port);
    tn_jw_kstr(&w, "url", url);
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 200, &json);
}

/* A tunnel that create_tunnel may have opened, before there were tunnels to one port. */
static bool is_of_before(const struct box_view *v, int port)
{
    const struct tn_json *record = tn_json_get(runloop_record(v), "tunnel");

    return record && !tn_json_get(record, "all_ports") && !port_made(v, port);
}

/* Of older clients that to one port; else all. */
static void post_remove(struct tn_http_exchange *x, void *ctx)
{
    autobox struct box *b = runloop_box(x, ctx, SCOPE_USE, RUNLOOP_DEVBOX, NULL);
    tn_autojson struct tn_json *body = NULL;
    autoview struct box_view v = {0};
    struct tn_error err = {0};

    if (!b || surface_body(x, RUNLOOP_BODY_MAX, &body))
        return;
    box_look(b, &v);
    int64_t port = tn_json_int(tn_json_get(body, "port"), 0);
    bool one = port >= 1 && port <= 65535, all = !one || is_of_before(&v, (int)port);
    if (note_port(b, caller_of(x), one ? (int)port : 0, false, &err) ||
        (all && runloop_note(b, caller_of(x), "tunnel", NULL, &err)))
        reply_error(x, &err);
    else
        runloop_reply_nothing(x);
}

/* --- traffic --------------------------------------------------------------------------------- */

/* Whether that is the key of the tunnel, and the token was shown where one is wanted; or the key
 * of the tunnel to that port. */
static bool may_pass(const struct tn_http_exchange *x, const struct box_view *v, const char *key,
                     int port)
{
    static const char scheme[] = "Bearer ";
    const struct tn_json *record = tn_json_get(runloop_record(v), "tunnel");
    const char *given = tn_http_header(x, "X-Runloop-Tunnel-Authorization");
    char wanted[KEY], token[SURFACE_TOKEN];

    port_key_of(v, port, wanted);
    if (port_made(v, port) && tn_same_secret(key, wanted))
        return true;
    key_of(v, wanted);
    if (!record || !tn_same_secret(key, wanted))
        return false;
    if (is_open(record))
        return true;
    token_of(v, "tunnel-auth", token);
    return given && strncasecmp(given, scheme, sizeof scheme - 1) == 0 &&
           tn_same_secret(given + sizeof scheme - 1, token);
}

bool runloop_take_tunnel(struct tn_service *s, struct tn_http_exchange *x)
{
    autoview struct box_view v = {0};
    char key[KEY];
    int port;

    if (!surface_tunnel_host(x, &port, key))
        return false;
    autobox struct box *b = surface_tunnel_box(s, key);
    if (b)
        box_look(b, &v);
    if (b && runloop_take_pty(x, &v, key))
        return true;
    if (!b || *tn_http_target(x) != '/' || !may_pass(x, &v, key, port))
        reply_unauthorized(x, "There is no such tunnel, or its token is needed: "
                              "X-Runloop-Tunnel-Authorization");
    else if (surface_enter(x, b, v.key_id))
        proxy_to_port(x, b, port, tn_http_target(x), NULL);
    return true;
}

#define BOX "/v1/devboxes/{id}"
const struct tn_route routes_runloop_tunnels[] = {
    {"POST", BOX "/enable_tunnel", post_enable, "Runloop: a tunnel to its ports", 0},
    {"POST", BOX "/create_tunnel", post_create, "Runloop: the address of one port", 0},
    {"POST", BOX "/remove_tunnel", post_remove, "Runloop: no tunnel any more", 0},
    {0},
};
