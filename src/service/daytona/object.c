/* A sandbox as clients of Daytona see it. */
#include <stdarg.h>

#include "gate/rules.h"
#include "service/clock.h"
#include "service/daytona/daytona.h"
#include "service/openhands.h"
#include "service/volume.h"

enum { GIB = 1 << 30, METADATA_MAX = 64 << 10 };
#define SETTINGS "daytona" /* a member of the metadata that is no text, hence no label */

/* --- clients and errors ---------------------------------------------------------------------- */

int daytona_version(const struct tn_http_exchange *x)
{
    const char *text = tn_http_header(x, "X-Daytona-SDK-Version");

    return text && strncmp(text, "0.", 2) == 0 ? (int)strtol(text + 2, NULL, 10) : INT32_MAX;
}

static bool is_toolbox(const struct tn_http_exchange *x)
{
    return strncmp(tn_http_path(x), DAYTONA_TOOLBOX "/", sizeof DAYTONA_TOOLBOX) == 0;
}

/* Clients have classes of errors by these words. */
static const char *word_of(const char *path, int status)
{
    static const struct {
        const char *below;
        int status;
        const char *word;
    } words[] = {
        {"/files", 400, "INVALID_FILE_PATH"}, {"/files", 403, "FILE_ACCESS_DENIED"},
        {"/files", 404, "FILE_NOT_FOUND"},    {"/process", 404, "PROCESS_NOT_FOUND"},
        {"/process", 410, "SESSION_ENDED"},   {"/process", 408, "PROCESS_EXECUTION_TIMEOUT"},
        {"/git", 404, "GIT_REPO_NOT_FOUND"},
    };

    for (size_t i = 0; i < TN_COUNT(words); i++)
        if (words[i].status == status && strstr(path, words[i].below))
            return words[i].word;
    return NULL;
}

int daytona_reply(struct tn_http_exchange *x, int status, const char *code, const char *detail)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(32 << 10);
    struct tn_jw w = tn_jw(&json);
    const char *path = tn_http_path(x), *word = is_toolbox(x) ? word_of(path, status) : NULL;

    status = status == 422 ? 400 : status;
    tn_jw_object(&w);
    tn_jw_kint(&w, "statusCode", status);
    tn_jw_kstr(&w, "message", detail);
    tn_jw_kstr(&w, "error", tn_http_reason(status));
    /* A word of theirs has capitals. */
    if (code && *code >= 'A' && *code <= 'Z')
        word = code;
    if (word || (code && !is_toolbox(x)))
        tn_jw_kstr(&w, "code", word ? word : code);
    if (is_toolbox(x))
        tn_jw_kstr(&w, "source", "DAYTONA_DAEMON");
    tn_jw_kstr(&w, "method", tn_http_method(x));
    tn_jw_kstr(&w, "path", path);
    openhands_put_time(&w, "timestamp", service_time());
    tn_jw_object_end(&w);
    return tn_http_reply_json(x, status, &json);
}

int daytona_fail(struct tn_http_exchange *x, int status, const char *code, const char *fmt, ...)
{
    char text[1024];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    daytona_reply(x, status, code, text);
    return -1;
}

/* --- which one ------------------------------------------------------------------------------- */

static int take_first(struct box *b, void *ctx)
{
    autoview struct box_view v;

    box_look(b, &v);
    if (surface_is_layer(&v))
        return 0;
    snprintf(ctx, 11, "%s", box_id(b));
    return 1;
}

struct box *daytona_box(struct tn_http_exchange *x, struct tn_service *s, unsigned scope)
{
    const char *given = tn_http_param(x, "id"), *tenant;
    struct tn_error err = {0};
    char id[11] = "";

    if (!caller_may(x, scope))
        return NULL;
    tenant = caller_of(x)->tenant;
    struct box *b = surface_box(s, tenant, given, NULL);
    if (!b &&
        box_each(s, &(struct box_filter){.tenant = tenant, .name = given, .newest_first = true},
                 take_first, id, NULL))
        b = box_find(s, tenant, id, NULL);
    if (!b) {
        tn_fail(&err, TN_E_NOT_FOUND, "Sandbox with ID or name %.100s not found", given);
        reply_error(x, &err);
    }
    return b;
}

/* --- its words ------------------------------------------------------------------------------- */

static bool is_going(const struct box_view *v, enum box_state where)
{
    return v->goal == where && v->state != where;
}

