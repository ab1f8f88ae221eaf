/* Sandboxes: new ones, how they are and how they ended, lists, tags, tunnels. */
#include "base/secret.h"
#include "service/bounds.h"
#include "service/modal/modal.h"
#include "service/openhands.h"
#include "service/preview-host.h"
#include "service/proxy.h"

enum { SPEC_MAX = 256 << 10, PORTS_MAX = 32, PAGE = 100, TAGS_MAX = 64 };
#define USUAL_SECONDS 300.0
#define START_MORE 5.0
#define SLICE_SECONDS 5.0

/* How one ended, in their numbers. */
enum {
    SUCCESS = 1,
    FAILURE = 2,
    TERMINATED = 3,
    TIMEOUT = 4,
    INTERNAL_FAILURE = 6,
    IDLE_TIMEOUT = 7,
};

/* --- records --------------------------------------------------------------------------------- */

const struct tn_json *modal_record(const struct box_view *v)
{
    return tn_json_get(v->metadata, MODAL_RECORD);
}

int modal_note(struct box *b, const char *member, const char *value, struct tn_error *err)
{
    autoview struct box_view v;

    box_look(b, &v);
    tn_autojson struct tn_json *metadata =
        surface_metadata(v.metadata, MODAL_RECORD, modal_record(&v), member, value, err);
    return metadata ? box_change(b, NULL, &(struct box_change){.metadata = metadata}, err) : -1;
}

int modal_forget(struct box *b, struct tn_error *err)
{
    const double soon = MODAL_LINGER;
    autoview struct box_view v;

    box_look(b, &v);
    return v.expires > 0 && v.expires <= service_time() + soon
               ? 0
               : box_change(b, NULL, &(struct box_change){.ttl = &soon}, err);
}

char *modal_id(const char *prefix, const struct box *b, char out[MODAL_ID])
{
    snprintf(out, MODAL_ID, "%s-%s", prefix, box_id(b));
    return out;
}

static bool is_sandbox(const struct box_view *v)
{
    return v->goal != BOX_GONE &&
           strcmp(tn_json_get_str(modal_record(v), "kind", ""), "sandbox") == 0;
}

struct box *modal_box(const struct modal_call *c, const char *id, struct tn_error *err)
{
    autoview struct box_view v = {0};
    bool ours = id && (strncmp(id, "sb-", 3) == 0 || strncmp(id, "ta-", 3) == 0);
    struct box *b = NULL;

    if (ours && (!c->box || strcmp(box_id(c->box), id + 3) == 0))
        b = box_find(c->s, c->who->tenant, id + 3, NULL);
    if (b)
        box_look(b, &v);
    if (b && is_sandbox(&v))
        return b;
    box_release(b);
    tn_fail(err, TN_E_NOT_FOUND, "there is no sandbox or task %.40s", id ? id : "");
    return NULL;
}

/* --- how one ended --------------------------------------------------------------------------- */

static bool put_result(Modal__Result *r, int status, int64_t code, const char *why)
{
    r->has_status = r->has_exitcode = true;
    r->status = status;
    r->exitcode = (int32_t)code;
    r->exception = why ? (char *)(uintptr_t)why : NULL;
    return true;
}

/* As far as the box itself tells. */
static bool box_result(const struct box_view *v, Modal__Result *r)
{
    const struct tn_json *ended = tn_json_get(modal_record(v), "ended");
    double seconds = tn_json_double(tn_json_get(modal_record(v), "seconds"), 0);

    if (ended)
        return put_result(r, (int)tn_json_int(tn_json_get(ended, "status"), TERMINATED),
                          tn_json_int(tn_json_get(ended, "code"), 0), NULL);
    if (v->state == BOX_ERROR || v->state == BOX_MISSING)
        return put_result(r, INTERNAL_FAILURE, 1, "the sandbox has failed");
    if (v->goal == BOX_PAUSED || v->goal == BOX_STOPPED)
        return put_result(r, service_time() >= v->created + seconds - 1 ? TIMEOUT : IDLE_TIMEOUT, 0,
                          NULL);
    return false;
}

static int note_end(struct box *b, int status, int64_t code, struct tn_error *err)
{
    tn_autofree char *value = tn_asprintf("{\"status\":%d,\"code\":%lld}", status, (long long)code);

    return modal_note(b, "ended", value, err);
}

/* Its command is over: it is stopped when nobody has used it for a while, and deleted at its time,
 * or when it is terminated. */
static int note_exit(struct box *b, const struct box_view *v, const Modal__Result *r,
                     struct tn_error *err)
{
    const double soon = MODAL_LINGER;
    const struct box_change rest = {.idle_stop = &soon};
    bool sooner = v->idle_stop > 0 && v->idle_stop <= soon;

    return note_end(b, r->status, r->exitcode, err) || (!sooner && box_change(b, NULL, &rest, err))
               ? -1
               : 0;
}

/* Whether it has ended, or does so by the deadline: 1 with the result, 0 not yet, -1 with err.  The
 * first who sees that its command is over has the service note it, whatever his key may do. */
