/* New devboxes: what they are made of, and what happens before they are handed out. */
#include <sys/utsname.h>

#include "service/blobs.h"
#include "service/dockerfile.h"
#include "service/openhands.h"
#include "service/runloop/runloop.h"

enum { SPEC_MAX = 16 << 10, SAID_MAX = 300, KEY_MAX = 255 };
/* Beyond the time that a start may take by itself. */
#define WAIT_MORE_SECONDS 5.0
#define LAUNCH_SECONDS 600.0
#define LAUNCH_TAG "tendon:launch"
#define ENTRYPOINT_TAG "tendon:entrypoint"

double runloop_start_seconds(const struct tn_service *s)
{
    return s->options->start_seconds + WAIT_MORE_SECONDS;
}

/* --- what a request wishes ------------------------------------------------------------------- */

static const struct tn_json *after_idle_of(const struct tn_json *parameters)
{
    const struct tn_json *newer = tn_json_get(tn_json_get(parameters, "lifecycle"), "after_idle");

    return newer ? newer : tn_json_get(parameters, "after_idle");
}

static bool is_other_architecture(const char *wanted)
{
    struct utsname here;

    if (!wanted || uname(&here))
        return false;
    return strcmp(wanted, strcmp(here.machine, "aarch64") == 0 ? "arm64" : here.machine) != 0;
}

static bool is_mount(const struct tn_json *mount, const char *type)
{
    return strcmp(tn_json_get_str(mount, "type", ""), type) == 0;
}

static int check_mounts(struct tn_service *s, const struct caller *who,
                        const struct tn_json *mounts, struct tn_error *err)
{
    for (size_t i = 0; i < tn_json_count(mounts); i++) {
        const struct tn_json *one = tn_json_at(mounts, i);
        autoblob struct blob object = {0};
        bool archive;
        if (is_mount(one, "object_mount") && *tn_json_get_str(one, "object_path", "")) {
            if (runloop_object(s, who, tn_json_get_str(one, "object_id", ""), &object, &archive,
                               err))
                return -1;
        } else if (!is_mount(one, "file_mount") || !tn_json_get_str(one, "target", NULL) ||
                   !tn_json_get_str(one, "content", NULL)) {
            return tn_fail(err, TN_E_INVALID,
                           "mounts: only file_mount and object_mount are served here");
        }
    }
    return 0;
}

/* What they have and this service has not is refused before anything is made. */
static int check_wish(struct tn_service *s, const struct caller *who, const struct tn_json *body,
                      const struct tn_json *parameters, struct tn_error *err)
{
    static const char *const absent[] = {"code_mounts", "secrets", "gateways", "mcp", "services"};
    const struct tn_json *hooks =
        tn_json_get(tn_json_get(parameters, "lifecycle"), "lifecycle_hooks");

    for (size_t i = 0; i < TN_COUNT(absent); i++)
        if (tn_json_count(tn_json_get(body, absent[i])))
            return tn_fail(err, TN_E_INVALID, "%s is not served here", absent[i]);
    if (tn_json_get_str(parameters, "network_policy_id", NULL))
        return tn_fail(err, TN_E_INVALID, "network_policy_id is not served here");
    if (tn_json_count(tn_json_get(parameters, "required_services")))
        return tn_fail(err, TN_E_INVALID, "required_services is not served here");
    if (tn_json_count(tn_json_get(hooks, "suspend_commands")))
        return tn_fail(err, TN_E_INVALID, "suspend_commands is not served here");
    if (is_other_architecture(tn_json_get_str(parameters, "architecture", NULL)))
        return tn_fail(err, TN_E_INVALID, "architecture: this machine has another one");
    return runloop_check_words(tn_json_get(body, "metadata"), err) ||
                   native_check_names(tn_json_get_str(body, "name", NULL), NULL, NULL, err) ||
                   check_mounts(s, who, tn_json_get(body, "mounts"), err)
               ? -1
               : 0;
}

