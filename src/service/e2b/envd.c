/* envd, the agent of E2B's sandboxes: which sandbox is meant, who may, and what is asked for. */
#include <strings.h>

#include "base/base64.h"
#include "base/secret.h"
#include "base/sha256.h"
#include "service/clock.h"
#include "service/e2b/e2b.h"
#include "service/front.h"
#include "service/preview-host.h"
#include "service/proxy.h"

#define WAKE_SECONDS 60.0
#define HAND_SECONDS 30.0
/* A link that names no sandbox is tried with so many, the newest: a millisecond, whoever asks. */
enum { LINK_TRIES = 256 };

/* --- which sandbox --------------------------------------------------------------------------- */

struct target {
    char id[11];
    int port;
    bool host; /* by the name of the host: nobody else is called so */
};

static bool read_target(const struct tn_service *s, const struct tn_http_exchange *x,
                        struct target *t)
{
    const char *id = tn_http_header(x, "E2b-Sandbox-Id");
    const char *port = tn_http_header(x, "E2b-Sandbox-Port"), *host = tn_http_header(x, "Host");

    *t = (struct target){.port = E2B_ENVD_PORT};
    if (!id && host && preview_parse_host(host, s->options->preview_domain, &t->port, t->id))
        return t->host = true;
    t->port = E2B_ENVD_PORT;
    const char *token = tn_http_header(x, "X-Access-Token");
    if (!id && token && strlen(token) == E2B_TOKEN - 1 && preview_is_id(token, 10)) {
        snprintf(t->id, sizeof t->id, "%s", token);
        return true;
    }
    if (!id)
        return false;
    snprintf(t->id, sizeof t->id, "%s", preview_is_id(id, strlen(id)) ? id : "");
    if (port)
        t->port = preview_port(port, strlen(port));
    return true;
}

static int not_running(struct tn_http_exchange *x, const char *id)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(1024);
    struct tn_jw w = tn_jw(&json);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "sandboxId", id);
    tn_jw_kstr(&w, "message", "The sandbox was not found");
    tn_jw_kint(&w, "code", 502);
    tn_jw_object_end(&w);
    return tn_http_reply_json(x, 502, &json);
}

/* --- signed links ---------------------------------------------------------------------------- */

bool e2b_is_signed(struct tn_http_exchange *x, const char *token)
{
    const char *given = tn_http_query(x, "signature"), *path = tn_http_query(x, "path");
    const char *user = tn_http_query(x, "username");
    const char *until = tn_http_query(x, "signature_expiration");
    bool writes = strcmp(tn_http_method(x), "POST") == 0;
    tn_autofree char *text =
        tn_asprintf("%s:%s:%s:%s%s%s", path ? path : "", writes ? "write" : "read",
                    user ? user : "", token, until ? ":" : "", until ? until : "");
    tn_autobuf struct tn_buf wanted = TN_BUF_INIT(128);
    unsigned char digest[TN_SHA256_BYTES];
    struct tn_sha256 h;

    tn_sha256_init(&h);
    tn_sha256_add(&h, text, strlen(text));
    tn_sha256_end(&h, digest);
    explicit_bzero(text, strlen(text));
    tn_buf_puts(&wanted, "v1_");
    tn_base64_encode(&wanted, digest, sizeof digest);
    tn_buf_cut(&wanted, 3 + 43); /* without the padding */
    /* What is signed is text between colons: a user without any leaves one way to read it. */
    return given && !strchr(user ? user : "", ':') && tn_same_secret(given, tn_buf_str(&wanted)) &&
           (!until || strtod(until, NULL) >= service_time());
}

struct search {
    struct tn_http_exchange *x;
    char id[11];
};

static int try_box(struct box *b, void *ctx)
{
    struct search *search = ctx;
    char token[E2B_TOKEN];

    e2b_token(box_service(b), box_id(b), token);
    if (!e2b_is_signed(search->x, token))
        return 0;
    snprintf(search->id, sizeof search->id, "%s", box_id(b));
    return 1;
}

/* A link names no sandbox where all have one address (one with a host of its own, or a header, has
 * been found before): the signature tells whose it is. */
