/* What the service is and has: info, me, routes, templates, images. */
#include <pthread.h>

#include "base/clock.h"
#include "engine/engine.h"
#include "image/build.h"
#include "runtime/registry.h"
#include "service/api-native.h"
#include "service/builds.h"
#include "service/openhands.h"

#define ENGINE_SECONDS 10.0
/* How long what a look at the backends found is good for. */
#define DOCTOR_SECONDS 60.0

static const struct tn_route *const tables[] = {
    routes_editor,         routes_native_about,    routes_native_actions, routes_native_admin,
    routes_native_boxes,   routes_native_create,   routes_native_events,  routes_native_hand,
    routes_native_inside,  routes_native_network,  routes_native_pending, routes_native_ports,
    routes_native_secrets, routes_native_security, routes_native_watch,   NULL,
};

/* --- routes ---------------------------------------------------------------------------------- */

static void get_routes(struct tn_http_exchange *x, void *ctx)
{
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, 1 << 20);
    struct tn_jw w = tn_jw(&json);

    tn_jw_object(&w);
    tn_jw_key(&w, "routes");
    tn_jw_array(&w);
    for (const struct tn_route *const *table = tables; *table; table++)
        for (const struct tn_route *r = *table; r->method; r++) {
            tn_jw_object(&w);
            tn_jw_kstr(&w, "method", r->method);
            tn_jw_kstr(&w, "path", r->pattern);
            tn_jw_kstr(&w, "help", r->help);
            tn_jw_object_end(&w);
        }
    tn_jw_array_end(&w);
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 200, &json);
}

/* --- info ------------------------------------------------------------------------------------ */

struct visit {
    struct tn_jw w;
    bool works;
};

static void put_finding(const struct tn_symptom *f, void *ctx)
{
    struct visit *v = ctx;

    v->works &= f->good || !f->needed;
    if (f->good)
        return;
    tn_jw_object(&v->w);
    tn_jw_kstr(&v->w, "what", f->what);
    tn_jw_kbool(&v->w, "needed", f->needed);
    tn_jw_kstr(&v->w, "detail", f->detail);
    tn_jw_object_end(&v->w);
}

static void put_backend(struct tn_jw *out, const struct tn_backend *b, const struct tn_host *host,
                        bool all)
{
    tn_autobuf struct tn_buf missing = TN_BUF_INIT(1 << 20);
    struct visit v = {.w = tn_jw(&missing), .works = true};
    struct tn_error err = {0};

    tn_jw_array(&v.w);
    if (b->doctor && b->doctor(host, put_finding, &v, &err) < 0)
        put_finding(&(struct tn_symptom){.what = "examination", .needed = true, .detail = err.text},
                    &v);
    tn_jw_array_end(&v.w);
    tn_jw_object(out);
    tn_jw_kstr(out, "name", b->name);
    tn_jw_kstr(out, "summary", b->summary);
    tn_jw_kbool(out, "usual",
                b == tn_backend_find(host->config, host->config->tendon.runtime, NULL));
    tn_jw_kbool(out, "works", v.works);
    if (all) {
        tn_jw_key(out, "missing");
        tn_jw_raw(out, tn_buf_str(&missing), missing.len);
    }
    tn_jw_object_end(out);
}

static char *examine(const struct tn_host *host, bool all)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(4 << 20);
    struct tn_jw w = tn_jw(&json);

    tn_jw_array(&w);
    for (const struct tn_backend *const *b = tn_backends; *b; b++)
        put_backend(&w, *b, host, all);
    tn_jw_array_end(&w);
    return tn_buf_take(&json);
}

/* The backends as JSON, found out anew once in a while; what is missing on this machine is for its
 * administrator. */
static char *runtimes(const struct tn_host *host, bool all)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct {
        int64_t until;
        char *json;
    } known[2];

    pthread_mutex_lock(&lock);
    char *json = tn_now() < known[all].until ? tn_strdup(known[all].json) : NULL;
    pthread_mutex_unlock(&lock);
    if (json)
        return json;
    json = examine(host, all);
    pthread_mutex_lock(&lock);
    free(known[all].json);
    known[all].json = tn_strdup(json);
    known[all].until = tn_deadline_in(DOCTOR_SECONDS);
    pthread_mutex_unlock(&lock);
    return json;
}

