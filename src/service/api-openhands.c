/* The runtime API of OpenHands, as its RemoteRuntime calls it: docs/service/openhands.md.
 *
 * The hand is ours, so the command that a client wants started is read only for what it says about
 * the sandbox.  Sessions are the client's names for boxes: starting one twice is starting it once.
 */
#include "base/log.h"
#include "service/openhands.h"
#include "service/proxy.h"
#include "service/surface.h"

/* How long /start waits for the box: a client that has to ask again does so two seconds later. */
#define START_WAIT_SECONDS 10.0
#define POLL_MAX_SECONDS 30.0

enum { SESSION_MAX = 255, IMAGE_MAX = 512, ANSWER_MAX = 64 << 20 };

/* --- a box as the clients see it -------------------------------------------------------------- */

/* Words of the runtime API for a state. */
static const struct {
    const char *status, *pod_status;
} words[BOX_STATES] = {
    [BOX_STARTING] = {"starting", "pending"}, [BOX_RUNNING] = {"running", "ready"},
    [BOX_PAUSED] = {"paused", "not found"},   [BOX_STOPPED] = {"stopped", "not found"},
    [BOX_ERROR] = {"error", "failed"},        [BOX_MISSING] = {"stopped", "not found"},
};

/* Where a pause is a stop a stop is a pause. */
static const char *status_word(const struct box_view *v)
{
    bool paused = v->state == BOX_STOPPED && !box_freezes(v->box);

    return words[paused ? BOX_PAUSED : v->state].status;
}

static const char *pod_status(const struct box_view *v)
{
    /* The client then tells its user about memory. */
    if (v->state == BOX_ERROR && v->cause == CAUSE_MEMORY)
        return "crashloopbackoff";
    return words[v->state].pod_status;
}

/* What was asked for at the start: "image" and "runtime_class" of the body. */
static const char *asked(const struct box_view *v, const char *name)
{
    return tn_json_get_str(tn_json_get(v->metadata, "openhands"), name, NULL);
}

static void put_work_hosts(struct tn_jw *w, const struct tn_service *s, const char *id)
{
    static const int ports[] = {OPENHANDS_WORKER_1, OPENHANDS_WORKER_2};

    tn_jw_key(w, "work_hosts");
    tn_jw_object(w);
    for (size_t i = 0; i < TN_COUNT(ports); i++) {
        tn_autofree char *url = preview_url(s, id, ports[i]);
        tn_jw_kint(w, url, ports[i]);
    }
    tn_jw_object_end(w);
}

static void put_runtime(struct tn_jw *w, const struct tn_http_exchange *x, struct box *b)
{
    autoview struct box_view v;
    tn_autofree char *url = openhands_url(x, box_id(b));

    box_look(b, &v);

    tn_jw_object(w);
    tn_jw_kstr(w, "runtime_id", v.id);
    tn_jw_kstr(w, "session_id", v.session);
    tn_jw_kstr(w, "url", url);
    tn_jw_kstr(w, "status", status_word(&v));
    tn_jw_kstr(w, "pod_status", pod_status(&v));
    tn_jw_kstr(w, "session_api_key",
               caller_of(x)->scopes & (SCOPE_USE | SCOPE_ADMIN) ? v.session_key : NULL);
    put_work_hosts(w, box_service(b), v.id);
    tn_jw_kstr(w, "image", asked(&v, "image") ? asked(&v, "image") : v.image);
    tn_jw_kstr(w, "runtime_class", asked(&v, "runtime_class"));
    tn_jw_kdouble(w, "resource_factor", v.resource_factor > 0 ? v.resource_factor : 1);
    tn_jw_kint(w, "restart_count", v.restarts);
    tn_jw_key(w, "restart_reasons");
    tn_jw_array(w);
    if (v.reason)
        tn_jw_str(w, v.reason);
    tn_jw_array_end(w);
    openhands_put_time(w, "created_at", v.created);
    tn_jw_object_end(w);
}

