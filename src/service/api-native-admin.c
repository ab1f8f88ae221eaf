/* Keys and warm pools: for administrators. */
#include <math.h>

#include "service/api-native.h"
#include "service/clock.h"
#include "service/steward.h"

/* --- keys ------------------------------------------------------------------------------------ */

static int list_key(const struct key_info *k, void *ctx)
{
    struct tn_jw *w = ctx;

    tn_jw_object(w);
    key_info_put(k, w);
    tn_jw_object_end(w);
    return 0;
}

static void get_keys(struct tn_http_exchange *x, void *ctx)
{
    struct tn_service *s = ctx;
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, NATIVE_ANSWER_MAX);
    struct tn_jw w = tn_jw(&json);
    struct tn_error err = {0};

    if (!caller_may(x, SCOPE_ADMIN))
        return;
    tn_jw_object(&w);
    tn_jw_key(&w, "keys");
    tn_jw_array(&w);
    if (key_each(s->db, list_key, &w, &err) < 0) {
        reply_error(x, &err);
        return;
    }
    tn_jw_array_end(&w);
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 200, &json);
}

struct key_wish {
    char *name, *tenant;
    struct tn_str_list scopes;
    struct key_limits limits;
    struct tn_thresholds security;
    struct tn_str_list analyzers;
    struct tn_opt_double expires;
};

static const struct tn_field key_rows[] = {
    TN_STRING("name", struct key_wish, name, .flags = TN_FIELD_REQUIRED, .help = "for people"),
    TN_STRING("tenant", struct key_wish, tenant, .flags = TN_FIELD_REQUIRED,
              .help = "whose sandboxes it sees"),
    TN_STRINGS("scopes", struct key_wish, scopes, .words = scope_words,
               .help = "what it may do; without it read, use and manage"),
    TN_OBJECT("limits", struct key_wish, limits, &key_limit_fields,
              .help = "0: no limit of its own"),
    TN_OBJECT("security", struct key_wish, security, &tn_thresholds_fields,
              .help = "what becomes of its risky actions; null: as the service says"),
    TN_STRINGS("analyzers", struct key_wish, analyzers,
               .help = "who judges its actions; null or none: all that the service has"),
    TN_OPT_DOUBLE("expires", struct key_wish, expires, .min = 1, .max = 1e9,
                  .help = "seconds from now until it counts no more"),
};
static const struct tn_fields key_fields = TN_FIELDS(key_rows);
/* All but whose it is. */
static const struct tn_fields change_fields = {.rows = key_rows + 2,
                                               .count = TN_COUNT(key_rows) - 2};

static unsigned scopes_of(const struct tn_str_list *words)
{
    unsigned scopes = 0;

    for (size_t i = 0; i < words->count; i++)
        for (unsigned k = 0; scope_words[k]; k++)
            if (strcmp(words->items[i], scope_words[k]) == 0)
                scopes |= 1u << k;
    return scopes ? scopes : SCOPES_USUAL;
}

static int choose_analyzers(struct tn_service *s, struct key_wish *w, struct tn_error *err)
{
    return tn_thresholds_choose(&w->security, &w->analyzers,
                                &tn_runtime_host(s->rt)->config->security, err);
}

static int make_key(struct tn_service *s, struct key_wish *w, struct key_info *made, char text[64],
                    struct tn_error *err)
{
    if (choose_analyzers(s, w, err))
        return -1;
    *made = (struct key_info){
        .name = tn_strdup(w->name),
        .tenant = tn_strdup(w->tenant),
        .scopes = scopes_of(&w->scopes),
        .limits = w->limits,
        .security = key_security_of(&w->security),
        .expires = w->expires.set ? service_time() + w->expires.value : 0,
    };
    return key_create(s->db, made, text, err);
}

static void reply_key(struct tn_http_exchange *x, const struct key_info *made, const char *text)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(64 << 10);
    struct tn_jw w = tn_jw(&json);

    tn_jw_object(&w);
    key_info_put(made, &w);
    tn_jw_kstr(&w, "key", text);
    tn_jw_object_end(&w);
    tn_http_set_header(x, "Cache-Control", "no-store");
    tn_http_reply_json(x, 201, &json);
    if (json.data)
        explicit_bzero(json.data, json.len);
}

static void post_key(struct tn_http_exchange *x, void *ctx)
{
    static const struct tn_fields *const tables[] = {&key_fields, NULL};
    struct tn_service *s = ctx;
    tn_autojson struct tn_json *body = NULL;
    struct key_wish wish = {0};
    struct key_info made = {0};
    struct tn_error err = {0};
    char text[64] = "";

    if (!caller_may(x, SCOPE_ADMIN) || native_read(x, tables, &body))
        return;
    tn_fields_defaults(&key_fields, &wish);
    int failed = tn_fields_refuse_unknown(&key_fields, body, &err) ||
                 tn_fields_from_json(&key_fields, &wish, body, &err) ||
                 tn_fields_check(&key_fields, &wish, &err) || make_key(s, &wish, &made, text, &err);
    if (native_audit(x, s, "key.create", failed ? NULL : made.id, failed ? &err : NULL) == 0) {
        if (failed)
            reply_error(x, &err);
        else
            reply_key(x, &made, text);
    }
    explicit_bzero(text, sizeof text);
    key_info_done(&made);
    tn_fields_done(&key_fields, &wish);
}

