#include "service/api-native.h"

#include <stdarg.h>

#include "base/nearest.h"
#include "service/audit.h"

const char *native_tenant(const struct caller *who)
{
    return who->scopes & SCOPE_ADMIN ? NULL : who->tenant;
}

struct box *native_box(struct tn_http_exchange *x, struct tn_service *s, unsigned scope)
{
    struct tn_error err = {0};

    if (!caller_may(x, scope))
        return NULL;
    struct box *b = box_find(s, native_tenant(caller_of(x)), tn_http_param(x, "id"), &err);
    if (!b)
        reply_error(x, &err);
    return b;
}

int native_refuse(struct tn_http_exchange *x, enum tn_code code, const char *fmt, ...)
{
    struct tn_error err = {.code = code};
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(err.text, sizeof err.text, fmt, ap);
    va_end(ap);
    reply_error(x, &err);
    return -1;
}

static int audit_line(struct tn_http_exchange *x, struct tn_service *s, const char *what,
                      const char *box, const struct tn_error *why, const char *detail)
{
    const struct audit_entry entry = {
        .who = caller_of(x),
        .what = what,
        .box = box,
        .result = tn_code_row(why ? why->code : TN_OK)->name,
        .request_id = request_id(x),
        .detail = detail,
    };
    struct tn_error err = {0};

    if (!audit_write(s->audit, &entry, &err))
        return 0;
    reply_error(x, &err);
    return -1;
}

int native_audit(struct tn_http_exchange *x, struct tn_service *s, const char *what,
                 const char *box, const struct tn_error *why)
{
    return audit_line(x, s, what, box, why, why ? why->text : NULL);
}

int native_audit_of(struct tn_http_exchange *x, struct tn_service *s, const char *what,
                    const char *of, const struct tn_error *why)
{
    tn_autofree char *detail =
        tn_asprintf("%.200s%s%s", of ? of : "", why ? ": " : "", why ? why->text : "");

    return audit_line(x, s, what, NULL, why, detail);
}

/* --- queries --------------------------------------------------------------------------------- */

int native_query_int(struct tn_http_exchange *x, const char *name, int64_t min, int64_t max,
                     int64_t *out)
{
    const char *text = tn_http_query(x, name);
    char *end = NULL;

    if (!text)
        return 0;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end || value < min || value > max)
        return native_refuse(x, TN_E_UNPROCESSABLE,
                             "%s: expected an integer from %lld to %lld, found %.40s", name,
                             (long long)min, (long long)max, text);
    *out = value;
    return 0;
}

int native_query_seconds(struct tn_http_exchange *x, const char *name, double max, double *out)
{
    const char *text = tn_http_query(x, name);
    char *end = NULL;

    if (!text)
        return 0;
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= 0 && value <= max))
        return native_refuse(x, TN_E_UNPROCESSABLE,
                             "%s: expected seconds from 0 to %g, found %.40s", name, max, text);
    *out = value;
    return 0;
}

int native_query_flag(struct tn_http_exchange *x, const char *name, bool *out)
{
    static const char *const words[] = {"false", "0", "no", "off", "true", "1", "yes", "on"};
    const char *text = tn_http_query(x, name);

    if (!text)
        return 0;
    for (size_t i = 0; i < TN_COUNT(words); i++)
        if (strcasecmp(text, words[i]) == 0) {
            *out = i >= TN_COUNT(words) / 2;
            return 0;
        }
    return native_refuse(x, TN_E_UNPROCESSABLE, "%s: expected true or false, found %.40s", name,
                         text);
}

/* --- bodies ---------------------------------------------------------------------------------- */

struct check {
    const struct tn_fields *const *tables;
    struct tn_error *err;
};

static int check_member(const char *key, struct tn_json *value, void *ctx)
{
    const struct check *c = ctx;
    struct tn_nearest near = tn_nearest(key);

    for (const struct tn_fields *const *t = c->tables; *t; t++) {
        if (tn_fields_find(*t, key))
            return 0;
        for (size_t i = 0; i < (*t)->count; i++)
            tn_nearest_offer(&near, (*t)->rows[i].name);
    }
    return tn_fail(c->err, TN_E_UNPROCESSABLE, "unknown member %.60s%s%s%s", key,
                   near.best ? "; did you mean " : "", near.best ? near.best : "",
                   near.best ? "?" : "");
}

int native_read(struct tn_http_exchange *x, const struct tn_fields *const *tables,
                struct tn_json **out)
{
    tn_autojson struct tn_json *body = NULL;
    struct tn_error err = {0};
    struct check check = {.tables = tables, .err = &err};

    if (tn_http_content_length(x) == 0)
        return tn_json_parse("{}", 2, out, NULL);
    if (read_json(x, NATIVE_BODY_MAX, &body))
        return -1;
    if (tn_json_type(body) != TN_JSON_OBJECT)
        return native_refuse(x, TN_E_UNPROCESSABLE, "the body: expected an object, found %s",
                             tn_json_type_name(body));
    if (tn_json_each(body, check_member, &check)) {
        reply_error(x, &err);
        return -1;
    }
    *out = TN_TAKE_PTR(body);
    return 0;
}

int native_read_nothing(struct tn_http_exchange *x)
{
    static const struct tn_fields *const none[] = {NULL};
    tn_autojson struct tn_json *body = NULL;

    return native_read(x, none, &body);
}