/* Processors, and GiB of memory and disk. */
static const struct size {
    const char *word;
    double cpus;
    int64_t memory, disk;
} sizes[] = {
    {"X_SMALL", 0.5, 1, 4}, {"SMALL", 1, 2, 4},     {"MEDIUM", 2, 4, 8},
    {"LARGE", 2, 8, 16},    {"X_LARGE", 4, 16, 16}, {"XX_LARGE", 8, 32, 16},
};

static int read_size(const struct tn_json *parameters, struct size *out, struct tn_error *err)
{
    static const char *const custom[] = {"custom_cpu_cores", "custom_gb_memory",
                                         "custom_disk_size"};
    const char *word = tn_json_get_str(parameters, "resource_size_request", NULL);

    *out = (struct size){.word = word};
    if (!word || strcmp(word, "CUSTOM_SIZE") != 0)
        for (size_t i = 0; i < TN_COUNT(custom); i++)
            if (tn_json_type(tn_json_get(parameters, custom[i])) != TN_JSON_NULL)
                return tn_fail(err, TN_E_INVALID,
                               "%s: only with a resource_size_request of CUSTOM_SIZE", custom[i]);
    if (!word)
        return 0;
    for (size_t i = 0; i < TN_COUNT(sizes); i++)
        if (strcmp(word, sizes[i].word) == 0) {
            *out = sizes[i];
            return 0;
        }
    if (strcmp(word, "CUSTOM_SIZE") != 0)
        return tn_fail(err, TN_E_INVALID, "resource_size_request: there is no %.40s", word);
    out->cpus = tn_json_double(tn_json_get(parameters, "custom_cpu_cores"), 0);
    out->memory = tn_json_int(tn_json_get(parameters, "custom_gb_memory"), 0);
    out->disk = tn_json_int(tn_json_get(parameters, "custom_disk_size"), 0);
    if (!(out->cpus > 0 && out->cpus <= 16) || out->memory < 1 || out->memory > 64 ||
        out->disk < 0 || out->disk > 64)
        return tn_fail(err, TN_E_INVALID,
                       "CUSTOM_SIZE: expected custom_cpu_cores (at most 16) and custom_gb_memory "
                       "(1 to 64)");
    return 0;
}

static void put_gib(struct tn_jw *w, const char *key, int64_t gib)
{
    char text[24];

    snprintf(text, sizeof text, "%lldg", (long long)gib);
    if (gib)
        tn_jw_kstr(w, key, text);
}

/* The image that a blueprint begins with; where the runtime takes none by name each stands for its
 * own root. */
static int put_image(struct tn_service *s, const struct tn_json *body, struct tn_jw *w,
                     struct tn_error *err)
{
    const char *text = tn_json_get_str(body, "dockerfile", NULL);
    autodockerfile struct dockerfile d = {0};

    if (!text || !*text)
        return 0;
    if (dockerfile_read(text, tn_json_get(body, "build_args"),
                        tn_json_get(body, "build_context") ? RUNLOOP_CONTEXT : NULL, &d, err))
        return -1;
    if (strncmp(d.image, "runloop:", 8) == 0 || !openhands_takes_images(s, NULL))
        return 0;
    tn_jw_kstr(w, "image", d.image);
    tn_jw_kstr(w, "user", "root"); /* as who builds an image */
    return 0;
}

static int make_spec(struct tn_service *s, const struct caller *who, const char *template,
                     const struct tn_json *body, const struct size *size, struct tn_spec *spec,
                     struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(SPEC_MAX);
    tn_autojson struct tn_json *members = NULL;
    struct tn_jw w = tn_jw(&text);

    tn_jw_object(&w);
    if (size->cpus > 0)
        tn_jw_kdouble(&w, "cpus", size->cpus);
    put_gib(&w, "memory", size->memory);
    put_gib(&w, "disk", size->disk);
    if (put_image(s, body, &w, err))
        return -1;
    tn_jw_object_end(&w);
    if (tn_json_parse(tn_buf_str(&text), text.len, &members, err) ||
        native_spec(s, who, template, members, spec, err))
        return -1;
    if (!surface_add_env(tn_json_get(body, "environment_variables"), RUNLOOP_HOME, spec, err))
        return 0;
    tn_spec_done(spec);
    return -1;
}

