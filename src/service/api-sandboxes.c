/* The sandbox API of OpenHands, /api/v1: sandboxes, and the specs they are made of.
 *
 * A spec is a template of the configuration; "default" is the configuration without one, unless a
 * template has that name.  Pages go on after the last id of the one before, so nothing is skipped
 * when something is deleted. */
#include <pthread.h>
#include <time.h>

#include "net/url.h"
#include "service/openhands.h"
#include "service/proxy.h"
#include "service/surface.h"

/* How long a new sandbox is waited for: the clients give a request 15 seconds. */
#define START_WAIT_SECONDS 10.0
#define DEFAULT_SPEC "default"

enum { PAGE_MAX = 100, ANSWER_MAX = 16 << 20 };

static const char *const statuses[BOX_STATES] = {
    [BOX_STARTING] = "STARTING", [BOX_RUNNING] = "RUNNING", [BOX_PAUSED] = "PAUSED",
    [BOX_STOPPED] = "PAUSED",    [BOX_ERROR] = "ERROR",     [BOX_MISSING] = "MISSING",
};

/* --- a sandbox as an object ---------------------------------------------------------------- */

static void put_url(struct tn_jw *w, const char *name, const char *url, int port)
{
    tn_jw_object(w);
    tn_jw_kstr(w, "name", name);
    tn_jw_kstr(w, "url", url);
    tn_jw_kint(w, "port", port);
    tn_jw_object_end(w);
}

static void put_urls(struct tn_jw *w, const struct tn_http_exchange *x, const struct box_view *v)
{
    const struct tn_service *s = box_service(v->box);
    tn_autofree char *agent = openhands_url(x, v->id);
    tn_autofree char *editor = openhands_editor_url(x, v);
    tn_autofree char *worker_1 = preview_url(s, v->id, OPENHANDS_WORKER_1);
    tn_autofree char *worker_2 = preview_url(s, v->id, OPENHANDS_WORKER_2);

    tn_jw_array(w);
    put_url(w, "AGENT_SERVER", agent, OPENHANDS_AGENT);
    put_url(w, "VSCODE", editor, OPENHANDS_EDITOR);
    put_url(w, "WORKER_1", worker_1, OPENHANDS_WORKER_1);
    put_url(w, "WORKER_2", worker_2, OPENHANDS_WORKER_2);
    tn_jw_array_end(w);
}

/* Key and addresses are for those who may use them, while there is something to use. */
static void put_sandbox(struct tn_jw *w, const struct tn_http_exchange *x, struct box *b)
{
    autoview struct box_view v;
    box_look(b, &v);
    bool usable = v.state == BOX_RUNNING && caller_of(x)->scopes & (SCOPE_USE | SCOPE_ADMIN);

    tn_jw_object(w);
    tn_jw_kstr(w, "id", v.id);
    tn_jw_kstr(w, "created_by_user_id", v.tenant);
    tn_jw_kstr(w, "sandbox_spec_id", v.template ? v.template : DEFAULT_SPEC);
    tn_jw_kstr(w, "status", statuses[v.state]);
    tn_jw_kstr(w, "session_api_key", usable ? v.session_key : NULL);
    tn_jw_key(w, "exposed_urls");
    if (usable)
        put_urls(w, x, &v);
    else
        tn_jw_null(w);
    openhands_put_time(w, "created_at", v.created);
    tn_jw_kstr(w, "reason", v.reason);
    tn_jw_object_end(w);
}

/* --- queries ------------------------------------------------------------------------------- */

/* Every id=... of the query, in order; *count of them point into *text.  -1: answered. */
static int read_ids(struct tn_http_exchange *x, char **text, const char *ids[PAGE_MAX],
                    size_t *count)
{
    const char *query = strchr(tn_http_target(x), '?');
    size_t n = query ? strlen(++query) : 0;

    *text = tn_malloc(TN_URL_PAIRS_MAX(n));
    *count = 0;
    size_t len = query ? tn_url_pairs(query, n, *text) : 0;
    for (const char *at = *text; at < *text + len;) {
        const char *value = at + strlen(at) + 1;
        if (strcmp(at, "id") == 0) {
            if (*count == PAGE_MAX)
                return native_refuse(x, TN_E_UNPROCESSABLE, "id: expected at most %d of them",
                                     PAGE_MAX);
            ids[(*count)++] = value;
        }
        at = value + strlen(value) + 1;
    }
    return *count ? 0
                  : native_refuse(x, TN_E_UNPROCESSABLE, "id: expected at least one in the query");
}

/* --- sandboxes ----------------------------------------------------------------------------- */

struct page {
    struct tn_jw w;
    const struct tn_http_exchange *x;
    char last[11];
};

static int put_one(struct box *b, void *ctx)
{
    struct page *p = ctx;
    autoview struct box_view v;

    box_look(b, &v);
    if (!surface_is_layer(&v))
        put_sandbox(&p->w, p->x, b);
    snprintf(p->last, sizeof p->last, "%s", box_id(b));
    return 0;
}

