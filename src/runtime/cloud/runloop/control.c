/* Devboxes as a whole: made, looked at, told where to go; their tunnels. */
#include <math.h>

#include "base/again.h"
#include "net/url.h"
#include "runtime/cloud/runloop/runloop.h"

#define TUNNEL_HEADER "X-Runloop-Tunnel-Authorization"

/* --- reading ---------------------------------------------------------------------------------- */

static enum tn_status status_of(const char *word)
{
    static const struct {
        const char *word;
        enum tn_status status;
    } words[] = {{"running", TN_STATUS_RUNNING},
                 {"suspended", TN_STATUS_STOPPED}, /* its disk is all that stays */
                 {"failure", TN_STATUS_ERROR},
                 {"shutdown", TN_STATUS_MISSING}};

    for (size_t i = 0; i < TN_COUNT(words); i++)
        if (strcmp(words[i].word, word) == 0)
            return words[i].status;
    return TN_STATUS_STARTING; /* whatever is on its way */
}

/* What a tunnel says: where ports are, and with which token. */
static int read_tunnel(const struct cloud *c, const struct tn_json *tunnel, struct cloud_view *out,
                       struct tn_error *err)
{
    const char *key = tn_json_get_str(tunnel, "tunnel_key", "");
    char *token = cloud_token(tunnel, "auth_token");
    bool open = strcmp(tn_json_get_str(tunnel, "auth_mode", "open"), "open") == 0;

    free(out->entry);
    out->entry = token;
    if (!cloud_is_id(key))
        return tn_fail(err, TN_E_PEER, "Runloop describes a tunnel without a usable tunnel_key");
    if (!open && !token)
        return tn_fail(err, TN_E_PEER, "Runloop describes a tunnel without a usable auth_token");
    free(out->domain);
    out->domain = tn_asprintf("%s.%s", key, runloop_of(c)->tunnel_host);
    return 0;
}

int devbox_read(const struct cloud *c, const struct tn_json *tree, struct cloud_view *out,
                struct tn_error *err)
{
    const char *id = tn_json_get_str(tree, "id", ""),
               *reason = tn_json_get_str(tree, "failure_reason", NULL);
    enum tn_status status = status_of(tn_json_get_str(tree, "status", ""));
    const struct tn_json *tunnel = tn_json_get(tree, "tunnel");

    *out = (struct cloud_view){0};
    if (!cloud_is_id(id))
        return tn_fail(err, TN_E_PEER, "Runloop describes a devbox without a usable id");
    if (status == TN_STATUS_MISSING)
        return 0;
    *out = (struct cloud_view){
        .known = true,
        .id = tn_strdup(id),
        .status = status,
        .reason = reason && status == TN_STATUS_ERROR ? cloud_sentence(reason) : NULL,
    };
    cloud_read_marks(c, tn_json_get(tree, "metadata"), out);
    /* One that makes no sense is as good as none: it is asked for before it is used. */
    if (tn_json_type(tunnel) == TN_JSON_OBJECT)
        read_tunnel(c, tunnel, out, NULL);
    return 0;
}

/* --- tunnels ---------------------------------------------------------------------------------- */

static const char *auth_mode(const struct cloud *c)
{
    return c->open_ports ? "open" : "authenticated";
}

/* The way of older services: one port, and its address.  The caller's; NULL with err. */
static char *create_tunnel(const struct cloud *c, const char *id, int port, int64_t deadline,
                           struct tn_error *err)
{
    tn_autofree char *target = cloud_target("/v1/devboxes/", id, "/create_tunnel");
    tn_autobuf struct tn_buf body = TN_BUF_INIT(64);
    tn_autojson struct tn_json *tree = NULL;

    tn_buf_printf(&body, "{\"port\": %d}", port);
    const struct cloud_call call = cloud_post(target, &body);
    if (cloud_ask(&c->line, &call, &tree, deadline, err) < 0)
        return NULL;
    tn_autofree char *url = cloud_base("url", tn_json_get_str(tree, "url", ""), NULL);
    bool clear = url && strncmp(url, "https:", 6) != 0;
    if (url && !(clear && strncmp(c->line.url, "https:", 6) == 0))
        return TN_TAKE_PTR(url);
    tn_fail(err, TN_E_PEER, "Runloop: the address of its tunnel makes no sense");
    return NULL;
}

/* One that runs has a tunnel from now on. */
static int have_tunnel(const struct cloud *c, struct cloud_view *v, int64_t deadline,
                       struct tn_error *err)
{
    tn_autofree char *target = cloud_target("/v1/devboxes/", v->id, "/enable_tunnel");
    tn_autobuf struct tn_buf body = TN_BUF_INIT(64);
    tn_autojson struct tn_json *tree = NULL;
    struct tn_error why = {0};

