/* New sandboxes: POST /api/sandbox, from a template, an image or a snapshot; and forks. */
#include "service/bounds.h"
#include "service/daytona/daytona.h"
#include "service/openhands.h"

enum { SPEC_MAX = 256 << 10 };
#define CREATE_SECONDS 30.0 /* then clients look for themselves */
#define USUAL_AUTO_STOP 15  /* minutes */

/* What they have and this service has not is refused before anything is made. */
static int check_wish(const struct tn_json *body, struct tn_error *err)
{
    static const char *const absent[] = {"volumes", "secrets", "linkedSandbox", "outboundProxyUrl",
                                         "warmPoolId"};

    for (size_t i = 0; i < TN_COUNT(absent); i++) {
        const struct tn_json *v = tn_json_get(body, absent[i]);
        if (tn_json_count(v) || tn_json_str(v, NULL))
            return tn_fail(err, TN_E_INVALID, "%s is not served here", absent[i]);
    }
    if (tn_json_int(tn_json_get(body, "gpu"), 0) > 0)
        return tn_fail(err, TN_E_INVALID, "gpu is not served here");
    if (tn_json_bool(tn_json_get(body, "kvm"), false))
        return tn_fail(err, TN_E_INVALID, "kvm is not served here");
    return 0;
}

/* "FROM image" and nothing else: what `image` of a client becomes.  On the heap; NULL: it is
 * more. */
static char *only_from(const char *text)
{
    static const char from[] = "FROM ";
    const char *at = text + strspn(text, " \t\n");

    if (strncmp(at, from, sizeof from - 1) != 0)
        return NULL;
    at += sizeof from - 1;
    at += strspn(at, " ");
    size_t n = strcspn(at, " \t\n");
    return n && !at[n + strspn(at + n, " \t\n")] ? tn_strndup(at, n) : NULL;
}

int daytona_check_public(const struct tn_service *s, bool wanted, struct tn_error *err)
{
    return wanted && !s->options->public_previews
               ? tn_fail(err, TN_E_DENIED,
                         "public: sandboxes are private here (service.public_previews)")
               : 0;
}

/* Where it comes from: a template of the configuration, a snapshot of a sandbox of the tenant, or
 * an image where there are any. */
struct origin {
    const char *template; /* NULL: none */
    char *image;          /* heap; NULL: the usual one */
    struct box *parent;   /* NULL: none */
    char *snapshot;       /* heap; of the parent */
};

static void end_origin(struct origin *o)
{
    free(o->image);
    free(o->snapshot);
    box_release(o->parent);
}
#define autoorigin TN_CLEANUP(end_origin)

static int find_origin(struct tn_service *s, const struct caller *who, const struct tn_json *body,
                       struct origin *out, struct tn_error *err)
{
    static const char *const usual[] = {"daytona-small", "daytona-medium", "daytona-large"};
    const char *snapshot = tn_json_get_str(body, "snapshot", NULL);
    const char *recipe = tn_json_get_str(tn_json_get(body, "buildInfo"), "dockerfileContent", NULL);

    out->image = recipe ? only_from(recipe) : NULL;
    if (recipe)
        return out->image
                   ? 0
                   : tn_fail(err, TN_E_INVALID, "buildInfo: images are not built here, only FROM");
    for (size_t i = 0; snapshot && i < TN_COUNT(usual); i++)
        if (strcmp(snapshot, usual[i]) == 0)
            return 0;
    if (!snapshot || !*snapshot)
        return 0;
    if (tn_config_template(tn_runtime_host(s->rt)->config, snapshot))
        out->template = snapshot;
    else if ((out->parent = daytona_snapshot(s, who, snapshot, &out->snapshot)))
        return 0;
    else if (openhands_takes_images(s, NULL))
        out->image = tn_strdup(snapshot);
    else
        return tn_fail(err, TN_E_INVALID, "Snapshot %.100s not found", snapshot);
    return 0;
}

/* 0: nothing is said. */
static int read_amount(const struct tn_json *body, const char *name, double *out,
                       struct tn_error *err)
{
    const struct tn_json *given = tn_json_get(body, name);

