/* Snapshots: templates of the configuration, and boxes at rest that are forks of a sandbox, which
 * they outlive, or images that were built (build.c).  And volumes (volume.h). */
#include "service/bounds.h"
#include "service/daytona/daytona.h"
#include "service/openhands.h"
#include "service/preview-host.h"
#include "service/volume.h"

#define LAYER_SECONDS 60.0 /* for the start and the stop of a snapshot, each */
enum { USUAL_PAGE = 100, LARGEST_PAGE = 1000, GIB = 1 << 30 };

/* --- finding --------------------------------------------------------------------------------- */

char *daytona_snapshot_session(const char *name)
{
    return tn_asprintf("daytona-snapshot/%s", name);
}

struct box *daytona_snapshot(struct tn_service *s, const struct caller *who, const char *given)
{
    tn_autofree char *session = daytona_snapshot_session(given);
    bool is_id = preview_is_id(given, strlen(given));
    autobox struct box *b = is_id ? box_find(s, who->tenant, given, NULL) : NULL;
    autoview struct box_view v = {0};
    const char *name = NULL;

    if (!b)
        b = box_find_session(s, who->tenant, session, NULL);
    if (b)
        box_look(b, &v);
    return b && v.goal != BOX_GONE && daytona_build_of(&v, &name, NULL) && name ? TN_TAKE_PTR(b)
                                                                                : NULL;
}

/* --- as clients see them --------------------------------------------------------------------- */

struct shown {
    const char *id, *name, *source; /* source: the box that it is of, or NULL */
    const char *state, *reason;     /* reason: why it has failed, or NULL */
    double cut;
    bool general; /* a template */
};

static void put(struct tn_jw *w, const char *tenant, const struct shown *one,
                const struct surface_size *size)
{
    static const char *const unknown[] = {"size", "entrypoint", "lastUsedAt"};

    tn_jw_object(w);
    tn_jw_kstr(w, "id", one->id);
    tn_jw_kstr(w, "organizationId", tenant);
    tn_jw_kbool(w, "general", one->general);
    tn_jw_kbool(w, "enabled", true);
    tn_jw_kstr(w, "name", one->name);
    tn_jw_kstr(w, "state", one->state);
    tn_jw_kstr(w, "errorReason", one->reason);
    tn_jw_kint(w, "cpu", size->cpus);
    tn_jw_kint(w, "gpu", 0);
    tn_jw_kint(w, "mem", (size->memory + GIB - 1) / GIB);
    tn_jw_kint(w, "disk", (size->disk + GIB - 1) / GIB);
    for (size_t i = 0; i < TN_COUNT(unknown); i++)
        tn_jw_kstr(w, unknown[i], NULL);
    openhands_put_time(w, "createdAt", one->cut);
    openhands_put_time(w, "updatedAt", one->cut);
    tn_jw_kstr(w, "sourceSandboxId", one->source);
    tn_jw_object_end(w);
}

static void put_template(struct tn_service *s, const struct caller *who, struct tn_jw *w,
                         const char *name)
{
    struct bound_limits most = {0};
    struct tn_spec spec;

    tn_spec_init(&spec);
    if (tn_config_spec(tn_runtime_host(s->rt)->config, name, &spec, NULL) == 0)
        bounds_measure(s, spec.runtime, &spec, 1, &most, NULL);
    tn_spec_done(&spec);
    put(w, who->tenant,
        &(struct shown){.id = name, .name = name, .state = "active", .general = true},
        &(struct surface_size){.cpus = most.cpus > 1 ? (int64_t)most.cpus : 1,
                               .memory = (int64_t)most.memory,
                               .disk = (int64_t)most.disk});
}

struct page {
    struct tn_service *s;
    struct tn_jw w;
    const struct caller *who;
    const char *name, *source; /* only this one, only those of that box; NULL: all */
    struct surface_size size;
    int64_t skip, limit, total;
};

static bool is_in(struct page *p)
{
    int64_t i = p->total++ - p->skip;

    return i >= 0 && i < p->limit;
}

static void list_built(struct page *p, const struct box_view *v)
{
    static const char *const states[] = {[DAYTONA_PENDING] = "pending",
                                         [DAYTONA_BUILDING] = "building",
                                         [DAYTONA_BUILT] = "active",
                                         [DAYTONA_FAILED] = "build_failed"};
    struct daytona_settings settings;
    const char *log;

    daytona_settings_of(v->metadata, &settings);
    struct shown one = {
        .id = v->id, .cut = v->created, .source = tn_json_get_str(settings.build, "source", NULL)};
    enum daytona_build build = daytona_build_of(v, &one.name, &log);

    one.state = v->goal == BOX_GONE ? "removing" : states[build];
    one.reason = build == DAYTONA_FAILED ? log : NULL;
    if ((!p->name || strcmp(p->name, one.name) == 0) &&
        (!p->source || (one.source && strcmp(p->source, one.source) == 0)) && is_in(p))
        put(&p->w, p->who->tenant, &one, &p->size);
}