static void reply_runtime(struct tn_http_exchange *x, struct box *b)
{
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, 1 << 20);
    struct tn_jw w = tn_jw(&json);

    put_runtime(&w, x, b);
    tn_http_reply_json(x, 200, &json);
}

/* --- /start ----------------------------------------------------------------------------------- */

struct start {
    char *image, *session_id, *runtime_class;
    struct tn_json *command, *environment;
    double resource_factor;
};

static const struct tn_field start_rows[] = {
    TN_STRING("image", struct start, image),
    TN_JSON("command", struct start, command, .flags = TN_FIELD_LAX),
    TN_JSON("environment", struct start, environment, .flags = TN_FIELD_MAP),
    TN_STRING("session_id", struct start, session_id),
    TN_DOUBLE("resource_factor", struct start, resource_factor, .fallback = "1", .min = 0.1,
              .max = 64),
    TN_STRING("runtime_class", struct start, runtime_class),
};
static const struct tn_fields start_fields = TN_FIELDS(start_rows);

static void start_done(struct start *w)
{
    tn_fields_done(&start_fields, w);
}

/* 0, or -1: answered. */
static int read_start(struct tn_http_exchange *x, struct start *w)
{
    tn_autojson struct tn_json *body = NULL;
    struct tn_error err = {0};

    if (read_json(x, NATIVE_BODY_MAX, &body))
        return -1;
    if (tn_json_type(body) != TN_JSON_OBJECT)
        return native_refuse(x, TN_E_UNPROCESSABLE, "the body: expected an object, found %s",
                             tn_json_type_name(body));
    if (tn_fields_from_json(&start_fields, w, body, &err))
        return native_refuse(x, TN_E_UNPROCESSABLE, "%s", err.text);
    if (w->session_id && (!*w->session_id || strlen(w->session_id) > SESSION_MAX))
        return native_refuse(x, TN_E_UNPROCESSABLE, "session_id: expected 1 to %d bytes",
                             SESSION_MAX);
    if (w->image && strlen(w->image) > IMAGE_MAX)
        return native_refuse(x, TN_E_UNPROCESSABLE, "image: expected at most %d bytes", IMAGE_MAX);
    return 0;
}

struct variables {
    struct tn_jw w;
    const struct tn_json *over; /* what weighs more */
};

static int put_variable(const char *name, struct tn_json *value, void *ctx)
{
    struct variables *v = ctx;

    if (tn_json_has(v->over, name))
        return 0;
    tn_jw_key(&v->w, name);
    tn_jw_tree(&v->w, value);
    return 0;
}

/* Those of the configuration, and over them those of the client. */
static int add_environment(struct tn_spec *spec, const struct tn_json *environment,
                           struct tn_error *err)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(4 << 20);
    struct variables v = {.w = tn_jw(&json), .over = environment};
    struct tn_json *merged = NULL;

    if (!tn_json_count(environment))
        return 0;
    tn_jw_object(&v.w);
    tn_json_each(spec->env, put_variable, &v);
    v.over = NULL;
    tn_json_each(environment, put_variable, &v);
    tn_jw_object_end(&v.w);
    if (tn_json_parse(tn_buf_str(&json), json.len, &merged, err))
        return -1;
    tn_json_free(spec->env);
    spec->env = merged;
    return 0;
}

/* A class is a template of that name; so may be an image.  Where neither is one, a backend that
 * takes references gets the image, and any other its own default. */
static int choose(struct tn_service *s, const struct caller *who, const struct start *w,
                  struct tn_spec *spec, const char **template, struct tn_error *err)
{
    const struct tn_config *config = tn_runtime_host(s->rt)->config;