    if (v->status != TN_STATUS_RUNNING || v->domain)
        return 0;
    tn_buf_printf(&body, "{\"auth_mode\": \"%s\"}", auth_mode(c));
    const struct cloud_call call = cloud_post(target, &body);
    if (cloud_ask(&c->line, &call, &tree, deadline, &why) == 0)
        return read_tunnel(c, tree, v, err);
    if (why.code == TN_E_NOT_FOUND) {
        v->domain = create_tunnel(c, v->id, CLOUD_HAND_PORT, deadline, err);
        return v->domain ? 0 : -1;
    }
    return cloud_fail(err, &why);
}

static bool is_whole(const struct cloud_view *v)
{
    return strstr(v->domain, "://");
}

char *devbox_address(const struct cloud *c, struct cloud_view *v, int64_t deadline,
                     struct tn_error *err)
{
    const struct runloop *r = runloop_of(c);
    tn_autobuf struct tn_buf out = TN_BUF_INIT(8192);
    bool named = !r->tunnels;

    if (have_tunnel(c, v, deadline, err) < 0)
        return NULL;
    if (v->domain && is_whole(v))
        return tn_strdup(v->domain);
    if (named && v->domain)
        tn_buf_printf(&out, "%.*s://%d-%s", (int)strcspn(c->line.url, ":"), c->line.url,
                      CLOUD_HAND_PORT, v->domain);
    else if (v->domain)
        tn_buf_printf(&out, "%s#Host=%d-%s", r->tunnels, CLOUD_HAND_PORT, v->domain);
    if (v->entry) {
        tn_buf_puts(&out, named ? "#" TUNNEL_HEADER "=" : "&" TUNNEL_HEADER "=");
        tn_url_encode(&out, "Bearer ", "");
        tn_url_encode(&out, v->entry, "");
    }
    if (v->domain && tn_buf_ok(&out))
        return tn_buf_take(&out);
    tn_fail(err, TN_E_PEER, "Runloop: the devbox has no tunnel");
    return NULL;
}

char *devbox_port(const struct cloud *c, struct cloud_view *v, int port, int64_t deadline,
                  struct tn_error *err)
{
    struct tn_error why = {0};
    char *url = create_tunnel(c, v->id, port, deadline, &why);

    if (url)
        return url;
    if (why.code == TN_E_NOT_FOUND && have_tunnel(c, v, deadline, NULL) == 0 && v->domain &&
        !is_whole(v))
        return tn_asprintf("%.*s://%d-%s", (int)strcspn(c->line.url, ":"), c->line.url, port,
                           v->domain);
    if (err)
        *err = why;
    return NULL;
}

/* --- making ----------------------------------------------------------------------------------- */

/* Theirs have prefixes; a name has none of them. */
static void put_origin(struct tn_jw *w, const char *word)
{
    if (!word || !*word)
        return;
    if (strncmp(word, DEVBOX_SNAPSHOT, sizeof DEVBOX_SNAPSHOT - 1) == 0)
        tn_jw_kstr(w, "snapshot_id", word + sizeof DEVBOX_SNAPSHOT - 1);
    else if (strncmp(word, "snp_", 4) == 0)
        tn_jw_kstr(w, "snapshot_id", word);
    else if (strncmp(word, "bp_", 3) == 0 || strncmp(word, "bpt_", 4) == 0)
        tn_jw_kstr(w, "blueprint_id", word);
    else
        tn_jw_kstr(w, "blueprint_name", word);
}

static void put_launch(const struct cloud *c, const struct tn_subject *s, struct tn_jw *w)
{
    const struct tn_config_runloop *config = &c->host->config->runloop;

    tn_jw_key(w, "launch_parameters");
    tn_jw_object(w);
    tn_jw_key(w, "available_ports");
    tn_jw_array(w);
    tn_jw_int(w, CLOUD_HAND_PORT);
    tn_jw_array_end(w);
    if (config->size && *config->size)
        tn_jw_kstr(w, "resource_size_request", config->size);
    if (config->setup && *config->setup) {
        tn_jw_key(w, "launch_commands");
        tn_jw_array(w);
        tn_jw_str(w, config->setup);
        tn_jw_array_end(w);
    }
    /* What has an owner ends with it, whoever is left to see to that; what is kept rests. */
    tn_jw_key(w, "after_idle");
    tn_jw_object(w);
    tn_jw_kint(w, "idle_time_seconds", (int64_t)ceil(c->timeout));
    tn_jw_kstr(w, "on_idle", s->owner.pid ? "shutdown" : "suspend");
    tn_jw_object_end(w);
    tn_jw_object_end(w);
}

