/* New sandboxes: POST /sandboxes, fork, snapshots. */
#include "base/sha256.h"
#include "service/admit.h"
#include "service/clock.h"
#include "service/e2b/e2b.h"

enum { SPEC_MAX = 256 << 10, MOST_FORKS = 100 };
/* Beyond the time that a start may take by itself. */
#define WAIT_MORE_SECONDS 5.0
#define LAYER_SECONDS 120.0
static const char everywhere[] = "0.0.0.0/0";

/* --- what a request wishes ------------------------------------------------------------------- */

/* Where it comes from: a template, or a snapshot of another sandbox ("ID.NAME"). */
struct origin {
    const char *template; /* NULL: none */
    struct box *parent;
    const char *snapshot;
};

static int not_found(struct tn_error *err, const char *id)
{
    return tn_fail(err, TN_E_NOT_FOUND, "template '%.100s' not found", id);
}

/* Templates are those of the configuration.  Some that every client knows are there without one: a
 * sandbox that nobody asked anything special of. */
static int find_origin(struct tn_service *s, const struct caller *who, const char *id,
                       struct origin *out, struct tn_error *err)
{
    static const char *const usual[] = {E2B_TEMPLATE, "code-interpreter-v1"};
    const char *dot = id ? strchr(id, '.') : NULL;
    char box[11];

    *out = (struct origin){0};
    if (!id)
        return tn_fail(err, TN_E_INVALID, "templateID: expected the name of a template");
    if (tn_config_template(tn_runtime_host(s->rt)->config, id)) {
        out->template = id;
        return 0;
    }
    for (size_t i = 0; i < TN_COUNT(usual); i++)
        if (strcmp(id, usual[i]) == 0)
            return 0;
    if (!dot || dot - id != sizeof box - 1)
        return not_found(err, id);
    snprintf(box, sizeof box, "%s", id);
    out->parent = box_find(s, who->tenant, box, NULL);
    out->snapshot = dot + 1;
    return out->parent ? 0 : not_found(err, id);
}

int e2b_put_network(struct tn_jw *w, const struct tn_json *body, const struct tn_json *network,
                    struct tn_error *err)
{
    const struct tn_json *allow = tn_json_get(network, "allowOut");
    const struct tn_json *deny = tn_json_get(network, "denyOut");
    bool closed = !tn_json_bool(tn_json_get(body, "allow_internet_access"), true) ||
                  !tn_json_bool(tn_json_get(body, "allowInternetAccess"), true) ||
                  tn_json_lists(deny, everywhere);

    if (tn_json_count(tn_json_get(network, "rules")) || tn_json_get(network, "egressProxy") ||
        tn_json_get(network, "maskRequestHost"))
        return tn_fail(err, TN_E_INVALID,
                       "network: rules, egressProxy and maskRequestHost are not served here");
    if (tn_json_count(deny) > (tn_json_lists(deny, everywhere) ? 1u : 0u))
        return tn_fail(err, TN_E_INVALID, "network: denyOut can only be %s here", everywhere);
    if (!closed || tn_json_lists(allow, everywhere))
        return 0;
    tn_jw_kstr(w, "network", tn_json_count(allow) ? "allow" : "none");
    if (!tn_json_count(allow))
        return 0;
    tn_jw_key(w, "allow");
    tn_jw_array(w);
    for (size_t i = 0; i < tn_json_count(allow); i++)
        surface_put_rule(w, tn_json_str(tn_json_at(allow, i), NULL)
                                ? tn_json_str(tn_json_at(allow, i), NULL)
                                : "");
    tn_jw_array_end(w);
    return 0;
}

/* What they have and this service has not is refused before anything is made. */
static int check_wish(const struct tn_json *body, struct tn_error *err)
{
    static const char *const absent[] = {"mcp", "iam", "volumeMounts"};

    for (size_t i = 0; i < TN_COUNT(absent); i++)
        if (tn_json_count(tn_json_get(body, absent[i])))
            return tn_fail(err, TN_E_INVALID, "%s is not served here", absent[i]);
    return 0;
}

static int make_spec(struct tn_service *s, const struct caller *who, const struct origin *from,
                     const struct tn_json *body, struct tn_spec *spec, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(SPEC_MAX);
    tn_autojson struct tn_json *members = NULL;
    struct tn_jw w = tn_jw(&text);

    tn_jw_object(&w);
    if (e2b_put_network(&w, body, tn_json_get(body, "network"), err))
        return -1;
    tn_jw_object_end(&w);
    if (!tn_buf_ok(&text))
        return tn_fail(err, TN_E_INVALID, "network: too much of it");
    if (tn_json_parse(tn_buf_str(&text), text.len, &members, err) ||
        native_spec(s, who, from->template, members, spec, err))
        return -1;
    if (!surface_add_env(tn_json_get(body, "envVars"), E2B_HOME, spec, err))
        return 0;
    tn_spec_done(spec);
    return -1;
}

