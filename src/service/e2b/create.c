/* New sandboxes: POST /sandboxes, fork. */
#include "base/log.h"
#include "base/sha256.h"
#include "gate/rules.h"
#include "service/admit.h"
#include "service/clock.h"
#include "service/e2b/e2b.h"
#include "service/recipe.h"

enum { SPEC_MAX = 256 << 10, MOST_FORKS = 100 };
/* Beyond the time that a start may take by itself. */
#define WAIT_MORE_SECONDS 5.0
#define READY_SECONDS 30.0 /* for the program of a template: clients wait twice as long */
static const char everywhere[] = "0.0.0.0/0";

/* --- what a request wishes ------------------------------------------------------------------- */

void e2b_origin_done(struct e2b_origin *o)
{
    box_release(TN_TAKE_PTR(o->parent));
    tn_json_free(TN_TAKE_PTR(o->built));
}

/* Some that every client knows are there without being configured: a sandbox that nobody asked
 * anything special of. */
bool e2b_is_usual(struct tn_service *s, const char *name)
{
    return strcmp(name, E2B_TEMPLATE) == 0 || strcmp(name, "code-interpreter-v1") == 0 ||
           strcmp(name, E2B_GATEWAY) == 0 ||
           tn_config_template(tn_runtime_host(s->rt)->config, name);
}

int e2b_find_origin(struct tn_service *s, const struct caller *who, const char *id,
                    struct e2b_origin *out, struct tn_error *err)
{
    *out = (struct e2b_origin){0};
    if (!id)
        return tn_fail(err, TN_E_INVALID, "templateID: expected the name of a template");
    if (e2b_is_usual(s, id)) {
        out->template = tn_config_template(tn_runtime_host(s->rt)->config, id) ? id : NULL;
        out->gateway = strcmp(id, E2B_GATEWAY) == 0;
        return 0;
    }
    int built = e2b_find_built(s, who, id, out, err);
    if (built)
        return built < 0 ? -1 : 0;
    return tn_fail(err, TN_E_NOT_FOUND, "template '%.100s' not found", id);
}

/* Something that is not empty, nor false. */
static bool is_given(const struct tn_json *v)
{
    return tn_json_count(v) || tn_json_bool(v, false) || tn_json_str(v, NULL);
}

/* Whether the network `open` leads nowhere in that net, or to that address, unless a rule of its
 * own says so: then there is nothing to deny. */
static bool is_out_of_reach(const char *text)
{
    struct tn_rule given = {0};

    if (!strchr(text, '/'))
        return tn_address_parse(text, &given.net) &&
               tn_address_kind(&given.net) != TN_ADDRESS_PUBLIC;
    return tn_net_parse(text, &given) &&
           tn_address_net_kind(&given.net, given.bits) != TN_ADDRESS_PUBLIC;
}

/* everywhere is no rule: whatever is not allowed is denied then. */
static int put_denials(struct tn_jw *w, const struct tn_json *allow, const struct tn_json *deny,
                       struct tn_error *err)
{
    for (size_t i = 0; i < tn_json_count(deny); i++) {
        const char *said = tn_json_str(tn_json_at(deny, i), NULL), *text = said ? said : "";
        bool needed =
            strcmp(text, everywhere) != 0 && (tn_json_count(allow) || !is_out_of_reach(text));
        if (needed && surface_put_denial(w, text, err))
            return tn_error_context(err, "network: denyOut");
    }
    return 0;
}

static int put_rules(struct tn_jw *w, const struct tn_json *allow, const struct tn_json *deny,
                     struct tn_error *err)
{
    tn_jw_key(w, "allow");
    tn_jw_array(w);
    for (size_t i = 0; i < tn_json_count(allow); i++) {
        const char *text = tn_json_str(tn_json_at(allow, i), NULL);
        surface_put_rule(w, text ? text : "");
    }
    int failed = put_denials(w, allow, deny, err);
    tn_jw_array_end(w);
    return failed;
}

