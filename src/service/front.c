/* The way in: a request gets its id, then shows its key; what came of it is logged. */
#include <ctype.h>
#include <math.h>
#include <pthread.h>
#include <strings.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/log.h"
#include "service/audit.h"
#include "service/bucket.h"
#include "service/caller.h"
#include "service/daytona/daytona.h"
#include "service/e2b/e2b.h"
#include "service/front.h"
#include "service/login.h"
#include "service/metrics.h"
#include "service/modal/modal.h"
#include "service/openhands.h"
#include "service/proxy.h"
#include "service/purses.h"
#include "service/runloop/runloop.h"
#include "service/surface.h"
#include "service/timing.h"

enum { REQUEST_ID_MAX = 64 };

typedef char key_id[sizeof((struct caller *)NULL)->key_id];

/* What is attached to every exchange. */
struct visit {
    struct tn_service *service;
    struct tn_http_exchange *exchange;
    struct visit *next, **at; /* those of known callers; under their lock, as the next line is */
    bool late;                /* its key counts no more */
    char request_id[REQUEST_ID_MAX + 1];
    bool known; /* who is set */
    struct caller who;
    surface_reply_fn reply; /* how its errors are told; NULL: as its path wants it */
    struct tn_purse *purse; /* NULL until something is held */
    size_t held;            /* in it, until the end of the exchange */
};

static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER; /* never held while keys are asked */
static struct visit *open_visits;

static void visit_know(struct visit *v, const struct caller *who)
{
    pthread_mutex_lock(&open_lock);
    v->who = *who;
    v->known = true;
    if (!v->at) {
        v->next = open_visits;
        v->at = &open_visits;
        if (v->next)
            v->next->at = &v->next;
        open_visits = v;
    }
    pthread_mutex_unlock(&open_lock);
}

static void visit_end(void *data)
{
    struct visit *v = data;

    pthread_mutex_lock(&open_lock);
    if (v->at)
        *v->at = v->next;
    if (v->at && v->next)
        v->next->at = v->at;
    pthread_mutex_unlock(&open_lock);
    tn_purse_give(v->purse, v->held);
    purse_release(v->service->purses, v->purse);
    free(v);
}

static struct visit *visit_of(const struct tn_http_exchange *x)
{
    return tn_http_attached(x);
}

const struct caller *caller_of(const struct tn_http_exchange *x)
{
    const struct visit *v = visit_of(x);

    return v && v->known ? &v->who : NULL;
}

const char *request_id(const struct tn_http_exchange *x)
{
    const struct visit *v = visit_of(x);

    return v ? v->request_id : "";
}

void surface_speak(struct tn_http_exchange *x, surface_reply_fn reply)
{
    visit_of(x)->reply = reply;
}

surface_reply_fn surface_reply(const struct tn_http_exchange *x)
{
    const struct visit *v = visit_of(x);

    return v ? v->reply : NULL;
}

struct tn_purse *purse_of(const struct tn_http_exchange *x)
{
    struct visit *v = visit_of(x);

    if (!v->purse)
        v->purse = purse_get(v->service->purses, v->known ? v->who.tenant : "");
    return v->purse;
}

int hold_json(const struct tn_http_exchange *x, const struct tn_buf *text, struct tn_json **out,
              struct tn_error *err)
{
    size_t held;
    int result = tn_json_parse_held(tn_buf_str(text), text->len, purse_of(x), &held, out, err);

    visit_of(x)->held += held;
    return result;
}

/* --- request ids --------------------------------------------------------------------------- */

static bool is_sane_id(const char *text)
{
    size_t n = text ? strlen(text) : 0;

    for (size_t i = 0; i < n; i++)
        if (!isascii(text[i]) || !(isalnum((unsigned char)text[i]) || strchr("._-", text[i])))
            return false;
    return n > 0 && n <= REQUEST_ID_MAX;
}

void front_begin(struct tn_http_exchange *x, struct tn_service *s)
{
    if (visit_of(x))
        return;
    struct visit *v = tn_calloc(1, sizeof *v);
    const char *given = tn_http_header(x, "X-Request-Id");
    unsigned char bytes[10];

    timing_begin();
    v->service = s;
    v->exchange = x;
    if (is_sane_id(given)) {
        snprintf(v->request_id, sizeof v->request_id, "%s", given);
    } else {
        if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
            memset(bytes, 0, sizeof bytes); /* it names, it protects nothing */
        for (size_t i = 0; i < sizeof bytes; i++)
            snprintf(v->request_id + 2 * i, 3, "%02x", bytes[i]);
    }
    tn_http_attach(x, v, visit_end);
    tn_http_set_header(x, "X-Request-Id", v->request_id);
}

/* A path for logs.  Nobody should put a key there; who does it all the same is not betrayed. */
static const char *plain_path(const struct tn_http_exchange *x)
{
    const char *path = tn_http_path(x);

    return strstr(path, "tnk_") || strstr(path, "tnt_") || strstr(path, "e2b_")
               ? "(hidden: it has a key in it)"
               : path;
}