static int await_end(struct modal_call *c, struct box *b, int64_t deadline, Modal__Result *r,
                     struct tn_error *err)
{
    for (;;) {
        tn_autostatus struct tn_process_status status = {0};
        autoview struct box_view v = {0};
        struct tn_error why = {0};
        int64_t soon = tn_deadline_in(SLICE_SECONDS), until = soon < deadline ? soon : deadline;

        box_look(b, &v);
        if (box_result(&v, r))
            return 1;
        bool command = tn_json_bool(tn_json_get(modal_record(&v), "command"), false);
        if (!command || v.state != BOX_RUNNING)
            box_wait_change(b, v.version, until, &why);
        else if (process_wait(b, "tag:" MODAL_ENTRYPOINT, &status, tn_http_fd(c->x), until, &why) ==
                 0) {
            int64_t code =
                status.exit_code.set ? status.exit_code.value : 128 + status.signal.value;
            put_result(r, code ? FAILURE : SUCCESS, code, NULL);
            return note_exit(b, &v, r, err) ? -1 : 1;
        }
        if (why.code == TN_E_GONE)
            return tn_fail(err, TN_E_NOT_FOUND, "the sandbox is gone");
        if (tn_now() >= deadline || tn_http_peer_gone(c->x))
            return 0;
    }
}

struct box *modal_running(const struct modal_call *c, const char *id, struct tn_error *err)
{
    Modal__Result ended = MODAL__RESULT__INIT;
    autoview struct box_view v = {0};
    struct box *b = modal_box(c, id, err);

    if (!b)
        return NULL;
    box_look(b, &v);
    bool over = box_result(&v, &ended) && ended.status != SUCCESS && ended.status != FAILURE;
    if (over)
        tn_fail(err, TN_E_NOT_FOUND, "the sandbox %.40s has ended", id);
    else if (v.state == BOX_STARTING)
        over = surface_await(b, c->s->options->start_seconds + START_MORE, err);
    if (!over)
        return b;
    box_release(b);
    return NULL;
}

/* --- create ---------------------------------------------------------------------------------- */

/* What they have and this service has not is refused before anything is made. */
static int check_wish(const Modal__Sandbox *d, struct tn_error *err)
{
    const struct {
        const char *what;
        bool wanted;
    } absent[] = {
        {"volumes", d->n_volume_mounts},
        {"mounts", d->n_mount_ids},
        {"network file systems", d->n_nfs_mounts},
        {"cloud bucket mounts", d->n_cloud_bucket_mounts},
        {"proxies", d->proxy_id && *d->proxy_id},
        {"inbound_cidr_allowlist", d->n_inbound_cidr_allowlist},
        {"GPUs", d->resources && d->resources->gpu_config &&
                     (d->resources->gpu_config->count || d->resources->gpu_config->gpu_type)},
        {"more than 32 ports", d->open_ports && d->open_ports->n_ports > PORTS_MAX},
    };

    for (size_t i = 0; i < TN_COUNT(absent); i++)
        if (absent[i].wanted)
            return tn_fail(err, TN_E_INVALID, "%s: not served here", absent[i].what);
    return native_check_names(d->name, NULL, NULL, err);
}

static bool wants_network(const Modal__Sandbox *d)
{
    return d->block_network || (d->network_access && d->network_access->network_access_type > 1);
}

static void put_network(struct tn_jw *w, const Modal__Sandbox *d)
{
    const Modal__NetworkAccess *n = d->network_access;

    if (!wants_network(d))
        return;
    bool list = !d->block_network && n->network_access_type == 3;
    tn_jw_kstr(w, "network", list ? "allow" : "none");
    if (!list)
        return;
    tn_jw_key(w, "allow");
    tn_jw_array(w);
    for (size_t i = 0; i < n->n_allowed_cidrs; i++)
        surface_put_rule(w, n->allowed_cidrs[i]);
    for (size_t i = 0; i < n->n_allowed_domains; i++)
        surface_put_rule(w, n->allowed_domains[i]);
    tn_jw_array_end(w);
}

static void put_mib(struct tn_jw *w, const char *key, uint32_t mib)
{
    char text[24];

    snprintf(text, sizeof text, "%um", mib);
    if (mib)
        tn_jw_kstr(w, key, text);
}

/* Their limits are soft ones with hard ones above, if given: what was promised counts here. */
static void put_size(struct tn_jw *w, const Modal__Resources *r)
{
    if (!r)
        return;
    uint32_t cpu = r->milli_cpu_max > r->milli_cpu ? r->milli_cpu_max : r->milli_cpu;
    put_mib(w, "memory", r->memory_mb_max > r->memory_mb ? r->memory_mb_max : r->memory_mb);
    put_mib(w, "disk", r->ephemeral_disk_mb);
    if (cpu)
        tn_jw_kdouble(w, "cpus", cpu / 1000.0);
}

