/* Images: what a Dockerfile says is done inside a box, as one process.
 *
 * A sandbox of an image is that box itself.  A snapshot of one is a box that rests, of which
 * sandboxes are forked.  How far a build is stands in the settings of its box: the first who sees
 * the end of the process notes it. */
#include "service/clock.h"
#include "service/daytona/daytona.h"

#define BUILD_TAG "tendon:image"
#define PENDING_SECONDS 60.0 /* more than a start takes: the service was killed meanwhile */
enum { TAIL = 2 << 10, RECORD_MAX = 32 << 10 };

static const char *const words[] = {[DAYTONA_NO_BUILD] = "",
                                    [DAYTONA_PENDING] = "pending",
                                    [DAYTONA_BUILDING] = "building",
                                    [DAYTONA_BUILT] = "ready",
                                    [DAYTONA_FAILED] = "failed"};

enum daytona_build daytona_build_of(const struct box_view *v, const char **name, const char **log)
{
    struct daytona_settings settings;
    size_t i = TN_COUNT(words) - 1;

    daytona_settings_of(v->metadata, &settings);
    if (name)
        *name = tn_json_get_str(settings.build, "name", NULL);
    if (log)
        *log = tn_json_get_str(settings.build, "log", NULL);
    const char *word = tn_json_get_str(settings.build, "state", "");
    while (i && strcmp(word, words[i]) != 0)
        i--;
    return (enum daytona_build)i;
}

bool daytona_is_layer(const struct box_view *v)
{
    const char *name = NULL;

    daytona_build_of(v, &name, NULL);
    return name != NULL;
}

struct tn_json *daytona_build_record(const char *name, const char *source, enum daytona_build state,
                                     const char *log, size_t n)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(RECORD_MAX);
    struct tn_json *record = NULL;
    struct tn_jw w = tn_jw(&text);

    tn_jw_object(&w);
    if (name)
        tn_jw_kstr(&w, "name", name);
    if (source)
        tn_jw_kstr(&w, "source", source);
    tn_jw_kstr(&w, "state", words[state]);
    if (n) {
        tn_jw_key(&w, "log");
        tn_jw_strn(&w, log, n);
    }
    tn_jw_object_end(&w);
    tn_json_parse(tn_buf_str(&text), text.len, &record, NULL);
    return record;
}

/* Done by the service: who looks may be a key that only reads. */
static int note(struct box *b, enum daytona_build state, const char *log, size_t n,
                struct tn_error *err)
{
    tn_autojson struct tn_json *record = NULL, *metadata = NULL;
    struct daytona_settings settings;
    autoview struct box_view v;
    const double never = 0;

    box_look(b, &v);
    daytona_settings_of(v.metadata, &settings);
    record =
        daytona_build_record(tn_json_get_str(settings.build, "name", NULL), NULL, state, log, n);
    settings.build = record;
    return daytona_metadata(v.metadata, &settings, &metadata, err) ||
                   box_change(
                       b, NULL,
                       &(struct box_change){.metadata = metadata,
                                            .timeout = state == DAYTONA_BUILDING ? NULL : &never},
                       err)
               ? -1
               : 0;
}

int daytona_build_start(struct tn_http_exchange *x, struct box *b, const char *script,
                        struct tn_error *err)
{
    static const char *const shell[] = {"/bin/bash", "-c"};
    tn_autoprocess struct tn_process_spec spec = {.cwd = tn_strdup("/"),
                                                  .tag = tn_strdup(BUILD_TAG)};
    const struct process_how how = {
        .request = request_id(x), .purse = purse_of(x), .watch = tn_http_fd(x)};
    struct process_started started;
    autoview struct box_view v;

    box_look(b, &v);
    for (size_t i = 0; i < TN_COUNT(shell); i++)
        surface_add_arg(&spec.args, shell[i]);
    surface_add_arg(&spec.args, script);
    return surface_process_env(x, tn_json_get_str(v.spec.env, "HOME", NULL), NULL, &spec.env,
                               err) ||
                   process_start(b, caller_of(x), &spec, &how, &started, err) ||
                   note(b, DAYTONA_BUILDING, NULL, 0, err)
               ? -1
               : 0;
}

