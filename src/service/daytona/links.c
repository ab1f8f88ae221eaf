/* Links to one file of a sandbox, for who has no key: clients sign them themselves, with a key of
 * the sandbox that only the service can make. */
#include "base/base64.h"
#include "base/hmac.h"
#include "base/secret.h"
#include "service/clock.h"
#include "service/daytona/daytona.h"

static int take_count(const struct tn_db_row *row, void *ctx)
{
    *(int64_t *)ctx = tn_db_int(row, 0);
    return 0;
}

int daytona_signing_key(const struct box_view *v, char out[SURFACE_TOKEN], struct tn_error *err)
{
    struct daytona_settings settings;

    daytona_settings_of(v->metadata, &settings);
    struct tn_service *s = box_service(v->box);
    int64_t revoked = 0;
    /* Whoever had a key that is revoked may have asked for this one. */
    if (tn_db_each(s->db, take_count, &revoked, err,
                   "SELECT count(*) FROM api_key WHERE tenant = ?1 AND revoked = 1", "t",
                   v->tenant) < 0)
        return -1;
    tn_autofree char *text =
        tn_asprintf("%s\n%lld\n%lld", v->id, (long long)settings.signing, (long long)revoked);
    surface_token(s, "daytona-files", text, out);
    return 0;
}

/* Digits alone: it is the last part of what is signed. */
static bool is_over(const char *until)
{
    size_t digits = strspn(until, "0123456789");

    return digits == 0 || digits > 12 || until[digits] ||
           (strcmp(until, "0") != 0 && strtod(until, NULL) < service_time());
}

static bool is_signed(struct tn_http_exchange *x, const struct box_view *v)
{
    const char *path = tn_http_query(x, "path"), *until = tn_http_query(x, "expires");
    tn_autobuf struct tn_buf wanted = TN_BUF_INIT(128);
    unsigned char mac[TN_SHA256_BYTES];
    char key[SURFACE_TOKEN];

    if (!path || !until || is_over(until) || daytona_signing_key(v, key, NULL))
        return false;
    tn_autofree char *text = tn_asprintf("v1:files:%s:%s:%s", tn_http_method(x), path, until);
    tn_hmac_sha256(key, strlen(key), text, strlen(text), mac);
    explicit_bzero(key, sizeof key);
    tn_buf_puts(&wanted, "v1_");
    tn_base64_encode_url(&wanted, mac, sizeof mac);
    return tn_same_secret(tn_http_query(x, "signature"), tn_buf_str(&wanted));
}

bool daytona_enter(struct tn_http_exchange *x, struct tn_service *s, const char *rest)
{
    autoview struct box_view v = {0};

    if (!tn_http_query(x, "signature") ||
        (strcmp(rest, "files/download") != 0 && strcmp(rest, "files/upload-v2") != 0))
        return caller_present(x);
    autobox struct box *b = box_find(s, NULL, tn_http_param(x, "id"), NULL);
    if (b)
        box_look(b, &v);
    if (b && is_signed(x, &v))
        return surface_enter(x, b, v.key_id);
    reply_unauthorized(x, "That is no link to a file of this sandbox, or its time is over");
    return false;
}
