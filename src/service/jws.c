#include "service/jws.h"

#include "base/base64.h"
#include "base/hmac.h"

static const char header[] = "{\"alg\":\"HS256\",\"typ\":\"JWT\"}";

/* --- base64url -------------------------------------------------------------------------------- */

static void swap(char *text, size_t n, const char from[3], const char to[3])
{
    for (size_t i = 0; i < n; i++)
        for (int j = 0; j < 2; j++)
            if (text[i] == from[j]) {
                text[i] = to[j];
                break;
            }
}

static int decode(struct tn_buf *out, const char *text, size_t n)
{
    tn_autobuf struct tn_buf plain = TN_BUF_INIT(JWS_MAX + 4);

    for (size_t i = 0; i < n; i++)
        if (text[i] == '+' || text[i] == '/' || text[i] == '=')
            return -1;
    tn_buf_add(&plain, text, n);
    while (plain.len % 4)
        tn_buf_putc(&plain, '=');
    if (!tn_buf_ok(&plain) || !n)
        return -1;
    swap(plain.data, plain.len, "-_", "+/");
    return tn_base64_decode(out, plain.data, plain.len, NULL);
}

/* --- tokens ----------------------------------------------------------------------------------- */

int jws_sign(const char *secret, const char *claims, struct tn_buf *out)
{
    tn_autobuf struct tn_buf token = TN_BUF_INIT(JWS_MAX);
    unsigned char mac[TN_SHA256_BYTES];

    tn_base64_encode_url(&token, header, sizeof header - 1);
    tn_buf_putc(&token, '.');
    tn_base64_encode_url(&token, claims, strlen(claims));
    if (!tn_buf_ok(&token))
        return -1;
    tn_hmac_sha256(secret, strlen(secret), token.data, token.len, mac);
    tn_buf_putc(&token, '.');
    tn_base64_encode_url(&token, mac, sizeof mac);
    return tn_buf_ok(&token) ? tn_buf_add(out, token.data, token.len) : -1;
}

/* Signature first: nothing of a token that is not ours is looked at. */
static bool is_signed(const char *secret, const char *token, const char *signature)
{
    tn_autobuf struct tn_buf given = TN_BUF_INIT(JWS_MAX);
    unsigned char mac[TN_SHA256_BYTES], difference = 0;

    if (decode(&given, signature, strlen(signature)) || given.len != sizeof mac)
        return false;
    tn_hmac_sha256(secret, strlen(secret), token, (size_t)(signature - 1 - token), mac);
    for (size_t i = 0; i < sizeof mac; i++)
        difference |= (unsigned char)(mac[i] ^ (unsigned char)given.data[i]);
    return difference == 0;
}

static struct tn_json *part(const char *text, size_t n)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(JWS_MAX);
    struct tn_json *tree = NULL;

    if (decode(&json, text, n) || tn_json_parse(tn_buf_str(&json), json.len, &tree, NULL))
        return NULL;
    if (tn_json_type(tree) == TN_JSON_OBJECT)
        return tree;
    tn_json_free(tree);
    return NULL;
}

int jws_check(const char *secret, const char *token, double now, struct tn_json **claims,
              struct tn_error *err)
{
    const char *first = strchr(token, '.'), *second = first ? strchr(first + 1, '.') : NULL;
    tn_autojson struct tn_json *head = NULL, *body = NULL;

    if (second && strlen(token) <= JWS_MAX && is_signed(secret, token, second + 1)) {
        head = part(token, (size_t)(first - token));
        body = part(first + 1, (size_t)(second - first - 1));
    }
    bool good = head && body && strcmp(tn_json_get_str(head, "alg", ""), "HS256") == 0 &&
                !tn_json_has(head, "crit") &&
                (!tn_json_has(body, "exp") || tn_json_double(tn_json_get(body, "exp"), 0) > now);
    if (!good)
        return tn_fail(err, TN_E_DENIED, "The access token is wrong or too old");
    *claims = TN_TAKE_PTR(body);
    return 0;
}
