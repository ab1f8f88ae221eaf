/* What is asked when, whatever the dialect: create, inspect, drive. */
#include <poll.h>

#include "base/again.h"
#include "base/proc.h"
#include "runtime/hand-client.h"
#include "runtime/remote/remote.h"

enum { STOPPED_LOOKS = 3 };

/* --- finding ---------------------------------------------------------------------------------- */

int remote_find(const struct remote *r, const struct tn_subject *s, struct remote_view *out,
                int64_t deadline, struct tn_error *err)
{
    tn_autofree char *id = NULL;

    *out = (struct remote_view){0};
    if (remote_ref_id(r, s, &id, err) < 0)
        return -1;
    return r->dialect->look(r, s, id, out, deadline, err);
}

int remote_must_find(const struct remote *r, const struct tn_subject *s, struct remote_view *out,
                     int64_t deadline, struct tn_error *err)
{
    if (remote_find(r, s, out, deadline, err) < 0)
        return -1;
    return out->known ? 0 : tn_fail(err, TN_E_NOT_FOUND, "%s has no sandbox %s", r->api, s->id);
}

/* --- the place -------------------------------------------------------------------------------- */

static char *ref_of(const struct remote *r, const char *id)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(8192);
    struct tn_jw w = tn_jw(&out);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "api", r->api);
    tn_jw_kstr(&w, "dialect", r->dialect->name);
    tn_jw_kstr(&w, "id", id);
    tn_jw_object_end(&w);
    return tn_buf_take(&out);
}

/* Takes what it can of the view. */
static void fill_place(const struct remote *r, struct remote_view *v, struct tn_place *place)
{
    tn_place_done(place);
    *place = (struct tn_place){.status = v->known ? v->status : TN_STATUS_MISSING};
    if (place->status == TN_STATUS_MISSING)
        return;
    place->ref = ref_of(r, v->id);
    place->reason = TN_TAKE_PTR(v->reason);
    place->blame = v->blame;
    place->isolation = v->isolation ? TN_TAKE_PTR(v->isolation)
                                    : tn_asprintf("{\"service\": \"%s\"}", r->dialect->name);
    if (place->status != TN_STATUS_RUNNING && place->status != TN_STATUS_PAUSED)
        return;
    place->address = TN_TAKE_PTR(v->address);
    place->key = TN_TAKE_PTR(v->key);
}

static int not_running(const struct remote_view *v, struct tn_error *err)
{
    if (!v->known || v->status == TN_STATUS_MISSING)
        return tn_fail(err, TN_E_PEER, "the service has no such sandbox any more");
    return tn_fail(err, v->failure ? v->failure : TN_E_PEER, "it did not start: %s",
                   v->reason ? v->reason : tn_status_words[v->status]);
}

static bool is_on_its_way(const struct remote_view *v)
{
    return v->known && v->status == TN_STATUS_STARTING;
}

static bool is_given_up(const struct tn_subject *s)
{
    struct pollfd p = {.fd = s->cancel, .events = POLLIN};

    return s->cancel > 0 && poll(&p, 1, 0) > 0;
}

/* Until it is on its way no more.  The view is replaced. */
static int wait_settled(const struct remote *r, const struct tn_subject *s, struct remote_view *v,
                        int64_t deadline, struct tn_error *err)
{
    int ms = 0;

    while (is_on_its_way(v)) {
        struct remote_view next = {0};
        if (is_given_up(s))
            return tn_fail(err, TN_E_GONE, "nobody wants it any more");
        if (tn_now() >= deadline)
            return tn_fail(err, TN_E_TIMEOUT, "it is still starting%s%s", v->reason ? ": " : "",
                           v->reason ? v->reason : "");
        if (r->dialect->next(r, s, v, &next, &ms, deadline, err) < 0) {
            remote_view_done(&next);
            return -1;
        }
        remote_view_done(v);
        *v = next;
    }
    return 0;
}

/* As OpenHands does: a pod that is ready may have a hand that is not. */
static int ask_hand(const struct tn_subject *s, const struct remote_view *v, int64_t deadline,
                    struct tn_error *err)
{
    struct tn_hand_client *client = tn_hand_client_new(v->address, v->key ? v->key : s->key, err);
    int r = client ? tn_hand_client_wait(client, -1, deadline, err) : -1;

    tn_hand_client_free(client);
    return r;
}

int remote_settle(const struct remote *r, const struct tn_subject *s, struct remote_view *v,
                  struct tn_place *place, int64_t deadline, struct tn_error *err)
{
    if (wait_settled(r, s, v, deadline, err) < 0)
        return -1;
    if (!v->known || v->status != TN_STATUS_RUNNING) {
        place->blame = v->blame;
        return not_running(v, err);
    }
    if (!v->address)
        return tn_fail(err, TN_E_PEER, "the service does not say where to reach it");
    if (!v->key && !r->dialect->unsure)
        return tn_fail(err, TN_E_DENIED, "the key for %s may make sandboxes, but not use them",
                       r->api);
    if (r->dialect->unsure && ask_hand(s, v, deadline, err) < 0)
        return -1;
    fill_place(r, v, place);
    return 0;
}

/* --- create ----------------------------------------------------------------------------------- */

int remote_create(void *engine, const struct tn_subject *s, struct tn_place *place,
                  int64_t deadline, struct tn_error *err)
{
    const struct remote *r = engine;
    int64_t limit = tn_deadline_in(remote_config(r)->remote_runtime_init_timeout);
    autoremoteview struct remote_view view = {0};

    if (limit < deadline)
        deadline = limit;
    if (r->dialect->start(r, s, &view, deadline, err) < 0)
        return -1;
    return remote_settle(r, s, &view, place, deadline, err);
}

