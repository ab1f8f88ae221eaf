/* Sandboxes: lists, lives, labels, intervals, ports. */
#include <pthread.h>

#include "service/bounds.h"
#include "service/daytona/daytona.h"
#include "service/preview-host.h"
#include "service/preview-lines.h"
#include "service/proxy.h"
#include "service/ticket.h"

enum { USUAL_PAGE = 100, LARGEST_PAGE = 200, USUAL_SIGNED = 60 };

bool daytona_take(struct tn_http_exchange *x)
{
    static const char *const prefixes[] = {"/api/sandbox", "/api/toolbox", "/api/snapshots",
                                           "/api/volumes", "/api/config",  "/api/socket.io"};
    const char *path = tn_http_path(x);
    size_t i = 0;

    while (i < TN_COUNT(prefixes) && !(strncmp(path, prefixes[i], strlen(prefixes[i])) == 0 &&
                                       strchr("/", path[strlen(prefixes[i])])))
        i++;
    if (i == TN_COUNT(prefixes))
        return false;
    surface_speak(x, daytona_reply);
    if (i + 1 < TN_COUNT(prefixes))
        return false;
    daytona_fail(x, 404, NULL, "There are no events here: look for yourself");
    return true;
}

/* --- lists ----------------------------------------------------------------------------------- */

struct page {
    struct tn_http_exchange *x;
    struct tn_jw w;
    const struct tn_json *labels;
    const char *states, *id, *name;
    int64_t skip, limit, count, total;
    double created; /* of the last */
    char last[11];
    bool counts; /* all are counted, for lists with numbers of pages */
};

static int differs(const char *name, struct tn_json *value, void *ctx)
{
    const char *wanted = tn_json_str(value, NULL), *found = tn_json_get_str(ctx, name, NULL);

    return !wanted || !found || strcmp(wanted, found) != 0;
}

static bool lists(const char *list, const char *word)
{
    size_t n = strlen(word);

    for (const char *at = list; at && *at; at += strcspn(at, ",") + (at[strcspn(at, ",")] == ','))
        if (strcspn(at, ",") == n && strncmp(at, word, n) == 0)
            return true;
    return !list || !*list;
}

static int list_box(struct box *b, void *ctx)
{
    struct page *p = ctx;
    autoview struct box_view v;

    daytona_see(b, &v);
    if (v.goal == BOX_GONE || v.state == BOX_MISSING || surface_is_layer(&v) ||
        !lists(p->states, daytona_state(p->x, &v)) ||
        tn_json_each(p->labels, differs, v.metadata) || !lists(p->id, v.id) ||
        (p->name && *p->name && strcmp(p->name, v.name && *v.name ? v.name : v.id) != 0))
        return 0;
    if (p->total++ < p->skip)
        return 0;
    if (p->count == p->limit)
        return p->counts ? 0 : 1;
    daytona_put(p->x, &p->w, &v);
    p->count++;
    p->created = v.created;
    memcpy(p->last, v.id, sizeof p->last);
    return 0;
}

/* -1: answered. */
static int read_labels(struct tn_http_exchange *x, struct tn_json **out)
{
    const char *text = tn_http_query(x, "labels");
    struct tn_error err = {0};

    if (!text || !*text)
        return 0;
    /* Some clients say null. */
    if (tn_json_parse(text, strlen(text), out, &err) == 0 &&
        (!*out || tn_json_type(*out) == TN_JSON_OBJECT))
        return 0;
    return native_refuse(x, TN_E_INVALID, "labels: expected a JSON object");
}

/* Clients of three generations expect three shapes. */
enum shape { SHAPE_ARRAY, SHAPE_PAGES, SHAPE_CURSOR };