    *template = w->runtime_class && *w->runtime_class ? w->runtime_class : NULL;
    if (*template && !tn_config_template(config, *template))
        return tn_fail(err, TN_E_INVALID,
                       "runtime_class: there is no %.60s here; the operator makes it with a section"
                       " [template.\"%.60s\"]",
                       *template, *template);
    if (!*template && w->image && tn_config_template(config, w->image))
        *template = w->image;
    if (tn_config_spec(config, *template, spec, err))
        return -1;
    if (w->image && *w->image && !(*template && strcmp(*template, w->image) == 0)) {
        if (openhands_takes_images(s, spec->runtime) &&
            !(openhands_pulls_images(s, spec->runtime) &&
              openhands_is_built(s, who->tenant, w->image))) {
            tn_autofree char *image = openhands_image(s, who->tenant, w->image, err);
            if (!image)
                return -1;
            free(spec->image);
            spec->image = TN_TAKE_PTR(image);
        } else {
            tn_log(TN_LOG_INFO, "an image is not used: the runtime has its own",
                   tn_log_str("image", w->image), tn_log_str("runtime", spec->runtime));
        }
    }
    if (openhands_take_command(s, spec, w->command, err))
        return -1;
    return add_environment(spec, w->environment, err) || tn_spec_check(spec, err) ? -1 : 0;
}

static struct tn_json *metadata_of(const struct start *w)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(1 << 20);
    struct tn_jw jw = tn_jw(&json);
    struct tn_json *tree = NULL;

    tn_jw_object(&jw);
    tn_jw_key(&jw, "openhands");
    tn_jw_object(&jw);
    tn_jw_kstr(&jw, "image", w->image);
    tn_jw_kstr(&jw, "runtime_class", w->runtime_class);
    tn_jw_object_end(&jw);
    tn_jw_object_end(&jw);
    return tn_json_parse(tn_buf_str(&json), json.len, &tree, NULL) ? NULL : tree;
}

static struct box *create(struct tn_service *s, const struct caller *who, const struct start *w,
                          struct tn_error *err)
{
    tn_autojson struct tn_json *metadata = metadata_of(w);
    struct box_wish wish = {.session = w->session_id,
                            .resource_factor = w->resource_factor,
                            .idle_pause = -1,
                            .idle_stop = -1,
                            .ttl = -1,
                            .metadata = metadata};
    bool again = false;
    struct box *b = NULL;

    tn_spec_init(&wish.spec);
    if (!choose(s, who, w, &wish.spec, &wish.template, err))
        b = box_create(s, who, &wish, &again, err);
    tn_spec_done(&wish.spec);
    return b;
}

static bool same(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "") == 0;
}

/* What /start does with a box that has the session already. */
enum adoption { ADOPT, WAKE, REPLACE };
static const enum adoption adoptions[BOX_STATES] = {
    [BOX_STARTING] = ADOPT, [BOX_RUNNING] = ADOPT, [BOX_PAUSED] = WAKE,
    [BOX_STOPPED] = WAKE,   [BOX_ERROR] = WAKE,    [BOX_MISSING] = REPLACE,
};

static enum adoption adoption_of(const struct box_view *v)
{
    if (v->goal == BOX_GONE)
        return REPLACE;
    return adoptions[v->state] == ADOPT && v->goal != BOX_RUNNING ? WAKE : adoptions[v->state];
}

/* 1 with the box ready to be waited for, 0 when it is out of the way, -1 with err. */
static int adopt(struct box *b, const struct caller *who, const struct start *w,
                 struct tn_error *err)
{
    autoview struct box_view v;
    int64_t deadline = tn_deadline_in(OPENHANDS_ORDER_SECONDS);

    box_look(b, &v);
    enum adoption adoption = adoption_of(&v);
    bool alike =
        same(asked(&v, "image"), w->image) && same(asked(&v, "runtime_class"), w->runtime_class);
    bool alive = v.state == BOX_STARTING || v.state == BOX_RUNNING || v.state == BOX_PAUSED;
    if (!alike && alive && adoption != REPLACE)
        return tn_fail(err, TN_E_CONFLICT,
                       "the session has a runtime (%s) of another image or class: stop it first",
                       v.id);
    if (!alike || adoption == REPLACE)
        return box_order(b, who, ORDER_DELETE, deadline, err) ? -1 : 0;
    if (adoption == ADOPT)
        return 1;
    /* One that needs longer is waited for like any other. */
    return box_order(b, who, ORDER_RESUME, tn_deadline_in(START_WAIT_SECONDS), err) &&
                   err->code != TN_E_TIMEOUT
               ? -1
               : 1;
}