/* Its times.  What the operator allows each sandbox bounds them; who says nothing gets no more. */
static int read_times(const struct tn_service *s, const struct caller *who,
                      const struct tn_json *parameters, struct box_wish *wish, struct tn_error *err)
{
    const struct tn_json *idle = after_idle_of(parameters);
    double most = surface_most_seconds(s, who);
    double wanted = tn_json_double(tn_json_get(parameters, "keep_alive_time_seconds"), 0);

    if (idle) {
        wish->idle_stop = tn_json_double(tn_json_get(idle, "idle_time_seconds"), 0);
        return wish->idle_stop >= 1 && wish->idle_stop <= 1e9
                   ? 0
                   : tn_fail(err, TN_E_INVALID, "idle_time_seconds: expected seconds");
    }
    if (!(wanted >= 0 && wanted <= 1e9))
        return tn_fail(err, TN_E_INVALID, "keep_alive_time_seconds: expected seconds");
    if (most > 0 && wanted > most)
        return tn_fail(err, TN_E_INVALID, "keep_alive_time_seconds: at most %g here", most);
    wish->timeout = wanted > 0 ? wanted : RUNLOOP_KEEP_ALIVE;
    if (most > 0 && wish->timeout > most)
        wish->timeout = most;
    return 0;
}

/* --- where it comes from --------------------------------------------------------------------- */

struct origin {
    const char *template; /* NULL: none */
    struct box *parent;   /* whose files it has: a snapshot or a blueprint */
    const char *snapshot; /* its id, or NULL */
    const char *blueprint;
};

static int find_snapshot(struct tn_service *s, const struct caller *who, const char *id,
                         struct origin *out, struct tn_error *err)
{
    autobox struct box *b = box_find(s, who->tenant, id, NULL);
    autoview struct box_view v = {0};

    if (b)
        box_look(b, &v);
    if (!b || v.goal == BOX_GONE || runloop_kind_of(&v) != RUNLOOP_SNAPSHOT)
        return tn_fail(err, TN_E_NOT_FOUND, "snapshot with id %.40s not found", id);
    out->parent = TN_TAKE_PTR(b);
    out->snapshot = box_id(out->parent);
    return 0;
}

/* Blueprints are those of the configuration, its templates, and what clients have built. */
static int find_origin(struct tn_service *s, const struct caller *who, const struct tn_json *body,
                       enum runloop_kind kind, struct origin *out, struct tn_error *err)
{
    bool base = kind == RUNLOOP_BLUEPRINT;
    const char *id = tn_json_get_str(body, base ? "base_blueprint_id" : "blueprint_id", NULL);
    const char *name = tn_json_get_str(body, base ? "base_blueprint_name" : "blueprint_name", NULL);
    const char *snapshot = tn_json_get_str(body, "snapshot_id", NULL);
    const char *prebuilt = tn_json_get_str(body, "prebuilt", NULL); /* of older clients */
    const char *word = id ? id : name ? name : prebuilt;

    *out = (struct origin){0};
    if (!!id + !!name + !!snapshot + !!prebuilt > 1)
        return tn_fail(err, TN_E_INVALID, "one of snapshot_id, blueprint_id and blueprint_name");
    if (snapshot)
        return find_snapshot(s, who, snapshot, out, err);
    if (!word)
        return 0;
    if (tn_config_template(tn_runtime_host(s->rt)->config, word)) {
        out->template = out->blueprint = word;
        return 0;
    }
    out->parent = runloop_blueprint(s, who, id, id ? NULL : word, err);
    out->blueprint = out->parent ? box_id(out->parent) : NULL;
    return out->parent ? 0 : -1;
}

/* --- create ---------------------------------------------------------------------------------- */