int modal_spec(struct modal_call *c, const char *from, const Modal__Sandbox *d,
               const struct tn_json *env, struct tn_spec *spec, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(SPEC_MAX);
    tn_autojson struct tn_json *members = NULL;
    struct tn_jw w = tn_jw(&text);
    const char *template = modal_template(c->s, from);

    tn_jw_object(&w);
    if (!template && openhands_takes_images(c->s, NULL))
        tn_jw_kstr(&w, "image", from);
    if (d) {
        put_network(&w, d);
        put_size(&w, d->resources);
    }
    tn_jw_object_end(&w);
    if (!tn_buf_ok(&text))
        return tn_fail(err, TN_E_INVALID, "the sandbox says too much");
    if (tn_json_parse(tn_buf_str(&text), text.len, &members, err) ||
        native_spec(c->s, c->who, template, members, spec, err))
        return -1;
    if (!surface_add_env(env, MODAL_HOME, spec, err))
        return 0;
    tn_spec_done(spec);
    return -1;
}

/* Its time: what the operator allows each sandbox bounds it. */
static void read_times(const struct modal_call *c, const Modal__Sandbox *d, struct box_wish *wish)
{
    double most = c->who->limits.max_seconds, service = c->s->options->ttl_seconds;

    if (service > 0 && !(c->who->scopes & SCOPE_ADMIN) && (most <= 0 || service < most))
        most = service;
    wish->timeout = d->timeout_secs ? d->timeout_secs : USUAL_SECONDS;
    if (most > 0 && wish->timeout > most)
        wish->timeout = most;
    wish->timeout_how = TIMEOUT_PAUSE;
    wish->ttl = wish->timeout + MODAL_LINGER;
    if (most > 0 && wish->ttl > most)
        wish->ttl = most;
    wish->idle_pause = bounds_nearest(c->who, 0, c->s->options->idle_pause_seconds);
    wish->idle_stop =
        bounds_nearest(c->who, d->idle_timeout_secs, c->s->options->idle_stop_seconds);
}

static void put_tags(struct tn_jw *w, Modal__Tag *const *tags, size_t n)
{
    tn_jw_object(w);
    for (size_t i = 0; i < n; i++)
        if (tags[i]->tag_name)
            tn_jw_kstr(w, tags[i]->tag_name, tags[i]->tag_value ? tags[i]->tag_value : "");
    tn_jw_object_end(w);
}

static struct tn_json *tag_words(Modal__Tag *const *tags, size_t n, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(SPEC_MAX);
    struct tn_json *words = NULL;
    struct tn_jw w = tn_jw(&text);

    put_tags(&w, tags, n);
    if (n > TAGS_MAX || !tn_buf_ok(&text))
        tn_fail(err, TN_E_INVALID, "tags: at most %d", TAGS_MAX);
    else
        tn_json_parse(tn_buf_str(&text), text.len, &words, err);
    return words;
}

struct wish {
    const char *app;
    const Modal__Sandbox *d;
    Modal__Tag *const *tags;
    size_t tag_count;
    Modal__SecretSource *const *sources;
    size_t source_count;
    const Modal__StringMap *more;
};

static struct tn_json *make_metadata(const struct wish *want, const struct modal_image *image,
                                     double seconds, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(SPEC_MAX);
    tn_autojson struct tn_json *record = NULL, *words = NULL;
    struct tn_jw w = tn_jw(&text);
    const Modal__Sandbox *d = want->d;

    tn_jw_object(&w);
    tn_jw_kstr(&w, "kind", "sandbox");
    tn_jw_kstr(&w, "app", want->app);
    tn_jw_kstr(&w, "image", d->image_id);
    tn_jw_kstr(&w, "recipe", image->recipe);
    tn_jw_kdouble(&w, "seconds", seconds);
    tn_jw_kbool(&w, "command", d->n_entrypoint_args > 0);
    if (d->workdir && *d->workdir)
        tn_jw_kstr(&w, "workdir", d->workdir);
    tn_jw_key(&w, "ports");
    tn_jw_array(&w);
    for (size_t i = 0; d->open_ports && i < d->open_ports->n_ports; i++) {
        tn_jw_object(&w);
        tn_jw_kint(&w, "port", d->open_ports->ports[i]->port);
        tn_jw_kbool(&w, "plain", d->open_ports->ports[i]->unencrypted);
        tn_jw_object_end(&w);
    }
    tn_jw_array_end(&w);
    tn_jw_object_end(&w);
    if (tn_json_parse(tn_buf_str(&text), text.len, &record, err) ||
        !(words = tag_words(want->tags, want->tag_count, err)))
        return NULL;
    return surface_metadata(words, MODAL_RECORD, record, NULL, NULL, err);
}

