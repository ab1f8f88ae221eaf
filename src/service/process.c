#include "service/process.h"

#include "base/clock.h"
#include "runtime/hand-answer.h"
#include "service/proxy.h"
#include "service/purses.h"

/* For the start, and for whoever has to confirm it; clients of the surfaces wait for a minute. */
#define START_SECONDS 55.0
/* To reach the hand of one that sleeps. */
#define WAKE_SECONDS 60.0

enum { BODY_MAX = 4 << 20, ANSWER_MAX = 4 << 20 };

/* --- starting -------------------------------------------------------------------------------- */

static int write_body(const struct tn_process_spec *spec, struct tn_buf *body, struct tn_error *err)
{
    tn_autoaction struct tn_action action = {0};
    struct tn_jw w = tn_jw(body);

    if (tn_action_init_process(&action, spec, START_SECONDS, err))
        return -1;
    tn_jw_object(&w);
    tn_jw_key(&w, "action");
    tn_action_to_json(&action, &w);
    tn_jw_object_end(&w);
    if (tn_buf_poor(body))
        return tn_fail(err, TN_E_BUSY, "There is no memory for a process just now; try again");
    return tn_buf_ok(body) ? 0 : tn_fail(err, TN_E_INVALID, "process: it is too large");
}

/* What an observation that is no success says. */
static int refused(const struct tn_observation *o, struct tn_error *err)
{
    const char *id = o->type == TN_OBSERVATION_ERROR && o->error_id ? o->error_id : "";
    enum tn_code code = strcmp(id, TN_PROCESS_NOT_STARTED) == 0 ? TN_E_INVALID
                        : strcmp(id, TN_PROCESS_TOO_MANY) == 0  ? TN_E_BUSY
                                                                : TN_E_DENIED;

    return tn_fail(err, code, "%.400s", o->content.data ? o->content.data : "");
}

static int read_answer(const struct tn_buf *answer, struct process_started *out,
                       struct tn_error *err)
{
    tn_autoheld struct tn_held held = {.purse = answer->purse};
    tn_autojson struct tn_json *tree = NULL;
    struct tn_observation o;
    int r = 0;

    if (tn_json_parse_held(tn_buf_str(answer), answer->len, held.purse, &held.bytes, &tree, err) ||
        tn_observation_from_json(tree, &o, err))
        return tn_error_context(err, "the answer of the hand");
    const char *id = o.type == TN_OBSERVATION_RUN ? o.run.metadata.process : NULL;
    if (id && strlen(id) < sizeof out->id) {
        snprintf(out->id, sizeof out->id, "%s", id);
        out->pid = o.run.metadata.pid;
    } else if (o.type == TN_OBSERVATION_RUN) {
        r = tn_fail(err, TN_E_UNSUPPORTED, "the hand of this sandbox knows no processes");
    } else {
        r = refused(&o, err);
    }
    tn_observation_done(&o);
    return r;
}

int process_start(struct box *b, const struct caller *who, const struct tn_process_spec *spec,
                  const struct process_how *how, struct process_started *out, struct tn_error *err)
{
    tn_autobuf struct tn_buf body = {.max = BODY_MAX, .purse = how->purse},
                             answer = {.max = ANSWER_MAX, .purse = how->purse};
    const struct act_how act_how = {
        .idempotency = how->idempotency, .request = how->request, .watch = how->watch};
    struct act_news news = {0};

    *out = (struct process_started){0};
    if (write_body(spec, &body, err))
        return -1;
    int status = act(b, who, tn_buf_str(&body), body.len, &act_how, &news, &answer, err);
    if (status < 0)
        return -1;
    out->again = news.again;
    if (status == ACT_WAITS)
        return tn_fail(err, TN_E_CONFLICT,
                       "The process waits for a confirmation (number %lld), which nobody has given",
                       (long long)news.pending);
    if (status != 200)
        return tn_hand_refused_text(status, tn_buf_str(&answer), answer.len, err);
    return read_answer(&answer, out, err);
}

/* --- using one ------------------------------------------------------------------------------- */

/* A way to the hand of a box, which is in use meanwhile. */
struct trip {
    struct box *box;
    struct tn_purse *purse;
    struct tn_process_client *client;
};

