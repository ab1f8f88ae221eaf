/* Webhooks of OpenHands: what agent servers in sandboxes tell about their conversations, and the
 * secrets they ask for.
 *
 * An agent server has the session key of its box; what it tells is kept as long as the box, the
 * newest of it.  A secret is asked for with a token that names tenant and provider. */
#include "base/sha256.h"
#include "service/audit.h"
#include "service/clock.h"
#include "service/jws.h"
#include "service/openhands.h"

#define BASE "/api/v1/webhooks"
/* How long a token for a secret counts, unless somebody says otherwise; and the most. */
#define TOKEN_SECONDS 3600
#define TOKEN_MAX_SECONDS (30 * 86400)

enum {
    BODY_MAX = 2 << 20,
    INFO_MAX = 256 << 10, /* of a conversation */
    ID_MAX = 128,
    EVENTS_MAX = 10000,  /* kept of one box */
    DELIVERY_MAX = 1000, /* events told at a time: the store is everybody's */
    EVENT_BYTES_MAX = 16 << 20,
    CONVERSATIONS_MAX = 100,
    PAGE_MAX = 100,
    SECRET_MAX = 64 << 10,
    SECRETS_MAX = 100, /* of a tenant */
};

static void reply_success(struct tn_http_exchange *x)
{
    static const char json[] = "{\"success\":true}";

    tn_http_reply(x, 200, "application/json", json, sizeof json - 1);
}

/* --- from agent servers -------------------------------------------------------------------- */

/* The box that the path names, of a request with its session key; NULL: answered. */
static struct box *enter(struct tn_http_exchange *x, struct tn_service *s)
{
    autobox struct box *b = NULL;
    int entered = openhands_session_enter(s, x, tn_http_param(x, "sandbox_id"), &b);

    if (entered > 0)
        reply_unauthorized(x, "The session key of this sandbox is needed: X-Session-API-Key");
    if (entered)
        return NULL;
    double wait = box_take_delivery(b);
    if (wait > 0) {
        refuse_rate(x, wait, "Too many deliveries of this sandbox: send more events in each");
        return NULL;
    }
    return TN_TAKE_PTR(b);
}

static void post_conversation(struct tn_http_exchange *x, void *ctx)
{
    struct tn_service *s = ctx;
    autobox struct box *b = enter(x, s);
    tn_autojson struct tn_json *body = NULL;
    tn_autobuf struct tn_buf info = TN_BUF_INIT(8 * INFO_MAX);
    struct tn_jw w = tn_jw(&info);
    struct tn_error err = {0};

    if (!b || read_json(x, INFO_MAX, &body))
        return;
    const char *id = tn_json_get_str(body, "id", NULL);
    if (!id || !*id || strlen(id) > ID_MAX) {
        native_refuse(x, TN_E_UNPROCESSABLE, "id: expected 1 to %d bytes", ID_MAX);
        return;
    }
    tn_jw_tree(&w, body);
    if (!tn_buf_ok(&info)) {
        native_refuse(x, TN_E_TOO_LARGE, "the conversation is too large");
        return;
    }
    if (tn_db_run(s->db, &err,
                  "INSERT INTO conversation (box, id, info, updated) VALUES (?1, ?2, ?3, ?4)"
                  " ON CONFLICT (box, id) DO UPDATE SET info = ?3, updated = ?4",
                  "tttd", box_id(b), id, tn_buf_str(&info), service_time()) < 0 ||
        tn_db_run(
            s->db, &err,
            "DELETE FROM conversation WHERE box = ?1 AND id NOT IN (SELECT id FROM conversation"
            " WHERE box = ?1 ORDER BY updated DESC LIMIT ?2)",
            "ti", box_id(b), (int64_t)CONVERSATIONS_MAX) < 0)
        reply_error(x, &err);
    else
        reply_success(x);
}

struct delivery {
    const char *box, *conversation;
    const struct tn_json *events;
};