static bool find_signed(struct tn_service *s, struct tn_http_exchange *x, struct target *t)
{
    struct search search = {.x = x};

    if (strcmp(tn_http_path(x), "/files") != 0 || !tn_http_query(x, "signature"))
        return false;
    box_each(s, &(struct box_filter){.newest_first = true, .limit = LINK_TRIES}, try_box, &search,
             NULL);
    *t = (struct target){.port = E2B_ENVD_PORT};
    snprintf(t->id, sizeof t->id, "%s", search.id);
    return true;
}

/* --- who may --------------------------------------------------------------------------------- */

/* The token of the sandbox, whether it is there or not: so nobody learns which are. */
static bool has_token(struct tn_service *s, struct tn_http_exchange *x, const struct target *t)
{
    const char *given = tn_http_header(x, "X-Access-Token");
    bool link = !given && strcmp(tn_http_path(x), "/files") == 0;
    char token[E2B_TOKEN];

    e2b_token(s, t->id, token);
    bool good = link ? e2b_is_signed(x, token) : given && tn_same_secret(given, token);
    if (!good && t->port == E2B_CODE_PORT) /* contexts are asked for by the token for traffic */
        good = surface_is_token(s, "traffic", t->id, tn_http_header(x, "E2b-Traffic-Access-Token"));
    explicit_bzero(token, sizeof token);
    return good;
}

/* Whether it runs, or does so now because it was to wake when it is used. */
static bool is_awake(struct tn_http_exchange *x, struct box *b)
{
    const double seconds = BOX_WOKEN_SECONDS;
    autoview struct box_view v;

    box_look(b, &v);
    if (v.state == BOX_ERROR || v.state == BOX_MISSING || v.goal == BOX_GONE)
        return false;
    if (v.goal == BOX_RUNNING)
        return true;
    return v.timeout_how & TIMEOUT_WAKE &&
           box_change(b, caller_of(x), &(struct box_change){.timeout = &seconds}, NULL) == 0 &&
           box_order(b, caller_of(x), ORDER_RESUME, tn_deadline_in(WAKE_SECONDS), NULL) == 0;
}

/* "Basic " and base64 of "user:"; false: it is something else. */
static bool read_user(struct e2b_call *c, const char *usual)
{
    const char *given = tn_http_header(c->x, "Authorization"), *name = usual;
    tn_autobuf struct tn_buf text = TN_BUF_INIT(256);

    if (given && strncasecmp(given, "Basic ", 6) == 0) {
        if (tn_base64_decode(&text, given + 6, strlen(given + 6), NULL) < 0)
            return false;
        name = tn_buf_str(&text);
    }
    if (strcmp(tn_http_path(c->x), "/files") == 0)
        name = tn_http_query(c->x, "username") ? tn_http_query(c->x, "username") : usual;
    size_t n = name ? strcspn(name, ":") : 0;
    if (n >= sizeof c->user || (name && memchr(name, '/', n)))
        return false;
    /* The user that images of theirs have is the one that a sandbox has here. */
    if (n && !(n == 4 && strncmp(name, "user", n) == 0))
        memcpy(c->user, name, n);
    return true;
}

/* The box and who asks; false: answered. */
static bool enter(struct e2b_call *c, const struct target *t)
{
    autoview struct box_view v = {0};

    if (!has_token(c->s, c->x, t)) {
        reply_unauthorized(c->x, "The access token of this sandbox is needed: X-Access-Token");
        return false;
    }
    c->b = box_find(c->s, NULL, t->id, NULL);
    if (!c->b) {
        not_running(c->x, t->id);
        return false;
    }
    box_look(c->b, &v);
    if (!surface_enter(c->x, c->b, v.key_id))
        return false;
    if (!is_awake(c->x, c->b)) {
        not_running(c->x, t->id);
        return false;
    }
    const struct tn_json *record = tn_json_get(v.metadata, E2B_RECORD);
    const char *cwd = tn_json_get_str(record, "cwd", NULL);
    c->cwd = cwd && *cwd == '/' ? tn_strdup(cwd) : NULL;
    if (!read_user(c, tn_json_get_str(record, "user", NULL))) {
        reply_unauthorized(c->x, "Authorization: expected Basic with the name of a user");
        return false;
    }
    const char *home = tn_json_get_str(v.spec.env, "HOME", v.spec.workspace);
    c->home = tn_strdup(home && *home == '/' ? home : "/workspace");
    return true;
}

/* --- the hand -------------------------------------------------------------------------------- */