/* The time-out in seconds; what the operator allows each sandbox bounds it. */
static int read_timeout(const struct tn_service *s, const struct caller *who,
                        const struct tn_json *body, double *out, struct tn_error *err)
{
    double most = who->limits.max_seconds, service = s->options->ttl_seconds;

    *out = tn_json_double(tn_json_get(body, "timeout"), E2B_USUAL_TIMEOUT);
    if (service > 0 && !(who->scopes & SCOPE_ADMIN) && (most <= 0 || service < most))
        most = service;
    if (!(*out >= 0 && *out <= 1e9))
        return tn_fail(err, TN_E_INVALID, "timeout: expected seconds");
    if (most > 0 && *out > most)
        return tn_fail(err, TN_E_INVALID, "Timeout cannot be greater than %g seconds", most);
    *out = *out > 0 ? *out : 1e-3; /* it ends at once */
    return 0;
}

static unsigned timeout_how(const struct tn_json *body)
{
    const struct tn_json *resume = tn_json_get(body, "autoResume");

    return (tn_json_bool(tn_json_get(body, "autoPause"), false) ? TIMEOUT_PAUSE : 0u) |
           (tn_json_bool(tn_json_get(resume, "enabled"), false) ? TIMEOUT_WAKE : 0u);
}

/* What an idempotency key belongs to. */
static void digest_of(const struct tn_http_exchange *x, const struct tn_json *body, char out[65])
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(2 * E2B_BODY_MAX);
    struct tn_jw w = tn_jw(&text);
    struct tn_sha256 h;

    tn_jw_tree(&w, body);
    tn_sha256_init(&h);
    tn_sha256_add(&h, tn_http_path(x), strlen(tn_http_path(x)) + 1);
    tn_sha256_add(&h, tn_buf_str(&text), text.len);
    tn_sha256_end_hex(&h, out);
}

/* --- create ---------------------------------------------------------------------------------- */

static struct box *create(struct tn_http_exchange *x, struct tn_service *s,
                          const struct tn_json *body, struct tn_error *err)
{
    const struct caller *who = caller_of(x);
    struct box_wish wish = {.idle_pause = -1,
                            .idle_stop = -1,
                            .ttl = -1,
                            .metadata = tn_json_get(body, "metadata"),
                            .timeout_how = timeout_how(body),
                            .idempotency = tn_http_header(x, "Idempotency-Key")};
    struct origin from;
    char digest[65];
    struct box *b = NULL;

    if (check_wish(body, err) || read_timeout(s, who, body, &wish.timeout, err) ||
        native_check_names(NULL, NULL, wish.metadata, err) ||
        find_origin(s, who, tn_json_get_str(body, "templateID", NULL), &from, err))
        return NULL;
    autobox struct box *parent = from.parent;
    digest_of(x, body, digest);
    wish.template = from.template;
    wish.digest = digest;
    if (parent && tn_json_count(tn_json_get(body, "envVars"))) {
        tn_fail(err, TN_E_INVALID, "envVars: a sandbox from a snapshot has those of its origin");
    } else if (parent) {
        tn_spec_init(&wish.spec);
        b = box_fork(parent, who, from.snapshot, &wish, err);
        tn_spec_done(&wish.spec);
    } else if (make_spec(s, who, &from, body, &wish.spec, err) == 0) {
        b = box_create(s, who, &wish, NULL, err);
        tn_spec_done(&wish.spec);
    }
    return b;
}

/* A sandbox that did not come to life is removed: clients know none that are not there. */
static int await(struct box *b, const struct caller *who, struct tn_error *err)
{
    if (surface_await(b, box_service(b)->options->start_seconds + WAIT_MORE_SECONDS, err) == 0)
        return 0;
    box_order(b, who, ORDER_DELETE, tn_now(), NULL);
    return -1;
}

static void reply_sandbox(struct tn_http_exchange *x, int status, struct box *b)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(16 << 10);
    struct tn_jw w = tn_jw(&json);

    e2b_put_sandbox(x, &w, b);
    tn_http_reply_json(x, status, &json);
}

static void post_sandboxes(struct tn_http_exchange *x, void *ctx)
{
    struct tn_service *s = ctx;
    tn_autojson struct tn_json *body = NULL;
    struct tn_error err = {0};

    if (!caller_may(x, SCOPE_MANAGE) || surface_body(x, E2B_BODY_MAX, &body))
        return;
    autobox struct box *b = create(x, s, body, &err);
    if (native_audit(x, s, "sandbox.create", b ? box_id(b) : NULL, b ? NULL : &err))
        return;
    if (!b || await(b, caller_of(x), &err))
        reply_error(x, &err);
    else
        reply_sandbox(x, 201, b);
}