/* The box of the session, or a new one. */
static struct box *start(struct tn_service *s, const struct caller *who, const struct start *w,
                         bool *made, struct tn_error *err)
{
    /* Twice: somebody else may start the same session meanwhile. */
    for (int i = 0; i < 2; i++) {
        autobox struct box *b =
            w->session_id ? box_find_session(s, who->tenant, w->session_id, err) : NULL;
        int adopted = b ? adopt(b, who, w, err) : 0;
        if (adopted < 0)
            return NULL;
        if (adopted)
            return TN_TAKE_PTR(b);
        *err = (struct tn_error){0};
        struct box *fresh = create(s, who, w, err);
        *made = fresh != NULL;
        if (fresh || err->code != TN_E_CONFLICT)
            return fresh;
    }
    return NULL;
}

static const enum tn_code cause_codes[] = {
    [CAUSE_NONE] = TN_E_INTERNAL,   [CAUSE_IMAGE] = TN_E_INVALID,   [CAUSE_QUOTA] = TN_E_BUSY,
    [CAUSE_ENGINE] = TN_E_INTERNAL, [CAUSE_MEMORY] = TN_E_INTERNAL, [CAUSE_TIMEOUT] = TN_E_TIMEOUT,
    [CAUSE_ENDED] = TN_E_INTERNAL,
};

/* Waits for it.  A client that is told of a failure has no id: of one just made nothing may stay.
 */
static int await(struct box *b, const struct caller *who, bool made, struct tn_error *err)
{
    unsigned settled = ~(1u << BOX_STARTING);

    if (box_wait(b, settled, tn_deadline_in(START_WAIT_SECONDS), err) && err->code != TN_E_TIMEOUT)
        return -1;
    autoview struct box_view v;
    box_look(b, &v);
    if (v.state != BOX_ERROR)
        return 0;
    if (made)
        box_order(b, who, ORDER_DELETE, tn_deadline_in(OPENHANDS_ORDER_SECONDS), NULL);
    return tn_fail(err, cause_codes[v.cause], "%s", v.reason ? v.reason : "it did not start");
}

static void handle_start(struct tn_http_exchange *x, void *ctx)
{
    struct tn_service *s = ctx;
    const struct caller *who = caller_of(x);
    TN_CLEANUP(start_done) struct start w;
    struct tn_error err = {0};

    tn_fields_defaults(&start_fields, &w);
    if (!caller_may(x, SCOPE_MANAGE) || read_start(x, &w))
        return;
    bool made = false;
    autobox struct box *b = start(s, who, &w, &made, &err);
    int result = b ? await(b, who, made, &err) : -1;
    const char *what = b && !made ? "sandbox.adopt" : "sandbox.create";
    if (native_audit(x, s, what, b ? box_id(b) : NULL, result ? &err : NULL))
        return;
    if (result)
        reply_error(x, &err);
    else
        reply_runtime(x, b);
}

/* --- the rest --------------------------------------------------------------------------------- */