static int list_box(struct box *b, void *ctx)
{
    struct page *p = ctx;
    autoview struct box_view v = {0};
    const char *built;

    daytona_see(b, &v);
    if (daytona_build_of(&v, &built, NULL) && built) {
        p->size = surface_size_of(&v);
        list_built(p, &v);
    }
    return 0;
}

static void list_templates(struct page *p)
{
    const struct tn_config *config = tn_runtime_host(p->s->rt)->config;
    const char *name;

    for (size_t i = 0; (name = tn_config_template_name(config, i)); i++)
        if ((!p->name || strcmp(p->name, name) == 0) && is_in(p))
            put_template(p->s, p->who, &p->w, name);
}

static void get_list(struct tn_http_exchange *x, void *ctx)
{
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, DAYTONA_ANSWER_MAX);
    const char *of = tn_http_query(x, "sourceSandboxId"), *name = tn_http_query(x, "name");
    struct page p = {.s = ctx,
                     .w = tn_jw(&json),
                     .name = name && *name ? name : NULL,
                     .source = of,
                     .limit = USUAL_PAGE};
    int64_t number = 1;

    if (!caller_may(x, SCOPE_READ) || native_query_int(x, "page", 1, INT32_MAX, &number) ||
        native_query_int(x, "limit", 1, LARGEST_PAGE, &p.limit))
        return;
    p.who = caller_of(x);
    p.skip = (number - 1) * p.limit;
    tn_jw_object(&p.w);
    tn_jw_key(&p.w, "items");
    tn_jw_array(&p.w);
    if (!of)
        list_templates(&p);
    box_each(ctx, &(struct box_filter){.tenant = p.who->tenant}, list_box, &p, NULL);
    tn_jw_array_end(&p.w);
    tn_jw_kint(&p.w, "total", p.total);
    tn_jw_kint(&p.w, "page", number);
    tn_jw_kint(&p.w, "totalPages", (p.total + p.limit - 1) / p.limit);
    tn_jw_object_end(&p.w);
    tn_http_reply_json(x, 200, &json);
}

/* --- one of them ----------------------------------------------------------------------------- */

/* The snapshot that the path names; NULL: it is none, and answered unless it is a template. */
static struct box *find(struct tn_http_exchange *x, struct tn_service *s, unsigned scope,
                        bool *template)
{
    const char *given = tn_http_param(x, "snapshot");

    *template = false;
    if (!caller_may(x, scope))
        return NULL;
    *template = tn_config_template(tn_runtime_host(s->rt)->config, given) != NULL;
    struct box *b = *template ? NULL : daytona_snapshot(s, caller_of(x), given);
    if (!b && !*template)
        native_refuse(x, TN_E_NOT_FOUND, "Snapshot with ID or name %.100s not found", given);
    return b;
}

static void get_one(struct tn_http_exchange *x, void *ctx)
{
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, DAYTONA_ANSWER_MAX);
    struct page p = {.s = ctx, .w = tn_jw(&json), .limit = 1};
    bool template;

    autobox struct box *b = find(x, ctx, SCOPE_READ, &template);
    if (!b && !template)
        return;
    p.who = caller_of(x);
    if (template)
        put_template(ctx, p.who, &p.w, tn_http_param(x, "snapshot"));
    else
        list_box(b, &p);
    tn_http_reply_json(x, 200, &json);
}

void daytona_reply_snapshot(struct tn_http_exchange *x, struct box *b)
{
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, DAYTONA_ANSWER_MAX);
    struct page p = {.s = box_service(b), .w = tn_jw(&json), .who = caller_of(x), .limit = 1};
    autoview struct box_view v;

    box_look(b, &v);
    p.size = surface_size_of(&v);
    list_built(&p, &v);
    tn_http_reply_json(x, 200, &json);
}

/* The snapshot that the path names, which is a box; NULL: answered. */
static struct box *find_image(struct tn_http_exchange *x, struct tn_service *s)
{
    bool template;
    struct box *b = find(x, s, SCOPE_READ, &template);

    if (template)
        native_refuse(x, TN_E_NOT_FOUND, "Build information of the snapshot not found");
    return b;
}

static void get_logs(struct tn_http_exchange *x, void *ctx)
{
    autobox struct box *b = find_image(x, ctx);

    if (b)
        daytona_build_logs(x, b);
}

static void get_logs_url(struct tn_http_exchange *x, void *ctx)
{
    autobox struct box *b = find_image(x, ctx);

    if (b)
        daytona_build_logs_url(x, "snapshots", box_id(b));
}

