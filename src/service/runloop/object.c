/* Boxes as clients of Runloop see them. */
#include "service/clock.h"
#include "service/runloop/runloop.h"

enum { USUAL_PAGE = 20, LARGEST_PAGE = 5000 };
static const char record_name[] = "$runloop";

const char *const runloop_kinds[] = {
    [RUNLOOP_DEVBOX] = "devbox",
    [RUNLOOP_SNAPSHOT] = "snapshot",
    [RUNLOOP_BLUEPRINT] = "blueprint",
    [RUNLOOP_UNFINISHED] = "unfinished",
    NULL,
};

/* --- errors ---------------------------------------------------------------------------------- */

/* Clients repeat what was answered with 408, 409, 429 and from 500 on, unless they are told: of
 * limits only those that pass by themselves are worth it. */
static int reply(struct tn_http_exchange *x, int status, const char *code, const char *detail)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(16 << 10);
    struct tn_jw w = tn_jw(&json);

    /* What is well formed and makes no sense is a bad request there. */
    status = status == 422 || status == 409 ? 400 : status;
    bool passes = status == 503 || (status == 429 && tn_http_sets_header(x, "Retry-After"));
    tn_http_set_header(x, "X-Should-Retry", passes ? "true" : "false");
    tn_jw_object(&w);
    tn_jw_kstr(&w, "message", detail);
    if (code)
        tn_jw_kstr(&w, "code", code);
    tn_jw_object_end(&w);
    return tn_http_reply_json(x, status, &json);
}

static bool is_ours(const char *path)
{
    static const char *const prefixes[] = {"/v1/devboxes", "/v1/blueprints", "/v1/objects"};

    for (size_t i = 0; i < TN_COUNT(prefixes); i++) {
        size_t n = strlen(prefixes[i]);
        if (strncmp(path, prefixes[i], n) == 0 && (path[n] == '/' || !path[n]))
            return true;
    }
    return false;
}

bool runloop_take(struct tn_service *s, struct tn_http_exchange *x)
{
    if (runloop_take_tunnel(s, x))
        return true;
    if (is_ours(tn_http_path(x)))
        surface_speak(x, reply);
    return false;
}

/* --- records --------------------------------------------------------------------------------- */

const struct tn_json *runloop_record(const struct box_view *v)
{
    return tn_json_get(v->metadata, record_name);
}

enum runloop_kind runloop_kind_of(const struct box_view *v)
{
    const char *word = tn_json_get_str(runloop_record(v), "kind", "");

    for (int i = 0; runloop_kinds[i]; i++)
        if (strcmp(runloop_kinds[i], word) == 0)
            return (enum runloop_kind)i;
    return RUNLOOP_DEVBOX;
}

bool runloop_is_layer(const struct box_view *v)
{
    return runloop_kind_of(v) != RUNLOOP_DEVBOX;
}

/* What other surfaces have put to rest is nothing to clients of this one. */
static bool is_of(const struct box_view *v, enum runloop_kind kind)
{
    return v->goal != BOX_GONE && runloop_kind_of(v) == kind &&
           (kind != RUNLOOP_DEVBOX || !surface_is_layer(v));
}

void runloop_put_words(struct tn_jw *w, const struct box_view *v)
{
    tn_jw_key(w, "metadata");
    tn_jw_object(w);
    surface_put_words(w, v->metadata);
    tn_jw_object_end(w);
}

struct tn_json *runloop_metadata(const struct tn_json *words, const struct tn_json *record,
                                 const char *member, const char *value, struct tn_error *err)
{
    return surface_metadata(words, record_name, record, member, value, err);
}

static int is_word(const char *key, struct tn_json *value, void *ctx)
{
    return tn_json_type(value) != TN_JSON_STRING || strcmp(key, record_name) == 0;
}

int runloop_check_words(const struct tn_json *words, struct tn_error *err)
{
    if (words && (tn_json_type(words) != TN_JSON_OBJECT || tn_json_each(words, is_word, NULL)))
        return tn_fail(err, TN_E_INVALID, "metadata: expected an object of strings");
    return 0;
}

int runloop_note(struct box *b, const struct caller *who, const char *member, const char *value,
                 struct tn_error *err)
{
    autoview struct box_view v;

