/* Snapshots: templates of the configuration, and layers of the tenant's sandboxes.  And volumes, of
 * which there are none. */
#include "service/bounds.h"
#include "service/daytona/daytona.h"
#include "service/openhands.h"
#include "service/preview-host.h"

enum { USUAL_PAGE = 100, LARGEST_PAGE = 1000, GIB = 1 << 30 };

/* --- finding --------------------------------------------------------------------------------- */

struct search {
    struct tn_service *s;
    const char *name;
    struct box *found;
};

static int is_named(const struct tn_snapshot *snapshot, void *name)
{
    return strcmp(snapshot->name, name) == 0;
}

static bool has(struct tn_service *s, const char *box, const char *name)
{
    return tn_store_snapshots(tn_runtime_store(s->rt), box, is_named, (void *)name, NULL) > 0;
}

static int look_in(struct box *b, void *ctx)
{
    struct search *search = ctx;

    if (!has(search->s, box_id(b), search->name))
        return 0;
    search->found = box_find(search->s, box_tenant(b), box_id(b), NULL);
    return search->found != NULL;
}

/* An id is "BOX.NAME"; names are unique in a tenant, but for those that other APIs gave. */
struct box *daytona_snapshot(struct tn_service *s, const struct caller *who, const char *given,
                             char **name)
{
    struct search search = {.s = s, .name = given};
    struct box_filter f = {.tenant = who->tenant, .newest_first = true};
    const char *dot = strchr(given, '.');
    char id[11] = "";

    if (dot && preview_is_id(given, (size_t)(dot - given))) {
        snprintf(id, sizeof id, "%.*s", (int)(dot - given), given);
        struct box *b = box_find(s, who->tenant, id, NULL);
        if (b && has(s, id, dot + 1)) {
            *name = tn_strdup(dot + 1);
            return b;
        }
        box_release(b);
    }
    box_each(s, &f, look_in, &search, NULL);
    *name = search.found ? tn_strdup(given) : NULL;
    return search.found;
}

/* --- as clients see them --------------------------------------------------------------------- */

/* box NULL: a template, and cut is 0. */
static void put(struct tn_jw *w, const char *tenant, const char *box, const char *name, double cut,
                const struct surface_size *size)
{
    tn_autofree char *id = box ? tn_asprintf("%s.%s", box, name) : tn_strdup(name);
    static const char *const unknown[] = {"size", "entrypoint", "errorReason", "lastUsedAt"};

    tn_jw_object(w);
    tn_jw_kstr(w, "id", id);
    tn_jw_kstr(w, "organizationId", tenant);
    tn_jw_kbool(w, "general", !box);
    tn_jw_kbool(w, "enabled", true);
    tn_jw_kstr(w, "name", name);
    tn_jw_kstr(w, "state", "active");
    tn_jw_kint(w, "cpu", size->cpus);
    tn_jw_kint(w, "gpu", 0);
    tn_jw_kint(w, "mem", (size->memory + GIB - 1) / GIB);
    tn_jw_kint(w, "disk", (size->disk + GIB - 1) / GIB);
    for (size_t i = 0; i < TN_COUNT(unknown); i++)
        tn_jw_kstr(w, unknown[i], NULL);
    openhands_put_time(w, "createdAt", cut);
    openhands_put_time(w, "updatedAt", cut);
    tn_jw_kstr(w, "sourceSandboxId", box);
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
    put(w, who->tenant, NULL, name, 0,
        &(struct surface_size){.cpus = most.cpus > 1 ? (int64_t)most.cpus : 1,
                               .memory = (int64_t)most.memory,
                               .disk = (int64_t)most.disk});
}

struct page {
    struct tn_service *s;
    struct tn_jw w;
    const struct caller *who;
    const char *box, *name; /* only this one; NULL: all */
    struct surface_size size;
    int64_t skip, limit, total;
};

static bool is_in(struct page *p)
{
    int64_t i = p->total++ - p->skip;

    return i >= 0 && i < p->limit;
}

static int list_snapshot(const struct tn_snapshot *snapshot, void *ctx)
{
    struct page *p = ctx;

    if ((!p->name || strcmp(p->name, snapshot->name) == 0) && is_in(p))
        put(&p->w, p->who->tenant, p->box, snapshot->name, snapshot->created, &p->size);
    return 0;
}

