#include "runtime/mcp/oauth-key.h"

#include <openssl/core_names.h>
#include <sys/random.h>
#include <time.h>

#include "base/base64.h"
#include "base/json.h"
#include "base/key-file.h"
#include "base/sha256.h"
#include "net/tls-lib.h"

enum { COORDINATE_BYTES = 32, RSA_BITS_MIN = 2048, PROOF_SECONDS = 120, TEXT_MAX = 64 << 10 };

struct mcp_key {
    const struct tn_tls_lib *lib;
    EVP_PKEY *pkey;
    bool ec;
};

/* --- keys ------------------------------------------------------------------------------------- */

void mcp_key_free(struct mcp_key *key)
{
    if (!key)
        return;
    key->lib->EVP_PKEY_free(key->pkey);
    free(key);
}

/* The key becomes ours, also on failure. */
static struct mcp_key *take_key(const struct tn_tls_lib *lib, EVP_PKEY *pkey, struct tn_error *err)
{
    char group[32] = "";
    size_t n = 0;
    int kind = lib->EVP_PKEY_get_base_id(pkey);
    bool ec = kind == EVP_PKEY_EC &&
              lib->EVP_PKEY_get_group_name(pkey, group, sizeof group, &n) == 1 &&
              strcmp(group, "prime256v1") == 0;

    if (!ec && !(kind == EVP_PKEY_RSA && lib->EVP_PKEY_get_bits(pkey) >= RSA_BITS_MIN)) {
        lib->EVP_PKEY_free(pkey);
        tn_fail(err, TN_E_INVALID, "expected a key of the curve P-256, or RSA of at least %d bits",
                RSA_BITS_MIN);
        return NULL;
    }
    struct mcp_key *key = tn_malloc(sizeof *key);
    *key = (struct mcp_key){.lib = lib, .pkey = pkey, .ec = ec};
    return key;
}

struct mcp_key *mcp_key_new(struct tn_error *err)
{
    const struct tn_tls_lib *lib = tn_tls_lib(err);

    if (!lib)
        return NULL;
    EVP_PKEY *pkey = lib->EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
    if (pkey)
        return take_key(lib, pkey, err);
    tn_fail(err, TN_E_INTERNAL, "OpenSSL makes no key");
    return NULL;
}

/* Nobody is asked for a password. */
static int no_password(char *buf, int size, int writing, void *ctx)
{
    return -1;
}

struct mcp_key *mcp_key_parse(const char *pem, struct tn_error *err)
{
    const struct tn_tls_lib *lib = tn_tls_lib(err);

    if (!lib)
        return NULL;
    BIO *in = lib->BIO_new_mem_buf(pem, -1);
    EVP_PKEY *pkey = in ? lib->PEM_read_bio_PrivateKey(in, NULL, no_password, NULL) : NULL;
    lib->BIO_free(in);
    if (pkey)
        return take_key(lib, pkey, err);
    tn_fail(err, TN_E_INVALID, "expected a private key as PEM text, without a password");
    return NULL;
}

struct mcp_key *mcp_key_read(const char *path, struct tn_error *err)
{
    tn_autokeyfile struct tn_buf text = TN_KEY_FILE_INIT;

    if (tn_key_file_read(path, TN_KEY_FILE_OURS, &text, err) < 0)
        return NULL;
    struct mcp_key *key = mcp_key_parse(tn_buf_str(&text), err);
    if (!key)
        tn_error_context(err, "%.200s", path);
    return key;
}

char *mcp_key_pem(const struct mcp_key *key, struct tn_error *err)
{
    const struct tn_tls_lib *lib = key->lib;
    BIO *out = lib->BIO_new(lib->BIO_s_mem());
    char *data = NULL, *pem = NULL;

    if (out && lib->PEM_write_bio_PrivateKey(out, key->pkey, NULL, NULL, 0, NULL, NULL) == 1) {
        long n = lib->BIO_ctrl(out, BIO_CTRL_INFO, 0, &data);
        if (n > 0)
            pem = tn_strndup(data, (size_t)n);
    }
    lib->BIO_free(out);
    if (!pem)
        tn_fail(err, TN_E_INTERNAL, "OpenSSL does not write the key");
    return pem;
}