    *out = tn_json_type(given) == TN_JSON_NULL ? 0 : tn_json_double(given, -1);
    return *out >= 0 && *out <= 1e9 ? 0 : tn_fail(err, TN_E_INVALID, "%s: not so many", name);
}

static int put_size(struct tn_jw *w, const struct tn_json *body, const char *name,
                    struct tn_error *err)
{
    double n;

    if (read_amount(body, name, &n, err))
        return -1;
    tn_autofree char *text = tn_asprintf("%.0fm", n * 1024);
    if (n > 0)
        tn_jw_kstr(w, name, text);
    return 0;
}

/* Parts of a list with commas. */
static size_t put_rules(struct tn_jw *w, const char *list)
{
    size_t count = 0;

    while (list && *list) {
        size_t n = strcspn(list, ", ");
        tn_autofree char *rule = tn_strndup(list, n);
        if (n) {
            surface_put_rule(w, rule);
            count++;
        }
        list += n + strspn(list + n, ", ");
    }
    return count;
}

static void put_network(struct tn_jw *w, const struct tn_json *body)
{
    const char *networks = tn_json_get_str(body, "networkAllowList", NULL);
    const char *domains = tn_json_get_str(body, "domainAllowList", NULL);
    bool some = (networks && *networks) || (domains && *domains);

    if (tn_json_bool(tn_json_get(body, "networkBlockAll"), false)) {
        tn_jw_kstr(w, "network", "none");
    } else if (some) {
        tn_jw_kstr(w, "network", "allow");
        tn_jw_key(w, "allow");
        tn_jw_array(w);
        put_rules(w, networks);
        put_rules(w, domains);
        tn_jw_array_end(w);
    }
}

static int make_spec(struct tn_service *s, const struct caller *who, const struct tn_json *body,
                     const struct origin *from, struct tn_spec *spec, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(SPEC_MAX);
    tn_autojson struct tn_json *members = NULL;
    struct tn_jw w = tn_jw(&text);
    double cpus;

    if (read_amount(body, "cpu", &cpus, err))
        return -1;
    tn_jw_object(&w);
    if (from->image)
        tn_jw_kstr(&w, "image", from->image);
    put_network(&w, body);
    if (cpus > 0)
        tn_jw_kdouble(&w, "cpus", cpus);
    if (put_size(&w, body, "memory", err) || put_size(&w, body, "disk", err))
        return -1;
    tn_jw_object_end(&w);
    if (!tn_buf_ok(&text))
        return tn_fail(err, TN_E_INVALID, "too much of it");
    if (tn_json_parse(tn_buf_str(&text), text.len, &members, err) ||
        native_spec(s, who, from->template, members, spec, err))
        return -1;
    if (!surface_add_env(tn_json_get(body, "env"), DAYTONA_HOME, spec, err))
        return 0;
    tn_spec_done(spec);
    return -1;
}

static int read_minutes(const struct tn_json *body, const char *name, int64_t min, int64_t fallback,
                        int64_t *out, struct tn_error *err)
{
    const struct tn_json *given = tn_json_get(body, name);

    *out = tn_json_type(given) == TN_JSON_NULL ? fallback : tn_json_int(given, INT64_MIN);
    return *out >= min && *out <= DAYTONA_MINUTES
               ? 0
               : tn_fail(err, TN_E_INVALID, "%s: expected minutes", name);
}

/* A box of that wish, or a fork, which has the spec of its parent. */
static struct box *make(struct tn_service *s, const struct caller *who, const struct tn_json *body,
                        const struct origin *from, struct box_wish *wish, struct tn_error *err)
{
    const struct tn_json *const given[2] = {tn_json_get(body, "env")};
    struct box *b = NULL;

    if (from->parent) {
        b = surface_fork(from->parent, who, from->snapshot, given, DAYTONA_HOME, wish, err);
    } else if (make_spec(s, who, body, from, &wish->spec, err) == 0) {
        b = box_create(s, who, wish, NULL, err);
        tn_spec_done(&wish->spec);
    }
    return b;
}