static void list(struct tn_http_exchange *x, struct tn_service *s, enum shape shape)
{
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, DAYTONA_ANSWER_MAX);
    tn_autojson struct tn_json *labels = NULL;
    const char *order = tn_http_query(x, "order");
    struct page p = {.x = x,
                     .w = tn_jw(&json),
                     .states = tn_http_query(x, "states"),
                     .id = tn_http_query(x, "id"),
                     .name = tn_http_query(x, "name"),
                     .limit = shape == SHAPE_ARRAY ? INT64_MAX : USUAL_PAGE,
                     .counts = shape == SHAPE_PAGES};
    int64_t number = 1;
    char after[11], token[SURFACE_PLACE];

    if (!caller_may(x, SCOPE_READ))
        return;
    struct box_filter f = {.tenant = caller_of(x)->tenant,
                           .newest_first = !(order && strcmp(order, "asc") == 0)};
    if (read_labels(x, &labels) || surface_read_place(x, "cursor", &f, after) ||
        native_query_int(x, "page", 1, INT32_MAX, &number) ||
        (shape != SHAPE_ARRAY && native_query_int(x, "limit", 1, LARGEST_PAGE, &p.limit)))
        return;
    p.labels = labels;
    p.skip = shape == SHAPE_PAGES ? (number - 1) * p.limit : 0;
    if (shape != SHAPE_ARRAY) {
        tn_jw_object(&p.w);
        tn_jw_key(&p.w, "items");
    }
    tn_jw_array(&p.w);
    bool more = box_each(s, &f, list_box, &p, NULL) != 0;
    tn_jw_array_end(&p.w);
    if (shape == SHAPE_PAGES) {
        tn_jw_kint(&p.w, "total", p.total);
        tn_jw_kint(&p.w, "page", number);
        tn_jw_kint(&p.w, "totalPages", (p.total + p.limit - 1) / p.limit);
    } else if (shape == SHAPE_CURSOR) {
        surface_write_place(p.created, p.last, token);
        tn_jw_kstr(&p.w, "nextCursor", more ? token : NULL);
    }
    if (shape != SHAPE_ARRAY)
        tn_jw_object_end(&p.w);
    tn_http_reply_json(x, 200, &json);
}

static void get_list(struct tn_http_exchange *x, void *ctx)
{
    list(x, ctx, daytona_version(x) < DAYTONA_PAUSES ? SHAPE_ARRAY : SHAPE_CURSOR);
}

static void get_pages(struct tn_http_exchange *x, void *ctx)
{
    list(x, ctx, SHAPE_PAGES);
}

/* --- graves ---------------------------------------------------------------------------------- */

/* Clients of old ask for a sandbox once more after they have deleted it, and fail if it is gone.
 * The answer is kept for that, for a moment, in the memory of the process. */
enum { GRAVES = 32 };
#define GRAVE_SECONDS 10.0
struct grave {
    char id[11], tenant[65];
    int64_t until;
    char *json;
};
static struct grave graves[GRAVES];
static size_t next_grave;
static pthread_mutex_t graves_lock = PTHREAD_MUTEX_INITIALIZER;

static void bury(struct tn_http_exchange *x, struct box *b)
{
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, DAYTONA_BODY_MAX);
    struct tn_jw w = tn_jw(&json);
    autoview struct box_view v;

    box_look(b, &v);
    v.goal = BOX_GONE;
    tn_json_free(TN_TAKE_PTR(v.spec.env)); /* who asks may be a key that only reads */
    daytona_put(x, &w, &v);
    pthread_mutex_lock(&graves_lock);
    struct grave *g = &graves[next_grave++ % GRAVES];
    free(g->json);
    g->json = tn_strdup(tn_buf_str(&json));
    g->until = tn_deadline_in(GRAVE_SECONDS);
    snprintf(g->id, sizeof g->id, "%s", v.id);
    snprintf(g->tenant, sizeof g->tenant, "%s", v.tenant);
    pthread_mutex_unlock(&graves_lock);
}

/* What is kept of it, for the first who asks; the caller frees it. */
static char *exhume(const char *tenant, const char *id)
{
    char *json = NULL;

    pthread_mutex_lock(&graves_lock);
    for (size_t i = 0; i < GRAVES && !json; i++)
        if (graves[i].json && tn_now() < graves[i].until && strcmp(graves[i].id, id) == 0 &&
            strcmp(graves[i].tenant, tenant) == 0)
            json = TN_TAKE_PTR(graves[i].json);
    pthread_mutex_unlock(&graves_lock);
    return json;
}

/* --- lives ----------------------------------------------------------------------------------- */

static void get_sandbox(struct tn_http_exchange *x, void *ctx)
{
    if (!caller_may(x, SCOPE_READ))
        return;
    tn_autofree char *kept = exhume(caller_of(x)->tenant, tn_http_param(x, "id"));
    autobox struct box *b = kept ? NULL : daytona_box(x, ctx, SCOPE_READ);
    if (kept)
        tn_http_reply(x, 200, "application/json", kept, strlen(kept));
    else if (b)
        daytona_reply_box(x, 200, b);
}