    box_look(b, &v);
    tn_autojson struct tn_json *metadata =
        runloop_metadata(v.metadata, runloop_record(&v), member, value, err);
    return metadata ? box_change(b, who, &(struct box_change){.metadata = metadata}, err) : -1;
}

/* --- finding --------------------------------------------------------------------------------- */

struct box *runloop_box(struct tn_http_exchange *x, struct tn_service *s, unsigned scope,
                        enum runloop_kind kind, const char *id)
{
    autoview struct box_view v = {0};

    if (!caller_may(x, scope))
        return NULL;
    id = id ? id : tn_http_param(x, "id");
    struct box *b = box_find(s, caller_of(x)->tenant, id, NULL);
    if (b)
        box_look(b, &v);
    if (b && is_of(&v, kind))
        return b;
    native_refuse(x, TN_E_NOT_FOUND, "%s with id %.40s not found", runloop_kinds[kind], id);
    box_release(b);
    return NULL;
}

bool runloop_is_up(struct box *b, struct tn_error *err)
{
    autoview struct box_view v = {0};

    box_look(b, &v);
    if (v.goal == BOX_GONE)
        tn_fail(err, TN_E_NOT_FOUND, "devbox with id %.40s not found", v.id);
    else if (v.goal != BOX_RUNNING)
        tn_fail(err, TN_E_INVALID, "Devbox %s is %s, not running", v.id, runloop_status(&v));
    return v.goal == BOX_RUNNING;
}

struct box *runloop_running(struct tn_http_exchange *x, struct tn_service *s)
{
    struct box *b = runloop_box(x, s, SCOPE_USE, RUNLOOP_DEVBOX, NULL);
    autoview struct box_view v = {0};
    struct tn_error err = {0};

    if (!b)
        return NULL;
    box_look(b, &v);
    if (runloop_is_up(b, &err) && v.state == BOX_STARTING)
        surface_await(b, runloop_start_seconds(s), &err);
    if (!err.code)
        return b;
    reply_error(x, &err);
    box_release(b);
    return NULL;
}

/* --- devboxes -------------------------------------------------------------------------------- */

const char *runloop_status(const struct box_view *v)
{
    bool wanted = v->goal == BOX_RUNNING;

    if (v->goal == BOX_GONE)
        return "shutdown";
    if (v->state == BOX_STARTING)
        return v->queue_position ? "queued" : v->started > 0 ? "resuming" : "provisioning";
    if (v->state == BOX_RUNNING)
        return wanted ? "running" : "suspending";
    if (v->state == BOX_PAUSED || v->state == BOX_STOPPED)
        return wanted ? "resuming" : "suspended";
    return "failure";
}

void runloop_put_ms(struct tn_jw *w, const char *key, double time)
{
    tn_jw_kint(w, key, (int64_t)(time * 1000));
}

static void put_transition(struct tn_jw *w, const char *status, double time)
{
    tn_jw_object(w);
    tn_jw_kstr(w, "status", status);
    runloop_put_ms(w, "transition_time_ms", time);
    tn_jw_object_end(w);
}

/* How it came to be what it is, as far as anybody has noted. */
static void put_transitions(struct tn_jw *w, const struct box_view *v)
{
    const char *status = runloop_status(v);

    tn_jw_key(w, "state_transitions");
    tn_jw_array(w);
    put_transition(w, "provisioning", v->created);
    if (v->started > 0)
        put_transition(w, "running", v->started);
    if (strcmp(status, "provisioning") != 0 && strcmp(status, "running") != 0)
        put_transition(w, status, v->used > 0 ? v->used : v->created);
    tn_jw_array_end(w);
}

static void put_from(struct tn_jw *w, const struct tn_json *record, const char *key)
{
    tn_jw_key(w, key);
    tn_jw_tree(w, tn_json_get(record, key));
}