struct tn_hand_files *e2b_files(struct e2b_call *c)
{
    struct tn_error err = {0};
    struct tn_hand_files *f = NULL;

    if (c->address || box_hand(c->b, &c->address, &c->key, tn_deadline_in(HAND_SECONDS), &err) == 0)
        f = tn_hand_files_new(c->address, c->key, &err);
    if (!f) {
        reply_error(c->x, &err);
        return NULL;
    }
    tn_hand_files_hold(f, purse_of(c->x));
    tn_hand_files_attributes(f, E2B_ATTRIBUTES, NULL);
    return f;
}

char *e2b_path(struct e2b_call *c, const char *given)
{
    return surface_path(c->home, given);
}

/* --- small things ---------------------------------------------------------------------------- */

static void get_health(struct e2b_call *c)
{
    tn_http_reply(c->x, 204, NULL, NULL, 0);
}

static void get_envs(struct e2b_call *c)
{
    tn_autobuf struct tn_buf json = ANSWER_BUF(c->x, E2B_ANSWER_MAX);
    struct tn_jw w = tn_jw(&json);
    autoview struct box_view v;

    box_look(c->b, &v);
    if (v.spec.env)
        tn_jw_tree(&w, v.spec.env);
    else
        tn_jw_raw(&w, "{}", 2);
    tn_http_reply_json(c->x, 200, &json);
}

static void get_metrics(struct e2b_call *c)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(4096);
    struct tn_jw w = tn_jw(&json);
    autoview struct box_view v;

    box_sample(c->b, NULL);
    box_look(c->b, &v);
    struct surface_size size = surface_size_of(&v);
    int64_t used = v.usage.memory > 0 ? v.usage.memory : 0;
    tn_jw_object(&w);
    tn_jw_kint(&w, "ts", (int64_t)service_time());
    tn_jw_kint(&w, "cpu_count", size.cpus);
    tn_jw_kdouble(&w, "cpu_used_pct", 0);
    tn_jw_kint(&w, "mem_total", size.memory);
    tn_jw_kint(&w, "mem_used", used);
    tn_jw_kint(&w, "mem_cache", 0);
    tn_jw_kint(&w, "mem_total_mib", size.memory >> 20);
    tn_jw_kint(&w, "mem_used_mib", used >> 20);
    tn_jw_kint(&w, "disk_used", v.usage.disk > 0 ? v.usage.disk : 0);
    tn_jw_kint(&w, "disk_total", size.disk);
    tn_jw_object_end(&w);
    tn_http_reply_json(c->x, 200, &json);
}

/* What only the platform itself asks of its agent. */
static void post_init(struct e2b_call *c)
{
    native_refuse(c->x, TN_E_DENIED, "/init is not for clients");
}

static const struct envd_route {
    const char *method, *path;
    int port;
    void (*call)(struct e2b_call *c);
} rows[] = {
    {"GET", "/health", E2B_ENVD_PORT, get_health},
    {"GET", "/envs", E2B_ENVD_PORT, get_envs},
    {"GET", "/metrics", E2B_ENVD_PORT, get_metrics},
    {"POST", "/init", E2B_ENVD_PORT, post_init},
    {"GET", "/files", E2B_ENVD_PORT, e2b_get_file},
    {"POST", "/files", E2B_ENVD_PORT, e2b_post_files},
    {"GET", "/health", E2B_CODE_PORT, get_health},
    {"POST", "/execute", E2B_CODE_PORT, e2b_execute},
    {"POST", "/contexts", E2B_CODE_PORT, e2b_create_context},
    {"GET", "/contexts", E2B_CODE_PORT, e2b_list_contexts},
    {"DELETE", "/contexts/*", E2B_CODE_PORT, e2b_remove_context},
    {"POST", "/contexts/*/restart", E2B_CODE_PORT, e2b_restart_context},
};

static const struct {
    const char *prefix;
    const struct e2b_method *methods;
} services[] = {
    {"/filesystem.Filesystem/", e2b_filesystem},
    {"/process.Process/", e2b_process},
};

