/* Sandboxes as a whole: the app and the image, made, looked at, listed, ended; their tunnels. */
#include <math.h>

#include "base/again.h"
#include "base/sha256.h"
#include "runtime/cloud/modal/modal.h"

enum {
    MOST_PAGES = 1000,
    PORTS_MAX = 64,
    MOUNTS_MAX = 64,
    JOINS = 6,
    JOIN_SECONDS = 55,
    TUNNEL_SECONDS = 50,
    MIB = 1 << 20
};
enum { FAILED = 0, DONE = 1, TERMINATED = 3, TIMED_OUT = 4, IDLE = 7 }; /* of a result */
enum { CREATE_IF_MISSING = 1, NETWORK_OPEN = 1, NETWORK_LISTED = 3 };

/* --- the app ---------------------------------------------------------------------------------- */

/* Its id, on the heap; NULL with TN_E_NOT_FOUND when it is not there and not to be made. */
static char *find_app(const struct cloud *c, bool make, int64_t deadline, struct tn_error *err)
{
    struct modal *m = modal_of(c);
    Modal__AppGetOrCreateRequest in = MODAL__APP_GET_OR_CREATE_REQUEST__INIT;
    const struct modal_call call = {.method = "AppGetOrCreate",
                                    .in = &in,
                                    .out = &modal__app_get_or_create_response__descriptor};
    tn_autogrpc Modal__AppGetOrCreateResponse *got = NULL;

    pthread_mutex_lock(&m->lock);
    char *known = tn_strdup_or_null(m->app);
    pthread_mutex_unlock(&m->lock);
    if (known)
        return known;
    in.app_name = c->host->config->modal.app;
    in.environment_name = m->login.environment;
    in.has_object_creation_type = make;
    in.object_creation_type = CREATE_IF_MISSING;
    if (modal_ask(c, &call, &got, deadline, err) < 0)
        return NULL;
    if (!got->app_id || !cloud_is_id(got->app_id)) {
        tn_fail(err, TN_E_PEER, "Modal tells of an app without a usable id");
        return NULL;
    }
    pthread_mutex_lock(&m->lock);
    free(m->app);
    m->app = tn_strdup(got->app_id);
    pthread_mutex_unlock(&m->lock);
    return tn_strdup(got->app_id);
}

/* Somebody has removed it, or it is another one by now. */
static void forget_app(const struct cloud *c)
{
    struct modal *m = modal_of(c);

    pthread_mutex_lock(&m->lock);
    free(TN_TAKE_PTR(m->app));
    pthread_mutex_unlock(&m->lock);
}

/* --- images ----------------------------------------------------------------------------------- */

struct building {
    int status; /* of its result; FAILED: not yet */
    char *words, *entry;
};

static void building_done(struct building *b)
{
    free(b->words);
    free(b->entry);
}

static void take_result(struct building *b, const Modal__Result *result)
{
    b->status = result && result->has_status ? result->status : FAILED;
    free(b->words);
    b->words = result && result->exception ? cloud_sentence(result->exception) : NULL;
}

static int take_news(const void *message, void *ctx)
{
    const Modal__ImageJoinStreamingResponse *news = message;
    struct building *b = ctx;

    take_result(b, news->result);
    if (news->entry_id) {
        free(b->entry);
        b->entry = tn_strndup(news->entry_id, CLOUD_ID_MAX);
    }
    return b->status != FAILED;
}