static void handle_search(struct tn_http_exchange *x, void *ctx)
{
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, ANSWER_MAX);
    struct page p = {.w = tn_jw(&json), .x = x};
    int64_t limit = PAGE_MAX;
    bool more = false;

    if (!caller_may(x, SCOPE_READ) || native_query_int(x, "limit", 1, PAGE_MAX, &limit))
        return;
    tn_jw_object(&p.w);
    tn_jw_key(&p.w, "items");
    tn_jw_array(&p.w);
    box_each(ctx,
             &(struct box_filter){.tenant = caller_of(x)->tenant,
                                  .after = tn_http_query(x, "page_id"),
                                  .limit = (size_t)limit},
             put_one, &p, &more);
    tn_jw_array_end(&p.w);
    tn_jw_kstr(&p.w, "next_page_id", more ? p.last : NULL);
    tn_jw_object_end(&p.w);
    tn_http_reply_json(x, 200, &json);
}

static void handle_get(struct tn_http_exchange *x, void *ctx)
{
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, ANSWER_MAX);
    struct tn_jw w = tn_jw(&json);
    tn_autofree char *text = NULL;
    const char *ids[PAGE_MAX];
    size_t count;

    if (!caller_may(x, SCOPE_READ) || read_ids(x, &text, ids, &count))
        return;
    tn_jw_array(&w);
    for (size_t i = 0; i < count; i++) {
        autobox struct box *b = box_find(ctx, native_tenant(caller_of(x)), ids[i], NULL);
        if (b)
            put_sandbox(&w, x, b);
        else
            tn_jw_null(&w);
    }
    tn_jw_array_end(&w);
    tn_http_reply_json(x, 200, &json);
}

/* The template of a spec; NULL: none. */
static const char *template_of(const struct tn_config *config, const char *spec_id)
{
    return strcmp(spec_id, DEFAULT_SPEC) != 0 || tn_config_template(config, spec_id) ? spec_id
                                                                                     : NULL;
}

static struct box *create(struct tn_service *s, const struct caller *who, const char *spec_id,
                          struct tn_error *err)
{
    const struct tn_config *config = tn_runtime_host(s->rt)->config;
    struct box_wish wish = {.template = template_of(config, spec_id ? spec_id : DEFAULT_SPEC),
                            .idle_pause = -1,
                            .idle_stop = -1,
                            .ttl = -1};
    struct box *b = NULL;
    bool again = false;

    tn_spec_init(&wish.spec);
    if (!tn_config_spec(config, wish.template, &wish.spec, err))
        b = box_create(s, who, &wish, &again, err);
    tn_spec_done(&wish.spec);
    return b;
}

static void reply_sandbox(struct tn_http_exchange *x, struct box *b)
{
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, 1 << 20);
    struct tn_jw w = tn_jw(&json);

    put_sandbox(&w, x, b);
    tn_http_reply_json(x, 200, &json);
}

/* One that fails later is there to be seen, with its reason. */
static void handle_start(struct tn_http_exchange *x, void *ctx)
{
    struct tn_error err = {0};

    if (!caller_may(x, SCOPE_MANAGE))
        return;
    autobox struct box *b = create(ctx, caller_of(x), tn_http_query(x, "sandbox_spec_id"), &err);
    if (native_audit(x, ctx, "sandbox.create", b ? box_id(b) : NULL, b ? NULL : &err))
        return;
    if (!b) {
        reply_error(x, &err);
        return;
    }
    box_wait(b, ~(1u << BOX_STARTING), tn_deadline_in(START_WAIT_SECONDS), NULL);
    reply_sandbox(x, b);
}

/* `success` is all that the clients read. */
static void give_order(struct tn_http_exchange *x, struct tn_service *s, enum box_order order)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(1 << 10);
    struct tn_jw w = tn_jw(&json);

    autobox struct box *b = native_box(x, s, SCOPE_MANAGE);
    if (!b || openhands_order(x, b, order))
        return;
    tn_jw_object(&w);
    tn_jw_kbool(&w, "success", true);
    if (order != ORDER_DELETE) {
        autoview struct box_view v;
        box_look(b, &v);
        tn_jw_kstr(&w, "status", statuses[v.state]);
    }
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 200, &json);
}

static void handle_pause(struct tn_http_exchange *x, void *ctx)
{
    give_order(x, ctx, ORDER_PAUSE);
}

static void handle_resume(struct tn_http_exchange *x, void *ctx)
{
    give_order(x, ctx, ORDER_RESUME);
}

/* The original wants the id in the query as well; here it may be there. */
static void handle_delete(struct tn_http_exchange *x, void *ctx)
{
    const char *again = tn_http_query(x, "sandbox_id");

    if (again && strcmp(again, tn_http_param(x, "id")) != 0)
        native_refuse(x, TN_E_UNPROCESSABLE, "sandbox_id: expected the id that is in the path");
    else
        give_order(x, ctx, ORDER_DELETE);
}