static void dispatch(struct e2b_call *c, const struct target *t)
{
    const char *method = tn_http_method(c->x), *path = tn_http_path(c->x);

    for (size_t i = 0; i < TN_COUNT(rows); i++)
        if (rows[i].port == t->port && strcmp(rows[i].method, method) == 0 &&
            surface_fits(rows[i].path, path, &c->id)) {
            rows[i].call(c);
            return;
        }
    for (size_t i = 0; i < TN_COUNT(services) && t->port == E2B_ENVD_PORT; i++) {
        size_t n = strlen(services[i].prefix);
        if (strncmp(path, services[i].prefix, n) == 0 && strcmp(method, "POST") == 0) {
            e2b_rpc(c, services[i].methods, path + n);
            return;
        }
    }
    native_refuse(c->x, TN_E_NOT_FOUND, "%s %.60s is not served on port %d", method, path, t->port);
}

static void serve(struct tn_service *s, struct tn_http_exchange *x, const struct target *t)
{
    struct e2b_call c = {.s = s, .x = x};

    if (enter(&c, t)) {
        box_enter_use(c.b);
        dispatch(&c, t);
        box_leave_use(c.b);
    }
    if (c.key)
        explicit_bzero(c.key, strlen(c.key));
    free(c.key);
    free(c.address);
    free(c.home);
    free(c.cwd);
    free(c.id);
    box_release(c.b);
}

/* --- the front ------------------------------------------------------------------------------- */

void e2b_pass(struct tn_http_exchange *x, struct box *b, int port)
{
    if (is_awake(x, b))
        proxy_to_port(x, b, port, tn_http_target(x), NULL);
    else
        not_running(x, box_id(b));
}

/* A port of a sandbox for who has the token for its traffic. */
static bool take_traffic(struct tn_service *s, struct tn_http_exchange *x, const struct target *t)
{
    const char *given = tn_http_header(x, "E2b-Traffic-Access-Token");

    if (!t->host || !given || *tn_http_target(x) != '/')
        return false;
    if (!surface_is_token(s, "traffic", t->id, given)) {
        reply_unauthorized(x, "That is not the token for the traffic of this sandbox");
        return true;
    }
    autobox struct box *b = box_find(s, NULL, t->id, NULL);
    autoview struct box_view v = {0};
    if (!b) {
        not_running(x, t->id);
        return true;
    }
    box_look(b, &v);
    if (surface_enter(x, b, v.key_id))
        e2b_pass(x, b, t->port);
    return true;
}

int e2b_visit(struct tn_service *s, struct tn_http_exchange *x, const char *id, int port)
{
    autobox struct box *b = s->options->public_previews ? box_find(s, NULL, id, NULL) : NULL;
    autoview struct box_view v = {0};

    /* Behind these ports there are tokens of their own. */
    if (!b || port == E2B_ENVD_PORT || port == E2B_CODE_PORT || port == E2B_MCP_PORT)
        return 0;
    box_look(b, &v);
    if (!tn_json_bool(tn_json_get(tn_json_get(v.metadata, E2B_RECORD), E2B_PUBLIC), false))
        return 0;
    if (!surface_enter(x, b, v.key_id))
        return -1;
    if (is_awake(x, b))
        return 1;
    not_running(x, id);
    return -1;
}

static bool is_control(const char *path)
{
    static const char *const prefixes[] = {"/sandboxes",    "/v2/sandboxes", "/templates",
                                           "/v2/templates", "/v3/templates", "/snapshots",
                                           "/volumes"};

    for (size_t i = 0; i < TN_COUNT(prefixes); i++) {
        size_t n = strlen(prefixes[i]);
        if (strncmp(path, prefixes[i], n) == 0 && (path[n] == '/' || !path[n]))
            return true;
    }
    return false;
}

bool e2b_take(struct tn_service *s, struct tn_http_exchange *x)
{
    struct target t = {0};
    /* Some clients name the sandbox to the control plane, too. */
    bool control = is_control(tn_http_path(x)),
         known = read_target(s, x, &t) && (t.host || !control);

    if (known && t.host && t.port != E2B_ENVD_PORT && t.port != E2B_CODE_PORT)
        return take_traffic(s, x, &t) || (t.port == E2B_MCP_PORT && e2b_take_gateway(s, x, t.id));
    bool ours = known || (!control && find_signed(s, x, &t));
    if (ours || control)
        surface_speak(x, e2b_reply);
    if (!ours)
        return false;
    if (t.host || (host_check(s, x) && origin_check(s, x)))
        serve(s, x, &t);
    return true;
}
