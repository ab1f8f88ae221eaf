/* The control plane: sandboxes as a whole. */
#include <math.h>

#include "net/url.h"
#include "runtime/cloud/e2b/e2b.h"

#define CREATE_HEADROOM 60.0 /* seconds that a new one has beyond its time-out: its hand goes in */

/* --- reading ---------------------------------------------------------------------------------- */

int e2b_read(const struct cloud *c, const struct tn_json *tree, struct cloud_view *out,
             struct tn_error *err)
{
    const char *id = tn_json_get_str(tree, "sandboxID", ""),
               *state = tn_json_get_str(tree, "state", "running"),
               *domain = tn_json_get_str(tree, "domain", NULL);

    *out = (struct cloud_view){0};
    if (!cloud_is_id(id))
        return tn_fail(err, TN_E_PEER, "E2B describes a sandbox without a usable sandboxID");
    if (domain && *domain && !cloud_is_host(domain))
        return tn_fail(err, TN_E_PEER, "E2B says that the sandbox is at no proper domain");
    *out = (struct cloud_view){
        .known = true,
        .id = tn_strdup(id),
        /* Words that are not known are for something on its way. */
        .status = strcmp(state, "running") == 0  ? TN_STATUS_RUNNING
                  : strcmp(state, "paused") == 0 ? TN_STATUS_PAUSED
                                                 : TN_STATUS_STARTING,
        .token = cloud_token(tree, "envdAccessToken"),
        .entry = cloud_token(tree, "trafficAccessToken"),
        .domain = domain && *domain ? tn_strdup(domain) : NULL,
    };
    cloud_read_marks(c, tn_json_get(tree, "metadata"), out);
    return 0;
}

/* --- writing ---------------------------------------------------------------------------------- */

static void put_fence(const struct cloud_extras *e, struct tn_jw *w)
{
    const struct tn_str_list *const lists[] = {&e->nets, &e->names};

    tn_jw_key(w, "allowOut");
    tn_jw_array(w);
    for (size_t i = 0; i < TN_COUNT(lists); i++)
        for (size_t k = 0; k < lists[i]->count; k++)
            tn_jw_str(w, lists[i]->items[k]);
    tn_jw_array_end(w);
    tn_jw_key(w, "denyOut");
    tn_jw_raw(w, "[\"0.0.0.0/0\"]", strlen("[\"0.0.0.0/0\"]"));
}

static void put_wish(const struct cloud *c, const struct tn_subject *s,
                     const struct cloud_extras *e, struct tn_jw *w)
{
    tn_jw_object(w);
    tn_jw_kstr(w, "templateID", s->spec->image ? s->spec->image : c->usual);
    tn_jw_kint(w, "timeout", (int64_t)ceil(c->timeout + CREATE_HEADROOM));
    /* What has an owner ends with it, whoever is left to see to that; what is kept rests. */
    tn_jw_kbool(w, "autoPause", s->owner.pid == 0);
    tn_jw_kbool(w, "secure", true);
    /* A platform that knew no lists would let nothing out. */
    tn_jw_kbool(w, "allow_internet_access", s->spec->network != TN_NETWORK_NONE && !e->fenced);
    if (!c->open_ports || e->fenced) {
        tn_jw_key(w, "network");
        tn_jw_object(w);
        if (!c->open_ports)
            tn_jw_kbool(w, "allowPublicTraffic", false);
        if (e->fenced)
            put_fence(e, w);
        tn_jw_object_end(w);
    }
    cloud_put_mounts(c, e, w);
    cloud_put_marks(c, s, "metadata", w);
    tn_jw_object_end(w);
}

static void debug_view(const struct tn_subject *s, struct cloud_view *out)
{
    *out = (struct cloud_view){.known = true,
                               .id = tn_strdup(E2B_DEBUG_ID),
                               .status = TN_STATUS_RUNNING,
                               .own = s ? tn_strdup(s->id) : NULL};
}