/* The variables of image, secrets and request, the last one of a name counts. */
static int read_env(struct modal_call *c, const struct wish *want, const struct modal_image *image,
                    struct tn_json **out, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = {.max = SPEC_MAX, .purse = purse_of(c->x)};
    tn_autofree char *workdir = NULL, *env = modal_recipe_env(image->recipe, &workdir);
    tn_autojson struct tn_json *own = NULL;
    const Modal__Sandbox *d = want->d;
    struct tn_jw w = tn_jw(&text);

    if (tn_json_parse(env, strlen(env), &own, err))
        return -1;
    tn_jw_object(&w);
    surface_put_words(&w, own);
    if (modal_put_secrets(c, &w, d->secret_ids, d->n_secret_ids, want->sources, want->source_count,
                          err))
        return -1;
    if (want->more)
        modal_put_pairs(&w, want->more->contents, want->more->n_contents);
    if (d->environment_variables)
        modal_put_pairs(&w, d->environment_variables->contents,
                        d->environment_variables->n_contents);
    tn_jw_object_end(&w);
    return tn_buf_ok(&text) ? tn_json_parse(tn_buf_str(&text), text.len, out, err)
                            : tn_fail(err, TN_E_INVALID, "too many variables");
}

static struct box *make(struct modal_call *c, const struct wish *want,
                        const struct modal_image *image, struct box_wish *wish,
                        struct tn_error *err)
{
    tn_autojson struct tn_json *env = NULL;
    autoview struct box_view v = {0};
    struct box *b = NULL;

    if (read_env(c, want, image, &env, err))
        return NULL;
    if (!image->box) {
        if (modal_spec(c, image->from, want->d, env, &wish->spec, err) == 0) {
            b = box_create(c->s, c->who, wish, NULL, err);
            tn_spec_done(&wish->spec);
        }
        return b;
    }
    if (wants_network(want->d)) {
        tn_fail(err, TN_E_INVALID, "network: a sandbox from a built image has that of its image");
        return NULL;
    }
    box_look(image->box, &v);
    tn_spec_init(&wish->spec);
    wish->spec.env = v.spec.env ? tn_json_copy(v.spec.env) : NULL;
    wish->spec.workspace = tn_strdup_or_null(v.spec.workspace);
    if (surface_add_env(env, MODAL_HOME, &wish->spec, err) == 0)
        b = box_fork(image->box, c->who, NULL, wish, err);
    tn_spec_done(&wish->spec);
    return b;
}

/* --- names ----------------------------------------------------------------------------------- */

struct search {
    const char *app, *name;
    char id[11];
};

static int try_name(struct box *b, void *ctx)
{
    struct search *s = ctx;
    Modal__Result ended = MODAL__RESULT__INIT;
    autoview struct box_view v = {0};

    box_look(b, &v);
    if (!is_sandbox(&v) || strcmp(tn_json_get_str(modal_record(&v), "app", ""), s->app) != 0 ||
        box_result(&v, &ended))
        return 0;
    memcpy(s->id, v.id, sizeof s->id);
    return 1;
}

/* Whether one that runs has that name in that app. */
static bool find_name(const struct modal_call *c, struct search *s)
{
    const struct box_filter f = {.tenant = c->who->tenant, .name = s->name, .newest_first = true};

    return box_each(c->s, &f, try_name, s, NULL) != 0;
}

/* --- starting -------------------------------------------------------------------------------- */

int modal_start(struct modal_call *c, struct box *b, struct tn_process_spec *spec,
                const struct tn_json *env, const char *tag, struct process_started *out,
                struct tn_error *err)
{
    const struct process_how how = {.idempotency = tag,
                                    .request = request_id(c->x),
                                    .purse = purse_of(c->x),
                                    .watch = tn_http_fd(c->x)};
    autoview struct box_view v = {0};

    box_look(b, &v);
    const char *home = tn_json_get_str(v.spec.env, "HOME", v.spec.workspace);
    const char *recipe = tn_json_get_str(modal_record(&v), "recipe", "");
    tn_autofree char *workdir = modal_recipe_workdir(recipe);
    if (!spec->cwd)
        spec->cwd = tn_strdup_or_null(
            tn_json_get_str(modal_record(&v), "workdir", workdir ? workdir : home));
    spec->tag = tn_strdup_or_null(tag);
    return surface_process_env(c->x, home, env, &spec->env, err) ||
                   process_start(b, c->who, spec, &how, out, err)
               ? -1
               : 0;
}

/* WORKDIR of an image that was never built is made now. */
static int make_workdir(const struct modal_call *c, struct box *b, const struct modal_image *image,
                        struct tn_error *err)
{
    tn_autofree char *workdir = modal_recipe_workdir(image->recipe);

    if (image->box || !workdir)
        return 0;
    tn_autofiles struct tn_hand_files *f = surface_files(c->x, b, err);
    return f ? tn_hand_files_mkdir(f, workdir, -1, tn_deadline_in(MODAL_SECONDS), err) : -1;
}

static int start_entrypoint(struct modal_call *c, struct box *b, const Modal__Sandbox *d,
                            const struct modal_image *image, struct tn_error *err)
{
    tn_autoprocess struct tn_process_spec spec = {.input = true};
    struct process_started started;

    if (make_workdir(c, b, image, err))
        return -1;
    if (!d->n_entrypoint_args)
        return 0;
    for (size_t i = 0; i < d->n_entrypoint_args; i++)
        surface_add_arg(&spec.args, d->entrypoint_args[i]);
    spec.pty = d->pty_info && d->pty_info->enabled;
    return modal_start(c, b, &spec, NULL, MODAL_ENTRYPOINT, &started, err);
}