const char *daytona_state(const struct tn_http_exchange *x, const struct box_view *v)
{
    bool pauses = daytona_version(x) >= DAYTONA_PAUSES;

    static const char *const builds[] = {[DAYTONA_PENDING] = "pending_build",
                                         [DAYTONA_BUILDING] = "building_snapshot",
                                         [DAYTONA_FAILED] = "build_failed"};
    const enum daytona_build build = daytona_build_of(v, NULL, NULL);

    if (v->goal == BOX_GONE)
        return "destroying";
    if (build < TN_COUNT(builds) && builds[build])
        return builds[build];
    switch (v->state) {
    case BOX_STARTING:
        return v->started > 0 ? "starting" : "creating";
    case BOX_RUNNING:
        return is_going(v, BOX_PAUSED) && pauses                     ? "pausing"
               : is_going(v, BOX_PAUSED) || is_going(v, BOX_STOPPED) ? "stopping"
                                                                     : "started";
    case BOX_PAUSED:
    case BOX_STOPPED:
        return is_going(v, BOX_RUNNING)           ? "starting"
               : is_going(v, BOX_STOPPED)         ? "stopping"
               : v->state == BOX_PAUSED && pauses ? "paused"
                                                  : "stopped";
    case BOX_ERROR:
        return "error";
    case BOX_MISSING:
    case BOX_GONE:
        break;
    }
    return "destroyed";
}

static const char *desired(const struct box_view *v)
{
    return v->goal == BOX_GONE                               ? "destroyed"
           : v->goal == BOX_STOPPED || v->goal == BOX_PAUSED ? "stopped"
                                                             : "started";
}

static int put_text(const char *key, struct tn_json *value, void *w)
{
    if (tn_json_type(value) == TN_JSON_STRING)
        tn_jw_kstr(w, key, tn_json_str(value, NULL));
    return 0;
}

void daytona_put_labels(struct tn_jw *w, const struct tn_json *metadata)
{
    tn_jw_object(w);
    tn_json_each(metadata, put_text, w);
    tn_jw_object_end(w);
}

void daytona_settings_of(const struct tn_json *metadata, struct daytona_settings *out)
{
    const struct tn_json *kept = tn_json_get(metadata, SETTINGS);

    out->public = tn_json_bool(tn_json_get(kept, "public"), false);
    out->archive = tn_json_int(tn_json_get(kept, "archive"), 0);
    out->remove = tn_json_int(tn_json_get(kept, "remove"), -1);
    out->pause = tn_json_int(tn_json_get(kept, "pause"), 0);
    out->signing = tn_json_int(tn_json_get(kept, "signing"), 0);
    out->target = tn_json_get_str(kept, "target", NULL);
    out->snapshot = tn_json_get_str(kept, "snapshot", NULL);
    out->build = tn_json_get(kept, "build");
}

int daytona_metadata(const struct tn_json *labels, const struct daytona_settings *settings,
                     struct tn_json **out, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(METADATA_MAX);
    struct tn_jw w = tn_jw(&text);
    const struct tn_json *taken = tn_json_get(labels, SETTINGS);

    if (taken && tn_json_type(taken) == TN_JSON_STRING)
        return tn_fail(err, TN_E_INVALID, "labels: the name " SETTINGS " is taken");
    tn_jw_object(&w);
    tn_json_each(labels, put_text, &w);
    tn_jw_key(&w, SETTINGS);
    tn_jw_object(&w);
    tn_jw_kbool(&w, "public", settings->public);
    tn_jw_kint(&w, "archive", settings->archive);
    tn_jw_kint(&w, "remove", settings->remove);
    tn_jw_kint(&w, "pause", settings->pause);
    if (settings->signing)
        tn_jw_kint(&w, "signing", settings->signing);
    if (settings->target)
        tn_jw_kstr(&w, "target", settings->target);
    if (settings->snapshot)
        tn_jw_kstr(&w, "snapshot", settings->snapshot);
    if (settings->build) {
        tn_jw_key(&w, "build");
        tn_jw_tree(&w, settings->build);
    }
    tn_jw_object_end(&w);
    tn_jw_object_end(&w);
    if (!tn_buf_ok(&text))
        return tn_fail(err, TN_E_INVALID, "labels: more than %d KiB", METADATA_MAX >> 10);
    return tn_json_parse(tn_buf_str(&text), text.len, out, err) ||
                   native_check_names(NULL, NULL, *out, err)
               ? -1
               : 0;
}

/* --- all of it ------------------------------------------------------------------------------- */

static int64_t gib(int64_t bytes)
{
    return (bytes + GIB - 1) / GIB;
}

/* Values of variables are for who may use it. */
static void put_env(const struct tn_http_exchange *x, struct tn_jw *w, const struct box_view *v)
{
    tn_jw_key(w, "env");
    tn_jw_object(w);
    if (caller_of(x)->scopes & (SCOPE_USE | SCOPE_ADMIN))
        tn_json_each(v->spec.env, put_text, w);
    tn_jw_object_end(w);
}

static void put_rules(struct tn_jw *w, const struct tn_rules *rules, const char *member, bool names)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(METADATA_MAX);
    char address[TN_ADDRESS_TEXT];

    for (size_t i = 0; i < rules->count; i++) {
        const struct tn_rule *r = &rules->items[i];
        if (names != !!r->name || r->denies)
            continue;
        tn_buf_puts(&text, text.len ? "," : "");
        if (names)
            tn_buf_printf(&text, "%s%s", r->below ? "*." : "", r->name);
        else
            tn_buf_printf(&text, "%s/%d", tn_address_text(&r->net, address), r->bits);
    }
    if (text.len && tn_buf_ok(&text))
        tn_jw_kstr(w, member, tn_buf_str(&text));
}