static void put_wish(const struct cloud *c, const struct tn_subject *s, struct tn_jw *w)
{
    tn_jw_object(w);
    tn_jw_kstr(w, "name", s->spec->name ? s->spec->name : s->id);
    put_origin(w, s->spec->image ? s->spec->image : c->host->config->runloop.blueprint);
    cloud_put_marks(c, s, "metadata", w);
    put_launch(c, s, w);
    tn_jw_key(w, "tunnel");
    tn_jw_object(w);
    tn_jw_kstr(w, "auth_mode", auth_mode(c));
    tn_jw_kbool(w, "http_keep_alive", true);
    tn_jw_object_end(w);
    tn_jw_object_end(w);
}

int devbox_make(const struct cloud *c, const struct tn_subject *s, const struct cloud_extras *e,
                struct cloud_view *out, int64_t deadline, struct tn_error *err)
{
    tn_autobuf struct tn_buf body = TN_BUF_INIT(CLOUD_BODY_MAX);
    tn_autojson struct tn_json *tree = NULL;
    struct tn_jw w = tn_jw(&body);

    *out = (struct cloud_view){0};
    put_wish(c, s, &w);
    /* As its SDKs spell it. */
    if (cloud_ask_for(c, s, "/v1/devboxes", "X-Request-Id: stainless-tendon-retry-", &body, &tree,
                      deadline, err) < 0 ||
        devbox_read(c, tree, out, err) < 0)
        return -1;
    if (!out->known)
        return tn_fail(err, TN_E_PEER, "Runloop has shut the devbox down at once");
    return 0;
}

/* --- looking ---------------------------------------------------------------------------------- */

int devbox_look(const struct cloud *c, const char *id, struct cloud_view *out, int64_t deadline,
                struct tn_error *err)
{
    return cloud_look(c, "/v1/devboxes/", id, devbox_read, out, deadline, err);
}

/* --- lists ------------------------------------------------------------------------------------ */

/* It has no filter for metadata, and tells of the newest first. */
int devbox_each(const struct cloud *c, const char *id, cloud_found_fn fn, void *ctx,
                int64_t deadline, struct tn_error *err)
{
    static const struct cloud_list list = {.first = "/v1/devboxes?limit=500",
                                           .more = "&starting_after=",
                                           .items = "devboxes",
                                           .newest_first = true,
                                           .read = devbox_read};

    return cloud_each(c, &list, id, fn, ctx, deadline, err);
}

/* --- orders ----------------------------------------------------------------------------------- */

static const struct {
    const char *verb;
    enum tn_status status;
} orders[] = {
    [TN_GOAL_RUNNING] = {"/resume", TN_STATUS_RUNNING},
    [TN_GOAL_PAUSED] = {"/suspend", TN_STATUS_STOPPED},
    [TN_GOAL_STOPPED] = {"/suspend", TN_STATUS_STOPPED},
    [TN_GOAL_GONE] = {"/shutdown", TN_STATUS_ERROR}, /* of which nothing is left */
};

/* It refuses orders while it is on its way, and where it is already. */
int devbox_order(const struct cloud *c, const char *id, enum tn_goal goal, int64_t deadline,
                 struct tn_error *err)
{
    tn_autofree char *target = cloud_target("/v1/devboxes/", id, orders[goal].verb);
    const struct cloud_call call = {.web = {.method = "POST",
                                            .target = target,
                                            .type = "application/json",
                                            .body = "{}",
                                            .body_len = 2},
                                    .ends = goal == TN_GOAL_GONE};
    struct tn_error why = {0};

    for (int ms = 0; cloud_ask(&c->line, &call, NULL, deadline, &why) < 0;) {
        autocloudview struct cloud_view v = {0};
        bool told = (why.code == TN_E_INVALID || why.code == TN_E_CONFLICT) &&
                    devbox_look(c, id, &v, deadline, NULL) == 0;
        if (told && (v.known ? v.status == orders[goal].status : goal == TN_GOAL_GONE))
            return 0;
        if (!told || v.status != TN_STATUS_STARTING || tn_back_off(&ms, 0, 0, deadline, NULL) < 0)
            return cloud_fail(err, &why);
    }
    return 0;
}

int devbox_extend(const struct cloud *c, const char *id, double seconds, int64_t deadline,
                  struct tn_error *err)
{
    tn_autofree char *target = cloud_target("/v1/devboxes/", id, "/keep_alive");
    const struct cloud_call call = {.web = {.method = "POST",
                                            .target = target,
                                            .type = "application/json",
                                            .body = "{}",
                                            .body_len = 2,
                                            .cancel = c->stop}};