static void put_limits(struct tn_jw *w, const struct tn_service_options *o)
{
    tn_jw_key(w, "limits");
    tn_jw_object(w);
    tn_jw_kint(w, "max_sandboxes", o->max_sandboxes);
    tn_jw_kdouble(w, "start_seconds", o->start_seconds);
    tn_jw_kdouble(w, "idle_pause_seconds", o->idle_pause_seconds);
    tn_jw_kdouble(w, "idle_stop_seconds", o->idle_stop_seconds);
    tn_jw_kdouble(w, "ttl_seconds", o->ttl_seconds);
    tn_jw_kbool(w, "pause_old_sandboxes", o->pause_old_sandboxes);
    tn_jw_kbool(w, "resume_on_use", o->resume_on_use);
    tn_jw_object_end(w);
}

static void get_info(struct tn_http_exchange *x, void *ctx)
{
    struct tn_service *s = ctx;
    tn_autofree char *url = base_url(x);
    tn_autofree char *backends =
        runtimes(tn_runtime_host(s->rt), caller_of(x)->scopes & SCOPE_ADMIN);
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, 4 << 20);
    struct tn_jw w = tn_jw(&json);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "name", "tendon");
    tn_jw_kstr(&w, "version", TN_VERSION);
    tn_jw_kstr(&w, "url", url);
    tn_jw_key(&w, "runtimes");
    tn_jw_raw(&w, backends, strlen(backends));
    put_limits(&w, s->options);
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 200, &json);
}

/* --- me -------------------------------------------------------------------------------------- */

struct search {
    const char *id;
    char *name;
};

static int find_name(const struct key_info *k, void *ctx)
{
    struct search *s = ctx;

    if (strcmp(k->id, s->id) != 0)
        return 0;
    s->name = tn_strdup_or_null(k->name);
    return 1;
}

static void get_me(struct tn_http_exchange *x, void *ctx)
{
    struct tn_service *s = ctx;
    const struct caller *who = caller_of(x);
    struct search search = {.id = who->key_id};
    tn_autobuf struct tn_buf json = TN_BUF_INIT(64 << 10);
    struct tn_jw w = tn_jw(&json);

    key_each(s->db, find_name, &search, NULL);
    tn_jw_object(&w);
    tn_jw_kstr(&w, "key", who->key_id);
    tn_jw_kstr(&w, "name", search.name);
    tn_jw_kstr(&w, "tenant", who->tenant);
    key_put_scopes(&w, who->scopes);
    key_put_limits(&w, &who->limits);
    tn_jw_key(&w, "use");
    tn_jw_object(&w);
    tn_jw_kint(&w, "sandboxes", box_count(s, who->tenant, 0));
    tn_jw_kint(&w, "running", box_count(s, who->tenant, 1u << BOX_RUNNING | 1u << BOX_STARTING));
    tn_jw_object_end(&w);
    tn_jw_object_end(&w);
    free(search.name);
    tn_http_reply_json(x, 200, &json);
}

/* --- templates ------------------------------------------------------------------------------- */

static void put_template(struct tn_jw *w, const struct tn_config *config, const char *name)
{
    struct tn_spec spec;
    struct tn_error err = {0};

    tn_spec_init(&spec);
    int failed = tn_config_spec(config, name, &spec, &err);
    tn_jw_object(w);
    tn_jw_kstr(w, "name", name);
    tn_jw_kstr(w, "problem", failed ? err.text : NULL);
    tn_jw_key(w, "spec");
    tn_jw_object(w);
    if (!failed)
        native_put_spec(w, &spec);
    tn_jw_object_end(w);
    tn_jw_object_end(w);
    tn_spec_done(&spec);
}