static void order(struct tn_http_exchange *x, struct box *b, enum box_order what)
{
    if (surface_order(x, b, what, DAYTONA_SECONDS / 2) == 0)
        daytona_reply_box(x, 200, b);
}

static void give_order(struct tn_http_exchange *x, struct tn_service *s, enum box_order what)
{
    autobox struct box *b = daytona_box(x, s, SCOPE_MANAGE);

    if (b)
        order(x, b, what);
}

static void post_start(struct tn_http_exchange *x, void *ctx)
{
    give_order(x, ctx, ORDER_RESUME);
}

/* One that is to be removed as soon as it stops is. */
static void post_stop(struct tn_http_exchange *x, void *ctx)
{
    autobox struct box *b = daytona_box(x, ctx, SCOPE_MANAGE);
    struct daytona_settings settings;
    autoview struct box_view v = {0};

    if (!b)
        return;
    box_look(b, &v);
    daytona_settings_of(v.metadata, &settings);
    order(x, b, settings.remove == 0 ? ORDER_DELETE : ORDER_STOP);
}

static void post_pause(struct tn_http_exchange *x, void *ctx)
{
    give_order(x, ctx, ORDER_PAUSE);
}

static void post_archive(struct tn_http_exchange *x, void *ctx)
{
    give_order(x, ctx, ORDER_STOP);
}

static void delete_sandbox(struct tn_http_exchange *x, void *ctx)
{
    autobox struct box *b = daytona_box(x, ctx, SCOPE_MANAGE);

    if (!b)
        return;
    if (daytona_version(x) < DAYTONA_MUXED)
        bury(x, b);
    order(x, b, ORDER_DELETE);
}

static void post_activity(struct tn_http_exchange *x, void *ctx)
{
    autobox struct box *b = daytona_box(x, ctx, SCOPE_USE);

    if (!b)
        return;
    box_enter_use(b);
    box_leave_use(b);
    tn_http_reply(x, 201, NULL, NULL, 0);
}

/* --- changes --------------------------------------------------------------------------------- */

/* 0, or -1: answered. */
static int change(struct tn_http_exchange *x, struct box *b, struct box_change *change,
                  const struct tn_json *labels, const struct daytona_settings *settings)
{
    tn_autojson struct tn_json *metadata = NULL;
    struct tn_error err = {0};

    int failed = settings && daytona_metadata(labels, settings, &metadata, &err);
    change->metadata = metadata;
    failed = failed || box_change(b, caller_of(x), change, &err);
    if (native_audit(x, box_service(b), "sandbox.change", box_id(b), failed ? &err : NULL))
        return -1;
    if (failed)
        reply_error(x, &err);
    return failed ? -1 : 0;
}

static void put_labels(struct tn_http_exchange *x, void *ctx)
{
    autobox struct box *b = daytona_box(x, ctx, SCOPE_MANAGE);
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, DAYTONA_ANSWER_MAX);
    tn_autojson struct tn_json *body = NULL;
    struct tn_jw w = tn_jw(&json);
    struct daytona_settings settings;
    autoview struct box_view v = {0};

    if (!b || surface_body(x, DAYTONA_BODY_MAX, &body))
        return;
    const struct tn_json *labels = tn_json_get(body, "labels");
    if (!labels || tn_json_type(labels) != TN_JSON_OBJECT) {
        native_refuse(x, TN_E_INVALID, "labels: expected an object");
        return;
    }
    box_look(b, &v);
    daytona_settings_of(v.metadata, &settings);
    if (change(x, b, &(struct box_change){0}, labels, &settings))
        return;
    tn_jw_object(&w);
    tn_jw_key(&w, "labels");
    daytona_put_labels(&w, labels);
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 200, &json);
}

