/* Sandboxes that exist: lists, info, time-outs, pause, kill, metrics, logs, templates. */
#include <math.h>
#include <time.h>

#include "net/url.h"
#include "service/clock.h"
#include "service/e2b/e2b.h"
#include "service/openhands.h"

enum {
    USUAL_PAGE = 100,
    LARGEST_PAGE = 100,
    MAX_SAMPLES = 120,
    LOG_MAX = 1 << 20,
    QUERY_MAX = 4096
};
#define LOG_SECONDS 10.0

/* --- lists ----------------------------------------------------------------------------------- */

struct page {
    struct tn_http_exchange *x;
    struct tn_jw w;
    char pairs[TN_URL_PAIRS_MAX(QUERY_MAX)]; /* "name\0value\0..." that its metadata must have */
    size_t pairs_len;
    const char *template; /* its id or its alias */
    double started_after;
    unsigned states; /* bits: 1 running, 2 paused */
    int64_t limit, count;
    double created; /* of the last */
    char id[11];
};

static bool has_metadata(const struct page *p, const struct tn_json *metadata)
{
    for (size_t at = 0; at < p->pairs_len;) {
        const char *name = p->pairs + at, *value = name + strlen(name) + 1;
        const char *found = tn_json_get_str(metadata, name, NULL);
        if (!found || strcmp(found, value) != 0)
            return false;
        at += strlen(name) + strlen(value) + 2;
    }
    return true;
}

static bool is_from(const struct box_view *v, const char *template)
{
    return !template || strcmp(template, e2b_template_of(v, "template")) == 0 ||
           strcmp(template, e2b_template_of(v, "alias")) == 0;
}

static int list_box(struct box *b, void *ctx)
{
    struct page *p = ctx;
    autoview struct box_view v;

    box_look(b, &v);
    const char *state = e2b_state(&v);
    if (!state || !(p->states & (strcmp(state, "running") == 0 ? 1u : 2u)) ||
        !has_metadata(p, v.metadata) || !is_from(&v, p->template) ||
        e2b_started(&v) < p->started_after)
        return 0;
    if (p->count == p->limit)
        return 1; /* there are more */
    e2b_put_info(p->x, &p->w, &v, false);
    p->count++;
    p->created = v.created;
    memcpy(p->id, v.id, sizeof p->id);
    return 0;
}

/* "2026-11-18T20:18:44.123+00:00", as Python says it, or with a Z. */
static int read_started(struct tn_http_exchange *x, double *out)
{
    const char *text = tn_http_query(x, "startedAfter");
    struct tm tm = {0};

    if (!text || !*text)
        return 0;
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    double fraction = 0;
    char *end;
    if (rest && *rest == '.') {
        fraction = strtod(rest, &end);
        rest = end;
    }
    /* The fields of a time of day are those of UTC: what %z reads is what they are ahead of it. */
    struct tm zone = {0};
    const char *last = rest ? strptime(rest, "%z", &zone) : NULL;
    if (!last || *last)
        return native_refuse(x, TN_E_INVALID,
                             "startedAfter: expected a time like 2026-01-31T12:00:00Z");
    *out = (double)timegm(&tm) - (double)zone.tm_gmtoff + fraction;
    return 0;
}

static int read_states(struct tn_http_exchange *x, unsigned *out)
{
    const char *text = tn_http_query(x, "state");

    *out = !text || !*text ? 3u : 0;
    for (; text && *text; text += strcspn(text, ",") + (text[strcspn(text, ",")] == ',')) {
        size_t n = strcspn(text, ",");
        unsigned bit = n == 7 && strncmp(text, "running", n) == 0  ? 1
                       : n == 6 && strncmp(text, "paused", n) == 0 ? 2
                                                                   : 0;
        if (!bit)
            return native_refuse(x, TN_E_INVALID, "state: expected running or paused");
        *out |= bit;
    }
    return 0;
}

/* The filter is a query within the query: "user=1&app=prod", its parts encoded once more. */
static int read_metadata(struct tn_http_exchange *x, struct page *p)
{
    const char *text = tn_http_query(x, "metadata");
    size_t n = text ? strlen(text) : 0;

    if (n > QUERY_MAX)
        return native_refuse(x, TN_E_INVALID, "metadata: too long");
    p->pairs_len = n ? tn_url_pairs(text, n, p->pairs) : 0;
    return 0;
}