static struct box *create(struct tn_http_exchange *x, struct tn_service *s,
                          const struct tn_json *body, struct tn_error *err)
{
    const struct caller *who = caller_of(x);
    struct box_wish wish = {.name = tn_json_get_str(body, "name", NULL), .ttl = -1};
    struct daytona_settings settings = {.public = tn_json_bool(tn_json_get(body, "public"), false),
                                        .target = tn_json_get_str(body, "target", NULL),
                                        .snapshot = tn_json_get_str(body, "snapshot", NULL)};
    tn_autojson struct tn_json *metadata = NULL;
    autoorigin struct origin from = {0};
    int64_t stop, ttl;

    if (check_wish(body, err) || daytona_check_public(s, settings.public, err) ||
        native_check_names(wish.name, NULL, NULL, err) ||
        read_minutes(body, "autoStopInterval", 0, USUAL_AUTO_STOP, &stop, err) ||
        read_minutes(body, "autoPauseInterval", 0, 0, &settings.pause, err) ||
        read_minutes(body, "autoArchiveInterval", 0, 0, &settings.archive, err) ||
        read_minutes(body, "autoDeleteInterval", -DAYTONA_MINUTES, -1, &settings.remove, err) ||
        read_minutes(body, "ttlMinutes", 0, 0, &ttl, err) ||
        daytona_metadata(tn_json_get(body, "labels"), &settings, &metadata, err) ||
        find_origin(s, who, body, &from, err))
        return NULL;
    wish.metadata = metadata;
    wish.template = from.template;
    wish.idle_stop = bounds_nearest(who, 60.0 * (double)stop, s->options->idle_stop_seconds);
    wish.idle_pause = settings.pause ? bounds_nearest(who, 60.0 * (double)settings.pause,
                                                      s->options->idle_pause_seconds)
                                     : -1;
    if (ttl)
        wish.ttl = (double)ttl * 60;
    return make(s, who, body, &from, &wish, err);
}

/* One that did not come to life is removed, since nobody has heard its id. */
static void answer(struct tn_http_exchange *x, struct tn_service *s, const char *what,
                   struct box *b, struct tn_error *err)
{
    if (native_audit(x, s, what, b ? box_id(b) : NULL, b ? NULL : err))
        return;
    if (b && surface_await(b, CREATE_SECONDS, err) && err->code != TN_E_TIMEOUT)
        box_order(b, caller_of(x), ORDER_DELETE, tn_now(), NULL);
    else if (b)
        err->code = TN_OK;
    if (err->code)
        reply_error(x, err);
    else
        daytona_reply_box(x, 200, b);
}

void daytona_create(struct tn_http_exchange *x, void *ctx)
{
    tn_autojson struct tn_json *body = NULL;
    struct tn_error err = {0};

    if (!caller_may(x, SCOPE_MANAGE) || surface_body(x, DAYTONA_BODY_MAX, &body))
        return;
    autobox struct box *b = create(x, ctx, body, &err);
    answer(x, ctx, "sandbox.create", b, &err);
}

/* With labels, settings and times of the one it is of. */
void daytona_fork(struct tn_http_exchange *x, void *ctx)
{
    autobox struct box *parent = daytona_box(x, ctx, SCOPE_MANAGE), *b = NULL;
    tn_autojson struct tn_json *body = NULL;
    autoview struct box_view v = {0};
    struct tn_error err = {0};

    if (!parent || surface_body(x, DAYTONA_BODY_MAX, &body))
        return;
    box_look(parent, &v);
    struct box_wish wish = {.name = tn_json_get_str(body, "name", NULL),
                            .idle_pause = v.idle_pause,
                            .idle_stop = v.idle_stop,
                            .ttl = -1,
                            .metadata = v.metadata};
    if (native_check_names(wish.name, NULL, NULL, &err) == 0) {
        tn_spec_init(&wish.spec);
        b = box_fork(parent, caller_of(x), NULL, &wish, &err);
        tn_spec_done(&wish.spec);
    }
    answer(x, ctx, "sandbox.fork", b, &err);
}