static void post_network(struct tn_http_exchange *x, void *ctx)
{
    autobox struct box *b = daytona_box(x, ctx, SCOPE_MANAGE);
    tn_autobuf struct tn_buf wish = TN_BUF_INIT(DAYTONA_BODY_MAX);
    tn_autojson struct tn_json *body = NULL;
    struct tn_jw w = tn_jw(&wish);
    struct tn_error err = {0};

    if (!b || surface_body(x, DAYTONA_BODY_MAX, &body))
        return;
    tn_jw_object(&w);
    daytona_put_network(&w, body);
    tn_jw_object_end(&w);
    int failed = surface_change_network(b, caller_of(x), &wish, &err);
    if (native_audit(x, ctx, "network.change", box_id(b), failed ? &err : NULL))
        return;
    if (failed)
        reply_error(x, &err);
    else
        daytona_reply_box(x, 200, b);
}

static void reply_signing_key(struct tn_http_exchange *x, struct box *b)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(256);
    autoview struct box_view v = {0};
    char key[SURFACE_TOKEN];
    struct tn_error err;

    box_look(b, &v);
    if (daytona_signing_key(&v, key, &err)) {
        reply_error(x, &err);
        return;
    }
    tn_buf_printf(&json, "\"%s\"", key);
    explicit_bzero(key, sizeof key);
    tn_http_reply_json(x, 200, &json);
}

static void get_signing_key(struct tn_http_exchange *x, void *ctx)
{
    autobox struct box *b = daytona_box(x, ctx, SCOPE_USE);

    if (b)
        reply_signing_key(x, b);
}

/* Links of before are none any more. */
static void rotate_signing_key(struct tn_http_exchange *x, void *ctx)
{
    autobox struct box *b = daytona_box(x, ctx, SCOPE_MANAGE);
    struct daytona_settings settings;
    autoview struct box_view v = {0};

    if (!b)
        return;
    box_look(b, &v);
    daytona_settings_of(v.metadata, &settings);
    settings.signing++;
    if (change(x, b, &(struct box_change){0}, v.metadata, &settings) == 0)
        reply_signing_key(x, b);
}

/* POST /sandbox/{id}/{setting}/{value} */
static void post_setting(struct tn_http_exchange *x, void *ctx)
{
    struct tn_service *s = ctx;
    autobox struct box *b = daytona_box(x, s, SCOPE_MANAGE);
    const char *what = tn_http_param(x, "setting"), *value = tn_http_param(x, "value");
    struct box_change wish = {0};
    struct daytona_settings settings;
    autoview struct box_view v = {0};
    struct tn_error err = {0};
    double seconds;
    char *end;

    if (!b)
        return;
    box_look(b, &v);
    daytona_settings_of(v.metadata, &settings);
    bool yes = strcmp(value, "true") == 0, public = strcmp(what, "public") == 0;
    int64_t minutes = strtoll(value, &end, 10);
    if (public ? !yes && strcmp(value, "false") != 0
               : *end || end == value || minutes > DAYTONA_MINUTES ||
                     (minutes < 0 && strcmp(what, "autodelete") != 0)) {
        native_refuse(x, TN_E_INVALID, "%.40s: expected %s", what,
                      public ? "true or false" : "minutes");
        return;
    }
    if (public) {
        if (daytona_check_public(s, yes, &err)) {
            reply_error(x, &err);
            return;
        }
        settings.public = yes;
    } else if (strcmp(what, "autostop") == 0) {
        seconds =
            bounds_nearest(caller_of(x), 60.0 * (double)minutes, s->options->idle_stop_seconds);
        wish.idle_stop = &seconds;
    } else if (strcmp(what, "autopause") == 0) {
        seconds =
            bounds_nearest(caller_of(x), 60.0 * (double)minutes, s->options->idle_pause_seconds);
        settings.pause = minutes;
        wish.idle_pause = &seconds;
    } else if (strcmp(what, "ttl") == 0) {
        seconds = (double)minutes * 60;
        wish.ttl = &seconds;
    } else if (strcmp(what, "autoarchive") == 0) {
        settings.archive = minutes;
    } else if (strcmp(what, "autodelete") == 0) {
        settings.remove = minutes;
    } else {
        native_refuse(x, TN_E_NOT_FOUND, "%.60s is not served here", tn_http_path(x));
        return;
    }
    if (change(x, b, &wish, v.metadata, &settings) == 0)
        daytona_reply_box(x, 200, b);
}

/* --- ports ----------------------------------------------------------------------------------- */

