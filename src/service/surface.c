#include "service/surface.h"

#include "base/hmac.h"
#include "base/secret.h"
#include "service/caller.h"

void surface_token(const struct tn_service *s, const char *purpose, const char *text,
                   char out[SURFACE_TOKEN])
{
    unsigned char mac[TN_SHA256_BYTES];
    tn_autofree char *whole = tn_asprintf("%s\n%s", purpose, text);

    tn_hmac_sha256(s->secret, strlen(s->secret), whole, strlen(whole), mac);
    for (int i = 0; i < SURFACE_TOKEN / 2; i++)
        snprintf(out + 2 * i, 3, "%02x", mac[i]);
}

bool surface_is_token(const struct tn_service *s, const char *purpose, const char *text,
                      const char *given)
{
    char token[SURFACE_TOKEN];

    surface_token(s, purpose, text, token);
    bool same = given && tn_same_secret(given, token);
    explicit_bzero(token, sizeof token);
    return same;
}

bool surface_enter(struct tn_http_exchange *x, struct box *b, const char *key_id)
{
    struct caller who;

    if (keyring_find(box_service(b)->keys, key_id, &who, NULL)) {
        reply_unauthorized(x, "The key that made this sandbox does not count any more");
        return false;
    }
    /* It opens this box and nothing else, whatever the key may. */
    who.scopes = SCOPE_READ | SCOPE_USE;
    snprintf(who.tenant, sizeof who.tenant, "%s", box_tenant(b));
    return caller_enter(x, &who);
}

int surface_body(struct tn_http_exchange *x, size_t max, struct tn_json **out)
{
    tn_autobuf struct tn_buf body = TN_BUF_INIT(max);
    struct tn_error err = {0};

    *out = NULL;
    if (read_whole(x, &body) < 0)
        return -1;
    if (body.len == 0)
        return 0;
    if (hold_json(x, &body, out, &err) == 0 && (!*out || tn_json_type(*out) == TN_JSON_OBJECT))
        return 0;
    if (err.code != TN_E_BUSY)
        tn_fail(&err, TN_E_INVALID, "The body is no JSON object");
    tn_json_free(TN_TAKE_PTR(*out));
    reply_error(x, &err);
    return -1;
}
