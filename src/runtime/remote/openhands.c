/* The runtime API of OpenHands: spec section 6.
 *
 * It knows no idempotency keys.  A start is sent once; when its answer is lost, the session is
 * looked for.  Pausing, resuming and stopping twice is doing it once. */
#include "base/again.h"
#include "runtime/remote/body.h"

/* --- looking ---------------------------------------------------------------------------------- */

/* 0 with *tree NULL for 404. */
static int get(const struct remote *r, const char *before, const char *id, struct tn_json **tree,
               int64_t deadline, struct tn_error *err)
{
    tn_autofree char *target = remote_target(before, id, "");
    const struct remote_call call = {.target = target};
    struct tn_error why = {0};

    if (remote_ask(r, &call, tree, deadline, &why) == 0)
        return 0;
    if (why.code == TN_E_NOT_FOUND)
        return 0;
    if (err)
        *err = why;
    return -1;
}

/* What a session says of itself; how its pod is, some services tell only when asked for it. */
static int look(const struct remote *r, const struct tn_subject *s, const char *id,
                struct remote_view *out, int64_t deadline, struct tn_error *err)
{
    tn_autojson struct tn_json *session = NULL, *runtime = NULL;
    char name[REMOTE_SESSION_MAX];

    *out = (struct remote_view){0};
    remote_session(r, s->id, name);
    if (get(r, "/sessions/", name, &session, deadline, err) < 0)
        return -1;
    if (!session)
        return 0;
    if (remote_read_openhands(r, session, out, err) < 0)
        return -1;
    if (out->status != TN_STATUS_RUNNING || tn_json_get_str(session, "pod_status", NULL))
        return 0;
    autoremoteview struct remote_view pod = {0};
    if (get(r, "/runtime/", out->id, &runtime, deadline, err) < 0 ||
        (runtime && remote_read_openhands(r, runtime, &pod, err) < 0))
        return -1;
    out->status = pod.known ? pod.status : TN_STATUS_STARTING;
    out->reason = TN_TAKE_PTR(pod.reason);
    return 0;
}

static int next(const struct remote *r, const struct tn_subject *s, const struct remote_view *now,
                struct remote_view *out, int *ms, int64_t deadline, struct tn_error *err)
{
    if (tn_back_off(ms, 0, s->cancel, deadline, err) < 0)
        return tn_error_context(err, "the sandbox did not become ready");
    return look(r, s, now->id, out, deadline, err);
}

/* --- starting --------------------------------------------------------------------------------- */

/* What /start answered; one that does not say how it is has only just begun. */
static int read_started(const struct remote *r, const struct tn_json *tree, struct remote_view *out,
                        struct tn_error *err)
{
    if (!tree)
        return tn_fail(err, TN_E_PEER, "its answer to POST /start is empty");
    return remote_read_openhands(r, tree, out, err);
}

static int start(const struct remote *r, const struct tn_subject *s, struct remote_view *out,
                 int64_t deadline, struct tn_error *err)
{
    tn_autobuf struct tn_buf body = TN_BUF_INIT(REMOTE_BODY_MAX);
    tn_autojson struct tn_json *tree = NULL;
    const struct remote_call call = {.method = "POST",
                                     .target = "/start",
                                     .body = &body,
                                     .unsafe = true,
                                     .cancel = s->cancel,
                                     .whole = true};
    struct tn_error why = {0};

    if (remote_openhands_body(r, s, &body, err) < 0 || look(r, s, NULL, out, deadline, err) < 0)
        return -1;
    if (out->known && out->status != TN_STATUS_MISSING)
        return 0;
    remote_view_done(out);
    if (remote_ask(r, &call, &tree, deadline, &why) == 0 && read_started(r, tree, out, &why) == 0)
        return 0;
    /* Nobody knows what became of it, unless the service does. */
    remote_view_done(out);
    if ((why.code == TN_E_PEER || why.code == TN_E_TIMEOUT) &&
        look(r, s, NULL, out, deadline, NULL) == 0 && out->known)
        return 0;
    if (err)
        *err = why;
    return -1;
}

/* --- orders ----------------------------------------------------------------------------------- */

static int order(const struct remote *r, const char *id, enum tn_goal goal, int64_t deadline,
                 struct tn_error *err)
{
    static const char *const targets[] = {
        [TN_GOAL_RUNNING] = "/resume",
        [TN_GOAL_PAUSED] = "/pause",
        [TN_GOAL_GONE] = "/stop",
    };
    const char *target = (size_t)goal < TN_COUNT(targets) ? targets[goal] : NULL;
    tn_autobuf struct tn_buf body = TN_BUF_INIT(4096);
    tn_autojson struct tn_json *tree = NULL;
    struct tn_error why = {0};
    struct tn_jw w = tn_jw(&body);

    if (!target)
        return tn_fail(
            err, TN_E_UNSUPPORTED,
            "%s: the OpenHands runtime API has no such thing: it pauses and resumes, and "
            "what it stops is gone",
            tn_goal_words[goal]);
    tn_jw_object(&w);
    tn_jw_kstr(&w, "runtime_id", id);
    tn_jw_object_end(&w);
    const struct remote_call call = {.method = "POST", .target = target, .body = &body};
    if (remote_ask(r, &call, &tree, deadline, &why) == 0 ||
        (goal == TN_GOAL_GONE && why.code == TN_E_NOT_FOUND))
        return 0;
    if (err)
        *err = why;
    return -1;
}

/* --- lists ------------------------------------------------------------------------------------ */

static int list(const struct remote *r, tn_found_fn found, void *ctx, int64_t deadline,
                struct tn_error *err)
{
    const struct remote_call call = {.target = "/list"};
    tn_autojson struct tn_json *tree = NULL;

    if (remote_ask(r, &call, &tree, deadline, err) < 0)
        return -1;
    const struct tn_json *all = tn_json_get(tree, "runtimes");
    for (size_t i = 0; i < tn_json_count(all); i++) {
        const struct tn_json *one = tn_json_at(all, i);
        const char *id = remote_own_id(r, tn_json_get_str(one, "session_id", ""));
        bool gone = strcmp(tn_json_get_str(one, "status", ""), "stopped") == 0;
        int stop = id && !gone ? found(id, ctx) : 0;
        if (stop)
            return stop;
    }
    return 0;
}

/* --- ports ------------------------------------------------------------------------------------ */

struct wanted {
    int port;
    const char *url;
};

static int match_port(const char *url, struct tn_json *port, void *ctx)
{
    struct wanted *w = ctx;

    if (tn_json_int(port, 0) == w->port)
        w->url = url;
    return 0;
}

static char *url(const struct remote *r, const struct tn_subject *s, const char *id, int port,
                 int64_t deadline, struct tn_error *err)
{
    tn_autojson struct tn_json *session = NULL;
    struct wanted wanted = {.port = port};
    char name[REMOTE_SESSION_MAX];

    remote_session(r, s->id, name);
    if (get(r, "/sessions/", name, &session, deadline, err) < 0)
        return NULL;
    tn_json_each(tn_json_get(session, "work_hosts"), match_port, &wanted);
    if (!wanted.url)
        tn_fail(err, TN_E_NOT_FOUND,
                "port %d is none of those that the service shows: forward it with tendon port",
                port);
    return tn_strdup_or_null(wanted.url);
}

const struct remote_dialect remote_openhands = {
    .name = "openhands",
    .unsure = true,
    .start = start,
    .look = look,
    .next = next,
    .order = order,
    .list = list,
    .url = url,
};
