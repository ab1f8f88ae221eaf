/* The API: sandboxes as a whole. */
#include <math.h>

#include "base/again.h"
#include "net/url.h"
#include "runtime/cloud/daytona/daytona.h"

enum { GIB = 1 << 30, LINK_SECONDS = 3600 };
#define OWNED_MINUTES 1440 /* until what was stopped and has an owner is deleted, by whoever */

/* --- reading ---------------------------------------------------------------------------------- */

static const struct {
    const char *word;
    enum tn_status status;
} states[] = {
    {"started", TN_STATUS_RUNNING}, {"stopped", TN_STATUS_STOPPED},
    {"paused", TN_STATUS_STOPPED},  {"archived", TN_STATUS_STOPPED},
    {"error", TN_STATUS_ERROR},     {"build_failed", TN_STATUS_ERROR},
};

/* Words that are not known are for something on its way. */
static enum tn_status status_of(const char *word)
{
    for (size_t i = 0; i < TN_COUNT(states); i++)
        if (strcmp(states[i].word, word) == 0)
            return states[i].status;
    return TN_STATUS_STARTING;
}

int daytona_read(const struct cloud *c, const struct tn_json *tree, struct cloud_view *out,
                 struct tn_error *err)
{
    const char *id = tn_json_get_str(tree, "id", ""), *state = tn_json_get_str(tree, "state", ""),
               *toolbox = tn_json_get_str(tree, "toolboxProxyUrl", NULL),
               *reason = tn_json_get_str(tree, "errorReason", NULL);

    *out = (struct cloud_view){0};
    if (!cloud_is_id(id))
        return tn_fail(err, TN_E_PEER, "Daytona describes a sandbox without a usable id");
    if (strcmp(state, "destroyed") == 0 || strcmp(state, "destroying") == 0)
        return 0;
    *out = (struct cloud_view){
        .known = true,
        .id = tn_strdup(id),
        .status = status_of(state),
        .reason = reason ? cloud_sentence(reason) : NULL,
        .fenced = *tn_json_get_str(tree, "networkAllowList", "") ||
                  *tn_json_get_str(tree, "domainAllowList", ""),
        .agent_url = toolbox && *toolbox ? cloud_base("toolboxProxyUrl", toolbox, NULL) : NULL,
    };
    cloud_read_marks(c, tn_json_get(tree, "labels"), out);
    return 0;
}

/* --- volumes ---------------------------------------------------------------------------------- */

/* The id of one that is ready, or *id is NULL: not yet.  TN_E_NOT_FOUND: there is none. */
static int look_volume(const struct cloud *c, const char *name, int cancel, char **id,
                       int64_t deadline, struct tn_error *err)
{
    tn_autofree char *target = cloud_target("/volumes/by-name/", name, "");
    const struct cloud_call call = {.web = {.target = target, .cancel = cancel}};
    tn_autojson struct tn_json *tree = NULL;

    *id = NULL;
    if (cloud_ask(&c->line, &call, &tree, deadline, err) < 0)
        return -1;
    const char *state = tn_json_get_str(tree, "state", "");
    if (strcmp(state, "creating") == 0 || strcmp(state, "pending_create") == 0)
        return 0;
    tn_autofree char *word = cloud_sentence(state);
    if (strcmp(state, "ready") != 0)
        return tn_fail(err, TN_E_CONFLICT, "it is %.40s", *word ? word : "in no state");
    *id = cloud_token(tree, "id");
    return *id ? 0 : tn_fail(err, TN_E_PEER, "Daytona tells of a volume without a usable id");
}

/* A create that fails may have been done by another, or its answer was lost: it is looked for. */
static char *find_volume(const struct cloud *c, const char *name, int cancel, int64_t deadline,
                         struct tn_error *err)
{
    tn_autobuf struct tn_buf body = TN_BUF_INIT(1024);
    struct tn_jw w = tn_jw(&body);
    struct tn_error why = {0}, refused = {0};
    char *id;

