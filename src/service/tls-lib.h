/* OpenSSL, loaded when first needed.  Its headers are known to the files tls*.c alone. */
#ifndef TN_SERVICE_TLS_LIB_H
#define TN_SERVICE_TLS_LIB_H

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include "base/error.h"

#define TLS_FUNCTIONS(X)                  \
    X(BIO_free)                           \
    X(BIO_new_mem_buf)                    \
    X(ERR_clear_error)                    \
    X(ERR_error_string_n)                 \
    X(ERR_get_error)                      \
    X(EVP_PKEY_free)                      \
    X(OPENSSL_thread_stop)                \
    X(PEM_read_bio_PrivateKey)            \
    X(SSL_accept)                         \
    X(SSL_CTX_check_private_key)          \
    X(SSL_CTX_ctrl)                       \
    X(SSL_CTX_free)                       \
    X(SSL_CTX_new)                        \
    X(SSL_CTX_set_cipher_list)            \
    X(SSL_CTX_set_options)                \
    X(SSL_CTX_use_certificate_chain_file) \
    X(SSL_CTX_use_PrivateKey)             \
    X(SSL_free)                           \
    X(SSL_get_error)                      \
    X(SSL_new)                            \
    X(SSL_read)                           \
    X(SSL_set_fd)                         \
    X(SSL_shutdown)                       \
    X(SSL_write)                          \
    X(TLS_server_method)

struct tls_lib {
#define TLS_MEMBER(name) __typeof__(&name) name;
    TLS_FUNCTIONS(TLS_MEMBER)
#undef TLS_MEMBER
};

/* The functions; NULL with err (TN_E_UNSUPPORTED) when there is no OpenSSL here.  It stays loaded
 * until the process ends. */
const struct tls_lib *tls_lib(struct tn_error *err);

#endif
