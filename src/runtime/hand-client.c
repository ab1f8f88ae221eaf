#include "runtime/hand-client.h"

#include <inttypes.h>
#include <poll.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "runtime/hand-address.h"
#include "runtime/hand-answer.h"

#define MAX_HEADERS (8u << 10)
#define MAX_NAMES (1u << 20) /* of paths that are asked for at once */

/* How much longer than the action itself the host waits (the hand answers within one second). */
#define GRACE_SECONDS 5.0

/* Connections that may break under one action, or one wait, before it is given up. */
#define MAX_ATTEMPTS 3

#define FIRST_PAUSE_MS 1
#define LONGEST_PAUSE_MS 50

/* The same for a hand behind a service: more happens on the way, and is over after a while. */
#define MAX_FAR_ATTEMPTS 8
#define FIRST_FAR_PAUSE_MS 100
#define LONGEST_FAR_PAUSE_MS 2000
#define LONGEST_FAR_WAIT_MS 500

struct tn_hand_client {
    struct tn_http_client *http;
    size_t max_answer;
    bool far;                                            /* behind a service */
    bool patient;                                        /* asks again what went wrong on the way */
    enum { KEYS_UNKNOWN, KEYS_KEPT, KEYS_IGNORED } keys; /* does it know idempotency keys? */
};

struct tn_hand_client *tn_hand_client_new(const char *address, const char *key,
                                          struct tn_error *err)
{
    tn_autohandplace struct tn_hand_place place;

    if (tn_hand_place(address, &place, err) < 0)
        return NULL;
    struct tn_http_client *http = tn_hand_http(address, key, err);
    if (!http)
        return NULL;
    struct tn_hand_client *h = tn_calloc(1, sizeof *h);
    h->http = http;
    h->max_answer = TN_HAND_BODY_MAX;
    h->far = h->patient = place.far;
    h->keys = place.far ? KEYS_UNKNOWN : KEYS_KEPT;
    return h;
}

void tn_hand_client_patience(struct tn_hand_client *h, bool patient)
{
    h->patient = h->far && patient;
}

void tn_hand_client_expect(struct tn_hand_client *h, size_t max_answer)
{
    h->max_answer = max_answer;
}

void tn_hand_client_cancel_by(struct tn_hand_client *h, int fd)
{
    tn_http_client_cancel_by(h->http, fd);
}

void tn_hand_client_free(struct tn_hand_client *h)
{
    if (!h)
        return;
    tn_http_client_free(h->http);
    free(h);
}

/* --- readiness -------------------------------------------------------------------------------- */

/* What whoever stands between says when something on the way is not as it should be just now. */
static bool is_passing(int status)
{
    return status == 429 || status == 502 || status == 504;
}

