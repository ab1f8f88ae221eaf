/* New sandboxes: POST /v1/sandboxes, POST /v1/sandboxes/{id}/fork. */
#include <math.h>

#include "base/clock.h"
#include "base/sha256.h"
#include "service/api-native.h"

enum { MAX_NAME = 128, MAX_METADATA = 16 << 10 };
/* Beyond the time that a start may take by itself. */
#define WAIT_MORE_SECONDS 5.0
#define LONGEST_WAIT 3600.0
/* A fork fetches nothing: whoever asks for one hears of it before clients of the usual patience, a
 * minute, give up. */
#define FORK_WAIT_SECONDS 30.0

/* What a request says beside the spec. */
struct wish {
    char *template, *session, *name, *snapshot;
    struct tn_json *metadata, *env;
    struct tn_opt_double idle_pause, idle_stop, ttl, resource_factor, wait;
};

#define WISH struct wish
#define SHARED_ROWS                                                                              \
    TN_STRING("session", WISH, session, .help = "id of the client's own, unique in its tenant"), \
        TN_STRING("name", WISH, name, .help = "for people; need not be unique"),                 \
        TN_JSON("metadata", WISH, metadata, .flags = TN_FIELD_MAP,                               \
                .help = "an object of the client's own"),                                        \
        TN_OPT_DOUBLE("idle_pause", WISH, idle_pause, .min = 0, .max = 1e9,                      \
                      .help = "seconds without use until it is paused; 0: never"),               \
        TN_OPT_DOUBLE("idle_stop", WISH, idle_stop, .min = 0, .max = 1e9,                        \
                      .help = "seconds without use until it is stopped; 0: never"),              \
        TN_OPT_DOUBLE("ttl", WISH, ttl, .min = 0, .max = 1e9,                                    \
                      .help = "seconds until it is deleted; 0: never"),                          \
        TN_OPT_DOUBLE("wait", WISH, wait, .min = 0, .max = LONGEST_WAIT,                         \
                      .help = "seconds to wait until it runs; 0: answer at once")

static const struct tn_field create_rows[] = {
    TN_STRING("template", WISH, template, .help = "[template.NAME] to start from"),
    SHARED_ROWS,
    TN_OPT_DOUBLE("resource_factor", WISH, resource_factor, .min = 0.125, .max = 64,
                  .help = "multiplies cpus and memory"),
};
static const struct tn_fields create_fields = TN_FIELDS(create_rows);

static const struct tn_field fork_rows[] = {
    TN_STRING("snapshot", WISH, snapshot, .help = "whose files; without it those of now"),
    TN_JSON("env", WISH, env, .flags = TN_FIELD_MAP,
            .help = "variables, all of them; without it those of its parent"),
    SHARED_ROWS,
};
static const struct tn_fields fork_fields = TN_FIELDS(fork_rows);

static double or_usual(struct tn_opt_double v)
{
    return v.set ? v.value : -1;
}

static int check_text(const char *what, const char *text, struct tn_error *err)
{
    if (!text)
        return 0;
    if (!*text || strlen(text) > MAX_NAME)
        return tn_fail(err, TN_E_UNPROCESSABLE, "%s: expected 1 to %d bytes", what, MAX_NAME);
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            return tn_fail(err, TN_E_UNPROCESSABLE, "%s: control characters are not allowed", what);
    return 0;
}

int native_check_names(const char *name, const char *session, const struct tn_json *metadata,
                       struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(MAX_METADATA);
    struct tn_jw w = tn_jw(&text);

    if (check_text("name", name, err) || check_text("session", session, err))
        return -1;
    tn_jw_tree(&w, metadata);
    return tn_buf_ok(&text)
               ? 0
               : tn_fail(err, TN_E_UNPROCESSABLE, "metadata: more than %d KiB", MAX_METADATA >> 10);
}

static struct box_wish as_box_wish(const struct wish *w)
{
    return (struct box_wish){
        .session = w->session,
        .name = w->name,
        .template = w->template,
        .resource_factor = w->resource_factor.set ? w->resource_factor.value : 0,
        .idle_pause = or_usual(w->idle_pause),
        .idle_stop = or_usual(w->idle_stop),
        .ttl = or_usual(w->ttl),
        .metadata = w->metadata,
    };
}

static int put_member(const char *name, struct tn_json *value, void *ctx)
{
    if (strcmp(name, "wait") != 0) {
        tn_jw_key(ctx, name);
        tn_jw_tree(ctx, value);
    }
    return 0;
}

/* What an idempotency key belongs to: this caller's request, word by word, but for how long its
 * answer may take. */
static void digest_of(const struct tn_http_exchange *x, const struct tn_json *body, char out[65])
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(2 * NATIVE_BODY_MAX);
    struct tn_jw w = tn_jw(&text);
    struct tn_sha256 h;

    tn_jw_object(&w);
    tn_json_each(body, put_member, &w);
    tn_jw_object_end(&w);
    tn_sha256_init(&h);
    tn_sha256_add(&h, tn_http_path(x), strlen(tn_http_path(x)) + 1);
    tn_sha256_add(&h, tn_buf_str(&text), text.len);
    tn_sha256_end_hex(&h, out);
}