/* Streams of news end now and then, before there is any, and so they do when it is busy. */
static int join(const struct cloud *c, const char *id, struct building *b, int cancel,
                int64_t deadline, struct tn_error *err)
{
    struct tn_error why = {0};
    int ms = 0, busy = 0;

    while (b->status == FAILED) {
        Modal__ImageJoinStreamingRequest in = MODAL__IMAGE_JOIN_STREAMING_REQUEST__INIT;
        const struct modal_call call = {.method = "ImageJoinStreaming",
                                        .in = &in,
                                        .out = &modal__image_join_streaming_response__descriptor,
                                        .cancel = cancel};
        in.image_id = (char *)(uintptr_t)id;
        in.has_timeout = true;
        in.timeout = JOIN_SECONDS;
        in.last_entry_id = b->entry;
        if (modal_listen(c, &call, take_news, b, deadline, &why) < 0 &&
            ((why.code != TN_E_BUSY && why.code != TN_E_QUOTA) || ++busy == JOINS))
            return cloud_fail(err, &why);
        if (b->status == FAILED && tn_back_off(&ms, 0, cancel, deadline, err) < 0)
            return -1;
    }
    return 0;
}

/* The id of what the name stands for, on the heap; the platform builds it if it has not yet. */
static char *have_image(const struct cloud *c, const struct tn_subject *s, char *app,
                        int64_t deadline, struct tn_error *err)
{
    const struct tn_config_modal *config = &c->host->config->modal;
    const char *name = s->spec->image ? s->spec->image : config->image;
    tn_autofree char *from = tn_asprintf("FROM %s", name);
    Modal__Image image = MODAL__IMAGE__INIT;
    Modal__ImageGetOrCreateRequest in = MODAL__IMAGE_GET_OR_CREATE_REQUEST__INIT;
    const struct modal_call call = {.method = "ImageGetOrCreate",
                                    .in = &in,
                                    .out = &modal__image_get_or_create_response__descriptor,
                                    .patient = true,
                                    .cancel = s->cancel};
    tn_autogrpc Modal__ImageGetOrCreateResponse *got = NULL;
    TN_CLEANUP(building_done) struct building b = {0};

    if (strncmp(name, "im-", 3) == 0 && cloud_is_token(name))
        return tn_strdup(name);
    if (!*name || strpbrk(name, " \t\r\n")) {
        tn_fail(err, TN_E_INVALID, "image: not a name of a registry, nor an id (im-...)");
        return NULL;
    }
    image.n_dockerfile_commands = 1;
    image.dockerfile_commands = &from;
    in.image = &image;
    in.app_id = app;
    in.builder_version = config->builder;
    if (modal_ask(c, &call, &got, deadline, err) < 0)
        return NULL;
    if (!got->image_id || !cloud_is_token(got->image_id)) {
        tn_fail(err, TN_E_PEER, "Modal tells of an image without a usable id");
        return NULL;
    }
    take_result(&b, got->result);
    if (b.status == FAILED) {
        tn_host_tell(c->host, s->id, TN_RUNTIME_BUILDING_RUNTIME, name);
        if (join(c, got->image_id, &b, s->cancel, deadline, err) < 0)
            return NULL;
        tn_host_tell(c->host, s->id, TN_RUNTIME_STARTING_RUNTIME, "");
    }
    if (b.status == DONE)
        return tn_strdup(got->image_id);
    tn_fail(err, TN_E_NOT_FOUND, "Modal cannot make the image %s%s%s", name, b.words ? ": " : "",
            b.words ? b.words : "");
    return NULL;
}

/* --- volumes ---------------------------------------------------------------------------------- */

static char *find_volume(const struct cloud *c, const char *name, int cancel, int64_t deadline,
                         struct tn_error *err)
{
    Modal__VolumeGetOrCreateRequest in = MODAL__VOLUME_GET_OR_CREATE_REQUEST__INIT;
    const struct modal_call call = {.method = "VolumeGetOrCreate",
                                    .in = &in,
                                    .out = &modal__volume_get_or_create_response__descriptor,
                                    .cancel = cancel};
    tn_autogrpc Modal__VolumeGetOrCreateResponse *got = NULL;

    in.deployment_name = (char *)(uintptr_t)name;
    in.environment_name = modal_of(c)->login.environment;
    in.has_object_creation_type = true;
    in.object_creation_type = CREATE_IF_MISSING;
    if (modal_ask(c, &call, &got, deadline, err) < 0)
        return NULL;
    if (got->volume_id && cloud_is_token(got->volume_id))
        return tn_strdup(got->volume_id);
    tn_fail(err, TN_E_PEER, "Modal tells of a volume without a usable id");
    return NULL;
}