/* One that did not come to life is removed.  NULL: answered (*answered), or err. */
static struct box *create(struct modal_call *c, const struct wish *want, int *answered,
                          struct tn_error *err)
{
    struct box_wish wish = {.name = want->d->name,
                            .idempotency = tn_http_header(c->x, "X-Idempotency-Key"),
                            .digest = "modal"};
    struct search taken = {.app = want->app, .name = want->d->name};
    automodalimage struct modal_image image = {0};

    *answered = -1;
    if (check_wish(want->d, err) || modal_find_image(c->s, c->who, want->d->image_id, &image, err))
        return NULL;
    if (taken.name && *taken.name && find_name(c, &taken)) {
        *answered = modal_exists(c, "a sandbox of the name", taken.name);
        return NULL;
    }
    read_times(c, want->d, &wish);
    tn_autojson struct tn_json *metadata = make_metadata(want, &image, wish.timeout, err);
    if (!metadata)
        return NULL;
    wish.metadata = metadata;
    wish.template = modal_template(c->s, image.from);
    autobox struct box *b = make(c, want, &image, &wish, err);
    if (native_audit(c->x, c->s, "sandbox.create", b ? box_id(b) : NULL, b ? NULL : err))
        *answered = MODAL_ANSWERED;
    else if (b && surface_await(b, c->s->options->start_seconds + START_MORE, err) == 0 &&
             start_entrypoint(c, b, want->d, &image, err) == 0)
        return TN_TAKE_PTR(b);
    if (b)
        box_order(b, c->who, ORDER_DELETE, tn_now(), NULL);
    return NULL;
}

static int sandbox_create(struct modal_call *c, const void *request, struct tn_error *err)
{
    static const Modal__Sandbox nothing = MODAL__SANDBOX__INIT;
    const Modal__SandboxCreateRequest *in = request;
    Modal__SandboxCreateResponse out = MODAL__SANDBOX_CREATE_RESPONSE__INIT;
    const struct wish want = {.app = in->app_id ? in->app_id : "",
                              .d = in->definition ? in->definition : &nothing,
                              .tags = in->tags,
                              .tag_count = in->n_tags};
    char id[MODAL_ID];
    int answered;

    autobox struct box *b = create(c, &want, &answered, err);
    if (!b)
        return answered;
    out.sandbox_id = modal_id("sb", b, id);
    return modal_send(c, &out, err);
}

static int sandbox_create_2(struct modal_call *c, const void *request, struct tn_error *err)
{
    static const Modal__Sandbox nothing = MODAL__SANDBOX__INIT;
    const Modal__SandboxCreateV2Request *in = request;
    Modal__SandboxCreateV2Response out = MODAL__SANDBOX_CREATE_V2_RESPONSE__INIT;
    Modal__RouterAccess access = MODAL__ROUTER_ACCESS__INIT;
    const struct wish want = {.app = in->app_id ? in->app_id : "",
                              .d = in->definition ? in->definition : &nothing,
                              .tags = in->tags,
                              .tag_count = in->n_tags,
                              .sources = in->secret_sources,
                              .source_count = in->n_secret_sources,
                              .more = in->ephemeral_secrets};
    char id[MODAL_ID], task[MODAL_ID];
    int answered;

    autobox struct box *b = create(c, &want, &answered, err);
    if (!b)
        return answered;
    tn_autofree char *token = modal_token(c, box_id(b)), *url = modal_router_url(c);
    access.jwt = token;
    access.url = url;
    out.sandbox_id = modal_id("sb", b, id);
    out.task_id = modal_id("ta", b, task);
    out.command_router_access = &access;
    return modal_send(c, &out, err);
}

/* --- those that exist ------------------------------------------------------------------------ */

static double bounded(float seconds, bool given)
{
    return !given || !(seconds >= 0 && seconds < MODAL_POLL_SECONDS) ? MODAL_POLL_SECONDS
                                                                     : (double)seconds;
}

static int sandbox_wait(struct modal_call *c, const void *request, struct tn_error *err)
{
    const Modal__Who *in = request;
    Modal__ResultOnly out = MODAL__RESULT_ONLY__INIT;
    Modal__Result result = MODAL__RESULT__INIT;
    autobox struct box *b = modal_box(c, in->id, err);

    if (!b)
        return -1;
    int ended = await_end(c, b, tn_deadline_in(bounded(in->timeout, true)), &result, err);
    if (ended > 0)
        out.result = &result;
    return ended < 0 ? -1 : modal_send(c, &out, err);
}