/* --- connect --------------------------------------------------------------------------------- */

/* One that runs gets a later end, never an earlier one; one that rests is woken. */
static int reconnect(struct tn_http_exchange *x, struct box *b, double seconds, bool *woken,
                     struct tn_error *err)
{
    autoview struct box_view v;

    box_look(b, &v);
    if (!e2b_state(&v))
        return tn_fail(err, TN_E_NOT_FOUND, "sandbox %s not found", v.id);
    *woken = v.goal != BOX_RUNNING;
    double left = v.timeout > 0 ? v.timeout - service_time() : 0;
    if ((*woken || left < seconds) && (*woken || v.timeout > 0) &&
        box_change(b, caller_of(x), &(struct box_change){.timeout = &seconds}, err))
        return -1;
    return *woken ? box_order(b, caller_of(x), ORDER_RESUME,
                              tn_deadline_in(box_service(b)->options->start_seconds), err)
                  : 0;
}

static void post_connect(struct tn_http_exchange *x, void *ctx)
{
    struct tn_service *s = ctx;
    autobox struct box *b = e2b_box(x, s, SCOPE_MANAGE);
    tn_autojson struct tn_json *body = NULL;
    struct tn_error err = {0};
    double seconds = 0;
    bool woken = false;

    if (!b || surface_body(x, E2B_BODY_MAX, &body))
        return;
    int failed = read_timeout(s, caller_of(x), body, &seconds, &err) ||
                 reconnect(x, b, seconds, &woken, &err);
    if (native_audit(x, s, "sandbox.resume", box_id(b), failed ? &err : NULL))
        return;
    if (failed)
        reply_error(x, &err);
    else
        reply_sandbox(x, woken ? 201 : 200, b);
}

/* --- fork and snapshots ---------------------------------------------------------------------- */

static void put_fork(struct tn_http_exchange *x, struct tn_jw *w, struct box *parent,
                     const struct box_wish *wish)
{
    struct tn_error err = {0};
    autobox struct box *b = box_fork(parent, caller_of(x), NULL, wish, &err);
    bool good = b && await(b, caller_of(x), &err) == 0;

    tn_jw_object(w);
    if (good) {
        tn_jw_key(w, "sandbox");
        e2b_put_sandbox(x, w, b);
    } else {
        tn_jw_key(w, "error");
        tn_jw_object(w);
        tn_jw_kint(w, "code", tn_code_row(err.code)->http_status);
        tn_jw_kstr(w, "message", err.text);
        tn_jw_object_end(w);
    }
    tn_jw_object_end(w);
}

static void post_fork(struct tn_http_exchange *x, void *ctx)
{
    struct tn_service *s = ctx;
    autobox struct box *b = e2b_box(x, s, SCOPE_MANAGE);
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, E2B_ANSWER_MAX);
    tn_autojson struct tn_json *body = NULL;
    struct tn_jw w = tn_jw(&json);
    struct box_wish wish = {.idle_pause = -1, .idle_stop = -1, .ttl = -1};
    struct tn_error err = {0};

    if (!b || surface_body(x, E2B_BODY_MAX, &body))
        return;
    int64_t count = tn_json_int(tn_json_get(body, "count"), 1);
    if (read_timeout(s, caller_of(x), body, &wish.timeout, &err) ||
        ((count < 1 || count > MOST_FORKS) &&
         tn_fail(&err, TN_E_INVALID, "count: expected 1 to %d", MOST_FORKS))) {
        reply_error(x, &err);
        return;
    }
    autoview struct box_view v;
    box_look(b, &v);
    wish.metadata = v.metadata;
    wish.timeout_how = v.timeout_how;
    tn_spec_init(&wish.spec);
    if (native_audit(x, s, "sandbox.fork", box_id(b), NULL))
        return;
    tn_jw_array(&w);
    for (int64_t i = 0; i < count; i++)
        put_fork(x, &w, b, &wish);
    tn_jw_array_end(&w);
    tn_http_reply_json(x, 201, &json);
}

struct taking {
    const char *name;
    int64_t deadline;
};

static int take(struct tn_sandbox *sb, void *ctx, struct tn_error *err)
{
    const struct taking *t = ctx;

    return tn_sandbox_snapshot(sb, t->name, t->deadline, err);
}

static int forget(struct tn_sandbox *sb, void *ctx, struct tn_error *err)
{
    const struct taking *t = ctx;

    return tn_sandbox_forget(sb, t->name, t->deadline, err);
}

static void put_snapshot(struct tn_jw *w, const char *box, const char *name)
{
    tn_autofree char *id = tn_asprintf("%s.%s", box, name);

    tn_jw_object(w);
    tn_jw_kstr(w, "snapshotID", id);
    tn_jw_key(w, "names");
    tn_jw_array(w);
    tn_jw_str(w, id);
    tn_jw_array_end(w);
    tn_jw_object_end(w);
}