int daytona_visit(struct tn_service *s, struct tn_http_exchange *x, const char *id)
{
    const char *given = tn_http_header(x, "X-Daytona-Preview-Token");
    struct daytona_settings settings;
    autoview struct box_view v = {0};
    char asked[SURFACE_TOKEN] = "";

    if (!given && target_value(tn_http_target(x), DAYTONA_QUERY, asked, sizeof asked))
        given = asked;
    bool good = surface_is_token(s, "daytona-ports", id, given);
    if (given && !good) {
        reply_unauthorized(x, "That is not the token for the ports of this sandbox");
        return -1;
    }
    autobox struct box *b = box_find(s, NULL, id, NULL);
    if (!b)
        return 0;
    box_look(b, &v);
    daytona_settings_of(v.metadata, &settings);
    if (!good && !(settings.public && s->options->public_previews))
        return 0;
    return surface_enter(x, b, v.key_id) ? 1 : -1;
}

/* Names below localhost are this machine to browsers, not to programs: those get a path. */
static char *port_url(struct tn_http_exchange *x, struct tn_service *s, const char *id, int port)
{
    const char *domain = s->options->preview_domain;
    tn_autofree char *base = base_url(x);

    return strcmp(domain, "localhost") != 0 && preview_reaches(s->url, domain)
               ? preview_origin(s->url, domain, id, port)
               : tn_asprintf("%s/preview/%s/%d", base, id, port);
}

/* -1: answered. */
static int read_port(struct tn_http_exchange *x)
{
    const char *text = tn_http_param(x, "port");
    int port = preview_port(text, strlen(text));

    return port ? port : native_refuse(x, TN_E_INVALID, "port: expected 1 to 65535");
}

static void get_preview(struct tn_http_exchange *x, void *ctx)
{
    struct tn_service *s = ctx;
    autobox struct box *b = daytona_box(x, s, SCOPE_USE);
    int port = b ? read_port(x) : -1;
    tn_autobuf struct tn_buf json = TN_BUF_INIT(8192);
    struct tn_jw w = tn_jw(&json);
    char token[SURFACE_TOKEN];

    if (port < 0)
        return;
    tn_autofree char *url = port_url(x, s, box_id(b), port);
    surface_token(s, "daytona-ports", box_id(b), token);
    tn_jw_object(&w);
    tn_jw_kstr(&w, "sandboxId", box_id(b));
    tn_jw_kstr(&w, "url", url);
    tn_jw_kstr(&w, "token", token);
    tn_jw_object_end(&w);
    explicit_bzero(token, sizeof token);
    tn_http_reply_json(x, 200, &json);
}

/* Visits that began with it last as long as they do. */
static void end_signed(struct tn_http_exchange *x, void *ctx)
{
    struct tn_service *s = ctx;
    autobox struct box *b = daytona_box(x, s, SCOPE_USE);
    int port = b ? read_port(x) : -1;
    char purpose[32];
    struct tn_error err = {0};

    if (port < 0)
        return;
    snprintf(purpose, sizeof purpose, "port:%d", port);
    if (ticket_end(s, tn_http_param(x, "token"), purpose, box_id(b), &err))
        reply_error(x, &err);
    else
        tn_http_reply(x, 200, NULL, NULL, 0);
}

static void get_signed(struct tn_http_exchange *x, void *ctx)
{
    struct tn_service *s = ctx;
    autobox struct box *b = daytona_box(x, s, SCOPE_USE);
    int port = b ? read_port(x) : -1;
    tn_autobuf struct tn_buf json = TN_BUF_INIT(8192);
    struct tn_jw w = tn_jw(&json);
    char ticket[TICKET_MAX], purpose[32];
    int64_t seconds = USUAL_SIGNED;
    struct tn_error err = {0};

    if (port < 0 || native_query_int(x, "expiresInSeconds", 1, 86400, &seconds))
        return;
    snprintf(purpose, sizeof purpose, "port:%d", port);
    if (ticket_make(s, caller_of(x), purpose, box_id(b), (double)seconds, ticket, &err)) {
        reply_error(x, &err);
        return;
    }
    tn_autofree char *url = port_url(x, s, box_id(b), port);
    tn_autofree char *whole = tn_asprintf("%s/?" TICKET_QUERY "=%s", url, ticket);
    tn_jw_object(&w);
    tn_jw_kstr(&w, "sandboxId", box_id(b));
    tn_jw_kint(&w, "port", port);
    tn_jw_kstr(&w, "token", ticket);
    tn_jw_kstr(&w, "url", whole);
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 200, &json);
}