const char *mcp_key_algorithm(const struct mcp_key *key)
{
    return key->ec ? "ES256" : "RS256";
}

/* --- signing ---------------------------------------------------------------------------------- */

/* Two numbers of 32 bytes, from how OpenSSL writes them. */
static int put_numbers(const struct tn_tls_lib *lib, struct tn_buf *out, const unsigned char *der,
                       size_t n)
{
    ECDSA_SIG *signature = lib->d2i_ECDSA_SIG(NULL, &der, (long)n);
    unsigned char bytes[2 * COORDINATE_BYTES];
    const BIGNUM *r, *s;

    if (!signature)
        return -1;
    lib->ECDSA_SIG_get0(signature, &r, &s);
    bool fits =
        lib->BN_bn2binpad(r, bytes, COORDINATE_BYTES) == COORDINATE_BYTES &&
        lib->BN_bn2binpad(s, bytes + COORDINATE_BYTES, COORDINATE_BYTES) == COORDINATE_BYTES;
    lib->ECDSA_SIG_free(signature);
    return fits ? tn_base64_encode_url(out, bytes, sizeof bytes) : -1;
}

static int put_signature(const struct mcp_key *key, struct tn_buf *out, const char *text,
                         size_t text_len)
{
    const struct tn_tls_lib *lib = key->lib;
    EVP_MD_CTX *ctx = lib->EVP_MD_CTX_new();
    unsigned char bytes[2048]; /* RSA of 16384 bits */
    size_t n = sizeof bytes;
    bool signed_it =
        ctx && lib->EVP_DigestSignInit(ctx, NULL, lib->EVP_sha256(), NULL, key->pkey) == 1 &&
        lib->EVP_DigestSign(ctx, bytes, &n, (const unsigned char *)text, text_len) == 1;

    lib->EVP_MD_CTX_free(ctx);
    if (!signed_it)
        return -1;
    return key->ec ? put_numbers(lib, out, bytes, n) : tn_base64_encode_url(out, bytes, n);
}

/* header.payload.signature, on the heap. */
static char *sign(const struct mcp_key *key, const struct tn_buf *header,
                  const struct tn_buf *payload, struct tn_error *err)
{
    struct tn_buf out = TN_BUF_INIT(TEXT_MAX);
    tn_autobuf struct tn_buf signature = TN_BUF_INIT(TEXT_MAX);

    tn_base64_encode_url(&out, tn_buf_str(header), header->len);
    tn_buf_putc(&out, '.');
    tn_base64_encode_url(&out, tn_buf_str(payload), payload->len);
    if (tn_buf_ok(&out) && put_signature(key, &signature, tn_buf_str(&out), out.len) == 0) {
        tn_buf_printf(&out, ".%s", tn_buf_str(&signature));
        if (tn_buf_ok(&out))
            return tn_buf_take(&out);
    }
    tn_buf_done(&out);
    tn_fail(err, TN_E_INTERNAL, "what is to be signed cannot be");
    return NULL;
}

/* A name for one proof that no other has. */
static void put_id(struct tn_jw *w)
{
    tn_autobuf struct tn_buf id = TN_BUF_INIT(64);
    unsigned char random[16];

    if (getrandom(random, sizeof random, 0) != sizeof random)
        abort();
    tn_base64_encode_url(&id, random, sizeof random);
    tn_jw_kstr(w, "jti", tn_buf_str(&id));
}

char *mcp_key_client_proof(const struct mcp_key *key, const char *client, const char *issuer,
                           struct tn_error *err)
{
    tn_autobuf struct tn_buf header = TN_BUF_INIT(TEXT_MAX), payload = TN_BUF_INIT(TEXT_MAX);
    struct tn_jw h = tn_jw(&header), p = tn_jw(&payload);
    int64_t now = (int64_t)time(NULL);

