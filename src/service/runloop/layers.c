/* Disk snapshots and blueprints: boxes at rest, of which devboxes are forked.
 *
 * So a snapshot outlives the devbox that it is of.  A blueprint is a box in which the set-up
 * commands run as one process; whoever looks at it sees how far they are, and the first who sees
 * their end notes it and puts the box to rest. */
#include "service/blobs.h"
#include "service/dockerfile.h"
#include "service/runloop/runloop.h"

#define BUILD_TAG "tendon:blueprint"
enum { COMMIT_MAX = 1000, SAID_MAX = 3 << 10 /* of each stream */ };
#define SAID_SECONDS 5.0

static char *quoted(const char *text)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(64 << 10);
    struct tn_jw w = tn_jw(&json);

    tn_jw_str(&w, text);
    return tn_buf_take(&json);
}

/* --- snapshots ------------------------------------------------------------------------------- */

static void put_snapshot(struct tn_jw *w, const struct box_view *v, const struct caller *who)
{
    const struct tn_json *record = runloop_record(v);

    tn_jw_object(w);
    tn_jw_kstr(w, "id", v->id);
    tn_jw_kstr(w, "name", v->name);
    runloop_put_ms(w, "create_time_ms", v->created);
    runloop_put_words(w, v);
    tn_jw_kstr(w, "source_devbox_id", tn_json_get_str(record, "source", ""));
    tn_jw_kstr(w, "commit_message", tn_json_get_str(record, "commit_message", NULL));
    tn_jw_object_end(w);
}

static int check_words(const struct tn_json *body, struct tn_error *err)
{
    const char *message = tn_json_get_str(body, "commit_message", "");

    if (strlen(message) > COMMIT_MAX)
        return tn_fail(err, TN_E_INVALID, "commit_message: at most %d characters", COMMIT_MAX);
    return runloop_check_words(tn_json_get(body, "metadata"), err) ||
                   native_check_names(tn_json_get_str(body, "name", NULL), NULL, NULL, err)
               ? -1
               : 0;
}

static struct tn_json *snapshot_metadata(enum runloop_kind kind, const struct tn_json *words,
                                         const char *source, const char *message,
                                         struct tn_error *err)
{
    tn_autofree char *text = message ? quoted(message) : NULL, *from = quoted(source);
    tn_autofree char *json =
        tn_asprintf("{\"kind\":\"%s\",\"source\":%s}", runloop_kinds[kind], from);
    tn_autojson struct tn_json *record = NULL;

    if (tn_json_parse(json, strlen(json), &record, err))
        return NULL;
    return runloop_metadata(words, record, "commit_message", text, err);
}

static struct box *take(struct tn_http_exchange *x, struct box *b, const struct tn_json *body,
                        struct tn_error *err)
{
    struct box_wish wish = {.name = tn_json_get_str(body, "name", NULL)};

    if (check_words(body, err))
        return NULL;
    const struct tn_json *words = tn_json_get(body, "metadata");
    const char *message = tn_json_get_str(body, "commit_message", NULL);
    tn_autojson struct tn_json *first =
        snapshot_metadata(RUNLOOP_UNFINISHED, words, box_id(b), message, err);
    tn_autojson struct tn_json *then =
        first ? snapshot_metadata(RUNLOOP_SNAPSHOT, words, box_id(b), message, err) : NULL;
    wish.metadata = first;
    return then ? surface_rest(b, caller_of(x), &wish, then, runloop_start_seconds(box_service(b)),
                               err)
                : NULL;
}

static void reply_snapshot(struct tn_http_exchange *x, struct box *b, bool status)
{
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, RUNLOOP_ANSWER_MAX);
    struct tn_jw w = tn_jw(&json);
    autoview struct box_view v;

    box_look(b, &v);
    if (status) {
        tn_jw_object(&w);
        tn_jw_kstr(&w, "status", "complete");
        tn_jw_key(&w, "snapshot");
    }
    put_snapshot(&w, &v, caller_of(x));
    if (status)
        tn_jw_object_end(&w);
    tn_http_reply_json(x, 200, &json);
}