/* What it says of a member takes the place of what the key has of it; null: as the service says. */
static int read_change(struct tn_service *s, struct key_info *k, const struct tn_json *body,
                       struct tn_error *err)
{
    struct key_wish w = {0};

    tn_fields_defaults(&change_fields, &w);
    w.limits = k->limits;
    if (k->security.set && (tn_json_get(body, "security") || !tn_json_has(body, "security")))
        w.security = k->security.own;
    memcpy(w.security.analyzers, k->security.own.analyzers, sizeof w.security.analyzers);
    int failed = tn_fields_refuse_unknown(&change_fields, body, err) ||
                 tn_fields_from_json(&change_fields, &w, body, err) ||
                 tn_fields_check(&change_fields, &w, err) ||
                 (tn_json_has(body, "analyzers") && choose_analyzers(s, &w, err));
    if (!failed && tn_json_get(body, "scopes") && !w.scopes.count)
        failed = tn_fail(err, TN_E_UNPROCESSABLE, "scopes: a key without any opens nothing");
    if (tn_json_get(body, "scopes"))
        k->scopes = scopes_of(&w.scopes);
    if (tn_json_has(body, "expires"))
        k->expires = w.expires.set ? service_time() + w.expires.value : 0;
    k->limits = w.limits;
    k->security = key_security_of(&w.security);
    tn_fields_done(&change_fields, &w);
    return failed ? -1 : 0;
}

struct changing {
    struct tn_service *s;
    const char *id;
    const struct tn_json *body; /* NULL: it is revoked */
    struct key_info key;
    double ended; /* until then it was an administrator's */
    bool others;  /* another one is, for as long */
};

/* Until when a key is an administrator's; 0: it is not. */
static double admin_until(const struct key_info *k)
{
    double end = k->expires > 0 ? k->expires : INFINITY;

    return k->scopes & SCOPE_ADMIN && !k->revoked && end > service_time() ? end : 0;
}

static int see_admin(const struct key_info *k, void *ctx)
{
    struct changing *c = ctx;

    c->others |= strcmp(k->id, c->key.id) != 0 && admin_until(k) >= c->ended;
    return 0;
}

static int change_key(struct tn_db *db, void *ctx, struct tn_error *err)
{
    struct changing *c = ctx;

    key_info_done(&c->key); /* of a try before */
    if (key_find(db, c->id, &c->key, err))
        return -1;
    c->ended = admin_until(&c->key);
    if (c->body && read_change(c->s, &c->key, c->body, err))
        return -1;
    bool loses = c->ended > (c->body ? admin_until(&c->key) : 0);
    if (loses && key_each(db, see_admin, c, err))
        return -1;
    if (loses && !c->others)
        return tn_fail(err, TN_E_CONFLICT,
                       "No other key has the scope admin for as long: it keeps that (`tendon key "
                       "revoke` beside the service would take it)");
    return c->body ? key_change(db, &c->key, err) : key_revoke(db, c->key.id, err);
}

static void patch_key(struct tn_http_exchange *x, void *ctx)
{
    static const struct tn_fields *const tables[] = {&change_fields, NULL};
    struct tn_service *s = ctx;
    tn_autobuf struct tn_buf json = TN_BUF_INIT(64 << 10);
    tn_autojson struct tn_json *body = NULL;
    struct changing c = {.s = s, .id = tn_http_param(x, "id")};
    struct tn_jw w = tn_jw(&json);
    struct tn_error err = {0};

    if (!caller_may(x, SCOPE_ADMIN) || native_read(x, tables, &body))
        return;
    c.body = body;
    int failed = tn_db_atomically(s->db, change_key, &c, &err);
    if (native_audit(x, s, "key.change", failed ? NULL : c.key.id, failed ? &err : NULL) == 0) {
        list_key(&c.key, &w);
        if (failed)
            reply_error(x, &err);
        else
            tn_http_reply_json(x, 200, &json);
    }
    key_info_done(&c.key);
}

static void delete_key(struct tn_http_exchange *x, void *ctx)
{
    struct tn_service *s = ctx;
    struct tn_error err = {0};
    const char *id = tn_http_param(x, "id");

    if (!caller_may(x, SCOPE_ADMIN))
        return;
    struct changing c = {.s = s, .id = id};
    int failed = tn_db_atomically(s->db, change_key, &c, &err);
    key_info_done(&c.key);
    if (native_audit(x, s, "key.revoke", failed ? NULL : id, failed ? &err : NULL))
        return;
    if (failed)
        reply_error(x, &err);
    else
        tn_http_reply(x, 204, NULL, NULL, 0);
}

/* --- pools ----------------------------------------------------------------------------------- */