/* Services close connections to hands that do not listen yet; near ones should not break. */
static bool may_break(const struct tn_hand_client *h, const struct tn_error *err, int broken)
{
    return err->code == TN_E_PEER && (h->far || broken < MAX_ATTEMPTS);
}

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
    int longest = h->far ? LONGEST_FAR_WAIT_MS : LONGEST_PAUSE_MS;
    int broken = 0;

    for (int pause = FIRST_PAUSE_MS;; pause = pause * 2 < longest ? pause * 2 : longest) {
        tn_autobuf struct tn_buf body = TN_BUF_INIT(64 << 10);
        struct tn_http_call call = {.target = "/alive", .deadline = deadline};
        int status = tn_http_client_call(h->http, &call, &body, &why);

        if (status >= 200 && status < 300)
            return 0;
        if (status >= 0 && !(status == 503 || (h->far && is_passing(status))))
            return tn_fail(err, status == 403 ? TN_E_DENIED : TN_E_PEER,
                           "GET /alive: expected 200, got %d: is this a hand?", status);
        if (status >= 0)
            tn_fail(&why, TN_E_BUSY, "it is still starting (HTTP %d)", status);
        else if (why.code != TN_E_TIMEOUT && !nobody_listens(&why) && !may_break(h, &why, ++broken))
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

int tn_hand_make_key(char out[TN_HAND_KEY_SIZE], struct tn_error *err)
{
    uint64_t random[2];

    if (getrandom(random, sizeof random, 0) != sizeof random)
        return tn_fail_errno(err, errno, "no random bytes for an idempotency key");
    snprintf(out, TN_HAND_KEY_SIZE, "%016" PRIx64 "%016" PRIx64, random[0], random[1]);
    return 0;
}

int tn_hand_write_request(const struct tn_action *action, struct tn_buf *out, struct tn_error *err)
{
    struct tn_jw w = tn_jw(out);

    tn_jw_object(&w);
    tn_jw_key(&w, "action");
    tn_action_to_json(action, &w);
    tn_jw_object_end(&w);
    if (!tn_buf_ok(out))
        return tn_fail(err, TN_E_TOO_LARGE, "it is larger than %zu MiB", out->max >> 20);
    return 0;
}

/* --- asking again ------------------------------------------------------------------------------
 *
 * Nothing may run twice.  A hand of ours runs an action with an idempotency key once, however often
 * it is asked for.  Behind a service there may be another one: it is sent no key, and what it may
 * have begun is never sent again. */

/* How long the service asks to be left alone, in milliseconds. */
static int asked_pause(const struct tn_hand_client *h, int status)
{
    const char *text = status == 429 ? tn_http_client_answer(h->http, "Retry-After") : NULL;
    double seconds = text ? strtod(text, NULL) : 0;

    return seconds > 0 && seconds < 86400 ? (int)(seconds * 1000) : 0;
}

/* Where nobody listens any more on this machine the hand is gone, and what it remembered with it; a
 * service is started again. */
static bool may_repeat(const struct tn_hand_client *h, int status, const struct tn_error *err,
                       int attempt)
{
    bool kept = h->keys == KEYS_KEPT;

    if (!h->far)
        return status < 0 && err->code == TN_E_PEER && !nobody_listens(err) &&
               attempt < MAX_ATTEMPTS;
    if (!h->patient)
        return false;
    if (attempt >= MAX_FAR_ATTEMPTS && !asked_pause(h, status))
        return false;
    if (status == 429) /* it was not even looked at */
        return true;
    if (status < 0)
        return err->code == TN_E_PEER && (kept || nobody_listens(err));
    return kept && is_passing(status);
}

static bool pause_before(const struct tn_hand_client *h, int status, int attempt, int64_t deadline)
{
    int asked = asked_pause(h, status);
    int pause = attempt < 5 ? FIRST_FAR_PAUSE_MS << (attempt - 1) : LONGEST_FAR_PAUSE_MS;

    if (!h->far)
        return true;
    if (asked > pause)
        pause = asked;
    if (tn_now() + pause * TN_MILLI >= deadline)
        return false;
    pause_or_event(-1, pause, deadline);
    return true;
}

/* Only hands of ours have this route. */
static void learn_kind(struct tn_hand_client *h, int64_t deadline)
{
    struct tn_http_call call = {.target = "/v1/routes", .deadline = deadline};

    for (int attempt = 1; attempt <= MAX_FAR_ATTEMPTS; attempt++) {
        tn_autobuf struct tn_buf body = TN_BUF_INIT(1 << 20);
        int status = tn_http_client_call(h->http, &call, &body, NULL);
        if (status == 200 || status == 404) /* some answer 200 to everything */
            h->keys = status == 200 && strstr(tn_buf_str(&body), "/execute_action") ? KEYS_KEPT
                                                                                    : KEYS_IGNORED;
        if ((status >= 0 && !is_passing(status)) || !h->patient ||
            !pause_before(h, status, attempt, deadline))
            return;
    }
}

static int send_request(struct tn_hand_client *h, const struct tn_http_call *call,
                        struct tn_buf *answer, struct tn_error *err)
{
    for (int attempt = 1;; attempt++) {
        tn_buf_reset(answer);
        int status = tn_http_client_call(h->http, call, answer, err);
        if ((status >= 0 && status < 400) || !may_repeat(h, status, err, attempt) ||
            !pause_before(h, status, attempt, call->deadline))
            return status;
    }
}

int tn_hand_client_send(struct tn_hand_client *h, const struct tn_hand_request *r,
                        struct tn_buf *answer, bool *again, struct tn_error *err)
{
    tn_autobuf struct tn_buf headers = TN_BUF_INIT(MAX_HEADERS);
    struct tn_error why = {0};

    if (h->keys == KEYS_UNKNOWN)
        learn_kind(h, r->deadline);
    tn_buf_reset(answer);
    if (r->replay && h->keys != KEYS_KEPT)
        return TN_HAND_KEEPS_NOTHING;
    if (h->keys == KEYS_KEPT)
        tn_buf_printf(&headers, "Idempotency-Key: %s\r\n", r->key);
    if (r->replay)
        tn_buf_puts(&headers, "Idempotency-Expect: replay\r\n");
    tn_buf_puts(&headers, r->headers ? r->headers : "");
    if (!tn_buf_ok(&headers))
        return tn_fail(err, TN_E_HEADERS_TOO_LARGE, "its headers are too large");
    const struct tn_http_call call = {
        .method = "POST",
        .target = "/execute_action",
        .type = "application/json",
        .body = r->body,
        .body_len = r->len,
        .extra_headers = tn_buf_str(&headers),
        .deadline = r->deadline,
    };
    int status = send_request(h, &call, answer, &why);
    if (status < 0 && err)
        *err = why;
    if (status >= 0 && again)
        *again = tn_http_client_answer(h->http, "Idempotency-Replayed") != NULL;
    return status;
}

struct tn_json *tn_hand_client_links(struct tn_hand_client *h, const char *session,
                                     const char *const *names, size_t count, int64_t deadline,
                                     struct tn_error *err)
{
    tn_autobuf struct tn_buf body = TN_BUF_INIT(MAX_NAMES), answer = TN_BUF_INIT(MAX_NAMES);
    tn_autojson struct tn_json *tree = NULL;
    struct tn_jw w = tn_jw(&body);

    tn_jw_object(&w);
    if (session)
        tn_jw_kstr(&w, "session", session);
    tn_jw_key(&w, "names");
    tn_jw_array(&w);
    for (size_t i = 0; i < count; i++) {
        if (!tn_utf8_valid(names[i], strlen(names[i]))) { /* JSON would make it another name */
            tn_fail(err, TN_E_INVALID, "it names a path that is no UTF-8");
            return NULL;
        }
        tn_jw_str(&w, names[i]);
    }
    tn_jw_array_end(&w);
    tn_jw_object_end(&w);
    const struct tn_http_call call = {.method = "POST",
                                      .target = "/v1/files/links",
                                      .type = "application/json",
                                      .body = tn_buf_str(&body),
                                      .body_len = body.len,
                                      .deadline = deadline};
    int status = tn_buf_ok(&body) ? tn_http_client_call(h->http, &call, &answer, err)
                                  : tn_fail(err, TN_E_TOO_LARGE, "its paths are too many");
    if (status < 0)
        return NULL;
    if (status != 200 || tn_json_parse(tn_buf_str(&answer), answer.len, &tree, NULL) ||
        tn_json_count(tn_json_get(tree, "targets")) != count) {
        tn_fail(err, status == 404 ? TN_E_UNSUPPORTED : TN_E_PEER,
                "the hand did not tell where its links lead (HTTP %d)", status);
        return NULL;
    }
    return tn_json_ref(tn_json_get(tree, "targets"));
}

bool tn_hand_client_is_far(const struct tn_hand_client *h)
{
    return h->far;
}

void tn_hand_client_refused(const struct tn_hand_client *h, int status, const struct tn_buf *answer,
                            struct tn_error *err)
{
    tn_autojson struct tn_json *tree = NULL;

    if (h->far && status == 404) {
        tn_fail(err, TN_E_NOT_FOUND,
                "the sandbox is not responding: its service does not know it (any more)");
    } else if (h->far && (status == 502 || status == 504)) {
        tn_fail(err, TN_E_PEER, "the sandbox is temporarily unavailable (HTTP %d)", status);
    } else {
        tn_json_parse(tn_buf_str(answer), answer->len, &tree, NULL);
        tn_hand_refused(status, tree, err);
    }
}

static int execute(struct tn_hand_client *h, const struct tn_action *action,
                   struct tn_observation *observation, struct tn_error *err)
{
    tn_autobuf struct tn_buf body = TN_BUF_INIT(TN_HAND_BODY_MAX),
                             bytes = TN_BUF_INIT(h->max_answer);
    tn_autojson struct tn_json *answer = NULL;
    char key[TN_HAND_KEY_SIZE];

    if (!action->timeout.set)
        return tn_fail(err, TN_E_INVALID, "it has no timeout");
    if (tn_hand_write_request(action, &body, err) || tn_hand_make_key(key, err))
        return -1;
    const struct tn_hand_request r = {
        .body = body.data,
        .len = body.len,
        .key = key,
        .deadline = tn_deadline_in(action->timeout.value + GRACE_SECONDS),
    };
    int status = tn_hand_client_send(h, &r, &bytes, NULL, err);
    if (status < 0)
        return -1;
    if (status != 200) {
        tn_hand_client_refused(h, status, &bytes, err);
        return -1;
    }
    struct tn_observation decoded;
    if (tn_json_parse(tn_buf_str(&bytes), bytes.len, &answer, err) ||
        tn_observation_from_json(answer, &decoded, err))
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