/* --- refusals are remembered --------------------------------------------------------------- */

/* Anybody without a key can ask, and be refused, any number of times, and so can whoever asks for
 * more than his key allows: only so many of each are written down, and how many were not. */
struct notes {
    const char *left_out; /* what the log says of those */
    const double a_second, at_once;
    pthread_mutex_t lock;
    struct bucket rate;
    int64_t unwritten;
};
static struct notes denials = {.a_second = 5, .at_once = 50, .lock = PTHREAD_MUTEX_INITIALIZER};
static struct notes strangers = {.left_out = "requests without a key were left out of the log",
                                 .a_second = 20,
                                 .at_once = 200,
                                 .lock = PTHREAD_MUTEX_INITIALIZER};
static struct notes hasty = {.left_out =
                                 "requests over a limit of their key were left out of the log",
                             .a_second = 20,
                             .at_once = 200,
                             .lock = PTHREAD_MUTEX_INITIALIZER};

/* Whether this one is to be written, and how many were not since the last that was. */
static bool may_note(struct notes *of, int64_t *unwritten)
{
    pthread_mutex_lock(&of->lock);
    bool may = bucket_take(&of->rate, of->a_second, of->at_once) <= 0;
    *unwritten = of->unwritten;
    of->unwritten = may ? 0 : of->unwritten + 1;
    pthread_mutex_unlock(&of->lock);
    return may;
}

void note_denied(struct tn_http_exchange *x, const char *why)
{
    const struct visit *v = visit_of(x);
    struct tn_service *s = v->service;
    char detail[512];
    int64_t unwritten;

    metric_add(s->metrics, METRIC_DENIED, NULL, 1);
    if (!may_note(&denials, &unwritten))
        return;
    snprintf(detail, sizeof detail, "%s %.200s from %s: %s", tn_http_method(x), plain_path(x),
             tn_http_peer(x), why);
    if (unwritten) {
        size_t n = strlen(detail);
        snprintf(detail + n, sizeof detail - n, " (and %lld more before)", (long long)unwritten);
    }
    audit_write(s->audit,
                &(struct audit_entry){.who = caller_of(x),
                                      .what = "denied",
                                      .result = tn_code_row(TN_E_DENIED)->name,
                                      .request_id = v->request_id,
                                      .detail = detail},
                NULL);
}

bool front_deny(struct tn_http_exchange *x, int status, const char *why)
{
    note_denied(x, why);
    reply_status(x, status, tn_code_row(TN_E_DENIED)->name, why);
    return false;
}

bool caller_may(struct tn_http_exchange *x, unsigned scope)
{
    const struct caller *who = caller_of(x);
    char why[128];

    if (who && (who->scopes & SCOPE_ADMIN || (who->scopes & scope) == scope))
        return true;
    for (unsigned i = 0; scope_words[i]; i++)
        if (scope & 1u << i)
            snprintf(why, sizeof why, "This needs a key with the scope %s", scope_words[i]);
    return front_deny(x, 403, why);
}

bool front_enter(struct tn_http_exchange *x, void *ctx)
{
    struct tn_service *s = ctx;

    front_begin(x, s);
    return !e2b_take(s, x) && !modal_take(s, x) && !runloop_take(s, x) && !preview_take(s, x) &&
           !daytona_take(x) && host_check(s, x) && origin_check(s, x) && !openhands_take(s, x);
}

/* --- keys ---------------------------------------------------------------------------------- */

static const char *given_key(const struct tn_http_exchange *x)
{
    static const char scheme[] = "Bearer ";
    const char *key = tn_http_header(x, "X-API-Key");
    const char *authorization = tn_http_header(x, "Authorization");
    size_t n = sizeof scheme - 1;

    if (!key)
        key = tn_http_header(x, "X-Modal-Token-Secret");
    if (key || !authorization || strncasecmp(authorization, scheme, n) != 0)
        return key;
    return authorization + n + strspn(authorization + n, " ");
}

int reply_unauthorized(struct tn_http_exchange *x, const char *detail)
{
    note_denied(x, detail);
    tn_http_set_header(x, "WWW-Authenticate", "Bearer");
    return reply_status(x, 401, "unauthorized", detail);
}

bool refuse_rate(struct tn_http_exchange *x, double seconds, const char *detail)
{
    char wait[32];

    snprintf(wait, sizeof wait, "%.0f", ceil(seconds));
    tn_http_set_header(x, "Retry-After", wait);
    reply_status(x, 429, tn_code_row(TN_E_QUOTA)->name, detail);
    return false;
}

bool caller_enter(struct tn_http_exchange *x, const struct caller *who)
{
    struct visit *v = visit_of(x);

    visit_know(v, who);
    if (!tn_http_know(x, who->tenant)) {
        tn_http_set_header(x, "Retry-After", "1");
        reply_status(x, 503, tn_code_row(TN_E_BUSY)->name,
                     "This tenant, or all together, have too many connections that are in use");
        return false;
    }
    double wait = keyring_take(v->service->keys, who);
    return wait > 0 ? refuse_rate(x, wait,
                                  "Too many requests with this key: requests_per_second is its "
                                  "limit")
                    : true;
}

