/* libcrypto, loaded when first needed.  Its headers are known to the files that include this one
 * alone. */
#ifndef TN_SECURITY_CRYPTO_LIB_H
#define TN_SECURITY_CRYPTO_LIB_H

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include "base/error.h"

#define CRYPTO_FUNCTIONS(X)          \
    X(BIO_ctrl)                      \
    X(BIO_free)                      \
    X(BIO_new)                       \
    X(BIO_s_secmem)                  \
    X(EVP_aes_256_gcm)               \
    X(EVP_CIPHER_CTX_ctrl)           \
    X(EVP_CIPHER_CTX_free)           \
    X(EVP_CIPHER_CTX_new)            \
    X(EVP_CipherFinal_ex)            \
    X(EVP_CipherInit_ex)             \
    X(EVP_CipherUpdate)              \
    X(PEM_write_bio_PKCS8PrivateKey) \
    X(PEM_write_bio_X509)

struct crypto_lib {
#define CRYPTO_MEMBER(name) __typeof__(&name) name;
    CRYPTO_FUNCTIONS(CRYPTO_MEMBER)
#undef CRYPTO_MEMBER
};

/* The functions; NULL with err (TN_E_UNSUPPORTED) when there is no OpenSSL here.  It stays loaded
 * until the process ends. */
const struct crypto_lib *crypto_lib(struct tn_error *err);

#endif