static int sandbox_terminate(struct modal_call *c, const void *request, struct tn_error *err)
{
    const Modal__Who *in = request;
    Modal__ResultOnly out = MODAL__RESULT_ONLY__INIT;
    Modal__Result result = MODAL__RESULT__INIT;
    autobox struct box *b = modal_box(c, in->id, err);

    if (!b)
        return -1;
    int ended = await_end(c, b, tn_now(), &result, err);
    if (ended > 0)
        out.result = &result;
    int failed = ended < 0 || (!ended && note_end(b, TERMINATED, 0, err)) || modal_forget(b, err) ||
                 (box_order(b, c->who, ORDER_STOP, tn_deadline_in(MODAL_POLL_SECONDS), err) &&
                  err->code != TN_E_TIMEOUT);
    if (native_audit(c->x, c->s, "sandbox.stop", box_id(b), failed ? err : NULL))
        return MODAL_ANSWERED;
    return failed ? -1 : modal_send(c, &out, err);
}

static int sandbox_task(struct modal_call *c, const void *request, struct tn_error *err)
{
    const Modal__Who *in = request;
    Modal__SandboxGetTaskIdResponse out = MODAL__SANDBOX_GET_TASK_ID_RESPONSE__INIT;
    Modal__Result result = MODAL__RESULT__INIT;
    autobox struct box *b = modal_box(c, in->id, err);
    char id[MODAL_ID];

    if (!b)
        return -1;
    out.task_id = modal_id("ta", b, id);
    if (await_end(c, b, tn_now(), &result, err) > 0)
        out.task_result = &result;
    return modal_send(c, &out, err);
}

static int router_access(struct modal_call *c, const char *id, struct tn_error *err)
{
    Modal__RouterAccess out = MODAL__ROUTER_ACCESS__INIT;
    autobox struct box *b = modal_running(c, id, err);

    if (!b)
        return -1;
    tn_autofree char *token = modal_token(c, box_id(b)), *url = modal_router_url(c);
    out.jwt = token;
    out.url = url;
    return modal_send(c, &out, err);
}

static int task_access(struct modal_call *c, const void *request, struct tn_error *err)
{
    return router_access(c, ((const Modal__Who *)request)->id, err);
}

static int sandbox_access(struct modal_call *c, const void *request, struct tn_error *err)
{
    const Modal__SandboxGetCommandRouterAccessRequest *in = request;

    return router_access(c, in->sandbox_id ? in->sandbox_id : in->task_id, err);
}

/* Whatever is served here is ready once it runs. */
int modal_ready(struct modal_call *c, const void *request, struct tn_error *err)
{
    const Modal__Who *in = request;
    Modal__ReadyAt out = MODAL__READY_AT__INIT;
    autoview struct box_view v = {0};
    autobox struct box *b = modal_running(c, in->id, err);

    if (!b)
        return -1;
    box_look(b, &v);
    out.has_ready_at = true;
    out.ready_at = v.started > 0 ? v.started : v.created;
    return modal_send(c, &out, err);
}

/* --- tags and names -------------------------------------------------------------------------- */

struct tags {
    Modal__Tag rows[TAGS_MAX], *all[TAGS_MAX];
    size_t count;
};

static int add_tag(const char *key, struct tn_json *value, void *ctx)
{
    struct tags *t = ctx;
    const char *text = tn_json_str(value, NULL);

    if (text && t->count < TAGS_MAX) {
        Modal__Tag *tag = t->all[t->count] = &t->rows[t->count];
        modal__tag__init(tag);
        tag->tag_name = (char *)(uintptr_t)key;
        tag->tag_value = (char *)(uintptr_t)text;
        t->count++;
    }
    return 0;
}

static int tags_set(struct modal_call *c, const void *request, struct tn_error *err)
{
    const Modal__SandboxTagsSetRequest *in = request;
    autoview struct box_view v = {0};
    autobox struct box *b = modal_box(c, in->sandbox_id, err);

    if (!b)
        return -1;
    box_look(b, &v);
    tn_autojson struct tn_json *words = tag_words(in->tags, in->n_tags, err), *metadata = NULL;
    if (!words ||
        !(metadata = surface_metadata(words, MODAL_RECORD, modal_record(&v), NULL, NULL, err)))
        return -1;
    return box_change(b, c->who, &(struct box_change){.metadata = metadata}, err);
}

static int tags_get(struct modal_call *c, const void *request, struct tn_error *err)
{
    const Modal__Who *in = request;
    Modal__SandboxTagsGetResponse out = MODAL__SANDBOX_TAGS_GET_RESPONSE__INIT;
    autoview struct box_view v = {0};
    struct tags tags = {.count = 0};
    autobox struct box *b = modal_box(c, in->id, err);

    if (!b)
        return -1;
    box_look(b, &v);
    tn_json_each(v.metadata, add_tag, &tags);
    out.n_tags = tags.count;
    out.tags = tags.all;
    return modal_send(c, &out, err);
}