static void list(struct tn_http_exchange *x, struct tn_service *s, bool pages)
{
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, E2B_ANSWER_MAX);
    tn_autofree struct page *p = tn_calloc(1, sizeof *p);
    char after[11], token[SURFACE_PLACE];
    const char *order = tn_http_query(x, "order");

    if (!caller_may(x, SCOPE_READ))
        return;
    struct box_filter f = {.tenant = caller_of(x)->tenant,
                           .newest_first = !(order && strcmp(order, "asc") == 0)};
    *p = (struct page){.x = x, .limit = pages ? USUAL_PAGE : INT64_MAX};
    p->w = tn_jw(&json);
    p->template = tn_http_query(x, "template");
    if (read_metadata(x, p) || read_states(x, &p->states) || read_started(x, &p->started_after) ||
        (pages && (native_query_int(x, "limit", 1, LARGEST_PAGE, &p->limit) ||
                   surface_read_place(x, "nextToken", &f, after))))
        return;
    tn_jw_array(&p->w);
    bool more = box_each(s, &f, list_box, p, NULL) != 0;
    tn_jw_array_end(&p->w);
    if (more) {
        surface_write_place(p->created, p->id, token);
        tn_http_set_header(x, "X-Next-Token", token);
    }
    tn_http_reply_json(x, 200, &json);
}

static void get_list(struct tn_http_exchange *x, void *ctx)
{
    list(x, ctx, false);
}

static void get_pages(struct tn_http_exchange *x, void *ctx)
{
    list(x, ctx, true);
}

/* --- one ------------------------------------------------------------------------------------- */

static int not_there(struct tn_http_exchange *x, const char *id)
{
    return native_refuse(x, TN_E_NOT_FOUND, "sandbox %.40s not found", id);
}

static void get_sandbox(struct tn_http_exchange *x, void *ctx)
{
    autobox struct box *b = e2b_box(x, ctx, SCOPE_READ);
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, E2B_ANSWER_MAX);
    struct tn_jw w = tn_jw(&json);
    autoview struct box_view v = {0};

    if (!b)
        return;
    box_look(b, &v);
    if (!e2b_state(&v)) {
        not_there(x, v.id);
        return;
    }
    e2b_put_info(x, &w, &v, true);
    tn_http_reply_json(x, 200, &json);
}

/* Sets the end to so many seconds from now; longer: never to an earlier one. */
static void set_timeout(struct tn_http_exchange *x, struct tn_service *s, const char *member,
                        bool longer)
{
    autobox struct box *b = e2b_box(x, s, SCOPE_MANAGE);
    tn_autojson struct tn_json *body = NULL;
    autoview struct box_view v = {0};
    struct tn_error err = {0};

    if (!b || surface_body(x, E2B_BODY_MAX, &body))
        return;
    double seconds = tn_json_double(tn_json_get(body, member), longer ? E2B_USUAL_TIMEOUT : -1);
    if (!(seconds >= 0 && seconds <= 1e9)) {
        native_refuse(x, TN_E_INVALID, "%s: expected seconds", member);
        return;
    }
    box_look(b, &v);
    bool later = v.timeout > 0 && v.timeout > service_time() + seconds;
    seconds = fmax(seconds, 1e-3); /* 0: it ends at once */
    int failed = !(longer && later) && e2b_state(&v) && v.goal == BOX_RUNNING &&
                 box_change(b, caller_of(x), &(struct box_change){.timeout = &seconds}, &err);
    if (native_audit(x, s, "sandbox.change", box_id(b), failed ? &err : NULL))
        return;
    if (!e2b_state(&v) || v.goal != BOX_RUNNING)
        not_there(x, v.id); /* one that rests has no time-out */
    else if (failed)
        reply_error(x, &err);
    else
        tn_http_reply(x, 204, NULL, NULL, 0);
}

static void post_timeout(struct tn_http_exchange *x, void *ctx)
{
    set_timeout(x, ctx, "timeout", false);
}

static void post_refreshes(struct tn_http_exchange *x, void *ctx)
{
    set_timeout(x, ctx, "duration", true);
}

/* With what is in memory, or (memory false) only with its files. */
static void post_pause(struct tn_http_exchange *x, void *ctx)
{
    autobox struct box *b = e2b_box(x, ctx, SCOPE_MANAGE);
    tn_autojson struct tn_json *body = NULL;
    autoview struct box_view v = {0};

    if (!b || surface_body(x, E2B_BODY_MAX, &body))
        return;
    bool memory = tn_json_bool(tn_json_get(body, "memory"), true);
    if (tn_json_bool(tn_json_get(body, "requireHealthyGuest"), false)) {
        native_refuse(x, TN_E_INVALID, "requireHealthyGuest is not served here");
        return;
    }
    box_look(b, &v);
    if (!e2b_state(&v))
        not_there(x, v.id);
    else if (v.goal == BOX_PAUSED || v.goal == BOX_STOPPED)
        native_refuse(x, TN_E_CONFLICT, "sandbox %s is already paused", v.id);
    else if (surface_order(x, b, memory ? ORDER_PAUSE : ORDER_STOP, E2B_SECONDS) == 0)
        tn_http_reply(x, 204, NULL, NULL, 0);
}