int e2b_make(const struct cloud *c, const struct tn_subject *s, const struct cloud_extras *e,
             struct cloud_view *out, int64_t deadline, struct tn_error *err)
{
    tn_autobuf struct tn_buf body = TN_BUF_INIT(CLOUD_BODY_MAX);
    tn_autojson struct tn_json *tree = NULL;
    struct tn_jw w = tn_jw(&body);

    *out = (struct cloud_view){0};
    if (c->unmarked) {
        debug_view(s, out);
        return 0;
    }
    put_wish(c, s, e, &w);
    if (cloud_ask_for(c, s, "/sandboxes", "Idempotency-Key: tendon-", &body, &tree, deadline, err) <
        0)
        return -1;
    return e2b_read(c, tree, out, err);
}

/* --- looking ---------------------------------------------------------------------------------- */

/* Starts one that rests, and tells its tokens in either case. */
static int connect(const struct cloud *c, const char *id, struct tn_json **out, int64_t deadline,
                   struct tn_error *err)
{
    tn_autobuf struct tn_buf body = TN_BUF_INIT(256);
    tn_autofree char *target = cloud_target("/sandboxes/", id, "/connect");

    tn_buf_printf(&body, "{\"timeout\": %d}", (int)ceil(c->timeout));
    const struct cloud_call call = cloud_post(target, &body);
    return cloud_ask(&c->line, &call, out, deadline, err);
}

/* The token for its ports is told only to whoever connects. */
static void learn_entry(const struct cloud *c, struct cloud_view *v, int64_t deadline)
{
    tn_autojson struct tn_json *tree = NULL;

    if (connect(c, v->id, &tree, deadline, NULL) == 0)
        v->entry = cloud_token(tree, "trafficAccessToken");
}

int e2b_look(const struct cloud *c, const char *id, struct cloud_view *out, int64_t deadline,
             struct tn_error *err)
{
    if (c->unmarked) {
        debug_view(NULL, out);
        return 0;
    }
    if (cloud_look(c, "/sandboxes/", id, e2b_read, out, deadline, err) < 0)
        return -1;
    if (out->known && out->status == TN_STATUS_RUNNING && !out->entry && !c->open_ports)
        learn_entry(c, out, deadline);
    return 0;
}

/* A query within the query: its parts are encoded twice. */
static char *first_page(const struct cloud *c, const char *id)
{
    tn_autobuf struct tn_buf inner = TN_BUF_INIT(1024), out = TN_BUF_INIT(4096);

    tn_buf_printf(&inner, "%s=%s", CLOUD_MARK_STATE, c->mark);
    if (id)
        tn_buf_printf(&inner, "&%s=%s", CLOUD_MARK_ID, id);
    tn_buf_puts(&out, "/v2/sandboxes?state=running%2Cpaused&order=asc&limit=100&metadata=");
    tn_url_encode(&out, tn_buf_str(&inner), "");
    return tn_buf_take(&out);
}

int e2b_each(const struct cloud *c, const char *id, cloud_found_fn fn, void *ctx, int64_t deadline,
             struct tn_error *err)
{
    tn_autofree char *first = first_page(c, id);
    const struct cloud_list list = {.first = first, .more = "&nextToken=", .read = e2b_read};

    return c->unmarked ? 0 : cloud_each(c, &list, id, fn, ctx, deadline, err);
}

/* --- orders ----------------------------------------------------------------------------------- */

static int pause_sandbox(const struct cloud *c, const char *id, bool memory, int64_t deadline,
                         struct tn_error *err)
{
    tn_autofree char *target = cloud_target("/sandboxes/", id, "/pause");
    tn_autobuf struct tn_buf body = TN_BUF_INIT(64);
    struct tn_error why = {0};

    tn_buf_printf(&body, "{\"memory\": %s}", memory ? "true" : "false");
    const struct cloud_call call = cloud_post(target, &body);
    if (cloud_ask(&c->line, &call, NULL, deadline, &why) == 0 || why.code == TN_E_CONFLICT)
        return 0; /* a conflict: it is paused */
    return cloud_fail(err, &why);
}