const struct cloud_disks modal_disks = {.read_only = true, .below = true, .find = find_volume};

/* --- tags ------------------------------------------------------------------------------------- */

/* Tags of a request, which point into the tree. */
struct tags {
    struct tn_json *tree;
    Modal__Tag *all, **list;
    size_t count;
};

static void tags_done(struct tags *t)
{
    tn_json_free(t->tree);
    free(t->all);
    free(t->list);
}

static int add_tag(const char *name, struct tn_json *value, void *ctx)
{
    struct tags *t = ctx;
    Modal__Tag *tag = &t->all[t->count];

    *tag = (Modal__Tag)MODAL__TAG__INIT;
    tag->tag_name = (char *)(uintptr_t)name;
    tag->tag_value = (char *)(uintptr_t)tn_json_str(value, NULL);
    t->list[t->count++] = tag;
    return 0;
}

/* From an object of text. */
static int make_tags(const struct tn_buf *text, struct tags *t, struct tn_error *err)
{
    if (!tn_buf_ok(text))
        return tn_fail(err, TN_E_TOO_LARGE, "its labels are too large");
    if (tn_json_parse(tn_buf_str(text), text->len, &t->tree, err) < 0)
        return -1;
    t->all = tn_calloc(tn_json_count(t->tree) + 1, sizeof *t->all);
    t->list = tn_calloc(tn_json_count(t->tree) + 1, sizeof *t->list);
    tn_json_each(t->tree, add_tag, t);
    return 0;
}

static void read_marks(const struct cloud *c, Modal__Tag **tags, size_t n, struct cloud_view *out)
{
    const char *state = "", *id = "", *session = "";

    for (size_t i = 0; i < n; i++) {
        const char *name = tags[i]->tag_name ? tags[i]->tag_name : "";
        const char *value = tags[i]->tag_value ? tags[i]->tag_value : "";
        state = strcmp(name, CLOUD_MARK_STATE) == 0 ? value : state;
        id = strcmp(name, CLOUD_MARK_ID) == 0 ? value : id;
        session = strcmp(name, CLOUD_MARK_SESSION) == 0 ? value : session;
    }
    cloud_take_marks(c, state, id, session, out);
}

/* --- making ----------------------------------------------------------------------------------- */

/* A wish with everything it points to. */
struct wish {
    Modal__Sandbox box;
    Modal__Resources resources;
    Modal__NetworkAccess network;
    Modal__SchedulerPlacement placement;
    Modal__PortSpecs ports;
    Modal__PortSpec port[PORTS_MAX], *port_list[PORTS_MAX];
    Modal__VolumeMount mount[MOUNTS_MAX], *mount_list[MOUNTS_MAX];
};

static void add_port(struct wish *w, int64_t port)
{
    size_t i = w->ports.n_ports;

    if (i == PORTS_MAX)
        return;
    w->port[i] = (Modal__PortSpec)MODAL__PORT_SPEC__INIT;
    w->port[i].has_port = true;
    w->port[i].port = (uint32_t)port;
    w->port_list[i] = &w->port[i];
    w->ports.n_ports++;
}

/* What it writes is kept also if nobody asks for that. */
static int add_mounts(struct wish *w, const struct cloud_extras *e, struct tn_error *err)
{
    if (e->mount_count > MOUNTS_MAX)
        return tn_fail(err, TN_E_TOO_LARGE, "volumes: at most %d of them", MOUNTS_MAX);
    for (size_t i = 0; i < e->mount_count; i++) {
        const struct cloud_mount *m = &e->mounts[i];
        w->mount[i] = (Modal__VolumeMount)MODAL__VOLUME_MOUNT__INIT;
        w->mount[i].volume_id = m->which;
        w->mount[i].mount_path = m->of.inside;
        w->mount[i].sub_path = m->of.below;
        w->mount[i].has_allow_background_commits = w->mount[i].allow_background_commits = true;
        w->mount[i].has_read_only = w->mount[i].read_only = m->of.read_only;
        w->mount_list[i] = &w->mount[i];
    }
    w->box.volume_mounts = w->mount_list;
    w->box.n_volume_mounts = e->mount_count;
    return 0;
}