/* What it may reach, as a create says that: its nets and its names. */
static void put_network(struct tn_jw *w, const struct box_view *v)
{
    tn_autorules struct tn_rules rules = {0};
    bool fenced = v->spec.network == TN_NETWORK_ALLOW;

    if (fenced)
        box_rules(v->box, &rules);
    tn_jw_kbool(w, "networkBlockAll",
                v->spec.network == TN_NETWORK_NONE || (fenced && rules.count == 0));
    put_rules(w, &rules, "networkAllowList", false);
    put_rules(w, &rules, "domainAllowList", true);
}

static void put_volumes(struct tn_jw *w, const struct box_view *v)
{
    tn_jw_key(w, "volumes");
    tn_jw_array(w);
    for (size_t i = 0; i < v->spec.volumes.count; i++) {
        tn_autovolume struct tn_volume one = {0};
        const char *name;
        if (!volume_read(box_service(v->box), v->tenant, v->spec.volumes.items[i], &one, &name))
            continue;
        tn_jw_object(w);
        tn_jw_kstr(w, "volumeId", name);
        tn_jw_kstr(w, "mountPath", one.inside);
        if (one.below)
            tn_jw_kstr(w, "subpath", one.below + 1);
        tn_jw_object_end(w);
    }
    tn_jw_array_end(w);
}

static void put_times(struct tn_jw *w, const struct box_view *v, const struct daytona_settings *s)
{
    tn_jw_kint(w, "autoStopInterval", (int64_t)(v->idle_stop > 0 ? v->idle_stop / 60 : 0));
    tn_jw_kint(w, "autoArchiveInterval", s->archive);
    tn_jw_kint(w, "autoDeleteInterval", s->remove);
    tn_jw_kint(w, "autoPauseInterval", s->pause);
    if (v->expires > 0)
        openhands_put_time(w, "autoDestroyAt", v->expires);
    openhands_put_time(w, "createdAt", v->created);
    openhands_put_time(w, "updatedAt", v->started > v->created ? v->started : v->created);
    openhands_put_time(w, "lastActivityAt", v->used > v->created ? v->used : v->created);
}

void daytona_put(struct tn_http_exchange *x, struct tn_jw *w, const struct box_view *v)
{
    struct surface_size size = surface_size_of(v);
    tn_autofree char *base = base_url(x);
    tn_autofree char *toolbox = tn_asprintf("%s" DAYTONA_TOOLBOX, base);
    struct daytona_settings settings;
    const char *log;

    daytona_settings_of(v->metadata, &settings);
    tn_jw_object(w);
    tn_jw_kstr(w, "id", v->id);
    tn_jw_kstr(w, "organizationId", v->tenant);
    tn_jw_kstr(w, "name", v->name && *v->name ? v->name : v->id);
    if (settings.snapshot || v->template)
        tn_jw_kstr(w, "snapshot", settings.snapshot ? settings.snapshot : v->template);
    tn_jw_kstr(w, "user", v->spec.user ? v->spec.user : "daytona");
    put_env(x, w, v);
    tn_jw_key(w, "labels");
    daytona_put_labels(w, v->metadata);
    tn_jw_kbool(w, "public", settings.public && box_service(v->box)->options->public_previews);
    put_network(w, v);
    tn_jw_kbool(w, "kvm", false);
    tn_jw_kstr(w, "target", settings.target ? settings.target : "local");
    tn_jw_kint(w, "cpu", size.cpus);
    tn_jw_kint(w, "gpu", 0);
    tn_jw_kint(w, "memory", gib(size.memory));
    tn_jw_kint(w, "disk", gib(size.disk));
    tn_jw_kstr(w, "state", daytona_state(x, v));
    tn_jw_kstr(w, "desiredState", desired(v));
    if (daytona_build_of(v, NULL, &log) == DAYTONA_FAILED)
        tn_jw_kstr(w, "errorReason", log ? log : "the build has failed");
    else if (v->reason && v->state == BOX_ERROR)
        tn_jw_kstr(w, "errorReason", v->reason);
    tn_jw_kbool(w, "recoverable", v->state == BOX_ERROR);
    put_times(w, v, &settings);
    put_volumes(w, v);
    tn_jw_kstr(w, "toolboxProxyUrl", toolbox);
    tn_jw_object_end(w);
}

void daytona_reply_box(struct tn_http_exchange *x, int status, struct box *b)
{
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, DAYTONA_ANSWER_MAX);
    struct tn_jw w = tn_jw(&json);
    autoview struct box_view v;

    daytona_see(b, &v);
    daytona_put(x, &w, &v);
    tn_http_reply_json(x, status, &json);
}
