/* Secrets of a tenant: kept sealed, put in by gates, and never told again. */
#include "base/key-file.h"
#include "runtime/secrets.h"
#include "service/api-native.h"
#include "service/audit.h"

enum { BODY_MAX = 128 << 10 };

#define ENTRY struct tn_safe_entry
static const struct tn_field put_rows[] = {
    TN_STRING("value", ENTRY, value, .flags = TN_FIELD_REQUIRED | TN_FIELD_SECRET,
              .help = "printable ASCII, as a header can carry it"),
    TN_STRINGS("hosts", ENTRY, hosts, .flags = TN_FIELD_REQUIRED,
               .help = "those that get it: api.x.com, *.x.com:8443"),
    TN_STRINGS("headers", ENTRY, headers, .help = "in which it is put in; without: the usual ones"),
};
static const struct tn_fields put_fields = TN_FIELDS(put_rows);

static struct tn_safe safe_of(const struct tn_service *s)
{
    return tn_secrets_safe(tn_runtime_host(s->rt));
}

static int put_entry(const struct tn_safe_entry *e, void *ctx)
{
    struct tn_jw *w = ctx;

    tn_jw_object(w);
    tn_jw_kstr(w, "name", e->name);
    tn_fields_to_json(&tn_safe_fields, e, w);
    tn_jw_object_end(w);
    return 0;
}

/* Name and hosts; never the value.  -1: it has answered. */
static int note(struct tn_http_exchange *x, struct tn_service *s, const char *what,
                const struct tn_str_list *hosts, const struct tn_error *why)
{
    tn_autobuf struct tn_buf detail = TN_BUF_INIT(16 << 10);
    struct tn_error err = {0};

    tn_buf_printf(&detail, "%.64s", tn_http_param(x, "name"));
    for (size_t i = 0; !why && hosts && i < hosts->count; i++)
        tn_buf_printf(&detail, "%s%s", i ? ", " : " for ", hosts->items[i]);
    if (why)
        tn_buf_printf(&detail, ": %s", why->text);
    const struct audit_entry entry = {
        .who = caller_of(x),
        .what = what,
        .result = tn_code_row(why ? why->code : TN_OK)->name,
        .request_id = request_id(x),
        .detail = tn_buf_str(&detail),
    };
    return audit_write(s->audit, &entry, &err) ? reply_error(x, &err), -1 : 0;
}

static void reply_entry(struct tn_http_exchange *x, const struct tn_safe_entry *e)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(TN_SAFE_ABOUT_MAX + 1024);
    struct tn_jw w = tn_jw(&json);

    put_entry(e, &w);
    tn_http_reply_json(x, 200, &json);
}

/* The members of a body; the tree, which nobody can wipe as a whole, loses the value here. */
static int take_wish(const struct tn_json *body, struct tn_safe_entry *e, struct tn_error *err)
{
    int r = tn_fields_refuse_unknown(&put_fields, body, err) ||
                    tn_fields_from_json(&put_fields, e, body, err) ||
                    tn_fields_check(&put_fields, e, err)
                ? -1
                : 0;
    size_t n = 0;
    char *value = (char *)(uintptr_t)tn_json_str(tn_json_get(body, "value"), &n);

    if (value)
        explicit_bzero(value, n);
    return r;
}

static void put_secret(struct tn_http_exchange *x, void *ctx)
{
    struct tn_service *s = ctx;
    const struct tn_safe safe = safe_of(s);
    tn_autokeyfile struct tn_buf text = ANSWER_BUF(x, BODY_MAX);
    tn_autojson struct tn_json *body = NULL;
    struct tn_error err = {0};

    if (!caller_may(x, SCOPE_MANAGE) || read_whole(x, &text))
        return;
    tn_autosafeentry struct tn_safe_entry e = {.name = tn_strdup(tn_http_param(x, "name"))};
    int failed = hold_json(x, &text, &body, &err) || take_wish(body, &e, &err) ||
                 tn_safe_put(&safe, caller_of(x)->tenant, &e, s->options->max_secrets, &err);
    if (note(x, s, "secret.set", &e.hosts, failed ? &err : NULL))
        return;
    if (failed)
        reply_error(x, &err);
    else
        reply_entry(x, &e);
}

static void get_secret(struct tn_http_exchange *x, void *ctx)
{
    const struct tn_safe safe = safe_of(ctx);
    tn_autosafeentry struct tn_safe_entry e = {0};
    struct tn_error err = {0};

    if (!caller_may(x, SCOPE_READ))
        return;
    if (tn_safe_get(&safe, caller_of(x)->tenant, tn_http_param(x, "name"), &e, &err) < 0)
        reply_error(x, &err);
    else
        reply_entry(x, &e);
}

static void get_secrets(struct tn_http_exchange *x, void *ctx)
{
    const struct tn_safe safe = safe_of(ctx);
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, NATIVE_ANSWER_MAX);
    struct tn_jw w = tn_jw(&json);
    struct tn_error err = {0};

    if (!caller_may(x, SCOPE_READ))
        return;
    tn_jw_object(&w);
    tn_jw_key(&w, "secrets");
    tn_jw_array(&w);
    if (tn_safe_each(&safe, caller_of(x)->tenant, put_entry, &w, &err) < 0) {
        reply_error(x, &err);
        return;
    }
    tn_jw_array_end(&w);
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 200, &json);
}

static void delete_secret(struct tn_http_exchange *x, void *ctx)
{
    struct tn_service *s = ctx;
    const struct tn_safe safe = safe_of(s);
    struct tn_error err = {0};

    if (!caller_may(x, SCOPE_MANAGE))
        return;
    int failed = tn_safe_remove(&safe, caller_of(x)->tenant, tn_http_param(x, "name"), &err);
    if (note(x, s, "secret.rm", NULL, failed ? &err : NULL))
        return;
    if (failed)
        reply_error(x, &err);
    else
        tn_http_reply(x, 204, NULL, NULL, 0);
}

const struct tn_route routes_native_secrets[] = {
    {"GET", "/v1/secrets", get_secrets, "the tenant's secrets, without their values", 0},
    {"GET", "/v1/secrets/{name}", get_secret, "one of them", 0},
    {"PUT", "/v1/secrets/{name}", put_secret, "keeps a secret, or another value for it", 0},
    {"DELETE", "/v1/secrets/{name}", delete_secret, "forgets it", 0},
    {0},
};