static void give_order(struct tn_http_exchange *x, struct tn_service *s, enum box_order order)
{
    tn_autojson struct tn_json *body = NULL;
    tn_autobuf struct tn_buf json = TN_BUF_INIT(1 << 10);
    struct tn_jw w = tn_jw(&json);
    struct tn_error err = {0};

    if (!caller_may(x, SCOPE_MANAGE) || read_json(x, NATIVE_BODY_MAX, &body))
        return;
    const char *id = tn_json_get_str(body, "runtime_id", NULL);
    if (!id) {
        native_refuse(x, TN_E_UNPROCESSABLE, "runtime_id: expected a string, found %s",
                      tn_json_type_name(tn_json_get(body, "runtime_id")));
        return;
    }
    autobox struct box *b = box_find(s, native_tenant(caller_of(x)), id, &err);
    if (!b) {
        reply_error(x, &err);
        return;
    }
    if (openhands_order(x, b, order))
        return;
    autoview struct box_view v;
    box_look(b, &v);
    tn_jw_object(&w);
    tn_jw_kstr(&w, "runtime_id", v.id);
    tn_jw_kstr(&w, "status", order == ORDER_DELETE ? "stopped" : status_word(&v));
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 200, &json);
}

static void handle_stop(struct tn_http_exchange *x, void *ctx)
{
    give_order(x, ctx, ORDER_DELETE);
}

static void handle_pause(struct tn_http_exchange *x, void *ctx)
{
    give_order(x, ctx, ORDER_PAUSE);
}

static void handle_resume(struct tn_http_exchange *x, void *ctx)
{
    give_order(x, ctx, ORDER_RESUME);
}

static void handle_session(struct tn_http_exchange *x, void *ctx)
{
    struct tn_error err = {0};

    if (!caller_may(x, SCOPE_READ))
        return;
    autobox struct box *b =
        box_find_session(ctx, caller_of(x)->tenant, tn_http_param(x, "session_id"), &err);
    if (b)
        reply_runtime(x, b);
    else
        reply_error(x, &err);
}

static void handle_runtime(struct tn_http_exchange *x, void *ctx)
{
    struct tn_error err = {0};
    double wait = 0;

    if (!caller_may(x, SCOPE_READ) || native_query_seconds(x, "wait", POLL_MAX_SECONDS, &wait))
        return;
    autobox struct box *b =
        box_find(ctx, native_tenant(caller_of(x)), tn_http_param(x, "runtime_id"), &err);
    if (b && wait > 0 && box_wait(b, ~(1u << BOX_STARTING), tn_deadline_in(wait), &err) &&
        err.code != TN_E_TIMEOUT) {
        reply_error(x, &err);
        return;
    }
    if (b)
        reply_runtime(x, b);
    else
        reply_error(x, &err);
}

struct list {
    struct tn_jw w;
    const struct tn_http_exchange *x;
};

static int put_one(struct box *b, void *ctx)
{
    struct list *l = ctx;
    autoview struct box_view v;

    box_look(b, &v);
    if (!surface_is_layer(&v))
        put_runtime(&l->w, l->x, b);
    return 0;
}

static void handle_list(struct tn_http_exchange *x, void *ctx)
{
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, ANSWER_MAX);
    struct list l = {.w = tn_jw(&json), .x = x};

    if (!caller_may(x, SCOPE_READ))
        return;
    tn_jw_object(&l.w);
    tn_jw_key(&l.w, "runtimes");
    tn_jw_array(&l.w);
    box_each(ctx, &(struct box_filter){.tenant = caller_of(x)->tenant}, put_one, &l, NULL);
    tn_jw_array_end(&l.w);
    tn_jw_object_end(&l.w);
    tn_http_reply_json(x, 200, &json);
}

const struct tn_route routes_openhands[] = {
    {"POST", "/start", handle_start, "starts a runtime, or the one that the session has", 0},
    {"POST", "/stop", handle_stop, "ends a runtime and removes it", 0},
    {"POST", "/pause", handle_pause, "pauses a runtime", 0},
    {"POST", "/resume", handle_resume, "lets a runtime go on", 0},
    {"GET", "/sessions/{session_id}", handle_session, "the runtime of a session", 0},
    {"GET", "/runtime/{runtime_id}", handle_runtime, "how a runtime is", 0},
    {"GET", "/list", handle_list, "all runtimes of the tenant", 0},
    {0},
};