static void get_build_logs(struct tn_http_exchange *x, void *ctx)
{
    autobox struct box *b = daytona_box(x, ctx, SCOPE_READ);

    if (b)
        daytona_build_logs(x, b);
}

static void get_build_logs_url(struct tn_http_exchange *x, void *ctx)
{
    autobox struct box *b = daytona_box(x, ctx, SCOPE_READ);

    if (b)
        daytona_build_logs_url(x, "sandbox", box_id(b));
}

static void get_toolbox_url(struct tn_http_exchange *x, void *ctx)
{
    autobox struct box *b = daytona_box(x, ctx, SCOPE_READ);
    tn_autobuf struct tn_buf json = TN_BUF_INIT(8192);
    struct tn_jw w = tn_jw(&json);

    if (!b)
        return;
    tn_autofree char *base = base_url(x);
    tn_autofree char *url = tn_asprintf("%s" DAYTONA_TOOLBOX, base);
    tn_jw_object(&w);
    tn_jw_kstr(&w, "url", url);
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 200, &json);
}

/* --- the rest -------------------------------------------------------------------------------- */

static void not_served(struct tn_http_exchange *x, void *ctx)
{
    native_refuse(x, TN_E_DENIED, "%.60s is not served here: see docs/clouds/daytona.md",
                  tn_http_path(x));
}

#define BOX "/api/sandbox/{id}"
#define TOOLBOX "/api/toolbox/{id}/{rest...}"
const struct tn_route routes_daytona[] = {
    {"POST", "/api/sandbox", daytona_create, "Daytona: a new sandbox", 0},
    {"GET", "/api/sandbox", get_list, "Daytona: sandboxes", 0},
    {"GET", "/api/sandbox/paginated", get_pages, "Daytona: sandboxes, in pages", 0},
    {"GET", BOX "", get_sandbox, "Daytona: one", 0},
    {"DELETE", BOX "", delete_sandbox, "Daytona: removes it", 0},
    {"POST", BOX "/start", post_start, "Daytona: starts it again", 0},
    {"POST", BOX "/recover", post_start, "Daytona: starts it again", 0},
    {"POST", BOX "/stop", post_stop, "Daytona: stops it", 0},
    {"POST", BOX "/pause", post_pause, "Daytona: pauses it", 0},
    {"POST", BOX "/archive", post_archive, "Daytona: stops it", 0},
    {"POST", BOX "/last-activity", post_activity, "Daytona: it is in use", 0},
    {"PUT", BOX "/labels", put_labels, "Daytona: its labels", 0},
    {"GET", BOX "/signing-key", get_signing_key, "Daytona: signs links to its files", 0},
    {"POST", BOX "/signing-key/rotate", rotate_signing_key, "Daytona: another one", 0},
    {"POST", BOX "/network-settings", post_network, "Daytona: what it may reach", 0},
    {"POST", BOX "/{setting}/{value}", post_setting, "Daytona: intervals, public", 0},
    {"GET", BOX "/ports/{port}/preview-url", get_preview, "Daytona: address of a port", 0},
    {"GET", BOX "/ports/{port}/signed-preview-url", get_signed, "Daytona: a link to a port", 0},
    {"POST", BOX "/ports/{port}/signed-preview-url/{token}/expire", end_signed,
     "Daytona: ends such a link", 0},
    {"GET", BOX "/toolbox-proxy-url", get_toolbox_url, "Daytona: where its toolbox is", 0},
    {"GET", BOX "/build-logs", get_build_logs, "Daytona: what the build of its image says", 0},
    {"GET", BOX "/build-logs-url", get_build_logs_url, "Daytona: where that is", 0},
    {"POST", BOX "/fork", daytona_fork, "Daytona: a new one with its files", 0},
    {"POST", BOX "/{what}", not_served, "Daytona: not served", 0},
    {"GET", TOOLBOX "", daytona_toolbox, "Daytona: the toolbox of a sandbox", TN_ROUTE_OPEN},
    {"POST", TOOLBOX "", daytona_toolbox, "Daytona: the toolbox of a sandbox", TN_ROUTE_OPEN},
    {"DELETE", TOOLBOX "", daytona_toolbox, "Daytona: the toolbox of a sandbox", 0},
    {0},
};