static void post_snapshot(struct tn_http_exchange *x, void *ctx)
{
    autobox struct box *b = runloop_box(x, ctx, SCOPE_MANAGE, RUNLOOP_DEVBOX, NULL);
    tn_autojson struct tn_json *body = NULL;
    struct tn_error err = {0};

    if (!b || surface_body(x, RUNLOOP_BODY_MAX, &body))
        return;
    autobox struct box *made = take(x, b, body, &err);
    if (native_audit(x, ctx, "snapshot.create", box_id(b), made ? NULL : &err))
        return;
    if (made)
        reply_snapshot(x, made, false);
    else
        reply_error(x, &err);
}

static bool is_of_devbox(struct tn_http_exchange *x, const struct box_view *v)
{
    const char *wanted = tn_http_query(x, "devbox_id");

    return !wanted || !*wanted ||
           strcmp(wanted, tn_json_get_str(runloop_record(v), "source", "")) == 0;
}

static void get_snapshots(struct tn_http_exchange *x, void *ctx)
{
    runloop_list(x, ctx, RUNLOOP_SNAPSHOT, "snapshots", put_snapshot, is_of_devbox);
}

static void get_snapshot_status(struct tn_http_exchange *x, void *ctx)
{
    autobox struct box *b = runloop_box(x, ctx, SCOPE_READ, RUNLOOP_SNAPSHOT, NULL);

    if (b)
        reply_snapshot(x, b, true);
}

static void post_snapshot_words(struct tn_http_exchange *x, void *ctx)
{
    autobox struct box *b = runloop_box(x, ctx, SCOPE_MANAGE, RUNLOOP_SNAPSHOT, NULL);
    tn_autojson struct tn_json *body = NULL, *metadata = NULL;
    autoview struct box_view v = {0};
    struct tn_error err = {0};

    if (!b || surface_body(x, RUNLOOP_BODY_MAX, &body))
        return;
    box_look(b, &v);
    const struct tn_json *record = runloop_record(&v), *words = tn_json_get(body, "metadata");
    const char *message =
        tn_json_get_str(body, "commit_message", tn_json_get_str(record, "commit_message", NULL));
    int failed =
        check_words(body, &err) ||
        !(metadata = snapshot_metadata(RUNLOOP_SNAPSHOT, words ? words : v.metadata,
                                       tn_json_get_str(record, "source", ""), message, &err)) ||
        box_change(
            b, caller_of(x),
            &(struct box_change){.name = tn_json_get_str(body, "name", NULL), .metadata = metadata},
            &err);
    if (failed)
        reply_error(x, &err);
    else
        reply_snapshot(x, b, false);
}

static void delete (struct tn_http_exchange *x, struct tn_service *s, enum runloop_kind kind)
{
    autobox struct box *b = runloop_box(x, s, SCOPE_MANAGE, kind, NULL);

    if (b && runloop_order(x, b, ORDER_DELETE) == 0)
        runloop_reply_nothing(x);
}

static void post_snapshot_delete(struct tn_http_exchange *x, void *ctx)
{
    delete (x, ctx, RUNLOOP_SNAPSHOT);
}

/* --- blueprints ------------------------------------------------------------------------------ */

static int keep_piece(const struct tn_process_piece *piece, void *ctx)
{
    bool said = piece->kind == TN_PROCESS_OUT || piece->kind == TN_PROCESS_ERR;

    return said && tn_buf_add(ctx, piece->bytes, piece->n);
}

static uint64_t tail_of(const struct tn_process_log *log)
{
    return log->end > SAID_MAX ? log->end - SAID_MAX : 0;
}