static const char *idempotency_of(const struct tn_http_exchange *x, struct tn_error *err)
{
    const char *key = tn_http_header(x, "Idempotency-Key");
    size_t n = key ? strlen(key) : 0;

    if (key && (n == 0 || n > 255))
        tn_fail(err, TN_E_INVALID, "Idempotency-Key: expected 1 to 255 characters");
    return key;
}

/* What a start takes at most, failures included. */
static double start_time(const struct tn_service *s)
{
    return s->options->start_seconds + WAIT_MORE_SECONDS;
}

/* Waits as asked (or for the usual time), and tells how it is by then. */
static void answer(struct tn_http_exchange *x, double usual, struct box *b, const struct wish *w,
                   bool again)
{
    static const unsigned settled = 1u << BOX_RUNNING | 1u << BOX_PAUSED | 1u << BOX_STOPPED |
                                    1u << BOX_ERROR | 1u << BOX_MISSING;
    double seconds = w->wait.set ? w->wait.value : usual;
    char location[64];

    if (seconds > 0)
        box_wait(b, settled, tn_deadline_in(seconds), NULL);
    snprintf(location, sizeof location, "/v1/sandboxes/%s", box_id(b));
    tn_http_set_header(x, "Location", location);
    native_reply_box(x, again ? 200 : 201, b);
}

/* --- create ---------------------------------------------------------------------------------- */

static struct box *create(struct tn_http_exchange *x, struct tn_service *s,
                          const struct tn_json *body, const struct wish *w, bool *again,
                          struct tn_error *err)
{
    struct box_wish wish = as_box_wish(w);
    const struct caller *who = caller_of(x);
    char digest[65];

    digest_of(x, body, digest);
    wish.digest = digest;
    wish.idempotency = idempotency_of(x, err);
    if (err->code || native_check_names(w->name, w->session, w->metadata, err) ||
        native_spec(s, who, w->template, body, &wish.spec, err))
        return NULL;
    struct box *b = box_create(s, who, &wish, again, err);
    tn_spec_done(&wish.spec);
    return b;
}

static void post_sandboxes(struct tn_http_exchange *x, void *ctx)
{
    static const struct tn_fields *const tables[] = {&create_fields, &tn_spec_fields, NULL};
    struct tn_service *s = ctx;
    tn_autojson struct tn_json *body = NULL;
    autobox struct box *b = NULL;
    struct tn_error err = {0};
    struct wish w = {0};
    bool again = false;

    if (!caller_may(x, SCOPE_MANAGE) || native_read(x, tables, &body))
        return;
    tn_fields_defaults(&create_fields, &w);
    if (!tn_fields_from_json(&create_fields, &w, body, &err))
        b = create(x, s, body, &w, &again, &err);
    if (native_audit(x, s, "sandbox.create", b ? box_id(b) : NULL, b ? NULL : &err) == 0) {
        if (b)
            answer(x, start_time(s), b, &w, again);
        else
            reply_error(x, &err);
    }
    tn_fields_done(&create_fields, &w);
}

/* --- fork ------------------------------------------------------------------------------------ */

static struct box *fork_box(struct tn_http_exchange *x, struct box *parent, const struct wish *w,
                            const struct tn_json *body, struct tn_error *err)
{
    struct box_wish wish = as_box_wish(w);
    char digest[65];

    digest_of(x, body, digest);
    wish.digest = digest;
    wish.idempotency = idempotency_of(x, err);
    if (err->code || native_check_names(w->name, w->session, w->metadata, err))
        return NULL;
    tn_spec_init(&wish.spec);
    wish.spec.env = w->env ? tn_json_copy(w->env) : NULL;
    struct box *b = tn_spec_check(&wish.spec, err)
                        ? NULL
                        : box_fork(parent, caller_of(x), w->snapshot, &wish, err);
    tn_spec_done(&wish.spec);
    return b;
}

static void post_fork(struct tn_http_exchange *x, void *ctx)
{
    static const struct tn_fields *const tables[] = {&fork_fields, NULL};
    struct tn_service *s = ctx;
    autobox struct box *parent = native_box(x, s, SCOPE_MANAGE), *b = NULL;
    tn_autojson struct tn_json *body = NULL;
    struct tn_error err = {0};
    struct wish w = {0};

    if (!parent || native_read(x, tables, &body))
        return;
    tn_fields_defaults(&fork_fields, &w);
    if (!tn_fields_from_json(&fork_fields, &w, body, &err))
        b = fork_box(x, parent, &w, body, &err);
    if (native_audit(x, s, "sandbox.fork", box_id(b ? b : parent), b ? NULL : &err) == 0) {
        if (b)
            answer(x, fmin(FORK_WAIT_SECONDS, start_time(s)), b, &w, false);
        else
            reply_error(x, &err);
    }
    tn_fields_done(&fork_fields, &w);
}

const struct tn_route routes_native_create[] = {
    {"POST", "/v1/sandboxes", post_sandboxes, "a new sandbox", 0},
    {"POST", "/v1/sandboxes/{id}/fork", post_fork, "a new sandbox with the files of this one", 0},
    {0},
};