/* What is asked for is also what it gets at most. */
static int set_limits(struct wish *w, const struct tn_spec *spec, double timeout,
                      struct tn_error *err)
{
    Modal__Resources *r = &w->resources;
    struct tn_limits limits;

    if (tn_spec_limits(spec, &limits, err) < 0)
        return -1;
    r->has_memory_mb = r->has_memory_mb_max = limits.memory > 0;
    r->memory_mb = r->memory_mb_max = (uint32_t)((limits.memory + MIB - 1) / MIB);
    r->has_milli_cpu = r->has_milli_cpu_max = limits.cpus > 0;
    r->milli_cpu = r->milli_cpu_max = (uint32_t)ceil(limits.cpus * 1000);
    r->has_ephemeral_disk_mb = limits.disk > 0;
    r->ephemeral_disk_mb = (uint32_t)((limits.disk + MIB - 1) / MIB);
    w->box.has_timeout_secs = true;
    w->box.timeout_secs = (uint32_t)ceil(limits.wall_time > 0 ? limits.wall_time : timeout);
    return 0;
}

static int make_wish(const struct cloud *c, const struct tn_subject *s,
                     const struct cloud_extras *e, char *image, struct wish *w,
                     struct tn_error *err)
{
    static char *wait[] = {(char *)"sh", (char *)"-c",
                           (char *)"while :; do sleep 3600 & wait $!; done"};
    struct tn_config_modal *config = (struct tn_config_modal *)(uintptr_t)&c->host->config->modal;

    *w = (struct wish){MODAL__SANDBOX__INIT,
                       MODAL__RESOURCES__INIT,
                       MODAL__NETWORK_ACCESS__INIT,
                       MODAL__SCHEDULER_PLACEMENT__INIT,
                       MODAL__PORT_SPECS__INIT,
                       {},
                       {},
                       {},
                       {}};
    if (set_limits(w, s->spec, config->timeout, err) < 0 || add_mounts(w, e, err) < 0)
        return -1;
    w->box.entrypoint_args = wait;
    w->box.n_entrypoint_args = TN_COUNT(wait);
    w->box.image_id = image;
    w->box.resources = &w->resources;
    w->box.network_access = &w->network;
    w->network.has_network_access_type = true;
    w->network.network_access_type = e->fenced ? NETWORK_LISTED : NETWORK_OPEN;
    w->network.n_allowed_cidrs = e->nets.count;
    w->network.allowed_cidrs = e->nets.items;
    w->network.n_allowed_domains = e->names.count;
    w->network.allowed_domains = e->names.items;
    if (config->region && *config->region) {
        w->placement.n_regions = 1;
        w->placement.regions = &config->region;
        w->box.scheduler_placement = &w->placement;
    }
    w->ports.ports = w->port_list;
    w->box.open_ports = &w->ports;
    add_port(w, CLOUD_HAND_PORT);
    for (size_t i = 0; i < s->spec->ports.count; i++)
        add_port(w, s->spec->ports.items[i]);
    return 0;
}

/* A second call for the same sandbox is none where the platform remembers the first. */
static void key_of(const struct cloud *c, const struct tn_subject *s, char out[MODAL_UUID])
{
    unsigned char digest[TN_SHA256_BYTES];
    struct tn_sha256 hash;

    tn_sha256_init(&hash);
    tn_sha256_add(&hash, c->mark, strlen(c->mark));
    tn_sha256_add(&hash, s->id, strlen(s->id));
    tn_sha256_end(&hash, digest);
    modal_uuid(digest, out);
}