/* Once it rests nobody can ask its process: the end of what it said is kept in the record. */
static void note_said(struct box *b, const struct tn_process_status *status)
{
    tn_autobuf struct tn_buf said = TN_BUF_INIT(4 * SAID_MAX), json = TN_BUF_INIT(16 * SAID_MAX);
    struct tn_process_follow f = {.at = {tail_of(&status->out), tail_of(&status->err)}};
    struct tn_jw w = tn_jw(&json);

    process_follow(b, status->id, &f, keep_piece, &said, -1, tn_deadline_in(SAID_SECONDS), NULL);
    tn_jw_strn(&w, tn_buf_str(&said), said.len);
    if (said.len && tn_buf_ok(&json))
        runloop_note(b, NULL, "said", tn_buf_str(&json), NULL);
}

/* "building", "build_complete" or "failed"; notes an end that nobody has seen yet.  The service
 * does that itself: who looks may be a key that only reads. */
static const char *build_status(struct box *b)
{
    static const char *const words[] = {"building", "build_complete", "failed"};
    tn_autostatus struct tn_process_status status = {0};
    struct tn_error err = {0};
    const double never = 0;
    autoview struct box_view v;

    box_look(b, &v);
    const char *known = tn_json_get_str(runloop_record(&v), "build", "");
    for (size_t i = 1; i < TN_COUNT(words); i++)
        if (strcmp(known, words[i]) == 0)
            return words[i];
    if (v.state == BOX_STARTING)
        return words[0];
    bool lost = v.goal != BOX_RUNNING || (process_look(b, "tag:" BUILD_TAG, &status,
                                                       tn_deadline_in(RUNLOOP_SECONDS), &err) &&
                                          err.code == TN_E_NOT_FOUND);
    if (!lost && (err.code || status.running))
        return words[0];
    bool good = !lost && runloop_exit_status(&status) == 0;
    if (!good && !lost)
        note_said(b, &status);
    tn_autofree char *word = quoted(words[good ? 1 : 2]);
    if (runloop_note(b, NULL, "build", word, NULL) == 0 &&
        box_change(b, NULL, &(struct box_change){.timeout = &never}, NULL) == 0)
        box_order(b, NULL, ORDER_STOP, tn_deadline_in(RUNLOOP_POLL_SECONDS), NULL);
    return words[good ? 1 : 2];
}

static void put_blueprint(struct tn_jw *w, const struct box_view *v, const struct caller *who)
{
    const struct tn_json *record = runloop_record(v);
    const char *status = build_status(v->box);

    tn_jw_object(w);
    tn_jw_kstr(w, "id", v->id);
    tn_jw_kstr(w, "name", v->name ? v->name : "");
    tn_jw_kstr(w, "status", status);
    tn_jw_kstr(w, "state", "created");
    runloop_put_ms(w, "create_time_ms", v->created);
    tn_jw_key(w, "parameters");
    tn_jw_tree(w, tn_json_get(record, "parameters"));
    runloop_put_words(w, v);
    tn_jw_kstr(w, "failure_reason", strcmp(status, "failed") == 0 ? "build_failed" : NULL);
    tn_jw_kbool(w, "is_public", false);
    tn_jw_object_end(w);
}

/* Templates of the configuration are the blueprints that everybody has. */
static void put_template(struct tn_jw *w, const char *name)
{
    tn_jw_object(w);
    tn_jw_kstr(w, "id", name);
    tn_jw_kstr(w, "name", name);
    tn_jw_kstr(w, "status", "build_complete");
    tn_jw_kstr(w, "state", "created");
    tn_jw_kint(w, "create_time_ms", 0);
    tn_jw_key(w, "parameters");
    tn_jw_object(w);
    tn_jw_kstr(w, "name", name);
    tn_jw_object_end(w);
    tn_jw_kbool(w, "is_public", true);
    tn_jw_object_end(w);
}

struct search {
    const char *name;
    const struct caller *who;
    struct box *found;
};