int e2b_put_network(struct tn_jw *w, const struct tn_json *body, const struct tn_json *network,
                    struct tn_error *err)
{
    const struct tn_json *allow = tn_json_get(network, "allowOut");
    const struct tn_json *deny = tn_json_get(network, "denyOut");
    bool closed = !tn_json_bool(tn_json_get(body, "allow_internet_access"), true) ||
                  !tn_json_bool(tn_json_get(body, "allowInternetAccess"), true) ||
                  tn_json_lists(deny, everywhere);

    static const char *const absent[] = {"rules", "egressProxy", "maskRequestHost", "dnsServers",
                                         "httpsPorts"};
    for (size_t i = 0; i < TN_COUNT(absent); i++)
        if (is_given(tn_json_get(network, absent[i])))
            return tn_fail(err, TN_E_INVALID, "network: %s is not served here", absent[i]);
    if (!closed && tn_json_count(deny)) { /* behind a gate, with no rules but these */
        tn_jw_kstr(w, "network", "open");
        return put_rules(w, allow, deny, err);
    }
    if (!closed || tn_json_lists(allow, everywhere))
        return 0;
    tn_jw_kstr(w, "network", tn_json_count(allow) ? "allow" : "none");
    return tn_json_count(allow) ? put_rules(w, allow, deny, err) : 0;
}

int e2b_read_public(const struct tn_service *s, const struct tn_json *network, bool usual,
                    bool *out, struct tn_error *err)
{
    const struct tn_json *wish = e2b_member(network, "allowPublicTraffic", "allow_public_traffic");
    bool may = s->options->public_previews;

    if (wish && !may && tn_json_bool(wish, false))
        return tn_fail(err, TN_E_DENIED,
                       "allowPublicTraffic: ports are private here (service.public_previews)");
    *out = may && tn_json_bool(wish, usual);
    return 0;
}

/* What they have and this service has not is refused before anything is made. */
static int check_wish(const struct tn_json *body, struct tn_error *err)
{
    if (tn_json_count(tn_json_get(body, "iam")))
        return tn_fail(err, TN_E_INVALID, "iam is not served here");
    if (tn_json_bool(tn_json_get(body, "autoPause"), false) &&
        !tn_json_bool(tn_json_get(body, "autoPauseMemory"), true))
        return tn_fail(err, TN_E_INVALID,
                       "autoPauseMemory: a time-out pauses with what is in memory here");
    return 0;
}

/* What a recipe says of its box. */
static void put_size(struct tn_jw *w, const struct tn_json *body)
{
    int64_t cpus = tn_json_int(tn_json_get(body, "cpuCount"), 0);
    int64_t memory = tn_json_int(tn_json_get(body, "memoryMB"), 0);
    tn_autofree char *text = tn_asprintf("%lldm", (long long)memory);

    if (cpus > 0)
        tn_jw_kint(w, "cpus", cpus);
    if (memory > 0)
        tn_jw_kstr(w, "memory", text);
    if (!tn_json_get_str(body, "fromImage", NULL))
        return;
    tn_jw_kstr(w, "image", tn_json_get_str(body, "fromImage", NULL));
    tn_jw_kstr(w, "user", "root"); /* as who builds an image */
}

/* The body as members of a spec of ours. */
static int read_members(const struct tn_json *body, struct tn_json **members, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(SPEC_MAX);
    struct tn_jw w = tn_jw(&text);

    tn_jw_object(&w);
    if (e2b_put_network(&w, body, tn_json_get(body, "network"), err))
        return -1;
    put_size(&w, body);
    tn_jw_object_end(&w);
    if (!tn_buf_ok(&text))
        return tn_fail(err, TN_E_INVALID, "network: too much of it");
    return tn_json_parse(tn_buf_str(&text), text.len, members, err);
}