/* Its id, on the heap. */
static char *create(const struct cloud *c, const struct tn_subject *s, char *app, struct wish *w,
                    const struct tags *tags, int64_t deadline, struct tn_error *err)
{
    struct modal *m = modal_of(c);
    Modal__SandboxCreateV2Request v2 = MODAL__SANDBOX_CREATE_V2_REQUEST__INIT;
    Modal__SandboxCreateRequest v1 = MODAL__SANDBOX_CREATE_REQUEST__INIT;
    char key[MODAL_UUID];
    /* The answers of both begin with the id. */
    struct modal_call call = {.method = "SandboxCreateV2",
                              .in = &v2,
                              .out = &modal__sandbox_create_response__descriptor,
                              .key = key,
                              .unsafe = true,
                              .cancel = s->cancel};
    tn_autogrpc Modal__SandboxCreateResponse *got = NULL;
    struct tn_error why = {0};

    key_of(c, s, key);
    v1.app_id = v2.app_id = app;
    v1.definition = v2.definition = &w->box;
    v1.n_tags = v2.n_tags = tags->count;
    v1.tags = v2.tags = tags->list;
    v1.environment_name = m->login.environment;
    int failed = m->old ? -1 : modal_ask(c, &call, &got, deadline, &why);
    if (failed && (m->old || why.code == TN_E_METHOD)) {
        m->old = true;
        call.method = "SandboxCreate";
        call.in = &v1;
        failed = modal_ask(c, &call, &got, deadline, &why);
    }
    if (failed) {
        if (err)
            *err = why;
        return NULL;
    }
    if (got->sandbox_id && cloud_is_id(got->sandbox_id))
        return tn_strdup(got->sandbox_id);
    tn_fail(err, TN_E_PEER, "Modal tells of a sandbox without a usable id");
    return NULL;
}

int modal_make(const struct cloud *c, const struct tn_subject *s, const struct cloud_extras *e,
               struct cloud_view *out, int64_t deadline, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(CLOUD_BODY_MAX);
    TN_CLEANUP(tags_done) struct tags tags = {0};
    struct tn_jw w = tn_jw(&text);
    struct tn_error why = {0};
    struct wish wish;

    *out = (struct cloud_view){0};
    cloud_put_marks(c, s, NULL, &w);
    tn_autofree char *app = find_app(c, true, deadline, err);
    tn_autofree char *image = app ? have_image(c, s, app, deadline, &why) : NULL;
    tn_autofree char *id = NULL;
    if (image && make_tags(&text, &tags, &why) == 0 && make_wish(c, s, e, image, &wish, &why) == 0)
        id = create(c, s, app, &wish, &tags, deadline, &why);
    if (!id) {
        if (why.code == TN_E_NOT_FOUND)
            forget_app(c);
        if (app && err)
            *err = why;
        return -1;
    }
    if (modal_look(c, id, out, deadline, err) < 0)
        return -1;
    return out->known ? 0 : tn_fail(err, TN_E_PEER, "Modal has ended the sandbox at once");
}

/* --- tunnels ---------------------------------------------------------------------------------- */

/* "HOST[:PORT]" of that port, on the heap; NULL with err. */
static char *find_tunnel(const struct cloud *c, const char *id, int port, int64_t deadline,
                         struct tn_error *err)
{
    Modal__Who in = MODAL__WHO__INIT;
    const struct modal_call call = {.method = "SandboxGetTunnels",
                                    .about = id,
                                    .in = &in,
                                    .out = &modal__sandbox_get_tunnels_response__descriptor};
    tn_autogrpc Modal__SandboxGetTunnelsResponse *got = NULL;
    int left = tn_poll_ms(deadline) / 1000;