    tn_jw_object(&w);
    tn_jw_kstr(&w, "name", name);
    tn_jw_object_end(&w);
    struct cloud_call call = cloud_post("/volumes", &body);
    call.web.cancel = cancel;
    call.hurried = true; /* one more than an account may have is 429, too */
    for (int ms = 0;;) {
        if (look_volume(c, name, cancel, &id, deadline, &why) == 0 && id)
            return id;
        if (why.code && (why.code != TN_E_NOT_FOUND || refused.code)) {
            cloud_fail(err, refused.code ? &refused : &why);
            return NULL;
        }
        if (why.code)
            cloud_ask(&c->line, &call, NULL, deadline, &refused);
        why = (struct tn_error){0};
        if (tn_back_off(&ms, 0, cancel, deadline, err) < 0)
            return NULL;
    }
}

const struct cloud_disks daytona_disks = {.below = true,
                                          .find = find_volume,
                                          .list = "volumes",
                                          .which = "volumeId",
                                          .inside = "mountPath",
                                          .directory = "subpath"};

/* --- writing ---------------------------------------------------------------------------------- */

static int put_origin(const struct cloud *c, const char *image, struct tn_jw *w,
                      struct tn_error *err)
{
    const struct tn_config_daytona *config = &c->host->config->daytona;
    bool own = image && strncmp(image, CLOUD_CACHE_PREFIX, sizeof CLOUD_CACHE_PREFIX - 1) == 0;
    tn_autofree char *recipe =
        image && config->images && !own ? tn_asprintf("FROM %s\n", image) : NULL;
    const char *snapshot = image ? image : config->snapshot;

    if (recipe && !tn_spec_may_be_image(image)) /* it could bring instructions of its own */
        return tn_fail(err, TN_E_INVALID, "image: it is no name of one");
    if (recipe) {
        tn_jw_key(w, "buildInfo");
        tn_jw_object(w);
        tn_jw_kstr(w, "dockerfileContent", recipe);
        tn_jw_object_end(w);
    } else if (snapshot && *snapshot) {
        tn_jw_kstr(w, "snapshot", snapshot);
    }
    return 0;
}

static void put_gib(struct tn_jw *w, const char *name, uint64_t bytes)
{
    if (bytes)
        tn_jw_kint(w, name, (int64_t)((bytes - 1) / GIB + 1));
}

static int put_sizes(const struct tn_spec *spec, struct tn_jw *w, struct tn_error *err)
{
    struct tn_limits limits;

    if (tn_spec_limits(spec, &limits, err) < 0)
        return -1;
    if (limits.cpus > 0)
        tn_jw_kint(w, "cpu", (int64_t)ceil(limits.cpus));
    put_gib(w, "memory", limits.memory);
    put_gib(w, "disk", limits.disk);
    return 0;
}

static void put_list(const char *member, const struct tn_str_list *list, struct tn_jw *w)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(CLOUD_BODY_MAX);

    for (size_t i = 0; i < list->count; i++)
        tn_buf_printf(&text, "%s%s", i ? "," : "", list->items[i]);
    if (list->count)
        tn_jw_kstr(w, member, tn_buf_str(&text));
}

static int put_wish(const struct cloud *c, const struct tn_subject *s, const struct cloud_extras *e,
                    struct tn_jw *w, struct tn_error *err)
{
    const struct tn_config *config = c->host->config;
    const char *target =
        config->daytona.target ? config->daytona.target : config->core.daytona_target;
    bool never = config->daytona.disable_auto_stop;

    tn_jw_object(w);
    if (put_origin(c, s->spec->image, w, err) < 0)
        return -1;
    if (s->spec->user)
        tn_jw_kstr(w, "user", s->spec->user);
    if (target && *target)
        tn_jw_kstr(w, "target", target);
    tn_jw_kbool(w, "public", config->daytona.public_ports);
    if (s->spec->network == TN_NETWORK_NONE)
        tn_jw_kbool(w, "networkBlockAll", true);
    tn_jw_kint(w, "autoStopInterval", never ? 0 : config->daytona.auto_stop);
    /* What has an owner ends some day, whoever is left to see to that. */
    tn_jw_kint(w, "autoDeleteInterval", s->owner.pid ? OWNED_MINUTES : -1);
    cloud_put_mounts(c, e, w);
    cloud_put_marks(c, s, "labels", w);
    put_list("networkAllowList", &e->nets, w);
    put_list("domainAllowList", &e->names, w);
    if (put_sizes(s->spec, w, err) < 0)
        return -1;
    tn_jw_object_end(w);
    return 0;
}

