/* New sandboxes: POST /api/sandbox, from a template, an image or a snapshot; forks; and snapshots
 * of images. */
#include "service/bounds.h"
#include "service/daytona/daytona.h"
#include "service/dockerfile.h"
#include "service/openhands.h"
#include "service/volume.h"

enum { SPEC_MAX = 256 << 10 };
#define CREATE_SECONDS 30.0 /* then clients look for themselves */
#define START_MORE 5.0      /* than a start may take, before a build begins */
#define BUILD_SECONDS 3600.0
#define USUAL_AUTO_STOP 15 /* minutes */

/* What they have and this service has not is refused before anything is made. */
static int check_wish(const struct tn_json *body, struct tn_error *err)
{
    static const char *const absent[] = {"secrets", "linkedSandbox", "outboundProxyUrl",
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

/* A Dockerfile without what their clients' debian_slim() begins with: where sandboxes have the root
 * of this machine, what is in it is the operator's.  On the heap. */
static char *without_slim(const char *text)
{
    static const char *const slim[] = {
        "RUN apt-get update", "RUN apt-get install -y gcc gfortran build-essential",
        "RUN pip install --upgrade pip",
        "RUN echo 'debconf debconf/frontend select Noninteractive' | debconf-set-selections"};
    tn_autobuf struct tn_buf out = TN_BUF_INIT(DAYTONA_BODY_MAX);

    for (size_t n, next = 0; *text; text += n + (text[n] == '\n')) {
        n = strcspn(text, "\n");
        if (next < TN_COUNT(slim) && strlen(slim[next]) == n && strncmp(text, slim[next], n) == 0)
            next++;
        else
            tn_buf_printf(&out, "%.*s\n", (int)n, text);
    }
    return tn_buf_take(&out);
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
    const char *template;     /* NULL: none */
    char *image;              /* heap; NULL: the usual one */
    struct box *parent;       /* NULL: none */
    struct dockerfile recipe; /* with a script where there is something to build */
};

static void end_origin(struct origin *o)
{
    free(o->image);
    dockerfile_done(&o->recipe);
    box_release(o->parent);
}
#define autoorigin TN_CLEANUP(end_origin)

/* What is built of that Dockerfile.  FROM may name a template; to jails every image is their root.
 */
static int read_recipe(struct tn_service *s, const char *text, struct origin *out,
                       struct tn_error *err)
{
    const bool images = openhands_takes_images(s, NULL);
    tn_autofree char *lean = images ? NULL : without_slim(text);

    if (dockerfile_read(lean ? lean : text, NULL, NULL, &out->recipe, err))
        return -1;
    if (tn_config_template(tn_runtime_host(s->rt)->config, out->recipe.image))
        out->template = out->recipe.image;
    else if (images)
        out->image = tn_strdup(out->recipe.image);
    return 0;
}

/* Nothing is to be done in it. */
static bool is_plain(const struct origin *o)
{
    return !o->recipe.script || !strchr(o->recipe.script, '\n')[1];
}

static int find_parent(struct tn_service *s, const struct caller *who, const char *snapshot,
                       struct origin *out, struct tn_error *err)
{
    autoview struct box_view v = {0};

    out->parent = daytona_snapshot(s, who, snapshot);
    if (!out->parent)
        return 0;
    daytona_see(out->parent, &v);
    return daytona_build_of(&v, NULL, NULL) == DAYTONA_BUILT
               ? 0
               : tn_fail(err, TN_E_INVALID, "Snapshot %.100s is not ready", snapshot);
}

static int find_origin(struct tn_service *s, const struct caller *who, const struct tn_json *body,
                       struct origin *out, struct tn_error *err)
{
    static const char *const usual[] = {"daytona-small", "daytona-medium", "daytona-large"};
    const char *snapshot = tn_json_get_str(body, "snapshot", NULL);
    const char *recipe = tn_json_get_str(tn_json_get(body, "buildInfo"), "dockerfileContent", NULL);

    if (recipe)
        return read_recipe(s, recipe, out, err);
    for (size_t i = 0; snapshot && i < TN_COUNT(usual); i++)
        if (strcmp(snapshot, usual[i]) == 0)
            return 0;
    if (!snapshot || !*snapshot)
        return 0;
    if (tn_config_template(tn_runtime_host(s->rt)->config, snapshot)) {
        out->template = snapshot;
        return 0;
    }
    if (find_parent(s, who, snapshot, out, err))
        return -1;
    if (out->parent)
        return 0;
    if (openhands_takes_images(s, NULL))
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

static bool is_blocked(const struct tn_json *body)
{
    return tn_json_bool(tn_json_get(body, "networkBlockAll"), false);
}

static bool has_rules(const struct tn_json *body)
{
    return *tn_json_get_str(body, "networkAllowList", "") ||
           *tn_json_get_str(body, "domainAllowList", "");
}

void daytona_put_network(struct tn_jw *w, const struct tn_json *body)
{
    if (is_blocked(body)) {
        tn_jw_kstr(w, "network", "none");
    } else if (has_rules(body)) {
        tn_jw_kstr(w, "network", "allow");
        tn_jw_key(w, "allow");
        tn_jw_array(w);
        put_rules(w, tn_json_get_str(body, "networkAllowList", NULL));
        put_rules(w, tn_json_get_str(body, "domainAllowList", NULL));
        tn_jw_array_end(w);
    }
}

static struct surface_mounts mounts_of(const struct tn_json *body)
{
    return (struct surface_mounts){tn_json_get(body, "volumes"), "volumeId", "subpath",
                                   "mountPath"};
}

static int make_spec(struct tn_service *s, const struct caller *who, const struct tn_json *body,
                     const struct origin *from, struct tn_spec *spec, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(SPEC_MAX);
    tn_autojson struct tn_json *members = NULL;
    struct tn_jw w = tn_jw(&text);
    const struct surface_mounts mounts = mounts_of(body);
    double cpus;

    if (read_amount(body, "cpu", &cpus, err))
        return -1;
    tn_jw_object(&w);
    if (from->image)
        tn_jw_kstr(&w, "image", from->image);
    if (from->recipe.workdir)
        tn_jw_kstr(&w, "workspace", from->recipe.workdir);
    daytona_put_network(&w, body);
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
    if (!surface_mount(s, who, &mounts, spec, err) &&
        !surface_add_env(from->recipe.env, DAYTONA_HOME, spec, err) &&
        !surface_add_env(tn_json_get(body, "env"), DAYTONA_HOME, spec, err))
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
    const struct surface_mounts mounts = mounts_of(body);
    struct box *b = NULL;

    wish->closed = is_blocked(body);
    if (from->parent && !wish->closed && has_rules(body)) {
        tn_fail(err, TN_E_INVALID,
                "networkAllowList, domainAllowList: what begins as a snapshot has the network of "
                "that, or none (networkBlockAll)");
        return NULL;
    }
    if (from->parent)
        return surface_fork(from->parent, who, given, DAYTONA_HOME, &mounts, wish, err);
    if (make_spec(s, who, body, from, &wish->spec, err) == 0) {
        b = box_create(s, who, wish, NULL, err);
        tn_spec_done(&wish->spec);
    }
    return b;
}

static struct box *create(struct tn_http_exchange *x, struct tn_service *s,
                          const struct tn_json *body, struct origin *from, struct tn_error *err)
{
    const struct caller *who = caller_of(x);
    struct box_wish wish = {.name = tn_json_get_str(body, "name", NULL), .ttl = -1};
    struct daytona_settings settings = {.public = tn_json_bool(tn_json_get(body, "public"), false),
                                        .target = tn_json_get_str(body, "target", NULL),
                                        .snapshot = tn_json_get_str(body, "snapshot", NULL)};
    tn_autojson struct tn_json *metadata = NULL, *build = NULL;
    int64_t stop, ttl;

    if (check_wish(body, err) || daytona_check_public(s, settings.public, err) ||
        native_check_names(wish.name, NULL, NULL, err) ||
        read_minutes(body, "autoStopInterval", 0, USUAL_AUTO_STOP, &stop, err) ||
        read_minutes(body, "autoPauseInterval", 0, 0, &settings.pause, err) ||
        read_minutes(body, "autoArchiveInterval", 0, 0, &settings.archive, err) ||
        read_minutes(body, "autoDeleteInterval", -DAYTONA_MINUTES, -1, &settings.remove, err) ||
        read_minutes(body, "ttlMinutes", 0, 0, &ttl, err) || find_origin(s, who, body, from, err))
        return NULL;
    if (!is_plain(from))
        settings.build = build = daytona_build_record(NULL, NULL, DAYTONA_PENDING, NULL, 0);
    if (daytona_metadata(tn_json_get(body, "labels"), &settings, &metadata, err))
        return NULL;
    wish.metadata = metadata;
    wish.template = from->template;
    wish.idle_stop = bounds_nearest(who, 60.0 * (double)stop, s->options->idle_stop_seconds);
    wish.idle_pause = settings.pause ? bounds_nearest(who, 60.0 * (double)settings.pause,
                                                      s->options->idle_pause_seconds)
                                     : -1;
    if (ttl)
        wish.ttl = (double)ttl * 60;
    return make(s, who, body, from, &wish, err);
}

/* Notes a new box in the audit log and waits for it; then what is to be built in it begins.  One
 * that did not come to life is removed, since nobody has heard its id.  -1: answered. */
static int begin(struct tn_http_exchange *x, struct tn_service *s, const char *what, struct box *b,
                 const struct origin *from, struct tn_error *err)
{
    const bool plain = !from || is_plain(from);

    if (native_audit(x, s, what, b ? box_id(b) : NULL, b ? NULL : err))
        return -1;
    double seconds = plain ? CREATE_SECONDS : s->options->start_seconds + START_MORE;
    if (b && surface_await(b, seconds, err) == 0 && !plain)
        daytona_build_start(x, b, from->recipe.script, err);
    else if (b && plain && err->code == TN_E_TIMEOUT)
        err->code = TN_OK;
    if (b && err->code)
        box_order(b, caller_of(x), ORDER_DELETE, tn_now(), NULL);
    if (err->code)
        reply_error(x, err);
    return err->code ? -1 : 0;
}

/* Clients listen to a build if they are told that it is still to come. */
static void reply_pending(struct tn_http_exchange *x, const struct box_view *v)
{
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, DAYTONA_ANSWER_MAX);
    struct tn_jw w = tn_jw(&json);

    daytona_put(x, &w, v);
    tn_http_reply_json(x, 200, &json);
}

void daytona_create(struct tn_http_exchange *x, void *ctx)
{
    tn_autojson struct tn_json *body = NULL;
    struct tn_error err = {0};

    if (!caller_may(x, SCOPE_MANAGE) || surface_body(x, DAYTONA_BODY_MAX, &body))
        return;
    autoorigin struct origin from = {0};
    autoview struct box_view v = {0};
    autobox struct box *b = create(x, ctx, body, &from, &err);
    if (b)
        box_look(b, &v);
    if (begin(x, ctx, "sandbox.create", b, &from, &err))
        return;
    if (is_plain(&from))
        daytona_reply_box(x, 200, b);
    else
        reply_pending(x, &v);
}

/* A box that rests when its image is built; its name is that of a session, so there is one. */
static struct box *create_resting(struct tn_http_exchange *x, struct tn_service *s,
                                  const struct tn_json *body, struct origin *from,
                                  struct tn_error *err)
{
    const char *name = tn_json_get_str(body, "name", ""), *image;
    struct daytona_settings settings = {.remove = -1};
    struct box_wish wish = {.idle_pause = -1, .idle_stop = -1, .ttl = -1, .timeout = BUILD_SECONDS};
    tn_autojson struct tn_json *metadata = NULL, *build = NULL;
    tn_autofree char *session = daytona_snapshot_session(name);

    image = tn_json_get_str(body, "imageName", NULL);
    tn_autofree char *only = image ? tn_asprintf("FROM %.300s", image) : NULL;
    const char *text =
        tn_json_get_str(tn_json_get(body, "buildInfo"), "dockerfileContent", only ? only : "");
    if (daytona_check_snapshot(s, caller_of(x), name, err))
        return NULL;
    settings.build = build = daytona_build_record(name, NULL, DAYTONA_PENDING, NULL, 0);
    if (check_wish(body, err) || read_recipe(s, text, from, err) ||
        daytona_metadata(NULL, &settings, &metadata, err))
        return NULL;
    wish.session = session;
    wish.metadata = metadata;
    wish.template = from->template;
    autobox struct box *b = make(s, caller_of(x), body, from, &wish, err);
    if (!b || surface_can_fork(b, err) == 0)
        return TN_TAKE_PTR(b);
    box_order(b, caller_of(x), ORDER_DELETE, tn_now(), NULL);
    return NULL;
}

void daytona_create_snapshot(struct tn_http_exchange *x, void *ctx)
{
    tn_autojson struct tn_json *body = NULL;
    autoorigin struct origin from = {0};
    struct tn_error err = {0};

    if (!caller_may(x, SCOPE_MANAGE) || surface_body(x, DAYTONA_BODY_MAX, &body))
        return;
    autobox struct box *b = create_resting(x, ctx, body, &from, &err);
    if (from.recipe.script && is_plain(&from)) { /* it rests when that has ended, as all do */
        free(from.recipe.script);
        from.recipe.script = tn_strdup("set -e\n:\n");
    }
    if (begin(x, ctx, "snapshot.create", b, &from, &err) == 0)
        daytona_reply_snapshot(x, b);
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
    if (begin(x, ctx, "sandbox.fork", b, NULL, &err) == 0)
        daytona_reply_box(x, 200, b);
}