/* --- its end --------------------------------------------------------------------------------- */

/* The last that it said. */
struct tail {
    char text[TAIL];
    size_t n;
};

static int keep_tail(const struct tn_process_piece *piece, void *ctx)
{
    struct tail *t = ctx;
    const char *bytes = piece->bytes;
    size_t n = piece->n;

    if (piece->kind != TN_PROCESS_OUT && piece->kind != TN_PROCESS_ERR)
        return 0;
    if (n > TAIL) {
        bytes += n - TAIL;
        n = TAIL;
    }
    size_t kept = t->n + n > TAIL ? TAIL - n : t->n;
    memmove(t->text, t->text + t->n - kept, kept);
    memcpy(t->text + kept, bytes, n);
    t->n = kept + n;
    return 0;
}

/* Whether the build of this box has ended; then that is noted, and one that is no sandbox rests. */
static bool see_end(struct box *b, const struct box_view *v)
{
    int64_t soon = tn_deadline_in(DAYTONA_SECONDS / 2);
    tn_autostatus struct tn_process_status status = {0};
    struct tn_process_follow f = {.now = true};
    struct tn_error err = {0};
    struct tail tail = {0};
    const char *name;
    enum daytona_build state = daytona_build_of(v, &name, NULL);

    if (v->state == BOX_STARTING || (state != DAYTONA_PENDING && state != DAYTONA_BUILDING))
        return false;
    if (state == DAYTONA_PENDING &&
        service_time() - v->created < box_service(b)->options->start_seconds + PENDING_SECONDS)
        return false;
    bool lost = v->goal != BOX_RUNNING || (process_look(b, "tag:" BUILD_TAG, &status, soon, &err) &&
                                           err.code == TN_E_NOT_FOUND);
    if (!lost && (err.code || status.running))
        return false;
    bool good = !lost && daytona_exit_code(&status) == 0;
    if (lost)
        tail.n = (size_t)snprintf(tail.text, TAIL, "the build was interrupted");
    else
        process_follow(b, "tag:" BUILD_TAG, &f, keep_tail, &tail, -1, soon, NULL);
    if (note(b, good ? DAYTONA_BUILT : DAYTONA_FAILED, tail.text, tail.n, NULL) == 0 &&
        (name || !good))
        box_order(b, NULL, ORDER_STOP, soon, NULL);
    return true;
}

void daytona_see(struct box *b, struct box_view *v)
{
    box_look(b, v);
    if (!see_end(b, v))
        return;
    box_view_done(v);
    box_look(b, v);
}

/* --- what it says ---------------------------------------------------------------------------- */

static int send_piece(const struct tn_process_piece *piece, void *x)
{
    return piece->kind == TN_PROCESS_OUT || piece->kind == TN_PROCESS_ERR
               ? tn_http_write(x, piece->bytes, piece->n)
               : 0;
}

void daytona_build_logs(struct tn_http_exchange *x, struct box *b)
{
    const char *follow = tn_http_query(x, "follow"), *log;
    struct tn_process_follow f = {.now = !follow || strcmp(follow, "true") != 0};
    autoview struct box_view v;

    daytona_see(b, &v);
    if (daytona_build_of(&v, NULL, &log) == DAYTONA_NO_BUILD) {
        native_refuse(x, TN_E_NOT_FOUND, "Build information for %s not found", v.id);
        return;
    }
    tn_http_start(x, 200, "application/octet-stream", -1);
    if ((v.goal != BOX_RUNNING ||
         process_follow(b, "tag:" BUILD_TAG, &f, send_piece, x, tn_http_fd(x), TN_NEVER, NULL)) &&
        log)
        tn_http_write(x, log, strlen(log));
    tn_http_end(x);
}

void daytona_build_logs_url(struct tn_http_exchange *x, const char *kind, const char *id)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(8192);
    struct tn_jw w = tn_jw(&json);
    tn_autofree char *base = base_url(x);
    tn_autofree char *url = tn_asprintf("%s/api/%s/%s/build-logs", base, kind, id);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "url", url);
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 200, &json);
}