static void delete_sandbox(struct tn_http_exchange *x, void *ctx)
{
    autobox struct box *b = e2b_box(x, ctx, SCOPE_MANAGE);
    autoview struct box_view v = {0};

    if (!b)
        return;
    box_look(b, &v);
    if (v.goal == BOX_GONE)
        not_there(x, v.id);
    else if (surface_order(x, b, ORDER_DELETE, E2B_SECONDS) == 0)
        tn_http_reply(x, 204, NULL, NULL, 0);
}

/* --- numbers --------------------------------------------------------------------------------- */

/* Processors in use between two samples, in hundredths of all that it has. */
static double used_pct(const struct box_sample *before, const struct box_sample *now, int64_t cpus)
{
    double seconds = now->time - before->time;
    double busy = now->usage.cpu_seconds - before->usage.cpu_seconds;

    return before == now || seconds <= 0 || busy < 0 ? 0 : 100 * busy / seconds / (double)cpus;
}

static void put_sample(struct tn_jw *w, const struct box_sample *before,
                       const struct box_sample *now, const struct surface_size *size)
{
    tn_jw_object(w);
    openhands_put_time(w, "timestamp", now->time);
    tn_jw_kint(w, "timestampUnix", (int64_t)now->time);
    tn_jw_kint(w, "cpuCount", size->cpus);
    tn_jw_kdouble(w, "cpuUsedPct", used_pct(before, now, size->cpus));
    tn_jw_kint(w, "memUsed", now->usage.memory > 0 ? now->usage.memory : 0);
    tn_jw_kint(w, "memTotal", size->memory);
    tn_jw_kint(w, "memCache", 0);
    tn_jw_kint(w, "diskUsed", now->usage.disk > 0 ? now->usage.disk : 0);
    tn_jw_kint(w, "diskTotal", size->disk);
    tn_jw_object_end(w);
}

static double query_time(struct tn_http_exchange *x, const char *name, double fallback)
{
    const char *text = tn_http_query(x, name);

    return text && *text ? strtod(text, NULL) : fallback;
}

static void put_samples(struct tn_http_exchange *x, struct tn_jw *w, struct box *b)
{
    tn_autofree struct box_sample *samples = tn_calloc(MAX_SAMPLES + 1, sizeof *samples);
    double start = query_time(x, "start", 0), end = query_time(x, "end", 1e12);
    autoview struct box_view v;

    size_t count = box_samples(b, samples, MAX_SAMPLES);
    if (count == 0 && box_sample(b, NULL) == 0) { /* nobody has watched it so far */
        box_look(b, &v);
        samples[count++] = (struct box_sample){.time = service_time(), .usage = v.usage};
    } else {
        box_look(b, &v);
    }
    struct surface_size size = surface_size_of(&v);
    tn_jw_array(w);
    for (size_t i = 0; i < count; i++)
        if (samples[i].time >= start && samples[i].time <= end)
            put_sample(w, &samples[i ? i - 1 : 0], &samples[i], &size);
    tn_jw_array_end(w);
}

static void get_metrics(struct tn_http_exchange *x, void *ctx)
{
    autobox struct box *b = e2b_box(x, ctx, SCOPE_READ);
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, E2B_ANSWER_MAX);
    struct tn_jw w = tn_jw(&json);

    if (!b)
        return;
    put_samples(x, &w, b);
    tn_http_reply_json(x, 200, &json);
}

/* --- logs ------------------------------------------------------------------------------------ */

static int read_log(struct tn_sandbox *sb, void *ctx, struct tn_error *err)
{
    return tn_sandbox_logs(sb, false, tn_buf_sink, ctx, tn_deadline_in(LOG_SECONDS), err);
}

/* Nobody notes when a line was written. */
static void put_lines(struct tn_jw *w, const struct tn_buf *text, double time, bool entries)
{
    const char *at = tn_buf_str(text), *end = at + text->len;

    tn_jw_array(w);
    for (; at < end; at += strcspn(at, "\n") + 1) {
        tn_jw_object(w);
        openhands_put_time(w, "timestamp", time);
        tn_jw_key(w, entries ? "message" : "line");
        tn_jw_strn(w, at, strcspn(at, "\n"));
        if (entries) {
            tn_jw_kstr(w, "level", "info");
            tn_jw_key(w, "fields");
            tn_jw_raw(w, "{}", 2);
        }
        tn_jw_object_end(w);
    }
    tn_jw_array_end(w);
}