int e2b_order(const struct cloud *c, const char *id, enum tn_goal goal, int64_t deadline,
              struct tn_error *err)
{
    tn_autofree char *target = cloud_target("/sandboxes/", id, "");
    const struct cloud_call removal = {.web = {.method = "DELETE", .target = target}, .ends = true};

    if (c->unmarked)
        return goal == TN_GOAL_RUNNING || goal == TN_GOAL_GONE
                   ? 0
                   : tn_fail(err, TN_E_UNSUPPORTED, "E2B_DEBUG: nobody pauses this machine's envd");
    if (goal == TN_GOAL_GONE)
        return cloud_ask(&c->line, &removal, NULL, deadline, err);
    if (goal == TN_GOAL_RUNNING)
        return connect(c, id, NULL, deadline, err);
    return pause_sandbox(c, id, goal == TN_GOAL_PAUSED, deadline, err);
}

int e2b_extend(const struct cloud *c, const char *id, double seconds, int64_t deadline,
               struct tn_error *err)
{
    tn_autofree char *target = cloud_target("/sandboxes/", id, "/timeout");
    tn_autobuf struct tn_buf body = TN_BUF_INIT(64);

    tn_buf_printf(&body, "{\"timeout\": %d}", (int)ceil(seconds));
    struct cloud_call call = cloud_post(target, &body);
    call.web.cancel = c->stop;
    return c->unmarked ? 0 : cloud_ask(&c->line, &call, NULL, deadline, err);
}

int e2b_usage(const struct cloud *c, const char *id, struct tn_usage *out, int64_t deadline,
              struct tn_error *err)
{
    tn_autofree char *target = cloud_target("/sandboxes/", id, "/metrics");
    const struct cloud_call call = {.web = {.target = target}};
    tn_autojson struct tn_json *tree = NULL;

    if (c->unmarked)
        return tn_fail(err, TN_E_UNSUPPORTED, "E2B_DEBUG: nobody measures this machine's envd");
    if (cloud_ask(&c->line, &call, &tree, deadline, err) < 0)
        return -1;
    size_t count = tn_json_count(tree);
    const struct tn_json *last = count ? tn_json_at(tree, count - 1) : NULL;
    out->memory = tn_json_int(tn_json_get(last, "memUsed"), -1);
    out->disk = tn_json_int(tn_json_get(last, "diskUsed"), -1);
    return 0;
}

/* --- images ----------------------------------------------------------------------------------- */

static int ask_about(const struct cloud *c, const struct cloud_build *b, const char *target,
                     struct tn_json **tree, int64_t deadline, struct tn_error *err)
{
    const struct cloud_call call = {.web = {.target = target, .cancel = b->cancel}};

    return cloud_ask(&c->line, &call, tree, deadline, err);
}

/* One that waits was declared by somebody who may never start it. */
static int choose_build(const struct cloud *c, const char *template, const struct tn_json *builds,
                        struct cloud_build *b, struct tn_error *err)
{
    const char *busy = NULL;

    for (size_t i = 0; i < tn_json_count(builds); i++) {
        const struct tn_json *one = tn_json_at(builds, i);
        const char *status = tn_json_get_str(one, "status", "");
        if (strcmp(status, "ready") == 0) {
            b->state = CLOUD_BUILD_READY;
            return 0;
        }
        if (!busy && strcmp(status, "building") == 0)
            busy = tn_json_get_str(one, "buildID", "");
    }
    return busy ? cloud_build_name(c, template, busy, b, err) : 0;
}

