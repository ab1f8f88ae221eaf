#include "security/endpoint.h"

#include "web/web.h"

struct security_endpoint {
    struct tn_web *web;
    char *prefix; /* of every target: the path of the address, without a slash at its end */
    char *key;
};

/* How long a server may take to accept a connection. */
#define CONNECT_SECONDS 5.0

struct security_endpoint *security_endpoint_new(const char *address, const char *key,
                                                struct tn_error *err)
{
    const char *host = strstr(address, "://");
    size_t n = host ? (size_t)(host + 3 - address) : 0;

    n += strcspn(address + n, "/");
    tn_autofree char *base = tn_strndup(address, n);
    struct tn_web *web =
        tn_web_new(&(struct tn_web_options){.base = base, .connect_timeout = CONNECT_SECONDS}, err);
    if (!web)
        return NULL;
    struct security_endpoint *e = tn_calloc(1, sizeof *e);
    e->web = web;
    e->prefix = tn_strdup(address + n);
    for (size_t end = strlen(e->prefix); end > 0 && e->prefix[end - 1] == '/';)
        e->prefix[--end] = '\0';
    if (!key)
        return e;
    e->key = tn_strdup(key);
    tn_autofree char *bearer = tn_asprintf("Bearer %s", key);
    if (tn_web_header(web, "Authorization", bearer, NULL) == 0)
        return e;
    tn_fail(err, TN_E_INVALID, "the key cannot be sent in a header");
    security_endpoint_free(e);
    return NULL;
}

void security_endpoint_free(struct security_endpoint *e)
{
    if (!e)
        return;
    tn_web_free(e->web);
    free(e->prefix);
    free(e->key);
    free(e);
}

int security_endpoint_header(struct security_endpoint *e, const char *name, const char *value,
                             struct tn_error *err)
{
    return tn_web_header(e->web, name, value, err);
}

/* What it says goes into journals: the key must not be a part of that. */
static bool repeats_key(const struct security_endpoint *e, const struct tn_buf *body)
{
    return e->key && *e->key && body->len && memmem(body->data, body->len, e->key, strlen(e->key));
}

int security_ask(struct security_endpoint *e, const struct security_request *request, int *status,
                 struct tn_json **answer, struct tn_error *err)
{
    tn_autoanswer struct tn_web_answer got = TN_WEB_ANSWER_INIT(SECURITY_ANSWER_MAX);
    tn_autofree char *target = tn_asprintf("%s%s", e->prefix, request->target);
    struct tn_web_call call = {.method = request->method,
                               .target = *target ? target : "/",
                               .body = request->body ? request->body->data : NULL,
                               .body_len = request->body ? request->body->len : 0,
                               .type = request->body ? "application/json" : NULL,
                               .deadline = request->deadline};

    *status = 0;
    if (request->body && !tn_buf_ok(request->body))
        return tn_fail(err, TN_E_TOO_LARGE, "the action is too large to be shown to it");
    struct tn_error why = {0};
    if (tn_web_call(e->web, &call, &got, &why)) {
        if (why.code == TN_E_TOO_LARGE)
            return tn_fail(err, TN_E_PEER, "its answer is larger than %d KiB",
                           SECURITY_ANSWER_MAX >> 10);
        if (err)
            *err = why;
        return -1;
    }
    *status = got.status;
    if (got.status < 200 || got.status >= 300)
        return tn_fail(err, TN_E_PEER, "it answered with the status %d", got.status);
    if (repeats_key(e, &got.body))
        return tn_fail(err, TN_E_PEER, "its answer repeats the key");
    if (tn_json_parse(tn_buf_str(&got.body), got.body.len, answer, NULL))
        return tn_fail(err, TN_E_PEER, "its answer is no JSON");
    return 0;
}