static void logs(struct tn_http_exchange *x, struct tn_service *s, bool newer)
{
    autobox struct box *b = e2b_box(x, s, SCOPE_READ);
    tn_autobuf struct tn_buf text = ANSWER_BUF(x, LOG_MAX), json = ANSWER_BUF(x, E2B_ANSWER_MAX);
    struct tn_jw w = tn_jw(&json);
    autoview struct box_view v = {0};

    if (!b)
        return;
    box_look(b, &v);
    box_with_sandbox(b, read_log, &text, tn_deadline_in(LOG_SECONDS), NULL);
    tn_jw_object(&w);
    tn_jw_key(&w, "logs");
    put_lines(&w, &text, v.started > 0 ? v.started : v.created, newer);
    if (!newer) {
        tn_jw_key(&w, "logEntries");
        put_lines(&w, &text, v.started > 0 ? v.started : v.created, true);
    }
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 200, &json);
}

static void get_logs(struct tn_http_exchange *x, void *ctx)
{
    logs(x, ctx, false);
}

static void get_newer_logs(struct tn_http_exchange *x, void *ctx)
{
    logs(x, ctx, true);
}

/* --- the network ----------------------------------------------------------------------------- */

static int change_network(struct tn_http_exchange *x, struct box *b, const struct tn_json *body,
                          struct tn_error *err)
{
    tn_autobuf struct tn_buf wish = TN_BUF_INIT(E2B_BODY_MAX);
    struct tn_jw w = tn_jw(&wish);

    tn_jw_object(&w);
    if (e2b_put_network(&w, body, body, err))
        return -1;
    tn_jw_object_end(&w);
    return surface_change_network(b, caller_of(x), &wish, err);
}

static int is_of_others(const char *name, struct tn_json *value, void *ctx)
{
    return tn_json_type(value) == TN_JSON_OBJECT && strcmp(name, E2B_RECORD) != 0;
}

/* Its ports become public, or private; without a word they stay as they are,
 * as far as the operator lets them. */
static int change_public(struct tn_http_exchange *x, struct box *b, const struct tn_json *body,
                         struct tn_error *err)
{
    autoview struct box_view v;
    bool public = false;

    box_look(b, &v);
    const struct tn_json *record = tn_json_get(v.metadata, E2B_RECORD);
    bool was = tn_json_bool(tn_json_get(record, E2B_PUBLIC), false);
    if (e2b_read_public(box_service(b), body, was, &public, err))
        return -1;
    if (public == was)
        return 0;
    if (tn_json_each(v.metadata, is_of_others, NULL))
        return tn_fail(err, TN_E_UNSUPPORTED,
                       "allowPublicTraffic: sandbox %s was made by another API, which knows "
                       "nothing of it",
                       v.id);
    tn_autojson struct tn_json *metadata =
        surface_metadata(v.metadata, E2B_RECORD, record, E2B_PUBLIC, public ? "true" : NULL, err);
    return metadata ? box_change(b, caller_of(x), &(struct box_change){.metadata = metadata}, err)
                    : -1;
}

static void put_network(struct tn_http_exchange *x, void *ctx)
{
    struct tn_service *s = ctx;
    autobox struct box *b = e2b_box(x, s, SCOPE_MANAGE);
    tn_autojson struct tn_json *body = NULL;
    struct tn_error err = {0};

    if (!b || surface_body(x, E2B_BODY_MAX, &body))
        return;
    int failed = change_network(x, b, body, &err) || change_public(x, b, body, &err);
    if (native_audit(x, s, "network.change", box_id(b), failed ? &err : NULL))
        return;
    if (failed)
        reply_error(x, &err);
    else
        tn_http_reply(x, 204, NULL, NULL, 0);
}

/* --- the rest -------------------------------------------------------------------------------- */

static void get_health(struct tn_http_exchange *x, void *ctx)
{
    tn_http_reply(x, 204, NULL, NULL, 0);
}

#define BOX "/sandboxes/{id}"
const struct tn_route routes_e2b_control[] = {
    {"GET", "/sandboxes", get_list, "E2B: sandboxes", 0},
    {"GET", "/v2/sandboxes", get_pages, "E2B: sandboxes, in pages", 0},
    {"GET", BOX "", get_sandbox, "E2B: one", 0},
    {"DELETE", BOX "", delete_sandbox, "E2B: removes it", 0},
    {"POST", BOX "/timeout", post_timeout, "E2B: its end, from now", 0},
    {"POST", BOX "/refreshes", post_refreshes, "E2B: a later end", 0},
    {"POST", BOX "/pause", post_pause, "E2B: pauses it", 0},
    {"GET", BOX "/metrics", get_metrics, "E2B: what it uses", 0},
    {"GET", BOX "/logs", get_logs, "E2B: its log", 0},
    {"GET", "/v2/sandboxes/{id}/logs", get_newer_logs, "E2B: its log", 0},
    {"PUT", BOX "/network", put_network, "E2B: other rules for its gate", 0},
    {"GET", "/health", get_health, "E2B: the service is there", TN_ROUTE_OPEN},
    {0},
};
