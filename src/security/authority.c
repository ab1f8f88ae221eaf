#include "security/authority.h"

#include "net/tls-certificate.h"

#define TEN_YEARS (10 * 365)

/* What was written to it, as a string. */
static char *text_of(const struct tn_tls_lib *lib, BIO *out)
{
    char *data = NULL;
    long n = lib->BIO_ctrl(out, BIO_CTRL_INFO, 0, &data);

    return n > 0 ? tn_strndup(data, (size_t)n) : NULL;
}

static bool write_both(const struct tn_tls_lib *lib, X509 *x, EVP_PKEY *key,
                       struct tn_authority *out)
{
    /* Memory that is wiped when it is freed. */
    BIO *certificate = lib->BIO_new(lib->BIO_s_secmem()),
        *secret = lib->BIO_new(lib->BIO_s_secmem());

    if (certificate && lib->PEM_write_bio_X509(certificate, x) == 1)
        out->certificate = text_of(lib, certificate);
    if (secret && lib->PEM_write_bio_PKCS8PrivateKey(secret, key, NULL, NULL, 0, NULL, NULL) == 1)
        out->key = text_of(lib, secret);
    lib->BIO_free(certificate);
    lib->BIO_free(secret);
    return out->certificate && out->key;
}

int tn_authority_make(const char *id, struct tn_authority *out, struct tn_error *err)
{
    tn_autofree char *name = tn_asprintf("Tendon sandbox %s", id);
    const struct tn_tls_lib *lib = tn_tls_lib(err);

    *out = (struct tn_authority){0};
    if (!lib)
        return -1;
    EVP_PKEY *key = tn_certificate_key(lib);
    const struct tn_certificate about = {.subject = name, .days = TEN_YEARS, .key = key};
    X509 *x = key ? tn_certificate_make(lib, &about) : NULL;
    bool made = x && write_both(lib, x, key, out);
    lib->X509_free(x);
    lib->EVP_PKEY_free(key);
    if (made)
        return 0;
    tn_authority_done(out);
    return tn_fail(err, TN_E_INTERNAL, "no certificate could be made for sandbox %s", id);
}

void tn_authority_done(struct tn_authority *a)
{
    free(TN_TAKE_PTR(a->certificate));
    if (a->key)
        explicit_bzero(a->key, strlen(a->key));
    free(TN_TAKE_PTR(a->key));
}