/* --- specs --------------------------------------------------------------------------------- */

/* "default", then the templates in their order; NULL after the last. */
static const char *spec_at(const struct tn_config *config, size_t i)
{
    const char *name;

    if (i == 0)
        return DEFAULT_SPEC;
    for (size_t j = 0; (name = tn_config_template_name(config, j)); j++)
        if (strcmp(name, DEFAULT_SPEC) != 0 && --i == 0)
            break;
    return name;
}

static bool is_spec(const struct tn_config *config, const char *id)
{
    return strcmp(id, DEFAULT_SPEC) == 0 || tn_config_template(config, id);
}

static pthread_once_t specs_once = PTHREAD_ONCE_INIT;
static double specs_created;

static void note_specs(void)
{
    specs_created = (double)time(NULL);
}

/* What is in a sandbox can be read by those who make one, and by nobody else. */
static int put_spec(struct tn_jw *w, const struct tn_http_exchange *x,
                    const struct tn_config *config, const char *id, struct tn_error *err)
{
    bool open = caller_of(x)->scopes & (SCOPE_MANAGE | SCOPE_ADMIN);
    struct tn_spec spec;

    pthread_once(&specs_once, note_specs);
    tn_spec_init(&spec);
    int failed = tn_config_spec(config, template_of(config, id), &spec, err);
    if (!failed) {
        tn_jw_object(w);
        tn_jw_kstr(w, "id", id);
        tn_jw_knull(w, "command");
        openhands_put_time(w, "created_at", specs_created);
        tn_jw_key(w, "initial_env");
        if (open && spec.env)
            tn_jw_tree(w, spec.env);
        else
            tn_jw_raw(w, "{}", 2);
        tn_jw_kstr(w, "working_dir", spec.workspace ? spec.workspace : "/workspace");
        tn_jw_object_end(w);
    }
    tn_spec_done(&spec);
    return failed;
}

static void handle_search_specs(struct tn_http_exchange *x, void *ctx)
{
    const struct tn_config *config = tn_runtime_host(((struct tn_service *)ctx)->rt)->config;
    const char *after = tn_http_query(x, "page_id"), *id = NULL, *last = NULL;
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, ANSWER_MAX);
    struct tn_jw w = tn_jw(&json);
    struct tn_error err = {0};
    int64_t limit = PAGE_MAX, told = 0;
    size_t i = 0;

    if (!caller_may(x, SCOPE_READ) || native_query_int(x, "limit", 1, PAGE_MAX, &limit))
        return;
    if (after && is_spec(config, after))
        while (strcmp(spec_at(config, i++), after) != 0)
            ;
    tn_jw_object(&w);
    tn_jw_key(&w, "items");
    tn_jw_array(&w);
    for (; told < limit && (id = spec_at(config, i)); i++, told++) {
        if (put_spec(&w, x, config, id, &err)) {
            reply_error(x, &err);
            return;
        }
        last = id;
    }
    tn_jw_array_end(&w);
    tn_jw_kstr(&w, "next_page_id", spec_at(config, i) ? last : NULL);
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 200, &json);
}

static void handle_get_specs(struct tn_http_exchange *x, void *ctx)
{
    const struct tn_config *config = tn_runtime_host(((struct tn_service *)ctx)->rt)->config;
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, ANSWER_MAX);
    struct tn_jw w = tn_jw(&json);
    struct tn_error err = {0};
    tn_autofree char *text = NULL;
    const char *ids[PAGE_MAX];
    size_t count;

    if (!caller_may(x, SCOPE_READ) || read_ids(x, &text, ids, &count))
        return;
    tn_jw_array(&w);
    for (size_t i = 0; i < count; i++) {
        if (!is_spec(config, ids[i])) {
            tn_jw_null(&w);
        } else if (put_spec(&w, x, config, ids[i], &err)) {
            reply_error(x, &err);
            return;
        }
    }
    tn_jw_array_end(&w);
    tn_http_reply_json(x, 200, &json);
}

const struct tn_route routes_v1app[] = {
    {"GET", "/api/v1/sandboxes/search", handle_search, "a page of sandboxes", 0},
    {"GET", "/api/v1/sandboxes", handle_get, "sandboxes by id; null for each that is not there", 0},
    {"POST", "/api/v1/sandboxes", handle_start, "starts a sandbox", 0},
    {"POST", "/api/v1/sandboxes/{id}/pause", handle_pause, "pauses it", 0},
    {"POST", "/api/v1/sandboxes/{id}/resume", handle_resume, "lets it go on, or starts it again",
     0},
    {"DELETE", "/api/v1/sandboxes/{id}", handle_delete, "removes it", 0},
    {"GET", "/api/v1/sandbox-specs/search", handle_search_specs, "a page of specs", 0},
    {"GET", "/api/v1/sandbox-specs", handle_get_specs, "specs by id", 0},
    {0},
};