static void delete_one(struct tn_http_exchange *x, void *ctx)
{
    bool template;

    autobox struct box *b = find(x, ctx, SCOPE_MANAGE, &template);
    if (template)
        native_refuse(x, TN_E_DENIED, "templates are the operator's here");
    if (b && surface_order(x, b, ORDER_DELETE, DAYTONA_SECONDS / 2) == 0)
        tn_http_reply(x, 200, NULL, NULL, 0);
}

int daytona_check_snapshot(struct tn_service *s, const struct caller *who, const char *name,
                           struct tn_error *err)
{
    if (!*name || native_check_names(name, NULL, NULL, err) || strstr(name, ".."))
        return tn_fail(err, TN_E_INVALID, "name: expected one");
    autobox struct box *other = daytona_snapshot(s, who, name);
    return other || tn_config_template(tn_runtime_host(s->rt)->config, name)
               ? tn_fail(err, TN_E_CONFLICT, "Snapshot with name %.100s already exists", name)
               : 0;
}

static int cut(struct box *b, const struct caller *who, const char *name, struct tn_error *err)
{
    tn_autofree char *session = daytona_snapshot_session(name);
    static const enum daytona_build states[] = {DAYTONA_PENDING, DAYTONA_BUILT};
    tn_autojson struct tn_json *first = NULL, *then = NULL;
    struct tn_json **const metadata[] = {&first, &then};
    struct box_wish wish = {.session = session};

    if (daytona_check_snapshot(box_service(b), who, name, err))
        return -1;
    /* One that a killed service has left is none, and is told as such (daytona_see). */
    for (size_t i = 0; i < TN_COUNT(states); i++) {
        tn_autojson struct tn_json *record =
            daytona_build_record(name, box_id(b), states[i], NULL, 0);
        struct daytona_settings settings = {.remove = -1, .build = record};
        if (daytona_metadata(NULL, &settings, metadata[i], err))
            return -1;
    }
    wish.metadata = first;
    autobox struct box *made = surface_rest(b, who, &wish, then, LAYER_SECONDS, err);
    return made ? 0 : -1;
}

/* POST /sandbox/{id}/snapshot */
static void take(struct tn_http_exchange *x, void *ctx)
{
    autobox struct box *b = daytona_box(x, ctx, SCOPE_MANAGE);
    tn_autojson struct tn_json *body = NULL;
    struct tn_error err = {0};

    if (!b || surface_body(x, DAYTONA_BODY_MAX, &body))
        return;
    int failed = cut(b, caller_of(x), tn_json_get_str(body, "name", ""), &err);
    if (native_audit(x, ctx, "snapshot.create", box_id(b), failed ? &err : NULL))
        return;
    if (failed)
        reply_error(x, &err);
    else
        daytona_reply_box(x, 200, b);
}

/* --- volumes --------------------------------------------------------------------------------- */

static void put_volume(struct tn_jw *w, const char *tenant, const struct volume *v)
{
    tn_jw_object(w);
    tn_jw_kstr(w, "id", v->name);
    tn_jw_kstr(w, "name", v->name);
    tn_jw_kstr(w, "organizationId", tenant);
    tn_jw_kstr(w, "state", "ready");
    openhands_put_time(w, "createdAt", v->created);
    openhands_put_time(w, "updatedAt", v->created);
    tn_jw_kstr(w, "errorReason", NULL);
    tn_jw_object_end(w);
}

static void volumes(struct tn_http_exchange *x, void *ctx)
{
    static const struct surface_volumes how = {.put = put_volume, .made = 200, .deleted = 200};

    surface_volumes(x, ctx, &how);
}

#define ONE "/api/snapshots/{snapshot}"
const struct tn_route routes_daytona_snapshots[] = {
    {"POST", "/api/sandbox/{id}/snapshot", take, "Daytona: a snapshot of its files", 0},
    {"GET", "/api/snapshots", get_list, "Daytona: snapshots and templates", 0},
    {"POST", "/api/snapshots", daytona_create_snapshot, "Daytona: builds an image", 0},
    {"GET", ONE "/build-logs", get_logs, "Daytona: what its build says", 0},
    {"GET", ONE "/build-logs-url", get_logs_url, "Daytona: where that is", 0},
    {"GET", ONE "", get_one, "Daytona: a snapshot", 0},
    {"DELETE", ONE "", delete_one, "Daytona: removes a snapshot", 0},
    {"POST", ONE "/activate", get_one, "Daytona: a snapshot, which is active", 0},
    {"GET", "/api/volumes", volumes, "Daytona: volumes", 0},
    {"POST", "/api/volumes", volumes, "Daytona: a new volume", 0},
    {"GET", "/api/volumes/{volume}", volumes, "Daytona: a volume", 0},
    {"DELETE", "/api/volumes/{volume}", volumes, "Daytona: removes a volume", 0},
    {"GET", "/api/volumes/by-name/{volume}", volumes, "Daytona: a volume", 0},
    {0},
};