static struct tn_json *make_metadata(const struct tn_json *body, enum runloop_kind kind,
                                     const struct tn_json *parameters, const struct origin *from,
                                     const char *member, const char *value, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(RUNLOOP_BODY_MAX);
    tn_autojson struct tn_json *record = NULL;
    struct tn_jw w = tn_jw(&text);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "kind", runloop_kinds[kind]);
    tn_jw_key(&w, "launch_parameters");
    tn_jw_tree(&w, parameters);
    tn_jw_kstr(&w, "blueprint_id", from->blueprint);
    tn_jw_kstr(&w, "snapshot_id", from->snapshot);
    tn_jw_object_end(&w);
    if (tn_json_parse(tn_buf_str(&text), text.len, &record, err))
        return NULL;
    return runloop_metadata(tn_json_get(body, "metadata"), record, member, value, err);
}

const char *runloop_idempotency(const struct tn_http_exchange *x)
{
    const char *id = tn_http_header(x, "X-Request-Id");
    bool theirs =
        id && (tn_http_header(x, "X-Stainless-Lang") || strncmp(id, "stainless-", 10) == 0);

    return theirs && *id && strlen(id) <= KEY_MAX ? id : NULL;
}

static struct box *make(struct tn_service *s, const struct caller *who, const struct origin *from,
                        const struct tn_json *body, const struct size *size, struct box_wish *wish,
                        struct tn_error *err)
{
    const struct tn_json *const given[2] = {tn_json_get(body, "environment_variables")};
    struct box *b = NULL;

    if (from->parent && size->word) {
        tn_fail(err, TN_E_INVALID,
                "resource_size_request: a devbox from a snapshot or a blueprint has that of its "
                "origin");
    } else if (from->parent) {
        b = surface_fork(from->parent, who, given, RUNLOOP_HOME, NULL, wish, err);
    } else if (make_spec(s, who, from->template, body, size, &wish->spec, err) == 0) {
        b = box_create(s, who, wish, NULL, err);
        tn_spec_done(&wish->spec);
    }
    return b;
}

struct box *runloop_create(struct tn_http_exchange *x, struct tn_service *s,
                           const struct tn_json *body, enum runloop_kind kind, const char *member,
                           const char *value, struct tn_error *err)
{
    const struct caller *who = caller_of(x);
    const struct tn_json *parameters = tn_json_get(body, "launch_parameters");
    struct box_wish wish = {.idle_pause = -1,
                            .idle_stop = -1,
                            .ttl = -1,
                            .name = tn_json_get_str(body, "name", NULL),
                            .idempotency = runloop_idempotency(x),
                            .digest = runloop_kinds[kind]};
    struct origin from;
    struct size size;

    if (check_wish(s, who, body, parameters, err) || read_size(parameters, &size, err) ||
        read_times(s, who, parameters, &wish, err) || find_origin(s, who, body, kind, &from, err))
        return NULL;
    autobox struct box *parent = from.parent;
    autoview struct box_view v = {0};
    if (parent && !parameters) {
        box_look(parent, &v);
        parameters = tn_json_get(runloop_record(&v), "launch_parameters");
    }
    tn_autojson struct tn_json *metadata =
        make_metadata(body, kind, parameters, &from, member, value, err);
    if (!metadata)
        return NULL;
    wish.template = from.template;
    wish.metadata = metadata;
    return make(s, who, &from, body, &size, &wish, err);
}

/* --- before it is handed out ----------------------------------------------------------------- */

static int keep_said(const struct tn_process_piece *piece, void *ctx)
{
    if (piece->kind == TN_PROCESS_ERR)
        tn_buf_add(ctx, piece->bytes, piece->n);
    return 0;
}

