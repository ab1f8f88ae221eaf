/* What the surfaces of OpenHands share. */
#include "service/openhands.h"

#include <time.h>

#include "base/secret.h"
#include "image/reference.h"
#include "net/url.h"
#include "runtime/registry.h"
#include "service/surface.h"

/* --- sessions ------------------------------------------------------------------------------- */

int openhands_session_enter(struct tn_service *s, struct tn_http_exchange *x, const char *id,
                            struct box **out)
{
    const char *given = tn_http_header(x, "X-Session-API-Key");
    autobox struct box *b = given ? box_find(s, NULL, id, NULL) : NULL;

    if (!b)
        return 1;
    autoview struct box_view v;
    box_look(b, &v);
    if (!v.session_key || !tn_same_secret(given, v.session_key))
        return 1;
    if (!surface_enter(x, b, v.key_id))
        return -1;
    *out = TN_TAKE_PTR(b);
    return 0;
}

static const struct tn_backend *backend_of(const struct tn_service *s, const char *runtime)
{
    const struct tn_config *config = tn_runtime_host(s->rt)->config;

    return tn_backend_find(config, runtime ? runtime : config->tendon.runtime, NULL);
}

int openhands_order(struct tn_http_exchange *x, struct box *b, enum box_order order)
{
    struct tn_error err = {0};
    tn_autofree char *what = tn_asprintf("sandbox.%s", box_order_words[order]);
    int result = box_order(b, caller_of(x), order, tn_deadline_in(OPENHANDS_ORDER_SECONDS), &err);

    if (native_audit(x, box_service(b), what, box_id(b), result ? &err : NULL))
        return -1;
    if (result)
        reply_error(x, &err);
    return result;
}

/* --- words ---------------------------------------------------------------------------------- */

char *openhands_url(const struct tn_http_exchange *x, const char *id)
{
    tn_autofree char *base = base_url(x);

    return tn_asprintf("%s/%s", base, id);
}

void openhands_editor_token(const struct tn_service *s, const char *id, char out[33])
{
    surface_token(s, "editor", id, out);
}

char *openhands_editor_url(const struct tn_http_exchange *x, const struct box_view *v)
{
    tn_autofree char *base = openhands_url(x, v->id);
    tn_autobuf struct tn_buf folder = TN_BUF_INIT(64 << 10);
    char token[33];

    openhands_editor_token(box_service(v->box), v->id, token);
    tn_url_encode(&folder, v->spec.workspace ? v->spec.workspace : "/workspace", "");
    return tn_asprintf("%s/vscode/?tkn=%s&folder=%s", base, token, tn_buf_str(&folder));
}

void openhands_put_time(struct tn_jw *w, const char *key, double time)
{
    time_t seconds = (time_t)time;
    struct tm utc;
    char text[48];

    gmtime_r(&seconds, &utc);
    size_t n = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(text + n, sizeof text - n, ".%06dZ", (int)((time - (double)seconds) * 1e6));
    tn_jw_kstr(w, key, text);
}

/* --- images --------------------------------------------------------------------------------- */

#define TENANTS "tendon-tenant/"

bool openhands_takes_images(const struct tn_service *s, const char *runtime)
{
    const struct tn_backend *backend = backend_of(s, runtime);

    return backend && backend != &tn_backend_jail && backend->abilities & TN_CAN_IMAGE;
}

bool openhands_pulls_images(const struct tn_service *s, const char *runtime)
{
    return backend_of(s, runtime) == &tn_backend_kubernetes;
}

char *openhands_registry_prefix(const struct tn_service *s, const char *tenant)
{
    char text[33];

    surface_token(s, "images", tenant, text);
    return tn_asprintf(TENANTS "%s", text);
}

bool openhands_is_built(const struct tn_service *s, const char *tenant, const char *image)
{
    tn_autofree char *prefix = openhands_registry_prefix(s, tenant);
    size_t n = strlen(prefix);

    return strncmp(image, prefix, n) == 0 && image[n] == '/';
}

char *openhands_image(const struct tn_service *s, const char *tenant, const char *image,
                      struct tn_error *err)
{
    tn_autoreference struct tn_reference r = {0};
    tn_autobuf struct tn_buf text = TN_BUF_INIT(4096);
    tn_autofree char *prefix = openhands_registry_prefix(s, tenant);
    size_t n = strlen(prefix);

    if (tn_reference_parse(image, &r, err)) {
        tn_error_context(err, "image");
        return NULL;
    }
    bool foreign = strncmp(r.path, TENANTS, sizeof TENANTS - 1) == 0 &&
                   (strncmp(r.path, prefix, n) != 0 || r.path[n] != '/');
    /* "sha256:0a" is an image whose id begins so, whoever's it is. */
    bool id = !r.host && strcmp(r.path, "sha256") == 0;
    if (foreign || id) {
        tn_fail(err, TN_E_NOT_FOUND, "image %.200s not found", image);
        return NULL;
    }
    tn_reference_put(&r, &text);
    /* A name alone could be the beginning of an id. */
    if (!r.tag && !r.digest)
        tn_buf_puts(&text, ":latest");
    return tn_buf_take(&text);
}