static int set_name(struct modal_call *c, const void *request, struct tn_error *err)
{
    const Modal__SandboxSetNameRequest *in = request;
    autoview struct box_view v = {0};
    autobox struct box *b = modal_box(c, in->sandbox_id, err);

    if (!b || native_check_names(in->name, NULL, NULL, err))
        return -1;
    box_look(b, &v);
    struct search taken = {.app = tn_json_get_str(modal_record(&v), "app", ""), .name = in->name};
    if (in->name && *in->name && find_name(c, &taken) && strcmp(taken.id, v.id) != 0)
        return modal_exists(c, "a sandbox of the name", in->name);
    return box_change(b, c->who, &(struct box_change){.name = in->name ? in->name : ""}, err);
}

static int from_name(struct modal_call *c, const void *request, struct tn_error *err)
{
    const Modal__SandboxGetFromNameRequest *in = request;
    Modal__SandboxCreateResponse out = MODAL__SANDBOX_CREATE_RESPONSE__INIT;
    char app[MODAL_APP_ID], id[MODAL_ID];
    struct search s = {.app = app, .name = in->sandbox_name ? in->sandbox_name : ""};

    modal_app_id(in->app_name ? in->app_name : "", app);
    if (!find_name(c, &s))
        return tn_fail(err, TN_E_NOT_FOUND, "there is no sandbox '%.60s' in that app", s.name);
    snprintf(id, sizeof id, "sb-%s", s.id);
    out.sandbox_id = id;
    return modal_send(c, &out, err);
}

/* --- lists ----------------------------------------------------------------------------------- */

struct list {
    const Modal__SandboxListRequest *in;
    struct row {
        Modal__SandboxInfo info;
        Modal__TaskInfo task;
        Modal__Result result;
        struct tags tags;
        char id[MODAL_ID], task_id[MODAL_ID];
        struct box_view view;
    } rows[PAGE];
    Modal__SandboxInfo *all[PAGE];
    size_t count;
};

static bool has_tags(const struct box_view *v, const Modal__SandboxListRequest *in)
{
    for (size_t i = 0; i < in->n_tags; i++) {
        const char *name = in->tags[i]->tag_name ? in->tags[i]->tag_name : "",
                   *value = in->tags[i]->tag_value ? in->tags[i]->tag_value : "";
        if (strcmp(tn_json_get_str(v->metadata, name, "\n"), value) != 0)
            return false;
    }
    return true;
}

static int list_one(struct box *b, void *ctx)
{
    struct list *l = ctx;
    struct row *r = &l->rows[l->count];
    const Modal__SandboxListRequest *in = l->in;

    box_look(b, &r->view);
    const struct box_view *v = &r->view;
    modal__result__init(&r->result);
    bool ended = is_sandbox(v) && box_result(v, &r->result);
    const char *app = tn_json_get_str(modal_record(v), "app", "");
    if (!is_sandbox(v) || (ended && !in->include_finished) || !has_tags(v, in) ||
        (in->app_id && *in->app_id && strcmp(in->app_id, app) != 0) ||
        (in->before_timestamp > 0 && v->created >= in->before_timestamp)) {
        box_view_done(&r->view);
        return 0;
    }
    modal__sandbox_info__init(&r->info);
    modal__task_info__init(&r->task);
    r->tags.count = 0;
    tn_json_each(v->metadata, add_tag, &r->tags);
    r->task.id = modal_id("ta", b, r->task_id);
    r->task.has_started_at = true;
    r->task.started_at = v->started;
    r->task.result = ended ? &r->result : NULL;
    r->info.id = modal_id("sb", b, r->id);
    r->info.has_created_at = true;
    r->info.created_at = v->created;
    r->info.task_info = &r->task;
    r->info.app_id = (char *)(uintptr_t)app;
    r->info.name = v->name;
    r->info.image_id = (char *)(uintptr_t)tn_json_get_str(modal_record(v), "image", NULL);
    r->info.n_tags = r->tags.count;
    r->info.tags = r->tags.all;
    l->all[l->count++] = &r->info;
    return l->count == PAGE;
}

static int sandbox_list(struct modal_call *c, const void *request, struct tn_error *err)
{
    Modal__SandboxListResponse out = MODAL__SANDBOX_LIST_RESPONSE__INIT;
    const struct box_filter f = {.tenant = c->who->tenant, .newest_first = true};
    tn_autofree struct list *l = tn_calloc(1, sizeof *l);

    l->in = request;
    box_each(c->s, &f, list_one, l, NULL);
    out.n_sandboxes = l->count;
    out.sandboxes = l->all;
    int result = modal_send(c, &out, err);
    for (size_t i = 0; i < l->count; i++)
        box_view_done(&l->rows[i].view);
    return result;
}

/* --- tunnels --------------------------------------------------------------------------------- */

static void tunnel_key(const struct tn_service *s, const char *id, char out[SURFACE_TUNNEL])
{
    snprintf(out, SURFACE_TUNNEL, "%s", id);
    surface_token(s, "modal-tunnel", id, out + strlen(id));
}