bool caller_present(struct tn_http_exchange *x)
{
    struct tn_service *s = visit_of(x)->service;
    const char *key = given_key(x);
    struct tn_error err;
    struct caller who;

    if (!key) {
        reply_unauthorized(x, "An API key is needed: X-API-Key or Authorization: Bearer");
        return false;
    }
    int known = login_is_pass(key) ? login_check(s, key, &who, &err)
                                   : keyring_check(s->keys, key, &who, &err);
    if (keyring_news(s->keys))
        audit_take_notes(s->audit);
    if (known == 0)
        return caller_enter(x, &who);
    if (err.code == TN_E_DENIED)
        reply_unauthorized(x, err.text);
    else
        reply_error(x, &err);
    return false;
}

bool front_check(struct tn_http_exchange *x, void *ctx)
{
    return caller_present(x);
}

static int compare_ids(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* The keys of exchanges that are open, each once; the caller frees them. */
static size_t open_keys(const struct tn_service *s, key_id **out)
{
    size_t count = 0, kept = 0, room = 0;
    key_id *ids = NULL;

    pthread_mutex_lock(&open_lock);
    for (const struct visit *v = open_visits; v; v = v->next) {
        if (v->service != s)
            continue;
        if (count == room) {
            room = room ? 2 * room : 64;
            ids = tn_realloc(ids, room * sizeof *ids);
        }
        memcpy(ids[count++], v->who.key_id, sizeof *ids);
    }
    pthread_mutex_unlock(&open_lock);
    if (count)
        qsort(ids, count, sizeof *ids, compare_ids);
    for (size_t i = 0; i < count; i++)
        if (!kept || strcmp(ids[kept - 1], ids[i]) != 0)
            memmove(ids[kept++], ids[i], sizeof *ids);
    *out = ids;
    return kept;
}

void front_tick(struct tn_service *s)
{
    tn_autofree key_id *ids = NULL;
    size_t count = open_keys(s, &ids);

    for (size_t i = 0; i < count; i++) {
        struct tn_error err = {0};
        struct caller who;
        if (keyring_find(s->keys, ids[i], &who, &err) == 0 || err.code != TN_E_DENIED)
            continue;
        pthread_mutex_lock(&open_lock);
        for (struct visit *v = open_visits; v; v = v->next)
            if (v->service == s && strcmp(v->who.key_id, ids[i]) == 0) {
                if (v->late)
                    tn_http_cut(v->exchange);
                v->late = true;
            }
        pthread_mutex_unlock(&open_lock);
    }
}

char *base_url(const struct tn_http_exchange *x)
{
    const struct tn_service *s = visit_of(x)->service;
    const char *host = tn_http_header(x, "Host");
    const char *colon = strstr(s->url, "://");

    if (s->options->url || !host || strcmp(tn_http_peer(x), "unix") == 0)
        return tn_strdup(s->url);
    return tn_asprintf("%.*s%s", (int)(colon - s->url) + 3, s->url, host);
}

/* Who has shown no key is told no times either. */
void front_head(struct tn_http_exchange *x, void *ctx)
{
    char times[TIMING_TEXT];

    if (!caller_of(x))
        return;
    timing_tell(times);
    tn_http_set_header(x, "Server-Timing", times);
}

/* --- the log ------------------------------------------------------------------------------- */

void front_log(const struct tn_http_exchange *x, int status, int64_t nanoseconds, void *ctx)
{
    static const char *const classes[] = {"other", "1xx", "2xx", "3xx", "4xx", "5xx"};
    struct tn_service *s = ctx;
    const struct caller *who = caller_of(x);
    double seconds = (double)nanoseconds / 1e9;
    int class = status / 100;
    const int over_limit = tn_code_row(TN_E_QUOTA)->http_status;

    metric_add(s->metrics, METRIC_REQUESTS, classes[class >= 1 && class <= 5 ? class : 0], 1);
    metric_seconds(s->metrics, METRIC_REQUEST_SECONDS, seconds);
    int64_t unwritten = 0;
    struct notes *of = !who ? &strangers : status == over_limit ? &hasty : NULL;
    if (of && !may_note(of, &unwritten))
        return;
    if (unwritten)
        tn_log(TN_LOG_WARN, of->left_out, tn_log_int("requests", unwritten));
    tn_log(TN_LOG_INFO, "request", tn_log_str("method", tn_http_method(x)),
           tn_log_str("path", plain_path(x)), tn_log_int("status", status),
           tn_log_double("seconds", seconds), tn_log_str("peer", tn_http_peer(x)),
           tn_log_str("key", who ? who->key_id : ""), tn_log_str("tenant", who ? who->tenant : ""),
           tn_log_str("request_id", request_id(x)));
}