/* An event's own id; of one without, what follows from its text: told twice it is kept once. */
static int add_event(struct tn_db *db, const struct delivery *d, const struct tn_json *event,
                     struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(8 * BODY_MAX);
    struct tn_jw w = tn_jw(&text);
    char digest[2 * TN_SHA256_BYTES + 1];
    const char *id = tn_json_get_str(event, "id", NULL);
    struct tn_sha256 h;

    tn_jw_tree(&w, event);
    if (!tn_buf_ok(&text))
        return tn_fail(err, TN_E_TOO_LARGE, "an event is too large");
    if (!id || !*id || strlen(id) > ID_MAX) {
        tn_sha256_init(&h);
        tn_sha256_add(&h, tn_buf_str(&text), text.len);
        tn_sha256_end_hex(&h, digest);
        id = digest;
    }
    return tn_db_run(db, err,
                     "INSERT INTO webhook_event (box, conversation, id, size, added, event)"
                     " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                     "tttidt", d->box, d->conversation, id, (int64_t)text.len, service_time(),
                     tn_buf_str(&text)) < 0
               ? -1
               : 0;
}

static int is_over(const struct tn_db_row *row, void *ctx)
{
    *(bool *)ctx = tn_db_int(row, 0) > EVENTS_MAX || tn_db_int(row, 1) > EVENT_BYTES_MAX;
    return 0;
}

static int add_events(struct tn_db *db, void *ctx, struct tn_error *err)
{
    const struct delivery *d = ctx;
    bool over = false;

    for (size_t i = 0; i < tn_json_count(d->events); i++)
        if (add_event(db, d, tn_json_at(d->events, i), err))
            return -1;
    if (tn_db_each(db, is_over, &over, err,
                   "SELECT count(*), sum(size) FROM webhook_event WHERE box = ?", "t", d->box) < 0)
        return -1;
    /* The oldest go. */
    return over && tn_db_run(db, err,
                             "DELETE FROM webhook_event WHERE box = ?1 AND n <= (SELECT max(n) FROM"
                             " (SELECT n, row_number() OVER newest AS place,"
                             "  sum(size) OVER newest AS bytes FROM webhook_event WHERE box = ?1"
                             "  WINDOW newest AS (ORDER BY n DESC))"
                             " WHERE place > ?2 OR bytes > ?3)",
                             "tii", d->box, (int64_t)EVENTS_MAX, (int64_t)EVENT_BYTES_MAX) < 0
               ? -1
               : 0;
}

static void post_events(struct tn_http_exchange *x, void *ctx)
{
    struct tn_service *s = ctx;
    autobox struct box *b = enter(x, s);
    tn_autojson struct tn_json *body = NULL;
    struct tn_error err = {0};

    if (!b || read_json(x, BODY_MAX, &body))
        return;
    struct delivery d = {
        .box = box_id(b), .conversation = tn_http_param(x, "conversation_id"), .events = body};
    bool good = tn_json_type(body) == TN_JSON_ARRAY && tn_json_count(body) <= DELIVERY_MAX &&
                strlen(d.conversation) <= ID_MAX;
    for (size_t i = 0; good && i < tn_json_count(body); i++)
        good = tn_json_type(tn_json_at(body, i)) == TN_JSON_OBJECT;
    if (!good)
        native_refuse(x, TN_E_UNPROCESSABLE, "expected a list of at most %d events", DELIVERY_MAX);
    else if (tn_db_atomically(s->db, add_events, &d, &err))
        reply_error(x, &err);
    else
        reply_success(x);
}

/* --- for people ---------------------------------------------------------------------------- */

struct page {
    struct tn_buf json;
    struct tn_jw w;
    int64_t left, last;
};

static struct box *find(struct tn_http_exchange *x, struct tn_service *s)
{
    struct tn_error err = {0};

    if (!caller_may(x, SCOPE_READ))
        return NULL;
    struct box *b = box_find(s, native_tenant(caller_of(x)), tn_http_param(x, "sandbox_id"), &err);
    if (!b)
        reply_error(x, &err);
    return b;
}