/* Clients make "https://HOST:PORT" of it themselves. */
static int sandbox_tunnels(struct modal_call *c, const void *request, struct tn_error *err)
{
    const Modal__Who *in = request;
    Modal__SandboxGetTunnelsResponse out = MODAL__SANDBOX_GET_TUNNELS_RESPONSE__INIT;
    Modal__TunnelData rows[PORTS_MAX], *all[PORTS_MAX];
    Modal__Result result = MODAL__RESULT__INIT;
    char *hosts[PORTS_MAX], key[SURFACE_TUNNEL];
    autoview struct box_view v = {0};
    autobox struct box *b = modal_running(c, in->id, err);

    if (!b)
        return -1;
    box_look(b, &v);
    const struct tn_json *ports = tn_json_get(modal_record(&v), "ports");
    tn_autofree char *base = base_url(c->x);
    tunnel_key(c->s, v.id, key);
    for (size_t i = 0; i < tn_json_count(ports) && i < PORTS_MAX; i++) {
        const struct tn_json *one = tn_json_at(ports, i);
        int64_t port = tn_json_int(tn_json_get(one, "port"), 0);
        char *url = preview_origin(base, c->s->options->preview_domain, key, (int)port);
        char *host = strstr(url, "://"), *colon;
        host = tn_strdup(host ? host + 3 : url);
        colon = strrchr(host, ':');
        Modal__TunnelData *row = all[i] = &rows[i];
        modal__tunnel_data__init(row);
        row->has_port = row->has_container_port = true;
        row->port = colon                            ? (uint32_t)strtoul(colon + 1, NULL, 10)
                    : strncmp(url, "https:", 6) == 0 ? 443
                                                     : 80;
        row->container_port = (uint32_t)port;
        if (colon)
            *colon = '\0';
        row->host = hosts[i] = host;
        free(url);
        if (tn_json_bool(tn_json_get(one, "plain"), false)) {
            row->unencrypted_host = host;
            row->has_unencrypted_port = true;
            row->unencrypted_port = row->port;
        }
        out.n_tunnels++;
    }
    out.tunnels = all;
    put_result(&result, SUCCESS, 0, NULL);
    out.result = &result;
    int sent = modal_send(c, &out, err);
    for (size_t i = 0; i < out.n_tunnels; i++)
        free(hosts[i]);
    return sent;
}

/* Whether that port of the sandbox was opened. */
static bool is_open(const struct box_view *v, int port)
{
    const struct tn_json *ports = tn_json_get(modal_record(v), "ports");

    for (size_t i = 0; i < tn_json_count(ports); i++)
        if (tn_json_int(tn_json_get(tn_json_at(ports, i), "port"), 0) == port)
            return true;
    return false;
}

bool modal_take_tunnel(struct tn_service *s, struct tn_http_exchange *x)
{
    char key[SURFACE_TUNNEL], wanted[SURFACE_TUNNEL];
    autoview struct box_view v = {0};
    int port;

    if (!surface_tunnel_host(x, &port, key))
        return false;
    autobox struct box *b = surface_tunnel_box(s, key);
    if (!b)
        return false;
    box_look(b, &v);
    tunnel_key(s, v.id, wanted);
    if (!is_sandbox(&v) || !is_open(&v, port) || *tn_http_target(x) != '/' ||
        !tn_same_secret(key, wanted))
        return false; /* of somebody else, who says so */
    if (surface_enter(x, b, v.key_id))
        proxy_to_port(x, b, port, tn_http_target(x), NULL);
    return true;
}

const struct modal_method modal_sandboxes[] = {
    {"SandboxCreate", MODAL_MESSAGE(sandbox_create_request), sandbox_create, SCOPE_MANAGE},
    {"SandboxCreateV2", MODAL_MESSAGE(sandbox_create_v2_request), sandbox_create_2, SCOPE_MANAGE},
    {"SandboxWait", MODAL_MESSAGE(who), sandbox_wait, SCOPE_READ},
    {"SandboxTerminate", MODAL_MESSAGE(who), sandbox_terminate, SCOPE_MANAGE},
    {"SandboxGetTaskId", MODAL_MESSAGE(who), sandbox_task, SCOPE_READ},
    {"SandboxWaitUntilReady", MODAL_MESSAGE(who), modal_ready, SCOPE_READ},
    {"SandboxGetTunnels", MODAL_MESSAGE(who), sandbox_tunnels, SCOPE_USE},
    {"SandboxList", MODAL_MESSAGE(sandbox_list_request), sandbox_list, SCOPE_READ},
    {"SandboxGetFromName", MODAL_MESSAGE(sandbox_get_from_name_request), from_name, SCOPE_READ},
    {"SandboxTagsSet", MODAL_MESSAGE(sandbox_tags_set_request), tags_set, SCOPE_MANAGE},
    {"SandboxTagsGet", MODAL_MESSAGE(who), tags_get, SCOPE_READ},
    {"SandboxSetName", MODAL_MESSAGE(sandbox_set_name_request), set_name, SCOPE_MANAGE},
    {"TaskGetCommandRouterAccess", MODAL_MESSAGE(who), task_access, SCOPE_USE},
    {"SandboxGetCommandRouterAccess", MODAL_MESSAGE(sandbox_get_command_router_access_request),
     sandbox_access, SCOPE_USE},
    {0},
};