    tn_jw_object(&h);
    tn_jw_kstr(&h, "alg", mcp_key_algorithm(key));
    tn_jw_kstr(&h, "typ", "JWT");
    tn_jw_object_end(&h);
    tn_jw_object(&p);
    tn_jw_kstr(&p, "iss", client);
    tn_jw_kstr(&p, "sub", client);
    tn_jw_kstr(&p, "aud", issuer);
    put_id(&p);
    tn_jw_kint(&p, "iat", now);
    tn_jw_kint(&p, "exp", now + PROOF_SECONDS);
    tn_jw_object_end(&p);
    return sign(key, &header, &payload, err);
}

static int put_number(const struct mcp_key *key, struct tn_jw *w, const char *name,
                      const char *param)
{
    const struct tn_tls_lib *lib = key->lib;
    tn_autobuf struct tn_buf text = TN_BUF_INIT(TEXT_MAX);
    unsigned char bytes[2048];
    BIGNUM *number = NULL;

    if (lib->EVP_PKEY_get_bn_param(key->pkey, param, &number) != 1)
        return -1;
    int n = key->ec ? COORDINATE_BYTES : (lib->BN_num_bits(number) + 7) / 8;
    bool fits = n <= (int)sizeof bytes && lib->BN_bn2binpad(number, bytes, n) == n;
    lib->BN_free(number);
    if (!fits || tn_base64_encode_url(&text, bytes, (size_t)n) < 0)
        return -1;
    tn_jw_kstr(w, name, tn_buf_str(&text));
    return 0;
}

/* The public half (RFC 7517). */
static int put_public(const struct mcp_key *key, struct tn_jw *w)
{
    int result;

    tn_jw_object(w);
    tn_jw_kstr(w, "kty", key->ec ? "EC" : "RSA");
    if (key->ec) {
        tn_jw_kstr(w, "crv", "P-256");
        result = put_number(key, w, "x", OSSL_PKEY_PARAM_EC_PUB_X) |
                 put_number(key, w, "y", OSSL_PKEY_PARAM_EC_PUB_Y);
    } else {
        result = put_number(key, w, "n", OSSL_PKEY_PARAM_RSA_N) |
                 put_number(key, w, "e", OSSL_PKEY_PARAM_RSA_E);
    }
    tn_jw_object_end(w);
    return result;
}

static void put_digest(struct tn_jw *w, const char *name, const char *text)
{
    tn_autobuf struct tn_buf value = TN_BUF_INIT(128);
    unsigned char digest[TN_SHA256_BYTES];
    struct tn_sha256 hash;

    tn_sha256_init(&hash);
    tn_sha256_add(&hash, text, strlen(text));
    tn_sha256_end(&hash, digest);
    tn_base64_encode_url(&value, digest, sizeof digest);
    tn_jw_kstr(w, name, tn_buf_str(&value));
}

char *mcp_key_request_proof(const struct mcp_key *key, const char *method, const char *url,
                            const char *token, const char *nonce, struct tn_error *err)
{
    tn_autobuf struct tn_buf header = TN_BUF_INIT(TEXT_MAX), payload = TN_BUF_INIT(TEXT_MAX);
    struct tn_jw h = tn_jw(&header), p = tn_jw(&payload);

    tn_jw_object(&h);
    tn_jw_kstr(&h, "alg", mcp_key_algorithm(key));
    tn_jw_kstr(&h, "typ", "dpop+jwt");
    tn_jw_key(&h, "jwk");
    if (put_public(key, &h) != 0) {
        tn_fail(err, TN_E_INTERNAL, "OpenSSL does not tell the public half of a key");
        return NULL;
    }
    tn_jw_object_end(&h);
    tn_jw_object(&p);
    put_id(&p);
    tn_jw_kstr(&p, "htm", method);
    tn_jw_key(&p, "htu");
    tn_jw_strn(&p, url, strcspn(url, "?#"));
    tn_jw_kint(&p, "iat", (int64_t)time(NULL));
    if (token)
        put_digest(&p, "ath", token);
    if (nonce)
        tn_jw_kstr(&p, "nonce", nonce);
    tn_jw_object_end(&p);
    return sign(key, &header, &payload, err);
}