static int put_conversation(const struct tn_db_row *row, void *ctx)
{
    struct page *p = ctx;
    const char *info = tn_db_text(row, 1);

    tn_jw_object(&p->w);
    tn_jw_kstr(&p->w, "id", tn_db_text(row, 0));
    tn_jw_key(&p->w, "info");
    tn_jw_raw(&p->w, info, strlen(info));
    openhands_put_time(&p->w, "updated_at", tn_db_double(row, 2));
    tn_jw_object_end(&p->w);
    return 0;
}

static int put_event(const struct tn_db_row *row, void *ctx)
{
    struct page *p = ctx;
    const char *event = tn_db_text(row, 1);

    if (p->left-- == 0)
        return 1;
    p->last = tn_db_int(row, 0);
    tn_jw_object(&p->w);
    tn_jw_kint(&p->w, "n", p->last);
    openhands_put_time(&p->w, "added_at", tn_db_double(row, 2));
    tn_jw_key(&p->w, "event");
    tn_jw_raw(&p->w, event, strlen(event));
    tn_jw_object_end(&p->w);
    return 0;
}

static void page_begin(struct page *p, const struct tn_http_exchange *x)
{
    tn_buf_init(&p->json, 64 << 20); /* more than all that is kept of a box */
    p->json.purse = purse_of(x);
    p->w = tn_jw(&p->json);
    tn_jw_object(&p->w);
    tn_jw_key(&p->w, "items");
    tn_jw_array(&p->w);
}

static void page_end(struct page *p, struct tn_http_exchange *x, const char *next, int rows,
                     const struct tn_error *err)
{
    tn_jw_array_end(&p->w);
    tn_jw_kstr(&p->w, "next_page_id", next);
    tn_jw_object_end(&p->w);
    if (rows < 0)
        reply_error(x, err);
    else
        tn_http_reply_json(x, 200, &p->json);
    tn_buf_done(&p->json);
}

static void get_conversations(struct tn_http_exchange *x, void *ctx)
{
    struct tn_service *s = ctx;
    autobox struct box *b = find(x, s);
    struct tn_error err = {0};
    struct page p = {0};

    if (!b)
        return;
    page_begin(&p, x);
    int rows = tn_db_each(s->db, put_conversation, &p, &err,
                          "SELECT id, info, updated FROM conversation WHERE box = ?"
                          " ORDER BY updated DESC",
                          "t", box_id(b));
    page_end(&p, x, NULL, rows, &err);
}

static void get_events(struct tn_http_exchange *x, void *ctx)
{
    struct tn_service *s = ctx;
    autobox struct box *b = find(x, s);
    struct tn_error err = {0};
    struct page p = {.left = PAGE_MAX};
    int64_t after = 0;
    char next[24];

    if (!b || native_query_int(x, "limit", 1, PAGE_MAX, &p.left) ||
        native_query_int(x, "page_id", 0, INT64_MAX, &after))
        return;
    page_begin(&p, x);
    int rows =
        tn_db_each(s->db, put_event, &p, &err,
                   "SELECT n, event, added FROM webhook_event"
                   " WHERE box = ? AND conversation = ? AND n > ? ORDER BY n LIMIT ?",
                   "ttii", box_id(b), tn_http_param(x, "conversation_id"), after, p.left + 1);
    snprintf(next, sizeof next, "%lld", (long long)p.last);
    page_end(&p, x, p.left < 0 ? next : NULL, rows, &err);
}

/* --- secrets ------------------------------------------------------------------------------- */

static int take_value(const struct tn_db_row *row, void *ctx)
{
    *(char **)ctx = tn_strdup(tn_db_text(row, 0));
    return 0;
}

static void wipe(char **secret)
{
    if (*secret)
        explicit_bzero(*secret, strlen(*secret));
    free(*secret);
}