    in.id = (char *)(uintptr_t)id;
    in.has_timeout = true;
    in.timeout = (float)(left >= 0 && left < TUNNEL_SECONDS ? left : TUNNEL_SECONDS);
    if (modal_ask(c, &call, &got, deadline, err) < 0)
        return NULL;
    for (size_t i = 0; i < got->n_tunnels; i++) {
        const Modal__TunnelData *t = got->tunnels[i];
        if (!t->has_container_port || t->container_port != (uint32_t)port || !t->host ||
            strlen(t->host) > 253)
            continue;
        tn_autofree char *name = t->has_port && t->port != 443
                                     ? tn_asprintf("%s:%u", t->host, t->port)
                                     : tn_strdup(t->host);
        if (!strchr(t->host, ':') && cloud_is_host(name))
            return TN_TAKE_PTR(name);
    }
    tn_fail(err, TN_E_PEER, "Modal has no tunnel to port %d of the sandbox", port);
    return NULL;
}

char *modal_address(const struct cloud *c, struct cloud_view *v, int64_t deadline,
                    struct tn_error *err)
{
    const struct modal *m = modal_of(c);
    tn_autofree char *name = find_tunnel(c, v->id, CLOUD_HAND_PORT, deadline, err);

    if (!name)
        return NULL;
    return m->tunnels ? tn_asprintf("%s#Host=%s", m->tunnels, name)
                      : tn_asprintf("https://%s", name);
}

char *modal_port(const struct cloud *c, struct cloud_view *v, int port, int64_t deadline,
                 struct tn_error *err)
{
    tn_autofree char *name = find_tunnel(c, v->id, port, deadline, err);

    if (!name) {
        tn_error_context(err, "ports with tunnels are those that the sandbox was made with (-p)");
        return NULL;
    }
    return tn_asprintf("%.*s://%s", (int)strcspn(c->line.url, ":"), c->line.url, name);
}

/* --- looking ---------------------------------------------------------------------------------- */

static char *reason_of(const Modal__Result *result)
{
    tn_autofree char *words = result->exception ? cloud_sentence(result->exception) : NULL;

    if (result->status == TIMED_OUT)
        return tn_strdup("Modal has ended it at the end of its time (--wall-time, modal.timeout)");
    if (result->status == IDLE)
        return tn_strdup("Modal has ended it, since nobody used it");
    return words && *words ? TN_TAKE_PTR(words)
                           : tn_asprintf("it has ended (result %d)", result->status);
}

static int ask_about(const struct cloud *c, const char *method, const char *id,
                     const ProtobufCMessageDescriptor *of, void *out, int64_t deadline,
                     struct tn_error *err)
{
    Modal__Who in = MODAL__WHO__INIT;
    const struct modal_call call = {
        .method = method, .about = id, .in = &in, .out = of, .ends = true};

    in.id = (char *)(uintptr_t)id;
    in.has_timeout = strcmp(method, "SandboxWait") == 0; /* 0 seconds: as it is now */
    return modal_ask(c, &call, out, deadline, err);
}

int modal_look(const struct cloud *c, const char *id, struct cloud_view *out, int64_t deadline,
               struct tn_error *err)
{
    tn_autogrpc Modal__ResultOnly *wait = NULL;
    tn_autogrpc Modal__SandboxTagsGetResponse *tags = NULL;

    *out = (struct cloud_view){0};
    if (ask_about(c, "SandboxWait", id, &modal__result_only__descriptor, &wait, deadline, err) < 0)
        return -1;
    const Modal__Result *result =
        wait && wait->result && wait->result->status ? wait->result : NULL;
    if (!wait || (result && result->status == TERMINATED))
        return 0;
    if (ask_about(c, "SandboxTagsGet", id, &modal__sandbox_tags_get_response__descriptor, &tags,
                  deadline, err) < 0)
        return -1;
    if (!tags)
        return 0;
    *out = (struct cloud_view){.known = true,
                               .id = tn_strdup(id),
                               .status = result ? TN_STATUS_ERROR : TN_STATUS_RUNNING,
                               .reason = result ? reason_of(result) : NULL};
    read_marks(c, tags->tags, tags->n_tags, out);
    return 0;
}

/* --- lists ------------------------------------------------------------------------------------ */