static int put_pool(const struct pool_info *p, void *ctx)
{
    struct tn_jw *w = ctx;

    tn_jw_object(w);
    tn_jw_kstr(w, "name", p->name);
    tn_jw_kstr(w, "template", p->template);
    tn_jw_kint(w, "target", p->target);
    tn_jw_kint(w, "minimum", p->minimum);
    tn_jw_kint(w, "burst", p->burst);
    tn_jw_kint(w, "ready", p->ready);
    tn_jw_kint(w, "making", p->making);
    tn_jw_kint(w, "claimed", p->claimed);
    tn_jw_kint(w, "missed", p->missed);
    tn_jw_kstr(w, "problem", p->problem);
    tn_jw_kbool(w, "configured", p->configured);
    tn_jw_key(w, "spec");
    tn_jw_object(w);
    native_put_spec(w, &p->spec);
    tn_jw_object_end(w);
    tn_jw_object_end(w);
    return 0;
}

static void get_pools(struct tn_http_exchange *x, void *ctx)
{
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, NATIVE_ANSWER_MAX);
    struct tn_jw w = tn_jw(&json);
    struct tn_error err = {0};

    if (!caller_may(x, SCOPE_ADMIN))
        return;
    tn_jw_object(&w);
    tn_jw_key(&w, "pools");
    tn_jw_array(&w);
    if (pool_each(ctx, put_pool, &w, &err) < 0) {
        reply_error(x, &err);
        return;
    }
    tn_jw_array_end(&w);
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 200, &json);
}

struct pool_wish {
    char *template;
    int64_t target, minimum, burst;
};

static const struct tn_field pool_rows[] = {
    TN_STRING("template", struct pool_wish, template, .help = "[template.NAME] to start from"),
    TN_INT("target", struct pool_wish, target, .fallback = "1", .min = 0, .max = 10000,
           .help = "so many wait when nothing happens"),
    TN_INT("minimum", struct pool_wish, minimum, .min = 0, .max = 10000,
           .help = "below it filling goes before creations"),
    TN_INT("burst", struct pool_wish, burst, .min = 0, .max = 10000,
           .help = "made at a time when it is low; 0: the usual number"),
};
static const struct tn_fields pool_fields = TN_FIELDS(pool_rows);

struct found_pool {
    const char *name;
    struct tn_jw *w;
};

static int put_named(const struct pool_info *p, void *ctx)
{
    const struct found_pool *f = ctx;

    return strcmp(p->name, f->name) == 0 ? put_pool(p, f->w), 1 : 0;
}

static int set_pool(struct tn_http_exchange *x, struct tn_service *s, const struct pool_wish *w,
                    const struct tn_json *body, struct tn_error *err)
{
    struct pool_info wish = {
        .name = (char *)(uintptr_t)tn_http_param(x, "name"),
        .template = w->template,
        .target = w->target,
        .minimum = w->minimum,
        .burst = w->burst,
    };

    if (native_spec(s, caller_of(x), w->template, body, &wish.spec, err))
        return -1;
    int failed = pool_set(s, &wish, err);
    tn_spec_done(&wish.spec);
    return failed;
}

static void put_pools(struct tn_http_exchange *x, void *ctx)
{
    static const struct tn_fields *const tables[] = {&pool_fields, &tn_spec_fields, NULL};
    struct tn_service *s = ctx;
    tn_autojson struct tn_json *body = NULL;
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, 1 << 20);
    struct tn_jw w = tn_jw(&json);
    struct pool_wish wish;
    struct tn_error err = {0};

    if (!caller_may(x, SCOPE_ADMIN) || native_read(x, tables, &body))
        return;
    tn_fields_defaults(&pool_fields, &wish);
    int failed =
        tn_fields_from_json(&pool_fields, &wish, body, &err) || set_pool(x, s, &wish, body, &err);
    struct found_pool found = {.name = tn_http_param(x, "name"), .w = &w};
    if (native_audit(x, s, "pool.set", NULL, failed ? &err : NULL) == 0) {
        if (failed || pool_each(s, put_named, &found, &err) < 0)
            reply_error(x, &err);
        else
            tn_http_reply_json(x, 200, &json);
    }
    tn_fields_done(&pool_fields, &wish);
}

static void delete_pool(struct tn_http_exchange *x, void *ctx)
{
    struct tn_service *s = ctx;
    struct tn_error err = {0};

    if (!caller_may(x, SCOPE_ADMIN))
        return;
    int failed = pool_remove(s, tn_http_param(x, "name"), &err);
    if (native_audit(x, s, "pool.remove", NULL, failed ? &err : NULL))
        return;
    if (failed)
        reply_error(x, &err);
    else
        tn_http_reply(x, 204, NULL, NULL, 0);
}

const struct tn_route routes_native_admin[] = {
    {"GET", "/v1/keys", get_keys, "API keys", 0},
    {"POST", "/v1/keys", post_key, "a new key, told once", 0},
    {"PATCH", "/v1/keys/{id}", patch_key, "changes what a key may", 0},
    {"DELETE", "/v1/keys/{id}", delete_key, "revokes a key", 0},
    {"GET", "/v1/pools", get_pools, "warm pools", 0},
    {"PUT", "/v1/pools/{name}", put_pools, "makes a pool, or changes it", 0},
    {"DELETE", "/v1/pools/{name}", delete_pool, "removes a pool and what waits in it", 0},
    {0},
};