static void trip_end(struct trip *v)
{
    tn_process_client_free(v->client);
    purse_release(box_service(v->box)->purses, v->purse);
    box_leave_use(v->box);
}
#define autotrip TN_CLEANUP(trip_end)

static struct trip trip_begin(struct box *b)
{
    box_enter_use(b);
    return (struct trip){.box = b, .purse = purse_get(box_service(b)->purses, box_tenant(b))};
}

static int trip_hand(struct trip *v, int watch, int64_t deadline, struct tn_error *err)
{
    tn_autofree char *address = NULL, *key = NULL;
    int64_t wake = tn_deadline_in(WAKE_SECONDS);

    if (box_hand(v->box, &address, &key, wake < deadline ? wake : deadline, err))
        return -1;
    v->client = tn_process_client_new(address, key, err);
    if (!v->client)
        return -1;
    tn_process_client_cancel_by(v->client, watch);
    tn_process_client_hold(v->client, v->purse);
    return 0;
}

/* Where nobody answered something may have become of the box. */
static int trip_over(const struct trip *v, int r, const struct tn_error *why, struct tn_error *err)
{
    if (r < 0 && why->code == TN_E_PEER)
        box_suspect(v->box);
    if (r < 0 && err)
        *err = *why;
    return r;
}

/* r becomes the result of `ask`, with the client `c` and the error `why`. */
#define TRIP(b, watch, deadline, err, ask)        \
    autotrip struct trip v = trip_begin(b);       \
    struct tn_error why = {0};                    \
    int r = trip_hand(&v, watch, deadline, &why); \
    if (r == 0)                                   \
        r = ask;                                  \
    return trip_over(&v, r, &why, err)

int process_follow(struct box *b, const char *which, struct tn_process_follow *f,
                   tn_process_piece_fn fn, void *ctx, int watch, int64_t deadline,
                   struct tn_error *err)
{
    TRIP(b, watch, deadline, err, tn_process_read(v.client, which, f, fn, ctx, deadline, &why));
}

int process_look(struct box *b, const char *which, struct tn_process_status *out, int64_t deadline,
                 struct tn_error *err)
{
    TRIP(b, -1, deadline, err, tn_process_look(v.client, which, out, deadline, &why));
}

int process_wait(struct box *b, const char *which, struct tn_process_status *out, int watch,
                 int64_t deadline, struct tn_error *err)
{
    TRIP(b, watch, deadline, err, tn_process_wait(v.client, which, out, deadline, &why));
}

int process_list(struct box *b, tn_process_fn fn, void *ctx, int64_t deadline, struct tn_error *err)
{
    TRIP(b, -1, deadline, err, tn_process_each(v.client, fn, ctx, deadline, &why));
}

int process_input(struct box *b, const char *which, uint64_t offset, const void *bytes, size_t n,
                  uint64_t *taken, int64_t deadline, struct tn_error *err)
{
    TRIP(b, -1, deadline, err,
         tn_process_input(v.client, which, offset, bytes, n, taken, deadline, &why));
}

int process_close_input(struct box *b, const char *which, int64_t deadline, struct tn_error *err)
{
    TRIP(b, -1, deadline, err, tn_process_close_input(v.client, which, deadline, &why));
}

int process_resize(struct box *b, const char *which, int64_t columns, int64_t rows,
                   int64_t deadline, struct tn_error *err)
{
    TRIP(b, -1, deadline, err, tn_process_resize(v.client, which, columns, rows, deadline, &why));
}

int process_signal(struct box *b, const char *which, int signal, int64_t deadline,
                   struct tn_error *err)
{
    TRIP(b, -1, deadline, err, tn_process_signal(v.client, which, signal, deadline, &why));
}

int process_change_env(struct box *b, const struct tn_json *unset, const struct tn_json *set,
                       int64_t deadline, struct tn_error *err)
{
    TRIP(b, -1, deadline, err, tn_process_change_env(v.client, unset, set, deadline, &why));
}

int process_remove(struct box *b, const char *which, int64_t deadline, struct tn_error *err)
{
    TRIP(b, -1, deadline, err, tn_process_remove(v.client, which, deadline, &why));
}