/* The value, NULL when there is none or with err. */
static char *secret_of(struct tn_service *s, const char *tenant, const char *provider,
                       struct tn_error *err)
{
    char *value = NULL;

    if (tn_db_each(s->db, take_value, &value, err,
                   "SELECT value FROM tenant_secret WHERE tenant = ? AND provider = ?", "tt",
                   tenant, provider) == 0)
        tn_fail(err, TN_E_NOT_FOUND, "there is no such secret");
    return value;
}

static void get_secret(struct tn_http_exchange *x, void *ctx)
{
    struct tn_service *s = ctx;
    const char *token = tn_http_header(x, "X-Access-Token");
    tn_autojson struct tn_json *claims = NULL;
    TN_CLEANUP(wipe) char *value = NULL;
    struct tn_error err = {0};
    char key[65];

    if (service_secret(s->db, "webhooks", key, &err)) {
        reply_error(x, &err);
        return;
    }
    int wrong = jws_check(key, token ? token : "", service_time(), &claims, &err);
    explicit_bzero(key, sizeof key);
    const char *tenant = tn_json_get_str(claims, "user_id", NULL);
    const char *provider = tn_json_get_str(claims, "provider_type", NULL);
    if (wrong || !tenant || !provider) {
        reply_unauthorized(x, wrong ? err.text : "The access token names no secret");
        return;
    }
    value = secret_of(s, tenant, provider, &err);
    struct caller who = {.key_id = "token"};
    snprintf(who.tenant, sizeof who.tenant, "%s", tenant);
    const struct audit_entry entry = {.who = &who,
                                      .what = "secret.read",
                                      .result = tn_code_row(err.code)->name,
                                      .request_id = request_id(x),
                                      .detail = provider};
    struct tn_error late = {0};
    if (audit_write(s->audit, &entry, &late))
        reply_error(x, &late);
    else if (!value)
        reply_error(x, &err);
    else {
        tn_http_set_header(x, "Cache-Control", "no-store");
        tn_http_reply(x, 200, "text/plain; charset=utf-8", value, strlen(value));
    }
}

/* The name in the path, for a caller who may change secrets; NULL: answered. */
static const char *provider_of(struct tn_http_exchange *x)
{
    static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    const char *name = tn_http_param(x, "provider_type");

    if (!caller_may(x, SCOPE_MANAGE))
        return NULL;
    if (strlen(name) <= 64 && !name[strspn(name, good)])
        return name;
    native_refuse(x, TN_E_UNPROCESSABLE,
                  "provider_type: expected 1 to 64 letters, digits, dots, dashes or underscores");
    return NULL;
}

static int keep_secret(struct tn_service *s, const char *tenant, const char *provider,
                       const char *value, struct tn_error *err)
{
    int rows = tn_db_run(s->db, err,
                         "INSERT INTO tenant_secret (tenant, provider, value) SELECT ?1, ?2, ?3"
                         " WHERE (SELECT count(*) FROM tenant_secret"
                         "  WHERE tenant = ?1 AND provider <> ?2) < ?4"
                         " ON CONFLICT (tenant, provider) DO UPDATE SET value = excluded.value",
                         "ttti", tenant, provider, value, (int64_t)SECRETS_MAX);

    if (rows == 0)
        return tn_fail(err, TN_E_QUOTA, "there are %d secrets already", SECRETS_MAX);
    return rows < 0 ? -1 : 0;
}

static void put_secret(struct tn_http_exchange *x, void *ctx)
{
    struct tn_service *s = ctx;
    const char *provider = provider_of(x);
    tn_autobuf struct tn_buf value = TN_BUF_INIT(SECRET_MAX);
    struct tn_error err = {0};

    if (!provider)
        return;
    if (read_whole(x, &value))
        return;
    int failed = 0;
    if (!value.len || memchr(value.data, 0, value.len))
        failed = tn_fail(&err, TN_E_UNPROCESSABLE, "the body: expected the secret, as text");
    if (!failed)
        failed = keep_secret(s, caller_of(x)->tenant, provider, value.data, &err);
    if (value.data)
        explicit_bzero(value.data, value.cap);
    if (native_audit(x, s, "secret.set", NULL, failed ? &err : NULL))
        return;
    if (failed)
        reply_error(x, &err);
    else
        reply_success(x);
}