static int try_blueprint(struct box *b, void *ctx)
{
    struct search *search = ctx;
    autoview struct box_view v;

    box_look(b, &v);
    if (v.goal == BOX_GONE || runloop_kind_of(&v) != RUNLOOP_BLUEPRINT || !v.name ||
        strcmp(v.name, search->name) != 0 || strcmp(build_status(b), "build_complete") != 0)
        return 0;
    search->found = box_find(box_service(b), search->who->tenant, v.id, NULL);
    return search->found != NULL;
}

struct box *runloop_blueprint(struct tn_service *s, const struct caller *who, const char *id,
                              const char *name, struct tn_error *err)
{
    struct search search = {.name = name, .who = who};
    autoview struct box_view v = {0};

    if (!id)
        box_each(s, &(struct box_filter){.tenant = who->tenant, .newest_first = true},
                 try_blueprint, &search, NULL);
    autobox struct box *b = id ? box_find(s, who->tenant, id, NULL) : search.found;
    if (b)
        box_look(b, &v);
    if (!b || v.goal == BOX_GONE || runloop_kind_of(&v) != RUNLOOP_BLUEPRINT) {
        tn_fail(err, TN_E_NOT_FOUND, "blueprint %.100s not found", id ? id : name);
        return NULL;
    }
    const char *status = build_status(b);
    if (strcmp(status, "build_complete") == 0)
        return TN_TAKE_PTR(b);
    tn_fail(err, TN_E_INVALID, "blueprint %.100s is not ready: %s", id ? id : name, status);
    return NULL;
}

/* What is told of it later: all but the contents of files. */
static char *parameters_of(const struct tn_json *body)
{
    static const char *const told[] = {"name",
                                       "dockerfile",
                                       "build_context",
                                       "system_setup_commands",
                                       "launch_parameters",
                                       "base_blueprint_id",
                                       "base_blueprint_name"};
    tn_autobuf struct tn_buf json = TN_BUF_INIT(RUNLOOP_BODY_MAX);
    struct tn_jw w = tn_jw(&json);

    tn_jw_object(&w);
    for (size_t i = 0; i < TN_COUNT(told); i++)
        if (tn_json_has(body, told[i])) {
            tn_jw_key(&w, told[i]);
            tn_jw_tree(&w, tn_json_get(body, told[i]));
        }
    tn_jw_object_end(&w);
    return tn_buf_take(&json);
}

static int check_blueprint(struct tn_service *s, const struct caller *who,
                           const struct tn_json *body, struct tn_error *err)
{
    const struct tn_json *context = tn_json_get(body, "build_context");
    const char *name = tn_json_get_str(body, "name", NULL);
    autoblob struct blob object = {0};
    bool archive;

    if (tn_json_get(body, "network_policy_id"))
        return tn_fail(err, TN_E_DENIED, "network_policy_id is not served here");
    if (context &&
        runloop_object(s, who, tn_json_get_str(context, "object_id", ""), &object, &archive, err))
        return tn_error_context(err, "build_context");
    if (tn_json_get(body, "dockerfile") &&
        (tn_json_get(body, "base_blueprint_id") || tn_json_get(body, "base_blueprint_name")))
        return tn_fail(err, TN_E_INVALID, "one of dockerfile and base_blueprint");
    return name && *name ? 0 : tn_fail(err, TN_E_INVALID, "name: expected one");
}

#define CONTEXT_TAR RUNLOOP_CONTEXT ".tar"
static const char unpack[] =
    "rm -rf " RUNLOOP_CONTEXT "; mkdir -m 700 " RUNLOOP_CONTEXT "\n"
    "tar -xof " CONTEXT_TAR " -C " RUNLOOP_CONTEXT "; rm -f " CONTEXT_TAR "\n";

