/* What an OpenHands host calls, except for file transfers. */
#include <poll.h>

#include "base/clock.h"
#include "event/action-body.h"
#include "hand/actions.h"
#include "hand/routes.h"
#include "hand/stats.h"
#include "net/proof.h"

enum { ACTION_BODY_MAX = 64 << 20, ANSWER_MAX = 64 << 20 };
#define DAY_SECONDS 86400.0
#define RESET_MS 20
#define ALIVE_HOLD_MS 1000

/* Whoever asks early is answered at the moment it is true, if that is soon. */
static bool is_ready(const struct tn_hand *hand)
{
    struct pollfd p[] = {{.fd = hand->becoming_ready, .events = POLLIN},
                         {.fd = hand->ending, .events = POLLIN}};

    if (!__atomic_load_n(&hand->ready, __ATOMIC_ACQUIRE))
        poll(p, TN_COUNT(p), ALIVE_HOLD_MS);
    return __atomic_load_n(&hand->ready, __ATOMIC_ACQUIRE);
}

static void get_alive(struct tn_http_exchange *x, void *ctx)
{
    static const char body[] = "{\"status\":\"ok\"}";

    if (!is_ready(ctx)) {
        tn_http_set_header(x, "Retry-After", "1");
        tn_http_reply_detail(x, 503,
                             "not ready: the main shell is still busy with its start-up files");
        return;
    }
    tn_http_reply(x, 200, "application/json", body, sizeof body - 1);
}

static void get_server_info(struct tn_http_exchange *x, void *ctx)
{
    struct tn_hand *hand = ctx;
    tn_autobuf struct tn_buf json = TN_BUF_INIT(4096);
    struct tn_jw w = tn_jw(&json);
    int64_t now = tn_now();

    tn_jw_object(&w);
    tn_jw_kdouble(&w, "uptime", (double)(now - hand->started) / 1e9);
    tn_jw_kdouble(&w, "idle_time",
                  (double)(now - __atomic_load_n(&hand->last_action, __ATOMIC_RELAXED)) / 1e9);
    tn_jw_key(&w, "resources");
    tn_stats_write(&w);
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 200, &json);
}

/* For a host that has an address and wants to know who is there before it shows the key. */
static void get_proof(struct tn_http_exchange *x, void *ctx)
{
    const struct tn_hand_options *o = &((struct tn_hand *)ctx)->options;
    const char *nonce = tn_http_query(x, "nonce");

    if (!nonce || !tn_proof_is_digits(nonce)) {
        tn_reply_invalid(x, "'query', 'nonce'", "expected 64 digits of 0-9a-f");
        return;
    }
    /* A key that a person chose could be guessed by what is answered here. */
    tn_autofree char *body =
        o->key_digest ? tn_proof_answer(tn_http_fd(x), o->key_digest, nonce) : NULL;
    if (body)
        tn_http_reply(x, 200, "application/json", body, strlen(body));
    else
        tn_http_reply_detail(x, 409, "There is no digest of a key, or this is no TCP connection");
}

/* --- /execute_action ------------------------------------------------------------------------ */

/* Runs the action and writes the answer; returns its status.  *begun: not when its shell was busy
 * with its own start. */
static int answer_action(struct tn_hand *hand, const struct tn_action *action, struct tn_buf *json,
                         struct tn_delivery *delivery, bool *begun)
{
    struct tn_observation observation;
    struct tn_error err = {0};

    __atomic_store_n(&hand->last_action, tn_now(), __ATOMIC_RELAXED);
    if (tn_execute(hand, action, &observation, delivery, &err) < 0) {
        tn_put_internal_error(json, err.text);
        return 500;
    }
    struct tn_jw w = tn_jw(json);
    tn_observation_to_json(&observation, &w);
    *begun = !tn_observation_is_starting(&observation);
    tn_observation_done(&observation);
    if (tn_buf_ok(json))
        return 200;
    tn_buf_reset(json);
    tn_put_internal_error(json, "the observation is too large");
    return 500;
}