int daytona_make(const struct cloud *c, const struct tn_subject *s, const struct cloud_extras *e,
                 struct cloud_view *out, int64_t deadline, struct tn_error *err)
{
    tn_autobuf struct tn_buf body = TN_BUF_INIT(CLOUD_BODY_MAX);
    tn_autojson struct tn_json *tree = NULL;
    struct tn_jw w = tn_jw(&body);
    struct tn_error why = {0};

    *out = (struct cloud_view){0};
    if (put_wish(c, s, e, &w, err) < 0)
        return -1;
    if (cloud_ask_for(c, s, "/sandbox", NULL, &body, &tree, deadline, &why) == 0) {
        if (daytona_read(c, tree, out, err) < 0)
            return -1;
        return out->known ? 0 : tn_fail(err, TN_E_PEER, "Daytona has destroyed it at once");
    }
    /* A snapshot that there is not is a bad request to them. */
    if (why.code == TN_E_INVALID && strstr(why.text, "not found"))
        why.code = TN_E_NOT_FOUND;
    return cloud_fail(err, &why);
}

/* --- looking ---------------------------------------------------------------------------------- */

int daytona_look(const struct cloud *c, const char *id, struct cloud_view *out, int64_t deadline,
                 struct tn_error *err)
{
    return cloud_look(c, "/sandbox/", id, daytona_read, out, deadline, err);
}

static char *first_page(const struct cloud *c, const char *id)
{
    tn_autobuf struct tn_buf labels = TN_BUF_INIT(1024);
    struct tn_jw w = tn_jw(&labels);

    tn_jw_object(&w);
    tn_jw_kstr(&w, CLOUD_MARK_STATE, c->mark);
    if (id)
        tn_jw_kstr(&w, CLOUD_MARK_ID, id);
    tn_jw_object_end(&w);
    return cloud_target("/sandbox?limit=100&sort=createdAt&order=asc&labels=", tn_buf_str(&labels),
                        "");
}

/* Older platforms answer with an array of all. */
int daytona_each(const struct cloud *c, const char *id, cloud_found_fn fn, void *ctx,
                 int64_t deadline, struct tn_error *err)
{
    tn_autofree char *first = first_page(c, id);
    const struct cloud_list list = {
        .first = first, .more = "&cursor=", .items = "items", .read = daytona_read};

    return cloud_each(c, &list, id, fn, ctx, deadline, err);
}

/* --- orders ----------------------------------------------------------------------------------- */

/* What is on its way to somewhere else is waited for. */
static int tell(const struct cloud *c, const char *method, const char *target, int64_t deadline,
                struct tn_error *err)
{
    const struct cloud_call call = {.web = {.method = method, .target = target}, .ends = true};
    struct tn_error why = {0};

    for (int ms = 0; cloud_ask(&c->line, &call, NULL, deadline, &why) < 0;)
        if (why.code != TN_E_CONFLICT || tn_back_off(&ms, 0, 0, deadline, NULL) < 0)
            return cloud_fail(err, &why);
    return 0;
}

int daytona_order(const struct cloud *c, const char *id, enum tn_goal goal, int64_t deadline,
                  struct tn_error *err)
{
    static const struct {
        const char *method, *after;
        enum tn_status there;
    } orders[] = {
        [TN_GOAL_RUNNING] = {"POST", "/start", TN_STATUS_RUNNING},
        [TN_GOAL_STOPPED] = {"POST", "/stop", TN_STATUS_STOPPED},
        [TN_GOAL_GONE] = {"DELETE", "?force=true", TN_STATUS_MISSING},
    };
    tn_autofree char *target = cloud_target("/sandbox/", id, orders[goal].after);

