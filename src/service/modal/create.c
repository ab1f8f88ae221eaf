/* New sandboxes: what they are made of, and their command. */
#include "service/blobs.h"
#include "service/bounds.h"
#include "service/modal/modal.h"
#include "service/openhands.h"
#include "service/tcp-ports.h"

enum { SPEC_MAX = 256 << 10 };
#define USUAL_SECONDS 300.0

/* What they have and this service has not is refused before anything is made. */
static int check_wish(struct modal_call *c, const Modal__Sandbox *d, struct tn_error *err)
{
    const struct {
        const char *what;
        bool wanted;
    } absent[] = {
        {"network file systems", d->n_nfs_mounts},
        {"cloud bucket mounts", d->n_cloud_bucket_mounts},
        {"proxies", d->proxy_id && *d->proxy_id},
        {"inbound_cidr_allowlist", d->n_inbound_cidr_allowlist},
        {"GPUs", d->resources && d->resources->gpu_config &&
                     (d->resources->gpu_config->count || d->resources->gpu_config->gpu_type)},
        {"more than 32 ports", d->open_ports && d->open_ports->n_ports > MODAL_PORTS_MAX},
    };
    size_t plain = 0;

    for (size_t i = 0; i < TN_COUNT(absent); i++)
        if (absent[i].wanted)
            return tn_fail(err, TN_E_INVALID, "%s: not served here", absent[i].what);
    for (size_t i = 0; d->open_ports && i < d->open_ports->n_ports; i++) {
        if (!d->open_ports->ports[i]->port || d->open_ports->ports[i]->port > 65535)
            return tn_fail(err, TN_E_INVALID, "a port is a number from 1 to 65535");
        plain += d->open_ports->ports[i]->unencrypted;
    }
    /* Those of this very sandbox may be there already: who opens them counts. */
    if (tcp_ports_allow(c->s->tcp, NULL, plain, err))
        return -1;
    for (size_t i = 0; i < d->n_mount_ids; i++) {
        autoblob struct blob mount = {0};
        if (modal_find_mount(c, d->mount_ids[i], &mount, err))
            return -1;
    }
    return native_check_names(d->name, NULL, NULL, err);
}

static bool wants_network(bool block, const Modal__NetworkAccess *n)
{
    return block || (n && n->network_access_type > 1);
}

static void put_network(struct tn_jw *w, bool block, const Modal__NetworkAccess *n)
{
    if (!wants_network(block, n))
        return;
    bool list = !block && n->network_access_type == 3;
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
        put_network(&w, d->block_network, d->network_access);
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
        !(words = modal_tag_words(want->tags, want->tag_count, err)))
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
            if (modal_mount_volumes(c, want->d, &wish->spec, err) == 0)
                b = box_create(c->s, c->who, wish, NULL, err);
            tn_spec_done(&wish->spec);
        }
        return b;
    }
    if (wants_network(want->d->block_network, want->d->network_access)) {
        tn_fail(err, TN_E_INVALID, "network: a sandbox from a built image has that of its image");
        return NULL;
    }
    box_look(image->box, &v);
    tn_spec_init(&wish->spec);
    wish->spec.env = v.spec.env ? tn_json_copy(v.spec.env) : NULL;
    wish->spec.workspace = tn_strdup_or_null(v.spec.workspace);
    wish->spec.runtime = tn_strdup_or_null(v.runtime);
    if (modal_mount_volumes(c, want->d, &wish->spec, err) == 0 &&
        surface_add_env(env, MODAL_HOME, &wish->spec, err) == 0)
        b = box_fork(image->box, c->who, NULL, wish, err);
    tn_spec_done(&wish->spec);
    return b;
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

/* WORKDIR that no build has made is made now. */
static int make_workdir(const struct modal_call *c, struct box *b, const struct modal_image *image,
                        struct tn_error *err)
{
    tn_autofree char *workdir = modal_recipe_workdir(image->recipe);

    if (!image->spelt || !workdir)
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
    for (size_t i = 0; i < d->n_mount_ids; i++)
        if (modal_write_mount(c, b, d->mount_ids[i], "", err))
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
    struct modal_search taken = {.app = want->app, .name = want->d->name};
    automodalimage struct modal_image image = {0};

    *answered = -1;
    if (check_wish(c, want->d, err) || modal_use_image(c, want->d->image_id, &image, err))
        return NULL;
    if (taken.name && *taken.name && modal_find_name(c, &taken)) {
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
    else if (b && surface_await(b, c->s->options->start_seconds + MODAL_START_MORE, err) == 0 &&
             modal_open_ports(c, b, want->d, err) == 0 &&
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

int modal_set_network(struct modal_call *c, const void *request, struct tn_error *err)
{
    const Modal__TaskSetNetworkAccessRequest *in = request;
    tn_autobuf struct tn_buf wish = {.max = SPEC_MAX, .purse = purse_of(c->x)};
    autobox struct box *b = modal_running(c, in->task_id, err);
    struct tn_jw w = tn_jw(&wish);

    if (!b)
        return -1;
    if (!in->network_access || in->network_access->network_access_type < 1)
        return tn_fail(err, TN_E_INVALID, "network_access: expected open, blocked or a list");
    tn_jw_object(&w);
    put_network(&w, false, in->network_access);
    tn_jw_object_end(&w);
    int failed = surface_change_network(b, c->who, &wish, err);
    return native_audit(c->x, c->s, "network.change", box_id(b), failed ? err : NULL)
               ? MODAL_ANSWERED
               : failed;
}

const struct modal_method modal_creates[] = {
    {"SandboxCreate", MODAL_MESSAGE(sandbox_create_request), sandbox_create, SCOPE_MANAGE},
    {"SandboxCreateV2", MODAL_MESSAGE(sandbox_create_v2_request), sandbox_create_2, SCOPE_MANAGE},
    {0},
};