/* Waits for its end; `what` is told where it fails. */
static int run_script(struct tn_http_exchange *x, struct box *b, const char *script,
                      const char *tag, const char *what, struct tn_error *err)
{
    const struct runloop_command c = {.text = script, .tag = tag, .idempotency = tag};
    tn_autobuf struct tn_buf said = TN_BUF_INIT(SAID_MAX);
    tn_autostatus struct tn_process_status status = {0};
    struct process_started started;

    if (runloop_start(x, b, &c, &started, err) ||
        process_wait(b, started.id, &status, tn_http_fd(x), tn_deadline_in(LAUNCH_SECONDS), err))
        return -1;
    int64_t exit_status = runloop_exit_status(&status);
    if (exit_status == 0)
        return 0;
    struct tn_process_follow f = {0}; /* what it said may come after its end */
    process_follow(b, started.id, &f, keep_said, &said, -1, tn_deadline_in(RUNLOOP_SECONDS), NULL);
    return tn_fail(err, TN_E_INVALID, "%.100s: exit status %lld: %s", what, (long long)exit_status,
                   tn_buf_str(&said));
}

struct writing {
    const struct tn_http_exchange *x;
    int64_t deadline;
    struct tn_hand_files *files;
    const char *home;
    struct tn_error *err;
};

static int write_mount(const char *path, struct tn_json *value, void *ctx)
{
    const struct writing *w = ctx;
    size_t n = 0;
    const char *text = tn_json_str(value, &n);
    tn_autofree char *whole = surface_path(w->home, path);

    if (!text)
        return tn_fail(w->err, TN_E_INVALID, "file_mounts: expected texts");
    if (tn_http_peer_gone(w->x))
        return tn_fail(w->err, TN_E_GONE, "the client has gone");
    return tn_hand_files_put(w->files, whole, text, n, w->deadline, w->err);
}

int runloop_write_object(const struct tn_http_exchange *x, struct box *b, const char *id,
                         const char *path, struct tn_error *err)
{
    tn_autofree char *home = NULL;
    autoblob struct blob object = {0};
    bool archive;

    if (tn_http_peer_gone(x))
        return tn_fail(err, TN_E_GONE, "the client has gone");
    if (runloop_object(box_service(b), caller_of(x), id, &object, &archive, err))
        return -1;
    tn_autofd int fd = blob_open(box_service(b), &object, err);
    tn_autofiles struct tn_hand_files *f = fd < 0 ? NULL : runloop_files(x, b, &home, err);
    tn_autofree char *whole = f ? surface_path(home, path) : NULL;
    return f ? tn_hand_files_write(f, whole, fd, object.size, -1, NULL, NULL,
                                   tn_deadline_in(SURFACE_WRITE_SECONDS), err)
             : -1;
}

/* An archive is unpacked, in the devbox and by its tar. */
static int mount_object(struct tn_http_exchange *x, struct box *b, const struct tn_json *mount,
                        size_t number, struct tn_error *err)
{
    const char *id = tn_json_get_str(mount, "object_id", ""),
               *path = tn_json_get_str(mount, "object_path", "");
    tn_autobuf struct tn_buf script = TN_BUF_INIT(64 << 10);
    autoblob struct blob object = {0};
    bool archive;

    if (runloop_object(box_service(b), caller_of(x), id, &object, &archive, err))
        return -1;
    if (!archive)
        return runloop_write_object(x, b, id, path, err);
    tn_autofree char *tar = tn_asprintf("/tmp/.tendon-object-%zu", number),
                     *tag = tn_asprintf("tendon:object-%zu", number);
    tn_buf_puts(&script, "set -e; trap 'rm -f ");
    tn_buf_printf(&script, "%s' EXIT; d=", tar);
    surface_add_quoted(&script, path, strlen(path));
    tn_buf_printf(&script, "; mkdir -p -- \"$d\"; tar -xof %s -C \"$d\"\n", tar);
    return runloop_write_object(x, b, id, tar, err) ||
           run_script(x, b, tn_buf_str(&script), tag, path, err);
}

int runloop_write_mounts(struct tn_http_exchange *x, struct box *b, const struct tn_json *body,
                         struct tn_error *err)
{
    const struct tn_json *map = tn_json_get(body, "file_mounts"),
                         *list = tn_json_get(body, "mounts");
    tn_autofree char *home = NULL;

