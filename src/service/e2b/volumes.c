/* Volumes (volume.h): made, listed, mounted by create.  Their files are those that sandboxes put
 * there: the API of their content is not served, and their token opens nothing. */
#include "service/e2b/e2b.h"
#include "service/volume.h"

static int put(const struct volume *v, void *w)
{
    tn_jw_object(w);
    tn_jw_kstr(w, "volumeID", v->name);
    tn_jw_kstr(w, "name", v->name);
    tn_jw_kstr(w, "token", "");
    tn_jw_object_end(w);
    return 0;
}

static void get_all(struct tn_http_exchange *x, void *ctx)
{
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, E2B_ANSWER_MAX);
    struct tn_jw w = tn_jw(&json);

    if (!caller_may(x, SCOPE_READ))
        return;
    tn_jw_array(&w);
    volume_each(ctx, caller_of(x)->tenant, put, &w);
    tn_jw_array_end(&w);
    tn_http_reply_json(x, 200, &json);
}

static void reply(struct tn_http_exchange *x, struct tn_service *s, int status, const char *name)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(4096);
    struct tn_jw w = tn_jw(&json);
    struct tn_error err = {0};
    struct volume v;

    if (volume_find(s, caller_of(x)->tenant, name, &v, &err)) {
        reply_error(x, &err);
        return;
    }
    put(&v, &w);
    tn_http_reply_json(x, status, &json);
}

static void get_one(struct tn_http_exchange *x, void *ctx)
{
    if (caller_may(x, SCOPE_READ))
        reply(x, ctx, 200, tn_http_param(x, "volume"));
}

static void post(struct tn_http_exchange *x, void *ctx)
{
    tn_autojson struct tn_json *body = NULL;
    struct tn_error err = {0};

    if (!caller_may(x, SCOPE_MANAGE) || surface_body(x, E2B_BODY_MAX, &body))
        return;
    const char *name = tn_json_get_str(body, "name", NULL);
    int failed = volume_create(ctx, caller_of(x)->tenant, name, &err);
    if (native_audit_of(x, ctx, "volume.create", name, failed ? &err : NULL))
        return;
    if (failed)
        reply_error(x, &err);
    else
        reply(x, ctx, 201, name);
}

static void delete_one(struct tn_http_exchange *x, void *ctx)
{
    struct tn_error err = {0};

    if (!caller_may(x, SCOPE_MANAGE))
        return;
    const char *name = tn_http_param(x, "volume");
    int failed = volume_delete(ctx, caller_of(x)->tenant, name, NULL, &err);
    if (native_audit_of(x, ctx, "volume.delete", name, failed ? &err : NULL))
        return;
    if (failed)
        reply_error(x, &err);
    else
        tn_http_reply(x, 204, NULL, NULL, 0);
}

const struct tn_route routes_e2b_volumes[] = {
    {"GET", "/volumes", get_all, "E2B: volumes of the tenant", 0},
    {"POST", "/volumes", post, "E2B: a new volume", 0},
    {"GET", "/volumes/{volume}", get_one, "E2B: a volume", 0},
    {"DELETE", "/volumes/{volume}", delete_one, "E2B: removes a volume with its files", 0},
    {0},
};