static void post_snapshots(struct tn_http_exchange *x, void *ctx)
{
    struct tn_service *s = ctx;
    autobox struct box *b = e2b_box(x, s, SCOPE_MANAGE);
    tn_autobuf struct tn_buf json = TN_BUF_INIT(16 << 10);
    tn_autojson struct tn_json *body = NULL;
    struct tn_jw w = tn_jw(&json);
    struct tn_error err = {0};
    double bytes;
    char made[24];

    if (!b || surface_body(x, E2B_BODY_MAX, &body))
        return;
    snprintf(made, sizeof made, "s%.0f", service_time() * 1000);
    const char *name = tn_json_get_str(body, "name", made);
    struct taking t = {.name = name, .deadline = tn_deadline_in(LAYER_SECONDS)};
    int failed = box_snapshot_begin(b, &bytes, &err);
    if (!failed) {
        failed = box_with_sandbox(b, take, &t, t.deadline, &err);
        box_snapshot_end(b, bytes);
    }
    if (native_audit(x, s, "snapshot.create", box_id(b), failed ? &err : NULL))
        return;
    if (failed) {
        reply_error(x, &err);
        return;
    }
    put_snapshot(&w, box_id(b), name);
    tn_http_reply_json(x, 201, &json);
}

struct listing {
    struct tn_service *s;
    struct tn_jw w;
    const char *box;
};

static int list_snapshot(const struct tn_snapshot *snapshot, void *ctx)
{
    struct listing *l = ctx;

    put_snapshot(&l->w, l->box, snapshot->name);
    return 0;
}

static int list_box(struct box *b, void *ctx)
{
    struct listing *l = ctx;

    l->box = box_id(b);
    return tn_store_snapshots(tn_runtime_store(l->s->rt), l->box, list_snapshot, l, NULL) < 0;
}

static void get_snapshots(struct tn_http_exchange *x, void *ctx)
{
    struct tn_service *s = ctx;
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, E2B_ANSWER_MAX);
    struct listing l = {.s = s, .w = tn_jw(&json)};
    const char *only = tn_http_query(x, "sandboxID");

    if (!caller_may(x, SCOPE_READ))
        return;
    const char *tenant = caller_of(x)->tenant;
    autobox struct box *b = only ? box_find(s, tenant, only, NULL) : NULL;
    tn_jw_array(&l.w);
    if (b)
        list_box(b, &l);
    else if (!only)
        box_each(s, &(struct box_filter){.tenant = tenant}, list_box, &l, NULL);
    tn_jw_array_end(&l.w);
    tn_http_reply_json(x, 200, &json);
}

/* Snapshots are templates there; those of the configuration are the operator's. */
static void delete_template(struct tn_http_exchange *x, void *ctx)
{
    struct tn_service *s = ctx;
    struct origin from = {0};
    struct tn_error err = {0};

    if (!caller_may(x, SCOPE_MANAGE))
        return;
    int failed = find_origin(s, caller_of(x), tn_http_param(x, "template"), &from, &err);
    autobox struct box *b = from.parent;
    struct taking t = {.name = from.snapshot, .deadline = tn_deadline_in(LAYER_SECONDS)};
    if (!failed && !b)
        failed = tn_fail(&err, TN_E_DENIED, "templates are the operator's here");
    failed = failed || box_with_sandbox(b, forget, &t, t.deadline, &err);
    if (native_audit(x, s, "snapshot.delete", b ? box_id(b) : NULL, failed ? &err : NULL))
        return;
    if (failed)
        reply_error(x, &err);
    else
        tn_http_reply(x, 204, NULL, NULL, 0);
}

#define BOX "/sandboxes/{id}"
const struct tn_route routes_e2b_create[] = {
    {"POST", "/sandboxes", post_sandboxes, "E2B: a new sandbox", 0},
    {"POST", "/v2/sandboxes", post_sandboxes, "E2B: a new sandbox", 0},
    {"POST", BOX "/connect", post_connect, "E2B: wakes it, or prolongs its time", 0},
    {"POST", "/v2/sandboxes/{id}/connect", post_connect, "E2B: wakes it, or prolongs its time", 0},
    {"POST", BOX "/resume", post_connect, "E2B: as connect", 0},
    {"POST", BOX "/fork", post_fork, "E2B: new sandboxes with its files", 0},
    {"POST", BOX "/snapshots", post_snapshots, "E2B: a snapshot of its files", 0},
    {"GET", "/snapshots", get_snapshots, "E2B: snapshots of the tenant", 0},
    {"DELETE", "/templates/{template}", delete_template, "E2B: removes a snapshot", 0},
    {0},
};