/* The steps of its Dockerfile, which was read before, and its commands at home. */
static char *build_script(const struct tn_json *body)
{
    tn_autofree char *commands = runloop_script(tn_json_get(body, "system_setup_commands"));
    const char *text = tn_json_get_str(body, "dockerfile", "");
    bool context = tn_json_get(body, "build_context");
    autodockerfile struct dockerfile d = {0};

    if (!*text || dockerfile_read(text, tn_json_get(body, "build_args"),
                                  context ? RUNLOOP_CONTEXT : NULL, &d, NULL))
        return TN_TAKE_PTR(commands);
    return tn_asprintf("set -e\n%s(%s)\n%s%s", context ? unpack : "", d.script,
                       context ? "rm -rf " RUNLOOP_CONTEXT "\n" : "", commands);
}

static int write_context(const struct tn_http_exchange *x, struct box *b,
                         const struct tn_json *body, struct tn_error *err)
{
    const char *id = tn_json_get_str(tn_json_get(body, "build_context"), "object_id", NULL);

    return id ? runloop_write_object(x, b, id, CONTEXT_TAR, err) : 0;
}

static void post_blueprints(struct tn_http_exchange *x, void *ctx)
{
    struct tn_service *s = ctx;
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, RUNLOOP_ANSWER_MAX);
    tn_autojson struct tn_json *body = NULL;
    struct process_started started;
    struct tn_jw w = tn_jw(&json);
    struct tn_error err = {0};

    if (!caller_may(x, SCOPE_MANAGE) || surface_body(x, RUNLOOP_BODY_MAX, &body))
        return;
    tn_autofree char *parameters = parameters_of(body);
    autobox struct box *b =
        check_blueprint(s, caller_of(x), body, &err)
            ? NULL
            : runloop_create(x, s, body, RUNLOOP_BLUEPRINT, "parameters", parameters, &err);
    if (native_audit(x, s, "sandbox.create", b ? box_id(b) : NULL, b ? NULL : &err))
        return;
    tn_autofree char *script = b ? build_script(body) : NULL;
    const struct runloop_command c = {.text = script, .tag = BUILD_TAG, .idempotency = BUILD_TAG};
    if (!b || surface_can_fork(b, &err) || surface_await(b, runloop_start_seconds(s), &err) ||
        runloop_write_mounts(x, b, body, &err) || write_context(x, b, body, &err) ||
        runloop_start(x, b, &c, &started, &err)) {
        if (b)
            box_order(b, caller_of(x), ORDER_DELETE, tn_now(), NULL);
        reply_error(x, &err);
        return;
    }
    autoview struct box_view v;
    box_look(b, &v);
    put_blueprint(&w, &v, caller_of(x));
    tn_http_reply_json(x, 200, &json);
}

static bool is_called(struct tn_http_exchange *x, const struct box_view *v)
{
    const char *name = tn_http_query(x, "name"), *status = tn_http_query(x, "status");

    return (!name || !*name || (v->name && strcmp(name, v->name) == 0)) &&
           (!status || !*status || strcmp(status, build_status(v->box)) == 0);
}

static void get_blueprints(struct tn_http_exchange *x, void *ctx)
{
    runloop_list(x, ctx, RUNLOOP_BLUEPRINT, "blueprints", put_blueprint, is_called);
}

static void get_public(struct tn_http_exchange *x, void *ctx)
{
    struct tn_service *s = ctx;
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, RUNLOOP_ANSWER_MAX);
    struct tn_jw w = tn_jw(&json);
    const char *name;
    size_t i;

    if (!caller_may(x, SCOPE_READ))
        return;
    tn_jw_object(&w);
    tn_jw_key(&w, "blueprints");
    tn_jw_array(&w);
    for (i = 0; (name = tn_config_template_name(tn_runtime_host(s->rt)->config, i)); i++)
        put_template(&w, name);
    tn_jw_array_end(&w);
    tn_jw_kbool(&w, "has_more", false);
    tn_jw_kint(&w, "total_count", (int64_t)i);
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 200, &json);
}