/* --- inspect ---------------------------------------------------------------------------------- */

/* A sandbox must not outlive its owner.  A service does not know that process: the first of ours
 * that looks and finds it dead ends what it left. */
static bool owner_is_dead(const struct tn_subject *s)
{
    return s->owner.pid && !tn_proc_state(s->owner.pid, s->owner.start);
}

int remote_inspect(void *engine, const struct tn_subject *s, struct tn_place *place,
                   int64_t deadline, struct tn_error *err)
{
    const struct remote *r = engine;
    autoremoteview struct remote_view view = {0};

    *place = (struct tn_place){.status = TN_STATUS_MISSING};
    if (remote_find(r, s, &view, deadline, err) < 0)
        return tn_error_context(err, "remote: sandbox %s", s->id);
    if (view.known && owner_is_dead(s))
        return remote_drive(engine, s, TN_GOAL_GONE, place, deadline, err);
    fill_place(r, &view, place);
    return 0;
}

/* --- drive ------------------------------------------------------------------------------------ */

static const enum tn_status reached[] = {
    [TN_GOAL_RUNNING] = TN_STATUS_RUNNING, [TN_GOAL_PAUSED] = TN_STATUS_PAUSED,
    [TN_GOAL_STOPPED] = TN_STATUS_STOPPED, [TN_GOAL_SUSPENDED] = TN_STATUS_SUSPENDED,
    [TN_GOAL_GONE] = TN_STATUS_MISSING,
};

static bool is_gone(const struct remote_view *v)
{
    return !v->known || v->status == TN_STATUS_MISSING;
}

/* Orders it there, then looks until it is: an order may go on behind our back. */
static int bring(const struct remote *r, const struct tn_subject *s, enum tn_goal goal,
                 struct remote_view *v, int64_t deadline, struct tn_error *err)
{
    int ms = 0, stopped = 0;

    if (r->dialect->order(r, v->id, goal, deadline, err) < 0)
        return -1;
    for (;;) {
        autoremoteview struct remote_view before = *v;
        *v = (struct remote_view){0};
        if (r->dialect->look(r, s, before.id, v, deadline, err) < 0)
            return -1;
        if ((goal == TN_GOAL_GONE && is_gone(v)) || (v->known && v->status == reached[goal]))
            return 0;
        if (is_gone(v) || (v->status == TN_STATUS_ERROR && goal != TN_GOAL_GONE))
            return not_running(v, err);
        /* Not at the first look: what it tells may be older than the order. */
        if (goal == TN_GOAL_PAUSED && v->status == TN_STATUS_STOPPED && ++stopped == STOPPED_LOOKS)
            return tn_fail(err, TN_E_CONFLICT,
                           "the service has stopped it: a use does not wake it");
        if (tn_back_off(&ms, 0, s->cancel, deadline, err) < 0)
            return tn_error_context(err, "it is %s, not yet %s", tn_status_words[v->status],
                                    tn_status_words[reached[goal]]);
    }
}

/* One that was never made, or is gone. */
static int drive_nothing(const struct tn_subject *s, enum tn_goal goal, struct tn_place *place,
                         struct tn_error *err)
{
    *place = (struct tn_place){.status = TN_STATUS_MISSING};
    if (goal == TN_GOAL_GONE)
        return 0;
    return tn_fail(err, TN_E_NOT_FOUND, "the service has no such sandbox");
}

static int drive(const struct remote *r, const struct tn_subject *s, enum tn_goal goal,
                 struct tn_place *place, int64_t deadline, struct tn_error *err)
{
    autoremoteview struct remote_view view = {0};

    if (goal == TN_GOAL_SUSPENDED)
        return tn_fail(err, TN_E_UNSUPPORTED, "suspend: services have no such thing");
    if (remote_find(r, s, &view, deadline, err) < 0)
        return -1;
    /* A missing one may still have a row there. */
    if (!view.known || (is_gone(&view) && goal != TN_GOAL_GONE))
        return drive_nothing(s, goal, place, err);
    if (goal != TN_GOAL_GONE && wait_settled(r, s, &view, deadline, err) < 0)
        return -1;
    /* Only what runs can be paused. */
    bool asleep = view.status == TN_STATUS_STOPPED || view.status == TN_STATUS_ERROR;
    if (goal == TN_GOAL_PAUSED && asleep && bring(r, s, TN_GOAL_RUNNING, &view, deadline, err) < 0)
        return -1;
    if (view.status != reached[goal] || goal == TN_GOAL_GONE)
        if (bring(r, s, goal, &view, deadline, err) < 0)
            return -1;
    if (goal == TN_GOAL_RUNNING)
        return remote_settle(r, s, &view, place, deadline, err);
    fill_place(r, &view, place);
    return 0;
}

int remote_drive(void *engine, const struct tn_subject *s, enum tn_goal goal,
                 struct tn_place *place, int64_t deadline, struct tn_error *err)
{
    *place = (struct tn_place){0};
    if (drive(engine, s, goal, place, deadline, err) == 0)
        return 0;
    tn_place_done(place);
    return tn_error_context(err, "remote: sandbox %s", s->id);
}

int remote_list(void *engine, tn_found_fn found, void *ctx, int64_t deadline, struct tn_error *err)
{
    const struct remote *r = engine;

    return r->dialect->list(r, found, ctx, deadline, err);
}