    return cloud_ask(&c->line, &call, NULL, deadline, err);
}

/* --- images ----------------------------------------------------------------------------------- */

static int ask_about(const struct cloud *c, const struct cloud_build *b, const char *target,
                     struct tn_json **tree, int64_t deadline, struct tn_error *err)
{
    const struct cloud_call call = {.web = {.target = target, .cancel = b->cancel}};

    return cloud_ask(&c->line, &call, tree, deadline, err);
}

static enum cloud_build_state state_of(const struct tn_json *blueprint)
{
    static const struct {
        const char *word;
        enum cloud_build_state state;
    } words[] = {{"build_complete", CLOUD_BUILD_READY},
                 {"failed", CLOUD_BUILD_FAILED},
                 {"queued", CLOUD_BUILD_BUSY},
                 {"provisioning", CLOUD_BUILD_BUSY},
                 {"building", CLOUD_BUILD_BUSY}};
    const char *status = tn_json_get_str(blueprint, "status", "");

    for (size_t i = 0; i < TN_COUNT(words); i++)
        if (strcmp(words[i].word, status) == 0 &&
            strcmp(tn_json_get_str(blueprint, "state", ""), "deleted") != 0)
            return words[i].state;
    return CLOUD_BUILD_NONE;
}

static int build_seek(const struct cloud *c, const char *name, struct cloud_build *b,
                      int64_t deadline, struct tn_error *err)
{
    tn_autofree char *target = cloud_target("/v1/blueprints?limit=100&name=", name, "");
    tn_autojson struct tn_json *tree = NULL;
    const char *busy = NULL;

    b->state = CLOUD_BUILD_NONE;
    if (ask_about(c, b, target, &tree, deadline, err) < 0)
        return -1;
    const struct tn_json *all = tn_json_get(tree, "blueprints");
    for (size_t i = 0; i < tn_json_count(all); i++) {
        const struct tn_json *one = tn_json_at(all, i);
        /* The filter is theirs. */
        if (strcmp(tn_json_get_str(one, "name", ""), name) != 0)
            continue;
        if (state_of(one) == CLOUD_BUILD_READY) {
            b->state = CLOUD_BUILD_READY;
            return 0;
        }
        if (!busy && state_of(one) == CLOUD_BUILD_BUSY)
            busy = tn_json_get_str(one, "id", "");
    }
    return busy ? cloud_build_name(c, busy, busy, b, err) : 0;
}

static int build_begin(const struct cloud *c, const char *name, const char *image,
                       struct cloud_build *b, int64_t deadline, struct tn_error *err)
{
    tn_autofree char *recipe = tn_asprintf("FROM %s\n", image);
    tn_autobuf struct tn_buf wish = TN_BUF_INIT(CLOUD_BODY_MAX);
    tn_autojson struct tn_json *tree = NULL;
    struct tn_jw w = tn_jw(&wish);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "name", name);
    tn_jw_kstr(&w, "dockerfile", recipe);
    tn_jw_object_end(&w);
    struct cloud_call call = cloud_post("/v1/blueprints", &wish);
    call.web.cancel = b->cancel;
    call.unsafe = true;
    if (cloud_ask(&c->line, &call, &tree, deadline, err) < 0)
        return -1;
    const char *id = tn_json_get_str(tree, "id", "");
    return cloud_build_name(c, id, id, b, err);
}

static int build_look(const struct cloud *c, struct cloud_build *b, int64_t deadline,
                      struct tn_error *err)
{
    tn_autofree char *target = cloud_target("/v1/blueprints/", b->id, ""),
                     *log = cloud_target("/v1/blueprints/", b->id, "/logs");
    tn_autojson struct tn_json *tree = NULL, *said = NULL;

    if (ask_about(c, b, target, &tree, deadline, err) < 0)
        return -1;
    if (strcmp(tn_json_get_str(tree, "id", ""), b->id) != 0)
        return tn_fail(err, TN_E_PEER, "Runloop was asked for one blueprint and tells of another");
    enum cloud_build_state state = state_of(tree);
    if (state == CLOUD_BUILD_NONE) /* other words are for something on its way */
        return 0;
    b->state = state;
    if (b->state != CLOUD_BUILD_FAILED)
        return 0;
    cloud_build_fail(c, b, tn_json_get_str(tree, "failure_reason", NULL));
    if (ask_about(c, b, log, &said, deadline, NULL) == 0)
        cloud_build_say(c, b, tn_json_get(said, "logs"));
    return 0;
}

const struct cloud_works devbox_works = {
    .seek = build_seek, .begin = build_begin, .look = build_look};