static void execute_once(struct tn_http_exchange *x, struct tn_hand *hand,
                         const struct tn_action *action, const char *key, uint64_t digest)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(ANSWER_MAX);
    struct tn_delivery delivery = {.client = -1, /* the answer is kept: nobody has to wait for it */
                                   .request = tn_http_header(x, "X-Request-Id")};
    struct tn_error err;
    bool begun = true;
    int status = 0;
    double seconds =
        action->timeout.set && action->timeout.value > 0 ? action->timeout.value : DAY_SECONDS;

    /* Who was told of it before this server was started anew wants to hear of it, not to have it
     * done again. */
    const char *expected = tn_http_header(x, "Idempotency-Expect");
    bool replay = expected && strcmp(expected, "replay") == 0;
    switch (tn_once_begin(hand->once, key, digest, replay, tn_deadline_in(seconds + 1), &status,
                          &json, &err)) {
    case 0:
        tn_http_set_header(x, "Idempotency-Replayed", "true");
        tn_http_reply_json(x, status, &json);
        break;
    case 1:
        status = answer_action(hand, action, &json, &delivery, &begun);
        if (begun)
            tn_once_finish(hand->once, key, status, tn_buf_str(&json), json.len);
        else
            tn_once_forget(hand->once, key);
        tn_http_reply_json(x, status, &json);
        tn_delivery_done(&delivery);
        break;
    default:
        if (err.code == TN_E_NOT_FOUND)
            tn_http_reply_detail(x, 412, err.text);
        else
            tn_http_reply_error(x, &err);
    }
}

/* A client that has closed its side may still read; one that is gone answers our bytes with a
 * reset. */
static bool was_reset(int fd)
{
    struct pollfd p = {.fd = fd};
    return poll(&p, 1, RESET_MS) > 0;
}

static void execute(struct tn_http_exchange *x, struct tn_hand *hand,
                    const struct tn_action *action)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(ANSWER_MAX);
    struct tn_delivery delivery = {.client = tn_http_fd(x),
                                   .request = tn_http_header(x, "X-Request-Id")};

    bool begun = true;
    int status = answer_action(hand, action, &json, &delivery, &begun);
    bool closed = tn_http_peer_gone(x);
    if (tn_http_reply_json(x, status, &json) < 0 || (closed && was_reset(tn_http_fd(x))))
        tn_delivery_failed(&delivery);
    tn_delivery_done(&delivery);
}

static void post_execute_action(struct tn_http_exchange *x, void *ctx)
{
    struct tn_hand *hand = ctx;
    tn_autobuf struct tn_buf body = TN_BUF_INIT(ACTION_BODY_MAX), json = TN_BUF_INIT(8192);
    tn_autojson struct tn_json *tree = NULL;
    tn_autoaction struct tn_action action;
    struct tn_error err;
    size_t held;

    tn_action_init(&action, TN_ACTION_NULL);
    if (tn_http_read_all(x, &body, &err) < 0) {
        tn_http_reply_error(x, &err);
        return;
    }
    tn_action_done(&action);
    enum tn_body fault =
        tn_action_body_read(tn_buf_str(&body), body.len, NULL, &held, &tree, &action, &err);
    if (fault) {
        tn_action_init(&action, TN_ACTION_NULL);
        tn_http_reply_json(x, tn_action_body_refuse(fault, &err, &json), &json);
        return;
    }
    /* What is not carried out is not remembered: its key is free for when it is confirmed. */
    const char *key = tn_http_header(x, "Idempotency-Key");
    if (key && action.confirmation_state == TN_CONFIRMED)
        execute_once(x, hand, &action, key, tn_once_digest(tn_buf_str(&body), body.len));
    else
        execute(x, hand, &action);
}

const struct tn_route tn_routes_openhands[] = {
    {"GET", "/alive", get_alive, "200 once the server is ready", TN_ROUTE_OPEN},
    {"GET", "/server_info", get_server_info, "uptime, idle time and resources", TN_ROUTE_OPEN},
    {"GET", "/proof", get_proof, "proves that it knows the digest of the key", TN_ROUTE_OPEN},
    {"POST", "/execute_action", post_execute_action, "carries out an action", 0},
    {0},
};