static void get_blueprint(struct tn_http_exchange *x, void *ctx)
{
    struct tn_service *s = ctx;
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, RUNLOOP_ANSWER_MAX);
    const char *id = tn_http_param(x, "id");
    struct tn_jw w = tn_jw(&json);
    autoview struct box_view v = {0};

    if (caller_may(x, SCOPE_READ) && tn_config_template(tn_runtime_host(s->rt)->config, id)) {
        put_template(&w, id);
        tn_http_reply_json(x, 200, &json);
        return;
    }
    autobox struct box *b = runloop_box(x, s, SCOPE_READ, RUNLOOP_BLUEPRINT, NULL);
    if (!b)
        return;
    box_look(b, &v);
    put_blueprint(&w, &v, caller_of(x));
    tn_http_reply_json(x, 200, &json);
}

static void put_said(struct tn_jw *w, const struct box_view *v)
{
    const char *at = tn_json_get_str(runloop_record(v), "said", "");

    for (size_t n; *at; at += n + (at[n] == '\n')) {
        n = strcspn(at, "\n");
        tn_jw_object(w);
        tn_jw_kstr(w, "level", "INFO");
        runloop_put_ms(w, "timestamp_ms", v->created);
        tn_jw_key(w, "message");
        tn_jw_strn(w, at, n);
        tn_jw_object_end(w);
    }
}

/* While it is built, and the last ones of a build that failed. */
static void get_blueprint_logs(struct tn_http_exchange *x, void *ctx)
{
    autobox struct box *b = runloop_box(x, ctx, SCOPE_READ, RUNLOOP_BLUEPRINT, NULL);
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, RUNLOOP_ANSWER_MAX);
    struct tn_jw w = tn_jw(&json);
    autoview struct box_view v = {0};

    if (!b)
        return;
    box_look(b, &v);
    tn_jw_object(&w);
    tn_jw_kstr(&w, "blueprint_id", v.id);
    tn_jw_key(&w, "logs");
    tn_jw_array(&w);
    if (v.state == BOX_RUNNING && v.goal == BOX_RUNNING)
        runloop_put_log(x, &w, b, "tag:" BUILD_TAG);
    else
        put_said(&w, &v);
    tn_jw_array_end(&w);
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 200, &json);
}

static void post_blueprint_delete(struct tn_http_exchange *x, void *ctx)
{
    delete (x, ctx, RUNLOOP_BLUEPRINT);
}

#define BOX "/v1/devboxes/{id}"
#define SNAPSHOTS "/v1/devboxes/disk_snapshots"
#define BLUEPRINTS "/v1/blueprints"
const struct tn_route routes_runloop_layers[] = {
    {"POST", BOX "/snapshot_disk", post_snapshot, "Runloop: a snapshot of its files", 0},
    {"POST", BOX "/snapshot_disk_async", post_snapshot, "Runloop: a snapshot of its files", 0},
    {"GET", SNAPSHOTS "", get_snapshots, "Runloop: snapshots, in pages", 0},
    {"POST", SNAPSHOTS "/{id}", post_snapshot_words, "Runloop: other words of a snapshot", 0},
    {"GET", SNAPSHOTS "/{id}/status", get_snapshot_status, "Runloop: one snapshot", 0},
    {"POST", SNAPSHOTS "/{id}/delete", post_snapshot_delete, "Runloop: removes a snapshot", 0},
    {"POST", BLUEPRINTS "", post_blueprints, "Runloop: a new blueprint", 0},
    {"GET", BLUEPRINTS "", get_blueprints, "Runloop: blueprints, in pages", 0},
    {"GET", BLUEPRINTS "/list_public", get_public, "Runloop: those of the configuration", 0},
    {"GET", BLUEPRINTS "/{id}", get_blueprint, "Runloop: one blueprint", 0},
    {"GET", BLUEPRINTS "/{id}/logs", get_blueprint_logs, "Runloop: what building it says", 0},
    {"POST", BLUEPRINTS "/{id}/delete", post_blueprint_delete, "Runloop: removes it", 0},
    {0},
};
