#include "net/tls-certificate.h"

enum { HOUR = 3600, DAY = 24 * HOUR, NAMES_MAX = 300 };

EVP_PKEY *tn_certificate_key(const struct tn_tls_lib *lib)
{
    return lib->EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
}

struct extension {
    int kind;
    const char *value;
};

static bool extend(const struct tn_tls_lib *lib, X509 *x, X509 *issuer, const struct extension *e,
                   size_t count)
{
    X509V3_CTX ctx = {0};

    lib->X509V3_set_ctx(&ctx, issuer, x, NULL, NULL, 0);
    for (size_t i = 0; i < count; i++) {
        X509_EXTENSION *made = lib->X509V3_EXT_conf_nid(NULL, &ctx, e[i].kind, e[i].value);
        bool added = made && lib->X509_add_ext(x, made, -1) == 1;
        lib->X509_EXTENSION_free(made);
        if (!added)
            return false;
    }
    return true;
}

static bool describe(const struct tn_tls_lib *lib, X509 *x, const struct tn_certificate *c)
{
    uint64_t serial = 0;
    X509_NAME *name = lib->X509_get_subject_name(x);
    X509 *issuer = c->issuer ? c->issuer : x;

    return lib->RAND_bytes((unsigned char *)&serial, sizeof serial) == 1 &&
           lib->ASN1_INTEGER_set_uint64(lib->X509_get_serialNumber(x), serial >> 1 | 1) == 1 &&
           lib->X509_set_version(x, 2) == 1 &&
           lib->X509_gmtime_adj(lib->X509_getm_notBefore(x), -HOUR) &&
           lib->X509_gmtime_adj(lib->X509_getm_notAfter(x), c->days * DAY) &&
           lib->X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                                           (const unsigned char *)c->subject, -1, -1, 0) == 1 &&
           lib->X509_set_issuer_name(x, lib->X509_get_subject_name(issuer)) == 1 &&
           lib->X509_set_pubkey(x, c->key) == 1;
}

X509 *tn_certificate_make(const struct tn_tls_lib *lib, const struct tn_certificate *c)
{
    char names[NAMES_MAX];
    const struct extension authority[] = {
        {NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
        {NID_key_usage, "critical,keyCertSign"},
        {NID_subject_key_identifier, "hash"},
    };
    const struct extension leaf[] = {
        {NID_basic_constraints, "critical,CA:FALSE"},
        {NID_key_usage, "critical,digitalSignature"},
        {NID_ext_key_usage, "serverAuth"},
        {NID_subject_key_identifier, "hash"},
        {NID_authority_key_identifier, "keyid"},
        {NID_subject_alt_name, names},
    };
    X509 *x = lib->X509_new();

    snprintf(names, sizeof names, "DNS:%s", c->host ? c->host : "");
    bool made = x && describe(lib, x, c) &&
                (c->host ? extend(lib, x, c->issuer, leaf, TN_COUNT(leaf))
                         : extend(lib, x, x, authority, TN_COUNT(authority))) &&
                lib->X509_sign(x, c->issuer ? c->issuer_key : c->key, lib->EVP_sha256()) > 0;
    if (made)
        return x;
    lib->X509_free(x);
    lib->ERR_clear_error();
    return NULL;
}