static int list_box(struct box *b, void *ctx)
{
    struct page *p = ctx;
    autoview struct box_view v = {0};

    box_look(b, &v);
    p->box = v.id;
    p->size = surface_size_of(&v);
    return tn_store_snapshots(tn_runtime_store(p->s->rt), v.id, list_snapshot, p, NULL) < 0;
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
    struct page p = {
        .s = ctx, .w = tn_jw(&json), .name = name && *name ? name : NULL, .limit = USUAL_PAGE};
    int64_t number = 1;

    if (!caller_may(x, SCOPE_READ) || native_query_int(x, "page", 1, INT32_MAX, &number) ||
        native_query_int(x, "limit", 1, LARGEST_PAGE, &p.limit))
        return;
    p.who = caller_of(x);
    p.skip = (number - 1) * p.limit;
    tn_jw_object(&p.w);
    tn_jw_key(&p.w, "items");
    tn_jw_array(&p.w);
    autobox struct box *b = of ? box_find(ctx, p.who->tenant, of, NULL) : NULL;
    if (b) {
        list_box(b, &p);
    } else if (!of) {
        list_templates(&p);
        box_each(ctx, &(struct box_filter){.tenant = p.who->tenant}, list_box, &p, NULL);
    }
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
                        bool *template, char **name)
{
    const char *given = tn_http_param(x, "snapshot");

    *template = false;
    if (!caller_may(x, scope))
        return NULL;
    *template = tn_config_template(tn_runtime_host(s->rt)->config, given) != NULL;
    struct box *b = *template ? NULL : daytona_snapshot(s, caller_of(x), given, name);
    if (!b && !*template)
        native_refuse(x, TN_E_NOT_FOUND, "Snapshot with ID or name %.100s not found", given);
    return b;
}

static void get_one(struct tn_http_exchange *x, void *ctx)
{
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, DAYTONA_ANSWER_MAX);
    struct page p = {.s = ctx, .w = tn_jw(&json), .limit = 1};
    tn_autofree char *name = NULL;
    bool template;

    autobox struct box *b = find(x, ctx, SCOPE_READ, &template, &name);
    if (!b && !template)
        return;
    p.who = caller_of(x);
    p.name = name;
    if (template)
        put_template(ctx, p.who, &p.w, tn_http_param(x, "snapshot"));
    else
        list_box(b, &p);
    tn_http_reply_json(x, 200, &json);
}

static void delete_one(struct tn_http_exchange *x, void *ctx)
{
    tn_autofree char *name = NULL;
    struct tn_error err = {0};
    bool template;

    autobox struct box *b = find(x, ctx, SCOPE_MANAGE, &template, &name);
    if (template)
        native_refuse(x, TN_E_DENIED, "templates are the operator's here");
    if (!b)
        return;
    int failed = surface_forget(b, name, &err);
    if (native_audit(x, ctx, "snapshot.delete", box_id(b), failed ? &err : NULL))
        return;
    if (failed)
        reply_error(x, &err);
    else
        tn_http_reply(x, 200, NULL, NULL, 0);
}

/* POST /sandbox/{id}/snapshot */
static void take(struct tn_http_exchange *x, void *ctx)
{
    autobox struct box *b = daytona_box(x, ctx, SCOPE_MANAGE), *other = NULL;
    tn_autojson struct tn_json *body = NULL;
    tn_autofree char *taken = NULL;
    struct tn_error err = {0};

    if (!b || surface_body(x, DAYTONA_BODY_MAX, &body))
        return;
    const char *name = tn_json_get_str(body, "name", "");
    other = daytona_snapshot(ctx, caller_of(x), name, &taken);
    if (other || tn_config_template(tn_runtime_host(box_service(b)->rt)->config, name)) {
        native_refuse(x, TN_E_CONFLICT, "Snapshot with name %.100s exists already", name);
        return;
    }
    int failed = surface_snapshot(b, name, &err);
    if (native_audit(x, ctx, "snapshot.create", box_id(b), failed ? &err : NULL))
        return;
    if (failed)
        reply_error(x, &err);
    else
        daytona_reply_box(x, 200, b);
}

/* --- volumes --------------------------------------------------------------------------------- */

static void get_volumes(struct tn_http_exchange *x, void *ctx)
{
    if (caller_may(x, SCOPE_READ))
        tn_http_reply(x, 200, "application/json", "[]", 2);
}

static void no_volume(struct tn_http_exchange *x, void *ctx)
{
    if (caller_may(x, SCOPE_READ))
        native_refuse(x, TN_E_NOT_FOUND, "Volume with name %.100s not found",
                      tn_http_param(x, "volume"));
}

static void not_allowed(struct tn_http_exchange *x, void *ctx)
{
    if (caller_may(x, SCOPE_MANAGE))
        native_refuse(x, TN_E_DENIED, "%.60s is not served here: see docs/clouds/daytona.md",
                      tn_http_path(x));
}

#define ONE "/api/snapshots/{snapshot}"
const struct tn_route routes_daytona_snapshots[] = {
    {"POST", "/api/sandbox/{id}/snapshot", take, "Daytona: a snapshot of its files", 0},
    {"GET", "/api/snapshots", get_list, "Daytona: snapshots and templates", 0},
    {"POST", "/api/snapshots", not_allowed, "Daytona: images are not built here", 0},
    {"GET", ONE "", get_one, "Daytona: a snapshot", 0},
    {"DELETE", ONE "", delete_one, "Daytona: removes a snapshot", 0},
    {"POST", ONE "/activate", get_one, "Daytona: a snapshot, which is active", 0},
    {"GET", "/api/volumes", get_volumes, "Daytona: none", 0},
    {"POST", "/api/volumes", not_allowed, "Daytona: not served", 0},
    {"GET", "/api/volumes/{volume}", no_volume, "Daytona: none", 0},
    {"GET", "/api/volumes/by-name/{volume}", no_volume, "Daytona: none", 0},
    {0},
};
