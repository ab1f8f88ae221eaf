#include "runtime/hand-client.h"

#include <inttypes.h>
#include <poll.h>
#include <sys/random.h>

#include "base/clock.h"
#include "net/http-client.h"
#include "runtime/hand-answer.h"

/* Of an action or an observation; a document as a data URL is the largest. */
#define MAX_BODY (256u << 20)

/* How much longer than the action itself the host waits (the hand answers within one second). */
#define GRACE_SECONDS 5.0

/* Connections that may break under one action before it is given up. */
#define MAX_ATTEMPTS 3

#define FIRST_PAUSE_MS 1
#define LONGEST_PAUSE_MS 50

struct tn_hand_client {
    struct tn_http_client *http;
};

struct tn_hand_client *tn_hand_client_new(const char *address, const char *key,
                                          struct tn_error *err)
{
    struct tn_http_client *http = tn_http_client_new(address, err);

    if (!http)
        return NULL;
    if (key)
        tn_http_client_header(http, "X-Session-API-Key", key);

    struct tn_hand_client *h = tn_calloc(1, sizeof *h);
    h->http = http;
    return h;
}

void tn_hand_client_free(struct tn_hand_client *h)
{
    if (!h)
        return;
    tn_http_client_free(h->http);
    free(h);
}

/* --- readiness -------------------------------------------------------------------------------- */

static bool nobody_listens(const struct tn_error *err)
{
    return err->sys == ECONNREFUSED || err->sys == ENOENT;
}

/* Until the pause is over or watch has something to say; true in the second case. */
static bool pause_or_event(int watch, int ms, int64_t deadline)
{
    struct pollfd p = {.fd = watch, .events = POLLIN};
    int left = tn_poll_ms(deadline);

    return poll(&p, 1, left >= 0 && left < ms ? left : ms) > 0;
}

int tn_hand_client_wait(struct tn_hand_client *h, int watch, int64_t deadline, struct tn_error *err)
{
    struct tn_error why = {.code = TN_E_TIMEOUT, .text = "no answer"};

    for (int pause = FIRST_PAUSE_MS;;
         pause = pause * 2 < LONGEST_PAUSE_MS ? pause * 2 : LONGEST_PAUSE_MS) {
        tn_autobuf struct tn_buf body = TN_BUF_INIT(64 << 10);
        struct tn_http_call call = {.target = "/alive", .deadline = deadline};
        int status = tn_http_client_call(h->http, &call, &body, &why);

        if (status >= 200 && status < 300)
            return 0;
        if (status >= 0 && status != 503)
            return tn_fail(err, TN_E_PEER, "GET /alive: expected 200, got %d: is this a hand?",
                           status);
        if (status == 503)
            tn_fail(&why, TN_E_BUSY, "it is still starting");
        else if (why.code != TN_E_TIMEOUT && !nobody_listens(&why))
            break;
        if (tn_now() >= deadline)
            break;
        if (pause_or_event(watch, pause, deadline)) {
            tn_fail(&why, TN_E_PEER, "it has ended");
            break;
        }
    }
    if (err)
        *err = why;
    return tn_error_context(err, "the hand did not become ready");
}

/* --- actions ---------------------------------------------------------------------------------- */

static int write_key(char out[64], struct tn_error *err)
{
    uint64_t random[2];

    if (getrandom(random, sizeof random, 0) != sizeof random)
        return tn_fail_errno(err, errno, "no random bytes for an idempotency key");
    snprintf(out, 64, "Idempotency-Key: %016" PRIx64 "%016" PRIx64 "\r\n", random[0], random[1]);
    return 0;
}

static void write_request(struct tn_buf *out, const struct tn_action *action)
{
    struct tn_jw w = tn_jw(out);

    tn_jw_object(&w);
    tn_jw_key(&w, "action");
    tn_action_to_json(action, &w);
    tn_jw_object_end(&w);
}

/* A connection that broke says nothing about the action: with the same key it can be asked for
 * again. Where nobody listens any more the hand is gone, and what it remembered with it. */
static bool worth_another_try(const struct tn_error *err)
{
    return err->code == TN_E_PEER && !nobody_listens(err);
}

/* The answer of the hand as it came: its status with the body, or -1 with err. */
static int post(struct tn_hand_client *h, const struct tn_action *action, struct tn_buf *body,
                struct tn_error *err)
{
    tn_autobuf struct tn_buf request = TN_BUF_INIT(MAX_BODY);
    char key[64];
    int status = -1;

    if (write_key(key, err))
        return -1;
    write_request(&request, action);
    if (!tn_buf_ok(&request))
        return tn_fail(err, TN_E_TOO_LARGE, "it is larger than %u MiB", MAX_BODY >> 20);

    struct tn_http_call call = {
        .method = "POST",
        .target = "/execute_action",
        .type = "application/json",
        .body = request.data,
        .body_len = request.len,
        .extra_headers = key,
        .deadline = tn_deadline_in(action->timeout.value + GRACE_SECONDS),
    };
    for (int attempt = 0; attempt < MAX_ATTEMPTS && status < 0; attempt++) {
        tn_buf_reset(body);
        status = tn_http_client_call(h->http, &call, body, err);
        if (status < 0 && !worth_another_try(err))
            break;
    }
    return status;
}

static int execute(struct tn_hand_client *h, const struct tn_action *action,
                   struct tn_observation *observation, struct tn_error *err)
{
    tn_autobuf struct tn_buf body = TN_BUF_INIT(MAX_BODY);
    tn_autojson struct tn_json *answer = NULL;

    if (!action->timeout.set)
        return tn_fail(err, TN_E_INVALID, "it has no timeout");
    int status = post(h, action, &body, err);
    if (status < 0)
        return -1;
    if (tn_json_parse(tn_buf_str(&body), body.len, &answer, err) && status == 200)
        return tn_error_context(err, "the answer of the hand");
    if (status != 200)
        return tn_hand_refused(status, answer, err);

    struct tn_observation decoded;
    if (tn_observation_from_json(answer, &decoded, err))
        return tn_error_context(err, "the answer of the hand");
    *observation = decoded;
    return 0;
}

int tn_hand_client_execute(struct tn_hand_client *h, const struct tn_action *action,
                           struct tn_observation *observation, struct tn_error *err)
{
    struct tn_error why = {0};

    if (!execute(h, action, observation, &why))
        return 0;
    if (err)
        *err = why;
    return tn_error_context(err, "action %s", tn_action_name(action->type));
}