static void delete_secret(struct tn_http_exchange *x, void *ctx)
{
    struct tn_service *s = ctx;
    const char *provider = provider_of(x);
    struct tn_error err = {0};

    if (!provider)
        return;
    int rows = tn_db_run(s->db, &err, "DELETE FROM tenant_secret WHERE tenant = ? AND provider = ?",
                         "tt", caller_of(x)->tenant, provider);
    if (rows == 0)
        rows = tn_fail(&err, TN_E_NOT_FOUND, "there is no such secret");
    if (native_audit(x, s, "secret.delete", NULL, rows < 0 ? &err : NULL))
        return;
    if (rows < 0)
        reply_error(x, &err);
    else
        reply_success(x);
}

/* A token for one secret, to be given to an agent server. */
static void post_token(struct tn_http_exchange *x, void *ctx)
{
    struct tn_service *s = ctx;
    const char *provider = provider_of(x), *tenant = provider ? caller_of(x)->tenant : NULL;
    tn_autobuf struct tn_buf claims = TN_BUF_INIT(JWS_MAX), token = TN_BUF_INIT(JWS_MAX);
    tn_autobuf struct tn_buf json = TN_BUF_INIT(2 * JWS_MAX);
    struct tn_jw c = tn_jw(&claims), w = tn_jw(&json);
    struct tn_error err = {0};
    int64_t seconds = TOKEN_SECONDS;
    char key[65];

    if (!provider || native_query_int(x, "seconds", 1, TOKEN_MAX_SECONDS, &seconds))
        return;
    TN_CLEANUP(wipe) char *value = secret_of(s, tenant, provider, &err);
    if (!value || service_secret(s->db, "webhooks", key, &err)) {
        reply_error(x, &err);
        return;
    }
    tn_jw_object(&c);
    tn_jw_kstr(&c, "user_id", tenant);
    tn_jw_kstr(&c, "provider_type", provider);
    tn_jw_kint(&c, "exp", (int64_t)service_time() + seconds);
    tn_jw_object_end(&c);
    jws_sign(key, tn_buf_str(&claims), &token);
    explicit_bzero(key, sizeof key);
    if (native_audit(x, s, "secret.token", NULL, NULL))
        return;
    tn_jw_object(&w);
    tn_jw_kstr(&w, "access_token", tn_buf_str(&token));
    tn_jw_kint(&w, "expires_in", seconds);
    tn_jw_object_end(&w);
    tn_http_set_header(x, "Cache-Control", "no-store");
    tn_http_reply_json(x, 200, &json);
}

const struct tn_route routes_webhooks[] = {
    {"POST", BASE "/{sandbox_id}/conversations", post_conversation,
     "an agent server tells of a conversation", TN_ROUTE_OPEN},
    {"POST", BASE "/{sandbox_id}/events/{conversation_id}", post_events,
     "an agent server tells of events", TN_ROUTE_OPEN},
    {"GET", BASE "/{sandbox_id}/conversations", get_conversations, "the conversations of a sandbox",
     0},
    {"GET", BASE "/{sandbox_id}/events/{conversation_id}", get_events,
     "the events of a conversation", 0},
    {"GET", BASE "/secrets", get_secret, "the secret that an access token names", TN_ROUTE_OPEN},
    {"PUT", BASE "/secrets/{provider_type}", put_secret, "keeps a secret of the tenant", 0},
    {"DELETE", BASE "/secrets/{provider_type}", delete_secret, "forgets it", 0},
    {"POST", BASE "/secrets/{provider_type}/token", post_token, "an access token for it", 0},
    {0},
};