static int ask_page(const struct cloud *c, const Modal__SandboxListRequest *in,
                    Modal__SandboxListResponse **page, int64_t deadline, struct tn_error *err)
{
    struct modal *m = modal_of(c);
    struct modal_call call = {
        .method = "SandboxListV2", .in = in, .out = &modal__sandbox_list_response__descriptor};
    struct tn_error why = {0};

    if (!m->old && modal_ask(c, &call, page, deadline, &why) == 0)
        return 0;
    if (m->old || why.code == TN_E_METHOD) {
        m->old = true;
        call.method = "SandboxList";
        return modal_ask(c, &call, page, deadline, err);
    }
    return cloud_fail(err, &why);
}

/* The next page begins before the oldest of this one; false: there is none. */
static bool add_page(const struct cloud *c, const Modal__SandboxListResponse *page, const char *id,
                     Modal__SandboxListRequest *in, struct cloud_pile *pile)
{
    double oldest = INFINITY;

    for (size_t i = 0; i < page->n_sandboxes; i++) {
        const Modal__SandboxInfo *info = page->sandboxes[i];
        if (info->has_created_at && info->created_at < oldest)
            oldest = info->created_at;
        if (!info->id || !cloud_is_id(info->id))
            continue;
        autocloudview struct cloud_view v = {
            .known = true, .id = tn_strdup(info->id), .status = TN_STATUS_RUNNING};
        read_marks(c, info->tags, info->n_tags, &v);
        cloud_pile_add(pile, &v, id);
    }
    bool more = oldest > 0 && isfinite(oldest) &&
                !(in->has_before_timestamp && oldest >= in->before_timestamp);
    in->has_before_timestamp = true;
    in->before_timestamp = oldest;
    return more;
}

/* It tells of the newest first, those alone that have not ended. */
int modal_each(const struct cloud *c, const char *id, cloud_found_fn fn, void *ctx,
               int64_t deadline, struct tn_error *err)
{
    Modal__SandboxListRequest in = MODAL__SANDBOX_LIST_REQUEST__INIT;
    tn_autobuf struct tn_buf text = TN_BUF_INIT(CLOUD_BODY_MAX);
    TN_CLEANUP(tags_done) struct tags tags = {0};
    autocloudpile struct cloud_pile pile = {0};
    struct tn_jw w = tn_jw(&text);
    struct tn_error why = {0};

    tn_jw_object(&w);
    tn_jw_kstr(&w, CLOUD_MARK_STATE, c->mark);
    if (id)
        tn_jw_kstr(&w, CLOUD_MARK_ID, id);
    tn_jw_object_end(&w);
    tn_autofree char *app = find_app(c, false, deadline, &why);
    if (!app && why.code == TN_E_NOT_FOUND)
        return 0;
    if (!app && err)
        *err = why;
    if (!app || make_tags(&text, &tags, err) < 0)
        return -1;
    in.app_id = app;
    in.environment_name = modal_of(c)->login.environment;
    in.n_tags = tags.count;
    in.tags = tags.list;
    for (int pages = 0; pages < MOST_PAGES && pile.count <= CLOUD_PILE_MAX; pages++) {
        tn_autogrpc Modal__SandboxListResponse *page = NULL;
        if (ask_page(c, &in, &page, deadline, err) < 0)
            return -1;
        if (!add_page(c, page, id, &in, &pile))
            return cloud_pile_tell(&pile, true, fn, ctx);
    }
    return tn_fail(err, TN_E_PEER, "Modal: its list of sandboxes has no end");
}

/* --- orders ----------------------------------------------------------------------------------- */

int modal_order(const struct cloud *c, const char *id, enum tn_goal goal, int64_t deadline,
                struct tn_error *err)
{
    if (goal != TN_GOAL_GONE)
        return tn_fail(err, TN_E_UNSUPPORTED, "what has ended on Modal cannot be started again");
    return ask_about(c, "SandboxTerminate", id, &modal__result_only__descriptor, NULL, deadline,
                     err);
}