/* One that begins with the files of another has the network of that, or none. */
static int read_closed(const struct tn_json *body, bool *closed, struct tn_error *err)
{
    tn_autojson struct tn_json *members = NULL;

    if (read_members(body, &members, err))
        return -1;
    const char *network = tn_json_get_str(members, "network", NULL);
    *closed = network && strcmp(network, "none") == 0;
    return !network || *closed
               ? 0
               : tn_fail(err, TN_E_INVALID,
                         "network: what begins as a snapshot or a template that was built has the "
                         "network of that, or none (allow_internet_access=False)");
}

static int make_spec(struct tn_service *s, const struct caller *who, const char *template,
                     const struct tn_json *body, struct tn_spec *spec, struct tn_error *err)
{
    tn_autojson struct tn_json *members = NULL;

    if (read_members(body, &members, err) || native_spec(s, who, template, members, spec, err))
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
    double most = surface_most_seconds(s, who);

    *out = tn_json_double(tn_json_get(body, "timeout"), E2B_USUAL_TIMEOUT);
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

struct box *e2b_make_box(struct tn_service *s, const struct caller *who,
                         const struct e2b_origin *from, const struct tn_json *body,
                         struct box_wish *wish, struct tn_error *err)
{
    const struct tn_json *const given[2] = {tn_json_get(from->built, "env"),
                                            tn_json_get(body, "envVars")};
    const struct surface_mounts mounts = {tn_json_get(body, "volumeMounts"), "name", NULL, "path"};

    wish->template = from->template;
    if (from->parent)
        return read_closed(body, &wish->closed, err)
                   ? NULL
                   : surface_fork(from->parent, who, given, E2B_HOME, &mounts, wish, err);
    if (make_spec(s, who, from->template, body, &wish->spec, err))
        return NULL;
    struct box *b = surface_mount(s, who, &mounts, &wish->spec, err)
                        ? NULL
                        : box_create(s, who, wish, NULL, err);
    tn_spec_done(&wish->spec);
    return b;
}

static struct box *create(struct tn_http_exchange *x, struct tn_service *s,
                          const struct tn_json *body, struct e2b_origin *from, struct tn_error *err)
{
    const struct caller *who = caller_of(x);
    struct box_wish wish = {.idle_pause = -1,
                            .idle_stop = -1,
                            .ttl = -1,
                            .metadata = tn_json_get(body, "metadata"),
                            .timeout_how = timeout_how(body),
                            .idempotency = tn_http_header(x, "Idempotency-Key")};
    tn_autojson struct tn_json *metadata = NULL;
    bool public = false;
    char digest[65];

    if (check_wish(body, err) || read_timeout(s, who, body, &wish.timeout, err) ||
        e2b_read_public(s, tn_json_get(body, "network"), true, &public, err) ||
        native_check_names(NULL, NULL, wish.metadata, err) ||
        e2b_find_origin(s, who, tn_json_get_str(body, "templateID", NULL), from, err))
        return NULL;
    if ((from->built || public) &&
        !(metadata = surface_metadata(wish.metadata, E2B_RECORD, tn_json_get(from->built, "record"),
                                      E2B_PUBLIC, public ? "true" : NULL, err)))
        return NULL;
    wish.metadata = metadata ? metadata : wish.metadata;
    digest_of(x, body, digest);
    wish.digest = digest;
    return e2b_make_box(s, who, from, body, &wish, err);
}

int e2b_await(struct box *b, const struct caller *who, bool gateway, struct tn_error *err)
{
    double seconds = box_service(b)->options->start_seconds + WAIT_MORE_SECONDS;

    if (surface_await(b, seconds, err) == 0 && (!gateway || e2b_add_gateway(b, err) == 0))
        return 0;
    box_order(b, who, ORDER_DELETE, tn_now(), NULL);
    return -1;
}

/* The program of its template, which its files do not hold; one that is not ready in time goes on
 * becoming so. */
static void start_program(struct tn_http_exchange *x, struct box *b, const struct tn_json *built)
{
    const struct tn_json *record = tn_json_get(built, "record");
    const char *program = tn_json_get_str(built, "start", NULL);
    struct recipe r = {.box = b,
                       .who = caller_of(x),
                       .home = E2B_HOME,
                       .cwd = tn_strdup_or_null(tn_json_get_str(record, "cwd", NULL)),
                       .user = tn_strdup_or_null(tn_json_get_str(record, "user", NULL)),
                       .stop = tn_http_fd(x),
                       .deadline = tn_deadline_in(READY_SECONDS)};
    struct tn_error err = {0};

    if (program && recipe_start(&r, program, tn_json_get_str(built, "ready", NULL), &err))
        tn_log(TN_LOG_INFO, "the program of a template", tn_log_str("sandbox", box_id(b)),
               tn_log_str("error", err.text));
    recipe_done(&r);
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
    autoorigin struct e2b_origin from = {0};
    autobox struct box *b = create(x, s, body, &from, &err);
    if (native_audit(x, s, "sandbox.create", b ? box_id(b) : NULL, b ? NULL : &err))
        return;
    bool gateway = from.gateway || tn_json_count(tn_json_get(body, "mcp"));
    if (!b || e2b_await(b, caller_of(x), gateway, &err)) {
        reply_error(x, &err);
        return;
    }
    start_program(x, b, from.built);
    reply_sandbox(x, 201, b);
}

/* --- connect --------------------------------------------------------------------------------- */

/* One that runs gets a later end, never an earlier one; one that rests is woken. */
static int reconnect(struct tn_http_exchange *x, struct box *b, const struct tn_json *body,
                     double seconds, bool *woken, struct tn_error *err)
{
    autoview struct box_view v;

    box_look(b, &v);
    if (!e2b_state(&v))
        return tn_fail(err, TN_E_NOT_FOUND, "sandbox %s not found", v.id);
    bool pauses = v.timeout_how & TIMEOUT_PAUSE;
    if (tn_json_bool(tn_json_get(body, "autoPause"), pauses) != pauses)
        return tn_fail(err, TN_E_INVALID, "autoPause: it stays as the sandbox was made");
    if (v.goal == BOX_PAUSED && !tn_json_bool(tn_json_get(body, "memory"), true))
        return tn_fail(err, TN_E_INVALID,
                       "memory: what is in memory is kept here; pause it without (memory=False)");
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
                 reconnect(x, b, body, seconds, &woken, &err);
    if (native_audit(x, s, "sandbox.resume", box_id(b), failed ? &err : NULL))
        return;
    if (failed)
        reply_error(x, &err);
    else
        reply_sandbox(x, woken ? 201 : 200, b);
}

/* --- fork ------------------------------------------------------------------------------------ */

static void put_fork(struct tn_http_exchange *x, struct tn_jw *w, struct box *parent,
                     const struct box_wish *wish)
{
    struct tn_error err = {0};
    autobox struct box *b = box_fork(parent, caller_of(x), NULL, wish, &err);
    bool good = b && e2b_await(b, caller_of(x), false, &err) == 0;

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

#define BOX "/sandboxes/{id}"
const struct tn_route routes_e2b_create[] = {
    {"POST", "/sandboxes", post_sandboxes, "E2B: a new sandbox", 0},
    {"POST", "/v2/sandboxes", post_sandboxes, "E2B: a new sandbox", 0},
    {"POST", BOX "/connect", post_connect, "E2B: wakes it, or prolongs its time", 0},
    {"POST", "/v2/sandboxes/{id}/connect", post_connect, "E2B: wakes it, or prolongs its time", 0},
    {"POST", BOX "/resume", post_connect, "E2B: as connect", 0},
    {"POST", BOX "/fork", post_fork, "E2B: new sandboxes with its files", 0},
    {0},
};