void runloop_put_devbox(struct tn_jw *w, const struct box_view *v, const struct caller *who)
{
    const struct tn_json *record = runloop_record(v),
                         *parameters = tn_json_get(record, "launch_parameters");
    const char *status = runloop_status(v);

    tn_jw_object(w);
    tn_jw_kstr(w, "id", v->id);
    tn_jw_kstr(w, "name", v->name);
    tn_jw_kstr(w, "status", status);
    tn_jw_key(w, "capabilities");
    tn_jw_raw(w, "[]", 2);
    runloop_put_ms(w, "create_time_ms", v->created);
    tn_jw_key(w, "launch_parameters");
    if (tn_json_type(parameters) == TN_JSON_OBJECT)
        tn_jw_tree(w, parameters);
    else
        tn_jw_raw(w, "{}", 2);
    runloop_put_words(w, v);
    put_transitions(w, v);
    put_from(w, record, "blueprint_id");
    put_from(w, record, "snapshot_id");
    tn_jw_kstr(w, "initiator_type", "api");
    tn_jw_kstr(w, "failure_reason",
               strcmp(status, "failure") != 0 ? NULL
               : v->cause == CAUSE_MEMORY     ? "out_of_memory"
               : v->cause == CAUSE_QUOTA      ? "out_of_disk"
                                              : "execution_failed");
    if (v->goal == BOX_GONE) {
        runloop_put_ms(w, "end_time_ms", service_time());
        tn_jw_kstr(w, "shutdown_reason", "api_shutdown");
    }
    runloop_put_tunnel(w, v, who);
    tn_jw_object_end(w);
}

int runloop_reply_devbox(struct tn_http_exchange *x, struct box *b)
{
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, RUNLOOP_ANSWER_MAX);
    struct tn_jw w = tn_jw(&json);
    autoview struct box_view v;

    box_look(b, &v);
    runloop_put_devbox(&w, &v, caller_of(x));
    return tn_http_reply_json(x, 200, &json);
}

void runloop_reply_nothing(struct tn_http_exchange *x)
{
    tn_http_reply(x, 200, "application/json", "{}", 2);
}

/* --- lists ----------------------------------------------------------------------------------- */

struct page {
    struct tn_http_exchange *x;
    struct tn_jw w;
    enum runloop_kind kind;
    runloop_put_fn put;
    runloop_keep_fn keep;
    int64_t limit, count, total;
};

static bool belongs(const struct page *p, const struct box_view *v)
{
    return is_of(v, p->kind) && (!p->keep || p->keep(p->x, v));
}

static int put_one(struct box *b, void *ctx)
{
    struct page *p = ctx;
    autoview struct box_view v;

    box_look(b, &v);
    if (!belongs(p, &v))
        return 0;
    if (p->count == p->limit)
        return 1; /* there are more */
    p->put(&p->w, &v, caller_of(p->x));
    p->count++;
    return 0;
}

static int count_one(struct box *b, void *ctx)
{
    struct page *p = ctx;
    autoview struct box_view v;

    box_look(b, &v);
    p->total += belongs(p, &v);
    return 0;
}

void runloop_list(struct tn_http_exchange *x, struct tn_service *s, enum runloop_kind kind,
                  const char *key, runloop_put_fn put, runloop_keep_fn keep)
{
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, RUNLOOP_ANSWER_MAX);
    struct page p = {
        .x = x, .w = tn_jw(&json), .kind = kind, .put = put, .keep = keep, .limit = USUAL_PAGE};

    if (!caller_may(x, SCOPE_READ) || native_query_int(x, "limit", 1, LARGEST_PAGE, &p.limit))
        return;
    const char *after = tn_http_query(x, "starting_after");
    struct box_filter f = {.tenant = caller_of(x)->tenant, .newest_first = true};
    box_each(s, &f, count_one, &p, NULL);
    f.after = after && *after ? after : NULL;
    tn_jw_object(&p.w);
    tn_jw_key(&p.w, key);
    tn_jw_array(&p.w);
    bool more = box_each(s, &f, put_one, &p, NULL) != 0;
    tn_jw_array_end(&p.w);
    tn_jw_kbool(&p.w, "has_more", more);
    tn_jw_kint(&p.w, "total_count", p.total);
    tn_jw_object_end(&p.w);
    tn_http_reply_json(x, 200, &json);
}

/* --- orders ---------------------------------------------------------------------------------- */

int runloop_order(struct tn_http_exchange *x, struct box *b, enum box_order what)
{
    return surface_order(x, b, what, RUNLOOP_POLL_SECONDS);
}