    if (!tn_json_count(map) && !tn_json_count(list))
        return 0;
    tn_autofiles struct tn_hand_files *f = runloop_files(x, b, &home, err);
    struct writing w = {.x = x,
                        .deadline = tn_deadline_in(SURFACE_WRITE_SECONDS),
                        .files = f,
                        .home = home,
                        .err = err};
    int failed = f ? tn_json_each(map, write_mount, &w) : -1;
    for (size_t i = 0; !failed && i < tn_json_count(list); i++) {
        const struct tn_json *one = tn_json_at(list, i);
        failed = is_mount(one, "object_mount") ? mount_object(x, b, one, i, err)
                                               : write_mount(tn_json_get_str(one, "target", ""),
                                                             tn_json_get(one, "content"), &w);
    }
    return failed;
}

/* Once more is the same as once: clients that lost patience ask again. */
static int prepare(struct tn_http_exchange *x, struct box *b, const struct tn_json *body,
                   struct tn_error *err)
{
    const char *entrypoint = tn_json_get_str(body, "entrypoint", NULL);
    const struct runloop_command c = {
        .text = entrypoint, .tag = ENTRYPOINT_TAG, .idempotency = ENTRYPOINT_TAG};
    struct process_started started;
    autoview struct box_view v;

    box_look(b, &v);
    const struct tn_json *commands =
        tn_json_get(tn_json_get(runloop_record(&v), "launch_parameters"), "launch_commands");
    if (!tn_json_count(commands) && !entrypoint && !tn_json_count(tn_json_get(body, "mounts")) &&
        !tn_json_count(tn_json_get(body, "file_mounts")))
        return 0;
    tn_autofree char *script = runloop_script(commands);
    if (surface_await(b, runloop_start_seconds(box_service(b)), err) ||
        runloop_write_mounts(x, b, body, err) ||
        (tn_json_count(commands) && run_script(x, b, script, LAUNCH_TAG, "launch_commands", err)))
        return -1;
    return entrypoint ? runloop_start(x, b, &c, &started, err) : 0;
}

/* One that did not come to life is removed, unless its client has gone and may ask again. */
static void create(struct tn_http_exchange *x, struct tn_service *s, bool wait)
{
    tn_autojson struct tn_json *body = NULL;
    struct tn_error err = {0};

    if (!caller_may(x, SCOPE_MANAGE) || surface_body(x, RUNLOOP_BODY_MAX, &body))
        return;
    const struct tn_json *wish = tn_json_get(body, "tunnel");
    tn_autofree char *tunnel = wish ? runloop_new_tunnel(wish) : NULL;
    autobox struct box *b = runloop_create(x, s, body, RUNLOOP_DEVBOX, "tunnel", tunnel, &err);
    if (native_audit(x, s, "sandbox.create", b ? box_id(b) : NULL, b ? NULL : &err))
        return;
    if (!b) {
        reply_error(x, &err);
        return;
    }
    int failed = prepare(x, b, body, &err);
    if (!failed && wait && surface_await(b, RUNLOOP_POLL_SECONDS, &err))
        failed = err.code == TN_E_TIMEOUT ? 0 : -1; /* clients wait on */
    if (!failed) {
        runloop_reply_devbox(x, b);
        return;
    }
    if (!tn_http_peer_gone(x))
        box_order(b, caller_of(x), ORDER_DELETE, tn_now(), NULL);
    reply_error(x, &err);
}

static void post_devboxes(struct tn_http_exchange *x, void *ctx)
{
    create(x, ctx, false);
}

static void post_and_wait(struct tn_http_exchange *x, void *ctx)
{
    create(x, ctx, true);
}

const struct tn_route routes_runloop_create[] = {
    {"POST", "/v1/devboxes", post_devboxes, "Runloop: a new devbox", 0},
    {"POST", "/v1/devboxes/create_and_await_running", post_and_wait,
     "Runloop: a new devbox, once it runs", 0},
    {0},
};