static void get_templates(struct tn_http_exchange *x, void *ctx)
{
    struct tn_service *s = ctx;
    const struct tn_config *config = tn_runtime_host(s->rt)->config;
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, NATIVE_ANSWER_MAX);
    struct tn_jw w = tn_jw(&json);
    const char *name;

    if (!caller_may(x, SCOPE_READ))
        return;
    tn_jw_object(&w);
    tn_jw_key(&w, "templates");
    tn_jw_array(&w);
    for (size_t i = 0; (name = tn_config_template_name(config, i)); i++)
        put_template(&w, config, name);
    tn_jw_array_end(&w);
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 200, &json);
}

/* --- images ---------------------------------------------------------------------------------- */

/* The names that the caller may use; how many. */
static size_t put_names(struct tn_jw *w, struct tn_service *s, const struct caller *who,
                        const struct tn_json *names)
{
    size_t count = 0;

    for (size_t i = 0; i < tn_json_count(names); i++) {
        const char *name = tn_json_str(tn_json_at(names, i), NULL);
        tn_autofree char *usable = NULL;
        if (!name || !strcmp(name, "<none>:<none>"))
            continue;
        if (!(who->scopes & SCOPE_ADMIN))
            usable = openhands_image(s, who->tenant, name, NULL);
        if (!usable && !(who->scopes & SCOPE_ADMIN))
            continue;
        tn_jw_str(w, name);
        count++;
    }
    return count;
}

static void put_image(struct tn_jw *w, struct tn_service *s, const struct caller *who,
                      const struct tn_json *image)
{
    const struct tn_json *labels = tn_json_get(image, "Labels");
    tn_autobuf struct tn_buf names = TN_BUF_INIT(1 << 20);
    struct tn_jw list = tn_jw(&names);

    tn_jw_array(&list);
    size_t count = put_names(&list, s, who, tn_json_get(image, "RepoTags"));
    tn_jw_array_end(&list);
    if (!count)
        return;
    tn_jw_object(w);
    tn_jw_key(w, "names");
    tn_jw_raw(w, tn_buf_str(&names), names.len);
    tn_jw_kstr(w, "base", tn_json_get_str(labels, TN_IMAGE_LABEL_BASE, NULL));
    tn_jw_kstr(w, "plugins", tn_json_get_str(labels, TN_IMAGE_LABEL_PLUGINS, NULL));
    tn_jw_kint(w, "size", tn_json_int(tn_json_get(image, "Size"), 0));
    tn_jw_kdouble(w, "created", tn_json_double(tn_json_get(image, "Created"), 0));
    tn_jw_object_end(w);
}

/* Those of the engine that were built here.  A machine without an engine has none. */
static void get_images(struct tn_http_exchange *x, void *ctx)
{
    static const char *const built[] = {"label", TN_IMAGE_LABEL, NULL};
    struct tn_service *s = ctx;
    int64_t deadline = tn_deadline_in(ENGINE_SECONDS);
    tn_autojson struct tn_json *images = NULL;
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, NATIVE_ANSWER_MAX);
    struct tn_jw w = tn_jw(&json);

    if (!caller_may(x, SCOPE_READ))
        return;
    tn_autoengine struct tn_engine *engine = builds_engine(s, deadline, NULL);
    if (engine)
        tn_engine_images(engine, built, &images, deadline, NULL);
    tn_jw_object(&w);
    tn_jw_key(&w, "images");
    tn_jw_array(&w);
    for (size_t i = 0; i < tn_json_count(images); i++)
        put_image(&w, s, caller_of(x), tn_json_at(images, i));
    tn_jw_array_end(&w);
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 200, &json);
}

const struct tn_route routes_native_about[] = {
    {"GET", "/v1/info", get_info, "version, runtimes, limits", 0},
    {"GET", "/v1/me", get_me, "the key of this request: tenant, scopes, limits, use", 0},
    {"GET", "/v1/routes", get_routes, "this table", 0},
    {"GET", "/v1/templates", get_templates, "sandboxes described by the configuration", 0},
    {"GET", "/v1/images", get_images, "images that were built here", 0},
    {0},
};