static int build_seek(const struct cloud *c, const char *name, struct cloud_build *b,
                      int64_t deadline, struct tn_error *err)
{
    tn_autofree char *alias = cloud_target("/templates/aliases/", name, "");
    tn_autojson struct tn_json *known = NULL, *tree = NULL;
    struct tn_error why = {0};

    b->state = CLOUD_BUILD_NONE;
    if (ask_about(c, b, alias, &known, deadline, &why) < 0)
        return why.code == TN_E_NOT_FOUND ? 0 : cloud_fail(err, &why);
    const char *id = tn_json_get_str(known, "templateID", "");
    if (!cloud_is_id(id))
        return tn_fail(err, TN_E_PEER, "E2B tells of a template without a usable templateID");
    tn_autofree char *template = cloud_target("/templates/", id, "?limit=100");
    if (ask_about(c, b, template, &tree, deadline, &why) == 0)
        return choose_build(c, id, tn_json_get(tree, "builds"), b, err);
    if (why.code != TN_E_NOT_FOUND && why.code != TN_E_METHOD)
        return cloud_fail(err, &why);
    /* Who does not tell of builds has only names of those that are ready. */
    b->state = CLOUD_BUILD_READY;
    return 0;
}

static int build_begin(const struct cloud *c, const char *name, const char *image,
                       struct cloud_build *b, int64_t deadline, struct tn_error *err)
{
    tn_autobuf struct tn_buf wish = TN_BUF_INIT(256), origin = TN_BUF_INIT(CLOUD_BODY_MAX);
    tn_autojson struct tn_json *tree = NULL;
    struct tn_jw w = tn_jw(&origin);
    struct tn_error why = {0};

    /* Declared twice is as good: what is not started does nothing. */
    tn_buf_printf(&wish, "{\"name\": \"%s\"}", name);
    struct cloud_call call = cloud_post("/v3/templates", &wish);
    call.web.cancel = b->cancel;
    if (cloud_ask(&c->line, &call, &tree, deadline, err) < 0 ||
        cloud_build_name(c, tn_json_get_str(tree, "templateID", ""),
                         tn_json_get_str(tree, "buildID", ""), b, err) < 0)
        return -1;
    tn_jw_object(&w);
    tn_jw_kstr(&w, "fromImage", image);
    tn_jw_key(&w, "steps");
    tn_jw_raw(&w, "[]", 2);
    tn_jw_kbool(&w, "force", false);
    tn_jw_object_end(&w);
    tn_autofree char *target =
        tn_asprintf("/v2/templates/%s/builds/%s", b->template, b->id); /* both are ids */
    call = cloud_post(target, &origin);
    call.web.cancel = b->cancel;
    call.unsafe = true;
    /* Where the answer was lost, how the build is tells whether it has begun. */
    if (cloud_ask(&c->line, &call, NULL, deadline, &why) == 0 || cloud_is_lost(&why))
        return 0;
    return cloud_fail(err, &why);
}

enum { LOG_PAGES = 50 };

/* Its log comes in pieces, the last of them maybe after its end. */
static int build_look(const struct cloud *c, struct cloud_build *b, int64_t deadline,
                      struct tn_error *err)
{
    for (int pages = 0; pages < LOG_PAGES; pages++) {
        tn_autofree char *target = tn_asprintf("/templates/%s/builds/%s/status?logsOffset=%zu",
                                               b->template, b->id, b->heard);
        tn_autojson struct tn_json *tree = NULL;
        if (ask_about(c, b, target, &tree, deadline, err) < 0)
            return b->state == CLOUD_BUILD_FAILED ? 0 : -1; /* more of its log would be welcome */
        const char *status = tn_json_get_str(tree, "status", "");
        const struct tn_json *entries = tn_json_get(tree, "logEntries");
        size_t count = tn_json_count(entries);
        if (strcmp(tn_json_get_str(tree, "buildID", b->id), b->id) != 0)
            return tn_fail(err, TN_E_PEER, "E2B was asked for one build and tells of another");
        cloud_build_say(c, b, entries);
        b->heard += count;
        if (strcmp(status, "ready") == 0)
            b->state = CLOUD_BUILD_READY;
        if (strcmp(status, "error") != 0)
            return 0;
        cloud_build_fail(c, b, tn_json_get_str(tn_json_get(tree, "reason"), "message", NULL));
        if (!count)
            return 0;
    }
    return 0;
}

const struct cloud_works e2b_works = {.seek = build_seek, .begin = build_begin, .look = build_look};
