/* Sandboxes that exist: their records, how they are and how they ended. */
#include "service/modal/modal.h"

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

bool modal_is_sandbox(const struct box_view *v)
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
    if (b && modal_is_sandbox(&v))
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
bool modal_result(const struct box_view *v, Modal__Result *r)
{
    const struct tn_json *ended = tn_json_get(modal_record(v), "ended");
    double seconds = tn_json_double(tn_json_get(modal_record(v), "seconds"), 0);

    if (ended)
        return put_result(r, (int)tn_json_int(tn_json_get(ended, "status"), MODAL_TERMINATED),
                          tn_json_int(tn_json_get(ended, "code"), 0), NULL);
    if (v->state == BOX_ERROR || v->state == BOX_MISSING)
        return put_result(r, MODAL_INTERNAL_FAILURE, 1, "the sandbox has failed");
    if (v->goal == BOX_PAUSED || v->goal == BOX_STOPPED)
        return put_result(
            r, service_time() >= v->created + seconds - 1 ? MODAL_TIMEOUT : MODAL_IDLE_TIMEOUT, 0,
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
        int64_t soon = tn_deadline_in(MODAL_SLICE_SECONDS),
                until = soon < deadline ? soon : deadline;

        box_look(b, &v);
        if (modal_result(&v, r))
            return 1;
        bool command = tn_json_bool(tn_json_get(modal_record(&v), "command"), false);
        if (!command || v.state != BOX_RUNNING)
            box_wait_change(b, v.version, until, &why);
        else if (process_wait(b, "tag:" MODAL_ENTRYPOINT, &status, tn_http_fd(c->x), until, &why) ==
                 0) {
            int64_t code =
                status.exit_code.set ? status.exit_code.value : 128 + status.signal.value;
            put_result(r, code ? MODAL_FAILURE : MODAL_SUCCESS, code, NULL);
            return note_exit(b, &v, r, err) ? -1 : 1;
        }
        if (why.code == TN_E_GONE)
            return tn_fail(err, TN_E_NOT_FOUND, "the sandbox is gone");
        if (tn_now() >= deadline || tn_http_peer_gone(c->x))
            return 0;
    }
}

bool modal_goes_on(struct box *b, struct tn_error *err)
{
    Modal__Result ended = MODAL__RESULT__INIT;
    autoview struct box_view v = {0};

    box_look(b, &v);
    if (v.goal != BOX_GONE && (!modal_result(&v, &ended) || ended.status == MODAL_SUCCESS ||
                               ended.status == MODAL_FAILURE))
        return true;
    tn_fail(err, TN_E_NOT_FOUND, "the sandbox sb-%s has ended", box_id(b));
    return false;
}

struct box *modal_running(const struct modal_call *c, const char *id, struct tn_error *err)
{
    autoview struct box_view v = {0};
    struct box *b = modal_box(c, id, err);

    if (!b)
        return NULL;
    box_look(b, &v);
    bool over = !modal_goes_on(b, err);
    if (!over && v.state == BOX_STARTING)
        over = surface_await(b, c->s->options->start_seconds + MODAL_START_MORE, err);
    if (!over)
        return b;
    box_release(b);
    return NULL;
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
    int failed = ended < 0 || (!ended && note_end(b, MODAL_TERMINATED, 0, err)) ||
                 modal_forget(b, err) ||
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

const struct modal_method modal_sandboxes[] = {
    {"SandboxWait", MODAL_MESSAGE(who), sandbox_wait, SCOPE_READ},
    {"SandboxTerminate", MODAL_MESSAGE(who), sandbox_terminate, SCOPE_MANAGE},
    {"SandboxGetTaskId", MODAL_MESSAGE(who), sandbox_task, SCOPE_READ},
    {"SandboxWaitUntilReady", MODAL_MESSAGE(who), modal_ready, SCOPE_READ},
    {"TaskGetCommandRouterAccess", MODAL_MESSAGE(who), task_access, SCOPE_USE},
    {"SandboxGetCommandRouterAccess", MODAL_MESSAGE(sandbox_get_command_router_access_request),
     sandbox_access, SCOPE_USE},
    {0},
};
