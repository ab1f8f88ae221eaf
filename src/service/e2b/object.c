/* A sandbox as clients of E2B see it. */
#include "service/clock.h"
#include "service/e2b/e2b.h"
#include "service/openhands.h"
#include "service/preview-host.h"
#include "service/volume.h"

enum { MIB = 1 << 20 };

int e2b_reply(struct tn_http_exchange *x, int status, const char *code, const char *detail)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(16 << 10);
    struct tn_jw w = tn_jw(&json);

    /* What is well formed and makes no sense is a bad request there; a full house is a limit. */
    status = status == 422 ? 400 : status;
    tn_jw_object(&w);
    tn_jw_kint(&w, "code", status);
    tn_jw_kstr(&w, "message", detail);
    if (code)
        tn_jw_kstr(&w, "error_code", code);
    tn_jw_object_end(&w);
    return tn_http_reply_json(x, status, &json);
}

struct box *e2b_box(struct tn_http_exchange *x, struct tn_service *s, unsigned scope)
{
    const char *id = tn_http_param(x, "id");
    struct tn_error err = {0};

    if (!caller_may(x, scope))
        return NULL;
    struct box *b = surface_box(s, caller_of(x)->tenant, id, &err);
    if (!b)
        reply_error(x, &err);
    return b;
}

bool e2b_is_layer(const struct box_view *v)
{
    return tn_json_get(tn_json_get(v->metadata, E2B_RECORD), "build");
}

const char *e2b_state(const struct box_view *v)
{
    static const char *const states[] = {
        [BOX_STARTING] = "running", [BOX_RUNNING] = "running", [BOX_PAUSED] = "paused",
        [BOX_STOPPED] = "paused",   [BOX_ERROR] = "paused",    [BOX_MISSING] = NULL,
    };

    return v->goal == BOX_GONE || surface_is_layer(v) ? NULL : states[v->state];
}

const char *e2b_template_of(const struct box_view *v, const char *member)
{
    return tn_json_get_str(tn_json_get(v->metadata, E2B_RECORD), member,
                           v->template ? v->template : E2B_TEMPLATE);
}

/* Names of ports are PORT-ID.DOMAIN there and here. */
static void put_domain(struct tn_jw *w, const struct tn_service *s, const char *id)
{
    tn_autofree char *origin = preview_origin(s->url, s->options->preview_domain, id, 1);
    const char *domain = strstr(origin, id);

    tn_jw_kstr(w, "domain", domain ? domain + strlen(id) + 1 : NULL);
}

void e2b_token(const struct tn_service *s, const char *id, char out[E2B_TOKEN])
{
    char digits[SURFACE_TOKEN];

    surface_token(s, "envd", id, digits);
    snprintf(out, E2B_TOKEN, "%.10s_%s", id, digits);
    explicit_bzero(digits, sizeof digits);
}

/* For who may use it. */
static void put_tokens(struct tn_http_exchange *x, struct tn_jw *w, const struct box_view *v)
{
    char token[E2B_TOKEN];

    if (!(caller_of(x)->scopes & (SCOPE_USE | SCOPE_ADMIN)))
        return;
    e2b_token(box_service(v->box), v->id, token);
    tn_jw_kstr(w, "envdAccessToken", token);
    surface_token(box_service(v->box), "traffic", v->id, token);
    tn_jw_kstr(w, "trafficAccessToken", token);
    explicit_bzero(token, sizeof token);
}

static void put_names(struct tn_jw *w, const struct box_view *v)
{
    tn_jw_kstr(w, "sandboxID", v->id);
    tn_jw_kstr(w, "templateID", e2b_template_of(v, "template"));
    tn_jw_kstr(w, "alias", e2b_template_of(v, "alias"));
    tn_jw_kstr(w, "clientID", "tendon");
    tn_jw_kstr(w, "envdVersion", E2B_ENVD_VERSION);
}

void e2b_put_sandbox(struct tn_http_exchange *x, struct tn_jw *w, struct box *b)
{
    autoview struct box_view v;

    box_look(b, &v);
    tn_jw_object(w);
    put_names(w, &v);
    put_domain(w, box_service(b), v.id);
    put_tokens(x, w, &v);
    tn_jw_object_end(w);
}

static void put_volumes(struct tn_jw *w, const struct box_view *v)
{
    bool some = false;

    for (size_t i = 0; i < v->spec.volumes.count; i++) {
        tn_autovolume struct tn_volume one = {0};
        const char *name;
        if (!volume_read(box_service(v->box), v->tenant, v->spec.volumes.items[i], &one, &name))
            continue;
        if (!some) {
            tn_jw_key(w, "volumeMounts");
            tn_jw_array(w);
        }
        some = true;
        tn_jw_object(w);
        tn_jw_kstr(w, "name", name);
        tn_jw_kstr(w, "path", one.inside);
        tn_jw_object_end(w);
    }
    if (some)
        tn_jw_array_end(w);
}

/* Metadata of theirs is text; what others have put there is not shown. */
static int put_text(const char *key, struct tn_json *value, void *w)
{
    if (tn_json_type(value) == TN_JSON_STRING)
        tn_jw_kstr(w, key, tn_json_str(value, NULL));
    return 0;
}

/* When it ends by itself; one that never does says so with a day that nobody will see. */
static double end_of(const struct box_view *v)
{
    const double never = 4102444800.0; /* 2100 */
    double timeout = v->timeout > 0 ? v->timeout : never;

    return v->expires > 0 && v->expires < timeout ? v->expires : timeout;
}

double e2b_started(const struct box_view *v)
{
    return v->started > 0 ? v->started : v->created;
}

void e2b_put_info(struct tn_http_exchange *x, struct tn_jw *w, const struct box_view *v,
                  bool detail)
{
    struct surface_size size = surface_size_of(v);

    tn_jw_object(w);
    put_names(w, v);
    openhands_put_time(w, "startedAt", e2b_started(v));
    openhands_put_time(w, "endAt", end_of(v));
    tn_jw_kint(w, "cpuCount", size.cpus);
    tn_jw_kint(w, "memoryMB", size.memory / MIB);
    tn_jw_kint(w, "diskSizeMB", size.disk / MIB);
    tn_jw_kstr(w, "state", e2b_state(v));
    tn_jw_key(w, "metadata");
    tn_jw_object(w);
    tn_json_each(v->metadata, put_text, w);
    tn_jw_object_end(w);
    if (detail) {
        put_domain(w, box_service(v->box), v->id);
        put_volumes(w, v);
        put_tokens(x, w, v);
        tn_jw_kbool(w, "allowInternetAccess", v->spec.network != TN_NETWORK_NONE);
        tn_jw_key(w, "lifecycle");
        tn_jw_object(w);
        tn_jw_kbool(w, "autoResume", v->timeout_how & TIMEOUT_WAKE);
        tn_jw_kstr(w, "onTimeout", v->timeout_how & TIMEOUT_PAUSE ? "pause" : "kill");
        tn_jw_object_end(w);
    }
    tn_jw_object_end(w);
}