    for (int ms = 0; goal != TN_GOAL_GONE;) {
        autocloudview struct cloud_view v = {0};
        if (daytona_look(c, id, &v, deadline, err) < 0)
            return -1;
        if (!v.known || v.status == orders[goal].there)
            return 0;
        if (v.status != TN_STATUS_STARTING)
            break;
        if (tn_back_off(&ms, 0, 0, deadline, err) < 0)
            return -1;
    }
    return tell(c, orders[goal].method, target, deadline, err);
}

/* Platforms that are not told of activity see it by the use of a toolbox. */
int daytona_extend(const struct cloud *c, const char *id, double seconds, int64_t deadline,
                   struct tn_error *err)
{
    tn_autofree char *target = cloud_target("/sandbox/", id, "/last-activity"),
                     *before = cloud_target("/toolbox/", id, "/toolbox/project-dir");
    struct cloud_call call = {.web = {.method = "POST", .target = target, .cancel = c->stop}};
    struct tn_error why = {0};

    if (cloud_ask(&c->line, &call, NULL, deadline, &why) == 0)
        return 0;
    if (why.code == TN_E_NOT_FOUND) {
        call.web.method = "GET";
        call.web.target = before;
        return cloud_ask(&c->line, &call, NULL, deadline, err);
    }
    return cloud_fail(err, &why);
}

/* --- ports ------------------------------------------------------------------------------------ */

static struct tn_json *ask_link(const struct cloud *c, const char *id, int port, const char *what,
                                int64_t deadline, struct tn_error *err)
{
    tn_autofree char *after = tn_asprintf("/ports/%d/%s", port, what);
    tn_autofree char *target = cloud_target("/sandbox/", id, after);
    const struct cloud_call call = {.web = {.target = target}};
    struct tn_json *tree = NULL;

    if (cloud_ask(&c->line, &call, &tree, deadline, err) == 0 && !tree)
        tn_fail(err, TN_E_PEER, "Daytona tells of no preview link");
    return tree;
}

static bool is_secure(const char *url)
{
    return strncmp(url, "https:", 6) == 0;
}

/* As secure as the API is. */
char *daytona_read_link(const struct cloud *c, const struct tn_json *tree, struct tn_error *err)
{
    tn_autofree char *url = cloud_base("url", tn_json_get_str(tree, "url", ""), NULL),
                     *token = cloud_token(tree, "token");
    tn_autobuf struct tn_buf out = TN_BUF_INIT(8192);

    if (!url || (is_secure(c->line.url) && !is_secure(url))) {
        tn_fail(err, TN_E_PEER, "Daytona: its preview link makes no sense");
        return NULL;
    }
    tn_buf_puts(&out, url);
    if (token) {
        tn_buf_puts(&out, "#X-Daytona-Preview-Token=");
        tn_url_encode(&out, token, "");
    }
    if (!tn_buf_ok(&out)) {
        tn_fail(err, TN_E_PEER, "Daytona: its names and tokens are too long");
        return NULL;
    }
    return tn_buf_take(&out);
}

char *daytona_address(const struct cloud *c, struct cloud_view *v, int64_t deadline,
                      struct tn_error *err)
{
    tn_autojson struct tn_json *tree =
        ask_link(c, v->id, CLOUD_HAND_PORT, "preview-url", deadline, err);

    return tree ? daytona_read_link(c, tree, err) : NULL;
}

char *daytona_port(const struct cloud *c, struct cloud_view *v, int port, int64_t deadline,
                   struct tn_error *err)
{
    bool open = c->host->config->daytona.public_ports;
    tn_autofree char *limited = tn_asprintf("signed-preview-url?expiresInSeconds=%d", LINK_SECONDS);
    tn_autojson struct tn_json *tree =
        ask_link(c, v->id, port, open ? "preview-url" : limited, deadline, err);
    const char *url = tn_json_get_str(tree, "url", "");

    if (!tree)
        return NULL;
    if (tn_url_is_page(url))
        return tn_strdup(url);
    tn_fail(err, TN_E_PEER, "Daytona: its preview link makes no sense");
    return NULL;
}
